"""What each party of a soak writes down: one JSON object a line, read back at the end."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Attempt(msgspec.Struct, gc=False):
    """One request as a provider got it, and what became of its answer.

    :ivar serial: counts the attempts at all upstreams; the figures follow from it.
    :ivar fault: what was played.
    :ivar says: whether the closing figures went out: ``yes``, ``no``, or ``may`` where it is
        chance whether the gateway could read them.
    :ivar left: whether the gateway was gone before the play was over.
    :ivar pieces: of the payload that went out, of ``total``.
    :ivar sent_bytes: of the payload.
    :ivar text_bytes: of generated text within them, in a stream.
    :ivar crc: of the whole payload as a client gets it, comments left out.
    :ivar began_at: seconds on the machine's monotonic clock, like ``ended_at``.
    :ivar odd: what was wrong with the request; empty for nothing.
    """

    serial: int
    mark: int
    upstream: str
    kind: str
    stream: bool
    fault: str
    status: int
    says: str
    left: bool
    pieces: int
    total: int
    sent_bytes: int
    text_bytes: int
    crc: int
    began_at: float
    ended_at: float
    odd: str = ""


class Asked(msgspec.Struct, gc=False):
    """One request as its client saw it.

    :ivar mark: its number; requests to the cached route share some.
    :ivar kind: what was asked, a key of the mix.
    :ivar manner: how the client behaved.
    :ivar address: of the connection's client end; no two connections of a soak have the same.
    :ivar key: the name of its key; empty for none.
    :ivar lines: lines that it must leave in the access log: 1, 0, or -1 where it is chance.
    :ivar sent: whether the request went out whole.
    :ivar body_bytes: of the request.
    :ivar status: of the answer; 0 where no head came.
    :ivar code: of the gateway's own error, empty for none.
    :ivar id: the request id of the answer.
    :ivar upstream: which the answer names.
    :ivar cached: whether the answer says that it came out of the cache.
    :ivar whole: whether the answer came to its proper end.
    :ivar body_crc: of the answer's payload, comments left out.
    :ivar answer_bytes: of it.
    :ivar left_at: when the client left or stalled, by the monotonic clock; 0 for never.
    :ivar fault: what a client must never see; empty for nothing.
    """

    mark: int
    kind: str
    manner: str
    model: str
    stream: bool
    address: str
    key: str
    lines: int
    expected: list[str]
    sent: bool = False
    body_bytes: int = 0
    status: int = 0
    code: str = ""
    id: str = ""
    upstream: str = ""
    cached: bool = False
    whole: bool = False
    body_crc: int = 0
    answer_bytes: int = 0
    left_at: float = 0.0
    ended_at: float = 0.0
    fault: str = ""


class LogLine(msgspec.Struct, gc=False):
    """What is needed of a line of the access log."""

    request_id: str
    key: str | None
    status: int
    error_code: str | None
    client: str
    bytes_in: int
    upstream: str | None = None


class Tried(msgspec.Struct, gc=False):
    """One entry of an event's list of attempts."""

    upstream: str
    outcome: str


class Event(msgspec.Struct, gc=False):
    """What is needed of a line of the ledger; the cost as the digits that stand there."""

    id: str
    key_sha256: str
    route_model: str
    upstream: str | None
    target_model: str | None
    status: int
    stream: bool
    input_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    output_tokens: int
    cached: bool
    estimated: bool
    cost_usd: msgspec.Raw
    endpoint: str
    attempts: list[Tried]

    @property
    def tokens(self) -> tuple[int, int, int, int]:
        """Input, cached, written, output."""
        return (
            self.input_tokens,
            self.cached_input_tokens,
            self.cache_write_input_tokens,
            self.output_tokens,
        )


class Book:
    """A file that lines are added to."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._encode = msgspec.json.Encoder().encode

    def add(self, line: msgspec.Struct) -> None:
        """Write one line down."""
        self._file.write(self._encode(line) + b"\n")

    def close(self) -> None:
        """Bring everything into the file."""
        self._file.close()


def read_book(path: Path, kind: type[T]) -> list[T]:
    """Read a book back.

    :raises msgspec.DecodeError: a line is not what was written
    """
    decode = msgspec.json.Decoder(kind).decode
    return [decode(line) for line in _lines((path,))]


def read_log(paths: Iterable[Path]) -> list[LogLine]:
    """Read an access log out of its rotated files, the oldest first."""
    decode = msgspec.json.Decoder(LogLine).decode
    return [decode(line) for line in _lines(paths)]


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as lines:
            yield from lines
