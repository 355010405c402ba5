"""One recorded event as a row of a list, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.control.dashboard.causes import BAD, WARN, status_kind
from omnigate.control.dashboard.paths import key_path, request_path
from omnigate.money import InvalidMoney, parse_usd
from omnigate.text import one_line

#: What is shown of a name in a list; the request's own page has all of it.
NAME_CHARS: Final = 40

#: What is shown of the hash of a key that has no name any more.
HASH_CHARS: Final = 12


@attrs.frozen
class KeyMark:
    """Whose request it was.

    :ivar label: the name of the key, or the beginning of its hash.
    :ivar path: where there is more of it; empty for a key that is gone.
    :ivar word: what a search for its requests is given.
    """

    label: str
    path: str
    word: str

    @property
    def is_gone(self) -> bool:
        """Whether there is no such key any more."""
        return not self.path


@attrs.frozen
class Mark:
    """A word beside a row that says something out of the ordinary."""

    text: str
    kind: str = "quiet"


@attrs.frozen
class RequestRow:
    """One request.

    :ivar path: its own page.
    :ivar ended_ms: in milliseconds since 1970.
    :ivar upstream: who answered, or who was tried last; empty where nobody was asked.
    :ivar target: the model that it was sent.
    :ivar tokens_in: input of all kinds.
    :ivar cost_nano: in nano-dollars.
    """

    path: str
    id: str
    ended_ms: int
    key: KeyMark
    model: str
    upstream: str
    target: str
    status: int
    status_kind: str
    attempts: int
    tokens_in: int
    tokens_out: int
    cost_nano: int
    latency_ms: int
    marks: tuple[Mark, ...]


def row_of(event: Mapping[str, Any], names: Mapping[str, str]) -> RequestRow:
    """Return the row of an event.

    :param event: as the ledger tells it; a member that it does not have, or has of another kind,
        is shown as nothing.
    :param names: the name of every key, by its hashes.
    """
    attempts = attempts_of(event)
    upstream, target = text(event, "upstream"), text(event, "target_model")
    if not upstream and attempts:
        upstream, target = text(attempts[-1], "upstream"), text(attempts[-1], "model")
    status = number(event, "status")
    return RequestRow(
        path=request_path(text(event, "id")),
        id=text(event, "id"),
        ended_ms=number(event, "ts_ms"),
        key=key_of(text(event, "key_sha256"), names),
        model=one_line(text(event, "route_model"), NAME_CHARS),
        upstream=one_line(upstream, NAME_CHARS),
        target=one_line(target, NAME_CHARS),
        status=status,
        status_kind=status_kind(status),
        attempts=len(attempts),
        tokens_in=tokens_in(event),
        tokens_out=number(event, "output_tokens"),
        cost_nano=cost_of(event),
        latency_ms=number(event, "latency_ms"),
        marks=marks_of(event, status, len(attempts)),
    )


def marks_of(event: Mapping[str, Any], status: int, attempts: int) -> tuple[Mark, ...]:
    """Return what is out of the ordinary of a request."""
    marks = []
    if event.get("kind") == "media":
        marks.append(Mark("media job"))
    if attempts > 1:
        marks.append(Mark(f"{attempts} attempts", WARN if status < 400 else BAD))
    if event.get("stream") is True:
        marks.append(Mark("stream"))
    if event.get("cached") is True:
        marks.append(Mark("cached", "info"))
    if event.get("estimated") is True:
        marks.append(Mark("estimated", WARN))
    return tuple(marks)


def key_of(key_sha256: str, names: Mapping[str, str]) -> KeyMark:
    """Return whose a request was."""
    name = names.get(key_sha256)
    if name is not None:
        return KeyMark(name, key_path(name), name)
    return KeyMark(one_line(key_sha256, HASH_CHARS) or "no key", "", key_sha256)


def attempts_of(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the attempts of an event."""
    attempts = event.get("attempts")
    if not isinstance(attempts, list):
        return []
    return [attempt for attempt in attempts if isinstance(attempt, dict)]


def status_of(attempt: Mapping[str, Any]) -> int | None:
    """Return the upstream's status of an attempt; ``None`` where no head came."""
    return number(attempt, "status") or None


def tokens_in(event: Mapping[str, Any]) -> int:
    """Return the input of an event, of all kinds."""
    names = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens")
    return sum(number(event, name) for name in names)


def cost_of(event: Mapping[str, Any]) -> int:
    """Return what an event cost, in nano-dollars."""
    try:
        return parse_usd(text(event, "cost_usd") or "0")
    except InvalidMoney:
        return 0


def text(event: Mapping[str, Any], name: str) -> str:
    """Return a member that is text; the empty string for anything else."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def number(event: Mapping[str, Any], name: str) -> int:
    """Return a member that is a whole number; 0 for anything else."""
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
