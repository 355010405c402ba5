"""The flame graph: what is read, and that every sample has its place."""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from bench.flame import ProfileError, boxes, draw, main, read_profile

_STACKS = (
    "main (app.py:3);poll (a/omnigate/protocols/lean.py:10);take (omnigate/wire/head.py:5) 6\n"
    "main (app.py:3);poll (a/omnigate/protocols/lean.py:12);take (omnigate/wire/head.py:9) 2\n"
    "main (app.py:3);poll (a/omnigate/protocols/lean.py:14);<send> 3\n"
    "main (app.py:3);other (x.py:1) 100\n"
    "\n"
)


class ReadingTests(SynchronousTestCase):
    """Collapsed stacks."""

    def test_tree(self) -> None:
        """Calls from different lines are one frame, and other stacks are put aside."""
        top = read_profile(_STACKS.splitlines(), "lean.py:poll")
        self.assertEqual(11, top.samples)
        self.assertEqual(
            {("take", "omnigate/wire/head.py"): 8, ("<send>", ""): 3},
            {place: frame.samples for place, frame in top.calls.items()},
        )

    def test_no_profile(self) -> None:
        """What is wrong names its line; a root that is not there is told."""
        for text, words in (
            ("a;b 1\nno number here\n", "line 2"),
            ("a;b 1\n", "no stack goes through poll"),
            ("", "no stack"),
            ("a;poll -3", "line 1"),
        ):
            error = self.assertRaises(ProfileError, read_profile, text.splitlines(), "poll")
            self.assertIn(words, str(error))

    @given(
        st.lists(
            st.tuples(
                st.lists(st.sampled_from("abcd"), max_size=5), st.integers(min_value=1, max_value=9)
            ),
            min_size=1,
            max_size=20,
        )
    )
    def test_places(self, stacks: list[tuple[list[str], int]]) -> None:
        """Frames of a row never overlap, and lie within what called them."""
        lines = [";".join(["root", *frames]) + f" {count}" for frames, count in stacks]
        top = read_profile(lines, "root")
        self.assertEqual(sum(count for _, count in stacks), top.samples)
        rows: dict[int, list[tuple[int, int]]] = {}
        for box in boxes(top):
            rows.setdefault(box.row, []).append((box.left, box.left + box.frame.samples))
            self.assertLessEqual(
                sum(call.samples for call in box.frame.calls.values()), box.frame.samples
            )
        for row, spans in rows.items():
            spans.sort()
            for (_, end), (start, _) in pairwise(spans):
                self.assertLessEqual(end, start)
            if row:
                above = rows[row - 1]
                for start, end in spans:
                    self.assertTrue(any(a <= start and end <= b for a, b in above))


class DrawingTests(SynchronousTestCase):
    """The picture."""

    def test_picture(self) -> None:
        """It is XML with every frame, its microseconds, and no script."""
        top = read_profile(_STACKS.splitlines(), "lean.py:poll")
        picture = draw(top, "One <request>", 55.0)
        root = ElementTree.fromstring(picture)
        told = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(
            [
                "poll lean.py: 55.0 µs",
                "<send> : 15.0 µs",
                "take omnigate/wire/head.py: 40.0 µs",
            ],
            told,
        )
        self.assertNotIn("<script", picture)

    def test_command(self) -> None:
        """A file in, a file out; a bad one is a line and status 1."""
        with tempfile.TemporaryDirectory() as folder:
            stacks, out = Path(folder, "stacks"), Path(folder, "out.svg")
            stacks.write_text(_STACKS, encoding="utf-8")
            words = [str(stacks), "--cpu-us", "55", "--root", "poll"]
            self.assertEqual(0, main([*words, "--output", str(out)]))
            with redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(0, main(words))
            self.assertEqual(out.read_text(encoding="utf-8"), printed.getvalue())
            with redirect_stderr(io.StringIO()) as said:
                self.assertEqual(1, main([str(Path(folder, "none")), "--cpu-us", "1"]))
                self.assertEqual(1, main([str(stacks), "--cpu-us", "1"]))
            self.assertIn("No such file", said.getvalue())
            self.assertIn("no stack goes through", said.getvalue())
