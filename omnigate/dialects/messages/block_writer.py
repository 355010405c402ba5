"""Parts of a turn ⇄ content blocks for a Messages upstream, ready to be encoded."""

from typing import Any

import msgspec

from omnigate.dialects.media import PDF
from omnigate.dialects.request_body import untranslatable
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
from omnigate.dialects.tool_ids import anthropic_id
from omnigate.text import quoted
from omnigate.wire.json_values import rounded

Block = dict[str, Any]

MAX_CACHE_MARKS = 4
"""What the provider takes in one request."""

_IMAGE_TYPES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
# Names that are in use for one of these.
_IMAGE_ALIASES = {"image/jpg": "image/jpeg"}

# How long a mark of OpenAI lives at least: both are more than Anthropic's five minutes.
_LONG_TTLS = ("30m", "12h")


class _Breakpoint(msgspec.Struct, gc=False):
    ttl: Any = None


_decode_breakpoint = msgspec.json.Decoder(_Breakpoint, float_hook=rounded).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


class BlockWriter:
    """Makes blocks, and takes note of those that a client wants cached, in prompt order."""

    def __init__(self) -> None:
        self._marked: list[tuple[Block, CacheMark]] = []

    def mark(self, block: Block, cache: CacheMark | None) -> Block:
        """Take note of a client's mark on a block, or on a tool; returns it."""
        if cache is not None:
            self._marked.append((block, cache))
        return block

    def place_marks(self) -> None:
        """Put the last :data:`MAX_CACHE_MARKS` marks where the client has them."""
        for block, cache in self._marked[-MAX_CACHE_MARKS:]:
            block["cache_control"] = _cache_control(cache)

    def block(self, part: Part) -> Block:
        """Return the block of a part.

        :raises GatewayError: ``untranslatable_request`` for a picture of a type that the provider
            does not take.
        """
        match part:
            case Text():
                return self.mark({"type": "text", "text": part.text}, part.cache)
            case Image():
                return self.mark({"type": "image", "source": _image_source(part)}, part.cache)
            case Document():
                return self.mark(_document(part), part.cache)
            case Thinking():
                return {"type": "thinking", "thinking": part.text, "signature": part.signature}
            case RedactedThinking():
                return {"type": "redacted_thinking", "data": part.data}
            case ToolCall():
                return self.mark(_tool_use(part), part.cache)
            case ToolResult():
                return self._tool_result(part)

    def _tool_result(self, result: ToolResult) -> Block:
        """Return what a tool answered; no content where all of it is blank."""
        block: Block = {"type": "tool_result", "tool_use_id": anthropic_id(result.call_id)}
        parts = [
            part
            for part in result.parts
            if not isinstance(part, Text) or (part.text and not part.text.isspace())
        ]
        if result.plain and len(parts) == 1 and isinstance(parts[0], Text):
            block["content"] = parts[0].text
        elif parts:
            block["content"] = [self.block(part) for part in parts]
        if result.is_error:
            block["is_error"] = True
        return self.mark(block, result.cache)


def _cache_control(cache: CacheMark) -> Any:
    if not cache.openai:
        return msgspec.Raw(cache.value)
    try:
        ttl = _decode_breakpoint(cache.value).ttl
    except msgspec.MsgspecError:
        ttl = None
    return {"type": "ephemeral", "ttl": "1h"} if ttl in _LONG_TTLS else {"type": "ephemeral"}


def _image_source(image: Image) -> Block:
    if image.url:
        return {"type": "url", "url": image.url}
    media_type = image.media_type.lower()
    media_type = _IMAGE_ALIASES.get(media_type, media_type)
    if media_type not in _IMAGE_TYPES:
        message = (
            f"{image.path} is a picture of the type {quoted(media_type)}, and the model's provider"
            " takes JPEG, PNG, GIF and WebP: convert it first"
        )
        raise untranslatable(image.path, message)
    return {"type": "base64", "media_type": media_type, "data": image.data}


def _document(document: Document) -> Block:
    if document.url:
        source = {"type": "url", "url": document.url}
    else:
        kind = "base64" if document.media_type == PDF else "text"
        source = {"type": kind, "media_type": document.media_type, "data": document.data}
    block: Block = {"type": "document", "source": source}
    if document.title:
        block["title"] = document.title
    return block


def _tool_use(call: ToolCall) -> Block:
    return {
        "type": "tool_use",
        "id": anthropic_id(call.id),
        "name": call.name,
        "input": _input(call.arguments),
    }


def _input(arguments: str) -> Any:
    """Return arguments as an object: as it stands, and what is none wrapped in one.

    No tree is made of them, so their numbers keep their spelling.
    """
    text = arguments.strip(" \t\r\n")
    if not text:
        return {}
    if text.startswith("{"):
        try:
            return _decode_raw(text.encode("utf-8"))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            pass  # cut off in the middle, or otherwise no JSON
    return {"__raw_arguments": arguments}
