"""Anthropic messages as the fake provider writes them."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_anthropic import (
    anthropic_error,
    messages_events,
    messages_whole,
    models_page,
)
from omnigate.testing.provider_reply import compose
from omnigate.testing.provider_scenario import scenario_of
from tests.testing.provider_requests import messages


def play(model: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The whole message and the decoded events of one request."""
    request = messages(model)
    scenario = scenario_of(model)
    reply = compose(request, scenario)
    events = messages_events(request, scenario, reply)
    decoded = [json.loads(data) for _, data in events]
    assert [name for name, _ in events] == [event["type"] for event in decoded]
    return messages_whole(request, scenario, reply), decoded


class MessagesTests(SynchronousTestCase):
    """Whole messages and their events."""

    def test_order(self) -> None:
        """Start, ping, blocks one after the other, delta with the stop reason, stop."""
        events = play("fake-tools")[1]
        kinds = [event["type"] for event in events]
        self.assertEqual(kinds[:3], ["message_start", "content_block_start", "ping"])
        self.assertEqual(kinds[3:6], ["content_block_delta"] * 2 + ["content_block_stop"])
        self.assertEqual(kinds[6], "content_block_start")
        self.assertEqual(kinds[-3:], ["content_block_stop", "message_delta", "message_stop"])
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")

    def test_blocks_join_to_the_whole(self) -> None:
        """Text and tool input in pieces are those of the whole message."""
        whole, events = play("fake-tools-2")
        text = "".join(e["delta"].get("text", "") for e in events if "index" in e and "delta" in e)
        self.assertEqual(text, whole["content"][0]["text"])
        for index in (1, 2):
            parts = [
                event["delta"]["partial_json"]
                for event in events
                if event["type"] == "content_block_delta" and event["index"] == index
            ]
            self.assertEqual(parts[0], "")
            self.assertEqual(json.loads("".join(parts)), whole["content"][index]["input"])

    def test_usage_is_cumulative(self) -> None:
        """The start has the input and a token of output, the delta the totals."""
        whole, events = play("fake-words-5-cached-8-cache-write-3")
        start, end = events[0]["message"]["usage"], events[-2]["usage"]
        self.assertEqual((start["input_tokens"], start["output_tokens"]), (6, 1))
        self.assertEqual((end["cache_read_input_tokens"], end["output_tokens"]), (8, 5))
        self.assertEqual(whole["usage"]["cache_creation_input_tokens"], 3)

    def test_no_usage(self) -> None:
        """The scenario without usage has it nowhere."""
        whole, events = play("fake-no-usage")
        self.assertNotIn('"usage"', json.dumps([whole, events]))

    def test_errors_and_models(self) -> None:
        """Types follow the status; the model page has its ends."""
        self.assertEqual(anthropic_error(529, "m", "r")["error"]["type"], "overloaded_error")
        self.assertEqual(anthropic_error(500, "m", "r")["error"]["type"], "api_error")
        page = models_page()
        self.assertEqual(page["first_id"], page["data"][0]["id"])
