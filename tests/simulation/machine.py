"""The disk of both machines, which tells when the world of one of them has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from omnigate import files
from omnigate.ledger import segments
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import Sync, SyncFolder


class Machine(MemoryDisk):
    """A disk that remembers whose process met its end in the middle of things.

    :ivar ended: the folders of machines on which nothing happens any more, oldest first.
    """

    def __init__(self, *folders: str) -> None:
        """Make a disk that keeps no history."""
        super().__init__(*folders, recording=False)
        self.ended: list[str] = []

    def _attempt(self, call: str, path: str, changes: bool = True) -> None:
        machine = self._machine(path)
        if self.calls_left.get(machine) == 0 and machine not in self.ended:
            self.ended.append(machine)
        super()._attempt(call, path, changes)

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

    @contextlib.contextmanager
    def standing_in(self) -> Iterator[None]:
        """Let everything that goes to the disk go to this one."""
        with contextlib.ExitStack() as undo:
            for module in (files, segments):
                for name in ("os", "fcntl"):
                    if hasattr(module, name):
                        undo.callback(setattr, module, name, getattr(module, name))
                        setattr(module, name, self)
            yield
