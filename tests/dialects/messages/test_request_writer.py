"""What is asked of a Messages upstream."""

import json
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.chat.request_reader import read_request as read_chat
from omnigate.dialects.messages.request_writer import JSON_SENTENCE, write_request
from omnigate.dialects.responses.request_reader import read_request as read_responses
from omnigate.dialects.shapes import (
    CacheMark,
    Choice,
    Document,
    Format,
    Image,
    Part,
    Quirk,
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
from omnigate.errors import GatewayError
from tests.dialects.vectors import same_request, vectors

CAPS = Capabilities()
OBJECT = b'{"type":"object","properties":{}}'
EPHEMERAL = {"type": "ephemeral"}


def asked(*parts: Part, **members: Any) -> Request:
    """A request of one message."""
    turn = Turn(Role.USER, list(parts) or [Text("Hi")], not parts, "messages[0]")
    return Request([turn], **members)


def write(request: Request, caps: Capabilities = CAPS, quirks: Quirk = Quirk.NONE) -> Any:
    """Write a request, twice, since a second target may be asked; return its members."""
    before = attrs.asdict(request)
    written = write_request(request, "claude-x", caps, quirks)
    assert attrs.asdict(request) == before, "the request was changed"
    assert write_request(request, "claude-x", caps, quirks) == written
    assert not written.tool_names
    return json.loads(written.body)


class WriterTests(SynchronousTestCase):
    """The members of a request."""

    def refused(self, path: str, request: Request, caps: Capabilities = CAPS) -> None:
        """Expect that this model cannot do it."""
        error = self.assertRaises(GatewayError, write_request, request, "m", caps, Quirk.NONE)
        assert isinstance(error, GatewayError)
        self.assertEqual((error.kind.code, error.param), ("untranslatable_request", path))
        self.assertIn(path, error.message)

    def test_least(self) -> None:
        """What is not asked for is not sent."""
        self.assertEqual(
            write(asked()),
            {
                "model": "claude-x",
                "max_tokens": 4096,
                "messages": [{"role": "user", "content": "Hi"}],
            },
        )

    def test_max_tokens(self) -> None:
        """The default, and no more than the model puts out."""
        small = Capabilities(max_output=100, default_max_tokens=60)
        for wished, sent in ((None, 60), (5, 5), (100, 100), (101, 100)):
            self.assertEqual(write(asked(max_tokens=wished), small)["max_tokens"], sent)
        self.assertEqual(write(asked(), attrs.evolve(small, max_output=50))["max_tokens"], 50)

    def test_sampling(self) -> None:
        """Temperature up to 1, or else top_p; neither beside thinking, nor where refused."""
        for members, sent in (
            ({"temperature": 1.6, "top_p": 0.9}, {"temperature": 1}),
            ({"temperature": 0.0}, {"temperature": 0}),
            ({"top_p": 0.9, "top_k": 3}, {"top_p": 0.9, "top_k": 3}),
        ):
            request = asked(**members)
            body = write(request)
            found = {name: body[name] for name in ("temperature", "top_p", "top_k") if name in body}
            self.assertEqual(found, sent)
            plain = write(asked())
            self.assertEqual(write(request, Capabilities(sampling=False)), plain)
            self.assertEqual(write(request, quirks=Quirk.NO_SAMPLING), plain)
            for caps in (CAPS, Capabilities(thinking="budget")):
                thinking = write(asked(effort="high"), caps)
                self.assertEqual(write(asked(effort="high", **members), caps), thinking)
            off = ThinkingWish("disabled", raw=b'{"type":"disabled"}')
            self.assertEqual(
                write(asked(thinking=off, **members)), write(asked(thinking=off)) | sent
            )

    def test_names(self) -> None:
        """Members that change their name or value."""
        body = write(asked(stream=True, stop=["a", " \n", ""], user="u", service_tier="priority"))
        self.assertEqual(body["stream"], True)
        self.assertEqual(body["stop_sequences"], ["a"])
        self.assertEqual(body["metadata"], {"user_id": "u"})
        self.assertEqual(body["service_tier"], "auto")
        self.assertEqual(write(asked(stop=[" "], service_tier="flex", user="")), write(asked()))

    def test_tools(self) -> None:
        """A schema is one of an object, and keeps its own text; strict only where asked for."""
        tools = [
            Tool("a", "d", b'{"type":"object","maximum":1.50}', True),
            Tool("b", "", b"", False),
            Tool("c", schema=b'{"properties":{"x":{"minimum":1e5}}}'),
            Tool("d", schema=b'{"type":null}', cache=CacheMark(b'{"type":"ephemeral"}', False)),
        ]
        written = write_request(asked(tools=tools), "m", CAPS, Quirk.NONE).body
        self.assertIn(b'"input_schema":{"type":"object","maximum":1.50}', written)
        self.assertIn(b'{"minimum":1e5}', written)
        self.assertEqual(
            json.loads(written)["tools"],
            [
                {
                    "name": "a",
                    "description": "d",
                    "input_schema": {"type": "object", "maximum": 1.5},
                    "strict": True,
                },
                {"name": "b", "input_schema": {"type": "object", "properties": {}}},
                {
                    "name": "c",
                    "input_schema": {"type": "object", "properties": {"x": {"minimum": 1e5}}},
                },
                {"name": "d", "input_schema": {"type": "object"}, "cache_control": EPHEMERAL},
            ],
        )

    def test_tool_choice(self) -> None:
        """All four, one tool at a time, and forced calls where the model takes none."""
        tools = [Tool("f")]
        off = {"disable_parallel_tool_use": True}
        for choice, sent, parallel in (
            (None, None, {"type": "auto"} | off),
            (ToolChoice(Choice.AUTO), {"type": "auto"}, {"type": "auto"} | off),
            (ToolChoice(Choice.NONE), {"type": "none"}, {"type": "none"}),
            (ToolChoice(Choice.REQUIRED), {"type": "any"}, {"type": "any"} | off),
            (
                ToolChoice(Choice.NAMED, "f"),
                {"type": "tool", "name": "f"},
                {"type": "tool", "name": "f"} | off,
            ),
        ):
            for wish, want in ((None, sent), (True, sent), (False, parallel)):
                request = asked(tools=tools, tool_choice=choice, parallel=wish)
                self.assertEqual(write(request).get("tool_choice"), want)
            bare = asked(tool_choice=choice, parallel=False)
            if choice is not None and choice.mode in (Choice.REQUIRED, Choice.NAMED):
                self.refused("tool_choice", request, Capabilities(forced_tools=False))
                error = self.assertRaises(GatewayError, write, bare)
                assert isinstance(error, GatewayError)
                self.assertEqual(error.kind.code, "invalid_request")
            else:
                self.assertEqual(write(bare), write(asked()))

    def test_forced_tools_and_a_budget(self) -> None:
        """A forced call leaves no room for a budget, but sampling comes back."""
        request = asked(
            tools=[Tool("f")],
            tool_choice=ToolChoice(Choice.REQUIRED),
            effort="high",
            max_tokens=9999,
            temperature=0.5,
        )
        body = write(request, Capabilities(thinking="budget"))
        self.assertNotIn("thinking", body)
        self.assertEqual(body["temperature"], 0.5)

    def test_format(self) -> None:
        """A schema, or the sentence that asks for JSON of any form."""
        body = write(asked(format=Format(OBJECT, "n", "d", True), effort="low"))
        form = {"type": "json_schema", "schema": json.loads(OBJECT)}
        self.assertEqual(body["output_config"], {"effort": "low", "format": form})
        self.assertEqual(write(asked(format=Format()))["system"], JSON_SENTENCE)
        request = Request([Turn(Role.SYSTEM, [Text("S")]), *asked().turns], format=Format())
        blocks = [{"type": "text", "text": "S"}, {"type": "text", "text": JSON_SENTENCE}]
        self.assertEqual(write(request)["system"], blocks)

    def test_format_refused(self) -> None:
        """Where the model has none, and where it is to continue an answer."""
        old = Capabilities(structured_outputs=False)
        self.refused("response_format", asked(format=Format(OBJECT)), old)
        responses = Request([Turn(Role.USER, [Text("x")], path="input[0]")], format=Format(OBJECT))
        self.refused("text.format", responses, old)
        write(asked(format=Format()), old)
        turns = [*asked().turns, Turn(Role.ASSISTANT, [Text("So")], True, "messages[1]")]
        request = Request(turns, format=Format(OBJECT))
        self.refused("messages[1]", request, Capabilities(prefill=True))
        self.assertIn("system", write(Request(turns, format=Format()), Capabilities(prefill=True)))


class BlockTests(SynchronousTestCase):
    """Parts as content blocks."""

    def content(self, *parts: Part) -> Any:
        """Write a message of these parts."""
        return write(asked(*parts))["messages"][0]["content"]

    def test_images(self) -> None:
        """Four types, one of them by its other name; addresses go as they are."""
        for media_type, sent in (
            ("image/jpg", "image/jpeg"),
            ("IMAGE/JPEG", "image/jpeg"),
            ("image/png", "image/png"),
            ("image/gif", "image/gif"),
            ("image/webp", "image/webp"),
        ):
            source = {"type": "base64", "media_type": sent, "data": "aGk="}
            self.assertEqual(
                self.content(Image(media_type=media_type, data="aGk=", detail="low")),
                [{"type": "image", "source": source}],
            )
        url = "https://example.test/a"
        self.assertEqual(
            self.content(Image(url=url)),
            [{"type": "image", "source": {"type": "url", "url": url}}],
        )
        for other in ("image/bmp", "image/svg+xml", ""):
            image = Image(media_type=other, data="aGk=", path="messages[0].content[0].image_url")
            called = [Turn(Role.ASSISTANT, [ToolCall("a", "f", "")], path="messages[0]")]
            answered = [*called, Turn(Role.TOOL, [ToolResult("a", [image])])]
            for turns in ([Turn(Role.USER, [image])], answered):
                error = self.assertRaises(GatewayError, write, Request(turns))
                assert isinstance(error, GatewayError)
                self.assertEqual(error.param, image.path)

    def test_documents(self) -> None:
        """A PDF, a text and an address; with a title where there is one."""
        for document, source in (
            (
                Document("application/pdf", "aGk="),
                {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
            ),
            (
                Document("text/plain", "gust"),
                {"type": "text", "media_type": "text/plain", "data": "gust"},
            ),
            (
                Document("application/pdf", url="https://example.test"),
                {"type": "url", "url": "https://example.test"},
            ),
        ):
            block = {"type": "document", "source": source}
            self.assertEqual(self.content(document), [block])
            titled = attrs.evolve(document, title="t")
            self.assertEqual(self.content(titled), [block | {"title": "t"}])

    def test_place_of_parts(self) -> None:
        """A picture in a message of the assistant is refused where it stands."""
        turns = [
            *asked().turns,
            Turn(Role.ASSISTANT, [Image(url="https://example.test", path="messages[1].x")]),
            *asked().turns,
        ]
        error = self.assertRaises(GatewayError, write, Request(turns))
        assert isinstance(error, GatewayError)
        self.assertEqual(error.param, "messages[1].x")

    def talk(self, arguments: str, result: ToolResult, call_id: str = "a") -> list[Any]:
        """Write a call and its result; return their messages."""
        turns = [
            *asked().turns,
            Turn(Role.ASSISTANT, [ToolCall(call_id, "f", arguments)]),
            Turn(Role.TOOL, [result]),
        ]
        messages = write(Request(turns))["messages"]
        return [messages[1]["content"][0], messages[2]["content"][0]]

    def test_arguments(self) -> None:
        """An object goes as it is; what is none is wrapped, and nothing is ever lost."""
        for arguments, sent in (
            ("", {}),
            (" \n", {}),
            ("{}", {}),
            (' {"a": [1]}\n', {"a": [1]}),
            ('{"a": "\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
            *(
                (bad, {"__raw_arguments": bad})
                for bad in (
                    '{"a": "Lis', "[1]", "null", '"x"', "5", '{"a":NaN}', '{"a":1}{}', "{'a':1}",
                    '{"a":"\\ud800"}', "{" * 100_000, '{"a":' * 100_000, "\x00",
                )
            ),
        ):  # fmt: skip
            call, _ = self.talk(arguments, ToolResult("a", []))
            self.assertEqual(call["input"], sent, arguments[:20])

    def test_arguments_keep_their_spelling(self) -> None:
        """No number is read and written anew."""
        turns = [
            *asked().turns,
            Turn(Role.ASSISTANT, [ToolCall("a", "f", '{"n":1.10e+400}')]),
            Turn(Role.TOOL, [ToolResult("a", [])]),
        ]
        body = write_request(Request(turns), "m", CAPS, Quirk.NONE).body
        self.assertIn(b'"input":{"n":1.10e+400}', body)

    def test_results(self) -> None:
        """A string stays one, parts stay parts, and blank ones are none."""
        text = {"type": "text", "text": "x"}
        for result, content in (
            (ToolResult("a", [Text("x")], plain=True), "x"),
            (ToolResult("a", [Text("x")]), [text]),
            (ToolResult("a", [Text(" "), Text("x")]), [text]),
            (ToolResult("a", [Text("x"), Image(url="https://e.test")]), [text, None]),
            (ToolResult("a", [], plain=True), None),
            (ToolResult("a", [Text("\n")], plain=True), None),
            (ToolResult("a", [Text("")]), None),
        ):
            _, block = self.talk("{}", result)
            if isinstance(content, list) and content[-1] is None:
                self.assertEqual(block["content"].pop()["type"], "image")
                content.pop()
            self.assertEqual(block.get("content"), content)
            self.assertNotIn("is_error", block)
        _, block = self.talk("{}", ToolResult("a", [], is_error=True))
        self.assertIs(block["is_error"], True)

    def test_ids(self) -> None:
        """An id is spelled alike in call and result."""
        call, result = self.talk("{}", ToolResult("call:9/x.1", []), "call:9/x.1")
        self.assertEqual(call["id"], "call_9_x_1_9bd6a816")
        self.assertEqual(result["tool_use_id"], call["id"])


class GoldenTests(SynchronousTestCase):
    """The golden cases, from the client's request to the upstream's."""

    def test_cases(self) -> None:
        """What must be sent is, and what must be refused is, with its place."""
        for client, read in (("chat", read_chat), ("responses", read_responses)):
            for case in vectors(client, "messages"):
                try:
                    request = read(case.body)
                    body = write_request(request, case.request["model"], case.caps, Quirk.NONE).body
                except GatewayError as error:
                    self.assertIsNone(case.sent, f"{case.name}: {error.message}")
                    want = case.told["json"]["error"]
                    found = (error.kind.code, error.param)
                    self.assertEqual(found, (want["code"], want["param"]), case.name)
                else:
                    same_request(case, body)


class CacheTests(SynchronousTestCase):
    """Marks of what is to be cached."""

    def test_spelling(self) -> None:
        """A breakpoint lives an hour or the usual time; a control goes as it is."""
        for mark, sent in (
            (CacheMark(b'{"mode":"explicit"}', True), EPHEMERAL),
            (CacheMark(b'{"mode":"explicit","ttl":null}', True), EPHEMERAL),
            (CacheMark(b'{"mode":"explicit","ttl":"30m"}', True), EPHEMERAL | {"ttl": "1h"}),
            (CacheMark(b'{"mode":"explicit","ttl":"12h"}', True), EPHEMERAL | {"ttl": "1h"}),
            (CacheMark(b'{"ttl":["x"]}', True), EPHEMERAL),
            (CacheMark(b"true", True), EPHEMERAL),
            (CacheMark(b'{"type":"ephemeral","ttl":"5m"}', False), EPHEMERAL | {"ttl": "5m"}),
        ):
            block = write(asked(Text("x", mark)))["messages"][0]["content"][0]
            self.assertEqual(block["cache_control"], sent)

    def test_last_four(self) -> None:
        """Of more than the provider takes the last stay, in the order of the prompt."""
        mark = CacheMark(b'{"type":"ephemeral"}', False)
        turns = [
            Turn(Role.SYSTEM, [Text("s", mark)]),
            Turn(Role.USER, [Text("u1", mark), Text("u2")]),
            Turn(Role.ASSISTANT, [Thinking("t", "sig"), ToolCall("a", "f", "", mark)]),
            Turn(Role.TOOL, [ToolResult("a", [Text("r", mark)], cache=mark)]),
            Turn(Role.USER, [Document("text/plain", "d", cache=mark)]),
        ]
        for extra in range(5):
            tools = [Tool(f"f{index}", cache=mark) for index in range(extra)]
            body = json.dumps(write(Request(turns, tools=tools)))
            self.assertEqual(body.count("cache_control"), 4)
            self.assertNotIn("cache_control", json.dumps(json.loads(body)["system"]))
            self.assertEqual(json.dumps(json.loads(body)["messages"][1:]).count("cache_control"), 4)
        few = write(Request([Turn(Role.SYSTEM, [Text("s", mark)]), *turns[1:3:2]]))
        self.assertEqual(few["system"], [{"type": "text", "text": "s", "cache_control": EPHEMERAL}])
