"""What becomes the bill: the same however it is cut, and out of no text that anybody chooses."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.event_shapes import LARGE_EVENT_BYTES
from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import StreamPassage
from omnigate.testing.provider_reply import Event
from tests.dialects.answers import provider_answers, provider_streams, vector_streams, written

STREAMS = provider_streams()
ANSWERS = provider_answers()
DATA = [*((kind, written(events)) for kind, events in STREAMS), *vector_streams()]
REQUEST = b'{"model":"m","content":[{"type":"image"}]}' + b" " * 400

#: Members whose strings a protocol acts on; all other strings are somebody's text.
WORDS = frozenset(("type", "object", "finish_reason", "stop_reason", "status", "role"))

HUGE = 7_777_777
FIGURES = {
    "prompt_tokens": HUGE,
    "completion_tokens": HUGE,
    "input_tokens": HUGE,
    "output_tokens": HUGE,
    "cache_read_input_tokens": HUGE,
    "prompt_tokens_details": {"cached_tokens": HUGE},
}
QUOTED = json.dumps({"usage": FIGURES, "finish_reason": "stop", "type": "message_stop"})
BAITS = (
    QUOTED,
    QUOTED[1:-1],
    '"},' + QUOTED[1:],
    '\\"},' + QUOTED[1:],
    f"\n\ndata: {QUOTED}\n\n",
    f"\r\n\r\nevent: message_delta\r\ndata: {QUOTED}\r\n\r\n",
    '"usage":',
    "usage",
    "\\",
    "\\u0022usage\\u0022:",
    "\u2028\u0085\x0b\x00 ",
    "data: [DONE]",
    "€🚀",
    "}]}",
)
texts = st.lists(st.sampled_from(BAITS) | st.text(max_size=4), max_size=4).map("".join)


def facts(kind: str, data: bytes, cuts: list[int]) -> tuple[object, ...]:
    """What is sent on of a stream that is read in these cuts, and what it is found to have used."""
    meter = Meter(kind, True)
    passage = StreamPassage(kind, meter, True, b"sk-credential-1")
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    out = b"".join([passage.feed(data[start:end]) for start, end in pairwise(edges)])
    at_break = (meter.settle(REQUEST), passage.finished, passage.started, passage.first_error)
    out += passage.end()
    return out, at_break, meter.settle(REQUEST), passage.finished, passage.error_seen


class AnyCutTests(SynchronousTestCase):
    @given(st.data())
    @settings(max_examples=200, deadline=None)
    def test_stream(self, data: st.DataObject) -> None:
        """Of a stream that ends anywhere, the same bytes give the same bill in any reads."""
        kind, stream = data.draw(st.sampled_from(DATA))
        stream = stream[: data.draw(st.integers(0, len(stream)))]
        cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
        whole = facts(kind, stream, [])
        self.assertEqual(whole, facts(kind, stream, cuts))
        size = data.draw(st.sampled_from((1, 2, 3, 5, 17, 64)))
        self.assertEqual(whole, facts(kind, stream, list(range(0, len(stream), size))))

    def test_every_end(self) -> None:
        """The more of a stream has come, the more it costs, up to the provider's own figures."""
        for kind, stream in DATA:
            before = 0
            meter = Meter(kind, True)
            passage = StreamPassage(kind, meter, True, b"")
            for end in range(len(stream)):
                passage.feed(stream[end : end + 1])
                counts, estimated = meter.settle(REQUEST)
                if not estimated:
                    break
                self.assertGreaterEqual(counts.output_tokens, meter.counts().output_tokens)
                self.assertGreaterEqual(counts.output_tokens, before)
                before = counts.output_tokens

    @given(st.data())
    @settings(max_examples=200, deadline=None)
    def test_answer(self, data: st.DataObject) -> None:
        """So it is with an answer that is no stream, held whole or read in pieces."""
        kind, answer = data.draw(st.sampled_from(ANSWERS))
        cuts = data.draw(st.lists(st.integers(0, len(answer)), max_size=12))
        held = Meter(kind, False)
        self.assertEqual("ok", held.whole(answer))
        self.assertEqual(held.settle(REQUEST), in_pieces(kind, answer, cuts).settle(REQUEST))
        begun = answer[: data.draw(st.integers(0, len(answer)))]
        at_once, pieces = in_pieces(kind, begun, []), in_pieces(kind, begun, cuts)
        self.assertEqual(at_once.settle(REQUEST), pieces.settle(REQUEST))


def in_pieces(kind: str, answer: bytes, cuts: list[int]) -> Meter:
    """A meter that has seen an answer in these cuts."""
    meter = Meter(kind, False)
    edges = [0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)]
    for start, end in pairwise(edges):
        meter.piece(answer[start:end])
    return meter


class Baited:
    """Rewrites answers: other strings, more members, other spelling; the same figures.

    :param large: strings so long that events are not read as a tree.
    """

    def __init__(self, data: st.DataObject, large: bool) -> None:
        self._draw = data.draw
        self._padding = "x" * LARGE_EVENT_BYTES if large else ""

    def text(self) -> str:
        """What somebody would have us believe."""
        return self._draw(texts) + self._padding

    def answer(self, raw: bytes) -> bytes:
        """One answer, or the data of one event."""
        if raw.startswith(b"["):
            return raw
        tree = self.tree(json.loads(raw), "", top=True)
        return json.dumps(tree, ensure_ascii=self._draw(st.booleans())).encode(
            "utf-8", "surrogatepass"
        )

    def tree(self, value: Any, name: str, *, top: bool = False) -> Any:
        """A value of the member ``name``, with baits wherever text may stand."""
        if isinstance(value, str):
            return value if name in WORDS else self.text()
        if isinstance(value, list):
            return [self.tree(item, name) for item in value]
        if not isinstance(value, dict) or name == "usage":
            return value
        members = {key: self.tree(member, key) for key, member in value.items()}
        if top or name in ("response", "message"):
            # Here a member named usage would be one; any other name is none.
            return {self.text() + "_": FIGURES, **members}
        if name == "delta":
            return {**members, "x": {"usage": FIGURES}, "usage": FIGURES}
        return {"usage": FIGURES, **members, self.text() + "_": {"usage": FIGURES}}


class AnyTextTests(SynchronousTestCase):
    @given(st.data(), st.booleans())
    @settings(max_examples=200, deadline=None)
    def test_stream(self, data: st.DataObject, large: bool) -> None:
        """No text in any string or name of a stream's events changes what the stream used."""
        kind, events = data.draw(st.sampled_from(STREAMS))
        baited = Baited(data, large and data.draw(st.booleans()))
        told: list[Event] = [(name, baited.answer(raw)) for name, raw in events]
        self.assertEqual(figures(kind, written(events)), figures(kind, written(told)))

    @given(st.data())
    @settings(max_examples=200, deadline=None)
    def test_answer(self, data: st.DataObject) -> None:
        """So it is with answers that are no streams, held whole or read in pieces."""
        kind, answer = data.draw(st.sampled_from(ANSWERS))
        told = Baited(data, False).answer(answer)
        plain, held = Meter(kind, False), Meter(kind, False)
        plain.whole(answer)
        self.assertEqual("ok", held.whole(told))
        pieces = in_pieces(kind, told, data.draw(st.lists(st.integers(0, len(told)), max_size=6)))
        for meter in (held, pieces):
            self.assertEqual(plain.counts(), meter.counts())
            self.assertEqual(plain.closing_seen, meter.closing_seen)


def figures(kind: str, stream: bytes) -> tuple[object, ...]:
    """What a stream used, and what its protocol said of it; not how much text it had."""
    meter = Meter(kind, True)
    passage = StreamPassage(kind, meter, True, b"")
    for start in range(0, len(stream), 65536):
        passage.feed(stream[start : start + 65536])
    passage.end()
    seen = (passage.started, passage.finished, passage.error_seen, passage.first_error)
    return meter.counts(), meter.closing_seen, meter.event_count, *seen
