"""xAI's films: made from words or an image, edited, or extended; one status for all of them.

https://docs.x.ai/docs/guides/video-generations; a film's URL works for 24 hours. There is no
cancel: what was begun is made and charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from omnigate.jobs.adapters import asking, fields, judging, sources
from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    Done,
    Failed,
    Handle,
    InputFault,
    PollOutcome,
    Steps,
    SubmitOutcome,
    Task,
    Transient,
)
from omnigate.jobs.adapters.fields import DURATIONS, FLAG, TEXT, Kind
from omnigate.jobs.adapters.reading import BadAnswer, id_at, member, text_at
from omnigate.jobs.job import PROVIDER_BAD_ANSWER, Billable, JobError
from omnigate.outbound.messages import Answer

_IMAGES: Final = Kind(
    f"a list of 1 to {fields.MAX_MEDIA} texts",
    lambda value: (
        isinstance(value, list)
        and 1 <= len(value) <= fields.MAX_MEDIA
        and all(isinstance(part, str) and part for part in value)
    ),
)

_GENERATE: Final = {
    "prompt": TEXT,
    **DURATIONS,
    "aspect_ratio": TEXT,
    "resolution": TEXT,
    "image_url": TEXT,
    "reference_image_urls": _IMAGES,
    "generate_audio": FLAG,
    "user": TEXT,
    "extend": FLAG,
}
_EDIT: Final = {"prompt": TEXT, "video_url": TEXT, "extend": FLAG}
_EXTEND: Final = {"prompt": TEXT, "video_url": TEXT, **DURATIONS, "extend": FLAG}

#: All of them.
FIELDS: Final[Mapping[str, Kind]] = {**_GENERATE, **_EDIT, **_EXTEND}

#: Fields that go out under their own names.
_PASSED: Final = ("prompt", "aspect_ratio", "resolution", "generate_audio", "user")


class XaiVideo(Adapter):
    """What is done follows from the input: ``video_url`` edits, with ``extend`` it extends."""

    name: ClassVar[str] = "xai_video"
    default_base_url: ClassVar[str] = "https://api.x.ai/v1"

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Refuse a field that the call has no place for, and a duration of parts of a second.

        :raises InputFault: see above.
        """
        call, known = _call(input)
        fields.check_fields(input, known)
        if input.get("extend") and call != "extensions":
            raise InputFault("extend", "needs video_url: the film that is to be extended")
        if input.get("prompt") is None and (call != "generations" or not _shows_images(input)):
            raise InputFault("prompt", "is missing; say what is to be made")
        _seconds(input)

    def billable(self, task: Task) -> Billable:
        """Return the seconds asked for: none where a film is edited, which keeps its length."""
        return Billable(
            characters=asking.characters(task.input), milliseconds=1000 * _seconds(task.input)
        )

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Have the film begun."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        call, _ = _call(task.input)
        answer = yield asking.post_json(
            f"{task.base_url}/videos/{call}", asking.bearer(task.credential), _body(task)
        )
        taken = judging.read_submit(answer, task.credential)
        if isinstance(taken, Failed):
            return taken
        try:
            return Accepted(Handle(id_at(taken, "request_id")))
        except BadAnswer as odd:
            return judging.bad_answer(str(odd))

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask how it goes; a failure is a 200, too."""
        url = f"{task.base_url}/videos/{asking.segment(handle.provider_job_id)}"
        answer = yield asking.get(url, asking.bearer(task.credential))
        if answer.ok and answer.status == 202 and not answer.body.strip():
            return judging.running(answer)
        told = judging.read_poll(answer, task.credential)
        if isinstance(told, Failed | Transient):
            return told
        return _outcome(task, handle, told, answer)


def _call(input: Mapping[str, Any]) -> tuple[str, Mapping[str, Kind]]:
    """Return the last part of the path, and the fields that this call takes."""
    if input.get("video_url") is None:
        return "generations", _GENERATE
    return ("extensions", _EXTEND) if input.get("extend") else ("edits", _EDIT)


def _shows_images(input: Mapping[str, Any]) -> bool:
    return any(input.get(name) is not None for name in ("image_url", "reference_image_urls"))


def _seconds(input: Mapping[str, Any]) -> int:
    """Return the whole seconds that are asked for; 0 where none are.

    :raises InputFault: the duration is no whole number of seconds.
    """
    seconds, rest = divmod(fields.duration_of(input), 1000)
    if rest:
        raise InputFault("duration", "must be whole seconds for this provider")
    return seconds


def _body(task: Task) -> dict[str, Any]:
    input = task.input
    body: dict[str, Any] = {"model": task.model}
    body |= {name: input[name] for name in _PASSED if input.get(name) is not None}
    seconds = _seconds(input)
    if seconds:
        body["duration"] = seconds
    if input.get("image_url") is not None:
        body["image"] = {"url": input["image_url"]}
    if input.get("reference_image_urls") is not None:
        body["reference_images"] = [{"url": url} for url in input["reference_image_urls"]]
    if input.get("video_url") is not None:
        body["video"] = {"url": input["video_url"]}
    return body


def _outcome(task: Task, handle: Handle, told: Mapping[str, Any], answer: Answer) -> PollOutcome:
    url = text_at(told, "video", "url")
    status = text_at(told, "status") or ("done" if url else "")
    match status:
        case "failed":
            return judging.failed(judging.told_error(told), task.credential)
        case "expired":
            words = judging.told_error(told) or "the request expired at the provider"
            return judging.failed(words, task.credential)
        case "" if answer.status != 202:
            return Transient(JobError(PROVIDER_BAD_ANSWER, "the answer has no status"))
        case "done":
            if member(told, "video", "respect_moderation") is False:
                return judging.failed("blocked by the provider's moderation", task.credential)
            source = sources.source(url, answer, task.base_url)
            if source is None:
                return judging.bad_answer("done without a film")
            seconds = asking.told_milliseconds(member(told, "video", "duration"))
            return Done((source,), seconds, handle.provider_job_id)
    return judging.running(answer)
