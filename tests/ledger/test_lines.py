"""Tests for omnigate.ledger.lines."""

import json
from decimal import Decimal
from pathlib import Path
from zlib import crc32

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

#: Lines as the program wrote them when their version was 1. This file is never made anew.
VERSION_1 = Path(__file__).with_name("version1.jsonl")


def sealed(body: bytes) -> bytes:
    """A line of the given members, the last one's closing brace left out, and its checksum."""
    return b'%b,"crc32":"%08x"}\n' % (body, crc32(body))


class EncodeTests(SynchronousTestCase):
    """What is written."""

    def test_a_line_is_the_event_and_five_members_more(self) -> None:
        """Version, the event's own members, cost, time, time of recording, checksum."""
        line = encode_line(usage_event(), 292_500, RECEIVED)
        self.assertTrue(line.startswith(b'{"v":2,"id":"e1","key_sha256":"abab'))
        self.assertTrue(line.endswith(b"}\n"))
        self.assertEqual(line.count(b"\n"), 1)
        before, _, tail = line.rpartition(b',"crc32":')
        self.assertTrue(
            before.endswith(
                b',"cost_usd":0.0002925,"ts":"2026-11-29T20:32:00.125Z",'
                b'"received_at":"2026-11-29T20:32:01.000Z"'
            )
        )
        self.assertEqual(tail, b'"%08x"}\n' % crc32(before))
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
        body = encode_line(usage_event(), 292_500, RECEIVED).rpartition(b',"crc32"')[0]
        for digits, nano in ((b"2.925e-4", 292_500), (b"3", 3 * 10**9), (b"0.10", 10**8)):
            _, cost = decode_line(sealed(body.replace(b"0.0002925", digits)))
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
        body = encode_line(usage_event(), 5, RECEIVED).rpartition(b',"crc32"')[0]
        self.assertEqual(decode_line(sealed(body + b',"new":[{}]'))[1], 5)

    def test_every_proper_beginning_of_a_line_is_damaged(self) -> None:
        """However a line was torn, it is not taken for a whole one."""
        line = encode_line(usage_event(), 5, RECEIVED)
        for length in range(len(line) - 1):
            self.assertRaises(DamagedLineError, decode_line, line[:length])

    def test_damaged_lines_are_told_apart(self) -> None:
        """Junk, missing members, wrong types, impossible numbers, whatever the checksum says."""
        for bad in (b"", b"\n", b"\0" * 100, b"[]", b"[" * 5000, b"null", b'{"v":2}', b'{"v":{}}'):
            self.assertRaises(DamagedLineError, decode_line, bad)
        line = encode_line(usage_event(), 292_500, RECEIVED)
        for old, new in (
            (b'"id"', b'"ix"'),
            (b"900", b"-900"),
            (b"900", b'"900"'),
            (b"0.0002925", b"-1"),
            (b"0.0002925", b'"1"'),
            (b"0.0002925", b"null"),
            (b"0.0002925", b"0.0000000001"),
            (b'"ts_ms":1', b'"ts_ms":-1'),
            (b'"ts_ms":1', b'"ts_ms":10000'),
            (RECEIVED.encode(), b"2026-99-29T20:32:01.000Z"),
            (RECEIVED.encode(), b"2026W487T20:32:01.000Z"),
            (RECEIVED.encode(), b""),
            (b"fast", b"f\xffst"),
            (b'"v":2', b'"v":"2"'),
        ):
            bad = sealed(line.replace(old, new).rpartition(b',"crc32"')[0])
            self.assertRaises(DamagedLineError, decode_line, bad)

    def test_a_line_of_a_later_version_is_no_damage(self) -> None:
        """It is refused as such, whether its members changed or not, with a checksum or without."""
        body = encode_line(usage_event(), 5, RECEIVED).rpartition(b',"crc32"')[0]
        later = body.replace(b'"v":2', b'"v":3', 1)
        for line in (sealed(later), later + b"}\n", b'{"v":3,"events":[]}', b'{"v":3,"crc32":7}'):
            error = self.assertRaises(NewerLineError, decode_line, line)
            self.assertIn("version 3", str(error))


class ChecksumTests(SynchronousTestCase):
    """A line of version 2 is what was written, or is damaged."""

    line = encode_line(usage_event("a" * 32), 292_500, RECEIVED).rstrip()

    @settings(max_examples=400, deadline=None)
    @given(st.data())
    def test_anything_changed_cut_out_or_brought_in_is_damage(self, data: st.DataObject) -> None:
        """In one place, of any length: never another event, never a later version."""
        line = self.line
        start = data.draw(st.integers(0, len(line)))
        stop = data.draw(st.integers(start, len(line)))
        put = data.draw(
            st.binary(max_size=40)
            | st.text("0123456789", max_size=4).map(str.encode)
            | st.just(line[start:stop] * 2)
            | st.sampled_from([b'"v":1,', b'"v":3,', b',"cost_usd":9', b" ", b"}"])
        )
        changed = line[:start] + put + line[stop:]
        if changed.rstrip(b"\n") == line or not changed.strip():
            return
        self.assertRaises(DamagedLineError, decode_line, changed)

    def test_every_single_byte_counts(self) -> None:
        """Each of them turned in a bit, in its case, into a digit, left out or written twice."""
        line = self.line
        for at in range(len(line)):
            byte = line[at : at + 1]
            others = {bytes([line[at] ^ 1 << bit]) for bit in range(8)}
            others |= {byte * 2, b"", b"1", b"3", b"9", byte.swapcase(), b" " + byte}
            for other in others - {byte}:
                changed = line[:at] + other + line[at + 1 :]
                self.assertRaises(DamagedLineError, decode_line, changed)

    def test_a_checksum_is_looked_at_where_no_version_asks_for_it(self) -> None:
        """A line that lost its version does not pass for one of version 1."""
        for lost in (b"", b'"v":1,', b'"w":2,', b'"v":0,', b'"v":-1,'):
            changed = self.line.replace(b'"v":2,', lost, 1)
            self.assertRaises(DamagedLineError, decode_line, changed)
        body = self.line.replace(b'"v":2,', b"", 1).rpartition(b',"crc32"')[0]
        self.assertRaises(DamagedLineError, decode_line, sealed(body))


class FirstVersionTests(SynchronousTestCase):
    """Lines of version 1 are read for ever."""

    def test_what_the_program_once_wrote_is_read(self) -> None:
        lines = VERSION_1.read_bytes().splitlines(keepends=True)
        read = [decode_line(line) for line in lines]
        self.assertEqual(
            [(event.id, cost, event.upstream, event.received_at[:10]) for event, cost in read],
            [
                ("0" * 32, 292_500, "openai", "2026-11-29"),
                ("job/ü-1", 0, None, "2026-11-29"),
                ("e3", 123_456_789_012_345_678, "openai", "2026-11-30"),
                ("e4", 3 * 10**9, "openai", "2026-11-30"),
            ],
        )
        self.assertEqual(read[1][0].route_model, 'a\n"b\x00 – ☃')
        self.assertEqual(read[2][0].input_tokens, 10**12)
        for line in lines:
            self.assertEqual(decode_object(line)["key_sha256"], "ab" * 32)


class ObjectTests(SynchronousTestCase):
    """A line as people see it."""

    def test_the_cost_is_exact_decimal_text(self) -> None:
        """No float rounds the cost on its way to a page."""
        value = decode_object(encode_line(usage_event(), 123_456_789_012_345_678, RECEIVED))
        self.assertEqual(Decimal(value["cost_usd"]), Decimal("123456789.012345678"))
        self.assertEqual(value["status"], 200)
        self.assertEqual(value["endpoint"], "chat")
        self.assertTrue(msgspec.json.encode(value))
        self.assertEqual({"v", "crc32"} & set(value), set())

    def test_damage_anywhere_is_told(self) -> None:
        """A byte that is no UTF-8 in a member that no sum needs."""
        line = VERSION_1.read_bytes().splitlines()[0].replace(b'"ok"', b'"\xff"')
        self.assertEqual(decode_line(line)[1], 292_500)
        self.assertRaises(DamagedLineError, decode_object, line)
