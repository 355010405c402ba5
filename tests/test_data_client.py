"""The client of the data plane, over connections in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import connectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.data_plane import DataRequest
from omnigate.data_client import CONNECT_SECONDS, DataClient
from omnigate.protocols.addresses import AddressError
from omnigate.testing.naming_reactor import NamingReactor

REQUEST = DataRequest(
    "/v1/messages", "og-secret", b'{"model":"fast"}', ((b"anthropic-version", b"2023-06-01"),)
)


class Wire(StringTransport):
    """A connection in memory, with the options that a real one has."""

    aborted = False

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Nothing here waits."""

    def abortConnection(self) -> None:
        """Note it."""
        self.aborted = True


class Heard:
    """A listener that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.told.append((status, dict(headers)))

    def data(self, data: bytes) -> None:
        self.told.append(data)

    def end(self) -> None:
        self.told.append("end")

    def lost(self, why: str) -> None:
        self.told.append(("lost", why))

    def unreachable(self, why: str) -> None:
        self.told.append(("unreachable", why))


class ClientTests(SynchronousTestCase):
    """One request at a time, each on a connection of its own."""

    def setUp(self) -> None:
        self.reactor = NamingReactor({"data.test": ["192.0.2.1"]})
        self.heard = Heard()
        self.asking = DataClient(self.reactor, "http://data.test:8080/gate").ask(
            REQUEST, self.heard
        )

    def connect(self) -> Any:
        """Let the connection succeed."""
        self.reactor.advance(0)
        protocol: Any = self.reactor.tcpClients[-1][2].buildProtocol(None)
        self.wire = Wire()
        protocol.makeConnection(self.wire)
        return protocol

    def test_whole(self) -> None:
        """The request as an application sends it; head, pieces, end; the connection is closed."""
        protocol = self.connect()
        head, _, body = self.wire.value().partition(b"\r\n\r\n")
        self.assertEqual(
            head.split(b"\r\n")[:5],
            [
                b"POST /gate/v1/messages HTTP/1.1",
                b"host: data.test:8080",
                b"authorization: Bearer og-secret",
                b"content-type: application/json",
                b"content-length: 16",
            ],
        )
        self.assertIn(b"\r\nanthropic-version: 2023-06-01", head)
        self.assertEqual(body, REQUEST.body)
        protocol.dataReceived(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Omnigate-Request-Id: abc\r\n\r\nab"
        )
        protocol.dataReceived(b"cd")
        headers = {"content-length": "4", "x-omnigate-request-id": "abc"}
        self.assertEqual(self.heard.told, [(200, headers), b"ab", b"cd", "end"])
        self.assertTrue(self.wire.aborted)

    def test_cut(self) -> None:
        """An end before its time is none."""
        protocol = self.connect()
        protocol.dataReceived(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        protocol.connectionLost(Failure(connectionDone.value))
        self.assertEqual(self.heard.told[1], b"ab")
        self.assertEqual(self.heard.told[2][0], "lost")

    def test_nonsense(self) -> None:
        """What is no HTTP is told as an answer that was lost."""
        self.connect().dataReceived(b"SSH-2.0-OpenSSH\r\n\r\n")
        self.assertEqual([told[0] for told in self.heard.told], ["lost"])
        self.assertTrue(self.wire.aborted)

    def test_refused(self) -> None:
        """Nobody listens there: the words name the address."""
        heard = Heard()
        DataClient(self.reactor, "http://192.0.2.1:8080").ask(REQUEST, heard)
        factory: Any = self.reactor.tcpClients[-1][2]
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
        ((kind, why),) = heard.told
        self.assertEqual(kind, "unreachable")
        self.assertIn("192.0.2.1:8080", why)

    def test_silent(self) -> None:
        """Whoever does not take the connection is not waited for."""
        self.reactor.advance(0)
        self.reactor.advance(CONNECT_SECONDS)
        self.assertEqual([told[0] for told in self.heard.told], ["unreachable"])

    def test_leaves_before_the_connection(self) -> None:
        """Nothing is said to whoever has left, and nothing is sent."""
        self.asking.drop()
        self.reactor.advance(CONNECT_SECONDS)
        self.assertEqual(self.heard.told, [])

    def test_leaves_amid_the_answer(self) -> None:
        """The data plane sees the connection end."""
        protocol = self.connect()
        protocol.dataReceived(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        self.asking.drop()
        self.assertTrue(self.wire.aborted)
        self.assertEqual(len(self.heard.told), 2)

    def test_pauses(self) -> None:
        """Reading stops and goes on, also where that is said before there is a connection."""
        self.asking.pause()
        self.connect()
        self.assertEqual(self.wire.producerState, "paused")
        self.asking.resume()
        self.assertEqual(self.wire.producerState, "producing")

    def test_an_address_that_is_none(self) -> None:
        self.assertRaises(AddressError, DataClient, self.reactor, "http://user@data.test")
