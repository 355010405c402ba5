"""The alerts of ``etc/alerts.yml``: what each asks, and what the page on observing says of it.

They need one scrape, that of the control plane, which tells of the data planes as well. Each has a
scene in which it fires (:mod:`tests.observe.test_alerts`), and a row on the page.
"""

from __future__ import annotations

import json
from typing import Final, Literal

import attrs

#: Where it is told what to do.
RUNBOOK: Final = "docs/observe.md#alerts"

HEAD: Final = """\
# Alerts for Prometheus: name this file in its rule_files. What to do about each stands in
# docs/observe.md under "Alerts". This file is made by "make observe"; change it there.
"""


@attrs.frozen
class Alert:
    """One rule.

    :ivar expr: in PromQL.
    :ivar lasting: how long it must be so.
    :ivar summary: one line, with labels as Prometheus writes them.
    """

    name: str
    severity: Literal["critical", "warning"]
    expr: str
    lasting: str
    summary: str


ALERTS: Final = (
    Alert(
        "OmnigateControlPlaneAway",
        "critical",
        "absent(omnigate_ledger_ready)",
        "3m",
        "No control plane is scraped: it is down, or its metrics cannot be read.",
    ),
    Alert(
        "OmnigateLedgerNotReady",
        "critical",
        "omnigate_ledger_ready == 0",
        "5m",
        "The control plane runs, and its ledger is not loaded.",
    ),
    Alert(
        "OmnigateStoresCrash",
        "warning",
        "increase(omnigate_store_restarts_total[10m]) > 0",
        "0m",
        "The control plane's stores broke and were opened anew.",
    ),
    Alert(
        "OmnigateLedgerTrouble",
        "critical",
        "omnigate_ledger_trouble == 1",
        "1m",
        "The control plane cannot write usage events; they wait in the data planes.",
    ),
    Alert(
        "OmnigateAuditNotWritten",
        "critical",
        "increase(omnigate_audit_failed_writes_total[10m]) > 0",
        "0m",
        "The audit log cannot be written, so that nothing can be changed.",
    ),
    Alert(
        "OmnigateNoDataPlane",
        "critical",
        "omnigate_data_processes == 0 and on (job, instance) omnigate_ledger_ready == 1",
        "2m",
        "No data plane has reported for four minutes.",
    ),
    Alert(
        "OmnigateUsageDropped",
        "critical",
        "increase(omnigate_spool_dropped_total[10m]) > 0",
        "0m",
        "Usage events were dropped since a spool is full: that money is lost.",
    ),
    Alert(
        "OmnigateSpoolGrows",
        "warning",
        "omnigate_spool_events > 1000 and deriv(omnigate_spool_events[10m]) > 0",
        "10m",
        "Usage events pile up in the data planes: {{ $value }} wait.",
    ),
    Alert(
        "OmnigateUsagePutAside",
        "warning",
        "increase(omnigate_data_usage_put_aside_total[1h]) > 0 or "
        "increase(omnigate_ledger_invalid_events_total[1h]) > 0",
        "0m",
        "Usage events were refused for good.",
    ),
    Alert(
        "OmnigateUnpricedUsage",
        "warning",
        "increase(omnigate_ledger_unpriced_events_total[1h]) > 0",
        "0m",
        "A model without a price is in use: it is billed at $0.",
    ),
    Alert(
        "OmnigateCredentialRefused",
        "critical",
        "omnigate_upstream_state == 3",
        "2m",
        "Upstream {{ $labels.upstream }} refuses the gateway's credential, or there is none.",
    ),
    Alert(
        "OmnigateUpstreamFails",
        "warning",
        "omnigate_upstream_state == 2 or omnigate_upstream_state == 4",
        "5m",
        "All models of upstream {{ $labels.upstream }} fail.",
    ),
    Alert(
        "OmnigateRequestsFail",
        "warning",
        'sum by (job) (rate(omnigate_requests_total{outcome="failed"}[5m])) / '
        "sum by (job) (rate(omnigate_requests_total[5m])) > 0.05 and "
        "sum by (job) (rate(omnigate_requests_total[5m])) > 0.1",
        "10m",
        "{{ $value | humanizePercentage }} of the requests fail.",
    ),
    Alert(
        "OmnigateJobsFail",
        "warning",
        "sum by (job) (increase(omnigate_jobs_finished_total"
        '{outcome!~"succeeded|canceled"}[30m])) / '
        "sum by (job) (increase(omnigate_jobs_finished_total[30m])) > 0.2 and "
        "sum by (job) (increase(omnigate_jobs_finished_total[30m])) >= 5",
        "5m",
        "{{ $value | humanizePercentage }} of the media jobs fail.",
    ),
    Alert(
        "OmnigateJobCostOwed",
        "critical",
        "omnigate_job_cost_owed_seconds > 600",
        "0m",
        "The ledger has lacked the cost of a media job for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "OmnigateWebhooksGivenUp",
        "warning",
        'increase(omnigate_job_webhooks_total{outcome="given_up"}[1h]) > 0',
        "0m",
        "Webhooks of media jobs were given up: their receivers did not take them.",
    ),
    Alert(
        "OmnigateConfigRefused",
        "warning",
        "increase(omnigate_config_reload_failures_total[10m]) > 0",
        "0m",
        "The config file has faults: the last good one stays in force.",
    ),
    Alert(
        "OmnigateKeysExpire",
        "warning",
        "omnigate_keys_expiring > 0",
        "0m",
        "{{ $value }} gateway keys expire within seven days.",
    ),
    Alert(
        "OmnigateCertificateExpires",
        "warning",
        "omnigate_data_certificate_expiry_timestamp_seconds - time() < 604800 or "
        "increase(omnigate_data_tls_reload_failures_total[1h]) > 0",
        "0m",
        "The certificate of a data plane ends soon, or a new one could not be served.",
    ),
    Alert(
        "OmnigateSnapshotsFail",
        "warning",
        "increase(omnigate_ledger_failed_snapshots_total[1h]) > 0",
        "0m",
        "The ledger's snapshots cannot be written, so that the next start takes longer.",
    ),
    Alert(
        "OmnigateWrongCredentials",
        "warning",
        "sum by (job, instance, audience) "
        '(increase(omnigate_auth_failures_total{reason!="missing"}[10m])) > 20',
        "0m",
        "Somebody tries wrong credentials at the control plane ({{ $labels.audience }}).",
    ),
    Alert(
        "OmnigateLoopHeld",
        "warning",
        "omnigate_reactor_lag_seconds > 0.5 or omnigate_data_reactor_lag_seconds > 0.5",
        "10m",
        "The loop of a plane is held for {{ $value | humanizeDuration }} at a time.",
    ),
)


def text() -> str:
    """The file; a text of JSON is one of YAML as well."""
    lines = [HEAD + "groups:", "  - name: omnigate", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expr)}",
            f"        for: {alert.lasting}",
            f"        labels: {{ severity: {alert.severity} }}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          runbook: {json.dumps(RUNBOOK)}",
        ]
    return "\n".join(lines) + "\n"
