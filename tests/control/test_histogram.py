"""Shares of times in buckets."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.histogram import quantile
from omnigate.metric_families import BUCKETS


class QuantileTests(SynchronousTestCase):
    def test_none_of_nothing(self) -> None:
        self.assertIsNone(quantile([0] * 15, 0.5))

    def test_within_a_bucket(self) -> None:
        """Ten between one and two seconds: half of them stayed below one and a half."""
        self.assertEqual(1.5, quantile([0, 10, 0], 0.5, (1.0, 2.0)))

    def test_beyond_the_last_bound(self) -> None:
        """Nobody knows how long it was, only that it was longer."""
        self.assertEqual(2.0, quantile([0, 1, 9], 0.95, (1.0, 2.0)))

    def test_empty_buckets_between(self) -> None:
        self.assertEqual(8.5, quantile([5, 0, 0, 5], 0.6, (1, 2, 8, 10.5)))

    @given(
        st.lists(st.floats(0.001, 119.0), min_size=1, max_size=200),
        st.floats(0.01, 1.0),
    )
    def test_in_the_bucket_of_the_exact_one(self, seconds: list[float], share: float) -> None:
        """It is never further off than the width of the bucket that the exact one is in."""
        counts = [0] * (len(BUCKETS) + 1)
        for each in seconds:
            counts[bisect_left(BUCKETS, each)] += 1
        at = max(0, min(len(seconds), -int(-share * len(seconds) // 1)) - 1)
        exact = sorted(seconds)[at]
        bucket = bisect_left(BUCKETS, exact)
        lower = BUCKETS[bucket - 1] if bucket else 0.0
        found = quantile(counts, share)
        assert found is not None
        self.assertTrue(lower - 1e-9 <= found <= BUCKETS[bucket] + 1e-9, (found, exact))

    @given(st.lists(st.integers(0, 1000), min_size=15, max_size=15))
    def test_grows_with_the_share(self, counts: list[int]) -> None:
        found = [quantile(counts, share) for share in (0.1, 0.5, 0.9, 0.95, 1.0)]
        if any(counts):
            self.assertEqual(sorted(one or 0 for one in found), found)
