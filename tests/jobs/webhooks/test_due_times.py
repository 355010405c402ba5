"""When deliveries are due."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.webhooks.due_times import DueTimes


class DueTimesTests(SynchronousTestCase):
    def test_in_order(self) -> None:
        """What has been due for longest comes first, and what is not due does not come."""
        times = DueTimes()
        for name, due_ms in (("c", 30), ("a", 10), ("b", 20)):
            times.put(name, due_ms)
        self.assertEqual(10, times.first_ms())
        self.assertEqual(["a", "b", None], [times.take(25) for _ in range(3)])
        self.assertEqual(["c", None], [times.take(30), times.take(99)])
        self.assertIs(None, times.first_ms())

    def test_it_stays_small(self) -> None:
        """A name that is moved again and again takes no more room for that."""
        times = DueTimes()
        for n in range(10_000):
            times.put("a", 100_000 - n)
        self.assertEqual(1, len(times))
        self.assertTrue(len(times._heap) < 1_100)
        self.assertEqual("a", times.take(10**6))

    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("put"), st.sampled_from("abcd"), st.integers(0, 20)),
                st.tuples(st.just("drop"), st.sampled_from("abcd")),
                st.tuples(st.just("take"), st.integers(0, 20)),
            )
        )
    )
    def test_as_a_table(self, calls: list[tuple[object, ...]]) -> None:
        """Whatever is asked of it, it is a table that is searched for its least."""
        times, table = DueTimes(), dict[str, int]()
        for name, *arguments in calls:
            if name == "take":
                now = arguments[0]
                assert isinstance(now, int)
                due = sorted((due_ms, name) for name, due_ms in table.items() if due_ms <= now)
                expected = due[0][1] if due else None
                table.pop(expected or "", None)
                self.assertEqual(expected, times.take(now))
            else:
                getattr(times, str(name))(*arguments)
                if name == "put":
                    table[str(arguments[0])] = arguments[1]  # type: ignore[assignment]
                else:
                    table.pop(str(arguments[0]), None)
            self.assertEqual(min(table.values(), default=None), times.first_ms())
            self.assertEqual((len(table), "a" in table), (len(times), "a" in times))
