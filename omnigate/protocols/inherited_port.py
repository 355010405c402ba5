"""A listening port on a socket that belongs to a parent process and is shared by its workers.

Nothing done to the port here may reach the socket itself: not a shutdown, which would end it for
all, and of a UNIX socket neither its mode nor its name in the file system.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any, Final, Protocol

from twisted.internet import tcp, unix
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime
from twisted.python.failure import Failure

#: How long a worker that is ahead leaves connections to the others, in seconds: they are woken at
#: the same moment, and need no more than a turn of the reactor.
HOLD_BACK_SECONDS: Final = 0.001

#: How many connections it then takes all the same: where the others are busy or gone, two a
#: millisecond is still more than clients that keep their connections open.
GRANTED: Final = 2

#: The part of its own connections by which a worker may be ahead: with few it matters, with
#: thousands it does not.
SLACK_PART: Final = 16


class Counts(Protocol):
    """A number for each worker."""

    def __getitem__(self, index: int, /) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


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


class FairShare:
    """Accepts for one of several workers, so that all have about as many connections.

    The kernel wakes every worker for a connection, and whoever runs first takes it; in a burst that
    is one and the same. So a worker that is ahead of the one with the fewest connections holds back
    for a moment, in which the others come to it. If none does, they are busy, and it goes on.

    :param port: an adopted port.
    :param counts: the connections of each worker, kept by them.
    :param index: which of them is this one's.
    """

    def __init__(self, port: Any, clock: IReactorTime, counts: Counts, index: int) -> None:
        self._port = port
        self._clock = clock
        self._counts = counts
        self._index = index
        self._granted = 0

    def read(self) -> None:
        """Accept one connection, or hold back; called where one waits."""
        if self._granted:
            self._granted -= 1
        elif self._ahead():
            self._port.stopReading()
            self._clock.callLater(HOLD_BACK_SECONDS, self._go_on)
            return
        # Twisted takes what there is, up to a hundred at a time.
        self._port.numberAccepts = 1
        type(self._port).doRead(self._port)

    def _ahead(self) -> bool:
        own = self._counts[self._index]
        return own > min(self._counts) + 1 + own // SLACK_PART

    def _go_on(self) -> None:
        if self._port.connected and not self._port.disconnecting:
            self._granted = GRANTED
            self._port.startReading()


def inherit_port(
    reactor: Any, descriptor: int, factory: IProtocolFactory, counts: Counts, index: int
) -> IListeningPort:
    """Accept connections on an inherited socket; the descriptor is used up.

    :param reactor: anything with ``adoptStreamPort`` and a clock.
    :param counts: see :class:`FairShare`, as is ``index``.
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
    port.doRead = FairShare(port, reactor, counts, index).read
    return port  # type: ignore[no-any-return]
