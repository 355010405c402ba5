"""A disk for crash tests: it forgets what was not synced, tears, fills up, and refuses to sync.

:class:`FaultyDisk` stands in for the module ``os`` inside :mod:`omnigate.files` (and inside a store
that calls ``os`` itself), so that the true file primitives, and every store built on them, run on
it::

    disk = FaultyDisk(self.mktemp())
    self.patch(files, "os", disk)

The files are real files in a real folder. Beside each the disk remembers what would still be there
if the power went now: :meth:`FaultyDisk.crash` puts that in the place of the file. A killed process
loses nothing that it wrote; its files are merely closed (:meth:`FaultyDisk.kill`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import attrs


@attrs.define
class _Stored:
    """What the disk holds of one file, and what it was told since the last sync.

    ``changes`` are bytes appended and, as integers, lengths that the file was cut to. ``lost`` is
    the range that a failed sync was for: the kernel takes it for written, the disk never got it.
    """

    durable: bytes
    named: bool
    changes: list[bytes | int] = attrs.Factory(list)
    lost: range = range(0)

    def steps(self) -> int:
        return sum(len(change) if isinstance(change, bytes) else 1 for change in self.changes)

    def after(self, steps: int) -> bytes:
        """The content if only the first ``steps`` bytes and cuts reached the disk."""
        content = self.durable
        for change in self.changes:
            if steps <= 0:
                break
            if isinstance(change, int):
                content = content[:change]
                steps -= 1
            else:
                content += change[:steps]
                steps -= len(change)
        return content


class FaultyDisk:
    """Stands in for the module ``os``, on one folder.

    What it knows of faults:

    * *power loss* (:meth:`crash`): of what was not synced any beginning survives, torn at any byte,
      with or without zero bytes in the place of the rest; a new name is gone, and a rename undone,
      until its folder is synced;
    * *full* (:attr:`free_bytes`): a write does what fits, the next one nothing;
    * *failing calls* (:meth:`fail`): the named call raises, so many times; a sync that fails has
      lost what it was for, as Linux does, even if a later one succeeds;
    * *the middle of things* (:attr:`calls_left`): after so many calls nothing happens any more and
      every call fails, until :meth:`crash` (the power was lost there) or :meth:`kill`.

    Anything else is passed on to the true ``os``.

    :ivar free_bytes: how many bytes still fit; None for no limit. A cut gives its bytes back.
    :ivar calls_left: after how many calls the world ends; None for never.
    :ivar calls: the names of the calls that change or sync something, in order.
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.free_bytes: int | None = None
        self.calls_left: int | None = None
        self.calls: list[str] = []
        self._failing: dict[str, tuple[int, int]] = {}
        self._open: set[int] = set()
        self._dead: set[int] = set()
        self._files: dict[str, _Stored] = {}
        self._renamed: dict[str, tuple[str, _Stored | None]] = {}
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self._files[path] = _Stored(file.read(), named=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    # -- what a test does ---------------------------------------------------------------------

    def fail(self, call: str, times: int = 1, error: int = errno.EIO) -> None:
        """Let the next ``times`` calls of ``call`` (such as ``"fdatasync"``) fail.

        :param error: the error number they fail with.
        """
        self._failing[call] = (times, error)

    def heal(self) -> None:
        """Let every call succeed again, and make room without limit."""
        self._failing.clear()
        self.free_bytes = self.calls_left = None

    def unsynced(self, path: str) -> int:
        """How many steps (bytes written, cuts) of a file the next power loss can take."""
        stored = self._files.get(os.path.realpath(path))
        return 0 if stored is None else stored.steps()

    def kill(self) -> None:
        """Kill the process: its files are closed as they are. The next one meets a disk that works.

        Stores are to be opened anew; the old ones are dead.
        """
        for fd in self._open:
            os.close(fd)
        self._dead |= self._open
        self._open.clear()
        self.heal()

    def crash(
        self, kept: Callable[[str, int], int] | int = 0, *, zero_filled: bool = False
    ) -> None:
        """Lose the power, and come back with what the disk had.

        It kills the process, too.

        :param kept: how many of a file's unsynced steps reached the disk, in order; or what tells
            it, given the path and how many there are.
        :param zero_filled: whether the file has its full length nevertheless, with zero bytes for
            what did not: the length is written before the content.
        """
        self.kill()
        for path, (source, replaced) in reversed(self._renamed.items()):
            self._files[source] = self._files.pop(path)
            if replaced is not None:
                self._files[path] = replaced
        self._renamed.clear()
        for path, stored in list(self._files.items()):
            if not stored.named:
                del self._files[path]
                continue
            steps = kept if isinstance(kept, int) else kept(path, stored.steps())
            content = stored.after(steps)
            if zero_filled:
                content = content.ljust(os.stat(path).st_size, b"\0")
            self._files[path] = _Stored(content, named=True)
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        for path, stored in self._files.items():
            with open(path, "wb") as file:
                file.write(stored.durable)

    # -- what omnigate.files calls ------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Open a file of the folder, or the folder itself."""
        self._attempt("open")
        path = os.path.realpath(path)
        existed = os.path.exists(path)
        fd = os.open(path, flags, mode)
        self._open.add(fd)
        self._dead.discard(fd)
        if not existed:
            self._files[path] = _Stored(b"", named=False)
        return fd

    def close(self, fd: int) -> None:
        """Close it; nothing is synced. What a kill has closed already is left alone."""
        if fd in self._dead:
            self._dead.remove(fd)
            return
        self._open.discard(fd)
        os.close(fd)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write as much as fits."""
        self._attempt("write")
        if self.free_bytes is not None:
            if not self.free_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: self.free_bytes]
            self.free_bytes -= len(data)
        written = os.write(fd, data)
        stored = self._stored(fd)
        if stored is not None:
            stored.changes.append(bytes(data[:written]))
        return written

    def ftruncate(self, fd: int, length: int) -> None:
        """Cut the file."""
        self._attempt("ftruncate")
        if self.free_bytes is not None:
            self.free_bytes += max(0, os.fstat(fd).st_size - length)
        os.ftruncate(fd, length)
        stored = self._stored(fd)
        if stored is not None:
            stored.changes.append(length)
            stored.lost = range(stored.lost.start, min(stored.lost.stop, length))

    def fsync(self, fd: int) -> None:
        """Sync a file, or the names of the folder."""
        self._sync("fsync", fd)
        if self._path(fd) == self.folder:
            for stored in self._files.values():
                stored.named = True
            self._renamed.clear()

    def fdatasync(self, fd: int) -> None:
        """Sync a file."""
        self._sync("fdatasync", fd)

    def posix_fadvise(self, fd: int, offset: int, length: int, advice: int) -> None:
        """Drop a file from the cache: what a failed sync lost then reads as zero bytes."""
        stored = self._stored(fd)
        if advice == os.POSIX_FADV_DONTNEED and stored is not None and not stored.changes:
            with open(self._path(fd), "r+b") as file:
                file.write(stored.durable)

    def replace(self, source: str, target: str) -> None:
        """Rename a file over another."""
        self._attempt("replace")
        source, target = os.path.realpath(source), os.path.realpath(target)
        os.replace(source, target)
        replaced = self._files.get(target)
        self._files[target] = self._files.pop(source)
        first = self._renamed.get(target)
        self._renamed[target] = (source, replaced if first is None else first[1])

    def unlink(self, path: str) -> None:
        """Remove a file; a power loss does not bring it back."""
        self._attempt("unlink")
        os.unlink(path)
        self._files.pop(os.path.realpath(path), None)

    def _path(self, fd: int) -> str:
        return os.readlink(f"/proc/self/fd/{fd}")

    def _stored(self, fd: int) -> _Stored | None:
        """What is known of an open file; None for the folder itself."""
        path = self._path(fd)
        if path == self.folder:
            return None
        # One that is not known yet was made past this disk, by the module tempfile.
        return self._files.setdefault(path, _Stored(b"", named=False))

    def _attempt(self, call: str) -> None:
        self.calls.append(call)
        if self.calls_left is not None:
            if not self.calls_left:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self.calls_left -= 1
        times, error = self._failing.get(call, (0, 0))
        if times:
            self._failing[call] = (times - 1, error)
            raise OSError(error, os.strerror(error))

    def _sync(self, call: str, fd: int) -> None:
        stored = self._stored(fd)
        try:
            self._attempt(call)
        except OSError:
            if stored is not None and self.calls_left != 0:
                # Linux tells of a failed write-back once, and takes the pages for clean.
                cuts = [change for change in stored.changes if isinstance(change, int)]
                stored.lost = range(min([len(stored.durable), *cuts]), os.fstat(fd).st_size)
                stored.changes.clear()
            raise
        if stored is not None:
            with open(self._path(fd), "rb") as file:
                content = bytearray(file.read())
            lost = range(stored.lost.start, min(stored.lost.stop, len(content)))
            content[lost.start : lost.stop] = bytes(len(lost))
            stored.durable = bytes(content)
            stored.changes.clear()
