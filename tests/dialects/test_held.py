"""The bound over all that answers keep back."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.held import LITTLE_BYTES, HeldBytes, Hold

sizes = st.sampled_from([0, 1, LITTLE_BYTES, LITTLE_BYTES + 1, 10_000, 50_000])


class HoldTests(SynchronousTestCase):
    def test_little_is_not_counted(self) -> None:
        """What a holder has up to a bound has always room."""
        held = HeldBytes(limit=0)
        self.assertTrue(Hold(held).keep(LITTLE_BYTES))
        self.assertFalse(Hold(held).keep(LITTLE_BYTES + 1))
        self.assertEqual(0, held.bytes)

    def test_shared(self) -> None:
        """All holders have one bound, and who goes makes room."""
        held = HeldBytes(limit=20_000)
        first, second = Hold(held), Hold(held)
        self.assertTrue(first.keep(15_000))
        self.assertFalse(second.keep(5_001))
        self.assertTrue(second.keep(5_000))
        self.assertEqual(20_000, held.bytes)
        del first
        self.assertEqual(5_000, held.bytes)
        self.assertTrue(second.keep(20_000))

    @given(st.lists(st.tuples(st.integers(0, 3), sizes, st.booleans()), max_size=30))
    @settings(max_examples=200, deadline=None)
    def test_any_story(self, steps: list[tuple[int, int, bool]]) -> None:
        """The sum is that of the holders, and never over the bound."""
        held = HeldBytes(limit=70_000)
        holds = [Hold(held) for _ in range(4)]
        for number, size, goes in steps:
            kept = holds[number].keep(size)
            self.assertEqual(size if kept and size > LITTLE_BYTES else 0, holds[number].bytes)
            if goes:
                holds[number] = Hold(held)
            self.assertEqual(sum(hold.bytes for hold in holds), held.bytes)
            self.assertLessEqual(held.bytes, held.limit)
        holds.clear()
        self.assertEqual(0, held.bytes)
