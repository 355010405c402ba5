"""One timer for all deadlines of the data plane.

A ``callLater`` and its cancel cost several microseconds a request; a sweep over
everything that is being waited for costs some thirty nanoseconds an item.  Whoever
waits joins the watchdog, keeps its own :attr:`Timed.deadline` and is told once
the deadline has passed.  A deadline may be moved at any time by plain assignment.

Deadlines count on :attr:`Watchdog.now`, the time of the last sweep, so that nobody
on the byte path asks the clock.  That time may lag by one interval, which is why
:meth:`Watchdog.after` adds one: a wait is never shorter than promised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

#: Seconds between two sweeps: fine enough for timeouts of a second, coarse enough
#: that ten thousand idle connections cost under one percent of a core.
SWEEP_SECONDS = 0.1

#: Deadlines acted on in one turn of the reactor, where all others have theirs in between: to close
#: a connection takes some 12 us, to go on with a request whose upstream is silent some 100 us, and
#: a client may let ten thousand of them run out together.
MAX_TOLD_AT_ONCE = 100

#: How long calls that can wait may take in one turn of the reactor, all together. With the one that
#: is under way when it is over, which takes ten milliseconds but for the longest of requests and
#: answers, others wait for under 20.
SOON_SECONDS = 0.005

NEVER = inf


class Timed(Protocol):
    """Something with a deadline."""

    deadline: float

    def deadline_passed(self, now: float) -> None:
        """Called from a sweep when :attr:`deadline` is not after ``now`` (seconds)."""


class Watchdog:
    """Sweeps over everything that has a deadline.

    :ivar now: seconds on the clock at the last sweep.
    :ivar interval: seconds between two sweeps.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, interval: float = SWEEP_SECONDS) -> None:
        self._clock = clock
        self.interval = interval
        self._timed: set[Timed] = set()
        self._call: IDelayedCall | None = None
        self._due: list[Timed] = []
        self._telling: IDelayedCall | None = None
        self._soon: deque[Callable[[], None]] = deque()
        self._next_turn: IDelayedCall | None = None
        self.now = clock.seconds()

    def start(self) -> None:
        """Begin to sweep."""
        self.now = self._clock.seconds()
        self._call = self._clock.callLater(self.interval, self._sweep)

    def stop(self) -> None:
        """End sweeping; who joined stays in the set, and calls that wait are not made."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._due = []
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        self._soon.clear()

    def add(self, timed: Timed) -> None:
        """Watch over ``timed`` from now on."""
        self._timed.add(timed)

    def discard(self, timed: Timed) -> None:
        """Forget ``timed``; no error when it was not watched."""
        self._timed.discard(timed)

    def after(self, seconds: float) -> float:
        """The deadline that is at least ``seconds`` away."""
        return self.now + seconds + self.interval

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call once the reactor has seen to everybody else.

        However many ask for it, each in its turn, all others are seen to every few milliseconds.
        """
        self._soon.append(call)
        if self._next_turn is None:
            self._next_turn = self._clock.callLater(0, self._call_some)

    def call_next(self, call: Callable[[], None]) -> None:
        """Do the same, before all who wait: for one who holds in between what others may need."""
        self._soon.appendleft(call)
        if self._next_turn is None:
            self._next_turn = self._clock.callLater(0, self._call_some)

    def _call_some(self) -> None:
        """Make calls for a while; those that ask for another have it behind all others."""
        self._next_turn = None
        soon = self._soon
        until = self._clock.seconds() + SOON_SECONDS
        for _ in range(len(soon)):
            try:
                soon.popleft()()
            except Exception:
                self.log.failure("a call that waited for its turn failed")
            if self._clock.seconds() >= until:
                break
        if soon and self._next_turn is None:
            self._next_turn = self._clock.callLater(0, self._call_some)

    def exact(self) -> float:
        """The time on the clock itself, for what happens once in a request."""
        return self._clock.seconds()

    def __len__(self) -> int:
        return len(self._timed)

    def _sweep(self) -> None:
        now = self._clock.seconds()
        self.now = now
        self._call = self._clock.callLater(self.interval, self._sweep)
        # Picked first, called after: the called may join, leave or move others. What the sweep
        # before has not come to yet is due still, so it is among these.
        self._due = [timed for timed in self._timed if timed.deadline <= now]
        if self._due and self._telling is None:
            self._tell()

    def _tell(self) -> None:
        """Call those who are due, and leave what are too many for one turn to the next."""
        self._telling = None
        now = self.now
        due = self._due[:MAX_TOLD_AT_ONCE]
        del self._due[:MAX_TOLD_AT_ONCE]
        if self._due:
            self._telling = self._clock.callLater(0, self._tell)
        for timed in due:
            if timed.deadline > now or timed not in self._timed:
                continue
            try:
                timed.deadline_passed(now)
            except Exception:
                # One broken exchange must not stop the deadlines of all others.
                timed.deadline = NEVER
                self.log.failure("a deadline could not be acted on")
