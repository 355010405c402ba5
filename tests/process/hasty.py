"""Runs ``twistd`` with a ledger in haste on a slow disk: a kill comes in the middle of something.

The ledger seals and snapshots all the time, since its bounds are small here; and each write, sync
and rename takes a moment, as on a disk that is busy. Only figures are changed: what is done, and in
which order, is the product's own.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import time
from typing import Any

from omnigate import files

#: The bounds, by the module and the name of each; every module that has such a name gets it.
BOUNDS = {
    "omnigate.ledger.store.SEAL_BYTES": 24 * 1024,
    "omnigate.ledger.upkeep.SNAPSHOT_EVENTS": 30,
    "omnigate.ledger.upkeep.CHECK_SECONDS": 0.5,
}

#: How long a sync or a rename takes at most, in seconds; half of that in the mean.
SLOW_SECONDS = 0.004

#: The program of a child: everything behind it on the command line is twistd's.
PROGRAM = (
    "import sys; from tests.process import hasty; hasty.install(); "
    "from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
)


class SlowDisk:
    """Stands in for ``os`` before the files: the same, with a moment before and within a call."""

    def __init__(self) -> None:
        self._random = random.Random()

    def _wait(self) -> None:
        time.sleep(self._random.random() * SLOW_SECONDS)

    def write(self, fd: int, data: Any) -> int:
        """Write some of it only, as a disk may; whoever calls goes on with the rest."""
        length = len(data)
        if length > 1 and self._random.random() < 0.5:
            written = os.write(fd, memoryview(data)[: self._random.randrange(1, length)])
            self._wait()
            return written
        return os.write(fd, data)

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if name not in ("fsync", "fdatasync", "rename", "replace", "ftruncate", "unlink"):
            return call

        def slow(*arguments: Any, **options: Any) -> Any:
            self._wait()
            return call(*arguments, **options)

        return slow


def install() -> None:
    """Change the bounds and the disk of this process, before its daemon is made.

    :raises AttributeError: there is no such bound any more.
    """
    importlib.import_module("omnigate.ledger.service")
    for place, value in BOUNDS.items():
        home, _, name = place.rpartition(".")
        if not hasattr(importlib.import_module(home), name):
            raise AttributeError(f"there is no {place}")
        for module in [found for key, found in sys.modules.items() if key.startswith("omnigate.")]:
            if hasattr(module, name):
                setattr(module, name, value)
    vars(files)["os"] = SlowDisk()
