"""What Linux tells of processes in ``/proc``: processor time and memory.  See proc(5)."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")

# Of the fields behind the name in /proc/PID/stat, and of the first line of /proc/stat.
_USER, _SYSTEM = 11, 12
_IDLE, _IOWAIT, _STEAL, _COUNTED = 3, 4, 7, 8


@attrs.frozen
class Cores:
    """Which cores do what; ``None`` where nothing is pinned, since there is but one.

    :ivar gateway: for what is measured.
    :ivar rest: for all else.
    """

    gateway: frozenset[int] | None
    rest: frozenset[int] | None


def choose_cores(usable: set[int]) -> Cores:
    """Give the first core to what is measured, and the others to the rest."""
    if len(usable) < 2:
        return Cores(None, None)
    first = min(usable)
    return Cores(frozenset({first}), frozenset(usable - {first}))


@contextmanager
def on_cores(cores: frozenset[int] | None) -> Iterator[None]:
    """Stay on some cores for a while; what is started meanwhile inherits them, and keeps them."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def family(pid: int | None) -> list[int]:
    """Return a process and all that descend from it and run; nothing of ``None``.

    :raises OSError: there is no such process.
    """
    if pid is None:
        return []
    found = [pid]
    for one in found:
        for task in (_PROC / str(one) / "task").iterdir():
            found += map(int, (task / "children").read_text("ascii").split())
    return found


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process, all its threads together, to the hundredth.

    :raises OSError: there is no such process.
    """
    return parse_cpu_ticks((_PROC / str(pid) / "stat").read_text("ascii", "replace")) / _TICKS


def parse_cpu_ticks(stat: str) -> int:
    """Return user and system time out of ``/proc/PID/stat``; the name in it may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[_USER]) + int(fields[_SYSTEM])


def busy_seconds() -> float:
    """Return the time that all cores together were at work since the machine started."""
    return parse_busy_ticks((_PROC / "stat").read_text("ascii").partition("\n")[0]) / _TICKS


def parse_busy_ticks(line: str) -> int:
    """Return the time at work out of the first line of ``/proc/stat``."""
    fields = [int(word) for word in line.split()[1 : 1 + _COUNTED]]
    return sum(fields) - fields[_IDLE] - fields[_IOWAIT] - fields[_STEAL]


def memory_mb(pid: int, field: str) -> float:
    """Return a size out of ``/proc/PID/status`` in megabytes (of a million bytes).

    :param field: ``VmRSS`` for what is resident now, ``VmHWM`` for the most since the reset.
    :raises OSError: there is no such process.
    """
    return parse_kib((_PROC / str(pid) / "status").read_text("utf-8", "replace"), field) / 1e6


def parse_kib(status: str, field: str) -> int:
    """Return the bytes of a field of ``/proc/PID/status`` that is told in kB (of 1024 bytes)."""
    found = re.search(rf"^{field}:\s+([0-9]+) kB$", status, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/PID/status tells no {field} here")
    return int(found[1]) * 1024


def reset_peak(pid: int) -> None:
    """Let ``VmHWM`` begin anew."""
    (_PROC / str(pid) / "clear_refs").write_text("5")
