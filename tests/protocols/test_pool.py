"""Kept connections of one upstream."""

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.pool import IDLE_SECONDS, MAX_IDLE, UpstreamPool
from omnigate.protocols.upstream import UpstreamConnection
from omnigate.protocols.watchdog import Watchdog
from tests.planes.transport import WireTransport


class PoolTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.watchdog = Watchdog(self.clock)
        self.watchdog.start()
        self.wires: dict[UpstreamConnection, WireTransport] = {}
        self.refuse = False
        self.pool = UpstreamPool(self.connect, self.watchdog)

    def connect(self, build: Callable[[], IProtocol]) -> Deferred[IProtocol]:
        if self.refuse:
            return fail(ConnectionRefusedError())
        protocol = build()
        wire = self.wires[cast(UpstreamConnection, protocol)] = WireTransport(self.clock)
        wire.connect(protocol)
        return succeed(protocol)

    def open(self, number: int = 1) -> list[UpstreamConnection]:
        """Fresh connections."""
        return [self.successResultOf(self.pool.open()) for _ in range(number)]

    def test_last_in_first_out(self) -> None:
        """The connection used last is used first: the others may grow old and go."""
        first, second = self.open(2)
        self.pool.connection_free(first)
        self.pool.connection_free(second)
        self.assertEqual(2, self.pool.idle)
        self.assertIs(second, self.pool.take())
        self.assertIs(first, self.pool.take())
        self.assertIsNone(self.pool.take())
        for _ in range(round(IDLE_SECONDS * 10) + 20):
            self.clock.advance(0.1)
        self.assertTrue(first.usable and second.usable)

    def test_kept(self) -> None:
        """No more are kept than may be; those beyond are closed."""
        pool = UpstreamPool(self.connect, self.watchdog, max_idle=2)
        opened = [self.successResultOf(pool.open()) for _ in range(3)]
        for connection in opened:
            pool.connection_free(connection)
        self.assertEqual((2, 2), (pool.idle, pool.connections))
        self.assertEqual([True, True, False], [connection.usable for connection in opened])

    def test_watched(self) -> None:
        """A connection is watched over from its begin to its end, be it idle or busy."""
        first, second = self.open(2)
        self.assertEqual(2, len(self.watchdog))
        self.pool.connection_free(first)
        self.pool.take()
        self.assertEqual(2, len(self.watchdog))
        first.drop()
        self.wires[second].peer_closes(ConnectionDone())
        self.assertEqual((0, 0), (len(self.watchdog), self.pool.connections))

    def test_refused(self) -> None:
        """What stands in the way of a connection is handed on."""
        self.refuse = True
        self.failureResultOf(self.pool.open(), ConnectionRefusedError)

    def test_grown_old(self) -> None:
        """An idle connection is closed before the other side would close it."""
        [connection] = self.open()
        self.pool.connection_free(connection)
        self.clock.advance(IDLE_SECONDS - 1)
        self.assertEqual(1, self.pool.idle)
        for _ in range(20):
            self.clock.advance(0.1)
        self.assertEqual(0, self.pool.idle)
        self.assertFalse(self.wires[connection].connected)
        self.assertEqual(0, len(self.watchdog))

    def test_closed_while_idle(self) -> None:
        """One that the other side closes is forgotten."""
        first, second = self.open(2)
        self.pool.connection_free(first)
        self.pool.connection_free(second)
        self.wires[first].peer_closes(ConnectionDone())
        self.assertEqual(1, self.pool.idle)
        self.assertEqual(1, len(self.watchdog))
        self.assertIs(second, self.pool.take())

    def test_bound(self) -> None:
        """Beyond the bound what becomes free is closed."""
        connections = self.open(MAX_IDLE + 1)
        for connection in connections:
            self.pool.connection_free(connection)
        self.assertEqual(MAX_IDLE, self.pool.idle)
        self.clock.advance(0)
        self.assertFalse(self.wires[connections[-1]].connected)
        self.assertEqual(MAX_IDLE, len(self.watchdog))

    def test_close(self) -> None:
        """A closed pool closes what is idle now, and what is busy once it is free."""
        idle, busy = self.open(2)
        self.pool.connection_free(idle)
        self.pool.close()
        self.clock.advance(0)
        self.assertFalse(self.wires[idle].connected)
        self.assertTrue(self.wires[busy].connected)
        self.pool.connection_free(busy)
        self.clock.advance(0)
        self.assertFalse(self.wires[busy].connected)
        self.assertEqual((0, 0), (self.pool.idle, len(self.watchdog)))

    def test_open_after_close(self) -> None:
        """A request that began with the old config still gets its connection, and only that."""
        self.pool.close()
        [connection] = self.open()
        self.assertTrue(connection.usable)
        self.pool.connection_free(connection)
        self.assertEqual(0, self.pool.idle)
