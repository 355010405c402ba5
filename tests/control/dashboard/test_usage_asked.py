"""Tests for omnigate.control.dashboard.usage_asked."""

from __future__ import annotations

from datetime import date

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.usage_asked import Asked, read_asked

TODAY = date(2026, 11, 29)


class AskedTests(SynchronousTestCase):
    """What an address asks for."""

    def test_groupings(self) -> None:
        """By key unless it says what is known."""
        for query, by in (({}, "key"), ({"by": "day"}, "day"), ({"by": "hour"}, "key")):
            asked = read_asked(query, TODAY)
            self.assertEqual((asked.by, asked.kind, asked.query), (by, "", {"by": by}))

    def test_one_name(self) -> None:
        """Always by day, and it leads to itself again."""
        asked = read_asked({"by": "key", "model": "a b", "period": "7d"}, TODAY)
        self.assertEqual((asked.by, asked.kind, asked.name), ("day", "model", "a b"))
        self.assertEqual(read_asked({**asked.query, **asked.span.query}, TODAY), asked)

    def test_names_of_files(self) -> None:
        """They say what is in them, in letters that every system takes."""
        span = read_asked({"period": "today"}, TODAY).span
        for asked, name in (
            (Asked("key", span), "omnigate-usage-by-key-2026-11-29.csv"),
            (
                Asked("day", span, "model", '../a "b\r\n' + "c" * 99),
                f"omnigate-usage-by-day-of-model-..-a-b-{'c' * 57}-2026-11-29.csv",
            ),
        ):
            self.assertEqual(asked.filename, name)
