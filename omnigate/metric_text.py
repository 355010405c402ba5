# mypy: allow-untyped-calls
# (parts of prometheus_client carry no types)
"""The text of a scrape, out of families and their rows, a few hundred samples at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as openmetrics

from omnigate.metric_families import TOTAL, Number, Part

PLAIN: Final = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

_END: Final = b"# EOF\n"


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
    bounds = [*(str(float(bound)) for bound in family.buckets), "+Inf"]
    metric = HistogramMetricFamily(family.name, family.text, labels=family.labels)
    measured: dict[tuple[str, ...], dict[str, Number]] = {}
    for (*labels, bucket), value in part.rows:
        measured.setdefault(tuple(labels), {})[bucket] = value
    for known, kept in measured.items():
        counts = (kept.get(str(bucket), 0) for bucket in range(len(bounds)))
        buckets = list(zip(bounds, accumulate(counts), strict=True))
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
