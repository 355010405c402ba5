"""Tests for omnigate.control.dashboard.config_text."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import config_text
from omnigate.control.dashboard.config_text import (
    ADDED,
    GONE,
    MAX_DIFF_LINES,
    MAX_LINE_CHARS,
    SAME,
    SKIP,
    DiffLine,
    clipped,
    diff_of,
    lines_of,
    shown_lines,
)
from omnigate.control.dashboard.line_diff import Block
from omnigate.control.redaction import redacted
from omnigate.text import REDACTED

HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class LineTests(SynchronousTestCase):
    """Lines as they may be shown."""

    def shown(self, *lines: str) -> list[str]:
        return self.successResultOf(Deferred.fromCoroutine(shown_lines(lines, self.pause)))

    def setUp(self) -> None:
        self.pauses = 0

    async def pause(self) -> None:
        self.pauses += 1

    def test_short_lines(self) -> None:
        """They stay, but for secrets."""
        self.assertEqual(
            self.shown('name = "a"', "", f'key_sha256 = "{HASH}"'),
            ['name = "a"', "", f'key_sha256 = "{REDACTED}"'],
        )
        self.assertEqual(self.shown(), [])

    def test_a_secret_that_would_be_cut(self) -> None:
        """A part of one is not known for one, so it goes whole."""
        for end in range(1, len(HASH) + 4):
            line = "x" * (MAX_LINE_CHARS - end - 8) + f' key = "{HASH}" and more ' + "y" * 99
            (shown,) = self.shown(line)
            self.assertNotIn(HASH[:4], shown)
            self.assertIn("more characters", shown)

    def test_a_line_without_end(self) -> None:
        """It says how much there is."""
        self.assertEqual(clipped("a" * 1000), " … and 1000 more characters")
        self.assertEqual(clipped("b " + "a" * 1000), "b  … and 1000 more characters")
        self.assertEqual(clipped("a" * MAX_LINE_CHARS), "a" * MAX_LINE_CHARS)
        self.assertEqual(clipped("a\n;" + "b" * 1000), "a\n; … and 1000 more characters")
        self.assertEqual(clipped("a " * 500), "a " * 200 + " … and 600 more characters")

    def test_no_end_of_lines(self) -> None:
        """What is behind very many is one line."""
        self.assertEqual(lines_of("a\n\nb\n"), ["a", "", "b", ""])
        self.patch(config_text, "MAX_LINES", 2)
        self.assertEqual(lines_of("a\nb\nc\nd"), ["a", "b", "c\nd"])

    def test_it_is_the_same_in_steps(self) -> None:
        """Nothing is lost between two of them, and secrets neither."""
        lines = [f'# {n}\tname = "k" key = "{HASH}"\r' for n in range(40)]
        whole = self.shown(*lines)
        self.assertEqual(self.pauses, 0)
        self.patch(config_text, "REDACTED_AT_ONCE", 100)
        self.assertEqual(self.shown(*lines), whole)
        self.assertGreater(self.pauses, 9)
        self.assertEqual("\n".join(whole), redacted("\n".join(lines)))


class DiffTests(SynchronousTestCase):
    """A comparison as it is shown."""

    def kinds(self, old: str, new: str, *blocks: Block) -> str:
        diff = diff_of(old, new, blocks)
        signs = {SAME: " ", GONE: "-", ADDED: "+", SKIP: ".."}
        return "".join(signs[line.kind] + line.text for line in diff.lines)

    def test_lines_around(self) -> None:
        """Three, and those between two differences once."""
        self.assertEqual(
            self.kinds("abcdefgh", "abcdXfgh", Block((4, 5), (4, 5))), ".. b c d-e+X f g h"
        )
        self.assertEqual(
            self.kinds("abcdefgh", "Xbcdefg", Block((0, 1), (0, 1)), Block((7, 8), (7, 7))),
            "-a+X b c d e f g-h",
        )
        self.assertEqual(
            self.kinds("abcdefghi", "Xbcdefgh", Block((0, 1), (0, 1)), Block((8, 9), (8, 8))),
            "-a+X b c d.. f g h-i",
        )
        self.assertEqual(self.kinds("a", "a"), "")

    def test_numbers(self) -> None:
        """Those of the text in which a line stands."""
        diff = diff_of("abc", "ac", [Block((1, 2), (1, 1))])
        self.assertEqual(
            diff.lines,
            [DiffLine(SAME, 1, "a"), DiffLine(GONE, 2, "b"), DiffLine(SAME, 2, "c")],
        )
        self.assertEqual((diff.gone, diff.added, diff.is_cut), (1, 0, False))

    def test_much(self) -> None:
        """It is cut, and counted whole."""
        diff = diff_of([], ["x"] * 90_000, [Block((0, 0), (0, 90_000))])
        self.assertEqual((len(diff.lines), diff.added, diff.is_cut), (MAX_DIFF_LINES, 90_000, True))
        diff = diff_of("", "x" * MAX_DIFF_LINES, [Block((0, 0), (0, MAX_DIFF_LINES))])
        self.assertFalse(diff.is_cut)
        many = [Block((n * 2, n * 2 + 1), (n * 2, n * 2 + 1)) for n in range(5000)]
        diff = diff_of("a" * 10_000, "ab" * 5000, many)
        self.assertEqual((len(diff.lines), diff.gone, diff.is_cut), (MAX_DIFF_LINES, 5000, True))
