"""A turnstile for what many jobs do at once: a few of them get on in each turn of the reactor.

A step of a job, such as building a request or reading an answer, takes a fraction of a millisecond.
A thousand jobs whose polls are due in the same moment would hold the reactor for a third of a
second.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: Steps in one turn of the reactor: with 0.3 ms for one, and its end in the same turn, 3 ms.
STEPS_PER_TURN: Final = 8


class Pace:
    """The turnstile: first come, first served.

    Nobody waits longer than it takes those ahead, so what stands here is bounded by who may come:
    the jobs that run.
    """

    def __init__(self, clock: IReactorTime, steps: int = STEPS_PER_TURN) -> None:
        self._clock = clock
        self._steps = steps
        self._line: OrderedDict[int, Deferred[None]] = OrderedDict()
        self._numbers = 0
        self._call: IDelayedCall | None = None

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def turn(self) -> Deferred[None]:
        """Wait for one's turn; whoever cancels it steps out of the line."""
        number = self._numbers = self._numbers + 1
        waiting: Deferred[None] = Deferred(lambda _: self._leave(number))
        self._line[number] = waiting
        self._go_on()
        return waiting

    def stop(self) -> None:
        """Let nobody through any more."""
        self._line.clear()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _leave(self, number: int) -> None:
        self._line.pop(number, None)

    def _go_on(self) -> None:
        if self._line and self._call is None:
            self._call = self._clock.callLater(0, self._next)

    def _next(self) -> None:
        self._call = None
        for _ in range(min(self._steps, len(self._line))):
            if not self._line:  # one that got on has let others leave
                break
            _, waiting = self._line.popitem(last=False)
            waiting.callback(None)
        self._go_on()
