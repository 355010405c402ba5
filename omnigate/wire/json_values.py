"""Reading JSON of strangers into plain values, in a time that its length bounds.

msgspec takes up to 100 µs to round one number of 1e289 and above, ``1e308`` being six bytes with
its comma; so a decoder that makes plain values of what others wrote has numbers rounded by
:func:`rounded`, which takes less than one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from omnigate.wire.json_walk import PIECE_BYTES, JsonWalk

#: How deep a text may nest.
MAX_DEPTH: Final = 64
#: What it may hold, so that its tree takes no more than about 15 ms: bytes outside of strings
#: (numbers that are hard to round are the slowest), strings, and escapes in strings.
MAX_OUTSIDE_BYTES: Final = 131_072
MAX_STRINGS: Final = 24_000
MAX_ESCAPES: Final = 120_000


class BoundsError(ValueError):
    """A text that is not read; the message says why, and holds nothing of it."""


def rounded(text: str) -> float:
    """Return a number with a fraction or an exponent, as the ``float_hook`` of a decoder.

    :raises ValueError: it is too great for a float; the decoder says so as of any other fault.
    """
    value = float(text)
    if value - value:
        raise ValueError("Number out of range")
    return value


#: Reads what is known to be short; everything it raises is a ``msgspec.DecodeError``, a
#: ``RecursionError`` or a ``UnicodeDecodeError``.
decode_values: Final = msgspec.json.Decoder(float_hook=rounded).decode


def check_bounds(text: bytes) -> None:
    """Refuse a text whose tree would take long.

    :raises BoundsError: it nests too deep, holds too much, or its brackets do not match.
    """
    if text.count(b"\\") > MAX_ESCAPES:
        raise BoundsError("holds too much to be read")
    walk = JsonWalk((), MAX_DEPTH, len(text) + 1, len(text) + 1, 0)
    for start in range(0, len(text), PIECE_BYTES):
        walk.feed(text[start : start + PIECE_BYTES])
        if walk.fault == "depth":
            raise BoundsError("nests too deep")
        if walk.fault is not None:
            raise BoundsError("is not valid JSON")
        counts = walk.counts
        if counts.outside > MAX_OUTSIDE_BYTES or counts.strings > MAX_STRINGS:
            raise BoundsError("holds too much to be read")


def read_values(text: bytes) -> Any:
    """Read a text of whatever length.

    :raises BoundsError: it is no JSON, or beyond the bounds above.
    """
    check_bounds(text)
    try:
        return decode_values(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BoundsError("is not valid JSON") from None
