"""What a client of Messages asks for, read into the neutral form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.request_writer import write_request as write_chat
from omnigate.dialects.messages.request_reader import read_request
from omnigate.dialects.request_body import MAX_PIECES
from omnigate.dialects.responses.request_writer import write_request as write_responses
from omnigate.dialects.shapes import (
    CacheMark,
    Choice,
    Document,
    Format,
    Image,
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
from omnigate.errors import GatewayError
from tests.dialects.vectors import same_request, vectors

USER = {"role": "user", "content": "Hi"}
MARK = CacheMark(b'{"type":"ephemeral"}', openai=False)
EPHEMERAL = {"type": "ephemeral"}
CAPTURED = Path(__file__).resolve().parents[2] / "corpus" / "captured_requests.json"


def read(**members: Any) -> Request:
    """Read a request with these members."""
    body = {"model": "m", "max_tokens": 9, "messages": [USER]} | members
    return read_request(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())


def turns(*messages: Any, **members: Any) -> list[Turn]:
    """Read messages."""
    return read(messages=messages, **members).turns


class Refusals(SynchronousTestCase):
    """Says how something is refused."""

    def refused(self, code: str, path: str, **members: Any) -> None:
        """Expect a refusal with this code and place, which the message names."""
        error = self.assertRaises(GatewayError, read, **members)
        assert isinstance(error, GatewayError)
        self.assertEqual((error.kind.code, error.param), (code, path))
        self.assertIn(path.split("[")[0], error.message)

    def untranslatable(self, path: str, **members: Any) -> None:
        """Expect that no other provider can do this."""
        self.refused("untranslatable_request", path, **members)

    def invalid(self, path: str, **members: Any) -> None:
        """Expect that nobody can."""
        self.refused("invalid_request", path, **members)


class TurnsTests(Refusals):
    """System texts and messages."""

    def test_system(self) -> None:
        """A string stays one; blocks keep their marks; an empty one is none."""
        self.assertEqual(
            turns(USER, system="Rules.")[0], Turn(Role.SYSTEM, [Text("Rules.")], True, "system")
        )
        blocks = [{"type": "text", "text": "A", "cache_control": EPHEMERAL}, text("B")]
        self.assertEqual(
            turns(USER, system=blocks)[0],
            Turn(Role.SYSTEM, [Text("A", MARK), Text("B")], False, "system"),
        )
        nothings: tuple[Any, ...] = ("", [], None)
        for nothing in nothings:
            self.assertEqual([turn.role for turn in turns(USER, system=nothing)], [Role.USER])
        self.untranslatable("system[1]", system=[text("A"), {"type": "image"}])

    def test_system_in_place(self) -> None:
        """A system message stays where it stood, as a string or in blocks."""
        found = turns(
            USER,
            {"role": "system", "content": "Brief."},
            {"role": "assistant", "content": "Hello."},
            {"role": "system", "content": [text("Long.")]},
        )
        self.assertEqual(
            found,
            [
                Turn(Role.USER, [Text("Hi")], True, "messages[0]"),
                Turn(Role.SYSTEM, [Text("Brief.")], True, "messages[1]"),
                Turn(Role.ASSISTANT, [Text("Hello.")], True, "messages[2]"),
                Turn(Role.SYSTEM, [Text("Long.")], False, "messages[3]"),
            ],
        )

    def test_results_part_from_the_rest(self) -> None:
        """Results come first as a turn of their own, also from behind what the user said."""
        (tool, user) = turns(
            {
                "role": "user",
                "content": [
                    text("Before."),
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    text("Between."),
                    {
                        "type": "tool_result",
                        "tool_use_id": "b",
                        "is_error": True,
                        "cache_control": EPHEMERAL,
                        "content": [text("2")],
                    },
                    {"type": "tool_result", "tool_use_id": "c"},
                    {"type": "tool_result", "tool_use_id": "d", "content": ""},
                ],
            }
        )
        place = "messages[0].content[%d].tool_use_id"
        self.assertEqual(
            tool.parts,
            [
                ToolResult("a", [Text("1")], True, path=place % 1),
                ToolResult("b", [Text("2")], False, True, MARK, place % 3),
                ToolResult("c", [], False, path=place % 4),
                ToolResult("d", [], True, path=place % 5),
            ],
        )
        self.assertEqual((tool.role, user.role), (Role.TOOL, Role.USER))
        self.assertEqual(user.parts, [Text("Before."), Text("Between.")])

    def test_assistant(self) -> None:
        """Thinking, text and calls keep their order; a provider's own tools are left out."""
        (turn,) = turns(
            assistant(
                {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "Look.", "citations": [{"type": "char_location"}]},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [{"type": "web_search_result", "title": "t", "url": "u"}],
                },
                {
                    "type": "bash_code_execution_tool_result",
                    "tool_use_id": "srvtoolu_2",
                    "content": {"type": "bash_code_execution_result", "stdout": "", "content": []},
                },
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1.50, "é"]}},
                {"type": "tool_use", "id": "t2", "name": "f", "cache_control": EPHEMERAL},
            )
        )
        self.assertEqual(
            turn.parts,
            [
                Thinking("Hm.", "sig"),
                RedactedThinking("x"),
                Text("Look."),
                ToolCall("t1", "f", '{"a":[1.5,"é"]}', path="messages[0].content[6]"),
                ToolCall("t2", "f", "{}", MARK, "messages[0].content[7]"),
            ],
        )

    def test_nothing_left(self) -> None:
        """A message of which nothing can be said elsewhere is no turn."""
        use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        self.assertEqual(len(turns(USER, assistant(use), USER)), 2)

    def test_malformed(self) -> None:
        """Members that are missing or of another kind are told by their place."""
        for path, messages in (
            ("messages", None),
            ("messages", []),
            ("messages", "Hi"),
            ("messages[0]", ["Hi"]),
            ("messages[0].role", [{"content": "x"}]),
            ("messages[0].role", [{"role": "tool", "content": "x"}]),
            ("messages[1].content", [USER, {"role": "user"}]),
            ("messages[0].content", [{"role": "user", "content": 5}]),
            ("messages[0].content[0].type", [{"role": "user", "content": [{"text": "x"}]}]),
            ("messages[0].content[0].text", [{"role": "user", "content": [{"type": "text"}]}]),
            ("messages[0].content[0].source", [{"role": "user", "content": [{"type": "image"}]}]),
            ("messages[0].content[0].id", [assistant({"type": "tool_use", "name": "f"})]),
            ("messages[0].content[0].name", [assistant({"type": "tool_use", "id": "f"})]),
            (
                "messages[0].content[0].input",
                [assistant({"type": "tool_use", "id": "a", "name": "f", "input": [1]})],
            ),
            (
                "messages[0].content[0].tool_use_id",
                [{"role": "user", "content": [{"type": "tool_result"}]}],
            ),
            (
                "messages[0].content[0].content",
                [{"role": "user", "content": [{"type": "tool_result", "content": text("x")}]}],
            ),
        ):
            self.invalid(path, messages=messages)

    def test_untranslatable_blocks(self) -> None:
        """A block that nobody else has is refused wherever it stands."""
        place = "messages[0].content[0]"
        for name in ("container_upload", "browser_state", "compaction", "made_up", ""):
            block = {"type": name, "file_id": "file_1"}
            self.untranslatable(place, messages=[{"role": "user", "content": [block]}])
            self.untranslatable(place, messages=[assistant(block)])
            self.untranslatable(place, messages=[{"role": "system", "content": [block]}])
        for name in ("image", "document", "tool_result", "search_result"):
            self.untranslatable(place, messages=[assistant({"type": name})])
        for name in ("tool_use", "thinking"):
            self.untranslatable(place, messages=[{"role": "user", "content": [{"type": name}]}])
        reference = {"type": "tool_reference", "tool_name": "f"}
        result = {"type": "tool_result", "tool_use_id": "a", "content": [text("x"), reference]}
        self.untranslatable(f"{place}.content[1]", messages=[{"role": "user", "content": [result]}])


def text(value: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": value}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    """A message of the assistant."""
    return {"role": "assistant", "content": list(blocks)}


class MediaTests(Refusals):
    """Pictures, documents and search results; in a turn of the user and in a tool's result."""

    def shown(self, block: dict[str, Any]) -> list[Any]:
        """Read a block of the user's, and see that a result reads it alike."""
        (turn,) = turns({"role": "user", "content": [block]})
        result = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
        (tool,) = turns({"role": "user", "content": [result]})
        (found,) = tool.parts
        assert isinstance(found, ToolResult)
        self.assertEqual(len(found.parts), len(turn.parts))
        for one, other in zip(found.parts, turn.parts, strict=True):
            self.assertEqual(type(one), type(other))
            if isinstance(one, Image | Document):
                self.assertTrue(one.path.startswith("messages[0].content[0].content[0].source"))
        return turn.parts

    def test_image(self) -> None:
        """Base64 and addresses; nothing else."""
        source: dict[str, Any] = {"type": "base64", "media_type": "image/PNG", "data": "aGk="}
        place = "messages[0].content[0].source"
        self.assertEqual(
            self.shown({"type": "image", "source": source, "cache_control": EPHEMERAL}),
            [Image(media_type="image/png", data="aGk=", cache=MARK, path=place)],
        )
        source = {"type": "url", "url": "https://example.test/a"}
        self.assertEqual(
            self.shown({"type": "image", "source": source}),
            [Image(url="https://example.test/a", path=place)],
        )

    def test_document(self) -> None:
        """A PDF as base64 or at an address, plain text, and blocks inline."""
        place = "messages[0].content[0].source"
        source: dict[str, Any] = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
        self.assertEqual(
            self.shown({"type": "document", "source": source, "title": "t", "context": "c"}),
            [Document("application/pdf", "aGk=", title="t", path=place)],
        )
        source = {"type": "url", "url": "https://example.test/a.pdf"}
        self.assertEqual(
            self.shown({"type": "document", "source": source}),
            [Document("application/pdf", url="https://example.test/a.pdf", path=place)],
        )
        source = {"type": "text", "media_type": "text/plain", "data": "gust"}
        self.assertEqual(
            self.shown({"type": "document", "source": source, "title": None}),
            [Document("text/plain", "gust", path=place)],
        )
        source = {"type": "content", "content": "inline"}
        self.assertEqual(self.shown({"type": "document", "source": source}), [Text("inline")])
        image = {"type": "image", "source": {"type": "url", "url": "https://example.test/a"}}
        source = {"type": "content", "content": [text("a"), image]}
        self.assertEqual(
            self.shown({"type": "document", "source": source, "cache_control": EPHEMERAL}),
            [
                Text("a"),
                Image(url="https://example.test/a", cache=MARK, path=f"{place}.content[1].source"),
            ],
        )

    def test_search_result(self) -> None:
        """Title and source head the texts."""
        block = {
            "type": "search_result",
            "source": "https://example.test",
            "title": "Tides",
            "content": [text("High."), text("Low.")],
            "citations": {"enabled": True},
        }
        self.assertEqual(self.shown(block), [Text("Tides\nhttps://example.test\n\nHigh.\nLow.")])

    def test_refused(self) -> None:
        """File ids belong to their provider; other types nobody takes."""
        other_type = {"type": "base64", "media_type": "a/b", "data": "x"}
        for block, place in (
            ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "source"),
            ({"type": "document", "source": {"type": "file", "file_id": "f"}}, "source"),
            ({"type": "document", "source": {"type": "made_up"}}, "source"),
            (
                {"type": "document", "source": other_type},
                "source.media_type",
            ),
            (
                {"type": "document", "source": {"type": "content", "content": [{"type": "x"}]}},
                "source.content[0]",
            ),
        ):
            self.untranslatable(
                f"messages[0].content[0].{place}", messages=[{"role": "user", "content": [block]}]
            )
        for source, place in (({}, "type"), ({"type": "url"}, "url"), ({"type": "base64"}, "")):
            block = {"type": "image", "source": source}
            messages = [{"role": "user", "content": [block]}]
            place = place or "media_type"
            self.invalid(f"messages[0].content[0].source.{place}", messages=messages)


class ArgumentsTests(SynchronousTestCase):
    """The input of a tool becomes the text of its arguments."""

    def arguments(self, value: str) -> str:
        """Read an input as a client wrote it."""
        call = '{"type":"tool_use","id":"a","name":"f","input":' + value + "}"
        body = '{"messages":[{"role":"assistant","content":[' + call + "]}]}"
        (part,) = read_request(body.encode()).turns[0].parts
        assert isinstance(part, ToolCall)
        return part.arguments

    def test_compact(self) -> None:
        """White space goes; numbers keep their spelling."""
        self.assertEqual(
            self.arguments('{ "a" : 1.50e+2, "b": [ 1 , 12345678901234567890123 ], "c":"x  y" }'),
            '{"a":1.50e+2,"b":[1,12345678901234567890123],"c":"x  y"}',
        )
        for nothing in ("{}", "{ }", "null"):
            self.assertEqual(self.arguments(nothing), "{}")

    def test_raw_arguments(self) -> None:
        """What was wrapped once is unwrapped, but only where nothing else stands beside it."""
        self.assertEqual(self.arguments('{"__raw_arguments": "{\\"a\\": 1"}'), '{"a": 1')
        self.assertEqual(self.arguments('{"__raw_arguments":""}'), "{}")
        for other in ('{"__raw_arguments":"x","b":1}', '{"__raw_arguments":5}'):
            self.assertEqual(self.arguments(other), other)

    @settings(max_examples=200)
    @given(st.dictionaries(st.text(), st.recursive(st.none() | st.text(), st.lists)))
    def test_means_the_same(self, value: dict[str, Any]) -> None:
        """The text means what the input meant."""
        if list(value) != ["__raw_arguments"]:
            self.assertEqual(json.loads(self.arguments(json.dumps(value))), value)


class MembersTests(Refusals):
    """All else that a request says."""

    def test_plain_members(self) -> None:
        """What carries over by itself."""
        request = read(
            stream=True,
            max_tokens=5,
            temperature=0.5,
            top_p=1,
            top_k=4,
            stop_sequences=["a", "b"],
            metadata={"user_id": "u"},
            service_tier="standard_only",
            output_config={"effort": "high"},
        )
        self.assertTrue(request.stream)
        self.assertEqual(
            (request.max_tokens, request.temperature, request.top_p, request.top_k),
            (5, 0.5, 1, 4),
        )
        self.assertEqual((request.stop, request.user), (["a", "b"], "u"))
        self.assertEqual((request.effort, request.service_tier), ("high", "default"))

    def test_null_is_absent(self) -> None:
        """Every member may be null, but for the messages."""
        names = [
            "system", "stream", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences",
            "tools", "tool_choice", "thinking", "output_config", "output_format", "metadata",
            "service_tier", "container", "mcp_servers", "context_management", "cache_control",
            "compaction", "thread",
        ]  # fmt: skip
        self.assertEqual(
            read(**dict.fromkeys(names)), read_request(json.dumps({"messages": [USER]}).encode())
        )
        self.assertEqual(read(metadata={"user_id": None}, output_config={"effort": None}), read())

    def test_tools(self) -> None:
        """The client's own tools, with the schema in its own text; no others."""
        schema = {"type": "object", "properties": {"a": {"minimum": 1.0}}}
        request = read(
            tools=[
                {
                    "name": "f",
                    "description": "d",
                    "input_schema": schema,
                    "strict": True,
                    "cache_control": EPHEMERAL,
                    "input_examples": [{}],
                    "defer_loading": True,
                    "eager_input_streaming": True,
                    "allowed_callers": ["direct"],
                },
                {"type": "custom", "name": "g"},
            ]
        )
        text = json.dumps(schema, separators=(",", ":")).encode()
        self.assertEqual(
            request.tools,
            [Tool("f", "d", text, True, MARK, "tools[0]"), Tool("g", path="tools[1]")],
        )
        for name in (
            "bash_20250124", "text_editor_20250728", "memory_20250818", "web_search_20250305",
            "computer_toolset_20260801", "code_execution_20260521", "mcp_toolset",
            "tool_search_tool_regex_20251119", "web_fetch_20260318", "made_up",
        ):  # fmt: skip
            self.untranslatable("tools[1]", tools=[{"name": "f"}, {"type": name, "name": "x"}])
        self.invalid("tools[0].name", tools=[{"description": "x"}])
        self.invalid("tools[0].input_schema", tools=[{"name": "f", "input_schema": "x"}])

    def test_tool_choice(self) -> None:
        """All four, and one tool at a time."""
        for shape, choice in (
            ({"type": "auto"}, ToolChoice(Choice.AUTO)),
            ({"type": "any"}, ToolChoice(Choice.REQUIRED)),
            ({"type": "none"}, ToolChoice(Choice.NONE)),
            ({"type": "tool", "name": "f"}, ToolChoice(Choice.NAMED, "f")),
        ):
            self.assertEqual(read(tool_choice=shape).tool_choice, choice)
            self.assertIsNone(read(tool_choice=shape).parallel)
            for off, parallel in ((True, False), (False, None)):
                asked = shape | {"disable_parallel_tool_use": off}
                self.assertIs(read(tool_choice=asked).parallel, parallel)
        self.invalid("tool_choice.type", tool_choice={"type": "made_up"})
        self.invalid("tool_choice.type", tool_choice={})
        self.invalid("tool_choice.name", tool_choice={"type": "tool"})
        self.invalid("tool_choice", tool_choice="auto")

    def test_thinking(self) -> None:
        """Whether it is shown, and whether summaries are wished for."""
        for shape, wants, summaries in (
            (None, False, None),
            ({"type": "disabled"}, False, None),
            ({"type": "between_tools"}, False, None),
            ({"type": "adaptive"}, True, "auto"),
            ({"type": "adaptive", "display": "summarized"}, True, "auto"),
            ({"type": "adaptive", "display": "omitted"}, True, None),
            ({"type": "enabled", "budget_tokens": 2048}, True, "auto"),
        ):
            request = read(thinking=shape)
            self.assertEqual((request.wants_thinking, request.summaries), (wants, summaries))
        self.assertEqual(
            read(thinking={"type": "enabled", "budget_tokens": 2048}).thinking,
            ThinkingWish("enabled", 2048),
        )
        self.invalid("thinking.type", thinking={})

    def test_format(self) -> None:
        """A schema, strict where it can be; the betas' spelling too."""
        open_schema = {"type": "object", "properties": {}}
        closed = open_schema | {"additionalProperties": False}
        for schema, strict in ((open_schema, False), (closed, True)):
            form = {"type": "json_schema", "schema": schema}
            text = json.dumps(schema, separators=(",", ":")).encode()
            want = Format(text, strict=strict)
            self.assertEqual(read(output_config={"format": form}).format, want)
            self.assertEqual(read(output_format=form).format, want)
        self.invalid("output_config.format.type", output_config={"format": {"type": "grammar"}})
        self.invalid(
            "output_config.format.schema", output_config={"format": {"type": "json_schema"}}
        )

    def test_bound_to_the_provider(self) -> None:
        """What only Anthropic does is refused, where it is asked for at all."""
        self.untranslatable("max_tokens", max_tokens=0)
        self.invalid("max_tokens", max_tokens=-1)
        self.invalid("max_tokens", max_tokens="9")
        self.untranslatable("container", container="container_1")
        self.untranslatable("container", container={"skills": [{"skill_id": "x"}]})
        self.untranslatable("mcp_servers", mcp_servers=[{"url": "https://example.test"}])
        self.untranslatable("compaction", compaction={"type": "compact"})
        read(container=None, mcp_servers=[], compaction=None)

    def test_threads(self) -> None:
        """A conversation that its provider would keep is refused by the name SDKs go on at."""
        read(thread=None)
        for thread in (
            {"type": "create"},
            {"type": "continue", "previous_message_id": "msg_1"},
            {},
            "made up",
        ):
            error = self.assertRaises(GatewayError, read, thread=thread)
            self.assertEqual(
                (error.kind.code, error.param), ("thread_unsupported_request", "thread")
            )

    def test_context_management(self) -> None:
        """Clearing thinking may be left undone; what shortens the conversation may not."""
        for edits in (
            None,
            [],
            [{"type": "clear_thinking_20251015", "keep": "all"}],
            [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}],
        ):
            read(context_management={"edits": edits})
        keep = {"type": "clear_thinking_20251015", "keep": "all"}
        for name in ("clear_tool_uses_20250919", "compact_20260112", "made_up"):
            edits = [keep, {"type": name}]
            self.untranslatable("context_management.edits[1]", context_management={"edits": edits})

    def test_pieces(self) -> None:
        """What takes a step each is counted, wherever it stands."""

        def said(block: dict[str, Any]) -> dict[str, Any]:
            return {"messages": [{"role": "user", "content": [block]}]}

        def members(pieces: int) -> Iterator[dict[str, Any]]:
            blocks = [text("x")] * pieces
            inline = {"type": "document", "source": {"type": "content", "content": blocks}}
            result = {"type": "tool_result", "tool_use_id": "a"}
            yield {"messages": [USER] * pieces}
            yield {"system": blocks}
            yield {"messages": [{"role": "user", "content": blocks}]}
            yield {"messages": [assistant(*blocks[::2]), assistant(*blocks[1::2])]}
            yield said(result | {"content": blocks})
            yield said(inline)
            yield said(result | {"content": [inline]})
            yield said({"type": "search_result", "title": "t", "content": blocks})
            yield {"tools": [{"name": "f"}] * pieces}
            yield {"stop_sequences": ["x"] * pieces}

        for fit, too_many in zip(members(MAX_PIECES - 5), members(MAX_PIECES + 1), strict=True):
            read(**fit)
            self.assertEqual(self.failed(too_many), "request_too_complex")

    def failed(self, members: dict[str, Any]) -> str:
        """Return the code that a request is refused with."""
        error = self.assertRaises(GatewayError, read, **members)
        assert isinstance(error, GatewayError)
        return error.kind.code

    def test_passed_over(self) -> None:
        """Hints and unknown members change nothing."""
        self.assertEqual(
            read(
                cache_control=EPHEMERAL,
                inference_geo="eu",
                speed="fast",
                diagnostics={"previous_message_id": "x"},
                user_profile_id="p",
                made_up=[1, {}],
            ),
            read(),
        )

    def test_no_unicode(self) -> None:
        """A lone surrogate is refused as no valid body."""
        body = rb'{"messages":[{"role":"user","content":"\ud800"}]}'
        error = self.assertRaises(GatewayError, read_request, body)
        assert isinstance(error, GatewayError)
        self.assertEqual(error.kind.code, "invalid_json")


class GoldenTests(SynchronousTestCase):
    """The golden cases and real clients."""

    def test_cases(self) -> None:
        """From the client's request to the upstream's; what must be refused is."""
        for upstream, write in (("chat", write_chat), ("responses", write_responses)):
            for case in vectors("messages", upstream):
                try:
                    request = read_request(case.body)
                    body = write(request, case.request["model"], case.caps, Quirk.NONE).body
                except GatewayError as error:
                    self.assertIsNone(case.sent, f"{case.name}: {error.message}")
                    self.assertEqual(error.kind.code, "untranslatable_request")
                else:
                    same_request(case, body)

    def test_real_clients(self) -> None:
        """Requests as clients were seen to send them lose nothing that can be carried."""
        count = 0
        for seen in json.loads(CAPTURED.read_text("utf-8")):
            body = seen["body"]
            types = {tool.get("type") for tool in body.get("tools") or ()}
            if "/messages" in seen["path"] and types <= {None, "custom"}:
                self._carried(body, read_request(json.dumps(body).encode()))
                count += 1
        self.assertGreater(count, 20)

    def _carried(self, body: dict[str, Any], request: Request) -> None:
        texts: list[str] = []
        for message in ({"content": body.get("system") or []}, *body["messages"]):
            content = message["content"]
            blocks = [text(content)] if isinstance(content, str) else content
            texts += [block["text"] for block in blocks if block["type"] == "text"]
        said = [
            part.text for turn in request.turns for part in turn.parts if isinstance(part, Text)
        ]
        self.assertEqual(said, texts)
        self.assertEqual(
            [tool.name for tool in request.tools],
            [tool["name"] for tool in body.get("tools") or ()],
        )
        effort = (body.get("output_config") or {}).get("effort")
        self.assertEqual(request.effort, effort)
        self.assertEqual(request.user, (body.get("metadata") or {}).get("user_id"))
