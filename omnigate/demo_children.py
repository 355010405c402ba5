"""Child processes of the demonstration: started, waited for, and stopped whatever happens."""

import ctypes
import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

# A start takes one or two seconds; a loaded machine may need ten times that.
READY_SECONDS = 30.0
# Longer than the grace that the demonstration gives the data plane.
STOP_SECONDS = 10.0
TAIL_LINES = 25
# The end of a log is looked for in this much of it.
TAIL_BYTES = 16_384
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1


class ChildError(Exception):
    """A child did not start or did not stay; the text ends with the end of its log."""


class Child:
    """One process with a log file.

    :ivar name: what people call it

    :param arguments: the command
    :param environ: its whole environment
    :param folder: where it runs, and where its log is written
    :param read_output: whether :meth:`first_line` is to be asked; else output goes to the log
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        read_output: bool = False,
    ) -> None:
        self.name = name
        self._log_path = folder / f"{name}.log"
        with self._log_path.open("wb") as log:
            # Away from the terminal, so that Ctrl-C reaches the parent alone, which then stops the
            # children in order.
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if read_output else log,
                stderr=log if read_output else subprocess.STDOUT,
                cwd=folder,
                env=dict(environ),
                start_new_session=True,
                preexec_fn=_death_signal(),
            )

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def first_line(self) -> str:
        """The first line of its output.

        :raises ChildError: when none comes in time
        """
        output = self._process.stdout
        assert output is not None
        end = time.monotonic() + READY_SECONDS
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([output], [], [], max(0.0, end - time.monotonic()))
            more = os.read(output.fileno(), 1024) if ready else b""
            if not more:
                raise self.failure("said nothing")
            line += more
        return line.split(b"\n")[0].decode()

    def wait_ready(self, port: int, path: str = "/readyz") -> None:
        """Wait until a path on a loopback port answers 200.

        :raises ChildError: when the process ends or the answer does not come in time
        """
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if not self.running():
                raise self.failure(f"ended with status {self._process.returncode}")
            if _answers(port, path):
                return
            time.sleep(_POLL_SECONDS)
        raise self.failure(f"was not ready on port {port} after {READY_SECONDS:.0f} s")

    def failure(self, what: str) -> ChildError:
        """An error that says what happened, and what the log says."""
        return ChildError(f"{self.name} {what}; the end of its log:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines of the log, indented."""
        with self._log_path.open("rb") as log:
            log.seek(max(0, self._log_path.stat().st_size - TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"    {line}" for line in lines) or "    (it is empty)"

    def stop(self) -> None:
        """Ask it to end, wait, and end it."""
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Children:
    """A group of children that are stopped together, the last one first."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def __enter__(self) -> "Children":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A second Ctrl-C must not leave the rest of them behind; each stop is bounded.
        signals = (signal.SIGINT, signal.SIGTERM)
        previous = [signal.signal(number, signal.SIG_IGN) for number in signals]
        try:
            while self._children:
                self._children.pop().stop()
        finally:
            for number, action in zip(signals, previous, strict=True):
                signal.signal(number, action)

    def add(self, child: Child) -> Child:
        """Keep a child until the end of the group."""
        self._children.append(child)
        return child

    def ended(self) -> Child | None:
        """A child that has ended, if any has."""
        return next((child for child in self._children if not child.running()), None)


def free_ports(count: int) -> list[int]:
    """Different TCP ports of loopback that nothing listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [opened.getsockname()[1] for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def python_environ(extra: Mapping[str, str]) -> dict[str, str]:
    """An environment for children: ours without omnigate's settings, and ``extra``.

    In a checkout its folder is put on the path, where twistd finds the plugins.
    """
    ours = ("OMNIGATE_", "LISTEN_")
    systemd = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY", "STATE_DIRECTORY")
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and name not in systemd
    }
    root = Path(__file__).resolve().parent.parent
    if not (root / "twisted" / "__init__.py").exists():
        rest = environ.get("PYTHONPATH")
        environ["PYTHONPATH"] = os.pathsep.join([str(root), *([rest] if rest else [])])
    environ["PYTHONUNBUFFERED"] = "1"
    return {**environ, **extra}


def twistd(name: str) -> list[str]:
    """The command that runs one of our daemons in the foreground, with this same Python."""
    program = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
    # The reactor of our own is an epoll reactor, which only Linux has.
    reactor = ["--reactor=omnigate"] if sys.platform.startswith("linux") else []
    return [sys.executable, "-c", program, "--nodaemon", "--pidfile=", *reactor, name]


def _answers(port: int, path: str) -> bool:
    """Whether a path answers 200 now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _death_signal() -> Callable[[], None] | None:
    """What a child runs before it begins: on Linux, it asks to be ended with its parent.

    That covers the one way out that no ``finally`` sees, ``kill -9`` of the parent.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return ask
