"""The alerts: each fires in its scene and is quiet while all is well; the page tells of each."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.observe import alerts
from tests.observe.alerts import ALERTS, Alert
from tests.observe.files import ALERTS_FILE, ETC, promtool, shipped
from tests.observe.names import metrics_in

_JOBS = 'omnigate_jobs_finished_total{route="picture",upstream="fal",outcome="%s"}'

#: Series of a control plane and its data planes with which all is well, as promtool has them: the
#: first value, and what each minute adds. Two hours of them.
WELL: Final[dict[str, str]] = {
    "omnigate_ledger_ready": "1+0x120",
    "omnigate_store_restarts_total": "0+0x120",
    "omnigate_ledger_trouble": "0+0x120",
    "omnigate_keys_expiring": "0+0x120",
    # Time begins at 0 there, and a month is 2.6 million seconds.
    "omnigate_data_certificate_expiry_timestamp_seconds": "2600000+0x120",
    "omnigate_data_tls_reload_failures_total": "0+0x120",
    "omnigate_audit_failed_writes_total": "0+0x120",
    "omnigate_data_processes": "2+0x120",
    "omnigate_spool_dropped_total": "0+0x120",
    "omnigate_spool_events": "3+0x120",
    "omnigate_data_usage_put_aside_total": "0+0x120",
    "omnigate_ledger_invalid_events_total": "0+0x120",
    "omnigate_ledger_unpriced_events_total": "5+0x120",
    'omnigate_upstream_state{upstream="openai"}': "0+0x120",
    'omnigate_upstream_state{upstream="spare"}': "1+0x120",
    'omnigate_requests_total{plane="data",route="fast",outcome="answered"}': "0+600x120",
    'omnigate_requests_total{plane="data",route="fast",outcome="failed"}': "0+6x120",
    _JOBS % "succeeded": "0+6x120",
    _JOBS % "canceled": "0+3x120",
    _JOBS % "provider_failed": "0+1x120",
    "omnigate_job_cost_owed_seconds": "1+0x120",
    'omnigate_job_webhooks_total{outcome="given_up"}': "4+0x120",
    'omnigate_job_webhooks_total{outcome="failed"}': "0+2x120",
    "omnigate_config_reload_failures_total": "2+0x120",
    "omnigate_ledger_failed_snapshots_total": "0+0x120",
    'omnigate_auth_failures_total{audience="admin",reason="wrong"}': "0+1x120",
    'omnigate_auth_failures_total{audience="admin",reason="missing"}': "0+99x120",
    "omnigate_reactor_lag_seconds": "0.02+0x120",
    "omnigate_data_reactor_lag_seconds": "0.03+0x120",
}


@attrs.frozen
class Scene:
    """What is otherwise than well, and what follows; the rest of the alerts are quiet.

    :ivar series: the series that differ; ``""`` of those that are not there.
    :ivar minute: when one looks.
    :ivar labels: of the alert that fires, beside its own and those of the scrape.
    :ivar value: what the summary tells.
    """

    alert: str
    series: dict[str, str]
    minute: int = 90
    labels: dict[str, str] = attrs.Factory(dict)
    value: str = ""
    of_scrape: tuple[str, ...] = ("job", "instance")


_FAST = 'omnigate_requests_total{plane="data",route="fast",outcome="%s"}'
_STATE = 'omnigate_upstream_state{upstream="openai"}'
_LOST = "0+0x85 1+0x35"

SCENES: Final = (
    Scene("OmnigateControlPlaneAway", dict.fromkeys(WELL, ""), of_scrape=()),
    Scene("OmnigateLedgerNotReady", {"omnigate_ledger_ready": "0+0x120"}),
    Scene("OmnigateStoresCrash", {"omnigate_store_restarts_total": _LOST}),
    Scene("OmnigateLedgerTrouble", {"omnigate_ledger_trouble": "0+0x85 1+0x35"}),
    Scene("OmnigateAuditNotWritten", {"omnigate_audit_failed_writes_total": _LOST}),
    Scene("OmnigateNoDataPlane", {"omnigate_data_processes": "2+0x80 0+0x40"}),
    Scene("OmnigateUsageDropped", {"omnigate_spool_dropped_total": _LOST}),
    Scene("OmnigateSpoolGrows", {"omnigate_spool_events": "0+100x120"}, value="9000"),
    Scene("OmnigateUsagePutAside", {"omnigate_data_usage_put_aside_total": _LOST}),
    Scene("OmnigateUsagePutAside", {"omnigate_ledger_invalid_events_total": _LOST}),
    Scene("OmnigateUnpricedUsage", {"omnigate_ledger_unpriced_events_total": _LOST}),
    Scene("OmnigateCredentialRefused", {_STATE: "3+0x120"}, labels={"upstream": "openai"}),
    Scene("OmnigateUpstreamFails", {_STATE: "2+0x120"}, labels={"upstream": "openai"}),
    Scene("OmnigateUpstreamFails", {_STATE: "4+0x120"}, labels={"upstream": "openai"}),
    Scene(
        "OmnigateRequestsFail",
        {_FAST % "answered": "0+60x120", _FAST % "failed": "0+20x120"},
        value="25%",
        of_scrape=("job",),
    ),
    Scene(
        "OmnigateJobsFail",
        {_JOBS % "succeeded": "0+2x120", _JOBS % "canceled": "0+0x120"},
        value="33.33%",
        of_scrape=("job",),
    ),
    Scene(
        "OmnigateJobCostOwed",
        {"omnigate_job_cost_owed_seconds": "0+0x79 0+60x40"},
        minute=92,
        value="12m 0s",
    ),
    Scene(
        "OmnigateWebhooksGivenUp",
        {'omnigate_job_webhooks_total{outcome="given_up"}': _LOST},
        labels={"outcome": "given_up"},
    ),
    Scene("OmnigateConfigRefused", {"omnigate_config_reload_failures_total": _LOST}),
    Scene("OmnigateKeysExpire", {"omnigate_keys_expiring": "3+0x120"}, value="3"),
    Scene(
        "OmnigateCertificateExpires",
        {"omnigate_data_certificate_expiry_timestamp_seconds": "600000+0x120"},
    ),
    Scene("OmnigateCertificateExpires", {"omnigate_data_tls_reload_failures_total": _LOST}),
    Scene("OmnigateSnapshotsFail", {"omnigate_ledger_failed_snapshots_total": _LOST}),
    Scene(
        "OmnigateWrongCredentials",
        {'omnigate_auth_failures_total{audience="admin",reason="wrong"}': "0+9x120"},
        labels={"audience": "admin"},
    ),
    Scene("OmnigateLoopHeld", {"omnigate_reactor_lag_seconds": "0.75+0x120"}, value="750ms"),
    Scene("OmnigateLoopHeld", {"omnigate_data_reactor_lag_seconds": "0.75+0x120"}, value="750ms"),
)

#: What comes and goes by itself, or is too little to be woken for.
QUIET: Final[tuple[dict[str, str], ...]] = (
    {},
    {"omnigate_ledger_ready": "1+0x87 0+0x2 1+0x31"},
    {"omnigate_spool_events": "2000+0x120"},
    {_STATE: "0+0x87 2+0x2 0+0x31"},
    {_STATE: "1+0x120"},
    # One of two requests fails, and there are no more.
    {_FAST % "answered": "0+0x89 1+0x31", _FAST % "failed": "0+0x89 1+0x31"},
    # Two jobs, and both fail.
    {
        _JOBS % "succeeded": "0+0x120",
        _JOBS % "canceled": "0+0x120",
        _JOBS % "provider_failed": "0+0x80 2+0x40",
    },
    {"omnigate_data_processes": "2+0x88 0+0x1 2+0x31"},
)

_SCRAPE: Final = {"job": "omnigate", "instance": "control"}


def by_name(name: str) -> Alert:
    (alert,) = (alert for alert in ALERTS if alert.name == name)
    return alert


def _series(changed: dict[str, str]) -> list[dict[str, str]]:
    """The series of a scene, each with the labels of its scrape."""
    found = []
    for name, values in {**WELL, **changed}.items():
        if values:
            metric, _, labels = name.rstrip("}").partition("{")
            every = ",".join(
                filter(None, (labels, *(f'{label}="{value}"' for label, value in _SCRAPE.items())))
            )
            found.append({"series": f"{metric}{{{every}}}", "values": values})
    return found


def _summary(scene: Scene) -> str:
    text = by_name(scene.alert).summary
    for name, value in scene.labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    for pipe in ("", " | humanizePercentage", " | humanizeDuration"):
        text = text.replace(f"{{{{ $value{pipe} }}}}", scene.value)
    return text


def _expected(scene: Scene) -> dict[str, Any]:
    labels = {**{name: _SCRAPE[name] for name in scene.of_scrape}, **scene.labels}
    return {
        "exp_labels": {"severity": by_name(scene.alert).severity, **labels},
        "exp_annotations": {"summary": _summary(scene), "runbook": alerts.RUNBOOK},
    }


def _test(changed: dict[str, str], minute: int, scene: Scene | None) -> dict[str, Any]:
    """A test of promtool: all alerts at one minute, of which one or none fires."""
    return {
        "interval": "1m",
        "input_series": _series(changed),
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": alert.name,
                "exp_alerts": [_expected(scene)]
                if scene is not None and scene.alert == alert.name
                else [],
            }
            for alert in ALERTS
        ],
    }


class FileTests(SynchronousTestCase):
    def test_made_anew(self) -> None:
        """The file is what its source makes; ``make observe`` writes it."""
        self.assertEqual(alerts.text(), shipped(ALERTS_FILE))

    def test_promtool_reads_it(self) -> None:
        shipped(ALERTS_FILE)
        status, said = promtool("check", "rules", str(ALERTS_FILE))
        self.assertEqual(0, status, said)
        self.assertIn(f"{len(ALERTS)} rules found", said)


class RuleTests(SynchronousTestCase):
    def test_every_alert_has_a_scene(self) -> None:
        self.assertEqual(
            [alert.name for alert in ALERTS], list(dict.fromkeys(s.alert for s in SCENES))
        )

    def test_all_is_well_covers_all(self) -> None:
        """Every metric that an alert names is among those of a plane that is well."""
        known = {name.partition("{")[0] for name in WELL}
        self.assertEqual(known, {name for alert in ALERTS for name in metrics_in(alert.expr)})

    def test_scenes(self) -> None:
        """Each alert fires in its scenes, with its words, and no other one does."""
        shipped(ALERTS_FILE)
        tests = [_test(scene.series, scene.minute, scene) for scene in SCENES]
        tests += [_test(changed, minute, None) for changed in QUIET for minute in (60, 91)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "test.json")
            path.write_text(json.dumps({"rule_files": [str(ALERTS_FILE)], "tests": tests}))
            status, said = promtool("test", "rules", str(path))
        self.assertEqual(0, status, said)


class PageTests(SynchronousTestCase):
    """What to do about them."""

    def test_every_alert_has_its_row(self) -> None:
        """The page that the runbook names has a row for each alert, and for no other."""
        path, _, heading = alerts.RUNBOOK.partition("#")
        page = ETC.parent / path
        if not page.is_file():
            raise SkipTest("the pages are in the checkout only, not in the installed package")
        text = page.read_text("utf-8")
        section = text.partition(f"\n## {heading.title()}\n")[2].partition("\n## ")[0]
        rows = [
            line.split("`")[1] for line in section.splitlines() if line.startswith("| `Omnigate")
        ]
        self.assertEqual([alert.name for alert in ALERTS], rows)
