"""How long the reactor was held."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.reactor_lag import SAMPLE_SECONDS, SAMPLES_KEPT, ReactorLag


class LagTests(SynchronousTestCase):
    """A timer that comes late."""

    def test_worst_of_the_last_minute(self) -> None:
        """One long hold is shown for a minute, and then forgotten."""
        clock = Clock()
        lag = ReactorLag(clock)
        self.assertEqual(lag.worst_seconds(), 0.0)
        lag.start()
        clock.advance(SAMPLE_SECONDS)
        self.assertEqual(lag.worst_seconds(), 0.0)
        clock.advance(SAMPLE_SECONDS + 0.5)
        self.assertEqual(lag.worst_seconds(), 0.5)
        for _ in range(SAMPLES_KEPT):
            clock.advance(SAMPLE_SECONDS)
        self.assertEqual(lag.worst_seconds(), 0.0)
        lag.stop()
        self.assertEqual(clock.getDelayedCalls(), [])
