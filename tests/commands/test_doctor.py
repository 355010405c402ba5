"""Tests for the judgements of omnigate doctor, over facts, and for how they are told."""

import contextlib
import csv
import io
import json
import os
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import cli
from omnigate.commands import doctor_facts
from omnigate.commands.doctor_checks import CHECKS, examine, healthy
from omnigate.commands.doctor_facts import (
    Answer,
    Config,
    Disk,
    Facts,
    UpstreamFact,
    fetch,
    samples,
)
from omnigate.commands.doctor_finding import Finding
from omnigate.commands.doctor_media import media_routes, named_secrets
from tests.test_admin_client import TOKEN, AdminServerTestCase, FakeAdmin

ALIVE = Answer(200, '{"status":"ok"}', skew=0.2)
READY = Answer(200, '{"status":"ready"}')
VERSION = 'omnigate_build_info{platform="x",version="0.1.0",python="3"}'
CONTROL = {VERSION: 1.0, "omnigate_ledger_ready": 1.0, "omnigate_ledger_trouble": 0.0}
DATA = {
    VERSION: 1.0,
    "omnigate_data_config_last_poll_timestamp_seconds": 99_999_999.0,
    "omnigate_spool_events": 3.0,
    "omnigate_spool_dropped_total": 0.0,
    "omnigate_data_missing_credentials": 0.0,
    'omnigate_data_upstream_credential_refused{upstream="openai"}': 0.0,
}
UPSTREAM = UpstreamFact("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", held=True)
WELL = Facts(
    control_live=ALIVE,
    control_ready=READY,
    admin=Answer(200, "{}"),
    internal=Answer(200, "{}"),
    control_metrics=CONTROL,
    data_live=ALIVE,
    data_ready=ALIVE,
    metrics_url="http://127.0.0.1:9464",
    data_metrics=DATA,
    data_settings=True,
    config=Config("/etc/omnigate/omnigate.toml", True, (), 3, (UPSTREAM,)),
    disks=(Disk("control", "/c", True, 2**40, 2**41), Disk("data", "/d", True, 2**40, 2**41)),
    now=100_000_000.0,
)
DOWN = Answer(error="Connection refused")


ANSWERS = st.builds(
    Answer,
    st.sampled_from((0, 200, 204, 302, 401, 403, 404, 429, 500, 503)),
    st.sampled_from(("", "[]", '{"status":"ok"}', '{"reason":1}', '{"detail":"x"}')) | st.text(),
    st.none() | st.text(min_size=1),
    st.none() | st.floats(-1e9, 1e9),
)
SAMPLES = st.dictionaries(
    st.sampled_from([*CONTROL, *DATA, VERSION.replace("0.1.0", "0.2.0")]),
    st.floats(-1e12, 1e12),
)
ANY: dict[str, Any] = {
    "control_live": ANSWERS,
    "control_ready": ANSWERS,
    "data_live": ANSWERS,
    "data_ready": ANSWERS,
    "admin": st.none() | ANSWERS,
    "admin_fault": st.none() | st.text(min_size=1),
    "internal": st.none() | ANSWERS,
    "internal_fault": st.none() | st.text(min_size=1),
    "tokens_differ": st.booleans(),
    "control_metrics": st.none() | SAMPLES,
    "data_metrics": st.none() | SAMPLES,
    "metrics_url": st.none() | st.just("http://127.0.0.1:9464"),
    "data_settings": st.booleans(),
    "config": st.none()
    | st.sampled_from((WELL.config, Config("f", True), Config("f", False, ("x",)))),
    "disks": st.sampled_from((WELL.disks, (), (Disk("data", "/d", False),))),
    "now": st.floats(0, 1e12),
}


class CheckTests(SynchronousTestCase):
    """Each judgement."""

    def found(self, check: str, **changes: Any) -> list[Finding]:
        """What is found of one thing where some facts are others."""
        return [f for f in examine(attrs.evolve(WELL, **changes)) if f.check == check]

    def judged(self, check: str, state: str, words: str, **changes: Any) -> None:
        """Some facts are judged so, and what is no good has a remedy."""
        findings = self.found(check, **changes)
        self.assertIn((state, True), [(f.state, words in f.text) for f in findings], findings)
        for finding in findings:
            if finding.state in ("fault", "warning"):
                self.assertTrue(finding.remedy, finding)

    def test_all_is_well(self) -> None:
        """Each thing is looked at once, and nothing found."""
        findings = examine(WELL)
        self.assertEqual({finding.state for finding in findings}, {"ok"}, findings)
        self.assertEqual(len({finding.check for finding in findings}), len(findings))
        self.assertTrue(healthy(findings))

    def test_everything_is_down(self) -> None:
        """Facts of nothing are judged, too: what is down is told, and nothing made up."""
        findings = examine(Facts(control_live=DOWN, control_ready=DOWN, data_live=DOWN))
        self.assertEqual([f.check for f in findings], ["control plane", "data plane"])
        self.assertFalse(healthy(findings))
        for check in CHECKS:
            for finding in check(Facts()):
                self.assertNotEqual(finding.state, "ok", finding)

    def test_planes(self) -> None:
        """Down, foreign, or not ready, each with its own remedy."""
        for plane in ("control", "data"):
            self.judged(f"{plane} plane", "fault", "Connection refused", **{f"{plane}_live": DOWN})
            other = Answer(200, "<html>")
            self.judged(f"{plane} plane", "fault", "something else", **{f"{plane}_live": other})
        loading = Answer(503, '{"detail":"the ledger\'s disk is full"}')
        self.judged("control plane", "fault", "disk is full", control_ready=loading)
        self.assertIn("disk", self.found("control plane", control_ready=loading)[0].remedy)
        waiting = Answer(503, '{"status":"unavailable","reason":"no configuration yet"}')
        self.judged("data plane", "fault", "no configuration yet", data_ready=waiting)
        self.assertIn(
            "OMNIGATE_INTERNAL_TOKEN", self.found("data plane", data_ready=waiting)[0].remedy
        )

    def test_tokens(self) -> None:
        """Wrong, locked out, unreadable, not known."""
        for check, fact in (("admin token", "admin"), ("internal token", "internal")):
            self.judged(check, "fault", "is not the control plane's", **{fact: Answer(401, "{}")})
            self.judged(check, "warning", "too many", **{fact: Answer(429, "{}")})
            self.judged(check, "note", "was not judged", **{fact: Answer(503, "{}")})
            self.judged(check, "fault", "answers 404", **{fact: Answer(404, "")})
            self.judged(check, "fault", "could not be tried", **{fact: DOWN})
            self.judged(check, "fault", "no such file", **{f"{fact}_fault": "no such file"})
        self.judged("admin token", "warning", "not known here", admin=None)
        self.judged("internal token", "note", "not known here", internal=None)
        self.judged("internal token", "fault", "do not agree", tokens_differ=True)

    def test_config(self) -> None:
        """Faults of the file, no routes, and a data plane that does not hear of it."""
        faults = Config("f.toml", True, ("a: bad", "b: bad"), 3)
        self.judged("config", "fault", "has 2 faults, so an older", config=faults)
        self.judged(
            "config", "fault", "f.toml: a: bad", config=Config("f.toml", False, ("a: bad",))
        )
        self.judged("config", "warning", "no routes", config=Config("f.toml", True))
        polled = "omnigate_data_config_last_poll_timestamp_seconds"
        told = {**DATA, polled: WELL.now - 600}
        self.judged("config in force", "fault", "600 s ago", data_metrics=told)
        self.judged("config in force", "fault", "never", data_metrics={**DATA, polled: 0.0})
        # By the clock of the data plane, whatever ours says.
        self.judged(
            "config in force", "ok", "has", now=5000.0, data_live=attrs.evolve(ALIVE, skew=-4000)
        )

    def test_versions_and_clocks(self) -> None:
        """Both planes against each other, and against the machine that asks."""
        other = {VERSION.replace("0.1.0", "0.2.0"): 1.0}
        self.judged("versions", "warning", "is 0.1.0, the data plane 0.2.0", data_metrics=other)
        ahead, far = attrs.evolve(ALIVE, skew=10.0), attrs.evolve(ALIVE, skew=-100.0)
        self.judged("clocks", "warning", "10 s apart", data_live=ahead)
        self.judged("clocks", "fault", "110 s apart", data_live=ahead, control_live=far)
        self.judged("clocks", "warning", "ahead of ours", data_live=ahead, control_live=ahead)
        self.judged("clocks", "warning", "100 s behind ours", data_live=DOWN, control_live=far)

    def test_room(self) -> None:
        """Disks, the spool, the ledger."""
        for free, state in ((2**20, "fault"), (2**29, "warning"), (2**31, "ok")):
            disk = Disk("data", "/d", True, free, 2**40)
            self.judged("disk of data", state, "MiB free of 1,048,576 at /d", disks=(disk,))
        self.judged("disk of data", "note", "not on this", disks=(Disk("data", "/d", False),))
        for count, state in ((9_999, "ok"), (10_000, "warning"), (50_000, "fault")):
            told = {**DATA, "omnigate_spool_events": float(count)}
            self.judged("usage", state, f"{count:,} events", data_metrics=told)
        lost = {**DATA, "omnigate_spool_dropped_total": 7.0}
        self.judged("usage", "fault", "7 events were dropped", data_metrics=lost)
        self.judged("usage", "warning", "no data plane has reported", data_metrics=None)
        reported = {**CONTROL, "omnigate_spool_events": 1.0, "omnigate_spool_dropped": 0.0}
        self.judged(
            "usage", "ok", "1 event to be sent", data_metrics=None, control_metrics=reported
        )
        for name, value in (("trouble", 1.0), ("ready", 0.0)):
            told = {**CONTROL, f"omnigate_ledger_{name}": value}
            self.judged("ledger", "fault", "", control_metrics=told)

    def test_certificate(self) -> None:
        """Valid for long, for days, or no more; a port without one is no finding."""
        name, day = "omnigate_data_certificate_expiry_timestamp_seconds", 86_400
        for days, state in ((60, "ok"), (13, "warning"), (0, "fault"), (-1, "fault")):
            told = {**DATA, name: WELL.now + days * day}
            self.judged("certificate", state, "the public port's", data_metrics=told, now=WELL.now)
        self.assertEqual(self.found("certificate", data_metrics={**DATA, name: 0.0}), [])

    def test_credentials(self) -> None:
        """Missing in the environment, refused by the provider, told by the data plane."""

        def config(**changes: Any) -> Config:
            return Config("f", True, (), 1, (attrs.evolve(UPSTREAM, **changes),))

        self.judged("credentials", "fault", "OPENAI_API_KEY is not set", config=config(held=False))
        self.judged("credentials", "fault", "no good", config=config(credential_fault="no good"))
        refused = {**DATA, 'omnigate_data_upstream_credential_refused{upstream="openai"}': 1.0}
        self.judged("credentials", "fault", "refuses its credential", data_metrics=refused)
        missing = {**CONTROL, "omnigate_data_missing_credentials": 2.0}
        elsewhere: dict[str, Any] = {"data_settings": False, "data_metrics": None}
        self.judged("credentials", "fault", "of 2 upstreams", control_metrics=missing, **elsewhere)
        self.judged("credentials", "note", "not known here", **elsewhere)
        self.assertEqual(self.found("credentials", config=config(variable=None)), [])

    def test_media_credentials(self) -> None:
        """Of media providers, of the bucket, of webhooks: in the control plane's environment."""
        told = {
            "media": {
                "storage": "s3",
                "s3": {"access_key_env": "ID", "secret_key_env": "SECRET"},
                "routes": [
                    {"model": "flux", "targets": [{"api_key_env": "FAL"}, {}, 3]},
                    {"model": "film", "targets": [{"api_key_env": "XAI"}, {"api_key_env": "FAL"}]},
                ],
            },
            "keys": [{"name": "app", "webhook_secret_env": "HOOK"}, {"name": "other"}],
        }
        environ = {"ID": "a", "SECRET": "s", "FAL": "f", "XAI": "x", "HOOK": "whsec_short"}
        named = named_secrets(told, environ)
        self.assertEqual(
            [secret.variable for secret in named], ["FAL", "XAI", "ID", "SECRET", "HOOK"]
        )
        self.assertEqual([bool(secret.fault) for secret in named], [False] * 4 + [True])
        self.assertEqual(named_secrets({"media": 1, "keys": 2}, {}), ())
        self.assertEqual(
            (media_routes(told), media_routes({}), media_routes({"media": 1})), (2, 0, 0)
        )
        known: dict[str, Any] = {"config": Config("f", True, (), 1, (), named)}
        self.judged("media credentials", "note", "not known here", **known)
        known["control_settings"] = True
        self.judged("media credentials", "fault", "webhooks of the key app: the secret", **known)
        for missing in ("ID", "XAI"):
            known["config"] = Config(
                "f",
                True,
                media=named_secrets(told, {**environ, missing: "", "HOOK": "whsec_" + "QUJD" * 8}),
            )
            self.judged("media credentials", "fault", f"{missing} is not set", **known)
        good = named_secrets(told, {**environ, "HOOK": "whsec_" + "QUJD" * 8})
        known["config"] = Config("f", True, media=good)
        self.judged("media credentials", "ok", "has all 5", **known)
        self.assertEqual(self.found("media credentials"), [])

    def test_what_is_not_seen(self) -> None:
        """Metrics of the data plane that are off, or not to be had, and hosts out of reach."""
        self.judged("metrics", "note", "are off", data_metrics=None, metrics_url=None)
        self.judged("metrics", "warning", "refused", data_metrics=None, metrics_fault="refused")
        away = Config("f", True, (), 1, (attrs.evolve(UPSTREAM, connect_fault="timed out"),))
        self.judged("providers", "warning", "(timed out)", config=away)
        self.judged("settings", "fault", "a.env", folder_faults=("a.env: Permission denied",))

    @given(st.builds(Facts, **ANY))
    @settings(max_examples=200, deadline=None)
    def test_any_facts(self, facts: Facts) -> None:
        """Whatever was found is judged, and whatever is no good has a remedy."""
        findings = examine(facts)
        self.assertLessEqual({"control plane", "data plane"}, {f.check for f in findings})
        for finding in findings:
            self.assertTrue(finding.text)
            if finding.state in ("fault", "warning"):
                self.assertTrue(finding.remedy, finding)


class DoctorTests(AdminServerTestCase):
    """omnigate doctor, beside a server that stands for the control plane."""

    def run_doctor(self, *arguments: str) -> tuple[int, str]:
        """Its status and output."""
        environ = {
            "OMNIGATE_CONTROL_URL": self.url.replace("//", "//user:secret@"),
            "OMNIGATE_ADMIN_TOKEN": TOKEN,
            "OMNIGATE_STATE_DIR": os.path.abspath("."),
        }
        self.patch(os, "environ", environ)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = cli.main(("doctor", "--data-url", "http://127.0.0.1:1", *arguments))
        return status, out.getvalue()

    def test_shapes(self) -> None:
        """Words, JSON and CSV tell the same, and no password of an address."""
        FakeAdmin.answers["/livez"] = (200, b'{"status":"ok"}')
        FakeAdmin.answers["/readyz"] = (503, b'{"detail":"loading\\n\\u001b[2J"}')
        status, text = self.run_doctor()
        self.assertEqual(status, 1)
        self.assertRegex(text, r"(?m)^fault +data plane +cannot be reached at http://127")
        self.assertIn("is not ready: loading\\n\\x1b[2J", text.replace("\n", " "))
        self.assertRegex(text, r"\n\n\d faults, \d warnings?\n$")
        status, told = self.run_doctor("--json")
        findings = json.loads(told)["findings"]
        self.assertEqual((status, json.loads(told)["healthy"]), (1, False))
        rows = list(csv.DictReader(io.StringIO(self.run_doctor("--format", "csv")[1])))
        self.assertEqual([row["check"] for row in rows], [row["check"] for row in findings])
        self.assertIn("[redacted]@127.0.0.1", text)
        self.assertNotIn("secret@", text + told)

    def test_what_is_away_is_asked_once(self) -> None:
        """A plane that is silent takes the time of one question, not of two."""
        asked: list[str] = []

        def away(url: str, *_: object, **__: object) -> Answer:
            asked.append(url)
            return DOWN

        self.patch(doctor_facts, "fetch", away)
        self.assertEqual(self.run_doctor()[0], 1)
        self.assertEqual([url.rpartition("/")[2] for url in asked], ["livez", "livez"])

    def test_addresses_that_are_none(self) -> None:
        """They are found like any plane that does not answer."""
        for url in ("", "x", "ftp://x", "http://", "http://a b", "http://[::abcd", "http://x:0"):
            self.assertIsNotNone(fetch(f"{url}/livez").error, url)
            self.assertIsNotNone(fetch(f"{url}:99999/livez").error, url)

    def test_a_config_that_none_has(self) -> None:
        """Whatever a control plane tells of upstreams, what is wrong with it is told in words."""
        FakeAdmin.answers["/livez"] = (200, b'{"status":"ok"}')
        odds: tuple[Any, ...] = ("\ud800", "a\0b", "../x", "", "http://[::1", 10**400, [], {})
        for odd in (*odds, "http://a:99999"):
            row = dict.fromkeys(("name", "base_url", "proxy", "api_key_env"), odd)
            told = {"path": odd, "faults": odd, "config": {"upstreams": [row, {}], "routes": odd}}
            FakeAdmin.answers["/admin/config"] = (200, json.dumps(told).encode())
            for arguments in ((), ("--json",)):
                status, text = self.run_doctor(*arguments)
                self.assertEqual(status, 1, odd)
                self.assertIn("no connection to", " ".join(text.split()), odd)
                text.encode()

    def test_samples(self) -> None:
        """A scrape is read by name and labels; what is no scrape is none."""
        text = f"# TYPE omnigate_x gauge\n{VERSION} 1.0\nomnigate_x 2e3\nother 1\n"
        text += "omnigate_y z\nomnigate_z NaN\n"
        self.assertEqual(samples(Answer(200, text)), {VERSION: 1.0, "omnigate_x": 2000.0})
        self.assertIsNone(samples(Answer(404, text)))
        self.assertIsNone(samples(DOWN))
