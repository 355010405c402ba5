"""How a worker's process is started, and in which order its end is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.worker_channel import Alive, Drain, Up, frame
from omnigate.workers.place import End, WorkerPlace
from omnigate.workers.run import (
    WorkerCommand,
    WorkerRun,
    interpreter_command,
    start_worker,
    worker_command,
)
from omnigate.workers.seat import SEAT_VARIABLE, WorkerSeat, take_seat


class Place:
    """Notes what a run tells."""

    index = 1

    def __init__(self) -> None:
        self.told: list[Up | bytes | End] = []

    def heard(self, message: Up) -> None:
        self.told.append(message)

    def wrote(self, data: bytes) -> None:
        self.told.append(data)

    def ended(self, end: End) -> None:
        self.told.append(end)


class Process:
    """A process's transport that is none."""

    pid = 4711

    def __init__(self) -> None:
        self.signals: list[str] = []
        self.gone = False

    def signalProcess(self, name: str) -> None:  # noqa: N802
        if self.gone:
            raise ProcessExitedAlready()
        self.signals.append(name)


class Reactor:
    """As much of a reactor as a start touches."""

    def __init__(self) -> None:
        self.spawned: list[tuple[str, Sequence[str], Mapping[str, str], str, dict[int, Any]]] = []
        self.refuses = False

    def spawnProcess(  # noqa: N802
        self,
        protocol: WorkerRun,
        executable: str,
        args: Sequence[str],
        env: Mapping[str, str],
        path: str,
        childFDs: dict[int, Any],  # noqa: N803
    ) -> None:
        if self.refuses:
            raise OSError(11, "Resource temporarily unavailable")
        open_now = {
            number: "r" if given == "r" else os.fstat(given) for number, given in childFDs.items()
        }
        self.spawned.append((executable, args, env, path, open_now))

    def adoptStreamConnection(self, fd: int, family: int, factory: Any) -> None:  # noqa: N802
        self.blocking = os.get_blocking(fd)
        factory.buildProtocol(None).makeConnection(StringTransport())


class CommandTests(SynchronousTestCase):
    """The command line and the environment."""

    def test_the_same_program(self) -> None:
        """A worker runs as its parent does, whichever way that was started."""
        told = ["--nodaemon", "omnigate-data"]
        for before in (["/opt/bin/twistd"], ["-c", "run()"], ["-O", "-m", "x"]):
            command = interpreter_command(["python3", *before, *told], told)
            self.assertEqual(command, [sys.executable, *before])

    def test_where_that_is_not_told(self) -> None:
        """Then twistd is called by what it is."""
        for original in ([], ["python3"], ["twistd", "--nodaemon", "x"]):
            command = interpreter_command(original, ["--nodaemon", "omnigate-data"])
            self.assertEqual(command[:2], [sys.executable, "-c"])
            self.assertIn("twistd", command[2])

    def test_options(self) -> None:
        """The reactor and what was given are given on; the rest is left to the environment."""
        given = {"listen": "tcp:80", "state-dir": None}
        command = worker_command("omnigate", "omnigate-data", given)
        self.assertEqual(
            command.arguments[-3:], ("--reactor=omnigate", "omnigate-data", "--listen=tcp:80")
        )
        self.assertIn("--nodaemon", command.arguments)
        self.assertIn("--pidfile=", command.arguments)
        plain = worker_command(None, "omnigate-data", {})
        self.assertFalse([word for word in plain.arguments if word.startswith("--reactor")])

    def test_environment(self) -> None:
        """Everything but what systemd says to the parent alone, and the seat."""
        environ = {
            "OMNIGATE_INTERNAL_TOKEN": "secret",
            "CREDENTIALS_DIRECTORY": "/run/x",
            "NOTIFY_SOCKET": "/run/notify",
            "WATCHDOG_USEC": "1",
            "WATCHDOG_PID": "1",
            "LISTEN_FDS": "1",
            "LISTEN_PID": "1",
            "LISTEN_FDNAMES": "public",
        }
        seat = WorkerSeat(0, 2, 3, 4, 5)
        given = WorkerCommand(("x",), environ, "/").environ_of(seat)
        self.assertEqual(take_seat(given), seat)
        self.assertEqual(sorted(given), ["CREDENTIALS_DIRECTORY", "OMNIGATE_INTERNAL_TOKEN"])
        self.assertNotIn("secret", repr(WorkerCommand(("x",), environ, "/")))


class StartTests(SynchronousTestCase):
    """Starting."""

    def setUp(self) -> None:
        self.place: Any = Place()
        self.reactor = Reactor()

    def start(self, folder: str = "/") -> WorkerRun:
        """Start a worker with a file in the place of the port, and of the memory."""
        command = WorkerCommand(("/bin/x", "y"), {"HOME": "/"}, folder)
        with open(os.devnull, "rb") as file:
            return start_worker(self.reactor, self.place, command, 2, file.fileno(), file.fileno())

    def test_descriptors(self) -> None:
        """A worker is told which of its descriptors is what, and gets no others."""
        self.start()
        executable, args, env, path, open_now = self.reactor.spawned.pop()
        self.assertEqual((executable, args, path), ("/bin/x", ("/bin/x", "y"), "/"))
        seat = take_seat(dict(env))
        assert seat is not None
        self.assertEqual((seat.index, seat.count), (1, 2))
        numbers = {0, 1, 2, seat.listen_fd, seat.channel_fd, seat.counters_fd}
        self.assertEqual(set(open_now), numbers)
        self.assertEqual(len(numbers), 6)
        self.assertFalse(self.reactor.blocking)

    def test_folder_that_is_closed(self) -> None:
        """A worker begins in the parent's folder, if it may."""
        self.start("/nowhere/at/all")
        self.assertEqual(self.reactor.spawned[0][3], "/")

    def test_refused(self) -> None:
        """Where the system refuses, nothing is left open."""
        self.reactor.refuses = True
        before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
        self.assertRaises(OSError, self.start)
        after = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
        self.assertEqual(len(before), len(after))

    def test_seat_is_not_inherited(self) -> None:
        """A worker's own variable never comes from the parent's environment."""
        command = WorkerCommand(("x",), {SEAT_VARIABLE: "old"}, "/")
        seat = WorkerSeat(0, 2, 3, 4, 5)
        self.assertEqual(take_seat(command.environ_of(seat)), seat)


class RunTests(SynchronousTestCase):
    """One process."""

    def setUp(self) -> None:
        self.place: Any = Place()
        self.run_ = WorkerRun(cast(WorkerPlace, self.place))
        self.process: Any = Process()
        self.run_.makeConnection(self.process)
        self.wire = StringTransport()
        self.run_.channel.makeConnection(self.wire)

    def test_told(self) -> None:
        """Messages go down, messages and lines come up."""
        self.run_.send(Drain())
        self.assertEqual(self.wire.value(), frame(Drain()))
        self.run_.channel.dataReceived(frame(Alive()))
        self.run_.childDataReceived(2, b"line\n")
        self.assertEqual(self.place.told, [Alive(), b"line\n"])
        self.assertEqual(self.run_.pid, 4711)

    def test_end_comes_last(self) -> None:
        """Its end is told when it is gone and all that it said was heard, once."""
        for line_first in (True, False):
            self.setUp()
            if line_first:
                self.run_.channel.connectionLost()
            self.run_.processEnded(Failure(ProcessTerminated(1)))
            if not line_first:
                self.assertEqual(self.place.told, [])
                self.run_.channel.dataReceived(frame(Alive()))
                self.run_.channel.connectionLost()
            self.assertEqual(self.place.told[-1], End(1))
            self.assertEqual(len(self.place.told), 1 if line_first else 2)

    def test_ends(self) -> None:
        """A status, a signal, and none of both."""
        for reason, end in (
            (ProcessDone(0), End(0)),
            (ProcessTerminated(70), End(70)),
            (ProcessTerminated(None, 9), End(None, 9)),
        ):
            self.setUp()
            self.run_.channel.connectionLost()
            self.process.pid = None
            self.run_.processEnded(Failure(reason))
            self.assertEqual(self.place.told, [end])
            self.assertEqual(self.run_.pid, 4711)

    def test_kill(self) -> None:
        """It is ended where it stands; one that has ended is left alone."""
        self.run_.kill()
        self.process.gone = True
        self.run_.kill()
        self.assertEqual(self.process.signals, ["KILL"])

    def test_before_the_start(self) -> None:
        """A run that has not begun has no process."""
        place: Any = Place()
        run = WorkerRun(place)
        run.kill()
        self.assertIsNone(run.pid)
