"""Rows of usage in their order; how they are written is tested over HTTP (test_admin_api)."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import usage_report
from omnigate.control.usage_report import UsageReport, days_of_one
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.tables import NOTHING
from omnigate.ledger.totals import NamedSums, Sums


class OrderTests(SynchronousTestCase):
    """What stands where."""

    def setUp(self) -> None:
        self.pauses = 0
        self.report = UsageReport("key", self.pause)

    async def pause(self) -> None:
        self.pauses += 1

    def take(self, costs: dict[str, int], names: dict[str, str]) -> None:
        sums = [NamedSums(name, Sums(1, cost_nano=cost)) for name, cost in sorted(costs.items())]
        self.successResultOf(Deferred.fromCoroutine(self.report.take(sums, names)))

    def order(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.report.order_by_cost()))

    def names(self) -> list[tuple[str | None, str | None, int]]:
        return [(row.key, row.name, row.sums.cost_nano) for row in self.report.rows]

    def test_hashes_of_one_key_are_one_row(self) -> None:
        """Keys by name, then those that are gone; the dearest first where that is asked for."""
        self.take({"h1": 1, "h2": 20, "h3": 300, "h4": 20}, {"h1": "b", "h3": "b", "h2": "a"})
        self.assertEqual(self.names(), [("a", "h2", 20), ("b", "h1", 301), (None, "h4", 20)])
        self.order()
        self.assertEqual(self.names(), [("b", "h1", 301), ("a", "h2", 20), (None, "h4", 20)])
        total = self.successResultOf(Deferred.fromCoroutine(self.report.total()))
        self.assertEqual((total.requests, total.cost_nano), (4, 341))

    def test_many_rows_are_put_in_order_in_steps(self) -> None:
        """In runs that are merged, with pauses, to the same order."""
        costs = {f"h{n:03}": n * 37 % 101 for n in range(100)}
        self.take(costs, {})
        self.order()
        whole = self.names()
        self.assertEqual([cost for _, _, cost in whole], sorted(costs.values(), reverse=True))
        self.patch(usage_report, "ROWS_AT_ONCE", 7)
        self.take(costs, {})
        before = self.pauses
        self.order()
        self.assertEqual(self.names(), whole)
        self.assertGreaterEqual(self.pauses - before, 2 * 14)

    def test_no_rows(self) -> None:
        """Stay none."""
        self.order()
        self.assertEqual(self.names(), [])


class DaysTests(SynchronousTestCase):
    """The days of one name."""

    def test_days_without_it(self) -> None:
        """Are no rows; a day on which it cost nothing is one."""
        nothing, free, paid = NOTHING, (1, 5, 0, 0, 0, 0), (2, 5, 0, 0, 1, 7)
        days = [DayRows(n, (row,), paid) for n, row in ((0, free), (1, nothing), (2, paid))]
        self.assertEqual(
            [(row.name, row.sums.requests, row.sums.cost_nano) for row in days_of_one(days)],
            [("1970-01-01", 1, 0), ("1970-01-03", 2, 7)],
        )
