"""TLS on the ports of both planes, with certificates that are replaced while they serve."""

import contextlib
import http.client
import importlib
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.certificates import PairOnDisk
from tests.process.daemons import (
    ADMIN_TOKEN,
    SECONDS,
    Daemon,
    Gateway,
    free_ports,
    key_of,
    key_table,
    read_answer,
    route_table,
    upstream_table,
    wait_for,
)
from tests.protocols.test_connector import Identity, issue

MODELS = {"small": "fake-small", "paced": "fake-words-40-paced-20"}

# Listens as systemd does, says so, and becomes the daemon.
ACTIVATE = (
    "import os, socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    "os.dup2(s.fileno(), 3); os.set_inheritable(3, True);"
    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='public');"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


def config(provider_port: int) -> str:
    """One key, one provider, two models."""
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    return key_table("app") + upstream_table("openai", "openai", provider_port) + "".join(routes)


class Activated(Gateway):
    """A gateway whose data plane has its port from systemd."""

    def command(self, plane: str) -> Sequence[str]:
        """The command that runs a plane."""
        command = super().command(plane)
        if plane == "control":
            return command
        return [sys.executable, "-c", ACTIVATE, str(self.data_port), *command]


class CertificateCase(SynchronousTestCase):
    """A gateway, an authority that clients trust, and a pair on the disk."""

    gateway_class = Gateway

    def setUp(self) -> None:
        self.gateway = self.gateway_class(config)
        self.addCleanup(self.gateway.stop)
        self.authority = issue("authority")
        self.disk = PairOnDisk(self.gateway.folder)
        self.renew("first")
        self.ca_file = self.gateway.folder / "authority.pem"
        self.ca_file.write_bytes(self.authority.pem)
        self.context = ssl.create_default_context(cafile=str(self.ca_file))
        self.context.set_alpn_protocols(["h2", "http/1.1"])

    def renew(self, name: str) -> Identity:
        """Put a new pair on the disk."""
        hosts = [x509.DNSName("localhost"), x509.DNSName(name)]
        identity = issue(name, by=self.authority, hosts=hosts)
        self.disk.write(identity, self.authority)
        return identity

    def start(self, **settings: str) -> Daemon:
        """Start everything, and wait until the port serves."""
        self.gateway.start_provider()
        self.gateway.start_control()
        self.gateway.data = run = self.gateway.spawn("data", **settings)
        self.wait_served(run)
        return run

    def wait_served(self, run: Daemon) -> None:
        """Wait until the data plane has a config in force."""

        def told() -> bool:
            if not run.running():
                raise run.failure("ended")
            return "in force: 1 keys" in run.log()

        wait_for("a config in force", told)

    def shown(self, port: int) -> str:
        """Whose certificate a port shows to a client that verifies it."""
        with (
            socket.create_connection(("127.0.0.1", port), SECONDS) as wire,
            self.context.wrap_socket(wire, server_hostname="localhost") as secured,
        ):
            self.assertEqual(secured.selected_alpn_protocol(), "http/1.1")
            self.assertIn(secured.version(), ("TLSv1.2", "TLSv1.3"))
            found: Any = secured.getpeercert()
            return str(dict(pair for (pair,) in found["subject"])["commonName"])

    def begin(self, model: str, stream: bool) -> http.client.HTTPResponse:
        """Ask over TLS and read the head."""
        connection = http.client.HTTPSConnection(
            "localhost", self.gateway.data_port, timeout=SECONDS, context=self.context
        )
        self.addCleanup(connection.close)
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
        headers = {"authorization": f"Bearer {key_of('app')}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        return connection.getresponse()


class RenewalTests(CertificateCase):
    """A data plane that is alone, on a port of its own, with metrics."""

    def test_renewal(self) -> None:
        """New connections have the new certificate, open streams go on, a bad pair stays out."""
        (metrics_port,) = free_ports(1)
        run = self.start(
            DATA_LISTEN=f"https:{self.gateway.data_port}:interface=127.0.0.1:{self.disk.parts}",
            DATA_METRICS_LISTEN=f"tcp:{metrics_port}:interface=127.0.0.1",
            CLIENT_TIMEOUT_MS="2000",
        )
        self.assertEqual(self.shown(self.gateway.data_port), "first")
        stream = self.begin("paced", stream=True)
        self.renew("second")
        run.send(signal.SIGHUP)
        wait_for("the second one", lambda: self.shown(self.gateway.data_port) == "second")
        answer = read_answer(stream)
        self.assertEqual((answer.status, answer.whole), (200, True))
        self.assertTrue(answer.body.endswith(b"data: [DONE]\n\n"))
        self.assertEqual(self.gateway.event(answer.id)["output_tokens"], 40)
        self.a_bad_pair(run, metrics_port)
        self.handshakes_that_stop()
        self.somebody_without_tls(run)
        self.an_sdk()

    def a_bad_pair(self, run: Daemon, metrics_port: int) -> None:
        """It is told and counted, and changes nothing."""
        kept = self.disk.key.read_bytes()
        self.renew("third")
        self.disk.replace(self.disk.key, kept)
        run.send(signal.SIGHUP)
        wait_for("the fault", lambda: "is not the key of the certificate" in run.log())
        self.assertEqual(self.shown(self.gateway.data_port), "second")
        connection = http.client.HTTPConnection("127.0.0.1", metrics_port, timeout=SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        self.assertIn("\nomnigate_data_tls_reload_failures_total 1", text)
        expiry = "\nomnigate_data_certificate_expiry_timestamp_seconds 1"
        self.assertIn(expiry, text)
        admin = self.gateway.admin()
        wait_for(
            "the control plane to tell of it",
            lambda: expiry in admin.text("GET", "/metrics", accept="text/plain"),
        )

    def handshakes_that_stop(self) -> None:
        """Whoever says nothing, or half of a hello, is let go when the time for a request is up."""
        hello = bytes.fromhex("160301020001000001fc0303") + bytes(64)
        wires = []
        for said in (b"", hello[:3], hello):
            wire = socket.create_connection(("127.0.0.1", self.gateway.data_port), SECONDS)
            self.addCleanup(wire.close)
            wire.sendall(said)
            wires.append(wire)
        # One that has shaken hands and then says nothing.
        wires.append(
            self.context.wrap_socket(
                socket.create_connection(("127.0.0.1", self.gateway.data_port), SECONDS),
                server_hostname="localhost",
            )
        )
        self.addCleanup(wires[-1].close)
        for wire in wires:
            # With an alert or an answer of ours before it, or without.
            with contextlib.suppress(ConnectionResetError):
                while wire.recv(65536):
                    pass

    def somebody_without_tls(self, run: Daemon) -> None:
        """A client that speaks none is let go, and nobody else notices."""
        with socket.create_connection(("127.0.0.1", self.gateway.data_port), SECONDS) as wire:
            wire.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = b""
            while data := wire.recv(65536):
                answer += data
        self.assertNotIn(b"HTTP", answer)
        self.assertEqual(read_answer(self.begin("small", stream=False)).status, 200)

    def an_sdk(self) -> None:
        """The official package, told of the authority in its usual way."""
        try:
            sdk = importlib.import_module("openai")
        except ImportError:
            raise SkipTest("the openai package is not installed") from None
        client = sdk.OpenAI(
            base_url=f"https://localhost:{self.gateway.data_port}/v1",
            api_key=key_of("app"),
            timeout=SECONDS,
            http_client=sdk.DefaultHttpxClient(
                verify=ssl.create_default_context(cafile=str(self.ca_file))
            ),
        )
        self.addCleanup(client.close)
        asked: Any = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}
        whole = client.chat.completions.create(**asked)
        pieces = list(client.chat.completions.create(stream=True, **asked))
        said = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
        self.assertEqual(said, whole.choices[0].message.content)


class WorkerTests(CertificateCase):
    """Two workers on a socket of systemd's."""

    gateway_class = Activated

    def test_renewal(self) -> None:
        """Every worker takes the new certificate, as the parent is told to."""
        run = self.start(
            DATA_LISTEN=f"https:systemd:domain=INET:name=public:{self.disk.parts}", WORKERS="2"
        )
        wait_for("all workers", lambda: "all 2 workers serve" in run.log())
        self.assertEqual({self.shown(self.gateway.data_port) for _ in range(10)}, {"first"})
        self.renew("second")
        run.send(signal.SIGHUP)
        wait_for("both workers", lambda: run.log().count("certificate of second until") == 2)
        self.assertEqual({self.shown(self.gateway.data_port) for _ in range(10)}, {"second"})
        self.assertEqual(read_answer(self.begin("small", stream=False)).status, 200)


class ControlTests(CertificateCase):
    """The control plane, and starts that fail."""

    def test_control(self) -> None:
        """Its port has TLS in the same way, and a data plane finds it there."""
        port = self.gateway.control_port
        listen = f"https:{port}:interface=127.0.0.1:{self.disk.parts}"
        self.gateway.control = run = self.gateway.spawn("control", CONTROL_LISTEN=listen)
        wait_for("the start", lambda: "is ready on" in run.log())
        self.assertEqual(self.shown(port), "first")
        self.renew("second")
        run.send(signal.SIGHUP)
        wait_for("the second one", lambda: self.shown(port) == "second")
        connection = http.client.HTTPSConnection(
            "localhost", port, timeout=SECONDS, context=self.context
        )
        self.addCleanup(connection.close)
        connection.request(
            "GET", "/admin/config", headers={"authorization": f"Bearer {ADMIN_TOKEN}"}
        )
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        connection.request("GET", "/metrics", headers={"authorization": f"Bearer {ADMIN_TOKEN}"})
        text = connection.getresponse().read().decode()
        self.assertIn("\nomnigate_certificate_expiry_timestamp_seconds 1", text)
        self.assertIn("\nomnigate_tls_reload_failures_total 0", text)
        connection.close()
        headers = {"origin": f"https://localhost:{port}", "sec-fetch-site": "same-origin"}
        connection.request("POST", "/sign-in", f"token={ADMIN_TOKEN}", headers)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 303)
        self.assertRegex(answer.headers["set-cookie"], "^__Host-omnigate-[0-9a-f]{8}=.*; Secure$")
        os.environ["SSL_CERT_FILE"] = str(self.ca_file)
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        url = f"https://localhost:{port}"
        self.gateway.data = self.gateway.spawn("data", CONTROL_URL=url)
        self.wait_served(self.gateway.data)

    def test_starts_that_fail(self) -> None:
        """One line, with the file and the remedy; of a parent with workers too."""
        self.disk.key.unlink()
        listen = f"https:{self.gateway.data_port}:{self.disk.parts}"
        for workers in ("1", "2"):
            run = self.gateway.spawn("data", DATA_LISTEN=listen, WORKERS=workers)
            self.assertEqual(run.wait(), 1)
            said = [line for line in run.log().splitlines() if line.startswith("omnigate-data: ")]
            self.assertEqual(len(said), 1, run.log())
            self.assertIn(f"OMNIGATE_DATA_LISTEN or --listen: {self.disk.key}: No such", said[0])
