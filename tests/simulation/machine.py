"""The disk of both machines, which tells when the world of one of them has ended."""

from __future__ import annotations

import fcntl
import gc
import os
from itertools import count
from typing import ClassVar

from omnigate import files
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import Sync, SyncFolder


class Machine(MemoryDisk):
    """A disk that remembers whose process met its end in the middle of things.

    :ivar ended: the folders of machines on which nothing happens any more, oldest first.
    :ivar removed: what was in the files that are removed, by path.
    """

    #: Descriptors of each disk are its own, for the same reason as in :func:`real_disk`.
    _first_fds: ClassVar[count[int]] = count(100_000, 100_000)

    def __init__(self, *folders: str) -> None:
        """Make a disk that keeps no history."""
        self._machines: dict[str, str] = {}
        super().__init__(*folders, recording=False)
        self._next_fd = next(self._first_fds)
        self.ended: list[str] = []
        self.removed: dict[str, bytes] = {}

    def _machine(self, path: str) -> str:
        """The folder of the machine that has a path; asked at every call, so it is remembered."""
        machine = self._machines.get(path)
        if machine is None:
            machine = self._machines[path] = super()._machine(path)
        return machine

    def _attempt(self, call: str, path: str, changes: bool = True) -> None:
        machine = self._machine(path)
        if self.calls_left.get(machine) == 0 and machine not in self.ended:
            self.ended.append(machine)
        super()._attempt(call, path, changes)

    def unlink(self, path: str) -> None:
        """Remove a file, and remember it."""
        content = self.shown(path)
        super().unlink(path)
        self.removed[path] = content

    def kill(self, folder: str | None = None) -> None:
        """Kill a process; a full disk stays full for the next one."""
        free = self.free_bytes.copy()
        super().kill(folder)
        self.free_bytes = free

    def write_back(self) -> None:
        """Let so much time pass that everything has reached the disks."""
        for number in list(self._platter.files):
            self._do(Sync(number))
        for folder in self.folders:
            self._do(SyncFolder(folder))

    def shown(self, path: str) -> bytes:
        """What a process sees of a file; nothing where there is none."""
        number = self._platter.names.get(path)
        return b"" if number is None else bytes(self._platter.files[number].content)

    def durable(self, path: str) -> bytes:
        """What a power loss leaves of a file for certain."""
        number = self._platter._durable_names.get(path)
        return b"" if number is None else self._platter.files[number].durable

    def paths(self, folder: str) -> list[str]:
        """The files of a machine."""
        return sorted(path for path in self._platter.names if path.startswith(folder + "/"))

    def stand_in(self) -> None:
        """Let everything that goes to the disk go to this one, until :func:`real_disk`."""
        files.os = files.fcntl = self  # type: ignore[assignment, attr-defined]


def real_disk() -> None:
    """Let the real disk take over again.

    Planes that were killed may be in the midst of reading a file; when they are collected they
    close it, which must not come to a real file's number.
    """
    gc.collect()
    files.os, files.fcntl = os, fcntl  # type: ignore[attr-defined]
