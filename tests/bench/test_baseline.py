"""The kept figures: reading, keeping, comparing, and which Python they are of."""

import json
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from bench import baseline, yardstick
from bench.baseline import (
    INSTRUCTIONS,
    NGINX,
    SPREAD,
    YARDS,
    BaselineError,
    Change,
    Kept,
    changes,
    figures,
    key_of,
    nearest,
)
from bench.comparison import comparison

KEPT = Kept(
    measured="2026-11-30",
    python="3.11.2",
    machine="x86_64, 2 cores",
    yards={"exchange": 4.0, "gone": 1.0},
    instructions={"exchange": 500_000},
    nginx={"chat32": 5.0},
)


class KeyTests(SynchronousTestCase):
    def test_builds(self) -> None:
        """A Python is known by its implementation, its version and how it was built."""
        for words, prefix, expected in (
            ("'--prefix=/usr' '--with-lto'", "/usr", "cpython-3.11 distribution"),
            ("'--prefix=/opt/p'", "/opt/p", "cpython-3.11 plain"),
            ("'--enable-optimizations' '--with-lto'", "/opt/p", "cpython-3.11 optimized"),
            ("", "/home/me/python", "cpython-3.11 plain"),
        ):
            self.assertEqual(key_of("cpython", (3, 11), words, prefix), expected)

    def test_this_python(self) -> None:
        """The one that runs has a key that can be taken apart again."""
        name, version, build = baseline._parts(baseline.python_key())
        self.assertEqual((name, version), (sys.implementation.name, sys.version_info[1]))
        self.assertIn(build, ("plain", "distribution", "optimized"))

    def test_nearest(self) -> None:
        """The same Python, else the nearest version, else the same build; never another kind."""
        there = dict.fromkeys(
            (
                "cpython-3.11 distribution",
                "cpython-3.11 plain",
                "cpython-3.13 distribution",
                "pypy-3.11 plain",
            ),
            KEPT,
        )
        for key, expected in (
            ("cpython-3.11 plain", "cpython-3.11 plain"),
            ("cpython-3.13 plain", "cpython-3.13 distribution"),
            ("cpython-3.14 optimized", "cpython-3.13 distribution"),
            ("cpython-3.10 plain", "cpython-3.11 plain"),
            ("graalpy-3.11 plain", None),
        ):
            self.assertEqual(nearest(there, key), expected, key)
        self.assertIsNone(nearest({}, "cpython-3.11 plain"))


class FileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def test_there_and_back(self) -> None:
        """What is kept is read, and what was not measured again stays."""
        self.assertEqual(baseline.read(self.path), {})
        baseline.save(self.path, "cpython-3.11 plain", KEPT)
        baseline.save(self.path, "cpython-3.12 plain", KEPT)
        baseline.save(self.path, "cpython-3.11 plain", figures({"exchange": 3.14159}, {}, {}))
        read = baseline.read(self.path)
        self.assertEqual(read["cpython-3.12 plain"], KEPT)
        mine = read["cpython-3.11 plain"]
        self.assertEqual(mine.yards, {"exchange": 3.142, "gone": 1.0})
        self.assertEqual((mine.instructions, mine.nginx), (KEPT.instructions, KEPT.nginx))
        self.assertNotEqual(mine.python, "")

    def test_another_yardstick(self) -> None:
        """Yards by another yardstick mean nothing; the other measures do."""
        baseline.save(self.path, "cpython-3.11 plain", KEPT)
        self.patch(yardstick, "VERSION", yardstick.VERSION + 1)
        kept = baseline.read(self.path)["cpython-3.11 plain"]
        self.assertEqual(kept.yards, {})
        self.assertEqual(kept.instructions, KEPT.instructions)

    def test_faults(self) -> None:
        """What is no baseline is refused, with the file's name."""
        for text in (
            "",
            "[]",
            '{"yardstick":1}',
            '{"yardstick":1,"pythons":{"a":{"measured":"x"}}}',
            '{"yardstick":1,"pythons":{"a":{"measured":"x","python":"","machine":"","yards":'
            '{"exchange":0}}}}',
            '{"yardstick":1,"pythons":{"a":{"measured":"x","python":"","machine":"","yards":'
            '{"exchange":"1"}}}}',
        ):
            self.path.write_text(text)
            error = self.assertRaises(BaselineError, baseline.read, self.path)
            self.assertIn(str(self.path), str(error))
        self.assertRaises(BaselineError, baseline.read, Path("/"))
        self.assertRaises(BaselineError, baseline.save, Path("/no/such/folder"), "a", KEPT)

    def test_the_one_that_is_kept(self) -> None:
        """The file of the project can be read, and is of the yardstick that is here."""
        kept = baseline.read(baseline.PATH)
        self.assertEqual(json.loads(baseline.PATH.read_text())["yardstick"], yardstick.VERSION)
        self.assertTrue(all(one.yards and one.measured for one in kept.values()))
        self.assertIn("cpython-3.11 distribution", kept)


class ChangeTests(SynchronousTestCase):
    def test_what_is_compared(self) -> None:
        """Only what is there on both sides; instructions only of the same Python."""
        now = figures({"exchange": 4.0, "new": 1.0}, {"exchange": 450_000}, {"chat32": 5.5})
        found = {(one.name, one.measure): one.verdict for one in changes(now, KEPT, True)}
        self.assertEqual(
            found,
            {
                ("exchange", YARDS): "same",
                ("exchange", INSTRUCTIONS): "better",
                ("chat32", NGINX): "same",
            },
        )
        measures = {one.measure for one in changes(now, KEPT, False)}
        self.assertEqual(measures, {YARDS, NGINX})

    @settings(max_examples=200)
    @given(st.floats(0.01, 100), st.floats(0.01, 100), st.sampled_from(sorted(SPREAD)))
    def test_verdicts(self, now: float, kept: float, measure: str) -> None:
        """More is worse, less is better, and within the spread it is the same."""
        change = Change("x", measure, now, kept, SPREAD[measure])
        if now > kept * (1 + SPREAD[measure]) * 1.0001:
            self.assertEqual(change.verdict, "worse")
        elif now < kept * (1 - SPREAD[measure]) * 0.9999:
            self.assertEqual(change.verdict, "better")
        elif abs(now / kept - 1) < SPREAD[measure] * 0.9999:
            self.assertEqual(change.verdict, "same")

    def test_table(self) -> None:
        """Each figure has its line, and what it was compared with is said below."""
        now = figures({"exchange": 6.0}, {"exchange": 450_123}, {})
        key = "cpython-3.11 plain"
        text = comparison(list(changes(now, KEPT, True)), key, key, KEPT)
        self.assertRegex(text, r"exchange +instructions +450,123 +500,000 +0\.90 +better")
        self.assertRegex(text, r"exchange +yards +6\.00 +4\.00 +1\.50 +worse")
        self.assertTrue(text.endswith("with cpython-3.11 plain (3.11.2, x86_64, 2 cores)."))
        text = comparison(list(changes(now, KEPT, False)), "cpython-3.12 plain", key, KEPT)
        self.assertIn("This is cpython-3.12 plain", text)
        self.assertIn("Nothing that was measured", comparison([], key, key, KEPT))
