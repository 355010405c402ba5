"""What one protocol thought, packed so that a client of another brings it back.

A provider's thinking is signed and has to come back whole, but a client keeps only what its own
protocol has a field for: Responses one opaque text (``encrypted_content``), Messages another
(``signature``). So the block of the one travels inside the field of the other:

* ``omnigate.v1:`` and the base64 of a thinking block of Messages, for a client of Responses;
* ``omnigate.r1:`` and the base64 of ``{"id","encrypted_content"}``, for a client of Messages.

What comes back was in a client's hands and proves nothing; its provider checks its own signature.
"""

import base64
import binascii
from typing import Literal

import msgspec

from omnigate.dialects.shapes import RedactedThinking, Thinking
from omnigate.text import valid_text

OWN_PREFIX = "omnigate."
"""What every packed text begins with; such a text is no signature of any provider."""

_THINKING = OWN_PREFIX + "v1:"
_REASONING = OWN_PREFIX + "r1:"

MAX_PACKED_CHARS = 1024 * 1024
"""The longest packed text that is made or read: 750 KB of thinking, more than any model puts out.
To make one holds the reactor for some 5 ms, beside all else that the end of an answer takes."""


class _Block(msgspec.Struct, gc=False, omit_defaults=True):
    """A thinking block of Messages; the members stand in the order in which they are packed."""

    type: Literal["thinking", "redacted_thinking"]
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Reasoning(msgspec.Struct, gc=False):
    """What of a reasoning item of Responses has to come back."""

    id: str
    encrypted_content: str


_encode = msgspec.json.Encoder().encode
_decode_block = msgspec.json.Decoder(_Block).decode
_decode_reasoning = msgspec.json.Decoder(_Reasoning).decode


def pack_thinking(block: Thinking | RedactedThinking) -> str:
    """Pack a thinking block for a client of Responses.

    :returns: an empty text where it would be longer than :data:`MAX_PACKED_CHARS`: the client then
        reads the thinking and cannot bring it back.
    """
    if isinstance(block, Thinking):
        packed = _Block("thinking", block.text, block.signature)
    else:
        packed = _Block("redacted_thinking", data=block.data)
    return _pack(_THINKING, packed)


def unpack_thinking(text: str) -> Thinking | RedactedThinking | None:
    """Undo :func:`pack_thinking`; never raises.

    :returns: ``None`` for what was packed elsewhere, or is no block.
    """
    data = _unpack(_THINKING, text)
    if data is None:
        return None
    try:
        block = _decode_block(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if block.type == "redacted_thinking":
        return None if block.data is None else RedactedThinking(block.data)
    if block.thinking is None or block.signature is None:
        return None
    return Thinking(block.thinking, block.signature)


def pack_reasoning(item_id: str, encrypted_content: str) -> str:
    """Pack a reasoning item of Responses for a client of Messages.

    :returns: an empty text where it would be longer than :data:`MAX_PACKED_CHARS`.
    """
    return _pack(_REASONING, _Reasoning(item_id, encrypted_content))


def unpack_reasoning(text: str) -> tuple[str, str] | None:
    """Undo :func:`pack_reasoning`; never raises.

    :returns: the item's id and its ``encrypted_content``; ``None`` for what was packed elsewhere.
    """
    data = _unpack(_REASONING, text)
    if data is None:
        return None
    try:
        item = _decode_reasoning(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return item.id, item.encrypted_content


def _pack(prefix: str, value: msgspec.Struct) -> str:
    chars = sum(len(text) for text in msgspec.structs.astuple(value) if text)
    if chars * 4 // 3 > MAX_PACKED_CHARS:
        return ""
    try:
        data = _encode(value)
    except UnicodeEncodeError:
        # Half a character: no JSON can hold it. To look for one beforehand would take longer.
        members = msgspec.structs.asdict(value).items()
        repaired = {name: text and valid_text(text) for name, text in members}
        data = _encode(type(value)(**repaired))
    text = prefix + base64.b64encode(data).decode("ascii")
    return text if len(text) <= MAX_PACKED_CHARS else ""


def _unpack(prefix: str, text: str) -> bytes | None:
    if len(text) > MAX_PACKED_CHARS or not text.startswith(prefix):
        return None
    try:
        return base64.b64decode(text[len(prefix) :], validate=True)
    except (binascii.Error, ValueError):
        return None
