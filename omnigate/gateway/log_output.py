"""Where the lines of a log go: a file or a pipe that other processes may write to as well.

No line is torn by another process's:

* *A file* takes a group of whole lines with one write. It is open for appending, so each write
  goes to the end and no other one comes between (POSIX, ``write()``: "no intervening file
  modification operation shall occur"; Linux holds the file's lock meanwhile). What can tear a line
  is a disk that fills up, and a process that is killed in the middle: so the end of the file is
  looked at before each write, and where it is no line end, one is written first. A line that was
  cut off is written again, whole. Between the look and the write no other worker gets in its own:
  they take turns by a lock, which is waited for a moment only, since a log must not stand still
  for a process that does. Without it (some network file systems have none) the look may come too
  early, and a line may stand behind the remains of another.
* *A pipe* takes at most :data:`PIPE_BUF` bytes in one piece (POSIX, ``write()``), so it is given
  whole lines up to that many, and no line is longer. The sockets that journald hands out keep as
  much together: Linux queues it as one buffer.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import time
from collections.abc import Iterator
from typing import Final

STANDARD_OUTPUT: Final = "-"

#: What a pipe takes in one piece; 4 KiB on Linux.
PIPE_BUF: Final = select.PIPE_BUF

#: Readable by the group, as log shippers run under another user.
_MODE: Final = 0o640

_LINE_END: Final = b"\n"

#: How long a full pipe is waited for before the lines for it are dropped.
_PIPE_SECONDS = 1.0

#: How often a lock is asked for, and the pause between: 50 ms together. Another worker holds it
#: for as long as one write takes.
_LOCK_TRIES: Final = 50
_LOCK_PAUSE_SECONDS: Final = 0.001

#: How often a write may end amid a line before the group is given up: a disk that is full, and
#: gets a little room now and then.
_MOST_SHORT_WRITES: Final = 8


class LogOutput:
    """A file, or standard output; all methods but the first two run in one thread.

    :ivar path: of the file, or ``-``.
    """

    def __init__(self, path: str, shared: bool) -> None:
        """Take the name; nothing is opened before :meth:`open`.

        :param shared: whether other processes write there at the same time.
        """
        self.path = path
        self._shared = shared
        self._fd = -1
        self._look_fd = -1
        self._is_file = False
        # Whether what was written last ends amid a line; asked where the file cannot be read.
        self._torn = False

    def open(self) -> None:
        """Open it.

        :raises OSError: it cannot be opened.
        """
        self._fd = self._open()
        self._is_file = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._look_fd = self._open_to_look()

    def _open(self) -> int:
        if self.path == STANDARD_OUTPUT:
            return os.dup(1)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, _MODE)

    def _open_to_look(self) -> int:
        """Open a file for reading, too; -1 where it is none, or is not ours to read."""
        if self.path == STANDARD_OUTPUT or not self._is_file:
            return -1
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return -1
        if not os.path.samestat(os.fstat(fd), os.fstat(self._fd)):
            # It was rotated at this very moment.
            os.close(fd)
            return -1
        return fd

    def reopen(self) -> None:
        """Open the file anew under its name; standard output stays as it is.

        :raises OSError: it cannot be opened; the old one stays in use.
        """
        if self.path == STANDARD_OUTPUT:
            return
        old = (self._fd, self._look_fd)
        self.open()
        self._torn = self._torn and os.fstat(self._fd).st_size > 0
        for fd in old:
            if fd >= 0:
                os.close(fd)

    def close(self) -> None:
        """Close it; a second call does nothing."""
        fds, self._fd, self._look_fd = (self._fd, self._look_fd), -1, -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def write(self, lines: bytes) -> None:
        """Write whole lines.

        :raises OSError: not all of them could be written.
        """
        if not self._is_file:
            for piece in pieces_of(lines, PIPE_BUF) if self._shared else (lines,):
                self._pass(piece)
        elif not self._shared or self._look_fd < 0:
            self._append(lines)
        elif self._lock():
            try:
                self._append(lines)
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        else:
            self._append(lines)

    def _lock(self) -> bool:
        """Take turns with the other processes; False where that takes too long."""
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_PAUSE_SECONDS)
            except OSError:
                return False
            else:
                return True
        return False

    def _append(self, lines: bytes) -> None:
        """Write to a file, with one call unless the disk is full."""
        left = memoryview(lines)
        for _ in range(_MOST_SHORT_WRITES):
            begun = self._ends_amid_a_line()
            data = memoryview(_LINE_END + left) if begun else left
            written = os.write(self._fd, data)
            self._torn = bytes(data[written - 1 : written]) != _LINE_END
            if written == len(data):
                return
            # On at the beginning of the line that was cut off: its remains are not ours any more
            # once somebody else has written.
            left = left[bytes(data[:written]).rfind(_LINE_END) + 1 - begun :]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _ends_amid_a_line(self) -> bool:
        if self._look_fd < 0:
            return self._torn
        size = os.fstat(self._fd).st_size
        # Somebody may cut the file just now: then there is no last byte.
        return size > 0 and os.pread(self._look_fd, 1, size - 1) not in (_LINE_END, b"")

    def _pass(self, lines: bytes | memoryview) -> None:
        """Write to something that is no file."""
        left = memoryview(_LINE_END + lines if self._torn else lines)
        while left:
            written = _write_some(self._fd, left)
            self._torn = bytes(left[written - 1 : written]) != _LINE_END
            left = left[written:]


def pieces_of(lines: bytes, most: int) -> Iterator[memoryview]:
    """Cut text into pieces of whole lines, of ``most`` bytes at most.

    A line that is longer is a piece of its own.
    """
    view, begin = memoryview(lines), 0
    while begin < len(lines):
        end = len(lines)
        if end - begin > most:
            end = lines.rfind(_LINE_END, begin, begin + most) + 1
            end = end or lines.find(_LINE_END, begin) + 1 or len(lines)
        yield view[begin:end]
        begin = end


def _write_some(fd: int, data: memoryview) -> int:
    """Write the beginning of what is not empty, to a pipe that may be set not to block.

    :return: how many bytes were written, at least one.
    :raises OSError: none could be; a pipe that stays full is waited for a moment.
    """
    while True:
        try:
            return os.write(fd, data)
        except BlockingIOError:
            if not select.select([], [fd], [], _PIPE_SECONDS)[1]:
                raise
