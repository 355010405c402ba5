"""Over TLS, with the reactor's resolver: the number that was looked up, the name's certificate."""

from __future__ import annotations

import ipaddress
from typing import Any

from cryptography import x509
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure
from twisted.test.iosim import IOPump

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.outbound.messages import CONNECT_ERROR, TRUNCATED, Answer
from omnigate.testing.naming_reactor import TableResolver
from tests.outbound.network import MemorySink
from tests.protocols.test_connector import HOST, SecureCase, Talker

PUBLIC = "93.184.216.34"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"


class OverTLSTests(SecureCase):
    """From the URL to the body."""

    def setUp(self) -> None:
        super().setUp()
        self.reactor.installNameResolver(TableResolver({HOST: [PUBLIC]}))
        self.sink = MemorySink()
        self.outbound = Outbound(self.reactor, AddressGuard(), ca_file=self.trust(self.authority))

    def fetched(
        self, identity: Any, url: str = f"https://{HOST}/a"
    ) -> tuple[Deferred[Answer], IOPump]:
        """Fetch from a server that shows ``identity``."""
        fetched = Deferred.fromCoroutine(self.outbound.fetch(url, 1024, self.sink))
        self.reactor.advance(0)
        pump = self.establish(self.serve(identity))
        self.settle(pump)
        return fetched, pump

    def test_good(self) -> None:
        """The connection goes to the number, and name and certificate are the host's."""
        fetched, pump = self.fetched(self.leaf())
        self.assertEqual(self.reactor.tcpClients[-1][:2], (PUBLIC, 443))
        self.assertIn(b"GET /a HTTP/1.1\r\nhost: " + HOST.encode(), self.server.received)
        assert self.server.transport is not None
        tls: Any = self.server.transport
        self.assertEqual(tls.getHandle().get_servername(), HOST.encode())
        self.server.transport.write(ANSWER)
        self.settle(pump)
        self.assertTrue(self.successResultOf(fetched).ok)
        self.assertEqual(self.sink.content, b"abc")
        self.settle(pump)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_wrong_host(self) -> None:
        """A certificate for another name is no connection, and nothing was sent."""
        fetched, _ = self.fetched(self.leaf(x509.DNSName("other.example.net")))
        answer = self.successResultOf(fetched)
        self.assertEqual(answer.fault, CONNECT_ERROR)
        self.assertIn("made out to another host", answer.detail)
        self.assertEqual(self.server.received, b"")

    def test_ip_address(self) -> None:
        """A host that is a number is verified against the numbers in the certificate."""
        for shown, ok in ((PUBLIC, True), ("8.8.8.8", False)):
            self.server = Talker()
            identity = self.leaf(x509.IPAddress(ipaddress.ip_address(shown)))
            fetched, pump = self.fetched(identity, f"https://{PUBLIC}/a")
            self.assertEqual(bool(self.server.received), ok)
            if ok:
                assert self.server.transport is not None
                self.server.transport.write(ANSWER)
                self.settle(pump)
            self.assertEqual(self.successResultOf(fetched).ok, ok)

    def test_end_without_a_length(self) -> None:
        """A body is whole where the server says that it ends, and not where it breaks off.

        Few servers wait for an answer to that: the connection is broken by the time it is there.
        """
        for said in (True, False):
            self.server = Talker()
            fetched, pump = self.fetched(self.leaf())
            tls: Any = self.server.transport
            tls.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
            self.settle(pump)
            if said:
                tls._tlsConnection.shutdown()
                tls._flushSendBIO()
                pump.pump()
            client: Any = pump.client
            client.connectionLost(Failure(ConnectionLost()))
            answer = self.successResultOf(fetched)
            self.assertEqual((answer.ok, answer.fault), (said, "" if said else TRUNCATED))

    def test_unknown_authority(self) -> None:
        """A certificate that nobody vouches for is no connection."""
        fetched, _ = self.fetched(self.leaf(by=self.stranger))
        self.assertIn("its authority is unknown", self.successResultOf(fetched).detail)
