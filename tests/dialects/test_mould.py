"""Moulds of events: with one or without, a meter sees the same."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import MAX_MOULDS_LOOKED_FOR, Meter
from omnigate.dialects.mould import MAX_MOULD_BYTES, mould

# By kind of endpoint: events with a word, as providers write them, with @ in its place.
EVENTS: dict[str, list[Any]] = {
    "chat": [
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "@"}, "finish_reason": None}]},
        {
            "id": "c",
            "choices": [{"delta": {"role": "assistant", "content": "@", "refusal": None}}],
            "usage": None,
            "obfuscation": "9fK2",
        },
        {"choices": [{"delta": {"content": "", "reasoning_content": "@"}}]},
        {"choices": [{"delta": {"reasoning": "@"}}], "obfuscation": "0"},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "@"}}]}}]},
        {"choices": [{"delta": {"content": "@"}}, {"delta": {"content": "@"}}]},
        {"choices": [{"delta": {"content": "@"}}], "usage": {"completion_tokens": 3}},
        {"choices": [{"delta": {"content": "@"}, "finish_reason": "stop"}]},
        {"text": "@", "choices": [{"delta": {"content": "@"}}]},
        {"choices": [{"delta": {"content": "@"}}], "object": "error"},
        {"choices": [{"delta": {}, "message": {"content": "@"}}]},
    ],
    "completions": [{"choices": [{"text": "@", "index": 0}]}],
    "responses": [
        {"type": "response.output_text.delta", "item_id": "m", "delta": "@"},
        {"type": "response.output_text.delta", "delta": "@", "obfuscation": "a8Tq"},
        {"type": "response.output_text.done", "text": "@"},
    ],
    "messages": [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "@"}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "@"}},
        {"type": "content_block_delta", "delta": {"partial_json": "@"}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": "@"}},
        {"type": "error", "delta": {"text": "@"}},
    ],
}
KINDS = sorted(EVENTS)

words = st.sampled_from(
    [
        *(b"word", b" a", b"", b"9", b"h\xc3\xa9", b"\xf0\x9f\x98\x80", b"\xe3\x80\x80", b"a b"),
        *(b"\\n", b"\\", b'"', b'","content":"b', b'\\"', b"\\u0041", b"\\ud800", b"assistant"),
        *(b"\x00", b"\n", b"\t", b"\x7f", b"\xff", b"\xed\xa0\x80", b"\xc2\x85", b"\xe2\x80\xa8"),
        *(b'"}],"x":["', b'","usage":{"completion_tokens":9},"y":"', b'","error":{"a":1},"y":"'),
    ]
) | st.binary(max_size=4)
odd = st.sampled_from([b"[DONE]", b"{}", b"x", b'{"choices":[]}', b'{"type":"error"}', b""])
# How the members of an object are parted in what is written.
spaces = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])


@st.composite
def events(draw: st.DrawFn, kind: str) -> bytes:
    """Draw the data of an event: likely ones, of few kinds, and now and then another."""
    if draw(st.integers(0, 9)) == 0:
        return draw(odd)
    drawn = json.dumps(draw(st.sampled_from(EVENTS[kind])), separators=draw(spaces)).encode()
    drawn = drawn.replace(b"@", draw(words))
    if draw(st.integers(0, 3)) == 0:
        drawn = drawn.replace(b"9fK2", draw(words))
    if draw(st.integers(0, 19)) == 0:
        at = draw(st.integers(0, len(drawn)))
        drawn = drawn[:at] + draw(words) + drawn[at + draw(st.integers(0, 2)) :]
    return drawn


def facts(meter: Meter) -> tuple[object, ...]:
    return (
        meter.event_count,
        meter.text_bytes,
        meter.closing_seen,
        meter.counts(),
        meter.thinking_tokens,
        meter._odd_left,
    )


class MouldTests(SynchronousTestCase):
    def test_found(self) -> None:
        """Likely events of every protocol have a mould, which tells how long their text is."""
        found = {
            "chat": [True] * 5 + [False, True, False, True, True, False],
            "completions": [True],
            "responses": [True, True, False],
            "messages": [True, True, True, True, False],
        }
        for kind, events in EVENTS.items():
            for event, expected in zip(events, found[kind], strict=True):
                for parted in ((",", ":"), (", ", ": ")):
                    data = json.dumps(event, separators=parted).encode()
                    meter = Meter(kind, True)
                    meter.event(data.replace(b"@", b"word"))
                    found_mould = meter.mould
                    self.assertEqual(expected, found_mould is not None, data)
                    if found_mould is None or data.count(b"@") > 1:
                        continue
                    longer = data[:-1] + b"," + data[1:]
                    for text in (b"b", b"  two words ", "Grüße, 世界".encode()):
                        like = data.replace(b"@", text)
                        self.assertEqual(len(text), found_mould.text_bytes(like))
                        self.assertEqual(0, found_mould.text_bytes(longer.replace(b"@", text)))

    def test_texts_that_are_not_plain(self) -> None:
        """What may leave its string, or is no text, does not fit."""
        plain = mould(b'{"a":"', b"", b'"}')
        for text in (b"", b'"', b"\\", b"\\n", b"\n", b"\x00", b"\x7f", b"\xff", b'","b":"'):
            self.assertEqual(0, plain.text_bytes(b'{"a":"%b"}' % text), text)
        self.assertEqual(1, plain.text_bytes(b'{"a":"b"}'))
        self.assertEqual(0, plain.text_bytes(b'{"a":"'))
        self.assertEqual(0, plain.text_bytes(b'"}'))
        padded = mould(b'{"a":"', b'","p":"', b'"}')
        for padding in (b"", b"-", b"\xc3\xa9", b'"', b'x","p":"y'):
            self.assertEqual(0, padded.text_bytes(b'{"a":"b","p":"%b"}' % padding), padding)
        self.assertEqual(1, padded.text_bytes(b'{"a":"b","p":"9A"}'))
        self.assertEqual(0, padded.text_bytes(b'{"a":"b"}'))

    def test_bounds(self) -> None:
        """A long event has no mould; and where moulds keep changing, the search has an end."""
        for padding, found in ((MAX_MOULD_BYTES - 80, True), (MAX_MOULD_BYTES, False)):
            meter = Meter("chat", True)
            event: dict[str, Any] = {"id": "x" * padding, "choices": [{"delta": {"content": "a"}}]}
            meter.event(json.dumps(event).encode())
            self.assertEqual(found, meter.mould is not None)
        meter = Meter("chat", True)
        moulds = set()
        for number in range(2 * MAX_MOULDS_LOOKED_FOR):
            meter.event(b'{"id":%d,"choices":[{"delta":{"content":"a"}}]}' % number)
            moulds.add(meter.mould)
        self.assertEqual(MAX_MOULDS_LOOKED_FOR, len(moulds))
        self.assertEqual(2 * MAX_MOULDS_LOOKED_FOR, meter.text_bytes)

    @given(st.data(), st.sampled_from(KINDS))
    @settings(max_examples=400, deadline=None)
    def test_any_events(self, data: st.DataObject, kind: str) -> None:
        """Of any events a meter tells the same, whether it looks for moulds or not."""
        meter, plain = Meter(kind, True), Meter(kind, True)
        plain._moulds_left = 0
        for event in data.draw(st.lists(events(kind), max_size=12)):
            self.assertEqual(plain.event(event), meter.event(event), event)
            self.assertEqual(facts(plain), facts(meter), event)
        self.assertIsNone(plain.mould)
