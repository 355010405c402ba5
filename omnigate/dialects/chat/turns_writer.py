"""Turns → the messages of a Chat request.

Chat wants the results of tools right behind the calls, and takes text only in them: what else a
tool gave, and what was said in between, stands in the messages behind.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from omnigate.dialects.media import PDF, image_data_url, pdf_file
from omnigate.dialects.request_body import untranslatable
from omnigate.dialects.shapes import (
    CacheMark,
    Document,
    Image,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.dialects.tool_ids import openai_id, openai_name
from omnigate.dialects.tool_pairs import ERROR_MARK

_SEE_BELOW = "[see the attachment in the next user message]"

# What Gemini's OpenAI surface takes for the signature of a call that another model made; its
# documentation of thought signatures names this word for histories from elsewhere.
_FOREIGN_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}

Message = dict[str, Any]


class ShortNames:
    """Names of tools as OpenAI takes them.

    :ivar shortened: the short ones, and what each stands for.
    """

    __slots__ = ("shortened",)

    def __init__(self) -> None:
        self.shortened: dict[str, str] = {}

    def spell(self, name: str) -> str:
        """Return the name to send."""
        short = openai_name(name)
        if short != name:
            self.shortened[short] = name
        return short


def write_turns(turns: Iterable[Turn], names: ShortNames, sign_calls: bool) -> list[Message]:
    """Write the messages.

    :param sign_calls: whether the calls of the past are to carry a thought signature.
    :raises GatewayError: a message holds what Chat cannot take.
    """
    messages: list[Message] = []
    between: list[Turn] = []
    answer: _Answer | None = None
    for turn in turns:
        if turn.role is not Role.ASSISTANT:
            between.append(turn)
            continue
        if answer is not None and not between and answer.joined(turn):
            continue
        messages += _assistant(answer, names, sign_calls)
        messages += _between_answers(between)
        between = []
        answer = _Answer(turn)
    messages += _assistant(answer, names, sign_calls)
    return messages + _between_answers(between)


class _Answer:
    """What the assistant says in one message of Chat: calls stand in one, behind its text.

    A turn joins the one before where text would else stand between calls and their results, or
    calls in two messages.
    """

    __slots__ = ("calls", "parts", "path", "speaks")

    def __init__(self, turn: Turn) -> None:
        self.path = turn.path
        self.parts: list[Part] = []
        self.calls = self.speaks = False
        self._add(turn, *_kinds(turn))

    def joined(self, turn: Turn) -> bool:
        """Take a turn in, if it belongs here."""
        calls, speaks = _kinds(turn)
        if not self.calls and (speaks or not calls):
            return False
        if self.speaks and speaks:
            self.parts.append(Text("\n\n"))
        self._add(turn, calls, speaks)
        return True

    def _add(self, turn: Turn, calls: bool, speaks: bool) -> None:
        self.parts += turn.parts
        self.calls |= calls
        self.speaks |= speaks


def _kinds(turn: Turn) -> tuple[bool, bool]:
    """Return whether a turn holds calls, and whether it holds text."""
    calls = any(isinstance(part, ToolCall) for part in turn.parts)
    return calls, any(isinstance(part, Text) and part.text for part in turn.parts)


def _assistant(answer: _Answer | None, names: ShortNames, sign_calls: bool) -> list[Message]:
    if answer is None:
        return []
    texts: list[str] = []
    calls: list[Message] = []
    for part in answer.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, ToolCall):
            calls.append(_call(part, names, sign_calls))
        elif isinstance(part, Image | Document):
            raise untranslatable(
                part.path or answer.path,
                f"{part.path or answer.path} cannot stand in a message of the assistant: move it"
                " into one of the user",
            )
    if not texts and not calls:
        return []
    message: Message = {"role": "assistant", "content": "".join(texts) if texts else None}
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    return [message]


def _call(call: ToolCall, names: ShortNames, signed: bool) -> Message:
    function = {"name": names.spell(call.name), "arguments": call.arguments or "{}"}
    written: Message = {"id": openai_id(call.id), "type": "function", "function": function}
    if signed:
        written["extra_content"] = _FOREIGN_SIGNATURE
    return written


# -- what stands between two answers


def _between_answers(turns: Sequence[Turn]) -> list[Message]:
    """Write the turns of the user and the system up to an answer: results of tools first."""
    messages: list[Message] = []
    attachments: list[Message] = []
    for turn in turns:
        for part in turn.parts:
            if isinstance(part, ToolResult):
                messages.append(_result(part))
                attachments += _attachments(part)
    for turn in turns:
        words = _only_text(turn)
        if words is not None and not attachments:
            messages.append({"role": _ROLES[turn.role], "content": words})
            continue
        others = [part for part in turn.parts if not isinstance(part, ToolResult)]
        if turn.role is Role.SYSTEM:
            messages += _message("system", _system_parts(turn))
        elif others:
            messages += _message("user", attachments + _shown(others, turn.path))
            attachments = []
    return messages + _message("user", attachments)


_ROLES = {Role.SYSTEM: "system", Role.USER: "user", Role.TOOL: "user"}


def _only_text(turn: Turn) -> str | None:
    """Return what is said where that is one text and nothing else."""
    if len(turn.parts) != 1:
        return None
    part = turn.parts[0]
    return part.text if isinstance(part, Text) and part.cache is None else None


def _result(result: ToolResult) -> Message:
    texts = [part for part in result.parts if isinstance(part, Text)]
    if not texts and result.parts:
        texts = [Text(_SEE_BELOW)]
    if result.is_error:
        first = texts[0] if texts else Text("")
        texts = [Text(ERROR_MARK + first.text, first.cache), *texts[1:]]
    content = _content([_text(text) for text in texts]) if texts else ""
    return {"role": "tool", "tool_call_id": openai_id(result.call_id), "content": content}


def _attachments(result: ToolResult) -> list[Message]:
    others = [part for part in result.parts if not isinstance(part, Text)]
    if not others:
        return []
    lead = Text(f"[attachment of tool call {openai_id(result.call_id)}]")
    return _shown([lead, *others], result.path)


def _system_parts(turn: Turn) -> list[Message]:
    for part in turn.parts:
        if isinstance(part, Image):
            raise untranslatable(
                part.path, f"{part.path} cannot stand in a system message: move it to the user"
            )
    return _shown(turn.parts, turn.path)


def _message(role: str, parts: list[Message]) -> list[Message]:
    return [{"role": role, "content": _content(parts)}] if parts else []


def _content(parts: list[Message]) -> str | list[Message]:
    """Return one text as a string, and else the parts."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        text: str = parts[0]["text"]
        return text
    return parts


def _shown(parts: Iterable[Part], path: str) -> list[Message]:
    """Write what a user shows; thinking that got among it is nobody's business."""
    written: list[Message] = []
    for part in parts:
        if isinstance(part, Text):
            written.append(_text(part))
        elif isinstance(part, Image):
            written.append(_image(part))
        elif isinstance(part, Document):
            written.append(_document(part, part.path or path))
    return written


def _text(text: Text) -> Message:
    return _marked({"type": "text", "text": text.text}, text.cache)


def _image(image: Image) -> Message:
    address = {"url": image_data_url(image)}
    if image.detail is not None:
        address["detail"] = image.detail
    return _marked({"type": "image_url", "image_url": address}, image.cache)


def _document(document: Document, path: str) -> Message:
    if document.url:
        raise untranslatable(
            path,
            f"{path} is a document at an address, which the model's provider cannot fetch:"
            " send its content",
        )
    if document.media_type != PDF:
        return _marked({"type": "text", "text": document.data}, document.cache)
    return _marked({"type": "file", "file": pdf_file(document)}, document.cache)


def _marked(part: Message, cache: CacheMark | None) -> Message:
    """Keep a client's wish for the cache that OpenAI has a word for."""
    if cache is not None and cache.openai:
        part["prompt_cache_breakpoint"] = msgspec.Raw(cache.value)
    return part
