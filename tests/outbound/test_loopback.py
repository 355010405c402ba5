"""Over real sockets: peers that never end, disks that are slow, files for peers that are slow."""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Callable
from typing import Any

from cryptography import x509
from OpenSSL.crypto import X509, PKey
from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import CertificateOptions
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.outbound.messages import (
    CONNECT_ERROR,
    CONNECTION_LOST,
    REFUSED,
    TOO_LARGE,
    TRUNCATED,
    Answer,
    Request,
)
from omnigate.testing.writer import SynchronousWriter
from tests.outbound.network import MemorySink
from tests.protocols.test_connector import issue

#: What a loaded machine may take for what takes milliseconds.
SECONDS = 30.0
#: What the kernel's buffers of both ends may hold of a connection, and what is ours.
IN_BETWEEN_BYTES = 16 * 2**20


class Server(Protocol):
    """Does what a test has it do once a request's head is there.

    :ivar received: all that came.
    :ivar sent: how much was said.
    """

    def __init__(self, act: Callable[[Server], object]) -> None:
        self._act = act
        self._begun = False
        self._endless = b""
        self.wire: Any = None
        self.received = bytearray()
        self.sent = 0
        self.lost = False

    def connectionMade(self) -> None:
        self.wire = self.transport

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        if not self._begun and b"\r\n\r\n" in self.received:
            self._begun = True
            self._act(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True

    def say(self, data: bytes) -> None:
        self.sent += len(data)
        self.wire.write(data)

    def say_without_end(self, data: bytes) -> None:
        """Say it again whenever the client takes more."""
        self._endless = data
        self.wire.registerProducer(self, False)

    def resumeProducing(self) -> None:
        self.say(self._endless)

    def pauseProducing(self) -> None:
        """It is asked for each piece anyway."""

    def stopProducing(self) -> None:
        """The client is gone."""


class LoopbackTests(SynchronousTestCase):
    """One reactor with both ends on it."""

    def setUp(self) -> None:
        self.reactor: Any = EPollReactor()
        self.servers: list[Server] = []
        self.act: Callable[[Server], object] = lambda server: None
        factory: Any = Factory()
        factory.noisy = False
        factory.buildProtocol = self.build
        self.factory = factory
        self.ports = [self.reactor.listenTCP(0, factory, interface="127.0.0.1")]
        self.outbound = Outbound(self.reactor, AddressGuard(["127.0.0.1/32"]))
        self.sink = MemorySink()

    def tearDown(self) -> None:
        """After the end nothing is open and nothing waits."""
        closed = Deferred.fromCoroutine(self.outbound.close())
        self.spin(lambda: closed.called and all(server.lost for server in self.servers))
        for port in self.ports:
            port.stopListening()
        # Ports tell of their end by a call that is due at once.
        self.spin(lambda: self.reactor.getDelayedCalls() == [])
        self.assertEqual(self.reactor.getReaders(), [self.reactor.waker])
        self.reactor.waker.connectionLost(None)
        self.reactor._poller.close()

    def build(self, addr: object) -> Server:
        server = Server(lambda server: self.act(server))
        self.servers.append(server)
        return server

    def turn(self) -> None:
        self.reactor.runUntilCurrent()
        self.reactor.doIteration(0.001)

    def spin(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise AssertionError("what was waited for did not come")
            self.turn()

    def url(self, path: str, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.ports[-1].getHost().port}{path}"

    def fetch(self, max_bytes: int = 2**30) -> Deferred[Answer]:
        return Deferred.fromCoroutine(
            self.outbound.fetch(self.url("/a"), max_bytes, self.sink, own_origin=self.url("/"))
        )

    def answer(self, begun: Deferred[Answer]) -> Answer:
        self.spin(lambda: begun.called)
        return self.successResultOf(begun)

    def test_endless_body(self) -> None:
        """A body without a length and without an end is broken off right behind the cap."""

        def act(server: Server) -> None:
            server.say(b"HTTP/1.1 200 OK\r\n\r\n")
            server.say_without_end(b"x" * 65536)

        self.act = act
        answer = self.answer(self.fetch(2**20))
        self.assertEqual((answer.status, answer.fault), (200, TOO_LARGE))
        self.assertLessEqual(len(self.sink.content), 2**20)
        self.assertEqual(self.sink.told, ["begin", "abandon"])
        self.spin(lambda: self.servers[0].lost)

    def test_endless_head(self) -> None:
        """So is a head."""

        def act(server: Server) -> None:
            server.say(b"HTTP/1.1 200 OK\r\n")
            server.say_without_end(b"x: " + b"y" * 1000 + b"\r\n")

        self.act = act
        self.assertEqual(self.answer(self.fetch()).fault, "bad_framing")
        self.spin(lambda: self.servers[0].lost)

    def test_slow_disk(self) -> None:
        """While the sink is behind, the peer can send no more than the kernel's buffers hold."""
        size = 64 * 2**20

        def act(server: Server) -> None:
            server.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            server.say_without_end(b"x" * 65536)

        self.act = act
        fetched = self.fetch()
        self.spin(lambda: bool(self.sink.content))
        assert self.sink.source is not None
        self.sink.source.pause()
        held = len(self.sink.content)
        before = -1
        while before != self.servers[0].sent:
            before = self.servers[0].sent
            for _ in range(50):
                self.turn()
        self.assertLess(before, IN_BETWEEN_BYTES)
        # What was read when it was paused came through, and nothing since.
        self.assertLessEqual(len(self.sink.content) - held, 65536)
        self.sink.write = lambda data: None  # type: ignore[method-assign]
        self.sink.source.resume()
        self.assertTrue(self.answer(fetched).ok)

    def test_breaks(self) -> None:
        """A reset in a body is a cut, also of a body without a length; one before it is a loss."""
        for text, fault in (
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", TRUNCATED),
            (b"HTTP/1.1 200 OK\r\n\r\nabc", TRUNCATED),
            (b"HTTP/1.1 2", CONNECTION_LOST),
        ):
            self.sink = MemorySink()
            self.act = lambda server, text=text: server.say(text)  # type: ignore[misc]
            count = len(self.servers)
            fetched = self.fetch()
            self.spin(lambda count=count: len(self.servers) > count and self.servers[-1].sent > 0)  # type: ignore[misc]
            for _ in range(20):
                self.turn()
            self.servers[-1].wire.abortConnection()
            self.assertEqual(self.answer(fetched).fault, fault)

    def test_file_for_a_slow_peer(self) -> None:
        """Of a file no more is read than the peer takes, and it arrives whole."""
        path = self.mktemp()
        size = 32 * 2**20
        with open(path, "wb") as file:
            file.truncate(size)
        writer = SynchronousWriter()
        self.act = lambda server: server.wire.pauseProducing()
        request = Request("PUT", self.url("/bucket/a"))
        put = Deferred.fromCoroutine(self.outbound.put(request, path, size, submit=writer.submit))
        self.spin(lambda: bool(self.servers and self.servers[0].received))
        for _ in range(200):
            self.turn()
        read = max(
            (
                os.lseek(int(name), 0, os.SEEK_CUR)
                for name in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{name}")
                and os.readlink(f"/proc/self/fd/{name}") == os.path.abspath(path)
            ),
            default=0,
        )
        self.assertGreater(read, 0)
        self.assertLess(read, IN_BETWEEN_BYTES)
        server = self.servers[0]
        begin = server.received.index(b"\r\n\r\n") + 4
        server.wire.resumeProducing()
        self.spin(lambda: len(server.received) >= begin + size)
        server.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        self.assertTrue(self.answer(put).ok)
        self.assertEqual(len(server.received), begin + size)

    def secure(self) -> None:
        """Listen with TLS, and have the client trust that."""
        authority = issue("authority")
        here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        leaf = issue("leaf", authority, [here])
        self.ca_file = self.mktemp()
        with open(self.ca_file, "wb") as file:
            file.write(authority.pem)
        context = CertificateOptions(
            privateKey=PKey.from_cryptography_key(leaf.key),
            certificate=X509.from_cryptography(leaf.certificate),
            acceptableProtocols=[b"http/1.1"],
        )
        secure = TLSMemoryBIOFactory(context, False, self.factory, clock=self.reactor)
        # The one of newer versions gathers small writes.
        secure.protocol = TLSMemoryBIOProtocol
        self.ports.append(self.reactor.listenTCP(0, secure, backlog=200, interface="127.0.0.1"))
        self.outbound = Outbound(self.reactor, AddressGuard(), ca_file=self.ca_file)

    def test_records_of_one_byte(self) -> None:
        """A peer cannot have three thousand of them read in one turn: that takes 25 ms."""
        self.secure()
        size = 20_000
        turns: list[int] = []

        def act(server: Server) -> None:
            server.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size):
                server.say(b"x")

        self.act = act
        pieces = 0

        class Counting(MemorySink):
            def write(self, data: bytes) -> None:
                nonlocal pieces
                pieces += 1
                super().write(data)

        def turn() -> bool:
            nonlocal pieces
            turns.append(pieces)
            pieces = 0
            return bool(fetched.called)

        sink, url = Counting(), self.url("/", "https")
        fetched = Deferred.fromCoroutine(self.outbound.fetch(url, size, sink, own_origin=url))
        self.spin(turn)
        self.assertTrue(self.successResultOf(fetched).ok)
        self.assertEqual(sink.content, b"x" * size)
        self.assertLess(max(turns), 1_500)
        self.assertGreater(sum(turns), 5_000)

    def test_many_over_tls(self) -> None:
        """A hundred at once, each over a handshake of its own; none is lost or mixed up."""
        self.secure()

        def act(server: Server) -> None:
            path = bytes(server.received).split(b" ")[1]
            server.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path))

        self.act = act
        begun = [
            Deferred.fromCoroutine(
                self.outbound.call(Request("POST", self.url(f"/{at}", "https"), (), b"x"), 99)
            )
            for at in range(100)
        ]
        self.spin(lambda: all(each.called for each in begun))
        bodies = [self.successResultOf(each).body for each in begun]
        self.assertEqual(bodies, [b"/%d" % at for at in range(100)])
        # The certificate is made out to the number, which is no name.
        outbound = Outbound(self.reactor, AddressGuard(), ca_file=self.ca_file, resolve=self.here)
        url = self.url("/", "https").replace("127.0.0.1", "name.test")
        answer = self.answer(Deferred.fromCoroutine(outbound.call(Request("GET", url), 99)))
        self.assertEqual(answer.fault, CONNECT_ERROR)
        self.assertIn("made out to another host", answer.detail)
        closed = Deferred.fromCoroutine(outbound.close())
        self.spin(lambda: bool(closed.called))

    def here(self, name: str) -> Deferred[list[str]]:
        found: Deferred[list[str]] = Deferred()
        found.callback(["127.0.0.1"])
        return found

    def test_system_resolver(self) -> None:
        """The name of this machine is looked up in a thread, and refused for its address."""
        self.reactor.getThreadPool().start()
        outbound = Outbound(self.reactor, AddressGuard())
        fetched = Deferred.fromCoroutine(
            outbound.fetch(self.url("/", "https").replace("127.0.0.1", "localhost"), 9, self.sink)
        )
        answer = self.answer(fetched)
        self.assertEqual((answer.fault, answer.detail), (REFUSED, "address not allowed"))
        self.assertEqual(self.servers, [])
        closed = Deferred.fromCoroutine(outbound.close())
        self.spin(lambda: bool(closed.called))
        self.reactor.threadpool.stop()
