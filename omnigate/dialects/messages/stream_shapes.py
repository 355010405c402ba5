"""An event of a Messages stream as its translation reads it.

The shape has what is told on and nothing else, for it is decoded once an event.
"""

from typing import Any

import msgspec

from omnigate.dialects.event_shapes import ABSENT
from omnigate.dialects.odd_events import odd_index, odd_json, odd_object, odd_text
from omnigate.dialects.usage import Usage, odd_usage


class StopDetails(msgspec.Struct, gc=False):
    """More of why the answer ended; ``explanation`` are the words of a refusal."""

    explanation: str | None = None


class BlockDelta(msgspec.Struct, gc=False):
    """What an event adds to a block, or, of a ``message_delta``, to the message."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class BlockStart(msgspec.Struct, gc=False):
    """A block as it begins; that of a compatible server may be whole."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = ABSENT


class MessageStart(msgspec.Struct, gc=False):
    """The message as it begins: its figures."""

    usage: Usage | None = None


class StreamEvent(msgspec.Struct, gc=False):
    """An event of the stream."""

    type: str = ""
    index: int | None = None
    delta: BlockDelta | None = None
    content_block: BlockStart | None = None
    message: MessageStart | None = None
    usage: Usage | None = None
    error: msgspec.Raw = ABSENT


decode_event = msgspec.json.Decoder(StreamEvent).decode

_ERROR = msgspec.Raw(b"true")


def odd_event(tree: dict[str, Any]) -> StreamEvent:
    """Take out of an event that does not fit what can be believed.

    :param tree: as the standard library's parser gives it.
    """
    delta, block, message = tree.get("delta"), tree.get("content_block"), tree.get("message")
    return StreamEvent(
        type=odd_text(tree.get("type")) or "",
        index=odd_index(tree.get("index")),
        delta=_odd_delta(delta) if isinstance(delta, dict) else None,
        content_block=_odd_block(block) if isinstance(block, dict) else None,
        message=MessageStart(odd_usage(message.get("usage")))
        if isinstance(message, dict)
        else None,
        usage=odd_usage(tree.get("usage")),
        error=_ERROR if tree.get("error") else ABSENT,
    )


def _odd_delta(delta: dict[str, Any]) -> BlockDelta:
    details = odd_object(delta.get("stop_details"))
    return BlockDelta(
        type=odd_text(delta.get("type")) or "",
        text=odd_text(delta.get("text")),
        partial_json=odd_json(delta.get("partial_json")),
        thinking=odd_text(delta.get("thinking")),
        signature=odd_text(delta.get("signature")),
        stop_reason=odd_text(delta.get("stop_reason")),
        stop_details=StopDetails(odd_text(details.get("explanation"))),
    )


def _odd_block(block: dict[str, Any]) -> BlockStart:
    arguments = block.get("input")
    if isinstance(arguments, str):
        value = msgspec.json.encode(odd_text(arguments))
    else:
        value = (odd_json(arguments) or "").encode()
    return BlockStart(
        type=odd_text(block.get("type")) or "",
        text=odd_text(block.get("text")),
        thinking=odd_text(block.get("thinking")),
        signature=odd_text(block.get("signature")),
        data=odd_text(block.get("data")),
        id=odd_text(block.get("id")),
        name=odd_text(block.get("name")),
        input=msgspec.Raw(value),
    )
