"""Runs ``twistd`` and tells at its end how long each turn of its reactor took, and what it synced.

A turn is all that the loop does between two waits: timers that are due, what threads have handed
over, and the events of one poll. Processor time of the thread is measured, so that other load on
the machine does little to it; a second figure is what one timer took, or one read.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from omnigate import files
from omnigate.protocols.lean_reactor import LeanReactor

#: The variable that names the file of the figures.
FIGURES: Final = "BENCH_FIGURES"

#: The program of a child: everything behind it on the command line is twistd's.
PROGRAM: Final = (
    "import sys; from bench import watched_turns; watched_turns.install(); "
    "from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
)

#: A turn that takes longer is one of those that may be told.
NOTED_SECONDS: Final = 0.002

#: Turns that are told one by one, the longest.
TOLD: Final = 20


class Turns:
    """What is measured."""

    def __init__(self) -> None:
        self.began = 0.0
        self.turns = 0
        self.longest: list[tuple[float, dict[str, float]]] = []
        self.parts: dict[str, float] = {}
        self.calls: dict[str, list[float]] = {}
        self.syncs = 0

    def begin(self) -> None:
        """A turn begins."""
        self.began = time.thread_time()
        self.parts = {}

    def end(self) -> None:
        """It ends."""
        took = time.thread_time() - self.began
        self.turns += 1
        if took > NOTED_SECONDS:
            self.longest.append((took, self.parts))
            if len(self.longest) > 100 * TOLD:
                self.longest = self.sorted()

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that is measured by itself."""
        name = f"{getattr(call, '__module__', '')}.{getattr(call, '__qualname__', repr(call))}"

        def measured(*arguments: Any, **options: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*arguments, **options)
            finally:
                took = time.thread_time() - began
                self.parts[name] = self.parts.get(name, 0.0) + took
                row = self.calls.setdefault(name, [0, 0.0, 0.0])
                row[0] += 1
                row[1] += took
                row[2] = max(row[2], took)

        return measured

    def sorted(self) -> list[tuple[float, dict[str, float]]]:
        """Return the longest turns, with what was done in them."""
        return sorted(self.longest, key=lambda turn: -turn[0])[:TOLD]

    def tell(self) -> None:
        """Write the figures down."""
        longest = self.sorted()
        calls = sorted(self.calls.items(), key=lambda item: -item[1][2])[:TOLD]
        told = {
            "turns": self.turns,
            "longest_ms": [round(took * 1000, 2) for took, _ in longest],
            "longest": {
                name: took * 1000 for name, took in (longest[0][1] if longest else {}).items()
            },
            "calls": {
                name: {"count": row[0], "sum_ms": row[1] * 1000, "longest_ms": row[2] * 1000}
                for name, row in calls
            },
            "syncs": self.syncs,
        }
        Path(os.environ[FIGURES]).write_text(json.dumps(told), encoding="utf-8")


class _Counting:
    """Stands in for ``os`` before the files: the same, and syncs are counted."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def fsync(self, fd: int) -> None:
        """Sync a file."""
        self._turns.syncs += 1
        os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """Sync what a file holds."""
        self._turns.syncs += 1
        os.fdatasync(fd)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def install() -> None:
    """Measure this process, before its daemon is made."""
    turns = Turns()
    vars(files)["os"] = _Counting(turns)
    reactor: Any = LeanReactor
    run, poll, later, hand_over = (
        reactor.runUntilCurrent,
        reactor.doPoll,
        reactor.callLater,
        reactor.callFromThread,
    )

    def runs(self: Any) -> None:
        turns.begin()
        run(self)

    def polls(self: Any, timeout: float | None) -> None:
        turns.timed(poll)(self, timeout)
        turns.end()

    def call_later(self: Any, delay: float, call: Any, *arguments: Any, **options: Any) -> Any:
        return later(self, delay, turns.timed(call), *arguments, **options)

    def call_from_thread(self: Any, call: Any, *arguments: Any, **options: Any) -> None:
        hand_over(self, turns.timed(call), *arguments, **options)

    reactor.runUntilCurrent = runs
    reactor.doPoll = reactor.doIteration = polls
    reactor.callLater, reactor.callFromThread = call_later, call_from_thread
    atexit.register(turns.tell)
