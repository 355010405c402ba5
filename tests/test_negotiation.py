"""TLS handshakes with the factories of both planes: what clients name in ALPN (RFC 7301)."""

import ssl
from typing import Any

from OpenSSL.crypto import X509, PKey
from twisted.internet.protocol import Factory
from twisted.internet.ssl import CertificateOptions
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from tests.control.conversation import Conversation
from tests.planes.memory import MemoryDataPlane
from tests.protocols.test_connector import issue


class NegotiationTests(SynchronousTestCase):
    def shake(self, factory: Factory, offered: list[str]) -> str | None:
        """Shake hands as a client that offers some protocols, and return what was agreed on.

        The server side is made as Twisted's ``ssl:`` endpoints make it.
        """
        identity = issue("localhost")
        options = CertificateOptions(
            privateKey=PKey.from_cryptography_key(identity.key),
            certificate=X509.from_cryptography(identity.certificate),
        )
        server: Any = TLSMemoryBIOFactory(options, False, factory, clock=Clock()).buildProtocol(
            None
        )
        transport: Any = StringTransport()
        transport.setTcpNoDelay = lambda enabled: None
        server.makeConnection(transport)
        context = ssl.create_default_context(cadata=identity.pem.decode())
        context.check_hostname = False
        if offered:
            context.set_alpn_protocols(offered)
        arrived, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(arrived, sent)
        for _ in range(4):
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                server.dataReceived(sent.read())
                arrived.write(transport.value())
                transport.clear()
                continue
            self.assertIsNotNone(client.cipher())
            return client.selected_alpn_protocol()
        return self.fail("the handshake did not end")

    def test_what_clients_offer(self) -> None:
        """HTTP/1.1 is agreed on wherever it is offered, and nothing needs to be."""
        for name, factory in (
            ("data", MemoryDataPlane().factory),
            ("control", Conversation().factory),
        ):
            for offered, agreed in (
                ([], None),
                (["http/1.1"], "http/1.1"),
                (["h2", "http/1.1"], "http/1.1"),
            ):
                self.assertEqual(self.shake(factory, offered), agreed, (name, offered))

    def test_a_client_that_speaks_something_else(self) -> None:
        """A client that would not understand us is told so by the handshake."""
        self.assertRaises(ssl.SSLError, self.shake, MemoryDataPlane().factory, ["h2"])
