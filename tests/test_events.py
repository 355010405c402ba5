"""The usage event and its line of JSON."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import (
    MAX_COUNT,
    MAX_EVENT_BYTES,
    MAX_TS_MS,
    AttemptRecord,
    InvalidEvent,
    TokenCounts,
    UsageEvent,
    checked_line,
    decode_event,
    encode_event,
    is_intact,
)


def an_event(**changes: Any) -> UsageEvent:
    """Return a usual event, with some members changed."""
    event = UsageEvent(
        id="01hf8n2v3c",
        key_sha256="ab" * 32,
        route_model="fast",
        upstream="openai",
        target_model="gpt-4o-mini",
        status=200,
        stream=True,
        input_tokens=80,
        cached_input_tokens=20,
        cache_write_input_tokens=0,
        output_tokens=42,
        cached=False,
        estimated=False,
        latency_ms=731,
        attempts=[
            AttemptRecord("backup", "gpt-4o", "connect_error", None, 12),
            AttemptRecord("openai", "gpt-4o-mini", "ok", 200, 700),
        ],
        ts_ms=1_795_953_600_000,
        endpoint="chat",
    )
    return msgspec.structs.replace(event, **changes)


MEMBERS = list(msgspec.to_builtins(an_event()))

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, MAX_COUNT)
attempts = st.builds(
    AttemptRecord,
    upstream=names,
    model=names,
    outcome=names,
    status=st.none() | st.integers(100, 599),
    duration_ms=counts,
)
events = st.builds(
    UsageEvent,
    id=names.filter(bool),
    key_sha256=names,
    route_model=names,
    upstream=st.none() | names,
    target_model=st.none() | names,
    status=st.integers(100, 599),
    stream=st.booleans(),
    input_tokens=counts,
    cached_input_tokens=counts,
    cache_write_input_tokens=counts,
    output_tokens=counts,
    cached=st.booleans(),
    estimated=st.booleans(),
    latency_ms=counts,
    attempts=st.lists(attempts, max_size=3),
    ts_ms=st.integers(0, MAX_TS_MS),
    endpoint=names,
)


class EncodeTests(SynchronousTestCase):
    def test_the_line_has_exactly_the_members(self) -> None:
        """A line is one object with the members of the event, its attempts included."""
        line = encode_event(an_event())
        self.assertNotIn(b"\n", line)
        self.assertEqual(json.loads(line), msgspec.to_builtins(an_event()))

    def test_text_that_cannot_be_encoded_is_repaired(self) -> None:
        """An event is not lost over half a surrogate pair in a name."""
        broken = an_event(
            route_model="x\ud800", attempts=[AttemptRecord("\udfff", "m", "ok", 200, 1)]
        )
        event = decode_event(encode_event(broken))
        self.assertEqual(event.route_model, "x\ufffd")
        self.assertEqual(event.attempts[0].upstream, "\ufffd")

    @settings(max_examples=150, deadline=None)
    @given(events)
    def test_an_event_comes_back_as_it_went(self, event: UsageEvent) -> None:
        """Encoding and decoding is the identity, by line and by object."""
        line = encode_event(event)
        self.assertEqual(decode_event(line), event)
        self.assertEqual(decode_event(json.loads(line)), event)
        self.assertEqual(len(line.splitlines()), 1)


class CheckTests(SynchronousTestCase):
    @settings(max_examples=150, deadline=None)
    @given(events)
    def test_a_checked_line_is_the_event_still(self, event: UsageEvent) -> None:
        """The checksum is one more member, which readers that do not know it leave out."""
        line = checked_line(encode_event(event))
        self.assertTrue(is_intact(line))
        self.assertEqual(decode_event(line), event)

    @settings(max_examples=300, deadline=None)
    @given(events, events, st.data())
    def test_parts_of_two_lines_are_none(
        self, first: UsageEvent, second: UsageEvent, data: st.DataObject
    ) -> None:
        """The beginning of one line before the end of another is no third event.

        Only the last member may be another one, or left out: behind it no checksum is whole.
        """
        one, other = (checked_line(encode_event(event)) for event in (first, second))
        at = data.draw(st.integers(1, min(len(one), len(other)) - 1))
        mixed = one[:at] + other[at:]
        try:
            event = decode_event(mixed)
        except InvalidEvent:
            return
        if is_intact(mixed):
            whole = [msgspec.structs.replace(each, endpoint="") for each in (event, first, second)]
            self.assertIn(whole[0], whole[1:])

    def test_lines_without_a_checksum_are_taken(self) -> None:
        """Those that an earlier version wrote."""
        self.assertTrue(is_intact(encode_event(an_event())))
        for short in (b"", b"}", b"{}"):
            self.assertTrue(is_intact(short))


class DecodeTests(SynchronousTestCase):
    def refused(self, line: bytes | dict[str, Any]) -> str:
        """Return the reason for which ``line`` is refused."""
        return str(self.assertRaises(InvalidEvent, decode_event, line))

    def changed(self, **changes: Any) -> tuple[bytes, dict[str, Any]]:
        """Return a usual event with members changed, as line and as object."""
        value = {**msgspec.to_builtins(an_event()), **changes}
        return json.dumps(value).encode(), value

    def test_unknown_members_are_left_out(self) -> None:
        """A later data plane may send more; it is not kept."""
        for form in self.changed(colour="red"):
            self.assertEqual(decode_event(form), an_event())

    def test_every_member_but_the_endpoint_must_be_there(self) -> None:
        """A missing member is named."""
        for member in MEMBERS:
            _, value = self.changed()
            del value[member]
            if member == "endpoint":
                self.assertEqual(decode_event(value).endpoint, "")
                continue
            self.assertIn(f"`{member}`", self.refused(value))
            self.assertIn(f"`{member}`", self.refused(json.dumps(value).encode()))

    def test_members_of_another_type_are_refused(self) -> None:
        """A mistyped member is refused with its place, and nothing is converted."""
        cases: list[tuple[str, Any]] = [
            ("id", 7),
            ("id", ""),
            ("id", "x" * 257),
            ("key_sha256", None),
            ("key_sha256", "a" * 257),
            ("route_model", ["fast"]),
            ("status", "200"),
            ("status", 99),
            ("status", 600),
            ("stream", 1),
            ("stream", "true"),
            ("input_tokens", "5"),
            ("input_tokens", 5.5),
            ("input_tokens", True),
            ("output_tokens", None),
            ("cached", 0),
            ("latency_ms", -1),
            ("attempts", {}),
            ("attempts", [1]),
            ("ts_ms", -1),
            ("ts_ms", MAX_TS_MS + 1),
            ("ts_ms", 1.5),
        ]
        for member, value in cases:
            for form in self.changed(**{member: value}):
                self.assertIn(f"$.{member}", self.refused(form), (member, value))

    def test_counts_are_bounded(self) -> None:
        """A count that is negative or above 10^12 is no count; the bound itself is one."""
        for member in (name for name in MEMBERS if name.endswith("_tokens")):
            for value in (-1, MAX_COUNT + 1, 2**70):
                for form in self.changed(**{member: value}):
                    self.assertIn(member, self.refused(form))
            for form in self.changed(**{member: MAX_COUNT}):
                self.assertEqual(getattr(decode_event(form), member), MAX_COUNT)

    def test_bad_utf8_is_repaired(self) -> None:
        """Bytes that are not UTF-8 are no reason to drop an event."""
        line = encode_event(an_event()).replace(b'"fast"', b'"fa\xffst"')
        self.assertEqual(decode_event(line).route_model, "fa\ufffdst")

    def test_half_a_surrogate_pair_is_repaired(self) -> None:
        """An escape that stands for no character is no reason either."""
        line = encode_event(an_event()).replace(b'"fast"', rb'"fa\ud800st"')
        self.assertEqual(decode_event(line).route_model, "fa\ufffdst")

    def test_repaired_lines_are_still_judged(self) -> None:
        """A line with bad text and a bad count is refused for the count."""
        line = encode_event(an_event(input_tokens=5)).replace(b'"fast"', b'"\xff"')
        self.assertIn(
            "input_tokens",
            self.refused(line.replace(b'"input_tokens":5', b'"input_tokens":-5')),
        )

    def test_what_is_no_object_is_refused(self) -> None:
        """Torn, empty and foreign lines are refused."""
        whole = encode_event(an_event())
        junk = [b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"[" * 30_000, b'{"a":' * 9_000]
        for line in [*junk, *(whole[:cut] for cut in range(len(whole)))]:
            self.refused(line)

    def test_a_line_beyond_the_bound_is_refused(self) -> None:
        """A line of any size is refused before it is decoded."""
        self.assertIn(str(MAX_EVENT_BYTES), self.refused(b" " * (MAX_EVENT_BYTES + 1)))

    def test_the_counts_can_be_taken_out(self) -> None:
        """The counts of an event are what money is computed from."""
        self.assertEqual(an_event().counts(), TokenCounts(80, 20, 0, 42))
