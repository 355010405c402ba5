"""Which sealed segments may be deleted: what ``retention.ledger_days`` asks for.

Once a segment is deleted, the snapshots hold the only copy of what it added to the sums. So it goes
only when both generations cover it and both are known to be good; and the newest sealed segment
stays, since the numbering is read from the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omnigate.files import file_size, read_pieces
from omnigate.ledger.family import Position
from omnigate.ledger.lines import MAX_LINE_BYTES, DamagedLineError, NewerLineError, decode_line

#: Segments deleted at a time: the end of each is read, and each removal synced, in a tenth of a
#: second or so. The rest goes with the next check.
MAX_SEGMENTS = 20

#: How much of a segment's end is read for its last line: that line and one before it, at least.
TAIL_BYTES = 2 * MAX_LINE_BYTES


def outdated(
    numbers: Sequence[int], written: Callable[[int], str | None], cutoff: str
) -> list[int]:
    """The segments that were last written before ``cutoff``, oldest first.

    They are an unbroken row from the oldest on, never the newest, and :data:`MAX_SEGMENTS` at most.

    :param numbers: all sealed segments, rising.
    :param written: when the last line of one was recorded, as RFC 3339 with milliseconds; None
        where no line at its end can be read: it was then written no later than the next.
    :param cutoff: the same, the first instant that is kept.
    """
    found: list[int] = []
    for index, number in enumerate(numbers[:-1]):
        times = (written(later) for later in numbers[index:])
        last = next((time for time in times if time is not None), None)
        if last is None or last >= cutoff or len(found) >= MAX_SEGMENTS:
            break
        found.append(number)
    return found


def deletable(numbers: Sequence[int], generations: Sequence[Position | None]) -> list[int]:
    """Which of the segments both snapshot generations cover.

    :param numbers: segments that are outdated.
    :param generations: the positions up to which the newest snapshot and its spare go; None for
        one that is not there, or not known to be good.
    """
    covered = [0 if position is None else position.segment for position in generations]
    return [number for number in numbers if number < min(covered)]


def last_write(path: str) -> str | None:
    """When the last line of a sealed segment was recorded; None where no line there can be read.

    :raises OSError: the disk refused.
    """
    size = file_size(path) or 0
    tail = b"".join(read_pieces(path, max(0, size - TAIL_BYTES), size))
    for line in reversed(tail.split(b"\n")):
        try:
            event, _ = decode_line(line)
        except (DamagedLineError, NewerLineError):
            continue
        return event.received_at
    return None
