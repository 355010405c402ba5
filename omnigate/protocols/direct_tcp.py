"""TCP transports that try the socket first.

Twisted's transports queue every write and wait for the poller to say that the socket takes it:
two epoll changes and a turn of the loop for each answer.  A socket nearly always takes a small
write at once, so when nothing is queued these try, and queue only what is left.  Order, back
pressure and errors stay Twisted's: a write that fails is queued, and the loop finds the error
as it always does, after the caller has returned.
"""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from typing import Any

from twisted.internet import tcp


class DirectWriting(tcp.Connection):
    """A connection whose writes go to the socket when nothing is waiting before them."""

    def write(self, data: bytes) -> None:
        """Send now what the socket takes, queue the rest."""
        if (
            self.dataBuffer
            or self._tempDataBuffer
            or self.disconnecting
            or self._writeDisconnecting
            or not self.connected
            or self.TLS
        ):
            super().write(data)  # type: ignore[no-untyped-call]
            return
        try:
            sent = self.socket.send(data)
        except OSError:
            # Full, or broken; if it is broken the loop's own write meets the same error.
            sent = 0
        if sent < len(data):
            # What FileDescriptor.write would queue, without the copy of all that is left of it.
            self.dataBuffer = data
            self.offset = sent
            self._maybePauseProducer()  # type: ignore[no-untyped-call]
            self.startWriting()  # type: ignore[no-untyped-call]


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
