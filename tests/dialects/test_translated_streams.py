"""Golden streams through every pair of a reader and a writer."""

import importlib
import json
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import DeltaSink, Frame, Stop
from omnigate.wire.sse import EventSplitter, event_data
from tests.dialects.deltas import Call, RecordingSink, Story, joined, stories, tell
from tests.dialects.vectors import Vector, same_events, vectors

PROTOCOLS = ("chat", "messages", "responses")


def piece(protocol: str, name: str) -> Any:
    """Return a module of a protocol."""
    return importlib.import_module(f"omnigate.dialects.{protocol}.{name}")


def frame_of(vector: Vector) -> Frame:
    """Return the frame of a case's answer, as its request asks for it."""
    request = piece(vector.client, "request_reader").read_request(vector.body)
    return Frame(
        id="0123456789abcdef0123456789abcdef",
        created=1764441600,
        model=vector.request["model"],
        include_usage=request.include_usage,
        wants_thinking=request.wants_thinking,
        echo=request.echo,
        namespaces=request.namespaces,
    )


def play(upstream: str, stream: bytes, sink: DeltaSink, cut: int = 0) -> tuple[Any, Meter]:
    """Read a stream for a sink, in pieces of ``cut`` bytes, and return reader and meter."""
    meter = Meter(upstream, True)
    reader = piece(upstream, "stream_reader").StreamReader(sink, meter)
    splitter = EventSplitter()
    step = cut or len(stream) or 1
    for start in range(0, len(stream), step):
        for block in splitter.feed(stream[start : start + step]):
            data = event_data(block)
            if data is not None:
                reader.event(data)
    reader.end()
    return reader, meter


class GoldenStreamTests(SynchronousTestCase):
    """What the upstream streams becomes what the client must be sent."""

    def test_told(self) -> None:
        """Every event is told as it must be, and metered as where it passes untranslated."""
        pairs = set()
        for vector in vectors():
            if not vector.streamed:
                continue
            writer = piece(vector.client, "stream_writer").StreamWriter(frame_of(vector))
            reader, meter = play(vector.upstream, vector.answer_body, writer)
            same_events(vector, b"".join(writer.out))
            broken = "error" in vector.told["sse"][-1][:50]
            self.assertEqual((reader.finished, reader.failed), (not broken, broken), vector.name)
            self.check_meter(vector, meter)
            pairs.add((vector.client, vector.upstream))
        self.assertEqual(len(pairs), 6)

    def check_meter(self, vector: Vector, meter: Meter) -> None:
        """Compare with the meter of a stream that passes as it is."""
        plain = Meter(vector.upstream, True)
        for block in EventSplitter().feed(vector.answer_body):
            data = event_data(block)
            if data is not None:
                plain.event(data)
        # A call's input that comes whole is text that the plain meter does not look for.
        self.assertGreaterEqual(meter.text_bytes, plain.text_bytes, vector.name)
        for name in ("event_count", "closing_seen", "thinking_tokens"):
            told = (vector.name, name, getattr(meter, name))
            self.assertEqual(told, (vector.name, name, getattr(plain, name)))
        self.assertEqual(meter.counts(), plain.counts(), vector.name)

    def test_at_once(self) -> None:
        """What an event adds to the answer is told with that event, and a call when it is named."""
        for vector in vectors():
            if not vector.streamed or "interleaved" in vector.name:
                continue
            sink = RecordingSink()
            reader = piece(vector.upstream, "stream_reader").StreamReader(
                sink, Meter(vector.upstream, True)
            )
            for block in EventSplitter().feed(vector.answer_body):
                data = event_data(block)
                assert data is not None
                before = len(sink.calls)
                reader.event(data)
                told = len(sink.calls) > before
                self.assertTrue(told or not _adds(vector.upstream, data), (vector.name, data))

    def test_order(self) -> None:
        """A sink is told in an order that it may rely on, however the stream is cut or ends."""
        for vector in vectors():
            if vector.streamed:
                whole = RecordingSink()
                play(vector.upstream, vector.answer_body, whole)
                for cut in (1, 7, 100):
                    sink = RecordingSink()
                    play(vector.upstream, vector.answer_body, sink, cut)
                    self.assertEqual(sink.calls, whole.calls)
                for end in range(0, len(vector.answer_body), 97):
                    sink = RecordingSink()
                    play(vector.upstream, vector.answer_body[:end], sink)
                    self.assertIn(sink.names[-1], ("finish", "fault"))

    def test_cut(self) -> None:
        """Wherever a stream is cut, what was told stands, and it is no finished answer."""
        for vector in vectors():
            if not vector.streamed:
                continue
            blocks = EventSplitter().feed(vector.answer_body)
            whole = RecordingSink()
            play(vector.upstream, vector.answer_body, whole)
            finish = next((at for at, block in enumerate(blocks) if _finishes(block)), len(blocks))
            for count in range(len(blocks)):
                sink = RecordingSink()
                reader, _ = play(vector.upstream, b"".join(blocks[:count]), sink)
                where = f"{vector.name} cut before event {count}"
                self.assertEqual(reader.finished, count > finish, where)
                self.assertEqual(reader.started, count > 0, where)
                if reader.failed:
                    told = sink.calls[:-1]
                    self.assertEqual(told, whole.calls[: len(told)], where)


def _adds(upstream: str, data: bytes) -> bool:
    """Return whether an event brings a piece of the answer, or the name of a call."""
    if data == b"[DONE]":
        return False
    event = json.loads(data)
    if upstream == "responses":
        named = event["type"] == "response.output_item.added" and "name" in event["item"]
        return named or event["type"].endswith(".delta")
    if upstream == "messages":
        delta = event.get("delta", {})
        texts = [delta.get(name) for name in ("text", "thinking", "partial_json")]
        return any(texts) or event.get("content_block", {}).get("type") == "tool_use"
    for choice in event.get("choices", ()):
        delta = choice["delta"]
        names = ("content", "refusal", "reasoning_content", "reasoning", "tool_calls")
        if any(delta.get(name) for name in names):
            return True
    return False


def _finishes(block: bytes) -> bool:
    """Say whether a stream may end behind an event."""
    marks = (b'"finish_reason":"', b"message_stop", b"response.completed", b"response.incomplete")
    return any(mark in block for mark in marks)


WORDS = ("text", "refusal")


def what_is_said(calls: list[Call]) -> tuple[str, str, list[Call]]:
    """Return the words and the thoughts of an answer, joined, and its calls."""
    words = "".join(call[1] for call in calls if call[0] in WORDS)
    thoughts = "".join(call[1] for call in calls if call[0] == "thinking")
    return words, thoughts, [call for call in joined(calls) if call[0].startswith("tool")]


class AnyStreamTests(SynchronousTestCase):
    """Made-up answers through a protocol and on through another."""

    @settings(max_examples=100, deadline=None)
    @given(stories(), st.booleans(), st.integers(1, 400))
    def test_every_pair(self, story: Story, whole: bool, cut: int) -> None:
        """Words, thoughts, calls and figures come through, and why the answer ended."""
        names = {call[0] for call in story.calls}
        stop = Stop.TOOLS if "tool_start" in names else Stop.END
        stop = Stop.REFUSAL if "refusal" in names else stop
        stop = stop if whole else Stop.LENGTH
        told = [*story.calls[:-1], ("finish", stop, story.usage, None)]
        frame = Frame(id="0" * 32, created=1, model="m", include_usage=True)
        for upstream in PROTOCOLS:
            first = piece(upstream, "stream_writer").StreamWriter(frame)
            tell(first, told)
            for client in PROTOCOLS:
                second = piece(client, "stream_writer").StreamWriter(frame)
                reader, meter = play(upstream, b"".join(first.out), second, cut)
                self.assertTrue(reader.finished)
                self.assertTrue(meter.closing_seen)
                sink = RecordingSink()
                play(client, b"".join(second.out), sink)
                place = f"{upstream} to {client}"
                self.assertEqual(what_is_said(sink.calls), what_is_said(told), place)
                name, ending, usage, _ = sink.calls[-1]
                self.assertEqual((name, ending), ("finish", stop), place)
                known = story.usage.thinking is not None
                want = story.usage if known else attrs.evolve(story.usage, thinking=usage.thinking)
                self.assertEqual(usage, want, place)
