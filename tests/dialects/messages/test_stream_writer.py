"""A streamed answer as events of Messages, for a client."""

import json
from typing import Any

import anthropic
import attrs
from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.messages.stream_reader import StreamReader
from omnigate.dialects.messages.stream_writer import StreamWriter
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import AnswerUsage, Frame, Stop
from omnigate.dialects.stops import MESSAGES_WORDS
from omnigate.wire.sse import EventSplitter, event_data
from tests.dialects.deltas import FRAME, Call, RecordingSink, Story, joined, stories, tell
from tests.dialects.official import playing

FINISH = ("finish", Stop.END, AnswerUsage(), None)


def written(calls: list[Call], frame: Frame = FRAME) -> list[bytes]:
    """Return the events that a writer makes of an answer, each as a whole."""
    writer = StreamWriter(frame)
    tell(writer, calls)
    for event in writer.out:
        assert EventSplitter().feed(event) == [event]
    return writer.out


def payloads(events: list[bytes]) -> list[Any]:
    """Return the data of events; each names its event as the data does."""
    found = [json.loads(event_data(event) or b"") for event in events]
    for event, data in zip(events, found, strict=True):
        assert event.startswith(b"event: %b\ndata: " % data["type"].encode())
    return found


def read_back(events: list[bytes]) -> RecordingSink:
    """Read what was written."""
    sink = RecordingSink()
    reader = StreamReader(sink, Meter("messages", True))
    for event in events:
        reader.event(event_data(event) or b"")
    return sink


def accumulated(events: list[bytes]) -> Any:
    """Return what the official client makes of a stream."""
    client = anthropic.Anthropic(
        api_key="k", base_url="http://gw.test", http_client=playing(anthropic, b"".join(events))
    )
    with client.messages.stream(
        model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
    ) as stream:
        message = stream.get_final_message()
    return anthropic.types.Message.model_validate(message.to_dict())


def expected(story: Story) -> list[Call]:
    """Return what a reader of Messages is to find: a refusal's words are text."""
    found: list[Call] = []
    for call in story.calls:
        if call[0] == "refusal":
            call = ("text", call[1])
        elif call[0] == "tool_start":
            call = (*call[:2], FRAME.tool_names.get(call[2], call[2]))
        found.append(call)
    return joined(found)


class RoundTripTests(SynchronousTestCase):
    """Any answer through the writer and back."""

    @settings(max_examples=200)
    @given(stories())
    def test_read_back(self, story: Story) -> None:
        """A reader of Messages tells what the writer was told."""
        self.assertEqual(read_back(written(story.calls)).story, expected(story))

    @settings(max_examples=60)
    @given(stories())
    def test_official_client(self, story: Story) -> None:
        """The official client adds the events up to the same answer."""
        message = accumulated(written(story.calls))
        blocks = message.content
        text = "".join(call[1] for call in expected(story) if call[0] == "text")
        self.assertEqual("".join(b.text for b in blocks if b.type == "text"), text)
        thoughts = "".join(b.thinking for b in blocks if b.type == "thinking")
        self.assertEqual(thoughts, story.texts("thinking"))
        signatures = [b.signature for b in blocks if b.type == "thinking"]
        ends = [call[1] for call in story.calls if call[0] == "thinking_end"]
        self.assertEqual(signatures, ends)
        starts = [call for call in story.calls if call[0] == "tool_start"]
        tools = [b for b in blocks if b.type == "tool_use"]
        self.assertEqual([tool.id for tool in tools], [call[1] for call in starts])
        inputs = "".join(
            "\n" if call[0] == "tool_end" else call[1]
            for call in story.calls
            if call[0] in ("tool_arguments", "tool_end")
        )
        self.assertEqual(
            [tool.input for tool in tools], [json.loads(line) for line in inputs.split("\n")[:-1]]
        )
        usage = message.usage
        figures = (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens)
        want = story.usage
        self.assertEqual(figures, (want.uncached, want.cached, want.output))
        self.assertEqual(message.stop_reason, MESSAGES_WORDS[story.calls[-1][1]])


class EventTests(SynchronousTestCase):
    """What each event has."""

    @settings(max_examples=200)
    @given(stories())
    def test_order(self, story: Story) -> None:
        """Blocks stand one after the other with a rising index, between start and delta."""
        first, *middle, delta, stop = payloads(written(story.calls))
        self.assertEqual(
            (first["type"], delta["type"], stop["type"]),
            ("message_start", "message_delta", "message_stop"),
        )
        index, begun = -1, False
        for event in middle:
            if event["type"] == "content_block_start":
                self.assertFalse(begun)
                begun, index = True, index + 1
            self.assertEqual((event["index"], begun), (index, True))
            if event["type"] == "content_block_stop":
                begun = False
        self.assertFalse(begun)

    def test_start(self) -> None:
        """The message begins with its name, and with nothing else known."""
        message = payloads(written([("start",), FINISH]))[0]["message"]
        self.assertEqual((message["id"], message["model"]), (f"msg_{FRAME.id}", FRAME.model))
        self.assertEqual(set(message["usage"].values()), {0})
        self.assertEqual((message["content"], message["stop_reason"]), ([], None))

    def test_thinking_not_wanted(self) -> None:
        """Nothing is told of thinking to those who did not ask, and no index is left out."""
        frame = attrs.evolve(FRAME, wants_thinking=False)
        thinking: list[Call] = [("thinking_start",), ("thinking", "a"), ("thinking_end", "s")]
        thinking.append(("redacted", "d"))
        tool: list[Call] = [("tool_start", "i", "f"), ("tool_arguments", "{}"), ("tool_end",)]
        with_it = [("start",), *thinking, ("text", "b"), *thinking, *tool, *thinking, FINISH]
        self.assertEqual(
            written(with_it, frame), written([("start",), ("text", "b"), *tool, FINISH], frame)
        )

    def test_refusal(self) -> None:
        """The provider's words stand beside the reason."""
        for refusal in (None, "no"):
            finish = ("finish", Stop.REFUSAL, AnswerUsage(), refusal)
            delta = payloads(written([("start",), finish]))[1]["delta"]
            self.assertEqual(delta["stop_reason"], "refusal")
            self.assertEqual((delta.get("stop_details") or {}).get("explanation"), refusal)

    def test_fault(self) -> None:
        """A fault is one event, first or midway, that the official client raises."""
        fault = Fault(FaultKind.OVERLOADED, "busy")
        for before in ([], [("start",), ("text", "a")]):
            events = written([*before, ("fault", fault)])
            error = {"type": "overloaded_error", "message": "busy"}
            self.assertEqual(payloads(events)[-1], {"type": "error", "error": error})
            raised = self.assertRaises(anthropic.APIStatusError, accumulated, events)
            self.assertEqual(raised.body["error"], error)
