"""When the config file is to be read again, without being asked: a watch on its folders, and polls.

What counts is the file behind any symbolic link, so an editor that renames and a container platform
that swaps links are both seen. Folders are watched where the system can, and polled in any case. A
changed file is left alone until it has stood still for a moment and its writer has closed it, so
that one that is half written is not read: half of a good file is often a good file, with half of
the keys.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from omnigate.control.config_reading import FileStamp, stamp_of

#: A human saves a file and looks up: two seconds later it should be in force, even where nothing
#: can be watched.
POLL_SECONDS: Final = 2.0

#: An editor or a copy writes a small file in far less; two looks this far apart must agree.
SETTLE_SECONDS: Final = 0.15

#: A file that never stands still is left to the next poll after so many looks (three seconds).
MAX_SETTLE_LOOKS: Final = 20

#: For so many looks (thirty seconds) a file that stands still is left to a writer who has it open,
#: and one that is empty to whoever made it so: a slow program behind a shell's ``>``.
MAX_WRITER_LOOKS: Final = 200

#: Links on the way to a file; the kernel follows no more either.
MAX_LINKS: Final = 40


class Folders(Protocol):
    """A watch on folders, such as :class:`omnigate.folder_watch.FolderWatch`."""

    def watch(self, names: Mapping[str, Collection[str]]) -> None:
        """Watch these names in these folders and no others from now on."""

    def stop(self) -> None:
        """Watch no more."""


#: Makes a watch that calls back; ``OSError`` where the system has none.
MakeFolders = Callable[[Callable[[bool | None], None]], Folders]


class ConfigWatch:
    """Looks at one file until it is stopped.

    :param known: returns the stamp of the file as it was read last; None asks for another reading.
    :param read: reads it; fires when that is done, and never fails.
    :param make_folders: makes the watch on folders; None where there is to be none.
    """

    _log = Logger()

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        known: Callable[[], FileStamp | None],
        read: Callable[[], Deferred[None]],
        make_folders: MakeFolders | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._known = known
        self._read = read
        self._make_folders = make_folders
        self._folders: Folders | None = None
        self._timer: IDelayedCall | None = None
        self._running = False
        self._settling = False
        self._reading = False
        self._writing = False

    def start(self) -> None:
        """Look from now on, now and then and whenever something happens in the folders."""
        if self._running:
            return
        self._running = True
        if self._make_folders is not None:
            try:
                self._folders = self._make_folders(self._touched)
            except OSError as error:
                self._log.warn(
                    "{path}: its folder cannot be watched ({reason}); the file is looked at every "
                    "{seconds:.0f} s",
                    path=self._path,
                    reason=error.strerror or str(error),
                    seconds=POLL_SECONDS,
                )
        self._watch_folders()
        # What happened since it was read at the start is found at once, not after a poll.
        self._look_soon()

    def stop(self) -> None:
        """Look no more."""
        self._running = False
        folders, self._folders = self._folders, None
        if folders is not None:
            folders.stop()
        self._set_timer(None)

    def _set_timer(self, seconds: float | None, call: Callable[..., None] | None = None) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        if seconds is not None and call is not None and self._running:
            self._timer = self._clock.callLater(seconds, call)

    def _watch_folders(self) -> None:
        if self._folders is not None:
            self._folders.watch(names_on_the_way(self._path))

    def _touched(self, writing: bool | None) -> None:
        """Note that something happened to the file, or to a link or folder on the way to it."""
        if writing is not None:
            self._writing = writing
        self._look_soon()

    def _look_soon(self) -> None:
        """Look whether it has changed, unless that is being done already."""
        if not self._running or self._settling or self._reading:
            return
        self._watch_folders()
        stamp = stamp_of(self._path)
        if stamp == self._known():
            self._set_timer(POLL_SECONDS, self._look_soon)
        else:
            self._settling = True
            self._settle(stamp, 1, 1)

    def _settle(self, stamp: FileStamp | None, moves: int, waits: int) -> None:
        self._set_timer(SETTLE_SECONDS, lambda: self._look_again(stamp, moves, waits))

    def _look_again(self, before: FileStamp | None, moves: int, waits: int) -> None:
        """Have a file read that looks as it did a moment ago, or wait on.

        :param moves: how often it was looked at while it changed.
        :param waits: how often while somebody was writing it.
        """
        self._watch_folders()
        stamp = stamp_of(self._path)
        moving = stamp != before
        unfinished = stamp is not None and (self._writing or stamp.empty)
        if unfinished and waits < MAX_WRITER_LOOKS:
            self._settle(stamp, moves, waits + 1)
            return
        if moving and moves < MAX_SETTLE_LOOKS:
            self._settle(stamp, moves + 1, waits)
            return
        self._settling = False
        if moving or stamp == self._known():
            self._set_timer(POLL_SECONDS, self._look_soon)
            return
        self._writing = False
        self._reading = True
        self._read().addCallback(lambda _: self._was_read())

    def _was_read(self) -> None:
        self._reading = False
        # Whatever changed while it was read has told nobody.
        if self._known() is None:
            self._set_timer(POLL_SECONDS, self._look_soon)
        else:
            self._look_soon()


def names_on_the_way(path: str) -> dict[str, set[str]]:
    """Return, by folder, the names that decide what stands at a path, the links' targets included.

    For each name that is a link, and for the file at the end, there are its folder and, in the
    folder above it, that folder's own name. Folders are told by their real paths.
    """
    names: dict[str, set[str]] = {}
    parts = os.path.abspath(path).split("/")[1:]
    real, links = "/", 0
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            real = os.path.dirname(real)
            continue
        link = _link_at(os.path.join(real, part))
        if link is not None or not parts:
            names.setdefault(real, set()).add(part)
            if real != "/":
                above, name = os.path.split(real)
                names.setdefault(above, set()).add(name)
        if link is None:
            real = os.path.join(real, part)
            continue
        links += 1
        if links > MAX_LINKS:
            break
        if link.startswith("/"):
            real = "/"
        parts = link.split("/") + parts
    return names


def _link_at(path: str) -> str | None:
    """Return where a link leads; None for anything else."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None
