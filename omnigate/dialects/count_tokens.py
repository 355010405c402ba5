"""Token counts for clients of Messages whose model is at an upstream of OpenAI's protocol.

An upstream of Responses counts them itself. For others there is the estimate of this module, by the
rules of thumb that a broken answer is billed by: four bytes of UTF-8 are a token, a picture or a
document is 1,600, and what frames a message or a tool is 4. An answer that holds an estimate says
so in a header, :data:`ESTIMATE_LINE`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from omnigate.dialects.meter import BYTES_PER_TOKEN, TOKENS_PER_MEDIA_PART
from omnigate.dialects.shapes import (
    Document,
    Image,
    Part,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)

#: The header line of an answer whose count is an estimate; the value names what was estimated.
ESTIMATE_LINE: Final = b"x-omnigate-estimate: input_tokens\r\n"

#: Where a Responses upstream counts, behind the ``/v1`` in which its base address ends.
INPUT_TOKENS_PATH: Final = "/responses/input_tokens"

#: The role and the separators of a message, and as much for a tool, whose form is its provider's
#: own. Of short messages it would be wrong to count the text alone.
TOKENS_PER_FRAME: Final = 4


class _Count(msgspec.Struct):
    """The answer of a Responses upstream, ``response.input_tokens``."""

    input_tokens: int


_decode_count = msgspec.json.Decoder(_Count).decode


def estimate_input_tokens(request: Request) -> int:
    """Return about how many tokens a request has for an upstream of OpenAI's protocol.

    Counted is what such an upstream is sent: the text of the system and the messages, the calls
    of tools and their results, the tools with their schemas, and the schema of the answer; neither
    the JSON around it nor the base64 of media, nor thinking, which stays behind.
    """
    size = media = 0
    for turn in request.turns:
        bytes_here, media_here = _parts(turn.parts)
        size += bytes_here
        media += media_here
    size += sum(map(_tool_bytes, request.tools))
    if request.format is not None:
        size += _json_bytes(request.format.schema)
    frames = len(request.turns) + len(request.tools)
    return -(-size // BYTES_PER_TOKEN) + media * TOKENS_PER_MEDIA_PART + frames * TOKENS_PER_FRAME


def _parts(parts: Iterable[Part]) -> tuple[int, int]:
    """Return the bytes of text in some parts, and how many of them are media."""
    size = media = 0
    for part in parts:
        if isinstance(part, Text):
            size += _text_bytes(part.text)
        elif isinstance(part, ToolCall):
            size += _text_bytes(part.name) + _text_bytes(part.arguments)
        elif isinstance(part, ToolResult):
            bytes_here, media_here = _parts(part.parts)
            size += bytes_here
            media += media_here
        elif isinstance(part, Document):
            size += _text_bytes(part.title or "")
            if part.media_type == "text/plain" and not part.url:
                size += _text_bytes(part.data)
            else:
                media += 1
        elif isinstance(part, Image):
            media += 1
    return size, media


def _tool_bytes(tool: Tool) -> int:
    described = _text_bytes(tool.name) + _text_bytes(tool.description or "")
    return described + _json_bytes(tool.schema)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json_bytes(raw: bytes) -> int:
    """Return the length of JSON without the blanks that a client put into it."""
    return len(msgspec.json.format(raw, indent=-1)) if raw else 0


def count_answer(tokens: int) -> bytes:
    """Return the body of the answer to a client of Messages."""
    return b'{"input_tokens":%d}' % tokens


def read_count(body: bytes) -> int | None:
    """Return the count in a Responses upstream's answer; ``None`` where it is no such answer."""
    try:
        count = _decode_count(body).input_tokens
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return count if count >= 0 else None
