"""A Messages stream as an upstream sends it, told to a sink."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.messages.stream_reader import StreamReader
from omnigate.dialects.meter import Meter
from omnigate.dialects.odd_events import MAX_ODD_LEFT
from omnigate.dialects.shapes import AnswerUsage, Stop
from tests.dialects.deltas import RecordingSink

START = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
STOP = {"type": "message_stop"}
TEXT = {"type": "text", "text": ""}
TOOL = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def begin(block: Any, index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any = 0, **value: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": value}


def text(text: Any, index: Any = 0) -> dict[str, Any]:
    return delta(index, type="text_delta", text=text)


def fragment(value: Any, index: Any = 0) -> dict[str, Any]:
    return delta(index, type="input_json_delta", partial_json=value)


def end(index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


class Stream:
    """A reader, its meter, and what it told."""

    def __init__(self) -> None:
        self.sink = RecordingSink()
        self.meter = Meter("messages", True)
        self.reader = StreamReader(self.sink, self.meter)

    def feed(self, *events: Any) -> "Stream":
        for event in events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode()
            self.reader.event(data)
        return self

    def run(self, *events: Any) -> "Stream":
        self.feed(*events).reader.end()
        return self

    @property
    def told(self) -> list[tuple[Any, ...]]:
        """What was told between start and finish."""
        story = self.sink.story
        assert story[0] == ("start",) and story[-1][0] == "finish", story
        return story[1:-1]

    @property
    def fault(self) -> Fault:
        """The fault at the end."""
        name, fault = self.sink.calls[-1]
        assert name == "fault" and self.reader.failed and not self.reader.finished
        assert isinstance(fault, Fault)
        return fault


def told(*events: Any) -> list[tuple[Any, ...]]:
    """Return what is told of a message's blocks."""
    return Stream().run(START, *events, END, STOP).told


class TellingTests(SynchronousTestCase):
    """What a stream says, and when it is told."""

    def test_event_by_event(self) -> None:
        """Each event is told when it comes; pings and unknown ones say nothing."""
        stream = Stream()
        for event, calls in (
            ({"type": "ping"}, []),
            (START, ["start"]),
            ({"type": "ping"}, []),
            (begin({"type": "thinking", "thinking": "", "signature": ""}), ["thinking_start"]),
            (delta(type="thinking_delta", thinking="a"), ["thinking"]),
            (delta(type="signature_delta", signature="s1"), []),
            (delta(type="signature_delta", signature="s2"), []),
            (end(), ["thinking_end"]),
            (begin({"type": "redacted_thinking", "data": "d"}, 1), ["redacted"]),
            (end(1), []),
            (begin(TEXT, 2), []),
            (text("", 2), []),
            (text("b", 2), ["text"]),
            (delta(2, type="citations_delta", citation={"cited_text": "x"}), []),
            (delta(2, type="later_delta", text="x"), []),
            (end(2), []),
            ({"type": "later", "text": "x"}, []),
            (begin(TOOL, 3), ["tool_start"]),
            (fragment("", 3), []),
            (fragment('{"a"', 3), ["tool_arguments"]),
            (fragment(":1}", 3), ["tool_arguments"]),
            (end(3), ["tool_end"]),
            (END, []),
            (STOP, ["finish"]),
        ):
            before = len(stream.sink.calls)
            stream.feed(event)
            self.assertEqual(stream.sink.names[before:], calls, event)
        self.assertEqual(stream.told[3], ("redacted", "d"))
        self.assertEqual(stream.told[2], ("thinking_end", "s2"))
        usage = AnswerUsage(uncached=9, output=5)
        self.assertEqual(stream.sink.calls[-1], ("finish", Stop.END, usage, None))
        self.assertEqual((stream.meter.event_count, stream.meter.text_bytes), (24, 9))

    def test_whole_in_the_start(self) -> None:
        """What a compatible server puts into the start of a block is told."""
        thinking = {"type": "thinking", "thinking": "a", "signature": "s"}
        self.assertEqual(
            told(begin(thinking), end(), begin({"type": "text", "text": "b"}, 1), end(1)),
            [("thinking_start",), ("thinking", "a"), ("thinking_end", "s"), ("text", "b")],
        )

    def test_input_in_the_start(self) -> None:
        """So is the input of a call, compact and with its own numbers, unless deltas bring it."""
        for value, arguments in (
            ("{}", "{}"),
            ("null", "{}"),
            ('{ "a": 1.50 }', '{"a":1.50}'),
            ('{"__raw_arguments": "{x"}', "{x"),
            ('"{\\"a\\": 1}"', '{"a": 1}'),
            ('""', "{}"),
            ('{"a": "\\ud83d"}', '{"a":"\N{REPLACEMENT CHARACTER}"}'),
        ):
            event = json.dumps(begin(TOOL)).replace("{}", value).encode()
            calls = told(event, fragment(""), end())
            self.assertEqual(calls[1], ("tool_arguments", arguments), value)
        self.assertEqual(
            told(begin(TOOL | {"input": {"b": 2}}), fragment('{"a":1}'), end())[1],
            ("tool_arguments", '{"a":1}'),
        )

    def test_ignored_blocks(self) -> None:
        """The tools of a provider's own are not told, but were generated."""
        stream = Stream().run(
            START,
            begin({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            fragment('{"q":1}'),
            end(),
            begin({"type": "web_search_tool_result", "content": []}, 1),
            end(1),
            begin(TEXT, 2),
            text("a", 2),
            end(2),
            END,
            STOP,
        )
        self.assertEqual(stream.told, [("text", "a")])
        self.assertEqual(stream.meter.text_bytes, 8)

    def test_forgetful_servers(self) -> None:
        """Missing ids, indexes, types, starts and ends of blocks are made good."""
        self.assertEqual(told(text("a"), text("b")), [("text", "ab")])
        self.assertEqual(told(begin(TEXT, None), text("a"), end(None)), [("text", "a")])
        self.assertEqual(told(begin(TEXT), delta(None, text="a"), end()), [("text", "a")])
        self.assertEqual(
            told(
                delta(thinking="a"),
                begin(TOOL | {"id": ""}, 1),
                fragment("{}", 1),
                begin(TEXT, 2),
                end(1),
                text("b", 2),
            )[2:][::2],
            [("thinking_end", ""), ("tool_arguments", "{}"), ("text", "b")],
        )
        stream = Stream().run(begin(TEXT), text("a"), STOP)
        self.assertEqual((stream.told, stream.sink.calls[-1][1]), ([("text", "a")], Stop.END))

    def test_refusal(self) -> None:
        """The provider's words come with the finish; without any there are none."""
        for details, words in (
            ({"type": "refusal", "category": "cyber", "explanation": "no"}, "no"),
            ({"type": "refusal", "explanation": None}, None),
            (None, None),
        ):
            last = {"stop_reason": "refusal", "stop_details": details}
            stream = Stream().run(START, {"type": "message_delta", "delta": last}, STOP)
            self.assertEqual(stream.sink.calls[-1][1::2], (Stop.REFUSAL, words))

    def test_usage(self) -> None:
        """Figures of ``message_delta`` are totals; those it leaves out keep the start's."""
        first = {"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1}
        start = {"type": "message_start", "message": {"usage": first}}
        last = {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}}
        middle = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}}
        stream = Stream().run(start, middle, END | {"usage": last}, STOP)
        self.assertEqual(stream.sink.calls[-1][2], AnswerUsage(9, 3, 0, 7, 4))
        self.assertTrue(stream.meter.closing_seen)
        stream = Stream().run(start, STOP)
        self.assertFalse(stream.meter.closing_seen)


class FaultTests(SynchronousTestCase):
    """What breaks a stream."""

    def test_cut(self) -> None:
        """A stream without its ``message_stop`` was cut, wherever."""
        events = [START, begin(TEXT), text("a"), end(), END]
        for count in range(len(events) + 1):
            stream = Stream().run(*events[:count])
            self.assertIs(stream.fault.kind, FaultKind.INTERRUPTED)
            self.assertEqual(stream.reader.started, count > 0)

    def test_errors(self) -> None:
        """An error is told in the server's words, first or midway, in whatever shape."""
        for error in (
            {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
            {"error": {"message": "no", "type": "server_error"}},
            {"error": "no"},
            {"detail": "no"},
            {"message": "no", "code": 500},
            {"object": "error", "message": "no"},
            [{"error": {"message": "no"}}],
        ):
            for before in ([], [START, begin(TEXT), text("a")]):
                stream = Stream().run(*before, error, STOP)
                self.assertEqual(stream.fault.message, "no", error)
                self.assertEqual(stream.reader.started, bool(before))
                names = ["start", "text", "fault"] if before else ["fault"]
                self.assertEqual(stream.sink.names, names)

    def test_no_json(self) -> None:
        """What is no JSON breaks the stream."""
        for junk in (b"junk", b"<html>", b'{"type":', b"1"):
            stream = Stream().run(START, junk, STOP)
            self.assertIs(stream.fault.kind, FaultKind.BAD_ANSWER, junk)

    def test_nothing(self) -> None:
        """Empty data, and what says nothing, is passed over; it starts nothing."""
        for nothing in (b"", b" ", b"null", {}, {"type": "later"}, b"[DONE]", {"type": None}):
            stream = Stream().feed(nothing)
            self.assertEqual(stream.sink.calls, [])
            self.assertEqual(stream.run(START, STOP).told, [])

    def test_disorder(self) -> None:
        """What cannot be told one after the other breaks the stream."""
        for events in (
            [STOP],
            [START, begin(TEXT), text("a", 1)],
            [START, begin(TOOL), begin(TEXT, 1), fragment("{}", 0)],
            [START, fragment("{}")],
            [START, begin(TOOL), end(), fragment("{}")],
            [START, begin(TOOL | {"name": None})],
        ):
            stream = Stream().run(*events, STOP)
            self.assertIs(stream.fault.kind, FaultKind.BAD_ANSWER, events)


class OddTests(SynchronousTestCase):
    """Events that do not fit the protocol."""

    def test_odd(self) -> None:
        """Indexes as text, halves of pairs and figures that cannot be believed do no harm."""
        odd = END | {"usage": {"input_tokens": "x", "output_tokens": 5.0}}
        stream = Stream().run(
            START | {"message": {"usage": {"input_tokens": 9.0, "output_tokens": None}}},
            begin(TEXT, "0"),
            text("a\ud83d"),
            end(0.0),
            begin(TOOL | {"input": {"x": 1}, "cache": "\ud83d"}, "1"),
            end("1"),
            begin(TOOL | {"id": "b", "input": '{"\ud83d":1}'}, "2"),
            end("2"),
            odd,
            STOP,
        )
        mark = "\N{REPLACEMENT CHARACTER}"
        self.assertEqual(stream.told[0], ("text", f"a{mark}"))
        self.assertEqual(stream.told[2], ("tool_arguments", '{"x":1}'))
        self.assertEqual(stream.told[5], ("tool_arguments", '{"' + mark + '":1}'))
        self.assertEqual(stream.sink.calls[-1][2], AnswerUsage(9, 0, 0, 5))

    def test_bound(self) -> None:
        """Short odd events may come a hundred times, no more."""
        short = b'{"type":"ping","index":"0"}'
        stream = Stream().feed(START, *[short] * MAX_ODD_LEFT)
        self.assertIs(stream.fault.kind, FaultKind.BAD_ANSWER)
        self.assertGreater(stream.meter.event_count, 100)

    @settings(max_examples=200)
    @given(st.lists(st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.sampled_from((
            "message_start", "content_block_start", "content_block_delta", "content_block_stop",
            "message_delta", "message_stop", "text", "thinking", "tool_use", "text_delta",
            "thinking_delta", "input_json_delta", "signature_delta", "error",
        )),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
            st.sampled_from((
                "type", "type", "index", "delta", "content_block", "message", "usage", "error",
                "text", "partial_json", "thinking", "signature", "stop_reason", "stop_details",
                "explanation", "id", "name", "input", "data", "output_tokens",
            )),
            inner,
            max_size=5,
        ),
        max_leaves=12,
    ), max_size=8))  # fmt: skip
    def test_anything(self, trees: list[Any]) -> None:
        """No event makes a reader crash or break the rules of its sink."""
        stream = Stream().run(*[json.dumps(tree).encode() for tree in trees])
        self.assertNotEqual(stream.reader.finished, stream.reader.failed)
        self.assertIn(stream.sink.names[-1], ("finish", "fault"))

    @settings(max_examples=200)
    @given(st.lists(st.sampled_from((
        START, begin(TEXT), begin(TEXT, 1), text("a"), text("b", 1), end(), end(1), begin(TOOL),
        begin(TOOL, 1), fragment("{}"), fragment(" ", 1), begin({"type": "thinking"}), STOP, END,
        delta(type="thinking_delta", thinking="t"), begin({"type": "later"}), text("c", None),
    )), max_size=12))  # fmt: skip
    def test_any_order(self, events: list[Any]) -> None:
        """Nor does any order of good ones."""
        stream = Stream().run(*events)
        self.assertNotEqual(stream.reader.finished, stream.reader.failed)
        self.assertIn(stream.sink.names[-1], ("finish", "fault"))
