"""A streamed answer as chunks of Chat, for a client."""

import json
from typing import Any

import attrs
import openai
from hypothesis import given, settings
from openai.lib.streaming.chat import ChatCompletionStreamState
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.stream_reader import StreamReader
from omnigate.dialects.chat.stream_writer import MAX_BLOCK_CHARS, StreamWriter
from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import AnswerUsage, Frame, Stop
from omnigate.dialects.stops import CHAT_WORDS
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
    """Return the data of events, parsed where it is JSON."""
    found = [event_data(event) or b"" for event in events]
    return [json.loads(data) if data.startswith(b"{") else data for data in found]


def read_back(events: list[bytes]) -> RecordingSink:
    """Read what was written."""
    sink = RecordingSink()
    reader = StreamReader(sink, Meter("chat", True))
    for event in events:
        reader.event(event_data(event) or b"")
    return sink


def accumulated(events: list[bytes]) -> Any:
    """Return what the official client makes of a stream."""
    client = openai.OpenAI(
        api_key="k", base_url="http://gw.test", http_client=playing(openai, b"".join(events))
    )
    state: Any = ChatCompletionStreamState()
    for chunk in client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}], stream=True
    ):
        type(chunk).model_validate(chunk.to_dict())
        state.handle_chunk(chunk)
    return state.current_completion_snapshot


def expected(story: Story) -> list[Call]:
    """Return what a reader of Chat is to find: no signatures, no redacted blocks."""
    found: list[Call] = []
    for call in story.calls[:-1]:
        if call[0] == "thinking_end":
            call = ("thinking_end", "")
        if call[0] == "thinking_start" and found[-1][0] == "thinking_end":
            found.pop()
        elif call[0] != "redacted":
            found.append(call)
    _, stop, usage, refusal = story.calls[-1]
    names = {call[0] for call in found}
    if refusal and "refusal" not in names:
        found.append(("refusal", refusal))
    elif stop in (Stop.END, Stop.REFUSAL):
        if "refusal" in names:
            stop = Stop.REFUSAL
        elif stop is Stop.END and "tool_start" in names:
            stop = Stop.TOOLS
    named = [
        ("tool_start", call[1], FRAME.tool_names.get(call[2], call[2]))
        if call[0] == "tool_start"
        else call
        for call in found
    ]
    return joined([*named, ("finish", stop, usage, None)])


class RoundTripTests(SynchronousTestCase):
    """Any answer through the writer and back."""

    @settings(max_examples=200)
    @given(stories())
    def test_read_back(self, story: Story) -> None:
        """A reader of Chat tells what the writer was told."""
        self.assertEqual(read_back(written(story.calls)).story, expected(story))

    @settings(max_examples=60)
    @given(stories())
    def test_official_client(self, story: Story) -> None:
        """The official client adds the chunks up to the same answer."""
        completion = accumulated(written(story.calls))
        choice = completion.choices[0]
        message, extra = choice.message, choice.message.model_extra or {}
        self.assertEqual(message.content or "", story.texts("text"))
        self.assertEqual(extra.get("reasoning_content") or "", story.texts("thinking"))
        self.assertEqual(completion.usage.prompt_tokens, story.usage.input)
        starts = [call for call in story.calls if call[0] == "tool_start"]
        calls = message.tool_calls or []
        self.assertEqual(
            [(call.id, call.function.name) for call in calls],
            [(call[1], FRAME.tool_names.get(call[2], call[2])) for call in starts],
        )
        arguments = "".join(call.function.arguments for call in calls)
        self.assertEqual(arguments, story.texts("tool_arguments"))
        blocks = extra.get("thinking_blocks") or []
        self.assertEqual([block["index"] for block in blocks], list(range(len(blocks))))


class ChunkTests(SynchronousTestCase):
    """What each chunk has."""

    def test_frame(self) -> None:
        """All chunks share id, time and model; the usage comes in the last of them alone."""
        for include_usage in (True, False):
            frame = attrs.evolve(FRAME, include_usage=include_usage)
            *chunks, done = payloads(written([("start",), ("text", "a"), FINISH], frame))
            self.assertEqual(done, b"[DONE]")
            heads = {(c["id"], c["created"], c["model"], c["object"]) for c in chunks}
            one = (f"chatcmpl-{FRAME.id}", FRAME.created, FRAME.model, "chat.completion.chunk")
            self.assertEqual(heads, {one})
            usages = [chunk.get("usage", "none") for chunk in chunks]
            if include_usage:
                self.assertEqual(usages[:-1], [None] * 3)
                self.assertEqual((usages[-1]["total_tokens"], chunks[-1]["choices"]), (0, []))
            else:
                self.assertEqual(usages, ["none"] * 3)

    def test_thinking_blocks(self) -> None:
        """A signed block is told once more as a whole, one that nobody signed is not."""
        calls: list[Call] = [("start",)]
        for text, signature in (("a", "s1"), ("b", ""), ("c", "omnigate.r1:x"), ("", "s2")):
            calls.append(("thinking_start",))
            calls += [("thinking", text)] if text else []
            calls += [("thinking_end", signature), ("redacted", "d")]
        events = payloads(written([*calls, FINISH]))
        deltas = [event["choices"][0]["delta"] for event in events[:-2]]
        blocks = [d["thinking_blocks"][0] for d in deltas if "thinking_blocks" in d]
        signed = [block for block in blocks if block["type"] == "thinking"]
        self.assertEqual([block["index"] for block in blocks], list(range(6)))
        self.assertEqual(
            [(block["thinking"], block["signature"]) for block in signed],
            [("a", "s1"), ("", "s2")],
        )

    def test_thinking_bound(self) -> None:
        """A block above the bound is told as it comes, and not held."""
        piece = "x" * (MAX_BLOCK_CHARS // 4)
        for count, whole in ((4, True), (5, False)):
            thinking = [("thinking", piece)] * count
            calls = [("start",), ("thinking_start",), *thinking, ("thinking_end", "s"), FINISH]
            stream = b"".join(written(calls))
            self.assertEqual(b"thinking_blocks" in stream, whole)
            self.assertEqual(stream.count(b"reasoning_content"), count)

    def test_thinking_not_wanted(self) -> None:
        """Nothing is told of thinking to those who are not to see it."""
        calls: list[Call] = [("start",), ("thinking_start",), ("thinking", "a")]
        calls += [("thinking_end", "s"), ("redacted", "d"), ("text", "b"), FINISH]
        frame = attrs.evolve(FRAME, wants_thinking=False)
        self.assertEqual(written(calls, frame), written([("start",), ("text", "b"), FINISH], frame))

    def test_refusals(self) -> None:
        """A model that declines ends with ``stop``, a provider that does with a filter's word."""
        usage = AnswerUsage()
        for calls, refusal, word, words in (
            ([("refusal", "no")], None, "stop", "no"),
            ([("refusal", "no")], "never", "stop", "no"),
            ([("text", "a")], "never", "content_filter", "never"),
            ([("text", "a")], None, "content_filter", ""),
        ):
            finish = ("finish", Stop.REFUSAL, usage, refusal)
            events = payloads(written([("start",), *calls, finish]))
            choices = [event["choices"][0] for event in events[:-2]]
            self.assertEqual(choices[-1]["finish_reason"], word)
            told = [choice["delta"].get("refusal", "") for choice in choices]
            self.assertEqual("".join(told), words)

    def test_stops(self) -> None:
        """Every stop is told by its word."""
        for stop in Stop:
            events = payloads(written([("start",), ("finish", stop, AnswerUsage(), None)]))
            choice = events[1]["choices"][0]
            self.assertEqual((choice["delta"], choice["finish_reason"]), ({}, CHAT_WORDS[stop]))

    def test_fault(self) -> None:
        """A fault is one line, first or midway, that the official client raises."""
        fault = Fault(FaultKind.OVERLOADED, "busy")
        for before in ([], [("start",), ("text", "a")]):
            events = written([*before, ("fault", fault)])
            error = payloads(events)[-1]["error"]
            self.assertEqual(set(error), {"message", "type", "param", "code"})
            raised = self.assertRaises(openai.APIError, accumulated, events)
            self.assertEqual((raised.message, raised.code), ("busy", "server_is_overloaded"))
            self.assertNotIn(b"[DONE]", b"".join(events))
