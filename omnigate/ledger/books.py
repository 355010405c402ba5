"""What the ledger knows in memory: the ids, the totals and the newest events.

Only what is on the disk is entered here, by a replay or after a sync.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from omnigate.ledger.id_days import IdDays, id_digest
from omnigate.ledger.ingest import Entry
from omnigate.ledger.lines import DamagedLineError, RecordedEvent, decode_object
from omnigate.ledger.snapshot_rows import RowReader, write_rows
from omnigate.ledger.totals import Totals

#: How many of the newest events are kept for people to look at: ten pages of fifty. They are kept
#: as lines, about 600 bytes each.
RECENT_EVENTS = 500


class Books:
    """The tables that are filled from the ledger's lines, and answer without a look at the disk.

    :param ids_days: for how many days ids are remembered; 0 for ever. None: the ids are kept
        elsewhere, and every event that is entered counts.
    """

    def __init__(self, ids_days: int | None = None) -> None:
        self._knows_ids = ids_days is not None
        self.ids = IdDays(ids_days or 0)
        self.totals = Totals()
        self._recent: deque[bytes] = deque(maxlen=RECENT_EVENTS)
        self._day = ""

    @classmethod
    def of_rows(cls, rows: RowReader) -> Books:
        """The books that a snapshot's rows make, without ids."""
        books = cls()
        books.totals = rows.totals
        books._recent.extend(rows.recent)
        return books

    def rows(self) -> Iterator[bytes]:
        """The sums and the newest events as rows of a snapshot, in pieces of whole lines.

        A piece is made in a few milliseconds at most. Nothing may be entered until the last one
        was taken.
        """
        return write_rows(self.totals, self._recent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Books):
            return NotImplemented
        return (self.totals, self._recent) == (other.totals, other._recent)

    __hash__ = None  # type: ignore[assignment]

    def turn_to(self, day: str, now_ms: int) -> None:
        """Go on with the UTC day of recording: forget ids and rows that are too old for it."""
        self.ids.turn_to(day)
        if day != self._day:
            self._day = day
            self.totals.drop_before(now_ms)

    def enter(self, entries: Iterable[Entry], day: str = "") -> None:
        """Enter events that are now durable.

        :param day: the UTC day on which they were recorded; for the ids, if they are kept here.
        """
        for entry in entries:
            if self._knows_ids:
                self.ids.add(entry.digest, day)
            self.totals.count(entry.event, entry.cost_nano)
            self._recent.append(entry.line)

    def replay(self, event: RecordedEvent, cost_nano: int, line: bytes) -> bool:
        """Enter an event read back from the disk.

        :return: whether it was counted; False where its id was known already.
        """
        if self._knows_ids:
            day = event.received_at[:10]
            self.ids.turn_to(day)
            digest = id_digest(event.id)
            if digest in self.ids:
                return False
            self.ids.add(digest, day)
        self.totals.count(event, cost_nano)
        self._recent.append(line)
        return True

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
