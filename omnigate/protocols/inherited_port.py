"""A listening port on a socket that belongs to a parent process and is shared by its workers.

Nothing done to the port here may reach the socket itself: not a shutdown, which would end it for
all, and of a UNIX socket neither its mode nor its name in the file system.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from twisted.internet import tcp, unix
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.python.failure import Failure


class InheritedUnixPort(unix.Port):
    """A UNIX port that somebody else has made and will remove.

    :meth:`_fromListeningDescriptor` makes one.
    """

    def startListening(self) -> None:  # noqa: N802
        """Accept connections; the socket listens already."""
        own: Any = self
        own.socket, own._preexistingSocket = own._preexistingSocket, None
        own._shouldShutdown = False
        tcp._reservedFD.reserve()
        own.factory.doStart()
        own.connected = True
        own.fileno = own.socket.fileno
        own.startReading()

    def connectionLost(self, reason: Failure) -> None:
        """Let go of the socket and leave its name alone."""
        tcp.Port.connectionLost(self, reason)


def inherit_port(reactor: Any, descriptor: int, factory: IProtocolFactory) -> IListeningPort:
    """Accept connections on an inherited socket; the descriptor is used up.

    :param reactor: anything with ``adoptStreamPort``.
    :raises OSError: it is no socket that listens.
    """
    with socket.socket(fileno=os.dup(descriptor)) as handle:
        family = handle.family
        handle.setblocking(False)
    port: Any
    if family == socket.AF_UNIX:
        port = InheritedUnixPort._fromListeningDescriptor(  # type: ignore[no-untyped-call]
            reactor, descriptor, factory
        )
        port.startListening()
    else:
        port = reactor.adoptStreamPort(descriptor, family, factory)
    os.close(descriptor)
    port.doRead = lambda: accept_one(port)
    return port  # type: ignore[no-any-return]


def accept_one(port: Any) -> None:
    """Accept one connection, and leave the next to whoever is free first.

    Twisted takes what there is, up to a hundred at a time: of a burst of connections one worker
    would get nearly all, and be busy with them while the others have nothing to do.
    """
    port.numberAccepts = 1
    type(port).doRead(port)
