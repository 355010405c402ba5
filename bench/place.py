"""The place of a benchmark: the provider, both planes and nginx, started and stopped on loopback.

Everything runs in one temporary folder and on free ports. The data plane starts from a config
cache that is written here, the way a control plane's last config would lie there.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import attrs

from bench import certificate, in_memory, traffic
from bench.answers import AnswerReader, ExactPayload, WrongAnswerError
from bench.load import connected
from bench.proc import Cores, on_cores
from omnigate.admin_client import AdminClient
from omnigate.config.schema import load_config
from omnigate.config.snapshot import SnapshotKey, build_snapshot, encode_snapshot
from omnigate.demo_children import Child, Children, free_ports, python_environ, twistd

#: From the start of a data plane to its first answer; a machine under load needs ten of its 1 s.
FIRST_ANSWER_SECONDS = 30.0

_ASK_AGAIN_SECONDS = 0.002

NGINX_CONFIG = """\
# A plain reverse proxy: no key, no scan, no limits, no usage.
worker_processes 1;
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 2m;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream provider {{
    server 127.0.0.1:{provider_port};
    keepalive 512;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


class Program(Child):
    """A child whose processor time and memory are looked at."""

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def output(self) -> IO[bytes]:
        """Its standard output, where it is read."""
        assert self._process.stdout is not None
        return self._process.stdout

    def wait(self, seconds: float) -> int:
        """Wait for its end; the exit status.

        :raises omnigate.demo_children.ChildError: it does not come in time
        """
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {seconds:.0f} s") from None


@attrs.frozen
class Secrets:
    """The credentials of one benchmark; made anew each time."""

    client_key: str
    provider_key: str
    internal_token: str
    admin_token: str


@attrs.frozen
class Gateway:
    """A running data plane.

    :ivar first_answer_seconds: from its start to the first answered request.
    :ivar spool: the file in which usage waits for the control plane.
    """

    program: Program
    port: int
    first_answer_seconds: float
    spool: Path


class Place:
    """Starts what a benchmark needs; all of it is stopped with the group of children it is in.

    :ivar provider: the fake provider, once it runs; it listens on ``provider_port``, and with TLS
        on ``secure_port``.
    :ivar certificate: its certificate and key, and the gateway's.
    :ivar control: the control plane, once it runs; ``admin`` asks it.
    """

    def __init__(self, folder: Path, children: Children, cores: Cores) -> None:
        self._folder = folder
        self._children = children
        self._cores = cores
        self._gateways = 0
        self.secrets = Secrets(
            client_key="bench-" + secrets.token_hex(16),
            provider_key="sk-bench-" + secrets.token_hex(16),
            internal_token=secrets.token_hex(24),
            admin_token=secrets.token_hex(24),
        )
        self.provider: Program | None = None
        self.provider_port = 0
        self.secure_port = 0
        self.certificate = folder / "certificate.pem"
        self.control: Program | None = None
        (self.control_port,) = free_ports(1)
        self.admin: AdminClient | None = None

    def start_provider(self, paced_events: int, sizes: Sequence[tuple[str, int]]) -> None:
        """Start the fake provider.

        :raises omnigate.demo_children.ChildError: when it does not come up
        """
        command = [sys.executable, "-m", "bench.provider", f"--paced-events={paced_events}"]
        command += [f"--key={self.secrets.provider_key}"]
        command += [f"--client-key={self.secrets.client_key}"]
        command += [f"--size={kind}:{size}" for kind, size in sizes]
        certificate.write(self.certificate)
        command += [f"--certificate={self.certificate}"]
        with on_cores(self._cores.rest):
            self.provider = Program("provider", command, child_environ({}), self._folder, True)
        self._children.add(self.provider)
        ports = self.provider.first_line().split()
        self.provider_port, self.secure_port = map(int, ports)

    def start_control(self) -> None:
        """Start the control plane.

        :raises omnigate.demo_children.ChildError: when it does not come up
        """
        state = self._folder / "control"
        state.mkdir()
        config = self._folder / "omnigate.toml"
        config.write_text(self.config_text(), encoding="utf-8")
        environ = child_environ(
            {
                "OMNIGATE_CONTROL_LISTEN": f"tcp:{self.control_port}:interface=127.0.0.1",
                "OMNIGATE_CONFIG": str(config),
                "OMNIGATE_STATE_DIR": str(state),
                "OMNIGATE_INTERNAL_TOKEN": self.secrets.internal_token,
                "OMNIGATE_ADMIN_TOKEN": self.secrets.admin_token,
            }
        )
        with on_cores(self._cores.rest):
            self.control = Program("control", twistd("omnigate-control"), environ, self._folder)
        self._children.add(self.control)
        self.control.wait_ready(self.control_port)
        self.admin = AdminClient(f"http://127.0.0.1:{self.control_port}", self.secrets.admin_token)

    def start_gateway(
        self,
        children: Children,
        tls: bool = False,
        workers: int = 1,
        under: Sequence[str] = (),
        seconds: float = FIRST_ANSWER_SECONDS,
    ) -> Gateway:
        """Start a data plane with an empty spool, and ask it once.

        :param children: the group that it is stopped with.
        :param tls: whether clients come over TLS.
        :param under: the command that it runs under, such as a profiler's.
        :param seconds: how long its first answer may take.
        :raises omnigate.demo_children.ChildError: when it does not come up, or its first answer is
            not the right one
        """
        self._gateways += 1
        name = f"gateway-{self._gateways}"
        state = self._folder / name
        state.mkdir()
        (state / "omnigate-config.cache.json").write_bytes(self.snapshot_bytes())
        (port,) = free_ports(1)
        listen = f"tcp:{port}:interface=127.0.0.1"
        if tls:
            files = f"privateKey={self.certificate}:certKey={self.certificate}"
            listen = f"ssl:{port}:interface=127.0.0.1:{files}"
        environ = child_environ(
            {
                "OMNIGATE_DATA_LISTEN": listen,
                "OMNIGATE_WORKERS": str(workers),
                # With no control plane nothing answers there, and usage stays in the spool.
                "OMNIGATE_CONTROL_URL": f"http://127.0.0.1:{self.control_port}",
                "OMNIGATE_STATE_DIR": str(state),
                "OMNIGATE_INTERNAL_TOKEN": self.secrets.internal_token,
                "OMNIGATE_ACCESS_LOG": str(state / "access.log"),
                "OMNIGATE_SHUTDOWN_GRACE_MS": "2000",
                in_memory.PROVIDER_KEY_VARIABLE: self.secrets.provider_key,
            }
        )
        command = [*under, *twistd("omnigate-data")]
        began = time.monotonic()
        with on_cores(self._cores.gateway if workers == 1 else None):
            program = Program(name, command, environ, self._folder)
        children.add(program)
        self._first_answer(program, port, self.certificate if tls else None, seconds)
        took = time.monotonic() - began
        return Gateway(program, port, took, state / "omnigate-usage.spool")

    def forget(self, gateway: Gateway) -> None:
        """Remove the files of a gateway that was stopped: its access log may have megabytes."""
        shutil.rmtree(gateway.spool.parent, ignore_errors=True)

    def start_nginx(self) -> tuple[Program, int] | None:
        """Start nginx as a plain proxy in front of the provider; ``None`` where there is none.

        :raises omnigate.demo_children.ChildError: when it is here but does not come up
        """
        found = shutil.which("nginx")
        if found is None:
            return None
        folder = self._folder / "nginx"
        folder.mkdir()
        (port,) = free_ports(1)
        text = NGINX_CONFIG.format(folder=folder, port=port, provider_port=self.provider_port)
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        command = [found, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with on_cores(self._cores.gateway):
            program = Program("nginx", command, dict(os.environ), self._folder)
        self._children.add(program)
        end = time.monotonic() + FIRST_ANSWER_SECONDS
        while not _listens(port):
            if not program.running() or time.monotonic() > end:
                raise program.failure("did not come up")
            time.sleep(_ASK_AGAIN_SECONDS)
        return program, port

    # -- the config

    def config_text(self) -> str:
        """Return the config of the benchmark."""
        provider = f"http://127.0.0.1:{self.provider_port}"
        secure = f"https://{certificate.HOST}:{self.secure_port}"
        return in_memory.config_text(
            self.secrets.client_key, provider, secure, str(self.certificate)
        )

    def snapshot_bytes(self) -> bytes:
        """Return the config as the data plane knows it."""
        config = load_config(self.config_text())
        keys = [
            SnapshotKey(
                sha256=key.key_sha256 or "",
                name=key.name,
                rpm=key.rpm,
                models=key.models,
                blocked=False,
                max_concurrent=key.max_concurrent,
            )
            for key in config.keys
        ]
        return encode_snapshot(build_snapshot(config, keys))

    # -- the first answer

    def _first_answer(
        self, program: Program, port: int, trusted: Path | None, seconds: float
    ) -> None:
        """Ask until there is an answer."""
        request = traffic.request_bytes("whole", 1024, port, self.secrets.client_key)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not program.running():
                raise program.failure("ended at its start")
            try:
                if ask_once(port, request, trusted):
                    return
            except WrongAnswerError as error:
                raise program.failure(f"gave a wrong first answer: {error}") from None
            time.sleep(_ASK_AGAIN_SECONDS)
        raise program.failure(f"gave no answer within {seconds:.0f} s")


def ask_once(port: int, request: bytes, trusted: Path | None = None) -> bool:
    """Send one plain request on a connection of its own.

    :param trusted: the certificate of a gateway behind TLS.
    :returns: whether it was answered; not if nobody listens, or the gateway is not ready (503).
    :raises WrongAnswerError: it was answered with something else
    """
    reader = AnswerReader(ExactPayload(traffic.whole_body()))
    try:
        with connected(port, FIRST_ANSWER_SECONDS, trusted) as opened:
            opened.sendall(request)
            while not reader.ended:
                data = opened.recv(65536)
                if data.startswith(b"HTTP/1.1 503 "):
                    return False
                if not data:
                    raise reader.lost()
                reader.feed(data, time.monotonic_ns())
    except ConnectionRefusedError:
        return False
    except OSError as error:
        raise WrongAnswerError(f"the connection broke: {error}") from None
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def child_environ(extra: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a child: it finds this package and the product's."""
    environ = python_environ(extra)
    root = str(Path(__file__).resolve().parent.parent)
    path = [place for place in environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if root not in path:
        environ["PYTHONPATH"] = os.pathsep.join([root, *path])
    return environ
