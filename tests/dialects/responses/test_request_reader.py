"""A Responses request read into shapes: every kind of item, tool and member."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.packing import pack_reasoning, pack_thinking
from omnigate.dialects.request_body import MAX_PIECES
from omnigate.dialects.responses.request_reader import MAX_ECHO_BYTES, read_request
from omnigate.dialects.shapes import (
    CacheMark,
    Choice,
    Document,
    Format,
    Image,
    RedactedThinking,
    Request,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from omnigate.errors import GatewayError


def read(**members: Any) -> Request:
    """Read a request of these members; ``input`` is there by default."""
    return read_request(json.dumps({"model": "m", "input": "x"} | members).encode())


def function(name: str, **members: Any) -> dict[str, Any]:
    """Return a function tool."""
    return {"type": "function", "name": name} | members


def call(call_id: str, name: str = "f", **members: Any) -> dict[str, Any]:
    """Return a call of a function."""
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}
    return item | members


def output(call_id: str, value: Any = "") -> dict[str, Any]:
    """Return what a function answered."""
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def roles(request: Request) -> list[str]:
    """Return who speaks, turn by turn."""
    return [turn.role.value for turn in request.turns]


class _Case(SynchronousTestCase):
    def refused(self, code: str, param: str | None, **members: Any) -> GatewayError:
        """Check that a request is refused for the sake of a member, which the message names."""
        error: GatewayError = self.assertRaises(GatewayError, read, **members)
        self.assertEqual((error.kind.code, error.param), (code, param), members)
        self.assertIn(param or "", error.message)
        return error


class InputTests(_Case):
    """The conversation."""

    def test_string(self) -> None:
        """A string is what one user says; instructions come first."""
        request = read(instructions="Be brief.", input="Hi")
        self.assertEqual(
            request.turns,
            [
                Turn(Role.SYSTEM, [Text("Be brief.")], True, "instructions"),
                Turn(Role.USER, [Text("Hi")], True, "input"),
            ],
        )

    def test_nothing_said(self) -> None:
        """Items of which nothing stays are nothing to answer."""
        self.refused(
            "untranslatable_request", "input", input=[{"type": "reasoning", "summary": []}]
        )
        self.refused("invalid_request", "input", input=[])

    def test_messages(self) -> None:
        """Messages with and without a type, of all roles, with strings and with parts."""
        request = read(
            input=[
                {"role": "developer", "content": "a"},
                {"type": "message", "role": "system", "content": [{"type": "text", "text": "b"}]},
                {"role": "user", "content": [{"type": "input_text", "text": "c"}]},
                {
                    "type": "message",
                    "id": "msg_1",
                    "status": "completed",
                    "phase": "commentary",
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "d", "annotations": [], "logprobs": []},
                        {"type": "refusal", "refusal": "e"},
                    ],
                },
            ]
        )
        self.assertEqual(
            request.turns,
            [
                Turn(Role.SYSTEM, [Text("a")], True, "input[0]"),
                Turn(Role.SYSTEM, [Text("b")], True, "input[1]"),
                Turn(Role.USER, [Text("c")], True, "input[2]"),
                Turn(Role.ASSISTANT, [Text("d"), Text("e", refusal=True)], False, "input[3]"),
            ],
        )

    def test_media(self) -> None:
        """Pictures and files, and the marks for the cache at them."""
        data = "data:application/pdf;base64,JVBERg=="
        mark = {"mode": "explicit", "ttl": "12h"}
        request = read(
            input=[
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_image",
                            "image_url": "https://h/p.png",
                            "detail": "low",
                            "prompt_cache_breakpoint": mark,
                        },
                        {"type": "input_file", "filename": "a.pdf", "file_data": data},
                        {"type": "input_file", "file_url": "https://h/a.pdf", "file_id": None},
                        {"type": "input_text", "text": "t", "cache_control": {"type": "ephemeral"}},
                    ],
                }
            ]
        )
        image, pdf, link, text = request.turns[0].parts
        assert isinstance(image, Image) and isinstance(text, Text)
        self.assertEqual((image.url, image.detail), ("https://h/p.png", "low"))
        assert image.cache is not None and text.cache is not None
        self.assertEqual(json.loads(image.cache.value), mark)
        self.assertTrue(image.cache.openai)
        self.assertEqual(text.cache, CacheMark(b'{"type": "ephemeral"}', openai=False))
        assert isinstance(pdf, Document) and isinstance(link, Document)
        self.assertEqual((pdf.data, pdf.title), ("JVBERg==", "a.pdf"))
        self.assertEqual((link.url, link.data), ("https://h/a.pdf", ""))

    def test_one_marked_text_is_not_plain(self) -> None:
        """A string has no place for a mark, so a text that has one stays a part."""
        part = {"type": "input_text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit"}}
        self.assertFalse(read(input=[{"role": "user", "content": [part]}]).turns[0].plain)

    def test_assistant_pieces_are_one_turn(self) -> None:
        """What the assistant thought, said and called is one turn, in its order."""
        thought, hidden = Thinking("hm", "sig"), RedactedThinking("xx")
        request = read(
            input=[
                {"role": "user", "content": "go"},
                {"type": "reasoning", "summary": [], "encrypted_content": pack_thinking(thought)},
                {"role": "assistant", "content": "a"},
                {"type": "reasoning", "summary": [], "encrypted_content": pack_thinking(hidden)},
                call("c1", id="fc_9"),
                call("c2", arguments=None),
                output("c2", "two"),
                output("c1", [{"type": "input_text", "text": "one"}]),
                {"role": "assistant", "content": "b"},
                {"role": "assistant", "content": "c"},
            ]
        )
        self.assertEqual(roles(request), ["user", "assistant", "tool", "assistant"])
        self.assertEqual(
            request.turns[1].parts,
            [
                thought,
                Text("a"),
                hidden,
                ToolCall("c1", "f", "{}", path="input[4]"),
                ToolCall("c2", "f", "", path="input[5]"),
            ],
        )
        self.assertEqual(
            request.turns[2].parts,
            [
                ToolResult("c2", [Text("two")], plain=True, path="input[6]"),
                ToolResult("c1", [Text("one")], path="input[7]"),
            ],
        )
        self.assertEqual(request.turns[3].parts, [Text("b"), Text("c")])
        self.assertFalse(request.turns[3].plain)

    def test_foreign_reasoning_is_dropped(self) -> None:
        """What another provider sealed, or was not sealed at all, is left out."""
        for sealed in (None, "", "gAAAforeign", pack_reasoning("rs_1", "x"), "omnigate.v1:!"):
            item = {
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "t"}],
                "encrypted_content": sealed,
            }
            request = read(input=[{"role": "user", "content": "a"}, item, call("c"), output("c")])
            self.assertEqual(roles(request), ["user", "assistant", "tool"])
            self.assertEqual(len(request.turns[1].parts), 1, sealed)

    def test_thinking_that_led_nowhere_is_dropped(self) -> None:
        """No provider takes a turn that ends with thinking, and nothing came of it."""
        item = {"type": "reasoning", "encrypted_content": pack_thinking(Thinking("a", "b"))}
        user = {"role": "user", "content": "a"}
        self.assertEqual(roles(read(input=[user, item, user])), ["user", "user"])
        said = {"role": "assistant", "content": "s"}
        request = read(input=[user, said, item, user])
        self.assertEqual(request.turns[1].parts, [Text("s")])

    def test_results_go_behind_their_calls(self) -> None:
        """A user who spoke before the tools had answered speaks behind them."""
        request = read(
            input=[
                {"role": "user", "content": "a"},
                call("c1"),
                call("c2"),
                {"role": "user", "content": "wait"},
                output("c1"),
                {"role": "user", "content": "what?"},
                output("c2"),
            ]
        )
        self.assertEqual(roles(request), ["user", "assistant", "tool", "user", "user"])
        self.assertEqual(len(request.turns[2].parts), 2)

    def test_empty_output(self) -> None:
        """A function may answer nothing."""
        request = read(input=[call("c"), output("c", "")])
        self.assertEqual(request.turns[1].parts, [ToolResult("c", [], plain=True, path="input[1]")])

    def test_hosted_items(self) -> None:
        """Items of tools that OpenAI runs are refused, whatever their members look like."""
        for item in (
            {"type": "item_reference", "id": "rs_1"},
            {"id": "rs_1"},
            {"type": "compaction", "encrypted_content": "x"},
            {"type": "compaction_trigger"},
            {"type": "computer_call", "call_id": "c", "action": {}},
            {"type": "computer_call_output", "call_id": "c", "output": {"type": "x"}},
            {"type": "shell_call", "call_id": "c", "action": {"commands": []}},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x"}]},
            {"type": "local_shell_call_output", "id": "c", "output": "x"},
            {"type": "apply_patch_call", "call_id": "c", "operation": {}},
            {"type": "mcp_call", "arguments": "{}", "name": "n", "output": None},
            {"type": "mcp_list_tools", "tools": []},
            {"type": "tool_search_call", "arguments": {"a": 1}},
            {"type": "image_generation_call", "result": "x"},
            {"type": "code_interpreter_call", "code": "x", "outputs": []},
            {"type": "web_search_call", "action": {"type": "search"}},
            {"type": "file_search_call", "queries": []},
            {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "of_next_year", "content": 5, "output": 5, "arguments": 5},
        ):
            user = {"role": "user", "content": "a"}
            self.refused("untranslatable_request", "input[1]", input=[user, item])

    def test_untranslatable_parts(self) -> None:
        """Parts without a counterpart are refused at their place."""
        for part, place in (
            ({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}, ""),
            ({"type": "computer_screenshot", "image_url": "https://h/x.png"}, ""),
            ({"type": "input_image", "file_id": "file_1"}, ".file_id"),
            ({"type": "input_file", "file_id": "file_1"}, ".file_id"),
            ({"type": "input_image", "image_url": "ftp://h/x.png"}, ".image_url"),
        ):
            content = [{"type": "input_text", "text": "a"}, part]
            self.refused(
                "untranslatable_request",
                f"input[0].content[1]{place}",
                input=[{"role": "user", "content": content}],
            )
            self.refused(
                "untranslatable_request",
                f"input[1].output[1]{place}",
                input=[call("c"), output("c", content)],
            )
        image = {"type": "input_image", "image_url": "https://h/x.png"}
        for role in ("assistant", "system", "developer"):
            self.refused(
                "untranslatable_request",
                "input[0].content[0]",
                input=[{"role": role, "content": [image]}],
            )

    def test_too_many_pieces(self) -> None:
        """Items, parts and tools are bounded together, since each takes time."""
        half = MAX_PIECES // 2 + 1
        part = {"type": "input_text", "text": ""}
        group = {"type": "namespace", "name": "n", "tools": [function("f")] * half}
        for members in (
            {"input": [{"role": "user", "content": "a"}] * (MAX_PIECES + 1)},
            {"input": [{"role": "user", "content": [part] * half}] * 2},
            {"input": [call("c"), output("c", [part] * (MAX_PIECES + 1))]},
            {"tools": [function("f")] * (MAX_PIECES + 1)},
            {"tools": [group, group]},
            {"tools": [function("f")] * half, "input": [{"role": "user", "content": ""}] * half},
        ):
            error: GatewayError = self.assertRaises(GatewayError, read, **members)
            self.assertEqual(error.kind.code, "request_too_complex")

    def test_malformed(self) -> None:
        """What no protocol takes is refused at its place."""
        user = {"role": "user", "content": "a"}
        for items, place in (
            (None, "input"),
            ([], "input"),
            (5, "input"),
            ([5], "input[0]"),
            ([user, {"role": "user"}], "input[1].content"),
            ([{"role": "tool", "content": "a"}], "input[0].role"),
            ([{"type": "message", "content": "a"}], "input[0].role"),
            ([{"role": "user", "content": 5}], "input[0].content"),
            ([{"role": "user", "content": [5]}], "input[0].content[0]"),
            ([{"role": "user", "content": [{"text": "a"}]}], "input[0].content[0]"),
            (
                [{"role": "user", "content": [{"type": "input_text"}]}],
                "input[0].content[0].text",
            ),
            (
                [{"role": "user", "content": [{"type": "input_text", "text": 5}]}],
                "input[0].content[0].text",
            ),
            (
                [{"role": "user", "content": [{"type": "input_image"}]}],
                "input[0].content[0].image_url",
            ),
            ([call("")], "input[0].call_id"),
            ([call("c", name="")], "input[0].name"),
            ([call("c", arguments={"a": 1})], "input[0].arguments"),
            ([call("c"), output("")], "input[1].call_id"),
            ([call("c"), output("c", None)], "input[1].output"),
            ([call("c"), output("c", {"a": 1})], "input[1].output"),
        ):
            self.refused("invalid_request", place, input=items)


class ToolTests(_Case):
    """The functions, and how one is chosen."""

    def test_functions(self) -> None:
        """A function is read flat; its schema stays as it was written."""
        body = (
            b'{"input":"x","tools":[{"type":"function","name":"f","description":"d","strict":true,'
            b'"parameters":{ "type":"object", "x":1.50 },"defer_loading":true},'
            b'{"type":"function","name":"g","parameters":null}]}'
        )
        one, other = read_request(body).tools
        self.assertEqual(one.schema, b'{ "type":"object", "x":1.50 }')
        self.assertEqual((one.name, one.description, one.strict), ("f", "d", True))
        self.assertEqual((other.name, other.schema, other.strict), ("g", b"", None))

    def test_hosted_tools(self) -> None:
        """Tools that OpenAI runs, and free-form ones, are refused by their place."""
        for kind in (
            "web_search",
            "web_search_preview",
            "file_search",
            "mcp",
            "custom",
            "code_interpreter",
            "image_generation",
            "local_shell",
            "shell",
            "apply_patch",
            "computer",
            "tool_search",
        ):
            self.refused(
                "untranslatable_request", "tools[1]", tools=[function("f"), {"type": kind}]
            )
        self.refused(
            "untranslatable_request",
            "tools[0].tools[0]",
            tools=[{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]}],
        )

    def test_malformed_tools(self) -> None:
        """A tool without its name, type or with a schema that is none."""
        for tools, place in (
            (5, "tools"),
            ([{"name": "f"}], "tools[0]"),
            ([{"type": "function"}], "tools[0].name"),
            ([{"type": "function", "function": {"name": "f"}}], "tools[0].name"),
            ([function("f", parameters=[])], "tools[0].parameters"),
            ([{"type": "namespace", "tools": []}], "tools[0].name"),
            ([{"type": "namespace", "name": "n", "tools": [{}]}], "tools[0].tools[0]"),
            ([{"type": "namespace", "name": "n", "tools": 1}], "tools[0].tools"),
        ):
            self.refused("invalid_request", place, tools=tools)

    def test_namespaces(self) -> None:
        """Functions of a namespace have its name in front, in their calls, too."""
        tools = [
            {
                "type": "namespace",
                "name": "crm",
                "description": "The customers.",
                "tools": [function("find", description="d"), function("drop")],
            },
            function("crm__find"),
            {
                "type": "namespace",
                "name": "mcp__gh__",
                "description": "",
                "tools": [function("pr")],
            },
            {"type": "namespace", "name": "a.b", "tools": [function("x" * 70)]},
        ]
        request = read(
            tools=tools,
            instructions="i",
            input=[
                call("1", "find", namespace="crm"),
                call("2", "crm__find"),
                call("3", "pr", namespace="mcp__gh__"),
                call("4", "gone", namespace="crm"),
            ],
        )
        names = [tool.name for tool in request.tools]
        self.assertEqual(len(set(names)), 5)
        self.assertEqual(names[0], "crm__find")
        for name in names:
            self.assertRegex(name, r"\A[A-Za-z0-9_-]{1,64}\Z")
        called = [part.name for part in request.turns[2].parts if isinstance(part, ToolCall)]
        self.assertEqual(request.namespaces[called[0]], ("crm", "find"))
        self.assertEqual(called[1:], ["crm__find", "mcp__gh__pr", "crm__gone"])
        self.assertNotIn("crm__find", request.namespaces)
        self.assertEqual(sorted(request.namespaces), sorted(names[1:]))
        self.assertEqual(request.namespaces[names[4]], ("a.b", "x" * 70))
        self.assertEqual(
            request.turns[1].parts, [Text('Tools whose names begin with "crm__": The customers.')]
        )
        self.assertEqual(request.turns[1].role, Role.SYSTEM)

    def test_choice(self) -> None:
        """How the tools are chosen among."""
        tools = [function("f"), function("g"), function("h")]
        for value, mode, name in (
            ("auto", Choice.AUTO, ""),
            ("none", Choice.NONE, ""),
            ("required", Choice.REQUIRED, ""),
            ({"type": "function", "name": "g"}, Choice.NAMED, "g"),
        ):
            chosen = read(tools=tools, tool_choice=value)
            self.assertEqual(chosen.tool_choice, ToolChoice(mode, name))
        self.assertIsNone(read(tools=tools, tool_choice=None).tool_choice)
        for word, expected in (("auto", Choice.AUTO), ("required", Choice.REQUIRED)):
            allowed = [{"type": "function", "name": name} for name in ("h", "f", "gone")]
            choice = {"type": "allowed_tools", "mode": word, "tools": allowed}
            request = read(tools=tools, tool_choice=choice)
            self.assertEqual([tool.name for tool in request.tools], ["f", "h"])
            self.assertEqual(request.tool_choice, ToolChoice(expected))

    def test_choice_without_tools(self) -> None:
        """Nothing can be chosen among no tools, and no upstream takes the attempt."""
        self.assertIsNone(read(tool_choice="auto").tool_choice)
        self.assertIsNone(read(tools=[], tool_choice="none").tool_choice)
        self.refused("invalid_request", "tool_choice", tool_choice="required")

    def test_bad_choices(self) -> None:
        """Hosted tools cannot be chosen; what is no choice is refused."""
        tools = [function("f")]
        for value in (
            {"type": "web_search_preview"},
            {"type": "mcp", "server_label": "x"},
            {"type": "custom", "name": "x"},
            {"type": "apply_patch"},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]},
        ):
            self.refused("untranslatable_request", "tool_choice", tools=tools, tool_choice=value)
        for bad, place in (
            ("any", "tool_choice"),
            (5, "tool_choice"),
            ({"name": "f"}, "tool_choice"),
            ({"type": "function"}, "tool_choice.name"),
            ({"type": "allowed_tools", "mode": "x", "tools": []}, "tool_choice.mode"),
            ({"type": "allowed_tools", "tools": 5}, "tool_choice.tools"),
        ):
            self.refused("invalid_request", place, tools=tools, tool_choice=bad)


class MemberTests(_Case):
    """The other members."""

    def test_plain_members(self) -> None:
        """What has a place in the shape gets there."""
        request = read(
            stream=True,
            max_output_tokens=7,
            temperature=1,
            top_p=0.5,
            parallel_tool_calls=False,
            service_tier="flex",
            user="u",
            reasoning={"effort": "xhigh", "summary": "detailed", "context": "auto"},
        )
        self.assertEqual((request.stream, request.max_tokens), (True, 7))
        self.assertEqual((request.temperature, request.top_p), (1.0, 0.5))
        self.assertEqual((request.parallel, request.service_tier), (False, "flex"))
        self.assertEqual((request.user, request.effort), ("u", "xhigh"))
        self.assertEqual(request.summaries, "detailed")
        self.assertEqual(read(user="u", safety_identifier="s").user, "s")
        self.assertEqual(read(reasoning={"generate_summary": "auto"}).summaries, "auto")
        self.assertTrue(request.wants_thinking)

    def test_null_is_absent(self) -> None:
        """Every member may be null, and then says nothing."""
        names = (
            "stream",
            "max_output_tokens",
            "temperature",
            "top_p",
            "parallel_tool_calls",
            "service_tier",
            "user",
            "safety_identifier",
            "reasoning",
            "text",
            "tools",
            "tool_choice",
            "instructions",
            "metadata",
            "truncation",
            "previous_response_id",
            "conversation",
            "background",
            "prompt",
            "moderation",
            "context_management",
            "top_logprobs",
            "include",
            "store",
            "max_tool_calls",
            "prompt_cache_key",
            "stream_options",
        )
        self.assertEqual(read(**dict.fromkeys(names)), read())
        self.assertEqual(read(reasoning={"effort": None}, text={"format": None}).effort, None)

    def test_dropped(self) -> None:
        """Members that change nothing elsewhere are let go."""
        dropped = {
            "store": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "k",
            "prompt_cache_options": {"mode": "implicit"},
            "prompt_cache_retention": "24h",
            "max_tool_calls": 3,
            "stream_options": {"include_obfuscation": True},
            "client_metadata": {"x": 1},
            "top_logprobs": 0,
            "background": False,
            "context_management": [],
            "of_next_year": [[]],
        }
        self.assertEqual(read(**dropped), read())

    def test_stored_state(self) -> None:
        """What needs stored state, or what only OpenAI has, is refused by name."""
        for name, value in (
            ("previous_response_id", "resp_1"),
            ("conversation", "conv_1"),
            ("conversation", {"id": "conv_1"}),
            ("background", True),
            ("prompt", {"id": "p"}),
            ("top_logprobs", 2),
            ("moderation", {"model": "m"}),
            ("context_management", [{"type": "compaction"}]),
        ):
            self.refused("untranslatable_request", name, **{name: value})

    def test_format(self) -> None:
        """The form of the answer."""
        schema = {"type": "object"}
        config = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
        self.assertEqual(
            read(text={"format": config, "verbosity": "low"}).format,
            Format(b'{"type": "object"}', "n", None, True),
        )
        self.assertEqual(read(text={"format": {"type": "json_object"}}).format, Format())
        self.assertIsNone(read(text={"format": {"type": "text"}}).format)
        grammar = {"format": {"type": "grammar"}}
        self.refused("untranslatable_request", "text.format", text=grammar)
        broken = {"format": {"type": "json_schema", "name": "n"}}
        self.refused("invalid_request", "text.format.schema", text=broken)

    def test_wrong_types(self) -> None:
        """A member of the wrong type is refused by name."""
        for name, value in (
            ("stream", "yes"),
            ("max_output_tokens", "7"),
            ("max_output_tokens", 0),
            ("max_output_tokens", 1.5),
            ("temperature", "warm"),
            ("top_p", []),
            ("parallel_tool_calls", 1),
            ("service_tier", 1),
            ("user", 1),
            ("instructions", ["a"]),
            ("reasoning", "high"),
            ("text", "json"),
            ("metadata", []),
            ("truncation", 1),
        ):
            self.refused("invalid_request", name, **{name: value})
        self.refused("invalid_request", "reasoning.effort", reasoning={"effort": 1})

    def test_no_request(self) -> None:
        """What is no object at all, or holds half a character."""
        for body, code in (
            (b"[]", "invalid_request"),
            (b"", "invalid_json"),
            (rb'{"input":"\ud800"}', "invalid_json"),
            (rb'{"input":"x","metadata":{"a":"\ud800"}}', "invalid_json"),
            (b'{"input":"x","tools":' + b"[" * 100_000, "invalid_json"),
        ):
            error: GatewayError = self.assertRaises(GatewayError, read_request, body)
            self.assertEqual(error.kind.code, code, body[:40])

    def test_a_long_echo(self) -> None:
        """Of what is repeated the longest members are left out, where it is too much together."""
        names = ("instructions", "user", "metadata")
        for size in (MAX_ECHO_BYTES // 4, MAX_ECHO_BYTES // 2, MAX_ECHO_BYTES, 8 * MAX_ECHO_BYTES):
            for long in range(1, 4):
                told: dict[str, Any] = {"input": "x", "temperature": 1}
                for name in names[:long]:
                    told[name] = {"a": "y" * size} if name == "metadata" else "y" * size
                echo = read_request(json.dumps(told).encode()).echo
                self.assertEqual(b"1", echo["temperature"])
                self.assertLessEqual(sum(map(len, echo.values())), MAX_ECHO_BYTES)
                self.assertEqual(
                    len(echo), 1 + min(long, (MAX_ECHO_BYTES - 100) // size), (size, long)
                )

    def test_echo(self) -> None:
        """What the answer repeats is kept in its own spelling, on one line."""
        body = (
            b'{"input":"x", "temperature":1.50, "metadata":{\n "a" : "b\\n"},"user":null,'
            b'"tools":[\n{"type":"function","name":"f","parameters":{"maximum":1E400}}],'
            b'"truncation":"auto","store":true,"max_output_tokens":16}'
        )
        self.assertEqual(
            read_request(body).echo,
            {
                "temperature": b"1.50",
                "metadata": b'{"a":"b\\n"}',
                "tools": b'[{"type":"function","name":"f","parameters":{"maximum":1E400}}]',
                "truncation": b'"auto"',
                "max_output_tokens": b"16",
            },
        )
