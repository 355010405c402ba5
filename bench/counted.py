"""Instructions for each exchange in memory, counted by valgrind: the measure that does not drift.

An instruction is no time: it says nothing of caches and of branches guessed wrong. But it is the
same on a busy machine and on an idle one, to a part in a thousand, so a small loss shows.

``python -m bench.counted`` is what runs under valgrind. It makes a gateway ready once, then forks
for every figure: twice, to do few exchanges and many, so that all that came before drops out of
the difference. Valgrind counts for each process by itself, and tells at its end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from bench.in_memory import Course, MemoryGateway, courses

#: Exchanges of a unit's course in the two children, at the least; more for cheap units.
FEW: Final = 4
#: Units that the difference is meant to hold.
UNITS: Final = 200
#: It takes half a minute where nothing else runs.
SECONDS: Final = 240.0

_COUNT = re.compile(r"^==([0-9]+)== I +refs: +([0-9,]+)", re.MULTILINE)
_CHILD = re.compile(r"^child ([a-z0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)$", re.MULTILINE)


class CountError(Exception):
    """Instructions could not be counted; the text says why."""


def available() -> bool:
    """Return whether there is a valgrind on the path."""
    return shutil.which("valgrind") is not None


def count(environ: Mapping[str, str]) -> dict[str, float]:
    """Return the instructions for one unit of each course.

    :param environ: in which this package is found.
    :raises CountError: when valgrind does not tell
    """
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
    command += ["--cachegrind-out-file=/dev/null", sys.executable, "-m", "bench.counted"]
    # One order of sets and dicts, and so the same work each time.
    seeded = {**environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            command, env=seeded, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CountError(f"valgrind did not run: {error}") from None
    if done.returncode:
        raise CountError(f"valgrind ended with {done.returncode}: {done.stderr[-500:]}")
    return read_counts(done.stdout, done.stderr)


def read_counts(told: str, counted: str) -> dict[str, float]:
    """Return the instructions for one unit out of what both have said.

    :param told: by the program: ``child NAME PID EXCHANGES UNITS`` for each child, few first.
    :param counted: by valgrind: a line with the number of each process.
    :raises CountError: a figure is missing
    """
    numbers = {int(pid): int(text.replace(",", "")) for pid, text in _COUNT.findall(counted)}
    children: dict[str, list[tuple[int, int]]] = {}
    try:
        for name, pid, times, units in _CHILD.findall(told):
            children.setdefault(name, []).append((int(times) * int(units), numbers[int(pid)]))
        figures = {}
        for name, ((few, before), (many, after)) in children.items():
            figures[name] = (after - before) / (many - few)
    except (KeyError, ValueError):
        raise CountError(f"valgrind told no figure for some child: {counted[-500:]}") from None
    if not figures:
        raise CountError(f"nothing was counted: {counted[-500:]}")
    return figures


def main() -> None:
    """Be counted."""
    gateway = MemoryGateway()
    rows = courses()
    for course in rows:
        gateway.prove(course)
        gateway.run(course, 2)
    for course in rows:
        for times in exchanges(course):
            pid = os.fork()
            if not pid:
                gateway.run(course, times)
                os._exit(0)
            os.waitpid(pid, 0)
            print("child", course.name, pid, times, course.units, flush=True)


def exchanges(course: Course) -> Sequence[int]:
    """Return how many exchanges the two children of a course do."""
    size = sum(map(len, course.request)) + sum(map(len, course.answer))
    more = max(4, UNITS // course.units if size < 1 << 19 else 0)
    return FEW, FEW + more


if __name__ == "__main__":
    main()
