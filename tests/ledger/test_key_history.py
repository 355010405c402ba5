"""What one key used of late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.key_history import key_history, last_days
from omnigate.ledger.totals import Sums, Totals
from omnigate.periods import DAY_MS
from tests.ledger.test_totals import NOV_29, Usage


class KeyHistoryTests(SynchronousTestCase):
    """Days, the month, the lifetime."""

    def test_days_month_and_lifetime(self) -> None:
        """Every day has its place, and the keys of a rotated one are added up."""
        totals = Totals()
        for key, days_ago, cost in (("k1", 0, 1), ("k2", 0, 2), ("k1", 29, 4), ("k1", 30, 8)):
            totals.count(Usage(key_sha256=key, ts_ms=NOV_29 - days_ago * DAY_MS), cost)
        totals.count(Usage(key_sha256="k3"), 100)
        found = key_history(totals, ["k1", "k2"], NOV_29 + 5)
        self.assertEqual(len(found.days), 30)
        self.assertEqual((found.days[0].name, found.days[-1].name), ("2026-10-31", "2026-11-29"))
        costs = [day.sums.cost_nano for day in found.days if day.sums is not None]
        self.assertEqual(costs, [4, *[0] * 28, 3])
        self.assertEqual((found.month.cost_nano, found.lifetime.cost_nano), (3, 15))
        self.assertEqual(found.today, Sums(2, 20, 6, 4, 10, 3))

    def test_a_day_without_its_rows(self) -> None:
        """What is no longer known is told apart from nothing."""
        totals = Totals()
        totals.count(Usage(), 1)
        totals.count(Usage(ts_ms=NOV_29 - DAY_MS), 1)
        totals.days[NOV_29 // DAY_MS - 1].keys = None
        yesterday, today = key_history(totals, ["k1"], NOV_29).days[-2:]
        self.assertIsNone(yesterday.sums)
        self.assertIsNotNone(today.sums)

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 50)), max_size=12))
    def test_the_last_day_of_each(self, uses: list[tuple[str, int]]) -> None:
        """It is the newest that is not to come yet."""
        totals = Totals()
        expected: dict[str, str] = {}
        for key, days_ago in sorted(uses, key=lambda use: -use[1]):
            totals.count(Usage(key_sha256=key, ts_ms=NOV_29 - days_ago * DAY_MS), 0)
            if days_ago >= 0:
                expected[key] = totals.days[NOV_29 // DAY_MS - days_ago].name
        self.assertEqual(last_days(totals, "abcd", NOV_29), expected)
