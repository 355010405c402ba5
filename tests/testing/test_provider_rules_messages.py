"""The rules of Anthropic Messages that the fake provider keeps."""

import base64
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_heard import BrokenRuleError, HeardCall, Media, Thought, seal_of
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_rules_messages import hear_messages
from tests.testing.broken import GONE, Change, changed, wrong
from tests.testing.provider_requests import post

HEADERS = {"anthropic-version": "2023-06-01"}
DATA = base64.b64encode(b"of a picture").decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
PAPER = {
    "type": "document",
    "title": "a.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
}
GOOD: dict[str, Any] = {
    "model": "m",
    "max_tokens": 3000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
    "tools": [
        {"name": name, "description": "d", "input_schema": {"type": "object"}} for name in "ab"
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "metadata": {"user_id": "u"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE, PAPER]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": seal_of("Hm")},
                {"type": "redacted_thinking", "data": seal_of("x")},
                {"type": "text", "text": "Well"},
                {"type": "tool_use", "id": "t1", "name": "a", "input": {"n": 1}},
                {"type": "tool_use", "id": "t2", "name": "b", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t2"},
                {"type": "tool_result", "tool_use_id": "t1", "content": [IMAGE]},
                {"type": "text", "text": "Go on"},
            ],
        },
        {"role": "system", "content": "Faster"},
    ],
}
GOOD["output_config"]["format"]["schema"] = {"type": "object"}

_MARK = {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}
_SAID = ("messages", 1, "content")
_HEARD = ("messages", 2, "content")
CHANGES: list[Change] = [
    (("max_tokens",), GONE, "max_tokens is missing"),
    (("max_tokens",), 0, "max_tokens: an integer of at least 1"),
    (("max_tokens",), 2000, "must be greater than thinking.budget_tokens"),
    (("n",), 1, "body.n: unknown parameter"),
    (("stop_sequences",), [" "], "stop_sequences[0]: is blank"),
    (("service_tier",), "default", "service_tier"),
    (("metadata", "user"), "u", "metadata.user: unknown"),
    (("system",), "", "system[0].text: is blank"),
    (("system",), [_MARK] * 5, "at most 4"),
    (("thinking", "budget_tokens"), 1000, "thinking.budget_tokens"),
    (("thinking", "type"), "adaptive", "thinking.budget_tokens: goes with"),
    (("thinking", "display"), "all", "thinking.display"),
    (("temperature",), 0.5, "temperature"),
    (("top_k",), 5, "top_k"),
    (("tool_choice",), {"type": "any"}, "tool_choice forces tool use"),
    (("tool_choice",), {"type": "none", "disable_parallel_tool_use": True}, "unknown parameter"),
    (("tool_choice",), {"type": "tool", "name": "c"}, "tool_choice.name"),
    (("tool_choice",), "auto", "tool_choice: an object"),
    (("tools",), [], "may only be given with tools"),
    (("tools", 0, "name"), "a b", "tools[0].name"),
    (("tools", 0, "name"), "b", "must be unique"),
    (("tools", 0, "input_schema"), {"properties": {}}, "not that of an object"),
    (("tools", 0, "parameters"), {}, "unknown parameter"),
    (("output_config", "effort"), "none", "output_config.effort"),
    (("output_config", "format", "name"), "n", "unknown parameter"),
    (("messages",), [], "messages: a list"),
    (("messages", 0, "role"), "assistant", "the first message must be the user's"),
    (("messages", 1, "role"), "user", "roles must alternate"),
    (("messages", 0, "role"), "tool", "messages[0].role"),
    (("messages", 0), GONE, "the first message must be the user's"),
    (("messages", 0, "content", 0, "text"), " \n", "is blank"),
    (("messages", 0, "content"), [], "a list that is not empty"),
    (("messages", 0, "content", 1, "source", "media_type"), "image/jpg", "media_type"),
    (("messages", 0, "content", 1, "source", "data"), DATA + "!", "is no base64"),
    (("messages", 0, "content", 1, "source", "data"), "", "is blank"),
    (("messages", 0, "content", 1, "source"), {"type": "file"}, "source.type"),
    (("messages", 0, "content", 1, "detail"), "auto", "unknown parameter"),
    (("messages", 0, "content", 2, "source", "media_type"), "text/csv", "media_type"),
    ((*_SAID, 0, "signature"), "", "signature: is blank"),
    ((*_SAID, 0, "signature"), "omnigate.r1:e30=", "invalid `signature`"),
    ((*_SAID, 0, "signature"), seal_of("another"), "invalid `signature`"),
    ((*_SAID, 0, "index"), 0, "unknown parameter"),
    ((*_SAID, 1, "data"), "omnigate.v1:e30=", "invalid `data`"),
    ((*_SAID, 3, "id"), "call.1", "does not match"),
    ((*_SAID, 3, "id"), "t2", "must be unique"),
    ((*_SAID, 3, "id"), "t4", "do not answer the calls"),
    ((*_SAID, 3, "input"), "{}", "input: an object"),
    (_SAID, [{"type": "text", "text": "a"}, GOOD["messages"][1]["content"][0]], "stand first"),
    (_HEARD, "Go on", "do not answer the calls"),
    ((*_HEARD, 0), GONE, "do not answer the calls"),
    ((*_HEARD, 0, "tool_use_id"), "t3", "do not answer the calls"),
    ((*_HEARD, 0), {"type": "text", "text": "first"}, "must stand first"),
    ((*_HEARD, 1, "content"), [], "a list that is not empty"),
    ((*_HEARD, 1, "content"), "", "is blank"),
    (("messages", 2), GONE, "must follow one of the user"),
    (("messages", 3, "role"), "user", "roles must alternate"),
    (("messages", 3, "content"), [IMAGE], "messages[3].content[0].type"),
]


def seen(fields: dict[str, Any]) -> SeenRequest:
    """A request with these fields."""
    return post("/v1/messages", headers=HEADERS, **fields)


class MessagesRuleTests(SynchronousTestCase):
    """hear_messages."""

    def test_a_good_request(self) -> None:
        """Everything that a request says is heard."""
        heard = hear_messages(seen(GOOD))
        self.assertEqual(
            [turn.role for turn in heard.turns],
            ["system", "user", "assistant", "tool", "user", "system"],
        )
        self.assertEqual(heard.tools, {"a": {"type": "object"}, "b": {"type": "object"}})
        self.assertEqual(heard.schema, {"type": "object"})
        self.assertEqual((heard.thinks, heard.shows, heard.seals), (True, True, True))
        user, said, answered = heard.turns[1:4]
        pdf = Media("application/pdf", b"of a picture")
        self.assertEqual(user.media, [Media("image/png", b"of a picture"), pdf])
        self.assertEqual(said.thoughts, [Thought("Hm", seal_of("Hm")), Thought("", seal_of("x"))])
        self.assertEqual(said.calls, [HeardCall("t1", "a", {"n": 1}), HeardCall("t2", "b", {})])
        self.assertEqual([result.call_id for result in answered.results], ["t2", "t1"])

    def test_broken_ones(self) -> None:
        """One thing changed is refused, and the refusal says what."""
        self.assertEqual(wrong(hear_messages, seen, GOOD, CHANGES), [])

    def test_versions(self) -> None:
        """A version has to be named, and under the latest there is no sampling."""
        plain: dict[str, Any] = {
            "model": "m",
            "max_tokens": 1,
            "messages": [{"role": "user", "content": "Hi"}],
            "temperature": 0.5,
        }
        hear_messages(seen(plain))
        for headers in ({}, {"anthropic-version": "2026-10-21"}):
            with self.assertRaises(BrokenRuleError):
                hear_messages(post("/v1/messages", headers=headers, **plain))

    def test_how_it_may_end(self) -> None:
        """Calls are answered; a budget wants the calls' thinking; a prefill has neither."""
        with self.assertRaisesRegex(BrokenRuleError, "are not answered"):
            hear_messages(seen(changed(GOOD, ("messages",), GOOD["messages"][:2])))
        bare = changed(GOOD, (*_SAID,), GOOD["messages"][1]["content"][2:])
        bare["messages"] = bare["messages"][:3]
        del bare["messages"][2]["content"][2]
        with self.assertRaisesRegex(BrokenRuleError, "must begin with thinking"):
            hear_messages(seen(bare))
        hear_messages(seen(changed(bare, ("thinking",), {"type": "adaptive"})))
        ending = {"role": "assistant", "content": "So"}
        prefilled = changed(GOOD, ("messages",), [GOOD["messages"][0], ending])
        with self.assertRaisesRegex(BrokenRuleError, "where it thinks"):
            hear_messages(seen(prefilled))
        silent = changed(prefilled, ("thinking",), {"type": "disabled"})
        hear_messages(seen(silent))
        with self.assertRaisesRegex(BrokenRuleError, "white space"):
            hear_messages(seen(changed(silent, ("messages", 1, "content"), "So ")))
