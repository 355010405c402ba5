"""Finds recorded events in the segments, the newest first, further back than memory goes.

One look reads the files backwards, no more than it is allowed to, and says how far it came and
where the next one goes on. It reads beside the writer: the active segment may grow, be sealed, or
be deleted meanwhile. What is open is read to its end, and what is gone is passed over.

An event is found once, as the ledger counts it: of lines with one id the first one counts, unless
the ledger had forgotten the id by the time of the next. A second line stands near the first one if
anywhere, so a look goes a little further back than what it shows (:data:`BEHIND_BYTES`); whatever
stands further apart is told by ``omnigate ledger verify``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any, Final

import attrs

from omnigate.ledger.event_filter import EventFilter, SearchedEvent, line_starts, read_searched
from omnigate.ledger.family import Family, Position
from omnigate.ledger.lines import (
    MAX_LINE_BYTES,
    DamagedLineError,
    NewerLineError,
    decode_line,
    decode_object,
)
from omnigate.ledger.pieces_back import BLOCK_BYTES, pieces_back
from omnigate.ledger.reading import SegmentReader, segments_of
from omnigate.periods import DAY_MS, END_MS, rfc3339

#: What one look reads at most: four full segments, about 400,000 events.
LOOK_BYTES: Final = 256 * 1024 * 1024

#: How long one look takes at most, so that a page is there in 0.3 s with all that is around it.
LOOK_SECONDS: Final = 0.2

#: How much further back a look goes for earlier lines of the events that it found.
BEHIND_BYTES: Final = 4 * 1024 * 1024

#: How long after its end an event may reach the ledger and still be found by its time: as long as
#: ids are remembered, unless somebody changed that. A search for older events begins there.
LATE_MS: Final = 3 * DAY_MS

#: How far the clock of a data plane may be ahead of ours.
AHEAD_MS: Final = DAY_MS

#: Lines that are tried for the time at which a piece was recorded; mostly the first one tells.
TIME_LINES: Final = 10

#: What is read of a segment's beginning to know when it was begun: the longest line, and a second.
FIRST_BYTES: Final = 2 * MAX_LINE_BYTES


@attrs.frozen
class LookedBack:
    """What one look found.

    :ivar events: as objects, the newest first; ``cost_usd`` is the exact decimal string.
    :ivar next: where the next look goes on; ``None`` where there is nothing further back.
    :ivar back_to: when the oldest line that was looked at was recorded, as RFC 3339; ``None`` where
        there is none.
    :ivar end: where the newest line ends that there was; ``None`` where there is no file.
    """

    events: list[dict[str, Any]]
    next: Position | None
    back_to: str | None
    end: Position | None = None


def write_cursor(position: Position) -> str:
    """Return a place to go on at as text that a query can hold."""
    return f"{position.segment}.{position.offset}"


def read_cursor(text: str) -> Position:
    """Return the place that :func:`write_cursor` wrote.

    :raises ValueError: it is none.
    """
    segment, _, offset = text.partition(".")
    if not (segment.isascii() and segment.isdigit() and offset.isascii() and offset.isdigit()):
        raise ValueError("cursor must be what an earlier answer said")
    if len(segment) > 10 or len(offset) > 15:
        raise ValueError("cursor must be what an earlier answer said")
    return Position(int(segment), int(offset))


def look_back(
    family: Family,
    wanted: EventFilter,
    limit: int,
    ids_days: int,
    before: Position | None = None,
    after: Position | None = None,
    *,
    max_bytes: int = LOOK_BYTES,
    max_seconds: float = LOOK_SECONDS,
    block_bytes: int = BLOCK_BYTES,
    seconds: Callable[[], float] = time.monotonic,
) -> LookedBack:
    """Find the newest events that are wanted.

    It blocks, and is called in a thread.

    :param limit: how many events at most.
    :param ids_days: for how many days the ledger remembers ids; 0 for ever.
    :param before: where an earlier look said that this one goes on; ``None`` begins at the end.
    :param after: the ``end`` of an earlier look, where this one ends; ``None`` goes back to the
        beginning.
    :param block_bytes: how much is read at a time.
    :raises OSError: the disk refused.
    """
    look = _Look(wanted, limit, max_bytes, seconds() + max_seconds, block_bytes, seconds)
    for segment in reversed(segments_of(family)):
        if before is not None and segment.number > before.segment:
            continue
        if after is not None and segment.number < after.segment:
            break
        at = before is not None and segment.number == before.segment
        look.go_through(
            segment,
            before.offset if before is not None and at else None,
            after.offset if after is not None and segment.number == after.segment else 0,
        )
        if look.is_over:
            break
    return look.result(ids_days)


class _Look:
    """One look on its way."""

    def __init__(
        self,
        wanted: EventFilter,
        limit: int,
        max_bytes: int,
        deadline: float,
        block_bytes: int,
        seconds: Callable[[], float],
    ) -> None:
        self._wanted = wanted
        self._limit = limit
        self._bytes_left = max_bytes
        self._deadline = deadline
        self._block_bytes = block_bytes
        self._seconds = seconds
        self._token = wanted.token()
        self._not_before = _recorded(wanted.since_ms, -AHEAD_MS)
        self._not_after = _recorded(wanted.until_ms, LATE_MS)
        self._found: list[dict[str, Any]] = []
        # For each id that was found, all its lines from the last one on: the day of recording, and
        # its place among what was found.
        self._lines: dict[str, list[tuple[str, int | None]]] = {}
        self._next: Position | None = None
        self._end: Position | None = None
        self._behind_left = BEHIND_BYTES
        self._back_to: str | None = None
        self._at_the_end = False

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to read."""
        return self._at_the_end or (
            self._next is not None and (self._behind_left <= 0 or not self._lines)
        )

    def go_through(self, segment: SegmentReader, end: int | None, begin: int) -> None:
        """Look at one segment, from an offset on up to another one, or its end."""
        fd, sealed = _open(segment)
        if fd is None:
            return
        try:
            size = os.fstat(fd).st_size
            end = size if end is None else min(end, size)

            def read(start: int, length: int) -> bytes:
                return os.pread(fd, length, start)

            if self._not_after is not None and self._begins_too_late(read(0, FIRST_BYTES)):
                self._stop_if_enough(segment.number, 0, FIRST_BYTES)
                return

            pieces = pieces_back(read, end, drop_torn=not sealed, block_bytes=self._block_bytes)
            for piece in pieces:
                if self._end is None:
                    self._end = Position(segment.number, piece.start + len(piece.data))
                data = piece.data
                if begin and piece.start <= begin:
                    self._at_the_end = True
                    data = data[begin - piece.start :]
                if data:
                    self._look_at(segment.number, max(begin, piece.start), data)
                if self.is_over:
                    return
            self._end = self._end or Position(segment.number, 0)
        finally:
            os.close(fd)

    def result(self, ids_days: int) -> LookedBack:
        """Return what was found, each event once."""
        dropped = {
            place for lines in self._lines.values() for place in _duplicates(lines, ids_days)
        }
        events = [event for place, event in enumerate(self._found) if place not in dropped]
        return LookedBack(events, self._next, self._back_to, self._end)

    # -- within -------------------------------------------------------------------------------

    def _begins_too_late(self, beginning: bytes) -> bool:
        """Whether all of a segment was recorded after any event that is wanted."""
        if self._next is not None:
            return False
        first = next(_times(beginning), None)
        if first is None or self._not_after is None or first <= self._not_after:
            return False
        self._back_to = first
        return True

    def _look_at(self, number: int, offset: int, data: bytes) -> None:
        """Look at the lines that stand at an offset, the last one first."""
        recorded = next(_times(data), None)
        if self._next is not None:
            self._behind_left -= len(data)
            self._look_behind(data)
            return
        if self._not_after is None or recorded is None or recorded <= self._not_after:
            for start in reversed(line_starts(data, self._token)):
                self._take(_line_at(data, start))
                if len(self._found) >= self._limit:
                    self._next = Position(number, offset + start)
                    self._back_to = self._found[-1]["received_at"]
                    self._look_behind(data[:start])
                    return
        self._back_to = recorded or self._back_to
        if self._not_before is not None and recorded is not None and recorded < self._not_before:
            self._at_the_end = True
        else:
            self._stop_if_enough(number, offset, len(data))

    def _take(self, line: bytes) -> None:
        """Keep the event of a line if it is wanted; remember where an event has another line."""
        event = read_searched(line)
        if event is None:
            return
        if self._wanted.takes(event):
            found = _counted(line)
            if found is not None:
                lines = self._lines.setdefault(event.id, [])
                lines.append((event.received_at[:10], len(self._found)))
                self._found.append(found)
        else:
            self._remember(event, line)

    def _look_behind(self, data: bytes) -> None:
        """Look for earlier lines of what was found."""
        for start in reversed(line_starts(data, self._token)):
            line = _line_at(data, start)
            event = read_searched(line)
            if event is not None:
                self._remember(event, line)

    def _remember(self, event: SearchedEvent, line: bytes) -> None:
        if event.id in self._lines and _time_of(line) is not None:
            self._lines[event.id].append((event.received_at[:10], None))

    def _stop_if_enough(self, number: int, offset: int, size: int) -> None:
        """Stop here if that was all that one look may read."""
        self._bytes_left -= size
        if self._bytes_left <= 0 or self._seconds() >= self._deadline:
            self._next = Position(number, offset)


def _open(segment: SegmentReader) -> tuple[int | None, bool]:
    """Open a segment under whatever name it has; say whether it is a sealed one.

    :return: no descriptor where it is gone.
    :raises OSError: the disk refused.
    """
    sealed = segment.family.sealed(segment.number)
    if segment.active:
        active = _opened(segment.family.active)
        # If it was sealed before it was opened, what is open is the next one.
        if not os.path.lexists(sealed):
            return active, False
        if active is not None:
            os.close(active)
    return _opened(sealed), True


def _opened(path: str) -> int | None:
    try:
        # Without O_NONBLOCK the opening of a named pipe would wait for somebody to write there.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None


def _line_at(data: bytes, start: int) -> bytes:
    """Return the line that begins at an offset, without its end."""
    end = data.find(b"\n", start)
    return data[start:] if end < 0 else data[start:end]


def _counted(line: bytes) -> dict[str, Any] | None:
    """Return the event of a line that the ledger counts, whole."""
    if _time_of(line) is None:
        return None
    try:
        return decode_object(line)
    except DamagedLineError:
        return None  # damaged in a member that no sum needs


def _time_of(line: bytes) -> str | None:
    """Return when a line was recorded; ``None`` for one that the ledger does not count."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        return decode_line(line)[0].received_at
    except (DamagedLineError, NewerLineError):
        return None


def _times(data: bytes) -> Iterator[str]:
    """Yield when the first lines of a piece were recorded."""
    start = 0
    for _ in range(TIME_LINES):
        line = _line_at(data, start)
        recorded = _time_of(line)
        if recorded is not None:
            yield recorded
        start += len(line) + 1
        if start >= len(data):
            return


def _recorded(ts_ms: int | None, apart_ms: int) -> str | None:
    """Return an instant so far from another one, as times of recording are written."""
    return None if ts_ms is None else rfc3339(max(0, min(ts_ms + apart_ms, END_MS - 1)))


def _duplicates(lines: list[tuple[str, int | None]], ids_days: int) -> Iterator[int]:
    """Yield which lines of one id the ledger left out.

    :param lines: for each its day of recording and its place, the last one first.
    """
    counted = ""
    for day, place in reversed(lines):
        if counted and counted >= _cutoff(day, ids_days):
            if place is not None:
                yield place
        else:
            counted = day


def _cutoff(day: str, ids_days: int) -> str:
    """Return the first day whose ids are remembered on a day."""
    if not ids_days:
        return ""
    try:
        return (date.fromisoformat(day) - timedelta(days=ids_days)).isoformat()
    except OverflowError:
        return ""
