"""The play of three turns, as each protocol's client plays it with the fake provider."""

import copy
import json
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_heard import seal_of
from omnigate.testing.provider_loop import ANSWER, thought_of
from omnigate.testing.provider_plan import plan
from omnigate.testing.provider_scenario import scenario_of
from tests.testing import loops
from tests.testing.broken import GONE, changed
from tests.testing.provider_requests import post
from tests.testing.test_provider_plan import sent, unchunked

MODEL = "fake-loop-input-500-cached-100-cache-write-20"
HEADERS = {"anthropic-version": "2023-06-01"}

Take = Callable[[dict[str, Any], dict[str, Any]], int]
CLIENTS: dict[str, tuple[Callable[[], dict[str, Any]], Take]] = {
    "chat": (loops.chat_request, loops.take_chat),
    "messages": (loops.messages_request, loops.take_messages),
    "responses": (loops.responses_request, loops.take_responses),
}


def answer(protocol: str, fields: dict[str, Any], model: str = MODEL) -> tuple[int, Any]:
    """The status of an answer, and its JSON."""
    request = post(loops.PATHS[protocol], headers=HEADERS, model=model, **fields)
    played = plan(request, scenario_of(model), 1.0)
    head, body = sent(played)
    return int(head.split()[1]), json.loads(body)


def streamed(protocol: str, fields: dict[str, Any], model: str = MODEL) -> list[dict[str, Any]]:
    """The events of an answer, decoded."""
    request = post(loops.PATHS[protocol], headers=HEADERS, model=model, stream=True, **fields)
    body = unchunked(sent(plan(request, scenario_of(model), 1.0))[1])
    data = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in data if line != b"[DONE]"]


def told(protocol: str, said: dict[str, Any]) -> str:
    """The text of a whole answer."""
    if protocol == "chat":
        return str(said["choices"][0]["message"]["content"])
    if protocol == "messages":
        return "".join(block.get("text", "") for block in said["content"])
    return str(said["output"][-1]["content"][0]["text"])


class LoopTests(SynchronousTestCase):
    """The scenario ``loop``."""

    def play(self, protocol: str) -> list[dict[str, Any]]:
        """Play to the end; the requests that were sent."""
        opening, take = CLIENTS[protocol]
        request = opening()
        asked = []
        for calls in (2, 1, 0):
            asked.append(copy.deepcopy(request))
            status, said = answer(protocol, request)
            self.assertEqual(status, 200, said)
            self.assertEqual(take(request, said), calls)
        self.assertEqual(json.loads(told(protocol, said)), ANSWER)
        return asked

    def test_three_turns(self) -> None:
        """Two calls, one call, the answer in its form: in each protocol."""
        for protocol in CLIENTS:
            self.play(protocol)

    def test_forecast_or_chart(self) -> None:
        """A client that has no picture to answer with is asked for a forecast instead."""
        request = loops.messages_request(chart=False)
        for _ in range(2):
            said = answer("messages", request)[1]
            loops.take_messages(request, said)
        self.assertEqual(said["content"][-1]["name"], "get_forecast")

    def test_thinking(self) -> None:
        """Thinking is sealed where the protocol seals, and told only where that is wished."""
        fields = loops.messages_request()
        thinking = answer("messages", fields)[1]["content"][0]
        self.assertEqual(thinking["thinking"], thought_of(0))
        self.assertEqual(thinking["signature"], seal_of(thought_of(0)))
        fields["thinking"]["display"] = "omitted"
        self.assertEqual(answer("messages", fields)[1]["content"][0]["thinking"], "")
        fields = loops.responses_request()
        item = answer("responses", fields)[1]["output"][0]
        summary = [part["text"] for part in item["summary"]]
        self.assertEqual("\n\n".join(summary), thought_of(0))
        self.assertEqual(item["encrypted_content"], seal_of(thought_of(0)))
        del fields["include"], fields["reasoning"]["summary"]
        self.assertNotEqual(answer("responses", fields)[1]["output"][0]["type"], "reasoning")
        said = answer("chat", loops.chat_request())[1]["choices"][0]["message"]
        self.assertEqual(said["reasoning_content"], thought_of(0))

    def test_redacted(self) -> None:
        """Thinking that nothing is told of is sealed all the same, and wanted back."""
        fields = loops.messages_request()
        said = answer("messages", fields, "fake-loop-redacted")[1]
        block = {"type": "redacted_thinking", "data": seal_of(thought_of(0))}
        self.assertEqual(said["content"][0], block)
        events = streamed("messages", fields, "fake-loop-redacted")
        self.assertEqual(next(e["content_block"] for e in events if "content_block" in e), block)
        loops.take_messages(fields, said)
        self.assertEqual(answer("messages", fields, "fake-loop-redacted")[0], 200)
        del fields["messages"][1]["content"][0]
        self.assertEqual(answer("messages", fields, "fake-loop-redacted")[0], 400)

    def test_whatever_is_lost_is_refused(self) -> None:
        """A follow-up without something of the play is a 400 that says what is wrong."""
        changes: dict[str, Any] = {
            "chat": [
                (("messages", 0, "content"), "Guess", "the instructions are others"),
                (("messages", 1, "content", 0, "text"), "Well?", "the question is another"),
                (("messages", 1, "content", 1), GONE, "the picture and the paper"),
                (("messages", 2, "content"), "Let me", "it said"),
                (("messages", 2, "tool_calls", 0, "function", "arguments"), "{}", "it called"),
                (("messages", 3, "content"), "sunny", "get_weather answers"),
                (("response_format",), GONE, "not held to the form"),
                (("reasoning_effort",), "none", "with thinking"),
                (("tools", 0), GONE, "get_weather is not offered"),
            ],
            "messages": [
                (("messages", 1, "content", 0), GONE, "did not come back sealed"),
                (("messages", 3, "content", 0, "signature"), seal_of(thought_of(0)), "invalid"),
                (("messages", 4, "content", 0, "content"), "x", "draw_chart answers"),
                (("messages", 4, "content", 0, "content", 1), GONE, "the chart did not"),
                (("messages", 2), GONE, "roles must alternate"),
                (("system",), GONE, "opens with instructions"),
            ],
            "responses": [
                (("input", 1), GONE, "did not come back sealed"),
                (("input", 1, "encrypted_content"), seal_of("x"), "did not come back sealed"),
                (("input", 0, "content", 2), GONE, "the picture and the paper"),
                (("instructions",), "", "the instructions are others"),
            ],
        }
        for protocol, rows in changes.items():
            last = self.play(protocol)[-1]
            for path, value, words in rows:
                status, said = answer(protocol, changed(last, path, value))
                self.assertEqual(status, 400, path)
                self.assertIn(words, said["error"]["message"])

    def test_it_ends(self) -> None:
        """There is no fourth turn."""
        request = self.play("messages")[-1]
        loops.take_messages(request, answer("messages", request)[1])
        request["messages"].append({"role": "user", "content": "More"})
        self.assertEqual(answer("messages", request)[0], 400)

    def test_streams(self) -> None:
        """The events of each protocol hold the thinking, the seal and the text of the answer."""
        deltas = [e["choices"][0]["delta"] for e in streamed("chat", loops.chat_request())]
        thought = "".join(delta.get("reasoning_content", "") for delta in deltas)
        self.assertEqual(thought, thought_of(0))
        events = streamed("messages", loops.messages_request())
        blocks = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
        self.assertEqual(blocks, ["thinking", "text", "tool_use", "tool_use"])
        pieces = [e["delta"] for e in events if e["type"] == "content_block_delta"]
        self.assertEqual("".join(piece.get("thinking", "") for piece in pieces), thought_of(0))
        signatures = [piece["signature"] for piece in pieces if "signature" in piece]
        self.assertEqual(signatures, [seal_of(thought_of(0))])
        # A call without arguments has an empty delta and no other.
        last = [e["delta"] for e in events if e["type"] == "content_block_delta" if e["index"] == 3]
        self.assertEqual([delta["partial_json"] for delta in last], [""])
        events = streamed("responses", loops.responses_request())
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        kinds = [e["type"].removeprefix("response.") for e in events]
        self.assertEqual(
            kinds[2:5],
            [
                "output_item.added",
                "reasoning_summary_part.added",
                "reasoning_summary_text.delta",
            ],
        )
        self.assertEqual(kinds.count("reasoning_summary_part.done"), 2)
        done = [e["item"] for e in events if e["type"].endswith("item.done")]
        self.assertEqual(done, events[-1]["response"]["output"])

    def test_usage(self) -> None:
        """Thinking, text and arguments count as output; the share that was thought is told."""
        usage = answer("messages", loops.messages_request())[1]["usage"]
        thought = usage["output_tokens_details"]["thinking_tokens"]
        self.assertEqual(thought, -(-len(thought_of(0)) // 4))
        self.assertGreater(usage["output_tokens"], thought)
        self.assertEqual((usage["input_tokens"], usage["cache_read_input_tokens"]), (380, 100))

    def test_strict_without_the_play(self) -> None:
        """``strict`` alone keeps the rules and answers in words."""
        turns = [{"role": "user", "content": "Hi"}]
        good = {"messages": turns, "max_tokens": 9}
        self.assertEqual(answer("messages", good, "fake-strict-words-2")[0], 200)
        status, said = answer("messages", {**good, "n": 1}, "fake-strict")
        self.assertEqual((status, said["error"]["type"]), (400, "invalid_request_error"))
        self.assertIn("body.n", said["error"]["message"])
