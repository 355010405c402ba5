"""Building what a provider is asked, out of a task: URLs, bodies, and what of it is billed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from omnigate.jobs import durations
from omnigate.jobs.job import Billable
from omnigate.outbound.messages import Cap, Request

#: Until the head of the answer to a submit: one given up on too early may have been taken in.
SUBMIT_SECONDS: Final = 60.0

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


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


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an ``http`` or ``https`` URL; None for any other text."""
    if not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    default = _DEFAULT_PORTS.get(parts.scheme)
    if default is None or not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname.removesuffix("."), default if port is None else port


def has_origin(url: str, base_url: str) -> bool:
    """Whether a URL out of an answer is of the origin of ``base_url``, so may be sent the key."""
    origin = origin_of(url)
    return origin is not None and origin == origin_of(base_url)


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
