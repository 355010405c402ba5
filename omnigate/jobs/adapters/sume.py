"""Sume's Open API: image and video models behind two routers, told apart by a catalog.

The input goes out as it is, with the model's name. Which router takes a model is asked before each
submit: one more small request for work of seconds to minutes, and nothing that could be out of
date, or that two jobs would have to share.

A repeat of a submit with the same ``idempotency-key`` makes no second job there, so this submit,
and it alone, is sent again where it may not have arrived.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Final

import attrs

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
    Running,
    Source,
    Steps,
    Stopped,
    SubmitOutcome,
    Task,
    Transient,
    Unclear,
)
from omnigate.jobs.adapters.reading import BadAnswer, few, id_at, member, text_at
from omnigate.jobs.job import PROVIDER_BAD_ANSWER, Billable, JobError
from omnigate.outbound.messages import Answer, Request

#: How often a request is sent in all.
MAX_TRIES: Final = 3
#: The pause before another try where the provider names none.
PAUSE_SECONDS: Final = 1.0

_ROUTERS: Final = {
    "image": "image-router",
    "video": "video-router",
    "lipsync": "video-router",
    "captions": "video-router",
}
_MAX_MODEL_CHARS: Final = 200
_MAX_FIELD_ERRORS: Final = 8
_TOO_LATE: Final = frozenset(("job_generation_already_started", "job_not_cancelable"))


class Sume(Adapter):
    """``model`` is an id of the catalog."""

    name: ClassVar[str] = "sume"
    default_base_url: ClassVar[str] = "https://api.open.sume.com"
    can_cancel: ClassVar[bool] = True

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Refuse a target's model that is no id; the input is the model's to judge.

        :raises InputFault: see above.
        """
        if not model.isascii() or not model.strip(".") or len(model) > _MAX_MODEL_CHARS:
            raise InputFault("", "a target of sume needs a model out of Sume's catalog")

    def billable(self, task: Task) -> Billable:
        """Return what the input asks for, in whichever of the usual fields."""
        return asking.billable_input(task.input)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Ask the catalog for the model's router, and have that one begin."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        headers = asking.bearer(task.credential)
        catalog = f"{task.base_url}/v1/open/catalog/{asking.segment(task.model)}"
        answer = yield from _with_tries(asking.get(catalog, headers))
        entry = judging.read_submit(answer, task.credential)
        if isinstance(entry, Failed):
            return _with_fields(entry, answer, task)
        kind = text_at(entry, "data", "kind")
        router = _ROUTERS.get(kind)
        if router is None:
            told = judging.plain_text(kind, task.credential)[:50] or "none"
            return judging.bad_answer(
                f"the catalog's kind of the model is {told}, not one of media"
            )
        once = ("idempotency-key", f"{task.job_id}:{task.target}")
        answer = yield from _with_tries(
            asking.post_json(
                f"{task.base_url}/v1/{router}/generate",
                (*headers, once),
                {**task.input, "model": task.model},
            )
        )
        taken = judging.read_submit(answer, task.credential)
        if isinstance(taken, Failed):
            return _with_fields(taken, answer, task)
        try:
            return Accepted(Handle(id_at(taken, "data", "request_id")))
        except BadAnswer as odd:
            return judging.bad_answer(str(odd))

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask for the status, and fetch the result once it is completed."""
        headers = asking.bearer(task.credential)
        answer = yield asking.get(f"{_url(task, handle)}/status", headers)
        told = judging.read_poll(answer, task.credential)
        if isinstance(told, Failed | Transient):
            return told
        status = text_at(told, "data", "sume_status")
        match status:
            case "completed":
                answer = yield asking.get(f"{_url(task, handle)}/result", headers)
                return _result(task, handle, answer)
            case "failed":
                error = {"error": member(told, "data", "job", "error")}
                return judging.failed(judging.told_error(error), task.credential)
            case "canceled":
                return Stopped()
            case "":
                return Transient(JobError(PROVIDER_BAD_ANSWER, "the answer has no status"))
        asked = asking.told_milliseconds(member(told, "data", "recommended_poll_interval_seconds"))
        seconds = max(asked / 1000, judging.wait_seconds(answer))
        return Running(min(max(0.0, seconds), judging.MAX_WAIT_SECONDS))

    def cancel(self, task: Task, handle: Handle) -> Steps[CancelOutcome]:
        """Ask for a stop, which is mostly too late."""
        answer = yield Request(
            "POST", f"{_url(task, handle)}/cancel", asking.bearer(task.credential)
        )
        body = judging.error_body(answer)
        if text_at(body, "error", "code") in _TOO_LATE:
            return NotCanceled()
        if not answer.ok:
            return Unclear()
        match text_at(body, "data", "sume_status"):
            case "canceled":
                return Stopped()
            case "completed" | "failed":
                return NotCanceled()
        return Unclear()


def _with_tries(request: Request) -> Generator[Request, Answer, Answer]:
    """Send a request that may come twice up to :data:`MAX_TRIES` times."""
    answer = yield request
    for tried in range(1, MAX_TRIES):
        if not answer.fault and answer.status not in (408, 429) and answer.status < 500:
            break
        body = judging.error_body(answer)
        if member(body, "error", "retryable") is False:
            break
        pause = judging.wait_seconds(answer, body) or PAUSE_SECONDS * tried
        answer = yield attrs.evolve(request, pause_seconds=pause)
    return answer


def _with_fields(outcome: Failed, answer: Answer, task: Task) -> Failed:
    """Put the fields that are at fault behind the message, where the error lists them."""
    listed = member(judging.error_body(answer), "error", "details", "errors")
    faults = [
        f"{text_at(fault, 'path')}: {text_at(fault, 'message')}"
        for fault in few(listed, _MAX_FIELD_ERRORS)
    ]
    if not faults:
        return outcome
    words = judging.plain_text(f"{outcome.error.message} {'; '.join(faults)}", task.credential)
    return attrs.evolve(outcome, error=JobError(outcome.error.code, words))


def _url(task: Task, handle: Handle) -> str:
    return f"{task.base_url}/v1/jobs/{asking.segment(handle.provider_job_id)}"


def _result(task: Task, handle: Handle, answer: Answer) -> PollOutcome:
    told = judging.read_poll(answer, task.credential)
    if isinstance(told, Failed | Transient):
        return told
    found: list[Source] = []
    for artifact in few(member(told, "data", "result", "artifacts"), sources.MAX_SOURCES):
        url, content_type = text_at(artifact, "url"), sources.type_at(artifact, "content_type")
        source = sources.source(url, answer, task.base_url, content_type)
        if source is not None:
            found.append(source)
    if not found:
        return judging.bad_answer("completed without a file")
    return Done(found, provider_job_id=handle.provider_job_id)
