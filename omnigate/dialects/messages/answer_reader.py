"""A whole answer of Messages, read from an upstream.

What a server's own tools did, citations and containers have no counterpart and are left out.
"""

import msgspec

from omnigate.dialects.answer_usage import answer_usage, take_usage
from omnigate.dialects.arguments import arguments_of
from omnigate.dialects.event_shapes import ABSENT, tells_error
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.lenient import (
    bounded,
    decode_leniently,
    long_text_of,
    not_an_answer,
    text_of,
)
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import Answer, RedactedThinking, Stop, Text, Thinking, ToolCall
from omnigate.dialects.stops import messages_stop
from omnigate.dialects.tool_ids import made_up_id

_TIERS = {"standard": "default", "priority": "priority"}


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    signature: msgspec.Raw = ABSENT
    data: msgspec.Raw = ABSENT
    id: msgspec.Raw = ABSENT
    name: str | None = None
    input: msgspec.Raw = ABSENT


class _StopDetails(msgspec.Struct, gc=False):
    explanation: msgspec.Raw = ABSENT


class _Tier(msgspec.Struct, gc=False):
    service_tier: msgspec.Raw = ABSENT


class _Message(msgspec.Struct, gc=False):
    content: list[_Block] | str | None = None
    stop_reason: msgspec.Raw = ABSENT
    stop_details: _StopDetails | None = None
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    type: msgspec.Raw = ABSENT


_decode = msgspec.json.Decoder(_Message).decode
_decode_tier = msgspec.json.Decoder(_Tier).decode


def read_answer(body: bytes, meter: Meter) -> Answer:
    """Read an answer, and meter it.

    :raises NotAnAnswer: it is none, or never says that it is finished.
    """
    meter.body_bytes += len(body)
    message = decode_leniently(_decode, body)
    if message is None:
        raise not_an_answer("messages", body)
    take_usage(meter, message.usage)
    reason = text_of(message.stop_reason)
    if message.content is None or not reason:
        failed = tells_error(message.error) or text_of(message.type) == "error"
        raise NotAnAnswer("error_envelope" if failed else "wrong_shape")
    parts = _parts(message.content)
    stop = messages_stop(reason, any(isinstance(part, ToolCall) for part in parts))
    refusal = None
    if stop is Stop.REFUSAL and message.stop_details is not None:
        refusal = text_of(message.stop_details.explanation) or None
    return Answer(parts, stop, answer_usage(meter), refusal, _tier(message))


def _parts(
    content: list[_Block] | str,
) -> list[Text | Thinking | RedactedThinking | ToolCall]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Text | Thinking | RedactedThinking | ToolCall] = []
    for block in bounded(content):
        part = _part(block)
        if part is not None:
            parts.append(part)
    return parts


def _part(block: _Block) -> Text | Thinking | RedactedThinking | ToolCall | None:
    """Return a block; ``None`` where it is empty, or of no type that has a counterpart.

    :raises NotAnAnswer: a call does not say what it calls.
    """
    if block.type == "text":
        text = long_text_of(block.text)
        return Text(text) if text else None
    if block.type == "thinking":
        thinking = Thinking(long_text_of(block.thinking), text_of(block.signature))
        return thinking if thinking.text or thinking.signature else None
    if block.type == "redacted_thinking":
        return RedactedThinking(text_of(block.data))
    if block.type == "tool_use":
        if not block.name:
            raise NotAnAnswer("wrong_shape")
        call_id = text_of(block.id) or made_up_id()
        return ToolCall(call_id, block.name, arguments_of(block.input))
    return None


def _tier(message: _Message) -> str | None:
    """Return the service tier in Chat's words, where Chat has one for it."""
    if message.usage is ABSENT:
        return None
    holder = decode_leniently(_decode_tier, bytes(message.usage))
    return None if holder is None else _TIERS.get(text_of(holder.service_tier))
