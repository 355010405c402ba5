"""Reads stored files piece by piece in a thread, no faster than whoever takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.files import file_size, read_pieces
from omnigate.writer_thread import IWriter

#: Files that are read at once, each with a descriptor and two pieces of 256 KiB.
MAX_READS: Final = 128

#: Whoever takes nothing for so long is left.
STALL_SECONDS: Final = 120.0

_log = Logger()


class GoneError(Exception):
    """A file is not there any more, or is not the one that was stored."""


class Taker(Protocol):
    """Whom a file is written to: :class:`~omnigate.control.byte_stream.ByteStream`."""

    closed: Callable[[], None]
    turned: Callable[[], None]

    @property
    def has_room(self) -> bool:
        """Whether it takes one more piece."""

    def write(self, data: bytes) -> None:
        """Take a piece."""

    def end(self) -> None:
        """There is no more; whatever was promised beyond that is broken off."""


class FileReads:
    """Reads files.

    :param reader: in whose thread; nothing is written there.
    :ivar open: how many are being read.
    """

    def __init__(self, reader: IWriter, clock: IReactorTime) -> None:
        self.reader = reader
        self.clock = clock
        self.open = 0

    @property
    def has_room(self) -> bool:
        """Whether one more may be read."""
        return self.open < MAX_READS

    async def check(self, path: str, size: int) -> None:
        """Make sure that a file is there.

        :param size: the length that it has.
        :raises GoneError: it is not.
        :raises OSError: it cannot be looked at.
        """
        if await self.reader.submit(partial(file_size, path)) != size:
            raise GoneError

    async def head(self, path: str, length: int) -> bytes:
        """Return the first bytes of a file, or all of it where there are not so many.

        :raises GoneError: it is not there.
        :raises OSError: it cannot be read.
        """
        try:
            return await self.reader.submit(partial(_head, path, length))
        except FileNotFoundError:
            raise GoneError from None

    async def length(self, path: str) -> int:
        """Return how long a file is.

        :raises GoneError: it is not there.
        :raises OSError: it cannot be looked at.
        """
        length = await self.reader.submit(partial(file_size, path))
        if length is None:
            raise GoneError
        return length

    def send(
        self,
        path: str,
        begin: int,
        end: int,
        taker: Taker,
        *,
        before: bytes = b"",
        after: bytes = b"",
    ) -> None:
        """Write a part of a file to whoever takes it, and end it then.

        :param begin: from where on, and ``end`` before what.
        :param before: what is written before it, and ``after`` behind it.
        """
        self.open += 1
        _FileRead(self, _pieces(path, begin, end, before, after), taker).begin()


def _pieces(path: str, begin: int, end: int, before: bytes, after: bytes) -> Iterator[bytes]:
    if before:
        yield before
    yield from read_pieces(path, begin, end)
    if after:
        yield after


def _head(path: str, length: int) -> bytes:
    return b"".join(read_pieces(path, 0, length))


class _FileRead:
    """One file that is being read."""

    def __init__(self, reads: FileReads, pieces: Iterator[bytes], taker: Taker) -> None:
        self._reads = reads
        self._pieces = pieces
        self._taker = taker
        self._ready: bytes | None = None
        self._reading = False
        self._stall: IDelayedCall | None = None
        self._closed = False

    def begin(self) -> None:
        self._taker.closed = self._close
        self._taker.turned = self._go_on
        self._go_on()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._reads.open -= 1
        self._clear_stall()
        # Behind a read that is under way.
        closing = self._reads.reader.submit(self._pieces.close)  # type: ignore[attr-defined]
        closing.addErrback(lambda _: None)

    def _go_on(self) -> None:
        """Write what is ready, if there is room, and read one piece ahead."""
        self._clear_stall()
        if self._closed:
            return
        if not self._taker.has_room:
            self._stall = self._reads.clock.callLater(STALL_SECONDS, self._taker.end)
        elif self._ready is not None:
            piece, self._ready = self._ready, None
            # It may turn within.
            self._taker.write(piece)
        if not self._closed and not self._reading and self._ready is None:
            self._reading = True
            reading = self._reads.reader.submit(partial(next, self._pieces, b""))
            reading.addCallbacks(self._read, self._failed)

    def _read(self, piece: bytes) -> None:
        self._reading = False
        if self._closed:
            return
        if piece:
            self._ready = piece
            self._go_on()
        else:
            self._taker.end()

    def _failed(self, failure: Failure) -> None:
        self._reading = False
        _log.warn("a stored file broke off: {reason}", reason=failure.getErrorMessage())
        self._taker.end()

    def _clear_stall(self) -> None:
        stall, self._stall = self._stall, None
        if stall is not None and stall.active():
            stall.cancel()
