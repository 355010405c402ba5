"""One limit over all workers: exact where steps do not race, else over by one for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import GatewayError
from omnigate.gateway.admission import Admission, KeyUse, Ticket
from omnigate.gateway.parse_memory import ParseMemory, Reservation
from omnigate.gateway.shared_limits import (
    SharedBucket,
    SharedKeyLimits,
    SharedParseMemory,
)
from omnigate.token_bucket import TokenBucket
from tests.gateway.sharing import KEY, Place, Watched, Workers, digest, use_of

#: A step of a race: a worker, whether it asks or gives back, a size, and how many of the steps that
#: follow come between its reading and its writing.
Step = tuple[int, bool, int, int]


def races(workers: int) -> st.SearchStrategy[list[Step]]:
    """Steps of workers, and others' steps within them."""
    step = st.tuples(
        st.integers(0, workers - 1),
        st.booleans(),
        st.integers(0, 60),
        st.sampled_from([0, 0, 1, 2, 4]),
    )
    return st.lists(step, max_size=60)


class Race:
    """Plays steps: while a worker is between reading and writing, others take their turns.

    :param act: what a worker does, given whether it asks, and the size.
    """

    def __init__(self, steps: list[Step], act: Callable[[int, bool, int], None]) -> None:
        self._steps = iter(steps)
        self._act = act
        self._within: list[tuple[int, int]] = []

    @property
    def alone(self) -> bool:
        """Whether no other worker is between reading and writing."""
        return len(self._within) < 2

    def run(self) -> None:
        """Play them all."""
        for step in self._steps:
            self._play(step)

    def between(self) -> None:
        """The one at work has read, and not written yet."""
        if self._within:
            for _ in range(self._within[-1][1]):
                step = next(self._steps, None)
                if step is not None:
                    self._play(step)

    def _play(self, step: Step) -> None:
        worker, asks, size, inner = step
        if all(worker != busy for busy, _ in self._within):
            self._within.append((worker, inner))
            self._act(worker, asks, size)
            self._within.pop()


class InFlightTests(SynchronousTestCase):
    @settings(max_examples=150, deadline=None)
    @given(
        st.integers(1, 5),
        st.lists(
            st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 60), st.booleans()),
            max_size=60,
        ),
    )
    def test_as_one_counter(self, count: int, steps: list[tuple[int, int, int, bool]]) -> None:
        """Where steps do not race, many workers refuse what a single process would, and say so."""
        workers = Workers(count)
        try:
            keys = [digest(n) for n in range(5)]
            places = [Place(shared, 400) for shared in workers.all]
            shared_uses = [place.uses(keys) for place in places]
            single, uses = Admission(400, 4), [KeyUse() for _ in keys]
            held: list[tuple[Ticket, Ticket]] = []
            for worker, which, size, give_back in steps:
                if give_back and held:
                    for ticket in held.pop(size % len(held)):
                        ticket.release()
                        ticket.release()
                    continue
                place, shared_use = places[worker % count], shared_uses[worker % count][which]
                outcomes: list[Any] = []
                for enter in (
                    partial(single.enter, uses[which]),
                    partial(place.admission.enter, shared_use),
                ):
                    try:
                        outcomes.append(enter(4, size))
                    except GatewayError as error:
                        outcomes.append((error.kind.code, error.message, error.retry_after))
                if isinstance(outcomes[0], Ticket):
                    held.append((outcomes[0], outcomes[1]))
                else:
                    self.assertEqual(outcomes[0], outcomes[1])
                for number, use in enumerate(uses):
                    of_key = [mine[number] for mine in shared_uses]
                    self.assertEqual(use.in_flight, sum(one.in_flight for one in of_key))
                    self.assertEqual(use.memory_bytes, sum(one.memory_bytes for one in of_key))
                    for one in of_key:
                        self.assertEqual(use.in_flight, sum(one.in_flights))
                        self.assertEqual(use.memory_bytes, sum(one.memories))
                for place in places:
                    self.assertEqual(single.memory_bytes, sum(place.admission.memories))
            for pair in held:
                for ticket in pair:
                    ticket.release()
            for one in chain(*shared_uses):
                self.assertTrue(one.idle)
                self.assertEqual((0, 0), (sum(one.in_flights), sum(one.memories)))
            self.assertEqual([0] * count, list(places[0].admission.memories))
        finally:
            workers.close()

    @settings(max_examples=300, deadline=None)
    @given(st.integers(2, 4).flatmap(lambda count: st.tuples(st.just(count), races(count))))
    def test_races(self, given_: tuple[int, list[Step]]) -> None:
        """Whoever decides on what has changed since: over by one for each other worker at most."""
        count, steps = given_
        limit, budget = 3, 100_000
        workers = Workers(count)
        try:
            places = [Place(shared, budget) for shared in workers.all]

            def act(worker: int, asks: bool, _: int) -> None:
                place = places[worker]
                if not asks:
                    if place.tickets:
                        place.tickets.pop().release()
                    return
                try:
                    place.tickets.append(place.admission.enter(place.use, limit, 0))
                except GatewayError as error:
                    self.assertEqual("concurrency_limit_exceeded", error.kind.code)
                total = sum(len(place.tickets) for place in places)
                self.assertLessEqual(total, limit + count - 1)

            race = Race(steps, act)
            for place in places:
                place.use.in_flights = cast(Any, Watched(place.use.in_flights, race.between))
            race.run()
            for place in places:
                for ticket in place.tickets:
                    ticket.release()
            self.assertEqual([0] * count, list(places[0].use.in_flights))
        finally:
            workers.close()

    def test_all_memory_for_bodies(self) -> None:
        """Four keys that have their share leave no room to a fifth, in whichever worker."""
        workers = Workers(2)
        self.addCleanup(workers.close)
        places = [Place(shared, 400) for shared in workers.all]
        keys = [digest(n) for n in range(5)]
        uses = [place.uses(keys) for place in places]
        tickets = [places[n % 2].admission.enter(uses[n % 2][n], 4, 50) for n in range(4)]
        for place, mine in zip(places, uses, strict=True):
            with self.assertRaises(GatewayError) as caught:
                place.admission.enter(mine[4], 4, 1)
            self.assertEqual("overloaded", caught.exception.kind.code)
            place.admission.enter(mine[4], 4, 0).release()
        tickets[1].release()
        for place, mine in zip(places, uses, strict=True):
            place.admission.enter(mine[4], 4, 50).release()

    def test_every_race_there_is(self) -> None:
        """The rule itself, slot by slot, in every order: the bound is reached and never passed."""
        for count, limit in ((2, 1), (2, 4), (3, 2)):
            self.assertEqual(limit + count - 1, worst(count, limit), (count, limit))

    def test_a_crowd_at_one_moment(self) -> None:
        """All workers decide at once: each other one lets in one too many, and then nobody more."""
        workers = Workers(4)
        self.addCleanup(workers.close)
        places = [Place(shared, 1000) for shared in workers.all]
        places[0].tickets = [places[0].admission.enter(places[0].use, 5, 0) for _ in range(4)]
        order = iter(places[1:])

        def next_one() -> None:
            place = next(order, None)
            if place is not None:
                place.tickets.append(place.admission.enter(place.use, 5, 0))

        for place in places:
            place.use.in_flights = cast(Any, Watched(place.use.in_flights, next_one))
        places[0].tickets.append(places[0].admission.enter(places[0].use, 5, 0))
        self.assertEqual(5 + 3, sum(places[2].use.in_flights))
        for place in places:
            with self.assertRaises(GatewayError):
                place.admission.enter(place.use, 5, 0)


def worst(count: int, limit: int) -> int:
    """The most that are in flight at once over all orders of single reads and writes.

    A worker asks by reading the others' slots one after the other, then writes its own; or it gives
    back. A state is the slots, and of each worker what it has read so far.
    """
    start = ((0,) * count, (None,) * count)
    seen: set[Any] = {start}
    todo: list[Any] = [start]
    most = 0
    while todo:
        slots, reading = todo.pop()
        most = max(most, sum(slots))
        for worker in range(count):
            for after in moves(slots, reading, worker, limit):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return most


def moves(slots: Any, reading: Any, worker: int, limit: int) -> Iterator[Any]:
    """What may come next of one worker."""

    def with_(values: Any, value: Any) -> Any:
        return (*values[:worker], value, *values[worker + 1 :])

    state = reading[worker]
    if state is None:
        yield slots, with_(reading, (0, 0))
        if slots[worker]:
            yield with_(slots, slots[worker] - 1), reading
        return
    at, total = state
    if at < len(slots):
        yield slots, with_(reading, (at + 1, total + slots[at]))
    elif total < limit:
        yield with_(slots, slots[worker] + 1), with_(reading, None)
    else:
        yield slots, with_(reading, None)


class ParseMemoryTests(SynchronousTestCase):
    @settings(max_examples=100, deadline=None)
    @given(
        st.integers(1, 4),
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 300), st.booleans()),
            max_size=50,
        ),
    )
    def test_as_one_counter(self, count: int, steps: list[tuple[int, int, int, bool]]) -> None:
        """Room for trees is given as a single process gives it, and given back once."""
        workers = Workers(count)
        try:
            keys = [digest(n) for n in range(3)]
            limits = [SharedKeyLimits(shared) for shared in workers.all]
            uses = [[use_of(one, name) for name in keys] for one in limits]
            memories = [SharedParseMemory(1000, shared) for shared in workers.all]
            single, plain = ParseMemory(1000), [KeyUse() for _ in keys]
            held: list[tuple[Reservation, Reservation]] = []
            for worker, which, size, give_back in steps:
                if give_back and held:
                    for room in held.pop(size % len(held)):
                        room.release()
                        room.release()
                    continue
                worker %= count
                refusals: list[str] = []
                rooms: list[Reservation] = []
                for memory, use in (
                    (single, plain[which]),
                    (memories[worker], uses[worker][which]),
                ):
                    try:
                        rooms.append(memory.reserve(cast(Any, use), size))
                    except GatewayError as error:
                        refusals.append(f"{error.kind.code} {error.message}")
                self.assertIn((len(rooms), len(set(refusals))), {(2, 0), (0, 1)})
                if rooms:
                    held.append((rooms[0], rooms[1]))
                self.assertEqual(single.bytes, sum(memory.bytes for memory in memories))
            for pair in held:
                for room in pair:
                    room.release()
            self.assertEqual([0] * count, [memory.bytes for memory in memories])
            self.assertTrue(all(use.idle for use in chain(*uses)))
        finally:
            workers.close()


class BucketTests(SynchronousTestCase):
    def buckets(self, count: int, rpm: int) -> list[SharedBucket]:
        """One bucket, as each of the workers has it."""
        workers = Workers(count)
        self.addCleanup(workers.close)
        limits = [SharedKeyLimits(shared) for shared in workers.all]
        return [SharedBucket(rpm, use_of(one, KEY)) for one in limits]

    @settings(max_examples=200, deadline=None)
    @given(
        st.integers(1, 5),
        st.sampled_from([1, 2, 7, 60, 600]),
        # Milliseconds, and those that make a bucket full again among them.
        st.lists(
            st.tuples(
                st.integers(0, 4),
                st.one_of(st.integers(0, 2000), st.sampled_from([0, 60_000, 100_000])),
                st.sampled_from([0, 0, 0, 0, 1, 30, 120]),
            ),
            max_size=60,
        ),
    )
    def test_as_one_bucket(self, count: int, rpm: int, steps: list[tuple[int, int, int]]) -> None:
        """Where steps do not race, workers take, wait and change the rate as one bucket does."""
        buckets = self.buckets(count, rpm)
        single = TokenBucket(rpm)
        now_ms = 1_000_000
        for worker, pause, rate in steps:
            # Half a millisecond beside the limits, so that a rounding decides nothing.
            now_ms += pause
            now = (now_ms + 0.5) / 1000
            if rate:
                for one in (single, *buckets):
                    one.resize(rate, now)
            for _ in range(3):
                wanted, got = single.take(now), buckets[worker % count].take(now)
                self.assertAlmostEqual(wanted, got, places=4)
                self.assertEqual(wanted == 0.0, got == 0.0)

    @settings(max_examples=300, deadline=None)
    @given(
        st.integers(2, 4).flatmap(lambda count: st.tuples(st.just(count), races(count))),
        st.sampled_from([1, 3, 12, 60]),
    )
    def test_races(self, given_: tuple[int, list[Step]], rpm: int) -> None:
        """Races give away one token for each other worker, in all and not one after the other."""
        count, steps = given_
        buckets = self.buckets(count, rpm)
        taken: list[float] = []
        now = 100_000.0

        def act(worker: int, many: bool, pause: int) -> None:
            nonlocal now
            # Nobody stands still for seconds.
            now += pause / (10 if race.alone else 1200)
            for _ in range(rpm if many else 1):
                at = now
                race.between()
                if buckets[worker].take(at) == 0.0:
                    taken.append(at)

        race = Race(steps, act)
        for bucket in buckets:
            for part in ("_bases", "_takens"):
                setattr(bucket, part, Watched(getattr(bucket, part), race.between))
        race.run()
        taken.sort()
        for number, first in enumerate(taken):
            for last in range(number, len(taken)):
                most = rpm + (taken[last] - first) * rpm / 60 + count - 1
                self.assertLessEqual(last - number + 1, most + 1e-6)
        # And nothing is lost by them for longer than it takes to fill up.
        quiet = now + 61.0 + count * 60 / rpm
        self.assertEqual(rpm, sum(buckets[0].take(quiet) == 0.0 for _ in range(rpm + 5)))

    def test_two_who_find_it_full_at_once(self) -> None:
        """Both of their tokens count."""
        first, second = self.buckets(2, 3)
        first_bases = first._bases
        waits: list[float] = []
        first._bases = cast(Any, Watched(first_bases, lambda: waits.append(second.take(1000.0))))
        self.assertEqual(0.0, first.take(1000.0))
        self.assertEqual([0.0], waits)
        self.assertEqual(0.0, second.take(1000.0))
        self.assertAlmostEqual(20.0, second.take(1000.0))

    def test_a_token_that_a_race_gave_away(self) -> None:
        """It is missing later: the next one comes as much later."""
        first, second = self.buckets(2, 60)
        for _ in range(59):
            first.take(1000.0)
        waits: list[float] = []
        slots = first._bases
        first._bases = cast(Any, Watched(slots, lambda: waits.append(second.take(1000.0))))
        self.assertEqual(0.0, first.take(1000.0))
        self.assertEqual([0.0], waits)
        first._bases = slots
        for bucket in (first, second):
            self.assertAlmostEqual(2.0, bucket.take(1000.0), places=4)
            self.assertAlmostEqual(0.5, bucket.take(1001.5), places=4)
        self.assertEqual(0.0, second.take(1002.0))
        self.assertAlmostEqual(1.0, first.take(1002.0), places=4)

    def test_a_rate_that_one_worker_knows_first(self) -> None:
        """What is in the bucket stays in proportion, while the others go by the rate before."""
        first, second = self.buckets(2, 60)
        for _ in range(30):
            first.take(1000.0)
        first.resize(600, 1000.0)
        self.assertEqual(100, sum(first.take(1000.0) == 0.0 for _ in range(100)))
        # A third of the bucket is left, whichever rate it is looked at with.
        self.assertEqual(20, sum(second.take(1000.0) == 0.0 for _ in range(60)))
        self.assertGreater(first.take(1000.0), 0.0)

    def test_a_clock_that_goes_back(self) -> None:
        """The worst that comes of it is an empty bucket, also where another worker saw it full."""
        first, second = self.buckets(2, 60)
        for _ in range(60):
            second.take(10_000.0)
        for now in (4.0, 5.0):
            wait = first.take(now)
            self.assertTrue(0 < wait <= 1.0)
        self.assertEqual(0.0, second.take(6.0))
        self.assertGreater(first.take(6.0), 0.0)
        self.assertEqual(10, sum(second.take(16.0) == 0.0 for _ in range(60)))
        self.assertEqual(60, sum(first.take(500.0) == 0.0 for _ in range(90)))

    def test_a_worker_that_stands_still(self) -> None:
        """One that looked at the clock long ago takes nothing that others have taken since."""
        first, second = self.buckets(2, 60_000)
        for step in range(4_000):
            for _ in range(16):
                first.take(1000.0 + step / 1000)
        # Empty at 1004; one that is still at 1000, 1001 and so on, has to wait until then.
        for late in (1000.0, 1001.0, 1003.9):
            self.assertAlmostEqual(1004.0 - late, second.take(late), places=2)
        self.assertEqual(0.0, first.take(1004.0))
        self.assertGreater(first.take(1004.0), 0.0)

    def test_a_worker_that_stands_still_for_long(self) -> None:
        """However long it was, and however often it happens, no token comes back."""
        first, second = self.buckets(2, 60)
        allowed, now = 60.0, 1000.0
        taken = sum(second.take(now) == 0.0 for _ in range(61))
        for seconds in (5, 6, 20, 29, 300, 3600, 20):
            looked_at = now
            for _ in range(seconds):
                now += 1.0
                allowed += 1.0
                taken += second.take(now) == 0.0
            self.assertGreater(first.take(looked_at), 0.0)
            taken += sum(second.take(now) == 0.0 for _ in range(61))
            # The next one of the worker that stood still looks at the clock again.
            self.assertTrue(0.0 < first.take(now) <= 1.0)
        self.assertEqual(allowed, taken)

    def test_no_limit(self) -> None:
        """A rate of 0 refuses nobody."""
        [only] = self.buckets(1, 0)
        self.assertEqual({0.0}, {only.take(5.0) for _ in range(1000)})


class KeyLimitsTests(SynchronousTestCase):
    def workers(self, count: int, max_rows: int = 16) -> Workers:
        workers = Workers(count, max_rows)
        self.addCleanup(workers.close)
        return workers

    def test_a_key_that_goes_with_requests_in_flight(self) -> None:
        """Its row stays its own until the last of them has ended."""
        [shared] = self.workers(1, max_rows=2).all
        place = Place(shared, 1000)
        ticket = place.admission.enter(place.use, 2, 10)
        place.limits.keep([])
        other = use_of(place.limits, digest("other"))
        self.assertTrue(other.alone)
        ticket.release()
        self.flushLoggedErrors()
        place.limits.keep([digest("other")])
        self.assertFalse(use_of(place.limits, digest("other")).alone or other.alone)
        # Whoever still has the first use touches nobody's row.
        late = place.admission.enter(place.use, 2, 10)
        self.assertEqual(0, sum(other.in_flights))
        late.release()

    def test_a_key_that_comes_back(self) -> None:
        """It finds what is still in flight, and what was taken from its bucket."""
        [shared] = self.workers(1).all
        place = Place(shared, 1000)
        bucket = place.limits.bucket(place.use, 2)
        self.assertEqual([0.0, 0.0], [bucket.take(1000.0) for _ in range(2)])
        ticket = place.admission.enter(place.use, 1, 0)
        place.limits.keep([])
        again = use_of(place.limits, KEY)
        with self.assertRaises(GatewayError):
            place.admission.enter(again, 1, 0)
        ticket.release()
        place.limits.keep([])
        again = use_of(place.limits, KEY)
        self.assertIsNot(place.use, again)
        self.assertGreater(place.limits.bucket(again, 2).take(1000.0), 0.0)

    def test_a_full_table(self) -> None:
        """A key without a row is given an equal part of its limits by each worker, of 1 at least;
        when there is room again, what it has in flight is counted in its row."""
        workers = self.workers(4, max_rows=2)
        places = [Place(shared, 4000, digest("first")) for shared in workers.all]
        uses = [use_of(place.limits, KEY) for place in places]
        for most, each in ((8, 2), (4, 1), (1, 1), (9, 3)):
            for place, use in zip(places, uses, strict=True):
                tickets = [place.admission.enter(use, most, 0) for _ in range(each)]
                with self.assertRaises(GatewayError):
                    place.admission.enter(use, most, 0)
                for ticket in tickets:
                    ticket.release()
        memory = SharedParseMemory(1000, workers.all[0])
        room = memory.reserve(uses[0], 125)
        with self.assertRaises(GatewayError):
            memory.reserve(uses[0], 1)
        room.release()
        for rpm, each in ((1, 1), (2, 1), (8, 2), (60, 15)):
            for place, use in zip(places, uses, strict=True):
                use.move(use.row, alone=True)
                bucket = place.limits.bucket(use, rpm)
                at = 10_000.0 * rpm
                got = sum(bucket.take(at) == 0.0 for _ in range(rpm + 1))
                self.assertEqual(each, got, rpm)
                self.assertLessEqual(bucket.take(at), 240.0 / rpm + 1e-5)
        held = [place.admission.enter(use, 8, 5) for place, use in zip(places, uses, strict=True)]
        bucket = places[0].limits.bucket(uses[0], 100)
        bucket.take(1e6)
        for place in places:
            place.limits.keep([KEY])
        for place, use in zip(places, uses, strict=True):
            self.assertIs(use, use_of(place.limits, KEY))
        self.assertEqual([1] * 4, list(uses[0].in_flights))
        self.assertEqual([10] * 4, list(uses[0].memories))
        self.assertEqual(100, sum(bucket.take(1e6) == 0.0 for _ in range(200)))
        for ticket in held:
            ticket.release()
        self.assertEqual([0] * 4, list(uses[0].in_flights))

    def test_without_room_it_is_said(self) -> None:
        """The log tells how many keys share no counter, and what holds for them."""
        [shared] = self.workers(1, max_rows=3).all
        with capturedLogs() as logged:
            SharedKeyLimits(shared).uses([digest(n) for n in range(5)])
        events = [event for event in logged if "have no row" in event["log_format"]]
        self.assertEqual([(3, 2)], [(event["count"], event["most"]) for event in events])
