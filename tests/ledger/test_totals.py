"""Tests for omnigate.ledger.totals."""

import gc
from collections.abc import Generator

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger import totals as totals_module
from omnigate.ledger.tables import QUARTER_MS
from omnigate.ledger.totals import DAYS_KEPT, OTHER, NamedSums, Sums, Totals
from omnigate.periods import DAY_MS, PERIODS, bounds
from tests.ledger.zones import ODD_ZONES, PLACES

#: 2026-11-29 00:00:00 UTC.
NOV_29 = 1_795_910_400_000


@attrs.define
class Usage:
    """The least that can be counted."""

    key_sha256: str = "k1"
    route_model: str = "fast"
    upstream: str | None = "openai"
    input_tokens: int = 10
    cached_input_tokens: int = 3
    cache_write_input_tokens: int = 2
    output_tokens: int = 5
    ts_ms: int = NOV_29


def sums_of(rows: list[NamedSums]) -> dict[str | None, int]:
    return {row.name: row.sums.cost_nano for row in rows}


def result_of(steps: Generator[None, None, list[NamedSums]]) -> list[NamedSums]:
    """Take every step; what comes out in the end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[NamedSums] = end.value
            return found


class SpendTests(SynchronousTestCase):
    """What a budget is compared with."""

    def test_nothing_is_spent_by_a_key_nobody_used(self) -> None:
        """A key without events has spent nothing in any period."""
        totals = Totals()
        for period in ("daily", "weekly", "monthly", "total"):
            self.assertEqual(totals.spend_nano(["k1"], period, NOV_29), 0)

    def test_the_events_own_time_decides(self) -> None:
        """An event of last month that comes today is last month's spend."""
        totals = Totals()
        totals.count(Usage(ts_ms=NOV_29), 7)
        totals.count(Usage(ts_ms=NOV_29 - 30 * DAY_MS), 100)
        self.assertEqual(totals.spend_nano(["k1"], "daily", NOV_29 + DAY_MS - 1), 7)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29), 7)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29 - 30 * DAY_MS), 100)
        self.assertEqual(totals.spend_nano(["k1"], "total", NOV_29), 107)

    def test_a_week_begins_on_monday(self) -> None:
        """The spend of a week is that of its days until Sunday, 2026-11-29."""
        totals = Totals()
        for days in range(-8, 2):
            totals.count(Usage(ts_ms=NOV_29 + days * DAY_MS), 10 ** (days + 8))
        self.assertEqual(totals.spend_nano(["k1"], "weekly", NOV_29), 111_111_100)
        self.assertEqual(totals.spend_nano(["k1", "k2"], "weekly", NOV_29 + DAY_MS), 10**9)

    def test_a_day_ends_with_its_last_millisecond(self) -> None:
        """The next period starts from nothing, at midnight UTC."""
        totals = Totals()
        totals.count(Usage(ts_ms=NOV_29 + DAY_MS - 1), 7)
        self.assertEqual(totals.spend_nano(["k1"], "daily", NOV_29 + DAY_MS), 0)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29 + 2 * DAY_MS), 0)

    def test_the_hashes_of_a_rotated_key_are_added_up(self) -> None:
        """A rotated key has several hashes and one spend; a hash named twice counts once."""
        totals = Totals()
        totals.count(Usage(key_sha256="old"), 5)
        totals.count(Usage(key_sha256="new"), 6)
        totals.count(Usage(key_sha256="other"), 1000)
        self.assertEqual(totals.spend_nano(["old", "new", "new"], "monthly", NOV_29), 11)
        self.assertEqual(totals.lifetime(["old", "new"]).requests, 2)

    def test_an_unknown_period_is_refused(self) -> None:
        """A period that is none is an error, never a spend of nothing."""
        error = self.assertRaises(ValueError, Totals().spend_nano, ["k1"], "hourly", NOV_29)
        self.assertIn("hourly", str(error))


#: What happens to the books: a number of hours pass, or an event comes, of an age in quarters of
#: an hour and of a cost. Some events are dated ahead.
STEPS = st.lists(
    st.tuples(st.just("pass"), st.integers(0, 40 * 24), st.just(0))
    | st.tuples(st.just("event"), st.integers(-2 * 96, 40 * 96), st.integers(0, 10**19)),
    max_size=25,
)
ZONES = st.sampled_from(ODD_ZONES) | st.sampled_from(PLACES)


class ZoneTests(SynchronousTestCase):
    """The spend of periods that begin at some place's midnight."""

    @settings(max_examples=400, deadline=None)
    @given(
        st.integers(315_532_800_000, 2_145_916_800_000),
        STEPS,
        st.lists(ZONES, min_size=1, max_size=4),
        st.booleans(),
    )
    def test_any_period_in_progress_is_exact(
        self, now: int, steps: list[tuple[str, int, int]], zones: list[str], told: bool
    ) -> None:
        """It is the sum of the events from its start until before its end, however late."""
        totals = Totals()
        totals.drop_before(now)
        events: list[tuple[int, int]] = []
        for what, amount, cost in steps:
            if what == "pass":
                now += amount * 3_600_000
                totals.drop_before(now)
            else:
                ts_ms = max(0, now - amount * QUARTER_MS + cost % 7 - 3)
                events.append((ts_ms, cost))
                totals.count(Usage(ts_ms=ts_ms), cost)
            self.assert_spend(totals, events, now, zones[0])
        if not told:
            now += 3 * DAY_MS
        for zone in [*zones, "UTC"]:
            self.assert_spend(totals, events, now, zone)

    def assert_spend(
        self, totals: Totals, events: list[tuple[int, int]], now: int, zone: str
    ) -> None:
        """Hold the spend in each period against the sum of the events within its bounds."""
        for period in PERIODS:
            start, end = bounds(period, now, zone)
            exact = sum(cost for ts_ms, cost in events if start <= ts_ms < end)
            self.assertEqual(totals.spend_nano(["k1"], period, now, zone), exact, (zone, period))

    def test_both_edges_of_each_period_count_right(self) -> None:
        """The last millisecond before a period and its own first and last, in odd zones."""
        for zone in (*ODD_ZONES, "UTC"):
            for period in ("daily", "weekly", "monthly"):
                for days in range(0, 400, 5):
                    now = NOV_29 - days * DAY_MS
                    start, end = bounds(period, now, zone)
                    totals = Totals()
                    totals.drop_before(now)
                    for cost, ts_ms in ((1, start - 1), (10, start), (100, end - 1), (1000, end)):
                        totals.count(Usage(ts_ms=ts_ms), cost)
                    spent = totals.spend_nano(["k1"], period, now, zone)
                    self.assertEqual(spent, 110, (zone, period, now))

    def test_the_hashes_of_a_key_are_added_up_in_any_zone(self) -> None:
        """As in UTC."""
        totals = Totals()
        for key in ("old", "new", "other"):
            totals.count(Usage(key_sha256=key, ts_ms=NOV_29 + 1), 5)
        for period in PERIODS:
            spent = totals.spend_nano(["old", "new", "new"], period, NOV_29, "Asia/Kathmandu")
            self.assertEqual(spent, 10)

    def test_a_day_whose_quarters_are_gone_counts_on_the_side_of_its_noon(self) -> None:
        """A period that is over is told by whole days of UTC: none counts twice, none is lost."""
        totals = Totals()
        first = NOV_29 - 5 * DAY_MS
        for hour in range(48):
            totals.count(Usage(ts_ms=first + hour * 3_600_000), 1)
        totals.drop_before(NOV_29 + 20 * DAY_MS)
        for zone in ("America/New_York", "Pacific/Kiritimati", "Europe/Stockholm"):
            spent = [
                totals.spend_nano(["k1"], "daily", first + days * DAY_MS, zone)
                for days in range(-2, 4)
            ]
            self.assertEqual(sorted(spent), [0, 0, 0, 0, 24, 24], zone)

    def test_an_unknown_zone_is_refused(self) -> None:
        """It is never taken for UTC."""
        for period in ("daily", "weekly", "monthly"):
            error = self.assertRaises(
                ValueError, Totals().spend_nano, ["k1"], period, NOV_29, "Mars/Olympus"
            )
            self.assertIn("tzdata", str(error))


class GroupingTests(SynchronousTestCase):
    """The rows of an answer."""

    def books(self) -> Totals:
        totals = Totals()
        totals.count(Usage(), 1)
        totals.count(Usage(key_sha256="k2", route_model="slow", ts_ms=NOV_29 + DAY_MS), 10)
        totals.count(Usage(upstream=None, ts_ms=NOV_29 + 2 * DAY_MS), 0)
        return totals

    def test_each_grouping_sums_to_the_same(self) -> None:
        """Whatever the rows are grouped by, they add up to all events."""
        totals = self.books()
        self.assertEqual(sums_of(totals.grouped("key")), {"k1": 1, "k2": 10})
        self.assertEqual(sums_of(totals.grouped("model")), {"fast": 1, "slow": 10})
        self.assertEqual(sums_of(totals.grouped("upstream")), {None: 0, "openai": 11})
        self.assertEqual(
            sums_of(totals.grouped("day")), {"2026-11-29": 1, "2026-11-30": 10, "2026-12-01": 0}
        )

    def test_tokens_and_requests_are_summed(self) -> None:
        """A row holds the number of requests and the four token counts."""
        totals = self.books()
        row = totals.grouped("upstream")[1].sums
        self.assertEqual(row, Sums(2, 20, 6, 4, 10, 11))

    def test_since_and_until_are_both_counted(self) -> None:
        """Both days named are part of the answer."""
        totals = self.books()
        self.assertEqual(
            sums_of(totals.grouped("day", "2026-11-30", "2026-12-01")),
            {"2026-11-30": 10, "2026-12-01": 0},
        )
        self.assertEqual(sums_of(totals.grouped("key", until="2026-11-29")), {"k1": 1})
        self.assertEqual(totals.grouped("key", "2027-01-01"), [])

    def test_an_answer_does_not_change_afterwards(self) -> None:
        """What was answered is a copy."""
        totals = self.books()
        before = totals.grouped("key")
        totals.count(Usage(), 1)
        self.assertEqual(before[0].sums.cost_nano, 1)

    def test_a_grouping_may_be_found_in_steps(self) -> None:
        """One day a step; what is counted meanwhile is told whole or not at all."""
        totals = self.books()
        for by in ("key", "model", "upstream", "day"):
            steps = totals.gather(by, "2026-01-01")
            self.assertEqual(result_of(steps), totals.grouped(by, "2026-01-01"))
        steps = totals.gather("key", "2026-01-01")
        next(steps)
        totals.count(Usage(key_sha256="k3"), 100)
        totals.count(Usage(key_sha256="k3", ts_ms=NOV_29 + 2 * DAY_MS), 1000)
        totals.count(Usage(key_sha256="k3", ts_ms=NOV_29 + 9 * DAY_MS), 10_000)
        totals.drop_before(NOV_29 + 900 * DAY_MS)
        self.assertEqual(sums_of(result_of(steps)), {"k1": 1, "k2": 10, "k3": 1000})

    def test_a_grouping_of_many_names(self) -> None:
        """Rows are put in order a few at a time, the nameless first."""
        for names in ([], [None], ["a"], [None, "b", "a"], ["x3", None, "x1", "x2", "x9"]):
            for rows, run in ((1, 1), (2, 1), (1, 2), (3, 4), (1000, 5000)):
                self.patch(totals_module, "ROWS_AT_ONCE", rows)
                self.patch(totals_module, "SORTED_AT_ONCE", run)
                totals = Totals()
                for name in names:
                    totals.count(Usage(upstream=name), 1)
                steps = totals.gather("upstream")
                taken = sum(1 for _ in steps)
                # One for the day, one for each run and for each slice of rows.
                named = len([name for name in names if name is not None])
                self.assertEqual(taken, bool(names) + -(-named // run) + -(-named // rows))
                self.assertEqual(
                    [row.name for row in result_of(totals.gather("upstream"))],
                    sorted(names, key=lambda name: (name is not None, name or "")),
                )

    def test_bad_questions_are_refused(self) -> None:
        """A wrong grouping or day says what it should be."""
        totals = self.books()
        error = self.assertRaises(ValueError, totals.grouped, "colour")
        self.assertIn("colour", str(error))
        for bad in ("20261129", "2026-W48-7", "2026-13-01", "today", ""):
            error = self.assertRaises(ValueError, totals.grouped, "key", bad)
            self.assertIn("YYYY-MM-DD", str(error))


class BoundTests(SynchronousTestCase):
    """What bounds the tables."""

    def test_days_and_months_long_past_are_dropped(self) -> None:
        """Rows of old days and months go, the lifetime stays."""
        totals = Totals()
        totals.count(Usage(), 5)
        totals.drop_before(NOV_29 + (DAYS_KEPT - 1) * DAY_MS)
        self.assertEqual(sums_of(totals.grouped("day")), {"2026-11-29": 5})
        totals.drop_before(NOV_29 + DAYS_KEPT * DAY_MS)
        self.assertEqual(totals.grouped("day"), [])
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29), 5)
        totals.drop_before(NOV_29 + 62 * 31 * DAY_MS)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29), 0)
        self.assertEqual(totals.spend_nano(["k1"], "total", NOV_29), 5)
        self.assertEqual(sums_of(totals.grouped("key")), {"k1": 5})

    def test_a_late_event_of_a_dropped_month_finds_its_row_again(self) -> None:
        """After a month was dropped, an event of it is counted as well as any."""
        totals = Totals()
        totals.count(Usage(), 5)
        totals.drop_before(NOV_29 + 62 * 31 * DAY_MS)
        totals.count(Usage(), 6)
        self.assertEqual(totals.spend_nano(["k1"], "total", NOV_29), 11)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29), 6)

    def test_rows_by_key_beyond_the_bound_leave_the_oldest_days(self) -> None:
        """Days, months and lifetimes stay; by_key_since tells from where keys are told by day."""
        self.patch(totals_module, "KEY_DAY_ROWS", 60)
        totals = Totals()
        totals.drop_before(NOV_29)
        self.assertIsNone(totals.by_key_since)
        for days in range(-60, 1):
            for key in ("k1", "k2"):
                totals.count(Usage(key_sha256=key, ts_ms=NOV_29 + days * DAY_MS), 1)
        self.assertTrue(totals.key_day_rows <= 60)
        self.assertEqual(totals.by_key_since, "2026-10-31")
        self.assertEqual(len(totals.grouped("day")), 61)
        self.assertEqual(sums_of(totals.grouped("key")), {"k1": 61, "k2": 61})
        self.assertEqual(sums_of(totals.grouped("key", "2026-10-01")), {"k1": 30, "k2": 30})
        self.assertEqual(sums_of(totals.grouped("key", "2026-10-31")), {"k1": 30, "k2": 30})
        # An event that comes late for such a day makes no row that would look whole.
        totals.count(Usage(ts_ms=NOV_29 - 50 * DAY_MS), 5)
        self.assertEqual(totals.by_key_since, "2026-10-31")
        self.assertEqual(sums_of(totals.grouped("key", "2026-10-01")), {"k1": 30, "k2": 30})
        self.assertEqual(
            totals.grouped("day")[10], NamedSums("2026-10-10", Sums(3, 30, 9, 6, 15, 7))
        )
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29 - 50 * DAY_MS), 36)
        self.assertEqual(totals.spend_nano(["k1"], "total", NOV_29), 66)

    def test_no_bound_takes_what_a_period_in_progress_needs(self) -> None:
        """However many keys there are, current periods are told in full."""
        self.patch(totals_module, "KEY_DAY_ROWS", 3)
        self.patch(totals_module, "KEY_MONTH_ROWS", 3)
        totals = Totals()
        totals.drop_before(NOV_29)
        for days in range(-70, 1):
            for number in range(5):
                totals.count(Usage(key_sha256=f"k{number}", ts_ms=NOV_29 + days * DAY_MS), 1)
        for zone in (*ODD_ZONES, "UTC"):
            for period in ("daily", "weekly", "monthly"):
                start, end = bounds(period, NOV_29, zone)
                exact = sum(start <= NOV_29 + days * DAY_MS < end for days in range(-70, 1))
                self.assertEqual(totals.spend_nano(["k3"], period, NOV_29, zone), exact)

    def test_rows_of_months_beyond_the_bound_leave_the_oldest_months(self) -> None:
        """The lifetime stays, and the month in progress; the count of rows is right."""
        self.patch(totals_module, "KEY_MONTH_ROWS", 5)
        totals = Totals()
        totals.drop_before(NOV_29)
        for days in range(-300, 1, 10):
            for key in ("k1", "k2"):
                totals.count(Usage(key_sha256=key, ts_ms=NOV_29 + days * DAY_MS), 1)
        self.assertTrue(totals.key_month_rows <= 5)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29), 3)
        self.assertEqual(totals.spend_nano(["k1"], "monthly", NOV_29 - 200 * DAY_MS), 0)
        self.assertEqual(totals.spend_nano(["k1"], "total", NOV_29), 31)
        rows = sum(len(month.keys) for month in totals.months.values())
        self.assertEqual(rows, totals.key_month_rows)

    def test_days_that_nobody_can_mean_are_bounded(self) -> None:
        """Events dated all over the future make no more tables, and lose no lifetime."""
        self.patch(totals_module, "DAYS_HELD", 50)
        totals = Totals()
        totals.drop_before(NOV_29)
        for days in range(100, 300):
            totals.count(Usage(ts_ms=NOV_29 + days * DAY_MS), 1)
        totals.count(Usage(ts_ms=NOV_29), 5)
        self.assertEqual(len(totals.days), 51)
        self.assertEqual(totals.spend_nano(["k1"], "total", NOV_29), 205)
        self.assertEqual(totals.spend_nano(["k1"], "daily", NOV_29), 5)
        self.assertEqual(totals.events, 201)

    def test_a_replay_of_many_years_ends_with_the_last_ones(self) -> None:
        """Told the time before, the books keep what they would keep in the end, and no more."""
        self.patch(totals_module, "DAYS_HELD", 450)
        replayed, lived = Totals(), Totals()
        replayed.drop_before(NOV_29)
        most = 0
        for days in range(-2000, 1):
            for hour in (0, 13):
                usage = Usage(ts_ms=NOV_29 + days * DAY_MS + hour * 3_600_000)
                replayed.count(usage, 1)
                if hour == 0:
                    lived.drop_before(usage.ts_ms)
                lived.count(usage, 1)
            most = max(most, len(replayed.days))
        self.assertEqual(most, DAYS_KEPT)
        self.assertFalse(replayed == lived)
        replayed.drop_before(NOV_29)
        self.assertTrue(replayed == lived)
        kept = [day.name[5:] for day in replayed.days.values() if day.quarters is not None]
        self.assertEqual(kept, ["10-31", "11-01", "11-22", "11-23", "11-27", "11-28", "11-29"])

    def test_rows_are_let_go_by_the_collector(self) -> None:
        """However many there are, a collection of garbage does not go through them."""
        totals = Totals()
        for number in range(5):
            for key in ("k1", "k2"):
                totals.count(Usage(key_sha256=key, ts_ms=NOV_29 + number * DAY_MS), 2**40)
        gc.collect()
        day = totals.days[NOV_29 // DAY_MS]
        assert day.keys is not None
        tables = (totals.lifetimes, day.month.keys, day.keys, day.models, day.upstreams)
        rows = [row for table in tables for row in table.values()]
        self.assertEqual(len(rows), 8)
        self.assertFalse(any(map(gc.is_tracked, rows)))

    def test_a_cost_beyond_64_bits_is_kept_exactly(self) -> None:
        """Whole numbers have no end."""
        totals = Totals()
        for _ in range(3):
            totals.count(Usage(), 2**63)
        self.assertEqual(totals.spend_nano(["k1"], "daily", NOV_29, "Asia/Kathmandu"), 3 * 2**63)

    def test_names_beyond_the_bound_are_summed_as_one(self) -> None:
        """A flood of model names makes no more rows, and loses no sum."""
        self.patch(totals_module, "NAMES_PER_DAY", 2)
        totals = Totals()
        for name in ("a", "b", "c", "d", "a"):
            totals.count(Usage(route_model=name), 1)
        self.assertEqual(sums_of(totals.grouped("model")), {"a": 2, "b": 1, OTHER: 2})

    def test_names_of_any_length_take_bounded_room(self) -> None:
        """One that no config file can have is summed with the others that are too many."""
        totals = Totals()
        for length in (0, 1, 255, 256, 257, 1000, 60_000):
            totals.count(Usage(route_model="m" * length, upstream="u" * length), 1)
        for grouping in ("model", "upstream"):
            sums = sums_of(totals.grouped(grouping))
            self.assertEqual(sorted(len(name or "") for name in sums), [0, 1, 7, 255, 256])
            self.assertEqual(sums[OTHER], 3)


USAGES = st.builds(
    Usage,
    key_sha256=st.sampled_from(["k1", "k2", "k3"]),
    route_model=st.sampled_from(["fast", "slow"]),
    upstream=st.sampled_from(["openai", "local", None]),
    input_tokens=st.integers(0, 10**12),
    ts_ms=st.integers(NOV_29 - 40 * DAY_MS, NOV_29 + DAY_MS),
)


class SumTests(SynchronousTestCase):
    """The books against a plain list of events."""

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(USAGES, st.integers(0, 10**15)), max_size=30))
    def test_sums_are_exact(self, events: list[tuple[Usage, int]]) -> None:
        """Every sum is what adding the events up by hand gives, in whatever order they came."""
        totals, reverse = Totals(), Totals()
        for usage, cost in events:
            totals.count(usage, cost)
        for usage, cost in reversed(events):
            reverse.count(usage, cost)
        self.assertTrue(totals == reverse)
        for key in ("k1", "k2", "k3"):
            mine = [(u, c) for u, c in events if u.key_sha256 == key]
            self.assertEqual(
                totals.spend_nano([key], "total", NOV_29), sum(cost for _, cost in mine)
            )
            today = sum(c for u, c in mine if NOV_29 <= u.ts_ms < NOV_29 + DAY_MS)
            self.assertEqual(totals.spend_nano([key], "daily", NOV_29), today)
        for by in ("key", "model", "upstream", "day"):
            rows = totals.grouped(by)
            self.assertEqual(sum(row.sums.requests for row in rows), len(events))
            self.assertEqual(
                sum(row.sums.input_tokens for row in rows), sum(u.input_tokens for u, _ in events)
            )
