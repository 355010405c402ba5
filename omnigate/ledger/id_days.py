"""The ids that were recorded, by the UTC day of recording, so that a resent event counts once.

An id is whatever its sender made it, so it is remembered as the first 16 bytes of its SHA-256: one
size, and nobody can choose ids that collide. Whole days are forgotten at a time; no large set is
ever walked.

Which ids are known depends on the day of recording alone, never on the hour. A replay that turns
the days as the lines say therefore takes every decision as it was taken when they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from hashlib import sha256

#: Bytes of the SHA-256 kept of an id. Two of a billion ids share 128 bits with odds of 1 to 10**20.
ID_BYTES = 16

#: Into how many sets a day's ids are spread. A set that grows beyond its room is copied in one go:
#: one set of 1,200,000 ids took 48 ms, one of 64 takes under 1 ms, and each has its own turn.
PARTS = 64

#: The one table of a ledger that keeps ids for ever.
ALL_DAYS = "all"


def id_digest(event_id: str) -> int:
    """What is remembered of an id: the first :data:`ID_BYTES` of its SHA-256, as an integer.

    An integer takes 48 bytes of memory where bytes take 64; with its place in a set that is 75 to
    100 MB a million ids.
    """
    return int.from_bytes(sha256(event_id.encode("utf-8", "replace")).digest()[:ID_BYTES], "big")


class IdDays:
    """One table of ids for each UTC day on which something was recorded.

    :param days_kept: for how many days an id is remembered at least (it may be one longer);
        0 for ever. It must outlast the longest time a data plane may hold undelivered events. A
        look-up asks every day kept, 60 ns each.
    """

    def __init__(self, days_kept: int) -> None:
        self._days_kept = days_kept
        self._days: dict[str, list[set[int]]] = {}
        self._today = ""
        self._forgotten: list[set[int]] = []

    def turn_to(self, day: str) -> list[str]:
        """Go on with the day of recording, and forget the days that are too long past.

        To be called before each look at the ids: a day that was forgotten is freed piece by piece,
        one each time.

        :param day: the UTC day, as ``YYYY-MM-DD``.
        :return: the days forgotten now, mostly none.
        """
        if self._forgotten:
            self._forgotten.pop()
        if day == self._today or not self._days_kept:
            return []
        self._today = day
        cutoff = _days_before(day, self._days_kept)
        forgotten = [name for name in self._days if name < cutoff]
        for name in forgotten:
            self._forgotten.extend(self._days.pop(name))
        return forgotten

    def __contains__(self, digest: int) -> bool:
        part = digest % PARTS
        return any(digest in parts[part] for parts in self._days.values())

    def add(self, digest: int, day: str) -> None:
        """Remember an id on the day that it was recorded."""
        # What is never forgotten needs no days, and so a look-up asks one table only.
        name = day if self._days_kept else ALL_DAYS
        parts = self._days.get(name)
        if parts is None:
            parts = self._days[name] = [set() for _ in range(PARTS)]
        parts[digest % PARTS].add(digest)

    def __len__(self) -> int:
        return sum(len(part) for parts in self._days.values() for part in parts)

    def __iter__(self) -> Iterator[str]:
        """The days that hold ids, oldest first."""
        return iter(sorted(self._days))


def _days_before(day: str, count: int) -> str:
    """The day ``count`` days before, or the first there is."""
    try:
        return (date.fromisoformat(day) - timedelta(days=count)).isoformat()
    except OverflowError:
        return date.min.isoformat()
