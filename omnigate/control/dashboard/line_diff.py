"""Two texts compared line by line, in steps that stay short however long the texts are.

``difflib`` takes a time that grows with the square of what it is given and worse. Here texts are
cut at the lines that each of them has exactly once, in the same order (the idea of Bram Cohen's
patience diff), again and again; what remains between the cuts is small as a rule, and is compared
by ``difflib``. What is not small, or comes up too often, counts as replaced whole: less exact, and
never wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Sequence
from difflib import SequenceMatcher
from typing import Final

import attrs

#: Lines that are looked at in one step: a few milliseconds.
LINES_A_STEP: Final = 5_000

#: How often a text is cut anew; behind it, what is left counts as replaced.
MAX_DEPTH: Final = 6

#: The longest piece, in lines of both texts, that ``difflib`` is asked about: two milliseconds at
#: its worst. And how many such pieces.
MAX_FINE_LINES: Final = 60
MAX_FINE_PIECES: Final = 100


@attrs.frozen
class Block:
    """Lines of the old text that became lines of the new one; either may be none.

    :ivar old: number of the first old line, from 0 on, and of the one behind the last.
    :ivar new: the same of the new text.
    """

    old: tuple[int, int]
    new: tuple[int, int]


Steps = Generator[None, None, list[Block]]


def compare(old: Sequence[str], new: Sequence[str]) -> Steps:
    """Find what is different, in steps.

    :return: the blocks, in their order, with equal lines between them.
    """
    found: list[Block] = []
    waiting = [(0, len(old), 0, len(new), 0)]
    fine = looked = 0
    while waiting:
        a, b, c, d, depth = waiting.pop()
        # Pieces are many and small, or few and long.
        looked += b - a + d - c + 1
        if looked >= LINES_A_STEP:
            looked = 0
            yield
        a, b, c, d = yield from _stripped(old, new, a, b, c, d)
        if a == b and c == d:
            continue
        if a < b and c < d:
            if b - a + d - c <= MAX_FINE_LINES and fine < MAX_FINE_PIECES:
                fine += 1
                found += _fine(old[a:b], new[c:d], a, c)
                yield
                continue
            if depth < MAX_DEPTH:
                anchors = yield from _anchors(old, new, a, b, c, d)
                if anchors:
                    # The last piece goes in first, so that the first one is taken next.
                    anchors.append((b, d))
                    for number in range(len(anchors) - 1, -1, -1):
                        u, v = anchors[number]
                        x, y = anchors[number - 1] if number else (a - 1, c - 1)
                        if x + 1 < u or y + 1 < v:
                            waiting.append((x + 1, u, y + 1, v, depth + 1))
                        if number % LINES_A_STEP == 0:
                            yield
                    continue
        found.append(Block((a, b), (c, d)))
    return found


def _stripped(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int
) -> Generator[None, None, tuple[int, int, int, int]]:
    """Leave out the lines at both ends that are equal."""
    steps = 0
    while a < b and c < d and old[a] == new[c]:
        a, c, steps = a + 1, c + 1, steps + 1
        if steps % LINES_A_STEP == 0:
            yield
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d, steps = b - 1, d - 1, steps + 1
        if steps % LINES_A_STEP == 0:
            yield
    return a, b, c, d


def _fine(old: Sequence[str], new: Sequence[str], a: int, c: int) -> list[Block]:
    return [
        Block((a + i, a + j), (c + k, c + m))
        for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    ]


def _anchors(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int
) -> Generator[None, None, list[tuple[int, int]]]:
    """Find the longest run of lines that both have once, and in the same order."""
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for text, first, last, counter in ((old, a, b, counts[0]), (new, c, d, counts[1])):
        for start in range(first, last, LINES_A_STEP):
            if start > first:
                yield
            counter.update(text[start : min(last, start + LINES_A_STEP)])
    places: dict[str, int] = {}
    for number in range(c, d):
        if counts[1][new[number]] == 1 and counts[0].get(new[number]) == 1:
            places[new[number]] = number
        if (number - c + 1) % LINES_A_STEP == 0:
            yield
    # The longest increasing subsequence by piles of cards; each card knows the one below it.
    tops: list[int] = []
    ends: list[int] = []
    below: dict[int, tuple[int, int] | None] = {}
    for number in range(a, b):
        place = places.get(old[number])
        if place is not None:
            pile = bisect_left(tops, place)
            below[place] = None if pile == 0 else (ends[pile - 1], tops[pile - 1])
            tops[pile : pile + 1] = [place]
            ends[pile : pile + 1] = [number]
        if (number - a + 1) % LINES_A_STEP == 0:
            yield
    found: list[tuple[int, int]] = []
    card = (ends[-1], tops[-1]) if tops else None
    while card is not None:
        found.append(card)
        card = below[card[1]]
        if len(found) % LINES_A_STEP == 0:
            yield
    found.reverse()
    return found
