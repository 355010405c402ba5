"""Kept connections of one upstream: last in, first out, no Deferred where one is idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol

from omnigate.protocols.upstream import ConnectionOwner, UpstreamConnection
from omnigate.protocols.watchdog import NEVER, Watchdog

#: Seconds after which an idle connection is closed: under the 60 s at which common load
#: balancers close theirs, so that we rarely write into a closing one.
IDLE_SECONDS = 50.0
#: Idle connections kept for one upstream; more than a burst of one worker leaves behind.
MAX_IDLE = 512

Connect = Callable[[Callable[[], IProtocol]], Deferred[IProtocol]]


class UpstreamPool:
    """Connections to one upstream.

    :param connect: opens a connection for the protocol that the given callable makes;
        its Deferred fails with what stood in the way.
    :param make: makes the protocol of one.
    :param max_idle: idle connections that are kept.
    :ivar connections: how many are up, idle ones among them.
    :ivar opened: how many came about so far.
    """

    def __init__(
        self,
        connect: Connect,
        watchdog: Watchdog,
        make: Callable[[ConnectionOwner], UpstreamConnection] = UpstreamConnection,
        max_idle: int = MAX_IDLE,
    ) -> None:
        self._connect = connect
        self._max_idle = max_idle
        self._make = make
        self._watchdog = watchdog
        # What Watchdog.after would add, told once: each request ends with this deadline.
        self._idle_seconds = IDLE_SECONDS + watchdog.interval
        self._idle: list[UpstreamConnection] = []
        self._closed = False
        self.connections = 0
        self.opened = 0

    def take(self) -> UpstreamConnection | None:
        """The connection that became idle last, or ``None``."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                connection.deadline = NEVER
                return connection
        return None

    def open(self) -> Deferred[UpstreamConnection]:
        """A fresh connection."""
        opening = self._connect(lambda: cast(IProtocol, self._make(self)))
        return cast(Deferred[UpstreamConnection], opening)

    def close(self) -> None:
        """Close what is idle now, and what is busy once it is free."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.drop()

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        return len(self._idle)

    # -- the connections' owner

    def connection_made(self, connection: UpstreamConnection) -> None:
        """Count it, and watch over it as long as it lives; while it is busy it has no deadline."""
        self.opened += 1
        self.connections += 1
        self._watchdog.add(connection)

    def connection_free(self, connection: UpstreamConnection) -> None:
        """Keep it for the next request."""
        if self._closed or len(self._idle) >= self._max_idle:
            connection.drop()
            return
        connection.deadline = self._watchdog.now + self._idle_seconds
        self._idle.append(connection)

    def connection_gone(self, connection: UpstreamConnection) -> None:
        """Forget it."""
        self.connections -= 1
        self._watchdog.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call once the reactor has seen to everybody else."""
        self._watchdog.call_soon(call)
