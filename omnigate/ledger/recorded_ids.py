"""The ids that were recorded, in memory and on the disk, so that a resent event counts once.

What is remembered of an id is its digest (:mod:`~omnigate.ledger.id_table`), under the UTC day of
recording. Each day has an id file, ``ledger.ids.2026-11-10``: a record of 16 bytes that says
``omnigate-ids 1``, then 16 bytes for each id in the order of recording. It is only ever appended
to, and removed when the day is forgotten. Beside it may stand ``ledger.ids.2026-11-10.table``, from
which the ids are read back at once instead of one by one.

Id files belong to the snapshot that says how many records of each it covers. Why a crash at any
moment leaves exactly the ids of the events that are counted:

* A group's ids are appended after its lines were synced, and are not synced themselves. What a
  crash takes of them, or tears, stands behind what the last snapshot covers: the next start cuts
  the file there, and the replay of the lines behind the snapshot adds the ids again.
* Before a snapshot is written the files are synced (:meth:`RecordedIds.sync`). The records that it
  covers are never written again, so they stay as they are whatever comes later.
* A cut is not synced. If a power loss takes it back, the next start cuts again.
* A file that the snapshot does not know is removed at a start: all its ids come with the replay.
  The removal is not synced; the file would be removed again.
* A forgotten day's files are removed at once, before a snapshot without it is written. A start from
  a snapshot that still lists it finds it missing, and says so only if it is not too old anyway.
* A table is derived. It names the number of records that it was made from and their checksum, and
  is made anew when they are not what the id file has, so it may be older than the file, from
  another snapshot, or missing. It is written whole under another name and renamed.

A file that is shorter than its snapshot says has lost ids: a restored backup without the id files,
or a disk that lies. The ledger starts and keeps its sums, but events whose ids are lost would count
a second time if they were sent again; :meth:`RecordedIds.open` returns what is lost, for the log.
"""

from __future__ import annotations

import contextlib
import os.path
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from hashlib import shake_128

import attrs

from omnigate import files
from omnigate.ledger.family import Family
from omnigate.ledger.id_file import HEADER, DayFile, NewerIdsError, cut_to, records_in
from omnigate.ledger.id_table import (
    DIGEST_BYTES,
    DamagedTableError,
    Digests,
    IdTable,
    TableHead,
    id_digest,
)

__all__ = ["LostIds", "NewerIdsError", "RecordedIds", "id_digest"]

#: Ids that came since the last sync are kept apart, so that the table is just what the snapshot
#: covers; so many at most, of 100 bytes each, and at most a 16th of those in the table, which keeps
#: memory within 61 MiB a million ids. Taking so many into the table takes 20 ms, and 80 where it
#: doubles in all its parts.
FRESH_IDS = 16_384
_FRESH_SHARE = 16
_FRESH_LEAST = 256

#: Bytes of ids that are in a file and not synced: what a failed sync must write again. A snapshot
#: comes after 50,000 ids, of 800 kB, so this is met only in a long replay.
UNSYNCED_BYTES = 1024 * 1024

#: Id files that are open at a time. Two are enough but in a replay, which meets every day.
OPEN_FILES = 4

#: A table is written when so many ids came since it was written last, or an eighth of those in it
#: if that is more: an id is so written nine times in tables at most, and a start adds no more than
#: these one by one, 0.9 µs each.
TABLE_STEP_IDS = 131_072
_TABLE_SHARE = 8

#: Below this a table saves nothing: so many ids are read one by one in 15 ms.
TABLE_LEAST_IDS = 16_384


@attrs.frozen
class LostIds:
    """Ids that a snapshot knows of and that are no longer there.

    :ivar day: the UTC day they were recorded on.
    :ivar recorded: how many the snapshot knows.
    :ivar found: how many there are.
    """

    day: str
    recorded: int
    found: int


class RecordedIds:
    """All ids that are remembered. Every method blocks, and is called by the writer thread.

    The ids are read when they are first asked for, or by :meth:`load`. A look-up asks every day
    that is kept, 0.5 µs each; without an end to the days they share one table.

    :ivar changed: id files whose records are not those that their tables were made from.
    :param days_kept: for how many days an id is remembered at least (it may be one longer); 0 for
        ever. It must outlast the longest time a data plane may hold undelivered events.
    """

    def __init__(self, family: Family, days_kept: int) -> None:
        self._family = family
        self._days_kept = days_kept
        self._files: dict[str, DayFile] = {}
        self._groups: dict[str, _Group] = {}
        self._total = 0
        # Days whose files are open or have ids that are not synced: few, of what may be thousands.
        self._busy: dict[str, DayFile] = {}
        self._all_read = False
        self._today = ""
        self.changed: list[str] = []
        # While a start replays: the first day that is still remembered once it is done.
        self._unwritten_before = ""

    @property
    def days_kept(self) -> int:
        """For how many days ids are remembered; 0 for ever. It may be changed at any time."""
        return self._days_kept

    @days_kept.setter
    def days_kept(self, days: int) -> None:
        if days == self._days_kept:
            return
        if not days or not self._days_kept:
            # Which days share a table changes; they are read again.
            self._groups, self._all_read = {}, False
        self._days_kept = days
        self._today = ""

    def __len__(self) -> int:
        """How many ids are remembered, whether they have been read yet or not."""
        return self._total

    # -- a start ------------------------------------------------------------------------------

    def lost(self, recorded: Mapping[str, int], today: str = "") -> list[LostIds]:
        """Look which ids are no longer there, and change nothing.

        Where the newest snapshot lost some and the spare did not, a start from the spare has all
        ids, by a longer replay.

        :param recorded: how many ids of each day a snapshot covers.
        :param today: the UTC day; what is forgotten by then is not missed.
        :raises NewerIdsError: a later version wrote one of the files.
        :raises OSError: a file cannot be read.
        """
        cutoff = self._cutoff(today) if today else ""
        lost = []
        for day, count in sorted(recorded.items()):
            found = min(count, records_in(self._family.ids(day)))
            if found < count and day >= cutoff:
                lost.append(LostIds(day, count, found))
        return lost

    def open(self, recorded: Mapping[str, int], today: str = "") -> list[LostIds]:
        """Bring the files to what a snapshot covers; forget all that was in memory.

        Longer files are cut, in whole records. Those of other days are removed, with all tables
        that belong to none. One that is no id file is set aside as ``….damaged``.

        In the place of ids that are lost come others, which nobody has. The ids that a replay adds
        would else stand where those stood; and after a crash the next start, which knows no more
        than how many there were, would take their events for counted. For the same reason nothing
        is written for days that are forgotten by now until all is replayed (:meth:`flush`).

        :param recorded: how many ids of each day the snapshot covers; empty without one.
        :param today: as for :meth:`lost`.
        :return: what is lost. It is for the log; the ledger goes on with what is there.
        :raises NewerIdsError: a later version wrote one of the files. Nothing was changed.
        :raises OSError: the disk refused.
        """
        self.close()
        self._groups, self._files, self._today = {}, {}, ""
        self._busy, self._total, self._all_read = {}, 0, False
        self._unwritten_before = self._cutoff(today) if today else ""
        family = self._family
        found = family.found(files.list_names(family.folder))
        records = {day: records_in(family.ids(day)) for day in found.id_days}
        lost = self.lost(recorded, today)
        for day, there in records.items():
            kept = min(there, recorded.get(day, 0))
            if kept:
                cut_to(family.ids(day), kept)
                self._files[day] = DayFile(family.ids(day), kept)
                self._total += kept
            elif recorded.get(day) and (files.file_size(family.ids(day)) or 0) > len(HEADER):
                files.rename_file(family.ids(day), family.ids(day) + ".damaged")
            else:
                files.remove_file(family.ids(day))
        for day in found.id_tables:
            if day not in self._files:
                files.remove_file(family.id_table(day))
        files.sweep_temporaries(family.folder, os.path.basename(family.stem) + ".ids")
        for one in lost:
            self._fill_up(one)
        return lost

    def _fill_up(self, lost: LostIds) -> None:
        """Put ids that nobody has in the place of those that are lost."""
        day, count = lost.day, lost.recorded - lost.found
        file = self._files.setdefault(day, DayFile(self._family.ids(day), 0, crc=0))
        file.pending += shake_128(f"{day} {lost.found}".encode()).digest(DIGEST_BYTES * count)
        self._busy[day] = file
        self._total += count

    def load(self) -> None:
        """Read all ids that have not been read yet.

        :raises OSError: a file cannot be read. What was read is kept, and the rest is tried again
            at the next use.
        """
        if self._all_read:
            return
        shared = not self._days_kept
        for day in sorted(self._files):
            name = "" if shared else day
            if name not in self._groups:
                days = sorted(self._files) if shared else [day]
                self._groups[name] = self._loaded(days)
        self._all_read = True

    # -- in use -------------------------------------------------------------------------------

    def known(self, digests: Sequence[bytes]) -> list[bool]:
        """Which ids are remembered; one that stands twice is known the second time.

        :param digests: what :func:`~omnigate.ledger.id_table.id_digest` makes of the ids.
        :raises OSError: they have not been read yet and cannot be read now.
        """
        self.load()
        known = [True] * len(digests)
        among: Iterable[int] = range(len(digests))
        if len(set(digests)) < len(digests):
            among = {digest: n for n, digest in reversed(list(enumerate(digests)))}.values()
        groups = sorted(self._groups.items(), reverse=True)
        for _, group in groups:
            if group.fresh:
                among = [n for n in among if digests[n] not in group.fresh]
        apart = Digests(b"".join(digests))
        for _, group in groups:
            among = group.table.missing(apart, among)
        for n in among:
            known[n] = False
        return known

    def add(self, digests: Sequence[bytes], day: str) -> None:
        """Remember ids that are not remembered yet; :meth:`flush` writes them down.

        :param day: the UTC day of recording.
        :raises OSError: as :meth:`known`; not after a call of that.
        """
        self.load()
        file = self._files.get(day)
        if file is None:
            file = self._files[day] = DayFile(self._family.ids(day), 0, crc=0)
        file.pending += b"".join(digests)
        self._busy[day] = file
        self._total += len(digests)
        name = day if self._days_kept else ""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(IdTable())
        group.fresh.update(digests)
        if len(group.fresh) >= _fresh_limit(len(group.table)):
            group.merge()

    def flush(self) -> OSError | None:
        """Append to the files what is not in them yet; not synced.

        :return: what kept it from that. The ids are remembered nevertheless, and are written by
            the next call, or come back with the replay of their lines.
        """
        try:
            self._flush()
        except OSError as error:
            return error
        return None

    def sync(self) -> dict[str, int]:
        """Make all ids survive a crash.

        :return: how many there are of each day: what a snapshot that is written now covers.
        :raises OSError: the disk refused. Nothing is lost; it may be tried again.
        """
        self._unwritten_before = ""
        self._flush()
        for file in self._busy.values():
            file.sync()
        self._close_but(1)
        self._busy = {day: file for day, file in self._busy.items() if file.is_open}
        for group in self._groups.values():
            group.merge()
        for name, group in self._groups.items():
            group.covers = self._covered(self._days_of(name))
        return {day: file.count for day, file in sorted(self._files.items()) if file.count}

    def turn_to(self, day: str) -> list[str]:
        """Go on with the UTC day, and forget those that ended too long before it, files and all.

        :return: the days forgotten now, mostly none. A snapshot must follow.
        """
        if day == self._today:
            return []
        self._today = day
        cutoff = self._cutoff(day)
        forgotten = sorted(name for name in self._files if name < cutoff)
        for name in forgotten:
            file = self._files.pop(name)
            file.close()
            self._total -= file.count
            self._busy.pop(name, None)
            if name in self._groups:
                self._groups.pop(name).table.clear()
            # What cannot be removed is unknown to the next snapshot, and removed at a start.
            with contextlib.suppress(OSError):
                files.remove_file(self._family.ids(name))
                files.remove_file(self._family.id_table(name))
        return forgotten

    def keep_tables(self, recorded: Mapping[str, int], *, final: bool = False) -> None:
        """Write down the tables that have grown much, or whose day is over.

        To be called after a snapshot was installed, before the next :meth:`sync`.

        :param recorded: what :meth:`sync` returned for that snapshot. A table that has taken in
            more since is left for the next time.
        :param final: whether this is the end, after which a start should be quick: every table
            that something came to is written.
        :raises OSError: the disk refused. Nothing depends on it.
        """
        for name, group in self._groups.items():
            covers = group.covers
            if covers is None or any(recorded.get(day) != covers[day][0] for day in covers):
                continue
            total = sum(count for count, _ in covers.values())
            due = max(TABLE_STEP_IDS, total // _TABLE_SHARE)
            if final or (name and name < self._today):
                due = 1
            if total >= TABLE_LEAST_IDS and total - group.kept >= due:
                self._keep(group, covers, total)

    def close(self) -> None:
        """Close the files; nothing is written. A second call does nothing."""
        for file in self._busy.values():
            file.close()

    # -- within -------------------------------------------------------------------------------

    def _cutoff(self, today: str) -> str:
        """The first day that is still remembered on a day."""
        if not self._days_kept:
            return ""
        try:
            return (date.fromisoformat(today) - timedelta(days=self._days_kept)).isoformat()
        except OverflowError:
            return date.min.isoformat()

    def _days_of(self, name: str) -> list[str]:
        return [name] if name else sorted(self._files)

    def _covered(self, days: Iterable[str]) -> dict[str, tuple[int, int]] | None:
        """The records of some days and their checksums; None where not all of them are synced."""
        covers = {}
        for day in days:
            file = self._files[day]
            if file.pending or file.unsynced or file.crc is None:
                return None
            covers[day] = file.count, file.crc
        return covers

    def _flush(self) -> None:
        for day, file in sorted(self._busy.items()):
            if file.pending and day >= self._unwritten_before:
                self._close_but(OPEN_FILES, besides=file)
                file.flush()
                if len(file.unsynced) >= UNSYNCED_BYTES:
                    file.sync()

    def _close_but(self, count: int, besides: DayFile | None = None) -> None:
        """Close all files but the newest ``count`` that are open, synced."""
        opened = [file for _, file in sorted(self._busy.items()) if file.is_open]
        for file in opened[: max(0, len(opened) - count)]:
            if file is not besides:
                file.sync()
                file.close()

    def _loaded(self, days: Sequence[str]) -> _Group:
        """Read the ids of some days into one table."""
        group = self._from_table(days)
        if group is None:
            group = _Group(IdTable(sum(self._files[day].count for day in days)))
            for day in days:
                self._files[day].crc = 0
        covers = group.covers or {}
        for day in days:
            file = self._files[day]
            for piece in file.read(covers.get(day, (0, 0))[0]):
                group.table.add(Digests(piece))
            group.table.add(Digests(file.unsynced + file.pending))
        group.covers = self._covered(days)
        return group

    def _from_table(self, days: Sequence[str]) -> _Group | None:
        """What the newest table of these days holds, if it agrees with their id files."""
        for day in reversed(days):
            path = self._family.id_table(day)
            size = files.file_size(path)
            if size is None:
                continue
            try:
                head, table = IdTable.decode(files.read_pieces(path), size)
            except (DamagedTableError, OSError):
                continue
            if self._agrees(head, days):
                kept = sum(count for count, _ in head.days.values())
                return _Group(table, head.days, kept, path)
        return None

    def _agrees(self, head: TableHead, days: Sequence[str]) -> bool:
        """Whether a table was made from the first records that the id files of these days have."""
        known = set(days)
        for day, (count, _) in head.days.items():
            if day not in known or not 0 <= count <= self._files[day].synced:
                return False
        for day in days:
            count, check = head.days.get(day, (0, 0))
            file = self._files[day]
            file.crc = 0
            for _ in file.read(0, count):
                pass
            if file.crc != check:
                self.changed.append(file.path)
                return False
        return True

    def _keep(self, group: _Group, covers: dict[str, tuple[int, int]], total: int) -> None:
        path = self._family.id_table(max(covers))
        temporary = path + files.TEMPORARY_SUFFIX
        files.replace_file(path, group.table.encode(covers), temporary=temporary)
        if group.path and group.path != path:
            files.remove_file(group.path)
        group.kept, group.path = total, path


@attrs.define(eq=False)
class _Group:
    """The ids of the days that share a table: one day, or all.

    :ivar table: those up to the last sync, or more.
    :ivar covers: the records of each day that are in the table, and their checksums; None where
        the table holds others too.
    :ivar kept: how many ids the table file at ``path`` has.
    :ivar fresh: those that are not in the table yet.
    """

    table: IdTable
    covers: dict[str, tuple[int, int]] | None = None
    kept: int = 0
    path: str = ""
    fresh: set[bytes] = attrs.Factory(set)

    def merge(self) -> None:
        """Take what is fresh into the table."""
        if self.fresh:
            self.table.add(Digests(b"".join(self.fresh)))
            self.fresh.clear()
            self.covers = None


def _fresh_limit(count: int) -> int:
    return min(FRESH_IDS, max(_FRESH_LEAST, count // _FRESH_SHARE))
