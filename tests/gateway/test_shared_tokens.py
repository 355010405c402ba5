"""Tokens a minute of a key that several workers serve: one bucket over all."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.shared_limits import SharedAmountBucket, SharedKeyLimits
from omnigate.gateway.shared_uses import TOKENS_HELD
from omnigate.token_bucket import WINDOW_NS, AmountBucket
from tests.gateway.sharing import KEY, Watched, Workers, digest, use_of
from tests.gateway.test_shared_limits import Race, Step, races

#: A worker, milliseconds that pass, an amount, and what of the oldest that is reserved is settled,
#: in thousandths; ``None`` settles nothing.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.one_of(st.integers(0, 3000), st.sampled_from([0, 60_000, 130_000])),
        st.integers(0, 1500),
        st.one_of(st.none(), st.just(1000), st.integers(0, 4000)),
        st.sampled_from([0, 0, 0, 0, 1, 100, 5000]),
    ),
    max_size=50,
)


class SharedTokensTests(SynchronousTestCase):
    """A bucket of amounts that workers share."""

    def buckets(self, count: int, rate: int) -> list[SharedAmountBucket]:
        """One bucket, as each of the workers has it."""
        self.workers = Workers(count)
        self.addCleanup(self.workers.close)
        limits = [SharedKeyLimits(shared) for shared in self.workers.all]
        return [SharedAmountBucket(rate, use_of(one, KEY)) for one in limits]

    def held(self, bucket: SharedAmountBucket) -> list[int]:
        """What each worker has reserved."""
        return list(bucket._use.row.ints(TOKENS_HELD))

    @settings(max_examples=150, deadline=None)
    @given(st.integers(1, 5), st.sampled_from([1, 60, 1000, 10**9]), STEPS)
    def test_as_one_bucket(
        self, count: int, rate: int, steps: list[tuple[int, int, int, int | None, int]]
    ) -> None:
        """Where steps do not race, workers reserve, wait and settle as one bucket does."""
        buckets, single = self.buckets(count, rate), AmountBucket(rate)
        now_ms = 1_000_000
        under_way: list[tuple[int, int]] = []
        for worker, pause, amount, share, new_rate in steps:
            worker %= count
            now_ms += pause
            # Half a millisecond beside the limits, so that a rounding decides nothing.
            now = (now_ms + 0.5) / 1000
            if new_rate:
                for one in (single, *buckets):
                    one.resize(new_rate)
            need = single.need(amount)
            self.assertEqual(need, buckets[worker].need(amount))
            wanted, got = single.reserve(need, now), buckets[worker].reserve(need, now)
            self.assertAlmostEqual(wanted, got, places=4)
            if (wanted == 0.0) != (got == 0.0):
                return  # a rounding did decide; from here on they differ
            if got == 0.0:
                under_way.append((worker, need))
            if share is not None and under_way:
                worker, need = under_way.pop(0)
                amount = need * single.rate * share // 1000 // WINDOW_NS
                single.settle(need, amount, now)
                buckets[worker].settle(need, amount, now)
            self.assertEqual(single.held, sum(self.held(buckets[0])))
        for worker, need in under_way:
            buckets[worker].settle(need, 0, now_ms / 1000)
        self.assertEqual([0] * count, self.held(buckets[0]))

    @settings(max_examples=200, deadline=None)
    @given(st.integers(2, 4).flatmap(lambda count: st.tuples(st.just(count), races(count))))
    def test_races(self, given_: tuple[int, list[Step]]) -> None:
        """Races give away one bucket for each other worker at most, and leave nothing reserved."""
        count, steps = given_
        buckets = self.buckets(count, 60)
        began: list[tuple[float, int]] = []
        used: dict[int, int] = {}
        under_way: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        now = 100_000.0

        def act(worker: int, asks: bool, size: int) -> None:
            nonlocal now
            now += size / 50
            bucket, at = buckets[worker], now
            if asks:
                need = bucket.need(size)
                held = sum(self.held(bucket))
                race.between()
                if bucket.reserve(need, at) == 0.0:
                    under_way[worker].append((len(began), need))
                    used[len(began)] = need
                    began.append((at, held))
            elif under_way[worker]:
                number, need = under_way[worker].pop()
                used[number] = need * (size % 2)
                bucket.settle(need, used[number] * 60 // WINDOW_NS, at)

        race = Race(steps, act)
        for bucket in buckets:
            for part in ("_bases", "_takens"):
                setattr(bucket, part, Watched(getattr(bucket, part), race.between))
        race.run()
        for first, (start, held) in enumerate(began):
            total = 0
            for number in range(first, len(began)):
                total += used[number]
                window = (began[number][0] - start) * 1e9
                most = WINDOW_NS * count + max(window, 0) + held + 100_000
                self.assertLessEqual(total, most)
        for bucket, mine in zip(buckets, under_way, strict=True):
            for _, need in mine:
                bucket.settle(need, 0, now)
        self.assertEqual([0] * count, self.held(buckets[0]))
        # And nothing is lost by them for longer than it takes to fill up.
        self.assertEqual(0.0, buckets[0].reserve(WINDOW_NS, now + 120.0 + 60.0 * count))

    def test_two_who_find_it_full_at_once(self) -> None:
        """What both of them reserve counts."""
        first, second = self.buckets(2, 60)
        slots = first._bases
        waits: list[float] = []

        def other() -> None:
            waits.append(second.reserve(second.need(50), 1000.0))

        first._bases = cast(Any, Watched(slots, other))
        self.assertEqual(0.0, first.reserve(first.need(50), 1000.0))
        self.assertEqual([0.0], waits)
        first._bases = slots
        # Forty more than there were.
        self.assertAlmostEqual(45.0, second.reserve(second.need(5), 1000.0))
        second.settle(second.need(50), 0, 1000.0)
        first.settle(first.need(50), 0, 1000.0)
        self.assertEqual(0.0, first.reserve(first.need(60), 1000.0))

    def test_a_worker_that_dies(self) -> None:
        """What it had reserved comes back; what it had used stays used."""
        first, second = self.buckets(2, 60)
        self.assertEqual(0.0, first.reserve(first.need(20), 1000.0))
        first.settle(first.need(20), 10, 1000.0)
        self.assertEqual(0.0, first.reserve(first.need(30), 1000.0))
        self.assertEqual(0.0, second.reserve(second.need(15), 1000.0))
        self.assertAlmostEqual(25.0, second.reserve(second.need(30), 1000.0))
        self.workers.parent.clear(0)
        self.assertEqual(0.0, second.reserve(second.need(35), 1000.0))
        self.assertAlmostEqual(1.0, second.reserve(second.need(1), 1000.0))

    def test_debts_have_a_bound(self) -> None:
        """However much several workers' answers came to, after two minutes the bucket is full."""
        buckets = self.buckets(3, 60)
        for bucket in buckets:
            self.assertEqual(0.0, bucket.reserve(bucket.need(20), 1000.0))
        for bucket in buckets:
            bucket.settle(bucket.need(20), 10**9, 1000.0)
        self.assertAlmostEqual(61.0, buckets[0].reserve(buckets[0].need(1), 1000.0), places=4)
        self.assertEqual(0.0, buckets[1].reserve(WINDOW_NS, 1120.0))

    def test_a_clock_that_goes_back(self) -> None:
        """The worst that comes of it is an empty bucket; one old look changes nothing."""
        first, second = self.buckets(2, 60)
        self.assertEqual(0.0, second.reserve(WINDOW_NS, 10_000.0))
        need = first.need(1)
        self.assertAlmostEqual(1.0, first.reserve(need, 4.0), places=4)
        self.assertGreater(second.reserve(need, 10_000.5), 0.4)
        for now in (4.0, 5.0):
            self.assertGreater(first.reserve(need, now), 0.0)
        self.assertEqual(0.0, second.reserve(need, 6.01))
        self.assertEqual(0.0, first.reserve(WINDOW_NS, 67.1))

    def test_a_key_without_a_row(self) -> None:
        """Each worker gives it an equal part; with a row, what it had reserved is seen by all."""
        workers = Workers(4, max_rows=2)
        self.addCleanup(workers.close)
        limits = [SharedKeyLimits(shared) for shared in workers.all]
        for one in limits:
            use_of(one, digest("first"))
        uses = [use_of(one, KEY) for one in limits]
        self.flushLoggedErrors()
        buckets = [SharedAmountBucket(60, use) for use in uses]
        for bucket in buckets:
            self.assertEqual(0.0, bucket.reserve(bucket.need(15), 1000.0))
            self.assertGreater(bucket.reserve(bucket.need(1), 1000.0), 0.0)
        buckets[3].settle(buckets[3].need(15), 15, 1000.0)
        self.assertGreater(buckets[3].reserve(buckets[3].need(1), 1000.0), 0.0)
        needs = [bucket.need(15) for bucket in buckets]
        self.assertFalse(uses[0].idle)
        for one in limits:
            one.keep([KEY])
        for one, use in zip(limits, uses, strict=True):
            self.assertIs(use, use_of(one, KEY))
        self.assertEqual([*needs[:3], 0], self.held(buckets[0]))
        for bucket, need in zip(buckets[:3], needs, strict=False):
            bucket.settle(need, 0, 1000.0)
        self.assertEqual([0] * 4, self.held(buckets[0]))
        self.assertTrue(all(use.idle for use in uses))
