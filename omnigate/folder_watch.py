"""Folders watched by inotify: somebody is told at once when one of a few names in them changes.

Twisted has a door to inotify too, but its module takes the global reactor when it is imported, and
it closes itself when one of its folders is removed. What is needed here is smaller: a descriptor
that the reactor reads, and a table of folders that is replaced whole.

Watching is an aid and never the only way: events may be lost (the kernel's queue is bounded,
network file systems tell nothing), so whoever uses it also looks for himself now and then.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import attrs
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

# From <sys/inotify.h>; they are part of the kernel's interface and do not change.
MODIFY: Final = 0x2
_ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
_MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_DELETE_SELF: Final = 0x400
_MOVE_SELF: Final = 0x800
_UNMOUNT: Final = 0x2000
_IGNORED: Final = 0x8000
_ONLYDIR: Final = 0x01000000

_MASK: Final = (
    MODIFY
    | _ATTRIB
    | CLOSE_WRITE
    | _MOVED_FROM
    | MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLYDIR
)

#: The folder itself is gone, or is somewhere else.
_FOLDER_LEFT: Final = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED

_HEAD: Final = struct.Struct("=iIII")

#: A thousand events of short names; what does not fit is read in the next turn.
_READ_BYTES: Final = 32 * 1024

#: A path may go through 40 links before the kernel gives up, and each has a folder and its parent.
MAX_FOLDERS: Final = 100


@attrs.frozen
class FolderEvent:
    """One thing that happened: in which watch, what, and to which name; empty for the folder."""

    number: int
    mask: int
    name: bytes


def events_in(data: bytes) -> Iterator[FolderEvent]:
    """Yield the events of one read; the kernel never cuts one in two."""
    offset = 0
    while offset + _HEAD.size <= len(data):
        number, mask, _, length = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
        yield FolderEvent(number, mask, data[offset : offset + length].rstrip(b"\0"))
        offset += length


@attrs.define
class _Watched:
    """One folder: the kernel's number for it, which inode that was, and the names that matter."""

    number: int
    inode: tuple[int, int]
    names: frozenset[bytes]


class _Kernel:
    """The three calls, which Python has no door to."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        try:
            self._init = library.inotify_init1
            self._add = library.inotify_add_watch
            self._remove = library.inotify_rm_watch
        except AttributeError:
            raise OSError("this system has no inotify") from None

    def open(self) -> int:
        return self._judged(self._init(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, fd: int, folder: bytes) -> int:
        return self._judged(self._add(fd, folder, ctypes.c_uint32(_MASK)))

    def remove(self, fd: int, number: int) -> None:
        self._remove(fd, number)  # one that is gone already is what was wanted

    def _judged(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


@implementer(IReadDescriptor)
class FolderWatch:
    """Watches folders, none at first.

    :param changed: called when something happened to a name that matters: with True where its
        content was written and its writer may go on, with False where a writer has closed it or it
        was moved there whole, with None for anything else. It is called once for each event.
    :raises OSError: the system has no inotify, or no more of it for this user.
    """

    _log = Logger()

    def __init__(self, reactor: IReactorFDSet, changed: Callable[[bool | None], None]) -> None:
        self._reactor = reactor
        self._changed = changed
        self._kernel = _Kernel()
        self._fd = self._kernel.open()
        self._watched: dict[str, _Watched] = {}
        reactor.addReader(self)

    def watch(self, names: Mapping[str, Collection[str]]) -> None:
        """Watch these folders and no others from now on.

        :param names: by folder, the names in it that matter. A folder that is not there, or may not
            be read, is left out.
        """
        if self._fd < 0:
            return
        wanted = dict(list(names.items())[:MAX_FOLDERS])
        for folder in [folder for folder in self._watched if folder not in wanted]:
            self._forget(folder)
        for folder, inner in wanted.items():
            self._watch_one(folder, frozenset(os.fsencode(name) for name in inner))

    def _watch_one(self, folder: str, names: frozenset[bytes]) -> None:
        try:
            found = os.stat(folder)
            inode = (found.st_dev, found.st_ino)
            known = self._watched.get(folder)
            if known is not None and known.inode == inode:
                known.names = names
                return
            # Before the new one: both may have one number, if only the path has changed.
            self._forget(folder)
            number = self._kernel.add(self._fd, os.fsencode(folder))
        except (OSError, ValueError):
            self._forget(folder)
            return
        self._watched[folder] = _Watched(number, inode, names)

    def _forget(self, folder: str) -> None:
        known = self._watched.pop(folder, None)
        if known is None:
            return
        if all(other.number != known.number for other in self._watched.values()):
            self._kernel.remove(self._fd, known.number)

    def stop(self) -> None:
        """Watch no more; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._reactor.removeReader(self)
            self._watched.clear()
            os.close(fd)

    # What the reactor calls.

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def logPrefix(self) -> str:  # noqa: N802
        """Return what the reactor calls it in its log."""
        return "folder-watch"

    def doRead(self) -> None:
        """Take the events that are there."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        for event in events_in(data):
            if self._fd >= 0:
                self._take(event)

    def connectionLost(self, reason: Failure = Failure(ConnectionDone())) -> None:  # noqa: B008
        """Give up; whoever uses it looks for himself."""
        self.stop()

    def _take(self, event: FolderEvent) -> None:
        if event.number < 0:  # the queue ran over, and what was in it nobody knows
            self._changed(None)
            return
        matters = False
        for folder, known in list(self._watched.items()):
            if known.number != event.number:
                continue
            if event.mask & _FOLDER_LEFT:
                self._forget(folder)
                matters = True
            matters = matters or event.name in known.names
        if matters:
            self._changed(_writing(event.mask))


def _writing(mask: int) -> bool | None:
    if mask & MODIFY:
        return True
    return False if mask & (CLOSE_WRITE | MOVED_TO) else None
