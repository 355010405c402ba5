"""Whether a stream is translated or passes as it is: what it used is the same.

Thousands of made-up streams, most of them odd somewhere, go the two ways at once.
"""

import json
import random
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import StreamPassage
from omnigate.dialects.shapes import Frame
from omnigate.dialects.translate import Translator
from omnigate.dialects.translated_passage import TranslatedPassage
from omnigate.events import TokenCounts

STREAMS = 4000
#: Tokens by which two estimates may differ; the long text of the streams has more.
CLOSE = 6
#: The request, of which estimates are made.
BODY = b"x" * 400

_CLIENTS = {"chat": "messages", "messages": "responses", "responses": "chat"}
_TEXTS = ("Hi", "x" * 50, "ünï", "😀", "\ud800", "\n", "", None, 5)
_FIGURES: tuple[Any, ...] = (0, 7, 7.0, 7.5, -1, "12", None, True, 10**13, [], {})
_NO_EVENTS = (b"null", b"[]", b"{", b"5", b" ", b'{"a":NaN}', b"{}", b'{"detail":"no"}')


def figure(rng: random.Random) -> Any:
    """A figure, most of the time."""
    return rng.randrange(1, 3000) if rng.random() < 0.8 else rng.choice(_FIGURES)


def usage(rng: random.Random, kind: str) -> Any:
    """A usage object, most of the time."""
    if rng.random() < 0.1:
        return rng.choice((None, [], 5, "x", {}))
    first, second = ("prompt", "completion") if kind == "chat" else ("input", "output")
    told = {f"{first}_tokens": figure(rng), f"{second}_tokens": figure(rng)}
    if kind == "messages":
        told |= {"cache_read_input_tokens": figure(rng), "cache_creation_input_tokens": figure(rng)}
    elif rng.random() < 0.5:
        details = {"cached_tokens": figure(rng), "cache_write_tokens": figure(rng)}
        told[f"{first}_tokens_details"] = rng.choice((details, details, None, 5))
        told[f"{second}_tokens_details"] = rng.choice(({"reasoning_tokens": 5}, None, 7))
    return told


def chat_event(rng: random.Random) -> dict[str, Any]:
    """A chunk whose delta has one kind of text."""
    delta: dict[str, Any] = {rng.choice(("content", "content", "reasoning")): rng.choice(_TEXTS)}
    if rng.random() < 0.1:
        function = {"name": rng.choice(("f", None)), "arguments": rng.choice(("{", "}", "{}"))}
        delta = {"tool_calls": [{"index": rng.choice((0, 1)), "id": "a", "function": function}]}
    reason = rng.choice((None, None, None, None, None, None, "stop", "length", ""))
    choice = {"index": rng.choice((0, 0, 0, 1)), "delta": delta, "finish_reason": reason}
    event: dict[str, Any] = {"choices": rng.choice(([choice], [choice], [choice], [], None))}
    if rng.random() < 0.2:
        event["usage"] = usage(rng, "chat")
    return event


def messages_event(rng: random.Random) -> dict[str, Any]:
    """An event of Messages, in no order."""
    kind = rng.choice(("delta", "delta", "delta", "start", "stop", "message", "ping", "begin"))
    event: dict[str, Any] = {"type": f"content_block_{kind}", "index": rng.choice((0, 0, None))}
    if kind == "delta":
        event["delta"] = {"type": "text_delta", "text": rng.choice(_TEXTS)}
    elif kind == "start":
        name = rng.choice(("text", "thinking", "server_tool_use"))
        event["content_block"] = {"type": name, name: rng.choice(_TEXTS)}
    elif kind == "message":
        event = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        event["usage"] = usage(rng, "messages")
    elif kind == "begin":
        event = {"type": "message_start", "message": {"usage": usage(rng, "messages")}}
    if rng.random() < 0.05:
        event["usage"] = usage(rng, "messages")
    return event


def responses_event(rng: random.Random) -> dict[str, Any]:
    """An event of Responses, in no order."""
    kind = rng.choice(("output_text.delta", "output_text.delta", "output_item.added", "queued"))
    event: dict[str, Any] = {"type": f"response.{kind}", "output_index": rng.choice((0, 1, None))}
    if kind == "output_text.delta":
        event["delta"] = rng.choice([text for text in _TEXTS if text])
        return event
    if kind == "output_item.added":
        event["item"] = {"type": rng.choice(("message", "reasoning", "web_search_call"))}
    else:
        event["response"] = {"status": "queued", "usage": rng.choice((None, usage(rng, kind)))}
    if rng.random() < 0.1:
        event["usage"] = usage(rng, "responses")
    return event


def ends(rng: random.Random, kind: str) -> list[Any]:
    """How a stream of this kind ends, where it does; of failures, too."""
    told = usage(rng, kind)
    ending: list[Any]
    finish: dict[str, Any]
    if kind == "chat":
        finish = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        ending = [finish, {"choices": [], "usage": told}, "[DONE]"]
    elif kind == "messages":
        finish = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": told}
        ending = [finish, {"type": "message_stop"}]
    else:
        status = rng.choice(("completed", "completed", "incomplete", "failed"))
        ending = [{"type": f"response.{status}", "response": {"status": status, "usage": told}}]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
    return rng.choice((ending, ending, ending, ending[:1], [error], []))


_EVENTS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "chat": chat_event,
    "messages": messages_event,
    "responses": responses_event,
}


def data_of(rng: random.Random, event: Any) -> bytes:
    """An event as a server writes it."""
    if rng.random() < 0.02:
        return rng.choice(_NO_EVENTS)
    return b"[DONE]" if event == "[DONE]" else json.dumps(event).encode()


class FiguresTests(SynchronousTestCase):
    def test_both_ways(self) -> None:
        """The counts are the same, and so is whether they are an estimate."""
        exact = 0
        for seed in range(STREAMS):
            rng = random.Random(seed)
            kind = rng.choice(tuple(_EVENTS))
            events = [_EVENTS[kind](rng) for _ in range(rng.randrange(8))]
            if kind == "messages":
                events.insert(0, {"type": "message_start", "message": {"usage": usage(rng, kind)}})
            told = [data_of(rng, event) for event in (*events, *ends(rng, kind))]
            passed, translated = self.both(kind, told, cut=rng.random() < 0.2)
            if passed[1]:
                # What an odd event says is found with more care the one way than the other.
                difference = passed[0].output_tokens - translated[0].output_tokens
                self.assertLess(abs(difference), CLOSE, f"stream {seed} of {kind}: {told}")
                translated[0].output_tokens += difference
            self.assertEqual(passed, translated, f"stream {seed} of {kind}: {told}")
            exact += not passed[1]
        self.assertGreater(exact, STREAMS // 4)
        self.assertLess(exact, 3 * STREAMS // 4)

    def both(
        self, kind: str, told: list[bytes], cut: bool
    ) -> tuple[tuple[TokenCounts, bool], tuple[TokenCounts, bool]]:
        """Bill a stream that passes, and the same translated; both end where the latter breaks."""
        meter = Meter(kind, True)
        plain = StreamPassage(kind, meter, False, b"")
        frame = Frame(id="0" * 32, created=1, model="m")
        translator = Translator(_CLIENTS[kind], kind, frame, True)
        passage = TranslatedPassage(translator, b"")
        for data in told:
            plain.feed(b"data: %b\n\n" % data)
            passage.feed(b"data: %b\n\n" % data)
            if passage.over or passage.finished:
                break
        if not cut:
            plain.end()
            passage.end()
            if not plain.finished:
                meter.unfinished()
            if not passage.closed:
                translator.meter.unfinished()
        return meter.settle(BODY), translator.meter.settle(BODY)
