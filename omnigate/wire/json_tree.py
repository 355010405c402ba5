"""Trees of request bodies: what one costs, told before it is made, and the making.

The scan has no need of a tree. Where one is wanted all the same, its memory is
estimated from above out of counts, so that it can be reserved, and its time too. The
counts come from the walk that a long body went through as it arrived; of any other they
are taken here.
"""

from __future__ import annotations

import gc
import re
from typing import Any, NamedTuple

import msgspec

from omnigate.wire.json_body import MAX_DEPTH, MAX_KEY_BYTES, MAX_MEMBERS, MAX_TREE_MEMBERS
from omnigate.wire.json_walk import JsonWalk, TextCounts

#: What one tree may take: so many times its text and a megabyte, but no more than the last.
TEXT_TIMES = 128
TREE_ROOM_BYTES = 1024 * 1024
MAX_TREE_BYTES = 96 * 1024 * 1024
#: How long the making of one and the freeing may take, as estimated. The estimate is above what
#: was measured by a quarter or more, so that the reactor stands still for 20 ms at the most.
MAX_TREE_NANOSECONDS = 25_000_000

# A body is not walked up to here, nor up to there if it has at most so many strings, values and
# members, those in its strings counted in. Its tree takes up to 15 ms, where each comma parts two
# slow numbers.
_SMALL_BYTES = 65536
_CALM_BYTES = 262144
_CALM_MARKS = 24000

# Bytes of memory, each from above, in CPython 3.11 to 3.13 on 64 bits.
# An array takes two bytes of text, and 56 and at first four slots; an object takes three (two
# where it is empty), and 184 up to five members; each one more takes 40 at the most.
_STRUCTURE_BYTES = 64
# A number takes 32 and its slot up to 10. The shortest that is not shared takes three bytes of
# text with its comma; a literal takes five and a slot.
_NUMBER_BYTES = 42
_PLAIN_BYTES = 16
_LITERAL_BYTES = 2
# A string takes 50 and its slot, one that is not ASCII 76; allocators round up to 16.
_STRING_BYTES = 112
# A string is decoded into one-byte characters, then copied into wider ones where it has any.
_GROWTH = 1.5

# Nanoseconds, each from above, on a core that takes 6 ms to scan an image of 8 MiB
# (``python -m bench scan image``); freeing counts in.
_STRUCTURE_NS = 80.0
_WALK_NS = 60.0  # where the walk is part of the telling
_STRING_NS = 60.0
_WIDE_STRING_NS = 180.0
_TEXT_NS = 0.75
_WIDE_TEXT_NS = 1.7
_ESCAPE_NS = 6.0
# A float that is hard to round takes 650: for seven bytes with its comma, four of them digits.
# Digits of long integers take 18, blanks 1.7.
_PLAIN_NS = 120.0
_DIGIT_NS = 250.0
_BLANK_NS = 2.2

# Up to so much its digits are not counted, which takes 5 ms of 8 MiB; it is a quarter of a
# millisecond, from above.
_LITTLE_PLAIN = 2048

# Up to this size it is looked for whether escapes spell wide characters, which takes 1 ms.
_LOOK_BYTES = 1024 * 1024
_ASTRAL = tuple(bytes((lead,)) for lead in range(0xF0, 0xF5))
_DIGITS = b"0123456789"
_spelled = re.compile(rb"\\u").search
_surrogate = re.compile(rb"\\u[dD]").search
_NOT_COUNTED = bytes(set(range(256)) - set(b'[]{}:,"'))


class TreeError(Exception):
    """A body that no tree is made of; status 400.

    :param code: ``request_too_complex``, or ``invalid_request`` for a number that the scan leaves
        to the provider to judge.
    :param message: one sentence for the client; holds nothing the client sent.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class TreeCost(NamedTuple):
    """What a tree takes at the most, the making counted in.

    :ivar size: bytes.
    :ivar nanoseconds: of the processor; 0 for a body so small or so plain that it is not told.
    """

    size: int
    nanoseconds: int


def tree_cost(body: bytes, counts: TextCounts | None) -> TreeCost:
    """Tell what a tree of a body takes, and refuse where that is too much.

    :param body: a scanned body, so one JSON object.
    :param counts: what the scan counted, if it did.
    :raises TreeError: for more than 1,024 members in an object, memory over the cap of one
        tree, or more time than the reactor may stand still for.
    """
    cost = None
    if counts is None and len(body) <= _CALM_BYTES:
        cost = _cost_of_unwalked(body)
    if cost is None:
        cost = _cost_of_walked(body, counts)
    size, nanoseconds = cost
    if size > min(TEXT_TIMES * len(body) + TREE_ROOM_BYTES, MAX_TREE_BYTES):
        raise TreeError("request_too_complex", "The body would take too much memory once read.")
    if nanoseconds > MAX_TREE_NANOSECONDS:
        raise TreeError("request_too_complex", "The body has too many values to be read whole.")
    return cost


def build_tree(body: bytes) -> dict[str, Any]:
    """Make the tree of a scanned body whose cost was accepted.

    Of a member named twice the last is taken, which is how providers read.

    :raises TreeError: for a number that no float or no int of 4,300 digits can hold.
    """
    # A collection comes with every 700 containers made, and finds nothing: all are in use.
    collecting = gc.isenabled()
    gc.disable()
    try:
        tree: dict[str, Any] = _decode(body)
    except msgspec.ValidationError:
        raise TreeError("invalid_request", "A number in the body is out of range.") from None
    finally:
        if collecting:
            gc.enable()
    return tree


def _number(text: str) -> float:
    """Read a float: rounding takes msgspec up to 10 µs, and this less than one."""
    value = float(text)
    if value - value:
        raise TreeError("invalid_request", "A number in the body is out of range.")
    return value


_decode = msgspec.json.Decoder(dict[str, Any], float_hook=_number).decode


def _walked(body: bytes) -> TextCounts:
    walk = JsonWalk((), MAX_DEPTH, MAX_MEMBERS, MAX_KEY_BYTES, 0, MAX_TREE_MEMBERS)
    walk.feed(body)
    return walk.counts


def _refuse_crowded() -> None:
    raise TreeError(
        "request_too_complex",
        f"An object in the body has more than {MAX_TREE_MEMBERS} members.",
    )


def _cost_of_walked(body: bytes, counts: TextCounts | None) -> TreeCost:
    structure_ns = _STRUCTURE_NS
    if counts is None:
        counts = _walked(body)
        structure_ns += _WALK_NS
    if counts.crowded:
        _refuse_crowded()
    plain = counts.outside - counts.structure
    text = len(body) - counts.outside
    plain_bytes, plain_ns = _PLAIN_BYTES * plain, _PLAIN_NS * plain
    if plain > _LITTLE_PLAIN:
        # What is plain is numbers, literals, commas and blanks; and numbers have digits.
        digits = len(body) - len(body.translate(None, _DIGITS))
        plain_bytes = min(plain_bytes, _NUMBER_BYTES * digits + _LITERAL_BYTES * plain)
        plain_ns = min(plain_ns, _DIGIT_NS * digits + _BLANK_NS * plain)
    size = (
        _text_bytes(body, text)
        + _STRUCTURE_BYTES * counts.structure
        + plain_bytes
        + _STRING_BYTES * counts.strings
    )
    nanoseconds = (
        _text_nanoseconds(body, text)
        + structure_ns * counts.structure
        + plain_ns
        + (_STRING_NS if body.isascii() else _WIDE_STRING_NS) * counts.strings
    )
    return TreeCost(size, int(nanoseconds))


def _cost_of_unwalked(body: bytes) -> TreeCost | None:
    """Take brackets, colons and commas in strings for those outside of them.

    :returns: ``None`` for a body that has too many.
    """
    marks = body.translate(None, _NOT_COUNTED)
    commas = marks.count(b",")
    strings = marks.count(b'"')
    structure = len(marks) - commas - strings
    if len(body) > _SMALL_BYTES and commas + strings + structure // 2 > _CALM_MARKS:
        return None
    if marks.count(b":") > MAX_TREE_MEMBERS and _walked(body).crowded:
        _refuse_crowded()
    size = (
        _text_bytes(body, len(body))
        + _STRUCTURE_BYTES * structure
        + _NUMBER_BYTES * (commas + structure // 2)
        + _STRING_BYTES * (strings // 2)
    )
    return TreeCost(size, 0)


def _text_bytes(body: bytes, text: int) -> int:
    """How much the characters of all strings take, while they are decoded.

    :param text: bytes in strings. One wide character makes all of its string wide.
    """
    escaped = b"\\" in body
    spelled = escaped and _spelled(body) is not None
    if any(lead in body for lead in _ASTRAL) or (
        spelled and (len(body) > _LOOK_BYTES or _surrogate(body) is not None)
    ):
        width = 4 * _GROWTH
    elif spelled or not body.isascii():
        width = 2 * _GROWTH
    else:
        width = 1
    return int(text * (width + escaped))


def _text_nanoseconds(body: bytes, text: int) -> float:
    spent = text * (_TEXT_NS if body.isascii() else _WIDE_TEXT_NS)
    if b"\\" in body:
        spent += _ESCAPE_NS * (len(body) - len(body.translate(None, b"\\")))
    return spent
