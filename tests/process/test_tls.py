"""A provider behind real TLS: whole answers, long ones, streams, and authorities that are wrong."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import (
    SECONDS,
    Gateway,
    cost_of,
    free_ports,
    key_table,
    route_table,
)
from tests.protocols.test_connector import Identity, authorities, issue

#: Model names, and what the provider does at them.
MODELS = {"small": "fake-small", "large": "fake-large", "cut": "fake-cut-after-4"}


class Tunnel:
    """Takes TLS off in front of a provider that has none.

    :ivar handshakes: connections on which one was completed.
    """

    def __init__(self, port: int, behind: int, identity: Identity, folder: Path) -> None:
        key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = folder / "server.pem"
        path.write_bytes(identity.pem + key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(path)
        self._behind = behind
        self.handshakes = 0
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SECONDS)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            client.settimeout(SECONDS)
            with self._context.wrap_socket(client, server_side=True) as secured:
                self.handshakes += 1
                with socket.create_connection(("127.0.0.1", self._behind), SECONDS) as plain:
                    back = threading.Thread(target=self._pass, args=(plain, secured), daemon=True)
                    back.start()
                    self._pass(secured, plain)
                    back.join(SECONDS)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket) -> None:
        """Pass everything on until one side ends, then end the other."""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


class TlsTests(SynchronousTestCase):
    """Both upstreams lead to the same port; one of them trusts another authority."""

    def setUp(self) -> None:
        authority, stranger = authorities()
        (self.port,) = free_ports(1)
        self.gateway = Gateway(self.config)
        self.addCleanup(self.gateway.stop)
        for name, identity in (("right", authority), ("wrong", stranger)):
            (self.gateway.folder / f"{name}.pem").write_bytes(identity.pem)
        text = self.gateway.config_path.read_text()
        self.gateway.config_path.write_text(text.replace("FOLDER", str(self.gateway.folder)))
        server = issue("server", by=authority, hosts=[x509.DNSName("localhost")])
        self.tunnel = Tunnel(self.port, self.gateway.provider_port, server, self.gateway.folder)
        self.addCleanup(self.tunnel.close)
        self.gateway.start()

    def config(self, provider_port: int) -> str:
        """Two ways to the tunnel."""
        tables = [key_table("app")]
        for name, host in (("right", "localhost"), ("wrong", "localhost"), ("other", "127.0.0.1")):
            authority = "right" if name == "other" else name
            tables.append(
                f'[[upstreams]]\nname = "{name}"\nprotocol = "openai"\n'
                f'base_url = "https://{host}:{self.port}/v1"\napi_key_env = "PROVIDER_KEY"\n'
                f'ca_file = "FOLDER/{authority}.pem"\n'
            )
        tables += [route_table(model, ("right", target)) for model, target in MODELS.items()]
        tables += [route_table(name, (name, "fake-small")) for name in ("wrong", "other")]
        return "".join(tables)

    def test_verified(self) -> None:
        """Answers pass over kept connections, and are billed as over any other."""
        for model in ("small", "large", "small"):
            for stream in (False, True):
                answer = self.gateway.ask(model, stream)
                self.assertEqual((answer.status, answer.whole), (200, True))
                event = self.gateway.event(answer.id)
                self.assertEqual(event["output_tokens"], 16_384 if model == "large" else 12)
                self.assertEqual(event["cost_usd"], cost_of(event))
        self.assertEqual(self.tunnel.handshakes, 1)
        answer = self.gateway.ask("cut", stream=True)
        self.assertEqual((answer.status, answer.whole), (200, False))
        self.assertTrue(self.gateway.event(answer.id)["estimated"])

    def test_not_verified(self) -> None:
        """An authority or a name that is not right is a provider out of reach, and no request."""
        for model in ("wrong", "other"):
            answer = self.gateway.ask(model)
            self.assertEqual((answer.status, answer.code), (502, "all_upstreams_failed"))
        self.assertEqual(self.gateway.served()["requests"], 0)
        assert self.gateway.data is not None
        self.assertIn("certificate", self.gateway.data.log())
