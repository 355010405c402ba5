"""The client of the control plane: exact requests, bounded answers, errors in words."""

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import connectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway import control_client as control_client_module
from omnigate.gateway.control_client import (
    CONFIG_PATH,
    CONNECT_SECONDS,
    GET_SECONDS,
    POST_SECONDS,
    ControlClient,
    ControlError,
)
from omnigate.protocols.addresses import AddressError
from omnigate.protocols.watchdog import Watchdog
from omnigate.testing.naming_reactor import NamingReactor

TOKEN = "internal-token-0123456789"


def answer(status: int, body: bytes, *headers: bytes) -> bytes:
    """Write an answer with a length."""
    head = [b"HTTP/1.1 %d x" % status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join([*head, b"", b""]) + body


class Wire(StringTransport):
    """A connection in memory, with the options that a real one has."""

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Nothing here waits."""


class ClientTests(SynchronousTestCase):
    """Requests over connections in memory."""

    def setUp(self) -> None:
        """Make a client."""
        self.reactor = NamingReactor({"control.test": ["192.0.2.1"]})
        self.client = self.make("http://control.test:8081")

    def make(self, url: str) -> ControlClient:
        """Make a client of an address."""
        return ControlClient(self.reactor, Watchdog(self.reactor), url, TOKEN)

    def connect(self) -> tuple[IProtocol, StringTransport]:
        """Let the newest connection attempt succeed."""
        self.reactor.advance(0)
        factory = self.reactor.tcpClients[-1][2]
        protocol = factory.buildProtocol(None)
        assert protocol is not None
        transport = Wire()
        protocol.makeConnection(transport)
        return protocol, transport

    def ask(self, path: str = CONFIG_PATH) -> tuple[Deferred[tuple[int, bytes]], IProtocol]:
        """Begin a GET on a new connection."""
        asked = self.client.get(path)
        protocol, self.wire = self.connect()
        return asked, protocol

    def fault(self, asked: Deferred[tuple[int, bytes]]) -> str:
        """Return the words of a failure, which hold no credential."""
        words = str(self.failureResultOf(asked, ControlError).value)
        self.assertNotIn(TOKEN, words)
        self.assertNotIn("\n", words)
        return words

    def test_get(self) -> None:
        """A GET carries the token and gives status and body."""
        asked, protocol = self.ask()
        self.assertEqual(self.reactor.tcpClients[-1][:2], ("192.0.2.1", 8081))
        request = self.wire.value().lower()
        self.assertTrue(request.startswith(b"get /internal/config http/1.1\r\n"), request)
        for line in (
            b"host: control.test:8081",
            b"x-omnigate-internal: " + TOKEN.encode(),
            b"accept: application/json",
        ):
            self.assertIn(b"\r\n" + line + b"\r\n", request)
        protocol.dataReceived(answer(503, b'{"error":1}'))
        self.assertEqual(self.successResultOf(asked), (503, b'{"error":1}'))

    def test_post(self) -> None:
        """A POST carries JSON with its length."""
        asked = self.client.post("/internal/counters", b'{"refusals":[]}')
        protocol, transport = self.connect()
        head, _, body = transport.value().partition(b"\r\n\r\n")
        self.assertEqual(body, b'{"refusals":[]}')
        self.assertIn(b"content-length: 15", head.lower())
        self.assertIn(b"content-type: application/json", head.lower())
        protocol.dataReceived(b"HTTP/1.1 204 x\r\n\r\n")
        self.assertEqual(self.successResultOf(asked), (204, b""))

    def test_byte_by_byte(self) -> None:
        """An answer may come in any pieces, with a length or chunked."""
        chunked = b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        for wire in (answer(200, b"{}"), chunked):
            asked, protocol = self.ask()
            for byte in wire:
                protocol.dataReceived(bytes([byte]))
            self.assertEqual(self.successResultOf(asked), (200, b"{}"))
            self.setUp()

    def test_connection_is_kept(self) -> None:
        """The next request goes over the same connection."""
        asked, protocol = self.ask()
        protocol.dataReceived(answer(200, b"{}"))
        self.successResultOf(asked)
        self.wire.clear()
        again = self.client.get(CONFIG_PATH)
        self.assertEqual(len(self.reactor.tcpClients), 1)
        protocol.dataReceived(answer(200, b"[]"))
        self.assertEqual(self.successResultOf(again), (200, b"[]"))

    def test_unchanged_config(self) -> None:
        """A config that has not changed is not sent again; the caller does not see it."""
        asked, protocol = self.ask()
        protocol.dataReceived(answer(200, b'{"version":"1"}', b'etag: "1"'))
        first = self.successResultOf(asked)
        self.wire.clear()
        again = self.client.get(CONFIG_PATH)
        self.assertIn(b'if-none-match: "1"\r\n', self.wire.value().lower())
        protocol.dataReceived(b'HTTP/1.1 304 x\r\netag: "1"\r\n\r\n')
        self.assertEqual(self.successResultOf(again), first)
        self.wire.clear()
        self.client.get("/internal/other")
        self.assertNotIn(b"if-none-match", self.wire.value().lower())

    def test_path_before(self) -> None:
        """A path in the address stands before ours."""
        self.client = self.make("http://control.test:8081/omni/")
        self.ask()
        self.assertTrue(self.wire.value().startswith(b"GET /omni/internal/config HTTP/1.1\r\n"))

    def test_addresses(self) -> None:
        """An address that cannot be used is refused at the start."""
        for url in ("control.test:8081", "http://u:p@control.test", "http://control.test/?a"):
            self.assertRaises(AddressError, self.make, url)

    def test_redirect_is_not_followed(self) -> None:
        """A redirect is an answer; the token goes nowhere else."""
        asked, protocol = self.ask()
        protocol.dataReceived(answer(302, b"", b"location: http://evil.test/"))
        self.assertEqual(self.successResultOf(asked), (302, b""))
        self.assertEqual(len(self.reactor.tcpClients), 1)

    def test_refused(self) -> None:
        """A control plane that is not there is an error with a remedy."""
        asked = self.client.get(CONFIG_PATH)
        self.reactor.advance(0)
        self.reactor.tcpClients[-1][2].clientConnectionFailed(
            None,  # type: ignore[arg-type]
            Failure(ConnectionRefusedError()),
        )
        self.reactor.advance(CONNECT_SECONDS)
        words = self.fault(asked)
        self.assertIn("no answer from http://control.test:8081: ", words)
        self.assertIn("connection refused", words)
        self.assertIn("OMNIGATE_CONTROL_URL", words)

    def test_unknown_name(self) -> None:
        """A name that does not resolve is said to be that."""
        client = self.make("http://nowhere.test")
        self.assertIn("cannot be resolved", self.fault(client.get(CONFIG_PATH)))

    def test_silence(self) -> None:
        """An answer that does not come in time is given up, and its connection closed."""
        asked, _ = self.ask()
        self.reactor.advance(GET_SECONDS)
        self.assertIn("did not answer within 10 s", self.fault(asked))
        self.assertTrue(self.wire.disconnected)

    def test_slow_body(self) -> None:
        """A body that does not end in time is given up, too."""
        asked = self.client.post("/internal/usage/batch", b"{}")
        protocol, transport = self.connect()
        protocol.dataReceived(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n{")
        self.reactor.advance(POST_SECONDS)
        self.assertIn("did not answer within 30 s", self.fault(asked))
        self.assertTrue(transport.disconnecting or transport.disconnected)
        protocol.connectionLost(connectionDone)

    def test_cut(self) -> None:
        """An answer that is cut short is no answer."""
        for wire in (b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n{}", b"HTTP/1.1 20", b""):
            asked, protocol = self.ask("/internal/other")
            protocol.dataReceived(wire)
            protocol.connectionLost(connectionDone)
            self.assertIn("no answer from", self.fault(asked))

    def test_end_by_closing(self) -> None:
        """An answer that only the end of its connection ends may be a cut one."""
        asked, protocol = self.ask()
        protocol.dataReceived(b"HTTP/1.1 200 x\r\n\r\n{}")
        protocol.connectionLost(connectionDone)
        self.fault(asked)

    def test_no_http(self) -> None:
        """Something that is no HTTP server is an error."""
        asked, protocol = self.ask()
        protocol.dataReceived(b"SSH-2.0-OpenSSH\r\n")
        protocol.connectionLost(connectionDone)
        self.fault(asked)

    def test_framing(self) -> None:
        """What cannot be framed, or does not end where it should, is refused at once."""
        head = b"HTTP/1.1 200 x\r\n"
        for wire in (
            head + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            head + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
            head + b"transfer-encoding: chunked\r\n\r\n" + b"0" * 16 + b"2\r\n{}\r\n0\r\n\r\n",
            head + b"transfer-encoding: chunked\r\n\r\n2;" + b"x" * 2000,
            head + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 3000,
            head + b"x: y\r\n" * 10_000,
            head + b"x: " + b"y" * 70_000,
            b"HTTP/1.1 100 x\r\n\r\n" * 20,
            b"HTTP/1.1 101 x\r\n\r\n",
        ):
            asked, protocol = self.ask()
            protocol.dataReceived(wire)
            self.fault(asked)
            self.assertTrue(self.wire.disconnected)

    def test_stale(self) -> None:
        """A kept connection that was being closed is replaced, where nothing can be done twice."""
        for again in (True, False):
            self.setUp()
            asked, protocol = self.ask()
            protocol.dataReceived(answer(200, b"{}"))
            self.successResultOf(asked)
            asked = self.client.get(CONFIG_PATH) if again else self.client.post("/x", b"{}")
            protocol.connectionLost(connectionDone)
            if again:
                protocol, _ = self.connect()
                protocol.dataReceived(answer(200, b"[]"))
                self.assertEqual(self.successResultOf(asked), (200, b"[]"))
            else:
                self.fault(asked)

    def test_too_long(self) -> None:
        """A body over the bound is given up, said to be long or found to be."""
        self.patch(control_client_module, "MAX_ANSWER_BYTES", 10)
        for wire in (
            answer(200, b"x" * 11),
            b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\nb\r\n" + b"x" * 11,
        ):
            asked, protocol = self.ask("/internal/other")
            protocol.dataReceived(wire)
            self.assertIn("longer than 10 bytes", self.fault(asked))
            self.assertTrue(self.wire.disconnecting or self.wire.disconnected)
            protocol.connectionLost(connectionDone)

    def test_config_may_be_longer(self) -> None:
        """The bound of the config is another one."""
        self.patch(control_client_module, "MAX_ANSWER_BYTES", 10)
        asked, protocol = self.ask()
        protocol.dataReceived(answer(200, b"x" * 11))
        self.successResultOf(asked)

    def test_cancel(self) -> None:
        """A caller that gives up closes the connection."""
        asked, _ = self.ask()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertTrue(self.wire.disconnected)
        self.assertEqual(self.reactor.getDelayedCalls(), [])
