"""A whole answer of Messages, written for a client."""

from typing import Any

import msgspec

from omnigate.dialects.answer_usage import messages_usage
from omnigate.dialects.arguments import input_of
from omnigate.dialects.shapes import Answer, Frame, RedactedThinking, Text, Thinking, ToolCall
from omnigate.dialects.stops import MESSAGES_WORDS

_encode = msgspec.json.Encoder().encode


def write_answer(answer: Answer, frame: Frame) -> bytes:
    """Return the body of the answer."""
    message: dict[str, Any] = {
        "id": f"msg_{frame.id}",
        "type": "message",
        "role": "assistant",
        "model": frame.model,
        "content": [_block(part, frame) for part in answer.parts if _is_shown(part, frame)],
        "stop_reason": MESSAGES_WORDS[answer.stop],
        # Nobody but Anthropic says which of the sequences it was.
        "stop_sequence": None,
        "usage": msgspec.Raw(messages_usage(answer.usage)),
    }
    if answer.refusal is not None:
        message["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": answer.refusal,
        }
    return _encode(message)


def _is_shown(part: Text | Thinking | RedactedThinking | ToolCall, frame: Frame) -> bool:
    """Say whether a part becomes a block: thinking only for those who asked for it."""
    if isinstance(part, Text):
        return bool(part.text)
    return frame.wants_thinking or isinstance(part, ToolCall)


def _block(part: Text | Thinking | RedactedThinking | ToolCall, frame: Frame) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if isinstance(part, RedactedThinking):
        return {"type": "redacted_thinking", "data": part.data}
    return {
        "type": "tool_use",
        "id": part.id,
        "name": frame.tool_names.get(part.name, part.name),
        "input": msgspec.Raw(input_of(part.arguments)),
    }
