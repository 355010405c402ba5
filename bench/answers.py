"""One answer as a client sees it: the head, the framing, and whether the payload is the right one.

No sockets and no clock in here. The reading is the benchmark's own, not the product's, so that a
fault in the product's framing does not hide in its measurement.
"""

import re
from typing import Protocol

from bench import traffic

# A head of ours is under 2 KiB.
MAX_HEAD_BYTES = 16 * 1024
# The largest answer of the benchmark is a paced stream: some 300 bytes an event.
MAX_ANSWER_BYTES = 16 * 1024 * 1024
# How much of a wrong answer a fault quotes.
_QUOTED_BYTES = 300
# A chunk's size takes ten bytes; extensions are rare and short.
_MAX_CHUNK_LINE = 100

_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})\b")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})(?:;[^\r\n]*)?\r\n")


class WrongAnswerError(Exception):
    """An answer is not the one that was asked for; the text says how."""


class Payload(Protocol):
    """What a reader hands the payload to, without its framing."""

    def take(self, data: bytes, now_ns: int) -> None:
        """Take in what came in one read."""

    def finish(self) -> None:
        """Judge what came.

        :raises WrongAnswerError: when anything is missing, changed or too much
        """


class ExactPayload:
    """A payload that is known to the byte."""

    def __init__(self, expected: bytes) -> None:
        self._expected = expected
        self._pieces: list[bytes] = []

    def take(self, data: bytes, now_ns: int) -> None:
        """Keep it."""
        self._pieces.append(data)

    def finish(self) -> None:
        """Compare it.

        :raises WrongAnswerError: with the place of the first difference
        """
        got = b"".join(self._pieces)
        self._pieces = []
        if got != self._expected:
            raise WrongAnswerError(_difference(got, self._expected))


class PacedPayload:
    """A paced stream: every event once, in order, and how long each was on its way.

    :ivar delays_ns: of the events so far; given from outside, so that several streams share one.
    """

    def __init__(self, events: int, delays_ns: list[int]) -> None:
        self.delays_ns = delays_ns
        self._events = events
        self._next = 0
        self._held = b""

    def take(self, data: bytes, now_ns: int) -> None:
        """Read the events that are complete.

        :raises WrongAnswerError: an event is missing, changed, or not in its place
        """
        data = self._held + data
        at = 0
        while self._next < self._events and len(data) - at >= traffic.PACED_EVENT_BYTES:
            event = data[at : at + traffic.PACED_EVENT_BYTES]
            read = traffic.read_paced_event(event)
            if read is None or read[0] != self._next:
                raise WrongAnswerError(f"event {self._next} is not what was sent: {_quoted(event)}")
            self.delays_ns.append(now_ns - read[1])
            self._next += 1
            at += traffic.PACED_EVENT_BYTES
        self._held = data[at:]

    def finish(self) -> None:
        """Judge the end.

        :raises WrongAnswerError: events are missing, or the end is not the one that was sent
        """
        if self._next < self._events:
            raise WrongAnswerError(f"the stream ended after {self._next} of {self._events} events")
        expected = traffic.stream_end("paced", self._events, with_usage=False)
        if self._held != expected:
            raise WrongAnswerError(_difference(self._held, expected))


class ChunkDecoder:
    """Takes HTTP's chunked coding off; trailers are wrong here, for nobody sends any.

    :ivar ended: whether the last chunk was read to its end.
    """

    def __init__(self) -> None:
        self.ended = False
        self._held = b""
        self._left = 0  # of the chunk under way
        self._line_end = False  # whether one is due: behind a chunk, or behind the last one
        self._last = False

    def feed(self, data: bytes) -> bytes:
        """Return what was in the chunks.

        :raises WrongAnswerError: the coding is broken, or something stands behind its end
        """
        data = self._held + data
        at = 0
        pieces = []
        while not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._line_end = not self._left
            if self._line_end and len(data) - at >= 2:
                if data[at : at + 2] != b"\r\n":
                    raise WrongAnswerError(f"a chunk is longer than it said: {_quoted(data[at:])}")
                at += 2
                self._line_end = False
                self.ended = self._last
                continue
            found = None if self._left or self._line_end else _CHUNK_SIZE.match(data, at)
            if found is None:
                break
            at = found.end()
            self._left = int(found[1], 16)
            self._last = self._line_end = not self._left
        self._held = data[at:]
        if self.ended and self._held:
            raise WrongAnswerError(f"more comes behind the last chunk: {_quoted(self._held)}")
        if not self._left and len(self._held) > _MAX_CHUNK_LINE:
            raise WrongAnswerError(f"no chunk begins here: {_quoted(self._held)}")
        return b"".join(pieces)


class AnswerReader:
    """Takes one answer apart as it comes.

    :ivar ended: whether all of it is there.
    :ivar keeps: whether the connection may be used again.
    """

    def __init__(self, payload: Payload) -> None:
        self.ended = False
        self.keeps = True
        self._payload = payload
        self._held = b""
        self._in_body = False
        self._chunks: ChunkDecoder | None = None
        self._left = 0
        self._size = 0

    def feed(self, data: bytes, now_ns: int) -> None:
        """Take in one read.

        :param now_ns: when it came, by the monotonic clock.
        :raises WrongAnswerError: this cannot become the answer that was asked for
        """
        self._size += len(data)
        if self._size > MAX_ANSWER_BYTES:
            raise WrongAnswerError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        if not self._in_body:
            data = self._held + data
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                if len(data) > MAX_HEAD_BYTES:
                    raise WrongAnswerError(f"no head ends within {MAX_HEAD_BYTES} bytes")
                self._held = data
                return
            self._read_head(data[:end], data[end:])
            data = data[end:]
        if self._chunks is not None:
            self._payload.take(self._chunks.feed(data), now_ns)
            self.ended = self._chunks.ended
        elif len(data) <= self._left:
            self._payload.take(data, now_ns)
            self._left -= len(data)
            self.ended = not self._left
        else:
            raise WrongAnswerError(f"more comes behind the answer: {_quoted(data[self._left :])}")
        if self.ended:
            self._payload.finish()

    def lost(self) -> WrongAnswerError:
        """Return what to say when the connection ends before the answer does."""
        state = "within its body" if self._in_body else "before its head was whole"
        return WrongAnswerError(f"the connection was closed after {self._size} bytes, {state}")

    def _read_head(self, head: bytes, rest: bytes) -> None:
        status = _STATUS.match(head)
        if status is None or status[1] != b"200":
            line = head.partition(b"\r\n")[0]
            raise WrongAnswerError(f"the answer is no 200: {_quoted(line + b' | ' + rest)}")
        length = _LENGTH.search(head)
        chunked = _CHUNKED.search(head) is not None
        if chunked == (length is not None):
            raise WrongAnswerError(f"the head does not tell one length: {_quoted(head)}")
        self._chunks = ChunkDecoder() if chunked else None
        self._left = int(length[1]) if length else 0
        self.keeps = _CLOSE.search(head) is None
        self._in_body = True


def _difference(got: bytes, expected: bytes) -> str:
    """Say where two payloads part, and what came there."""
    pairs = enumerate(zip(got, expected, strict=False))
    place = next((at for at, (one, other) in pairs if one != other), min(len(got), len(expected)))
    return (
        f"the payload has {len(got)} bytes where {len(expected)} were sent, and differs from byte "
        f"{place} on: {_quoted(got[place:])} instead of {_quoted(expected[place:])}"
    )


def _quoted(data: bytes) -> str:
    """Return the beginning of some bytes, as Python writes them."""
    return repr(data[:_QUOTED_BYTES]) + ("..." if len(data) > _QUOTED_BYTES else "")
