"""The token bucket: bursts, refill, and waits that are honest."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.token_bucket import TokenBucket


def taken(bucket: TokenBucket, now: float, tries: int) -> int:
    """Return how many of ``tries`` tokens could be taken at ``now``."""
    return sum(bucket.take(now) == 0.0 for _ in range(tries))


class TokenBucketTests(SynchronousTestCase):
    def test_a_burst_of_the_whole_rate_is_there_at_once(self) -> None:
        """A full bucket gives rpm tokens and then none."""
        for rpm in (1, 7, 60, 600, 12_345):
            self.assertEqual(taken(TokenBucket(rpm), 1000.0, rpm + 5), rpm)

    def test_the_wait_is_until_the_next_token(self) -> None:
        """At 60 a minute an empty bucket has a token again after a second."""
        bucket = TokenBucket(60)
        taken(bucket, 1000.0, 60)
        self.assertAlmostEqual(bucket.take(1000.0), 1.0, places=4)
        self.assertAlmostEqual(bucket.take(1000.75), 0.25, places=4)
        self.assertEqual(bucket.take(1001.0), 0.0)
        self.assertTrue(bucket.take(1001.0) > 0)

    def test_a_refusal_costs_nothing(self) -> None:
        """Asking an empty bucket again and again does not push the next token away."""
        bucket = TokenBucket(60)
        taken(bucket, 0.0, 1000)
        self.assertEqual(bucket.take(1.0), 0.0)

    def test_it_fills_no_further_than_the_burst(self) -> None:
        """A night without requests leaves one burst, not a hoard."""
        bucket = TokenBucket(10)
        taken(bucket, 0.0, 10)
        self.assertEqual(taken(bucket, 40_000.0, 100), 10)

    def test_half_a_minute_fills_half(self) -> None:
        """Refill is rpm a minute."""
        bucket = TokenBucket(100)
        taken(bucket, 0.0, 100)
        self.assertEqual(taken(bucket, 30.0, 100), 50)

    def test_zero_is_no_limit(self) -> None:
        """A key without a rate is never refused."""
        self.assertEqual(taken(TokenBucket(0), 5.0, 1000), 1000)

    def test_a_clock_that_goes_back_locks_nobody_out(self) -> None:
        """The worst that comes of it is an empty bucket."""
        bucket = TokenBucket(60)
        taken(bucket, 10_000.0, 60)
        wait = bucket.take(5.0)
        self.assertTrue(0 < wait <= 1.0)
        self.assertEqual(bucket.take(6.0), 0.0)
        self.assertGreater(bucket.take(6.0), 0.0)
        self.assertEqual(taken(bucket, 16.0, 60), 10)

    def test_a_new_rate_keeps_what_is_in_the_bucket(self) -> None:
        """Raising or lowering a limit gives no fresh burst."""
        bucket = TokenBucket(60)
        taken(bucket, 0.0, 60)
        bucket.resize(600, 0.0)
        self.assertEqual(taken(bucket, 0.0, 10), 0)
        self.assertEqual(taken(bucket, 30.0, 1000), 300)
        bucket.resize(60, 30.0)
        self.assertEqual(bucket.rpm, 60)
        self.assertEqual(taken(bucket, 30.0, 10), 0)

    def test_a_first_limit_starts_full_and_no_limit_ends_it(self) -> None:
        """A key that gets a limit has a whole burst; one that loses it is free at once."""
        bucket = TokenBucket(0)
        bucket.resize(3, 50.0)
        self.assertEqual(taken(bucket, 50.0, 10), 3)
        bucket.resize(0, 50.0)
        self.assertEqual(taken(bucket, 50.0, 10), 10)

    @settings(max_examples=150, deadline=None)
    @given(
        st.integers(1, 5000),
        st.floats(0, 2e9),
        st.lists(st.floats(0, 30), min_size=1, max_size=60),
    )
    def test_no_window_gives_more_than_burst_and_refill(
        self, rpm: int, start: float, steps: list[float]
    ) -> None:
        """Whatever the pauses, never more than rpm and what has flowed in; and waits are kept."""
        bucket = TokenBucket(rpm)
        now, count = start, 0
        for step in steps:
            now += step
            for _ in range(rpm if step > 20 else 3):
                wait = bucket.take(now)
                if wait:
                    self.assertTrue(wait <= 60.0 / rpm + 1e-5)
                    now += wait
                    self.assertEqual(bucket.take(now), 0.0)
                count += 1
        self.assertTrue(count <= rpm + (now - start) * rpm / 60 + 1)
