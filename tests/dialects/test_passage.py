"""Streams on their way from an upstream to a client of the same protocol."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects import passage
from omnigate.dialects.held import HeldBytes
from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import HEARTBEAT, HOLD_BYTES, StreamPassage
from omnigate.events import TokenCounts
from omnigate.wire.sse import EventSplitter, event_data, is_comment

SECRET = b"sk-up-secret-1"


def chunk(content: str = "a", **more: Any) -> bytes:
    event = {"id": "c", "choices": [{"delta": {"content": content}, "finish_reason": None}]}
    return data_event(event | more)


def data_event(event: Any, name: str | None = None) -> bytes:
    head = b"" if name is None else b"event: %s\n" % name.encode()
    return b"%sdata: %s\n\n" % (head, json.dumps(event).encode())


USAGE = {"prompt_tokens": 14, "completion_tokens": 2}
USAGE_CHUNK = data_event({"id": "c", "choices": [], "usage": USAGE})
STOP = data_event({"id": "c", "choices": [{"delta": {}, "finish_reason": "stop"}]})
ERROR = data_event({"error": {"message": "engine stopped", "code": "x"}})
DONE = b"data: [DONE]\n\n"
MESSAGE_START = data_event({"type": "message_start", "message": {}}, "message_start")
MESSAGE_STOP = data_event({"type": "message_stop"}, "message_stop")


class Stream:
    """One passage with its meter, fed piece by piece."""

    def __init__(self, kind: str = "chat", hide_usage: bool = True, secret: bytes = SECRET) -> None:
        self.meter = Meter(kind, True)
        self.passage = StreamPassage(kind, self.meter, hide_usage, secret)

    def feed(self, *pieces: bytes) -> bytes:
        return b"".join([self.passage.feed(piece) for piece in pieces])

    def run(self, *pieces: bytes) -> bytes:
        return self.feed(*pieces) + self.passage.end()

    def facts(self) -> tuple[object, ...]:
        """Everything that must not depend on how a stream was cut."""
        return (
            self.passage.started,
            self.passage.first_error,
            self.passage.error_seen,
            self.passage.finished,
            self.meter.counts(),
            self.meter.closing_seen,
            self.meter.event_count,
            self.meter.text_bytes,
        )


class PassingTests(SynchronousTestCase):
    def test_bytes_pass(self) -> None:
        """Events pass as they came, each as soon as it is whole."""
        stream = Stream(hide_usage=False)
        for event in (chunk(), chunk("€"), STOP, USAGE_CHUNK, DONE):
            self.assertEqual(b"", stream.feed(event[:9]))
            self.assertEqual(event, stream.feed(event[9:]))
        self.assertEqual(b"", stream.passage.end())
        self.assertEqual(TokenCounts(14, 0, 0, 2), stream.meter.counts())

    def test_finished(self) -> None:
        """The end is seen where the protocol puts it, and nowhere else."""
        for kind, before, end in (
            ("chat", chunk(), STOP),
            ("chat", chunk() + USAGE_CHUNK, DONE),
            ("completions", data_event({"choices": [{"text": "a"}]}), DONE),
            ("messages", MESSAGE_START, MESSAGE_STOP),
            (
                "responses",
                data_event({"type": "response.created"}, "response.created") + DONE,
                data_event({"type": "response.completed"}, "response.completed"),
            ),
        ):
            stream = Stream(kind)
            stream.feed(before)
            self.assertFalse(stream.passage.finished, kind)
            self.assertEqual(end, stream.feed(end))
            self.assertTrue(stream.passage.finished, kind)

    def test_end_is_not_made_up(self) -> None:
        """A stream that is not finished gets no ending."""
        stream = Stream()
        self.assertEqual(chunk() * 2, stream.run(chunk(), chunk()))
        self.assertFalse(stream.passage.finished)
        self.assertEqual((TokenCounts(10, 0, 0, 2), True), stream.meter.settle(b"x" * 40))

    def test_line_ends(self) -> None:
        """Streams with other line ends, or without the space, are read and pass as they are."""
        plain = chunk() + STOP + USAGE_CHUNK + DONE
        for end in (b"\r\n", b"\r"):
            for data in (plain, plain.replace(b"data: ", b"data:")):
                stream = Stream(hide_usage=False)
                out = stream.run(data.replace(b"\n", end))
                self.assertEqual(data.splitlines(), out.replace(b"\r\r\n", b"\r\r").splitlines())
                self.assertEqual(TokenCounts(14, 0, 0, 2), stream.meter.counts())
                self.assertTrue(stream.passage.finished)

    def test_several_data_lines(self) -> None:
        """Data on several lines is one event."""
        event = (
            b'data: {"choices":[],\ndata: "usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
        )
        stream = Stream(hide_usage=False)
        self.assertEqual(chunk() + event, stream.run(chunk() + event))
        self.assertEqual(TokenCounts(3, 0, 0, 1), stream.meter.counts())

    def test_not_json(self) -> None:
        """What the gateway does not understand is not its business."""
        for event in (b"data: hello\n\n", b"data: \n\n", b"data\n\n", b"data: [1]\n\n"):
            stream = Stream()
            self.assertEqual(event + DONE, stream.run(event, DONE))
            self.assertTrue(stream.passage.started)

    def test_rest(self) -> None:
        """An event without its blank line is relayed, and its figures count."""
        stream = Stream(hide_usage=False)
        rest = USAGE_CHUNK[:-1]
        self.assertEqual(chunk(), stream.feed(chunk(), rest))
        self.assertEqual(rest, stream.passage.end())
        self.assertEqual(TokenCounts(14, 0, 0, 2), stream.meter.counts())
        self.assertEqual(chunk() + b'data: {"ch', Stream().run(chunk(), b'data: {"ch'))

    def test_two_streams(self) -> None:
        """One stream knows nothing of another."""
        first, second = Stream(), Stream()
        first.feed(chunk()[:20])
        self.assertEqual(chunk("b"), second.feed(chunk("b")))
        self.assertEqual(chunk(), first.feed(chunk()[20:]))


class FirstEventTests(SynchronousTestCase):
    def test_comments_start_nothing(self) -> None:
        """Comments and blocks without data before the first event are no start and are dropped."""
        for kind, event in (("chat", chunk()), ("messages", MESSAGE_START)):
            stream = Stream(kind)
            self.assertEqual(b"", stream.feed(b": working\n\n", b"id: 1\n\n", b":\n\n"))
            self.assertFalse(stream.passage.started)
            self.assertEqual(event, stream.feed(b": still\n\n" + event))
            self.assertTrue(stream.passage.started)

    def test_empty_stream(self) -> None:
        """A stream that ends before its first event has not started."""
        for data in (b"", b": hello\n\n", b"\n\n\n", b"data: {", b"event: message_start\n"):
            stream = Stream("messages")
            self.assertEqual(b"", stream.run(data))
            self.assertFalse(stream.passage.started)
            self.assertIsNone(stream.passage.first_error)

    def test_first_error(self) -> None:
        """An error as the first event is kept, and nothing of the stream is sent."""
        anthropic = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
        failed = {"type": "response.failed", "response": {"error": {"code": "x"}}}
        for kind, event in (
            ("chat", ERROR),
            ("completions", data_event({"object": "error", "message": "m"})),
            ("messages", data_event(anthropic, "error")),
            ("responses", data_event({"type": "error", "message": "m"}, "error")),
            ("responses", data_event(failed, "response.failed")),
        ):
            stream = Stream(kind)
            self.assertEqual(b"", stream.run(b": hello\n\n", event + event, chunk(), DONE))
            self.assertEqual(event_data(event), stream.passage.first_error)
            self.assertTrue(stream.passage.error_seen)
            self.assertFalse(stream.passage.started)

    def test_first_error_without_blank_line(self) -> None:
        """So it is where the stream ends right behind the error."""
        stream = Stream()
        self.assertEqual(b"", stream.run(ERROR[:-1]))
        self.assertEqual(event_data(ERROR), stream.passage.first_error)

    def test_secret_in_first_error(self) -> None:
        """What is kept of the error holds no credential."""
        stream = Stream()
        stream.run(data_event({"error": {"message": "bad key " + SECRET.decode()}}))
        assert stream.passage.first_error is not None
        self.assertNotIn(SECRET, stream.passage.first_error)

    def test_later_error(self) -> None:
        """A later error passes as an event like any other."""
        stream = Stream()
        self.assertEqual(chunk() + ERROR, stream.run(chunk(), ERROR))
        self.assertIsNone(stream.passage.first_error)
        self.assertTrue(stream.passage.error_seen)
        self.assertFalse(stream.passage.finished)

    def test_anything_else_starts(self) -> None:
        """The first event passes whatever it holds."""
        for event in (DONE, STOP, b"data: x\n\n", data_event({"choices": []})):
            stream = Stream()
            self.assertEqual(event, stream.feed(event))
            self.assertTrue(stream.passage.started)


class KeptBackTests(SynchronousTestCase):
    def test_usage_chunk(self) -> None:
        """The chunk that the client did not ask for is hidden, wherever it stands in a read."""
        rest = chunk() + STOP
        for pieces in (
            [rest + USAGE_CHUNK + DONE],
            [rest, USAGE_CHUNK, DONE],
            [rest + USAGE_CHUNK + b"d", DONE[1:]],
        ):
            for kind in ("chat", "completions"):
                stream = Stream(kind)
                self.assertEqual(rest + DONE, stream.run(chunk(), *pieces)[len(chunk()) :])
                self.assertEqual(TokenCounts(14, 0, 0, 2), stream.meter.counts())

    def test_usage_chunk_first(self) -> None:
        """A hidden event is an event all the same."""
        stream = Stream()
        self.assertEqual(b"", stream.feed(USAGE_CHUNK))
        self.assertTrue(stream.passage.started)

    def test_usage_chunk_at_the_end(self) -> None:
        """It is hidden without its blank line too."""
        self.assertEqual(chunk(), Stream().run(chunk() + USAGE_CHUNK[:-1]))

    def test_usage_that_stays(self) -> None:
        """Usage beside choices, usage that is null, and choices of none without usage stay."""
        for event in (
            chunk(usage=USAGE),
            chunk(usage=None),
            data_event({"choices": [], "usage": None}),
            data_event({"choices": [], "prompt_filter_results": [{}]}),
        ):
            self.assertEqual(event + event, Stream().run(event, event))

    def test_usage_chunk_asked_for(self) -> None:
        """A client that asked for it gets it."""
        stream = Stream(hide_usage=False)
        self.assertEqual(chunk() + USAGE_CHUNK, stream.run(chunk() + USAGE_CHUNK))

    def test_other_protocols(self) -> None:
        """There is nothing to hide in the streams of the others."""
        for kind in ("responses", "messages"):
            event = data_event({"type": "x", "usage": {"output_tokens": 3}}, "x")
            self.assertEqual(event + event, Stream(kind).run(event, event))

    def test_blocks_without_data(self) -> None:
        """OpenAI's clients get no block without data, but comments; Anthropic's get both."""
        bare = (b"id: 7\n\n", b"retry: 3000\n\n", b"event: ping\n\n", b": x\nid: 7\n\n", b"x\n\n")
        comments = (b": keep-alive\n\n", b":\n\n", b": a\n: b\n\n")
        for kind in ("chat", "completions", "responses"):
            self.assertEqual(chunk(), Stream(kind).run(chunk(), *bare))
            self.assertEqual(chunk() + b"".join(comments), Stream(kind).run(chunk(), *comments))
        both = b"".join(bare + comments)
        self.assertEqual(MESSAGE_START + both, Stream("messages").run(MESSAGE_START + both))

    def test_secret_in_likely_events(self) -> None:
        """The credential is struck out also where event after event is like the one before."""
        for secret in (SECRET, b'"a":"' + SECRET):
            stream = Stream(secret=secret)
            for text in ("a", "b", SECRET.decode(), "c" + SECRET.decode()):
                event = chunk("x", a=text) + chunk(text)
                for one in (chunk(text), chunk(a=text), event):
                    self.assertEqual(one.replace(secret, b"[redacted]"), stream.feed(one))

    def test_secret(self) -> None:
        """The credential is struck out, however the stream is cut."""
        event = chunk("your key is " + SECRET.decode())
        expected = event.replace(SECRET, b"[redacted]")
        for size in range(1, len(event)):
            pieces = [event[at : at + size] for at in range(0, len(event), size)]
            self.assertEqual(chunk() + expected, Stream().run(chunk(), *pieces))
        self.assertEqual(expected, Stream().run(event[:-1]) or expected)
        self.assertEqual(event, Stream(secret=b"").run(event))


class LongEventTests(SynchronousTestCase):
    def test_passes_as_it_comes(self) -> None:
        """An event longer than is held passes in pieces, and is metered when it is whole."""
        stream = Stream(hide_usage=False)
        event = data_event({"choices": [], "usage": USAGE, "x": "y" * (3 * HOLD_BYTES)})
        begin, middle, rest = event[:HOLD_BYTES], event[HOLD_BYTES:-9], event[-9:]
        self.assertEqual(b"", stream.feed(begin))
        self.assertEqual(begin + middle[:1], stream.feed(middle[:1]))
        self.assertFalse(stream.passage.between_events)
        self.assertEqual(middle[1:], stream.feed(middle[1:]))
        self.assertEqual(rest + chunk(), stream.feed(rest + chunk()))
        self.assertTrue(stream.passage.between_events)
        self.assertEqual(TokenCounts(14, 0, 0, 2), stream.meter.counts())
        self.assertEqual(2, stream.meter.event_count)

    def test_whatever_it_is(self) -> None:
        """It passes even if it would have been kept back, all the same if it came at once."""
        padding = "y" * HOLD_BYTES
        for event in (
            data_event({"choices": [], "usage": USAGE, "x": padding}),
            data_event({"error": {"message": padding}}),
            b": %b\n\n" % padding.encode(),
            b"id: %b\n\n" % padding.encode(),
        ):
            facts = set()
            for size in (1000, 65_536, len(event)):
                stream = Stream()
                pieces = [event[at : at + size] for at in range(0, len(event), size)]
                self.assertEqual(event + chunk(), stream.run(*pieces, chunk()))
                self.assertTrue(stream.passage.started)
                facts.add(repr(stream.facts()))
            self.assertEqual(1, len(facts))

    def test_secret(self) -> None:
        """The credential is struck out of it, however it is cut."""
        event = chunk("x" * HOLD_BYTES + SECRET.decode() + " and " + SECRET.decode())
        expected = event.replace(SECRET, b"[redacted]")
        for last in range(1, 60):
            pieces = (event[:-last], event[-last:-1], event[-1:])
            self.assertEqual(expected, Stream().run(*pieces))

    def test_never_whole(self) -> None:
        """One that the end of the stream cuts is relayed as far as it came."""
        stream = Stream()
        event = chunk("x" * 2 * HOLD_BYTES)[:-9] + SECRET[:5]
        self.assertEqual(event, stream.run(event[: HOLD_BYTES + 1], event[HOLD_BYTES + 1 :]))

    def test_of_any_length(self) -> None:
        """However long it is, its figures are found, and nothing of it is kept."""
        padding = "x" * 4_000_000
        response = {"output": [{"usage": 1}, padding], "usage": {"output_tokens": 4}, "z": padding}
        event = data_event({"type": "response.completed", "response": response}, "x")
        stream = Stream("responses")
        for at in range(0, len(event), 65_536):
            piece = event[at : at + 65_536]
            self.assertIn(len(stream.feed(piece)), (len(piece), len(piece) * 2, 0))
            self.assertLessEqual(stream.passage.held_bytes, HOLD_BYTES)
        self.assertTrue(stream.passage.finished)
        self.assertEqual(TokenCounts(0, 0, 0, 4), stream.meter.counts())
        self.assertEqual(chunk(), stream.feed(chunk()))


class HeldTests(SynchronousTestCase):
    def test_no_room(self) -> None:
        """Where all streams hold too much, a cut event passes as it comes, metered as ever."""
        held = HeldBytes(limit=30_000)
        meter = Meter("chat", True)
        other = StreamPassage("chat", Meter("chat", True), True, b"", held)
        passage = StreamPassage("chat", meter, True, SECRET, held)
        event = data_event({"choices": [], "usage": USAGE, "x": "y" * 20_000})
        self.assertEqual(b"", other.feed(event[:15_000]))
        self.assertEqual(b"", passage.feed(event[:10_000]))
        self.assertEqual(25_000, held.bytes)
        self.assertEqual(event[:16_000], passage.feed(event[10_000:16_000]))
        self.assertEqual(15_000, held.bytes)
        self.assertEqual(event[16_000:], passage.feed(event[16_000:]))
        self.assertEqual(TokenCounts(14, 0, 0, 2), meter.counts())
        self.assertEqual(b"", other.feed(event[15_000:]))  # a usage chunk nobody asked for
        self.assertEqual(0, held.bytes)
        self.assertEqual(b"", other.feed(event[:15_000]))
        del other
        self.assertEqual(0, held.bytes)


class HeartbeatTests(SynchronousTestCase):
    def test_comment(self) -> None:
        """OpenAI's clients get a comment."""
        self.assertTrue(is_comment(HEARTBEAT["openai"]))

    def test_ping(self) -> None:
        """Anthropic's get a ping, with its name as their SDKs demand."""
        self.assertTrue(HEARTBEAT["anthropic"].startswith(b"event: ping\n"))
        self.assertEqual({"type": "ping"}, json.loads(event_data(HEARTBEAT["anthropic"]) or b""))


lines = st.sampled_from(
    [
        *(b": comment", b"id: 4", b"retry: 5", b"event: error", b"event: message_stop", b"data"),
        *(b"data: [DONE]", b"data:{}", b"data: \xff\xfe", b"data: {", b"nonsense", b":" + SECRET),
        b'data: {"choices":[{"delta":{"content":"h\xc3\xa9"},"finish_reason":null}]}',
        b'data: {"choices":[{"delta":{"content":[{"text":"a"}]},"finish_reason":"stop"}]}',
        b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}',
        b'data:{"choices":[],"usage":{"prompt_tokens":"9","completion_tokens":6}}',
        b'data: {"error":{"message":"sk-up-secret-1 and sk-up-secret-"}}',
        b'data: {"type":"error"}',
        b'data: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}',
        b'data: {"type":"message_delta","usage":{"output_tokens":8}}',
        b'data: {"type":"message_stop"}',
        b'data: {"type":"response.completed","response":{"usage":{"output_tokens":4}}}',
        b'data: {"type":"x","delta":"hello"}',
        b"data: " + b"x" * 90,
    ]
)
blocks = st.lists(lines, min_size=1, max_size=3) | st.just([b"data: x"])
line_ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r"])


# Events alike but for a word, which may hold the credential or leave its string.
LIKE = (
    b'data: {"choices":[{"delta":{"content":"@"},"finish_reason":null}]}',
    b'data: {"choices":[{"delta":{"content":"@"}}],"obfuscation":"x%b"}'
    % SECRET.translate(None, b"-"),
    b'event: a\ndata: {"type":"x","delta":"@"}',
    b'data: {"type":"content_block_delta","delta":{"text":"@"}}',
    b'data: {"id":"%b","choices":[{"delta":{"content":"@"}}]}' % SECRET,
)
WORDS = (b"a", b" word", b"\xc3\xa9", b"\\n", b'"', b"", SECRET, SECRET[:9], b"x" * 90, b'","b":"')


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    """Draw a stream of events of which many are alike."""
    data = b""
    for like in draw(st.lists(st.sampled_from(LIKE), max_size=3)):
        for word in draw(st.lists(st.sampled_from(WORDS), max_size=6)):
            data += like.replace(b"@", word) + b"\n\n"
        data += draw(st.sampled_from([b"", b"", b": comment\n\n", DONE, USAGE_CHUNK, STOP]))
    return data


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw a stream: blocks of lines, usually ended as they should be."""
    data = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\n", b"\r\n"]))
    for block in draw(st.lists(blocks, max_size=8)):
        end = draw(line_ends)
        data += end.join(block) + end * draw(st.sampled_from([2, 2, 2, 2, 3, 4]))
    return data + draw(st.sampled_from([b"", b"", b"data: cut", b"data: [DONE]\n", b"\r"]))


class AnyCutTests(SynchronousTestCase):
    kinds = st.sampled_from(["chat", "completions", "responses", "messages"])

    @given(streams(), kinds, st.booleans(), st.lists(st.integers(0, 600), max_size=8))
    @settings(max_examples=250, deadline=None)
    def test_same_bytes_same_figures(
        self, data: bytes, kind: str, hide: bool, cuts: list[int]
    ) -> None:
        """Whole, byte by byte or cut anywhere, a stream gives the same bytes and figures."""
        for hold_bytes in (HOLD_BYTES, 100):
            self.patch(passage, "HOLD_BYTES", hold_bytes)
            whole = Stream(kind, hide)
            out = whole.run(data)
            edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
            pieces = [data[a:b] for a, b in pairwise(edges)]
            for parts in (pieces, [data[at : at + 1] for at in range(len(data))]):
                stream = Stream(kind, hide)
                self.assertEqual(out, stream.run(*parts))
                self.assertEqual(whole.facts(), stream.facts())

    @given(runs(), kinds, st.booleans(), st.sampled_from([SECRET, b"", b'":"' + SECRET]))
    @settings(max_examples=250, deadline=None)
    def test_alike(self, data: bytes, kind: str, hide: bool, secret: bytes) -> None:
        """Events that are alike give the same, whether each is a read or the reads cut them."""
        events = [event + b"\n\n" for event in data.split(b"\n\n")[:-1]]
        whole = Stream(kind, hide, secret)
        whole.meter._moulds_left = 0
        out = whole.run(*events)
        halves = [half for event in events for half in (event[:9], event[9:])]
        for parts in (events, [data], halves, [b"".join(events[:2]), *events[2:]]):
            stream = Stream(kind, hide, secret)
            self.assertEqual(out, stream.run(*parts))
            self.assertEqual(whole.facts(), stream.facts())

    @given(streams(), kinds, st.booleans())
    @settings(max_examples=250, deadline=None)
    def test_what_passes(self, data: bytes, kind: str, hide: bool) -> None:
        """What comes out is what the rules leave of the blocks that went in."""
        splitter = EventSplitter()
        started = False
        expected = b""
        for block in splitter.feed(data):
            payload = event_data(block)
            flags = 0 if payload is None else Meter(kind, True).event(payload)
            if payload is None:
                passes = started and (kind == "messages" or is_comment(block))
            else:
                if flags & 2 and not started:
                    expected = b""
                    break
                started = True
                passes = not (flags & 4 and hide and kind in ("chat", "completions"))
            if passes:
                expected += block.replace(SECRET, b"[redacted]")
        self.assertEqual(expected, Stream(kind, hide).feed(data))
