"""How many yards an exchange takes: its processor time over that of a fixed piece of work.

The two alternate in slices of a few milliseconds, and all courses take turns, so that whatever the
machine does meanwhile meets each of them alike. Of all slices the lower quartile counts: work that
another process disturbed takes longer, none takes less than it must.

A tight loop stays in the caches that a busy neighbour empties, where the gateway's broad code does
not, and would seem to get faster beside it. So the yardstick is there a hundred times over, each
with functions and classes of its own, and each is used in turn: that is about as much code and
data as an exchange goes through.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Final

import attrs

from bench import yardstick
from bench.in_memory import Course, MemoryGateway

#: Of the yardstick; see the module's docstring.
COPIES: Final = 100
#: How long a slice of an exchange is meant to take: one of the yardstick takes about as long.
SLICE_SECONDS: Final = 0.002
#: Turns that are taken at the least, however slow the machine is.
MIN_TURNS: Final = 20
_QUARTILE: Final = 0.25


@attrs.frozen
class Yards:
    """What one unit of a course takes.

    :ivar yards: by the yardstick; what can be compared with other days.
    :ivar cpu_us: microseconds of processor time, which cannot.
    """

    name: str
    title: str
    unit: str
    yards: float
    cpu_us: float


def measure(
    courses: Sequence[Course], seconds: float, tell: Callable[[str], None] = lambda line: None
) -> list[Yards]:
    """Measure all courses for about so long.

    :raises bench.in_memory.WrongExchangeError: an exchange did not do what it should
    :raises bench.answers.WrongAnswerError: an answer is not the right one
    """
    tell("in memory")
    gateway = MemoryGateway()
    copies = [_copy(number) for number in range(COPIES)]
    try:
        for course in courses:
            gateway.prove(course)
        # As the daemon does at its start: what is there by now is not collected again and again.
        gc.collect()
        gc.freeze()
        try:
            return _measure(gateway, courses, copies, seconds)
        finally:
            gc.unfreeze()
    finally:
        gateway.close()


def _measure(
    gateway: MemoryGateway,
    courses: Sequence[Course],
    copies: Sequence[Callable[[int], int]],
    seconds: float,
) -> list[Yards]:
    def one_round() -> None:
        for yard in copies:
            yard(1)

    _timed(one_round)
    counts = [_count(gateway, course) for course in courses]
    rounds: list[float] = []
    slices: list[list[float]] = [[] for _ in courses]
    end = time.monotonic() + seconds
    while len(rounds) < MIN_TURNS * len(courses) or time.monotonic() < end:
        for course, count, taken in zip(courses, counts, slices, strict=True):
            took = _timed(partial(gateway.run, course, count))
            taken.append(took / count / course.units)
            rounds.append(_timed(one_round))
    yard = quartile(rounds) / COPIES
    return [
        Yards(course.name, course.title, course.unit, quartile(taken) / yard, quartile(taken) / 1e3)
        for course, taken in zip(courses, slices, strict=True)
    ]


def quartile(values: Sequence[float]) -> float:
    """Return the value that a quarter of all do not exceed."""
    return sorted(values)[int((len(values) - 1) * _QUARTILE)]


def _count(gateway: MemoryGateway, course: Course) -> int:
    """Return how many exchanges make a slice."""
    took = min(_timed(partial(gateway.run, course, 2)) for _ in range(3)) / 2
    return max(1, round(SLICE_SECONDS * 1e9 / took))


def _timed(work: Callable[[], None]) -> int:
    """Return the nanoseconds of processor time that this thread takes for some work."""
    began = time.thread_time_ns()
    work()
    return time.thread_time_ns() - began


def _copy(number: int) -> Callable[[int], int]:
    """Return one more yardstick, with code of its own."""
    name = f"{yardstick.__name__}_{number}"
    spec = importlib.util.spec_from_file_location(name, yardstick.__file__)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert name not in sys.modules
    yard: Callable[[int], int] = module.yard
    return yard
