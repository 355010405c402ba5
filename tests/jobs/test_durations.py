"""Durations as clients write them."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.durations import FIELDS, MAX_SECONDS, BadDurationError, milliseconds, named


class MillisecondsTests(SynchronousTestCase):
    def test_all_ways_to_write_one(self) -> None:
        """Numbers, digits as text, and digits with an s are the same; finer than 1 ms goes up."""
        cases: list[tuple[object, int]] = [
            (5, 5_000),
            ("5", 5_000),
            ("5s", 5_000),
            (4.5, 4_500),
            ("4.5s", 4_500),
            ("4.5", 4_500),
            (0, 0),
            ("0s", 0),
            (0.0001, 1),
            ("0.001", 1),
            (0.1, 100),
            (1e-300, 1),
            (MAX_SECONDS, MAX_SECONDS * 1000),
        ]
        for value, expected in cases:
            self.assertEqual(milliseconds(value), expected, value)

    def test_what_is_no_duration(self) -> None:
        """Negative, words, other units, other types, too long: each is told what to write."""
        bad: list[object] = [
            -1,
            "-1",
            -0.5,
            "-5s",
            "five",
            "",
            "s",
            "5 s",
            "5m",
            "5S",
            "1e3",
            "٥",
            ".5",
            "5.",
            True,
            False,
            None,
            [],
            {},
            float("nan"),
            "9" * 1_000_000,
        ]
        for value in bad:
            with self.assertRaises(BadDurationError) as caught:
                milliseconds(value)
            self.assertIn("write seconds", str(caught.exception))
        for value in (MAX_SECONDS + 1, "999999s", 1e300, float("inf"), 10**5_000):
            with self.assertRaises(BadDurationError) as caught:
                milliseconds(value)
            self.assertIn(str(MAX_SECONDS), str(caught.exception))

    @settings(max_examples=200, deadline=None)
    @given(st.decimals(0, MAX_SECONDS, places=3))
    def test_thousandths_are_exact(self, seconds: object) -> None:
        """As text every thousandth of a second is exact, with and without its unit."""
        expected = int(Fraction(str(seconds)) * 1000)
        self.assertEqual(milliseconds(str(seconds)), expected)
        self.assertEqual(milliseconds(f"{seconds}s"), expected)


class NamedTests(SynchronousTestCase):
    def test_the_first_field_counts(self) -> None:
        """The fields are looked at in their order; null names none."""
        self.assertIsNone(named({"prompt": "x", "duration": None}))
        self.assertEqual(named({"seconds": "3", "duration": 5}), ("duration", 5_000))
        for field in FIELDS:
            self.assertEqual(named({field: 2}), (field, 2_000))
