"""Readers of framed bodies (RFC 9112, 6 and 7).

A reader is fed what a read of the socket gave and returns the payload bytes in
it, joined: no call and no object per chunk leaves it. Where the framing is not
plainly right it raises; nothing is repaired. After the end, ``rest`` holds the
bytes that belong to whatever follows on the connection.
"""

from __future__ import annotations

import re

import msgspec

from omnigate.wire.head import ResponseHead

#: The largest chunk believed: a tebibyte, far above any answer, and small enough
#: that no sum of sizes meets a limit.
MAX_CHUNK_BYTES = 1 << 40
#: A chunk-size line with its extensions. Sizes take 16 digits at most; the few
#: servers that sign chunks write about 90 bytes.
MAX_CHUNK_LINE_BYTES = 1024
#: All trailer lines of one body together.
MAX_TRAILER_BYTES = 8192

#: The chunk that ends a body, without trailers.
LAST_CHUNK = b"0\r\n\r\n"

# The size, blanks that RFC 9112 7.1.1 tells readers to bear, and extensions,
# which are not looked at.
_size_line = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*+(?:;[\t\x20-\x7e\x80-\xff]*+)?").fullmatch
_trailer_line = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t\x20-\x7e\x80-\xff]*+").fullmatch
# Small sizes as they are mostly written; a look-up costs a third of the pattern.
_SMALL_SIZES = {b"%x" % size: size for size in range(1, 1024)}
# What stands before the payload of a chunk of a size.
_FRONTS = [b"%x\r\n" % size for size in range(1024)]
# What a read of a length begins with, where it is one whole chunk.
_WHOLE_FRONTS = {len(front) + size + 2: front for size, front in enumerate(_FRONTS) if size}
# Chunks of one read that are taken apart together; it is worth while from a few on.
_RUN_CHUNKS = 256
_RUN_FROM_BYTES = 1024

_small_size = _SMALL_SIZES.get
_whole_front = _WHOLE_FRONTS.get


def chunk(payload: bytes) -> bytes:
    """Return a piece of a body as a chunk; an empty one would be the end."""
    size = len(payload)
    front = _FRONTS[size] if size < len(_FRONTS) else b"%x\r\n" % size
    return b"".join((front, payload, b"\r\n"))


class FramingError(Exception):
    """A body whose framing cannot be trusted; close the connection.

    :param reason: one sentence for the log.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TruncatedBody(Exception):  # noqa: N818
    """The connection ended before the body did."""


class LengthReader:
    """Reads a body of a known length; ``length`` 0 has ended at once."""

    __slots__ = ("_left", "ended", "rest")

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take one read and return the payload in it."""
        left = self._left
        size = len(data)
        if size < left:
            self._left = left - size
            return data
        self._left = 0
        self.ended = True
        if size == left:
            return data
        self.rest += data[left:]
        return data[:left]

    def finish(self) -> None:
        """The connection has ended.

        :raises TruncatedBody: when bytes are missing.
        """
        if not self.ended:
            raise TruncatedBody(f"{self._left} bytes of the declared length are missing")


class CloseReader:
    """Reads a body that lasts until the connection ends."""

    __slots__ = ("ended", "rest")

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take one read and return it: all of it is payload."""
        if self.ended:
            self.rest += data
            return b""
        return data

    def finish(self) -> None:
        """The connection has ended, and with it the body."""
        self.ended = True


# States of a ChunkedReader: where in the grammar the next byte stands.
_SIZE = 0  # at the start of a chunk-size line
_DATA = 1  # inside a chunk's payload
_CLOSE = 2  # at the CRLF behind a payload
_TRAILER = 3  # behind the last chunk: trailer lines or the blank line
_END = 4  # behind the body


class ChunkedReader(msgspec.Struct, eq=False, gc=False):
    """Reads a body in chunked coding; extensions and trailers are bounded and dropped.

    The collector need not look at it: it holds no containers, and there is one for each stream.
    """

    _state: int = _SIZE
    _left: int = 0  # payload bytes of the open chunk still to come
    _held: bytes = b""  # the cut beginning of a line
    _trailer_bytes: int = 0
    ended: bool = False
    rest: bytes = b""

    def feed(self, data: bytes) -> bytes:
        """Take one read and return the payload in it.

        :raises FramingError: the body cannot be read on; call no more.
        """
        if self._held:
            data = self._held + data
            self._held = b""
        elif self._state == _SIZE:
            # Nearly each read of a stream is one chunk.
            front = _whole_front(len(data))
            if front is not None:
                payload = data.removeprefix(front).removesuffix(b"\r\n")
                if len(data) - len(payload) == len(front) + 2:
                    return payload
        size = len(data)
        pos = 0
        if self._state == _DATA:
            left = self._left
            if left >= size:
                self._left = left - size
                if left == size:
                    self._state = _CLOSE
                return data
            pieces = [data[:left]]
            pos = left
            self._state = _CLOSE
        else:
            pieces = []
        if self._state == _CLOSE:
            pos = self._close_chunk(data, pos)
        if self._state == _SIZE:
            pos = self._read_chunks(data, pos, pieces)
        if self._state >= _TRAILER:
            if self._state == _TRAILER:
                self._read_trailer(data, pos)
            else:
                self.rest += data
        if len(pieces) == 1:
            return pieces[0]
        return b"".join(pieces)

    def _close_chunk(self, data: bytes, pos: int) -> int:
        """Read the CRLF that closes a payload."""
        if data.startswith(b"\r\n", pos):
            self._state = _SIZE
            return pos + 2
        if len(data) > pos + 1 or data[pos:] not in (b"", b"\r"):
            raise FramingError("a chunk is not closed by CRLF")
        self._held = data[pos:]
        return len(data)

    def _read_chunks(self, data: bytes, pos: int, pieces: list[bytes]) -> int:
        """Read chunks from a size line on; the loop that every stream runs through."""
        size = len(data)
        if size - pos >= _RUN_FROM_BYTES:
            pos = _read_run(data, pos, pieces)
        while pos < size:
            eol = data.find(b"\r\n", pos, pos + MAX_CHUNK_LINE_BYTES)
            if eol < 0:
                self._hold_size_line(data, pos)
                return size
            line = data[pos:eol]
            length = _small_size(line) or _chunk_size(line)
            start = eol + 2
            if length == 0:
                self._state = _TRAILER
                return start
            end = start + length
            pos = end + 2
            if pos <= size:
                if data[end:pos] != b"\r\n":
                    raise FramingError("a chunk is not closed by CRLF")
                pieces.append(data[start:end])
                continue
            if end > size:
                self._state = _DATA
                self._left = end - size
                if start < size:
                    pieces.append(data[start:])
                return size
            pieces.append(data[start:end])
            self._state = _CLOSE
            return self._close_chunk(data, end)
        return pos

    def _hold_size_line(self, data: bytes, pos: int) -> None:
        """Keep the cut beginning of a size line, if it may become one."""
        held = data[pos:]
        if len(held) >= MAX_CHUNK_LINE_BYTES:
            raise FramingError("a chunk-size line is too long")
        if _size_line(held) is None and _size_line(held.removesuffix(b"\r")) is None:
            raise FramingError("a chunk size is not a plain hexadecimal number")
        self._held = held

    def _read_trailer(self, data: bytes, pos: int) -> None:
        """Read and drop trailer lines up to the blank line that ends the body."""
        while True:
            if data.startswith(b"\r\n", pos):
                self._state = _END
                self.ended = True
                self.rest = data[pos + 2 :]
                return
            budget = MAX_TRAILER_BYTES - self._trailer_bytes
            eol = data.find(b"\r\n", pos, pos + budget)
            if eol < 0:
                held = data[pos:]
                if len(held) >= budget:
                    raise FramingError("the trailer is too long")
                if b"\n" in held:
                    raise FramingError("a trailer line is not ended by CRLF")
                self._held = held
                return
            if _trailer_line(data, pos, eol) is None:
                raise FramingError("a trailer line is outside the grammar")
            self._trailer_bytes += eol + 2 - pos
            pos = eol + 2

    def finish(self) -> None:
        """The connection has ended.

        :raises TruncatedBody: when the last chunk has not come.
        """
        if not self.ended:
            raise TruncatedBody("the connection ended before the last chunk")


def _read_run(data: bytes, pos: int, pieces: list[bytes]) -> int:
    """Read small chunks without CRLF in their payload, up to the first that is none of these.

    They are cut and compared by a few calls for all of them, in a third of the time.

    :param pieces: is given their payloads.
    :returns: where the first other begins.
    """
    eol = data.find(b"\r\n", pos, pos + MAX_CHUNK_LINE_BYTES)
    length = _small_size(data[pos:eol]) if eol >= 0 else None
    if length is None or data.find(b"\r\n", eol + 2) != eol + 2 + length:
        return pos
    lines = data[pos:].split(b"\r\n", 2 * _RUN_CHUNKS)
    lines.pop()  # it has no end yet, or begins another run
    sizes = list(map(_small_size, lines[::2]))
    payloads = lines[1::2]
    lengths = list(map(len, payloads))
    if sizes != lengths:
        pairs = zip(sizes, lengths, strict=False)
        count = next(
            (at for at, (size, length) in enumerate(pairs) if size != length), len(lengths)
        )
        del payloads[count:]
        del lines[2 * count :]
    pieces += payloads
    return pos + sum(map(len, lines)) + 2 * len(lines)


def _chunk_size(line: bytes) -> int:
    """Read a chunk-size line without its CRLF."""
    match = _size_line(line)
    if match is None:
        raise FramingError("a chunk size is not a plain hexadecimal number")
    size = int(match[1], 16)
    if size > MAX_CHUNK_BYTES:
        raise FramingError("a chunk is larger than any answer")
    return size


BodyReader = LengthReader | ChunkedReader | CloseReader


def reader_for(head: ResponseHead) -> BodyReader:
    """Make the reader that an answer's framing asks for."""
    if head.framing == "chunked":
        return ChunkedReader()
    if head.framing == "length":
        return LengthReader(head.content_length)
    if head.framing == "close":
        return CloseReader()
    return LengthReader(0)
