"""What the ledger knows in memory: the totals and the newest events.

Only what is on the disk is entered here, by a replay or after a sync, and each event once: whether
it was recorded before is for :class:`~omnigate.ledger.recorded_ids.RecordedIds` to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from omnigate.ledger.ingest import Entry
from omnigate.ledger.lines import DamagedLineError, RecordedEvent, decode_object
from omnigate.ledger.snapshot_rows import RowReader, write_rows
from omnigate.ledger.totals import Totals

#: How many of the newest events are kept for people to look at: ten pages of fifty. They are kept
#: as lines, about 600 bytes each.
RECENT_EVENTS = 500


class Books:
    """The tables that are filled from the ledger's lines, and answer without a look at the disk."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._recent: deque[bytes] = deque(maxlen=RECENT_EVENTS)
        self._day = ""

    @classmethod
    def of_rows(cls, rows: RowReader) -> Books:
        """The books that a snapshot's rows make."""
        books = cls()
        books.totals = rows.totals
        books._recent.extend(rows.recent)
        return books

    def rows(self) -> Iterator[bytes]:
        """The sums and the newest events as rows of a snapshot, in pieces of whole lines.

        A piece is made in a few milliseconds at most. Nothing may be entered until the last one
        was taken; the day may turn meanwhile.
        """
        return write_rows(self.totals, self._recent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Books):
            return NotImplemented
        return (self.totals, self._recent) == (other.totals, other._recent)

    __hash__ = None  # type: ignore[assignment]

    def turn_to(self, day: str, now_ms: int) -> None:
        """Go on with the UTC day of recording: forget rows that are too old for it."""
        if day != self._day:
            self._day = day
            self.totals.drop_before(now_ms)

    def enter(self, entries: Iterable[Entry]) -> None:
        """Enter events that are now durable."""
        for entry in entries:
            self.totals.count(entry.event, entry.cost_nano)
            self._recent.append(entry.line)

    def replay(self, run: Sequence[tuple[RecordedEvent, int, bytes]]) -> None:
        """Enter events read back from the disk: each with its cost and its line."""
        count = self.totals.count
        for event, cost_nano, _ in run:
            count(event, cost_nano)
        self._recent.extend(line for _, _, line in run[-RECENT_EVENTS:])

    def find_recent(self, event_id: str) -> dict[str, Any] | None:
        """Find one of the newest events; only lines that hold its id are taken apart."""
        wanted = event_id.encode("utf-8", "replace")
        for line in reversed(self._recent):
            if wanted in line:
                try:
                    event = decode_object(line)
                except DamagedLineError:
                    continue
                if event.get("id") == event_id:
                    return event
        return None

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """The newest events as objects, newest first; ``cost_usd`` is the exact decimal string."""
        newest: list[dict[str, Any]] = []
        for line in reversed(self._recent):
            if len(newest) >= limit:
                break
            try:
                newest.append(decode_object(line))
            except DamagedLineError:
                continue  # damaged in a member that no sum needs
        return newest
