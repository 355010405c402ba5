"""The token bucket: bursts, refill, and waits that are honest."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.token_bucket import DEBT_SECONDS, WINDOW_NS, AmountBucket, TokenBucket


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


class AmountBucketTests(SynchronousTestCase):
    """A bucket of amounts."""

    def reserve(self, bucket: AmountBucket, amount: int, now: float) -> float:
        """Reserve so many units."""
        return bucket.reserve(bucket.need(amount), now)

    def settle(self, bucket: AmountBucket, amount: int, used: int, now: float) -> None:
        """Settle so many."""
        bucket.settle(bucket.need(amount), used, now)

    def test_a_full_bucket_and_no_more(self) -> None:
        """What a minute brings is there at once; then one waits for as long as it takes."""
        bucket = AmountBucket(6000)
        self.assertEqual(self.reserve(bucket, 4000, 5.0), 0.0)
        self.assertEqual(self.reserve(bucket, 2000, 5.0), 0.0)
        self.assertAlmostEqual(self.reserve(bucket, 100, 5.0), 1.0)
        self.assertAlmostEqual(self.reserve(bucket, 6000, 5.0), 60.0)
        self.assertGreater(self.reserve(bucket, 100, 5.99), 0.0)
        self.assertEqual(self.reserve(bucket, 100, 6.0), 0.0)

    def test_what_was_not_used_comes_back(self) -> None:
        """All of it after a refusal, the rest after an answer; nothing is held afterwards."""
        bucket = AmountBucket(6000)
        for amount, used in ((6000, 0), (10**9, 0), (6000, 1000), (5000, 0), (5000, 5000)):
            self.assertEqual(self.reserve(bucket, amount, 5.0), 0.0)
            self.settle(bucket, amount, used, 5.0)
            self.assertEqual(bucket.held, 0)
        self.assertAlmostEqual(self.reserve(bucket, 1, 5.0), 0.01)

    def test_a_long_answer_is_not_paid_for_twice(self) -> None:
        """What was reserved when it began was brought again while it lasted."""
        bucket = AmountBucket(6000)
        self.assertEqual(self.reserve(bucket, 6000, 0.0), 0.0)
        self.settle(bucket, 6000, 6000, 60.0)
        self.assertEqual(self.reserve(bucket, 6000, 60.0), 0.0)
        self.settle(bucket, 6000, 9000, 120.0)
        self.assertAlmostEqual(self.reserve(bucket, 6000, 120.0), 30.0)

    def test_more_than_the_bucket_holds(self) -> None:
        """It waits for a full one, and then goes."""
        bucket = AmountBucket(1000)
        self.assertEqual(self.reserve(bucket, 1, 0.0), 0.0)
        wait = self.reserve(bucket, 10**12, 0.0)
        self.assertAlmostEqual(wait, 0.06)
        self.assertEqual(self.reserve(bucket, 10**12, wait), 0.0)

    def test_debts_have_a_bound(self) -> None:
        """However much was used, after two minutes the bucket is full."""
        bucket = AmountBucket(1000)
        self.assertEqual(self.reserve(bucket, 10, 0.0), 0.0)
        self.settle(bucket, 10, 10**9, 0.0)
        self.assertAlmostEqual(self.reserve(bucket, 1, 0.0), DEBT_SECONDS + 0.06)
        self.settle(bucket, 0, 10**9, 30.0)
        self.assertAlmostEqual(self.reserve(bucket, 1000, 30.0), DEBT_SECONDS + 60)
        self.assertEqual(self.reserve(bucket, 1000, 150.0), 0.0)

    def test_a_new_rate_between(self) -> None:
        """What is in the bucket stays in proportion, and what was reserved comes back as it was."""
        bucket = AmountBucket(1000)
        need = bucket.need(500)
        self.assertEqual(bucket.reserve(need, 0.0), 0.0)
        bucket.resize(10)
        self.assertAlmostEqual(self.reserve(bucket, 6, 0.0), 6.0)
        bucket.settle(need, 10, 0.0)
        self.assertEqual(bucket.held, 0)
        self.assertAlmostEqual(self.reserve(bucket, 1, 0.0), 6.0)

    def test_a_clock_that_goes_back_locks_nobody_out(self) -> None:
        """The worst that comes of it is an empty bucket."""
        bucket = AmountBucket(6000)
        self.assertEqual(self.reserve(bucket, 3000, 10_000.0), 0.0)
        self.assertAlmostEqual(self.reserve(bucket, 100, 5.0), 1.0)
        self.assertEqual(self.reserve(bucket, 100, 6.0), 0.0)
        self.settle(bucket, 3000, 0, 6.0)
        self.settle(bucket, 100, 0, 6.0)
        self.assertEqual(bucket.held, 0)
        self.assertEqual(self.reserve(bucket, 3000, 6.0), 0.0)


#: Steps of a story: milliseconds that pass, what is reserved, and what of the oldest that is
#: reserved is settled, in thousandths of it; ``None`` settles nothing.
STEPS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 500), st.integers(0, 90_000)),
        st.integers(0, 1500),
        st.one_of(st.none(), st.just(1000), st.integers(0, 5000)),
    ),
    max_size=40,
)


class Level:
    """The same bucket told plainly, by how much of it is missing, in nanoseconds."""

    def __init__(self) -> None:
        self.missing = Fraction(0)
        self.at = 0

    def wait(self, need: int, at: int) -> Fraction:
        """How long one has to wait, in nanoseconds; 0 or less where it can be reserved."""
        self.missing = max(Fraction(0), self.missing - (at - self.at))
        self.at = at
        return self.missing + need - WINDOW_NS

    def settle(self, need: int, cost: Fraction, at: int) -> None:
        """Settle."""
        self.wait(0, at)
        self.missing = min(max(Fraction(0), self.missing - need + cost), Fraction(2 * WINDOW_NS))


class AmountModelTests(SynchronousTestCase):
    """A bucket of amounts against a plain model."""

    @given(st.integers(1, 1000), STEPS)
    @settings(max_examples=200, deadline=None)
    def test_stories(self, rate: int, steps: list[tuple[int, int, int | None]]) -> None:
        """It decides as the model does, and in the end nothing is held."""
        bucket, level, at = AmountBucket(rate), Level(), 0
        under_way: list[int] = []

        def settle(need: int, share: int) -> None:
            amount = need * rate * share // 1000 // WINDOW_NS
            bucket.settle(need, amount, at / 1e9)
            level.settle(need, Fraction(amount * WINDOW_NS, rate), at)

        for passed, amount, share in steps:
            at += passed * 1_000_000
            need = bucket.need(amount)
            wanted = float(level.wait(need, at)) / 1e9
            wait = bucket.reserve(need, at / 1e9)
            if wait == 0.0:
                self.assertLess(wanted, 1e-5)
                level.missing += need
                under_way.append(need)
            else:
                self.assertAlmostEqual(wait, wanted, places=5)
            if share is not None and under_way:
                settle(under_way.pop(0), share)
        while under_way:
            settle(under_way.pop(), 1000)
        self.assertEqual(bucket.held, 0)

    @given(st.integers(1, 1000), STEPS)
    @settings(max_examples=200, deadline=None)
    def test_no_window_sees_more(self, rate: int, steps: list[tuple[int, int, int | None]]) -> None:
        """Of no window's requests more is used than the rate, a bucket, and what was reserved."""
        bucket, at = AmountBucket(rate), 0
        under_way: list[tuple[int, int]] = []
        began: list[tuple[int, int]] = []  # when, and what was reserved already
        used: dict[int, int] = {}
        for passed, amount, share in steps:
            at += passed * 1_000_000
            held, need = bucket.held, bucket.need(amount)
            if bucket.reserve(need, at / 1e9) == 0.0:
                under_way.append((len(began), need))
                began.append((at, held))
                used[len(began) - 1] = need
            if share is not None and under_way:
                # None uses more than was reserved for it.
                number, need = under_way.pop(0)
                amount = need * rate * min(share, 1000) // 1000 // WINDOW_NS
                bucket.settle(need, amount, at / 1e9)
                used[number] = amount * WINDOW_NS // rate
        for first, (start, held) in enumerate(began):
            total = 0
            for number in range(first, len(began)):
                total += used[number]
                window = began[number][0] - start
                self.assertLessEqual(total, WINDOW_NS + window + held + 100_000)
