"""One timer for all deadlines."""

from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.watchdog import NEVER, SWEEP_SECONDS, Watchdog


class Waiting:
    """Something with a deadline, which remembers when it passed."""

    def __init__(self, deadline: float, act: Callable[[], object] = lambda: None) -> None:
        self.deadline = deadline
        self.passed: list[float] = []
        self._act = act

    def deadline_passed(self, now: float) -> None:
        self.passed.append(now)
        self.deadline = NEVER
        self._act()


class WatchdogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.watchdog = Watchdog(self.clock)
        self.watchdog.start()

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.clock.advance(0.05)

    def test_never_too_early(self) -> None:
        """A wait is never shorter than promised, and at most two sweeps longer."""
        for offset in (0.0, 0.03, 0.07, 0.099):
            self.clock.advance(offset)
            begun = self.clock.seconds()
            waiting = Waiting(self.watchdog.after(1.0))
            self.watchdog.add(waiting)
            while not waiting.passed:
                self.clock.advance(0.01)
            waited = self.clock.seconds() - begun
            self.assertGreaterEqual(waited, 1.0)
            self.assertLess(waited, 1.0 + 2 * SWEEP_SECONDS + 0.02)
            self.watchdog.discard(waiting)

    def test_moved(self) -> None:
        """A deadline may be moved by plain assignment, both ways."""
        early, late = Waiting(self.watchdog.after(1)), Waiting(NEVER)
        self.watchdog.add(early)
        self.watchdog.add(late)
        early.deadline = NEVER
        late.deadline = self.watchdog.after(1)
        self.pass_time(2)
        self.assertEqual(([], 1), (early.passed, len(late.passed)))

    def test_discarded(self) -> None:
        """What was discarded is not called; discarding twice does nothing."""
        waiting = Waiting(self.watchdog.after(0))
        self.watchdog.add(waiting)
        self.assertEqual(1, len(self.watchdog))
        self.watchdog.discard(waiting)
        self.watchdog.discard(waiting)
        self.pass_time(1)
        self.assertEqual([], waiting.passed)
        self.assertEqual(0, len(self.watchdog))

    def test_one_ends_another(self) -> None:
        """Of two deadlines in one sweep the first may call off the second."""
        both: list[Waiting] = []

        def call_off() -> None:
            for waiting in both:
                self.watchdog.discard(waiting)

        both += [Waiting(self.watchdog.after(0), call_off) for _ in range(2)]
        for waiting in both:
            self.watchdog.add(waiting)
        self.pass_time(1)
        self.assertEqual(1, sum(len(waiting.passed) for waiting in both))

    def test_one_delays_another(self) -> None:
        """Or move it."""
        both: list[Waiting] = []

        def delay() -> None:
            for waiting in both:
                waiting.deadline = NEVER

        both += [Waiting(self.watchdog.after(0), delay) for _ in range(2)]
        for waiting in both:
            self.watchdog.add(waiting)
        self.pass_time(1)
        self.assertEqual(1, sum(len(waiting.passed) for waiting in both))

    def test_joined_in_a_sweep(self) -> None:
        """Who joins while others are called is called from the next sweep on."""
        second = Waiting(0.0)
        first = Waiting(self.watchdog.after(0), lambda: self.watchdog.add(second))
        self.watchdog.add(first)
        self.pass_time(1)
        self.assertEqual(1, len(second.passed))

    def test_failure(self) -> None:
        """An exception in one does not stop the others, and is not met again at each sweep."""

        class InjectedError(Exception):
            pass

        def fail() -> None:
            raise InjectedError

        broken, sound = Waiting(self.watchdog.after(0), fail), Waiting(self.watchdog.after(0.5))
        self.watchdog.add(broken)
        self.watchdog.add(sound)
        self.pass_time(2)
        self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))
        self.assertEqual((1, 1), (len(broken.passed), len(sound.passed)))

    def test_exact(self) -> None:
        """What needs the very moment does not get that of the last sweep."""
        self.clock.advance(SWEEP_SECONDS / 2)
        self.assertEqual(self.clock.seconds(), self.watchdog.exact())
        self.assertGreater(self.watchdog.exact(), self.watchdog.now)

    def test_stop(self) -> None:
        """Stopped, it leaves no timer behind."""
        self.watchdog.stop()
        self.watchdog.stop()
        self.assertEqual([], self.clock.getDelayedCalls())
