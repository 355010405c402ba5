"""A whole answer told as a stream."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.replay import replay
from omnigate.dialects.shapes import (
    Answer,
    AnswerUsage,
    DeltaSink,
    RedactedThinking,
    Stop,
    Text,
    Thinking,
    ToolCall,
)


class Told:
    """Notes the calls of a sink."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))


class ReplayTests(SynchronousTestCase):
    def test_order(self) -> None:
        """Each part is told whole and in order; empty pieces are none."""
        usage = AnswerUsage(1, 2, 3, 4)
        answer = Answer(
            [
                Thinking("Hm.", "sig"),
                Thinking("", "sig2"),
                RedactedThinking("r"),
                Text("a"),
                Text(""),
                Text("no", refusal=True),
                ToolCall("1", "f", '{"a":1}'),
                ToolCall("2", "g", ""),
            ],
            Stop.REFUSAL,
            usage,
            "never",
        )
        told: Any = Told()
        sink: DeltaSink = told
        replay(answer, sink)
        self.assertEqual(
            [
                ("start",),
                ("thinking_start",),
                ("thinking", "Hm."),
                ("thinking_end", "sig"),
                ("thinking_start",),
                ("thinking_end", "sig2"),
                ("redacted", "r"),
                ("text", "a"),
                ("refusal", "no"),
                ("tool_start", "1", "f"),
                ("tool_arguments", '{"a":1}'),
                ("tool_end",),
                ("tool_start", "2", "g"),
                ("tool_arguments", "{}"),
                ("tool_end",),
                ("finish", Stop.REFUSAL, usage, "never"),
            ],
            told.calls,
        )
