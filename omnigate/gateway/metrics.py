# mypy: allow-untyped-calls
# (parts of prometheus_client carry no types)
"""What a scrape of a data plane is made of.

What is told, and what it is called, stands in :mod:`omnigate.gateway.figures`; it is written by
:mod:`omnigate.metric_text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred, succeed

from omnigate.metric_families import Part
from omnigate.metric_text import family_of


class DataMetrics:
    """The metrics of a data plane.

    :param read: reads its figures, as :meth:`omnigate.gateway.plane_figures.PlaneFigures.parts`
        does.
    :param read_process: reads what the system tells of it; slow, and safe in any thread. Open files
        are counted by listing them: 16 ms where there are 20,000.
    :param latest: makes sure that the figures are the latest, where they are those of others.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Part]],
        read_process: Callable[[], list[Metric]],
        latest: Callable[[], Deferred[None]] = lambda: succeed(None),
    ) -> None:
        self._read = read
        self.read_process = read_process
        self.latest = latest

    def families(self, process: Iterable[Metric]) -> Iterator[Metric]:
        """Make the metrics, one small family after the other.

        A large one comes in several parts of the same name. Figures are read when a part is made;
        requests may go on between any two.

        :param process: what ``read_process`` has read.
        """
        yield from map(family_of, self._read())
        yield from process


class OneProcess:
    """What the system and Python tell of a plane that is one process."""

    def __init__(self) -> None:
        # Collectors want a registry to be in; this one is not scraped as a whole.
        registry = CollectorRegistry()
        self._collectors: tuple[Collector, ...] = (
            ProcessCollector(registry=registry),
            PlatformCollector(registry=registry),
            GCCollector(registry=registry),
        )

    def read(self) -> list[Metric]:
        """Read it."""
        return [family for collector in self._collectors for family in collector.collect()]
