"""The rules of the Responses API that the fake provider keeps."""

import base64
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_heard import HeardCall, HeardResult, Media, Thought, seal_of
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_rules_responses import hear_responses
from tests.testing.broken import GONE, Change, wrong
from tests.testing.provider_requests import post

DATA = base64.b64encode(b"of a picture").decode()
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}", "detail": "auto"}
GOOD: dict[str, Any] = {
    "model": "m",
    "max_output_tokens": 16,
    "instructions": "Be brief.",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "high", "summary": "auto"},
    "tools": [
        {"type": "function", "name": "a", "parameters": CLOSED, "strict": True},
        {"type": "function", "name": "b", "parameters": None, "strict": False},
    ],
    "tool_choice": {"type": "function", "name": "a"},
    "text": {
        "format": {"type": "json_schema", "name": "response", "schema": CLOSED, "strict": True}
    },
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                IMAGE,
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": f"data:application/pdf;base64,{DATA}",
                },
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": text} for text in ("Hm", "So")],
            "encrypted_content": seal_of("Hm"),
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Well", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "a", "arguments": '{"n":1}'},
        {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "b", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": [IMAGE]},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
    ],
}
CHANGES: list[Change] = [
    (("input",), GONE, "input: is missing"),
    (("input",), [], "input: a list"),
    (("input",), "", "input: is blank"),
    (("max_output_tokens",), 15, "at least 16"),
    (("stop",), ["a"], "body.stop: unknown parameter"),
    (("safety_identifier",), "u" * 129, "is longer"),
    (("include",), ["all"], "include[0]"),
    (("reasoning", "effort"), "huge", "reasoning.effort"),
    (("reasoning", "summary"), "yes", "reasoning.summary"),
    (("tools", 0, "strict"), GONE, "strict is missing"),
    (("tools", 0, "function"), {}, "unknown parameter"),
    (("tools", 0, "type"), "web_search", "tools[0].type"),
    (("tools", 0, "name"), "a b", "no name of a function"),
    (("tools", 0, "parameters", "additionalProperties"), GONE, "additionalProperties"),
    (("tools",), [], "is only allowed when 'tools' are specified"),
    (("tool_choice", "name"), "c", "tool_choice"),
    (("text", "format", "name"), GONE, "name is missing"),
    (("text", "format", "schema"), {"type": "object"}, "additionalProperties"),
    (("input", 0, "role"), "tool", "input[0].role"),
    (("input", 0, "content", 0, "type"), "output_text", "input[0].content[0].type"),
    (("input", 0, "content", 1, "detail"), GONE, "detail is missing"),
    (("input", 0, "content", 1, "image_url"), "data:image/bmp;base64,AAAA", "image/bmp"),
    (("input", 0, "content", 2, "filename"), GONE, "filename is missing"),
    (("input", 1, "id"), "item_1", "does not begin with 'rs_'"),
    (("input", 1, "encrypted_content"), "", "is blank"),
    (("input", 1, "encrypted_content"), None, "a string is expected"),
    (("input", 1, "encrypted_content"), "omnigate.v1:e30=", "could not be verified"),
    (("input", 1, "summary", 0, "type"), "text", "summary[0].type"),
    (("input", 2), {"role": "user", "content": "x"}, "without its required following item"),
    (("input", 2, "content", 0, "type"), "input_text", "input[2].content[0].type"),
    (("input", 2, "id"), "rs_2", "does not begin with 'msg_'"),
    (("input", 3, "call_id"), "c2", "stands twice"),
    (("input", 3, "call_id"), "c" * 65, "is longer than 64"),
    (("input", 3, "arguments"), "[]", "an object is expected"),
    (("input", 3, "parsed_arguments"), {}, "unknown parameter"),
    (("input", 3), GONE, "No tool call found"),
    (("input", 4, "id"), "call_2", "does not begin with 'fc_'"),
    (("input", 5), GONE, "No tool output found"),
    (("input", 5, "call_id"), "c3", "No tool call found"),
    (("input", 6, "type"), "custom_tool_call_output", "input[6].type"),
]


def seen(fields: dict[str, Any]) -> SeenRequest:
    """A request with these fields."""
    return post("/v1/responses", **fields)


class ResponsesRuleTests(SynchronousTestCase):
    """hear_responses."""

    def test_a_good_request(self) -> None:
        """Everything that a request says is heard."""
        heard = hear_responses(seen(GOOD))
        self.assertEqual(
            [turn.role for turn in heard.turns], ["system", "user", "assistant", "tool"]
        )
        self.assertEqual((heard.tools, heard.schema), ({"a": CLOSED, "b": {}}, CLOSED))
        self.assertEqual((heard.thinks, heard.shows, heard.seals), (True, True, True))
        user, said, answered = heard.turns[1:]
        picture = Media("image/png", b"of a picture")
        self.assertEqual(user.media, [picture, Media("application/pdf", b"of a picture")])
        self.assertEqual(said.thoughts, [Thought("Hm\n\nSo", seal_of("Hm"))])
        self.assertEqual(said.text, "Well")
        self.assertEqual(said.calls, [HeardCall("c1", "a", {"n": 1}), HeardCall("c2", "b", {})])
        results = [HeardResult("c2", "", (picture,)), HeardResult("c1", "one")]
        self.assertEqual(answered.results, results)

    def test_broken_ones(self) -> None:
        """One thing changed is refused, and the refusal says what."""
        self.assertEqual(wrong(hear_responses, seen, GOOD, CHANGES), [])
