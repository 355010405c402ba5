"""Bodies that come packed (RFC 9110, 8.4): gzip and deflate, unpacked as they come.

Providers are asked for ``identity``; some servers before them pack all the same. A
:class:`PackedReader` stands around the reader of the framing and gives the bytes that were
packed, a bounded slice at a time, so that a small packed body can be neither much memory nor
a long turn. Nothing is repaired: what the coding does not allow is refused.
"""

from __future__ import annotations

import zlib

from omnigate.wire.body import BodyReader, FramingError, TruncatedBody
from omnigate.wire.head import ResponseHead

#: Unpacked bytes given at once: as many as one read of a socket gives of a body that is not
#: packed, so that a packed one costs no more in one go. Deflate makes up to 1,032 bytes of one.
SLICE_BYTES = 65536

# What zlib takes for its window bits: its own wrapping, that of gzip, or none.
_ZLIB = zlib.MAX_WBITS
_GZIP = 16 + zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS

_GZIP_NAMES = (b"gzip", b"x-gzip")
_UNPACKED = (*_GZIP_NAMES, b"deflate")


def coding_of(head: ResponseHead) -> bytes:
    """What an answer's body is packed in, in small letters; empty for ``identity``."""
    coding = head.headers.get(b"content-encoding", b"").lower()
    return b"" if coding == b"identity" else coding


def is_readable(head: ResponseHead) -> bool:
    """Whether an answer's body comes plain, or in one coding that is unpacked here."""
    coding = coding_of(head)
    return not coding or coding in _UNPACKED


def packed_reader(head: ResponseHead, framing: BodyReader) -> PackedReader | None:
    """Make the reader for a packed answer.

    :param framing: reads the body out of its framing.
    :returns: ``None`` where there is nothing to unpack, or nothing that can be.
    """
    coding = coding_of(head)
    if coding not in _UNPACKED or head.framing == "none":
        return None
    return PackedReader(framing, is_gzip=coding in _GZIP_NAMES)


class PackedReader:
    """Reads a body that is packed inside its framing.

    It is fed like the readers of :mod:`omnigate.wire.body`. One feed gives at most
    :data:`SLICE_BYTES`; while :attr:`more` holds, feed it again, be it with nothing. A body of
    no bytes at all is an empty one: servers name a coding beside it, too.

    :param is_gzip: else it is deflate: with zlib's wrapping as it should be, or without it as
        some servers send it (RFC 9110, 8.4.1.2).
    :ivar more: bytes that came have not been unpacked yet.
    """

    __slots__ = ("_begun", "_framing", "_is_gzip", "_member", "_waiting", "more")

    def __init__(self, framing: BodyReader, *, is_gzip: bool) -> None:
        self._framing = framing
        self._is_gzip = is_gzip
        self._member = zlib.decompressobj(_GZIP) if is_gzip else None
        self._waiting = b""  # came, and is not unpacked yet
        self._begun = False
        self.more = False

    @property
    def ended(self) -> bool:
        """Whether the body's framing has ended, and everything in it was given."""
        return self._framing.ended and not self.more

    @property
    def rest(self) -> bytes:
        """What came behind the body."""
        return self._framing.rest

    def feed(self, data: bytes) -> bytes:
        """Take one read and return a slice of the payload.

        :raises FramingError: the framing or the coding cannot be read on; call no more.
        """
        packed = self._framing.feed(data)
        if self._waiting:
            packed = self._waiting + packed
        if packed:
            self._begun = True
        member = self._member
        if member is None:
            if len(packed) < 2:
                self._waiting = packed
                return b""
            member = self._member = zlib.decompressobj(_ZLIB if _has_zlib_head(packed) else _RAW)
        room = SLICE_BYTES
        pieces = []
        while True:
            if member.eof and packed:
                if not self._is_gzip:
                    raise FramingError("bytes follow the end of a packed body")
                # One member after another is one body (RFC 1952, 2.2).
                member = self._member = zlib.decompressobj(_GZIP)
            try:
                piece = member.decompress(packed, room)
            except zlib.error as error:
                raise FramingError(f"a packed body cannot be unpacked ({error})") from None
            pieces.append(piece)
            room -= len(piece)
            packed = member.unused_data if member.eof else member.unconsumed_tail
            if not room or not packed:
                break
        self._waiting = packed
        # With no room left there may be more in the unpacker itself.
        self.more = bool(packed) or not (room or member.eof)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """The connection or the framing has ended.

        :raises TruncatedBody: when bytes are missing, of the framing or of the coding.
        """
        self._framing.finish()
        if self._begun and not (self._member is not None and self._member.eof):
            raise TruncatedBody("the body ended before what is packed in it")


def _has_zlib_head(packed: bytes) -> bool:
    """Whether a deflate body begins with zlib's two bytes (RFC 1950, 2.2).

    No body without them can begin so: its first block would be a stored one, padded with a
    bit that all packers leave at zero.
    """
    first, second = packed[0], packed[1]
    return first & 15 == 8 and first >> 4 <= 7 and not (first << 8 | second) % 31
