"""A body that is gathered is the body that came, however it was cut."""

import sys

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.gather import SMALL_BYTES, Gathered


class GatheredTests(SynchronousTestCase):
    @settings(max_examples=200)
    @given(st.lists(st.sampled_from((0, 1, 7, 1400, SMALL_BYTES - 1, SMALL_BYTES, 65536))))
    def test_any_cuts(self, sizes: list[int]) -> None:
        """Every byte is there, once and in its place."""
        gathered = Gathered()
        pieces = [bytes((number % 251,)) * size for number, size in enumerate(sizes)]
        for piece in pieces:
            gathered.add(piece)
        self.assertEqual(gathered.join(), b"".join(pieces))

    def test_tiny_reads_weigh_little(self) -> None:
        """What is held of reads of two bytes is not much more than they are."""
        gathered = Gathered()
        for _ in range(200_000):
            gathered.add(b"ab")
        held = sum(map(sys.getsizeof, (*gathered._pieces, gathered._small)))
        self.assertLess(held, 1.3 * 400_000)

    def test_large_reads_are_kept_as_they_are(self) -> None:
        """A read of a usual size is not copied before the join."""
        gathered = Gathered()
        read = b"x" * 65536
        gathered.add(b"head")
        gathered.add(read)
        self.assertIs(gathered._pieces[-1], read)
