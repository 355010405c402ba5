"""What a job may ask for, judged before it exists: every rule that needs no state.

The input is judged for the whole route: it must be one that *every* target could be sent, or a job
would find out at the second provider what it could have been told at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from omnigate.config.media import MediaRouteConfig, MediaTargetConfig
from omnigate.errors import GatewayError
from omnigate.jobs import durations, pricing
from omnigate.jobs.adapters.base import Adapter, InputFault, Task
from omnigate.text import QUOTED_CHARS, one_line

#: Fields that say how many are wanted, at one provider or another.
COUNT_FIELDS: Final = (
    "n",
    "count",
    "num_images",
    "num_outputs",
    "num_samples",
    "num_videos",
    "number_of_images",
    "number_of_videos",
    "sample_count",
    "sampleCount",
    "batch_size",
    "max_images",
)

#: Digits of a count that is written as text.
MAX_COUNT_DIGITS: Final = 9

#: Values or names that a message lists; a client gets the idea from a few.
MAX_NAMED: Final = 20


#: Escapes in the JSON of an input. A provider is written it again in one go, and what must be
#: escaped is slow: 4 million quotes take 36 ms, as many letters 3. Media in base64 have none.
MAX_ESCAPES: Final = 1_000_000

_PIECE_BYTES: Final = 65_536


def check_input(
    route: MediaRouteConfig,
    adapters: Mapping[str, Adapter],
    input: Mapping[str, Any],
    input_json: bytes,
) -> None:
    """Judge the ``input`` of a job for ``route``.

    :param adapters: by name, those of the route's targets among them.
    :param input_json: the same as the client wrote it.
    :raises GatewayError: ``invalid_request``, with the field at fault as its ``param``, or
        ``request_too_complex``.
    """
    if _has_more_escapes(input_json, MAX_ESCAPES):
        raise GatewayError(
            "request_too_complex",
            "input: holds over a million escaped characters, such as quotes and line ends; send "
            "media as base64, and less text",
            param="input",
        )
    _check_fields(route, input)
    field = _check_durations(input)
    _check_counts(input)
    _check_listed(route, input)
    _check_text(route, input)
    for target in route.targets:
        adapter = adapters[target.adapter]
        try:
            adapter.check(target.model, input)
        except InputFault as fault:
            _refuse(fault.field, f"{fault.message} ({target.adapter} {target.model})")
        _check_seconds(target, adapter, input, field)


def _has_more_escapes(text: bytes, most: int) -> bool:
    """Count in pieces: one that has none at all, as most of base64, takes a twentieth."""
    found = 0
    for start in range(0, len(text), _PIECE_BYTES):
        piece = text[start : start + _PIECE_BYTES]
        if b"\\" in piece:
            found += piece.count(b"\\")
            if found > most:
                return True
    return False


def _refuse(field: str, message: str) -> NoReturn:
    place = f"input.{one_line(field, QUOTED_CHARS)}" if field else "input"
    raise GatewayError("invalid_request", f"{place}: {message}", param=place)


def _check_fields(route: MediaRouteConfig, input: Mapping[str, Any]) -> None:
    if route.allowed_input is None:
        return
    allowed = frozenset(route.allowed_input)
    for field in input:
        if field not in allowed:
            _refuse(
                field, f"{route.model} takes no such field; it takes {_some(route.allowed_input)}"
            )


def _check_durations(input: Mapping[str, Any]) -> str:
    """Return the field that names a duration, or the one that should."""
    found = None
    for field in durations.FIELDS:
        value = input.get(field)
        if value is None:
            continue
        try:
            length = durations.milliseconds(value)
        except durations.BadDurationError as error:
            _refuse(field, str(error))
        # The first is billed; a provider that reads another one would make more than that.
        if found is not None and found[1] != length:
            _refuse(field, f"says something else than {found[0]}; give one duration")
        found = found or (field, length)
    return durations.FIELDS[0] if found is None else found[0]


def _check_counts(input: Mapping[str, Any]) -> None:
    for field in COUNT_FIELDS:
        value = input.get(field)
        if value is not None and not _is_count(value):
            _refuse(field, "write a whole number, and none below 0")


def _is_count(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_COUNT_DIGITS and value.isascii() and value.isdigit()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < 10**MAX_COUNT_DIGITS and value == int(value)


def _check_seconds(
    target: MediaTargetConfig, adapter: Adapter, input: Mapping[str, Any], field: str
) -> None:
    """Judge the seconds that a target would be asked for, wherever the input says them."""
    task = Task(job_id="", target=0, base_url="", model=target.model, input=input)
    asked = adapter.billable(task).milliseconds
    if target.max_seconds is not None and asked > target.max_seconds * 1000:
        _refuse(field, f"may be {target.max_seconds} seconds at most")
    # A duration of 0 leaves it to the provider, and a price per second must have seconds.
    if pricing.is_per_second(target.price) and target.default_seconds is None and not asked:
        _refuse(field, "is needed, since this model is paid per second; give seconds")


def _check_listed(route: MediaRouteConfig, input: Mapping[str, Any]) -> None:
    for field, listed in route.price_multipliers.items():
        if field in input and pricing.written(input[field]) not in listed:
            _refuse(field, f"must be one of {_some(tuple(listed))}, or left out")


def _check_text(route: MediaRouteConfig, input: Mapping[str, Any]) -> None:
    """Have one text alone where characters are charged for: the other might be the one used."""
    if input.get("text") is None or input.get("prompt") is None:
        return
    for target in route.targets:
        if target.price is not None and target.price.per_million_characters > 0:
            _refuse("text", "stands beside prompt, and this model is paid by the character")


def _some(words: tuple[str, ...]) -> str:
    more = " and others" if len(words) > MAX_NAMED else ""
    return ", ".join(words[:MAX_NAMED]) + more
