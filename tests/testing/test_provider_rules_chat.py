"""The rules of Chat Completions that the fake provider keeps."""

import base64
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_heard import HeardCall, HeardResult, Media
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_rules_chat import hear_chat
from tests.testing.broken import GONE, Change, wrong
from tests.testing.provider_requests import post

DATA = base64.b64encode(b"of a picture").decode()
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
GOOD: dict[str, Any] = {
    "model": "m",
    "max_completion_tokens": 100,
    "stream": True,
    "stream_options": {"include_usage": True},
    "stop": ["END"],
    "safety_identifier": "u",
    "reasoning_effort": "high",
    "parallel_tool_calls": False,
    "tool_choice": {"type": "function", "function": {"name": "a"}},
    "tools": [
        {"type": "function", "function": {"name": "a", "parameters": CLOSED, "strict": True}},
        {"type": "function", "function": {"name": "b", "description": "d"}},
    ],
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "response", "schema": CLOSED, "strict": True},
    },
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": f"data:application/pdf;base64,{DATA}",
                    },
                },
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "a", "arguments": '{"n":1}'}},
                {"id": "c2", "type": "function", "function": {"name": "b", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "one"}]},
        {"role": "user", "content": "Go on"},
    ],
}
_USER = ("messages", 1, "content")
_CALL = ("messages", 2, "tool_calls", 0)
CHANGES: list[Change] = [
    (("max_tokens",), 5, "together with max_completion_tokens"),
    (("max_completion_tokens",), 0, "max_completion_tokens"),
    (("thinking",), {}, "body.thinking: unknown parameter"),
    (("stream",), False, "stream_options: is only allowed"),
    (("stop",), ["a", "b", "c", "d", "e"], "stop: at most 4"),
    (("user",), "u" * 129, "user: is longer"),
    (("reasoning_effort",), "huge", "reasoning_effort"),
    (("tools",), [], "is only allowed when 'tools' are specified"),
    (("tool_choice", "function", "name"), "c", "tool_choice"),
    (("tool_choice",), "any", "tool_choice"),
    (("tools", 0, "function", "name"), "a" * 65, "no name of a function"),
    (("tools", 0, "function", "name"), "b", "must be unique"),
    (("tools", 0, "function", "input_schema"), {}, "unknown parameter"),
    (("tools", 0, "function", "parameters"), {"type": "object"}, "additionalProperties"),
    (("tools", 0, "function", "parameters"), {}, "not that of an object"),
    (("tools", 1, "type"), "custom", "tools[1].type"),
    (("response_format", "json_schema", "name"), "a b", "response_format.json_schema.name"),
    (("response_format", "json_schema", "schema", "required"), [], "must name every property"),
    (("response_format", "type"), "json_object", "response_format"),
    (("messages",), [], "messages: a list"),
    (("messages", 0, "role"), "model", "messages[0].role"),
    (("messages", 0, "content"), None, "messages[0].content: is missing"),
    ((*_USER, 0, "type"), "input_text", "type"),
    ((*_USER, 0, "cache_control"), {}, "unknown parameter"),
    ((*_USER, 1, "image_url", "url"), f"data:image/jpg;base64,{DATA}", "image/jpg"),
    ((*_USER, 1, "image_url", "url"), "ftp://h/a.png", "neither a data URL"),
    ((*_USER, 1, "image_url", "url"), "data:image/png;base64,####", "is no base64"),
    ((*_USER, 1, "image_url", "detail"), "best", "detail"),
    ((*_USER, 2, "file", "filename"), GONE, "filename is missing"),
    ((*_USER, 2, "file", "file_data"), f"data:text/plain;base64,{DATA}", "text/plain"),
    (("messages", 2, "tool_calls"), GONE, "content is required"),
    (("messages", 2, "tool_calls"), [], "a list that is not empty"),
    (("messages", 2, "thinking_blocks"), [], "unknown parameter"),
    (("messages", 2, "reasoning_content"), "Hm", "unknown parameter"),
    ((*_CALL, "id"), "c" * 41, "is longer than 40"),
    ((*_CALL, "id"), "c2", "must be unique"),
    ((*_CALL, "id"), "", "is blank"),
    ((*_CALL, "index"), 0, "unknown parameter"),
    ((*_CALL, "function", "name"), "a.b", "is no name"),
    ((*_CALL, "function", "arguments"), "{", "is no JSON"),
    ((*_CALL, "function", "arguments"), {}, "a string is expected"),
    (("messages", 3), GONE, "are not answered by tool messages"),
    (("messages", 4), {"role": "user", "content": "x"}, "are not answered by tool messages"),
    (("messages", 3, "tool_call_id"), "c3", "answers none of the calls"),
    (("messages", 3, "name"), "b", "unknown parameter"),
    (("messages", 4, "content", 0), {"type": "image_url", "image_url": {}}, "type"),
]


def seen(fields: dict[str, Any]) -> SeenRequest:
    """A request with these fields."""
    return post("/v1/chat/completions", **fields)


class ChatRuleTests(SynchronousTestCase):
    """hear_chat."""

    def test_a_good_request(self) -> None:
        """Everything that a request says is heard."""
        heard = hear_chat(seen(GOOD))
        self.assertEqual(
            [turn.role for turn in heard.turns], ["system", "user", "assistant", "tool", "user"]
        )
        self.assertEqual((heard.tools, heard.schema), ({"a": CLOSED, "b": {}}, CLOSED))
        self.assertEqual((heard.thinks, heard.seals), (True, False))
        user, said, answered = heard.turns[1:4]
        pdf = Media("application/pdf", b"of a picture")
        self.assertEqual(user.media, [Media("image/png", b"of a picture"), pdf])
        self.assertEqual(said.calls, [HeardCall("c1", "a", {"n": 1}), HeardCall("c2", "b", {})])
        self.assertEqual(answered.results, [HeardResult("c2", ""), HeardResult("c1", "one")])

    def test_broken_ones(self) -> None:
        """One thing changed is refused, and the refusal says what."""
        self.assertEqual(wrong(hear_chat, seen, GOOD, CHANGES), [])
