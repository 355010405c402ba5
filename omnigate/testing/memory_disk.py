"""A disk in memory that stands in for ``os`` and ``fcntl``, and tells every crash of its history.

The true file primitives of :mod:`omnigate.files`, and every store built on them, run on it::

    disk = MemoryDisk("/state")
    self.patch(files, "os", disk)
    self.patch(files, "fcntl", disk)
    ...                                    # the store does its work under /state
    disk.mark("event 7 was acknowledged")  # what the world outside knows from here on
    for state in disk.crash_states():
        left = state.disk()                # a disk with what is left, to start anew on

Nothing touches the real disk, and nothing of ``os`` is there but what :mod:`omnigate.files` calls.
One thread at a time.

Several machines, each with a folder of its own, may share one: faults, kills and power losses are
then of one of them (``disk.crash("/control")``).
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

import attrs

from omnigate.testing.platter import (
    FOLDER,
    Create,
    Cut,
    LostSync,
    MakeFolder,
    Mark,
    Platter,
    Remove,
    RemoveFolder,
    Rename,
    Reread,
    Step,
    Sync,
    SyncFolder,
    Tears,
    Write,
    every_byte,
    few_bytes,
)

#: Free on a disk of which nothing else is said.
PLENTY: Final = 1 << 40


@attrs.define
class _Opened:
    """An open file, or with number 0 an open folder."""

    number: int
    path: str
    flags: int
    position: int = 0


class MemoryDisk:
    """Stands in for the modules ``os`` and ``fcntl``.

    What it knows of faults, each for one machine (the folder that a path is in):

    * *full* (:attr:`free_bytes`): a write does what fits, the next one nothing;
    * *failing calls* (:meth:`fail`): the named call raises, so many times;
    * *the middle of things* (:attr:`calls_left`): after so many calls that change or sync anything
      nothing happens any more, and every call fails, until :meth:`kill` or :meth:`crash`;
    * *the end of a process* (:meth:`kill`): its files are closed as they are, its locks are free;
    * *power loss* (:meth:`crash`), and all that one could have left (:meth:`crash_states`): see
      :mod:`omnigate.testing.platter`.

    :ivar folders: the machines' folders.
    :ivar free_bytes: by folder, how many bytes still fit; no entry for no limit. A cut and a
        removal give their bytes back.
    :ivar calls_left: by folder, after how many calls the world ends; no entry for never.
    :ivar calls: the names of the calls that changed or synced something, in order.
    :ivar history: what happened to the disk, since :meth:`record`.
    """

    O_RDONLY, O_WRONLY, O_RDWR = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
    O_CREAT, O_EXCL, O_TRUNC, O_APPEND = os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND
    O_CLOEXEC, O_DIRECTORY = os.O_CLOEXEC, os.O_DIRECTORY
    O_NONBLOCK = os.O_NONBLOCK
    SEEK_SET, POSIX_FADV_DONTNEED = os.SEEK_SET, os.POSIX_FADV_DONTNEED
    LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN
    stat_result = os.stat_result
    # Only what asks nothing of a disk is used of it: join, split, dirname, samestat.
    path = posixpath

    def __init__(
        self,
        *folders: str,
        contents: Mapping[str, bytes] | None = None,
        recording: bool = True,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Make the disk.

        :param folders: the folders there are, one for each machine; absolute.
        :param contents: the files that are there, and on the disk for certain, by path.
        :param recording: whether the history is kept; a long one takes memory.
        :param now: the time that files are stamped with.
        """
        self.folders = folders or ("/state",)
        self._now = now
        self._times: dict[int, float] = {}
        self.free_bytes: dict[str, int] = {}
        self.calls_left: dict[str, int] = {}
        self.calls: list[str] = []
        self.history: list[Step] = []
        self._recording = recording
        self._failing: dict[tuple[str, str], tuple[int, int]] = {}
        self._opened: dict[int, _Opened] = {}
        # No descriptor is used twice, so one of a killed process is never somebody else's.
        self._next_fd = 1000
        self._names_made = 0
        self._locks: dict[int | str, int] = {}
        self._install(Platter(contents))

    def _install(self, platter: Platter) -> None:
        self._platter = platter
        self._next_number = max(platter.files, default=0) + 1
        self._base = platter.copy()

    # -- what a test does ---------------------------------------------------------------------

    def contents(self, folder: str = "/") -> dict[str, bytes]:
        """Return what every file holds, as a process sees it, by path."""
        prefix = folder.rstrip("/") + "/"
        return {p: c for p, c in self._platter.shown().items() if p.startswith(prefix)}

    def certain(self) -> dict[str, bytes]:
        """Return what would be left of every file if nothing is of what was not synced."""
        return self._platter.certain()

    def put(self, path: str, content: bytes) -> None:
        """Make a file hold this and nothing else, on the disk for certain, whatever it held."""
        fd = self._open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        number = self._opened.pop(fd).number
        if content:
            self._do(Write(number, 0, content))
        self._do(Sync(number))
        self._do(SyncFolder(posixpath.dirname(posixpath.normpath(path))))

    def fail(
        self, call: str, times: int = 1, error: int = errno.EIO, folder: str | None = None
    ) -> None:
        """Let the next ``times`` calls of ``call`` (such as ``"fdatasync"``) fail.

        :param error: the error number they fail with.
        :param folder: whose calls; None for every machine's.
        """
        for one in self.folders if folder is None else (folder,):
            self._failing[one, call] = (times, error)

    def heal(self, folder: str | None = None) -> None:
        """Let every call succeed again, and make room without limit."""
        for one in self.folders if folder is None else (folder,):
            self.free_bytes.pop(one, None)
            self.calls_left.pop(one, None)
            for key in [key for key in self._failing if key[0] == one]:
                del self._failing[key]

    def kill(self, folder: str | None = None) -> None:
        """Kill the processes of a machine, or all; the next one meets a disk that works.

        What is left of the old ones is dead: every call with one of their descriptors fails.
        """
        for fd, opened in list(self._opened.items()):
            if folder is None or self._machine(opened.path) == folder:
                self.close(fd)
        self.heal(folder)
        if not self._recording:
            self._platter.forget(opened.number for opened in self._opened.values())

    def crash(self, folder: str | None = None, rng: Random | None = None) -> None:
        """Lose the power of a machine, or of all, and come back with what its disk had.

        It kills the processes, too. The history begins anew.

        :param rng: what takes one of all states that are permitted; None for the one in which
            nothing is left of what was not synced.
        """
        self.kill(folder)
        for one in self.folders if folder is None else (folder,):
            self._platter.crash(one, rng)
        self.record()

    def record(self) -> None:
        """Begin the history here."""
        self.history.clear()
        self._platter.forget(opened.number for opened in self._opened.values())
        self._base = self._platter.copy() if self._recording else Platter()

    def write_back(self) -> None:
        """Bring everything to the disk, as the kernel does within half a minute."""
        for number, file in self._platter.files.items():
            if file.changes:
                self._do(Sync(number))
        inner = [path for path, number in self._platter.names.items() if number == FOLDER]
        for folder in (*self.folders, *inner):
            self._do(SyncFolder(folder))

    def mark(self, value: object) -> None:
        """Write into the history what the world outside has been told by now."""
        self._do(Mark(value))

    def crash_states(
        self, tears: Tears = every_byte, rng: Random | None = None, mixed: int = 0
    ) -> Iterator[CrashState]:
        """Yield what a crash may have left, for each step of the history as the last one.

        For each the states of a kill, in which nothing is lost but the end of the last write, and
        then those of a power loss. States that have the same content between the same two marks
        are told once.

        :param tears: where writes are torn by a power loss.
        :param mixed: how many more power losses after each step, taken by ``rng`` from all that is
            permitted.
        """
        shadow = self._base.copy()
        marks: tuple[object, ...] = ()
        seen: set[object] = set()
        for point, step in enumerate(self.history):
            yield from self._torn_kills(point, shadow, step, marks)
            shadow.apply(step)
            if isinstance(step, Mark):
                marks += (step.value,)
                seen.clear()
            made = point + 1
            yield CrashState(made, "killed", True, marks, self.folders, shadow.copy())
            for label, contents in shadow.power_losses(step, tears, rng, mixed):
                key = hash(frozenset(contents.items()))
                if key not in seen:
                    seen.add(key)
                    yield CrashState(made, label, False, marks, self.folders, Platter(contents))

    def _torn_kills(
        self, point: int, shadow: Platter, step: Step, marks: tuple[object, ...]
    ) -> Iterator[CrashState]:
        """Kill the process in the middle of a write."""
        if isinstance(step, Write):
            for length in few_bytes(len(step.data)):
                torn = shadow.copy()
                torn.apply(attrs.evolve(step, data=step.data[:length]))
                label = f"killed at byte {length} of a write"
                yield CrashState(point, label, True, marks, self.folders, torn)

    # -- what omnigate.files calls ------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Open a file, or a folder."""
        self._attempt("open", path, changes=bool(flags & os.O_CREAT))
        return self._open(path, flags)

    def _open(self, path: str, flags: int) -> int:
        path = posixpath.normpath(path)
        number = 0
        if not self._is_folder(path):
            number = self._platter.names.get(path, 0)
            if flags & os.O_DIRECTORY or not self._is_folder(posixpath.dirname(path)):
                raise _error(errno.ENOENT, path)
            if number and flags & os.O_CREAT and flags & os.O_EXCL:
                raise _error(errno.EEXIST, path)
            if not number and not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            if not number:
                number, self._next_number = self._next_number, self._next_number + 1
                self._do(Create(path, number))
                self._times[number] = self._now()
            elif flags & os.O_TRUNC and self._platter.files[number].content:
                self._cut(path, number, 0)
        elif flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise _error(errno.EISDIR, path)
        fd, self._next_fd = self._next_fd, self._next_fd + 1
        self._opened[fd] = _Opened(number, path, flags)
        return fd

    def close(self, fd: int) -> None:
        """Close it; nothing is synced. What a kill has closed already is left alone."""
        opened = self._opened.pop(fd, None)
        if opened is not None and self._locks.get(opened.number or opened.path) == fd:
            del self._locks[opened.number or opened.path]

    def read(self, fd: int, length: int) -> bytes:
        """Read on."""
        opened = self._file(fd)
        self._attempt("read", opened.path, changes=False)
        content = self._platter.files[opened.number].content
        piece = bytes(content[opened.position : opened.position + length])
        opened.position += len(piece)
        return piece

    def lseek(self, fd: int, position: int, how: int) -> int:
        """Go to an offset from the beginning."""
        if how != os.SEEK_SET:
            raise _error(errno.EINVAL)
        self._file(fd).position = position
        return position

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write as much as fits."""
        opened = self._file(fd)
        self._attempt("write", opened.path)
        content = self._platter.files[opened.number].content
        offset = len(content) if opened.flags & os.O_APPEND else opened.position
        machine = self._machine(opened.path)
        room = self.free_bytes.get(machine)
        if room is not None:
            if not room:
                raise _error(errno.ENOSPC)
            data = data[: room + max(0, len(content) - offset)]
            self.free_bytes[machine] = room - max(0, offset + len(data) - len(content))
        if data:
            self._do(Write(opened.number, offset, bytes(data)))
            self._times[opened.number] = self._now()
        opened.position = offset + len(data)
        return len(data)

    def ftruncate(self, fd: int, length: int) -> None:
        """Cut a file."""
        opened = self._file(fd)
        self._attempt("ftruncate", opened.path)
        self._cut(opened.path, opened.number, length)

    def _cut(self, path: str, number: int, length: int) -> None:
        self._give_back(path, len(self._platter.files[number].content) - length)
        self._do(Cut(number, length))
        self._times[number] = self._now()

    def fsync(self, fd: int) -> None:
        """Sync a file, or the names of a folder."""
        opened = self._any(fd)
        if opened.number:
            self._sync("fsync", opened)
        else:
            self._attempt("fsync", opened.path)
            self._do(SyncFolder(opened.path))

    def fdatasync(self, fd: int) -> None:
        """Sync a file."""
        self._sync("fdatasync", self._file(fd))

    def _sync(self, call: str, opened: _Opened) -> None:
        ended = self.calls_left.get(self._machine(opened.path)) == 0
        try:
            self._attempt(call, opened.path)
        except OSError:
            if not ended:
                self._do(LostSync(opened.number))
            raise
        self._do(Sync(opened.number))

    def posix_fadvise(self, fd: int, offset: int, length: int, advice: int) -> None:
        """Drop a file from the cache: what a failed sync lost no longer shows."""
        if advice == os.POSIX_FADV_DONTNEED:
            self._do(Reread(self._file(fd).number))

    def fchmod(self, fd: int, mode: int) -> None:
        """Take note of nothing: every file is private here."""
        self._attempt("fchmod", self._file(fd).path, changes=False)

    def replace(self, source: str, target: str) -> None:
        """Rename a file over another."""
        self._attempt("replace", target)
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        number = self._platter.names.get(source)
        if not number or not self._is_folder(posixpath.dirname(target)):
            raise _error(errno.ENOENT, source)
        if self._is_folder(target):
            raise _error(errno.EISDIR, target)
        if self._machine(source) != self._machine(target):
            raise _error(errno.EXDEV, source)
        if source != target:
            self._freed(target)
            self._do(Rename(source, target, number))

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._attempt("unlink", path)
        path = posixpath.normpath(path)
        number = self._platter.names.get(path)
        if number is None:
            raise _error(errno.ENOENT, path)
        if number == FOLDER:
            raise _error(errno.EISDIR, path)
        self._freed(path)
        self._do(Remove(path, number))

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Make a folder in another."""
        self._attempt("mkdir", path)
        path = posixpath.normpath(path)
        if self._is_folder(path) or path in self._platter.names:
            raise _error(errno.EEXIST, path)
        if not self._is_folder(posixpath.dirname(path)):
            raise _error(errno.ENOENT, path)
        self._do(MakeFolder(path))

    def rmdir(self, path: str) -> None:
        """Remove a folder with nothing in it."""
        self._attempt("rmdir", path)
        path = posixpath.normpath(path)
        number = self._platter.names.get(path)
        if number is None:
            raise _error(errno.ENOENT, path)
        if number != FOLDER:
            raise _error(errno.ENOTDIR, path)
        if any(posixpath.dirname(name) == path for name in self._platter.names):
            raise _error(errno.ENOTEMPTY, path)
        self._do(RemoveFolder(path))

    def listdir(self, folder: str) -> list[str]:
        """Return the names in a folder, in no order."""
        self._attempt("listdir", folder, changes=False)
        folder = posixpath.normpath(folder)
        if not self._is_folder(folder):
            raise _error(errno.ENOENT, folder)
        names = (path.rpartition("/") for path in self._platter.names)
        inner = [name for head, _, name in names if head == folder.rstrip("/")]
        inner += [posixpath.basename(f) for f in self.folders if posixpath.dirname(f) == folder]
        return inner[::-1]

    def stat(self, path: str) -> os.stat_result:
        """Tell kind, number, length and time of a file or folder."""
        self._attempt("stat", path, changes=False)
        path = posixpath.normpath(path)
        if self._is_folder(path):
            return self._told(0)
        number = self._platter.names.get(path)
        if number is None:
            raise _error(errno.ENOENT, path)
        return self._told(number)

    def fstat(self, fd: int) -> os.stat_result:
        """Tell the same of an open one."""
        return self._told(self._any(fd).number)

    def _told(self, number: int) -> os.stat_result:
        mode = (stat.S_IFREG | 0o600) if number else (stat.S_IFDIR | 0o700)
        length = len(self._platter.files[number].content) if number else 4096
        changed = int(self._times.get(number, 0.0))
        return os.stat_result((mode, number, 1, 1, 0, 0, length, changed, changed, changed))

    def flock(self, fd: int, operation: int) -> None:
        """Take or give back the lock of a file, without waiting."""
        opened = self._any(fd)
        self._attempt("flock", opened.path, changes=False)
        key = opened.number or opened.path
        holder = self._locks.get(key)
        if operation & fcntl.LOCK_UN:
            if holder == fd:
                del self._locks[key]
        elif holder not in (None, fd):
            raise _error(errno.EWOULDBLOCK)
        else:
            self._locks[key] = fd

    def statvfs(self, path: str) -> Room:
        """Return how much room there is where a path is."""
        self._attempt("statvfs", path, changes=False)
        if not self._is_folder(posixpath.normpath(path)):
            raise _error(errno.ENOENT, path)
        left = self.free_bytes.get(self._machine(path))
        return Room(PLENTY if left is None else left)

    def urandom(self, length: int) -> bytes:
        """Return bytes that were not returned before, the same in every run."""
        self._names_made += 1
        return self._names_made.to_bytes(length, "big")

    # -- inside -------------------------------------------------------------------------------

    def _machine(self, path: str) -> str:
        """Return the folder of the machine that has a path, or the path itself."""
        return _machine_of(self.folders, path)

    def _is_folder(self, path: str) -> bool:
        return path in self.folders or self._platter.names.get(path) == FOLDER

    def _any(self, fd: int) -> _Opened:
        opened = self._opened.get(fd)
        if opened is None:
            raise _error(errno.EBADF)
        return opened

    def _file(self, fd: int) -> _Opened:
        opened = self._any(fd)
        if not opened.number:
            raise _error(errno.EISDIR)
        return opened

    def _do(self, step: Step) -> None:
        self._platter.apply(step)
        if self._recording:
            self.history.append(step)

    def _give_back(self, path: str, count: int) -> None:
        machine = self._machine(path)
        if machine in self.free_bytes:
            self.free_bytes[machine] += max(0, count)

    def _freed(self, path: str) -> None:
        number = self._platter.names.get(path)
        if number:
            self._give_back(path, len(self._platter.files[number].content))

    def _attempt(self, call: str, path: str, changes: bool = True) -> None:
        machine = self._machine(path)
        left = self.calls_left.get(machine)
        if left == 0:
            raise _error(errno.EIO)
        if changes:
            self.calls.append(call)
            if left is not None:
                self.calls_left[machine] = left - 1
        times, error = self._failing.get((machine, call), (0, 0))
        if times:
            self._failing[machine, call] = (times - 1, error)
            raise _error(error)


@attrs.frozen
class Room:
    """As much of ``os.statvfs_result`` as is asked for."""

    f_bavail: int
    f_frsize: int = 1


@attrs.frozen
class CrashState:
    """What one crash left.

    :ivar point: how many steps of the history had been made.
    :ivar label: what the crash did, for the message of a test that fails.
    :ivar killed: whether only the process ended: then nothing that it wrote is lost, and what was
        not synced may be lost to the next crash.
    :ivar marks: the values of the marks that were made before it.
    """

    point: int
    label: str
    killed: bool
    marks: tuple[object, ...]
    _folders: tuple[str, ...]
    _platter: Platter

    def contents(self) -> dict[str, bytes]:
        """Return what every file holds, by path."""
        return self._platter.shown()

    def disk(self, recording: bool = False) -> MemoryDisk:
        """Return a disk with what is left, and no faults."""
        disk = MemoryDisk(*self._folders, recording=recording)
        disk._install(self._platter.copy())
        return disk


def _error(code: int, path: str | None = None) -> OSError:
    return OSError(code, os.strerror(code), path) if path else OSError(code, os.strerror(code))


@functools.lru_cache(4_096)  # A test asks for the same few paths millions of times.
def _machine_of(folders: tuple[str, ...], path: str) -> str:
    path = posixpath.normpath(path)
    inside = [f for f in folders if path == f or path.startswith(f.rstrip("/") + "/")]
    return max(inside, key=len, default=path)
