"""The place of a soak: both planes and the providers, started, disturbed, looked at, stopped."""

import contextlib
import os
import random
import secrets
import signal
import socket
import sys
import urllib.request
from collections import Counter
from pathlib import Path

from bench.place import Program, child_environ
from bench.soak import scene
from bench.soak.states import Gauges, State
from bench.soak.watch import Sight, look, read_metrics
from omnigate.admin_client import AdminClient, AdminError
from omnigate.demo_children import ChildError, Children, twistd

#: A scrape takes some milliseconds; a machine under load a hundred times that.
SCRAPE_SECONDS = 20.0

#: How long a daemon may take to stop: the data plane's grace and its last delivery.
STOP_SECONDS = 30.0

#: Where ports for listeners that come back are looked for: below those that systems give to
#: outgoing connections, of which one could have taken the port meanwhile.
_LOWEST_PORT = 10_000
_HIGHEST_PORT = 30_000


class Place:
    """Everything that a soak runs, in one folder.

    :ivar data: the data plane; it lives as long as the soak.
    :ivar control: the control plane, in its present life; ``None`` while it is away.
    """

    def __init__(self, folder: Path, children: Children, seed: str) -> None:
        self.folder = folder
        self._children = children
        self._seed = seed
        self._token = secrets.token_hex(24)
        self._admin_token = secrets.token_hex(24)
        names = [upstream.name for upstream in scene.UPSTREAMS]
        ports = _free_ports(len(names) + 3)
        self.data_port, self.control_port, self.metrics_port = ports[:3]
        self.ports = dict(zip(names, ports[3:], strict=True))
        self.places = {port: f"upstream {name}" for name, port in self.ports.items()}
        self.places[self.control_port] = "control"
        self.attempts_book = folder / "provider.jsonl"
        self.spool = folder / "data" / "omnigate-usage.spool"
        self._access_log = folder / "data" / "access.log"
        self._rotated: list[Path] = []
        self._lives = 0
        self.provider: Program
        self.data: Program
        self.control: Program | None = None
        self.admin = AdminClient(f"http://127.0.0.1:{self.control_port}", self._admin_token)

    def start(self) -> None:
        """Start the providers and both planes.

        :raises omnigate.demo_children.ChildError: one of them does not come up
        """
        for name in ("control", "data"):
            (self.folder / name).mkdir()
        (self.folder / "omnigate.toml").write_text(scene.config_text(self.ports), "utf-8")
        command = [sys.executable, "-m", "bench.soak.provider", f"--seed={self._seed}"]
        command += [f"--book={self.attempts_book}"]
        for upstream in scene.UPSTREAMS:
            if not upstream.absent:
                command.append(f"--port={upstream.name}:{self.ports[upstream.name]}")
        self.provider = self._child("providers", command, {}, read_output=True)
        self.provider.first_line()
        self.start_control().wait_ready(self.control_port)
        self.data = self._child(
            "data",
            twistd("omnigate-data"),
            {
                **scene.DATA_SETTINGS,
                "OMNIGATE_DATA_LISTEN": f"tcp:{self.data_port}:interface=127.0.0.1",
                "OMNIGATE_CONTROL_URL": f"http://127.0.0.1:{self.control_port}",
                "OMNIGATE_STATE_DIR": str(self.folder / "data"),
                "OMNIGATE_INTERNAL_TOKEN": self._token,
                "OMNIGATE_ACCESS_LOG": str(self._access_log),
                "OMNIGATE_DATA_METRICS_LISTEN": f"tcp:{self.metrics_port}:interface=127.0.0.1",
                scene.PROVIDER_KEY_VARIABLE: scene.PROVIDER_KEY,
            },
        )
        self.data.wait_ready(self.data_port)

    def start_control(self) -> Program:
        """Start the control plane, for the first time or again; its readiness is not waited for."""
        self._lives += 1
        self.control = self._child(
            f"control-{self._lives}",
            twistd("omnigate-control"),
            {
                "OMNIGATE_CONTROL_LISTEN": f"tcp:{self.control_port}:interface=127.0.0.1",
                "OMNIGATE_CONFIG": str(self.folder / "omnigate.toml"),
                "OMNIGATE_STATE_DIR": str(self.folder / "control"),
                "OMNIGATE_INTERNAL_TOKEN": self._token,
                "OMNIGATE_ADMIN_TOKEN": self._admin_token,
            },
        )
        return self.control

    def clients(self, name: str, clients: int, seconds: float, first: int) -> tuple[Program, Path]:
        """Start the clients; the program and the book they write.

        :param first: the number of their first request.
        """
        book = self.folder / f"{name}.jsonl"
        command = [sys.executable, "-m", "bench.soak.clients", f"--port={self.data_port}"]
        command += [f"--clients={clients}", f"--seconds={seconds}", f"--first={first}"]
        command += [f"--seed={self._seed}/{name}", f"--book={book}"]
        return self._child(name, command, {}, read_output=True), book

    def _child(
        self, name: str, command: list[str], extra: dict[str, str], read_output: bool = False
    ) -> Program:
        child = Program(name, command, child_environ(extra), self.folder, read_output)
        self._children.add(child)
        return child

    # -- disturbances

    def hang_up(self) -> None:
        """Rotate the access log and send both planes SIGHUP."""
        place = self._access_log.with_name(f"access.log.{len(self._rotated) + 1:04d}")
        if self._access_log.exists():
            self._access_log.rename(place)
            self._rotated.append(place)
        os.kill(self.data.pid, signal.SIGHUP)
        # A daemon that is still starting has not said yet what the signal means to it.
        if self.control is not None and self.control_ready():
            os.kill(self.control.pid, signal.SIGHUP)

    def access_logs(self) -> list[Path]:
        """The files of the access log, the oldest first."""
        return [*self._rotated, self._access_log]

    def ledger(self) -> list[Path]:
        """The segments of the ledger, the oldest first."""
        folder = self.folder / "control"
        return [*sorted(folder.glob("ledger.[0-9]*.jsonl")), folder / "ledger.jsonl"]

    def end_control(self, number: int) -> None:
        """End the control plane with a signal.

        :raises omnigate.demo_children.ChildError: it was asked to stop and did not do so in order
        """
        if self.control is None:
            return
        control, self.control = self.control, None
        os.kill(control.pid, number)
        status = control.wait(STOP_SECONDS)
        if number == signal.SIGTERM and status != 0:
            raise control.failure(f"ended with {status} at SIGTERM")

    def stop(self) -> None:
        """Stop all of them in order, the providers last.

        :raises omnigate.demo_children.ChildError: a plane did not end with status 0
        """
        os.kill(self.data.pid, signal.SIGTERM)
        status = self.data.wait(STOP_SECONDS)
        if status != 0:
            raise self.data.failure(f"ended with {status} at SIGTERM")
        self.end_control(signal.SIGTERM)
        self.provider.stop()

    # -- looking

    def state(self) -> State:
        """Look at both planes; at a control plane that is away there is nothing to be seen."""
        control = Sight(0.0, 0, Counter())
        if self.control is not None:
            with contextlib.suppress(OSError):
                control = look(self.control.pid, self.places)
        return State(self.gauges(), look(self.data.pid, self.places), control)

    def gauges(self) -> Gauges:
        """What the data plane says of itself.

        :raises OSError: it says nothing
        """
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=SCRAPE_SECONDS) as answer:
            return Gauges(read_metrics(answer.read().decode()))

    def control_ready(self) -> bool:
        """Whether the control plane answers."""
        try:
            self.admin.text("GET", "/metrics", accept="text/plain")
        except AdminError:
            return False
        return True

    def traces(self) -> list[str]:
        """The logs that hold a traceback; there is to be none."""
        words = ("Traceback (most recent call last)", "Unhandled error", "Unhandled Error")
        found = []
        for path in sorted(self.folder.glob("*.log")):
            text = path.read_text("utf-8", "replace")
            at = min((text.find(word) for word in words if word in text), default=-1)
            if at >= 0:
                found.append(f"{path.name}: {text[max(0, at - 300) : at + 1500]}")
        return found


def _free_ports(count: int) -> list[int]:
    held: list[socket.socket] = []
    try:
        for port in random.SystemRandom().sample(range(_LOWEST_PORT, _HIGHEST_PORT), 500):
            if len(held) < count:
                with contextlib.suppress(OSError):
                    held.append(socket.create_server(("127.0.0.1", port)))
        if len(held) < count:
            raise ChildError("there are not enough free ports on loopback")
        return [opened.getsockname()[1] for opened in held]
    finally:
        for opened in held:
            opened.close()
