"""Reading events that do not fit the shape of their protocol."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.event_shapes import (
    ABSENT,
    LARGE_EVENT_BYTES,
    ChatChunk,
    OddEvent,
    decode_chat,
    decode_messages,
    decode_responses,
    read_odd,
    tells_error,
)
from omnigate.dialects.long_event import LongEvent
from omnigate.dialects.usage import Usage

PADDING = "x" * LARGE_EVENT_BYTES


def odd(event: dict[str, Any]) -> OddEvent:
    read = read_odd(json.dumps(event).encode())
    assert read is not None
    return read


class ShapeTests(SynchronousTestCase):
    def test_only_where_the_protocol_has_it(self) -> None:
        """Usage that is quoted in a text, or stands elsewhere, is none."""
        chunk = decode_chat(
            b'{"choices":[{"delta":{"content":"{\\"usage\\":{\\"prompt_tokens\\":9}}",'
            b'"usage":{"prompt_tokens":8}}}],"x":{"usage":{"prompt_tokens":7}},'
            b'"response":{"usage":{"output_tokens":6}},"message":{"usage":{"output_tokens":6}}}'
        )
        self.assertIsNone(chunk.usage)

    def test_escaped_spelling(self) -> None:
        """A name spelled with escapes or spaces is the same name."""
        chunk = decode_chat(b'{"\\u0075sage" : {"prompt_tokens" : 2}}')
        self.assertEqual(Usage(prompt_tokens=2), chunk.usage)

    def test_nulls(self) -> None:
        """Members that are null fit every shape."""
        nulls = json.dumps(
            dict.fromkeys(("choices", "usage", "error", "object", "delta", "response", "message"))
        ).encode()
        for decode in (decode_chat, decode_responses, decode_messages):
            decode(nulls)

    def test_error(self) -> None:
        """A member error tells of one unless it is empty."""
        for value in ("null", "false", "{}", "[]", '""', " null ", "0"):
            self.assertFalse(tells_error(msgspec.Raw(value.encode())), value)
        for value in ("true", "7", '{"message":"m"}', '"m"', '["m"]'):
            self.assertTrue(tells_error(msgspec.Raw(value.encode())), value)
        self.assertFalse(tells_error(ABSENT))
        self.assertIs(ABSENT, ChatChunk().error)


class OddEventTests(SynchronousTestCase):
    def both(self, event: dict[str, Any]) -> list[OddEvent]:
        """Read an event as it is, and as one that is too long to be held."""
        long = LongEvent()
        long.feed(b"data: %b\n\n" % json.dumps(event | {"padding": PADDING}).encode())
        read = long.read()
        assert read is not None
        return [odd(event), read]

    def test_usage(self) -> None:
        """Figures that can be believed are found beside others that cannot."""
        for event in self.both({"usage": {"prompt_tokens": "4", "completion_tokens": 5}}):
            self.assertEqual(Usage(completion_tokens=5), event.usage)
            self.assertEqual((None, None), (event.response_usage, event.message_usage))

    def test_inner_usage(self) -> None:
        """So are those of a response or a message inside the event."""
        for holder in ("response", "message"):
            for event in self.both({holder: {"usage": {"input_tokens": 4, "output_tokens": -1}}}):
                usages = {"response": event.response_usage, "message": event.message_usage}
                self.assertEqual(Usage(input_tokens=4), usages.pop(holder))
                self.assertEqual([None, None], [event.usage, *usages.values()])

    def test_names(self) -> None:
        """The names of the event's type and object are told, if they are names."""
        for event in self.both({"type": "message_stop", "object": "error"}):
            self.assertEqual(("message_stop", "error"), (event.type, event.object))
        for event in self.both({"type": 7, "object": None}):
            self.assertEqual(("", ""), (event.type, event.object))

    def test_choices(self) -> None:
        """It is told whether there are choices, and whether one is finished."""
        for choices, some, finished in (
            (None, False, False),
            ([], False, False),
            ([{}], True, False),
            ([{"finish_reason": None}], True, False),
            ([{"finish_reason": ""}], True, False),
            ([{"finish_reason": 3}, {"finish_reason": "stop"}], True, True),
        ):
            small, large = self.both({"choices": choices})
            self.assertEqual((some, finished), (small.choices, small.finish_reason), choices)
            self.assertEqual((True, finished), (large.choices, large.finish_reason), choices)

    def test_error(self) -> None:
        """An error is told of."""
        for event in self.both({"error": {"message": "no"}}):
            self.assertTrue(event.error)
        for event in self.both({"error": None}):
            self.assertFalse(event.error)

    def test_text(self) -> None:
        """Generated text is counted in bytes, in the members for it, at any depth."""
        for event in self.both(
            {
                "choices": [
                    {"delta": {"content": [{"type": "text", "text": "été"}], "role": "assistant"}},
                    {"delta": {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}},
                ]
            }
        ):
            self.assertIn(event.text_bytes, (7, len("\\u00e9t\\u00e9") + 2))
        self.assertEqual(
            0, odd({"usage": {"text": "abc"}, "message": {"content": "abc"}}).text_bytes
        )

    def test_python_json(self) -> None:
        """Half a surrogate pair does not hide the rest of an event."""
        event = read_odd(b'{"choices":[{"delta":{"content":"\\ud83d"},"finish_reason":"stop"}]}')
        assert event is not None
        self.assertTrue(event.finish_reason)

    def test_no_object(self) -> None:
        """What is no JSON object is no event."""
        for data in (b"", b"[1]", b"{", b"7", b"x" * (LARGE_EVENT_BYTES + 1), b"[" * 200_000):
            self.assertIsNone(read_odd(data), data[:9])

    values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-1, 2)
        | st.sampled_from(["stop", "error", "\ud83d"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "usage", "error", "response", "type", "delta", "text"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    )

    @given(values)
    @settings(max_examples=200, deadline=None)
    def test_never_raises(self, value: object) -> None:
        """Every JSON object is read, small or swollen; nothing else is an event."""
        data = json.dumps(value).encode()
        self.assertEqual(isinstance(value, dict), read_odd(data) is not None)
        if isinstance(value, dict) and "\\u" not in json.dumps(value):
            small, large = self.both(value)
            self.assertEqual(
                (small.type, small.object, small.usage, small.error),
                (large.type, large.object, large.usage, large.error),
            )
