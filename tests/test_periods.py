"""Days and months of UTC."""

import datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import MAX_TS_MS
from omnigate.periods import DAY_MS, PERIODS, next_turn, rfc3339, utc_day, utc_month


def ms(text: str) -> int:
    """Return the milliseconds of an instant written as ISO 8601, in UTC."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)


class PeriodTests(SynchronousTestCase):
    def test_a_day_ends_at_midnight_of_utc(self) -> None:
        """The last millisecond belongs to the day, the next one to tomorrow."""
        midnight = ms("2026-11-30")
        self.assertEqual(utc_day(midnight - 1), "2026-11-29")
        self.assertEqual(utc_day(midnight), "2026-11-30")
        self.assertEqual(utc_day(0), "1970-01-01")

    def test_a_month_ends_with_its_last_day(self) -> None:
        """Months are named by year and month."""
        turn = ms("2026-12-01")
        self.assertEqual(utc_month(turn - 1), "2026-11")
        self.assertEqual(utc_month(turn), "2026-12")

    def test_turns(self) -> None:
        """A day turns at midnight, a month on the first, a total never."""
        now = ms("2027-12-31T23:59:59")
        self.assertEqual(next_turn("daily", now), ms("2028-01-01"))
        self.assertEqual(next_turn("monthly", now), ms("2028-01-01"))
        self.assertEqual(next_turn("monthly", ms("2028-02-29")), ms("2028-03-01"))
        self.assertEqual(next_turn("monthly", ms("2028-01-31T10:00:00")), ms("2028-02-01"))
        self.assertIsNone(next_turn("total", now))

    def test_an_instant_at_a_turn_belongs_to_the_new_period(self) -> None:
        """At the turn itself the next turn is a whole period away."""
        turn = ms("2026-12-01")
        self.assertEqual(next_turn("daily", turn), turn + DAY_MS)
        self.assertEqual(next_turn("monthly", turn), ms("2027-01-01"))

    def test_other_periods_are_refused(self) -> None:
        """A misspelt period is named, with those that there are."""
        error = self.assertRaises(ValueError, next_turn, "weekly", 0)
        self.assertIn("'weekly'; there are daily, monthly, total", str(error))

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, MAX_TS_MS - 40 * DAY_MS), st.sampled_from(PERIODS))
    def test_the_name_changes_exactly_at_the_turn(self, now: int, period: str) -> None:
        """Up to the turn the name stays, at the turn it is another."""
        turn = next_turn(period, now)
        if turn is None:
            return
        self.assertTrue(turn > now)
        name = utc_day if period == "daily" else utc_month
        self.assertEqual(name(turn - 1), name(now))
        self.assertNotEqual(name(turn), name(now))


class Rfc3339Tests(SynchronousTestCase):
    def test_instants_are_written_in_utc(self) -> None:
        """Milliseconds and Z, always."""
        self.assertEqual(rfc3339(0), "1970-01-01T00:00:00.000Z")
        self.assertEqual(rfc3339(ms("2026-11-29T08:05:00") + 250), "2026-11-29T08:05:00.250Z")
        self.assertEqual(rfc3339(MAX_TS_MS), "9999-12-31T23:59:59.999Z")

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, MAX_TS_MS))
    def test_what_is_written_reads_back(self, now: int) -> None:
        """The standard library reads the same instant."""
        moment = datetime.datetime.fromisoformat(rfc3339(now))
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        self.assertEqual((moment - epoch) // datetime.timedelta(milliseconds=1), now)
