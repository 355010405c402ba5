"""Tests for omnigate.control.dashboard.spans."""

from __future__ import annotations

from datetime import date

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.spans import PRESETS, Span, day_of, preset_span, read_span
from tests.control.plane import START

TODAY = date(2026, 11, 29)


class SpanTests(SynchronousTestCase):
    """Which days are asked for."""

    def test_presets(self) -> None:
        """Today counts as one of the days."""
        found = {name: preset_span(name, TODAY).days for name in PRESETS}
        today = "2026-11-29"
        self.assertEqual(
            found,
            {
                "today": {"since": today, "until": today},
                "month": {"since": "2026-11-01", "until": today},
                "7d": {"since": "2026-11-23", "until": today},
                "30d": {"since": "2026-10-31", "until": today},
                "90d": {"since": "2026-09-01", "until": today},
                "all": {},
            },
        )
        self.assertEqual(preset_span("90d", date(1, 1, 2)).since, "0001-01-01")

    def test_what_an_address_asks_for(self) -> None:
        """Days before a preset, one alone leaves the other side open, nothing is a month."""
        for query, span in (
            ({}, preset_span("30d", TODAY)),
            ({"period": "7d"}, preset_span("7d", TODAY)),
            ({"period": "hour"}, preset_span("30d", TODAY)),
            ({"period": "7d", "since": "2026-11-01"}, Span("2026-11-01", None, "")),
            ({"until": "2026-11-01"}, Span(None, "2026-11-01", "")),
        ):
            self.assertEqual(read_span(query, TODAY), span, query)

    def test_faults(self) -> None:
        """Each by its field; the default is shown meanwhile."""
        for query, fields in (
            ({"since": "yesterday", "until": "2026-02-30"}, {"since", "until"}),
            ({"since": "2026-11-02", "until": "2026-11-01"}, {"since"}),
            ({"since": "20261102"}, {"since"}),
        ):
            span = read_span(query, TODAY)
            self.assertEqual(set(span.faults), fields, query)
            self.assertEqual(span.days, preset_span("30d", TODAY).days)

    def test_the_way_back(self) -> None:
        """Its parameters lead to it again; a preset stays one."""
        for query in ({"period": "7d"}, {"period": "all"}, {"since": "2026-11-01"}):
            self.assertEqual(read_span(query, TODAY).query, query)

    def test_names(self) -> None:
        """On the page, and of a file."""
        for since, until, words, part in (
            (None, None, "all that is kept", "all"),
            ("2026-11-01", "2026-11-01", "2026-11-01", "2026-11-01"),
            (
                "2026-11-01",
                "2026-11-02",
                "2026-11-01 to 2026-11-02",
                "since-2026-11-01-until-2026-11-02",
            ),
            ("2026-11-01", None, "since 2026-11-01", "since-2026-11-01"),
            (None, "2026-11-02", "until 2026-11-02", "until-2026-11-02"),
        ):
            span = Span(since, until, "")
            self.assertEqual((span.words, span.file_part), (words, part))

    def test_a_moment(self) -> None:
        """Lies in a day of UTC."""
        self.assertEqual(day_of(START * 1000), TODAY)
        self.assertEqual(day_of(0), date(1970, 1, 1))
