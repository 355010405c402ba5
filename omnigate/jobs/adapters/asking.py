"""Building what a provider is asked, out of a task: URLs, bodies, and what of it is billed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from omnigate.jobs import durations
from omnigate.jobs.job import Billable
from omnigate.outbound.messages import Cap, Request
from omnigate.outbound.urls import origin_of

#: Until the head of the answer to a submit: one given up on too early may have been taken in.
SUBMIT_SECONDS: Final = 60.0


def bearer(credential: str) -> tuple[tuple[str, str], ...]:
    """Return the header of a bearer token; none where there is no credential."""
    return (("authorization", f"Bearer {credential}"),) if credential else ()


def get(url: str, headers: tuple[tuple[str, str], ...], cap: Cap = Cap.API) -> Request:
    """Return a request that asks and changes nothing."""
    return Request("GET", url, headers, cap=cap)


def post_json(
    url: str,
    headers: tuple[tuple[str, str], ...],
    body: Mapping[str, Any],
    *,
    cap: Cap = Cap.API,
    head_seconds: float = SUBMIT_SECONDS,
) -> Request:
    """Return a POST of JSON."""
    return Request(
        "POST",
        url,
        (*headers, ("content-type", "application/json")),
        msgspec.json.encode(body),
        cap,
        head_seconds,
    )


def segment(text: str) -> str:
    """Return a provider's id, or a part of a model's name, as one segment of a path.

    :param text: more than dots, which would be a step up in any spelling.
    """
    return quote(text, safe="~:@!$&'()*+,;=", errors="replace")


def has_origin(url: str, base_url: str) -> bool:
    """Whether a URL out of an answer is of the origin of ``base_url``, so may be sent the key."""
    origin = origin_of(url)
    return bool(origin) and origin == origin_of(base_url)


def characters(input: Mapping[str, Any]) -> int:
    """Return how many characters of text are sent: of ``text``, else of ``prompt``."""
    for name in ("text", "prompt"):
        value = input.get(name)
        if isinstance(value, str):
            return len(value)
    return 0


def billable_input(input: Mapping[str, Any]) -> Billable:
    """Return what is billed of an input that goes out as it is."""
    try:
        named = durations.named(input)
    except durations.BadDurationError:  # it was refused when the job was made
        named = None
    return Billable(characters=characters(input), milliseconds=0 if named is None else named[1])


def told_milliseconds(value: object) -> int:
    """Return milliseconds of a duration that a provider tells; -1 where it is none."""
    try:
        return durations.milliseconds(value)
    except durations.BadDurationError:
        return -1
