"""Tests for omnigate.ledger.kept_days."""

import datetime
from zoneinfo import available_timezones

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.kept_days import KeptDays
from omnigate.periods import DAILY, DAY_MS, MONTHLY, WEEKLY, bounds, time_zone, utc_month
from tests.ledger.zones import ODD_ZONES, PLACES

#: 1980-01-01 and 2038-01-01 00:00:00 UTC.
FROM, UNTIL = 315_532_800_000, 2_145_916_800_000


class KeptDaysTests(SynchronousTestCase):
    """That the days kept are those that are needed, whatever the zone."""

    def test_no_zone_is_further_from_utc_than_is_assumed(self) -> None:
        """The clocks of every zone, twice a year."""
        for name in PLACES:
            zone = time_zone(name)
            for year in range(1980, 2038):
                for month in (1, 7):
                    moment = datetime.datetime(year, month, 1, tzinfo=zone)
                    offset = moment.utcoffset()
                    assert offset is not None
                    hours = offset / datetime.timedelta(hours=1)
                    self.assertTrue(-12 <= hours <= 14, f"{name} {year}: {hours}")
                    self.assertEqual(hours * 4, int(hours * 4), name)

    def test_there_are_places(self) -> None:
        """The machine has its zone files, so the tests over them are not empty."""
        self.assertTrue(len(PLACES) > 400)
        self.assertTrue(set(ODD_ZONES) <= available_timezones())

    @settings(max_examples=1000, deadline=None)
    @given(
        st.integers(FROM, UNTIL),
        st.sampled_from((DAILY, WEEKLY, MONTHLY)),
        st.sampled_from(ODD_ZONES) | st.sampled_from(PLACES),
    )
    def test_every_period_in_progress_begins_in_a_kept_day(
        self, now: int, period: str, zone: str
    ) -> None:
        """And ends in one; what lies between has its rows."""
        kept = KeptDays.at(now)
        start, end = bounds(period, now, zone)
        for edge in (start, end):
            self.assertEqual(edge % 900_000, 0)
            self.assertTrue(kept.needs_quarters(edge // DAY_MS))
            self.assertTrue(kept.needs_keys(edge // DAY_MS))
        if period == MONTHLY:
            self.assertTrue(kept.needs_month(utc_month((start + end) // 2)))
        else:
            for number in range(start // DAY_MS, end // DAY_MS):
                self.assertTrue(kept.needs_keys(number))

    @settings(max_examples=300, deadline=None)
    @given(st.integers(FROM, UNTIL), st.integers(0, 70), st.integers(-70, 5))
    def test_a_needed_day_was_needed_ever_since(self, now: int, days: int, ago: int) -> None:
        """So its quarters were never dropped on an earlier day."""
        later = now + days * DAY_MS
        number = later // DAY_MS + ago
        for needs in (KeptDays.needs_quarters, KeptDays.needs_keys):
            if needs(KeptDays.at(later), number) and number <= now // DAY_MS + 33:
                self.assertTrue(needs(KeptDays.at(now), number))

    def test_few_days_are_kept(self) -> None:
        """What the quarters cost is bounded: at most ten days of the past."""
        for day in range(FROM // DAY_MS, FROM // DAY_MS + 1500):
            kept = KeptDays.at(day * DAY_MS)
            past = [number for number in range(day - 100, day + 1) if kept.needs_quarters(number)]
            self.assertTrue(len(past) <= 10, past)

    def test_all_is_needed_until_the_time_is_known(self) -> None:
        """Before it was told the time, nothing is let go."""
        kept = KeptDays(None)
        self.assertTrue(kept.needs_quarters(0))
        self.assertTrue(kept.needs_keys(0))
        self.assertTrue(kept.needs_month("1970-01"))
