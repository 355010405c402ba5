"""The segments on the disk: read once to their end, then appended to.

Its methods block and are called by the writer thread, one after another; nothing here knows the
reactor or what a line means.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from omnigate import files
from omnigate.files import AppendFile
from omnigate.ledger.family import Family, Found, Position, SealedSegment
from omnigate.ledger.lines import MAX_LINE_BYTES, DamagedLineError, NewerLineError, decode_line
from omnigate.ledger.segment_reading import SegmentReading, hash_into, stale

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

#: Lines at the beginning of the active segment that are looked at for the day it was begun on. The
#: first one tells, unless it is damaged.
FIRST_LINES = 1_000

#: The day of a segment whose first lines are all damaged: so long ago that it is sealed soon.
FIRST_DAY = "0001-01-01"

#: The highest number that a sealed segment can have come to: one sealed every second for thirty
#: years. New ones are numbered behind the highest there is, so a stray file must not set it.
MAX_SEGMENT = 10**9


@attrs.frozen
class Slice:
    """Some whole lines of one segment, in order.

    :ivar segment: the segment's number.
    :ivar path: its path, for the log.
    :ivar lines: for each its offset and its bytes without the line end, None for one that is too
        long to be one of ours.
    """

    segment: int
    path: str
    lines: list[tuple[int, bytes | None]]


@attrs.frozen
class Torn:
    """What a crash left behind the last line end of the active segment, and was cut off.

    :ivar path: the segment's path.
    :ivar offset: where it began.
    :ivar size: how many bytes it had.
    """

    path: str
    offset: int
    size: int


class Segments:
    """All segments of a ledger on the disk: read once from a position on, then appended to.

    It is *closed*, at first and after :meth:`close`; *open*, from :meth:`open` on; *reading*, from
    :meth:`begin_reading` on; *appending*, from :meth:`begin_appending` on, which takes segments
    that were read to their end. The caller tells how many of the lines it read were counted
    (:meth:`count`), so that the records of sealed segments can say it.

    Why each step may be crashed in:

    * :meth:`append` writes whole lines and syncs them before they count. A crash before the sync
      leaves any part of them: what lacks its line end is cut off at the next start, and of what
      has it the sender was told nothing, so it comes again and its id is known then.
    * :meth:`seal` renames a file whose bytes are all synced, syncs the folder, then makes the new
      active file and syncs the folder again, and nothing is appended before that succeeded. A crash
      in between leaves the old name, with the same bytes in the same segment, or the new name and
      no active file, which counts as an empty one. Without the first sync, a file system that keeps
      no order could know the new active file and not the sealed one.
    * :meth:`begin_appending` syncs the folder too: a killed process may have renamed and not
      synced, and this one must not build on a name that a power loss takes back.

    A second process is refused by a lock on the active file. While that file is being sealed the
    lock is on the newest sealed one, and is held until the new active file is locked; so the lock
    of both is asked for.

    :ivar sealed: what is known of each segment sealed from the position on that was read from:
        those read to their end, and those sealed since, rising.
    """

    def __init__(self, family: Family) -> None:
        self.sealed: list[SealedSegment] = []
        self._family = family
        self._lock = -1
        self._numbers: list[int] = []
        self._number = 0
        self._prefix: tuple[Position, Digest] | None = None
        self._to_read: list[int] = []
        self._reading: SegmentReading | None = None
        self._file: AppendFile | None = None
        self._appending = False
        self._size = 0
        self._digest = sha256()
        self._events = 0
        self._opened_day: str | None = None

    # -- what is there ------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The end of what was recorded; of use while appending."""
        return Position(self._number, self._size)

    @property
    def size(self) -> int:
        """The length of the active segment in bytes."""
        return self._size

    @property
    def opened_day(self) -> str | None:
        """The UTC day on which the active segment's first line was recorded; None without one."""
        return self._opened_day

    def active_sha256(self) -> str:
        """The SHA-256 of the active segment up to :attr:`position`, in hex."""
        return self._digest.hexdigest()

    # -- opening ------------------------------------------------------------------------------

    def open(self) -> Found:
        """Take the ledger for this process alone, and look at what is there.

        The active segment is made if need be, and settled: what is read from now on is on the disk.

        :raises OSError: EBUSY where another process has it; EINVAL where a file has a number that
            none of ours can have; any other where the disk refused.
        """
        self.close()
        if files.file_size(self._family.active) is None:
            # A killed process may have renamed it, and its name must not be taken again before
            # the disk knows the new one.
            files.sync_directory(self._family.folder)
        self._lock = files.lock_file(self._family.active)
        try:
            found = self._family.found(files.list_names(self._family.folder))
            if found.sealed:
                _ask_for_lock(self._family.sealed(found.sealed[-1]))
            files.settle_file(self._family.active)
        except BaseException:
            self.close()
            raise
        last = found.sealed[-1] if found.sealed else 0
        if last > MAX_SEGMENT:
            self.close()
            text = "no ledger has so many segments; it is not one of this one, so move it away"
            raise OSError(errno.EINVAL, text, self._family.sealed(last))
        self._numbers = list(found.sealed)
        self._number = last + 1
        return found

    def damage_of(
        self, position: Position, active_sha256: str, sealed: Sequence[SealedSegment]
    ) -> str | None:
        """Why the bytes that a snapshot covers are no longer there, or no longer the same.

        Sealed segments are known by their length here; their bytes are gone through by
        ``omnigate ledger verify`` only. One that is missing was deleted for its age if no sealed
        segment before it is left, and any after it is; otherwise it is lost.

        :param position: where the snapshot ends.
        :param active_sha256: the SHA-256 of the bytes before it in its segment, in hex.
        :param sealed: the segments before it, as the snapshot lists them.
        :return: None if all is well, else words for the log that name the file.
        :raises OSError: a file cannot be read.
        """
        lowest = self._numbers[0] if self._numbers else 0
        for segment in sealed:
            path = self._family.sealed(segment.number)
            size = files.file_size(path)
            if size is None and segment.number >= lowest:
                return f"{path} is missing"
            if size is not None and size != segment.size:
                return f"{path} has {size} bytes, not the {segment.size} that were counted"
        if position.segment > self._number:
            return f"{self._family.sealed(self._number)} is missing"
        path = self._path(position.segment)
        size = files.file_size(path)
        if size is None:
            return f"{path} is missing"
        if size < position.offset:
            return f"{path} has {size} bytes, fewer than the {position.offset} that were counted"
        digest = sha256()
        hash_into(digest, path, 0, position.offset)
        if digest.hexdigest() != active_sha256:
            return f"the first {position.offset} bytes of {path} are not those that were counted"
        self._prefix = position, digest
        return None

    # -- reading ------------------------------------------------------------------------------

    def begin_reading(self, position: Position, events: int = 0) -> None:
        """Go to a position, such as that of a snapshot, or the first of all: ``Position(1, 0)``.

        Segments before it are not read. If its segment was deleted, the first one that is left is
        read from its beginning.

        :param events: how many lines before it in its segment were counted.
        :raises OSError: the segment cannot be read; ESTALE where it ends before the position.
        """
        if self._lock < 0:
            raise RuntimeError(f"{self._family.active} is not open")
        self.sealed = []
        self._file, self._appending = None, False
        self._to_read = [n for n in self._numbers if n >= position.segment] + [self._number]
        offset = position.offset if self._to_read[0] == position.segment else 0
        self._events = events if offset else 0
        digest = sha256()
        if offset and self._prefix is not None and self._prefix[0] == position:
            digest = self._prefix[1].copy()
        elif offset:
            hash_into(digest, self._path(position.segment), 0, offset)
        self._begin_segment(offset, digest)

    def next_lines(self, limit: int) -> Slice | None:
        """Read the next whole lines, of one segment.

        :param limit: how many lines at most; their bytes are bounded too
            (:data:`~omnigate.ledger.segment_reading.SLICE_BYTES`).
        :return: None at the end of the active segment.
        :raises OSError: a segment cannot be read.
        """
        reading = self._reading
        while reading is not None:
            lines = reading.next_lines(limit)
            if lines:
                return Slice(reading.number, reading.path, lines)
            if reading.number == self._number:
                return None
            self.sealed.append(
                SealedSegment(reading.number, reading.end, reading.digest.hexdigest(), self._events)
            )
            self._events = 0
            del self._to_read[0]
            self._begin_segment(0, sha256())
            reading = self._reading
        raise RuntimeError(f"{self._family.active} is not being read")

    def count(self, events: int) -> None:
        """Take note that so many lines of the slice just read were counted."""
        self._events += events

    def begin_appending(self) -> Torn | None:
        """Cut off a torn last line, and get ready to append.

        :return: what was cut off, if anything.
        :raises OSError: the disk refused.
        """
        reading = self._reading
        if reading is None or reading.number != self._number or not reading.finished:
            raise RuntimeError(f"{self._family.active} was not read to its end")
        path, end = self._family.active, reading.end
        file = AppendFile(path)
        try:
            torn = file.size - end
            if torn < 0:
                raise stale()
            if torn:
                file.cut(end)
            file.sync()
            files.sync_directory(self._family.folder)
            self._opened_day = _first_day(path)
        except BaseException:
            file.close()
            raise
        self._reading, self._file, self._appending = None, file, True
        self._size, self._digest = end, reading.digest
        return Torn(path, end, torn) if torn else None

    # -- appending ----------------------------------------------------------------------------

    def append(self, data: bytes, events: int) -> Position:
        """Write whole lines and sync them.

        :param events: how many lines they are.
        :return: the position behind them.
        :raises OSError: the disk refused, or ESTALE where the file is no longer in its place; none
            of them counts as written, and what may stand of them in the file is cut off before the
            next are written.
        """
        file = self._writable()
        if not file.is_at(self._family.active):
            # What is written into a file that somebody moved or emptied is not there after a
            # restart, so nothing is written until it is back, or this process starts anew.
            raise stale()
        file.append(data)
        file.sync()
        self._digest.update(data)
        self._size += len(data)
        self._events += events
        if self._opened_day is None and data:
            self._opened_day = _day_of(data[: data.index(b"\n")])
        return self.position

    def seal(self) -> SealedSegment:
        """Rename the active segment to its number for good, and begin a new, empty one.

        :return: what is known of it; :attr:`sealed` has it too.
        :raises OSError: the disk refused. Either nothing was done, and it may be tried again; or
            the segment is sealed (:attr:`sealed` says so, and :attr:`size` is 0), and the next
            :meth:`append` begins the new one, or fails.
        """
        file = self._writable()
        if not self._size:
            raise RuntimeError(f"{self._family.active} is empty; there is nothing to seal")
        target = self._family.sealed(self._number)
        if not file.is_at(self._family.active):
            raise stale()
        if files.file_size(target) is not None:
            raise OSError(errno.EEXIST, "somebody put a file there", target)
        file.sync()
        files.rename_file(self._family.active, target, sync=False)
        record = SealedSegment(self._number, self._size, self.active_sha256(), self._events)
        self.sealed.append(record)
        self._numbers.append(self._number)
        self._number += 1
        self._size, self._events, self._digest = 0, 0, sha256()
        self._opened_day = self._file = None
        file.close()
        self._begin_active()
        return record

    def close(self) -> None:
        """Close the files, and let others have them. A second call does nothing."""
        file, self._file, self._appending = self._file, None, False
        self._reading = self._prefix = None
        if file is not None:
            file.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            files.close_file(lock)

    # -- within -------------------------------------------------------------------------------

    def _path(self, number: int) -> str:
        family = self._family
        return family.active if number == self._number else family.sealed(number)

    def _begin_segment(self, offset: int, digest: Digest) -> None:
        """Go on reading with the first segment that is to be read."""
        number = self._to_read[0]
        last = number == self._number
        self._reading = SegmentReading(number, self._path(number), offset, digest, active=last)

    def _writable(self) -> AppendFile:
        """The active file, which is begun now if sealing the last one broke off."""
        if not self._appending:
            raise RuntimeError(f"{self._family.active} is not open for appending")
        return self._file or self._begin_active()

    def _begin_active(self) -> AppendFile:
        """Make the new active file, lock it, and give the lock of the sealed one back."""
        path = self._family.active
        # The disk knows the sealed segment's name before its old one is taken by another file.
        files.sync_directory(self._family.folder)
        lock = files.lock_file(path)
        try:
            file = AppendFile(path)
            try:
                if file.size:
                    raise stale()
                files.sync_directory(self._family.folder)
            except BaseException:
                file.close()
                raise
        except BaseException:
            files.close_file(lock)
            raise
        files.close_file(self._lock)
        self._lock, self._file = lock, file
        return file


def _first_day(path: str) -> str | None:
    """The UTC day on which the first line of a segment was recorded, None for an empty one."""
    looked = files.read_lines(path, MAX_LINE_BYTES)
    day = None
    for _, line, _ in islice(looked, FIRST_LINES):
        day = _day_of(line or b"")
        if day != FIRST_DAY:
            break
    return day


def _day_of(line: bytes) -> str:
    """The UTC day on which a line was recorded."""
    try:
        return decode_line(line)[0].received_at[:10]
    except (DamagedLineError, NewerLineError):
        return FIRST_DAY


def _ask_for_lock(path: str) -> None:
    """See whether another process holds a sealed segment, which it does while it is sealing it.

    :raises OSError: EBUSY if so.
    """
    try:
        files.close_file(files.lock_file(path))
    except OSError as error:
        # One that was made read-only is nobody's to seal.
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
