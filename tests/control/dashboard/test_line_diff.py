"""Tests for omnigate.control.dashboard.line_diff."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import line_diff
from omnigate.control.dashboard.line_diff import Block, compare


def blocks(old: Sequence[str], new: Sequence[str]) -> tuple[list[Block], int]:
    """The blocks, and how many steps they took."""
    steps, count = compare(old, new), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Block] = end.value
            return found, count
        count += 1


def patched(old: Sequence[str], new: Sequence[str], found: Sequence[Block]) -> list[str]:
    """The old text with each block replaced."""
    made: list[str] = []
    at = 0
    for block in found:
        made += [*old[at : block.old[0]], *new[slice(*block.new)]]
        at = block.old[1]
    return [*made, *old[at:]]


class CompareTests(SynchronousTestCase):
    """What is different."""

    def check(self, old: Sequence[str], new: Sequence[str]) -> list[Block]:
        """Compare, and hold what is true of every comparison."""
        found, _ = blocks(old, new)
        self.assertEqual(patched(old, new, found), list(new))
        at = 0, 0
        for block in found:
            # The lines in between are equal, and no block is empty.
            self.assertEqual(old[at[0] : block.old[0]], new[at[1] : block.new[0]])
            self.assertLess((block.old[0], block.new[0]), (block.old[1], block.new[1]))
            at = block.old[1], block.new[1]
        return found

    def test_ends(self) -> None:
        """Equal texts, empty ones, and lines that come at an end or go."""
        self.assertEqual(self.check("abc", "abc"), [])
        self.assertEqual(self.check("", ""), [])
        self.assertEqual(self.check("", "ab"), [Block((0, 0), (0, 2))])
        self.assertEqual(self.check("ab", ""), [Block((0, 2), (0, 0))])
        self.assertEqual(self.check("bc", "abcd"), [Block((0, 0), (0, 1)), Block((2, 2), (3, 4))])

    def test_a_changed_line(self) -> None:
        """Only that is told."""
        self.assertEqual(self.check("abcde", "abXde"), [Block((2, 3), (2, 3))])

    def test_pieces_that_look_alike(self) -> None:
        """Tables of a config have most of their lines in common."""
        old = [text for n in range(300) for text in ("[[t]]", f"n = {n}", "w = 1", "")]
        new = [*old[:400], "[[t]]", "n = x", "w = 1", "", *old[400:800], "w = 2", *old[801:]]
        self.assertEqual(
            sum(
                block.old[1] - block.old[0] + block.new[1] - block.new[0]
                for block in self.check(old, new)
            ),
            6,
        )

    @given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
    def test_few_words(self, old: list[str], new: list[str]) -> None:
        """Whatever the texts, the blocks lead from one to the other."""
        self.check(old, new)

    @given(st.permutations(range(40)), st.integers(0, 9), st.integers(1, 5))
    def test_much_that_moved(self, order: list[int], lost: int, fine: int) -> None:
        """The same without the help of difflib, and with little depth."""
        old = [str(n) for n in range(40)]
        new = [str(n) for n in order][lost:]
        before = line_diff.MAX_FINE_LINES, line_diff.MAX_DEPTH
        self.patch(line_diff, "MAX_FINE_LINES", fine)
        self.patch(line_diff, "MAX_DEPTH", lost % 3)
        self.check(old, new)
        self.patch(line_diff, "MAX_FINE_LINES", before[0])
        self.patch(line_diff, "MAX_DEPTH", before[1])

    def test_long_texts_take_steps(self) -> None:
        """As many as they have lines in thousands, and hardly more where nothing fits."""
        chance = Random("long")
        old = [f"{chance.random()}" for _ in range(20_000)]
        for new in (
            [*old[:9_000], "new", *old[9_000:]],
            old[::-1],
            [f"{chance.random()}" for _ in range(20_000)],
            ["same"] * 20_000,
        ):
            found, steps = blocks(old, new)
            self.assertEqual(patched(old, new, found), new)
            self.assertGreaterEqual(steps, 3)
            self.assertLess(steps, 200)
        found, steps = blocks(["same", "other"] * 10_000, ["other", "same", "x"] * 9_000)
        self.assertLess(steps, 200)

    def test_many_pieces_take_steps(self) -> None:
        """A pass over the pieces of a text gives way just as one over its lines does."""
        self.patch(line_diff, "LINES_A_STEP", 10)
        self.patch(line_diff, "MAX_FINE_PIECES", 0)
        old = [str(number) for number in range(2_000)]
        found, steps = blocks(
            old, [f"{line}x" if number % 2 else line for number, line in enumerate(old)]
        )
        self.assertEqual(len(found), 1_000)
        # Over both texts twice; over the places where they are cut, to find and to use them; over
        # the pieces, three lines each.
        self.assertGreaterEqual(steps, (4 * 2_000 + 2 * 1_000) // 10 + 1_000 // 4 - 10)
