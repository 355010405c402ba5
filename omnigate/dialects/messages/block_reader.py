"""Content blocks of a Messages request ⇄ the parts of a turn.

A block that cannot be had at another provider is refused with its place; what a provider's own
tools did in the history is left out, since the model has said what came of it.
"""

import msgspec

from omnigate.dialects.arguments import arguments_of
from omnigate.dialects.media import PDF, PLAIN_TEXT
from omnigate.dialects.messages.request_shapes import Block, Source
from omnigate.dialects.request_body import ABSENT, malformed, missing, untranslatable
from omnigate.dialects.shapes import (
    CacheMark,
    Document,
    Image,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from omnigate.errors import GatewayError
from omnigate.text import quoted

#: Calls of tools that the provider runs itself, and what they answered.
_SERVER_TOOL_BLOCKS = frozenset(
    (
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
    )
)


def cache_mark(raw: msgspec.Raw) -> CacheMark | None:
    """Return what a ``cache_control`` member says."""
    if raw is ABSENT:
        return None
    value = bytes(raw)
    return CacheMark(value, openai=False) if value not in (b"", b"null") else None


def read_system_texts(content: str | list[Block], path: str) -> list[Part]:
    """Return the texts of a system prompt or message.

    :raises GatewayError: a block is no text.
    """
    if isinstance(content, str):
        return [Text(content)]
    parts: list[Part] = []
    for index, block in enumerate(content):
        place = f"{path}[{index}]"
        if block.type != "text":
            raise _unknown(block, place)
        parts.append(_text(block, place))
    return parts


def read_assistant_blocks(content: list[Block], path: str) -> list[Part]:
    """Return what the model said.

    :raises GatewayError: a block has no counterpart, or lacks a member.
    """
    parts: list[Part] = []
    for index, block in enumerate(content):
        place = f"{path}[{index}]"
        match block.type:
            case "text":
                parts.append(_text(block, place))
            case "tool_use":
                parts.append(_tool_call(block, place))
            case "thinking":
                parts.append(Thinking(block.thinking or "", block.signature or ""))
            case "redacted_thinking":
                parts.append(RedactedThinking(block.data or ""))
            case name if name in _SERVER_TOOL_BLOCKS:
                pass
            case _:
                raise _unknown(block, place)
    return parts


def read_user_blocks(content: list[Block], path: str) -> tuple[list[Part], list[Part]]:
    """Return the tools' results, and what the user said; each in order.

    :raises GatewayError: a block has no counterpart, or lacks a member.
    """
    results: list[Part] = []
    rest: list[Part] = []
    for index, block in enumerate(content):
        place = f"{path}[{index}]"
        if block.type == "tool_result":
            results.append(_tool_result(block, place))
        elif block.type not in _SERVER_TOOL_BLOCKS:
            rest += _user_parts(block, place)
    return results, rest


def _user_parts(block: Block, path: str) -> list[Text | Image | Document]:
    """Return what a block shows to the model, itself or within a tool's result."""
    match block.type:
        case "text":
            return [_text(block, path)]
        case "image":
            return [_image(block, path)]
        case "document":
            return _document(block, path)
        case "search_result":
            return [_search_result(block, path)]
        case _:
            raise _unknown(block, path)


def _text(block: Block, path: str) -> Text:
    if block.text is None:
        raise missing(f"{path}.text")
    return Text(block.text, cache_mark(block.cache_control))


def _image(block: Block, path: str) -> Image:
    place = f"{path}.source"
    source = _source(block, place)
    cache = cache_mark(block.cache_control)
    match source.type:
        case "base64":
            media_type = _required(source.media_type, place, "media_type").lower()
            data = _required(source.data, place, "data")
            return Image(media_type=media_type, data=data, cache=cache, path=place)
        case "url":
            url = _required(source.url, place, "url")
            return Image(url=url, cache=cache, path=place)
        case _:
            raise _unknown_source(source, place)


def _document(block: Block, path: str) -> list[Text | Image | Document]:
    place = f"{path}.source"
    source = _source(block, place)
    cache = cache_mark(block.cache_control)
    title = block.title or None
    match source.type:
        case "base64":
            data = _required(source.data, place, "data")
            # The protocol knows no other; the type may be left out.
            if (source.media_type or PDF).lower() != PDF:
                message = f"{place}.media_type has to be {PDF}: convert the document first"
                raise untranslatable(f"{place}.media_type", message)
            return [Document(PDF, data=data, title=title, cache=cache, path=place)]
        case "text":
            data = _required(source.data, place, "data")
            return [Document(PLAIN_TEXT, data=data, title=title, cache=cache, path=place)]
        case "url":
            url = _required(source.url, place, "url")
            return [Document(PDF, url=url, title=title, cache=cache, path=place)]
        case "content":
            return _inline(source, cache, f"{place}.content")
        case _:
            raise _unknown_source(source, place)


def _inline(source: Source, cache: CacheMark | None, path: str) -> list[Text | Image | Document]:
    """Return the blocks that a document is made of; the last bears the document's mark."""
    content = source.content or []
    if isinstance(content, str):
        return [Text(content, cache)]
    parts: list[Text | Image | Document] = []
    for index, block in enumerate(content):
        place = f"{path}[{index}]"
        if block.type not in ("text", "image"):
            raise _unknown(block, place)
        parts += _user_parts(block, place)
    if parts and cache is not None:
        parts[-1].cache = cache
    return parts


def _search_result(block: Block, path: str) -> Text:
    """Return a search result as one text: title, source, a blank line, what was found."""
    content = block.content
    if not isinstance(content, list):
        raise missing(f"{path}.content")
    texts = [_text(item, f"{path}.content[{index}]").text for index, item in enumerate(content)]
    source = block.source if isinstance(block.source, str) else ""
    head = "".join([f"{line}\n" for line in (block.title, source) if line])
    text = "\n".join([head, *texts] if head else texts)
    return Text(text, cache_mark(block.cache_control))


def _tool_call(block: Block, path: str) -> ToolCall:
    return ToolCall(
        id=_required(block.id, path, "id"),
        name=_required(block.name, path, "name"),
        arguments=_arguments(bytes(block.input), path),
        cache=cache_mark(block.cache_control),
        path=path,
    )


def _arguments(value: bytes, path: str) -> str:
    """Return the input of a tool as compact text; what once was no object as it was then."""
    if value[:1] != b"{" and value not in (b"", b"null"):
        raise malformed(f"{path}.input", f"{path}.input has to be an object")
    return arguments_of(value)


def _tool_result(block: Block, path: str) -> ToolResult:
    content = block.content
    parts: list[Text | Image | Document] = []
    if isinstance(content, str):
        parts = [Text(content)] if content else []
    elif isinstance(content, Block):
        message = f"{path}.content has to be a string or an array of blocks"
        raise malformed(f"{path}.content", message)
    else:
        for index, item in enumerate(content or ()):
            parts += _user_parts(item, f"{path}.content[{index}]")
    return ToolResult(
        call_id=_required(block.tool_use_id, path, "tool_use_id"),
        parts=parts,
        plain=isinstance(content, str),
        is_error=block.is_error is True,
        cache=cache_mark(block.cache_control),
        path=f"{path}.tool_use_id",
    )


def _source(block: Block, path: str) -> Source:
    if not isinstance(block.source, Source):
        raise missing(path)
    return block.source


def _required(value: str | None, path: str, name: str) -> str:
    if not value:
        raise missing(f"{path}.{name}")
    return value


def _unknown(block: Block, path: str) -> GatewayError:
    if block.type is None:
        return missing(f"{path}.type")
    message = (
        f"{path} is a block of the type {quoted(block.type)}, which the model's provider has no"
        " counterpart of here: leave it out, or ask a model of the protocol's own provider"
    )
    return untranslatable(path, message)


def _unknown_source(source: Source, path: str) -> GatewayError:
    if source.type is None:
        return missing(f"{path}.type")
    message = (
        f"{path} is of the type {quoted(source.type)}: a file's id is known to its own provider"
        " only, so send the content itself (base64)"
    )
    return untranslatable(path, message)
