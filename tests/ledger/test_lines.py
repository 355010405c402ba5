"""Tests for omnigate.ledger.lines."""

import json
from decimal import Decimal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.lines import (
    DamagedLineError,
    NewerLineError,
    decode_line,
    decode_object,
    encode_line,
)
from tests.usage import usage_event

RECEIVED = "2026-11-29T20:32:01.000Z"


class EncodeTests(SynchronousTestCase):
    """What is written."""

    def test_a_line_is_the_event_and_three_members_more(self) -> None:
        """The event's own members, then its cost, its time and the time of recording."""
        line = encode_line(usage_event(), 292_500, RECEIVED)
        self.assertTrue(line.endswith(b"}\n"))
        self.assertEqual(line.count(b"\n"), 1)
        self.assertTrue(
            line.endswith(
                b',"cost_usd":0.0002925,"ts":"2026-11-29T20:32:00.125Z",'
                b'"received_at":"2026-11-29T20:32:01.000Z"}\n'
            )
        )
        value = json.loads(line)
        self.assertEqual(value["id"], "e1")
        self.assertEqual(value["attempts"][0]["outcome"], "ok")

    def test_no_text_can_break_a_line(self) -> None:
        """A newline in a name is escaped."""
        line = encode_line(usage_event(route_model='a\n"b\x00'), 0, RECEIVED)
        self.assertEqual(line.count(b"\n"), 1)
        self.assertEqual(decode_line(line)[0].route_model, 'a\n"b\x00')


class DecodeTests(SynchronousTestCase):
    """What is read back."""

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 10**21))
    def test_the_cost_comes_back_exactly(self, nano: int) -> None:
        """No nano-dollar is lost on the way through the file."""
        _, cost = decode_line(encode_line(usage_event(), nano, RECEIVED))
        self.assertEqual(cost, nano)

    def test_other_spellings_of_the_cost_are_read_exactly(self) -> None:
        """A number as another program would have written it is the same number."""
        line = encode_line(usage_event(), 292_500, RECEIVED)
        for digits, nano in ((b"2.925e-4", 292_500), (b"3", 3 * 10**9), (b"0.10", 10**8)):
            _, cost = decode_line(line.replace(b"0.0002925", digits))
            self.assertEqual(cost, nano)

    def test_what_is_needed_of_the_event_comes_back(self) -> None:
        """Names, counts and times are those of the event."""
        event = usage_event(upstream=None, target_model=None)
        read, _ = decode_line(encode_line(event, 0, RECEIVED))
        for name in (
            "id",
            "key_sha256",
            "route_model",
            "upstream",
            "input_tokens",
            "cached_input_tokens",
            "cache_write_input_tokens",
            "output_tokens",
            "ts_ms",
        ):
            self.assertEqual(getattr(read, name), getattr(event, name), name)
        self.assertEqual(read.received_at, RECEIVED)

    def test_unknown_members_are_left_alone(self) -> None:
        """A member that a later version added does not make a line unreadable."""
        line = encode_line(usage_event(), 5, RECEIVED).replace(b"{", b'{"new":[{}],', 1)
        self.assertEqual(decode_line(line)[1], 5)

    def test_every_proper_beginning_of_a_line_is_damaged(self) -> None:
        """However a line was torn, it is not taken for a whole one."""
        line = encode_line(usage_event(), 5, RECEIVED)
        for length in range(len(line) - 1):
            self.assertRaises(DamagedLineError, decode_line, line[:length])

    def test_damaged_lines_are_told_apart(self) -> None:
        """Junk, missing members, wrong types, impossible numbers."""
        line = encode_line(usage_event(), 292_500, RECEIVED)
        for bad in (
            b"",
            b"\0" * 100,
            b"[]",
            b"[" * 5000,
            line[:150] + line[250:],
            line.replace(b'"id"', b'"ix"'),
            line.replace(b"900", b"-900"),
            line.replace(b"900", b'"900"'),
            line.replace(b"0.0002925", b"-1"),
            line.replace(b"0.0002925", b'"1"'),
            line.replace(b"0.0002925", b"null"),
            line.replace(b"0.0002925", b"0.0000000001"),
            line.replace(RECEIVED.encode(), b"2026-99-29T20:32:01.000Z"),
            line.replace(RECEIVED.encode(), b""),
            line.replace(b"fast", b"f\xffst"),
        ):
            self.assertRaises(DamagedLineError, decode_line, bad)

    def test_a_line_of_a_later_version_is_no_damage(self) -> None:
        """It is refused as such, whether its members changed or not."""
        line = encode_line(usage_event(), 5, RECEIVED).replace(b"{", b'{"v":2,', 1)
        error = self.assertRaises(NewerLineError, decode_line, line)
        self.assertIn("version 2", str(error))
        self.assertRaises(NewerLineError, decode_line, b'{"v":3,"events":[]}')


class ObjectTests(SynchronousTestCase):
    """A line as people see it."""

    def test_the_cost_is_exact_decimal_text(self) -> None:
        """No float rounds the cost on its way to a page."""
        value = decode_object(encode_line(usage_event(), 123_456_789_012_345_678, RECEIVED))
        self.assertEqual(Decimal(value["cost_usd"]), Decimal("123456789.012345678"))
        self.assertEqual(value["status"], 200)
        self.assertEqual(value["endpoint"], "chat")
        self.assertTrue(msgspec.json.encode(value))

    def test_damage_anywhere_is_told(self) -> None:
        """A byte that is no UTF-8 in a member that no sum needs."""
        line = encode_line(usage_event(), 5, RECEIVED).replace(
            b'"outcome":"ok"', b'"outcome":"\xff"'
        )
        self.assertEqual(decode_line(line)[1], 5)
        self.assertRaises(DamagedLineError, decode_object, line)
