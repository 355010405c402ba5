"""The messages of a Chat request → turns, in the order in which they were said.

What only one target cannot take (two turns of one role, blank text, a last message of the
assistant) is left as it is; that target's writer knows.
"""

from collections.abc import Callable, Sequence

from omnigate.dialects.chat.request_shapes import Call, Function, Message, Part
from omnigate.dialects.media import read_file, read_image_url
from omnigate.dialects.request_body import is_given, malformed, member_text, missing, untranslatable
from omnigate.dialects.shapes import (
    CacheMark,
    Document,
    Image,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.dialects.shapes import Part as TurnPart
from omnigate.text import quoted

_TEXT = frozenset({"text"})
_SPOKEN = frozenset({"text", "refusal"})
_SHOWN = frozenset({"text", "image_url", "file"})


def read_turns(messages: Sequence[Message]) -> list[Turn]:
    """Read the messages.

    :raises GatewayError: one of them is malformed, or holds what no other protocol has.
    """
    turns = [_read_turn(message, f"messages[{at}]") for at, message in enumerate(messages)]
    if any(_is_nameless(message) for message in messages):
        _name_calls(turns)
    return turns


def _read_turn(message: Message, path: str) -> Turn:
    if message.role is None:
        raise missing(f"{path}.role")
    read = _TURNS.get(message.role)
    if read is None:
        place = f"{path}.role"
        message_text = f"{place} is {quoted(message.role)}: use one of {', '.join(_TURNS)}"
        raise malformed(place, message_text)
    return read(message, path)


def _system(message: Message, path: str) -> Turn:
    parts = _parts(message, path, _TEXT)
    developer = message.role == "developer"
    return Turn(Role.SYSTEM, [*parts], _is_plain(message), path, developer)


def _user(message: Message, path: str) -> Turn:
    return Turn(Role.USER, [*_parts(message, path, _SHOWN)], _is_plain(message), path)


def _assistant(message: Message, path: str) -> Turn:
    if is_given(message.audio):
        raise untranslatable(
            f"{path}.audio", f"{path}.audio has no counterpart: send its transcript as content"
        )
    parts: list[TurnPart] = [*_thinking(message), *_parts(message, path, _SPOKEN)]
    if message.refusal:
        parts.append(Text(message.refusal, refusal=True))
    for at, call in enumerate(message.tool_calls or ()):
        parts.append(_call(call, f"{path}.tool_calls[{at}]"))
    if message.function_call is not None:
        parts.append(_function_call("", message.function_call, f"{path}.function_call"))
    return Turn(Role.ASSISTANT, parts, _is_plain(message) and not message.refusal, path)


def _tool(message: Message, path: str) -> Turn:
    return _result(message, message.tool_call_id or "", path, f"{path}.tool_call_id")


def _function(message: Message, path: str) -> Turn:
    # The old way to answer a call has no id: there was one call at a time.
    return _result(message, "", path, path)


def _result(message: Message, call_id: str, path: str, place: str) -> Turn:
    result = ToolResult(
        call_id=call_id,
        parts=[] if message.content == "" else _parts(message, path, _SHOWN),
        plain=_is_plain(message),
        path=place,
    )
    return Turn(Role.TOOL, [result], path=path)


_TURNS: dict[str, Callable[[Message, str], Turn]] = {
    "system": _system,
    "developer": _system,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
    "function": _function,
}


def _is_plain(message: Message) -> bool:
    return isinstance(message.content, str)


def _thinking(message: Message) -> list[Thinking | RedactedThinking]:
    """Read the blocks that their provider would know again; others prove nothing to it."""
    found: list[Thinking | RedactedThinking] = []
    for block in message.thinking_blocks or ():
        if block.type == "thinking" and block.signature:
            found.append(Thinking(block.thinking or "", block.signature))
        elif block.type == "redacted_thinking" and block.data:
            found.append(RedactedThinking(block.data))
    return found


def _call(call: Call, path: str) -> ToolCall:
    if call.type not in (None, "function"):
        raise untranslatable(
            path, f"{path} is of the type {quoted(call.type)}: only calls of functions translate"
        )
    if call.function is None:
        raise missing(f"{path}.function")
    return _function_call(call.id or "", call.function, path)


def _function_call(call_id: str, function: Function, path: str) -> ToolCall:
    if not function.name:
        raise missing(f"{path}.name" if path.endswith("function_call") else f"{path}.function.name")
    return ToolCall(call_id, function.name, function.arguments or "", path=path)


def _parts(message: Message, path: str, allowed: frozenset[str]) -> list[Text | Image | Document]:
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [Text(message.content)]
    return [
        _part(part, f"{path}.content[{at}]", allowed) for at, part in enumerate(message.content)
    ]


def _part(part: Part, path: str, allowed: frozenset[str]) -> Text | Image | Document:
    if part.type is None:
        raise missing(f"{path}.type")
    if part.type not in allowed:
        known = ", ".join(sorted(allowed))
        raise untranslatable(
            path,
            f"{path} is of the type {quoted(part.type)}, which the routed model's protocol has no"
            f" counterpart for in a message of this role: send one of {known}",
        )
    return _PARTS[part.type](part, path)


def _text(part: Part, path: str) -> Text:
    if part.text is None:
        raise missing(f"{path}.text")
    return Text(part.text, _cache_mark(part, path))


def _refusal(part: Part, path: str) -> Text:
    if part.refusal is None:
        raise missing(f"{path}.refusal")
    return Text(part.refusal, refusal=True)


def _image(part: Part, path: str) -> Image:
    place, address = f"{path}.image_url", part.image_url
    if isinstance(address, str):
        return read_image_url(address, None, _cache_mark(part, path), place)
    if address is None or address.url is None:
        raise missing(f"{place}.url")
    detail = address.detail
    return read_image_url(address.url, detail, _cache_mark(part, path), f"{place}.url")


def _file(part: Part, path: str) -> Document:
    place = f"{path}.file"
    if part.file is None:
        raise missing(place)
    if part.file.file_id and not part.file.file_data:
        raise untranslatable(
            f"{place}.file_id",
            f"{place}.file_id belongs to the provider that gave it: send the file as"
            f" {place}.file_data",
        )
    file = part.file
    return read_file(file.file_data, file.filename, None, _cache_mark(part, path), place)


_PARTS: dict[str, Callable[[Part, str], Text | Image | Document]] = {
    "text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "file": _file,
}


def _cache_mark(part: Part, path: str) -> CacheMark | None:
    own = member_text(part.cache_control, f"{path}.cache_control")
    if own:
        return CacheMark(own, openai=False)
    mark = member_text(part.prompt_cache_breakpoint, f"{path}.prompt_cache_breakpoint")
    return CacheMark(mark, openai=True) if mark else None


# -- calls without an id


def _is_nameless(message: Message) -> bool:
    if message.role in ("tool", "function"):
        return not message.tool_call_id or message.role == "function"
    if message.tool_calls and not all(call.id for call in message.tool_calls):
        return True
    return message.function_call is not None


def _name_calls(turns: Sequence[Turn]) -> None:
    """Give ids to calls and results that have none, pairing them in their order.

    That is sure only where the results directly follow and are as many as the calls.
    """
    number = at = 0
    while at < len(turns):
        calls: list[ToolCall] = []
        if turns[at].role is not Role.TOOL:
            calls = [part for part in turns[at].parts if isinstance(part, ToolCall)]
            at += 1
        results: list[ToolResult] = []
        while at < len(turns) and turns[at].role is Role.TOOL:
            results += [part for part in turns[at].parts if isinstance(part, ToolResult)]
            at += 1
        _pair(calls, results, number)
        number += len(calls)


def _pair(calls: Sequence[ToolCall], results: Sequence[ToolResult], number: int) -> None:
    nameless = [call.path for call in calls if not call.id]
    nameless += [result.path for result in results if not result.call_id]
    if not nameless:
        return
    called = {call.id for call in calls if call.id}
    answered = {result.call_id for result in results if result.call_id in called}
    open_calls = [(at, call) for at, call in enumerate(calls, number) if call.id not in answered]
    open_results = [result for result in results if result.call_id not in answered]
    if len(open_calls) != len(open_results):
        raise untranslatable(
            nameless[0],
            f"{nameless[0]} has no id, and the results that follow are not as many as the calls:"
            " give every call an id and every result its tool_call_id",
        )
    for (at, call), result in zip(open_calls, open_results, strict=True):
        if not call.id:
            call.id = result.call_id = f"call_gw_{at}"
        elif not result.call_id:
            result.call_id = call.id
