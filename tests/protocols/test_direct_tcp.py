"""Writing straight to the socket: in order, with back pressure, and never with an exception."""

import socket
from typing import Any, cast

from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.direct_tcp import DirectWriting, unsent_bytes, untaken_bytes
from omnigate.protocols.gathering import MAX_ASIDE_BYTES, Gathering


class Reactor:
    """Remembers who wants to read and to write, and lets them."""

    def __init__(self) -> None:
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()

    def addReader(self, reader: Any) -> None:  # noqa: N802
        self.readers.add(reader)

    def removeReader(self, reader: Any) -> None:  # noqa: N802
        self.readers.discard(reader)

    def addWriter(self, writer: Any) -> None:  # noqa: N802
        self.writers.add(writer)

    def removeWriter(self, writer: Any) -> None:  # noqa: N802
        self.writers.discard(writer)

    def turn(self) -> None:
        """Let everybody who wants to write do so; who fails is disconnected."""
        for writer in list(self.writers):
            why = writer.doWrite()
            if why:
                writer.connectionLost(Failure(why))


class Producer:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

    def stopProducing(self) -> None:
        self.told.append("stop")


class Plain(Connection):
    """Twisted's own connection."""

    def getPeer(self) -> None:
        return None


class Direct(DirectWriting):
    """The one that writes directly."""

    def getPeer(self) -> None:
        return None


class Recorder(Protocol):
    """Remembers why its connection was lost."""

    lost: Failure | None = None

    def connectionLost(self, reason: Failure = None) -> None:  # type: ignore[assignment]
        self.lost = reason


class DirectWritingTests(SynchronousTestCase):
    kind: type[Connection] = Direct

    def setUp(self) -> None:
        self.reactor = Reactor()
        ours, self.theirs = socket.socketpair()
        for end in (ours, self.theirs):
            end.setblocking(False)
            self.addCleanup(end.close)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        self.protocol = Recorder()
        self.transport: Any = self.kind(ours, self.protocol, cast(Any, self.reactor))
        self.transport.connected = 1
        self.transport.logstr = ""

    def read(self, size: int = 1 << 20) -> bytes:
        """What has arrived at the other end, up to so much."""
        pieces: list[bytes] = []
        while size:
            try:
                pieces.append(self.theirs.recv(min(size, 65536)))
            except BlockingIOError:
                break
            if not pieces[-1]:
                break
            size -= len(pieces[-1])
        return b"".join(pieces)

    def drain(self) -> bytes:
        """Everything, the reactor turning as long as somebody wants to write."""
        pieces = [self.read()]
        while self.reactor.writers:
            self.reactor.turn()
            pieces.append(self.read())
        return b"".join(pieces)

    def test_at_once(self) -> None:
        """What the socket takes is there before the reactor has turned."""
        self.transport.write(b"hello")
        self.assertEqual(b"hello", self.read())
        self.assertEqual(set(), self.reactor.writers)

    def test_nothing(self) -> None:
        """Nothing may be written, too."""
        self.transport.write(b"")
        self.assertEqual(b"", self.drain())

    def test_order(self) -> None:
        """What is written stays in order, whatever the socket takes of it."""
        sent = b""
        for index in range(300):
            data = bytes([index % 251]) * (index * 37 % 9000)
            self.transport.write(data)
            sent += data
        self.assertTrue(self.reactor.writers)
        self.assertEqual(sent, self.drain())
        self.assertEqual(set(), self.reactor.writers)

    def test_write_behind_the_queue(self) -> None:
        """Nothing overtakes what waits, even when the socket has room again."""
        self.transport.write(b"a" * 100_000)
        begun = self.read(10_000)
        self.transport.write(b"b")
        self.assertEqual(b"a" * 100_000 + b"b", begun + self.drain())

    def test_back_pressure(self) -> None:
        """A producer is paused when too much waits, and resumed when all is gone."""
        producer = Producer()
        self.transport.registerProducer(producer, True)
        self.transport.write(b"x" * 1000)
        self.reactor.turn()
        self.assertEqual(b"x" * 1000, self.read())
        self.assertNotIn("pause", producer.told)
        self.transport.write(b"x" * 500_000)
        self.assertEqual(["pause"], producer.told)
        self.assertEqual(b"x" * 500_000, self.drain())
        self.assertEqual(["pause", "resume"], producer.told)

    def test_close(self) -> None:
        """A close waits for what waits, and for nothing else."""
        self.transport.write(b"x" * 200_000)
        self.transport.loseConnection()
        self.assertEqual(b"x" * 200_000, self.drain())
        self.assertIsNotNone(self.protocol.lost)

    def test_write_after_close(self) -> None:
        """What is written while the connection closes goes out, as with Twisted's own."""
        self.transport.write(b"x" * 200_000)
        self.transport.loseConnection()
        self.transport.write(b"y")
        self.assertEqual(b"x" * 200_000 + b"y", self.drain())

    def test_half_close(self) -> None:
        """So does a half close, after which nothing more goes out."""
        self.transport.write(b"x" * 200_000)
        self.transport.loseWriteConnection()
        self.assertEqual(b"x" * 200_000, self.drain())
        self.transport.write(b"y")
        self.assertEqual(b"", self.drain())
        self.assertIsNone(self.protocol.lost)

    def test_broken(self) -> None:
        """A peer that is gone is not met by the writer but by the reactor."""
        self.theirs.close()
        self.transport.write(b"hello")
        self.assertIsNone(self.protocol.lost)
        self.reactor.turn()
        self.assertIsNotNone(self.protocol.lost)
        self.transport.write(b"more")


class PlainWritingTests(DirectWritingTests):
    """The same of Twisted's own transport, but for what is its own: the queue before the socket."""

    kind = Plain

    def test_at_once(self) -> None:
        """Here the reactor has to turn first."""
        self.transport.write(b"hello")
        self.assertEqual(b"", self.read())
        self.assertEqual(b"hello", self.drain())


class GatheredWritingTests(DirectWritingTests):
    """The same where the reactor gathers, a turn being from one look at what came to the next."""

    def setUp(self) -> None:
        super().setUp()
        reactor: Any = self.reactor
        self.gathering = reactor.gathering = Gathering()
        self.sends: list[int] = []
        sends = self.sends

        class Counting:
            def __init__(self, end: socket.socket) -> None:
                self.end = end

            def send(self, data: bytes) -> int:
                sends.append(len(data))
                return self.end.send(data)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.end, name)

        self.transport.socket = Counting(self.transport.socket)

    def read(self, size: int = 1 << 20) -> bytes:
        self.gathering.send()
        return super().read(size)

    def test_one_send(self) -> None:
        """What is written in a turn is one send, and the poller hears nothing of it."""
        for number in range(10):
            self.transport.write(b"%d" % number)
        self.transport.writeSequence([b"a", b"b"])
        self.assertEqual([], self.sends)
        self.assertEqual(b"0123456789ab", self.read())
        self.assertEqual([12], self.sends)
        self.assertEqual(set(), self.reactor.writers)

    def test_untaken(self) -> None:
        """What is put aside counts as written and not taken; what was sent of it does not."""
        for number in range(1, 4):
            self.transport.write(b"x" * 1000)
            self.assertEqual(1000 * number, unsent_bytes(self.transport))
        self.gathering.send()
        self.assertEqual(0, unsent_bytes(self.transport))

    def test_bound(self) -> None:
        """No more is put aside than may be; what comes before it is sent first, then it."""
        self.transport.socket.end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        called: list[int] = []
        self.gathering.first(lambda: called.append(len(self.sends)))
        self.transport.write(b"a" * 40_000)
        self.transport.write(b"b" * (MAX_ASIDE_BYTES - 40_000))
        self.assertEqual([], self.sends)
        self.transport.write(b"c" * 100)
        self.assertEqual([MAX_ASIDE_BYTES], self.sends)
        self.assertEqual(100, unsent_bytes(self.transport))
        self.transport.write(b"d" * (MAX_ASIDE_BYTES + 1))
        self.assertEqual([MAX_ASIDE_BYTES, 100, MAX_ASIDE_BYTES + 1], self.sends)
        self.assertEqual([0], called)
        self.transport.write(b"e")
        self.assertEqual(2 * MAX_ASIDE_BYTES + 102, len(self.read()))

    def test_pause_at_the_end(self) -> None:
        """Nobody is paused for what is put aside, only for what the socket does not take of it."""
        producer = Producer()
        self.transport.registerProducer(producer, True)
        for _ in range(64):
            self.transport.write(b"x" * 1000)
        self.gathering.send()
        self.assertEqual([], producer.told)
        self.transport.write(b"x" * 60_000)
        self.assertEqual(["pause"], producer.told)
        self.assertEqual(124_000, len(self.drain()))
        self.assertEqual(["pause", "resume"], producer.told)

    def test_abort(self) -> None:
        """What was put aside goes with an aborted connection."""
        calls: list[Any] = []
        cast(Any, self.reactor).callLater = lambda delay, *call: calls.append(call)
        self.transport.write(b"x")
        self.transport.abortConnection()
        self.transport.write(b"y")
        self.assertEqual(b"", self.read())
        self.assertEqual(0, unsent_bytes(self.transport))
        self.assertEqual(1, len(calls))

    def test_lost(self) -> None:
        """Nothing is sent to a connection that was lost in the meantime, nor kept for it."""
        self.transport.write(b"x")
        self.transport.connectionLost(Failure(OSError("gone")))
        self.transport.write(b"y")
        self.gathering.send()
        self.transport.write(b"z")
        self.assertEqual([], self.sends)
        self.assertEqual([], self.gathering.waiting)

    def test_event_of_another(self) -> None:
        """An event that was meant for an earlier owner of the descriptor sends nothing early."""
        self.transport.write(b"x")
        self.assertIsNone(self.transport.doWrite())
        self.assertEqual([], self.sends)
        self.assertEqual(b"x", self.read())

    def test_after_the_turn(self) -> None:
        """Once the turn is over a write goes out at once, behind what still waits of the turn."""
        self.transport.write(b"x")
        cast(Any, self.reactor).gathering = None
        self.transport.write(b"y")
        self.assertEqual([], self.sends)
        self.assertEqual(b"xy", self.read())
        self.transport.write(b"z")
        self.assertEqual([2, 1], self.sends)

    def test_at_once(self) -> None:
        """Here the turn has to end first."""
        self.transport.write(b"hello")
        self.assertEqual(b"", super().read())
        self.assertEqual(b"hello", self.drain())

    def test_broken(self) -> None:
        """A peer that is gone is met by the reactor, a turn later."""
        self.theirs.close()
        self.transport.write(b"hello")
        self.gathering.send()
        self.assertIsNone(self.protocol.lost)
        self.reactor.turn()
        self.assertIsNotNone(self.protocol.lost)


class ReadingTests(SynchronousTestCase):
    """What a read comes to, as Twisted's own has it."""

    def setUp(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        for end in (ours, self.theirs):
            self.addCleanup(end.close)
        self.received: list[bytes] = []
        protocol: Any = Protocol()
        protocol.dataReceived = self.received.append
        self.transports: list[Any] = [
            kind(ours, protocol, cast(Any, Reactor())) for kind in (Direct, Plain)
        ]

    def test_reads(self) -> None:
        """Nothing there, something there, the end, and an error."""
        for transport in self.transports:
            self.assertIsNone(transport.doRead())
            self.theirs.send(b"hello")
            self.assertIsNone(transport.doRead())
            self.assertEqual([b"hello"], self.received)
            self.received.clear()
        self.theirs.shutdown(socket.SHUT_WR)
        for transport in self.transports:
            self.assertIs(CONNECTION_DONE, transport.doRead())
        self.transports[0].socket.close()
        for transport in self.transports:
            self.assertIs(CONNECTION_LOST, transport.doRead())


class UntakenTests(SynchronousTestCase):
    def setUp(self) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        self.peer = socket.socket()
        self.addCleanup(self.peer.close)
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.peer.connect(server.getsockname())
        self.socket, _ = server.accept()
        self.addCleanup(self.socket.close)
        self.socket.setblocking(False)
        self.transport = Direct(self.socket, Recorder(), cast(Any, Reactor()))
        self.transport.connected = 1

    def test_kernel_counts(self) -> None:
        """What the kernel holds counts, and each read of the other side shows."""
        self.transport.write(b"x" * 3_000_000)
        self.assertGreater(untaken_bytes(self.transport), unsent_bytes(self.transport))
        before = untaken_bytes(self.transport)
        waiting = unsent_bytes(self.transport)
        for _ in range(20):
            self.peer.recv(2000)
        self.assertLess(untaken_bytes(self.transport), before)
        self.assertEqual(unsent_bytes(self.transport), waiting)

    def test_closed(self) -> None:
        """Of a closed socket, and of a transport without one, only what waits is told."""
        self.socket.close()
        self.assertEqual(untaken_bytes(self.transport), 0)
        self.assertEqual(untaken_bytes(object()), -1)
