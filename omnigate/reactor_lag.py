"""How long the reactor was held: one thread does everything, so everybody waits for the slowest."""

from __future__ import annotations

from collections import deque
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: Often enough to catch a hold of tens of milliseconds now and then, for next to no work.
SAMPLE_SECONDS: Final = 0.25

#: A scrape every minute sees the worst of its minute.
SAMPLES_KEPT: Final = 240


class ReactorLag:
    """Measures how late a timer comes, again and again."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._samples: deque[float] = deque(maxlen=SAMPLES_KEPT)
        self._due = 0.0
        self._timer: IDelayedCall | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._due = self._clock.seconds() + SAMPLE_SECONDS
        self._timer = self._clock.callLater(SAMPLE_SECONDS, self._sample)

    def stop(self) -> None:
        """Measure no more."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def worst_seconds(self) -> float:
        """Return the longest hold of the last minute."""
        return max(self._samples, default=0.0)

    def _sample(self) -> None:
        self._samples.append(max(0.0, self._clock.seconds() - self._due))
        self.start()
