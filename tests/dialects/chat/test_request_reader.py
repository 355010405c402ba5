"""What a client of Chat asks."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.request_reader import read_request
from omnigate.dialects.chat.request_shapes import ChatRequest
from omnigate.dialects.request_body import MAX_PIECES
from omnigate.dialects.shapes import (
    CacheMark,
    Choice,
    Format,
    Request,
    Role,
    Text,
    ThinkingWish,
    Tool,
    ToolChoice,
    Turn,
)
from omnigate.errors import GatewayError
from tests.dialects.vectors import vectors

HI = [{"role": "user", "content": "hi"}]
FUNCTION = {"type": "function", "function": {"name": "f"}}
OTHER = {"type": "function", "function": {"name": "g"}}

# Refusals that depend on the model, or on what an upstream takes of a conversation.
OF_THE_WRITER = {
    "c2m-037-refuse-forced-tool-unsupported",
    "c2m-038-refuse-orphan-tool-result",
    "c2m-039-refuse-image-type",
    "c2m-040-refuse-prefill",
}


def read(**members: Any) -> Request:
    """Read a request with a short conversation and these members."""
    return read_request(json.dumps({"model": "m", "messages": HI, **members}).encode())


class RequestCase(SynchronousTestCase):
    """Looks at refusals."""

    def refused(self, place: str | None, code: str, **members: Any) -> None:
        """Check that a request is refused for the member at ``place``, and is told so."""
        error = self.assertRaises(GatewayError, read, **members)
        self.assertEqual((error.kind.code, error.param), (code, place), members)
        self.assertEqual(error.kind.status, 400)
        self.assertIn(place or "JSON", error.message)


class GoldenTests(SynchronousTestCase):
    """The golden requests are read, or refused for the right member."""

    def test_vectors(self) -> None:
        """Every golden request of a Chat client."""
        for vector in vectors(client="chat"):
            if vector.sent is None and vector.name not in OF_THE_WRITER:
                error = self.assertRaises(GatewayError, read_request, vector.body)
                self.assertEqual(error.kind.code, "untranslatable_request", vector.name)
                self.assertEqual(error.param, vector.told["json"]["error"]["param"])
            else:
                request = read_request(vector.body)
                self.assertEqual(len(request.turns), len(vector.request["messages"]))


class ParameterTests(RequestCase):
    """The members beside the messages."""

    def test_least(self) -> None:
        """A request with nothing else has nothing else; null says as little."""
        least = Request([Turn(Role.USER, [Text("hi")], True, "messages[0]")])
        self.assertEqual(read(), least)
        names = [name for name in ChatRequest.__struct_fields__ if name != "messages"]
        self.assertEqual(read(**dict.fromkeys(names)), least)

    def test_all(self) -> None:
        """What a request says is kept."""
        request = read(
            stream=True,
            stream_options={"include_usage": True, "include_obfuscation": True},
            max_completion_tokens=5,
            max_tokens=9,
            temperature=1,
            top_p=0.5,
            stop=["a", ""],
            parallel_tool_calls=False,
            reasoning_effort="high",
            user="old",
            safety_identifier="new",
            service_tier="flex",
        )
        self.assertTrue(request.stream and request.include_usage)
        self.assertEqual(request.max_tokens, 5)
        self.assertEqual((request.temperature, request.top_p), (1.0, 0.5))
        self.assertEqual(request.stop, ["a", ""])
        self.assertIs(request.parallel, False)
        self.assertEqual((request.effort, request.user), ("high", "new"))
        self.assertEqual(request.service_tier, "flex")
        other = read(stop="x", max_tokens=9, user="old", stream=False)
        self.assertEqual((other.stop, other.max_tokens, other.user), (["x"], 9, "old"))

    def test_left_out(self) -> None:
        """What only tunes, what changes nothing and what nobody knows is no matter."""
        self.assertEqual(
            read(
                frequency_penalty=1.5,
                presence_penalty=0,
                seed=7,
                prediction={"type": "content", "content": "x"},
                store=True,
                metadata={"a": "b"},
                verbosity="low",
                prompt_cache_key="k",
                prompt_cache_retention="24h",
                prompt_cache_options={"mode": "auto"},
                n=1,
                logprobs=False,
                top_logprobs=0,
                logit_bias={},
                modalities=["text"],
                top_k=4,
                unheard_of=[1, {}],
            ),
            read(),
        )

    def test_untranslatable(self) -> None:
        """What no other protocol can do is refused, however it is said."""
        for place, members in (
            ("n", {"n": 2}),
            ("n", {"n": 0}),
            ("logprobs", {"logprobs": True}),
            ("logprobs", {"logprobs": True, "top_logprobs": 2}),
            ("top_logprobs", {"top_logprobs": 1}),
            ("logit_bias", {"logit_bias": {"50256": -100}}),
            ("modalities", {"modalities": ["text", "audio"]}),
            ("modalities", {"audio": {"voice": "alloy", "format": "mp3"}}),
            ("web_search_options", {"web_search_options": {}}),
            ("moderation", {"moderation": {"model": "m"}}),
            ("response_format", {"response_format": {"type": "grammar"}}),
            ("tools[1]", {"tools": [FUNCTION, {"type": "custom", "custom": {"name": "c"}}]}),
            ("tools[0]", {"tools": [{"type": "web_search"}]}),
            ("tool_choice", {"tool_choice": {"type": "custom", "custom": {"name": "c"}}}),
        ):
            self.refused(place, "untranslatable_request", **members)

    def test_malformed(self) -> None:
        """What is malformed is refused with its place."""
        for place, members in (
            ("messages", {"messages": None}),
            ("messages", {"messages": {}}),
            ("max_tokens", {"max_tokens": 0}),
            ("max_completion_tokens", {"max_completion_tokens": -1, "max_tokens": 5}),
            ("max_tokens", {"max_tokens": "5"}),
            ("stop", {"stop": {"a": 1}}),
            ("stop[1]", {"stop": ["a", 1]}),
            ("thinking", {"thinking": "on"}),
            ("thinking.type", {"thinking": {"budget_tokens": 5}}),
            ("thinking.type", {"thinking": {"type": 5}}),
            ("response_format.type", {"response_format": {}}),
            ("response_format.json_schema", {"response_format": {"type": "json_schema"}}),
            ("tools[0].function", {"tools": [{"type": "function"}]}),
            ("tools[0].function.name", {"tools": [{"function": {}}]}),
            ("tools[0].function.name", {"tools": [{"function": {"name": 5}}]}),
            ("functions[0].name", {"functions": [{"description": "d"}]}),
            ("tool_choice", {"tools": [FUNCTION], "tool_choice": "always"}),
            ("tool_choice", {"tool_choice": "required"}),
            ("function_call", {"function_call": {"name": "f"}}),
            ("tool_choice.function.name", {"tools": [FUNCTION], "tool_choice": {}}),
        ):
            self.refused(place, "invalid_request", **members)
        for body in (b"", b"{", b'{"messages":[{"role":"user","content":"\\ud800"}]}'):
            error = self.assertRaises(GatewayError, read_request, body)
            self.assertEqual(error.kind.code, "invalid_json")

    def test_thinking(self) -> None:
        """The wish to think is kept as it was written, too."""
        body = b'{"messages":[],"thinking":{"type":"enabled", "budget_tokens":2000,"x":1.0}}'
        self.assertEqual(
            read_request(body).thinking,
            ThinkingWish(
                "enabled", 2000, None, b'{"type":"enabled", "budget_tokens":2000,"x":1.0}'
            ),
        )

    def test_formats(self) -> None:
        """An answer may be held to nothing, to JSON, or to a schema, which is kept as text."""
        self.assertIsNone(read(response_format={"type": "text"}).format)
        self.assertEqual(read(response_format={"type": "json_object"}).format, Format())
        body = (
            b'{"messages":[],"response_format":{"type":"json_schema","json_schema":'
            b'{"name":"n","description":"d","strict":false,"schema":{"multipleOf":1.10}}}}'
        )
        self.assertEqual(read_request(body).format, Format(b'{"multipleOf":1.10}', "n", "d", False))
        bare = read(response_format={"type": "json_schema", "json_schema": {"schema": {}}})
        self.assertEqual(bare.format, Format(b"{}"))

    @settings(max_examples=200)
    @given(
        st.dictionaries(
            st.sampled_from(
                ["messages", "tools", "tool_choice", "thinking", "response_format", "n", "stop"]
            ),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(["role", "content", "type", "function", "name", "text"]),
                        inner,
                        max_size=4,
                    )
                ),
                max_leaves=12,
            ),
        )
    )
    def test_anything(self, members: dict[str, Any]) -> None:
        """Any JSON is read, or refused with status 400."""
        try:
            read(**members)
        except GatewayError as error:
            self.assertEqual(error.kind.status, 400)


class ToolTests(RequestCase):
    """Tools, and which of them may be called."""

    def test_functions(self) -> None:
        """Functions, in the new and the old way; the schema stays text."""
        body = (
            b'{"messages":[],"tools":[{"type":"function","function":{"name":"f","description":"d",'
            b'"parameters":{ "minimum":1.50 },"strict":true},"cache_control":{"type":"ephemeral"}},'
            b'{"function":{"name":"g","parameters":null,"strict":null}}],'
            b'"functions":[{"name":"h","parameters":{}}]}'
        )
        request = read_request(body)
        mark = CacheMark(b'{"type":"ephemeral"}', openai=False)
        self.assertEqual(
            request.tools,
            [
                Tool("f", "d", b'{ "minimum":1.50 }', True, mark, "tools[0]"),
                Tool("g", path="tools[1]"),
                Tool("h", schema=b"{}", path="functions[0]"),
            ],
        )
        self.assertIsNone(request.tool_choice)

    def test_choices(self) -> None:
        """Every way to choose."""
        for choice, read_as in (
            ("none", ToolChoice(Choice.NONE)),
            ("auto", ToolChoice(Choice.AUTO)),
            ("required", ToolChoice(Choice.REQUIRED)),
            ({"type": "function", "function": {"name": "g"}}, ToolChoice(Choice.NAMED, "g")),
        ):
            self.assertEqual(read(tools=[FUNCTION], tool_choice=choice).tool_choice, read_as)
        old = [{"name": "f"}]
        self.assertEqual(
            read(functions=old, function_call={"name": "f"}).tool_choice,
            ToolChoice(Choice.NAMED, "f"),
        )
        self.assertEqual(
            read(functions=old, function_call="none").tool_choice, ToolChoice(Choice.NONE)
        )

    def test_nothing_to_choose_from(self) -> None:
        """Without tools nothing is called, whatever is said of it."""
        for choice in ("none", "auto"):
            self.assertIsNone(read(tool_choice=choice).tool_choice)
            self.assertIsNone(read(tools=[], tool_choice=choice).tool_choice)

    def allowed(self, mode: str | None, *names: str) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}

    def test_allowed(self) -> None:
        """Of allowed tools the others are taken out; the order stays."""
        tools = [FUNCTION, OTHER, {"type": "function", "function": {"name": "h"}}]
        for mode, read_as in (("auto", Choice.AUTO), ("required", Choice.REQUIRED)):
            request = read(tools=tools, tool_choice=self.allowed(mode, "h", "f"))
            self.assertEqual([tool.name for tool in request.tools], ["f", "h"])
            self.assertEqual(request.tool_choice, ToolChoice(read_as))
        nothing = read(tools=tools, tool_choice=self.allowed(None))
        self.assertEqual((nothing.tools, nothing.tool_choice), ([], None))

    def test_not_allowed(self) -> None:
        """What is not among the tools, is no function or has no name cannot be allowed."""
        self.refused(
            "tool_choice",
            "invalid_request",
            tools=[FUNCTION],
            tool_choice=self.allowed("auto", "f", "nobody"),
        )
        self.refused(
            "tool_choice",
            "invalid_request",
            tools=[FUNCTION],
            tool_choice=self.allowed("required"),
        )
        custom = self.allowed("auto", "f")
        custom["allowed_tools"]["tools"].append({"type": "custom", "custom": {"name": "c"}})
        self.refused("tool_choice", "untranslatable_request", tools=[FUNCTION], tool_choice=custom)
        self.refused(
            "tool_choice.allowed_tools",
            "invalid_request",
            tools=[FUNCTION],
            tool_choice={"type": "allowed_tools"},
        )


class PiecesTests(SynchronousTestCase):
    """A request of too many pieces is refused before they are looked at."""

    def test_every_kind(self) -> None:
        """Messages, parts, calls, blocks of thinking, tools, functions and stops count."""
        function = {"function": {"name": "f"}}
        text = {"type": "text", "text": "a"}
        for kind, made in (
            ("messages", lambda n: {"messages": HI * (n + 1)}),
            ("content", lambda n: {"messages": [{"role": "user", "content": [text] * n}]}),
            (
                "tool_calls",
                lambda n: {"messages": [{"role": "assistant", "tool_calls": [function] * n}]},
            ),
            (
                "thinking_blocks",
                lambda n: {"messages": [{"role": "assistant", "thinking_blocks": [{}] * n}]},
            ),
            ("tools", lambda n: {"tools": [function] * n}),
            ("functions", lambda n: {"functions": [{"name": "f"}] * n}),
            ("stop", lambda n: {"stop": ["a"] * n}),
        ):
            error = self.assertRaises(GatewayError, read, **made(MAX_PIECES))
            self.assertEqual(error.kind.code, "request_too_complex", kind)
            if kind != "tool_calls":  # they have no ids
                read(**made(MAX_PIECES - 1))
