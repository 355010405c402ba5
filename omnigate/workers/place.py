"""One worker's place in its parent: a process is started, heard, missed, and started again.

Nothing here touches a process: :class:`WorkerPlace` is told what happens and is handed a way to
start one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from omnigate.backoff import Backoff
from omnigate.daemon import HELD, START_FAILED, USAGE
from omnigate.protocols.worker_channel import Alive, Down, Drain, Figures, Hurry, Ready, Status, Up
from omnigate.workers.log import LogLine, LogLines

#: The pauses before a worker that ended is replaced, in seconds. The first is shorter than the
#: start itself; the longest bounds what a worker that cannot live costs.
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0

#: A worker that ran so long ended for a new reason, and the pauses begin anew.
WELL_SECONDS: Final = 60.0

#: A worker that says nothing for so long stands still and is ended: what WatchdogSec= of the unit
#: allows a data plane that is alone.
SILENT_SECONDS: Final = 30.0

#: The same for one that starts: a spool of 128 MiB is read before it says its first word.
STARTING_SECONDS: Final = 120.0

#: How often the owner looks whether a worker is silent, in seconds.
LOOK_SECONDS: Final = 1.0

#: What of the time between two looks counts as silence. Where more has passed, it was the parent
#: that stood still (it was stopped, or the whole machine was, or the clock was set), and what its
#: workers have said since waits to be read.
MOST_BETWEEN_LOOKS: Final = 3 * LOOK_SECONDS

#: Lines of a worker's start that are kept until it is known whether it starts; settings may have
#: a fault each.
_HELD_LINES: Final = 100

_log = Logger(namespace="omnigate.workers")


@attrs.frozen
class End:
    """How a process ended: with a status, or by a signal."""

    status: int | None
    signal: int | None = None

    def told(self) -> str:
        """Say it in words."""
        if self.signal is None:
            return f"with status {self.status}"
        try:
            return f"by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"by signal {self.signal}"


class Run(Protocol):
    """One process of a place."""

    @property
    def pid(self) -> int | None:
        """The process id."""

    def send(self, message: Down) -> None:
        """Tell it something."""

    def kill(self) -> None:
        """End it where it stands."""


class Owner(Protocol):
    """Who has the places."""

    stopping: bool

    def changed(self) -> None:
        """A worker became ready, ended, or said what it has in force."""

    def counted(self, place: WorkerPlace, figures: Figures) -> None:
        """A worker told its figures."""

    def ended(self, place: WorkerPlace) -> None:
        """A worker's process is gone."""

    def start_failed(self, lines: list[str], status: int) -> None:
        """A worker cannot start, for a reason that does not go away."""


class WorkerPlace:
    """See the module's docstring.

    :ivar index: which worker it is.
    :ivar run: its process, while there is one.
    :ivar ready: whether that process serves requests.
    :ivar was_ready: whether any process of this place ever did.
    :ivar status: what it last said for the service manager.

    :param start: starts a process that reports to this place.
    :param held_seconds: how long its files may be another process's before that is a fault:
        a worker of an earlier run drains so long.
    """

    def __init__(
        self,
        index: int,
        start: Callable[[WorkerPlace], Run],
        clock: IReactorTime,
        owner: Owner,
        held_seconds: float,
    ) -> None:
        self.index = index
        self.run: Run | None = None
        self.ready = False
        self.was_ready = False
        self.status = ""
        self._start = start
        self._clock = clock
        self._owner = owner
        self._held_until = clock.seconds() + held_seconds
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._timer: IDelayedCall | None = None
        self._began = 0.0
        self._looked_at = 0.0
        self._silent_for = 0.0
        self._may_be_silent = STARTING_SECONDS
        self._log_lines = LogLines()
        self._kept: list[str] = []

    # -- what the owner does with it

    def start(self) -> None:
        """Start a process."""
        self._timer = None
        self._log_lines = LogLines()
        self._began = self._looked_at = self._clock.seconds()
        self._silent_for = 0.0
        self._may_be_silent = STARTING_SECONDS
        try:
            self.run = self._start(self)
        except OSError as error:
            pause = self._backoff.next()
            _log.error(
                "worker {worker} cannot be started: {error}; tried again in {pause:g} s",
                worker=self.index,
                error=error,
                pause=pause,
            )
            self._timer = self._clock.callLater(pause, self.start)

    def send(self, message: Down) -> None:
        """Tell the process something, if there is one."""
        if self.run is not None:
            self.run.send(message)

    def drain(self) -> None:
        """Have the process stop in order, and start no other."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self.send(Drain())

    def hurry(self) -> None:
        """Have the process, which stops, wait for nothing more."""
        self.send(Hurry())

    def kill(self) -> None:
        """End the process where it stands."""
        if self.run is not None:
            self.run.kill()

    def look(self) -> None:
        """End a process that has been silent for too long; called every :data:`LOOK_SECONDS`."""
        now = self._clock.seconds()
        self._silent_for += min(max(0.0, now - self._looked_at), MOST_BETWEEN_LOOKS)
        self._looked_at = now
        if self.run is None or self._silent_for < self._may_be_silent:
            return
        _log.critical(
            "worker {worker} (process {pid}) has said nothing for {seconds:g} s; it is killed",
            worker=self.index,
            pid=self.run.pid,
            seconds=self._may_be_silent,
        )
        self._silent_for = 0.0
        self.run.kill()

    # -- what its process does

    def heard(self, message: Up) -> None:
        """Take a message."""
        self._silent_for = 0.0
        self._may_be_silent = SILENT_SECONDS
        if isinstance(message, Alive):
            return
        if isinstance(message, Figures):
            self._owner.counted(self, message)
            return
        if isinstance(message, Ready):
            self.ready = self.was_ready = True
            self._pass_on(self._take_kept())
        elif isinstance(message, Status):
            self.status = message.text
        self._owner.changed()

    def wrote(self, data: bytes) -> None:
        """Take what it wrote to standard error."""
        self._take_lines(list(self._log_lines.feed(data)))

    def ended(self, end: End) -> None:
        """Its process is gone."""
        self._take_lines(list(self._log_lines.end()))
        run, self.run = self.run, None
        self.ready = False
        pid = None if run is None else run.pid
        lines = self._take_kept()
        self._owner.ended(self)
        if self._owner.stopping:
            # Of a start that was broken off, or that failed for all workers alike.
            pass
        elif self._cannot_start(end):
            self._owner.start_failed(lines, USAGE if end.status == USAGE else START_FAILED)
        else:
            self._pass_on(lines)
            self._start_another(end, pid)
        self._owner.changed()

    def _cannot_start(self, end: End) -> bool:
        """Whether it never served and never will: what ails it needs the operator."""
        if self.was_ready:
            return False
        held_too_long = end.status == HELD and self._clock.seconds() >= self._held_until
        return end.status in (START_FAILED, USAGE) or held_too_long

    def _start_another(self, end: End, pid: int | None) -> None:
        lasted = self._clock.seconds() - self._began
        if lasted >= WELL_SECONDS:
            self._backoff.reset()
        pause = self._backoff.next()
        if end.status == HELD:
            text = (
                "worker {worker} waits for its files, which another process holds, maybe a worker "
                "of an earlier run that still has requests; it is started again in {pause:g} s"
            )
        else:
            text = (
                "worker {worker} (process {pid}) ended {end} after {lasted:.1f} s; another is "
                "started in {pause:g} s"
            )
        (_log.info if end.status == 0 else _log.error)(
            text, worker=self.index, pid=pid, end=end.told(), lasted=lasted, pause=pause
        )
        self._timer = self._clock.callLater(pause, self.start)

    # -- its lines

    def _take_lines(self, lines: list[LogLine | str]) -> None:
        for line in lines:
            if isinstance(line, LogLine):
                line.emit(self.index)
            elif self.was_ready:
                self._pass_on([line])
            elif len(self._kept) < _HELD_LINES:
                self._kept.append(line)

    def _take_kept(self) -> list[str]:
        kept, self._kept = self._kept, []
        return kept

    def _pass_on(self, lines: list[str]) -> None:
        """Log lines that are no events of its log."""
        for line in lines:
            _log.warn("worker {worker}: {line}", worker=self.index, line=line)
