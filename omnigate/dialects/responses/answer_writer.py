"""A whole answer of Responses, written for a client."""

from omnigate.dialects.packing import pack_thinking
from omnigate.dialects.responses.response_object import (
    COMPLETED,
    CONTENT_FILTER,
    INCOMPLETE,
    MAX_OUTPUT_TOKENS,
    function_call_item,
    item_id,
    message_item,
    reasoning_item,
    refusal_part,
    response_object,
    text_part,
    tool_name,
)
from omnigate.dialects.shapes import Answer, Frame, RedactedThinking, Stop, Text, Thinking, ToolCall

_Part = Text | Thinking | RedactedThinking | ToolCall


def write_answer(answer: Answer, frame: Frame) -> bytes:
    """Return the body of the answer.

    Where the model declined in words, the answer is complete: they are the answer. A provider's
    reason has no place in the protocol.
    """
    reason = None
    if answer.stop is Stop.LENGTH:
        reason = MAX_OUTPUT_TOKENS
    elif answer.stop is Stop.REFUSAL and not any(_declines(part) for part in answer.parts):
        reason = CONTENT_FILTER
    status = COMPLETED if reason is None else INCOMPLETE
    groups = _groups(answer, frame)
    output = [
        _item(group, index, frame, status if index == len(groups) - 1 else COMPLETED)
        for index, group in enumerate(groups)
    ]
    return response_object(frame, status, output, answer.usage, incomplete=reason)


def _declines(part: _Part) -> bool:
    return isinstance(part, Text) and part.refusal


def _groups(answer: Answer, frame: Frame) -> list[list[_Part]]:
    """Return the parts of each item: texts that follow each other are one, all else stands alone.

    Thinking is left out for those who did not ask for it.
    """
    groups: list[list[_Part]] = []
    for part in answer.parts:
        if isinstance(part, Text):
            if not part.text:
                continue
            if groups and isinstance(groups[-1][0], Text):
                groups[-1].append(part)
                continue
        elif not isinstance(part, ToolCall) and not frame.wants_thinking:
            continue
        groups.append([part])
    return groups


def _item(group: list[_Part], index: int, frame: Frame, status: str) -> bytes:
    """Return an item.

    :param status: of what may be cut; thinking that came with its signature is whole.
    """
    first = group[0]
    if isinstance(first, Text):
        texts = [part for part in group if isinstance(part, Text)]
        return message_item(item_id("msg", frame, index), status, _content(texts))
    if isinstance(first, ToolCall):
        name = tool_name(frame, first.name)
        call = item_id("fc", frame, index)
        return function_call_item(call, status, first.id, name, first.arguments)
    text = first.text if isinstance(first, Thinking) else ""
    signed = isinstance(first, RedactedThinking) or bool(first.signature)
    packed = pack_thinking(first) if signed else ""
    return reasoning_item(item_id("rs", frame, index), COMPLETED, text, packed)


def _content(texts: list[Text]) -> list[bytes]:
    """Return the parts of a message: what was said, and what was declined, joined."""
    parts: list[bytes] = []
    pending: list[Text] = []
    for text in texts:
        if pending and pending[0].refusal is not text.refusal:
            parts.append(_joined(pending))
            pending = []
        pending.append(text)
    parts.append(_joined(pending))
    return parts


def _joined(texts: list[Text]) -> bytes:
    text = "".join([part.text for part in texts])
    return refusal_part(text) if texts[0].refusal else text_part(text)
