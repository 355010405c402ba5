"""Connections to upstreams: plain, TLS that is verified, and through a proxy."""

import datetime
import functools
import gc
import ipaddress
import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from OpenSSL.crypto import X509, PKey
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, IOPump
from twisted.test.iosim import connect as iosim_connect
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.addresses import UpstreamAddress, parse_address
from omnigate.protocols.connector import (
    MAX_PROXY_HEAD_BYTES,
    Pace,
    UpstreamConnectError,
    connect,
    forget_tls_contexts,
)
from omnigate.testing.naming_reactor import NamingReactor, TableResolver
from tests.protocols.served import Stage

HOST = "api.example.net"
DAY = datetime.timedelta(days=1)


@attrs.frozen
class Identity:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate as a PEM block."""
        return self.certificate.public_bytes(Encoding.PEM)


def issue(
    name: str,
    by: Identity | None = None,
    hosts: Iterable[x509.GeneralName] = (),
    not_before: datetime.timedelta = -DAY,
    not_after: datetime.timedelta = DAY,
) -> Identity:
    """Make a certificate: an authority's own without ``by``, else a server's."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + not_before)
        .not_valid_after(now + not_after)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if by is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return Identity(builder.sign(key if by is None else by.key, hashes.SHA256()), key)


@functools.cache
def authorities() -> tuple[Identity, Identity]:
    """Make two authorities, once for all tests."""
    return issue("authority"), issue("stranger")


class Talker(Protocol):
    """Keeps what it is told; says ``greeting`` when it is connected."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.received = b""
        self.lost: Failure | None = None

    def connectionMade(self) -> None:
        """Say the greeting."""
        assert self.transport is not None
        self.transport.write(self.greeting)

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Keep why."""
        self.lost = reason


class ProxyServer(Talker):
    """Answers a CONNECT with fixed bytes and then speaks for the server behind it."""

    def __init__(self, answer: bytes, behind: IProtocol) -> None:
        super().__init__()
        self.answer = answer
        self.behind = behind
        self.through = False

    def dataReceived(self, data: bytes) -> None:
        """Keep the request head, then pass bytes on."""
        if self.through:
            self.behind.dataReceived(data)
            return
        super().dataReceived(data)
        if self.received.endswith(b"\r\n\r\n"):
            self.through = True
            assert self.transport is not None
            self.transport.write(self.answer)
            self.behind.makeConnection(self.transport)


class ConnectCase(SynchronousTestCase):
    """One attempt to connect, with a server in memory at the other end."""

    pace: Pace | None = None

    def setUp(self) -> None:
        """Start without cached TLS contexts."""
        forget_tls_contexts()
        self.addCleanup(forget_tls_contexts)
        self.reactor = NamingReactor({HOST: ["192.0.2.7"], "proxy.test": ["192.0.2.99"]})
        self.client = Talker(b"hello")
        self.server = Talker(b"")

    def attempt(self, address: UpstreamAddress) -> Deferred[IProtocol]:
        """Begin to connect."""
        return connect(self.reactor, address, lambda: self.client, 5.0, self.pace)

    def establish(self, server: IProtocol) -> IOPump:
        """Let the newest TCP connection reach a server."""
        factory = self.reactor.tcpClients[-1][2]
        client = factory.buildProtocol(None)
        pump: IOPump = iosim_connect(
            server,
            FakeTransport(server, isServer=True),
            client,
            FakeTransport(client, isServer=False),
        )
        self.settle(pump)
        return pump

    def settle(self, pump: IOPump) -> None:
        """Let all that was written arrive."""
        for _ in range(6):
            pump.flush()
            self.reactor.advance(0)

    def failure(self, attempt: Deferred[IProtocol]) -> UpstreamConnectError:
        """Return the error an attempt ended with."""
        return self.failureResultOf(attempt, UpstreamConnectError).value  # type: ignore[no-any-return]


class StraightTests(SynchronousTestCase):
    """Over real sockets nobody stands between a plain connection and its protocol."""

    def straight(self, kind: str) -> None:
        """Its transport tells it of each read and of the end."""
        stage = Stage(kind)
        self.addCleanup(stage.close)
        talker = Talker(b"hello")
        address = parse_address(f"http://127.0.0.1:{stage.port.getHost().port}/v1")
        made: list[Any] = []
        connect(stage.reactor, address, lambda: talker, 5.0).addCallback(made.append)
        stage.spin(lambda: bool(made))
        self.assertIs(talker, made[0])
        wire: Any = talker.transport
        self.assertIs(talker, wire.protocol)
        stage.spin(lambda: bool(stage.served and stage.served[0].acted))
        served: Any = stage.served[0]
        served.wire.unregisterProducer()
        served.wire.write(b"answer")
        served.wire.loseConnection()
        stage.spin(lambda: talker.lost is not None)
        self.assertEqual(b"answer", talker.received)
        assert talker.lost is not None
        self.assertTrue(talker.lost.check(ConnectionDone))
        self.assertEqual([], stage.reactor.getDelayedCalls())

    def test_straight(self) -> None:
        """On our reactor."""
        self.straight("LeanReactor")

    def test_stock(self) -> None:
        """And on Twisted's own."""
        self.straight("EPollReactor")


class PlainTests(ConnectCase):
    """Without TLS."""

    def test_name(self) -> None:
        """A name is resolved and the protocol connected to its address."""
        attempt = self.attempt(parse_address(f"http://{HOST}:8000/v1"))
        self.reactor.advance(0)
        self.assertEqual(self.reactor.tcpClients[0][:2], ("192.0.2.7", 8000))
        self.establish(self.server)
        self.assertIs(self.successResultOf(attempt), self.client)
        self.assertEqual(self.server.received, b"hello")
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_ip_addresses(self) -> None:
        """An IP address of either kind is connected to without asking the resolver."""
        for url, host in (("http://192.0.2.1:81", "192.0.2.1"), ("http://[::1]:81", "::1")):
            self.reactor.installNameResolver(TableResolver({}))
            attempt = self.attempt(parse_address(url))
            self.assertEqual(self.reactor.tcpClients[-1][:2], (host, 81))
            self.establish(Talker())
            self.successResultOf(attempt)

    def test_number(self) -> None:
        """An address that was looked up before is connected to, and no name asked for."""
        self.reactor.installNameResolver(TableResolver({}))
        address = attrs.evolve(parse_address(f"http://{HOST}:8000/v1"), number="192.0.2.77")
        attempt = self.attempt(address)
        self.assertEqual(self.reactor.tcpClients[0][:2], ("192.0.2.77", 8000))
        self.establish(self.server)
        self.successResultOf(attempt)

    def test_unknown_name(self) -> None:
        """A name that does not resolve is said to be that."""
        attempt = self.attempt(parse_address("http://nowhere.test/v1"))
        self.reactor.advance(0)
        error = self.failure(attempt)
        self.assertEqual(error.outcome, "connect_error")
        self.assertEqual(
            str(error), "cannot connect to nowhere.test:80: the host name cannot be resolved"
        )

    def test_refused(self) -> None:
        """A refused connection is an error that names the place."""
        attempt = self.attempt(parse_address("http://192.0.2.1:81"))
        self.reactor.tcpClients[-1][2].clientConnectionFailed(
            None,  # type: ignore[arg-type]
            Failure(ConnectionRefusedError()),
        )
        self.assertEqual(
            str(self.failure(attempt)), "cannot connect to 192.0.2.1:81: connection refused"
        )

    def test_refused_is_freed(self) -> None:
        """What went wrong keeps none of the frames that it passed from being freed."""
        self.test_refused()
        gc.collect()
        gc.disable()
        try:
            self.test_refused()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(item).__name__ for item in gc.garbage)
            self.assertEqual((0, 0, 0), (left["coroutine"], left["traceback"], left["Failure"]))
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    def test_timeout(self) -> None:
        """An attempt that takes too long ends as a timeout."""
        attempt = self.attempt(parse_address("http://192.0.2.1:81"))
        self.reactor.advance(4.9)
        self.assertNoResult(attempt)
        self.reactor.advance(0.1)
        error = self.failure(attempt)
        self.assertEqual(error.outcome, "timeout")
        self.assertIn("no connection within 5 s", str(error))

    def test_cancel(self) -> None:
        """A caller that gives up is not told of a fault of the upstream."""
        attempt = self.attempt(parse_address("http://192.0.2.1:81"))
        attempt.cancel()
        self.failureResultOf(attempt, CancelledError)
        self.assertEqual(self.reactor.getDelayedCalls(), [])


class SecureCase(ConnectCase):
    """With TLS; every certificate is made here."""

    def setUp(self) -> None:
        """Take the two authorities."""
        super().setUp()
        self.authority, self.stranger = authorities()

    def leaf(self, *hosts: x509.GeneralName, by: Identity | None = None) -> Identity:
        """Make a server's certificate."""
        return issue("leaf", by or self.authority, hosts or [x509.DNSName(HOST)])

    def trust(self, *identities: Identity) -> str:
        """Write a ca_file."""
        path: str = self.mktemp()
        with open(path, "wb") as stream:
            stream.write(b"# authorities\n" + b"\n".join(one.pem for one in identities))
        return path

    def serve(self, identity: Identity, **options: Any) -> IProtocol:
        """Make a TLS server in front of ``self.server``."""
        options.setdefault("acceptableProtocols", [b"h2", b"http/1.1"])
        context = CertificateOptions(
            privateKey=PKey.from_cryptography_key(identity.key),
            certificate=X509.from_cryptography(identity.certificate),
            **options,
        )
        factory = TLSMemoryBIOFactory(
            context, False, Factory.forProtocol(lambda: self.server), clock=self.reactor
        )
        protocol = factory.buildProtocol(None)
        assert protocol is not None
        return protocol

    def reach(
        self, identity: Identity, url: str = f"https://{HOST}/v1", trusted: Identity | None = None
    ) -> Deferred[IProtocol]:
        """Connect to a server that shows ``identity``."""
        attempt = self.attempt(parse_address(url, ca_file=self.trust(trusted or self.authority)))
        self.reactor.advance(0)
        self.establish(self.serve(identity))
        return attempt


class SecureTests(SecureCase):
    """Whom is trusted, and when."""

    def test_good(self) -> None:
        """A certificate for the host by a trusted authority is accepted, and bytes pass."""
        attempt = self.attempt(
            parse_address(f"https://{HOST}/v1", ca_file=self.trust(self.stranger, self.authority))
        )
        self.reactor.advance(0)
        self.assertEqual(self.reactor.tcpClients[-1][1], 443)
        pump = self.establish(self.serve(self.leaf()))
        self.assertIs(self.successResultOf(attempt), self.client)
        assert self.client.transport is not None
        self.assertEqual(self.client.transport.negotiatedProtocol, b"http/1.1")  # type: ignore[attr-defined]
        assert self.server.transport is not None
        self.server.transport.write(b"answer")
        self.settle(pump)
        self.assertEqual((self.server.received, self.client.received), (b"hello", b"answer"))
        self.server.transport.loseConnection()
        self.settle(pump)
        self.assertIsNotNone(self.client.lost)

    def test_not_before_handshake(self) -> None:
        """The protocol is connected only when the handshake is over."""
        attempt = self.attempt(parse_address(f"https://{HOST}", ca_file=self.trust(self.authority)))
        self.reactor.advance(0)
        factory = self.reactor.tcpClients[-1][2]
        wire = StringTransport()
        opening = factory.buildProtocol(None)
        assert opening is not None
        opening.makeConnection(wire)
        self.assertTrue(wire.value().startswith(b"\x16\x03"))
        self.assertNoResult(attempt)
        self.assertIsNone(self.client.transport)
        self.reactor.advance(5)
        self.assertEqual(self.failure(attempt).outcome, "timeout")
        self.assertTrue(wire.disconnected)
        opening.connectionLost(connectionDone)
        self.assertIsNone(self.client.transport)

    def test_wrong_host(self) -> None:
        """A certificate for another host is refused."""
        error = self.failure(self.reach(self.leaf(x509.DNSName("other.example.net"))))
        self.assertIn(f"{HOST}:443: the certificate is made out to another host", str(error))
        self.assertIsNone(self.client.transport)

    def test_common_name_is_no_host(self) -> None:
        """A host that stands only in the common name does not count (RFC 9525)."""
        identity = issue(HOST, self.authority, [x509.DNSName("other.example.net")])
        self.failure(self.reach(identity))

    def test_unknown_authority(self) -> None:
        """A certificate by an authority that is not trusted is refused."""
        error = self.failure(self.reach(self.leaf(by=self.stranger)))
        self.assertIn("its authority is unknown (see ca_file)", str(error))
        self.assertIsNone(self.client.transport)

    def test_platform_authorities(self) -> None:
        """Without ca_file our own authority is unknown, that is, something is verified."""
        attempt = self.attempt(parse_address(f"https://{HOST}/v1"))
        self.reactor.advance(0)
        self.establish(self.serve(self.leaf()))
        self.assertIn("its authority is unknown", str(self.failure(attempt)))

    def test_expired(self) -> None:
        """A certificate whose time is over, or has not come, is refused."""
        for not_before, not_after in ((-2 * DAY, -DAY), (DAY, 2 * DAY)):
            identity = issue("leaf", self.authority, [x509.DNSName(HOST)], not_before, not_after)
            error = self.failure(self.reach(identity))
            self.assertIn("expired or not valid yet", str(error))

    def test_ip_address(self) -> None:
        """An IP address is verified against the addresses in the certificate."""
        url = "https://192.0.2.9/v1"
        for host in ("192.0.2.8", "192.0.2.9"):
            self.client = Talker()
            attempt = self.reach(self.leaf(x509.IPAddress(ipaddress.ip_address(host))), url)
            if host == "192.0.2.9":
                self.successResultOf(attempt)
            else:
                self.assertIn("another host", str(self.failure(attempt)))

    def test_old_protocol(self) -> None:
        """TLS older than 1.2 is not spoken."""
        attempt = self.attempt(parse_address(f"https://{HOST}", ca_file=self.trust(self.authority)))
        self.reactor.advance(0)
        self.establish(
            self.serve(
                self.leaf(),
                insecurelyLowerMinimumTo=TLSVersion.TLSv1_0,
                lowerMaximumSecurityTo=TLSVersion.TLSv1_1,
            )
        )
        self.failure(attempt)

    def test_peer_leaves(self) -> None:
        """A peer that closes during the handshake is a failure to connect."""
        attempt = self.attempt(parse_address(f"https://{HOST}", ca_file=self.trust(self.authority)))
        self.reactor.advance(0)
        pump = self.establish(self.server)
        assert self.server.transport is not None
        self.server.transport.loseConnection()
        self.settle(pump)
        self.assertEqual(self.failure(attempt).outcome, "connect_error")

    def test_plain_server(self) -> None:
        """A server that speaks no TLS is named as a TLS fault."""
        attempt = self.attempt(parse_address(f"https://{HOST}", ca_file=self.trust(self.authority)))
        self.reactor.advance(0)
        self.establish(Talker(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        self.assertIn("TLS: ", str(self.failure(attempt)))

    def test_ca_file_faults(self) -> None:
        """A ca_file that cannot be used fails the attempt and is named."""
        empty, damaged = self.mktemp(), self.mktemp()
        with open(empty, "wb") as stream:
            stream.write(b"nothing\n")
        with open(damaged, "wb") as stream:
            stream.write(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        pipe = self.mktemp()
        os.mkfifo(pipe)
        for path in ("/nowhere/ca.pem", empty, damaged, pipe):
            attempt = self.attempt(parse_address(f"https://{HOST}", ca_file=path))
            error = self.failure(attempt)
            self.assertIn(f"ca_file {path}", str(error))
            self.assertEqual(self.reactor.tcpClients, [])
            self.assertEqual(error.outcome, "connect_error")

    def test_ca_file_read_once(self) -> None:
        """The authorities are read at the first connection only."""
        path = self.trust(self.authority)
        address = parse_address(f"https://{HOST}", ca_file=path)
        identity = self.leaf()
        for _ in range(2):
            self.client = Talker()
            attempt = self.attempt(address)
            self.reactor.advance(0)
            self.establish(self.serve(identity))
            self.successResultOf(attempt)
            if os.path.exists(path):
                os.unlink(path)

    def test_through_proxy(self) -> None:
        """TLS is spoken through the tunnel, with the upstream and not with the proxy."""
        address = parse_address(
            f"https://{HOST}/v1", "http://proxy.test:3128", self.trust(self.authority)
        )
        attempt = self.attempt(address)
        self.reactor.advance(0)
        self.assertEqual(self.reactor.tcpClients[-1][:2], ("192.0.2.99", 3128))
        proxy = ProxyServer(b"HTTP/1.1 200 Connection established\r\n\r\n", self.serve(self.leaf()))
        self.establish(proxy)
        self.assertIs(self.successResultOf(attempt), self.client)
        self.assertEqual(
            proxy.received,
            b"CONNECT api.example.net:443 HTTP/1.1\r\nHost: api.example.net:443\r\n\r\n",
        )
        self.assertEqual(self.server.received, b"hello")


class PacedTests(SecureTests):
    """All the same where the steps of handshakes wait for their turns."""

    def setUp(self) -> None:
        """Give turns by the clock."""
        super().setUp()
        self.turns: list[Callable[[], None]] = []
        self.pace = lambda call: self.reactor.callLater(0, call)

    def begun(self) -> tuple[Deferred[IProtocol], IProtocol, StringTransport]:
        """A connection that is up, and whose turn has not come."""
        self.pace = self.turns.append
        attempt = self.attempt(parse_address(f"https://{HOST}", ca_file=self.trust(self.authority)))
        self.reactor.advance(0)
        opening = self.reactor.tcpClients[-1][2].buildProtocol(None)
        assert opening is not None
        wire = StringTransport()
        opening.makeConnection(wire)
        return attempt, opening, wire

    def turn(self) -> None:
        """Give all turns that were asked for."""
        turns, self.turns[:] = self.turns[:], []
        for call in turns:
            call()

    def test_not_before_handshake(self) -> None:
        """Each step is made in its turn: the beginning, what came, and the end behind it."""
        attempt, opening, wire = self.begun()
        self.assertEqual((wire.value(), len(self.turns)), (b"", 1))
        opening.dataReceived(b"HTTP/1.1 ")
        opening.dataReceived(b"400 Bad Request")
        opening.connectionLost(connectionDone)
        self.assertEqual(len(self.turns), 1)
        self.turn()
        self.assertTrue(wire.value().startswith(b"\x16\x03"))
        self.turn()
        self.assertNoResult(attempt)
        self.turn()
        self.assertIn("TLS: ", str(self.failure(attempt)))
        self.assertEqual(self.turns, [])

    def test_lost_before_its_turn(self) -> None:
        """A connection that ends before it has begun is told of as such."""
        attempt, opening, _ = self.begun()
        opening.connectionLost(Failure(ConnectionDone()))
        while self.turns:
            self.turn()
        self.assertEqual(self.failure(attempt).outcome, "connect_error")

    def test_flood_before_its_turn(self) -> None:
        """A peer that says more than any handshake has is given up, and nothing of it kept."""
        attempt, opening, wire = self.begun()
        for _ in range(6):
            opening.dataReceived(b"\x16" * 65536)
        self.assertTrue(wire.disconnected)
        opening.connectionLost(connectionDone)
        while self.turns:
            self.turn()
        self.assertEqual(self.failure(attempt).outcome, "connect_error")
        self.assertEqual((self.client.received, self.turns), (b"", []))

    def test_given_up_before_its_turn(self) -> None:
        """Whoever gives up has no step made any more."""
        attempt, opening, wire = self.begun()
        attempt.cancel()
        self.failureResultOf(attempt, CancelledError)
        opening.connectionLost(connectionDone)
        self.turn()
        self.assertEqual((wire.value(), wire.disconnected), (b"", True))
        self.assertEqual(self.turns, [])


class ProxyTests(ConnectCase):
    """The proxy's answer; behind it, plain HTTP."""

    def through(self, *answers: bytes) -> Deferred[IProtocol]:
        """Connect through a proxy that says these pieces."""
        attempt = self.attempt(parse_address(f"http://{HOST}:8000", "http://192.0.2.99:3128"))
        factory = self.reactor.tcpClients[-1][2]
        tunnel = factory.buildProtocol(None)
        assert tunnel is not None
        self.tunnel = tunnel
        self.wire = StringTransport()
        self.tunnel.makeConnection(self.wire)
        for answer in answers:
            if self.wire.disconnecting:
                break
            self.tunnel.dataReceived(answer)
        return attempt

    def test_plain(self) -> None:
        """An http:// upstream is reached through a tunnel as well."""
        attempt = self.through(b"HTTP/1.0 200 ok\r\nvia: x\r\n\r\n")
        self.assertIs(self.successResultOf(attempt), self.client)
        self.tunnel.dataReceived(b"answer")
        self.assertEqual(self.client.received, b"answer")
        self.tunnel.connectionLost(connectionDone)
        self.assertIsNotNone(self.client.lost)

    def test_byte_by_byte(self) -> None:
        """The answer may come in any pieces."""
        attempt = self.through(*(bytes([b]) for b in b"HTTP/1.1 200 ok\r\nvia: x\r\n\r\n"))
        self.assertIs(self.successResultOf(attempt), self.client)
        self.assertEqual(self.wire.value().count(b"CONNECT"), 1)

    def refused(self, *answers: bytes) -> str:
        """Return the words for a proxy's answer that is no tunnel."""
        attempt = self.through(*answers)
        error = self.failure(attempt)
        self.assertTrue(self.wire.disconnected)
        self.assertIsNone(self.client.transport)
        self.tunnel.connectionLost(connectionDone)
        self.assertIn("api.example.net:8000 through the proxy 192.0.2.99:3128", str(error))
        return str(error)

    def test_refusals(self) -> None:
        """Whatever is not a 2xx head of a bounded size is refused in words."""
        for answer, words in {
            b"HTTP/1.1 403 No\x1b[1m\r\n\r\nbody": 'refused: "HTTP/1.1 403 No\\x1b[1m"',
            b"HTTP/1.1 407 Auth\r\n\r\n": "credentials are not sent to proxies",
            b"HTTP/1.1 200 ok\r\n\r\nearly": "sent bytes into the tunnel",
            b"SSH-2.0-x\r\n\r\n": "did not answer in HTTP/1.1",
            b"HTTP/1.1 200 ok\r\n" + b"a: b\r\n" * MAX_PROXY_HEAD_BYTES: "longer than 16384",
            b"x" * (MAX_PROXY_HEAD_BYTES + 1): "longer than 16384",
        }.items():
            with self.subTest(answer=answer[:40]):
                self.client = Talker()
                self.assertIn(words, self.refused(answer))

    def test_proxy_leaves(self) -> None:
        """A proxy that closes without an answer is a failure to connect."""
        attempt = self.through(b"HTTP/1.1 2")
        self.tunnel.connectionLost(connectionDone)
        self.assertIn("the peer closed the connection", str(self.failure(attempt)))

    def test_silent_proxy(self) -> None:
        """A proxy that says nothing is a timeout, and its connection is closed."""
        attempt = self.through()
        self.reactor.advance(5)
        self.assertEqual(self.failure(attempt).outcome, "timeout")
        self.assertTrue(self.wire.disconnected)
