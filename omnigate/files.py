"""The one way to write to the disk: append, replace, cut, and read back what a crash left.

What is assumed of the disk, and nothing more: a write may be torn anywhere; what was not synced
may be lost or half there after a crash; a rename within one folder is there whole or not at all,
and for good only once the folder is synced; a sync that failed has lost what it was for.

* Records are lines. A line is there when its line end is: a *torn* tail is what a crash leaves,
  and is cut off before anything is appended (:func:`read_lines`, :meth:`AppendFile.cut`).
* A file is replaced by building it under a temporary name, syncing it, renaming it and syncing
  the folder (:func:`replace_file`). Leftovers are removed at a start (:func:`sweep_temporaries`).
* A file that comes in pieces is built under a name of its own, synced, and then moved to where it
  is to stand, both folders synced (:class:`NewFile`, :func:`move_file`). Until then a crash may
  leave it at either place, at both or at none; whoever keeps such files sweeps at a start.
* A sync may take milliseconds or, on a sick disk, seconds. It is never done on the reactor's
  thread: each store hands its work to one :class:`~omnigate.writer_thread.WriterThread`.
* Everything here goes through the names ``os`` and ``fcntl`` of this module, so that a test can put
  another disk in the place of both.
"""

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator

# Nobody but the daemon reads its state: spools and ledgers say who used what.
PRIVATE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700

TEMPORARY_SUFFIX = ".tmp"

# Files that are written in pieces are synced each time after so many bytes, so that no sync holds
# back others that wait for the same thread for long: a disk of 100 MB/s takes a third of a second.
SYNC_BYTES = 32 * 1024 * 1024

# How much of a file is read at a time: large enough that calls do not matter, small enough that a
# thousand of them run one after the other without weight.
READ_BYTES = 256 * 1024


class _Spent(threading.local):
    """How long this thread has waited for syncs, in seconds, since it was last asked."""

    seconds = 0.0


_spent = _Spent()


def take_sync_seconds() -> float:
    """Return how long this thread has waited for syncs since it last asked."""
    seconds, _spent.seconds = _spent.seconds, 0.0
    return seconds


class AppendFile:
    """A file of lines that grows at its end, by one writer.

    An append is there whole or not at all, as far as the running process can see to it: where
    the disk fills up in the middle, what was written of it is cut off again. What the disk makes
    of it in a crash is up to :meth:`sync`.

    :ivar path: where it is.
    :ivar size: its length in bytes, torn or refused pieces not counted.
    """

    def __init__(self, path: str) -> None:
        """Open or create the file; a new one is synced into its folder.

        :raises OSError: it cannot be opened.
        """
        self.path = path
        existed = file_size(path) is not None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, PRIVATE_MODE)
        try:
            self.size = os.fstat(self._fd).st_size
            if not existed:
                sync_directory(os.path.dirname(path) or ".")
        except BaseException:
            os.close(self._fd)
            raise
        self._synced_size = self.size
        self._damaged = False

    def append(self, lines: bytes) -> None:
        """Write ``lines``, which end with a line end, behind everything else.

        :raises OSError: they could not be written, and are not there; the file can be used on.
        """
        self._mend()
        try:
            _write_all(self._fd, lines)
        except OSError:
            self._damaged = True
            # The first error is the one to tell; the cut is tried again before the next append.
            with contextlib.suppress(OSError):
                self._mend()
            raise
        self.size += len(lines)

    def sync(self) -> None:
        """Make what was appended survive a crash; blocks while the disk works.

        :raises OSError: the disk refused. All that was appended since the last sync is cut off,
            since nobody can tell what of it is there.
        """
        self._mend()
        size = self.size
        try:
            _sync(self._fd, os.fdatasync)
        except OSError:
            self.size = self._synced_size
            self._damaged = True
            with contextlib.suppress(OSError):
                self._mend()
            raise
        self._synced_size = size

    def cut(self, size: int) -> None:
        """Shorten the file to ``size`` bytes, at most its length; not synced.

        :raises OSError: it could not be cut.
        """
        if size > self.size:
            raise ValueError(f"{self.path} has {self.size} bytes; it cannot be cut to {size}")
        os.ftruncate(self._fd, size)
        self.size = size
        self._synced_size = min(self._synced_size, size)
        self._damaged = False

    def is_at(self, path: str) -> bool:
        """Whether this file still stands at ``path``, no shorter than what was written."""
        try:
            own = _standing_at(self._fd, path)
        except OSError:
            return False
        return own is not None and own.st_size >= self.size

    def was_added_to(self) -> bool:
        """Whether somebody else has written behind what stands here; blocks for a look at it."""
        return not self._damaged and os.fstat(self._fd).st_size > self.size

    def close(self) -> None:
        """Close the file; nothing is synced. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _mend(self) -> None:
        """Cut off what a failed write or sync may have left."""
        if self._damaged:
            os.ftruncate(self._fd, self.size)
            self._damaged = False


class NewFile:
    """A file that nobody knows yet, written in pieces from its beginning to its end.

    :ivar path: where it is.
    :ivar size: its length in bytes by now.
    """

    def __init__(self, path: str) -> None:
        """Make the file; its name is not synced.

        :raises OSError: it cannot be made; EEXIST where there is one.
        """
        self.path = path
        self.size = 0
        self._synced_size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(path, flags, PRIVATE_MODE)

    def write(self, data: bytes | memoryview) -> None:
        """Write ``data`` behind everything else; every :data:`SYNC_BYTES` that blocks for a sync.

        :raises OSError: it could not be written; the file is of no use any more.
        """
        _write_all(self._fd, data)
        self.size += len(data)
        if self.size - self._synced_size >= SYNC_BYTES:
            self.sync()

    def sync(self) -> None:
        """Make the content survive a crash; the name is the folder's matter.

        :raises OSError: the disk refused; the file is of no use any more.
        """
        _sync(self._fd, os.fdatasync)
        self._synced_size = self.size

    def close(self) -> None:
        """Close the file; nothing is synced. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def discard(self) -> None:
        """Close and remove it; what cannot be removed only takes room."""
        self.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def append_file(path: str, lines: bytes) -> None:
    """Append ``lines`` to a file that is not held open, and sync it.

    :raises OSError: they could not be written, or not synced.
    """
    file = AppendFile(path)
    try:
        file.append(lines)
        file.sync()
    finally:
        file.close()


def write_file(path: str, data: bytes) -> None:
    """Make a file of its own with that content, and sync it; what stands there is overwritten.

    Its name is there for good once the folder is synced, which is left to the caller, who may make
    many.

    :raises OSError: it could not be written; a part of it may be left.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        _write_all(fd, data)
        _sync(fd, os.fsync)
    finally:
        os.close(fd)


def replace_file(
    path: str,
    data: bytes | Iterable[bytes],
    *,
    temporary: str | None = None,
    spare: str | None = None,
) -> None:
    """Put ``data`` in the place of a file's content, whole or not at all; blocks for two syncs.

    :param data: the content, or pieces of it one after the other.
    :param temporary: the name to build it under, for a file of one process only; else a name of
        its own for each call, since two processes may keep the same file.
    :param spare: where the old file goes, in the place of what stands there; else it is gone. A
        power loss may leave the old one there and nothing at ``path``.
    :raises OSError: it could not be done; the old file is untouched, and no temporary one left.
        Only where the sync of the folder was refused, the new file stands there all the same, and
        a power loss may bring the old one back.
    """
    fd, temporary = _open_temporary(path, temporary)
    try:
        try:
            os.fchmod(fd, PRIVATE_MODE)
            for piece in (data,) if isinstance(data, bytes) else data:
                _write_all(fd, piece)
            _sync(fd, os.fsync)
        finally:
            os.close(fd)
        if spare is None:
            os.replace(temporary, path)
        else:
            _replace_and_spare(temporary, path, spare)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(os.path.dirname(path) or ".")


def _open_temporary(path: str, temporary: str | None) -> tuple[int, str]:
    """Make the file that takes the place of the one at ``path``, and return its descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    if temporary is not None:
        return os.open(temporary, flags | os.O_TRUNC, PRIVATE_MODE), temporary
    while True:
        temporary = f"{path}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
        with contextlib.suppress(FileExistsError):
            return os.open(temporary, flags | os.O_EXCL, PRIVATE_MODE), temporary


def _replace_and_spare(temporary: str, path: str, spare: str) -> None:
    """Move the file at ``path`` to ``spare``, if there is one, and the new one to its place."""
    try:
        os.replace(path, spare)
    except FileNotFoundError:
        os.replace(temporary, path)
        return
    try:
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.replace(spare, path)
        raise


def _write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data``; mostly that is one call."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _sync(fd: int, call: Callable[[int], None]) -> None:
    """Sync by that call, and take note of how long it took."""
    began = time.monotonic()
    try:
        call(fd)
    finally:
        _spent.seconds += time.monotonic() - began


def rename_file(source: str, target: str, *, sync: bool = True) -> None:
    """Rename a file within its folder, over another if one is there, and sync the folder.

    :param sync: False leaves the sync to the caller.
    :raises OSError: it was not renamed; or it was, and the folder could not be synced.
    """
    os.replace(source, target)
    if sync:
        sync_directory(os.path.dirname(target) or ".")


def move_file(source: str, target: str) -> None:
    """Rename a file into another folder of the same file system, and sync both.

    The folder where it is to stand is synced first, so that no moment of the two leaves it nowhere.

    :raises OSError: it was not moved; or it was, and a folder could not be synced.
    """
    os.replace(source, target)
    sync_directory(os.path.dirname(target) or ".")
    sync_directory(os.path.dirname(source) or ".")


def make_folder(path: str, *, sync: bool = True) -> bool:
    """Make a folder for this daemon alone, and sync its name into the folder it stands in.

    :param sync: False for one that a crash may take.
    :returns: whether it was made; False where there is one.
    :raises OSError: it could not be made, or there is a file of that name.
    """
    try:
        os.mkdir(path, PRIVATE_FOLDER_MODE)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise
        return False
    if sync:
        sync_directory(os.path.dirname(path) or ".")
    return True


def remove_folder(path: str) -> bool:
    """Remove a folder and the files in it, which has no folders; nothing is synced.

    :returns: whether it was there.
    :raises OSError: something could not be removed.
    """
    for name in list_names(path):
        remove_file(os.path.join(path, name))
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return False
    return True


def remove_empty_folder(path: str) -> bool:
    """Remove a folder if nothing is in it; nothing is synced.

    :returns: whether it was removed.
    :raises OSError: it could not be.
    """
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def remove_file(path: str) -> bool:
    """Remove a file; its folder is not synced, so a power loss may bring it back.

    :returns: whether it was there.
    :raises OSError: it could not be removed.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def lock_file(path: str) -> int:
    """Take a file for this process alone, until it is closed or the process ends.

    :returns: the descriptor that holds the lock, for :func:`close_file`. The file is made if it
        was not there; its name is not synced. A file system without locks lets everybody have it.
    :raises OSError: EBUSY where another process has it; any other where it cannot be opened.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        try:
            _take(fd)
            # Whoever had it may have removed it just now, and the next one would not see ours.
            if _standing_at(fd, path) is not None:
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _take(fd: int) -> None:
    """Lock an open file."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise OSError(
                errno.EBUSY, "another process, such as a second control plane, has it open"
            ) from None
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def _standing_at(fd: int, path: str) -> os.stat_result | None:
    """Return what is known of an open file, or None if another or none stands at ``path``."""
    own = os.fstat(fd)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return None
    return own if os.path.samestat(there, own) else None


def settle_file(path: str) -> None:
    """See to it that what is read from a file from now on is what the disk has of it.

    A process that was killed may have left bytes that were never synced: they are synced now, so
    that they cannot vanish once they were read. And where a sync failed, Linux keeps the bytes that
    it could not write in its cache, and takes them for written; those are dropped from it.

    :raises OSError: the disk refused, or there is no such file.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _sync(fd, os.fdatasync)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def close_file(fd: int) -> None:
    """Close what :func:`lock_file` returned, and let others have it."""
    os.close(fd)


def list_names(folder: str) -> list[str]:
    """Return the names in a folder, sorted; a folder that is not there has none."""
    try:
        return sorted(os.listdir(folder or "."))
    except FileNotFoundError:
        return []


def names_in(folder: str) -> list[str]:
    """Return the names in a folder, in no order: to sort 300,000 would hold up other threads.

    A folder that is not there has none.
    """
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def free_bytes(folder: str) -> int:
    """Return for how many bytes there is room on a folder's disk, as far as this user may take it.

    :raises OSError: the folder is not there.
    """
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def file_size(path: str) -> int | None:
    """Return the length of a file in bytes, or None if no regular file is there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def sync_directory(path: str) -> None:
    """Make names that were made, renamed or removed in a folder survive a crash.

    :raises OSError: the disk refused.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(fd, os.fsync)
    except OSError as error:
        # Some network and overlay file systems have no such call; they promise nothing anyway.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)


def sweep_temporaries(folder: str, name: str) -> list[str]:
    """Remove what broken-off replacements of the file ``name`` left in ``folder``.

    :returns: the names removed. A folder that is not there has none.
    """
    removed = []
    for entry in list_names(folder):
        leftover = entry.startswith(name + ".") and entry.endswith(TEMPORARY_SUFFIX)
        if leftover and remove_file(os.path.join(folder, entry)):
            removed.append(entry)
    return removed


def remove_leftovers(path: str) -> None:
    """Sweep for one file, by its one writer; what cannot be removed only takes room."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        sweep_temporaries(folder or ".", name)


def read_file(path: str, max_bytes: int) -> bytes | None:
    """Return what a file holds, or None if it is not there.

    :raises OSError: it cannot be read; EFBIG where it is longer than ``max_bytes``.
    """
    pieces, length = [], 0
    try:
        for piece in read_pieces(path, 0, max_bytes + 1):
            pieces.append(piece)
            length += len(piece)
    except FileNotFoundError:
        return None
    if length > max_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {max_bytes} bytes", path)
    return b"".join(pieces)


def read_pieces(path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Read a file in pieces of :data:`READ_BYTES`, the last one shorter.

    :param end: the offset to stop before; None for the end of the file, which comes earlier if the
        file is shorter.
    :raises OSError: it cannot be read, or is not there; when the first piece is asked for. It names
        the file.
    """
    # Without O_NONBLOCK the opening of a named pipe would wait for somebody to write there.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if start:
            os.lseek(fd, start, os.SEEK_SET)
        while piece := os.read(fd, READ_BYTES if end is None else min(READ_BYTES, end - start)):
            start += len(piece)
            yield piece
    except OSError as error:
        error.filename = error.filename or path
        raise
    finally:
        os.close(fd)


def read_lines(
    path: str, max_line: int, start: int = 0
) -> Iterator[tuple[int, bytes | None, bool]]:
    """Read a file line by line, in pieces, whatever is in it.

    :param max_line: the longest line that is handed out, in bytes without its end; what is held
        at a time is this and one piece.
    :param start: the offset to begin at, where a line begins.
    :returns: for each line its offset, its bytes without the line end, and whether that end is
        there; the last one may lack it. For a line that is too long, ``None`` stands in the place
        of its bytes. A file that is not there has no lines.
    """
    offset, held, too_long = start, b"", False
    # Counts what was dropped of a line that is too long.
    dropped = 0
    with contextlib.suppress(FileNotFoundError):
        for piece in read_pieces(path, start):
            *whole, rest = piece.split(b"\n")
            for end in whole:
                line = held + end if held else end
                length = dropped + len(line)
                yield offset, None if too_long or length > max_line else line, True
                offset += length + 1
                held, too_long, dropped = b"", False, 0
            if too_long or len(held) + len(rest) > max_line:
                dropped += len(held) + len(rest)
                held, too_long = b"", True
            else:
                held += rest
        if held or too_long:
            yield offset, None if too_long else held, False
