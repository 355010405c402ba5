"""Metering answers: whole ones, streams, and such as end early."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.event_shapes import LARGE_EVENT_BYTES
from omnigate.dialects.long_event import LongEvent
from omnigate.dialects.meter import (
    FAILED,
    FINISHED,
    TOKENS_PER_MEDIA_PART,
    USAGE_ONLY,
    Meter,
)
from omnigate.events import MAX_COUNT, TokenCounts


def see(meter: Meter, event: Any) -> int:
    """Let a meter see an event, an object or the data itself, as a passage would."""
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    if len(data) <= LARGE_EVENT_BYTES:
        return meter.event(data)
    long = LongEvent()
    long.feed(b"data: %b\n\n" % data)
    return meter.long_event(long)


def streamed(kind: str, *events: Any) -> Meter:
    """Return a meter that has seen the events."""
    meter = Meter(kind, True)
    for event in events:
        see(meter, event)
    return meter


def flags(kind: str, event: Any) -> int:
    return see(Meter(kind, True), event)


def chat_chunk(content: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if content is None else {"content": content}
    chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return chunk | more


class ChatStreamTests(SynchronousTestCase):
    def test_closing_usage(self) -> None:
        """The usage of the last chunk is the bill."""
        meter = streamed(
            "chat",
            chat_chunk("a", usage=None),
            {"choices": [], "usage": {"prompt_tokens": 14, "completion_tokens": 2}},
            b"[DONE]",
        )
        self.assertTrue(meter.closing_seen)
        self.assertEqual((TokenCounts(14, 0, 0, 2), False), meter.settle(b"x" * 999))

    def test_usage_on_every_chunk(self) -> None:
        """Running totals are not added up."""
        meter = streamed(
            "chat",
            *(
                chat_chunk("a", usage={"prompt_tokens": 40, "completion_tokens": tokens})
                for tokens in (0, 1, 2, 3, 3)
            ),
        )
        self.assertEqual((TokenCounts(40, 0, 0, 3), False), meter.settle(b""))

    def test_cached_input(self) -> None:
        """Cached and written tokens are taken off the input figure."""
        details = {"cached_tokens": 800, "cache_write_tokens": 50}
        usage = {"prompt_tokens": 1000, "completion_tokens": 5, "prompt_tokens_details": details}
        meter = streamed("chat", {"choices": [], "usage": usage})
        self.assertEqual(TokenCounts(150, 800, 50, 5), meter.counts())

    def test_quoted_usage(self) -> None:
        """Usage that is quoted in an answer changes nothing."""
        quoted = '","usage":{"prompt_tokens":9,"completion_tokens":9},"x":"'
        meter = streamed(
            "chat",
            chat_chunk(quoted),
            {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": quoted}}]}}]},
            {"choices": [{"usage": {"completion_tokens": 9}, "delta": {"usage": {"x": 1}}}]},
            chat_chunk(response={"usage": {"output_tokens": 9}}, message={"usage": {}}),
            chat_chunk(x={"usage": {"prompt_tokens": 9}}),
            # An event that fits no shape is read another way, to the same end.
            chat_chunk(usage="no", response={"usage": {"output_tokens": 9}}),
        )
        self.assertFalse(meter.closing_seen)
        self.assertEqual(TokenCounts(), meter.counts())

    def test_odd_figures(self) -> None:
        """Figures of another type or size are passed over, their neighbours are not."""
        odd_figures: list[Any] = ["3", None, -1, 10**12 + 1, 2**40, 2**70, [], {}, 0.5, True]
        for odd in odd_figures:
            meter = streamed("chat", {"usage": {"prompt_tokens": 7, "completion_tokens": odd}})
            self.assertEqual(TokenCounts(input_tokens=7), meter.counts(), odd)
            self.assertFalse(meter.closing_seen)

    def test_flags(self) -> None:
        """What an event means for the stream is told."""
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        stop = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        error = {"message": "engine stopped"}
        for kind in ("chat", "completions"):
            for expected, event in (
                (0, chat_chunk("a")),
                (0, chat_chunk("a", usage=usage)),
                (0, {"choices": [], "prompt_filter_results": []}),
                (0, {"choices": [], "usage": None}),
                (0, {"choices": [], "usage": "none"}),
                (0, chat_chunk("a", error=None)),
                (0, {"choices": [{"finish_reason": ""}]}),
                (FINISHED, stop),
                (FINISHED, stop | {"usage": "odd"}),
                (FINISHED, stop | {"usage": usage}),
                (FINISHED, b"[DONE]"),
                (FINISHED, b"[DONE] "),
                (USAGE_ONLY, {"choices": [], "usage": usage}),
                (USAGE_ONLY, {"choices": [], "usage": usage, "object": 7}),
                (USAGE_ONLY, {"choices": None, "usage": {}}),
                (USAGE_ONLY, {"usage": usage}),
                (FAILED, {"error": error}),
                (FAILED, {"error": error, "choices": 7}),
                (FAILED, {"error": "engine stopped"}),
                (FAILED, {"object": "error", "message": "engine stopped"}),
                (FAILED, chat_chunk("", error=error)),
                (FINISHED | FAILED, stop | {"error": error}),
                (0, b""),
                (0, b"no JSON"),
                (0, b"[1]"),
            ):
                self.assertEqual(expected, flags(kind, event), event)

    def test_large_event(self) -> None:
        """An event too long to be held tells the same."""
        padding = "x" * LARGE_EVENT_BYTES
        stop = {"choices": [{"delta": {"content": padding}, "finish_reason": "stop"}]}
        usage = {"prompt_tokens": 3, "completion_tokens": 4}
        self.assertEqual(FINISHED, flags("chat", stop))
        self.assertEqual(0, flags("chat", {"choices": [], "usage": usage, "x": padding}))
        self.assertEqual(FAILED, flags("chat", {"error": {"message": padding}}))
        meter = streamed("chat", stop | {"usage": usage})
        self.assertEqual(TokenCounts(3, 0, 0, 4), meter.counts())
        self.assertEqual(LARGE_EVENT_BYTES, meter.text_bytes)

    def test_done_is_no_event(self) -> None:
        """The mark at the end is not counted among the events."""
        self.assertEqual(2, streamed("chat", chat_chunk("a"), chat_chunk(), b"[DONE]").event_count)

    def test_nothing_in_it(self) -> None:
        """Data that holds nothing, or blanks only, is an event that means nothing, in all kinds."""
        for kind in ("chat", "completions", "responses", "messages"):
            meter = Meter(kind, True)
            for count, data in enumerate((b"", b" ", b"\t \t", b"null", b""), 1):
                self.assertEqual(0, meter.event(data))
                self.assertEqual((count, 0), (meter.event_count, meter.text_bytes))
            self.assertEqual((TokenCounts(0, 0, 0, 5), True), meter.settle(b""))

    def test_text(self) -> None:
        """Generated text is counted in bytes, wherever a delta has it."""
        for expected, delta in (
            (5, {"content": "hello"}),
            (6, {"content": "€€"}),
            (0, {"content": None, "role": "assistant"}),
            (4, {"content": "", "reasoning_content": "hmmm"}),
            (4, {"reasoning": "hmmm"}),
            (2, {"refusal": "no"}),
            (4, {"tool_calls": [{"function": {"name": "f", "arguments": '{"a"'}}, {"index": 1}]}),
            (2, {"content": None, "function_call": {"arguments": "{}"}}),
            (9, {"content": [{"type": "thinking", "thinking": "hmmm"}, {"text": "hello"}]}),
        ):
            meter = streamed("chat", {"choices": [{"delta": delta}, {"delta": None}, {}]})
            self.assertEqual(expected, meter.text_bytes, delta)
        self.assertEqual(5, streamed("completions", {"choices": [{"text": "hello"}]}).text_bytes)


class ResponsesStreamTests(SynchronousTestCase):
    def test_closing_usage(self) -> None:
        """The usage of the completed response is the bill."""
        details = {"cached_tokens": 8, "cache_write_tokens": 1}
        usage = {"input_tokens": 10, "output_tokens": 4, "input_tokens_details": details}
        meter = streamed(
            "responses",
            {"type": "response.created", "response": {"id": "r", "usage": None}},
            {"type": "response.output_text.delta", "delta": "hello"},
            {"type": "response.completed", "response": {"status": "completed", "usage": usage}},
        )
        self.assertEqual((TokenCounts(1, 8, 1, 4), False), meter.settle(b""))
        self.assertEqual((3, 5), (meter.event_count, meter.text_bytes))

    def test_quoted_usage(self) -> None:
        """Usage elsewhere, as in the output that a response repeats, changes nothing."""
        usage = {"output_tokens": 9}
        meter = streamed(
            "responses",
            {"type": "response.created", "response": {"tools": [{"usage": usage}], "x": usage}},
            {"type": "response.output_item.done", "item": {"usage": usage}},
            {"type": "response.output_text.delta", "delta": '"response":{"usage":{"a":1}}'},
            {"type": "x", "message": {"usage": usage}},
        )
        self.assertEqual((TokenCounts(), False), (meter.counts(), meter.closing_seen))

    def test_flags(self) -> None:
        """What an event means for the stream is told."""
        for expected, event in (
            (0, {"type": "response.created", "response": {"error": None}}),
            (0, {"type": "response.output_text.delta", "delta": "x"}),
            (0, {"type": "response.output_text.delta", "delta": {"odd": 1}}),
            (0, {"type": 7}),
            (FINISHED, {"type": "response.completed"}),
            (FINISHED, {"type": "response.completed", "response": "odd"}),
            (FINISHED, {"type": "response.incomplete", "response": {}}),
            (FINISHED | FAILED, {"type": "response.failed", "response": {"error": {}}}),
            (FAILED, {"type": "error", "code": "x", "message": "m"}),
            (FAILED, {"error": {"message": "m"}}),
            (0, b"[DONE]"),
        ):
            self.assertEqual(expected, flags("responses", event), event)

    def test_large_last_event(self) -> None:
        """The last event may repeat an answer of any length, odd figures and all."""
        text = "x" * (2 * LARGE_EVENT_BYTES)
        for tokens in (4, 4.0):
            response = {"output": [text], "usage": {"input_tokens": 10, "output_tokens": tokens}}
            event = {"type": "response.completed", "response": response}
            self.assertEqual(FINISHED, flags("responses", event))
            self.assertEqual(TokenCounts(10, 0, 0, 4), streamed("responses", event).counts())


class MessagesStreamTests(SynchronousTestCase):
    start = {
        "type": "message_start",
        "message": {
            "usage": {
                "input_tokens": 25,
                "cache_read_input_tokens": 7,
                "cache_creation_input_tokens": 3,
                "output_tokens": 1,
            }
        },
    }

    def test_running_totals(self) -> None:
        """The output figures of start and end are not added up."""
        meter = streamed(
            "messages",
            self.start,
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "x"},
                "usage": {"output_tokens": 15},
            },
        )
        self.assertEqual((TokenCounts(25, 7, 3, 15), False), meter.settle(b""))

    def test_start_is_not_the_end(self) -> None:
        """The figures of the start are metered, and close nothing."""
        meter = streamed("messages", self.start)
        self.assertFalse(meter.closing_seen)
        self.assertEqual(TokenCounts(25, 7, 3, 1), meter.counts())

    def test_odd_start(self) -> None:
        """So are those of a start that does not fit its shape."""
        odd: dict[str, Any] = {
            "type": "message_start",
            "message": {"usage": {"input_tokens": 4, "output_tokens": []}},
        }
        meter = streamed("messages", odd)
        self.assertEqual(TokenCounts(4, 0, 0, 0), meter.counts())

    def test_flags(self) -> None:
        """What an event means for the stream is told."""
        for expected, event in (
            (0, self.start),
            (0, {"type": "ping"}),
            (0, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
            (FINISHED, {"type": "message_stop"}),
            (FINISHED, {"type": "message_stop", "delta": 7}),
            (FAILED, {"type": "error", "error": {"type": "overloaded_error"}}),
            (0, b"[DONE]"),
        ):
            self.assertEqual(expected, flags("messages", event), event)

    def test_text(self) -> None:
        """Text, tool input and thinking are generated text; a signature is none."""
        for expected, delta in (
            (6, {"type": "text_delta", "text": "€€"}),
            (3, {"type": "input_json_delta", "partial_json": '{"a'}),
            (4, {"type": "thinking_delta", "thinking": "hmmm"}),
            (0, {"type": "signature_delta", "signature": "abcd"}),
        ):
            meter = streamed("messages", {"type": "content_block_delta", "delta": delta})
            self.assertEqual(expected, meter.text_bytes)
        block = {"type": "content_block_start", "content_block": {"type": "text", "text": "hi"}}
        self.assertEqual(2, streamed("messages", block).text_bytes)


class WholeAnswerTests(SynchronousTestCase):
    answers = (
        (
            "chat",
            {"usage": {"prompt_tokens": 9, "completion_tokens": 5}},
            TokenCounts(9, 0, 0, 5),
        ),
        ("embeddings", {"usage": {"prompt_tokens": 9, "total_tokens": 9}}, TokenCounts(9, 0, 0, 0)),
        (
            "responses",
            {
                "usage": {
                    "input_tokens": 9,
                    "output_tokens": 5,
                    "input_tokens_details": {"cached_tokens": 4},
                }
            },
            TokenCounts(5, 4, 0, 5),
        ),
        (
            "messages",
            {"usage": {"input_tokens": 9, "output_tokens": 5, "cache_read_input_tokens": 4}},
            TokenCounts(9, 4, 0, 5),
        ),
    )

    def test_whole(self) -> None:
        """The figures of a whole answer are the bill."""
        for kind, answer, counts in self.answers:
            meter = Meter(kind, False)
            meter.whole(json.dumps({"content": '"usage":{"output_tokens":99}'} | answer).encode())
            self.assertEqual((counts, False), meter.settle(b"x" * 1000), kind)

    def test_in_pieces(self) -> None:
        """So are those of an answer that is too long to be held, however it is cut."""
        for kind, answer, counts in self.answers:
            body = json.dumps({"content": [{"usage": {"output_tokens": 99}}]} | answer).encode()
            for size in (1, 7, len(body)):
                meter = Meter(kind, False)
                for at in range(0, len(body), size):
                    meter.piece(body[at : at + size])
                self.assertEqual((counts, False), meter.settle(b"x" * 1000), (kind, size))
                self.assertEqual(len(body), meter.body_bytes)

    def test_odd_answer(self) -> None:
        """Figures are found in an answer that only Python takes for JSON."""
        meter = Meter("chat", False)
        meter.whole(b'{"x":NaN,"usage":{"prompt_tokens":"9","completion_tokens":5}}')
        self.assertEqual((TokenCounts(0, 0, 0, 5), False), meter.settle(b""))

    def test_no_figures(self) -> None:
        """An answer without figures is estimated by its length."""
        for body in (b'{"choices":[]}..', b"\xff" * 16, b'{"usage":null   }', b"[" * 16):
            meter = Meter("chat", False)
            meter.whole(body)
            self.assertEqual((TokenCounts(10, 0, 0, 4), True), meter.settle(b"x" * 40), body)

    def test_vectors(self) -> None:
        """No output is estimated where none is sold."""
        meter = Meter("embeddings", False)
        meter.whole(b'{"data":[{"embedding":[0.1,0.2,0.3]}]}')
        self.assertEqual((TokenCounts(10, 0, 0, 0), True), meter.settle(b"x" * 40))

    def test_count_tokens(self) -> None:
        """Counting tokens costs nothing, whatever the answer says."""
        meter = Meter("count_tokens", False)
        meter.whole(b'{"input_tokens":2095,"usage":{"input_tokens":4,"output_tokens":4}}')
        self.assertEqual((TokenCounts(), False), meter.settle(b"x" * 400))


class EstimateTests(SynchronousTestCase):
    def test_stream(self) -> None:
        """A stream that ended early costs a token an event, or a fourth of its text."""
        for kind, event in (
            ("chat", chat_chunk("a")),
            ("responses", {"type": "response.output_text.delta", "delta": "a"}),
            ("messages", {"type": "content_block_delta", "delta": {"text": "a"}}),
        ):
            meter = streamed(kind, *[event] * 30)
            self.assertEqual((TokenCounts(100, 0, 0, 30), True), meter.settle(b"x" * 400), kind)
        meter = streamed("chat", chat_chunk("x" * 399))
        self.assertEqual((TokenCounts(100, 0, 0, 99), True), meter.settle(b"x" * 403))

    def test_metered_input_is_kept(self) -> None:
        """Where the input is known, only the output is estimated."""
        meter = streamed("messages", MessagesStreamTests.start, {"type": "ping"})
        self.assertEqual((TokenCounts(25, 7, 3, 2), True), meter.settle(b"x" * 4000))
        usage = {"input_tokens": 0, "cache_read_input_tokens": 0}
        meter = streamed("messages", {"type": "message_start", "message": {"usage": usage}})
        self.assertEqual((TokenCounts(0, 0, 0, 1), True), meter.settle(b"x" * 4000))

    def test_never_less_than_metered(self) -> None:
        """The estimate of the output is at least what the provider had said."""
        start = {"type": "message_start", "message": {"usage": {"output_tokens": 50}}}
        meter = streamed("messages", start)
        self.assertEqual((TokenCounts(100, 0, 0, 50), True), meter.settle(b"x" * 400))

    def test_media_parts(self) -> None:
        """Every picture and document in the request costs its flat share."""
        body = b'{"messages":[{"content":[{"type":"image"},{"type":"text","text":"?"}]}]}'
        counts, estimated = Meter("messages", True).settle(body)
        self.assertEqual(len(body) // 4 + TOKENS_PER_MEDIA_PART, counts.input_tokens)
        self.assertTrue(estimated)

    def test_cut_answer(self) -> None:
        """An answer that is no stream costs a fourth of what came of it."""
        meter = Meter("chat", False)
        meter.piece(b'{"choices":[{"message":')
        meter.piece(b'{"content":"hello')
        self.assertEqual((TokenCounts(100, 0, 0, 10), True), meter.settle(b"x" * 400))

    def test_settled_twice(self) -> None:
        """Settling changes nothing of what was metered."""
        meter = streamed("chat", chat_chunk("a"))
        self.assertEqual(meter.settle(b"x" * 400), meter.settle(b"x" * 400))
        self.assertEqual(TokenCounts(), meter.counts())


odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([10**12, 10**12 + 1, 2**70, 0.5, 2.0, "stop", "error", "[DONE]"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "choices",
                        "usage",
                        "error",
                        "response",
                        "message",
                        "type",
                        "object",
                        "delta",
                    ),
                    *("text", "content", "finish_reason", "prompt_tokens", "output_tokens"),
                    *("completion_tokens", "cached_tokens", "prompt_tokens_details", "tool_calls"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


class HostileTests(SynchronousTestCase):
    @given(st.sampled_from(["chat", "completions", "responses", "messages"]), odd_values)
    @settings(max_examples=250, deadline=None)
    def test_any_event(self, kind: str, value: object) -> None:
        """No event does harm, and its size changes nothing of what it tells."""
        small, large = Meter(kind, True), Meter(kind, True)
        data = json.dumps(value).encode()
        told = small.event(data)
        if isinstance(value, dict):
            padding = b'{"padding":"%s",' % (b"x" * LARGE_EVENT_BYTES)
            swollen = padding + data[1:] if value else padding[:-1] + b"}"
            self.assertEqual(told & FAILED, see(large, swollen) & FAILED)
            self.assertEqual(small.counts(), large.counts())
            self.assertEqual(small.closing_seen, large.closing_seen)
        counts, _ = small.settle(data)
        for tokens in (
            counts.input_tokens,
            counts.cached_input_tokens,
            counts.cache_write_input_tokens,
            counts.output_tokens,
        ):
            self.assertTrue(0 <= tokens <= MAX_COUNT)

    @given(odd_values, st.lists(st.integers(0, 300), max_size=5))
    @settings(max_examples=150, deadline=None)
    def test_any_answer(self, value: object, cuts: list[int]) -> None:
        """An answer gives the same figures whole and in pieces, however it is cut."""
        data = json.dumps(value).encode()
        for kind in ("chat", "embeddings", "messages"):
            whole, pieces = Meter(kind, False), Meter(kind, False)
            whole.whole(data)
            edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
            for start, end in pairwise(edges):
                pieces.piece(data[start:end])
            self.assertEqual(whole.settle(b"x" * 9), pieces.settle(b"x" * 9))

    def test_tiny_odd_events(self) -> None:
        """Of events that fit no shape, tiny ones are read to a number, others without end."""
        for event in (b'{"usage":{"output_tokens":3.0}}', b' {"usage":{"output_tokens":3.0}}'):
            meter = Meter("responses", True)
            for _ in range(2000):
                meter.event(b'{"usage":[1]}')
            meter.event(event)
            self.assertEqual((TokenCounts(), 2001), (meter.counts(), meter.event_count))
        meter = Meter("responses", True)
        for _ in range(2000):
            meter.event(b'{"usage":[1],"padding":"as long as real events are"}')
        meter.event(b'{"usage":{"output_tokens":3.0}}')
        self.assertEqual(TokenCounts(0, 0, 0, 3), meter.counts())

    def test_depth(self) -> None:
        """Nesting without end is survived, in an event and in a whole answer."""
        for data in (b"[" * 100_000, b'{"usage":' * 100_000, b'{"choices":[{"delta":' * 50_000):
            for kind in ("chat", "responses", "messages"):
                self.assertEqual(0, Meter(kind, True).event(data))
                self.assertEqual(0, see(Meter(kind, True), data))
            meter = Meter("chat", False)
            meter.whole(data)
            self.assertFalse(meter.closing_seen)
