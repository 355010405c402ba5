"""The input items of a Responses request → turns.

What the assistant said, thought and called stands in items of their own; those that follow each
other are one turn. Items of tools that the provider runs itself have no counterpart elsewhere.
"""

from collections.abc import Callable

import msgspec

from omnigate.dialects.media import read_file, read_image_url
from omnigate.dialects.packing import unpack_thinking
from omnigate.dialects.request_body import (
    check_pieces,
    decode_request,
    malformed,
    missing,
    untranslatable,
)
from omnigate.dialects.shapes import (
    CacheMark,
    Document,
    Image,
    Part,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.text import quoted

_NULL = msgspec.Raw(b"null")


class Item(msgspec.Struct, gc=False):
    """An item of any type; what differs in shape between types is read once its type is known."""

    type: str | None = None
    role: str | None = None
    content: msgspec.Raw = _NULL
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = _NULL
    output: msgspec.Raw = _NULL
    encrypted_content: str | None = None


class _Content(msgspec.Struct, gc=False):
    """A part of a message or of a function's output, of any type."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    file_id: str | None = None
    prompt_cache_breakpoint: msgspec.Raw = _NULL
    cache_control: msgspec.Raw = _NULL


_content = msgspec.json.Decoder(str | list[_Content] | None)
_text = msgspec.json.Decoder(str | None)

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}
_TEXT_TYPES = frozenset(("input_text", "output_text", "text"))

NameOf = Callable[[str | None, str], str]


def read_items(items: list[Item], name_of: NameOf, pieces: int) -> list[Turn]:
    """Read the items of ``input``.

    :param name_of: gives the one name of a function in a namespace.
    :param pieces: how many the request has already beside these.
    :raises GatewayError: one has no counterpart, or is malformed, or they are too many.
    """
    talk = _Talk(pieces)
    talk.count(len(items))
    for index, item in enumerate(items):
        path = f"input[{index}]"
        kind = item.type or ("message" if item.role is not None else "")
        if kind == "message":
            _add_message(talk, item, path)
        elif kind == "function_call":
            talk.count(1)
            talk.assistant(path).append(_call(item, name_of, path))
        elif kind == "function_call_output":
            talk.count(1)
            talk.results(path).append(_result(talk, item, path))
        elif kind == "reasoning":
            block = unpack_thinking(item.encrypted_content or "")
            if block is not None:
                talk.assistant(path).append(block)
        elif not kind:
            raise _stored(path)
        else:
            raise _hosted(kind, path)
    for turn in talk.turns:
        _cut_thinking(turn)
    return [turn for turn in talk.turns if turn.parts or turn.role is not Role.ASSISTANT]


class _Talk:
    """The turns as they are gathered."""

    def __init__(self, pieces: int) -> None:
        self.turns: list[Turn] = []
        self._pieces = pieces
        # Where the results of the last assistant turn's calls stand, or will.
        self._results: Turn | None = None
        self._results_at = 0

    def count(self, pieces: int) -> None:
        """Count pieces, before the time is spent to read them.

        :raises GatewayError: they are too many.
        """
        self._pieces += pieces
        check_pieces(self._pieces)

    def add(self, turn: Turn) -> None:
        """Take in a message."""
        self.turns.append(turn)
        if turn.role is Role.ASSISTANT:
            self._results, self._results_at = None, len(self.turns)

    def assistant(self, path: str) -> list[Part]:
        """Return the parts of the assistant's turn that goes on, or begins."""
        if not self.turns or self.turns[-1].role is not Role.ASSISTANT:
            self.add(Turn(Role.ASSISTANT, [], path=path))
        self.turns[-1].plain = False
        return self.turns[-1].parts

    def results(self, path: str) -> list[Part]:
        """Return the parts of the turn that holds the results of the last calls.

        They stand right behind the calls, as other protocols demand, even where the user said
        something before the tools had answered.
        """
        if self._results is None:
            self._results = Turn(Role.TOOL, [], path=path)
            self.turns.insert(self._results_at, self._results)
        return self._results.parts


def _cut_thinking(turn: Turn) -> None:
    """Leave out what was thought at the end of a turn: nothing was said or done upon it."""
    while turn.parts and isinstance(turn.parts[-1], Thinking | RedactedThinking):
        turn.parts.pop()


def _add_message(talk: _Talk, item: Item, path: str) -> None:
    role = _ROLES.get(item.role or "")
    if role is None:
        raise malformed(f"{path}.role", f"{path}.role must be user, assistant, system or developer")
    where = f"{path}.content"
    content = decode_request(_content.decode, item.content, where)
    if content is None:
        raise missing(where)
    parts: list[Part] = []
    if isinstance(content, str):
        parts.append(Text(content))
    else:
        talk.count(len(content))
        for index, part in enumerate(content):
            read = _part(part, f"{where}[{index}]")
            if role is not Role.USER and not isinstance(read, Text):
                raise untranslatable(
                    f"{where}[{index}]",
                    f"{where}[{index}] is no text, and only a user's messages hold anything else:"
                    " send it in one of those",
                )
            parts.append(read)
    plain = len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].cache
    if role is Role.ASSISTANT and talk.turns and talk.turns[-1].role is Role.ASSISTANT:
        talk.assistant(path).extend(parts)
    else:
        talk.add(Turn(role, parts, plain, path))


def _part(part: _Content, path: str) -> Text | Image | Document:
    cache = _cache_mark(part)
    if part.type in _TEXT_TYPES:
        if part.text is None:
            raise missing(f"{path}.text")
        return Text(part.text, cache)
    if part.type == "refusal":
        return Text(part.refusal or "", cache, refusal=True)
    if part.type not in ("input_image", "input_file"):
        raise untranslatable(
            path, f"{path} is of the type {quoted(part.type)}: send text, pictures and files"
        )
    if part.file_id:
        raise untranslatable(
            f"{path}.file_id",
            f"{path}.file_id names a file that another provider has stored: send its content",
        )
    if part.type == "input_file":
        return read_file(part.file_data, part.filename, part.file_url, cache, path)
    if not part.image_url:
        raise missing(f"{path}.image_url")
    return read_image_url(part.image_url, part.detail, cache, f"{path}.image_url")


def _cache_mark(part: _Content) -> CacheMark | None:
    for raw, openai in ((part.prompt_cache_breakpoint, True), (part.cache_control, False)):
        value = bytes(raw)
        if value.startswith(b"{"):
            return CacheMark(value, openai)
    return None


def _call(item: Item, name_of: NameOf, path: str) -> ToolCall:
    if not item.name:
        raise missing(f"{path}.name")
    arguments = decode_request(_text.decode, item.arguments, f"{path}.arguments")
    name = name_of(item.namespace, item.name)
    return ToolCall(_call_id(item, path), name, arguments or "", path=path)


def _result(talk: _Talk, item: Item, path: str) -> ToolResult:
    where = f"{path}.output"
    output = decode_request(_content.decode, item.output, where)
    if output is None:
        raise missing(where)
    call_id = _call_id(item, path)
    if isinstance(output, str):
        return ToolResult(call_id, [Text(output)] if output else [], plain=True, path=path)
    talk.count(len(output))
    parts = [_part(part, f"{where}[{index}]") for index, part in enumerate(output)]
    return ToolResult(call_id, parts, path=path)


def _call_id(item: Item, path: str) -> str:
    if not item.call_id:
        raise missing(f"{path}.call_id")
    return item.call_id


def _stored(path: str) -> Exception:
    return untranslatable(
        path,
        f"{path} has no type and no role, so it refers to an item that another provider has"
        " stored: send the item itself",
    )


def _hosted(kind: str, path: str) -> Exception:
    return untranslatable(
        path,
        f"{path} is of the type {quoted(kind)}, which only OpenAI knows: send messages, function"
        " calls and their outputs, and begin a conversation anew that holds others",
    )
