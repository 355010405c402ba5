"""Text from outside becomes one safe line, and loses its secrets."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.text import (
    QUOTED_CHARS,
    REASON_CHARS,
    for_spreadsheets,
    one_line,
    quoted,
    reason_of,
    repair_utf8,
    valid_text,
)


class OneLineTests(SynchronousTestCase):
    def test_plain_text_is_unchanged(self) -> None:
        """Text that is safe already, beyond ASCII too, stays as it is."""
        self.assertEqual(one_line("größe 5 €", 100), "größe 5 €")

    def test_control_characters_are_escaped(self) -> None:
        """A line end, a terminal escape and a zero byte are seen, not acted on."""
        self.assertEqual(
            one_line("a\r\nb\t\x1b[31m\0\x7f\x85", 100), r"a\r\nb\t\x1b[31m\x00\x7f\x85"
        )

    def test_separators_and_direction_marks_are_escaped(self) -> None:
        """Nothing that other programs take for a line end or a turn of direction gets through."""
        self.assertEqual(one_line("a\u2028b\u202ec", 100), r"a\u2028b\u202ec")

    def test_bad_bytes_are_replaced(self) -> None:
        """Bytes that are not UTF-8 become the replacement character."""
        self.assertEqual(one_line(b"a\xff\xc3", 100), "a\ufffd\ufffd")

    def test_a_long_line_is_cut_with_an_ellipsis(self) -> None:
        """A cut line says that it was cut and is no longer than asked."""
        self.assertEqual(one_line("abcdef", 6), "abcdef")
        self.assertEqual(one_line("abcdefg", 6), "abcde…")
        self.assertEqual(one_line(b"abcdefg", 6), "abcde…")

    def test_a_cut_in_the_middle_of_a_character_leaves_no_trace(self) -> None:
        """The bytes looked at may end within a character; the result does not show it."""
        self.assertEqual(one_line("€".encode() * 50, 6), "€€€€€…")

    @settings(max_examples=200, deadline=None)
    @given(st.one_of(st.text(st.characters()), st.binary()), st.integers(1, 30))
    def test_the_result_is_always_a_bounded_line_of_utf8(
        self, value: str | bytes, limit: int
    ) -> None:
        """Whatever comes in, a short line of valid UTF-8 comes out."""
        line = one_line(value, limit)
        self.assertTrue(len(line) <= limit)
        self.assertTrue(len(line.splitlines()) <= 1)
        line.encode("utf-8")


class ReasonTests(SynchronousTestCase):
    """What an exception says."""

    def test_words(self) -> None:
        """Its own words, on one line; without any its name."""
        self.assertEqual(reason_of(ValueError("no\nway")), r"no\nway")
        self.assertEqual(reason_of(ValueError()), "ValueError")
        self.assertEqual(reason_of(KeyboardInterrupt("")), "KeyboardInterrupt")

    def test_length(self) -> None:
        """They are cut."""
        self.assertEqual(len(reason_of(ValueError("x" * 10_000))), REASON_CHARS)
        self.assertEqual(reason_of(ValueError("abcdef"), 4), "abc…")


class QuotedTests(SynchronousTestCase):
    """A client's text in a message."""

    def test_quotes(self) -> None:
        """It stands in quotes, with nothing in it that could end them, or the line."""
        self.assertEqual(quoted("gpt"), "'gpt'")
        self.assertEqual(quoted("it's"), '"it\'s"')
        for text in ("a'\"b", "a\n", "\x1b[31m", "\ud800"):
            told = quoted(text)
            self.assertTrue(told.isprintable())
            self.assertNotIn(told[0], told[1:-1].replace("\\" + told[0], ""))

    def test_length(self) -> None:
        """It is cut."""
        self.assertEqual(quoted("x" * 10_000), repr("x" * (QUOTED_CHARS - 1) + "…"))


class SpreadsheetTests(SynchronousTestCase):
    """A text as a cell."""

    def test_no_formula(self) -> None:
        """What a spreadsheet would run is text there; all else is as it was."""
        for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1"):
            self.assertEqual(for_spreadsheets(text), f"'{text}")
        for text in ("", "gpt-4o", "a=b", "'x", "1"):
            self.assertEqual(for_spreadsheets(text), text)


class RepairTests(SynchronousTestCase):
    def test_valid_bytes_are_the_same_object(self) -> None:
        """Good input costs no copy."""
        data = "größe".encode()
        self.assertIs(repair_utf8(data), data)

    def test_bad_bytes_are_replaced(self) -> None:
        """A stray byte becomes U+FFFD in UTF-8."""
        self.assertEqual(repair_utf8(b"a\xffb"), "a\ufffdb".encode())

    def test_lone_surrogates_are_replaced(self) -> None:
        """Half a surrogate pair cannot be encoded and is replaced."""
        self.assertEqual(valid_text("a\ud800b€"), "a\ufffdb€")
