"""Waits of many jobs, with one timer of the reactor: a few are over in each turn.

A thousand jobs that were begun together would else all wake in one turn, and hold the reactor for a
twentieth of a second before one of them has done anything.
"""

from __future__ import annotations

import heapq
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: Waits that end in one turn: waking a job takes some 60 µs, so these take 2 ms.
ENDED_PER_TURN: Final = 32


class Alarms:
    """Waits, the soonest first. As many as there are jobs that run; one takes 400 bytes."""

    def __init__(self, clock: IReactorTime, per_turn: int = ENDED_PER_TURN) -> None:
        self._clock = clock
        self._per_turn = per_turn
        self._heap: list[tuple[float, int]] = []
        self._waiting: dict[int, Deferred[None]] = {}
        self._numbers = 0
        self._timer: IDelayedCall | None = None

    @property
    def waiting(self) -> int:
        """How many waits there are."""
        return len(self._waiting)

    def after(self, seconds: float) -> Deferred[None]:
        """Wait so long; whoever cancels it waits no more."""
        number = self._numbers = self._numbers + 1

        def leave(_: Deferred[None]) -> None:
            self._waiting.pop(number, None)

        waiting = self._waiting[number] = Deferred[None](leave)
        heapq.heappush(self._heap, (self._clock.seconds() + seconds, number))
        self._set()
        return waiting

    def stop(self) -> None:
        """Let nobody wake any more."""
        self._heap.clear()
        self._waiting.clear()
        self._set()

    def _set(self) -> None:
        """Have the timer at the first wait that somebody is still waiting for."""
        while self._heap and self._heap[0][1] not in self._waiting:
            heapq.heappop(self._heap)
        if self._timer is not None and self._timer.active():
            if self._heap and self._timer.getTime() <= self._heap[0][0]:
                return
            self._timer.cancel()
        self._timer = None
        if self._heap:
            wait = max(0.0, self._heap[0][0] - self._clock.seconds())
            self._timer = self._clock.callLater(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        due: list[Deferred[None]] = []
        while self._heap and self._heap[0][0] <= now and len(due) < self._per_turn:
            waiting = self._waiting.pop(heapq.heappop(self._heap)[1], None)
            if waiting is not None:
                due.append(waiting)
        for waiting in due:
            # One that woke before may have canceled another.
            if not waiting.called:
                waiting.callback(None)
        self._set()
