"""Turns → the input items of a Responses request."""

from collections.abc import Sequence
from typing import Any

import msgspec

from omnigate.dialects.media import PDF, image_data_url, pdf_file
from omnigate.dialects.packing import unpack_reasoning
from omnigate.dialects.shapes import (
    Document,
    Image,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.dialects.tool_ids import openai_id, openai_name
from omnigate.dialects.tool_pairs import ERROR_MARK

_Item = dict[str, Any]
_Content = Text | Image | Document


def write_items(turns: Sequence[Turn], reasoning: bool) -> list[_Item]:
    """Return the items of a conversation, in its order.

    :param reasoning: whether the model takes back what was thought.
    """
    items: list[_Item] = []
    for turn in turns:
        if turn.role is Role.ASSISTANT:
            _add_assistant(items, turn.parts, reasoning)
        elif turn.role is Role.TOOL:
            items.extend(_result(part) for part in turn.parts if isinstance(part, ToolResult))
        else:
            content = [part for part in turn.parts if isinstance(part, _Content)]
            if content:
                role = "developer" if turn.developer else turn.role.value
                items.append(_message(role, _content(content)))
    return items


def _message(role: str, content: str | list[_Item]) -> _Item:
    return {"type": "message", "role": role, "content": content}


def _add_assistant(items: list[_Item], parts: Sequence[Part], reasoning: bool) -> None:
    """Add what the assistant thought, said and called; texts that follow each other are one."""
    said: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            said.append(part.text)
            continue
        item = None
        if isinstance(part, ToolCall):
            item = _call(part)
        elif isinstance(part, Thinking) and reasoning:
            item = _reasoning(part)
        if item is not None:
            _add_said(items, said)
            items.append(item)
    _add_said(items, said)


def _add_said(items: list[_Item], said: list[str]) -> None:
    text = "".join(said)
    if text:
        items.append(_message("assistant", text))
    said.clear()


def _call(call: ToolCall) -> _Item:
    return {
        "type": "function_call",
        "call_id": openai_id(call.id),
        "name": openai_name(call.name),
        "arguments": call.arguments or "{}",
    }


def _reasoning(thinking: Thinking) -> _Item | None:
    """Return what a provider of this protocol thought and sealed; else nothing."""
    sealed = unpack_reasoning(thinking.signature)
    if sealed is None:
        return None
    return {
        "type": "reasoning",
        "id": sealed[0],
        "summary": [{"type": "summary_text", "text": thinking.text}] if thinking.text else [],
        "encrypted_content": sealed[1],
    }


def _result(result: ToolResult) -> _Item:
    parts: list[_Content] = list(result.parts)
    if result.is_error:
        if parts and isinstance(parts[0], Text):
            parts[0] = Text(ERROR_MARK + parts[0].text, parts[0].cache)
        else:
            parts.insert(0, Text(ERROR_MARK if not parts else ERROR_MARK.rstrip()))
    return {
        "type": "function_call_output",
        "call_id": openai_id(result.call_id),
        "output": _content(parts) if parts else "",
    }


def _content(parts: Sequence[_Content]) -> str | list[_Item]:
    """Return one text as it is, anything else as parts; a text with a mark needs one."""
    if len(parts) == 1:
        only = parts[0]
        if isinstance(only, Text) and not (only.cache is not None and only.cache.openai):
            return only.text
    return [_part(part) for part in parts]


def _part(part: _Content) -> _Item:
    written = _unmarked(part)
    if part.cache is not None and part.cache.openai:
        written["prompt_cache_breakpoint"] = msgspec.Raw(part.cache.value)
    return written


def _unmarked(part: _Content) -> _Item:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        url = image_data_url(part)
        return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    if part.media_type != PDF:
        return {"type": "input_text", "text": part.data}
    return {"type": "input_file", **pdf_file(part)}
