# mypy: allow-untyped-calls
# (parts of prometheus_client carry no types)
"""Every metric of the control plane, in one place, in a registry of its own.

Labels are bounded: routes and upstreams are names of the config or ``other``, reasons are codes of
the table of refusals or ``other``. Key names are no labels. Everything counted here begins at 0
with the process; the ledger has what must last.
"""

from __future__ import annotations

import platform
from collections import Counter as Counted
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

import omnigate
import twisted
from omnigate.control.audit import AuditLog
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.keys import GatewayKey
from omnigate.control.reports import Reports, counted_code
from omnigate.events import UsageEvent
from omnigate.ledger.service import Ledger
from omnigate.money import NANO_PER_USD
from omnigate.reactor_lag import ReactorLag

OTHER: Final = "other"

#: Label values of one kind that a process remembers. Names come from the config, which may have
#: 5,000 routes; a config that is reloaded with ever new names ends here.
MAX_NAMES: Final = 10_000


#: Figures that have a name of their own; any other gets ``omnigate_data_`` in front.
REPORTED_NAMES: Final = {
    "spool_events": "omnigate_spool_events",
    "spool_bytes": "omnigate_spool_bytes",
}

#: Bounds of the histogram of writes, in seconds: a good SSD syncs in one or two milliseconds, a
#: busy disk in tens, and one that takes a second is about to fail.
WRITE_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

_PLAIN: Final = b"text/plain; version=0.0.4; charset=utf-8"
_OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"


class _Names:
    """Names that were let in as label values; the others are one."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def allow(self, names: Collection[str]) -> None:
        for name in names:
            if len(self._known) < MAX_NAMES:
                self._known.add(name)

    def label(self, name: str | None) -> str:
        if name is None:
            return "none"
        return name if name in self._known else OTHER


class _Watched(Collector):
    """A counter that is kept elsewhere; a gauge where the name does not end in ``_total``."""

    def __init__(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        self._name = name
        self._text = text
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Read it, for one scrape."""
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._text)
        value = self._read()
        if value is not None:
            family.add_metric((), value)
        yield family


class _Reported(Collector):
    """The figures that data planes report of themselves, of all their processes together."""

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Read them, for one scrape."""
        for name, value in sorted(self._read().items()):
            yield GaugeMetricFamily(
                REPORTED_NAMES.get(name, f"omnigate_data_{name}"),
                "A figure of the data planes, as they last reported it.",
                value=value,
            )


class ControlMetrics:
    """What the control plane counts, and its text for a scrape."""

    def __init__(self) -> None:
        # Another series for the start of each counter doubles a scrape and tells nothing that
        # process_start_time_seconds does not.
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self._routes = _Names()
        self._upstreams = _Names()
        self._event_children: dict[tuple[str, str, int], Counter] = {}
        self._route_children: dict[str, tuple[Counter, ...]] = {}
        self._make_usage()
        self._make_refusals()
        self._make_state()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _make_usage(self) -> None:
        self._events = self._counter(
            "omnigate_usage_events_total",
            "Usage events recorded in the ledger.",
            *("route", "upstream", "status_class"),
        )
        self._tokens = self._counter(
            "omnigate_tokens_total",
            "Tokens recorded; cache is none, read or write of the provider's prompt cache.",
            *("route", "direction", "cache"),
        )
        self._cost = self._counter(
            "omnigate_cost_usd_total", "Cost recorded, in US dollars.", "route"
        )

    def _make_refusals(self) -> None:
        self._refusals = self._counter(
            "omnigate_refusals_total",
            "Requests that data planes refused before routing, as they report them.",
            "reason",
        )
        self._auth_failures = self._counter(
            "omnigate_auth_failures_total",
            "Requests to this plane with missing or wrong credentials, or from a locked address.",
            *("audience", "reason"),
        )
        for audience in ("admin", "internal"):
            for reason in ("missing", "wrong", "locked"):
                self._auth_failures.labels(audience, reason)

    def _make_state(self) -> None:
        self._ledger_ready = self._gauge(
            "omnigate_ledger_ready", "Whether the ledger is loaded: 1 or 0."
        )
        self.ledger_load_seconds = self._gauge(
            "omnigate_ledger_load_seconds", "How long the ledger took to load at the start."
        )
        self._write_seconds = Histogram(
            "omnigate_ledger_write_seconds",
            "How long a group of batches took to be written and synced.",
            buckets=WRITE_BUCKETS,
            registry=self.registry,
        )
        self._keys = self._gauge(
            "omnigate_keys", "Gateway keys, of the config file and managed ones.", "source"
        )
        self.reactor_lag = self._gauge(
            "omnigate_reactor_lag_seconds",
            "The longest that the reactor was held in the last minute.",
        )
        self._gauge(
            "omnigate_build_info", "The versions at work.", "version", "python", "twisted"
        ).labels(omnigate.__version__, platform.python_version(), twisted.__version__).set(1)

    def watch(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """Show a figure that is kept elsewhere, read at each scrape.

        :param name: the metric's name; that of a counter, and of nothing else, ends in ``_total``.
        :param read: None where there is no figure now.
        """
        self.registry.register(_Watched(name, text, read))

    def watch_plane(
        self,
        ledger: Ledger,
        config_file: ConfigFile,
        reports: Reports,
        lag: ReactorLag,
        now: Callable[[], float],
    ) -> None:
        """Show what the parts of the plane count themselves."""
        self._watch_ledger(ledger, now)
        self.watch(
            "omnigate_config_reloads_total",
            "Times the config file was read and good, the start included.",
            lambda: config_file.reloads,
        )
        self.watch(
            "omnigate_config_reload_failures_total",
            "Times the config file had faults; the config in force stayed.",
            lambda: config_file.failures,
        )
        self.reactor_lag.set_function(lag.worst_seconds)
        self.registry.register(_Reported(lambda: reports.figures(now())))

    def watch_audit(self, audit: AuditLog) -> None:
        """Show what the audit log counts."""
        self.watch(
            "omnigate_audit_lines_total",
            "Lines written to the audit log.",
            lambda: audit.lines_written,
        )
        self.watch(
            "omnigate_audit_failed_writes_total",
            "Lines that could not be written; what they were about was not done.",
            lambda: audit.failed_writes,
        )

    def watch_budgets(self, budgets: BudgetWatch) -> None:
        """Show how many keys are over their budgets."""
        self.watch(
            "omnigate_soft_budget_exceeded_total",
            "Soft budgets that keys have reached, once a period each.",
            lambda: budgets.exceeded,
        )
        self._gauge(
            "omnigate_keys_over_soft_budget", "Keys that have reached their soft budget."
        ).set_function(lambda: len(budgets.over_soft))
        self._gauge(
            "omnigate_keys_over_budget", "Keys that have spent their budget, and are blocked."
        ).set_function(lambda: len(budgets.blocked))

    def _watch_ledger(self, ledger: Ledger, now: Callable[[], float]) -> None:
        counters = ledger.counters

        def age() -> float | None:
            written_at_ms = ledger.figures.snapshot_at_ms
            return None if written_at_ms is None else now() - written_at_ms / 1000

        figures: tuple[tuple[str, str, Callable[[], float | None]], ...] = (
            (
                "duplicate_events_total",
                "Events skipped: recorded before.",
                lambda: counters.duplicates,
            ),
            ("invalid_events_total", "Events dropped: not recordable.", lambda: counters.invalid),
            ("unpriced_events_total", "Events at $0: no price known.", lambda: counters.unpriced),
            ("failed_writes_total", "Writes the disk refused.", lambda: counters.failed_writes),
            ("damaged_lines_total", "Unreadable lines.", lambda: counters.damaged_lines),
            ("snapshots_total", "Snapshots written.", lambda: counters.snapshots),
            ("failed_snapshots_total", "Snapshots refused.", lambda: counters.failed_snapshots),
            ("segments", "Segments, the active one included.", lambda: ledger.figures.segments),
            ("active_bytes", "Length of the active one.", lambda: ledger.figures.active_bytes),
            ("ids", "Ids remembered of recorded events.", lambda: ledger.figures.ids),
            ("snapshot_age_seconds", "Age of the newest snapshot.", age),
            ("replayed_events", "Events replayed at the start.", lambda: counters.replayed),
            ("replayed_duplicates", "Lines skipped there.", lambda: counters.replay_duplicates),
            ("torn_bytes", "Bytes of a torn line cut there.", lambda: counters.torn_bytes),
            ("trouble", "Whether batches cannot be written.", lambda: ledger.trouble is not None),
        )
        for name, text, read in figures:
            self.watch(f"omnigate_ledger_{name}", text, read)

    def allow_names(self, routes: Collection[str], upstreams: Collection[str]) -> None:
        """Let the names of a config in as label values."""
        self._routes.allow(routes)
        self._upstreams.allow(upstreams)

    def recorded(self, event: UsageEvent, cost_nano: int) -> None:
        """Count one event that was written to the ledger."""
        route = self._routes.label(event.route_model)
        labels = (route, self._upstreams.label(event.upstream), event.status // 100)
        counted = self._event_children.get(labels)
        if counted is None:
            counted = self._events.labels(*labels[:2], f"{labels[2]}xx")
            self._event_children[labels] = counted
        counted.inc()
        children = self._route_children.get(route) or self._add_route(route)
        plain, read, written, output, cost = children
        plain.inc(event.input_tokens)
        read.inc(event.cached_input_tokens)
        written.inc(event.cache_write_input_tokens)
        output.inc(event.output_tokens)
        cost.inc(cost_nano / NANO_PER_USD)

    def _add_route(self, route: str) -> tuple[Counter, ...]:
        """Look the series of a route up once; by label that takes longer than all the counting."""
        children = (
            self._tokens.labels(route, "input", "none"),
            self._tokens.labels(route, "input", "read"),
            self._tokens.labels(route, "input", "write"),
            self._tokens.labels(route, "output", "none"),
            self._cost.labels(route),
        )
        self._route_children[route] = children
        return children

    def refused(self, code: str, count: int) -> None:
        """Count refusals that a data plane reports."""
        self._refusals.labels(counted_code(code)).inc(count)

    def auth_failed(self, audience: str, reason: str) -> None:
        """Count a request whose credentials were refused."""
        self._auth_failures.labels(audience, reason).inc()

    def count_keys(self, keys: Iterable[GatewayKey]) -> None:
        """Show how many keys there are of each kind."""
        found = Counted(key.source for key in keys)
        for source in ("file", "managed"):
            self._keys.labels(source).set(found[source])

    def ledger_loaded(self, seconds: float) -> None:
        """Note that the ledger is ready."""
        self._ledger_ready.set(1)
        self.ledger_load_seconds.set(seconds)

    def wrote(self, seconds: float) -> None:
        """Note how long a write of the ledger and its sync took."""
        self._write_seconds.observe(seconds)

    def scrape(self, accept: str) -> tuple[bytes, bytes]:
        """Return everything as text, and its content type.

        :param accept: the scraper's ``accept``; OpenMetrics where it asks for it.
        """
        if "application/openmetrics-text" in accept:
            return openmetrics.generate_latest(self.registry), _OPENMETRICS
        return generate_latest(self.registry), _PLAIN
