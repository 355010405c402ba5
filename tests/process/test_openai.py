"""The official openai package against the real daemons: every endpoint, every error, every bill."""

import asyncio
import base64
import json
import struct
from typing import Any

from tests.process.daemons import Gateway, key_of, wait_for
from tests.process.sdk import NARROW, SCENARIOS, SdkCase, done, items, unready_gateway

HELLO: list[Any] = [{"role": "user", "content": "Hello, gateway"}]
#: The fake model counts four bytes a token, the role's too, and one token a word that it says.
HELLO_TOKENS = 5
WORDS = 12
TEXT = "The quick answer is that every word you read here was counted"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": PARAMETERS, "strict": True}}
    for name in ("get_weather", "get_time")
]


def tokens(usage: Any) -> tuple[int, int, int, int]:
    """What the usage of a chat answer says, each token counted once."""
    said = usage.model_dump()
    details = said.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or 0
    written = details.get("cache_write_tokens") or 0
    return said["prompt_tokens"] - cached - written, cached, written, said["completion_tokens"]


class OpenAICase(SdkCase):
    """With a client of this package."""

    package = "openai"

    def client(self, key: str, **options: Any) -> Any:
        """Make a client."""
        kind = self.sdk.AsyncOpenAI if self.asynchronous else self.sdk.OpenAI
        url = f"http://127.0.0.1:{self.gateway.data_port}/v1"
        return kind(base_url=url, api_key=key, timeout=60, **self.options(**options))


class ChatTests(OpenAICase):
    """Chat completions."""

    def test_whole(self) -> None:
        """An answer in one piece, with cached, written and reasoning tokens in its bill."""

        async def scene(client: Any) -> None:
            answer = await done(
                client.chat.completions.create(model="cached", messages=HELLO, temperature=0)
            )
            self.assertEqual(answer.choices[0].message.content, TEXT)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            self.assertEqual(tokens(answer.usage), (380, 100, 20, WORDS + 5))
            self.assert_billed("chat", (380, 100, 20, WORDS + 5))

        self.play(scene)

    def test_long(self) -> None:
        """An answer of more than 64 KiB, which the gateway does not hold whole."""

        async def scene(client: Any) -> None:
            answer = await done(client.chat.completions.create(model="large", messages=HELLO))
            self.assertEqual(len(answer.choices[0].message.content.split(" ")), 16_384)
            self.assert_billed("chat", tokens(answer.usage))

        self.play(scene)

    def test_stream(self) -> None:
        """A stream whose client did not ask for usage sees none, and is billed exactly."""

        async def scene(client: Any) -> None:
            stream = await done(
                client.chat.completions.create(model="small", messages=HELLO, stream=True)
            )
            chunks = await items(stream)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            self.assertEqual(text, TEXT)
            self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")
            self.assertEqual([chunk.usage for chunk in chunks if chunk.usage], [])
            self.assert_billed("chat", (HELLO_TOKENS, 0, 0, WORDS), stream=True)

        self.play(scene)

    def test_stream_with_usage(self) -> None:
        """A stream whose client asked for usage gets it, as the last chunk."""

        async def scene(client: Any) -> None:
            options = {"include_usage": True}
            stream = await done(
                client.chat.completions.create(
                    model="cached", messages=HELLO, stream=True, stream_options=options
                )
            )
            last = (await items(stream))[-1]
            self.assertEqual(last.choices, [])
            self.assertEqual(tokens(last.usage), (380, 100, 20, WORDS + 5))
            self.assert_billed("chat", (380, 100, 20, WORDS + 5), stream=True)

        self.play(scene)

    def test_tools(self) -> None:
        """Two tools are called, and their results answered, in one piece and as a stream."""

        async def scene(client: Any) -> None:
            answer = await done(
                client.chat.completions.create(model="tools", messages=HELLO, tools=TOOLS)
            )
            choice = answer.choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            calls = choice.message.tool_calls
            self.assertEqual([call.function.name for call in calls], ["get_weather", "get_time"])
            self.assertEqual(json.loads(calls[1].function.arguments), {"city": "Zürich"})
            self.assert_billed("chat", tokens(answer.usage))
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls
            ]
            turns = [*HELLO, choice.message.model_dump(exclude_none=True), *results]
            self.answers.clear()
            answer = await done(
                client.chat.completions.create(model="tools", messages=turns, tools=TOOLS)
            )
            self.assertEqual(answer.choices[0].message.content, TEXT)
            self.assert_billed("chat", tokens(answer.usage))

        self.play(scene)

    def test_streamed_tools(self) -> None:
        """The same calls out of a stream, put together by the package's own reader of streams."""

        async def scene(client: Any) -> None:
            manager = client.chat.completions.stream(
                model="tools",
                messages=HELLO,
                tools=TOOLS,
                stream_options={"include_usage": True},
            )
            if self.asynchronous:
                async with manager as stream:
                    answer = await stream.get_final_completion()
            else:
                with manager as stream:
                    answer = stream.get_final_completion()
            calls = answer.choices[0].message.tool_calls
            self.assertEqual(
                [(call.function.name, json.loads(call.function.arguments)) for call in calls],
                [("get_weather", {"city": "Bern"}), ("get_time", {"city": "Zürich"})],
            )
            self.assert_billed("chat", tokens(answer.usage), stream=True)

        self.play(scene)

    def test_many_at_once(self) -> None:
        """Thirty streams at once: each gets its own answer, and each is billed once."""

        async def scene(client: Any) -> None:
            async def one() -> str:
                stream = await client.chat.completions.create(
                    model="small", messages=HELLO, stream=True
                )
                chunks = await items(stream)
                return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

            texts = await asyncio.gather(*(one() for _ in range(30)))
            self.assertEqual(set(texts), {TEXT})
            for index in range(30):
                self.assertEqual(self.event(index)["output_tokens"], WORDS)
            self.assertEqual(len({self.request_id(index) for index in range(30)}), 30)

        self.play(scene, modes=(True,))


class OtherTests(OpenAICase):
    """The other endpoints."""

    def test_completions(self) -> None:
        """The old completions, in one piece and as a stream."""

        async def scene(client: Any) -> None:
            answer = await done(client.completions.create(model="small", prompt="Once upon"))
            self.assertEqual(answer.choices[0].text, TEXT)
            self.assert_billed("completions", tokens(answer.usage))
            self.answers.clear()
            stream = await done(
                client.completions.create(model="small", prompt="Once upon", stream=True)
            )
            chunks = await items(stream)
            self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), TEXT)
            self.assert_billed("completions", (3, 0, 0, WORDS), stream=True)

        self.play(scene)

    def test_responses(self) -> None:
        """The Responses API, in one piece and as events."""

        async def scene(client: Any) -> None:
            answer = await done(client.responses.create(model="cached", input="Hello, gateway"))
            self.assertEqual(answer.output_text, TEXT)
            self.assertEqual(answer.status, "completed")
            self.assert_billed("responses", (380, 100, 20, WORDS + 5))
            self.answers.clear()
            stream = await done(
                client.responses.create(model="cached", input="Hello, gateway", stream=True)
            )
            events = await items(stream)
            self.assertEqual(events[0].type, "response.created")
            self.assertEqual(events[-1].type, "response.completed")
            self.assertEqual(events[-1].response.output_text, TEXT)
            self.assert_billed("responses", (380, 100, 20, WORDS + 5), stream=True)

        self.play(scene)

    def test_responses_with_tools(self) -> None:
        """Function calls of the Responses API, through the package's own reader of streams."""
        tools = [{"type": "function", **tool["function"]} for tool in TOOLS]

        async def scene(client: Any) -> None:
            manager = client.responses.stream(model="tools", input="Weather?", tools=tools)
            if self.asynchronous:
                async with manager as stream:
                    answer = await stream.get_final_response()
            else:
                with manager as stream:
                    answer = stream.get_final_response()
            calls = [item for item in answer.output if item.type == "function_call"]
            self.assertEqual([call.name for call in calls], ["get_weather", "get_time"])
            usage = answer.usage
            billed = (usage.input_tokens, 0, 0, usage.output_tokens)
            self.assert_billed("responses", billed, stream=True)

        self.play(scene)

    def test_embeddings(self) -> None:
        """Vectors as base64, which is the package's silent default, and as numbers."""

        async def scene(client: Any) -> None:
            given = ["Hello, gateway", "Hello"]
            answer = await done(client.embeddings.create(model="small", input=given))
            self.assertEqual([len(row.embedding) for row in answer.data], [8, 8])
            self.assert_billed("embeddings", (answer.usage.prompt_tokens, 0, 0, 0))
            self.answers.clear()
            plain = await done(
                client.embeddings.create(model="small", input=given, encoding_format="float")
            )
            packed = base64.b64encode(struct.pack("<8f", *plain.data[0].embedding))
            self.assertEqual(
                packed, base64.b64encode(struct.pack("<8f", *answer.data[0].embedding))
            )
            self.assert_billed("embeddings", (answer.usage.prompt_tokens, 0, 0, 0))

        self.play(scene)

    def test_models(self) -> None:
        """The list of models, and one whose name has to be encoded."""

        async def scene(client: Any) -> None:
            page = await done(client.models.list())
            listed = [model.id for model in page.data]
            self.assertEqual(listed[: len(SCENARIOS)], list(SCENARIOS))
            model = await done(client.models.retrieve("org/small-v2:free"))
            self.assertEqual((model.id, model.object), ("org/small-v2:free", "model"))
            with self.assertRaises(self.sdk.NotFoundError):
                await done(client.models.retrieve("unheard-of"))

        self.play(scene)

    def test_models_of_a_narrow_key(self) -> None:
        """A key that may use some models sees these."""

        async def scene(client: Any) -> None:
            page = await done(client.models.list())
            self.assertEqual([model.id for model in page.data], ["small", "org/small-v2:free"])

        self.assertEqual(NARROW, ("small", "org/*"))
        self.play(scene, lambda: key_of("narrow"))


class ErrorTests(OpenAICase):
    """What goes wrong is told in the package's own exceptions, and tried again only if it helps."""

    async def failed(self, client: Any, kind: str, model: str, **more: Any) -> Any:
        """Send a chat completion that fails with this exception; the exception."""
        try:
            await done(client.chat.completions.create(model=model, messages=HELLO, **more))
        except self.sdk.APIStatusError as error:
            self.assertIs(type(error), getattr(self.sdk, kind))
            # The package shows this one to its users.
            self.assertTrue(error.request_id)
            return error
        raise AssertionError(f"no {kind}")

    def assert_refused(self, error: Any, status: int, code: str) -> None:
        """The gateway's own refusal: sent once, answered once, in no ledger."""
        self.assertEqual((error.status_code, error.code), (status, code))
        self.assertEqual(len(self.answers), 1)
        self.assertEqual(error.request_id, self.request_id())
        recorded = {event["id"] for event in self.gateway.ledger()}
        self.assertNotIn(self.request_id(), recorded)

    def assert_recorded(self, status: int, answers: int = 1) -> dict[str, Any]:
        """The last answer is in the ledger with this status, and cost nothing."""
        self.assertEqual(len(self.answers), answers)
        event = self.event()
        self.assertEqual((event["status"], event["cost_usd"]), (status, 0))
        return event

    def test_unknown_key(self) -> None:
        """401 for a key that is none, and for a stream too."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "AuthenticationError", "small")
            self.assert_refused(error, 401, "invalid_api_key")
            self.answers.clear()
            error = await self.failed(client, "AuthenticationError", "small", stream=True)
            self.assert_refused(error, 401, "invalid_api_key")

        self.play(scene, lambda: "sk-of-nobody-0123456789")

    def test_budget(self) -> None:
        """402 once the budget is spent, though models may still be listed."""

        async def scene(client: Any) -> None:
            await done(client.chat.completions.create(model="small", messages=HELLO))
            self.assertGreater(self.event()["cost_usd"], 0)
            wait_for("the key to be blocked", self.blocked(client.api_key))
            self.answers.clear()
            error = await self.failed(client, "APIStatusError", "small")
            self.assert_refused(error, 402, "budget_exceeded")
            self.assertTrue((await done(client.models.list())).data)

        self.play(scene, lambda: self.make_key(budget_usd=0.0001))

    def test_model_not_allowed(self) -> None:
        """403 for a model that the key may not use."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "PermissionDeniedError", "cached")
            self.assert_refused(error, 403, "model_not_allowed")

        self.play(scene, lambda: key_of("narrow"))

    def test_not_found(self) -> None:
        """404 for a model that is none."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "NotFoundError", "unheard-of")
            self.assert_refused(error, 404, "model_not_found")
            self.assertEqual(error.param, "model")

        self.play(scene)

    def test_rate_limit(self) -> None:
        """429 of the gateway's own says when to come back."""

        async def scene(client: Any) -> None:
            await done(client.chat.completions.create(model="small", messages=HELLO))
            self.answers.clear()
            error = await self.failed(client, "RateLimitError", "small")
            self.assert_refused(error, 429, "rate_limit_exceeded")
            self.assertLessEqual(int(error.response.headers["retry-after"]), 60)
            self.assertNotIn("x-should-retry", error.response.headers)

        self.play(scene, lambda: self.make_key(rpm=1), max_retries=0)

    def test_rate_limit_of_the_provider(self) -> None:
        """429 of the provider is passed on with its wait, and recorded."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "RateLimitError", "limited")
            self.assertEqual(error.code, "upstream_rate_limited")
            self.assertEqual(error.response.headers["retry-after"], "7")
            event = self.assert_recorded(429)
            self.assertEqual([row["outcome"] for row in event["attempts"]], ["status_429"])

        self.play(scene, max_retries=0)

    def test_long_wait_of_the_provider(self) -> None:
        """A wait of a quarter of an hour is not slept out within the call, nor tried again."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "RateLimitError", "patient")
            self.assertEqual(error.response.headers["x-should-retry"], "false")
            self.assert_recorded(429)

        self.play(scene)

    def test_bad_request_of_the_provider(self) -> None:
        """A provider's 400 is relayed as it is, is asked once, and costs nothing."""

        async def scene(client: Any) -> None:
            before = self.requests_of("fake-400")
            error = await self.failed(client, "BadRequestError", "bad")
            self.assertIn("asked to fail", error.message)
            self.assert_recorded(400)
            self.assertEqual(self.requests_of("fake-400") - before, 1)

        self.play(scene)

    def test_busy_provider(self) -> None:
        """529 of the provider is 502 of the gateway's: all its targets failed."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "InternalServerError", "overloaded")
            self.assertEqual((error.status_code, error.code), (502, "all_upstreams_failed"))
            event = self.assert_recorded(502)
            self.assertEqual([row["outcome"] for row in event["attempts"]], ["status_529"])

        self.play(scene, max_retries=0)

    def test_no_provider(self) -> None:
        """A provider that is not there: one clear 502, which names what was tried."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "InternalServerError", "nowhere")
            self.assertEqual((error.status_code, error.code), (502, "all_upstreams_failed"))
            self.assertIn("nowhere/fake-small: connect error", error.message)
            self.assert_recorded(502)

        self.play(scene, max_retries=0)

    def test_no_credential(self) -> None:
        """A provider whose credential is missing: 502, and not the client's 401."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "InternalServerError", "keyless")
            self.assertEqual(error.code, "upstream_authentication_failed")
            self.assert_recorded(502)

        self.play(scene, max_retries=0)

    def test_tried_again(self) -> None:
        """What passes at a second try is tried again by the package, and both are recorded."""

        async def scene(client: Any) -> None:
            mode = "async" if self.asynchronous else "sync"
            model = f"busy-once-{self.package}-{mode}"
            answer = await done(client.chat.completions.create(model=model, messages=HELLO))
            self.assertTrue(answer.choices[0].message.content)
            self.assertEqual([answer.status_code for answer in self.answers], [502, 200])
            self.assertEqual([self.event(index)["status"] for index in (0, 1)], [502, 200])

        self.play(scene)

    def test_cut_stream(self) -> None:
        """A stream that the provider cuts raises, and is billed by an estimate."""

        async def scene(client: Any) -> None:
            stream = await done(
                client.chat.completions.create(model="cut", messages=HELLO, stream=True)
            )
            with self.assertRaises(Exception) as caught:
                await items(stream)
            self.assertNotIsInstance(caught.exception, AssertionError)
            event = self.event()
            self.assertEqual((event["status"], event["estimated"]), (499, True))
            self.assertGreaterEqual(event["output_tokens"], 3)
            self.assertEqual(len(self.answers), 1)

        self.play(scene)

    def test_error_event(self) -> None:
        """An error event within a stream raises the package's own error."""

        async def scene(client: Any) -> None:
            stream = await done(
                client.chat.completions.create(model="error-event", messages=HELLO, stream=True)
            )
            with self.assertRaises(self.sdk.APIError) as caught:
                await items(stream)
            self.assertIn("asked to fail", str(caught.exception))
            self.assertTrue(self.event()["estimated"])

        self.play(scene)


class UnreadyTests(OpenAICase):
    """A gateway that has no config yet."""

    def find_gateway(self) -> Gateway:
        """One without a control plane."""
        return unready_gateway(self)

    def test_unready(self) -> None:
        """503 that says to come back in a second, which the package does by itself."""

        async def scene(client: Any) -> None:
            with self.assertRaises(self.sdk.InternalServerError) as caught:
                await done(client.chat.completions.create(model="small", messages=HELLO))
            error = caught.exception
            self.assertEqual((error.status_code, error.code), (503, "gateway_not_ready"))
            self.assertEqual(error.response.headers["retry-after"], "1")
            self.assertEqual(error.request_id, self.request_id())
            self.assertEqual(len(self.answers), 2)

        self.play(scene, max_retries=1)
