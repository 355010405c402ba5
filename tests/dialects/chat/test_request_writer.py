"""What a Chat upstream is asked."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.chat.request_writer import write_request
from omnigate.dialects.messages.request_reader import read_request as read_messages_request
from omnigate.dialects.responses.request_reader import read_request as read_responses_request
from omnigate.dialects.shapes import (
    Choice,
    Format,
    Quirk,
    Request,
    Role,
    Text,
    ThinkingWish,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
    Written,
)
from omnigate.dialects.tool_ids import openai_name
from omnigate.errors import GatewayError
from tests.dialects.vectors import same_request, vectors

HI = Turn(Role.USER, [Text("hi")], True, "messages[0]")
LONG = "n" * 100


def written(
    request: Request, caps: Capabilities | None = None, quirks: Quirk = Quirk.NONE
) -> dict[str, Any]:
    """Write a request and return its body."""
    body: dict[str, Any] = json.loads(
        write_request(request, "m", caps or Capabilities(), quirks).body
    )
    return body


def members(
    request: Request, caps: Capabilities | None = None, quirks: Quirk = Quirk.NONE
) -> dict[str, Any]:
    """Write a request and return what stands beside model and messages."""
    body = written(request, caps, quirks)
    assert body.pop("model") == "m"
    assert body.pop("messages")
    return body


class GoldenTests(SynchronousTestCase):
    """The golden requests for a Chat upstream."""

    def test_vectors(self) -> None:
        """Every golden request is written as it should be, or refused."""
        readers = {"messages": read_messages_request, "responses": read_responses_request}
        for vector in vectors(upstream="chat"):
            if vector.sent is None:
                error = self.assertRaises(
                    GatewayError,
                    lambda vector=vector: write_request(
                        readers[vector.client](vector.body), "m", vector.caps, Quirk.NONE
                    ),
                )
                self.assertEqual(error.kind.code, "untranslatable_request", vector.name)
                continue
            request = readers[vector.client](vector.body)
            model = vector.sent["model"]
            same_request(vector, write_request(request, model, vector.caps, Quirk.NONE).body)


class ParameterTests(SynchronousTestCase):
    """The members beside the messages."""

    def test_least(self) -> None:
        """What the client did not say is not sent."""
        self.assertEqual(
            written(Request([HI])),
            {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
        )

    def test_all(self) -> None:
        """What the client said, in the words and fields of the upstream."""
        request = Request(
            [HI],
            stream=True,
            max_tokens=5,
            temperature=0.5,
            top_p=0.25,
            top_k=4,
            stop=["a"],
            user="ann",
            service_tier="default",
        )
        self.assertEqual(
            members(request),
            {
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_completion_tokens": 5,
                "temperature": 0.5,
                "top_p": 0.25,
                "stop": ["a"],
                "safety_identifier": "ann",
                "service_tier": "default",
            },
        )
        other = Capabilities(
            max_tokens_field="max_tokens", user_field="user", sampling=False, stop=False
        )
        self.assertEqual(
            members(request, other),
            {
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": 5,
                "user": "ann",
                "service_tier": "default",
            },
        )

    def test_quirk_of_sampling(self) -> None:
        """A model that was seen to refuse sampling is asked without."""
        request = Request([HI], temperature=0.5, top_p=0.25)
        self.assertEqual(members(request, quirks=Quirk.NO_SAMPLING), {})
        both = Quirk.NO_SAMPLING | Quirk.THOUGHT_SIGNATURE
        self.assertEqual(members(request, quirks=both), {})
        self.assertEqual(len(members(request, quirks=Quirk.THOUGHT_SIGNATURE)), 2)

    def test_effort(self) -> None:
        """Only a model that reasons is told how hard."""
        reasons = Capabilities(reasoning=True)
        self.assertEqual(members(Request([HI], effort="high")), {})
        self.assertEqual(
            members(Request([HI], effort="high"), reasons), {"reasoning_effort": "high"}
        )
        budget = Request([HI], thinking=ThinkingWish("enabled", 5000))
        self.assertEqual(members(budget, reasons), {"reasoning_effort": "medium"})

    def test_too_many_stops(self) -> None:
        """Five stop sequences are refused."""
        error = self.assertRaises(GatewayError, written, Request([HI], stop=list("abcde")))
        self.assertEqual(
            (error.kind.code, error.param), ("untranslatable_request", "stop_sequences")
        )

    def test_empty(self) -> None:
        """A conversation in which nothing is said is refused."""
        for turns, place in (
            ([], "messages"),
            ([Turn(Role.USER, [], path="input[0]")], "input[0]"),
        ):
            error = self.assertRaises(GatewayError, written, Request(turns))
            self.assertEqual((error.kind.code, error.param), ("untranslatable_request", place))

    def test_formats(self) -> None:
        """The form of the answer; a schema goes as it was written."""
        self.assertEqual(
            members(Request([HI], format=Format())), {"response_format": {"type": "json_object"}}
        )
        form = Format(b'{"multipleOf":1.10}', "n", "d", False)
        body = write_request(Request([HI], format=form), "m", Capabilities(), Quirk.NONE).body
        self.assertIn(b'"schema":{"multipleOf":1.10}', body)
        self.assertEqual(
            json.loads(body)["response_format"],
            {
                "type": "json_schema",
                "json_schema": {
                    "name": "n",
                    "description": "d",
                    "strict": False,
                    "schema": {"multipleOf": 1.1},
                },
            },
        )
        self.assertEqual(
            members(Request([HI], format=Format(b"{}")))["response_format"]["json_schema"],
            {"name": "response", "schema": {}},
        )


class ToolTests(SynchronousTestCase):
    """Tools, and which of them may be called."""

    def test_tools(self) -> None:
        """Functions; strict is sent only where it is wished for."""
        tools = [
            Tool("f", "d", b'{ "minimum":1.50 }', True),
            Tool("g", strict=False),
            Tool("h"),
        ]
        body = write_request(Request([HI], tools=tools), "m", Capabilities(), Quirk.NONE).body
        self.assertIn(b'"parameters":{ "minimum":1.50 }', body)
        self.assertEqual(
            json.loads(body)["tools"],
            [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "description": "d",
                        "parameters": {"minimum": 1.5},
                        "strict": True,
                    },
                },
                {"type": "function", "function": {"name": "g"}},
                {"type": "function", "function": {"name": "h"}},
            ],
        )

    def test_choices(self) -> None:
        """Every way to choose; without tools there is nothing to say."""
        for choice, sent in (
            (ToolChoice(Choice.AUTO), "auto"),
            (ToolChoice(Choice.NONE), "none"),
            (ToolChoice(Choice.REQUIRED), "required"),
            (ToolChoice(Choice.NAMED, "f"), {"type": "function", "function": {"name": "f"}}),
        ):
            request = Request([HI], tools=[Tool("f")], tool_choice=choice, parallel=False)
            body = members(request)
            self.assertEqual((body["tool_choice"], body["parallel_tool_calls"]), (sent, False))
            request.tools = []
            self.assertEqual(members(request), {})
        for parallel in (None, True):
            request = Request([HI], tools=[Tool("f")], parallel=parallel)
            self.assertEqual(members(request).keys(), {"tools"})

    def test_long_names(self) -> None:
        """A name that OpenAI would not take is the same short one everywhere, and told of."""
        request = Request(
            [
                HI,
                Turn(Role.ASSISTANT, [ToolCall("a", LONG, "{}")]),
                Turn(Role.TOOL, [ToolResult("a", [])]),
            ],
            tools=[Tool(LONG), Tool("f")],
            tool_choice=ToolChoice(Choice.NAMED, LONG),
        )
        made: Written = write_request(request, "m", Capabilities(), Quirk.NONE)
        short = openai_name(LONG)
        self.assertEqual(made.tool_names, {short: LONG})
        body = json.loads(made.body)
        self.assertEqual(body["tools"][0]["function"]["name"], short)
        self.assertEqual(body["tool_choice"]["function"]["name"], short)
        self.assertEqual(body["messages"][1]["tool_calls"][0]["function"]["name"], short)
        self.assertNotIn(LONG.encode(), made.body)
