"""The official anthropic package against the real daemons: every endpoint, error and bill."""

from typing import Any

from tests.process.daemons import Gateway, key_of, wait_for
from tests.process.sdk import SCENARIOS, SdkCase, done, items, unready_gateway

HELLO: list[Any] = [{"role": "user", "content": "Hello, gateway"}]
#: The fake model counts four bytes a token, the role's too, and one token a word that it says.
HELLO_TOKENS = 5
WORDS = 12
TEXT = "The quick answer is that every word you read here was counted"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [
    {"name": name, "description": "For tests.", "input_schema": SCHEMA}
    for name in ("get_weather", "get_time")
]


def tokens(usage: Any) -> tuple[int, int, int, int]:
    """What the usage of a message says; its input is what was neither cached nor written."""
    return (
        usage.input_tokens,
        usage.cache_read_input_tokens or 0,
        usage.cache_creation_input_tokens or 0,
        usage.output_tokens,
    )


class AnthropicCase(SdkCase):
    """With a client of this package."""

    package = "anthropic"

    def client(self, key: str, **options: Any) -> Any:
        """Make a client; this package adds ``/v1`` by itself."""
        kind = self.sdk.AsyncAnthropic if self.asynchronous else self.sdk.Anthropic
        url = f"http://127.0.0.1:{self.gateway.data_port}"
        return kind(base_url=url, api_key=key, timeout=60, **self.options(**options))

    async def create(self, client: Any, model: str, **more: Any) -> Any:
        """Ask for a message."""
        asked = {"messages": HELLO, "max_tokens": 100, **more}
        return await done(client.messages.create(model=model, **asked))


class MessageTests(AnthropicCase):
    """Messages and what is beside them."""

    def test_whole(self) -> None:
        """An answer in one piece, with cached and written tokens in its bill."""

        async def scene(client: Any) -> None:
            answer = await self.create(client, "cached", system="Be brief.")
            self.assertEqual(answer.content[0].text, TEXT)
            self.assertEqual(answer.stop_reason, "end_turn")
            self.assertEqual(tokens(answer.usage), (380, 100, 20, WORDS + 5))
            self.assert_billed("messages", (380, 100, 20, WORDS + 5))

        self.play(scene)

    def test_limit(self) -> None:
        """``max_tokens`` reaches the provider."""

        async def scene(client: Any) -> None:
            answer = await self.create(client, "small", max_tokens=3)
            self.assertEqual(answer.stop_reason, "max_tokens")
            self.assert_billed("messages", (HELLO_TOKENS, 0, 0, 3))

        self.play(scene)

    def test_stream(self) -> None:
        """A stream as bare events."""

        async def scene(client: Any) -> None:
            stream = await self.create(client, "cached", stream=True)
            events = [event for event in await items(stream) if event.type != "ping"]
            self.assertEqual(events[0].type, "message_start")
            self.assertEqual(events[-1].type, "message_stop")
            text = [event.delta.text for event in events if event.type == "content_block_delta"]
            self.assertEqual("".join(text), TEXT)
            self.assert_billed("messages", (380, 100, 20, WORDS + 5), stream=True)

        self.play(scene)

    def test_stream_helper(self) -> None:
        """A stream through the package's own reader of streams, with two tool calls in it."""

        async def scene(client: Any) -> None:
            manager = client.messages.stream(
                model="tools", max_tokens=100, messages=HELLO, tools=TOOLS
            )
            if self.asynchronous:
                async with manager as stream:
                    answer = await stream.get_final_message()
            else:
                with manager as stream:
                    answer = stream.get_final_message()
            calls = [block for block in answer.content if block.type == "tool_use"]
            self.assertEqual(
                [(call.name, call.input) for call in calls],
                [("get_weather", {"city": "Bern"}), ("get_time", {"city": "Zürich"})],
            )
            self.assertEqual(answer.stop_reason, "tool_use")
            self.assert_billed("messages", tokens(answer.usage), stream=True)

        self.play(scene)

    def test_tools(self) -> None:
        """Two tools are called, and their results answered."""

        async def scene(client: Any) -> None:
            answer = await self.create(client, "tools", tools=TOOLS)
            calls = [block for block in answer.content if block.type == "tool_use"]
            self.assertEqual([call.name for call in calls], ["get_weather", "get_time"])
            self.assert_billed("messages", tokens(answer.usage))
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
                for call in calls
            ]
            said = [block.model_dump(exclude_none=True) for block in answer.content]
            turns = [
                *HELLO,
                {"role": "assistant", "content": said},
                {"role": "user", "content": results},
            ]
            self.answers.clear()
            answer = await self.create(client, "tools", tools=TOOLS, messages=turns)
            self.assertEqual(answer.content[0].text, TEXT)
            self.assert_billed("messages", tokens(answer.usage))

        self.play(scene)

    def test_count_tokens(self) -> None:
        """Counting tokens is answered by the provider, and costs nothing."""

        async def scene(client: Any) -> None:
            counted = await done(client.messages.count_tokens(model="cached", messages=HELLO))
            self.assertEqual(counted.input_tokens, 500)
            event = self.event()
            self.assertEqual(event["endpoint"], "count_tokens")
            self.assertEqual((event["input_tokens"], event["cost_usd"]), (0, 0))

        self.play(scene)

    def test_models(self) -> None:
        """The list of models and one of them, in this protocol's shape."""

        async def scene(client: Any) -> None:
            page = await done(client.models.list(limit=1000))
            listed = [model.id for model in page.data]
            self.assertEqual(listed[: len(SCENARIOS)], list(SCENARIOS))
            self.assertFalse(page.has_more)
            model = await done(client.models.retrieve("org/small-v2:free"))
            self.assertEqual((model.id, model.type), ("org/small-v2:free", "model"))
            with self.assertRaises(self.sdk.NotFoundError):
                await done(client.models.retrieve("unheard-of"))

        self.play(scene)


class ErrorTests(AnthropicCase):
    """What goes wrong is told in the package's own exceptions, and tried again only if it helps."""

    async def failed(self, client: Any, kind: str, model: str, **more: Any) -> Any:
        """Ask for a message, which fails with this exception; the exception."""
        try:
            await self.create(client, model, **more)
        except self.sdk.APIStatusError as error:
            # Newer versions have classes of their own for some statuses, below the older one.
            self.assertIsInstance(error, getattr(self.sdk, kind))
            self.assertTrue(error.request_id)
            self.assertEqual(error.body["type"], "error")
            return error
        raise AssertionError(f"no {kind}")

    def assert_refused(self, error: Any, status: int, kind: str, code: str) -> None:
        """The gateway's own refusal: sent once, answered once, in no ledger."""
        self.assertEqual(error.status_code, status)
        said = error.body["error"]
        self.assertEqual((said["type"], said["details"]["error_code"]), (kind, code))
        self.assertEqual(error.body["request_id"], self.request_id())
        self.assertEqual(len(self.answers), 1)
        recorded = {event["id"] for event in self.gateway.ledger()}
        self.assertNotIn(self.request_id(), recorded)

    def assert_recorded(self, status: int) -> dict[str, Any]:
        """The one answer is in the ledger with this status, and cost nothing."""
        self.assertEqual(len(self.answers), 1)
        event = self.event()
        self.assertEqual((event["status"], event["cost_usd"]), (status, 0))
        return event

    def test_unknown_key(self) -> None:
        """401 for a key that is none."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "AuthenticationError", "small")
            self.assert_refused(error, 401, "authentication_error", "invalid_api_key")

        self.play(scene, lambda: "sk-ant-of-nobody-0123456789")

    def test_budget(self) -> None:
        """402 once the budget is spent, for counting tokens as well."""

        async def scene(client: Any) -> None:
            await self.create(client, "small")
            self.assertGreater(self.event()["cost_usd"], 0)
            wait_for("the key to be blocked", self.blocked(client.api_key))
            self.answers.clear()
            error = await self.failed(client, "APIStatusError", "small")
            self.assert_refused(error, 402, "billing_error", "budget_exceeded")

        self.play(scene, lambda: self.make_key(budget_usd=0.0001))

    def test_model_not_allowed(self) -> None:
        """403 for a model that the key may not use."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "PermissionDeniedError", "cached")
            self.assert_refused(error, 403, "permission_error", "model_not_allowed")

        self.play(scene, lambda: key_of("narrow"))

    def test_not_found(self) -> None:
        """404 for a model that is none."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "NotFoundError", "unheard-of")
            self.assert_refused(error, 404, "not_found_error", "model_not_found")

        self.play(scene)

    def test_rate_limit(self) -> None:
        """429 of the gateway's own says when to come back."""

        async def scene(client: Any) -> None:
            await self.create(client, "small")
            self.answers.clear()
            error = await self.failed(client, "RateLimitError", "small")
            self.assert_refused(error, 429, "rate_limit_error", "rate_limit_exceeded")
            self.assertLessEqual(int(error.response.headers["retry-after"]), 60)

        self.play(scene, lambda: self.make_key(rpm=1), max_retries=0)

    def test_rate_limit_of_the_provider(self) -> None:
        """429 of the provider is passed on with its wait, and recorded."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "RateLimitError", "limited")
            self.assertEqual(error.response.headers["retry-after"], "7")
            event = self.assert_recorded(429)
            self.assertEqual([row["outcome"] for row in event["attempts"]], ["status_429"])

        self.play(scene, max_retries=0)

    def test_long_wait_of_the_provider(self) -> None:
        """A wait of a quarter of an hour, which this package would sleep out, is not tried."""

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
            self.assertEqual(error.body["error"]["details"]["error_code"], "all_upstreams_failed")
            event = self.assert_recorded(502)
            self.assertEqual([row["outcome"] for row in event["attempts"]], ["status_529"])

        self.play(scene, max_retries=0)

    def test_no_provider(self) -> None:
        """A provider that is not there: one clear 502, which names what was tried."""

        async def scene(client: Any) -> None:
            error = await self.failed(client, "InternalServerError", "nowhere")
            self.assertEqual(error.status_code, 502)
            message = error.body["error"]["message"]
            self.assertIn("nowhere/fake-small: connect error", message)
            self.assert_recorded(502)

        self.play(scene, max_retries=0)

    def test_tried_again(self) -> None:
        """What passes at a second try is tried again by the package, and both are recorded."""

        async def scene(client: Any) -> None:
            mode = "async" if self.asynchronous else "sync"
            answer = await self.create(client, f"busy-once-{self.package}-{mode}")
            self.assertTrue(answer.content[0].text)
            self.assertEqual([answer.status_code for answer in self.answers], [502, 200])
            self.assertEqual([self.event(index)["status"] for index in (0, 1)], [502, 200])

        self.play(scene)

    def test_cut_stream(self) -> None:
        """A stream that the provider cuts raises, and is billed by an estimate."""

        async def scene(client: Any) -> None:
            stream = await self.create(client, "cut", stream=True)
            with self.assertRaises(Exception) as caught:
                await items(stream)
            self.assertNotIsInstance(caught.exception, AssertionError)
            event = self.event()
            self.assertEqual((event["status"], event["estimated"]), (499, True))
            self.assertEqual(event["input_tokens"], HELLO_TOKENS)
            self.assertEqual(len(self.answers), 1)

        self.play(scene)

    def test_error_event(self) -> None:
        """An error event within a stream raises the package's own error."""

        async def scene(client: Any) -> None:
            stream = await self.create(client, "error-event", stream=True)
            with self.assertRaises(self.sdk.APIError) as caught:
                await items(stream)
            self.assertIn("asked to fail", str(caught.exception))
            self.assertTrue(self.event()["estimated"])

        self.play(scene)


class UnreadyTests(AnthropicCase):
    """A gateway that has no config yet."""

    def find_gateway(self) -> Gateway:
        """One without a control plane."""
        return unready_gateway(self)

    def test_unready(self) -> None:
        """503 that says to come back in a second."""

        async def scene(client: Any) -> None:
            with self.assertRaises(self.sdk.InternalServerError) as caught:
                await self.create(client, "small")
            error = caught.exception
            self.assertEqual(error.status_code, 503)
            said = error.body["error"]
            self.assertEqual(said["type"], "overloaded_error")
            self.assertEqual(said["details"]["error_code"], "gateway_not_ready")
            self.assertEqual(error.response.headers["retry-after"], "1")
            self.assertEqual(error.body["request_id"], self.request_id())

        self.play(scene, max_retries=0)
