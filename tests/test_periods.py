"""Days, weeks and months, of UTC and by the clocks of a place."""

import datetime
import os
import zoneinfo

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import periods
from omnigate.events import MAX_TS_MS
from omnigate.periods import (
    DAY_MS,
    END_MS,
    PERIODS,
    UnknownZoneError,
    bounds,
    next_turn,
    rfc3339,
    time_zone,
    utc_day,
    utc_month,
)
from tests.ledger.zones import FOOTER, ODD_ZONES, PLACES, ZONE_FILE, write_zone

HOUR_MS = 3_600_000


def ms(text: str) -> int:
    """Return the milliseconds of an instant written as ISO 8601, in UTC."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)


def iso_week(now: int) -> str:
    """Return the year and week of an instant, in UTC."""
    return "{}-{}".format(*datetime.date.fromisoformat(utc_day(now)).isocalendar())


def local(now: int, zone: str) -> datetime.datetime:
    """Return what the clocks of a zone show."""
    return datetime.datetime.fromtimestamp(now // 1000, time_zone(zone)).replace(tzinfo=None)


class ZoneFileTests(SynchronousTestCase):
    """Zones whose files are not as they should be, or no more."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.mkdir(self.folder)
        zoneinfo.reset_tzpath([self.folder])
        self.addCleanup(zoneinfo.reset_tzpath)

    def test_a_file_that_is_cut_off(self) -> None:
        """Wherever it ends, the zone is one that this machine does not know."""
        for length in range(len(ZONE_FILE) - len(FOOTER) + 1):
            write_zone(os.path.join(self.folder, "Cut"), ZONE_FILE[:length])
            self.assertRaises(UnknownZoneError, time_zone, "Cut")

    def test_files_that_are_taken_away(self) -> None:
        """A zone that was read once stays, however many there are beside it."""
        names = [f"Gone{number}" for number in range(20)]
        for name in names:
            write_zone(os.path.join(self.folder, name))
            time_zone(name)
        for name in names:
            os.unlink(os.path.join(self.folder, name))
        for name in names:
            self.assertEqual(bounds("daily", 0, name)[0], -HOUR_MS)


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
        """A day turns at midnight, a week on Monday, a month on the first, a total never."""
        now = ms("2027-12-31T23:59:59")
        self.assertEqual(next_turn("weekly", now), ms("2028-01-03"))
        self.assertEqual(next_turn("weekly", ms("2026-11-29T23:59:59")), ms("2026-11-30"))
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
        error = self.assertRaises(ValueError, next_turn, "hourly", 0)
        self.assertIn("'hourly'; there are daily, weekly, monthly, total", str(error))

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, MAX_TS_MS - 40 * DAY_MS), st.sampled_from(PERIODS))
    def test_the_name_changes_exactly_at_the_turn(self, now: int, period: str) -> None:
        """Up to the turn the name stays, at the turn it is another."""
        turn = next_turn(period, now)
        if turn is None:
            return
        self.assertTrue(turn > now)
        name = {"daily": utc_day, "monthly": utc_month, "weekly": iso_week}[period]
        self.assertEqual(name(turn - 1), name(now))
        self.assertNotEqual(name(turn), name(now))
        self.assertEqual(name(bounds(period, now)[0]), name(now))


class ZoneTests(SynchronousTestCase):
    def assert_day(self, zone: str, now: str, start: str, end: str) -> None:
        """Hold the bounds of a day, all written in UTC."""
        self.assertEqual(bounds("daily", ms(now), zone), (ms(start), ms(end)), (zone, now))

    def test_summer_time_makes_days_of_23_and_25_hours(self) -> None:
        """A day goes from midnight to midnight of the place, both ways."""
        for zone, now, start, end, hours in (
            ("Europe/Stockholm", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00", 23),
            ("Europe/Stockholm", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00", 25),
            ("America/New_York", "2026-03-08T12:00", "2026-03-08T05:00", "2026-03-09T04:00", 23),
            ("America/New_York", "2026-11-01T12:00", "2026-11-01T04:00", "2026-11-02T05:00", 25),
            (
                "Australia/Lord_Howe",
                "2026-04-04T20:00",
                "2026-04-04T13:00",
                "2026-04-05T13:30",
                24.5,
            ),
            (
                "Australia/Lord_Howe",
                "2026-10-03T20:00",
                "2026-10-03T13:30",
                "2026-10-04T13:00",
                23.5,
            ),
            ("Asia/Kathmandu", "2026-11-29T12:00", "2026-11-28T18:15", "2026-11-29T18:15", 24),
            ("Pacific/Kiritimati", "2026-11-29T12:00", "2026-11-29T10:00", "2026-11-30T10:00", 24),
            ("Etc/GMT+12", "2026-11-29T11:59", "2026-11-28T12:00", "2026-11-29T12:00", 24),
        ):
            self.assert_day(zone, now, start, end)
            self.assertEqual(ms(end) - ms(start), hours * HOUR_MS)

    def test_a_midnight_that_is_left_out(self) -> None:
        """Where the clocks go from 24:00 to 01:00, the day begins at that instant."""
        for zone, turn in (
            ("America/Sao_Paulo", "2018-11-04T03:00"),
            ("Asia/Beirut", "2026-03-28T22:00"),
        ):
            self.assertEqual(local(ms(turn), zone).hour, 1)
            self.assertEqual(next_turn("daily", ms(turn) - 1, zone), ms(turn))
            start, end = bounds("daily", ms(turn), zone)
            self.assertEqual((start, end - start), (ms(turn), 23 * HOUR_MS))

    def test_a_change_across_midnight(self) -> None:
        """Where they go from 23:30 to 00:30, as in Toronto in 1919, the change begins the day."""
        turn = ms("1919-03-31T04:30")
        self.assertEqual(str(local(turn, "America/Toronto")), "1919-03-31 00:30:00")
        self.assertEqual(next_turn("daily", turn - 1, "America/Toronto"), turn)
        self.assertEqual(bounds("daily", turn, "America/Toronto")[0], turn)

    def test_a_midnight_that_comes_twice(self) -> None:
        """Where they go from 01:00 back to 00:00, the day begins with the first midnight."""
        self.assert_day(
            "America/Havana", "2026-11-01T04:30", "2026-11-01T04:00", "2026-11-02T05:00"
        )
        self.assert_day(
            "America/Havana", "2026-11-01T05:30", "2026-11-01T04:00", "2026-11-02T05:00"
        )

    def test_a_date_that_is_shown_again_is_over(self) -> None:
        """Where they go from 00:01 back to 23:01, the new day has begun already."""
        again = ms("2010-11-07T03:00")
        self.assertEqual(str(local(again, "America/St_Johns")), "2010-11-06 23:30:00")
        self.assert_day(
            "America/St_Johns", "2010-11-07T03:00", "2010-11-07T02:30", "2010-11-08T03:30"
        )
        # In Sao Paulo they went from 24:00 back to 23:00: midnight comes once, an hour later.
        self.assert_day(
            "America/Sao_Paulo", "2018-02-18T02:30", "2018-02-17T02:00", "2018-02-18T03:00"
        )

    def test_a_date_that_a_zone_left_out(self) -> None:
        """Samoa had no 2011-12-30: its 29th was followed by the 31st."""
        self.assert_day("Pacific/Apia", "2011-12-30T09:59", "2011-12-29T10:00", "2011-12-30T10:00")
        self.assert_day("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00", "2011-12-31T10:00")
        # Kiritimati had no 1994-12-31: its year of 1995 began a day earlier.
        turn = next_turn("monthly", ms("1994-12-15"), "Pacific/Kiritimati")
        self.assertEqual(turn, ms("1994-12-31T10:00"))

    def test_weeks_and_months_turn_at_midnight_of_the_place(self) -> None:
        """On Monday and on the first."""
        now = ms("2026-11-29T23:30")
        stockholm = "Europe/Stockholm"
        self.assertEqual(
            bounds("weekly", now, stockholm), (ms("2026-11-29T23:00"), ms("2026-12-06T23:00"))
        )
        self.assertEqual(next_turn("weekly", now), ms("2026-11-30"))
        self.assertEqual(
            bounds("monthly", ms("2026-10-31T23:30"), stockholm),
            (ms("2026-10-31T23:00"), ms("2026-11-30T23:00")),
        )

    def test_a_total_has_no_zone(self) -> None:
        """It holds every instant, wherever."""
        self.assertEqual(bounds("total", 5, "Europe/Stockholm"), (0, END_MS))
        self.assertIsNone(next_turn("total", 5, "Europe/Stockholm"))
        self.assertEqual(END_MS, MAX_TS_MS + 1)

    def test_an_unknown_zone_is_refused_with_a_remedy(self) -> None:
        """Whatever the name is, and never with another error."""
        names = (
            "Europe/Gothenburg",
            "",
            "Europe",
            "../UTC",
            "/etc/localtime",
            "localtime",
            "right/UTC",
            "posix/UTC",
            "posixrules",
            "Factory",
            "a" * 5000,
            "\0",
            "\ud800",
            "zone.tab",
            "Europe//Stockholm",
            "Europe/Stockholm/",
            " UTC",
        )
        for name in names:
            error = self.assertRaises(UnknownZoneError, bounds, "daily", 0, name)
            self.assertIn("tzdata", str(error))
            self.assertIsInstance(error, ValueError)

    def test_utc_needs_no_zone_files(self) -> None:
        """Without any zone on the machine, UTC is known, and no other zone."""

        def missing(name: str) -> None:
            raise KeyError(name)

        self.patch(periods, "ZoneInfo", missing)
        self.patch(periods, "_remembered", {})
        time_zone.cache_clear()
        self.assertEqual(bounds("daily", DAY_MS + 1), (DAY_MS, 2 * DAY_MS))
        self.assertRaises(UnknownZoneError, bounds, "daily", 0, "Europe/Stockholm")

    def test_what_is_remembered_is_bounded(self) -> None:
        """Beyond the bound it begins anew, and answers the same."""
        self.patch(periods, "_remembered", {})
        self.patch(periods, "PERIODS_REMEMBERED", 3)
        for zone in ODD_ZONES:
            for _ in range(2):
                start, end = bounds("daily", 10**12, zone)
                self.assertTrue(start <= 10**12 < end)
            self.assertTrue(len(periods._remembered) <= 3)

    @settings(max_examples=300, deadline=None)
    @given(
        st.integers(0, ms("2100-01-01")),
        st.sampled_from(("daily", "weekly", "monthly")),
        st.sampled_from(ODD_ZONES) | st.sampled_from(PLACES),
    )
    def test_periods_follow_each_other(self, now: int, period: str, zone: str) -> None:
        """Each instant lies in one period; before its end no date of the next was shown."""
        start, end = bounds(period, now, zone)
        self.assertTrue(start <= now < end)
        for other in (start, end - 1, (start + now) // 2, (now + end) // 2):
            self.assertEqual(bounds(period, other, zone), (start, end))
        self.assertEqual(bounds(period, end, zone)[0], end)
        self.assertEqual(bounds(period, start - 1, zone)[1], start)
        turn = local(end, zone).date()
        self.assertTrue(local(end - 1, zone).date() < turn)
        self.assertTrue(
            local(start, zone).date() <= local(now, zone).date() + datetime.timedelta(1)
        )
        if period == "monthly":
            self.assertNotEqual(local(end - 1, zone).month, turn.month)


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
