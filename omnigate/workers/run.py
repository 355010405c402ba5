# mypy: allow-untyped-calls
# (twisted's reactors carry no types)
"""A worker's process as its parent starts it: the command, the descriptors, the ends of its pipes.

The command is the parent's own with the options that matter to a worker, so that it runs the same
code on the same reactor. It is a fresh interpreter: nothing of the parent's state is in it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import Factory, ProcessProtocol
from twisted.python.failure import Failure

from omnigate.protocols.worker_channel import Channel, Down, Up, decode_up
from omnigate.workers.place import End, WorkerPlace
from omnigate.workers.seat import SEAT_VARIABLE, WorkerSeat

#: Where a worker finds its descriptors, behind those that every program has.
LISTEN_FD: Final = 3
CHANNEL_FD: Final = 4
COUNTERS_FD: Final = 5

_STANDARD_ERROR: Final = 2

#: What systemd says to the parent alone: its port, its socket for words, its watchdog.
_PARENTS_OWN: Final = (
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
)

_TWISTD = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"

#: What a worker's twistd is told beside the reactor; the log goes to the parent.
_IN_FRONT = ("--nodaemon", "--pidfile=", "--logger=omnigate.workers.log.observer")


def interpreter_command(original: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return the command that runs this interpreter with this ``twistd``, without its arguments.

    :param original: ``sys.orig_argv``.
    :param arguments: ``sys.argv`` without its first.
    """
    size = len(original) - len(arguments)
    if size > 1 and list(original[size:]) == list(arguments):
        return [sys.executable, *original[1:size]]
    return [sys.executable, "-c", _TWISTD]


@attrs.frozen
class WorkerCommand:
    """How a worker is started, whichever it is.

    :ivar arguments: the command line; it holds no secret, since anybody may read it.
    :ivar environ: the variables, without the seat.
    :ivar folder: where relative paths of the settings begin.
    """

    arguments: tuple[str, ...]
    environ: Mapping[str, str] = attrs.field(repr=False)
    folder: str

    def environ_of(self, seat: WorkerSeat) -> dict[str, str]:
        """Return the variables of one worker."""
        own = {name: value for name, value in self.environ.items() if name not in _PARENTS_OWN}
        return {**own, SEAT_VARIABLE: seat.told()}


def worker_command(
    reactor: str | None, subcommand: str, options: Mapping[str, Any]
) -> WorkerCommand:
    """Return the command for workers of this process.

    :param reactor: the name that ``twistd --reactor`` was given.
    :param options: those of the subcommand; the ones that were given are given on.
    """
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    chosen = [f"--reactor={reactor}"] if reactor else []
    program = interpreter_command(sys.orig_argv, sys.argv[1:])
    arguments = (*program, *_IN_FRONT, *chosen, subcommand, *given)
    return WorkerCommand(arguments, dict(os.environ), os.getcwd())


class WorkerRun(ProcessProtocol):
    """One process of a place, from its start until it and all that it said are through.

    :ivar pid: the process id, which outlives the process here.
    """

    def __init__(self, place: WorkerPlace) -> None:
        self.channel: Channel[Up] = Channel(decode_up, place.heard, self._line_ended)
        self._place = place
        self._end: End | None = None
        self._line_up = True
        self.pid: int | None = None

    def connectionMade(self) -> None:
        """Note which process it is; Twisted forgets it at the end."""
        if self.transport is not None:
            self.pid = self.transport.pid

    def send(self, message: Down) -> None:
        """Tell the process something."""
        self.channel.send(message)

    def kill(self) -> None:
        """End the process where it stands."""
        if self.transport is not None:
            with contextlib.suppress(ProcessExitedAlready):
                self.transport.signalProcess("KILL")

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: N802, N803
        """Standard error, where its log comes."""
        self._place.wrote(data)

    def processEnded(self, reason: Failure) -> None:  # noqa: N802
        """The process is gone and its standard error read."""
        ended: Any = reason.value
        self._end = End(ended.exitCode, ended.signal)
        self._maybe_ended()

    def _line_ended(self) -> None:
        self._line_up = False
        self._maybe_ended()

    def _maybe_ended(self) -> None:
        """What it said last is heard before its end is told."""
        if self._end is not None and not self._line_up:
            self._place.ended(self._end)


def start_worker(
    reactor: Any,
    place: WorkerPlace,
    command: WorkerCommand,
    count: int,
    listen_fd: int,
    counters_fd: int,
) -> WorkerRun:
    """Start a worker's process.

    :param count: how many workers there are.
    :raises OSError: it cannot be started.
    """
    run = WorkerRun(place)
    seat = WorkerSeat(place.index, count, LISTEN_FD, CHANNEL_FD, COUNTERS_FD)
    ours, theirs = socket.socketpair()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptors: dict[int, int | str] = {
        0: nothing,
        1: 1,
        _STANDARD_ERROR: "r",
        LISTEN_FD: listen_fd,
        CHANNEL_FD: theirs.fileno(),
        COUNTERS_FD: counters_fd,
    }
    with ours, theirs:
        try:
            reactor.spawnProcess(
                run,
                command.arguments[0],
                command.arguments,
                command.environ_of(seat),
                # A folder that only root may enter, after the user was changed, is no place to be.
                command.folder if os.access(command.folder, os.X_OK) else "/",
                childFDs=descriptors,
            )
        finally:
            os.close(nothing)
        ours.setblocking(False)
        reactor.adoptStreamConnection(
            ours.fileno(), socket.AF_UNIX, Factory.forProtocol(lambda: run.channel)
        )
    return run
