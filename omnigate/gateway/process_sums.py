# mypy: allow-untyped-calls
# (parts of prometheus_client carry no types)
"""What the system tells of several processes, as one."""

from __future__ import annotations

import resource
from collections.abc import Callable, Collection
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

#: Of these the parent's own is told, which is the daemon's.
_PARENTS_OWN: Final = frozenset({"process_start_time_seconds"})

#: What counts on when a process ends, since the system adds it to its parent's.
_OF_THE_DEAD: Final = "process_cpu_seconds"


class ProcessSums:
    """The memory, files and time of the parent and its workers.

    :param pids: of the workers that run; asked in a thread.
    """

    def __init__(self, pids: Callable[[], Collection[int]]) -> None:
        self._pids = pids
        registry = CollectorRegistry()
        self._platform = PlatformCollector(registry=registry)
        self._seconds = 0.0

    def read(self) -> list[Metric]:
        """Read what there is; slow, and safe in any thread, though not in two at a time."""
        dead = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = list(ProcessCollector(registry=None).collect())
        for pid in self._pids():
            values = {metric.name: metric.samples[0].value for metric in _collect(pid)}
            for metric in found:
                if metric.name in values and metric.name not in _PARENTS_OWN:
                    _add(metric, values[metric.name])
        for metric in found:
            if metric.name == _OF_THE_DEAD:
                _add(metric, dead.ru_utime + dead.ru_stime)
                # One that ends at this very moment is with neither the living nor the dead.
                self._seconds = max(self._seconds, metric.samples[0].value)
                _add(metric, self._seconds - metric.samples[0].value)
        return [*found, *self._platform.collect()]


def _collect(pid: int) -> list[Metric]:
    return list(ProcessCollector(pid=lambda: pid, registry=None).collect())


def _add(metric: Metric, value: float) -> None:
    sample = metric.samples[0]
    metric.samples[0] = sample._replace(value=sample.value + value)
