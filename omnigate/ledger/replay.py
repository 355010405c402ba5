"""The start: reads what is on the disk into the books, in slices, and judges what it finds."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from twisted.logger import Logger

from omnigate.files import IWriter
from omnigate.ledger.books import Books
from omnigate.ledger.lines import MAX_LINE_BYTES, DamagedLineError, NewerLineError, decode_line
from omnigate.ledger.segments import ActiveSegment
from omnigate.text import one_line

#: Damaged lines that are logged one by one, with their places; the others are counted.
DAMAGE_LOGGED = 20


class LedgerUnreadableError(Exception):
    """The ledger cannot be loaded; the text names the file and what to do."""


class LoadCanceledError(Exception):
    """The ledger was closed while it was being loaded."""


@attrs.define
class Replay:
    """One reading of the ledger into new books.

    :ivar events: events that were counted.
    :ivar duplicates: lines skipped since their id had been read before.
    :ivar damaged: lines that could not be read. They stay in the file.
    :ivar torn_bytes: bytes of a line cut short by a crash, which were cut off.
    :ivar canceled: set to break the reading off after the slice in hand.
    """

    segment: ActiveSegment
    books: Books
    events: int = 0
    duplicates: int = 0
    damaged: int = 0
    torn_bytes: int = 0
    canceled: bool = False

    _log = Logger()

    async def run(self, writer: IWriter) -> None:
        """Read the segment to its end, and get it ready to be appended to.

        The reactor has its turn after each slice.

        :param writer: the thread that reads.
        :raises LedgerUnreadableError: the disk refused, or a later version wrote the file.
        :raises LoadCanceledError: it was canceled.
        """
        try:
            await writer.submit(self.segment.begin_reading)
            while lines := await writer.submit(self.segment.next_lines):
                if self.canceled:
                    raise LoadCanceledError("the ledger was closed while it was being loaded")
                self.enter(lines)
            torn_at, self.torn_bytes = await writer.submit(self.segment.begin_appending)
        except OSError as error:
            raise LedgerUnreadableError(
                f"{self.segment.path}: {error.strerror or error}; the control plane must be able "
                "to read and write this file and its folder (OMNIGATE_LEDGER names it)"
            ) from error
        if self.torn_bytes:
            self._log.warn(
                "{path}: the last line was cut short by a crash; its {size} bytes at offset "
                "{offset} were cut off. Its batch was never acknowledged and comes again.",
                path=self.segment.path,
                size=self.torn_bytes,
                offset=torn_at,
            )

    def enter(self, lines: Sequence[tuple[int, bytes | None]]) -> None:
        """Enter one slice of whole lines in the books.

        :param lines: for each its offset and its bytes, None for one that is too long.
        :raises LedgerUnreadableError: a later version wrote one of them.
        """
        for offset, line in lines:
            try:
                if line is None:
                    raise DamagedLineError(f"longer than {MAX_LINE_BYTES} bytes")
                event, cost_nano = decode_line(line)
            except DamagedLineError as error:
                self._damage(offset, str(error))
                continue
            except NewerLineError as error:
                raise LedgerUnreadableError(
                    f"{self.segment.path} at offset {offset}: {error}; start the version of "
                    "omnigate that wrote it, or move the file away. It was left as it is."
                ) from None
            if self.books.replay(event, cost_nano, line):
                self.events += 1
            else:
                self.duplicates += 1

    def _damage(self, offset: int, reason: str) -> None:
        self.damaged += 1
        if self.damaged > DAMAGE_LOGGED:
            return
        self._log.error(
            "{path}: the line at offset {offset} is damaged and was not counted: {reason}",
            path=self.segment.path,
            offset=offset,
            reason=one_line(reason, 200),
        )
