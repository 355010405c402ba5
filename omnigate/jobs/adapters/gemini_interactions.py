"""Google's interactions: stored work with typed steps, for all of its newer media models.

https://ai.google.dev/api/interactions-api
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from omnigate.jobs.adapters import asking, fields, google, inline, judging, sources
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
from omnigate.jobs.adapters.fields import DURATIONS, MEDIA, NUMBER, TEXT, Kind, Media
from omnigate.jobs.adapters.reading import BadAnswer, few, id_at, member, text_at
from omnigate.jobs.job import PROVIDER_BAD_ANSWER, Billable, JobError
from omnigate.outbound.messages import Answer, Cap

#: The form of the interface that is spoken: the one with ``steps``.
REVISION: Final = ("api-revision", "2026-05-20")

#: Steps of an answer, and blocks of one, that are looked at.
MAX_BLOCKS: Final = 256

_FAILED: Final = frozenset(
    ("failed", "incomplete", "budget_exceeded", "requires_action", "requires_continuation")
)
_CANCELLED: Final = "cancelled"
_COMPLETED: Final = "completed"

#: What an input may hold beside words.
_FAMILIES: Final = {"image": "image", "images": "image", "video": "video", "audio": "audio"}

_ASKED: Final[Mapping[str, Kind]] = {
    "prompt": TEXT,
    "text": TEXT,
    **dict.fromkeys(_FAMILIES, MEDIA),
    "output": Kind("image, video or audio", lambda value: value in ("image", "video", "audio")),
    "seed": NUMBER,
    "previous_interaction_id": TEXT,
}

#: Further fields of each output, and those of them that are written in ``response_format``.
_FORMATS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "image": {"aspect_ratio": TEXT, "image_size": TEXT},
    "video": {"aspect_ratio": TEXT, "resolution": TEXT},
    "audio": {},
}
_KNOWN: Final[Mapping[str, Mapping[str, Kind]]] = {
    "image": {**_ASKED, **_FORMATS["image"]},
    "video": {**_ASKED, **_FORMATS["video"], **DURATIONS},
    "audio": {**_ASKED, "voice": TEXT},
}

#: Every field that one of them takes.
FIELDS: Final = frozenset().union(*_KNOWN.values())


def _output(model: str, input: Mapping[str, Any]) -> str:
    """Return what is to be made: what the input says, else what the model is for."""
    asked = input.get("output")
    if isinstance(asked, str) and asked in _KNOWN:
        return asked
    if "omni" in model:
        return "video"
    return "audio" if "lyria" in model or "-tts" in model else "image"


class GeminiInteractions(Adapter):
    """A film is left at the provider as a file, images and sound come in the answer."""

    name: ClassVar[str] = "gemini_interactions"
    default_base_url: ClassVar[str] = google.BASE_URL
    can_cancel: ClassVar[bool] = True

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Judge the input by the fields of what is to be made.

        :raises InputFault: one is missing, not known, or holds something else.
        """
        fields.check_fields(input, _KNOWN[_output(model, input)])
        fields.duration_of(input)
        fields.one_text(input)
        for field, family in _FAMILIES.items():
            fields.media_in(input, field, family, google.is_file)

    def billable(self, task: Task) -> Billable:
        """Return the characters of the text, and the seconds of a film."""
        return asking.billable_input(task.input)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Have it begun in the background; it may be done at once."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        try:
            body = _body(task)
        except InputFault as odd:
            return judging.failed(f"input.{odd.field}: {odd.message}", task.credential)
        answer = yield asking.post_json(
            f"{task.base_url}/v1beta/interactions",
            _headers(task),
            body,
            cap=Cap.INLINE,
            head_seconds=max(google.HEAD_SECONDS, task.timeout_s),
        )
        interaction = judging.read_submit(answer, task.credential)
        if isinstance(interaction, Failed):
            return interaction
        try:
            handle = Handle(id_at(interaction, "id"))
        except BadAnswer as odd:
            # What is done needs no name; what goes on could not be asked for.
            if text_at(interaction, "status") != _COMPLETED:
                return judging.bad_answer(str(odd))
            handle = Handle("")
        outcome = _outcome(task, handle, interaction, answer)
        if isinstance(outcome, Running):
            return Accepted(handle)
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Stopped):
            outcome = judging.failed("cancelled at the provider", task.credential)
        return Failed(outcome.error, provider_job_id=handle.provider_job_id)

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask for the interaction; its outputs stand in it."""
        answer = yield asking.get(_url(task, handle), _headers(task), Cap.INLINE)
        interaction = judging.read_poll(answer, task.credential)
        if isinstance(interaction, Failed | Transient):
            return interaction
        return _outcome(task, handle, interaction, answer)

    def cancel(self, task: Task, handle: Handle) -> Steps[CancelOutcome]:
        """Ask for a stop; the answer is the interaction as it then is."""
        answer = yield asking.post_json(f"{_url(task, handle)}/cancel", _headers(task), {})
        # What cannot be stopped is answered so: it had ended, or does not run in the background.
        if not answer.fault and answer.status == 400:
            return NotCanceled()
        interaction = judging.read_poll(answer, task.credential)
        if isinstance(interaction, Failed | Transient):
            return Unclear()
        status = text_at(interaction, "status")
        if status == _CANCELLED:
            return Stopped()
        return NotCanceled() if status in _FAILED or status == _COMPLETED else Unclear()


def _headers(task: Task) -> tuple[tuple[str, str], ...]:
    return (*google.key(task.credential), REVISION)


def _url(task: Task, handle: Handle) -> str:
    return f"{task.base_url}/v1beta/interactions/{asking.segment(handle.provider_job_id)}"


# -- the request ----------------------------------------------------------------------------------


def _body(task: Task) -> dict[str, Any]:
    input = task.input
    body: dict[str, Any] = {
        "model": task.model,
        "input": [*_files(task), {"type": "text", "text": fields.one_text(input)}],
        "response_format": _format(task.model, input),
    }
    config: dict[str, Any] = {}
    if input.get("seed") is not None:
        config["seed"] = input["seed"]
    if input.get("voice") is not None:
        config["speech_config"] = [{"voice": input["voice"]}]
    if config:
        body["generation_config"] = config
    if input.get("previous_interaction_id") is not None:
        body["previous_interaction_id"] = input["previous_interaction_id"]
    # Work in the background must be stored. A target may say that its model takes no such work:
    # then the answer is waited for, and both are left to the provider.
    if task.background is not False:
        body.update(background=True, store=True)
    return body


def _files(task: Task) -> Iterator[dict[str, str]]:
    for field, family in _FAMILIES.items():
        for media in fields.media_in(task.input, field, family, google.is_file):
            yield _block(task, field, family, media)


def _block(task: Task, field: str, family: str, media: Media) -> dict[str, str]:
    """Return the block of a file.

    :raises InputFault: it is the address of a file of another provider.
    """
    if not media.uri:
        return {"type": family, "data": media.base64, "mime_type": media.content_type}
    if not asking.has_origin(media.uri, task.base_url):
        raise InputFault(field, "is no file of this provider; give a data URL")
    return {"type": family, "uri": media.uri}


def _format(model: str, input: Mapping[str, Any]) -> dict[str, str]:
    output = _output(model, input)
    told = {"type": output, "delivery": "uri" if output == "video" else "inline"}
    for name in _FORMATS[output]:
        if input.get(name) is not None:
            told[name] = input[name]
    milliseconds = fields.duration_of(input)
    if milliseconds:
        told["duration"] = f"{fields.number_of(milliseconds)}s"
    return told


# -- the answer -----------------------------------------------------------------------------------


def _outcome(
    task: Task, handle: Handle, interaction: Mapping[str, Any], answer: Answer
) -> PollOutcome:
    status = text_at(interaction, "status")
    if status == _COMPLETED:
        found = list(itertools.islice(_sources(task, interaction, answer), sources.MAX_SOURCES))
        if found:
            return Done(found, provider_job_id=handle.provider_job_id)
        told = _told(interaction)
        if told:
            return judging.failed(told, task.credential)
        return judging.bad_answer("completed without an output")
    if status in _FAILED:
        return judging.failed(_told(interaction) or f"the provider says {status}", task.credential)
    if status == _CANCELLED:
        return Stopped()
    if not status:
        return Transient(JobError(PROVIDER_BAD_ANSWER, "the answer has no status"))
    return judging.running(answer)


def _newest(interaction: Mapping[str, Any]) -> list[Any]:
    """Return the steps that answer the newest input: earlier ones are those of the talk before."""
    steps = member(interaction, "steps")
    listed = steps[-MAX_BLOCKS:] if isinstance(steps, list) else []
    for place in reversed(range(len(listed))):
        if text_at(listed[place], "type") == "user_input":
            return listed[place + 1 :]
    return listed


def _sources(task: Task, interaction: Mapping[str, Any], answer: Answer) -> Iterator[Source]:
    for step in _newest(interaction):
        if text_at(step, "type") != "model_output":
            continue
        for block in few(member(step, "content"), MAX_BLOCKS):
            found = _source(task, block, answer)
            if found is not None:
                yield found


def _source(task: Task, block: object, answer: Answer) -> Source | None:
    if text_at(block, "type") not in _KNOWN:
        return None
    named = sources.type_at(block, "mime_type")
    data = text_at(block, "data")
    if data:
        return inline.media(data, answer, named)
    uri = text_at(block, "uri")
    return google.file_source(uri, answer, task.base_url, task.credential, named)


def _told(interaction: Mapping[str, Any]) -> str:
    """Return what went wrong, of the whole or of one step; empty where nothing is said."""
    told = judging.told_error(interaction)
    if told:
        return told
    steps = (text_at(step, "error", "message") for step in _newest(interaction))
    return next((words for words in steps if words), "")
