"""Reads lines back into the books, and judges what it finds; all in the writer thread."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import attrs
from twisted.logger import LogLevel

from omnigate.ledger.books import Books
from omnigate.ledger.lines import (
    MAX_LINE_BYTES,
    DamagedLineError,
    NewerLineError,
    RecordedEvent,
    decode_line,
)
from omnigate.ledger.recorded_ids import RecordedIds, id_digest
from omnigate.text import one_line

#: Damaged lines that are logged one by one, with their places; the others are counted.
DAMAGE_LOGGED = 20

#: The last day there is.
LAST_DAY = "9999-12-31"


class LedgerUnreadableError(Exception):
    """The ledger cannot be loaded; the text names the file and what to do."""


@attrs.frozen
class Note:
    """Something for the log, which is written on the reactor's thread."""

    level: LogLevel
    text: str


@attrs.define
class Replay:
    """Enters lines in the books, each id once.

    Ids are forgotten as the days of recording go by in the lines, so each line is judged as it was
    when it was written.

    :ivar today: the UTC day by which ids are forgotten. Lines that were recorded later, when the
        clock was ahead, do not make others be forgotten.
    :ivar events: events that were counted.
    :ivar duplicates: lines skipped since their id was known.
    :ivar damaged: lines that could not be read. They stay in the file.
    :ivar notes: what the log is to be told.
    """

    books: Books
    ids: RecordedIds
    today: str = LAST_DAY
    events: int = 0
    duplicates: int = 0
    damaged: int = 0
    notes: list[Note] = attrs.Factory(list)

    def enter(self, path: str, lines: Sequence[tuple[int, bytes | None]]) -> int:
        """Enter whole lines of one segment.

        :param path: the segment, for the log.
        :param lines: for each its offset and its bytes, None for one that is too long.
        :return: how many were counted.
        :raises LedgerUnreadableError: a later version wrote one of them.
        :raises OSError: the ids that were recorded before cannot be read.
        """
        before = self.events
        day = ""
        run: list[tuple[RecordedEvent, int, bytes]] = []
        for offset, line in lines:
            try:
                if line is None:
                    raise DamagedLineError(f"longer than {MAX_LINE_BYTES} bytes")
                event, cost_nano = decode_line(line)
            except DamagedLineError as error:
                self._damage(path, offset, str(error))
                continue
            except NewerLineError as error:
                raise LedgerUnreadableError(
                    f"{path} at offset {offset}: {error}; start the version of "
                    "omnigate that wrote it, or move the file away. It was left as it is."
                ) from None
            if event.received_at[:10] != day:
                self._count(day, run)
                day, run = event.received_at[:10], []
            run.append((event, cost_nano, line))
        self._count(day, run)
        return self.events - before

    def _count(self, day: str, run: Sequence[tuple[RecordedEvent, int, bytes]]) -> None:
        """Count lines that were recorded on one day."""
        if not run:
            return
        self.ids.turn_to(min(day, self.today))
        digests = [id_digest(event.id) for event, _, _ in run]
        known = self.ids.known(digests)
        duplicates = sum(known)
        if duplicates:
            fresh = [not is_known for is_known in known]
            run, digests = list(compress(run, fresh)), list(compress(digests, fresh))
        self.books.replay(run)
        self.ids.add(digests, day)
        self.events += len(run)
        self.duplicates += duplicates

    def _damage(self, path: str, offset: int, reason: str) -> None:
        self.damaged += 1
        if self.damaged <= DAMAGE_LOGGED:
            self.notes.append(
                Note(
                    LogLevel.error,
                    f"{path}: the line at offset {offset} is damaged and was not counted: "
                    f"{one_line(reason, 200)}",
                )
            )
