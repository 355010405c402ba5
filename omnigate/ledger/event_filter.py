"""Which usage events somebody looks for, and how a block of lines is gone through for them quickly.

A line is decoded only where it may be one of those: it holds a *token* that every such line holds,
or a backslash, since JSON may write any character as an escape. A token only saves work; whether
an event is wanted is decided on the decoded one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs
import msgspec

from omnigate.ledger.lines import DamagedLineError, NewerLineError, decode_line

#: Words for kinds of statuses, each with the lowest and the highest that it means. 499 is what is
#: recorded of an answer that broke off.
STATUS_KINDS: Final = {
    "ok": (100, 399),
    "failed": (400, 599),
    "4xx": (400, 499),
    "5xx": (500, 599),
    "cut": (499, 499),
}

_STATUS: Final = re.compile(r"[1-5][0-9]{2}", re.ASCII)

#: What the status of a failed request begins with, wherever in a line one stands.
_STATUS_TOKENS: Final = {
    (400, 599): rb'"status"\s*:\s*[45]',
    (400, 499): rb'"status"\s*:\s*4',
    (500, 599): rb'"status"\s*:\s*5',
}


class SearchedAttempt(msgspec.Struct, gc=False):
    """What is looked at of an attempt."""

    upstream: str = ""


class SearchedEvent(msgspec.Struct, gc=False):
    """What is looked at of an event."""

    id: str
    key_sha256: str
    route_model: str
    ts_ms: int
    received_at: str
    upstream: str | None = None
    status: int = 0
    attempts: list[SearchedAttempt] = msgspec.field(default_factory=list)


_decode = msgspec.json.Decoder(SearchedEvent).decode


def read_searched(line: bytes) -> SearchedEvent | None:
    """Read of a line what is looked at; ``None`` for one that cannot be read.

    A line that can be counted is one that can be searched, whatever its other members are like.
    Its checksum is not looked at here.
    """
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        event, _ = decode_line(line)
    except (DamagedLineError, NewerLineError):
        return None
    return SearchedEvent(
        event.id,
        event.key_sha256,
        event.route_model,
        event.ts_ms,
        event.received_at,
        event.upstream,
    )


def parse_status(text: str) -> tuple[int, int]:
    """Return the lowest and the highest status that a word or a number means.

    :raises ValueError: it is neither; the text says what is.
    """
    kind = STATUS_KINDS.get(text)
    if kind is not None:
        return kind
    if not _STATUS.fullmatch(text):
        raise ValueError(f"status must be from 100 to 599, or one of {', '.join(STATUS_KINDS)}")
    return int(text), int(text)


@attrs.frozen
class EventFilter:
    """Which events are wanted: those that have all that is asked for.

    :ivar id: of this request id.
    :ivar key_hashes: of a key that has, or had, one of these hashes.
    :ivar model: asked for by this name.
    :ivar upstream: sent there in any attempt.
    :ivar statuses: from the one to the other.
    :ivar since_ms: ended at this instant or later, in milliseconds since 1970.
    :ivar until_ms: ended before this instant.
    """

    id: str | None = None
    key_hashes: frozenset[str] | None = None
    model: str | None = None
    upstream: str | None = None
    statuses: tuple[int, int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, event: SearchedEvent) -> bool:
        """Tell whether an event is wanted."""
        return (
            (self.id is None or event.id == self.id)
            and (self.key_hashes is None or event.key_sha256 in self.key_hashes)
            and (self.model is None or event.route_model == self.model)
            and (self.statuses is None or self.statuses[0] <= event.status <= self.statuses[1])
            and (self.since_ms is None or event.ts_ms >= self.since_ms)
            and (self.until_ms is None or event.ts_ms < self.until_ms)
            and (self.upstream is None or self.upstream in upstreams_of(event))
        )

    def token(self) -> re.Pattern[bytes] | bytes | None:
        """Return what every wanted line holds, unless it holds a backslash; the rarest there is."""
        if self.id is not None:
            return _quoted(self.id)
        if self.key_hashes is not None:
            if len(self.key_hashes) == 1:
                return _quoted(*self.key_hashes)
            hashes = b"|".join(re.escape(_quoted(each)) for each in sorted(self.key_hashes))
            return re.compile(hashes) if hashes else None
        if self.statuses in _STATUS_TOKENS:
            return re.compile(_STATUS_TOKENS[self.statuses])
        if self.statuses is not None and self.statuses[0] == self.statuses[1] >= 400:
            return re.compile(rb'"status"\s*:\s*%d' % self.statuses[0])
        if self.upstream is not None:
            return _quoted(self.upstream)
        return None if self.model is None else _quoted(self.model)


def upstreams_of(event: SearchedEvent) -> Iterator[str | None]:
    """Yield where an event was sent: where the answer came from, and every attempt."""
    yield event.upstream
    for attempt in event.attempts:
        yield attempt.upstream


def line_starts(block: bytes, token: re.Pattern[bytes] | bytes | None) -> list[int]:
    """Return where the lines of a block begin that may be wanted, rising.

    :param block: whole lines.
    :param token: what such a line holds; ``None`` where any may be.
    """
    if token is None:
        return list(_all_starts(block))
    starts = set(_starts(block, token))
    if b"\\" in block:
        starts.update(_starts(block, b"\\"))
    return sorted(starts)


def _all_starts(block: bytes) -> Iterator[int]:
    start = 0
    while start < len(block):
        yield start
        end = block.find(b"\n", start)
        start = len(block) if end < 0 else end + 1


def _starts(block: bytes, token: re.Pattern[bytes] | bytes) -> Iterator[int]:
    """Yield where the lines begin that hold a token, each once."""
    at = 0
    while True:
        if isinstance(token, bytes):
            place = block.find(token, at)
        else:
            found = token.search(block, at)
            place = -1 if found is None else found.start()
        if place < 0:
            return
        yield block.rfind(b"\n", 0, place) + 1
        at = block.find(b"\n", place) + 1
        if not at:
            return


def _quoted(text: str) -> bytes:
    return b'"%b"' % text.encode("utf-8", "replace")
