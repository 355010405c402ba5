"""Numbers, money and times as people read them."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import formats
from omnigate.control.dashboard.formats import (
    THIN,
    count,
    dollars,
    duration,
    percent,
    sentence,
    size,
)

STEPS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86_400}


def numbers(text: str) -> tuple[float, str]:
    """The number of a text, and its unit."""
    number, _, unit = text.rpartition(THIN) if text[-1:].isalpha() else (text, "", "")
    return float(number.replace(THIN, "")), unit


class FormatTests(SynchronousTestCase):
    """Each filter."""

    def test_counts(self) -> None:
        """Whole below ten thousand, then three digits and a unit."""
        for number, expected in (
            (0, "0"),
            (999, "999"),
            (9999, "9_999"),
            (10_000, "10_k"),
            (12_345, "12.3_k"),
            (999_499, "999_k"),
            (999_500, "1_M"),
            (1_234_567, "1.23_M"),
            (-1_234_567, "-1.23_M"),
            (2_500_000_000, "2.5_G"),
        ):
            self.assertEqual(count(number), expected.replace("_", THIN))

    def test_sizes(self) -> None:
        """Bytes as such, then two digits or three and a unit."""
        for length, expected in (
            (0, "0_B"),
            (999, "999_B"),
            (1_000, "1.0_kB"),
            (9_949, "9.9_kB"),
            (9_999, "10_kB"),
            (999_499, "999_kB"),
            (999_500, "1.0_MB"),
            (23_400_000, "23_MB"),
            (5 * 2**30, "5.4_GB"),
        ):
            self.assertEqual(size(length), expected.replace("_", THIN))

    @given(st.integers(0, 10**15))
    def test_a_count_is_near(self, number: int) -> None:
        """Within half a per cent of what it is."""
        value, unit = numbers(count(number))
        self.assertLessEqual(abs(value * STEPS[unit] - number), number * 0.0051)

    def test_dollars(self) -> None:
        """Cents, and below ten cents as many digits as tell something."""
        for nano, expected in (
            (0, "$0.00"),
            (1_234_560_000_000, "$1,234.56"),
            (995_000_000, "$1.00"),
            (100_000_000, "$0.10"),
            (1, "$0.000000001"),
            (-2_500_000_000, "-$2.50"),
        ):
            self.assertEqual(dollars(nano), expected)

    @given(st.integers(1, 10**18))
    def test_nothing_spent_is_shown_as_nothing(self, nano: int) -> None:
        """And what is shown is within half a cent, or five per cent of less than ten cents."""
        shown = Decimal(dollars(nano).replace("$", "").replace(",", "")) * 10**9
        self.assertGreater(shown, 0)
        self.assertLessEqual(abs(shown - nano), max(5_000_000 if nano >= 10**8 else 0, nano // 20))

    def test_durations(self) -> None:
        """In the unit that suits."""
        for ms, expected in (
            (0, "0_ms"),
            (84, "84_ms"),
            (999.4, "999_ms"),
            (999.6, "1.0_s"),
            (1300, "1.3_s"),
            (240_000, "4_min"),
            (7_200_000, "2_h"),
            (10 * 86_400_000, "10_d"),
        ):
            self.assertEqual(duration(ms), expected.replace("_", THIN))

    @given(st.integers(1, 10**12))
    def test_a_duration_is_near(self, ms: int) -> None:
        """Within half of its last digit."""
        value, unit = numbers(duration(ms))
        off = 0.051 if unit == "s" else 0.51
        self.assertLessEqual(abs(value * SECONDS[unit] - ms / 1000), off * SECONDS[unit])

    def test_shares(self) -> None:
        """Whole per cent from ten on."""
        for share, expected in (
            (0, "0_%"),
            (0.000001, "<0.1_%"),
            (0.005, "0.5_%"),
            (0.123, "12_%"),
            (0.9949, "99_%"),
            (0.996, "99.6_%"),
            (0.99996, ">99.9_%"),
            (1, "100_%"),
            (1.204, "120_%"),
        ):
            self.assertEqual(percent(share), expected.replace("_", THIN))

    @given(st.integers(1, 10**9).flatmap(lambda all: st.tuples(st.integers(0, all), st.just(all))))
    def test_only_all_is_all(self, parts: tuple[int, int]) -> None:
        """And only none is none."""
        some, everything = parts
        shown = percent(some / everything)
        self.assertEqual(shown == f"100{THIN}%", some == everything)
        self.assertEqual(shown == f"0{THIN}%", some == 0)

    def test_moments(self) -> None:
        """In UTC, for the script to show in the reader's zone."""
        self.assertEqual(
            formats.moment(1_795_982_400_000),
            '<time datetime="2026-11-29T20:00:00.000Z" title="2026-11-29 20:00:00 UTC">'
            "2026-11-29 20:00:00 UTC</time>",
        )

    def test_nothing_at_all(self) -> None:
        """A dash; nought is something."""
        dash = "\N{EN DASH}"
        self.assertEqual([formats.filled(x) for x in (None, "", 0, "a")], [dash, dash, 0, "a"])

    def test_sentences(self) -> None:
        """A capital and an end, where there is none."""
        for text, expected in (
            ("wait 5 seconds", "Wait 5 seconds."),
            ("Is it?", "Is it?"),
            ('"name" is taken', '"name" is taken.'),
            ("", ""),
        ):
            self.assertEqual(sentence(text), expected)
