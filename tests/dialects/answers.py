"""Whole answers and streams as providers write them, for tests of what is read out of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnigate.testing import provider_openai as openai
from omnigate.testing.provider_anthropic import messages_events, messages_whole
from omnigate.testing.provider_reply import Event, compose, to_json
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_responses import responses_events, responses_whole
from omnigate.testing.provider_scenario import scenario_of
from tests.testing.provider_requests import chat, messages, post, responses

MODELS = (
    "fake-words-9-cached-3-cache-write-2",
    "fake-tools-2-reasoning-5",
    "fake-words-4-no-usage",
    "fake-words-4-usage-on-every-chunk",
)
_CREATED = 1_790_000_000


def _requests(model: str) -> dict[str, SeenRequest]:
    asked: dict[str, Any] = {"stream_options": {"include_usage": True}}
    return {
        "chat": chat(model, **asked),
        "completions": post("/v1/completions", model=model, prompt="What is it?", **asked),
        "responses": responses(model),
        "messages": messages(model),
    }


def provider_streams() -> list[tuple[str, list[Event]]]:
    """Kinds of endpoints, and the events of their streams, of all that a provider can write."""
    streams: list[tuple[str, list[Event]]] = []
    for model in MODELS:
        scenario = scenario_of(model)
        for kind, request in _requests(model).items():
            reply = compose(request, scenario)
            if kind == "messages":
                events = messages_events(request, scenario, reply)
            elif kind == "responses":
                events = responses_events(request, scenario, reply, _CREATED)
            elif kind == "chat":
                events = openai.chat_events(request, scenario, reply, _CREATED)
            else:
                events = openai.completion_events(request, scenario, reply, _CREATED)
            streams.append((kind, events))
    return streams


def provider_answers() -> list[tuple[str, bytes]]:
    """Kinds of endpoints, and whole answers."""
    answers: list[tuple[str, bytes]] = []
    for model in MODELS:
        scenario = scenario_of(model)
        requests = _requests(model)
        for kind, request in requests.items():
            reply = compose(request, scenario)
            if kind == "messages":
                whole = messages_whole(request, scenario, reply)
            elif kind == "responses":
                whole = responses_whole(request, scenario, reply, _CREATED)
            elif kind == "chat":
                whole = openai.chat_whole(request, scenario, reply, _CREATED)
            else:
                whole = openai.completion_whole(request, scenario, reply, _CREATED)
            answers.append((kind, to_json(whole)))
        vectors = post("/v1/embeddings", model=model, input=["a", "b"])
        answers.append(("embeddings", to_json(openai.embeddings_whole(vectors, scenario))))
    return answers


def vector_streams() -> Iterator[tuple[str, bytes]]:
    """The streams of the translation vectors, where those are at hand: both sides of each."""
    shared = os.environ.get("OMNIGATE_TEST_SHARED")
    folder = Path(shared or Path(__file__).parents[3] / "shared") / "reference" / "vectors"
    for path in sorted(folder.glob("*stream*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        for side in ("upstream_answer", "expected_client_answer"):
            events = vector.get(side, {}).get("sse")
            if events:
                data = "".join(events).encode()
                if b'"type":"message_start"' in data:
                    yield "messages", data
                elif b'"type":"response.' in data:
                    yield "responses", data
                else:
                    yield "chat", data


def written(events: list[Event]) -> bytes:
    """A stream of these events as bytes."""
    return b"".join(
        (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % data
        for name, data in events
    )
