"""The endpoint string ``https:``: what it may hold, and what becomes of it."""

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.endpoints import quoteStringArgument, serverFromString
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactor
from twisted.trial.unittest import SynchronousTestCase

from omnigate.daemon import START_FAILED, endpoint_of
from omnigate.settings import SettingsError, read_data_settings
from omnigate.tls_endpoint import BACKLOG, TlsEndpoint, inherited
from omnigate.workers.worker import endpoint_text
from tests.certificates import PairOnDisk
from tests.protocols.test_connector import issue


class EndpointTests(SynchronousTestCase):
    """Strings as an operator writes them, read by Twisted."""

    def setUp(self) -> None:
        held = tempfile.TemporaryDirectory(prefix="omnigate-test-certificates-")
        self.addCleanup(held.cleanup)
        self.disk = PairOnDisk(Path(held.name))
        self.disk.write(issue("gateway.test"))
        self.reactor: Any = MemoryReactor()

    def listening(self, text: str) -> tuple[object, ...]:
        """What the reactor was asked for: port, backlog and interface."""
        endpoint = serverFromString(self.reactor, text.replace("PAIR", self.disk.parts))
        self.assertIsInstance(endpoint, TlsEndpoint)
        endpoint.listen(Factory())
        port, _, backlog, interface = self.reactor.tcpServers[-1]
        return port, backlog, interface

    def test_ports(self) -> None:
        """Port, address and backlog, of both families of addresses."""
        self.assertEqual(self.listening("https:8443:PAIR"), (8443, BACKLOG, ""))
        self.assertEqual(
            self.listening("https:0:interface=127.0.0.1:backlog=7:PAIR"), (0, 7, "127.0.0.1")
        )
        self.assertEqual(self.listening("https:443:PAIR:interface=\\:\\:1"), (443, BACKLOG, "::1"))

    def test_a_factory_that_makes_no_connection(self) -> None:
        """One at its cap drops whoever comes, and TLS before it does the same."""
        text = "https:1:PAIR".replace("PAIR", self.disk.parts)
        full = Factory()
        full.buildProtocol = lambda addr: None  # type: ignore[method-assign]
        for inner, made in ((full, False), (Factory.forProtocol(Protocol), True)):
            serverFromString(self.reactor, text).listen(inner)
            _, factory, _, _ = self.reactor.tcpServers[-1]
            self.assertEqual(factory.buildProtocol(None) is not None, made)

    def test_one_file(self) -> None:
        """The key may stand beside the certificate."""
        both = self.disk.certificate.read_bytes() + self.disk.key.read_bytes()
        self.disk.replace(self.disk.certificate, both)
        self.assertEqual(self.listening(f"https:1:cert={self.disk.certificate}")[0], 1)

    def refused(self, text: str) -> str:
        """The line of a start that fails for an endpoint string."""
        stderr = io.StringIO()
        self.patch(sys, "__stderr__", stderr)
        text = text.replace("PAIR", self.disk.parts)
        ended = self.assertRaises(
            SystemExit, endpoint_of, "omnigate-data", self.reactor, text, "OMNIGATE_DATA_LISTEN"
        )
        self.assertEqual(ended.code, START_FAILED)
        line = stderr.getvalue()
        self.assertTrue(line.startswith("omnigate-data: OMNIGATE_DATA_LISTEN: "), line)
        self.assertEqual(line.count("\n"), 1)
        return line

    def test_faults(self) -> None:
        """Each part that is wrong is told, with how it is written."""
        for text, words in (
            ("https:8443", "it has no cert="),
            ("https:8443:key=/a", "it has no cert="),
            ("https:PAIR", "not one port"),
            ("https:1:2:PAIR", "not one port"),
            ("https:x:PAIR", '"x" is no port'),
            ("https:65536:PAIR", '"65536" is no port'),
            ("https:²:PAIR", "is no port"),
            ("https://0.0.0.0:8443", "it has no cert="),
            ("https:1:PAIR:backlog=many", "backlog"),
            ("https:1:PAIR:privateKey=/a", '"privateKey=" is unknown'),
            ("https:1:PAIR:name=public", '"name=" is unknown'),
            ("https:systemd:PAIR", "neither name= nor index="),
            ("https:systemd:PAIR:name=a:index=1", "neither name= nor index="),
            ("https:systemd:PAIR:name=public:interface=a", '"interface=" is unknown'),
            ("https:systemd:PAIR:name=public", "handed over no such socket"),
        ):
            self.assertIn(words, self.refused(text), text)

    def test_files_that_are_no_pair(self) -> None:
        """A start without its certificate names the file and the remedy."""
        self.disk.key.unlink()
        line = self.refused("https:8443:PAIR")
        self.assertIn(f"{self.disk.key}: No such file or directory; name a file", line)

    def test_settings(self) -> None:
        """Both forms pass the judgement of settings, and a port that is none does not."""
        environ = {"OMNIGATE_INTERNAL_TOKEN": "x" * 16}
        for text in ("https:8443:cert=/a:key=/b", "https:systemd:name=public:cert=/a"):
            settings, _ = read_data_settings({**environ, "OMNIGATE_DATA_LISTEN": text})
            self.assertEqual(settings.listen, text)
        for text in ("https://host", "https:99999:cert=/a", "https:"):
            self.assertRaises(
                SettingsError, read_data_settings, {**environ, "OMNIGATE_DATA_LISTEN": text}
            )


class HandedOverTests(SynchronousTestCase):
    """Sockets of systemd and of a parent."""

    def test_inherited(self) -> None:
        """A worker has its socket from its parent; what names systemd's is left out."""
        for text, worker in (
            ("https:systemd:domain=INET:name=public:cert=/a:key=/b", "https:0:cert=/a:key=/b"),
            ("https:systemd:cert=/a\\:name=x:index=0:key=/b", "https:0:cert=/a\\:name=x:key=/b"),
            ("https:8443:cert=/a:key=/b", "https:8443:cert=/a:key=/b"),
            ("systemd:domain=INET:name=public", "tcp:0"),
            ("tcp:8080", "tcp:8080"),
        ):
            self.assertEqual(endpoint_text(text), worker)

    @given(st.text("/ab:=\\name", min_size=1), st.text("ab:=\\", min_size=1))
    def test_whatever_the_files_are_called(self, path: str, name: str) -> None:
        """No name of a file is taken for a part of systemd's."""
        parts = f"cert={quoteStringArgument(path)}:key=/k"
        text = f"https:systemd:name={quoteStringArgument(name)}:{parts}"
        self.assertEqual(inherited(text), f"https:0:{parts}")
