"""What a verification of the ledger holds against each other, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import attrs

from omnigate.files import read_file
from omnigate.ledger.books import Books
from omnigate.ledger.family import Family, Position
from omnigate.ledger.snapshots import (
    MAX_SNAPSHOT_BYTES,
    DamagedSnapshotError,
    NewerSnapshotError,
    SnapshotHead,
    decode,
)
from omnigate.text import one_line

#: Differences that are kept with their places; the others are counted.
DIFFERENCES_KEPT = 20

#: Notes that are kept: there are a handful.
NOTES_KEPT = 20


class DeletedMeanwhileError(Exception):
    """Retention deleted files while they were to be read."""


@attrs.frozen
class Difference:
    """Something that is not as it should be.

    :ivar offset: where in the file; None where it is the file as a whole.
    """

    path: str
    offset: int | None
    text: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at offset {self.offset}"
        return f"{self.path}{place}: {self.text}"


@attrs.define
class Findings:
    """What a verification found.

    :ivar first: the first differences, in the order in which they were met.
    :ivar count: how many there are in all.
    :ivar notes: what is missing or could not be checked, in whole sentences.
    :ivar checked: what was checked, in whole sentences.
    """

    first: list[Difference] = attrs.Factory(list)
    count: int = 0
    notes: list[str] = attrs.Factory(list)
    checked: list[str] = attrs.Factory(list)
    segments: int = 0
    events: int = 0
    duplicates: int = 0

    def differs(self, path: str, offset: int | None, text: str) -> None:
        """Take note of a difference."""
        self.count += 1
        if len(self.first) < DIFFERENCES_KEPT:
            self.first.append(Difference(path, offset, one_line(text, 1000)))

    def note(self, text: str) -> None:
        """Take note of what is no difference."""
        if len(self.notes) < NOTES_KEPT:
            self.notes.append(text)


@attrs.frozen(eq=False)
class Generation:
    """One of the two snapshots, decoded."""

    path: str
    data: bytes
    head: SnapshotHead
    books: Books

    @property
    def position(self) -> Position:
        """What it covers."""
        return self.head.position

    @property
    def written_ms(self) -> int:
        """When it was written, in milliseconds since 1970."""
        return int(datetime.fromisoformat(self.head.written_at).timestamp() * 1000)


def read_generations(family: Family, findings: Findings) -> list[Generation]:
    """Read both snapshots, the older one first."""
    generations = []
    # The spare first: if a new snapshot comes in between, it is one and the same twice at worst.
    for path, name in ((family.spare, "spare"), (family.snapshot, "snapshot")):
        data = read_file(path, MAX_SNAPSHOT_BYTES)
        if data is None and path == family.snapshot:
            # It is missing for a moment while a new one is put in its place.
            data = read_file(path, MAX_SNAPSHOT_BYTES)
        if data is None:
            findings.note(f"There is no {name} ({path}).")
            continue
        try:
            head, books = decode(data)
        except (DamagedSnapshotError, NewerSnapshotError) as error:
            findings.differs(path, None, str(error))
            continue
        generations.append(Generation(path, data, head, books))
    return sorted(generations, key=lambda generation: generation.position)


def replaced_since(generations: Iterable[Generation]) -> bool:
    """Whether another snapshot stands in the place of one of these since that was read."""
    return any(read_file(old.path, MAX_SNAPSHOT_BYTES) != old.data for old in generations)
