"""Which member of a request becomes what at an upstream of another protocol, row by row.

The golden cases have whole conversations; here each member stands alone, with the values that are
on the edge of its rule.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.errors import GatewayError
from tests.dialects.vectors import translate_request

BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "messages": {
        "model": "m",
        "max_tokens": 9000,
        "messages": [{"role": "user", "content": "Hi"}],
    },
    "responses": {"model": "m", "input": "Hi"},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
MESSAGES_TOOL = {"name": "f", "input_schema": SCHEMA}
RESPONSES_TOOL = {"type": "function", "name": "f", "parameters": SCHEMA}
#: Members that a client is given tools by, so that a choice among them is heard.
TOOLS = {"chat": [CHAT_TOOL], "messages": [MESSAGES_TOOL], "responses": [RESPONSES_TOOL]}
REASONS: dict[str, Any] = {
    "reasoning": True,
    "effort_none": True,
    "efforts": ("low", "medium", "high"),
}

#: What the client adds to its request, and what is then in the upstream's: ``None`` for nothing.
Row = tuple[dict[str, Any], dict[str, Any]]


def sent(client: str, upstream: str, members: dict[str, Any], caps: dict[str, Any]) -> Any:
    """Translate a request of one message and these members."""
    body = json.dumps({**BODIES[client], **members}).encode()
    asked = translate_request(client, upstream, body, "m", Capabilities(**caps))
    return json.loads(asked.body)


class RuleTestCase(SynchronousTestCase):
    def check(
        self, client: str, upstream: str, rows: Iterable[Row], tools: bool = False, **caps: Any
    ) -> None:
        """Each row's members become what stands behind them."""
        for members, wanted in rows:
            given = {"tools": TOOLS[client], **members} if tools else members
            body = sent(client, upstream, given, caps)
            found = {name: body.get(name) for name in wanted}
            self.assertEqual(wanted, found, (client, upstream, members))

    def check_refused(
        self, client: str, upstream: str, rows: Iterable[tuple[dict[str, Any], str]], **caps: Any
    ) -> None:
        """Each row's members are refused under the name behind them."""
        for members, param in rows:
            error = self.assertRaises(GatewayError, sent, client, upstream, members, caps)
            told = (error.kind.code, error.param)
            self.assertEqual(("untranslatable_request", param), told, (client, upstream, members))

    def check_dropped(self, client: str, upstream: str, members: dict[str, Any]) -> None:
        """None of the members changes what is sent, whether given alone or with the others."""
        plain = sent(client, upstream, {}, {})
        for name, value in members.items():
            self.assertEqual(plain, sent(client, upstream, {name: value}, {}), (upstream, name))
        self.assertEqual(plain, sent(client, upstream, members, {}))


class ChatTests(RuleTestCase):
    """Of clients of Chat."""

    def test_tokens(self) -> None:
        """The newer name of the bound wins; a model's own bound and a protocol's least hold."""
        rows: list[Row] = [
            ({"max_tokens": 50, "max_completion_tokens": 60}, {"max_tokens": 60}),
            ({"max_tokens": 50, "max_completion_tokens": None}, {"max_tokens": 50}),
            ({"max_tokens": 5000}, {"max_tokens": 4000}),
            ({}, {"max_tokens": 300}),
        ]
        self.check("chat", "messages", rows, default_max_tokens=300, max_output=4000)
        rows = [
            ({"max_tokens": 1}, {"max_output_tokens": 16}),
            ({"max_tokens": 17}, {"max_output_tokens": 17}),
            ({"max_tokens": 5000}, {"max_output_tokens": 4000}),
            ({}, {"max_output_tokens": None}),
        ]
        self.check("chat", "responses", rows, max_output=4000)

    def test_sampling(self) -> None:
        """Anthropic takes one of the two, and no temperature above 1; some models take neither."""
        rows: list[Row] = [
            ({"temperature": 1.7}, {"temperature": 1, "top_p": None}),
            ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": None}),
            ({"top_p": 0.5}, {"temperature": None, "top_p": 0.5}),
        ]
        self.check("chat", "messages", rows)
        given = {"temperature": 1.7, "top_p": 0.5}
        nothing = dict.fromkeys(given)
        self.check("chat", "responses", [(given, given)])
        for upstream in ("messages", "responses"):
            self.check("chat", upstream, [(given, nothing)], sampling=False)
        self.check("chat", "messages", [({**given, "reasoning_effort": "low"}, nothing)])

    def test_stop(self) -> None:
        """Blank sequences are none; Responses has no member for any."""
        rows: list[Row] = [
            ({"stop": "END"}, {"stop_sequences": ["END"]}),
            ({"stop": ["a", "", " \n", "b", "c", "d", "e"]}, {"stop_sequences": [*"abcde"]}),
            ({"stop": [" "]}, {"stop_sequences": None}),
        ]
        self.check("chat", "messages", rows)
        self.check("chat", "responses", [({"stop": "END"}, {"stop": None, "stop_sequences": None})])

    def test_tools(self) -> None:
        """A schema is always an object's; Responses is told where one is not strict."""
        without = {"type": "function", "function": {"name": "f", "description": "d"}}
        untyped = {
            "type": "function",
            "function": {"name": "f", "parameters": {"properties": {}}, "strict": False},
        }
        strict = {
            "type": "function",
            "function": {"name": "f", "parameters": SCHEMA, "strict": True},
        }
        empty = {"type": "object", "properties": {}}
        tools = [
            {"name": "f", "description": "d", "input_schema": empty},
            {"name": "f", "input_schema": empty},
            {"name": "f", "input_schema": SCHEMA, "strict": True},
        ]
        self.check("chat", "messages", [({"tools": [without, untyped, strict]}, {"tools": tools})])
        flat = [
            {
                "type": "function",
                "name": "f",
                "description": "d",
                "parameters": empty,
                "strict": False,
            },
            {**RESPONSES_TOOL, "strict": True},
        ]
        self.check("chat", "responses", [({"tools": [without, strict]}, {"tools": flat})])

    def test_tool_choice(self) -> None:
        """Each word has a counterpart; one call at a time is told beside the choice."""
        one = {"disable_parallel_tool_use": True}
        named = {"type": "function", "function": {"name": "f"}}
        allowed = {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [named]},
        }
        rows: list[Row] = [
            ({}, {"tool_choice": None}),
            ({"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
            ({"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
            ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
            ({"tool_choice": named}, {"tool_choice": {"type": "tool", "name": "f"}}),
            ({"tool_choice": allowed}, {"tool_choice": {"type": "any"}}),
            ({"function_call": {"name": "f"}}, {"tool_choice": {"type": "tool", "name": "f"}}),
            ({"parallel_tool_calls": False}, {"tool_choice": {"type": "auto", **one}}),
            ({"parallel_tool_calls": True}, {"tool_choice": None}),
            (
                {"parallel_tool_calls": False, "tool_choice": named},
                {"tool_choice": {"type": "tool", "name": "f", **one}},
            ),
            (
                {"parallel_tool_calls": False, "tool_choice": "none"},
                {"tool_choice": {"type": "none"}},
            ),
        ]
        self.check("chat", "messages", rows, tools=True)
        rows = [
            ({"tool_choice": "required"}, {"tool_choice": "required"}),
            ({"tool_choice": named}, {"tool_choice": {"type": "function", "name": "f"}}),
            ({"parallel_tool_calls": False}, {"tool_choice": None, "parallel_tool_calls": False}),
        ]
        self.check("chat", "responses", rows, tools=True)
        forced = [
            ({"tools": [CHAT_TOOL], "tool_choice": c}, "tool_choice") for c in ("required", named)
        ]
        self.check_refused("chat", "messages", forced, forced_tools=False)

    def test_effort(self) -> None:
        """An effort is a word for models that adapt and a budget for others."""
        shown = {"type": "adaptive", "display": "summarized"}
        words = {
            "minimal": "low",
            "low": "low",
            "medium": "medium",
            "high": "high",
            "xhigh": "xhigh",
        }
        rows: list[Row] = [
            ({"reasoning_effort": word}, {"thinking": shown, "output_config": {"effort": told}})
            for word, told in {**words, "max": "xhigh"}.items()
        ]
        off = {"thinking": {"type": "disabled"}, "output_config": None}
        self.check("chat", "messages", [*rows, ({"reasoning_effort": "none"}, off)])
        self.check("chat", "messages", [({}, {"thinking": None, "output_config": None})])
        least = {"thinking": None, "output_config": {"effort": "low"}}
        self.check("chat", "messages", [({"reasoning_effort": "none"}, least)], thinking_off=False)
        most = {"output_config": {"effort": "max"}}
        self.check(
            "chat", "messages", [({"reasoning_effort": "max"}, most)], efforts=("low", "max")
        )

    def test_budget(self) -> None:
        """A budget is at most half of the output, and none where that is too little."""
        table = {
            "minimal": 1024,
            "low": 2048,
            "medium": 8192,
            "high": 16384,
            "xhigh": 24576,
            "max": 32768,
        }
        rows: list[Row] = [
            (
                {"reasoning_effort": word, "max_tokens": 100_000},
                {"thinking": {"type": "enabled", "budget_tokens": budget}, "output_config": None},
            )
            for word, budget in table.items()
        ]
        half = {"thinking": {"type": "enabled", "budget_tokens": 1500}}
        rows += [
            ({"reasoning_effort": "max", "max_tokens": 3000}, half),
            ({"reasoning_effort": "max", "max_tokens": 2047}, {"thinking": None}),
            ({"reasoning_effort": "none", "max_tokens": 9000}, {"thinking": None}),
        ]
        self.check("chat", "messages", rows, thinking="budget")
        forced = {"reasoning_effort": "high", "max_tokens": 9000, "tool_choice": "required"}
        self.check(
            "chat", "messages", [(forced, {"thinking": None})], tools=True, thinking="budget"
        )

    def test_own_thinking(self) -> None:
        """The member of Anthropic's own wins over the effort, and goes as it is."""
        wish = {"type": "enabled", "budget_tokens": 2000, "odd": 1.50}
        row = {"thinking": wish, "reasoning_effort": "high", "temperature": 0.5}
        wanted = {"thinking": wish, "output_config": None, "temperature": None}
        self.check("chat", "messages", [(row, wanted)])

    def test_effort_at_openai(self) -> None:
        """An effort that the model lacks becomes the nearest."""
        rows: list[Row] = [
            ({"reasoning_effort": word}, {"reasoning": {"effort": told}})
            for word, told in {
                "none": "none",
                "minimal": "low",
                "high": "high",
                "max": "high",
            }.items()
        ]
        self.check("chat", "responses", rows, **REASONS)
        self.check("chat", "responses", [({"reasoning_effort": "low"}, {"reasoning": None})])

    def test_format(self) -> None:
        """A schema is a schema; JSON of any form is asked for in words."""
        schema = {"name": "n", "schema": SCHEMA, "strict": True, "description": "d"}
        wish = {"response_format": {"type": "json_schema", "json_schema": schema}}
        held = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
        sentence = "Respond only with a single valid JSON object and nothing else."
        rows: list[Row] = [
            ({"response_format": {"type": "text"}}, {"output_config": None, "system": None}),
            (wish, held),
            ({"response_format": {"type": "json_object"}}, {"system": sentence}),
        ]
        self.check("chat", "messages", rows)
        rows = [
            (wish, {"text": {"format": {"type": "json_schema", **schema}}}),
            (
                {"response_format": {"type": "json_object"}},
                {"text": {"format": {"type": "json_object"}}},
            ),
        ]
        self.check("chat", "responses", rows)
        self.check_refused(
            "chat", "messages", [(wish, "response_format")], structured_outputs=False
        )

    def test_user_and_tier(self) -> None:
        """The end user and the tier have other names."""
        rows: list[Row] = [
            ({"user": "u"}, {"metadata": {"user_id": "u"}}),
            ({"user": "u", "safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
            *(
                ({"service_tier": tier}, {"service_tier": told})
                for tier, told in {
                    "auto": "auto",
                    "priority": "auto",
                    "default": "standard_only",
                    "flex": None,
                    "scale": None,
                    "fast": None,
                }.items()
            ),
        ]
        self.check("chat", "messages", rows)
        self.check("chat", "responses", [({"user": "u"}, {"safety_identifier": "u"})])

    def test_dropped(self) -> None:
        """What only tunes, what says the default, and what nobody knows is left out."""
        members = {
            "n": 1,
            "logprobs": False,
            "top_logprobs": 0,
            "logit_bias": {},
            "modalities": ["text"],
            "audio": None,
            "web_search_options": None,
            "moderation": None,
            "presence_penalty": 0.5,
            "frequency_penalty": 0.5,
            "seed": 1,
            "prediction": {"type": "content", "content": "x"},
            "store": True,
            "metadata": {"a": "b"},
            "verbosity": "low",
            "prompt_cache_key": "k",
            "prompt_cache_retention": "24h",
            "prompt_cache_options": {"mode": "x"},
            "stream_options": {"include_usage": True, "include_obfuscation": False},
            "never_heard_of": {"a": [1]},
            "tools": [],
            "tool_choice": None,
            "stop": None,
            "temperature": None,
            "reasoning_effort": None,
            "response_format": None,
            "user": None,
        }
        for upstream in ("messages", "responses"):
            self.check_dropped("chat", upstream, members)

    def test_refused(self) -> None:
        """What would change the answer and has no counterpart is refused by its name."""
        custom = {"type": "custom", "custom": {"name": "f"}}
        rows: list[tuple[dict[str, Any], str]] = [
            ({"n": 2}, "n"),
            ({"logprobs": True}, "logprobs"),
            ({"top_logprobs": 2}, "top_logprobs"),
            ({"logit_bias": {"5": 1}}, "logit_bias"),
            ({"modalities": ["text", "audio"]}, "modalities"),
            ({"audio": {"voice": "v", "format": "wav"}}, "modalities"),
            ({"web_search_options": {}}, "web_search_options"),
            ({"moderation": {"model": "m"}}, "moderation"),
            ({"tools": [CHAT_TOOL, custom]}, "tools[1]"),
            (
                {"tools": [CHAT_TOOL], "tool_choice": {"type": "custom", "custom": {"name": "f"}}},
                "tool_choice",
            ),
            ({"response_format": {"type": "grammar"}}, "response_format"),
        ]
        for upstream in ("messages", "responses"):
            self.check_refused("chat", upstream, rows)

    def test_roles(self) -> None:
        """A developer is one to Responses, too, and the system to Anthropic."""
        said = [{"role": role, "content": role} for role in ("system", "developer", "user")]
        items = [{"type": "message", **message} for message in said]
        self.check("chat", "responses", [({"messages": said}, {"input": items})])
        texts = [{"type": "text", "text": text} for text in ("system", "developer")]
        self.check("chat", "messages", [({"messages": said}, {"system": texts})])

    def test_parts_refused(self) -> None:
        """So are parts of messages, by their place."""
        text = {"type": "text", "text": "x"}
        png = "data:image/png;base64,AAAA"
        for part, place in (
            ({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}, ""),
            ({"type": "video_url", "video_url": {"url": png}}, ""),
            ({"type": "image_url", "image_url": {"url": "ftp://x.test/a.png"}}, ".image_url.url"),
            ({"type": "file", "file": {"file_id": "file-1"}}, ".file.file_id"),
            (
                {"type": "file", "file": {"file_data": "data:application/zip;base64,AAAA"}},
                ".file.file_data",
            ),
            ({"type": "file", "file": {"file_data": "AAAA", "filename": "a"}}, ".file.file_data"),
        ):
            body = {"messages": [{"role": "user", "content": [text, part]}]}
            for upstream in ("messages", "responses"):
                path = f"messages[0].content[1]{place}"
                self.check_refused("chat", upstream, [(body, path)])
        heic = {"type": "image_url", "image_url": {"url": "data:image/heic;base64,AAAA"}}
        body = {"messages": [{"role": "user", "content": [heic]}]}
        path = "messages[0].content[0].image_url.url"
        self.check_refused("chat", "messages", [(body, path)])
        self.assertTrue(sent("chat", "responses", body, {}))
        said: dict[str, Any] = {"role": "user", "content": "Hi"}
        messages: list[tuple[dict[str, Any], str]] = [
            ({"role": "assistant", "audio": {"id": "a"}}, ".audio"),
            (
                {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {}}]},
                ".tool_calls[0]",
            ),
        ]
        for message, place in messages:
            body = {"messages": [said, message, said]}
            for upstream in ("messages", "responses"):
                self.check_refused("chat", upstream, [(body, f"messages[1]{place}")])


class MessagesTests(RuleTestCase):
    """Of clients of Messages."""

    def test_tokens(self) -> None:
        """The bound has the name that the upstream takes."""
        for field in ("max_tokens", "max_completion_tokens"):
            rows: list[Row] = [
                ({"max_tokens": 9}, {field: 9}),
                ({"max_tokens": 9000}, {field: 4000}),
            ]
            self.check("messages", "chat", rows, max_tokens_field=field, max_output=4000)
        self.check("messages", "responses", [({"max_tokens": 1}, {"max_output_tokens": 16})])
        for upstream in ("chat", "responses"):
            self.check_refused("messages", upstream, [({"max_tokens": 0}, "max_tokens")])

    def test_sampling_and_stop(self) -> None:
        """``top_k`` has no counterpart; four stop sequences are the most that Chat takes."""
        given = {"temperature": 0.5, "top_p": 0.9, "top_k": 5}
        both = {"temperature": 0.5, "top_p": 0.9, "top_k": None}
        for upstream in ("chat", "responses"):
            self.check("messages", upstream, [(given, both)])
            self.check("messages", upstream, [(given, dict.fromkeys(given))], sampling=False)
        four, five = [*"abcd"], [*"abcde"]
        self.check("messages", "chat", [({"stop_sequences": four}, {"stop": four})])
        self.check("messages", "chat", [({"stop_sequences": five}, {"stop": None})], stop=False)
        self.check_refused("messages", "chat", [({"stop_sequences": five}, "stop_sequences")])
        self.check("messages", "responses", [({"stop_sequences": five}, {"stop": None})])

    def test_stream(self) -> None:
        """Usage is asked for with every stream of Chat."""
        wanted = {"stream": True, "stream_options": {"include_usage": True}}
        self.check("messages", "chat", [({"stream": True}, wanted)])
        wanted = {"stream": True, "stream_options": None}
        self.check("messages", "responses", [({"stream": True}, wanted)])
        self.check("messages", "chat", [({}, {"stream": None, "stream_options": None})])

    def test_responses_state(self) -> None:
        """Nothing is stored at the provider, and its sealed reasoning comes along."""
        wanted = {"store": False, "include": ["reasoning.encrypted_content"]}
        self.check("messages", "responses", [({}, wanted)])
        self.check("chat", "responses", [({}, {"store": False, "include": None})])

    def test_user_and_tier(self) -> None:
        """A long name is told apart by its hash; names that fit stay."""
        digest = sha256(b"u" * 129).hexdigest()
        for field in ("user", "safety_identifier"):
            rows: list[Row] = [
                ({"metadata": {"user_id": "u" * 128}}, {field: "u" * 128}),
                ({"metadata": {"user_id": "u" * 129}}, {field: digest}),
                ({"metadata": {"user_id": None}}, {field: None}),
            ]
            for upstream in ("chat", "responses"):
                self.check("messages", upstream, rows, user_field=field)
        rows = [
            ({"service_tier": "auto"}, {"service_tier": "auto"}),
            ({"service_tier": "standard_only"}, {"service_tier": "default"}),
        ]
        for upstream in ("chat", "responses"):
            self.check("messages", upstream, rows)

    def test_tools(self) -> None:
        """Strictness is told where it is wished; what only Anthropic's tools have is not."""
        extra = {
            "type": "custom",
            "cache_control": {"type": "ephemeral"},
            "input_examples": [{}],
            "allowed_callers": ["direct"],
            "defer_loading": True,
            "eager_input_streaming": True,
        }
        tools: list[Any] = [
            {**MESSAGES_TOOL, **extra},
            {**MESSAGES_TOOL, "strict": True, "description": "d"},
        ]
        wanted = [
            CHAT_TOOL,
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": SCHEMA,
                    "strict": True,
                },
            },
        ]
        self.check("messages", "chat", [({"tools": tools}, {"tools": wanted})])
        choices = {
            "auto": "auto",
            "any": "required",
            "none": "none",
        }
        rows: list[Row] = [
            ({"tool_choice": {"type": kind}}, {"tool_choice": told, "parallel_tool_calls": None})
            for kind, told in choices.items()
        ]
        for upstream in ("chat", "responses"):
            self.check("messages", upstream, rows, tools=True)
            one = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
            told = {"tool_choice": "auto", "parallel_tool_calls": False}
            self.check("messages", upstream, [(one, told)], tools=True)
        named = {"tool_choice": {"type": "tool", "name": "f"}}
        chat = {"tool_choice": {"type": "function", "function": {"name": "f"}}}
        flat = {"tool_choice": {"type": "function", "name": "f"}}
        self.check("messages", "chat", [(named, chat)], tools=True)
        self.check("messages", "responses", [(named, flat)], tools=True)

    def test_thinking(self) -> None:
        """An effort by name wins; a budget is an effort by its size; none is ``none``, or low."""
        cases: list[tuple[dict[str, Any], str | None]] = [
            ({"thinking": {"type": "enabled", "budget_tokens": 4095}}, "low"),
            ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "medium"),
            ({"thinking": {"type": "enabled", "budget_tokens": 16383}}, "medium"),
            ({"thinking": {"type": "enabled", "budget_tokens": 16384}}, "high"),
            ({"thinking": {"type": "disabled"}}, "none"),
            ({"thinking": {"type": "adaptive"}}, None),
            ({"output_config": {"effort": "medium"}}, "medium"),
            (
                {
                    "thinking": {"type": "enabled", "budget_tokens": 1024},
                    "output_config": {"effort": "high"},
                },
                "high",
            ),
        ]
        rows: list[Row] = [(members, {"reasoning_effort": told}) for members, told in cases]
        self.check("messages", "chat", rows, **REASONS)
        for members, told in cases:
            body = sent("messages", "responses", members, REASONS)
            self.assertEqual(told, body.get("reasoning", {}).get("effort"), members)
            self.check("messages", "chat", [(members, {"reasoning_effort": None})])
            self.check("messages", "responses", [(members, {"reasoning": None})])
        low = {"reasoning_effort": "low"}
        off = {"thinking": {"type": "disabled"}}
        self.check("messages", "chat", [(off, low)], **(REASONS | {"effort_none": False}))

    def test_summaries(self) -> None:
        """A client that is shown thinking gets a summary of it from Responses."""
        for thinking, told in (
            ({"type": "adaptive"}, "auto"),
            ({"type": "enabled", "budget_tokens": 2000, "display": "summarized"}, "auto"),
            ({"type": "enabled", "budget_tokens": 2000, "display": "omitted"}, None),
            ({"type": "disabled"}, None),
        ):
            body = sent("messages", "responses", {"thinking": thinking}, REASONS)
            self.assertEqual(told, body.get("reasoning", {}).get("summary"), thinking)

    def test_format(self) -> None:
        """A schema is strict where it can be."""
        closed = {**SCHEMA, "additionalProperties": False, "required": ["a"]}
        for schema, strict in ((closed, True), (SCHEMA, False)):
            member = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
            told = {"name": "response", "schema": schema, "strict": strict}
            wanted = {"type": "json_schema", "json_schema": told}
            self.check("messages", "chat", [(member, {"response_format": wanted})])
            flat = {"text": {"format": {"type": "json_schema", **told}}}
            self.check("messages", "responses", [(member, flat)])

    def test_dropped(self) -> None:
        """What is about Anthropic's own service is left out."""
        members: dict[str, Any] = {
            "cache_control": {"type": "ephemeral"},
            "inference_geo": "us",
            "speed": "fast",
            "diagnostics": {"a": 1},
            "user_profile_id": "p",
            "never_heard_of": [1],
            "container": None,
            "mcp_servers": [],
            "context_management": {"edits": []},
            "metadata": {},
            "stop_sequences": [],
            "system": None,
        }
        for upstream in ("chat", "responses"):
            self.check_dropped("messages", upstream, members)

    def test_refused(self) -> None:
        """What only Anthropic runs is refused by its place."""
        rows: list[tuple[dict[str, Any], str]] = [
            ({"container": "c"}, "container"),
            ({"mcp_servers": [{"type": "url", "name": "n", "url": "https://x"}]}, "mcp_servers"),
            (
                {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
                "context_management.edits[0]",
            ),
            *(
                ({"tools": [MESSAGES_TOOL, {"type": kind, "name": "x"}]}, "tools[1]")
                for kind in (
                    "bash_20250124",
                    "text_editor_20250728",
                    "computer_20251124",
                    "browser_20260801",
                    "memory_20250818",
                    "web_search_20250305",
                    "web_fetch_20250910",
                    "code_execution_20250825",
                    "tool_search_tool_regex_20251119",
                    "mcp_toolset",
                )
            ),
        ]
        for upstream in ("chat", "responses"):
            self.check_refused("messages", upstream, rows)

    def test_blocks_refused(self) -> None:
        """So are blocks, in a message as in the result of a tool."""
        calls = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]}
        said = {"role": "user", "content": "Hi"}
        file = {"type": "file", "file_id": "file_1"}
        inner = {"type": "document", "source": {"type": "text", "data": "x"}}
        for block, place in (
            ({"type": "container_upload", "file_id": "f"}, ""),
            ({"type": "tool_reference", "tool_name": "f"}, ""),
            ({"type": "browser_state", "state": "x"}, ""),
            ({"type": "never_heard_of"}, ""),
            ({"type": "image", "source": file}, ".source"),
            ({"type": "document", "source": file}, ".source"),
            (
                {"type": "document", "source": {"type": "content", "content": [inner]}},
                ".source.content[0]",
            ),
        ):
            result = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
            for messages, path in (
                ([{"role": "user", "content": [block]}], "messages[0].content[0]"),
                (
                    [said, calls, {"role": "user", "content": [result]}],
                    "messages[2].content[0].content[0]",
                ),
            ):
                for upstream in ("chat", "responses"):
                    row = ({"messages": messages}, path + place)
                    self.check_refused("messages", upstream, [row])
        fetched = {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}}
        body = {"messages": [{"role": "user", "content": [fetched]}]}
        self.check_refused("messages", "chat", [(body, "messages[0].content[0].source")])
        part = {"type": "input_file", "file_url": "https://x.test/a.pdf"}
        message = {"type": "message", "role": "user", "content": [part]}
        self.check("messages", "responses", [(body, {"input": [message]})])

    def test_history_dropped(self) -> None:
        """What a provider's own tools did, and what is signed for another, is passed over."""
        said = {"role": "user", "content": "Hi"}
        blocks = [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
        ]
        messages = [said, {"role": "assistant", "content": blocks}, said]
        chat = [said, {"role": "assistant", "content": "ab"}, said]
        self.check("messages", "chat", [({"messages": messages}, {"messages": chat})])
        items = [{"type": "message", **message} for message in chat]
        row = ({"messages": messages}, {"input": items})
        self.check("messages", "responses", [row], **REASONS)


class ResponsesTests(RuleTestCase):
    """Of clients of Responses."""

    def test_roles(self) -> None:
        """A developer is the system to servers of Chat, which often know no other word."""
        said = [{"role": role, "content": role} for role in ("system", "developer", "user")]
        told = [dict(message) for message in said]
        told[1]["role"] = "system"
        self.check("responses", "chat", [({"input": said}, {"messages": told})])

    def test_parameters(self) -> None:
        """Flat members stand where each protocol has them."""
        wish = {"type": "json_schema", "name": "n", "schema": SCHEMA}
        given: dict[str, Any] = {
            "instructions": "Be brief.",
            "max_output_tokens": 99,
            "temperature": 0.5,
            "user": "u",
            "safety_identifier": "s",
            "service_tier": "default",
            "stream": True,
            "tools": [RESPONSES_TOOL],
            "tool_choice": {"type": "function", "name": "f"},
            "parallel_tool_calls": False,
            "reasoning": {"effort": "low", "summary": "auto", "context": "x", "mode": "y"},
            "text": {"format": wish, "verbosity": "low"},
        }
        wanted: dict[str, Any] = {
            "max_tokens": 99,
            "stream": True,
            "tools": [MESSAGES_TOOL],
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "Hi"}],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": SCHEMA},
            },
            "metadata": {"user_id": "s"},
            "service_tier": "standard_only",
            "model": "m",
        }
        self.assertEqual(wanted, sent("responses", "messages", given, {}))
        wanted = {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            "max_tokens": 99,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.5,
            "tools": [CHAT_TOOL],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "reasoning_effort": "low",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": SCHEMA},
            },
            "service_tier": "default",
            "user": "s",
        }
        caps = {**REASONS, "max_tokens_field": "max_tokens", "user_field": "user"}
        self.assertEqual(wanted, sent("responses", "chat", given, caps))

    def test_dropped(self) -> None:
        """What is echoed, or only concerns OpenAI's store, is not sent on."""
        members: dict[str, Any] = {
            "store": True,
            "include": ["reasoning.encrypted_content"],
            "metadata": {"a": "b"},
            "truncation": "auto",
            "prompt_cache_key": "k",
            "prompt_cache_retention": "24h",
            "max_tool_calls": 3,
            "stream_options": {"include_obfuscation": False},
            "top_logprobs": 0,
            "background": False,
            "previous_response_id": None,
            "conversation": None,
            "text": {"format": {"type": "text"}, "verbosity": "high"},
            "never_heard_of": 1,
        }
        for upstream in ("chat", "messages"):
            self.check_dropped("responses", upstream, members)

    def test_refused(self) -> None:
        """What needs a stored state, or OpenAI's own tools, is refused by its place."""
        said = {"role": "user", "content": "Hi"}
        rows: list[tuple[dict[str, Any], str]] = [
            ({"previous_response_id": "resp_1"}, "previous_response_id"),
            ({"conversation": "conv_1"}, "conversation"),
            ({"conversation": {"id": "conv_1"}}, "conversation"),
            ({"background": True}, "background"),
            ({"prompt": {"id": "p"}}, "prompt"),
            ({"top_logprobs": 1}, "top_logprobs"),
            ({"moderation": {"model": "m"}}, "moderation"),
            ({"context_management": [{"type": "compaction"}]}, "context_management"),
            *(
                ({"tools": [RESPONSES_TOOL, {"type": kind}]}, "tools[1]")
                for kind in (
                    "web_search",
                    "file_search",
                    "custom",
                    "mcp",
                    "shell",
                    "image_generation",
                )
            ),
            (
                {"tools": [RESPONSES_TOOL], "tool_choice": {"type": "web_search"}},
                "tool_choice",
            ),
            *(
                ({"input": [said, {"type": kind, "id": "x"}]}, "input[1]")
                for kind in (
                    "item_reference",
                    "compaction",
                    "computer_call",
                    "computer_call_output",
                    "shell_call",
                    "apply_patch_call",
                    "mcp_call",
                    "mcp_list_tools",
                    "image_generation_call",
                    "code_interpreter_call",
                    "web_search_call",
                    "file_search_call",
                    "custom_tool_call",
                    "custom_tool_call_output",
                )
            ),
            (
                {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
                "input[0].content[0].file_id",
            ),
            (
                {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
                "input[0].content[0].file_id",
            ),
            (
                {"input": [{"role": "user", "content": [{"type": "input_audio", "data": "x"}]}]},
                "input[0].content[0]",
            ),
        ]
        for upstream in ("chat", "messages"):
            self.check_refused("responses", upstream, rows)
