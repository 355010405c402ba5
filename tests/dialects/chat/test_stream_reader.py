"""A Chat stream as an upstream sends it, told to a sink."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.stream_reader import StreamReader
from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.meter import Meter
from omnigate.dialects.odd_events import MAX_ODD_LEFT
from omnigate.dialects.shapes import AnswerUsage, Stop
from tests.dialects.deltas import RecordingSink

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = "[DONE]"


def chunk(delta: Any, **more: Any) -> dict[str, Any]:
    """Return a chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": None} | more
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


class Stream:
    """A reader, its meter, and what it told."""

    def __init__(self) -> None:
        self.sink = RecordingSink()
        self.meter = Meter("chat", True)
        self.reader = StreamReader(self.sink, self.meter)

    def feed(self, *events: Any) -> "Stream":
        for event in events:
            if not isinstance(event, bytes):
                event = event.encode() if event == DONE else json.dumps(event).encode()
            self.reader.event(event)
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
    def stop(self) -> Stop:
        stop: Stop = self.sink.calls[-1][1]
        return stop

    @property
    def fault(self) -> Fault:
        """The fault at the end."""
        name, fault = self.sink.calls[-1]
        assert name == "fault" and self.reader.failed and not self.reader.finished
        assert isinstance(fault, Fault)
        return fault


class TellingTests(SynchronousTestCase):
    """What a stream says, and when it is told."""

    def test_delta_by_delta(self) -> None:
        """Each delta is told with the event that brings it."""
        stream = Stream()
        for event, calls in (
            (chunk({"role": "assistant", "content": ""}), ["start"]),
            (chunk({"reasoning_content": "a"}), ["thinking_start", "thinking"]),
            (chunk({"reasoning": "b"}), ["thinking"]),
            (chunk({"reasoning": "c", "reasoning_content": "c"}), ["thinking"]),
            (chunk({"content": "d"}), ["thinking_end", "text"]),
            (chunk({"refusal": "e"}), ["refusal"]),
            (chunk({"content": None}), []),
            (chunk({"function_call": {"name": "f", "arguments": ""}}), []),
            (STOP, []),
            ({"choices": [], "usage": USAGE}, []),
        ):
            before = len(stream.sink.calls)
            stream.feed(event)
            self.assertEqual(stream.sink.names[before:], calls, event)
        self.assertFalse(stream.reader.finished)
        stream.feed(DONE)
        self.assertTrue(stream.reader.finished)
        self.assertEqual(stream.stop, Stop.REFUSAL)

    def test_all_in_one(self) -> None:
        """One chunk may bring everything, in the order in which an answer has it."""
        calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]
        delta = {"tool_calls": calls, "content": "t", "reasoning": "r"}
        stream = Stream().run(chunk(delta, finish_reason="stop") | {"usage": USAGE})
        self.assertEqual(
            stream.told,
            [
                ("thinking_start",),
                ("thinking", "r"),
                ("thinking_end", ""),
                ("text", "t"),
                ("tool_start", "a", "f"),
                ("tool_arguments", "{}"),
                ("tool_end",),
            ],
        )
        usage = AnswerUsage(uncached=9, output=5)
        self.assertEqual(stream.sink.calls[-1], ("finish", Stop.TOOLS, usage, None))

    def test_function_call(self) -> None:
        """The call of old has no id and is one all the same."""
        stream = Stream().run(
            chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
            chunk({"function_call": {"arguments": ":1}"}}, finish_reason="function_call"),
        )
        (_, made, name), *rest = stream.told
        self.assertTrue(made.startswith("toolu_gw_"))
        self.assertEqual((name, rest), ("f", [("tool_arguments", '{"a":1}'), ("tool_end",)]))
        self.assertIs(stream.stop, Stop.TOOLS)

    def test_other_choices(self) -> None:
        """Only the first choice is told; the text of others was generated too."""
        other = chunk({"content": "xyz", "tool_calls": [{"function": {"arguments": "{}"}}]})
        other["choices"][0] |= {"index": 1, "finish_reason": "length"}
        both = chunk({"content": "ab"})
        both["choices"] += other["choices"]
        stream = Stream().run(other, both, STOP)
        self.assertEqual(stream.told, [("text", "ab")])
        self.assertIs(stream.stop, Stop.END)
        self.assertEqual(stream.meter.text_bytes, 12)
        both["choices"][1].pop("index")
        self.assertEqual(Stream().run(both, STOP).told, [("text", "ab")])

    def test_metering(self) -> None:
        """Events but ``[DONE]`` and all generated text are counted, in bytes of UTF-8."""
        tool = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}
        more = {"tool_calls": [{"index": 0, "function": {"arguments": '{"é":1}'}}]}
        deltas = [{"reasoning": "aé"}, {"content": "bé"}, {"refusal": "cé"}, tool, more]
        stream = Stream().run(*map(chunk, deltas), STOP, {"choices": [], "usage": USAGE}, DONE)
        self.assertEqual((stream.meter.event_count, stream.meter.text_bytes), (7, 17))
        self.assertTrue(stream.meter.closing_seen)


class FinishTests(SynchronousTestCase):
    """When an answer is finished, and what it is without."""

    def test_reasons(self) -> None:
        """A reason may come with ``[DONE]`` behind it or the end, early, or more than once."""
        for events in (
            [chunk({"content": "a"}, finish_reason="length")],
            [chunk({"content": "a"}, finish_reason="length"), DONE],
            [chunk({}, finish_reason="length"), chunk({"content": "a"}), DONE],
            [chunk({"content": "a"}, finish_reason="stop"), chunk({}, finish_reason="length")],
            [chunk({"content": "a"}, finish_reason="length"), chunk({}, finish_reason="")],
        ):
            stream = Stream().run(*events)
            self.assertEqual((stream.told, stream.stop), ([("text", "a")], Stop.LENGTH))

    def test_no_reason(self) -> None:
        """A stream that gives none was cut, whatever stands at its end."""
        for reason in (None, ""):
            for end in ([], [DONE], [{"choices": [], "usage": USAGE}, DONE]):
                stream = Stream().run(chunk({"content": "a"}, finish_reason=reason), *end)
                self.assertIs(stream.fault.kind, FaultKind.INTERRUPTED)
                self.assertTrue(stream.reader.started)
        for events in ([], [DONE], [b""]):
            stream = Stream().run(*events)
            self.assertIs(stream.fault.kind, FaultKind.INTERRUPTED)
            self.assertFalse(stream.reader.started)

    def test_reason_of_a_failure(self) -> None:
        """A reason that tells of a failure is no finish."""
        stream = Stream().run(chunk({"content": "a"}, finish_reason="error"), DONE)
        self.assertIs(stream.fault.kind, FaultKind.SERVER)

    def test_nothing_behind(self) -> None:
        """What follows the finish or a fault is not looked at."""
        for last in (DONE, {"error": {"message": "x"}}, b"junk"):
            stream = Stream().feed(STOP, last)
            told, events = list(stream.sink.calls), stream.meter.event_count
            stream.run(chunk({"content": "b"}), b"junk", DONE)
            self.assertEqual((stream.sink.calls, stream.meter.event_count), (told, events))

    def test_usage(self) -> None:
        """Running totals may come with each chunk; the largest of each figure counts."""
        first = {"prompt_tokens": 9, "completion_tokens": 1}
        last = USAGE | {
            "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
        stream = Stream().run(
            chunk({"content": "a"}) | {"usage": first}, STOP | {"usage": last}, DONE
        )
        self.assertEqual(stream.sink.calls[-1][2], AnswerUsage(4, 2, 3, 5, 4))
        self.assertEqual(Stream().run(STOP).sink.calls[-1][2], AnswerUsage())


#: Errors as servers send them into a stream, and what each says.
ERRORS = [
    ({"error": {"message": "no", "type": "server_error", "code": None}}, "no"),
    ({"error": {"message": "no", "code": 502}, "choices": []}, "no"),
    ({"error": "no"}, "no"),
    ({"error": {"message": "no"}, **chunk({"content": ""}, finish_reason="error")}, "no"),
    ({"object": "error", "message": "no", "type": "BadRequest", "code": 400}, "no"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}, "no"),
    ({"detail": "no"}, "no"),
    ({"message": "no", "code": 503}, "no"),
    ([{"error": {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}}], "no"),
    ({"error": {"message": "\ud83d"}}, "\N{REPLACEMENT CHARACTER}"),
    ({"error": {}, "errors": [{"message": "no"}]}, None),
]


class FaultTests(SynchronousTestCase):
    """What breaks a stream."""

    def test_errors(self) -> None:
        """An error is told in the server's words, first or midway, in whatever shape."""
        for error, message in ERRORS:
            for before in ([], [chunk({"content": "a"})]):
                stream = Stream().run(*before, error, STOP, DONE)
                if message is not None:
                    self.assertEqual(stream.fault.message, message, error)
                self.assertTrue(stream.reader.failed, error)
                self.assertEqual(stream.reader.started, bool(before))
                names = ["start", "text", "fault"] if before else ["fault"]
                self.assertEqual(stream.sink.names, names)

    def test_no_error(self) -> None:
        """What servers write to say that there is none is none."""
        nothings: list[Any] = [None, False, {}, "", [], 0]
        for nothing in nothings:
            stream = Stream().run(chunk({"content": "a"}) | {"error": nothing}, STOP)
            self.assertEqual(stream.told, [("text", "a")])

    def test_no_json(self) -> None:
        """What is no JSON breaks the stream: the rest of it would not be the answer."""
        for junk in (b"junk", b"<html>", b'{"choices":[', b'{"a":1} {"b":2}', b"1", b'"x"'):
            for before in ([], [chunk({"content": "a"})]):
                stream = Stream().run(*before, junk, STOP, DONE)
                self.assertIs(stream.fault.kind, FaultKind.BAD_ANSWER, junk)
                self.assertEqual(stream.reader.started, bool(before))

    def test_nothing(self) -> None:
        """Empty data and objects that say nothing are passed over; they start nothing."""
        objects: list[Any] = [{}, {"id": "x", "object": "ping"}, {"choices": None}]
        for nothing in (b"", b" ", b"null", *objects):
            stream = Stream().feed(nothing)
            self.assertEqual(stream.sink.calls, [])
            self.assertEqual(stream.run(STOP).told, [])

    def test_mixed_up(self) -> None:
        """Calls that cannot be told in order break the stream."""
        stream = Stream().run(chunk({"tool_calls": [{}] * 1000}), STOP)
        self.assertIn("too many", stream.fault.message)
        stream = Stream().run(chunk({"tool_calls": [{"index": 0, "id": "a"}]}), STOP)
        self.assertIs(stream.fault.kind, FaultKind.BAD_ANSWER)
        self.assertIn("without a name", stream.fault.message)


class OddTests(SynchronousTestCase):
    """Chunks that do not fit the protocol, and what is read of them all the same."""

    def test_odd(self) -> None:
        """Contents as parts, indexes as text, arguments as objects, halves of pairs."""
        tool = ("tool_start", "a", "f")
        for delta, told in (
            ({"content": ["a", {"type": "text", "text": "b"}]}, [("text", "ab")]),
            ({"content": [{"text": "a"}, {"type": "image_url"}, 3, None]}, [("text", "a")]),
            ({"content": [{"type": "refusal", "refusal": "a"}]}, [("refusal", "a")]),
            (
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]},
                [("thinking_start",), ("thinking", "a"), ("thinking_end", "")],
            ),
            ({"content": "a\ud83d"}, [("text", "a\N{REPLACEMENT CHARACTER}")]),
            ({"content": {"text": "a"}, "refusal": 3}, []),
            (
                {"tool_calls": [{"index": "0", "id": "a", "function": {"name": "f"}}, None, 3]},
                [tool, ("tool_arguments", "{}"), ("tool_end",)],
            ),
            (
                {
                    "tool_calls": {
                        "index": 0.0,
                        "id": "a",
                        "function": {"name": "f", "arguments": {"x": [1, None]}},
                    }
                },
                [tool, ("tool_arguments", '{"x":[1,null]}'), ("tool_end",)],
            ),
            ([], []),
            ({"tool_calls": [{"index": 1 << 80, "function": 3}]}, []),
        ):
            stream = Stream().run(chunk(delta), STOP, DONE)
            self.assertEqual(stream.told, told, delta)

    def test_odd_members(self) -> None:
        """Odd figures and choices beside good ones cost only themselves."""
        odd = chunk({"content": "a"}) | {"usage": {"prompt_tokens": "x", "completion_tokens": 5.0}}
        odd["choices"].append("junk")
        stream = Stream().run(odd, STOP)
        self.assertEqual(stream.told, [("text", "a")])
        self.assertEqual(stream.sink.calls[-1][2], AnswerUsage(output=5))
        self.assertEqual(stream.meter.text_bytes, 1)
        bad_utf8 = json.dumps(chunk({"content": "x"})).encode().replace(b'"x"', b'"\xff"')
        self.assertEqual(Stream().run(bad_utf8, STOP).told, [("text", "\N{REPLACEMENT CHARACTER}")])

    def test_bound(self) -> None:
        """Short odd events may come a hundred times; long ones as often as they like."""
        short = b'{"choices":[{"delta":{"content":["x"]}}]}'
        for event, count, failed in ((short, MAX_ODD_LEFT, True), (short + b" " * 7, 3000, False)):
            stream = Stream().feed(*[event] * count)
            self.assertEqual(stream.reader.failed, failed)
            self.assertGreater(len(stream.sink.calls), 100)

    @settings(max_examples=200)
    @given(st.lists(st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.just("error"),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
            st.sampled_from((
                "choices", "delta", "content", "tool_calls", "function", "arguments", "name",
                "index", "id", "usage", "error", "finish_reason", "reasoning", "refusal", "text",
                "type", "thinking", "function_call", "object", "prompt_tokens",
            )),
            inner,
            max_size=4,
        ),
        max_leaves=12,
    ), max_size=6))  # fmt: skip
    def test_anything(self, trees: list[Any]) -> None:
        """No event makes a reader crash or break the rules of its sink."""
        events = [json.dumps(tree).encode() for tree in trees]
        events += [
            json.dumps({"choices": [{"delta": tree, "finish_reason": "stop"}]}).encode()
            for tree in trees
        ]
        stream = Stream().run(*events)
        self.assertNotEqual(stream.reader.finished, stream.reader.failed)
        self.assertIn(stream.sink.names[-1], ("finish", "fault"))

    @settings(max_examples=200)
    @given(st.lists(st.binary(max_size=20), max_size=5))
    def test_any_bytes(self, events: list[bytes]) -> None:
        """Junk is never taken for an answer."""
        stream = Stream().run(*events)
        self.assertTrue(stream.reader.failed)
        msgspec.json.encode(stream.fault.message)
