"""Every metric of the control plane, in one place.

Labels are bounded: routes and upstreams are names of the config or ``other``, reasons are codes of
the table of refusals or ``other``. Key names are no labels. Everything counted here begins at 0
with the process; the ledger has what must last.

What is counted stands in plain tables. A scrape copies them on the reactor's thread, which takes a
few milliseconds (:meth:`ControlMetrics.read`), and is written out of the copies in any other
(:meth:`ControlMetrics.text`).
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import Counter as Counted
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

import omnigate
import twisted
from omnigate.control.audit import AuditLog
from omnigate.control.auth import REASONS
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.job_metrics import JobMetrics
from omnigate.control.metric_sources import CountedTable, LabelNames, WatchedFigure
from omnigate.control.plane_totals import PlaneTotals
from omnigate.control.reports import Reports, counted_code
from omnigate.daemon_service import Certificate
from omnigate.events import UsageEvent
from omnigate.ledger.service import Ledger
from omnigate.metric_families import (
    TOTAL,
    Family,
    Labels,
    Part,
    Row,
    parts_of,
)
from omnigate.metric_text import exposition, family_of
from omnigate.money import NANO_PER_USD
from omnigate.periods import DAY_MS
from omnigate.reactor_lag import ReactorLag
from omnigate.receipts.store import ReceiptStore

#: A key that expires within a week is one to look after: people are away for a weekend.
EXPIRING_MS: Final = 7 * DAY_MS

_MEMORY: Final = Family(
    "omnigate_request_memory_bytes",
    "sum",
    "Memory that data planes hold for requests: bodies, their trees, parts of answers.",
    ("state",),
)

#: Figures of data planes that have a name of their own, and the label of their row; any other gets
#: ``omnigate_data_`` in front.
REPORTED: Final[Mapping[str, tuple[Family, Labels]]] = {
    "requests_in_flight": (
        Family("omnigate_requests_in_flight", "sum", "Requests that hold a place in data planes."),
        (),
    ),
    "request_memory_bytes": (_MEMORY, ("bodies",)),
    "parse_memory_bytes": (_MEMORY, ("trees",)),
    "held_answer_bytes": (_MEMORY, ("answers",)),
    "spool_events": (
        Family("omnigate_spool_events", "sum", "Usage events that wait in data planes."),
        (),
    ),
    "spool_bytes": (Family("omnigate_spool_bytes", "sum", "What they take."), ()),
}

#: Bounds of the histogram of writes, in seconds: a good SSD syncs in one or two milliseconds, a
#: busy disk in tens, and one that takes a second is about to fail.
WRITE_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class ControlMetrics:
    """What the control plane counts, and its text for a scrape.

    :ivar certificate: what its port serves TLS with, where that can be renewed.
    :ivar lag: how long its reactor was held; ``None`` before it is watched.
    :ivar jobs: what is counted of media jobs.
    """

    def __init__(self) -> None:
        # What is shown, in the order of a scrape, by the name of the (first) family.
        self._sources: dict[str, Callable[[], Iterable[Part]]] = {}
        self._watched: dict[str, WatchedFigure] = {}
        self._routes = LabelNames()
        self._upstreams = LabelNames()
        self._token_rows: dict[str, tuple[Labels, ...]] = {}
        self._ledger_load_seconds: float | None = None
        self.certificate: Certificate | None = None
        self.lag: ReactorLag | None = None
        self._writes = [0] * (len(WRITE_BUCKETS) + 1)
        self._write_seconds = 0.0
        self._planes = PlaneTotals(self._routes.label, self._upstreams.label)
        self._make_tables()
        self._sources["planes"] = self._planes.parts
        self.jobs = JobMetrics(self._routes.label)
        self._sources["jobs"] = self.jobs.parts
        self._make_state()
        # Collectors want a registry to be in; this one is not scraped as a whole.
        registry = CollectorRegistry()
        self._process: tuple[Collector, ...] = (
            ProcessCollector(registry=registry),
            PlatformCollector(registry=registry),
            GCCollector(registry=registry),
        )

    # -- what there is

    def _table(self, name: str, text: str, *labels: str) -> CountedTable:
        """Begin to count something, by labels."""
        table = CountedTable(Family(name, "counter", text, labels))
        self._sources[name] = table.read
        return table

    def watch(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """Show a figure that is kept elsewhere, read at each scrape.

        One that is watched already is kept in another place from now on; a counter goes on from
        what it had come to.

        :param name: the metric's name; that of a counter, and of nothing else, ends in ``_total``.
        :param read: None where there is no figure now. It is called on the reactor's thread.
        """
        counts = name.endswith("_total")
        watched = WatchedFigure(Family(name, "counter" if counts else "sum", text), read)
        former = self._watched.get(name)
        if former is not None and counts:
            former.read()
            watched.before = watched.last = former.last
        self._watched[name] = watched
        self._sources[name] = watched.read

    def watch_rows(self, family: Family, read: Callable[[], Iterable[Row]]) -> None:
        """Show the rows of a family that are kept elsewhere, as :meth:`watch` shows a figure."""
        self._sources[family.name] = lambda: [Part(family, list(read()))]

    def _make_tables(self) -> None:
        self._events = self._table(
            "omnigate_usage_events_total",
            "Usage events recorded in the ledger.",
            *("route", "upstream", "status_class"),
        )
        self._tokens = self._table(
            "omnigate_tokens_total",
            "Tokens recorded; cache is none, read or write of the provider's prompt cache.",
            *("route", "direction", "cache"),
        )
        # In nano-dollars, so that no sum is rounded.
        self._costs: dict[Labels, int] = {}
        self.watch_rows(
            Family(
                "omnigate_cost_usd_total", "counter", "Cost recorded, in US dollars.", ("route",)
            ),
            lambda: [(route, nano / NANO_PER_USD) for route, nano in self._costs.items()],
        )
        self._verdicts = self._table(
            "omnigate_receipts_total", "Receipts of attested upstreams, by verdict.", "verdict"
        )
        self._refusals = self._table(
            "omnigate_refusals_total",
            "Requests that data planes refused before routing, as they report them.",
            "reason",
        )
        self._auth_failures = self._table(
            "omnigate_auth_failures_total",
            "Requests to this plane with missing or wrong credentials, or from a locked address.",
            *("audience", "reason"),
        )
        for audience, reasons in REASONS.items():
            for reason in reasons:
                self._auth_failures.add((audience, reason), 0)

    def _make_state(self) -> None:
        self.watch(
            "omnigate_ledger_ready",
            "Whether the ledger is loaded: 1 or 0.",
            lambda: self._ledger_load_seconds is not None,
        )
        self.watch(
            "omnigate_ledger_load_seconds",
            "How long the ledger took to load at the start.",
            lambda: self._ledger_load_seconds,
        )
        self.watch_rows(
            Family(
                "omnigate_ledger_write_seconds",
                "histogram",
                "How long a group of batches took to be written and synced.",
                buckets=WRITE_BUCKETS,
            ),
            self._read_writes,
        )
        versions = (omnigate.__version__, platform.python_version(), twisted.__version__)
        self.watch_rows(
            Family(
                "omnigate_build_info",
                "largest",
                "The versions at work.",
                ("version", "python", "twisted"),
            ),
            lambda: [(versions, 1)],
        )

    def _read_writes(self) -> Iterator[Row]:
        for bucket, count in enumerate(self._writes):
            yield (str(bucket),), count
        yield (TOTAL,), self._write_seconds

    def watch_plane(
        self,
        config_file: ConfigFile,
        reports: Reports,
        lag: ReactorLag,
        now: Callable[[], float],
    ) -> None:
        """Show what the parts of the plane count themselves that last as long as the process."""
        self.lag = lag
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
        self.watch(
            "omnigate_config_faults",
            "Faults of the config file as it is now; the last good one is in force.",
            lambda: len(config_file.faults),
        )
        self.watch(
            "omnigate_reactor_lag_seconds",
            "The longest that the reactor was held in the last minute.",
            lag.worst_seconds,
        )
        self._sources["reported"] = lambda: self._reported(reports.figures(now()))
        self.watch(
            "omnigate_data_processes",
            "Processes of data planes that reported in the last two minutes.",
            lambda: reports.processes(now()),
        )
        self.watch_rows(
            Family(
                "omnigate_upstream_state",
                "largest",
                "The worst that any data plane tells: 0 healthy, 1 degraded, 2 cooling, 3 open, "
                "4 half open.",
                ("upstream",),
            ),
            lambda: [
                ((name,), state)
                for name, state in reports.upstream_states(
                    [upstream.name for upstream in config_file.config.upstreams], now()
                ).items()
            ],
        )

    def _reported(self, figures: Mapping[str, float]) -> Iterator[Part]:
        """The figures that data planes report of themselves, of all their processes together."""
        rows: dict[Family, list[Row]] = {}
        for name, value in sorted(figures.items()):
            found = REPORTED.get(name)
            if found is not None:
                rows.setdefault(found[0], []).append((found[1], value))
            elif self._is_free(f"omnigate_data_{name}"):
                text = "A figure of the data planes, as they last reported it."
                rows[Family(f"omnigate_data_{name}", "sum", text)] = [((), value)]
        for family, some in rows.items():
            yield Part(family, some)

    def _is_free(self, name: str) -> bool:
        """Whether a figure that is not known here may be shown under a name."""
        taken = name in self._sources or name in self._planes.names
        return not taken and not name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))

    def watch_keys(self, keys: Iterable[GatewayKey], now_ms: Callable[[], int]) -> None:
        """Show how many keys there are of each kind, and how many of them expire soon.

        :param keys: looked through at each scrape.
        """

        def read() -> Iterator[Row]:
            found = Counted(key.source for key in keys)
            for source in ("file", "managed"):
                yield (source,), found[source]

        def expiring() -> float:
            now = now_ms()
            end = now + EXPIRING_MS
            return sum(1 for key in keys if now < key.expires_ms <= end and not key.disabled)

        text = "Gateway keys, of the config file and managed ones."
        self.watch_rows(Family("omnigate_keys", "sum", text, ("source",)), read)
        self.watch("omnigate_keys_expiring", "Keys that expire within seven days.", expiring)

    def watch_receipts(self, receipts: ReceiptStore) -> None:
        """Show what the receipts of attested upstreams came to."""
        receipts.judged = lambda verdict: self._verdicts.add((verdict,))
        self.watch(
            "omnigate_receipts_failed_writes_total",
            "Writings of the file of receipts that failed; they were kept in memory.",
            lambda: receipts.failed_writes,
        )

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

    def watch_certificate(self, certificate: Certificate | None) -> None:
        """Show until when the control plane's own certificate is valid.

        :param certificate: None where its port has no TLS that can be renewed.
        """
        self.certificate = certificate
        self.watch(
            "omnigate_certificate_expiry_timestamp_seconds",
            "Until when the control plane's certificate is valid.",
            lambda: None if certificate is None else certificate.expires_at,
        )
        self.watch(
            "omnigate_tls_reload_failures_total",
            "New certificates that the control plane could not serve; the one in force stayed.",
            lambda: None if certificate is None else certificate.failures,
        )

    def watch_budgets(self, budgets: BudgetWatch) -> None:
        """Show how many keys are over their budgets."""
        self.watch(
            "omnigate_soft_budget_exceeded_total",
            "Soft budgets that keys have reached, once a period each.",
            lambda: budgets.exceeded,
        )
        self.watch(
            "omnigate_keys_over_soft_budget",
            "Keys that have reached their soft budget.",
            lambda: len(budgets.over_soft),
        )
        self.watch(
            "omnigate_keys_over_budget",
            "Keys that have spent their budget, and are blocked.",
            lambda: len(budgets.blocked),
        )

    def watch_stores(self, up: Callable[[], bool], restarts: Callable[[], int]) -> None:
        """Show whether the stores are up, and how often they were started again."""
        self.watch(
            "omnigate_stores_up",
            "Whether the stores (audit log, keys, ledger) are up: 1 or 0.",
            up,
        )
        self.watch(
            "omnigate_store_restarts_total",
            "Times the stores were started again after one of them had crashed, or tried to be.",
            restarts,
        )

    def watch_ledger(self, ledger: Ledger) -> None:
        """Show what a ledger counts."""
        counters = ledger.counters

        def written() -> float | None:
            at_ms = ledger.figures.snapshot_at_ms
            return None if at_ms is None else at_ms / 1000

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
            ("snapshot_timestamp_seconds", "When the newest snapshot was written.", written),
            ("replayed_events", "Events replayed at the start.", lambda: counters.replayed),
            ("replayed_duplicates", "Lines skipped there.", lambda: counters.replay_duplicates),
            ("torn_bytes", "Bytes of a torn line cut there.", lambda: counters.torn_bytes),
            ("trouble", "Whether batches cannot be written.", lambda: ledger.trouble is not None),
        )
        for name, text, read in figures:
            self.watch(f"omnigate_ledger_{name}", text, read)

    # -- what happens

    def allow_names(self, routes: Collection[str], upstreams: Collection[str]) -> None:
        """Let the names of a config in as label values."""
        self._routes.allow(routes)
        self._upstreams.allow(upstreams)

    def recorded(self, event: UsageEvent, cost_nano: int) -> None:
        """Count one event that was written to the ledger."""
        route = self._routes.label(event.route_model)
        upstream = self._upstreams.label(event.upstream)
        self._events.add((route, upstream, f"{event.status // 100}xx"))
        plain, read, written, output = self._token_rows.get(route) or self._add_route(route)
        tokens = self._tokens.rows
        tokens[plain] += event.input_tokens
        tokens[read] += event.cached_input_tokens
        tokens[written] += event.cache_write_input_tokens
        tokens[output] += event.output_tokens
        self._costs[plain[:1]] += cost_nano

    def _add_route(self, route: str) -> tuple[Labels, ...]:
        """Show a route from its first event on, all its series at 0."""
        rows = (
            (route, "input", "none"),
            (route, "input", "read"),
            (route, "input", "write"),
            (route, "output", "none"),
        )
        for row in rows:
            self._tokens.add(row, 0)
        self._costs[route,] = 0
        self._token_rows[route] = rows
        return rows

    def refused(self, code: str, count: int) -> None:
        """Count refusals that a data plane reports."""
        self._refusals.add((counted_code(code),), count)

    def counted(self, name: str, labels: Sequence[str], growth: float) -> None:
        """Count what a data plane reports; see :meth:`.PlaneTotals.add`."""
        self._planes.add(name, labels, growth)

    def auth_failed(self, audience: str, reason: str) -> None:
        """Count a request whose credentials were refused."""
        self._auth_failures.add((audience, reason))

    def auth_failures(self) -> dict[tuple[str, str], int]:
        """Return how many were refused so far, by audience and reason."""
        return {(labels[0], labels[1]): int(n) for labels, n in self._auth_failures.rows.items()}

    def ledger_loaded(self, seconds: float) -> None:
        """Note that the ledger is ready."""
        self._ledger_load_seconds = seconds

    def ledger_gone(self) -> None:
        """Note that it is not any more."""
        self._ledger_load_seconds = None

    def wrote(self, seconds: float) -> None:
        """Note how long a write of the ledger and its sync took."""
        self._writes[bisect_left(WRITE_BUCKETS, seconds)] += 1
        self._write_seconds += seconds

    # -- a scrape

    def read(self) -> list[Part]:
        """Read everything, on the reactor's thread; what comes back changes no more."""
        return [part for read in self._sources.values() for part in read()]

    def text(self, figures: Iterable[Part], in_openmetrics: bool) -> bytes:
        """Write figures, and what the system tells of the process; slow, and for any thread."""
        return b"".join(exposition(self._families(figures), in_openmetrics))

    def _families(self, figures: Iterable[Part]) -> Iterator[Metric]:
        for part in figures:
            yield from map(family_of, parts_of(part.family, part.rows))
        for collector in self._process:
            yield from collector.collect()
