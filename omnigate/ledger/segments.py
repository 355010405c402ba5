"""The active segment on the disk: read once to its end, then appended to.

Its methods block and are called by the writer thread, one after another; nothing here knows the
reactor or what a line means.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from itertools import islice

from omnigate.files import PRIVATE_MODE, AppendFile, read_lines, sync_directory
from omnigate.ledger.lines import MAX_LINE_BYTES

#: Lines handed to the reactor at a time. Counting one takes about 7 µs, so a slice takes 2 ms, and
#: on a busy machine several times that.
SLICE_LINES = 250


class ActiveSegment:
    """The file that is appended to, in one of three states.

    *closed*, at first and after :meth:`close`; *reading*, from :meth:`begin_reading` on;
    *appending*, from :meth:`begin_appending` on, which takes a file that was read to its end.

    :ivar path: where it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines: Iterator[tuple[int, bytes | None, bool]] = iter(())
        self._end: int | None = None
        self._file: AppendFile | None = None
        self._inode: tuple[int, int] | None = None
        self._lock = -1

    def begin_reading(self) -> None:
        """Take the file for this process alone, and go to its beginning; make it if need be.

        :raises OSError: the file cannot be written and read, or another process has taken it.
        """
        self.close()
        self._lock = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        _take(self._lock)
        _settle(self._lock)
        self._lines = read_lines(self.path, MAX_LINE_BYTES)
        self._end = None

    def next_lines(self) -> list[tuple[int, bytes | None]]:
        """Read the next whole lines, :data:`SLICE_LINES` at most.

        :return: for each its offset and its bytes, None for one that is too long to be one of
            ours; the empty list at the end of the file.
        :raises OSError: the file cannot be read.
        """
        lines: list[tuple[int, bytes | None]] = []
        for offset, line, complete in islice(self._lines, SLICE_LINES):
            if complete:
                lines.append((offset, line))
            else:
                self._end = offset
        return lines

    def begin_appending(self) -> tuple[int, int]:
        """Cut off a torn last line, and get ready to append.

        :return: where the torn line began, and how many bytes of it were cut off: mostly none.
        :raises OSError: the disk refused.
        """
        file = AppendFile(self.path)
        try:
            end = file.size if self._end is None else self._end
            torn = file.size - end
            if torn:
                file.cut(end)
            file.sync()
            # The file may have been made by a process that was killed before it synced the name.
            sync_directory(os.path.dirname(self.path) or ".")
        except BaseException:
            file.close()
            raise
        self._file = file
        self._inode = _inode(os.stat(self.path))
        return end, torn

    def append(self, lines: bytes) -> None:
        """Write whole lines and sync them.

        :raises OSError: the disk refused; none of them counts as written, and what may stand of
            them in the file is cut off before the next are written.
        """
        if self._file is None:
            raise RuntimeError(f"{self.path} is not open for appending")
        found = os.stat(self.path)
        if _inode(found) != self._inode or found.st_size < self._file.size:
            # What is written into a file that somebody moved or emptied is not there after a
            # restart, so nothing is written until it is back, or this process starts anew.
            raise OSError(errno.ESTALE, "the file was moved, replaced or shortened while in use")
        self._file.append(lines)
        self._file.sync()

    def close(self) -> None:
        """Close the file, and let others have it. A second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def _take(fd: int) -> None:
    """Lock a file against a second control plane: either would cut off what the other writes."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(
            errno.EBUSY, "another process, such as a second control plane, has it open"
        ) from None
    except OSError:
        pass  # a network file system without locks


def _settle(fd: int) -> None:
    """See to it that what will be read from a file is what the disk has of it.

    A process that was killed may have left lines that were never synced: they are synced now, so
    that they cannot vanish once they were counted. And where a sync failed, Linux keeps the bytes
    that it could not write in its cache, and takes them for written; those are dropped.
    """
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
