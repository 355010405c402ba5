"""Tests for omnigate.control.dashboard.usage_view."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.spans import Span, preset_span
from omnigate.control.dashboard.usage_asked import Asked
from omnigate.control.dashboard.usage_view import (
    MAX_BARS,
    MAX_GROUPS,
    bars_of,
    dearest,
    names_of,
    only_one,
    usage_line,
)
from omnigate.control.usage_report import UsageRow
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.tables import Row
from omnigate.ledger.totals import DAYS_KEPT, Sums
from omnigate.periods import utc_day

TODAY = date(2026, 11, 29)
NUMBER = (TODAY - date(1970, 1, 1)).days
ALL = preset_span("all", TODAY)


def costs(*nanos: int) -> tuple[Row, ...]:
    """The rows of groups that cost so much."""
    return tuple((1, 0, 0, 0, 0, nano) for nano in nanos)


def day(number: int, groups: tuple[int, ...], everything: int) -> DayRows:
    return DayRows(number, costs(*groups), costs(everything)[0])


def row(name: str | None, cost: int, key: str | None = None) -> UsageRow:
    return UsageRow(key, name, Sums(requests=1, cost_nano=cost))


class LineTests(SynchronousTestCase):
    """One row of the table."""

    def test_names_and_links(self) -> None:
        """Each kind of row leads to what it names, and to its requests in the same days."""
        span = Span("2026-11-01", None, "")
        gone = "ab" * 32
        for by, given_row, name, path, requests in (
            ("key", row("ab" * 32, 1, "app"), "app", "/keys/app", "since=2026-11-01&key=app"),
            ("key", row(gone, 1), "abababababab…", f"/keys/{gone}", f"since=2026-11-01&key={gone}"),
            (
                "model",
                row("a/b c", 1),
                "a/b c",
                "/models/one?model=a%2Fb+c",
                "since=2026-11-01&model=a%2Fb+c",
            ),
            (
                "upstream",
                row("openai", 1),
                "openai",
                "/models/upstream?name=openai",
                "since=2026-11-01&upstream=openai",
            ),
            ("upstream", row("gone", 1), "gone", "", "since=2026-11-01&upstream=gone"),
            ("model", row("gone", 1), "gone", "", "since=2026-11-01&model=gone"),
            ("upstream", row(None, 1), "(none answered)", "", ""),
            (
                "day",
                row("2026-11-02", 1),
                "2026-11-02",
                "/usage?since=2026-11-02&until=2026-11-02",
                "since=2026-11-02&until=2026-11-02",
            ),
        ):
            line = usage_line(Asked(by, span), given_row, Sums(cost_nano=4), {"openai", "a/b c"})
            self.assertEqual((line.name, line.path), (name, path))
            self.assertEqual(line.requests_path, f"/requests?{requests}" if requests else "")
            self.assertEqual(line.share, 0.25)

    def test_nothing_cost_anything(self) -> None:
        """No share of nothing."""
        self.assertEqual(usage_line(Asked("model", ALL), row("a", 0), Sums()).share, 0.0)

    def test_a_day_of_one_name(self) -> None:
        """Leads to the requests of that name."""
        line = usage_line(Asked("day", ALL, "model", "a b"), row("2026-11-02", 1), Sums())
        self.assertEqual(line.path, "")
        self.assertEqual(
            line.requests_path, "/requests?since=2026-11-02&until=2026-11-02&model=a+b"
        )


class GroupTests(SynchronousTestCase):
    """What a plot tells apart."""

    def test_the_dearest(self) -> None:
        """As many as there are colours, and only what cost something."""
        rows = [row(f"m{n}", 20 - n) for n in range(12)]
        self.assertEqual(dearest("model", rows), rows[:MAX_GROUPS])
        self.assertEqual(dearest("day", rows), [])
        self.assertEqual(dearest("model", [row("a", 1), row("b", 0)]), [row("a", 1)])

    def test_names_in_the_ledger(self) -> None:
        """All hashes of a key; one that is gone has its own alone."""
        rows = [row("h1", 3, "app"), row("h9", 1)]
        keys = {"h1": "app", "h2": "app", "h3": "other"}
        self.assertEqual(names_of("key", rows, keys), [["h1", "h2"], ["h9"]])
        self.assertEqual(names_of("upstream", [row(None, 1)], {}), [[None]])

    def test_days_of_one_name(self) -> None:
        """A plot has it alone."""
        days = only_one([day(NUMBER - 2, (3,), 9), day(NUMBER, (0,), 4)])
        self.assertEqual(bars_of(days, 0, ALL, TODAY).others, (3, 0, 0))


class BarTests(SynchronousTestCase):
    """The bars of a plot."""

    def test_days(self) -> None:
        """Every day of the span has a bar, from the first one with events on where it is open."""
        days = [day(NUMBER - 2, (1, 2), 10), day(NUMBER, (3, 0), 3)]
        bars = bars_of(days, 2, ALL, TODAY)
        self.assertEqual(bars.labels, ("2026-11-27", "2026-11-28", "2026-11-29"))
        self.assertEqual(bars.groups, ((1, 0, 3), (2, 0, 0)))
        self.assertEqual(bars.others, (7, 0, 0))
        self.assertFalse(bars.by_week)
        bars = bars_of(days, 2, preset_span("7d", TODAY), TODAY)
        self.assertEqual(len(bars.labels), 7)
        self.assertEqual(bars.others, (0, 0, 0, 0, 7, 0, 0))

    def test_nothing(self) -> None:
        """Today has a bar without anything."""
        bars = bars_of([], 0, ALL, TODAY)
        self.assertEqual((bars.labels, bars.groups, bars.others), (("2026-11-29",), (), (0,)))

    def test_weeks(self) -> None:
        """Beyond a quarter of a year a bar is a week, named by its Monday."""
        days = [day(NUMBER - 92, (5,), 7), day(NUMBER - 6, (1,), 1)]
        bars = bars_of(days, 1, ALL, TODAY)
        self.assertTrue(bars.by_week)
        # 2026-11-29 is a Sunday.
        self.assertEqual(bars.labels[-1], "2026-11-23")
        self.assertEqual((bars.groups[0][-1], bars.groups[0][0], bars.others[0]), (1, 5, 2))

    def test_days_that_nobody_kept(self) -> None:
        """A span without end, or of another age, has no more bars than the ledger has days."""
        for since, until in (
            ("0001-01-01", "9999-12-31"),
            ("0001-01-01", "1990-01-01"),
            ("9000-01-01", None),
        ):
            days = [day(NUMBER - 3, (), 1), day(NUMBER + 900, (), 1)]
            bars = bars_of(days, 0, Span(since, until, ""), TODAY)
            self.assertGreaterEqual(len(bars.labels), 1)
            self.assertLessEqual(len(bars.labels), MAX_BARS)

    @given(
        st.dictionaries(
            st.integers(NUMBER - DAYS_KEPT + 1, NUMBER),
            st.tuples(st.integers(0, 9), st.integers(0, 9)),
            max_size=30,
        ),
        st.sampled_from(("today", "7d", "30d", "90d", "all")),
    )
    def test_all_that_is_in_the_span(self, costs: dict[int, tuple[int, int]], name: str) -> None:
        """Counts once, and nothing else does."""
        span = preset_span(name, TODAY)
        days = [day(number, (cost,), cost + rest) for number, (cost, rest) in sorted(costs.items())]
        bars = bars_of(days, 1, span, TODAY)
        inside = [
            costs[number]
            for number in costs
            if span.since is None or span.since <= utc_day(number * 86_400_000)
        ]
        self.assertEqual(sum(bars.groups[0]), sum(cost for cost, _ in inside))
        self.assertEqual(sum(bars.others), sum(rest for _, rest in inside))
        self.assertEqual(len(set(bars.labels)), len(bars.others))
        self.assertLessEqual(len(bars.labels), MAX_BARS)
