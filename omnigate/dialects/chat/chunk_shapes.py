"""A chunk of a Chat stream as its translation reads it.

The shape has what is told on and nothing else, for it is decoded once an event.
"""

from typing import Any

import msgspec

from omnigate.dialects.event_shapes import ABSENT
from omnigate.dialects.odd_events import odd_index, odd_json, odd_object, odd_text
from omnigate.dialects.usage import Usage, odd_usage


class CallFunction(msgspec.Struct, gc=False):
    """The function of a call: its name once, its arguments piece by piece."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct, gc=False):
    """A tool call, or more of one."""

    index: int | None = None
    id: str | None = None
    function: CallFunction | None = None


class ChunkDelta(msgspec.Struct, gc=False):
    """What a chunk adds to the message."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: CallFunction | None = None


class ChunkChoice(msgspec.Struct, gc=False):
    """One choice of a chunk; only the first is asked for, and told."""

    index: int | None = None
    delta: ChunkDelta | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    """An event of the stream."""

    choices: list[ChunkChoice] | None = None
    usage: Usage | None = None
    error: msgspec.Raw = ABSENT


decode_chunk = msgspec.json.Decoder(Chunk).decode

_ERROR = msgspec.Raw(b"true")


def odd_chunk(tree: dict[str, Any]) -> Chunk:
    """Take out of a chunk that does not fit what can be believed.

    :param tree: as the standard library's parser gives it.
    """
    choices = tree.get("choices")
    return Chunk(
        choices=[_odd_choice(choice) for choice in choices if isinstance(choice, dict)]
        if isinstance(choices, list)
        else None,
        usage=odd_usage(tree.get("usage")),
        error=_ERROR if tree.get("error") else ABSENT,
    )


def _odd_choice(choice: dict[str, Any]) -> ChunkChoice:
    delta = choice.get("delta")
    return ChunkChoice(
        index=odd_index(choice.get("index")),
        delta=_odd_delta(delta) if isinstance(delta, dict) else None,
        finish_reason=odd_text(choice.get("finish_reason")),
    )


def _odd_delta(delta: dict[str, Any]) -> ChunkDelta:
    text, thought, refusal = _odd_content(delta.get("content"))
    calls = delta.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    function = delta.get("function_call")
    return ChunkDelta(
        content=text,
        reasoning_content=odd_text(delta.get("reasoning_content")) or thought,
        reasoning=odd_text(delta.get("reasoning")),
        refusal=odd_text(delta.get("refusal")) or refusal,
        tool_calls=[_odd_call(call) for call in calls if isinstance(call, dict)]
        if isinstance(calls, list)
        else None,
        function_call=_odd_function(function) if isinstance(function, dict) else None,
    )


def _odd_content(content: object) -> tuple[str | None, str | None, str | None]:
    """Return text, thinking and refusal in a content, which may be a list of parts."""
    if not isinstance(content, list):
        return odd_text(content), None, None
    found: dict[str, list[str]] = {"text": [], "thinking": [], "refusal": []}
    for part in content:
        kind = odd_object(part).get("type", "text")
        value = part if isinstance(part, str) else odd_object(part).get(kind)
        if kind not in found:
            continue
        if isinstance(value, list):
            # Mistral's thinking is a list of texts in its turn.
            value = "".join(odd_text(odd_object(inner).get("text")) or "" for inner in value)
        found[kind].append(odd_text(value) or "")
    text, thought, refusal = ("".join(found[kind]) for kind in ("text", "thinking", "refusal"))
    return text, thought, refusal


def _odd_call(call: dict[str, Any]) -> CallDelta:
    function = call.get("function")
    return CallDelta(
        index=odd_index(call.get("index")),
        id=odd_text(call.get("id")),
        function=_odd_function(function) if isinstance(function, dict) else None,
    )


def _odd_function(function: dict[str, Any]) -> CallFunction:
    return CallFunction(
        name=odd_text(function.get("name")), arguments=odd_json(function.get("arguments"))
    )
