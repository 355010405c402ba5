"""The control plane of a benchmark: a real process on a real disk, looked at from outside."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from pathlib import Path

import attrs

from bench.ledger.turns import PROGRAM, Turns
from bench.place import Program, child_environ
from bench.proc import memory_mb
from omnigate.demo_children import Children, free_ports, twistd

#: From exec to READY; a replay of a million events on a busy machine takes its time.
READY_SECONDS = 300.0
STOP_SECONDS = 120.0

_TICKS = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12


@attrs.frozen
class Ready:
    """How a start went.

    :ivar seconds: from exec to READY.
    :ivar cpu_seconds: what the process had computed by then.
    """

    seconds: float
    cpu_seconds: float


@attrs.frozen
class Cpu:
    """Processor time of a process so far, in seconds; the sum is exact, its parts to 10 ms."""

    total: float
    user: float
    system: float

    def since(self, before: Cpu) -> Cpu:
        """What came since."""
        return Cpu(self.total - before.total, self.user - before.user, self.system - before.system)


class Plane:
    """One control plane with its folder; it may be started again and again.

    :param folder: where everything is; on the disk that is to be measured.
    :param config: the text of its config.
    :ivar state: the folder of its ledger.
    :ivar turns: how long its reactor was held, where it was started with ``timed``.
    """

    def __init__(self, folder: Path, children: Children, config: str) -> None:
        self.folder = folder
        self.state = folder / "control"
        self.token = secrets.token_hex(24)
        self.admin_token = secrets.token_hex(24)
        self.port = 0
        self.turns = Turns(folder / "turns")
        self.program: Program | None = None
        self._children = children
        self._starts = 0
        self.state.mkdir()
        (folder / "omnigate.toml").write_text(config, "utf-8")

    @property
    def ledger(self) -> Path:
        """The active segment."""
        return self.state / "ledger.jsonl"

    @property
    def snapshot(self) -> Path:
        """The newest snapshot."""
        return self.state / "ledger.snapshot"

    # -- starting and stopping

    def start(self, timed: bool = False) -> Ready:
        """Start it and wait until it says READY.

        :param timed: whether its reactor's turns are measured.
        :raises omnigate.demo_children.ChildError: it does not come up
        """
        self._starts += 1
        (self.port,) = free_ports(1)
        command = twistd("omnigate-control")
        if timed:
            command[2] = PROGRAM.format(path=str(self.folder / "turns"))
        # An abstract one: paths in folders of tests are too long for a socket.
        name = f"omnigate-bench-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(f"\0{name}")
            told.settimeout(1.0)
            environ = child_environ(
                {
                    "OMNIGATE_CONTROL_LISTEN": f"tcp:{self.port}:interface=127.0.0.1",
                    "OMNIGATE_CONFIG": str(self.folder / "omnigate.toml"),
                    "OMNIGATE_STATE_DIR": str(self.state),
                    "OMNIGATE_INTERNAL_TOKEN": self.token,
                    "OMNIGATE_ADMIN_TOKEN": self.admin_token,
                    "NOTIFY_SOCKET": f"@{name}",
                }
            )
            began = time.perf_counter()
            self.program = Program(f"control-{self._starts}", command, environ, self.folder)
            self._children.add(self.program)
            self._wait_ready(told)
            took = time.perf_counter() - began
        return Ready(took, self.cpu().total)

    def _wait_ready(self, told: socket.socket) -> None:
        assert self.program is not None
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in told.recv(4096).split(b"\n"):
                    return
            if not self.program.running():
                raise self.program.failure("ended at its start")
        raise self.program.failure(f"was not ready after {READY_SECONDS:.0f} s")

    def stop(self) -> None:
        """Stop it in order.

        :raises omnigate.demo_children.ChildError: it did not end with 0
        """
        status = self._end(signal.SIGTERM)
        if status != 0 and self.program is not None:
            raise self.program.failure(f"ended with {status}")

    def kill(self) -> None:
        """``kill -9``."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> int:
        assert self.program is not None
        os.kill(self.program.pid, number)
        return self.program.wait(STOP_SECONDS)

    def wait_snapshot(self, seconds: float) -> bool:
        """Wait for a snapshot to be there; whether it came."""
        end = time.monotonic() + seconds
        while not self.snapshot.exists():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def forget_snapshots(self) -> None:
        """Leave only the segments, as though there never had been a snapshot."""
        for path in self.state.glob("ledger.*"):
            if path.suffix != ".jsonl":
                path.unlink()

    # -- looking

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.program is not None
        return self.program.pid

    def cpu(self) -> Cpu:
        """Its processor time so far."""
        tasks = Path(f"/proc/{self.pid}/task")
        total = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())
        stat = Path(f"/proc/{self.pid}/stat").read_text("ascii", "replace")
        fields = stat.rpartition(")")[2].split()
        return Cpu(total / 1e9, int(fields[_USER]) / _TICKS, int(fields[_SYSTEM]) / _TICKS)

    def rss_mb(self) -> float:
        """What of it is resident, in megabytes."""
        return memory_mb(self.pid, "VmRSS")

    def peak_mb(self) -> float:
        """The most that was, since its start."""
        return memory_mb(self.pid, "VmHWM")


def run_python(code: str, folder: Path, rounds: int) -> float:
    """The median time from exec to the end of a Python program, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        program = Program("python", [sys.executable, "-c", code], child_environ({}), folder)
        status = program.wait(READY_SECONDS)
        times.append(time.perf_counter() - began)
        if status != 0:
            raise program.failure(f"ended with {status}")
    return sorted(times)[len(times) // 2]
