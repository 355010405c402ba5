"""When crashed stores are started again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.restarts import (
    CRASH_SECONDS,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MAX_CRASHES,
    PROVEN_SECONDS,
    Restarts,
)


class RestartsTests(SynchronousTestCase):
    """The rule by itself."""

    def crash_after(self, rule: Restarts, *ups: float) -> list[float]:
        """Be up for so long each time, and crash; the pauses."""
        pauses, now = [], 1000.0
        for up in ups:
            rule.opened(now)
            now += up
            pauses.append(rule.crashed(now))
            now += pauses[-1] + 100.0  # a start may take long
        return pauses

    def test_a_crash_is_followed_by_a_start_at_once(self) -> None:
        """However often, as long as four are not inside five seconds."""
        self.assertEqual(self.crash_after(Restarts(), *[1.7] * 30), [0.0] * 30)

    def test_the_fourth_inside_five_seconds(self) -> None:
        """Of the time that the group was up; a start that takes long does not count."""
        self.assertEqual(self.crash_after(Restarts(), 9.0, 1.6, 1.6, 1.8), [0.0, 0.0, 0.0, 0.5])
        self.assertEqual(self.crash_after(Restarts(), 9.0, 1.6, 1.6, 1.9), [0.0] * 4)

    def test_pauses(self) -> None:
        """They double up to half a minute, whichever way the group fails."""
        rule = Restarts()
        pauses = [rule.failed() for _ in range(8)]
        self.assertEqual(pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0])
        rule = Restarts()
        crashes = self.crash_after(rule, *[0.1] * 24)
        self.assertEqual([p for p in crashes if p], [0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
        self.assertEqual(rule.failed(), 30.0)

    def test_a_minute_up_begins_anew(self) -> None:
        """Whether in one piece or with a crash now and then, which the group outlived."""
        for ups, first in (((60.0,), 0.5), ((59.9,), 4.0), ((30.0, 30.0), 0.5)):
            rule = Restarts()
            for _ in range(3):
                rule.failed()
            self.assertEqual(self.crash_after(rule, *ups), [0.0] * len(ups))
            self.assertEqual(rule.failed(), first)

    @settings(max_examples=200)
    # Seconds that add up exactly: what rounding takes off a minute makes it none.
    @given(
        st.lists(
            st.tuples(st.integers(0, 90 * 64).map(lambda n: n / 64), st.booleans()), max_size=60
        )
    )
    def test_any_life(self, lives: list[tuple[float, bool]]) -> None:
        """A pause is none, or as long as the rule says by a plain reading of it."""
        rule, now = Restarts(), 0.0
        pause, age = 0.0, 0.0
        crashes: list[float] = []
        for up, opens in lives:
            if opens:
                rule.opened(now)
                now += up
                age += up
                if age >= PROVEN_SECONDS:
                    pause = 0.0
                crashes.append(age)
                told = rule.crashed(now)
                recent = [at for at in crashes[-MAX_CRASHES:] if age - at <= CRASH_SECONDS]
                if len(recent) < MAX_CRASHES:
                    self.assertEqual(told, 0.0)
                    continue
            else:
                told = rule.failed()
            pause = min(LONGEST_PAUSE, 2 * pause or FIRST_PAUSE)
            self.assertEqual(told, pause)
            crashes, age = [], 0.0
