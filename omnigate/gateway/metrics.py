# mypy: allow-untyped-calls
# (parts of prometheus_client carry no types)
"""Every metric of the data plane: names, words, labels, and where each figure stands.

Nothing here is on a request's path. Requests count in plain numbers
(:mod:`omnigate.gateway.tally`), and the rest are figures that the parts of the plane keep anyway;
a scrape makes families of them, a few hundred samples at a time (:meth:`DataMetrics.families`), so
that a config of thousands of routes holds the reactor no longer than a small one.

Labels are bounded: routes, upstreams and models are names of the config or ``other``, reasons and
outcomes are words of ours. Key names are no labels.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
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

import omnigate
import twisted
from omnigate.gateway.tally import BUCKETS, Durations

if TYPE_CHECKING:
    from omnigate.gateway.service import DataParts
    from omnigate.protocols.client import ClientFactory

PLAIN: Final = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

#: Samples made and written in one turn of the reactor: two or three milliseconds.
SAMPLES_AT_A_TIME: Final = 400

_END: Final = b"# EOF\n"

T = TypeVar("T")


@attrs.frozen
class Described:
    """What a metric is called, what it tells, and its labels in the order of their values."""

    name: str
    text: str
    labels: tuple[str, ...] = ()


REQUESTS = Described(
    "omnigate_data_requests_total",
    "Requests that ended; probes are not among them.",
    ("route", "endpoint", "status_class", "outcome"),
)
REFUSALS = Described(
    "omnigate_data_refusals_total", "Requests refused before any upstream was asked.", ("reason",)
)
DURATIONS = Described(
    "omnigate_data_request_duration_seconds",
    "From the head of a request that reached its route to the end of its answer.",
    ("endpoint",),
)
FIRST_EVENTS = Described(
    "omnigate_data_time_to_first_event_seconds",
    "From the head of a streamed request to the first byte of its answer.",
    ("endpoint",),
)
ATTEMPTS = Described("omnigate_data_attempts_total", "Tries at upstreams.", ("upstream", "outcome"))
TOKENS = Described(
    "omnigate_data_tokens_total",
    "Tokens metered; cache is none, read or write of the provider's prompt cache.",
    ("route", "direction", "cache"),
)
CLIENTS = Described("omnigate_data_client_connections", "Connections of clients.")
DEADLINES = Described(
    "omnigate_data_deadlines",
    "What the one sweep over deadlines looks at: connections, requests, answers.",
)
TIMERS = Described("omnigate_data_timers", "Calls that the reactor has been asked for later.")
UPSTREAM_CONNECTIONS = Described(
    "omnigate_data_upstream_connections",
    "Connections to upstreams: idle ones are kept for the next request.",
    ("upstream", "state"),
)
UPSTREAM_OPENED = Described(
    "omnigate_data_upstream_connections_opened_total",
    "Connections to upstreams that came about.",
    ("upstream",),
)
RESTING = Described(
    "omnigate_data_target_resting",
    "Targets that failed and have not answered since: 1 while they rest.",
    ("upstream", "model"),
)
CREDENTIAL_REFUSED = Described(
    "omnigate_data_upstream_credential_refused",
    "Upstreams: 1 while they refuse our credential, or there is none.",
    ("upstream",),
)
CACHE_LOOKUPS = Described(
    "omnigate_data_cache_lookups_total", "Looks into the response cache.", ("result",)
)
SPOOL_EVENTS = Described("omnigate_spool_events", "Usage events not acknowledged yet.")
SPOOL_BYTES = Described("omnigate_spool_bytes", "What they take.")
SPOOL_DROPPED = Described(
    "omnigate_spool_dropped_total", "Usage events dropped because the spool was full: lost money."
)
DELIVERED = Described(
    "omnigate_data_usage_delivered_total", "Usage events that the control plane acknowledged."
)
DELIVERY_FAILURES = Described(
    "omnigate_data_delivery_failures_total", "Posts of usage that the control plane did not take."
)
PUT_ASIDE = Described(
    "omnigate_data_usage_put_aside_total", "Usage events refused for good: look at the log."
)
POLL_FAILURES = Described(
    "omnigate_data_config_poll_failures_total", "Polls of the config without a usable answer."
)
POLLED = Described(
    "omnigate_data_config_last_poll_timestamp_seconds",
    "When a poll of the config had a usable answer last; 0 before.",
)
INSTALLED = Described(
    "omnigate_data_config_installed_timestamp_seconds",
    "When the config in force was put in force; 0 before.",
)
LOG_DROPPED = Described(
    "omnigate_data_access_log_dropped_total", "Lines of the access log that could not be written."
)
BUILD = Described("omnigate_build_info", "The versions at work.", ("version", "python", "twisted"))

#: Words for the figures that the plane also reports to the control plane; each is a gauge with
#: ``omnigate_data_`` in front.
FIGURES: Final = {
    "requests_in_flight": "Requests that hold a place, answers read on for nobody among them.",
    "request_memory_bytes": "Memory reserved for the bodies of requests in flight.",
    "parse_memory_bytes": "Memory reserved for the trees of bodies that are taken apart.",
    "held_answer_bytes": "What is kept of answers until it is whole: events, short answers.",
    "abandoned_answers": "Answers read on for clients that left.",
    "cache_answers": "Answers in the response cache.",
    "cache_bytes": "What they take.",
    "reactor_lag_seconds": "The longest that the reactor was held in the last minute.",
}


class DataMetrics:
    """The metrics of one data plane.

    :param clients: where its clients' connections are.
    """

    def __init__(self, parts: DataParts, clients: ClientFactory) -> None:
        self._parts = parts
        self._clients = clients
        # Collectors want a registry to be in; this one is not scraped as a whole.
        registry = CollectorRegistry()
        self._process: tuple[Collector, ...] = (
            ProcessCollector(registry=registry),
            PlatformCollector(registry=registry),
            GCCollector(registry=registry),
        )

    def read_process(self) -> list[Metric]:
        """Read what the system tells of the process; slow, and safe in any thread.

        Open files are counted by listing them: 16 ms where there are 20,000.
        """
        return [family for collector in self._process for family in collector.collect()]

    def families(self, process: Iterable[Metric]) -> Iterator[Metric]:
        """Make the metrics, one small family after the other.

        A large one comes in several parts of the same name. Figures are read when a part is made;
        requests may go on between any two.

        :param process: what :meth:`read_process` has read.
        """
        yield from self._requests()
        yield from self._state()
        yield from self._upstreams()
        yield from self._usage()
        yield from self._config()
        yield from process

    def _requests(self) -> Iterator[Metric]:
        tally = self._parts.plane.books.tally
        yield from _families(
            CounterMetricFamily,
            REQUESTS,
            (
                ((route, endpoint, f"{status_class}xx", outcome), count)
                for (route, endpoint, status_class, outcome), count in list(tally.requests.items())
            ),
        )
        yield from _families(
            CounterMetricFamily,
            REFUSALS,
            (((reason,), count) for reason, count in list(tally.refusals.items())),
        )
        yield from _families(CounterMetricFamily, ATTEMPTS, list(tally.attempts.items()))
        yield from _families(
            CounterMetricFamily,
            TOKENS,
            (
                ((route, *kind), count)
                for route, counts in list(tally.tokens.items())
                for kind, count in zip(_TOKEN_KINDS, counts, strict=True)
            ),
        )
        yield _histogram(DURATIONS, tally.durations)
        yield _histogram(FIRST_EVENTS, tally.first_events)

    def _state(self) -> Iterator[Metric]:
        plane = self._parts.plane
        for name, value in plane.figures().items():
            text = FIGURES.get(name, "A figure of the data plane.")
            yield _gauge(Described(f"omnigate_data_{name}", text), value)
        yield _gauge(CLIENTS, len(self._clients.connections))
        yield _gauge(DEADLINES, len(plane.watchdog))
        yield _gauge(TIMERS, len(plane.clock.getDelayedCalls()))
        looks = ((("hit",), plane.cache.hits), (("miss",), plane.cache.misses))
        yield from _families(CounterMetricFamily, CACHE_LOOKUPS, looks)
        versions = (omnigate.__version__, platform.python_version(), twisted.__version__)
        yield from _families(GaugeMetricFamily, BUILD, ((versions, 1),))

    def _upstreams(self) -> Iterator[Metric]:
        tables = self._parts.plane.tables
        pools = [] if tables is None else [(n, u.pool) for n, u in tables.upstreams.items()]
        yield from _families(
            GaugeMetricFamily,
            UPSTREAM_CONNECTIONS,
            (
                ((name, state), pool.idle if state == "idle" else pool.connections - pool.idle)
                for name, pool in pools
                for state in ("idle", "busy")
            ),
        )
        troubles, now = self._parts.plane.troubles, self._parts.plane.clock.seconds()
        yield from _families(
            GaugeMetricFamily,
            RESTING,
            ((key, rest.until > now) for key, rest in list(troubles.rests.items())),
        )
        yield from _families(
            GaugeMetricFamily,
            CREDENTIAL_REFUSED,
            (
                ((name,), name in troubles.credentials and troubles.credentials[name].lasts)
                for name, _ in pools
            ),
        )
        yield from _families(
            CounterMetricFamily, UPSTREAM_OPENED, (((name,), pool.opened) for name, pool in pools)
        )

    def _usage(self) -> Iterator[Metric]:
        spool, delivery = self._parts.spool, self._parts.delivery
        yield _gauge(SPOOL_EVENTS, spool.count)
        yield _gauge(SPOOL_BYTES, spool.bytes)
        yield _counter(SPOOL_DROPPED, spool.dropped)
        yield _counter(DELIVERED, delivery.delivered)
        yield _counter(DELIVERY_FAILURES, delivery.failures)
        yield _counter(PUT_ASIDE, delivery.put_aside)
        yield _counter(LOG_DROPPED, self._parts.access_log.dropped)

    def _config(self) -> Iterator[Metric]:
        plane, pull = self._parts.plane, self._parts.pull
        assert pull is not None
        polled = pull.polled_at
        # The poll goes by the clock of what lasts, which may count from anywhere.
        ago = 0.0 if polled is None else plane.clock.seconds() - polled
        yield _counter(POLL_FAILURES, pull.failures)
        yield _gauge(POLLED, 0.0 if polled is None else plane.wall() - ago)
        yield _gauge(INSTALLED, plane.installed_at or 0.0)


#: Direction and cache of each count of :attr:`omnigate.gateway.tally.Tally.tokens`.
_TOKEN_KINDS: Final = (
    ("input", "none"),
    ("input", "read"),
    ("input", "write"),
    ("output", "none"),
)


def _gauge(described: Described, value: float) -> Metric:
    return GaugeMetricFamily(described.name, described.text, value=value)


def _counter(described: Described, value: float) -> Metric:
    return CounterMetricFamily(described.name, described.text, value=value)


def _families(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    described: Described,
    samples: Iterable[tuple[tuple[str, ...], float]],
) -> Iterator[Metric]:
    """Make a family with labels, in as many parts as it takes."""
    for part in _parts_of(samples):
        family = kind(described.name, described.text, labels=described.labels)
        for labels, value in part:
            family.add_metric(labels, value)
        yield family


def _parts_of(samples: Iterable[T]) -> Iterator[list[T]]:
    """Cut into lists of :data:`SAMPLES_AT_A_TIME`; the first is there even if it is empty."""
    left = iter(samples)
    part = list(islice(left, SAMPLES_AT_A_TIME))
    yield part
    while part := list(islice(left, SAMPLES_AT_A_TIME)):
        yield part


def _histogram(described: Described, durations: Mapping[str, Durations]) -> Metric:
    histogram = HistogramMetricFamily(described.name, described.text, labels=described.labels)
    bounds = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
    for label, kept in durations.items():
        buckets = list(zip(bounds, accumulate(kept.counts), strict=True))
        histogram.add_metric([label], buckets, sum_value=kept.total_seconds)
    return histogram


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
