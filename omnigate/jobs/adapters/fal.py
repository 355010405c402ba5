"""fal: models behind a queue; a request is put in, asked after, and its result fetched apart.

The input goes out as it is. https://docs.fal.ai/model-apis/model-endpoints/queue; a result is kept
for an hour, and one of 10 KB or more for six minutes, so it is fetched by the poll that sees it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from omnigate.jobs.adapters import asking, fields, judging, sources
from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    CancelOutcome,
    Done,
    Failed,
    Handle,
    InputFault,
    NotCanceled,
    PollOutcome,
    Source,
    Steps,
    Stopped,
    SubmitOutcome,
    Task,
    Transient,
    Unclear,
)
from omnigate.jobs.adapters.reading import BadAnswer, id_at, member, text_at
from omnigate.jobs.job import PROVIDER_BAD_ANSWER, Billable, JobError
from omnigate.outbound.messages import Answer, Cap, Request

_PART: Final = r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?"
_MODEL = re.compile(rf"((?:(?:workflows|comfy)/)?{_PART}/{_PART})(?:/{_PART}){{0,8}}")

#: Where files stand in most results; they come first, and what is elsewhere after them.
FILE_MEMBERS: Final = (
    "images",
    "image",
    "video",
    "videos",
    "audio",
    "audio_file",
    "file",
    "files",
)
#: How deep in the result an object with a ``url`` may stand.
OUTPUT_DEPTH: Final = 3

_MAX_NOTED_CHARS: Final = 2_048

# What is noted of a request: its own URL, and that its files stand in the result, as data URLs.
_OWN_URL: Final = "url"
_INLINE: Final = "inline"


class Fal(Adapter):
    """``model`` is the endpoint's id: ``owner/app`` or ``owner/app/path``."""

    name: ClassVar[str] = "fal"
    default_base_url: ClassVar[str] = "https://queue.fal.run"
    can_cancel: ClassVar[bool] = True

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Refuse a target's model that is no endpoint's id; the input is the model's to judge.

        :raises InputFault: see above.
        """
        if _MODEL.fullmatch(model) is None:
            raise InputFault("", "a target of fal needs a model like owner/app or owner/app/…")

    def billable(self, task: Task) -> Billable:
        """Return what the input asks for, in whichever of the usual fields."""
        return asking.billable_input(task.input)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Put the request into the queue."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        url = f"{task.base_url}/{task.model}"
        answer = yield asking.post_json(url, _headers(task), task.input)
        queued = judging.read_submit(answer, task.credential)
        if isinstance(queued, Failed):
            return queued
        try:
            return Accepted(Handle(id_at(queued, "request_id"), _notes(task, queued)))
        except BadAnswer as odd:
            return judging.bad_answer(str(odd))

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask for the status, and fetch the result once there is one."""
        url = _url(task, handle)
        answer = yield asking.get(f"{url}/status", _headers(task))
        told = judging.read_poll(answer, task.credential)
        if isinstance(told, Failed | Transient):
            return told
        status = text_at(told, "status")
        if not status:
            return Transient(JobError(PROVIDER_BAD_ANSWER, "the answer has no status"))
        if status != "COMPLETED":
            return judging.running(answer)
        cap = Cap.INLINE if _INLINE in handle.notes else Cap.API
        answer = yield asking.get(url, _headers(task), cap)
        return _result(task, handle, told, answer)

    def cancel(self, task: Task, handle: Handle) -> Steps[CancelOutcome]:
        """Take it out of the queue, or have the runner told to stop."""
        answer = yield Request("PUT", f"{_url(task, handle)}/cancel", _headers(task))
        status = text_at(judging.error_body(answer), "status")
        if status == "ALREADY_COMPLETED":
            return NotCanceled()
        return Stopped() if answer.ok else Unclear()


def _headers(task: Task) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Key {task.credential}"),) if task.credential else ()


def _notes(task: Task, queued: Mapping[str, Any]) -> dict[str, str]:
    """Keep what a poll needs, which may not have the input any more.

    The request's own URL is kept if the key may go there and it is another than expected.
    """
    notes = {_INLINE: "yes"} if task.input.get("sync_mode") else {}
    url = text_at(queued, "response_url")
    if len(url) > _MAX_NOTED_CHARS or not asking.has_origin(url, task.base_url):
        return notes
    plain = not set(url) & set("?#%") and "/." not in url
    expected = _url(task, Handle(text_at(queued, "request_id")))
    return {**notes, _OWN_URL: url} if plain and url != expected else notes


def _url(task: Task, handle: Handle) -> str:
    noted = handle.notes.get(_OWN_URL, "")
    if noted and asking.has_origin(noted, task.base_url):
        return noted
    model = _MODEL.fullmatch(task.model)
    app = task.model if model is None else model[1]
    return f"{task.base_url}/{app}/requests/{asking.segment(handle.provider_job_id)}"


def _result(task: Task, handle: Handle, told: Mapping[str, Any], answer: Answer) -> PollOutcome:
    credential = task.credential
    if not answer.ok:
        body = judging.error_body(answer)
        # "Request is still in progress": the status was ahead of the result.
        if answer.status == 400 and "in progress" in text_at(body, "detail"):
            return judging.running(answer)
        if _is_of_the_edge(answer):
            return Transient(
                judging.error_of(answer, body, credential), judging.wait_seconds(answer, body)
            )
        return Failed(judging.error_of(answer, body, credential))
    if told.get("error") or told.get("error_type"):
        words = judging.told_error(told) or text_at(told, "error_type")
        return judging.failed(words, credential)
    result = judging.read_poll(answer, credential)
    if isinstance(result, Failed | Transient):
        return result
    found = _sources(task, result, answer)
    if not found:
        return judging.bad_answer("the result names no file")
    seconds = asking.told_milliseconds(member(result, "video", "duration"))
    return Done(found, seconds, handle.provider_job_id)


def _is_of_the_edge(answer: Answer) -> bool:
    """Whether an answer is not the model's own, so may be another one the next time."""
    if answer.fault or answer.status in (408, 425, 429) or answer.status < 400:
        return True
    return answer.status >= 500 and "x-fal-request-id" not in answer.headers


def _sources(task: Task, result: Mapping[str, Any], answer: Answer) -> list[Source]:
    found: dict[str, Source] = {}
    for part in itertools.islice(_files(result), sources.MAX_SOURCES):
        url = text_at(part, "url")
        source = sources.source(url, answer, task.base_url, sources.type_at(part, "content_type"))
        if source is not None:
            found.setdefault(url, source)
    return list(found.values())


def _files(result: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    for name in FILE_MEMBERS:
        yield from sources.objects_with_url(result.get(name), OUTPUT_DEPTH)
    rest = {name: part for name, part in result.items() if name not in FILE_MEMBERS}
    yield from sources.objects_with_url(rest, OUTPUT_DEPTH + 1)
