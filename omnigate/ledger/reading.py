"""Reads a ledger's segments beside the process that writes them: no lock, nothing changed.

A reader meets the ledger in the middle of its life. The active segment grows, and is renamed when
it is sealed; what was sealed stays as it is until retention removes it. So a segment is known by
its number, and its file is looked for anew each time it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import TypeVar

import attrs

from omnigate.files import file_size, list_names, read_lines, read_pieces
from omnigate.ledger.family import Family
from omnigate.ledger.id_days import IdDays, id_digest
from omnigate.ledger.lines import MAX_LINE_BYTES, RecordedEvent

T = TypeVar("T")


@attrs.frozen
class SegmentReader:
    """One segment of a family, under whatever name it has now.

    :ivar number: which one.
    """

    family: Family
    number: int

    @property
    def path(self) -> str:
        """Where it stands: under its number, or as the active one where no such file is."""
        sealed = self.family.sealed(self.number)
        return self.family.active if file_size(sealed) is None else sealed

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
        if file_size(sealed) is not None:
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
    numbers = [*sealed, sealed[-1] + 1 if sealed else 1]
    return [SegmentReader(family, number) for number in numbers]


def gaps_in(segments: list[SegmentReader]) -> list[tuple[int, int]]:
    """Return which numbers between the first and the last segment have no file, as ranges."""
    numbers = [segment.number for segment in segments]
    return [(before + 1, after - 1) for before, after in pairwise(numbers) if after > before + 1]


class SeenIds:
    """The ids that a reading has met, each for as long as the ledger remembers it.

    :param days_kept: ``retention.ledger_ids_days``; 0 for ever.
    """

    def __init__(self, days_kept: int) -> None:
        self._days = IdDays(days_kept)

    def first(self, event: RecordedEvent) -> bool:
        """Whether an event counts, since its id is not known; from now on it is."""
        day = event.received_at[:10]
        self._days.turn_to(day)
        digest = id_digest(event.id)
        if digest in self._days:
            return False
        self._days.add(digest, day)
        return True
