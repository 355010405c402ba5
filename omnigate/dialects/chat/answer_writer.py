"""A whole answer of Chat Completions, written for a client."""

from typing import Any

import msgspec

from omnigate.dialects.answer_usage import chat_usage
from omnigate.dialects.packing import OWN_PREFIX
from omnigate.dialects.shapes import Answer, Frame, RedactedThinking, Stop, Text, Thinking, ToolCall
from omnigate.dialects.stops import CHAT_WORDS

_encode = msgspec.json.Encoder().encode


def write_answer(answer: Answer, frame: Frame) -> bytes:
    """Return the body of the answer, with one choice."""
    message = _message(answer, frame)
    completion: dict[str, Any] = {
        "id": f"chatcmpl-{frame.id}",
        "object": "chat.completion",
        "created": frame.created,
        "model": frame.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": _finish_reason(answer),
                "logprobs": None,
            }
        ],
        "usage": msgspec.Raw(chat_usage(answer.usage)),
    }
    if answer.service_tier is not None:
        completion["service_tier"] = answer.service_tier
    return _encode(completion)


def thinking_block(block: Thinking | RedactedThinking, index: int) -> dict[str, Any] | None:
    """Return a block as a client of Chat brings it back, among the ``thinking_blocks``.

    :returns: ``None`` for a block that no provider would take back: it has no signature, or the
        gateway's own, which stands for another protocol's.
    """
    if isinstance(block, RedactedThinking):
        return {"index": index, "type": "redacted_thinking", "data": block.data}
    if not block.signature or block.signature.startswith(OWN_PREFIX):
        return None
    return {
        "index": index,
        "type": "thinking",
        "thinking": block.text,
        "signature": block.signature,
    }


def _message(answer: Answer, frame: Frame) -> dict[str, Any]:
    texts: list[str] = []
    refusals = [] if answer.refusal is None else [answer.refusal]
    thoughts: list[str] = []
    blocks: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for part in answer.parts:
        if isinstance(part, Text):
            (refusals if part.refusal else texts).append(part.text)
        elif isinstance(part, ToolCall):
            calls.append(_call(part, frame))
        elif frame.wants_thinking:
            if isinstance(part, Thinking):
                thoughts.append(part.text)
            block = thinking_block(part, len(blocks))
            if block is not None:
                blocks.append(block)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) or None,
        "refusal": "".join(refusals) or None,
    }
    thought = "".join(thoughts)
    if thought:
        message["reasoning_content"] = thought
    if blocks:
        message["thinking_blocks"] = blocks
    if calls:
        message["tool_calls"] = calls
    return message


def _call(call: ToolCall, frame: Frame) -> dict[str, Any]:
    name = frame.tool_names.get(call.name, call.name)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name, "arguments": call.arguments},
    }


def _finish_reason(answer: Answer) -> str:
    """Return the finish reason; where the model itself says that it declines, it is ``stop``."""
    if answer.stop is Stop.REFUSAL and any(
        isinstance(part, Text) and part.refusal for part in answer.parts
    ):
        return CHAT_WORDS[Stop.END]
    return CHAT_WORDS[answer.stop]
