"""Writing straight to the socket: in order, with back pressure, and never with an exception."""

import socket
from typing import Any, cast

from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.direct_tcp import DirectWriting, unsent_bytes, untaken_bytes


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
