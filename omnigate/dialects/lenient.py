"""JSON of providers decoded into shapes, with patience for what some servers write.

Lone surrogates, bytes that are no UTF-8, a mark at the beginning, ``NaN`` and bare control bytes
are known from the field; msgspec takes none of them, and the clients of a translation need JSON
that every parser takes.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from omnigate.dialects.answer import MAX_HELD_BYTES
from omnigate.dialects.event_shapes import ABSENT
from omnigate.dialects.usage import load_tree
from omnigate.text import repair_utf8

T = TypeVar("T")

#: What a decoder raises for what does not fit; the last for what nests too deep.
MISFITS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Stands for an escaped backslash while other escapes are looked for; JSON has no such bytes.
_PAIR_MARK = b"\x00\x00"
_lone_surrogates = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
).sub

_decode_text = msgspec.json.Decoder(str).decode


def decode_leniently(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """Decode JSON, repaired where it has to be.

    :param decode: of a ``msgspec.json.Decoder``; raw members of what it returns are UTF-8.
    :returns: ``None`` for what is no JSON, or does not fit the shape.
    """
    data = repair_utf8(data)
    try:
        return decode(data)
    except msgspec.ValidationError:
        return None
    except MISFITS:
        data = mended(data)
    try:
        return decode(data)
    except MISFITS:
        # What is left is what Python's parser takes; msgspec writes null where it was no number.
        tree = load_tree(data, MAX_HELD_BYTES)
    try:
        return None if tree is None else decode(msgspec.json.encode(tree))
    except (*MISFITS, ValueError, OverflowError):
        return None


def mended(data: bytes) -> bytes:
    """Put U+FFFD where there is no UTF-8, and where an escape is half of a surrogate pair."""
    data = repair_utf8(data.removeprefix(_BYTE_ORDER_MARK))
    if _PAIR_MARK in data:
        return data
    marked = data.replace(rb"\\", _PAIR_MARK)
    return _lone_surrogates(rb"\\ufffd", marked).replace(_PAIR_MARK, rb"\\")


def text_of(raw: msgspec.Raw) -> str:
    """Return the string in a raw member; an empty one where it holds none."""
    if raw is ABSENT:
        return ""
    try:
        return _decode_text(raw)
    except MISFITS:
        return ""
