"""Runs ``twistd`` with a reactor that tells how long its turns were: from one poll to the next.

A turn is everything between two waits for events: reads, answers, timers, and what other threads
hand over. In :class:`Turns` the longest stands in three measures, in a file that whoever
started the process has mapped too, and may set back to nothing at any time.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import threading
import time
from pathlib import Path
from typing import Any

import attrs

_FIGURES = struct.Struct("=5Q")

#: A turn of at least this many nanoseconds is counted as long.
LONG_NS = 20_000_000

#: The program of a child: everything behind it on the command line is twistd's.
PROGRAM = (
    "import sys; from bench.ledger import turns; turns.install({path!r}); "
    "from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
)


@attrs.frozen
class Longest:
    """The longest turns since the figures were set back, in milliseconds.

    :ivar held: the time from poll to poll without the time that the thread could have run and
        another process had its core. Time in which another thread of the process held the
        interpreter is in it.
    :ivar wall: the same with it.
    :ivar cpu: the processor time of the reactor's thread.
    :ivar turns: how many there were; ``long`` of them were held for 20 ms or more.
    """

    held: float
    wall: float
    cpu: float
    turns: int
    long: int


class Turns:
    """The figures, in a file of their own."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_FIGURES.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FIGURES.size)

    def forget(self) -> None:
        """Begin anew."""
        self._map[:] = bytes(_FIGURES.size)

    def longest(self) -> Longest:
        """What there was since."""
        held, wall, cpu, turns, long = _FIGURES.unpack(self._map[:])
        return Longest(held / 1e6, wall / 1e6, cpu / 1e6, turns, long)

    def add(self, held: int, wall: int, cpu: int) -> None:
        """Enter one turn, in nanoseconds."""
        most = _FIGURES.unpack(self._map[:])
        _FIGURES.pack_into(
            self._map,
            0,
            max(most[0], held),
            max(most[1], wall),
            max(most[2], cpu),
            most[3] + 1,
            most[4] + (held >= LONG_NS),
        )


class TimedPoll:
    """Stands before an epoll object and takes the time between its polls."""

    def __init__(self, poll: Any, turns: Turns) -> None:
        self._poll = poll
        self._turns = turns
        self._waited: int | None = None
        self._began = (0, 0, 0)

    def poll(self, *arguments: Any) -> list[tuple[int, int]]:
        """Wait for events; the turn that ends here is entered first."""
        if self._waited is None:
            # Opened here, in the thread that polls: daemons may fork before.
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self._waited = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        else:
            wall, cpu, waited = (
                now - then for now, then in zip(self._now(), self._began, strict=True)
            )
            self._turns.add(max(0, wall - waited), wall, cpu)
        try:
            events: list[tuple[int, int]] = self._poll.poll(*arguments)
            return events
        finally:
            self._began = self._now()

    def _now(self) -> tuple[int, int, int]:
        """Time, processor time, and the time that the thread waited for a core."""
        assert self._waited is not None
        waited = int(os.pread(self._waited, 100, 0).split()[1])
        return time.perf_counter_ns(), time.thread_time_ns(), waited

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)


def install(path: str) -> None:
    """Let the reactor that is installed after this be one with a timed poll."""
    from twisted.internet import epollreactor

    turns = Turns(Path(path))

    def timed(*arguments: Any) -> TimedPoll:
        return TimedPoll(select.epoll(*arguments), turns)

    epollreactor.epoll = timed
