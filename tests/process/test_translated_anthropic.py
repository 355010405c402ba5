"""The official anthropic package in front of models of every protocol, through the real daemons."""

from typing import Any

from tests.process.sdk import done, items
from tests.process.test_anthropic import TEXT, WORDS, AnthropicCase
from tests.process.translated import HELLO_TOKENS, INPUTS, TranslatedCase
from tests.testing import loops

#: What a provider's fault is for a client: the exception, its status and its type.
ERRORS: dict[str, tuple[str, int, str]] = {
    "400": ("BadRequestError", 400, "invalid_request_error"),
    "too-long": ("BadRequestError", 400, "invalid_request_error"),
    "401": ("InternalServerError", 502, "api_error"),
    "404": ("NotFoundError", 404, "not_found_error"),
    "413": ("APIStatusError", 413, "request_too_large"),
    "429-retry-after-7": ("RateLimitError", 429, "rate_limit_error"),
    "503": ("InternalServerError", 502, "api_error"),
    "html": ("InternalServerError", 502, "api_error"),
}


class MessageTests(TranslatedCase, AnthropicCase):
    """Messages."""

    def loop_at(self, kind: str) -> None:
        """Play the loop whole and streamed."""

        async def scene(client: Any) -> None:
            for streamed in (False, True):
                await self.play_loop(client, "messages", kind, streamed)

        self.play(scene)

    def test_loop_at_chat(self) -> None:
        """The play at a model of Chat Completions, a picture out of a tool and all."""
        self.loop_at("chat")

    def test_loop_at_responses(self) -> None:
        """The play at a model of Responses, its sealed reasoning packed into signatures."""
        self.loop_at("responses")

    def test_loop_untranslated(self) -> None:
        """The play at a model of Anthropic's."""
        self.loop_at("messages")

    def test_events(self) -> None:
        """A bare stream: one block, its text, the figures at the end."""

        async def scene(client: Any) -> None:
            for kind in ("chat", "responses"):
                self.answers.clear()
                stream = await self.create(client, f"small-{kind}", stream=True)
                events = [event for event in await items(stream) if event.type != "ping"]
                self.assertEqual(events[0].type, "message_start")
                self.assertEqual(events[-1].type, "message_stop")
                pieces = [e.delta.text for e in events if e.type == "content_block_delta"]
                self.assertEqual("".join(pieces), TEXT)
                self.assertEqual(events[-2].usage.output_tokens, WORDS)
                billed = (HELLO_TOKENS[kind], 0, 0, WORDS)
                self.assert_billed("messages", billed, stream=True, upstream="openai")

        self.play(scene)

    def test_errors(self) -> None:
        """What goes wrong at the provider is the package's own exception for it."""

        async def scene(client: Any) -> None:
            for kind in ("chat", "responses"):
                for fault in ERRORS:
                    for more in ({}, {"stream": True}):
                        await self.check_error(client, kind, fault, more)

        self.play(scene, max_retries=0)

    async def check_error(self, client: Any, kind: str, fault: str, more: Any) -> None:
        """One fault of a provider."""
        exception, status, said = ERRORS[fault]
        self.answers.clear()
        try:
            await self.create(client, f"{fault}-{kind}", **more)
        except self.sdk.APIStatusError as error:
            # Newer versions have classes of their own for some statuses, below the older one.
            self.assertIsInstance(error, getattr(self.sdk, exception), fault)
            self.assertEqual((error.status_code, error.type), (status, said), fault)
            self.assertEqual(error.body["request_id"], self.request_id())
            message = error.body["error"]["message"]
            if fault == "400":
                self.assertIn("asked to fail", message)
            elif fault == "too-long":
                # Agents look for this beginning, and shorten the conversation.
                self.assertTrue(message.startswith("prompt is too long: "), message)
            elif fault == "429-retry-after-7":
                self.assertEqual(error.response.headers["retry-after"], "7")
        else:
            raise AssertionError(f"{fault} at {kind} is no error")
        event = self.event()
        self.assertEqual((event["status"], event["cost_usd"]), (status, 0), fault)

    def test_refusal(self) -> None:
        """A tool that Anthropic would run is refused at others, and asked of nobody."""

        async def scene(client: Any) -> None:
            before = self.served("fake-small")["requests"]
            tool = {"type": "web_search_20250305", "name": "web_search"}
            for kind in ("chat", "responses"):
                with self.assertRaises(self.sdk.BadRequestError) as caught:
                    await self.create(client, f"small-{kind}", tools=[tool])
                said = caught.exception.body["error"]
                self.assertEqual(said["details"]["error_code"], "untranslatable_request")
                self.assertIn("tools[0]", said["message"])
            self.assertEqual(self.served("fake-small")["requests"], before)

        self.play(scene)

    def test_tool_runner(self) -> None:
        """The package's own loop of tools, which first asks for a thread, goes on without one."""

        def get_weather(city: str = "") -> str:
            """Tell the weather of a city."""
            return f"21 °C in {city}"

        async def get_weather_later(city: str = "") -> str:
            """Tell the weather of a city."""
            return get_weather(city)

        async def scene(client: Any) -> None:
            if isinstance(client, self.sdk.AsyncAnthropic):
                tool = self.sdk.beta_async_tool(get_weather_later)
            else:
                tool = self.sdk.beta_tool(get_weather)
            for kind in ("chat", "responses", "messages"):
                runner = await done(
                    client.beta.messages.tool_runner(
                        model=f"tools-{kind}",
                        max_tokens=500,
                        tools=[tool],
                        messages=[{"role": "user", "content": "Which one is warmer?"}],
                    )
                )
                reasons = [message.stop_reason for message in await items(runner)]
                self.assertEqual(reasons, ["tool_use", "end_turn"], kind)

        self.play(scene)

    def test_broken_streams(self) -> None:
        """A stream that is cut, and one with an error in it, raise the package's error."""

        async def scene(client: Any) -> None:
            for kind in ("chat", "responses"):
                for fault in ("cut-after-5", "error-event-after-5"):
                    self.answers.clear()
                    stream = await self.create(client, f"{fault}-{kind}", stream=True)
                    with self.assertRaises(self.sdk.APIStatusError) as caught:
                        await items(stream)
                    self.assertEqual(caught.exception.body["error"]["type"], "api_error")
                    self.assertTrue(self.event()["estimated"])

        self.play(scene)

    def test_count_tokens(self) -> None:
        """Tokens are counted by a provider that can, else estimated, which the answer says."""

        async def scene(client: Any) -> None:
            for kind, named in (("responses", None), ("chat", "input_tokens")):
                self.answers.clear()
                request = loops.messages_request()
                asked = {
                    name: request[name]
                    for name in ("messages", "system", "tools", "thinking", "output_config")
                }
                counted = await done(client.messages.count_tokens(model=f"loop-{kind}", **asked))
                if named is None:
                    self.assertEqual(counted.input_tokens, sum(INPUTS[kind]))
                else:
                    self.assertGreater(counted.input_tokens, 2 * 1600)
                self.assertEqual(self.answers[0].headers.get("x-omnigate-estimate"), named)
                event = self.event()
                self.assertEqual((event["endpoint"], event["cost_usd"]), ("count_tokens", 0))

        self.play(scene)
