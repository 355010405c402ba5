"""One timer for all deadlines."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.watchdog import (
    MAX_TOLD_AT_ONCE,
    NEVER,
    SOON_SECONDS,
    SWEEP_SECONDS,
    Watchdog,
)


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


class TurningClock(Clock):
    """A clock on which what is asked for in a turn has its own turn later, as on a reactor."""

    def advance(self, amount: float) -> None:
        """Let time pass, and turn once."""
        self.rightNow += amount
        for call in [call for call in self.calls if call.getTime() <= self.rightNow]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class WatchdogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = TurningClock()
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

    def joined(self, count: int) -> list[Waiting]:
        """So many whose deadlines pass together."""
        many = [Waiting(self.watchdog.after(0)) for _ in range(count)]
        for waiting in many:
            self.watchdog.add(waiting)
        return many

    def test_many_at_once(self) -> None:
        """However many are due together, no turn acts on more than its part; none is left out."""
        for count in (1, MAX_TOLD_AT_ONCE, MAX_TOLD_AT_ONCE + 1, 5 * MAX_TOLD_AT_ONCE):
            many = self.joined(count)
            told = [0]
            while told[-1] < count:
                self.clock.advance(SWEEP_SECONDS / 20)
                told.append(sum(len(waiting.passed) for waiting in many))
            self.assertLessEqual(max(b - a for a, b in pairwise(told)), MAX_TOLD_AT_ONCE)
            self.pass_time(1)
            self.assertEqual({1}, {len(waiting.passed) for waiting in many})
            for waiting in many:
                self.watchdog.discard(waiting)

    def test_many_that_change(self) -> None:
        """Those whose turn has not come may leave or move; a sweep between the turns does no harm.

        One that is told and stays due is told again.
        """
        for turn in (0.0, SWEEP_SECONDS):
            many = self.joined(3 * MAX_TOLD_AT_ONCE)
            while not any(waiting.passed for waiting in many):
                self.clock.advance(SWEEP_SECONDS / 2)
            left = [waiting for waiting in many if not waiting.passed]
            self.assertEqual(2 * MAX_TOLD_AT_ONCE, len(left))
            gone, moved, late = left[0::3], left[1::3], left[2::3]
            for waiting in gone:
                self.watchdog.discard(waiting)
            for waiting in moved:
                waiting.deadline = NEVER
            again = next(waiting for waiting in many if waiting.passed)
            again.deadline = 0.0
            for _ in range(5):
                self.clock.advance(turn)
            self.pass_time(1)
            self.assertEqual({0}, {len(waiting.passed) for waiting in gone + moved})
            self.assertEqual({1}, {len(waiting.passed) for waiting in late})
            self.assertEqual(2, len(again.passed))
            for waiting in many:
                self.watchdog.discard(waiting)

    def test_calls_soon(self) -> None:
        """Calls that can wait share a bounded time of each turn, and come in order.

        One takes a whole turn, if it takes that long; one that fails is told and stops no other.
        """

        class InjectedError(Exception):
            pass

        called: list[tuple[int, int]] = []

        def work(number: int, left: int, seconds: float) -> None:
            called.append((number, left))
            self.clock.rightNow += seconds
            if left:
                self.watchdog.call_soon(partial(work, number, left - 1, seconds))
            if number == 1:
                raise InjectedError

        for seconds in (0.0, SOON_SECONDS / 10, SOON_SECONDS / 2.5, SOON_SECONDS * 3):
            called.clear()
            for number in range(20):
                self.watchdog.call_soon(partial(work, number, 2, seconds))
            self.assertEqual([], called)
            turns = 0
            while len(called) < 60:
                before = self.clock.seconds()
                self.clock.advance(0)
                self.assertLessEqual(self.clock.seconds() - before, SOON_SECONDS + seconds)
                turns += 1
            # Nobody is called again within a turn.
            self.assertGreaterEqual(turns, 3)
            self.assertEqual([(n, left) for left in (2, 1, 0) for n in range(20)], called)
            self.assertEqual(3, len(self.flushLoggedErrors(InjectedError)))
            self.assertEqual(1, len(self.clock.getDelayedCalls()))

    def test_next(self) -> None:
        """Who goes on at once goes before those that wait, and not within the same turn."""
        called: list[str] = []

        def begin(name: str, steps: int) -> None:
            called.append(name)
            self.clock.rightNow += SOON_SECONDS
            if steps:
                self.watchdog.call_next(partial(begin, name, steps - 1))

        self.watchdog.call_soon(partial(begin, "a", 2))
        self.watchdog.call_soon(partial(begin, "b", 1))
        for turn in range(1, 6):
            self.clock.advance(0)
            self.assertEqual(turn, len(called))
        self.assertEqual(["a", "a", "a", "b", "b"], called)

    def test_exact(self) -> None:
        """What needs the very moment does not get that of the last sweep."""
        self.clock.advance(SWEEP_SECONDS / 2)
        self.assertEqual(self.clock.seconds(), self.watchdog.exact())
        self.assertGreater(self.watchdog.exact(), self.watchdog.now)

    def test_stop(self) -> None:
        """Stopped, it leaves no timer behind."""
        many = self.joined(2 * MAX_TOLD_AT_ONCE)
        while not any(waiting.passed for waiting in many):
            self.clock.advance(SWEEP_SECONDS / 2)
        called: list[int] = []
        self.watchdog.call_soon(lambda: called.append(1))
        self.assertEqual(3, len(self.clock.getDelayedCalls()))
        self.watchdog.stop()
        self.watchdog.stop()
        self.assertEqual([], self.clock.getDelayedCalls())
        self.pass_time(1)
        self.assertEqual([], called)
