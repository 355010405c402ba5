"""A whole answer told as a stream, for an upstream that was asked for one and did not stream."""

from omnigate.dialects.arguments import NO_ARGUMENTS
from omnigate.dialects.shapes import (
    Answer,
    DeltaSink,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
)


def replay(answer: Answer, sink: DeltaSink) -> None:
    """Tell an answer to ``sink``, each part in one piece."""
    sink.start()
    for part in answer.parts:
        _tell(part, sink)
    sink.finish(answer.stop, answer.usage, answer.refusal)


def _tell(part: Text | Thinking | RedactedThinking | ToolCall, sink: DeltaSink) -> None:
    if isinstance(part, Text):
        if part.text:
            (sink.refusal if part.refusal else sink.text)(part.text)
    elif isinstance(part, Thinking):
        sink.thinking_start()
        if part.text:
            sink.thinking(part.text)
        sink.thinking_end(part.signature)
    elif isinstance(part, RedactedThinking):
        sink.redacted(part.data)
    else:
        sink.tool_start(part.id, part.name)
        sink.tool_arguments(part.arguments or NO_ARGUMENTS)
        sink.tool_end()
