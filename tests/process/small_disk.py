"""A small disk of its own for a daemon: a ``tmpfs`` that can be filled up, without being root.

It is mounted in a mount namespace of a user namespace, which Linux lets everybody make where an
administrator has not forbidden it. A process that only sleeps holds it; daemons enter it.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from twisted.trial.unittest import SkipTest

from tests.process.daemons import SECONDS

_PIECE = 64 * 1024

_HOLD = 'mount -t tmpfs -o "size=$1,mode=700" tmpfs "$2" && echo mounted && exec sleep 3600'


class SmallDisk:
    """A disk of so many bytes, at a path that only those see who enter it.

    :param path: a folder that is there.
    :raises SkipTest: the system does not let us.
    """

    def __init__(self, path: Path, size: int) -> None:
        if not sys.platform.startswith("linux") or not all(map(shutil.which, _PROGRAMS)):
            raise SkipTest("a disk of one's own needs Linux with unshare and nsenter")
        namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
        self._holder = subprocess.Popen(
            [*namespaces, "sh", "-c", _HOLD, "sh", str(size), str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"mounted\n":
            self.close()
            raise SkipTest("this system lets nobody mount a disk of one's own")
        #: Where it is seen from outside.
        self.path = Path(f"/proc/{self._holder.pid}/root{path}")
        self._ballast = self.path / "ballast"

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that runs another one where the disk is."""
        place = ["--target", str(self._holder.pid), "--user", "--mount", "--preserve-credentials"]
        return ["nsenter", *place, *command]

    def fill(self) -> None:
        """Leave not a byte."""
        fd = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            piece = _PIECE
            while piece:
                try:
                    os.write(fd, bytes(piece))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2
        finally:
            os.close(fd)

    def clear(self) -> None:
        """Give back what :meth:`fill` took."""
        self._ballast.unlink()

    def close(self) -> None:
        """Let it go, with all that is on it."""
        self._holder.kill()
        self._holder.wait(SECONDS)
        if self._holder.stdout is not None:
            self._holder.stdout.close()


_PROGRAMS = ("unshare", "nsenter", "sh", "mount", "sleep")
