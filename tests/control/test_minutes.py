"""What happened in each minute of the last day."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.minutes import MINUTE_MS, MINUTES_KEPT, Minutes
from omnigate.events import UsageEvent, decode_event
from tests.control.plane import START, event

BEGUN = START * 1000
FIRST = "omnigate_data_time_to_first_event_seconds"
LOOKUPS = "omnigate_data_cache_lookups_total"


def used(**members: Any) -> UsageEvent:
    return decode_event(event(**members))


class MinutesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.minutes = Minutes(BEGUN)

    def test_sums_of_a_minute(self) -> None:
        self.minutes.recorded(used(), 7, BEGUN)
        self.minutes.recorded(used(status=404), 0, BEGUN)
        self.minutes.recorded(used(status=502, input_tokens=1), 3, BEGUN)
        self.minutes.refused(4, BEGUN)
        now = self.minutes.last(1, BEGUN)
        self.assertEqual((3, 2, 1, 4), (now.requests, now.errors, now.failures, now.refusals))
        self.assertEqual((2301, 300, 30), (now.input_tokens, now.cached_tokens, now.output_tokens))
        self.assertEqual(10, now.cost_nano)

    def test_in_the_minute_in_which_it_ended(self) -> None:
        """What waited in a spool counts when it happened."""
        later = BEGUN + 10 * MINUTE_MS
        self.minutes.recorded(used(ts_ms=BEGUN + 2 * MINUTE_MS), 1, later)
        self.assertEqual(0, self.minutes.last(5, later).requests)
        self.assertEqual(1, self.minutes.last(9, later).requests)

    def test_from_before_the_start(self) -> None:
        """What a data plane had kept is shown where it belongs; of the rest nothing is known."""
        self.minutes.recorded(used(ts_ms=BEGUN - 2 * MINUTE_MS), 1, BEGUN)
        self.assertEqual(1, self.minutes.last(60, BEGUN).requests)
        spans = self.minutes.spans(4, 1, BEGUN)
        self.assertEqual([None, 1, None, 0], [s.sums and s.sums.requests for s in spans])
        # So a rate is not of the time since the start alone.
        self.assertEqual(2.0, self.minutes.minutes_known(5, BEGUN))

    def test_not_from_the_day_before(self) -> None:
        self.minutes.recorded(used(ts_ms=BEGUN - MINUTES_KEPT * MINUTE_MS), 1, BEGUN)
        self.assertEqual(0, self.minutes.last(MINUTES_KEPT, BEGUN).requests)

    def test_a_clock_that_is_ahead(self) -> None:
        """There is no minute beyond this one."""
        self.minutes.recorded(used(ts_ms=BEGUN + 99 * MINUTE_MS), 1, BEGUN)
        self.assertEqual(1, self.minutes.last(1, BEGUN).requests)
        self.assertEqual(0, self.minutes.last(1, BEGUN + 99 * MINUTE_MS).requests)

    def test_waiting_times(self) -> None:
        for bucket, growth in (("4", 8), ("7", 2)):  # 50 to 100 ms, and 0.5 to 1 s
            self.minutes.counted(FIRST, ["chat", bucket], growth, BEGUN)
        now = self.minutes.last(5, BEGUN)
        self.assertEqual(0.08125, now.first_event_seconds(0.5))
        self.assertEqual(0.875, now.first_event_seconds(0.95) or 0)
        # An hour later it is not known any more, and not 0.
        later = BEGUN + 60 * MINUTE_MS
        self.assertIsNone(self.minutes.last(5, later).first_event_seconds(0.5))

    def test_what_is_no_count_is_passed_over(self) -> None:
        for labels, growth in (
            (["chat", "total"], 3.5),
            (["chat", "99"], 1),
            (["chat", "-1"], 1),
            (["chat", "٣"], 1),
            (["chat"], 1),
            (["chat", "3"], -1),
            (["chat", "3"], float("nan")),
            (["chat", "3"], float("inf")),
        ):
            self.minutes.counted(FIRST, labels, growth, BEGUN)
        self.minutes.counted("omnigate_data_requests_total", ["3", "3"], 1, BEGUN)
        found = sum(self.minutes.last(1, BEGUN).first_events)
        # A digit of another script is the same number.
        self.assertEqual(1, found)

    def test_looks_into_the_cache(self) -> None:
        self.minutes.counted(LOOKUPS, ["hit"], 3, BEGUN)
        self.minutes.counted(LOOKUPS, ["miss"], 9, BEGUN)
        self.minutes.counted(LOOKUPS, ["other"], 9, BEGUN)
        now = self.minutes.last(1, BEGUN)
        self.assertEqual((3, 9), (now.hits, now.misses))

    def test_rates_are_of_the_time_that_is_known(self) -> None:
        """Two minutes after a start, the requests of two minutes are no five minutes' worth."""
        self.assertEqual(2.0, self.minutes.minutes_known(5, BEGUN + 2 * MINUTE_MS))
        self.assertEqual(1.0, self.minutes.minutes_known(5, BEGUN))
        self.assertEqual(4.5, self.minutes.minutes_known(5, BEGUN + 99 * MINUTE_MS + 30_000))

    def test_points_of_a_plot(self) -> None:
        now = BEGUN + 3 * MINUTE_MS
        self.minutes.recorded(used(ts_ms=BEGUN + MINUTE_MS), 1, now)
        spans = self.minutes.spans(6, 1, now)
        self.assertEqual([None, None, 0, 1, 0, 0], [s.sums and s.sums.requests for s in spans])
        self.assertEqual([MINUTE_MS] * 5, [b.at_ms - a.at_ms for a, b in pairwise(spans)])
        self.assertTrue(spans[-1].at_ms <= now < spans[-1].at_ms + MINUTE_MS)

    @given(st.lists(st.integers(-3 * MINUTES_KEPT, 3 * MINUTES_KEPT), max_size=200))
    def test_bounded_whatever_the_clock_does(self, moves: list[int]) -> None:
        minutes = Minutes(0)
        for at in range(MINUTES_KEPT):
            minutes.refused(1, at * MINUTE_MS)
        for move in moves:
            now = max(0, BEGUN + move * MINUTE_MS)
            minutes.refused(1, now)
            self.assertLessEqual(1, minutes.last(1, now).refusals)
            self.assertLessEqual(len(minutes._minutes), MINUTES_KEPT)
