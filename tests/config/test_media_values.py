"""Tests for what single values of ``[media]`` may be."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config import media_values
from omnigate.config.values import BadValueError

RECIPIENT = "age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m"


class MediaValueTests(SynchronousTestCase):
    """Each check of its own."""

    def message(self, check: Callable[[object], object], value: object) -> str:
        with self.assertRaises(BadValueError) as caught:
            check(value)
        return str(caught.exception)

    def test_fields_of_an_input(self) -> None:
        for good in ("prompt", "_x", "image.url", "a" * media_values.MAX_FIELD_CHARS):
            self.assertEqual(media_values.input_field(good), good)
        for bad in ("", "1a", "a b", "å", "a" * (media_values.MAX_FIELD_CHARS + 1), 3):
            self.message(media_values.input_field, bad)

    def test_multipliers(self) -> None:
        """Factors are exact; a fault names the field and the value that it is of."""
        self.assertEqual(
            media_values.multipliers({"size": {"2K": 2, "4K": Decimal("3.5"), "": 0}}),
            {"size": {"2K": Decimal(2), "4K": Decimal("3.5"), "": Decimal(0)}},
        )
        for bad, told in (
            ({"size": {"2K": -1}}, '"size", "2K": must be from 0 to 1000'),
            ({"size": {"2K": 1001}}, "must be from 0 to 1000"),
            ({"size": {"2K": Decimal("NaN")}}, "must be from 0 to 1000"),
            ({"size": {"2K": 10**400}}, "must be from 0 to 1000"),
            ({"size": {"2K": Decimal("0.0000001")}}, "has more than 6 decimals"),
            ({"size": {"2K": True}}, "must be a number"),
            ({"size": {"2K": "2"}}, "must be a number"),
            ({"size": {"2\nK": 2}}, "printable"),
            ({"size": {}}, '"size": must have 1 to'),
            ({"size": 2}, '"size": must be a table'),
            ({}, "must have 1 to"),
            ([], "must be a table"),
            ({"a b": {"x": 1}}, "letters"),
            ({"size": {str(n): 1 for n in range(media_values.MAX_LISTED + 1)}}, "entries"),
        ):
            self.assertIn(told, self.message(media_values.multipliers, bad))

    def test_buckets_and_regions(self) -> None:
        for good in ("abc", "my.bucket-1", "a" * 63):
            self.assertEqual(media_values.bucket(good), good)
        for bad in ("ab", "A-bucket", "a..b", "-ab", "ab-", "a/b", "a" * 64, None):
            self.message(media_values.bucket, bad)
        self.assertEqual(media_values.region("eu-north-1"), "eu-north-1")
        for bad in ("", "EU", "eu/1", "-eu", "e" * 64):
            self.message(media_values.region, bad)

    def test_the_public_address(self) -> None:
        """It goes up to the path of the API, and not into it."""
        check = media_values.public_url
        self.assertEqual(check("https://ai.example.net/"), "https://ai.example.net")
        self.assertEqual(check("https://example.net/ai"), "https://example.net/ai")
        self.assertIn(
            '(did you mean "https://ai.example.net"?)',
            self.message(check, "https://ai.example.net/v1/"),
        )

    def test_recipients(self) -> None:
        """An identity is refused, and not repeated; so is a recipient with a slip in it."""
        self.assertEqual(media_values.age_recipient(RECIPIENT), RECIPIENT)
        identity = "AGE-SECRET-KEY-1" + "Q" * 58
        for bad in (identity, RECIPIENT.upper(), RECIPIENT[:-1], RECIPIENT + "q", "ssh-ed25519 A"):
            self.assertNotIn(bad, self.message(media_values.age_recipient, bad))

    def test_any_slip_in_a_recipient(self) -> None:
        """One character that is another is always seen, and two that changed places."""
        for place in range(4, len(RECIPIENT)):
            for char in "qzl8":
                if char != RECIPIENT[place]:
                    slip = RECIPIENT[:place] + char + RECIPIENT[place + 1 :]
                    self.message(media_values.age_recipient, slip)
            swapped = RECIPIENT[: place - 1] + RECIPIENT[place - 1 : place + 1][::-1]
            swapped += RECIPIENT[place + 1 :]
            if swapped != RECIPIENT:
                self.message(media_values.age_recipient, swapped)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.text(),
            lambda inner: st.dictionaries(st.text(max_size=4), inner, max_size=3),
            max_leaves=8,
        )
    )
    def test_any_multipliers(self, value: object) -> None:
        """Whatever stands there, it is factors within their bounds or a fault."""
        try:
            fields = media_values.multipliers(value)
        except BadValueError:
            return
        for factors in fields.values():
            for factor in factors.values():
                self.assertTrue(0 <= factor <= media_values.MAX_FACTOR)
