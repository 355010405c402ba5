"""Gemini: images and speech in one call, and Veo's films as work that is asked after.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote

from omnigate.jobs.adapters import asking, fields, google, inline, judging, sources
from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    Done,
    Failed,
    Handle,
    InputFault,
    PollOutcome,
    Source,
    Steps,
    SubmitOutcome,
    Task,
    Transient,
)
from omnigate.jobs.adapters.fields import DURATIONS, MEDIA, NUMBER, TEXT, Kind, Media
from omnigate.jobs.adapters.reading import BadAnswer, few, member, text_at
from omnigate.jobs.job import Billable
from omnigate.outbound.messages import Answer, Cap

#: Why a candidate holds no media, where it is the model's own decision.
REFUSALS: Final = frozenset(
    (
        "SAFETY",
        "IMAGE_SAFETY",
        "PROHIBITED_CONTENT",
        "IMAGE_PROHIBITED_CONTENT",
        "RECITATION",
        "IMAGE_RECITATION",
        "NO_IMAGE",
        "IMAGE_OTHER",
        "BLOCKLIST",
        "SPII",
        "MODEL_ARMOR",
        "OTHER",
    )
)

#: Candidates, parts of one, and films of an answer that are looked at.
MAX_PARTS: Final = 256

#: Reasons of a filter that a message repeats.
MAX_REASONS: Final = 8

_IMAGE: Final[Mapping[str, Kind]] = {
    "prompt": TEXT,
    "text": TEXT,
    "image": MEDIA,
    "images": MEDIA,
    "aspect_ratio": TEXT,
    "image_size": TEXT,
    "seed": NUMBER,
    "temperature": NUMBER,
}
_SPEECH: Final[Mapping[str, Kind]] = {
    "text": TEXT,
    "prompt": TEXT,
    "voice": TEXT,
    "seed": NUMBER,
    "temperature": NUMBER,
}
_FILM: Final[Mapping[str, Kind]] = {
    "prompt": TEXT,
    "image": MEDIA,
    "last_frame": MEDIA,
    "aspect_ratio": TEXT,
    "resolution": TEXT,
    **DURATIONS,
    "negative_prompt": TEXT,
    "person_generation": TEXT,
    "seed": NUMBER,
}

#: Every field that one of them takes.
FIELDS: Final = frozenset().union(_IMAGE, _SPEECH, _FILM)

#: Fields of a film that go out under another name, in the order in which they are written.
_FILM_PARAMETERS: Final = {
    "aspect_ratio": "aspectRatio",
    "resolution": "resolution",
    "negative_prompt": "negativePrompt",
    "person_generation": "personGeneration",
    "seed": "seed",
}


def _is_film(model: str) -> bool:
    return model.startswith("veo-")


def _is_speech(model: str) -> bool:
    return "-tts" in model


class Gemini(Adapter):
    """What is made follows from the target's ``model``: ``veo-…`` a film, ``…-tts…`` speech."""

    name: ClassVar[str] = "gemini"
    default_base_url: ClassVar[str] = google.BASE_URL

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Judge the input by the fields of what the model makes.

        :raises InputFault: one is missing, not known, or holds something else.
        """
        if _is_film(model):
            fields.check_fields(input, _FILM)
            fields.duration_of(input)
            _check_film(input)
            return
        fields.check_fields(input, _SPEECH if _is_speech(model) else _IMAGE)
        fields.one_text(input)
        _images(input)

    def billable(self, task: Task) -> Billable:
        """Return the characters of the text, and the seconds of a film."""
        return asking.billable_input(task.input)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Have an image or speech made and wait for it, or have a film begun."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        if _is_film(task.model):
            return (yield from _begin_film(task))
        answer = yield asking.post_json(
            _url(task, "generateContent"),
            google.key(task.credential),
            {"contents": _contents(task.input), "generationConfig": _config(task)},
            cap=Cap.INLINE,
            head_seconds=max(google.HEAD_SECONDS, task.timeout_s),
        )
        body = judging.read_submit(answer, task.credential)
        if isinstance(body, Failed):
            return body
        found = list(itertools.islice(_media(body, answer), sources.MAX_SOURCES))
        return Done(found) if found else _without_media(body, task.credential)

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask for the operation; the films stand in it once it is done."""
        try:
            name = google.work_name(handle.provider_job_id)
        except BadAnswer as fault:
            return judging.bad_answer(str(fault))
        answer = yield asking.get(f"{task.base_url}/v1beta/{name}", google.key(task.credential))
        operation = judging.read_poll(answer, task.credential)
        if isinstance(operation, Failed | Transient):
            return operation
        if operation.get("done") is not True:
            return judging.running(answer)
        return _films(task, handle, operation, answer)


def _url(task: Task, method: str) -> str:
    return f"{task.base_url}/v1beta/models/{quote(task.model, safe='=')}:{method}"


# -- images and speech ----------------------------------------------------------------------------


def _images(input: Mapping[str, Any]) -> list[Media]:
    return [*fields.media_in(input, "image", "image"), *fields.media_in(input, "images", "image")]


def _contents(input: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": image.content_type, "data": image.base64}}
        for image in _images(input)
    ]
    return [{"role": "user", "parts": [*parts, {"text": fields.one_text(input)}]}]


def _config(task: Task) -> dict[str, Any]:
    input = task.input
    config: dict[str, Any] = {}
    if _is_speech(task.model):
        config["responseModalities"] = ["AUDIO"]
        if input.get("voice") is not None:
            voice = {"prebuiltVoiceConfig": {"voiceName": input["voice"]}}
            config["speechConfig"] = {"voiceConfig": voice}
    else:
        config["responseModalities"] = ["TEXT", "IMAGE"]
        named = {"aspect_ratio": "aspectRatio", "image_size": "imageSize"}
        image = {theirs: input[ours] for ours, theirs in named.items() if input.get(ours)}
        if image:
            config["imageConfig"] = image
    for name in ("seed", "temperature"):
        if input.get(name) is not None:
            config[name] = input[name]
    return config


def _media(body: Mapping[str, Any], answer: Answer) -> Iterator[Source]:
    for candidate in few(member(body, "candidates"), MAX_PARTS):
        for part in few(member(candidate, "content", "parts"), MAX_PARTS):
            # A draft that the model made on its way is no output.
            if member(part, "thought") is True:
                continue
            found = inline.media(
                text_at(part, "inlineData", "data"),
                answer,
                sources.type_at(part, "inlineData", "mimeType"),
            )
            if found is not None:
                yield found


def _without_media(body: Mapping[str, Any], credential: str) -> Failed:
    candidates = few(member(body, "candidates"), MAX_PARTS)
    blocked = text_at(body, "promptFeedback", "blockReason")
    if not candidates and blocked:
        return judging.failed(f"prompt blocked: {blocked}", credential)
    reasons = [text_at(candidate, "finishReason") for candidate in candidates]
    told = next((reason for reason in reasons if reason in REFUSALS), "")
    if told:
        return judging.failed(f"no media in the answer: {told}", credential)
    return judging.bad_answer("no media in the answer")


# -- films ----------------------------------------------------------------------------------------


#: Images of a film, by their names here and there.
_FILM_IMAGES: Final = {"image": "image", "last_frame": "lastFrame"}


def _check_film(input: Mapping[str, Any]) -> None:
    for field in _FILM_IMAGES:
        if len(fields.media_in(input, field, "image")) > 1:
            raise InputFault(field, "must be one image")
    fields.one_text(input, needed=input.get("image") is None)


def _instance(input: Mapping[str, Any]) -> dict[str, Any]:
    instance: dict[str, Any] = {}
    prompt = fields.one_text(input, needed=False)
    if prompt:
        instance["prompt"] = prompt
    for ours, theirs in _FILM_IMAGES.items():
        for image in fields.media_in(input, ours, "image"):
            instance[theirs] = {"bytesBase64Encoded": image.base64, "mimeType": image.content_type}
    return instance


def _begin_film(task: Task) -> Steps[SubmitOutcome]:
    input = task.input
    parameters = {
        theirs: input[ours]
        for ours, theirs in _FILM_PARAMETERS.items()
        if input.get(ours) is not None
    }
    milliseconds = fields.duration_of(input)
    if milliseconds:
        parameters["durationSeconds"] = fields.number_of(milliseconds)
    answer = yield asking.post_json(
        _url(task, "predictLongRunning"),
        google.key(task.credential),
        {"instances": [_instance(input)], "parameters": parameters},
    )
    operation = judging.read_submit(answer, task.credential)
    if isinstance(operation, Failed):
        return operation
    try:
        return Accepted(Handle(google.work_name(text_at(operation, "name"))))
    except BadAnswer as fault:
        return judging.bad_answer(str(fault))


def _films(
    task: Task, handle: Handle, operation: Mapping[str, Any], answer: Answer
) -> Done | Failed:
    if operation.get("error") is not None:
        return judging.failed(judging.told_error(operation), task.credential)
    response = member(operation, "response", "generateVideoResponse")
    found = []
    for sample in few(member(response, "generatedSamples"), MAX_PARTS):
        address = text_at(sample, "video", "uri")
        made = google.file_source(address, answer, task.base_url, task.credential, "video/mp4")
        if made is not None:
            found.append(made)
    if found:
        return Done(found, provider_job_id=handle.provider_job_id)
    reasons = member(response, "raiMediaFilteredReasons")
    if isinstance(reasons, list) or member(response, "raiMediaFilteredCount"):
        listed = [reason for reason in few(reasons, MAX_REASONS) if isinstance(reason, str)]
        return judging.failed("; ".join(listed) or "the film was filtered", task.credential)
    return judging.bad_answer("completed without an output")
