"""TCP transports that try the socket first.

Twisted's transports queue every write and wait for the poller to say that the socket takes it:
two epoll changes and a turn of the loop for each answer.  A socket nearly always takes a small
write at once, so when nothing is queued these try, and queue only what is left.  Order, back
pressure and errors stay Twisted's: a write that fails is queued, and the loop finds the error
as it always does, after the caller has returned.

In a turn of a reactor that gathers (:mod:`omnigate.protocols.gathering`) they try at the turn's
end; what was written until then goes out in one send.
"""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from collections.abc import Iterable
from typing import Any

from twisted.internet import tcp
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.python.failure import Failure

from omnigate.protocols.gathering import MAX_ASIDE_BYTES, Gathering


class DirectWriting(tcp.Connection):
    """A connection whose writes go to the socket when nothing is waiting before them.

    What is put aside lies where Twisted's own queue begins, so it counts as written and not sent,
    and everything of Twisted's that looks at the queue finds it in its place.  But for that, the
    queue begins with what the socket has not taken, in ``dataBuffer``.

    Where a write must go another way for good, it is hidden behind that other way, as Twisted does
    it with the reads of a connection that is aborted: so there is little to ask at each write.

    :ivar gathered: something is put aside, which the reactor will have sent in this turn, and
        nothing else is queued.
    """

    gathered = False

    def write(self, data: bytes) -> None:
        """Put aside or send now what the socket takes, queue the rest."""
        if not isinstance(data, bytes):
            raise TypeError("Data must be bytes")
        size = len(data)
        if self.gathered:
            size += self._tempDataLen
            if size <= MAX_ASIDE_BYTES:
                self._tempDataBuffer.append(data)
                self._tempDataLen = size
                return
            self._send_early()
            size = len(data)
        if self.dataBuffer:
            super().write(data)  # type: ignore[no-untyped-call]
            return
        try:
            gathering: Gathering | None = self.reactor.gathering  # type: ignore[attr-defined]
        except AttributeError:  # Twisted's own reactors gather nothing
            gathering = None
        if gathering is not None:
            if size <= MAX_ASIDE_BYTES:
                self._tempDataBuffer.append(data)
                self._tempDataLen = size
                self.gathered = True
                gathering.waiting.append(self)
                return
            gathering.call_first()
        self._send(data)

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Write them as one."""
        self.write(b"".join(iovec))

    def send_aside(self) -> None:
        """Send what was put aside, if it still is."""
        if self.gathered:
            self.gathered = False
            pieces = self._tempDataBuffer
            data = b"".join(pieces)
            pieces.clear()
            self._tempDataLen = 0
            self._send(data)

    def _send(self, data: bytes) -> None:
        """Send what the socket takes; queue the rest without a copy of it."""
        try:
            sent = self.socket.send(data)
        except OSError:
            # Full, or broken; if it is broken the loop's own write meets the same error.
            sent = 0
        if sent < len(data):
            self.dataBuffer = data
            self.offset = sent
            self.startWriting()  # type: ignore[no-untyped-call]
            self._maybePauseProducer()  # type: ignore[no-untyped-call]

    def _send_early(self) -> None:
        """Send what was put aside before all others have theirs sent."""
        gathering: Gathering | None = getattr(self.reactor, "gathering", None)
        if gathering is not None:
            gathering.call_first()
        self.send_aside()

    def doRead(self) -> Any:
        """Read once and hand it on: Twisted's own, with two calls fewer."""
        try:
            data = self.socket.recv(self.bufferSize)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        if not data:
            return CONNECTION_DONE
        self.protocol.dataReceived(data)
        return None

    def doWrite(self) -> Any:
        """Send more of the queue, unless the reactor sends it at the end of this turn anyhow."""
        # The event may have been meant for a connection that had this descriptor before.
        if self.gathered:
            return None
        return super().doWrite()  # type: ignore[no-untyped-call]

    # -- other ways to write

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Take a producer; one that is to be asked for each piece is asked by Twisted's queue."""
        if not streaming:
            self._write_as_twisted()
        super().registerProducer(producer, streaming)  # type: ignore[no-untyped-call]

    def startTLS(self, ctx: Any, normal: bool = True) -> None:  # noqa: N802
        """Begin TLS behind what was written in the clear."""
        self._write_as_twisted()
        super().startTLS(ctx, normal)  # type: ignore[no-untyped-call]

    def _write_as_twisted(self) -> None:
        """Write as Twisted's own connections do, from now on."""
        self._send_early()
        self.write = super().write  # type: ignore[method-assign]

    def abortConnection(self) -> None:
        """Drop the connection, and what was put aside with it."""
        self._write_no_more()
        super().abortConnection()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure) -> None:
        """The connection is gone, and what was put aside with it."""
        self._write_no_more()
        super().connectionLost(reason)

    def _closeWriteConnection(self) -> None:  # noqa: N802
        """All was sent, and this direction is closed now."""
        self._write_no_more()
        super()._closeWriteConnection()

    def _write_no_more(self) -> None:
        """Take no notice of what is written from now on."""
        if self.gathered:
            self.gathered = False
            self._tempDataBuffer.clear()
            self._tempDataLen = 0
        self.write = _discard  # type: ignore[method-assign]


def _discard(data: bytes) -> None:
    """Stand in for the write of a connection that takes none."""


class DirectServer(DirectWriting, tcp.Server):
    """The server's side of a connection."""


class DirectPort(tcp.Port):
    """A listening port whose connections write directly."""

    transport = DirectServer


class DirectClient(DirectWriting, tcp.Client):
    """The client's side of a connection."""


class DirectConnector(tcp.Connector):
    """Connects with a transport that writes directly."""

    def _makeTransport(self) -> DirectClient:  # noqa: N802
        return DirectClient(  # type: ignore[no-untyped-call]
            self.host, self.port, self.bindAddress, self, self.reactor
        )


def is_put_aside(transport: Any) -> bool:
    """Whether all that was written to a TCP transport lately waits for the end of this turn."""
    return getattr(transport, "gathered", False)


def unsent_bytes(transport: Any) -> int:
    """Bytes written to a TCP transport that the socket has not taken; -1 where it does not tell."""
    held = getattr(transport, "dataBuffer", None)
    if held is None:
        return -1
    offset: int = getattr(transport, "offset", 0)
    waiting: int = getattr(transport, "_tempDataLen", 0)
    return len(held) - offset + waiting


def untaken_bytes(transport: Any) -> int:
    """Bytes written to a TCP transport that the other side has not taken; -1 where it is not told.

    Those in the kernel's buffer count, too: it may hold megabytes, and asks for more only once a
    third of it is free, so what waits before it does not tell a slow reader from none (tcp(7),
    SIOCOUTQ).
    """
    waiting = unsent_bytes(transport)
    handle = getattr(transport, "socket", None)
    if waiting < 0 or not isinstance(handle, socket.socket):
        return waiting
    try:
        queued = fcntl.ioctl(handle.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # it is closed
        return waiting
    return waiting + int.from_bytes(queued, sys.byteorder)
