"""The reactor with fewer steps: what it does with each kind of event.

How the whole plane behaves on it is told by tests.process.test_reactors.
"""

import os
import select
import socket
import time
from collections.abc import Callable
from errno import EINTR, EPERM
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableDescriptor
from twisted.internet.main import CONNECTION_DONE
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from omnigate.gateway.spool import Spool
from omnigate.protocols.direct_tcp import DirectServer
from omnigate.protocols.gathering import FEW_EVENTS, MAX_GATHERED
from omnigate.protocols.lean_reactor import (
    FIRST_EVENTS,
    TURN_SECONDS,
    LeanReactor,
)
from omnigate.testing.writer import SynchronousWriter
from tests.protocols.served import Peer, Served, Stage


@implementer(IHalfCloseableDescriptor)
class Selectable:
    """One end of a pair of sockets."""

    def __init__(self, end: socket.socket, result: object = None) -> None:
        self.end = end
        self.result = result
        self.told: list[str] = []

    def fileno(self) -> int:
        return self.end.fileno()

    def logPrefix(self) -> str:  # noqa: N802
        return "test"

    def doRead(self) -> object:
        self.told.append("read")
        if isinstance(self.result, type) and issubclass(self.result, Exception):
            raise self.result
        self.end.recv(100)
        return self.result

    def doWrite(self) -> None:
        self.told.append("write")

    def loseWriteConnection(self) -> None:  # noqa: N802
        self.told.append("close write")

    def writeConnectionLost(self, reason: Failure) -> None:  # noqa: N802
        self.told.append("write lost")

    def readConnectionLost(self, reason: Failure) -> None:  # noqa: N802
        self.told.append("read lost")

    def connectionLost(self, reason: Failure) -> None:
        self.told.append("lost")


class InjectedError(Exception):
    """A fault in a read."""


class ReactorTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.ends: list[socket.socket] = []
        self.reactor: Any = LeanReactor()
        self.addCleanup(self.close_reactor)

    def close_reactor(self) -> None:
        self.reactor.removeAll()
        self.reactor.waker.connectionLost(None)
        self.reactor._poller.close()
        for end in self.ends:
            end.close()

    def pair(self, result: object = None) -> tuple[Selectable, socket.socket]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.ends += (ours, theirs)
        return Selectable(ours, result), theirs


class EventTests(ReactorTestCase):
    def test_readable(self) -> None:
        """What is readable is read, once a turn; what is not, is not."""
        first, peer = self.pair()
        second, _ = self.pair()
        self.reactor.addReader(first)
        self.reactor.addReader(second)
        peer.send(b"x")
        self.reactor.doIteration(0)
        self.reactor.doIteration(0)
        self.assertEqual((["read"], []), (first.told, second.told))

    def test_end(self) -> None:
        """A read that tells of the end is told on as the end of one direction."""
        selectable, peer = self.pair(CONNECTION_DONE)
        self.reactor.addReader(selectable)
        peer.send(b"x")
        self.reactor.doIteration(0)
        self.assertEqual(["read", "read lost"], selectable.told)

    def test_loss(self) -> None:
        """So does one that tells of a loss."""
        selectable, peer = self.pair(OSError("gone"))
        self.reactor.addReader(selectable)
        peer.send(b"x")
        self.reactor.doIteration(0)
        self.assertEqual(["read", "lost"], selectable.told)

    def test_exception(self) -> None:
        """A read that fails is logged, and costs its own connection only."""
        broken, peer = self.pair(InjectedError)
        sound, other = self.pair()
        for selectable, end in ((broken, peer), (sound, other)):
            self.reactor.addReader(selectable)
            end.send(b"x")
        self.reactor.doIteration(0)
        self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))
        self.assertEqual((["read", "lost"], ["read"]), (broken.told, sound.told))

    def test_writable(self) -> None:
        """All other events go the stock way."""
        selectable, peer = self.pair()
        self.reactor.addReader(selectable)
        self.reactor.addWriter(selectable)
        peer.send(b"x")
        self.reactor.doIteration(0)
        self.assertEqual({"read", "write"}, set(selectable.told))

    def test_gone_meanwhile(self) -> None:
        """What another one's read removes in the same turn is left alone."""
        first, first_peer = self.pair()
        second, second_peer = self.pair()

        calls: list[None] = []

        def remove_both() -> None:
            calls.append(None)
            self.reactor.removeReader(first)
            self.reactor.removeReader(second)

        for selectable, end in ((first, first_peer), (second, second_peer)):
            selectable.doRead = remove_both  # type: ignore[method-assign]
            self.reactor.addReader(selectable)
            end.send(b"x")
        self.reactor.doIteration(0)
        self.assertEqual(1, len(calls))

    def test_interrupted(self) -> None:
        """A signal during the wait is no error; anything else is one."""

        class Poller:
            def __init__(self, poller: Any, errno: int) -> None:
                self.poller = poller
                self.errno = errno

            def poll(self, timeout: float, events: int) -> None:
                raise OSError(self.errno, "interrupted")

        poller = self.reactor._poller
        try:
            self.reactor._poller = Poller(poller, EINTR)
            self.reactor.doIteration(0)
            self.reactor._poller = Poller(poller, EPERM)
            self.assertRaises(OSError, self.reactor.doIteration, 0)
        finally:
            self.reactor._poller = poller

    def test_events_a_poll(self) -> None:
        """So many events are taken from one poll, so that timers have their turn."""
        asked: list[tuple[float, int]] = []

        class Poller:
            def poll(self, timeout: float, events: int) -> list[tuple[int, int]]:
                asked.append((timeout, events))
                return []

        poller, self.reactor._poller = self.reactor._poller, Poller()
        try:
            self.reactor.doIteration(0.5)
            self.reactor.doIteration(None)
        finally:
            self.reactor._poller = poller
        self.assertEqual([(0.5, FIRST_EVENTS), (-1, FIRST_EVENTS)], asked)

    def test_slow_events(self) -> None:
        """Where events take long a poll takes fewer, in turn; where they take little, more."""
        count, now, cost = 3 * FIRST_EVENTS, 0.0, TURN_SECONDS / 10

        class Slow(Selectable):
            """Takes a moment, and has always something more to read."""

            def doRead(self) -> None:
                nonlocal now
                now += cost
                self.told.append("read")

        self.reactor.seconds = lambda: now
        readers = []
        for _ in range(count):
            ours, theirs = self.pair()
            readers.append(Slow(ours.end))
            self.reactor.addReader(readers[-1])
            theirs.send(b"!")

        def turns(number: int) -> list[int]:
            sizes = []
            for _ in range(number):
                before = sum(len(reader.told) for reader in readers)
                self.reactor.doIteration(0)
                sizes.append(sum(len(reader.told) for reader in readers) - before)
            return sizes

        self.assertEqual([16, 8, 8, 8], turns(4))
        # None is passed over: those that were not taken are told first.
        turns(10)
        self.assertLessEqual(
            max(len(reader.told) for reader in readers),
            min(len(reader.told) for reader in readers) + 1,
        )
        cost = TURN_SECONDS / 1000
        self.assertEqual([8, 16, 32, count], turns(4))


class TurnTests(SynchronousTestCase):
    """What is sent together, and what comes before it."""

    def setUp(self) -> None:
        self.stage = Stage("LeanReactor")
        self.addCleanup(self.stage.close)
        self.reactor = self.stage.reactor

    def poke_all(self, peers: list[Peer], act: Callable[[Served], object]) -> None:
        """Have all of them act in one turn."""
        for peer in peers:
            peer.served.act = act
            peer.socket.send(b"!")
        time.sleep(0.05)
        self.reactor.doIteration(0)
        self.assertEqual({1}, {peer.served.acted for peer in peers})

    def test_bound(self) -> None:
        """When so many wait they are sent, while the turn goes on."""
        peers = [self.stage.dial() for _ in range(MAX_GATHERED + 3)]
        waiting: list[int] = []

        def act(served: Served) -> None:
            waiting.append(len(self.reactor.gathering.waiting))
            served.wire.write(b"x")

        self.poke_all(peers, act)
        self.assertEqual([*range(MAX_GATHERED), 0, 1, 2], waiting)
        for peer in peers:
            self.assertEqual(b"x", peer.take_all(1))
        self.assertIsNone(self.reactor.gathering)

    def test_few(self) -> None:
        """In a turn of few events each sends at once, and nothing is put off for it."""
        self.reactor.few_events = LeanReactor.few_events
        peers = [self.stage.dial() for _ in range(FEW_EVENTS)]
        put_off: list[bool] = []

        def act(served: Served) -> None:
            put_off.append(self.reactor.before_sends(lambda: None))
            served.wire.write(b"x")
            put_off.append(served.wire.gathered)

        self.poke_all(peers, act)
        self.assertEqual([False, False] * FEW_EVENTS, put_off)
        for peer in peers:
            self.assertEqual(b"x", peer.take_all(1))

    def test_calls_before_sends(self) -> None:
        """What is to come before the sends of a turn comes once before each lot of them."""
        peers = [self.stage.dial() for _ in range(MAX_GATHERED + 3)]
        seen: list[tuple[int, bytes]] = []
        asked: list[bool] = []
        pending: list[int] = []

        def call() -> None:
            for peer in peers:
                peer.take()
            seen.append((len(pending), b"".join(peer.received for peer in peers)))
            pending.clear()

        def act(served: Served) -> None:
            if not pending:
                asked.append(self.reactor.before_sends(call))
            pending.append(1)
            served.wire.write(b"x")

        self.poke_all(peers, act)
        self.assertEqual([(MAX_GATHERED, b""), (3, b"x" * MAX_GATHERED)], seen)
        self.assertEqual([True, True], asked)

    def test_spool(self) -> None:
        """The lines of all answers that are sent together are one write, which is made before."""
        folder = self.mktemp()
        os.mkdir(folder)
        path = os.path.join(folder, "usage.spool")
        spool = Spool(path, SynchronousWriter(), before_sends=self.reactor.before_sends)
        spool.open()
        self.addCleanup(spool.close)
        write = os.write
        written: list[int] = []

        def counted(fd: int, data: bytes) -> int:
            for peer in peers:
                peer.take()
            # Those of earlier writes have their answers, and nobody else has.
            self.assertEqual(sum(written), sum(len(peer.received) for peer in peers))
            written.append(bytes(data).count(b"\n"))
            return write(fd, data)

        peers = [self.stage.dial() for _ in range(MAX_GATHERED + 3)]

        def act(served: Served) -> None:
            self.assertTrue(spool.append(b'{"id":"%d"}' % self.stage.served.index(served)))
            served.wire.write(b"x")

        self.patch(os, "write", counted)
        self.poke_all(peers, act)
        self.assertEqual([MAX_GATHERED, 3], written)

    def test_outside_of_a_turn(self) -> None:
        """Outside of a turn nothing waits, so nothing is to come before it."""
        self.assertFalse(self.reactor.before_sends(self.fail))
        asked: list[bool] = []
        self.reactor.callLater(0, lambda: asked.append(self.reactor.before_sends(self.fail)))
        self.reactor.runUntilCurrent()
        self.assertEqual([False], asked)
        peer = self.stage.dial()
        self.stage.turn()
        self.assertFalse(self.reactor.before_sends(self.fail))
        peer.served.wire.write(b"at once")
        self.assertEqual(b"at once", peer.socket.recv(100))

    def test_large_write(self) -> None:
        """Nor does a write that is too large to be put aside overtake the call."""
        peer = self.stage.dial()
        seen: list[bytes] = []

        def call() -> None:
            peer.take()
            seen.append(peer.received)

        def act(served: Served) -> None:
            self.assertTrue(self.reactor.before_sends(call))
            served.wire.write(b"x" * 100_000)
            self.assertEqual([b""], seen)

        peer.poke(act)
        self.assertEqual(100_000, len(peer.take_all(100_000)))

    def test_queued_write(self) -> None:
        """Nor what is sent of the queue of one that was slow, in the same turn."""
        slow, other = self.stage.dial(), self.stage.dial()
        slow.poke(lambda served: served.wire.write(b"x" * 1_000_000))
        self.stage.turn()
        seen: list[int] = []
        wire = slow.served.wire
        send = wire.doWrite

        def send_more() -> object:
            seen.append(-1)
            return send()

        wire.doWrite = send_more

        def act(served: Served) -> None:
            self.reactor.before_sends(lambda: seen.append(1))
            wire.write(b"last")

        other.served.act = act
        other.socket.send(b"!")
        slow.take_all(1_000_004)
        # Whichever event came first, what was written last went out after the call.
        self.assertIn(1, seen)
        self.assertIn(-1, seen[seen.index(1) :])
        self.assertTrue(slow.received.endswith(b"last"))

    def test_read_and_sent_at_once(self) -> None:
        """Nor what is sent of the queue of one that can be read and written to in one event."""
        peer = self.stage.dial()
        peer.poke(lambda served: served.wire.write(b"x" * 1_000_000))
        self.stage.turn()
        wire = peer.served.wire
        seen: list[str] = []
        send = wire.writeSomeData

        def send_some(data: bytes) -> object:
            seen.append("sent")
            return send(data)

        def act(served: Served) -> None:
            seen.append("read")
            self.assertTrue(self.reactor.before_sends(lambda: seen.append("called")))
            wire.write(b"last")

        self.assertTrue(wire.dataBuffer)
        peer.served.act = act
        peer.socket.send(b"!")
        while True:  # until the kernel takes more, without a turn of the reactor
            peer.take()
            if select.select([wire.socket], [wire.socket], [], 0) == (
                [wire.socket],
                [wire.socket],
                [],
            ):
                break
        wire.writeSomeData = send_some
        self.reactor.doIteration(0)
        self.assertEqual(["read", "called", "sent"], seen)
        self.assertTrue(peer.take_all(1_000_004).endswith(b"last"))

    def test_lost_in_a_read(self) -> None:
        """One that is lost in its read is not written to with the same event."""
        ours, peer = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(peer.close)
        ours.setblocking(False)
        selectable = Selectable(ours, OSError("gone"))
        self.reactor.addReader(selectable)
        self.reactor.addWriter(selectable)
        peer.send(b"x")
        self.reactor.doIteration(0)
        self.assertEqual(["read", "lost"], selectable.told)

    def test_pause_fails(self) -> None:
        """A producer that fails to pause is logged; it and all others get what was written."""
        broken, sound = self.stage.dial(), self.stage.dial()

        def pause() -> None:
            raise InjectedError

        broken.served.pauseProducing = pause  # type: ignore[method-assign]
        wire = broken.served.wire
        wire.bufferSize = 1000

        def act(served: Served) -> None:
            wire.write(b"x" * 60_000)
            sound.served.wire.write(b"sound")

        # The socket's buffer holds less than what is written in some turns.
        for _ in range(5):
            if not self.reactor.getWriters():
                sound.poke(act)
        self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))
        self.assertEqual(b"sound", sound.take_all(5)[:5])
        broken.take_all(60_000)
        self.stage.quiet()

    def test_end_fails(self) -> None:
        """A protocol that fails at its end is logged, and the turn goes on."""
        broken, sound = self.stage.dial(), self.stage.dial()

        def lost(reason: object) -> None:
            raise InjectedError

        broken.served.connectionLost = lost  # type: ignore[assignment,method-assign]
        sound.served.act = lambda served: served.wire.write(b"sound")
        broken.socket.close()
        sound.socket.send(b"!")
        self.assertEqual(b"sound", sound.take_all(5))
        self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))


class TransportTests(ReactorTestCase):
    """Connections of this reactor write directly, however they come about."""

    class Greeter(Protocol):
        """Says hello and goes."""

        seen: list[Any] = []

        def connectionMade(self) -> None:
            wire: Any = self.transport
            self.seen.append(wire)
            wire.write(b"hello")
            wire.loseConnection()

    class Listener(Protocol):
        """Collects."""

        def __init__(self) -> None:
            self.received = b""
            self.lost: Failure | None = None

        def dataReceived(self, data: bytes) -> None:
            self.received += data

        def connectionLost(self, reason: Failure = None) -> None:  # type: ignore[assignment]
            self.lost = reason

    def talk(self, port: Any) -> None:
        from twisted.internet.protocol import ClientFactory

        listener = self.Listener()
        factory = ClientFactory()
        factory.noisy = False
        factory.protocol = lambda: listener
        self.Greeter.seen.clear()
        connector = self.reactor.connectTCP("127.0.0.1", port.getHost().port, factory)
        for _ in range(1000):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.01)
            if listener.lost is not None:
                break
        self.assertEqual(b"hello", listener.received)
        assert listener.lost is not None
        self.assertTrue(listener.lost.check(ConnectionDone))
        self.assertIsInstance(self.Greeter.seen[0], DirectServer)
        self.assertEqual("DirectClient", type(connector.transport).__name__)
        port.stopListening()
        self.reactor.runUntilCurrent()

    def test_listening(self) -> None:
        """On a port that it opens itself."""
        factory = Factory.forProtocol(self.Greeter)
        factory.noisy = False
        self.talk(self.reactor.listenTCP(0, factory, interface="127.0.0.1"))

    def test_adopted(self) -> None:
        """On a socket that systemd hands over."""
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        number = os.dup(listening.fileno())
        listening.close()
        factory = Factory.forProtocol(self.Greeter)
        factory.noisy = False
        port = self.reactor.adoptStreamPort(number, socket.AF_INET, factory)
        os.close(number)
        self.talk(port)

    def test_wall_clock_put_back(self) -> None:
        """A timer comes when it is due, whatever becomes of the wall clock meanwhile."""
        called: list[float] = []
        self.reactor.callLater(0.01, called.append, 1.0)
        self.patch(time, "time", lambda: 0.0)
        deadline = time.monotonic() + 5
        while not called and time.monotonic() < deadline:
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.01)
        self.assertEqual([1.0], called)
