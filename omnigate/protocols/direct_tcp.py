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

from omnigate.protocols.gathering import MAX_ASIDE_BYTES, Gathering


class DirectWriting(tcp.Connection):
    """A connection whose writes go to the socket when nothing is waiting before them.

    What is put aside lies where Twisted's own queue begins, so it counts as written and not sent,
    and everything of Twisted's that looks at the queue finds it in its place.

    :ivar gathered: something is put aside, and the reactor will have it sent in this turn.  It is
        open then, nothing else is queued, and it is not being closed by more than a request to
        close once all is sent.
    """

    gathered = False

    def write(self, data: bytes) -> None:
        """Put aside or send now what the socket takes, queue the rest."""
        if self.gathered:
            size = self._tempDataLen + len(data)
            if size <= MAX_ASIDE_BYTES and type(data) is bytes:
                self._tempDataBuffer.append(data)
                self._tempDataLen = size
                return
            self._send_early()
        if (
            self.dataBuffer
            or self._tempDataBuffer
            or self.disconnecting
            or self._writeDisconnecting
            or not self.connected
            or self.TLS
            or type(data) is not bytes
            # One that is asked for more each time all was sent, by the loop that queues.
            or (self.producer is not None and not self.streamingProducer)
        ):
            super().write(data)  # type: ignore[no-untyped-call]
            return
        gathering: Gathering | None = getattr(self.reactor, "gathering", None)
        if gathering is not None:
            size = len(data)
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
        """Send what was put aside, unless the connection was lost in the meantime."""
        if self.gathered:
            self.gathered = False
            pieces = self._tempDataBuffer
            self._tempDataBuffer = []
            self._tempDataLen = 0
            if self.connected:
                self._send(b"".join(pieces))

    def _send_early(self) -> None:
        """Send what was put aside before all others have theirs sent."""
        gathering: Gathering | None = getattr(self.reactor, "gathering", None)
        if gathering is not None:
            gathering.call_first()
        self.send_aside()

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

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Take a producer; one that is to be asked each time begins with nothing put aside."""
        if not streaming:
            self._send_early()
        super().registerProducer(producer, streaming)  # type: ignore[no-untyped-call]

    def startTLS(self, ctx: Any, normal: bool = True) -> None:  # noqa: N802
        """Begin TLS behind what was written in the clear."""
        self._send_early()
        super().startTLS(ctx, normal)  # type: ignore[no-untyped-call]

    def abortConnection(self) -> None:
        """Drop the connection, and what was put aside with it; nothing can be written any more."""
        if self.gathered:
            self.gathered = False
            self._tempDataBuffer = []
            self._tempDataLen = 0
        self.write = _discard  # type: ignore[method-assign]
        super().abortConnection()  # type: ignore[no-untyped-call]


def _discard(data: bytes) -> None:
    """Stand in for the write of an aborted connection, as Twisted stands in for its reads."""


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
