"""Tests for omnigate.ledger.budgets."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.budgets import blocked, standing

#: 2026-11-29 12:00:00 UTC.
NOON = 1_795_953_600_000


class BlockedTests(SynchronousTestCase):
    """Whether a key may still start work."""

    def test_a_key_without_a_budget_is_never_blocked(self) -> None:
        """No budget is no limit."""
        self.assertFalse(blocked(None, "monthly", 10**18))

    def test_a_budget_is_used_up_when_it_is_reached(self) -> None:
        """One nano-dollar below it work goes on, at it and beyond it does not."""
        for period in ("daily", "weekly", "monthly", "total"):
            self.assertFalse(blocked(2_000_000, period, 1_999_999))
            self.assertTrue(blocked(2_000_000, period, 2_000_000))
            self.assertTrue(blocked(2_000_000, period, 2_000_001))

    def test_a_budget_of_zero_allows_nothing(self) -> None:
        """A key with nothing to spend is blocked before its first request."""
        self.assertTrue(blocked(0, "total", 0))

    def test_an_unknown_period_is_refused(self) -> None:
        """A spend of no known period cannot be compared."""
        self.assertRaises(ValueError, blocked, 1, "hourly", 0)


class StandingTests(SynchronousTestCase):
    """What an operator or a client is told."""

    def test_what_is_left_is_never_negative(self) -> None:
        """An overdrawn budget has nothing left."""
        self.assertEqual(standing(100, "total", 130, NOON).left_nano, 0)
        self.assertEqual(standing(100, "total", 30, NOON).left_nano, 70)
        self.assertIsNone(standing(None, "total", 30, NOON).left_nano)

    def test_a_period_tells_when_it_turns(self) -> None:
        """A daily budget turns at midnight UTC, a monthly one on the first, a total never."""
        midnight = NOON + 12 * 3_600_000
        self.assertEqual(standing(1, "daily", 0, NOON).turns_at_ms, midnight)
        self.assertEqual(standing(1, "monthly", 0, NOON).turns_at_ms, midnight + 86_400_000)
        self.assertEqual(standing(1, "weekly", 0, NOON).turns_at_ms, midnight)
        self.assertIsNone(standing(1, "total", 0, NOON).turns_at_ms)

    def test_a_period_turns_by_the_clocks_of_its_zone(self) -> None:
        """In Stockholm, in winter, a day ends an hour before that of UTC."""
        turn = standing(1, "daily", 0, NOON, "Europe/Stockholm").turns_at_ms
        self.assertEqual(turn, NOON + 11 * 3_600_000)
