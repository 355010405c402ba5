"""The files of one ledger: what each is called, and the words for a place in them.

Everything is named after one path, that of the active segment. ``ledger.jsonl`` has beside it::

    ledger.000001.jsonl ...          sealed segments, in order; the active one comes after them
    ledger.snapshot                  the sums up to a position
    ledger.snapshot.prev             the snapshot before that one, kept as a spare
    ledger.snapshot.tmp              a snapshot being written, never read
    ledger.ids.2026-11-10 ...        the ids recorded on that UTC day
    ledger.ids.2026-11-10.table ...  the same as a table, to be read at once; derived
    ledger.jsonl.probe               what a disk that failed is tried with, for a moment

Nothing here touches the disk.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable
from datetime import date
from functools import cached_property

import attrs

SUFFIX = ".jsonl"

#: A sealed segment's number is written with at least so many digits, so that names sort in order
#: for as long as anyone looks at them.
NUMBER_DIGITS = 6


@attrs.frozen(order=True)
class Position:
    """A place in the ledger: all lines before it, in segments of lower numbers and in this one.

    :ivar segment: the segment's number, from 1 on. The active one's is one more than that of the
        last sealed one.
    :ivar offset: bytes from its beginning, always at the beginning of a line.
    """

    segment: int
    offset: int


@attrs.frozen
class SealedSegment:
    """A segment that is never written again.

    :ivar number: which one, from 1 on.
    :ivar size: its length in bytes.
    :ivar sha256: the SHA-256 of its bytes, in hex.
    :ivar events: how many lines of it were events that were counted.
    """

    number: int
    size: int
    sha256: str
    events: int


@attrs.frozen
class Found:
    """What of a family stands in its folder.

    :ivar sealed: the numbers of the sealed segments, rising.
    :ivar id_days: the UTC days that have an id file, rising.
    :ivar id_tables: the UTC days that have a table, rising.
    """

    sealed: list[int]
    id_days: list[str]
    id_tables: list[str]


@attrs.frozen
class Family:
    """The names of one ledger's files.

    :ivar active: the path of the active segment, as it was configured.
    """

    active: str

    @property
    def folder(self) -> str:
        """The folder that all of them stand in."""
        return os.path.dirname(self.active) or "."

    @cached_property
    def stem(self) -> str:
        """The path that every other name begins with: the active one's without ``.jsonl``."""
        folder, name = os.path.split(self.active)
        if name.endswith(SUFFIX) and name != SUFFIX:
            name = name[: -len(SUFFIX)]
        return os.path.join(folder, name)

    def sealed(self, number: int) -> str:
        """The path of a sealed segment."""
        return f"{self.stem}.{number:0{NUMBER_DIGITS}d}{SUFFIX}"

    @property
    def snapshot(self) -> str:
        """The path of the snapshot."""
        return f"{self.stem}.snapshot"

    @property
    def spare(self) -> str:
        """The path of the snapshot before it."""
        return f"{self.stem}.snapshot.prev"

    @property
    def snapshot_tmp(self) -> str:
        """The path of a snapshot that is being written."""
        return f"{self.stem}.snapshot.tmp"

    @property
    def probe(self) -> str:
        """The path of what is written to find out whether the disk takes something again."""
        return f"{self.active}.probe"

    @property
    def probe_tmp(self) -> str:
        """The path of such a file that is being written."""
        return f"{self.active}.probe.tmp"

    def ids(self, day: str) -> str:
        """The path of the id file of a UTC day, such as ``2026-11-10``."""
        return f"{self.stem}.ids.{day}"

    def id_table(self, day: str) -> str:
        """The path of the table of a UTC day's ids."""
        return f"{self.stem}.ids.{day}.table"

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """What the names of sealed segments, and of a day's ids, are like."""
        base = re.escape(os.path.basename(self.stem))
        return (
            re.compile(rf"{base}\.([0-9]{{{NUMBER_DIGITS},}})\.jsonl"),
            re.compile(rf"{base}\.ids\.([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(\.table)?"),
        )

    def found(self, names: Iterable[str]) -> Found:
        """Read a listing of the folder: what of it is ours.

        Only names that this class would have made count. ``ledger.1.jsonl`` is somebody's copy.

        :param names: file names without their folder, in any order.
        """
        numbered, of_day = self._patterns
        found = Found([], [], [])
        active = os.path.basename(self.active)
        for name in names:
            if name == active:
                continue
            if match := numbered.fullmatch(name):
                number = int(match[1])
                if number > 0 and os.path.basename(self.sealed(number)) == name:
                    found.sealed.append(number)
            elif (match := of_day.fullmatch(name)) and _is_day(match[1]):
                (found.id_tables if match[2] else found.id_days).append(match[1])
        found.sealed.sort()
        found.id_days.sort()
        found.id_tables.sort()
        return found


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
