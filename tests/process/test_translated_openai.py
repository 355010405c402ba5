"""The official openai package in front of models of every protocol, through the real daemons."""

from typing import Any

from tests.process.sdk import done, items
from tests.process.sdk_loops import plain_chat_turn
from tests.process.test_openai import HELLO, TEXT, WORDS, OpenAICase
from tests.process.translated import HELLO_TOKENS, KINDS, TranslatedCase

#: What a provider's fault is for a client: the exception, its status and its code.
ERRORS: dict[str, tuple[str, int, str | None]] = {
    "400": ("BadRequestError", 400, None),
    "too-long": ("BadRequestError", 400, "context_length_exceeded"),
    "401": ("InternalServerError", 502, "upstream_authentication_failed"),
    "404": ("NotFoundError", 404, "model_not_found"),
    "413": ("APIStatusError", 413, "request_too_large"),
    "429-retry-after-7": ("RateLimitError", 429, "upstream_rate_limited"),
    "503": ("InternalServerError", 502, "all_upstreams_failed"),
    "html": ("InternalServerError", 502, "all_upstreams_failed"),
}


class OpenAITranslatedCase(TranslatedCase, OpenAICase):
    """With a client of this package."""

    async def play_all(self, client: Any, protocol: str, kind: str, shown: bool = True) -> None:
        """Play the loop whole and streamed."""
        for streamed in (False, True):
            await self.play_loop(client, protocol, kind, streamed, shown)

    async def check_errors(self, ask: Any, kind: str) -> None:
        """Every fault of a provider is the package's own exception for it.

        :param ask: asks a model; the answer is not looked at.
        """
        for fault, (exception, status, code) in ERRORS.items():
            for more in ({}, {"stream": True}):
                self.answers.clear()
                try:
                    await done(ask(model=f"{fault}-{kind}", **more))
                except self.sdk.APIStatusError as error:
                    self.assertIs(type(error), getattr(self.sdk, exception), fault)
                    self.assertEqual((error.status_code, error.code), (status, code), fault)
                    self.assertEqual(error.request_id, self.request_id())
                    self.check_error(error, fault)
                else:
                    raise AssertionError(f"{fault} at {kind} is no error")
                event = self.event()
                self.assertEqual((event["status"], event["cost_usd"]), (status, 0), fault)

    def check_error(self, error: Any, fault: str) -> None:
        """What else a client looks at."""
        if fault == "400":
            self.assertIn("asked to fail", error.message)
        elif fault == "too-long":
            self.assertEqual(error.param, "messages")
        elif fault == "429-retry-after-7":
            self.assertEqual(error.response.headers["retry-after"], "7")


class ChatTests(OpenAITranslatedCase):
    """Chat Completions."""

    def test_loop_at_messages(self) -> None:
        """The play at an Anthropic model, signed thinking and all."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "chat", "messages")

        self.play(scene)

    def test_loop_at_a_budget(self) -> None:
        """The play at an Anthropic model that thinks by a budget and wants its thinking back."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "chat", "budget")

        self.play(scene)

    def test_loop_with_redacted_thinking(self) -> None:
        """The play at an Anthropic model of whose thinking nothing is told."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "chat", "redacted", shown=False)

        self.play(scene)

    def test_loop_at_responses(self) -> None:
        """The play at a model of Responses, which is not asked to tell what it thinks."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "chat", "responses", shown=False)

        self.play(scene)

    def test_loop_untranslated(self) -> None:
        """The play at a model of Chat Completions itself."""

        async def scene(client: Any) -> None:
            for streamed in (False, True):
                await self.play_loop(client, "chat", "chat", streamed, turn=plain_chat_turn)

        self.play(scene)

    def test_chunks(self) -> None:
        """A bare stream: no usage where none was asked for, at last where it was."""

        async def scene(client: Any) -> None:
            for kind in ("messages", "responses"):
                for wanted in (False, True):
                    self.answers.clear()
                    options = {"stream_options": {"include_usage": True}} if wanted else {}
                    chunks = await items(
                        await done(
                            client.chat.completions.create(
                                model=f"small-{kind}", messages=HELLO, stream=True, **options
                            )
                        )
                    )
                    said = [choice.delta.content for c in chunks for choice in c.choices]
                    self.assertEqual("".join(text or "" for text in said), TEXT)
                    counted = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage]
                    self.assertEqual(counted, [WORDS] if wanted else [])
                    billed = (HELLO_TOKENS[kind], 0, 0, WORDS)
                    upstream = KINDS[kind][0]
                    self.assert_billed("chat", billed, stream=True, upstream=upstream)

        self.play(scene)

    def test_errors(self) -> None:
        """What goes wrong at the provider."""

        async def scene(client: Any) -> None:
            def ask(**more: Any) -> Any:
                return client.chat.completions.create(messages=HELLO, **more)

            for kind in ("messages", "responses"):
                await self.check_errors(ask, kind)

        self.play(scene, max_retries=0)

    def test_no_credit(self) -> None:
        """A provider's account without credit is not tried again by the package."""

        async def scene(client: Any) -> None:
            with self.assertRaises(self.sdk.RateLimitError) as caught:
                await done(
                    client.chat.completions.create(model="no-credit-messages", messages=HELLO)
                )
            self.assertEqual(caught.exception.code, "insufficient_quota")
            self.assertEqual(len(self.answers), 1)

        self.play(scene)

    def test_refusal(self) -> None:
        """What Anthropic has no word for is refused, names its field, and is asked of nobody."""

        async def scene(client: Any) -> None:
            before = self.served("fake-small")["requests"]
            for more, param in (({"n": 2}, "n"), ({"logprobs": True}, "logprobs")):
                with self.assertRaises(self.sdk.BadRequestError) as caught:
                    await done(
                        client.chat.completions.create(
                            model="small-messages", messages=HELLO, **more
                        )
                    )
                error = caught.exception
                self.assertEqual((error.code, error.param), ("untranslatable_request", param))
            self.assertEqual(self.served("fake-small")["requests"], before)

        self.play(scene)

    def test_broken_streams(self) -> None:
        """A stream that is cut, and one with an error in it, raise the package's error."""

        async def scene(client: Any) -> None:
            for kind in ("messages", "responses"):
                for fault, code in (
                    ("cut-after-5", "upstream_stream_interrupted"),
                    ("error-event-after-5", None),
                ):
                    self.answers.clear()
                    stream = await done(
                        client.chat.completions.create(
                            model=f"{fault}-{kind}", messages=HELLO, stream=True
                        )
                    )
                    with self.assertRaises(self.sdk.APIError) as caught:
                        await items(stream)
                    if code is not None:
                        self.assertEqual(caught.exception.code, code)
                    self.assertTrue(self.event()["estimated"])

        self.play(scene)


class ResponsesTests(OpenAITranslatedCase):
    """The Responses API."""

    def test_loop_at_messages(self) -> None:
        """The play at an Anthropic model, its thinking sealed in reasoning items."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "responses", "messages")

        self.play(scene)

    def test_loop_at_a_budget(self) -> None:
        """The play at an Anthropic model that thinks by a budget."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "responses", "budget")

        self.play(scene)

    def test_loop_with_redacted_thinking(self) -> None:
        """The play at an Anthropic model of whose thinking nothing is told."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "responses", "redacted", shown=False)

        self.play(scene)

    def test_loop_at_chat(self) -> None:
        """The play at a model of Chat Completions."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "responses", "chat")

        self.play(scene)

    def test_loop_untranslated(self) -> None:
        """The play at a model of Responses itself."""

        async def scene(client: Any) -> None:
            await self.play_all(client, "responses", "responses")

        self.play(scene)

    def test_events(self) -> None:
        """A bare stream: its events are numbered, its end holds everything."""

        async def scene(client: Any) -> None:
            for kind in ("messages", "chat"):
                self.answers.clear()
                events = await items(
                    await done(
                        client.responses.create(
                            model=f"small-{kind}", input="Hello, gateway", stream=True
                        )
                    )
                )
                numbers = [event.sequence_number for event in events]
                self.assertEqual(numbers, list(range(len(events))))
                self.assertEqual(events[0].type, "response.created")
                self.assertEqual(events[-1].type, "response.completed")
                self.assertEqual(events[-1].response.output_text, TEXT)
                self.assertEqual(events[-1].response.usage.output_tokens, WORDS)
                billed = (HELLO_TOKENS[kind], 0, 0, WORDS)
                upstream = KINDS[kind][0]
                self.assert_billed("responses", billed, stream=True, upstream=upstream)

        self.play(scene)

    def test_errors(self) -> None:
        """What goes wrong at the provider."""

        async def scene(client: Any) -> None:
            def ask(**more: Any) -> Any:
                return client.responses.create(input="Hello, gateway", **more)

            for kind in ("messages", "chat"):
                await self.check_errors(ask, kind)

        self.play(scene, max_retries=0)

    def test_refusal(self) -> None:
        """What needs a store of the provider's is refused, and names its field."""

        async def scene(client: Any) -> None:
            with self.assertRaises(self.sdk.BadRequestError) as caught:
                await done(
                    client.responses.create(
                        model="small-messages", input="Hi", previous_response_id="resp_1"
                    )
                )
            error = caught.exception
            named = ("untranslatable_request", "previous_response_id")
            self.assertEqual((error.code, error.param), named)

        self.play(scene)

    async def read(self, manager: Any, kinds: list[str]) -> None:
        """Read a stream to its end, and demand a whole response of it.

        :param kinds: gets the type of each event.
        """
        if self.asynchronous:
            async with manager as stream:
                async for event in stream:
                    kinds.append(event.type)
                await stream.get_final_response()
        else:
            with manager as stream:
                for event in stream:
                    kinds.append(event.type)
                stream.get_final_response()

    def test_broken_streams(self) -> None:
        """A stream that broke says that the response failed, and never that it is complete."""

        async def scene(client: Any) -> None:
            for kind in ("messages", "chat"):
                for fault in ("cut-after-5", "error-event-after-5"):
                    self.answers.clear()
                    manager = client.responses.stream(
                        model=f"{fault}-{kind}", input="Hello, gateway"
                    )
                    kinds: list[str] = []
                    with self.assertRaises(Exception) as caught:
                        await self.read(manager, kinds)
                    self.assertNotIsInstance(caught.exception, AssertionError)
                    self.assertEqual(kinds[-1], "response.failed", fault)
                    self.assertTrue(self.event()["estimated"])

        self.play(scene)
