"""Shapes written as a Responses request, and taken by the types of the official SDK."""

import json
from typing import Any

import attrs
from openai.types.responses import ResponseInputItem
from pydantic import TypeAdapter
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.packing import pack_reasoning
from omnigate.dialects.responses.request_writer import write_request
from omnigate.dialects.shapes import (
    CacheMark,
    Choice,
    Document,
    Format,
    Image,
    Part,
    Quirk,
    RedactedThinking,
    Request,
    Role,
    Text,
    Thinking,
    ThinkingWish,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)

REASONING = Capabilities(reasoning=True, sampling=False, effort_none=True)
MARK = CacheMark(b'{"mode":"explicit"}', openai=True)
USER = Turn(Role.USER, [Text("x")], True)
FOREIGN_MARK = CacheMark(b'{"type":"ephemeral"}', openai=False)

_items: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItem])


def write(
    *turns: Turn, caps: Capabilities = REASONING, quirks: Quirk = Quirk.NONE, **members: Any
) -> dict[str, Any]:
    """Write a request of these turns and members; the SDK's types take its items."""
    request = Request(list(turns) or [USER], **members)
    body: dict[str, Any] = json.loads(write_request(request, "up", caps, quirks).body)
    _items.validate_python(body["input"])
    return body


def user(*parts: Part) -> Any:
    """Return the one content that is written for a user's parts."""
    (item,) = write(Turn(Role.USER, list(parts)))["input"]
    return item["content"]


def assistant(*parts: Part, caps: Capabilities = REASONING) -> list[dict[str, Any]]:
    """Return the items that are written for an assistant's parts."""
    answers = [ToolResult(part.id, []) for part in parts if isinstance(part, ToolCall)]
    turns = Turn(Role.ASSISTANT, list(parts)), Turn(Role.TOOL, list(answers))
    items: list[dict[str, Any]] = write(USER, *turns, caps=caps)["input"]
    return items[1 : len(items) - len(answers)]


def output(*parts: Text | Image | Document, **members: Any) -> Any:
    """Return what is written for a tool's answer."""
    result = ToolResult("c", list(parts), **members)
    call = Turn(Role.ASSISTANT, [ToolCall("c", "f", "{}")])
    (_, item) = write(call, Turn(Role.TOOL, [result]))["input"]
    return item["output"]


class ItemTests(SynchronousTestCase):
    """The conversation."""

    def test_one_text_is_a_string(self) -> None:
        """However it was spelled; several are parts."""
        self.assertEqual(user(Text("a")), "a")
        self.assertEqual(
            user(Text("a"), Text("b")),
            [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        )
        items = write(Turn(Role.SYSTEM, [Text("s")]), Turn(Role.USER, [Text("u")]))["input"]
        self.assertEqual([item["role"] for item in items], ["system", "user"])

    def test_media(self) -> None:
        """Pictures and documents, by address and whole."""
        self.assertEqual(
            user(
                Image(url="https://h/a.png"),
                Image(media_type="image/png", data="AA==", detail="low"),
                Document("application/pdf", data="JVBE", title="t.pdf"),
                Document("application/pdf", data="JVBE"),
                Document("application/pdf", url="https://h/a.pdf", title="t"),
                Document("text/plain", data="words", title="t"),
            ),
            [
                {"type": "input_image", "image_url": "https://h/a.png", "detail": "auto"},
                {
                    "type": "input_image",
                    "image_url": "data:image/png;base64,AA==",
                    "detail": "low",
                },
                {
                    "type": "input_file",
                    "filename": "t.pdf",
                    "file_data": "data:application/pdf;base64,JVBE",
                },
                {
                    "type": "input_file",
                    "filename": "document.pdf",
                    "file_data": "data:application/pdf;base64,JVBE",
                },
                {"type": "input_file", "file_url": "https://h/a.pdf"},
                {"type": "input_text", "text": "words"},
            ],
        )

    def test_cache_marks(self) -> None:
        """OpenAI's own marks are kept wherever they can stand, Anthropic's are not."""
        self.assertEqual(user(Text("a", FOREIGN_MARK)), "a")
        mark = {"mode": "explicit"}
        for part in (
            Text("a", MARK),
            Image(url="https://h/a.png", cache=MARK),
            Document("application/pdf", url="https://h/a.pdf", cache=MARK),
        ):
            self.assertEqual(user(part)[0]["prompt_cache_breakpoint"], mark)
            self.assertEqual(output(part)[0]["prompt_cache_breakpoint"], mark)
            foreign = attrs.evolve(part, cache=FOREIGN_MARK)
            self.assertNotIn("prompt_cache_breakpoint", str(user(foreign)))

    def test_assistant(self) -> None:
        """Texts that follow each other are one message; calls and sealed reasoning keep place."""
        sealed = pack_reasoning("rs_1", "gAAA")
        self.assertEqual(
            assistant(
                Thinking("hm", sealed),
                Text("a"),
                Text("b", refusal=True),
                Thinking("foreign", "c2ln"),
                RedactedThinking("x"),
                Text("c"),
                ToolCall("c1", "f", '{"a": 1.0}'),
                Thinking("", sealed),
                ToolCall("c2", "f", ""),
                Text(""),
            ),
            [
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "hm"}],
                    "encrypted_content": "gAAA",
                },
                {"type": "message", "role": "assistant", "content": "abc"},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "f",
                    "arguments": '{"a": 1.0}',
                },
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
                {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
            ],
        )

    def test_no_reasoning_for_others(self) -> None:
        """A model that does not reason is not given what another one sealed."""
        thinking = Thinking("hm", pack_reasoning("rs_1", "gAAA"))
        items = assistant(thinking, Text("a"), caps=Capabilities())
        self.assertEqual([item["type"] for item in items], ["message"])

    def test_results(self) -> None:
        """What tools answered: one text, several, pictures, nothing, and errors of each."""
        image = Image(url="https://h/a.png")
        self.assertEqual(output(), "")
        self.assertEqual(output(Text("a")), "a")
        self.assertEqual(len(output(Text("a"), Text("b"))), 2)
        self.assertEqual([part["type"] for part in output(image)], ["input_image"])
        self.assertEqual(output(is_error=True), "[tool error] ")
        self.assertEqual(output(Text("a"), is_error=True), "[tool error] a")
        self.assertEqual(
            [part.get("text") for part in output(Text("a"), image, is_error=True)],
            ["[tool error] a", None],
        )
        self.assertEqual(
            [part.get("text") for part in output(image, is_error=True)], ["[tool error]", None]
        )

    def test_long_ids_and_names(self) -> None:
        """What is too long is shortened alike wherever it stands, and told to be told back."""
        name, call_id = "n" * 100, "i" * 100
        request = Request(
            [
                Turn(Role.ASSISTANT, [ToolCall(call_id, name, "{}")]),
                Turn(Role.TOOL, [ToolResult(call_id, [])]),
            ],
            tools=[Tool(name), Tool("short")],
            tool_choice=ToolChoice(Choice.NAMED, name),
        )
        written = write_request(request, "up", REASONING)
        body = json.loads(written.body)
        call, result = body["input"]
        self.assertEqual(call["call_id"], result["call_id"])
        self.assertEqual(len(call["call_id"]), 40)
        self.assertEqual(written.tool_names, {call["name"]: name})
        self.assertEqual(body["tools"][0]["name"], call["name"])
        self.assertEqual(body["tool_choice"], {"type": "function", "name": call["name"]})


class MemberTests(SynchronousTestCase):
    """The other members."""

    def test_least(self) -> None:
        """Nothing is said that the client did not say, but that nothing is to be stored."""
        self.assertEqual(
            write(),
            {
                "model": "up",
                "store": False,
                "input": [{"type": "message", "role": "user", "content": "x"}],
            },
        )
        self.assertEqual(write(stream=True)["stream"], True)
        self.assertEqual(write(keeps_reasoning=True)["include"], ["reasoning.encrypted_content"])

    def test_bound(self) -> None:
        """The API takes no bound below 16, and the model none above its own."""
        for bound, written in ((1, 16), (16, 16), (17, 17), (10**6, 500)):
            caps = Capabilities(max_output=500)
            self.assertEqual(write(max_tokens=bound, caps=caps)["max_output_tokens"], written)

    def test_reasoning(self) -> None:
        """Effort and summaries go to models that reason."""
        for members, told in (
            ({"effort": "high"}, {"effort": "high"}),
            ({"summaries": "auto"}, {"summary": "auto"}),
            ({"effort": "low", "summaries": "auto"}, {"effort": "low", "summary": "auto"}),
            ({"thinking": ThinkingWish("enabled", 20_000)}, {"effort": "high"}),
            ({"thinking": ThinkingWish("disabled")}, {"effort": "none"}),
        ):
            self.assertEqual(write(**members)["reasoning"], told)
            self.assertNotIn("reasoning", write(caps=Capabilities(), **members))
        self.assertNotIn("reasoning", write(thinking=ThinkingWish("adaptive")))

    def test_tools(self) -> None:
        """Functions stand flat; whether they are strict is always said."""
        schema = b'{"type":"object","properties":{"a":{"maximum":1E400}}}'
        request = Request([USER], tools=[Tool("f", "d", schema, True), Tool("g")])
        body = write_request(request, "up", REASONING).body
        self.assertIn(b'"parameters":' + schema, body)
        self.assertEqual(
            json.loads(body)["tools"][1],
            {
                "type": "function",
                "name": "g",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            },
        )

    def test_choice(self) -> None:
        """How tools are chosen; nothing where there are none."""
        tools = [Tool("f")]
        for mode in (Choice.AUTO, Choice.NONE, Choice.REQUIRED):
            choice = ToolChoice(mode)
            self.assertEqual(write(tools=tools, tool_choice=choice)["tool_choice"], mode.value)
            self.assertNotIn("tool_choice", write(tool_choice=choice))
        self.assertIs(write(tools=tools, parallel=False)["parallel_tool_calls"], False)
        self.assertNotIn("parallel_tool_calls", write(tools=tools, parallel=True))

    def test_format(self) -> None:
        """The form of the answer, flat."""
        self.assertEqual(write(format=Format())["text"], {"format": {"type": "json_object"}})
        form = Format(b'{"type":"object"}', "n", "d", False)
        self.assertEqual(
            write(format=form)["text"]["format"],
            {
                "type": "json_schema",
                "name": "n",
                "description": "d",
                "schema": {"type": "object"},
                "strict": False,
            },
        )
        self.assertNotIn("strict", write(format=Format(b"{}"))["text"]["format"])

    def test_sampling(self) -> None:
        """Sampling goes to models that take it, unless one was seen to refuse it."""
        members: dict[str, Any] = {"temperature": 0.5, "top_p": 0.25}
        caps = Capabilities()
        self.assertEqual({**write(caps=caps, **members), **members}, write(caps=caps, **members))
        self.assertNotIn("temperature", write(caps=caps, quirks=Quirk.NO_SAMPLING, **members))
        self.assertNotIn("temperature", write(**members))

    def test_user_tier_and_the_rest(self) -> None:
        """The user and the tier are named; what Responses has no word for is left out."""
        body = write(user="u", service_tier="flex", stop=["X"], top_k=3, include_usage=True)
        self.assertEqual((body["safety_identifier"], body["service_tier"]), ("u", "flex"))
        self.assertEqual(
            sorted(body), ["input", "model", "safety_identifier", "service_tier", "store"]
        )
