"""Tests for omnigate.ledger.trusted_time: clocks that jump, and what the ledger makes of them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger import store
from omnigate.ledger.service import Ledger
from omnigate.ledger.trusted_time import BELIEVED_MS, PATIENCE_SECONDS, TrustedTime
from omnigate.ledger.upkeep import CHECK_SECONDS
from omnigate.ledger.verify import verify
from omnigate.periods import DAY_MS, PERIODS
from tests.ledger.ledger_case import COST, KEY, LedgerCase
from tests.ledger.test_ingest import NOW_MS, as_dict

DAY = DAY_MS // 1000

#: By how many seconds a clock is wrong: a day, a leap year's February, years, the last day there
#: is and the first that there is not; and the same way back, before 1970 too.
WRONG = (DAY, 4 * DAY, 366 * DAY, 3653 * DAY, 2_500_000 * DAY, 251_606_300_000, 400_000_000_000)
JUMPS = (*WRONG, -DAY, -4 * DAY, -20_000 * DAY, -30_000 * DAY)


class TrustedTimeTests(SynchronousTestCase):
    """What is believed of a clock."""

    def test_a_clock_that_goes_is_believed(self) -> None:
        """So is one that is put a little ahead, or back by whatever."""
        time = TrustedTime(NOW_MS, NOW_MS, 5.0)
        self.assertEqual(time.look(NOW_MS + 400 * DAY_MS, 5.0 + 400 * DAY), NOW_MS + 400 * DAY_MS)
        self.assertEqual(time.look(7, 6.0 + 400 * DAY), 7)
        self.assertEqual(time.look(7 + BELIEVED_MS, 6.0 + 400 * DAY), 7 + BELIEVED_MS)
        self.assertEqual(time.doubted, 0)

    def test_a_jump_is_believed_in_the_end(self) -> None:
        """Until then the time goes on as it did."""
        time = TrustedTime(NOW_MS, None, 5.0)
        jump = 3 * DAY_MS
        self.assertEqual(time.look(NOW_MS + jump, 5.0), NOW_MS)
        self.assertEqual(time.doubted, 3)
        self.assertEqual(time.look(NOW_MS + jump + 60_000, 65.0), NOW_MS + 60_000)
        late = 5.0 + PATIENCE_SECONDS
        self.assertEqual(time.look(NOW_MS + jump, late), NOW_MS + jump)
        self.assertEqual(time.doubted, 0)

    def test_a_start_long_after_the_last_snapshot(self) -> None:
        """It is as if the clock had jumped; without a snapshot the clock is all there is."""
        time = TrustedTime(NOW_MS, NOW_MS - 9 * DAY_MS, 5.0)
        self.assertEqual((time.believed_ms, time.doubted), (NOW_MS - 9 * DAY_MS, 9))
        self.assertEqual(time.look(NOW_MS, 5.0 + PATIENCE_SECONDS), NOW_MS)
        self.assertEqual(TrustedTime(NOW_MS, None, 5.0).believed_ms, NOW_MS)
        self.assertEqual(TrustedTime(NOW_MS, NOW_MS + 9 * DAY_MS, 5.0).believed_ms, NOW_MS)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 2 * DAY))))
    def test_whatever_the_clock_does(self, looks: list[tuple[int, int]]) -> None:
        """It is never ahead of the clock; and it gains a day at most, unless an hour has gone."""
        time, seconds = TrustedTime(NOW_MS, None, 0.0), 0
        before, still = NOW_MS, 0
        for now_ms, later in looks:
            seconds += later
            believed = time.look(now_ms, float(seconds))
            self.assertLessEqual(believed, now_ms)
            if believed > before + later * 1000 + BELIEVED_MS:
                self.assertGreaterEqual(seconds - still, PATIENCE_SECONDS)
            if not time.doubted:
                still = seconds
            before = believed


class JumpTests(LedgerCase):
    """A ledger whose clock is wrong for a while."""

    wrong = 0

    def started(self) -> None:
        """Start a process with segments and ids that have an age to be forgotten at."""
        self.ledger: Ledger = self.opened(
            ledger_days=30, wall=lambda: self.clock.seconds() + self.wrong, steady=self.steady
        )

    def steady(self) -> float:
        """The monotonic clock, which begins anywhere."""
        return self.clock.seconds() - 1_000_000_000

    def record(self, *ids: str) -> int:
        """Record events of the right time; how many were known. Then wait for the next check."""
        now_ms = int(self.clock.seconds() * 1000)
        recorded = self.ledger.record([as_dict(name, ts_ms=now_ms) for name in ids])
        self.clock.advance(CHECK_SECONDS + 1)
        return self.successResultOf(recorded).duplicates

    def spends(self) -> list[int]:
        """What was spent in each kind of period, at the right time, in events."""
        now_ms = int(self.clock.seconds() * 1000)
        zones = ("UTC", "Asia/Kolkata", "America/New_York")
        return [
            self.ledger.spend_nano([KEY], period, now_ms, zone) // COST
            for period in PERIODS
            for zone in zones
        ]

    def test_a_wrong_clock_costs_nothing(self) -> None:
        """Whatever it shows for half an hour, with or without a restart in that time or after."""
        self.patch(store, "SEAL_BYTES", 1)
        for jump in JUMPS:
            for restarts in ((), ("during",), ("after",), ("during", "after")):
                with self.subTest(jump=jump, restarts=restarts):
                    self.play(jump, restarts)

    def play(self, jump: int, restarts: tuple[str, ...]) -> None:
        """Let the clock be wrong for a while."""
        self.wrong = 0
        self.write(b"")
        self.clock.rightNow = NOW_MS / 1000  # so that no midnight passes
        self.started()
        ids = [f"e{number}" for number in range(6)]
        for name in ids:
            self.record(name)
        spent, names = self.spends(), set(self.names())
        self.wrong = jump
        self.assertEqual(self.record("during", *ids), 6)
        if "during" in restarts:
            self.started()
        self.assertEqual(self.record("during", *ids), 7)
        self.wrong = 0
        if "after" in restarts:
            self.started()
        self.assertEqual(self.record("during", "after", *ids), 7)
        self.assertEqual(self.spends(), [count + 2 for count in spent])
        self.assertEqual(names - set(self.names()), set())
        self.assertEqual(verify(self.family, 3).first, [])
        # And once more from the first line on.
        for path in (self.family.snapshot, self.family.spare):
            self.disk.unlink(path)
        self.started()
        self.assertEqual(self.spends(), [count + 2 for count in spent])
        # What was recorded with a clock that was days behind looks old to whoever reads its line.
        known = 7 if jump <= -4 * DAY else 8
        self.assertEqual(self.record("during", "after", *ids), known)

    def test_a_clock_that_stays_ahead_is_followed(self) -> None:
        """Everything is forgotten at its age, an hour late."""
        self.patch(store, "SEAL_BYTES", 1)
        self.started()
        for name in ("e1", "e2", "e3"):
            self.record(name)
        self.wrong = 366 * DAY
        self.record("later")
        self.assertIn("ledger.ids.2026-11-29", self.names())
        for _ in range(int(PATIENCE_SECONDS // CHECK_SECONDS) + 1):
            self.clock.advance(CHECK_SECONDS)
        self.assertNotIn("ledger.ids.2026-11-29", self.names())
        self.assertNotIn("ledger.000001.jsonl", self.names())
        self.assertEqual(self.spent(), 4 * COST)
