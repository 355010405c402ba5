"""Failed sign-ins counted by address and minute."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.sign_in_tallies import MAX_ADDRESSES, OTHERS, SignInTallies


class TallyTests(SynchronousTestCase):
    def test_a_minute(self) -> None:
        """The first is told, the others are counted until a minute after it, by reason."""
        tallies = SignInTallies()
        self.assertTrue(tallies.failed("10.0.0.1", "wrong", 0.0))
        self.assertEqual(
            [tallies.failed("10.0.0.1", "wrong", 1.0 * n) for n in range(3)], [False] * 3
        )
        self.assertFalse(tallies.failed("10.0.0.1", "locked", 59.9))
        self.assertEqual((tallies.next_end(), tallies.take(59.9)), (60.0, []))
        (tally,) = tallies.take(60.0)
        self.assertEqual((tally.address, tally.repeats), ("10.0.0.1", 4))
        self.assertEqual(tally.reasons, {"wrong": 3, "locked": 1})
        self.assertTrue(tallies.failed("10.0.0.1", "wrong", 60.0))

    def test_alone(self) -> None:
        """One that stays the only one has no summary."""
        tallies = SignInTallies()
        tallies.failed("10.0.0.1", "wrong", 0.0)
        self.assertEqual((tallies.take(60.0), len(tallies), tallies.next_end()), ([], 0, None))

    def test_one_network(self) -> None:
        """The addresses of one IPv6 /64 are one."""
        tallies = SignInTallies()
        self.assertTrue(tallies.failed("2001:db8::1", "wrong", 0.0))
        self.assertFalse(tallies.failed("2001:db8::2", "wrong", 0.0))
        self.assertTrue(tallies.failed("2001:db8:0:1::2", "wrong", 0.0))

    def test_from_everywhere(self) -> None:
        """More addresses than there are tallies for share one, and nothing is left uncounted."""
        tallies = SignInTallies()
        first = sum(tallies.failed(f"10.0.{n // 200}.{n % 200}", "wrong", 0.0) for n in range(2000))
        self.assertEqual((first, len(tallies)), (MAX_ADDRESSES + 1, MAX_ADDRESSES + 1))
        (others,) = tallies.take()
        self.assertEqual((others.address, others.repeats), (OTHERS, 2000 - MAX_ADDRESSES - 1))

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 40)), max_size=60))
    def test_every_one_is_told_once(self, failures: list[tuple[int, float]]) -> None:
        """Lines and repeats together are the failures there were, in whatever order."""
        tallies, now, told = SignInTallies(max_addresses=3), 0.0, 0
        for number, wait in failures:
            now += wait
            told += sum(tally.repeats for tally in tallies.take(now))
            told += tallies.failed(f"10.0.0.{number}", "wrong", now)
            self.assertLessEqual(len(tallies), 4)
        told += sum(tally.repeats for tally in tallies.take())
        self.assertEqual((told, len(tallies)), (len(failures), 0))
