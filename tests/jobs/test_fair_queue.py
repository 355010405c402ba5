"""The queue in which keys take turns."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.fair_queue import FairQueue

KEYS = "abc"


class SlowQueue:
    """The same by lists that are searched each time."""

    def __init__(self, max_running: int, max_per_key: int) -> None:
        self.sizes = max_running, max_per_key
        self.waiting: list[tuple[str, int]] = []
        self.running: list[str] = []
        self.ring: list[str] = []

    def settle(self) -> None:
        """Let keys leave the ring that have no place in it, and those join that have one now."""
        wanted = [key for key, _ in self.waiting if self.running.count(key) < self.sizes[1]]
        self.ring = [key for key in self.ring if key in wanted]
        for key in wanted:
            if key not in self.ring:
                self.ring.append(key)

    def put(self, key: str, item: int) -> bool:
        if any(item == other for _, other in self.waiting):
            return False
        self.waiting.append((key, item))
        self.settle()
        return True

    def remove(self, item: int) -> bool:
        left = [pair for pair in self.waiting if pair[1] != item]
        found = len(left) < len(self.waiting)
        self.waiting = left
        self.settle()
        return found

    def next(self) -> int | None:
        if len(self.running) >= self.sizes[0] or not self.ring:
            return None
        key = self.ring.pop(0)
        place = [other for other, _ in self.waiting].index(key)
        item = self.waiting.pop(place)[1]
        self.running.append(key)
        self.settle()
        return item

    def done(self, key: str) -> None:
        self.running.remove(key)
        self.settle()

    def resize(self, max_running: int, max_per_key: int) -> None:
        self.sizes = max_running, max_per_key
        self.settle()


class FairQueueTests(SynchronousTestCase):
    def test_keys_take_turns(self) -> None:
        """A key with one item waits for one turn of the other, not for all it has put there."""
        queue: FairQueue[str] = FairQueue(1, 1)
        for n in range(100):
            queue.put("many", f"many {n}")
        queue.put("one", "one")
        self.assertEqual("many 0", queue.next())
        self.assertIs(None, queue.next())
        queue.done("many")
        self.assertEqual("one", queue.next())

    def test_a_key_leaves_room(self) -> None:
        """A key runs no more than it may, also while nobody else wants anything."""
        queue: FairQueue[int] = FairQueue(16, 4)
        for n in range(10):
            queue.put("a", n)
        self.assertEqual([0, 1, 2, 3, None], [queue.next() for _ in range(5)])
        self.assertEqual((4, 6), (queue.running, queue.waiting))
        queue.put("b", 10)
        self.assertEqual([10, None], [queue.next(), queue.next()])

    def test_it_has_a_bound(self) -> None:
        """What finds no room is not taken, and can be put again later."""
        queue: FairQueue[int] = FairQueue(1, 1, max_waiting=2)
        self.assertEqual([True, True, False], [queue.put("a", n) for n in range(3)])
        queue.next()
        self.assertTrue(queue.put("b", 2))

    def test_what_waits_is_known(self) -> None:
        """An item waits from when it was put until its turn, and can be put again then."""
        queue: FairQueue[int] = FairQueue(1, 1)
        queue.put("a", 7)
        self.assertFalse(queue.put("b", 7))
        self.assertIn(7, queue)
        queue.next()
        self.assertNotIn(7, queue)
        self.assertTrue(queue.put("a", 7))

    def test_sizes_that_let_nothing_out(self) -> None:
        """A queue that nothing could ever leave is refused."""
        with self.assertRaises(ValueError):
            FairQueue(0, 1)
        with self.assertRaises(ValueError):
            FairQueue(1, 1).resize(1, 0)

    def test_more_room_is_for_whoever_has_waited_longest(self) -> None:
        """Not for the key whose line began first, of which something was taken since."""
        queue: FairQueue[str] = FairQueue(2, 1)
        queue.put("a", "a 0")
        queue.put("c", "c 0")
        self.assertEqual("a 0", queue.next())
        queue.put("a", "a 1")
        queue.put("c", "c 1")
        self.assertEqual("c 0", queue.next())
        queue.resize(4, 2)
        self.assertEqual(["a 1", "c 1"], [queue.next(), queue.next()])

    def test_done_of_what_does_not_run(self) -> None:
        """Counting a thing twice is a fault that is told of."""
        queue: FairQueue[int] = FairQueue(1, 1)
        queue.put("a", 1)
        with self.assertRaises(ValueError):
            queue.done("a")

    def test_nothing_stays_behind(self) -> None:
        """A key that has nothing waiting and nothing running takes no memory."""
        queue: FairQueue[int] = FairQueue(2, 1)
        for n in range(50):
            queue.put(f"key {n}", n)
            queue.put("other", -n - 1)
            queue.remove(-n - 1)
            queue.next()
            queue.done(f"key {n}")
        kept = (queue._key_of, queue._lines, queue._running_of, queue._ring)
        self.assertEqual([0, 0, 0, 0], [len(table) for table in kept])

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 9)),
                st.tuples(st.just("remove"), st.integers(0, 9)),
                st.tuples(st.just("next")),
                st.tuples(st.just("done"), st.sampled_from(KEYS)),
                st.tuples(st.just("resize"), st.integers(1, 4), st.integers(1, 3)),
            ),
            max_size=60,
        )
    )
    def test_as_the_slow_one(self, calls: list[tuple[object, ...]]) -> None:
        """Whatever is asked of it, it says what a queue of searched lists says."""
        slow, quick = SlowQueue(2, 1), FairQueue[int](2, 1)
        for name, *arguments in calls:
            if name == "done" and arguments[0] not in slow.running:
                continue
            expected = getattr(slow, str(name))(*arguments)
            self.assertEqual(expected, getattr(quick, str(name))(*arguments), calls)
            self.assertEqual(len(slow.running), quick.running)
            self.assertEqual(len(slow.waiting), quick.waiting)
