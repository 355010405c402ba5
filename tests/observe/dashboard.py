"""The dashboard of ``etc/grafana.json``, out of what each panel asks.

It needs one scrape, that of the control plane, which tells of the data planes as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import attrs

#: Units as Grafana calls them.
SECONDS, BYTES, DOLLARS, SHORT, PER_SECOND, RATIO, TIME = (
    "s",
    "bytes",
    "currencyUSD",
    "short",
    "reqps",
    "percentunit",
    "dateTimeAsIso",
)

#: Columns of a dashboard, and how high a panel is.
WIDTH: Final = 24
HEIGHT: Final = 8

_SOURCE: Final = {"type": "prometheus", "uid": "${ds}"}

#: What each state of ``omnigate_upstream_state`` is shown as.
STATES: Final = (
    ("healthy", "green"),
    ("degraded", "yellow"),
    ("cooling", "orange"),
    ("open", "red"),
    ("half open", "blue"),
)


@attrs.frozen
class Query:
    """One line of a panel.

    :ivar expr: in PromQL; ``JOB`` stands for the filter of every series.
    :ivar legend: what it is called, with labels as Grafana writes them.
    """

    expr: str
    legend: str


@attrs.frozen
class Panel:
    """One picture."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    text: str = ""


@attrs.frozen
class Section:
    """A row of pictures under a heading."""

    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, labels: str = "", by: str = "") -> str:
    """The growth of a counter, by labels."""
    grouped = f"sum by ({by}) " if by else "sum "
    filters = f"JOB, {labels}" if labels else "JOB"
    return f"{grouped}(rate({metric}{{{filters}}}[$__rate_interval]))"


def quantiles(metric: str) -> tuple[Query, ...]:
    """The median and the slow ends of a histogram, by the endpoints that are asked."""
    buckets = rate(f"{metric}_bucket", by="le, endpoint")
    return tuple(
        Query(f"histogram_quantile({share}, {buckets})", f"{{{{endpoint}}}} p{name}")
        for share, name in ((0.5, 50), (0.95, 95), (0.99, 99))
    )


def plain(*metrics: str, legend: str = "") -> tuple[Query, ...]:
    """Figures as they are."""
    return tuple(Query(f"{metric}{{JOB}}", legend or _words(metric)) for metric in metrics)


def rates(*metrics: str) -> tuple[Query, ...]:
    """The growth of some counters."""
    return tuple(Query(rate(metric), _words(metric)) for metric in metrics)


def _words(metric: str) -> str:
    name = metric.removeprefix("omnigate_").removesuffix("_total")
    for unit in ("_seconds", "_bytes"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")


ROUTE: Final = 'route=~"$route"'
UPSTREAM: Final = 'upstream=~"$upstream"'

SECTIONS: Final = (
    Section(
        "Traffic and errors",
        (
            Panel(
                "Requests by outcome",
                PER_SECOND,
                (Query(rate("omnigate_requests_total", ROUTE, "outcome"), "{{outcome}}"),),
            ),
            Panel(
                "Requests by protocol and status",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_requests_total", ROUTE, "protocol, status_class"),
                        "{{protocol}} {{status_class}}",
                    ),
                ),
            ),
            Panel(
                "Share that failed or broke off",
                RATIO,
                (
                    Query(
                        rate("omnigate_requests_total", f'{ROUTE}, outcome="failed"')
                        + " / "
                        + rate("omnigate_requests_total", ROUTE),
                        "failed",
                    ),
                    Query(
                        rate("omnigate_requests_total", f'{ROUTE}, outcome="broken_off"')
                        + " / "
                        + rate("omnigate_requests_total", ROUTE),
                        "broken off",
                    ),
                ),
            ),
            Panel(
                "Under way",
                SHORT,
                plain(
                    "omnigate_requests_in_flight",
                    "omnigate_data_client_connections",
                    "omnigate_data_abandoned_answers",
                    "omnigate_data_processes",
                ),
            ),
        ),
    ),
    Section(
        "Latency",
        (
            Panel("Whole answer", SECONDS, quantiles("omnigate_request_duration_seconds")),
            Panel(
                "First byte of a stream",
                SECONDS,
                quantiles("omnigate_time_to_first_byte_seconds"),
            ),
        ),
    ),
    Section(
        "Tokens and cost",
        (
            Panel(
                "Tokens a second",
                SHORT,
                (
                    Query(
                        rate("omnigate_tokens_total", ROUTE, "direction, cache"),
                        "{{direction}}, cache {{cache}}",
                    ),
                ),
            ),
            Panel(
                "Cost an hour, by route",
                DOLLARS,
                (Query(f"3600 * {rate('omnigate_cost_usd_total', ROUTE, 'route')}", "{{route}}"),),
            ),
            Panel(
                "Events recorded",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_usage_events_total", f"{ROUTE}, {UPSTREAM}", "upstream"),
                        "{{upstream}}",
                    ),
                ),
            ),
            Panel(
                "Response caches",
                PER_SECOND,
                (Query(rate("omnigate_data_cache_lookups_total", by="result"), "{{result}}"),),
            ),
        ),
    ),
    Section(
        "Upstreams",
        (
            Panel(
                "State",
                SHORT,
                (Query(f"omnigate_upstream_state{{JOB, {UPSTREAM}}}", "{{upstream}}"),),
                kind="state-timeline",
                text="The worst that any process of a data plane tells.",
            ),
            Panel(
                "Attempts",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_upstream_attempts_total", UPSTREAM, "upstream, outcome"),
                        "{{upstream}} {{outcome}}",
                    ),
                ),
            ),
        ),
    ),
    Section(
        "Media jobs",
        (
            Panel(
                "Ended, by outcome",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_jobs_finished_total", ROUTE, "outcome"),
                        "{{outcome}}",
                    ),
                ),
            ),
            Panel(
                "Share that failed, by route",
                RATIO,
                (
                    Query(
                        rate(
                            "omnigate_jobs_finished_total",
                            f'{ROUTE}, outcome!~"succeeded|canceled"',
                            "route",
                        )
                        + " / "
                        + rate("omnigate_jobs_finished_total", ROUTE, "route"),
                        "{{route}}",
                    ),
                ),
            ),
            Panel(
                "From creation to end",
                SECONDS,
                tuple(
                    Query(
                        f"histogram_quantile({share}, "
                        f"{rate('omnigate_job_duration_seconds_bucket', by='le, upstream')})",
                        f"{{{{upstream}}}} p{name}",
                    )
                    for share, name in ((0.5, 50), (0.95, 95))
                ),
            ),
            Panel(
                "Queued and running",
                SHORT,
                (
                    Query(
                        'omnigate_jobs{JOB, state=~"queued|running"}',
                        "{{state}}",
                    ),
                    Query("omnigate_job_webhooks_pending{JOB}", "webhooks pending"),
                    Query("omnigate_job_costs_owed{JOB}", "costs owed"),
                ),
            ),
            Panel(
                "Attempts at providers",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_job_attempts_total", by="upstream, outcome"),
                        "{{upstream}} {{outcome}}",
                    ),
                ),
            ),
            Panel(
                "Requests to other servers that failed",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_outbound_requests_total", 'outcome!="2xx"', "kind, outcome"),
                        "{{kind}} {{outcome}}",
                    ),
                ),
            ),
            Panel(
                "Webhooks",
                PER_SECOND,
                (Query(rate("omnigate_job_webhooks_total", by="outcome"), "{{outcome}}"),),
            ),
            Panel(
                "Outputs stored, bytes a second",
                BYTES,
                (Query(rate("omnigate_job_output_bytes_total", by="storage"), "{{storage}}"),),
            ),
        ),
    ),
    Section(
        "Limits and refusals",
        (
            Panel(
                "Refusals by reason",
                PER_SECOND,
                (Query(rate("omnigate_refusals_total", by="reason") + " > 0", "{{reason}}"),),
            ),
            Panel(
                "Credentials refused by the control plane",
                PER_SECOND,
                (
                    Query(
                        rate("omnigate_auth_failures_total", by="audience, reason"),
                        "{{audience}} {{reason}}",
                    ),
                ),
            ),
            Panel(
                "Keys",
                SHORT,
                (
                    *plain("omnigate_keys", legend="{{source}}"),
                    *plain(
                        "omnigate_keys_over_budget",
                        "omnigate_keys_over_soft_budget",
                        "omnigate_keys_expiring",
                    ),
                ),
            ),
        ),
    ),
    Section(
        "Spool and ledger",
        (
            Panel("Events that wait in spools", SHORT, plain("omnigate_spool_events")),
            Panel("What they take", BYTES, plain("omnigate_spool_bytes")),
            Panel(
                "Should not happen",
                SHORT,
                rates(
                    "omnigate_spool_dropped_total",
                    "omnigate_data_usage_put_aside_total",
                    "omnigate_data_delivery_failures_total",
                    "omnigate_data_config_poll_failures_total",
                    "omnigate_data_access_log_dropped_total",
                    "omnigate_data_tls_reload_failures_total",
                    "omnigate_store_restarts_total",
                    "omnigate_ledger_invalid_events_total",
                    "omnigate_ledger_unpriced_events_total",
                    "omnigate_ledger_failed_writes_total",
                    "omnigate_ledger_failed_snapshots_total",
                    "omnigate_config_reload_failures_total",
                    "omnigate_audit_failed_writes_total",
                    "omnigate_job_failed_writes_total",
                ),
            ),
            Panel(
                "Write and sync",
                SECONDS,
                tuple(
                    Query(
                        f"histogram_quantile({share}, "
                        f"{rate('omnigate_ledger_write_seconds_bucket', by='le')})",
                        name,
                    )
                    for share, name in ((0.5, "p50"), (0.99, "p99"))
                ),
            ),
            Panel(
                "Age of the newest snapshot",
                SECONDS,
                (Query("time() - omnigate_ledger_snapshot_timestamp_seconds{JOB}", "age"),),
            ),
            Panel(
                "Ready, and in trouble",
                SHORT,
                plain("omnigate_stores_up", "omnigate_ledger_ready", "omnigate_ledger_trouble"),
            ),
        ),
    ),
    Section(
        "Processes",
        (
            Panel(
                "Longest hold of a loop in a minute",
                SECONDS,
                plain("omnigate_reactor_lag_seconds", "omnigate_data_reactor_lag_seconds"),
            ),
            Panel(
                "Memory for requests",
                BYTES,
                plain("omnigate_request_memory_bytes", legend="{{state}}"),
            ),
            Panel(
                "The control plane",
                BYTES,
                plain("process_resident_memory_bytes", "omnigate_ledger_active_bytes"),
            ),
            Panel(
                "The control plane's time on a core",
                RATIO,
                (Query("rate(process_cpu_seconds_total{JOB}[$__rate_interval])", "core"),),
            ),
        ),
    ),
)


def dashboard(sections: Sequence[Section] = SECTIONS) -> dict[str, Any]:
    """Make the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    ids = count(1)
    top = 0
    for section in sections:
        panels.append(
            {
                "id": next(ids),
                "type": "row",
                "title": section.title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            }
        )
        top += 1
        # Two or three beside each other, whichever leaves fewer gaps.
        columns = 3 if len(section.panels) % 3 == 0 else 2
        for at, panel in enumerate(section.panels):
            if at and at % columns == 0:
                top += HEIGHT
            place = {
                "x": at % columns * (WIDTH // columns),
                "y": top,
                "w": WIDTH // columns,
                "h": HEIGHT,
            }
            panels.append(_panel(panel, next(ids), place))
        top += HEIGHT
    return {
        "uid": "omnigate",
        "title": "omnigate",
        "description": "Both planes, by one scrape of the control plane.",
        "tags": ["omnigate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "templating": {
            "list": [
                {"name": "ds", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _choice("job", "Job", "omnigate_ledger_ready", "job", several=False),
                _choice("route", "Route", 'omnigate_requests_total{job="$job"}', "route"),
                _choice("upstream", "Upstream", 'omnigate_upstream_state{job="$job"}', "upstream"),
            ]
        },
        "annotations": {"list": []},
        "panels": panels,
    }


def _choice(
    name: str, label: str, metric: str, values: str, several: bool = True
) -> dict[str, Any]:
    choice = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({metric}, {values})", "refId": name},
        "definition": f"label_values({metric}, {values})",
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
    }
    if several:
        choice |= {"allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return choice


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    options: dict[str, Any] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}
    }
    if panel.kind == "state-timeline":
        defaults["mappings"] = [
            {
                "type": "value",
                "options": {
                    str(state): {"text": text, "color": color, "index": state}
                    for state, (text, color) in enumerate(STATES)
                },
            }
        ]
    else:
        options["tooltip"] = {"mode": "multi", "sort": "desc"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _SOURCE,
                "expr": query.expr.replace("JOB", 'job="$job"'),
                "legendFormat": query.legend,
            }
            for at, query in enumerate(panel.queries)
        ],
    }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
