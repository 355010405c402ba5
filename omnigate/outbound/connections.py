"""Connections that are open: all of them, to be closed in the end, and the idle ones among them."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import Deferred, succeed

from omnigate.outbound.connection import Connection

#: Seconds for which a connection is kept without a request: longer than between two polls of one
#: job, and well under the 60 s after which common load balancers close it.
IDLE_SECONDS: Final = 20.0
#: Idle connections kept for one server, and for all: what a thousand jobs poll with at once.
MAX_IDLE_TO_ONE: Final = 64
MAX_IDLE: Final = 256
#: Seconds that a peer has to close in order; with TLS it takes an answer of its.
CLOSE_SECONDS: Final = 5.0
#: Connections that wait for that; more are broken off.
MAX_CLOSING: Final = 64


class Connections:
    """Every connection that is up.

    :param clock: the reactor's time.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._all: set[Connection] = set()
        self._idle: dict[str, list[Connection]] = {}
        self._timers: dict[Connection, Any] = {}
        self._closing: dict[Connection, Any] = {}
        self._closed: Deferred[None] | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def idle(self) -> int:
        """How many wait for a request."""
        return len(self._timers)

    def take(self, server: str) -> Connection | None:
        """The connection to a server that became idle last, or None."""
        idle = self._idle.get(server)
        while idle:
            connection = idle[-1]
            self._leave(connection)
            if connection.usable:
                return connection
        return None

    def close(self) -> Deferred[None]:
        """Close all; fires when none is left."""
        closed: Deferred[None] = Deferred()
        if self._closed is not None:
            self._closed.chainDeferred(closed)
            return closed
        if not self._all:
            return succeed(None)
        self._closed = Deferred()
        self._closed.chainDeferred(closed)
        for connection in tuple(self._all):
            connection.drop()
        return closed

    # -- what connections tell

    def connection_made(self, connection: Connection) -> None:
        """It is up; nothing is kept up that comes too late."""
        self._all.add(connection)
        if self._closed is not None:
            connection.drop()

    def connection_free(self, connection: Connection) -> None:
        """Keep it for the next request to the same server."""
        idle = self._idle.setdefault(connection.server, [])
        if self._closed is not None or len(idle) >= MAX_IDLE_TO_ONE or self.idle >= MAX_IDLE:
            if not idle:
                del self._idle[connection.server]
            self.connection_left(connection)
            return
        idle.append(connection)
        self._timers[connection] = self._clock.callLater(IDLE_SECONDS, connection.drop)

    def connection_left(self, connection: Connection) -> None:
        """Close it, in order if the peer is quick."""
        if len(self._closing) >= MAX_CLOSING:
            connection.drop()
            return
        self._closing[connection] = self._clock.callLater(CLOSE_SECONDS, connection.drop)
        connection.wire.loseConnection()

    def connection_gone(self, connection: Connection) -> None:
        """Forget it."""
        self._all.discard(connection)
        self._leave(connection)
        closing = self._closing.pop(connection, None)
        if closing is not None and closing.active():
            closing.cancel()
        if not self._all and self._closed is not None:
            closed, self._closed = self._closed, None
            closed.callback(None)

    def _leave(self, connection: Connection) -> None:
        timer = self._timers.pop(connection, None)
        if timer is None:
            return
        if timer.active():
            timer.cancel()
        idle = self._idle[connection.server]
        idle.remove(connection)
        if not idle:
            del self._idle[connection.server]
