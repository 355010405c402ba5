"""A real upstream that this project did not write: llama.cpp's server, with a tiny model.

It is used where it is there and never built here. ``OMNIGATE_LLAMA_SERVER`` names the program, or
it is on the path, or below ``~/.cache/omnigate``; its model is ``OMNIGATE_LLAMA_MODEL``, or a
``tiny.gguf`` beside the program or one folder above. ``shared/real-upstream`` beside the checkout
tells how both are made.
"""

import http.client
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.process.daemons import (
    Answer,
    Gateway,
    Provider,
    cost_of,
    events_of,
    key_of,
    key_table,
    route_table,
    shared,
    upstream_table,
    wait_for,
)

#: What the model says at temperature 0, whatever it is asked.
TEXT = "Hello! I am a tiny language model with random weights, made only for testing your gateway."
TEXT_TOKENS = 20
API_KEY = "llama-key-of-the-tests"
#: The context is divided by the slots.
CONTEXT, SLOTS = 8192, 2
TURNS: list[Any] = [{"role": "user", "content": "Who are you?"}]


def program() -> Path:
    """The server.

    :raises SkipTest: there is none.
    """
    named = os.environ.get("OMNIGATE_LLAMA_SERVER")
    if named:
        return Path(named)
    on_path = shutil.which("llama-server")
    if on_path:
        return Path(on_path)
    cache = Path.home() / ".cache" / "omnigate"
    for found in (*cache.glob("llama-server"), *cache.glob("*/bin/llama-server")):
        return found
    raise SkipTest(f"there is no llama-server: not on the path, not below {cache}")


def model(server: Path) -> Path:
    """Its model.

    :raises SkipTest: there is none.
    """
    named = os.environ.get("OMNIGATE_LLAMA_MODEL")
    places = [Path(named)] if named else []
    places += [folder / "tiny.gguf" for folder in (server.parent, server.parent.parent)]
    for place in places:
        if place.is_file():
            return place
    raise SkipTest(f"there is no model for {server}: none of {', '.join(map(str, places))}")


def build() -> Gateway:
    """A gateway before it; it is both upstreams, one for each wire that it speaks."""
    server = program()
    weights = model(server)

    def command(port: int) -> Sequence[str]:
        where = ["-m", str(weights), "--host", "127.0.0.1", "--port", str(port)]
        size = ["-c", str(CONTEXT), "-np", str(SLOTS), "--threads", "1", "--temp", "0"]
        shape = ["--alias", "tiny", "--embeddings", "--pooling", "mean"]
        return [str(server), *where, *size, *shape, "--api-key", API_KEY, "--slots"]

    def config(port: int) -> str:
        upstreams = [
            upstream_table(protocol, protocol, port) + 'abandon = "cancel"\n'
            for protocol in ("openai", "anthropic")
        ]
        routes = [route_table(f"local-{name}", (name, "tiny")) for name in ("openai", "anthropic")]
        return key_table("app") + "".join(upstreams + routes)

    return Gateway(config, behind=Provider(command, "/health", API_KEY)).start()


class LlamaTests(SynchronousTestCase):
    """Every endpoint that it has, with the bill to the token."""

    def setUp(self) -> None:
        self.gateway = shared("llama", build)
        self.addCleanup(lambda: self.assertEqual(self.gateway.traces(), []))

    def post(self, path: str, **body: Any) -> Answer:
        """Ask the model; the answer came whole."""
        name = "local-anthropic" if path.startswith("/v1/messages") else "local-openai"
        answer = self.gateway.post(path, {"model": name, **body}, key_of("app"))
        self.assertTrue(answer.whole)
        return answer

    def billed(self, answer: Answer, prompt: int, output: int) -> dict[str, Any]:
        """Hold the ledger to what the model says it used, cached or not."""
        event = self.gateway.event(answer.id)
        self.assertEqual(event["input_tokens"] + event["cached_input_tokens"], prompt)
        self.assertEqual(event["output_tokens"], output)
        self.assertEqual((event["status"], event["estimated"]), (200, False))
        self.assertEqual(event["cost_usd"], cost_of(event))
        return event

    def test_chat(self) -> None:
        """Chat, whole and streamed, with usage asked for and not."""
        whole = self.post("/v1/chat/completions", messages=TURNS)
        self.assertEqual(whole.json["choices"][0]["message"]["content"], TEXT)
        usage = whole.json["usage"]
        self.assertEqual(usage["completion_tokens"], TEXT_TOKENS)
        event = self.billed(whole, usage["prompt_tokens"], TEXT_TOKENS)
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(event["cached_input_tokens"], cached)
        for options in ({}, {"stream_options": {"include_usage": True}}):
            stream = self.post("/v1/chat/completions", messages=TURNS, stream=True, **options)
            chunks = events_of(stream.body)
            text = [c["delta"].get("content") or "" for e in chunks for c in e["choices"]]
            self.assertEqual("".join(text), TEXT)
            self.assertEqual(any(chunk.get("usage") for chunk in chunks), bool(options))
            self.assertTrue(stream.body.endswith(b"data: [DONE]\n\n"))
            self.billed(stream, usage["prompt_tokens"], TEXT_TOKENS)

    def test_limit(self) -> None:
        """An answer cut short by the client's own limit."""
        answer = self.post("/v1/chat/completions", messages=TURNS, max_tokens=7)
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "length")
        self.billed(answer, answer.json["usage"]["prompt_tokens"], 7)

    def test_tool(self) -> None:
        """A tool call, whole and streamed."""
        tool = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}
        asked = {
            "messages": TURNS,
            "tools": [{"type": "function", "function": tool}],
            "tool_choice": "required",
            "max_tokens": 200,
        }
        answer = self.post("/v1/chat/completions", **asked)
        (choice,) = answer.json["choices"]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(choice["message"]["tool_calls"][0]["function"]["name"], "get_weather")
        usage = answer.json["usage"]
        self.billed(answer, usage["prompt_tokens"], usage["completion_tokens"])
        stream = self.post("/v1/chat/completions", stream=True, **asked)
        self.assertIn(b'"tool_calls"', stream.body)
        self.billed(stream, usage["prompt_tokens"], usage["completion_tokens"])

    def test_completions(self) -> None:
        """Completions, whole and streamed."""
        whole = self.post("/v1/completions", prompt="Who are you?")
        usage = whole.json["usage"]
        self.billed(whole, usage["prompt_tokens"], usage["completion_tokens"])
        stream = self.post("/v1/completions", prompt="Who are you?", stream=True)
        self.billed(stream, usage["prompt_tokens"], usage["completion_tokens"])

    def test_embeddings(self) -> None:
        """Embeddings, as numbers and as base64."""
        for form in ("float", "base64"):
            answer = self.post(
                "/v1/embeddings", input=["Who are you?", "Nobody"], encoding_format=form
            )
            self.assertEqual(len(answer.json["data"]), 2)
            self.billed(answer, answer.json["usage"]["prompt_tokens"], 0)

    def test_responses(self) -> None:
        """The Responses API, whole and streamed."""
        whole = self.post("/v1/responses", input="Who are you?")
        usage = whole.json["usage"]
        self.billed(whole, usage["input_tokens"], TEXT_TOKENS)
        stream = self.post("/v1/responses", input="Who are you?", stream=True)
        self.assertEqual(events_of(stream.body)[-1]["type"], "response.completed")
        self.billed(stream, usage["input_tokens"], TEXT_TOKENS)

    def test_messages(self) -> None:
        """Messages, whole and streamed, and counting tokens before."""
        counted = self.post("/v1/messages/count_tokens", messages=TURNS)
        prompt = counted.json["input_tokens"]
        self.assertEqual(self.gateway.event(counted.id)["cost_usd"], 0)
        whole = self.post("/v1/messages", messages=TURNS, max_tokens=100)
        self.assertEqual(whole.json["content"][0]["text"], TEXT)
        usage = whole.json["usage"]
        event = self.billed(whole, prompt, TEXT_TOKENS)
        self.assertEqual(event["input_tokens"], usage["input_tokens"])
        stream = self.post("/v1/messages", messages=TURNS, max_tokens=100, stream=True)
        self.assertEqual(events_of(stream.body)[-1]["type"], "message_stop")
        self.billed(stream, prompt, TEXT_TOKENS)

    def test_errors(self) -> None:
        """Its own kind of error comes in the shape of the client's protocol, and costs nothing."""
        long = [{"role": "user", "content": "word " * 3 * CONTEXT}]
        chat = self.post("/v1/chat/completions", messages=long)
        self.assertEqual(chat.status, 400)
        self.assertEqual(chat.json["error"]["type"], "exceed_context_size_error")
        turn = self.post("/v1/messages", messages=long, max_tokens=100)
        self.assertEqual((turn.status, turn.json["type"]), (400, "error"))
        self.assertEqual(turn.json["error"]["type"], "invalid_request_error")
        for answer in (chat, turn):
            event = self.gateway.event(answer.id)
            self.assertEqual((event["status"], event["cost_usd"]), (400, 0))

    def test_client_leaves(self) -> None:
        """With ``abandon = "cancel"`` its work ends with the client; what was seen is billed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.data_port, timeout=60)
        body = {"model": "local-openai", "messages": TURNS, "stream": True}
        body |= {"ignore_eos": True, "max_tokens": 3000}
        headers = {"authorization": f"Bearer {key_of('app')}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        request_id = response.headers["x-omnigate-request-id"]
        self.assertTrue(response.readline())
        self.assertTrue(self.working())
        response.close()
        connection.close()
        wait_for("the model to stop", lambda: not self.working())
        event = self.gateway.event(request_id)
        self.assertEqual((event["status"], event["estimated"]), (499, True))
        self.assertLess(event["output_tokens"], 3000)

    def working(self) -> bool:
        """Whether the server is at work."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.provider_port, timeout=60)
        try:
            connection.request("GET", "/slots", headers={"authorization": f"Bearer {API_KEY}"})
            slots = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return any(slot["is_processing"] for slot in slots)
