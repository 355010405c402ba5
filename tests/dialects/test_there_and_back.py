"""A conversation that is translated is the same in the other protocol, and the same again here.

Requests are held against :mod:`tests.dialects.spellings`, which spell one conversation in each
protocol without the product. What two protocols have both words for comes out exactly so, and goes
back exactly so, down to the spelling of numbers; but for these changes of form, each by its rule in
the translation rules:

* what was thought goes to Messages only, signed by its provider (§2.2 ``thinking_blocks``, §8.1
  ``reasoning``); Chat and Responses upstreams are not shown it (§4), and it does not come back;
* the ``detail`` of a picture is ``auto`` where Responses demands one (§8.3); Messages has none
  (§2.2);
* a Responses upstream is always told ``store`` and ``strict`` (§8.3), and ``include`` where a
  client of Messages can bring sealed reasoning back (§8.4); a Chat upstream ``stream_options``
  (§4);
* stop sequences have no place in Responses (§8.3, §8.4); marks for a cache go there and back
  between the OpenAI protocols only (§2.2, §4); documents at an address, and pictures in the results
  of tools, are not Chat's (§4): such are drawn for the pairs that have both words.

Names over 64 characters and ids over 40, or with characters that Anthropic does not take, are
spelled otherwise (§2.5, §4); names come back by :class:`~omnigate.dialects.shapes.Written`.
"""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.meter import Meter
from omnigate.dialects.replay import replay
from omnigate.dialects.shapes import (
    Answer,
    AnswerUsage,
    Frame,
    Quirk,
    RedactedThinking,
    Stop,
    Text,
    Thinking,
    ToolCall,
)
from omnigate.wire.sse import EventSplitter, event_data
from tests.dialects.conversations import (
    IDS,
    NAMES,
    OBJECTS,
    PAIRS,
    PROTOCOLS,
    TEXTS,
    talks,
    thoughtless,
)
from tests.dialects.deltas import RecordingSink
from tests.dialects.spellings import encoded, read_back, spelled
from tests.dialects.test_translated_wholes import piece

CAPS = Capabilities(reasoning=True, effort_none=True)


def translated(one: str, other: str, body: bytes) -> bytes:
    """Return a request as it goes to an upstream of the other protocol."""
    request = piece(one, "request_reader").read_request(body)
    writer = piece(other, "request_writer")
    written: bytes = writer.write_request(request, "m", CAPS, Quirk.NONE).body
    return written


def plain(value: Any) -> Any:
    """Return a tree in which arguments are what they say, and a detail nobody chose is none."""
    if isinstance(value, dict):
        return {
            name: read_back(inner) if name == "arguments" else plain(inner)
            for name, inner in value.items()
            if (name, inner) != ("detail", "auto")
        }
    return [plain(inner) for inner in value] if isinstance(value, list) else value


class RequestTests(SynchronousTestCase):
    """See the module's docstring."""

    @settings(max_examples=70, deadline=None)
    @given(st.data())
    def test_there_and_back(self, data: st.DataObject) -> None:
        """Every request is as the other protocol spells it, and comes back as it was."""
        for one, other in PAIRS:
            talk = data.draw(talks({one, other}))
            quiet = thoughtless(talk)
            there = translated(one, other, encoded(spelled(one, talk, other)))
            want = encoded(spelled(other, talk if other == "messages" else quiet, one))
            self.assertEqual(plain(read_back(there)), plain(read_back(want)), (one, other))
            back = translated(other, one, there)
            want = encoded(spelled(one, quiet, other))
            self.assertEqual(plain(read_back(back)), plain(read_back(want)), (one, other))

    def test_names_come_back(self) -> None:
        """A long name is the client's own again in what the upstream answers."""
        for length in (1, 64, 65, 128):
            for upstream in ("chat", "responses"):
                for client in ("messages", "chat"):
                    self.called("n" * length, client, upstream)

    def called(self, name: str, client: str, upstream: str) -> None:
        """Let a model call a tool of this name, as it was told of it."""
        if client == upstream:
            return
        tools = {
            "chat": [{"type": "function", "function": {"name": name}}],
            "messages": [{"name": name}],
        }[client]
        body = {"messages": [{"role": "user", "content": "x"}], "tools": tools}
        request = piece(client, "request_reader").read_request(json.dumps(body).encode())
        writer = piece(upstream, "request_writer")
        written = writer.write_request(request, "m", CAPS, Quirk.NONE)
        tool = json.loads(written.body)["tools"][0]
        sent = tool.get("function", tool)["name"]
        self.assertLessEqual(len(sent), 64)
        frame = Frame("0" * 32, 1, "m", tool_names=written.tool_names)
        answer = Answer([ToolCall("a", sent, "{}")], Stop.TOOLS, AnswerUsage())
        told = piece(client, "answer_writer").write_answer(answer, frame)
        read = piece(client, "answer_reader").read_answer(told, Meter(client, False))
        self.assertEqual(read.parts, [ToolCall("a", name, "{}")])


# -- answers

FRAME = Frame("0123456789abcdef0123456789abcdef", 1764441600, "m", include_usage=True)
_counts = st.integers(0, 10**9)
# Responses tells how much was thought always.
_usages = st.builds(AnswerUsage, _counts, _counts, _counts, _counts, _counts)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Draw an answer that each protocol has words for: thought, said and called, in this order."""
    parts: list[Text | Thinking | RedactedThinking | ToolCall] = []
    if draw(st.booleans()):
        parts.append(Thinking(draw(TEXTS)))
    if draw(st.booleans()):
        parts.append(Text(draw(TEXTS)))
    calls = draw(st.lists(st.builds(ToolCall, IDS, NAMES, OBJECTS), max_size=3))
    stop = Stop.TOOLS if calls else draw(st.sampled_from((Stop.END, Stop.LENGTH, Stop.REFUSAL)))
    return Answer([*parts, *calls], stop, draw(_usages))


def stream_of(protocol: str, answer: Answer) -> bytes:
    """Return an answer as the stream of a protocol."""
    writer = piece(protocol, "stream_writer").StreamWriter(FRAME)
    replay(answer, writer)
    return b"".join(writer.out)


class AnswerTests(SynchronousTestCase):
    """What an upstream answers is the same to a client of every protocol."""

    @settings(max_examples=150, deadline=None)
    @given(answers())
    def test_whole(self, answer: Answer) -> None:
        """A whole answer goes from each protocol to each other, and is what it was."""
        for one, other in PAIRS:
            read = answer
            for protocol in (one, other, one):
                body = piece(protocol, "answer_writer").write_answer(read, FRAME)
                read = piece(protocol, "answer_reader").read_answer(body, Meter(protocol, False))
                self.assertEqual(read, answer, (one, other, protocol))

    @settings(max_examples=100, deadline=None)
    @given(answers(), st.lists(st.integers(0, 4000), max_size=8))
    def test_stream(self, answer: Answer, cuts: list[int]) -> None:
        """A stream, cut anywhere, tells each writer what a whole answer says."""
        want = RecordingSink()
        replay(answer, want)
        for one, other in PAIRS:
            stream = stream_of(one, answer)
            writer = piece(other, "stream_writer").StreamWriter(FRAME)
            sink = self.told(one, stream, cuts, writer)
            self.assertEqual(sink.story, want.story, (one, other))
            again = self.told(other, b"".join(writer.out), cuts)
            self.assertEqual(again.story, want.story, (one, other))

    def told(
        self, protocol: str, stream: bytes, cuts: list[int], writer: Any = None
    ) -> RecordingSink:
        """Read a stream that comes in pieces; a writer is told the same as the sink."""
        sink = RecordingSink()
        readers = [
            piece(protocol, "stream_reader").StreamReader(one, Meter(protocol, True))
            for one in (sink, writer)
            if one is not None
        ]
        splitter = EventSplitter()
        ends = sorted({0, len(stream), *[min(cut, len(stream)) for cut in cuts]})
        for start, end in pairwise(ends):
            for block in splitter.feed(stream[start:end]):
                data = event_data(block)
                for reader in readers:
                    if data is not None:
                        reader.event(data)
        for reader in readers:
            reader.end()
            self.assertTrue(reader.finished and not reader.failed)
        return sink

    @settings(max_examples=60, deadline=None)
    @given(answers(), st.data())
    def test_cut_stream(self, answer: Answer, data: st.DataObject) -> None:
        """A stream that ends before its end is never told as a whole answer."""
        for protocol in PROTOCOLS:
            events = EventSplitter().feed(stream_of(protocol, answer))
            # The usage, and Chat's last word, come behind the finish.
            last = 3 if protocol == "chat" else 1
            kept = data.draw(st.integers(0, len(events) - last))
            sink = RecordingSink()
            meter = Meter(protocol, True)
            reader = piece(protocol, "stream_reader").StreamReader(sink, meter)
            for block in events[:kept]:
                payload = event_data(block)
                if payload is not None:
                    reader.event(payload)
            reader.end()
            self.assertTrue(reader.failed and not reader.finished, (protocol, kept))
            self.assertEqual(sink.names[-1], "fault")
