"""Metrics of a data plane in memory, for tests to read."""

from __future__ import annotations

from typing import Any, cast

import attrs
from prometheus_client.parser import text_string_to_metric_families

from omnigate.gateway.metrics import DataMetrics, OneProcess
from omnigate.gateway.plane_figures import Identity, PlaneFigures
from omnigate.metric_text import exposition
from tests.planes.memory import MemoryDataPlane


@attrs.define
class Figures:
    """Figures of parts that a plane in memory does without."""

    count: int = 0
    bytes: int = 0
    dropped: int = 0
    delivered: int = 0
    failures: int = 0
    put_aside: int = 0
    polled_at: float | None = None
    expires_at: float = 2e9
    oldest_ms: int = 0


@attrs.define
class Parts:
    """As much of a data plane's parts as metrics are made of."""

    plane: Any
    spool: Figures = attrs.Factory(Figures)
    delivery: Figures = attrs.Factory(Figures)
    pull: Figures = attrs.Factory(Figures)
    access_log: Figures = attrs.Factory(Figures)
    attesting: Figures = attrs.Factory(Figures)
    left: Figures | None = None
    certificate: Figures | None = None


def figures_of(
    memory: MemoryDataPlane, parts: Parts | None = None, identity: Identity | None = None
) -> PlaneFigures:
    """The figures of a plane in memory; what it lacks stands at 0."""
    return PlaneFigures(cast(Any, parts or Parts(memory.plane)), memory.factory, identity)


def metrics_of(memory: MemoryDataPlane) -> DataMetrics:
    """The metrics of a plane in memory."""
    return DataMetrics(figures_of(memory).parts, OneProcess().read)


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(text: bytes) -> Samples:
    """Each sample of a scrape, by its name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            at = (sample.name, frozenset(sample.labels.items()))
            assert at not in found, at
            found[at] = sample.value
    return found


def scraped(memory: MemoryDataPlane) -> Samples:
    """What a scrape of the plane shows."""
    return samples_of(text_of(memory))


def text_of(memory: MemoryDataPlane, in_openmetrics: bool = False) -> bytes:
    """The text of a scrape of the plane."""
    metrics = metrics_of(memory)
    return b"".join(exposition(metrics.families(metrics.read_process()), in_openmetrics))


def value(samples: Samples, name: str, **labels: str) -> float:
    """One sample, 0 where there is none."""
    return samples.get((name, frozenset(labels.items())), 0.0)


def total(samples: Samples, name: str, **labels: str) -> float:
    """The sum over all samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(v for (found, at), v in samples.items() if found == name and wanted <= at)
