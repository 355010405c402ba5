"""Reads a ledger's segments beside the process that writes them: no lock, nothing changed.

A reader meets the ledger in the middle of its life. The active segment grows, and is renamed when
it is sealed; what was sealed stays as it is until retention removes it. So a segment is known by
its number, and its file is looked for anew each time it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from datetime import date, timedelta
from itertools import chain, pairwise
from typing import TypeVar

import attrs

from omnigate.files import file_size, list_names, read_lines, read_pieces
from omnigate.ledger.family import Family
from omnigate.ledger.id_table import Digests, IdTable, id_digest
from omnigate.ledger.lines import (
    MAX_LINE_BYTES,
    DamagedLineError,
    NewerLineError,
    RecordedEvent,
    decode_line,
)

T = TypeVar("T")

#: Lines that are looked at together: one after the other each would cost half as much again.
RUN_LINES = 500


@attrs.frozen
class SegmentReader:
    """One segment of a family, under whatever name it has now.

    :ivar number: which one.
    :ivar active: whether it was the active one when the segments were listed. Behind its last line
        end stands what was not written whole, or not yet; in any other segment that is a line.
    """

    family: Family
    number: int
    active: bool = False

    @property
    def path(self) -> str:
        """Where it stands: under its number, or as the active one where no such file is."""
        sealed = self.family.sealed(self.number)
        return self.family.active if self.active and file_size(sealed) is None else sealed

    def size(self) -> int | None:
        """Return its length in bytes; None where it is not there.

        :raises OSError: it cannot be looked at.
        """
        sealed = self.family.sealed(self.number)
        if self.active:
            size = file_size(self.family.active)
            # If it was sealed before that look, what was looked at is the next one.
            if file_size(sealed) is None:
                return size
        return file_size(sealed)

    def lines(self) -> Iterator[tuple[int, bytes | None, bool]]:
        """Read it line by line; see :func:`omnigate.files.read_lines`.

        :raises OSError: it cannot be read. One that is not there has no lines.
        """
        return self._wherever(lambda path: read_lines(path, MAX_LINE_BYTES))

    def pieces(self, end: int) -> Iterator[bytes]:
        """Read its first ``end`` bytes, or all there are, in pieces.

        :raises OSError: it cannot be read, or is not there.
        """
        return self._wherever(lambda path: read_pieces(path, 0, end))

    def _wherever(self, read: Callable[[str], Iterator[T]]) -> Iterator[T]:
        sealed = self.family.sealed(self.number)
        if not self.active or file_size(sealed) is not None:
            return read(sealed)
        found = read(self.family.active)
        try:
            # This opens the file. If it is sealed only after that, what is open is the right one.
            first = next(found, None)
        except FileNotFoundError:
            return read(sealed)
        if file_size(sealed) is not None:
            return read(sealed)
        return found if first is None else chain((first,), found)


def segments_of(family: Family) -> list[SegmentReader]:
    """List the segments that there are, the active one last, whether or not its file is there.

    :raises OSError: the folder cannot be listed.
    """
    sealed = family.found(list_names(family.folder)).sealed
    active = SegmentReader(family, sealed[-1] + 1 if sealed else 1, active=True)
    return [*(SegmentReader(family, number) for number in sealed), active]


def gaps_in(segments: Sequence[SegmentReader]) -> list[tuple[int, int]]:
    """Return which numbers between the first and the last segment have no file, as ranges."""
    numbers = [segment.number for segment in segments]
    return [(before + 1, after - 1) for before, after in pairwise(numbers) if after > before + 1]


class SeenIds:
    """The ids that a reading has met, each for as long as the ledger remembers it.

    :param days_kept: ``retention.ledger_ids_days``; 0 for ever.
    """

    def __init__(self, days_kept: int) -> None:
        self._days_kept = days_kept
        self._tables: dict[str, IdTable] = {}
        self._today = ""

    def add(self, digests: Sequence[bytes], day: str) -> list[bool]:
        """Take in the ids of events recorded on a UTC day, and say of each whether it is new."""
        self._turn_to(day)
        first = {digest: n for n, digest in reversed(list(enumerate(digests)))}
        among = sorted(first.values())
        apart = Digests(b"".join(digests))
        for name in sorted(self._tables, reverse=True):
            among = self._tables[name].missing(apart, among)
        name = day if self._days_kept else ""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = IdTable()
        table.add(Digests(b"".join(digests[n] for n in among)))
        new = [False] * len(digests)
        for n in among:
            new[n] = True
        return new

    def _turn_to(self, day: str) -> None:
        """Forget the days that are too long past, as the ledger did."""
        if day == self._today or not self._days_kept:
            return
        self._today = day
        try:
            cutoff = (date.fromisoformat(day) - timedelta(days=self._days_kept)).isoformat()
        except OverflowError:
            return
        for name in [name for name in self._tables if name < cutoff]:
            del self._tables[name]


@attrs.define
class Run:
    """Some lines of one segment that follow each other and were recorded on one day.

    :ivar end: the offset behind them, and behind what could not be read among them.
    :ivar day: the UTC day of recording; empty without lines.
    :ivar lines: those that could be read, without their ends; ``events`` and ``costs`` say what
        stands in them, and ``digests`` what is remembered of their ids.
    :ivar new: for each whether it counts, since its id was not known.
    """

    end: int = 0
    day: str = ""
    lines: list[bytes] = attrs.Factory(list)
    events: list[RecordedEvent] = attrs.Factory(list)
    costs: list[int] = attrs.Factory(list)
    digests: list[bytes] = attrs.Factory(list)
    new: list[bool] = attrs.Factory(list)


def read_runs(
    segment: SegmentReader,
    seen: SeenIds,
    damage: Callable[[int, str], object],
    stops: Container[int] = (),
    limit: int | None = None,
) -> Iterator[Run]:
    """Read a segment, in runs of at most :data:`RUN_LINES`.

    :param seen: the ids met so far; those of the segment are added.
    :param damage: told the offset of each line that cannot be read, and why.
    :param stops: offsets at which a run ends, so that what is between two of them can be told.
    :param limit: an offset from which on nothing is read, of a file that is still growing.
    :raises OSError: it cannot be read.
    """
    run = Run()
    for offset, line, whole in segment.lines():
        if (limit is not None and offset >= limit) or (segment.active and not whole):
            run.end = offset
            break
        if offset in stops or len(run.lines) >= RUN_LINES:
            yield _closed(run, offset, seen)
            run = Run()
        run.end = end = offset + (0 if line is None else len(line) + whole)
        try:
            if line is None:
                raise DamagedLineError(f"longer than {MAX_LINE_BYTES} bytes")
            event, cost_nano = decode_line(line)
        except (DamagedLineError, NewerLineError) as error:
            damage(offset, str(error))
            continue
        day = event.received_at[:10]
        if day != run.day and run.lines:
            yield _closed(run, offset, seen)
            run = Run(end=end)
        run.day = day
        run.lines.append(line)
        run.events.append(event)
        run.costs.append(cost_nano)
        run.digests.append(id_digest(event.id))
    yield _closed(run, run.end, seen)


def _closed(run: Run, end: int, seen: SeenIds) -> Run:
    run.end = end
    run.new = seen.add(run.digests, run.day) if run.lines else []
    return run
