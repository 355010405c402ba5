"""Tests for omnigate.ledger.day_rows, through the books that it reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.tables import COST, Row
from omnigate.ledger.totals import DAYS_KEPT, Totals
from omnigate.periods import DAY_MS
from tests.ledger.test_totals import NOV_29, Usage

DAY = NOV_29 // DAY_MS


def found(
    totals: Totals,
    by: str,
    groups: Sequence[Collection[str | None]],
    since: str | None = None,
    until: str | None = None,
) -> list[DayRows]:
    steps = totals.rows_by_day(by, groups, since, until)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            rows: list[DayRows] = end.value
            return rows


def row(requests: int, cost: int) -> Row:
    """The row of so many events, all of which have the same tokens."""
    return requests, 10 * requests, 3 * requests, 2 * requests, 5 * requests, cost


class DaysTests(SynchronousTestCase):
    """What a plot of the days shows, and a table of them."""

    def setUp(self) -> None:
        self.totals = totals = Totals()
        totals.count(Usage(key_sha256="k1", route_model="fast"), 1)
        totals.count(Usage(key_sha256="k2", route_model="slow", upstream=None), 10)
        totals.count(Usage(key_sha256="k1", ts_ms=NOV_29 + DAY_MS), 100)
        totals.count(Usage(key_sha256="k3", ts_ms=NOV_29 - DAY_MS), 1000)

    def test_groups_and_everything(self) -> None:
        """Each day with events is told, in order, with its groups and the sum of all."""
        self.assertEqual(
            found(self.totals, "key", [["k1"], ["k2", "k3"], []]),
            [
                DayRows(DAY - 1, (row(0, 0), row(1, 1000), row(0, 0)), row(1, 1000)),
                DayRows(DAY, (row(1, 1), row(1, 10), row(0, 0)), row(2, 11)),
                DayRows(DAY + 1, (row(1, 100), row(0, 0), row(0, 0)), row(1, 100)),
            ],
        )
        self.assertEqual(
            found(self.totals, "upstream", [[None], ["openai"]], "2026-11-29", "2026-11-29"),
            [DayRows(DAY, (row(1, 10), row(1, 1)), row(2, 11))],
        )
        self.assertEqual(found(self.totals, "model", [["slow"]], "2026-12-01"), [])
        self.assertEqual(
            [day.everything[COST] for day in found(self.totals, "day", [])], [1000, 11, 100]
        )

    def test_days_without_rows_by_key(self) -> None:
        """Their keys are not known any more, and the sum of all is."""
        self.totals.days[DAY].keys = None
        self.assertEqual(
            found(self.totals, "key", [["k1"]], "2026-11-29"),
            [
                DayRows(DAY, (row(0, 0),), row(2, 11)),
                DayRows(DAY + 1, (row(1, 100),), row(1, 100)),
            ],
        )

    def test_days_that_are_dropped_on_the_way(self) -> None:
        """What was asked for is answered."""
        steps = self.totals.rows_by_day("key", [["k1"]])
        next(steps)
        self.totals.drop_before(NOV_29 + (DAYS_KEPT + 9) * DAY_MS)
        self.assertEqual(self.totals.days, {})
        self.assertEqual(sum(1 for _ in steps), 2)

    def test_bad_questions_are_refused(self) -> None:
        """As those for sums are."""
        self.assertRaises(ValueError, self.totals.rows_by_day, "colour", [])
        self.assertRaises(ValueError, self.totals.rows_by_day, "key", [], "today")

    @given(
        st.lists(
            st.tuples(st.sampled_from("abcd"), st.integers(0, 40), st.integers(0, 10**12)),
            max_size=40,
        )
    )
    def test_they_are_the_sums_of_the_books(self, events: list[tuple[str, int, int]]) -> None:
        """Over all days, each group comes to what the books tell of its names."""
        totals = Totals()
        for key, day, cost_nano in events:
            totals.count(Usage(key_sha256=key, ts_ms=NOV_29 + day * DAY_MS), cost_nano)
        days = found(totals, "key", ["ab", "c"])
        sums = {row.name: row.sums.cost_nano for row in totals.grouped("key", "2026-01-01")}
        self.assertEqual(
            [sum(day.groups[n][COST] for day in days) for n in (0, 1)],
            [sums.get("a", 0) + sums.get("b", 0), sums.get("c", 0)],
        )
        self.assertEqual(sum(day.everything[COST] for day in days), sum(sums.values()))
