"""The fields of an input that an adapter builds its own request from, and what may stand in them.

A field that a provider's interface has no place for is refused, so that nothing a client wrote is
lost without a word; one that is null counts as left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from omnigate.jobs import durations
from omnigate.jobs.adapters import judging
from omnigate.jobs.adapters.base import Adapter, Failed, InputFault, Task

#: Images, films or pieces of sound that one input may hold.
MAX_MEDIA: Final = 32

_DATA_URL = re.compile(
    r"data:([a-zA-Z]{1,20}/[a-zA-Z0-9.+-]{1,80})(?:;[a-zA-Z0-9-]{1,40}=[^;,\"\s]{1,80}){0,4};base64,"
)


@attrs.frozen
class Kind:
    """What may stand in a field.

    :ivar words: the same for a message: "must be …".
    """

    words: str
    fits: Callable[[object], bool]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


TEXT: Final = Kind("a text, and not an empty one", _is_text)
NUMBER: Final = Kind("a number", _is_number)
FLAG: Final = Kind("true or false", lambda value: isinstance(value, bool))
OBJECT: Final = Kind("an object", lambda value: isinstance(value, dict))
LIST: Final = Kind("a list", lambda value: isinstance(value, list))
#: A duration has a reader of its own, :func:`duration_of`.
DURATION: Final = Kind("seconds", lambda value: True)
#: So has a file: :func:`media_in`.
MEDIA: Final = Kind("a data URL", lambda value: True)

#: The fields of a duration, for a table of fields.
DURATIONS: Final[Mapping[str, Kind]] = dict.fromkeys(durations.FIELDS, DURATION)


@attrs.frozen
class Media:
    """A file in an input: a data URL, or the address of a file that the provider keeps.

    :ivar start: where the base64 of a data URL begins; it may be megabytes, so it is cut out only
        to be sent.
    """

    content_type: str = ""
    data_url: str = attrs.field(default="", repr=False)
    start: int = 0
    uri: str = ""

    @property
    def base64(self) -> str:
        """What stands in the data URL."""
        return self.data_url[self.start :]


def check_fields(input: Mapping[str, Any], known: Mapping[str, Kind]) -> None:
    """Judge every field of an input by a table of those that are known.

    :raises InputFault: one is not known, or holds something else.
    """
    for field, value in input.items():
        kind = known.get(field)
        if kind is None:
            raise InputFault(field, f"is no field of this model; it takes {', '.join(known)}")
        if value is not None and not kind.fits(value):
            raise InputFault(field, f"must be {kind.words}")


def within(input: Mapping[str, Any], field: str, lowest: float, highest: float) -> None:
    """Judge a number.

    :raises InputFault: it is there, and outside of its bounds.
    """
    value = input.get(field)
    if value is not None and not lowest <= value <= highest:
        raise InputFault(field, f"must be from {lowest:g} to {highest:g}")


def one_text(input: Mapping[str, Any], *, needed: bool = True) -> str:
    """Return what is asked for in words, ``prompt`` or ``text``; empty where neither is there.

    :raises InputFault: both are there, or it is needed and missing.
    """
    prompt, text = input.get("prompt"), input.get("text")
    if prompt is not None and text is not None:
        raise InputFault("text", "says what prompt says; give one of the two")
    found = prompt if text is None else text
    if found is None and needed:
        raise InputFault("prompt", "is missing; say what is to be made")
    return found or ""


def duration_of(
    input: Mapping[str, Any], lowest: float = 0.0, highest: float = durations.MAX_SECONDS
) -> int:
    """Return the duration that an input names, in milliseconds; 0 where it names none.

    :param lowest: seconds, of a duration that is named.
    :raises InputFault: it is none, or outside of its bounds.
    """
    for field in durations.FIELDS:
        value = input.get(field)
        if value is None:
            continue
        try:
            found = durations.milliseconds(value)
        except durations.BadDurationError as error:
            raise InputFault(field, str(error)) from None
        if found and not lowest * 1000 <= found <= highest * 1000:
            raise InputFault(field, f"must be from {lowest:g} to {highest:g} seconds")
        return found
    return 0


def number_of(milliseconds: int) -> int | float:
    """Return seconds as a number, whole where they are."""
    seconds, rest = divmod(milliseconds, 1000)
    return milliseconds / 1000 if rest else seconds


def media_in(
    input: Mapping[str, Any],
    field: str,
    family: str,
    is_uri: Callable[[str], bool] = lambda value: False,
) -> list[Media]:
    """Return the files that a field holds: one, or a list of them.

    :param family: ``image``, ``video`` or ``audio``: what their types begin with.
    :param is_uri: what else is taken beside a data URL.
    :raises InputFault: there is something else, or too much.
    """
    value = input.get(field)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= MAX_MEDIA:
        raise InputFault(field, f"may hold 1 to {MAX_MEDIA} data URLs")
    return [_media(field, part, family, is_uri) for part in values]


def _media(field: str, value: object, family: str, is_uri: Callable[[str], bool]) -> Media:
    match = _DATA_URL.match(value) if isinstance(value, str) else None
    if match is not None and isinstance(value, str):
        if match[1].lower().partition("/")[0] != family:
            raise InputFault(field, f"must be of type {family}/…, not {match[1]}")
        return Media(match[1].lower(), value, match.end())
    if isinstance(value, str) and is_uri(value):
        return Media(uri=value)
    raise InputFault(
        field,
        f"must be a data URL (data:{family}/…;base64,…): this provider fetches no other addresses",
    )


def fault_of(adapter: Adapter, task: Task) -> Failed | None:
    """Return the failure of a target that cannot be sent the task's input.

    Inputs are judged before their job exists; but a job that waits may meet another config, and
    with it another target.
    """
    try:
        adapter.check(task.model, task.input)
    except InputFault as fault:
        place = f"input.{fault.field}: " if fault.field else ""
        return judging.failed(place + fault.message, task.credential)
    return None
