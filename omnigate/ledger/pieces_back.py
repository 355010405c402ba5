"""A file of lines, read from its end to its beginning in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from omnigate.ledger.lines import MAX_LINE_BYTES

#: Read at a time: about 400 lines, which are gone through in less than a millisecond, so a thread
#: that does this lets others have their turn as often.
BLOCK_BYTES: Final = 256 * 1024


@attrs.frozen
class Piece:
    """Some whole lines that follow each other.

    :ivar start: the offset of the first one.
    :ivar data: the lines with their ends; the last one of a file may lack it. Empty where all that
        was read is a part of a line that is too long to be one.
    """

    start: int
    data: bytes


def pieces_back(
    read: Callable[[int, int], bytes],
    end: int,
    *,
    drop_torn: bool,
    block_bytes: int = BLOCK_BYTES,
    max_line: int = MAX_LINE_BYTES,
) -> Iterator[Piece]:
    """Read backwards, the last piece first.

    All pieces together are what stands before ``end``, but for lines that are longer than
    ``max_line``; of those some are left out, whole.

    :param read: reads so many bytes from an offset on; less where the file ends before that.
    :param end: the offset to begin at: the end of the file, or where a line begins.
    :param drop_torn: whether what stands behind the last line end is no line.
    """
    held, too_long = b"", False
    while end > 0:
        start = max(0, end - block_bytes)
        block = read(start, end - start)
        if len(block) < end - start:
            held, too_long, drop_torn = b"", False, True  # it was cut off meanwhile
        if drop_torn:
            block = block[: block.rfind(b"\n") + 1]
            drop_torn = not block
        end = start
        # What stands before the first line end belongs to a line that begins further ahead.
        first = block.find(b"\n") + 1 if start else 0
        if start and not first:
            held = block + held
            if too_long or len(held) > max_line + 1:
                held, too_long = b"", True
                yield Piece(start, b"")
            continue
        data = block[first:] + held
        if too_long:
            data, too_long = data[: data.rfind(b"\n") + 1], False
        held = block[:first]
        yield Piece(start + first, data)
