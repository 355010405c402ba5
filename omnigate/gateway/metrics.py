# mypy: allow-untyped-calls
# (parts of prometheus_client carry no types)
"""The text of a scrape, out of figures.

What is told, and what it is called, stands in :mod:`omnigate.gateway.figures`; here metrics are
made of it and written, a few hundred samples at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred, succeed

from omnigate.gateway.figures import TOTAL, Number, Part
from omnigate.gateway.tally import BUCKETS

PLAIN: Final = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

_END: Final = b"# EOF\n"

#: What each bucket of a histogram is called.
_BOUNDS: Final = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]


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


def family_of(part: Part) -> Metric:
    """Make the metric of a part."""
    family = part.family
    if family.kind == "histogram":
        return _histogram(part)
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.text, labels=family.labels)
    for labels, value in part.rows:
        metric.add_metric(labels, value)
    return metric


def _histogram(part: Part) -> Metric:
    family = part.family
    metric = HistogramMetricFamily(family.name, family.text, labels=family.labels)
    measured: dict[tuple[str, ...], dict[str, Number]] = {}
    for (*labels, bucket), value in part.rows:
        measured.setdefault(tuple(labels), {})[bucket] = value
    for known, kept in measured.items():
        counts = (kept.get(str(bucket), 0) for bucket in range(len(_BOUNDS)))
        buckets = list(zip(_BOUNDS, accumulate(counts), strict=True))
        metric.add_metric(known, buckets, sum_value=kept.get(TOTAL, 0.0))
    return metric


class _Alone(CollectorRegistry):
    """A registry of one family, since the writers of the text take nothing else."""

    def __init__(self, family: Metric) -> None:
        super().__init__()
        self._family = family

    def collect(self) -> Iterator[Metric]:
        """The family."""
        yield self._family


def family_text(family: Metric, in_openmetrics: bool, begins: bool) -> bytes:
    """Write one family, or a part of one.

    :param begins: whether it is the first part, which the head of the family stands before.
    """
    alone = _Alone(family)
    text = openmetrics.generate_latest(alone) if in_openmetrics else generate_latest(alone)
    text = text.removesuffix(_END)
    while not begins and text.startswith(b"# "):
        text = text.partition(b"\n")[2]
    return text


def wants_openmetrics(accept: bytes) -> bool:
    """Whether a scraper's ``accept`` asks for OpenMetrics."""
    return b"application/openmetrics-text" in accept


def exposition(families: Iterable[Metric], in_openmetrics: bool) -> Iterator[bytes]:
    """Write a whole scrape, piece by piece; each takes a few milliseconds at most."""
    last = ""
    for family in families:
        yield family_text(family, in_openmetrics, family.name != last)
        last = family.name
    if in_openmetrics:
        yield _END
