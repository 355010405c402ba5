"""Chat and completions as the fake provider writes them."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_openai import (
    chat_events,
    chat_whole,
    completion_events,
    completion_whole,
    openai_error,
)
from omnigate.testing.provider_reply import compose
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import scenario_of
from tests.testing.provider_requests import chat, post


def stream(request: SeenRequest) -> list[Any]:
    """The events of a chat stream, decoded, with [DONE] as a text."""
    scenario = scenario_of(request.model)
    events = chat_events(request, scenario, compose(request, scenario), 1)
    return ["[DONE]" if data == b"[DONE]" else json.loads(data) for _, data in events]


class ChatTests(SynchronousTestCase):
    """Chat completions."""

    def test_order_with_usage(self) -> None:
        """Role, text, finish, usage with no choices, done; usage is null before its chunk."""
        chunks = stream(chat("fake-words-2", stream_options={"include_usage": True}))
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(
            [c["choices"][0]["delta"]["content"] for c in chunks[1:3]], ["The", " quick"]
        )
        self.assertEqual(chunks[3]["choices"][0]["finish_reason"], "stop")
        self.assertEqual([c["usage"] for c in chunks[:4]], [None] * 4)
        self.assertEqual((chunks[4]["choices"], chunks[4]["usage"]["completion_tokens"]), ([], 2))
        self.assertEqual(chunks[5], "[DONE]")

    def test_no_usage_unless_asked(self) -> None:
        """Without include_usage, and in the scenario without usage, no chunk has any."""
        asked = chat("fake-no-usage", stream_options={"include_usage": True})
        for request in (chat("fake-small"), asked):
            chunks = stream(request)
            self.assertFalse(any("usage" in chunk for chunk in chunks[:-1]))
            self.assertTrue(all(chunk["choices"] for chunk in chunks[:-1]))

    def test_usage_on_every_chunk_runs_up(self) -> None:
        """The running figure ends at the true one."""
        chunks = stream(chat("fake-words-3-usage-on-every-chunk"))
        counts = [chunk["usage"]["completion_tokens"] for chunk in chunks[:-1]]
        self.assertEqual(counts, [0, 1, 2, 3, 3])

    def test_tool_calls(self) -> None:
        """Id and name come once, arguments in pieces, and the whole answer says the same."""
        request = chat("fake-tools-2")
        scenario = scenario_of(request.model)
        whole = chat_whole(request, scenario, compose(request, scenario), 1)
        joined: dict[int, str] = {}
        ids: dict[int, str] = {}
        for chunk in stream(request)[:-1]:
            for call in chunk["choices"][0]["delta"].get("tool_calls", []):
                index = call["index"]
                joined[index] = joined.get(index, "") + call["function"]["arguments"]
                if "id" in call:
                    self.assertNotIn(index, ids)
                    ids[index] = call["id"]
        calls = whole["choices"][0]["message"]["tool_calls"]
        self.assertEqual([call["function"]["arguments"] for call in calls], list(joined.values()))
        self.assertEqual([call["id"] for call in calls], list(ids.values()))

    def test_usage_sums(self) -> None:
        """Cached and written tokens are part of the prompt, reasoning of the completion."""
        request = chat("fake-words-2-cached-8-cache-write-3-reasoning-4")
        scenario = scenario_of(request.model)
        usage = chat_whole(request, scenario, compose(request, scenario), 1)["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (17, 6))
        self.assertEqual(usage["total_tokens"], 23)
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], 8)
        self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], 4)


class CompletionTests(SynchronousTestCase):
    """The old completions endpoint, and errors."""

    def test_stream_is_the_whole(self) -> None:
        """The chunks' texts joined are the whole answer's."""
        request = post("/v1/completions", model="fake-small", prompt="hi")
        scenario = scenario_of(request.model)
        reply = compose(request, scenario)
        whole = completion_whole(request, scenario, reply, 1)
        events = completion_events(request, scenario, reply, 1)
        chunks = [json.loads(data) for _, data in events[:-1]]
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        self.assertEqual(text, whole["choices"][0]["text"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")

    def test_errors(self) -> None:
        """Type and code follow the status."""
        self.assertEqual(openai_error(429, "m")["error"]["type"], "rate_limit_error")
        self.assertEqual(openai_error(500, "m")["error"]["type"], "server_error")
        self.assertEqual(openai_error(422, "m")["error"]["type"], "invalid_request_error")
