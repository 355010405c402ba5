"""Holds the id files and their tables against the events that were counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from zlib import crc32

import attrs

from omnigate.files import file_size, list_names, read_pieces
from omnigate.ledger.family import Family
from omnigate.ledger.findings import DeletedMeanwhileError, Findings, Generation, replaced_since
from omnigate.ledger.id_file import HEADER, NewerIdsError, records_in
from omnigate.ledger.id_table import DIGEST_BYTES, DamagedTableError, Digests, IdTable


@attrs.define
class CountedIds:
    """The ids of the events that were counted, as far as a snapshot can know them.

    :ivar expected: the digests of each day, up to the position of the newest snapshot, in order.
    :ivar whole: whether these are all there ever were; else those of the first events are gone.
    :ivar last_day: the UTC day on which the last line was recorded; empty without one.
    """

    expected: dict[str, bytearray]
    whole: bool = True
    last_day: str = ""


@attrs.frozen
class IdCheck:
    """Holds the id files that the newest snapshot knows against the events.

    :param ids_days: for how many days the ledger remembers ids, 0 for ever.
    :param settle: waits until a snapshot follows the dropping of ids.
    """

    family: Family
    generations: Sequence[Generation]
    counted: CountedIds
    findings: Findings
    ids_days: int
    settle: Callable[[], None]

    def run(self) -> None:
        """Check the files and their tables.

        :raises OSError: a file cannot be read.
        :raises DeletedMeanwhileError: a file was dropped meanwhile.
        """
        if not self.generations:
            return
        recorded = self.generations[-1].head.ids
        for day, count in sorted(recorded.items()):
            if file_size(self.family.ids(day)) is None:
                self._look_for(day, count)
            else:
                self._check(day, count)
        days = f"{len(recorded)} UTC {'day' if len(recorded) == 1 else 'days'}"
        self.findings.checked.append(f"{sum(recorded.values()):,} ids of {days}")

    def _look_for(self, day: str, recorded: int) -> None:
        """Say why an id file is not there."""
        path = self.family.ids(day)
        there = self.family.found(list_names(self.family.folder)).id_days
        last_day = max([self.counted.last_day, *there[-1:]])
        if self.ids_days and days_between(day, last_day) > self.ids_days:
            # It is removed before the snapshot that no longer knows it is written.
            self.findings.note(f"{path} was dropped as too old.")
            return
        self.settle()
        if replaced_since(self.generations):
            raise DeletedMeanwhileError(path)
        self.findings.differs(path, None, f"is missing; the snapshot knows {recorded} ids of it")

    def _check(self, day: str, recorded: int) -> None:
        """Compare an id file and its table."""
        path, expected = self.family.ids(day), self.counted.expected[day]
        count = len(expected) // DIGEST_BYTES
        if count <= recorded:  # else that is told of already
            # Where the first events of a day are gone, those that are left are its last ones.
            first = 0 if self.counted.whole else recorded - count
            fault = id_file_fault(path, recorded, expected, first)
            if fault is not None:
                self.findings.differs(path, *fault)
        text = id_table_fault(self.family, day)
        if text is not None:
            self.findings.differs(self.family.id_table(day), None, text)


def days_between(day: str, later: str) -> int:
    """How many days one day is before another; 0 where either is none."""
    if not (day and later):
        return 0
    return (date.fromisoformat(later) - date.fromisoformat(day)).days


def id_file_fault(
    path: str, recorded: int, expected: bytes | bytearray, first: int
) -> tuple[int | None, str] | None:
    """Say where an id file is not what a snapshot and the events say, and how; None if it is.

    :param recorded: how many records of it the snapshot covers.
    :param expected: the digests of some of these, in the order of recording.
    :param first: which record the first of those is, from 0 on.
    :raises OSError: it cannot be read.
    """
    size = file_size(path) or 0
    try:
        there = records_in(path)
    except NewerIdsError as error:
        return 0, str(error)
    if size and b"".join(read_pieces(path, 0, len(HEADER))) != HEADER:
        return 0, "is no id file"
    if there < recorded:
        return size, f"has {there} ids, and the snapshot knows {recorded}"
    start = offset = len(HEADER) + first * DIGEST_BYTES
    for piece in read_pieces(path, start, start + len(expected)):
        wanted = expected[offset - start : offset - start + len(piece)]
        if piece != wanted:
            at = next(n for n, (a, b) in enumerate(zip(piece, wanted, strict=True)) if a != b)
            record = (offset + at) // DIGEST_BYTES * DIGEST_BYTES
            return record, "is not the id of the event that was counted here"
        offset += len(piece)
    return None


def id_table_fault(family: Family, day: str) -> str | None:
    """Say what is wrong with the table of a day's ids; None if nothing is.

    A table of a time when the id file had fewer records is right.

    :raises OSError: a file cannot be read.
    """
    path = family.id_table(day)
    size = file_size(path)
    if size is None:
        return None
    try:
        head, table = IdTable.decode(read_pieces(path), size)
    except DamagedTableError as error:
        return f"cannot be used: {error}"
    if len(table) != sum(count for count, _ in head.days.values()):
        return "has another number of ids than it says"
    for name, (count, check) in head.days.items():
        found = whole = 0
        lacking = False
        for piece in _records(family.ids(name), count):
            found = crc32(piece, found)
            whole += len(piece) // DIGEST_BYTES
            apart = Digests(piece)
            lacking = lacking or bool(table.missing(apart, range(len(apart))))
        if whole != count or found != check:
            return f"was not made from the first {count} ids of {family.ids(name)}"
        if lacking:
            return f"lacks ids of {family.ids(name)}"
    return None


def _records(path: str, count: int) -> Iterator[bytes]:
    """The first records of an id file, in pieces of whole ones; fewer if it has fewer."""
    held = b""
    if file_size(path) is None:
        return
    for piece in read_pieces(path, len(HEADER), len(HEADER) + count * DIGEST_BYTES):
        held += piece
        whole = len(held) // DIGEST_BYTES * DIGEST_BYTES
        yield held[:whole]
        held = held[whole:]
