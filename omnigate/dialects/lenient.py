"""JSON of providers decoded into shapes, with patience for what some servers write.

Lone surrogates, bytes that are no UTF-8, a mark at the beginning, ``NaN`` and bare control bytes
are known from the field; msgspec takes none of them, and the clients of a translation need JSON
that every parser takes.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from omnigate.dialects.answer import MAX_HELD_BYTES, read_answer
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.usage import load_tree
from omnigate.text import is_utf8, repair_utf8
from omnigate.wire.json_members import MAX_ANSWER_DEPTH
from omnigate.wire.json_walk import JsonWalk

T = TypeVar("T")

#: What a decoder raises for what does not fit; the last for what nests too deep.
MISFITS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

#: A longer text is not mended, which takes 30 ms a megabyte. The longest answers of today, of
#: 128,000 tokens, have half a megabyte.
MAX_MENDED_BYTES = 512 * 1024

#: Objects and arrays in one text. A shape takes some 0.2 µs of each; an answer has a few thousand
#: even where a tool is given a table.
MAX_CONTAINERS = 100_000

# So many are looked for one by one: where there are few, that is eight times as fast as counting.
_FEW_BRACES = 256

#: Parts, blocks or calls in one answer. Real ones have dozens; each takes up to 4 µs until it is
#: written, four events of Responses where the client wants a stream.
MAX_PARTS = 1024

_QUOTE = 0x22
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Stands for an escaped backslash while other escapes are looked for; JSON has no such bytes.
_PAIR_MARK = b"\x00\x00"
# Both halves behind one prefix, without which text is looked through fifty times slower.
_lone_surrogates = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
).sub


class _Object(msgspec.Struct, gc=False):
    """Any JSON object; nothing of it is kept."""


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_text = msgspec.json.Decoder(str).decode


def decode_leniently(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """Decode JSON, repaired where it has to be.

    :param decode: of a ``msgspec.json.Decoder``; raw members of what it returns are UTF-8.
    :returns: ``None`` for what is no JSON, does not fit the shape, or has more than
        :data:`MAX_CONTAINERS`.
    """
    if len(data) <= MAX_MENDED_BYTES:
        data = repair_utf8(data)
    elif not is_utf8(data):
        return None
    if _has_many_braces(data) and _containers(data) > MAX_CONTAINERS:
        return None
    try:
        return decode(data)
    except msgspec.ValidationError:
        return None
    except MISFITS:
        if len(data) > MAX_MENDED_BYTES:
            return None
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


def decode_member(decode: Callable[[msgspec.Raw | bytes], T], raw: msgspec.Raw) -> T | None:
    """Decode a raw member of what :func:`decode_leniently` returned, whose bounds it has passed."""
    try:
        return decode(raw)
    except msgspec.ValidationError:
        return None
    except MISFITS:
        return decode_leniently(decode, bytes(raw))


def not_an_answer(kind: str, body: bytes) -> NotAnAnswer:
    """Return the finding on an answer that could not be decoded.

    :param kind: of the endpoint that was asked.
    """
    if len(body) > MAX_MENDED_BYTES:
        return NotAnAnswer("wrong_shape" if _is_object(body) else "not_json")
    verdict, _ = read_answer(kind, body)
    return NotAnAnswer("wrong_shape" if verdict == "ok" else verdict)


def _is_object(data: bytes) -> bool:
    try:
        _decode_object(data)
    except MISFITS:
        return False
    return True


def bounded(parts: list[T]) -> list[T]:
    """Return a list that is no longer than what is gone through.

    :raises NotAnAnswer: it is.
    """
    if len(parts) > MAX_PARTS:
        raise NotAnAnswer("wrong_shape")
    return parts


def _has_many_braces(data: bytes) -> bool:
    at = -1
    for _ in range(_FEW_BRACES):
        at = data.find(b"{", at + 1)
        if at < 0:
            return False
    return data.count(b"{") > MAX_CONTAINERS


def _containers(data: bytes) -> int:
    """Count the objects and arrays of a text; braces inside of strings are none."""
    walk = JsonWalk((), MAX_ANSWER_DEPTH, 0, len(data), 0)
    walk.feed(data)
    return walk.counts.structure // 2


def mended(data: bytes) -> bytes:
    """Put U+FFFD where there is no UTF-8, and where an escape is half of a surrogate pair."""
    data = repair_utf8(data.removeprefix(_BYTE_ORDER_MARK))
    if _PAIR_MARK in data:
        return data
    marked = data.replace(rb"\\", _PAIR_MARK)
    return _lone_surrogates(rb"\\ufffd", marked).replace(_PAIR_MARK, rb"\\")


def text_of(raw: msgspec.Raw) -> str:
    """Return the string in a raw member; an empty one where it holds none."""
    return text_in(bytes(raw))


def long_text_of(raw: msgspec.Raw) -> str:
    """Do the same for a text that may be a long one, of which a copy would take half the time."""
    view = memoryview(raw)
    if view.nbytes > MAX_MENDED_BYTES and view[0] == _QUOTE:
        try:
            return _decode_text(view)
        except MISFITS:
            pass
    return text_in(bytes(view))


def text_in(data: bytes) -> str:
    """Return the string that JSON is; an empty one where it is none."""
    if not data.startswith(b'"'):
        return ""
    try:
        return _decode_text(data)
    except MISFITS:
        pass
    try:
        return _decode_text(mended(data))
    except MISFITS:
        return ""
