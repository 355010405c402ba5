"""Sends the body of a request piece by piece, no faster than the peer takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, Final, TypeAlias, TypeVar
from typing import Protocol as Shape

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from omnigate.named_files import open_at_once

T = TypeVar("T")

#: Bytes handed to a connection at once: what a socket takes; TLS needs less than 1 ms for them.
PIECE_BYTES: Final = 65536


class Submit(Shape):
    """Does disk work in order, in a thread (:class:`omnigate.writer_thread.IWriter`)."""

    def __call__(self, job: Callable[[], T], /) -> Deferred[T]:
        """Fire with what ``job`` returned, or fail with what it raised."""


class Pieces(Shape):
    """Where a body comes from."""

    def take(self) -> bytes | Deferred[bytes]:
        """The next piece, at once or later; empty at the end."""

    def close(self) -> None:
        """No more are taken."""


class MemoryPieces:
    """A body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self) -> bytes:
        """Cut a piece off."""
        piece = self._body[self._at : self._at + PIECE_BYTES]
        self._at += len(piece)
        return piece

    def close(self) -> None:
        """Nothing is open."""


class FilePieces:
    """A file, read in a thread.

    :param submit: does the reading, in order.
    """

    def __init__(self, path: str, submit: Submit) -> None:
        self._path = path
        self._submit = submit
        self._file: BinaryIO | None = None
        self._closed = False

    def take(self) -> Deferred[bytes]:
        """Read on."""
        return self._submit(self._read)

    def close(self) -> None:
        """Close the file behind what is read of it now."""
        # A writer that is stopped takes nothing more; then the file goes with this object.
        self._submit(self._close).addErrback(lambda _: None)

    def _read(self) -> bytes:
        if self._closed:
            return b""
        if self._file is None:
            # It is open over many calls.
            self._file = open(  # noqa: SIM115
                self._path, "rb", buffering=0, opener=open_at_once
            )
        return self._file.read(PIECE_BYTES)

    def _close(self) -> None:
        self._closed = True
        if self._file is not None:
            self._file.close()


#: Told once: with None when all is handed over, else with what stood in the way on our side.
Sent: TypeAlias = Callable[[BaseException | None], None]


@implementer(IPushProducer)
class BodySender:
    """Moves a body of a known length from its pieces to a connection.

    :param moved: told at each piece.
    :param sent: told at the end, unless it was stopped.
    """

    def __init__(
        self, wire: Any, pieces: Pieces, size: int, moved: Callable[[], None], sent: Sent
    ) -> None:
        self._wire = wire
        self._pieces = pieces
        self._left = size
        self._moved = moved
        self._sent = sent
        self._paused = False
        self._reading = False
        self.done = False

    def start(self) -> None:
        """Send what the connection takes."""
        self._wire.registerProducer(self, True)
        self._go_on()

    def pauseProducing(self) -> None:
        """The connection has enough for now."""
        self._paused = True

    def resumeProducing(self) -> None:
        """The connection takes more."""
        self._paused = False
        self._moved()
        self._go_on()

    def stopProducing(self) -> None:
        """The connection is gone, or nobody wants this any more."""
        if not self.done:
            self.done = True
            self._pieces.close()

    def _go_on(self) -> None:
        while not (self._paused or self._reading or self.done):
            piece = self._pieces.take()
            if isinstance(piece, bytes):
                self._took(piece)
            else:
                self._reading = True
                piece.addCallbacks(self._read, self._failed)

    def _read(self, piece: bytes) -> None:
        self._reading = False
        if not self.done:
            self._took(piece)
            self._go_on()

    def _took(self, piece: bytes) -> None:
        if not piece or len(piece) > self._left:
            self._finish(OSError("the file has not the length that it had"))
            return
        self._left -= len(piece)
        self._moved()
        self._wire.write(piece)
        if not self._left:
            self._finish(None)

    def _failed(self, failure: Failure) -> None:
        self._reading = False
        self._finish(failure.value)

    def _finish(self, error: BaseException | None) -> None:
        if self.done:
            return
        self.done = True
        self._pieces.close()
        self._wire.unregisterProducer()
        self._sent(error)
