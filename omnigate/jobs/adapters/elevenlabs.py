"""ElevenLabs: speech, sound effects and music; one call, and the answer's body is the sound.

https://elevenlabs.io/docs/api-reference
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

import attrs

from omnigate.jobs import media_types
from omnigate.jobs.adapters import asking, fields, judging
from omnigate.jobs.adapters.base import (
    Adapter,
    Done,
    Failed,
    InlineSource,
    InputFault,
    Steps,
    SubmitOutcome,
    Task,
)
from omnigate.jobs.adapters.fields import DURATIONS, FLAG, LIST, NUMBER, OBJECT, TEXT, Kind
from omnigate.jobs.adapters.reading import text_at
from omnigate.jobs.job import PROVIDER_FAILED, Billable, JobError
from omnigate.outbound.messages import Answer, Cap
from omnigate.text import one_line

#: Long pieces take minutes, and the head of the answer comes with the sound.
HEAD_SECONDS: Final = 300.0

#: Seconds of a sound effect, and of a piece of music.
EFFECT_SECONDS: Final = (0.5, 30.0)
MUSIC_SECONDS: Final = (3.0, 600.0)

#: Sections of a plan that are added up.
MAX_SECTIONS: Final = 256

#: What ``detail.status`` says where the account is at its end; it comes as a 401, or as a 429.
_QUOTA: Final = "quota_exceeded"

_VOICE = re.compile(r"[A-Za-z0-9_-]{1,128}")
_FORMAT = re.compile(r"[a-z0-9_]{1,64}")

#: What each ``output_format`` begins with, and the type of such an answer.
_FORMATS: Final = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "wav": "audio/wav",
}
_UNTOLD: Final = frozenset(("", media_types.OCTETS, "binary/octet-stream"))

_QUERY: Final = ("output_format", "enable_logging")
_EVERYWHERE: Final = {"output_format": TEXT, "enable_logging": FLAG}


@attrs.frozen
class _Service:
    """One of the three things that are made.

    :ivar known: the fields of an input.
    """

    path: str
    known: Mapping[str, Kind]


_SPEECH: Final = _Service(
    "/v1/text-to-speech",
    {
        "text": TEXT,
        "voice_id": TEXT,
        "language_code": TEXT,
        "voice_settings": OBJECT,
        "seed": NUMBER,
        "previous_text": TEXT,
        "next_text": TEXT,
        "apply_text_normalization": TEXT,
        "pronunciation_dictionary_locators": LIST,
        "audio_effects": OBJECT,
        **_EVERYWHERE,
    },
)
_EFFECT: Final = _Service(
    "/v1/sound-generation",
    {"text": TEXT, **DURATIONS, "loop": FLAG, "prompt_influence": NUMBER, **_EVERYWHERE},
)
_MUSIC: Final = _Service(
    "/v1/music",
    {
        "prompt": TEXT,
        "composition_plan": OBJECT,
        **DURATIONS,
        "seed": NUMBER,
        "force_instrumental": FLAG,
        "sign_with_c2pa": FLAG,
        **_EVERYWHERE,
    },
)

#: Every field that one of them takes.
FIELDS: Final = frozenset().union(_SPEECH.known, _EFFECT.known, _MUSIC.known)


def _service(model: str) -> _Service:
    if "text_to_sound" in model:
        return _EFFECT
    return _MUSIC if model.startswith("music_") else _SPEECH


class Elevenlabs(Adapter):
    """The target's ``model`` decides: ``…text_to_sound…``, ``music_…``, and speech by any other."""

    name: ClassVar[str] = "elevenlabs"
    default_base_url: ClassVar[str] = "https://api.elevenlabs.io"

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Judge the input by the fields of what the model makes.

        :raises InputFault: one is missing, not known, or holds something else.
        """
        service = _service(model)
        fields.check_fields(input, service.known)
        output_format = input.get("output_format")
        if output_format is not None and not _FORMAT.fullmatch(output_format):
            raise InputFault("output_format", "must be a format such as mp3_44100_128")
        if service is _MUSIC:
            _check_music(input)
            return
        if input.get("text") is None:
            raise InputFault("text", "is missing; say what is to be heard")
        if service is _EFFECT:
            fields.duration_of(input, *EFFECT_SECONDS)
            fields.within(input, "prompt_influence", 0, 1)
        elif not _VOICE.fullmatch(input.get("voice_id") or ""):
            raise InputFault("voice_id", "must be the id of a voice: letters, digits, - and _")

    def billable(self, task: Task) -> Billable:
        """Return the characters of the text, and the seconds of an effect or of music."""
        asked = asking.billable_input(task.input)
        plan = task.input.get("composition_plan")
        if not isinstance(plan, dict):
            return asked
        return Billable(characters=asked.characters, milliseconds=_planned(plan) or 0)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Have the sound made; it goes to a file as it comes."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        credential = (("xi-api-key", task.credential),) if task.credential else ()
        answer = yield asking.post_json(
            task.base_url + _target(task),
            credential,
            _body(task),
            cap=Cap.OUTPUT,
            head_seconds=max(HEAD_SECONDS, task.timeout_s),
        )
        if not answer.ok:
            return _refused(answer, task.credential)
        return _read(answer, task.input)


def _check_music(input: Mapping[str, Any]) -> None:
    duration = fields.duration_of(input, *MUSIC_SECONDS)
    plan = input.get("composition_plan")
    if plan is None:
        if input.get("prompt") is None:
            raise InputFault("prompt", "is missing; give a prompt or a composition_plan")
        return
    if input.get("prompt") is not None or duration:
        raise InputFault("composition_plan", "says all; give it without prompt and duration")
    planned = _planned(plan)
    if planned is None or not MUSIC_SECONDS[0] * 1000 <= planned <= MUSIC_SECONDS[1] * 1000:
        raise InputFault(
            "composition_plan",
            f"must have 1 to {MAX_SECTIONS} sections, each with its duration_ms, of "
            f"{MUSIC_SECONDS[0]:g} to {MUSIC_SECONDS[1]:g} seconds together",
        )


def _planned(plan: Mapping[str, Any]) -> int | None:
    """Return the milliseconds that a plan asks for; None where a part does not say."""
    sections = plan.get("sections")
    if not isinstance(sections, list) or not 1 <= len(sections) <= MAX_SECTIONS:
        return None
    lengths = [part.get("duration_ms") if isinstance(part, dict) else None for part in sections]
    total = 0
    for length in lengths:
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            return None
        total += length
    return total


def _target(task: Task) -> str:
    service, input = _service(task.model), task.input
    path = f"{service.path}/{input['voice_id']}" if service is _SPEECH else service.path
    query = {}
    for name in _QUERY:
        value = input.get(name)
        if value is not None:
            query[name] = value if isinstance(value, str) else str(value).lower()
    return f"{path}?{urlencode(query)}" if query else path


def _body(task: Task) -> dict[str, Any]:
    service, input = _service(task.model), task.input
    body = {
        name: value
        for name, value in input.items()
        if value is not None and name not in _QUERY and name not in DURATIONS and name != "voice_id"
    }
    milliseconds = fields.duration_of(input)
    if milliseconds and service is _MUSIC:
        body["music_length_ms"] = milliseconds
    elif milliseconds:
        body["duration_seconds"] = fields.number_of(milliseconds)
    return {**body, "model_id": task.model}


def _refused(answer: Answer, credential: str) -> Failed:
    failure = judging.refused(answer, credential)
    if failure.rate_limited and text_at(judging.error_body(answer), "detail", "status") == _QUOTA:
        return Failed(JobError(PROVIDER_FAILED, failure.error.message))
    return failure


def _read(answer: Answer, input: Mapping[str, Any]) -> SubmitOutcome:
    content_type = media_types.plain(answer.headers.get("content-type", ""))
    if content_type not in _UNTOLD and not content_type.startswith("audio/"):
        return judging.bad_answer(f"unexpected content type {one_line(content_type, 100)}")
    if answer.kept is None or not answer.kept.size:
        return judging.bad_answer("the answer holds no sound")
    if content_type in _UNTOLD:
        kind = (input.get("output_format") or "mp3").partition("_")[0]
        content_type = _FORMATS.get(kind, media_types.OCTETS)
    return Done([InlineSource(answer.kept, content_type)])
