"""Plain values out of the JSON of strangers."""

import json
import time

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_values import MAX_OUTSIDE_BYTES, BoundsError, decode_values, read_values


class JsonValuesTests(SynchronousTestCase):
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_numbers(self, number: float) -> None:
        """Each is the one that was written."""
        self.assertEqual([number], read_values(json.dumps([number]).encode()))

    def test_numbers_that_are_hard_to_round(self) -> None:
        """Very many take some milliseconds, and not a second."""
        for number in (b"1e308", b"1.797e300", b"9007199254740993.0", b"8.5e-310"):
            text = b"[" + (number + b",") * 40_000 + b"1]"
            began = time.thread_time()
            decode_values(text)
            self.assertLess(time.thread_time() - began, 0.2, number)

    def test_a_number_that_no_float_holds(self) -> None:
        """It is refused like any other text that is no JSON."""
        with self.assertRaises(msgspec.DecodeError):
            decode_values(b"[1e309]")
        with self.assertRaises(BoundsError):
            read_values(b"[-1e309]")

    @given(st.binary())
    def test_any_bytes(self, text: bytes) -> None:
        """They are read, or refused."""
        try:
            read_values(text)
        except BoundsError as fault:
            self.assertTrue(str(fault))

    def test_bounds(self) -> None:
        """What goes beyond them is not read."""
        for text in (
            b"[" * 65 + b"]" * 65,
            b"[" + b"1," * (MAX_OUTSIDE_BYTES // 2) + b"1]",
            b"[" + b'"",' * 24_100 + b"1]",
            b'"' + b"\\n" * 120_001 + b'"',
            b"[}",
        ):
            with self.assertRaises(BoundsError):
                read_values(text)
