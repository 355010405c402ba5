"""The Responses API as the fake provider writes it."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_reply import compose
from omnigate.testing.provider_responses import responses_events, responses_whole
from omnigate.testing.provider_scenario import scenario_of
from tests.testing.provider_requests import responses


def play(model: str, **fields: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The whole response and the decoded events of one request."""
    request = responses(model, **fields)
    scenario = scenario_of(model)
    reply = compose(request, scenario)
    events = responses_events(request, scenario, reply, 1)
    decoded = [json.loads(data) for _, data in events]
    assert [name for name, _ in events] == [event["type"] for event in decoded]
    return responses_whole(request, scenario, reply, 1), decoded


class ResponsesTests(SynchronousTestCase):
    """Whole responses and their events."""

    def test_order(self) -> None:
        """The lifecycle in its order, numbered from 0, ending with the whole response."""
        whole, events = play("fake-tools")
        kinds = [event["type"].removeprefix("response.") for event in events]
        self.assertEqual(
            kinds[:4], ["created", "in_progress", "output_item.added", "content_part.added"]
        )
        self.assertEqual(kinds[4:6], ["output_text.delta"] * 2)
        self.assertEqual(kinds[6:9], ["output_text.done", "content_part.done", "output_item.done"])
        self.assertEqual(kinds[9], "output_item.added")
        self.assertEqual(set(kinds[10:-3]), {"function_call_arguments.delta"})
        self.assertEqual(
            kinds[-3:], ["function_call_arguments.done", "output_item.done", "completed"]
        )
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual(events[-1]["response"], whole)

    def test_deltas_join_to_the_items(self) -> None:
        """Text and arguments in pieces are those of the finished items."""
        whole, events = play("fake-tools")
        text = "".join(e["delta"] for e in events if e["type"].endswith("text.delta"))
        arguments = "".join(e["delta"] for e in events if e["type"].endswith("arguments.delta"))
        self.assertEqual(text, whole["output"][0]["content"][0]["text"])
        self.assertEqual(arguments, whole["output"][1]["arguments"])

    def test_a_cap_makes_it_incomplete(self) -> None:
        """max_output_tokens ends the response as incomplete, with its reason."""
        whole, events = play("fake-small", max_output_tokens=3)
        self.assertEqual(events[-1]["type"], "response.incomplete")
        self.assertEqual(whole["incomplete_details"], {"reason": "max_output_tokens"})

    def test_usage(self) -> None:
        """The details are always there; no usage means null."""
        usage = play("fake-words-2-cached-8")[0]["usage"]
        self.assertEqual((usage["input_tokens"], usage["output_tokens"]), (13, 2))
        self.assertEqual(usage["input_tokens_details"]["cached_tokens"], 8)
        self.assertIsNone(play("fake-no-usage")[0]["usage"])
