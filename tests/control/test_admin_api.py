"""What operators ask for."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.defer import fail
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import decode_snapshot
from omnigate.control import usage_report
from omnigate.control.key_secret import sha256_hex
from omnigate.ledger import totals
from tests.control.conversation import Reply
from tests.control.plane import APP_SHA, CONFIG, START, Plane, event


class KeyTests(SynchronousTestCase):
    """Managed keys."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.plane = Plane(self.folder)

    def create(self, **members: Any) -> Any:
        return self.plane.admin("POST", "/admin/keys", json.dumps(members).encode())

    def test_secret_is_shown_once_and_kept_as_a_hash(self) -> None:
        """The secret stands in the answer of its creation and nowhere else."""
        reply = self.create(name="m1", rpm=60, models=["fast", "claude-*"], budget_usd=2.5)
        self.assertEqual((reply.status, reply.headers["location"]), (201, "/admin/keys/m1"))
        secret = reply.json()["secret"]
        self.assertRegex(secret, r"^ogk_[0-9A-Za-z]{49}$")
        self.assertEqual(reply.json()["key_sha256"], sha256_hex(secret))
        with open(os.path.join(self.folder, "keys.json"), encoding="utf-8") as file:
            written = file.read()
        self.assertNotIn(secret, written)
        self.assertIn(sha256_hex(secret), written)
        self.assertEqual(os.stat(os.path.join(self.folder, "keys.json")).st_mode & 0o777, 0o600)
        shown = self.plane.admin("GET", "/admin/keys/m1")
        self.assertNotIn("secret", shown.json())
        self.assertNotIn(secret.encode(), self.plane.admin("GET", "/admin/keys").body)
        self.assertEqual(
            {name: shown.json()[name] for name in ("rpm", "models", "budget_usd", "budget_period")},
            {
                "rpm": 60,
                "models": ["fast", "claude-*"],
                "budget_usd": 2.5,
                "budget_period": "total",
            },
        )

    def test_budgets_by_the_clocks_of_a_zone(self) -> None:
        """What is left, and when its week ends in Stockholm; an event before that is not counted.

        It is Sunday, 29 November, 21:00 there.
        """
        zone = {"budget_period": "weekly", "budget_timezone": "Europe/Stockholm"}
        made = self.create(name="m1", budget_usd=0.01, soft_budget_usd=0.0001, **zone).json()
        self.assertEqual(
            (made["budget_timezone"], made["turns_at"]),
            ("Europe/Stockholm", "2026-11-29T23:00:00.000Z"),
        )
        self.assertEqual((made["soft_budget_usd"], made["over_soft"]), (0.0001, False))
        batch = [event(key_sha256=made["key_sha256"])]
        self.plane.internal("POST", "/internal/usage/batch", json.dumps({"events": batch}).encode())
        shown = self.plane.admin("GET", "/admin/keys/m1").json()
        self.assertEqual((shown["over_soft"], shown["blocked"]), (True, False))
        self.assertEqual(shown["spent_usd"] + shown["left_usd"], 0.01)
        self.plane.clock.advance(3 * 3600)
        shown = self.plane.admin("GET", "/admin/keys/m1").json()
        self.assertEqual((shown["spent_usd"], shown["over_soft"]), (0, False))
        self.assertEqual(shown["turns_at"], "2026-12-06T23:00:00.000Z")

    def test_soft_budget_alone(self) -> None:
        """Nothing is left or blocked where nothing is limited; the period is shown."""
        shown = self.create(name="m1", soft_budget_usd=1).json()
        self.assertEqual(
            (shown["budget_usd"], shown["left_usd"], shown["budget_period"], shown["turns_at"]),
            (None, None, "total", None),
        )

    def test_list_has_both_kinds(self) -> None:
        """File keys and managed keys stand in one list, told apart by their source."""
        self.create(name="aa")
        keys = self.plane.admin("GET", "/admin/keys").json()["keys"]
        self.assertEqual(
            [(key["name"], key["source"]) for key in keys], [("aa", "managed"), ("app", "file")]
        )

    def test_standing(self) -> None:
        """A key shows what it spent, what is left, and when its period turns."""
        batch = json.dumps({"events": [event()]}).encode()
        self.plane.internal("POST", "/internal/usage/batch", batch)
        shown = self.plane.admin("GET", "/admin/keys/app")
        self.assertIn(b'"spent_usd":0.0001635,', shown.body)
        self.assertIn(b'"left_usd":0.0098365,', shown.body)
        self.assertEqual(shown.json()["turns_at"], "2026-11-30T00:00:00.000Z")
        self.assertEqual(shown.json()["blocked"], False)

    def test_standing_is_unknown_while_loading(self) -> None:
        """Until the ledger is loaded nothing is told of a key."""
        plane = Plane(self.mktemp(), open_ledger=False)
        reply = plane.admin("GET", "/admin/keys/app")
        self.assertEqual((reply.status, reply.json()["code"]), (503, "not_ready"))

    def test_names_are_unique(self) -> None:
        """A name is taken once, by a file key or a managed one."""
        self.assertEqual(self.create(name="m1").status, 201)
        for name in ("m1", "app"):
            reply = self.create(name=name)
            self.assertEqual((reply.status, reply.json()["code"]), (409, "already_exists"))

    def test_what_a_key_may_be(self) -> None:
        """Every fault of a request is told, with the member it is in."""
        for members, param in (
            ({}, "name"),
            ({"name": "a b"}, "name"),
            ({"name": "../x"}, "name"),
            ({"name": "é"}, "name"),
            ({"name": "x" * 65}, "name"),
            ({"name": 1}, "name"),
            ({"name": "a", "rpm": -1}, "rpm"),
            ({"name": "a", "rpm": 1.5}, "rpm"),
            ({"name": "a", "rpm": True}, "rpm"),
            ({"name": "a", "models": []}, "models"),
            ({"name": "a", "models": "fast"}, "models"),
            ({"name": "a", "models": ["*x"]}, "models"),
            ({"name": "a", "budget_usd": -1}, "budget_usd"),
            ({"name": "a", "budget_usd": "1"}, "budget_usd"),
            ({"name": "a", "budget_usd": 0.0000000001}, "budget_usd"),
            ({"name": "a", "budget_usd": 1, "budget_period": "hourly"}, "budget_period"),
            ({"name": "a", "budget_period": "daily"}, "budget_period"),
            ({"name": "a", "budget_timezone": "UTC"}, "budget_timezone"),
            ({"name": "a", "budget_usd": 1, "budget_timezone": "UTC"}, "budget_timezone"),
            (
                {"name": "a", "budget_usd": 1, "budget_period": "daily", "budget_timezone": "CEDT"},
                "budget_timezone",
            ),
            ({"name": "a", "budget_usd": 1, "soft_budget_usd": 2}, "soft_budget_usd"),
            ({"name": "a", "soft_budget_usd": 0}, "soft_budget_usd"),
            ({"name": "a", "secret": "mine"}, "secret"),
        ):
            reply = self.create(**members)
            self.assertEqual(
                (reply.status, reply.json().get("param")), (400, param), (members, reply.body)
            )
        both = self.create(name="a b", rmp=1).json()["detail"]
        self.assertIn('"name"', both)
        self.assertIn('did you mean "rpm"?', both)
        for body in (b"", b"[]", b"{", b'{"name":"a","name":"b"}', b'{"name":"\xff"}'):
            self.assertEqual(self.plane.admin("POST", "/admin/keys", body).status, 400, body)

    def test_delete(self) -> None:
        """A deleted key is gone from the list and the next snapshot; its spend stays."""
        secret = self.create(name="m1").json()["secret"]
        batch = json.dumps({"events": [event(key_sha256=sha256_hex(secret))]}).encode()
        self.plane.internal("POST", "/internal/usage/batch", batch)
        reply = self.plane.admin("DELETE", "/admin/keys/m1")
        self.assertEqual((reply.status, reply.json()), (200, {"name": "m1", "deleted": True}))
        self.assertEqual(self.plane.admin("GET", "/admin/keys/m1").status, 404)
        self.assertEqual(self.plane.admin("DELETE", "/admin/keys/m1").status, 404)
        self.assertNotIn(b"m1", self.plane.internal("GET", "/internal/config").body)
        (row,) = self.plane.admin("GET", "/admin/usage").json()["rows"]
        self.assertEqual((row["key"], row["key_sha256"]), (None, sha256_hex(secret)))

    def test_file_key_is_not_changed_or_deleted_here(self) -> None:
        """A key of the config file is the operator's to change there, and to take out of it."""
        for method, body in (("DELETE", None), ("PATCH", b'{"rpm":1}')):
            reply = self.plane.admin(method, "/admin/keys/app", body)
            self.assertEqual((reply.status, reply.json()["code"]), (409, "conflict"))

    def change(self, **members: object) -> Reply:
        return self.plane.admin("PATCH", "/admin/keys/m1", json.dumps(members).encode())

    def test_change(self) -> None:
        """What is given is replaced, what is null taken away; it is so after a restart too."""
        made = self.create(name="m1", rpm=5, models=["fast"], budget_usd=1).json()
        secret = made.pop("secret")
        zone = {"budget_period": "daily", "budget_timezone": "Europe/Stockholm"}
        for members, then in (
            ({}, {}),
            ({"rpm": 7, "soft_budget_usd": 0.5}, {}),
            (zone, {}),
            ({"models": None, "rpm": None}, {"rpm": 0}),
            ({"budget_period": "total"}, {"budget_timezone": "UTC"}),
            (zone, {}),
            ({"budget_usd": None}, {"left_usd": None}),
            (
                {"soft_budget_usd": None},
                {"budget_period": None, "budget_timezone": None, "turns_at": None},
            ),
            ({"budget_usd": 2}, {"budget_period": "total", "left_usd": 2}),
        ):
            made |= {**members, **then}
            reply = self.change(**members)
            shown = reply.json()
            volatile = {name: shown[name] for name in ("turns_at", "left_usd", "budget_timezone")}
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(shown, {**made, **volatile, **then}, members)
        self.assertEqual(shown["key_sha256"], sha256_hex(secret))
        self.plane.close()
        again = Plane(self.folder).admin("GET", "/admin/keys/m1").json()
        self.assertEqual(again, shown)

    def test_change_unblocks(self) -> None:
        """A budget that grows, and one that is taken away, free the key by the next poll."""
        sha256 = self.create(name="m1", budget_usd=0.0001).json()["key_sha256"]
        batch = json.dumps({"events": [event(key_sha256=sha256)]}).encode()
        self.plane.internal("POST", "/internal/usage/batch", batch)

        def blocked() -> bool:
            snapshot = decode_snapshot(self.plane.internal("GET", "/internal/config").body)
            return {key.name: key.blocked for key in snapshot.keys}["m1"]

        for budget, then in ((None, False), (0.0001, True), (1, False), (0.00001, True)):
            self.change(budget_usd=budget)
            self.assertEqual(blocked(), then, budget)

    def test_bad_changes(self) -> None:
        """Each is refused with the member's name, and changes nothing."""
        self.create(name="m1", rpm=5, budget_usd=1, budget_period="daily")
        before = self.plane.admin("GET", "/admin/keys/m1").body
        for members, param in (
            ({"name": "m2"}, "name"),
            ({"name": None}, "name"),
            ({"rpm": -1}, "rpm"),
            ({"rmp": None}, "rmp"),
            ({"soft_budget_usd": 2}, "soft_budget_usd"),
            ({"budget_usd": None, "budget_period": "weekly"}, "budget_period"),
            ({"budget_usd": None, "budget_timezone": "UTC"}, "budget_timezone"),
            ({"budget_period": "total", "budget_timezone": "UTC"}, "budget_timezone"),
            ({"budget_timezone": "Nowhere"}, "budget_timezone"),
        ):
            reply = self.change(**members)
            self.assertEqual(
                (reply.status, reply.json().get("param")), (400, param), (members, reply.body)
            )
        for body in (b"", b"[]", b"{", b'{"rpm":1,"rpm":2}'):
            self.assertEqual(self.plane.admin("PATCH", "/admin/keys/m1", body).status, 400, body)
        self.assertEqual(self.plane.admin("PATCH", "/admin/keys/m9", b"{}").status, 404)
        self.assertEqual(self.plane.admin("GET", "/admin/keys/m1").body, before)

    def test_disk_refuses(self) -> None:
        """A key that could not be written does not exist, and its secret is not shown."""
        submit, self.plane.writer.submit = (  # type: ignore[method-assign]
            self.plane.writer.submit,
            lambda job: fail(OSError(28, "No space left on device")),
        )
        reply = self.create(name="m1")
        self.assertEqual((reply.status, reply.json()["code"]), (503, "storage_unavailable"))
        self.assertNotIn(self.folder.encode(), reply.body)
        self.plane.writer.submit = submit  # type: ignore[method-assign]
        self.assertEqual(self.plane.admin("GET", "/admin/keys/m1").status, 404)
        self.assertEqual(self.create(name="m1").status, 201)

    def test_survive_a_restart(self) -> None:
        """Managed keys are there after a start, exactly."""
        self.create(name="m1", budget_usd=999_999_999.000000001, models=["fast"])
        self.create(name="m2", budget_usd=0.1, budget_period="monthly", max_concurrent=3)
        zone = {"budget_period": "weekly", "budget_timezone": "Europe/Stockholm"}
        self.create(name="m3", soft_budget_usd=0.1, **zone)
        before = self.plane.admin("GET", "/admin/keys").body
        self.plane.close()
        after = Plane(self.folder).admin("GET", "/admin/keys").body
        self.assertEqual(before, after)


class UsageTests(SynchronousTestCase):
    """Sums and single requests."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        events = [
            event(id="1"),
            event(id="2", upstream=None, target_model=None, status=502, output_tokens=0),
            event(id="3", ts_ms=START * 1000 - 86_400_000, key_sha256="0" * 64),
            event(id="4", route_model="gone", upstream="gone", target_model="gone"),
        ]
        self.plane.internal(
            "POST", "/internal/usage/batch", json.dumps({"events": events}).encode()
        )

    def test_by_key(self) -> None:
        """Rows carry the key's name and hash, and the total is their sum."""
        answer = self.plane.admin("GET", "/admin/usage?by=key").json()
        self.assertEqual(
            [(row["key"], row["key_sha256"], row["requests"]) for row in answer["rows"]],
            [("app", APP_SHA, 3), (None, "0" * 64, 1)],
        )
        self.assertEqual(answer["total"]["requests"], 4)
        self.assertEqual(answer["price_table_date"], "2026-11-29")

    def test_other_groupings(self) -> None:
        """By model, by upstream (none for what no upstream answered), by day."""
        for by, names in (
            ("model", ["fast", "gone"]),
            ("upstream", [None, "gone", "openai"]),
            ("day", ["2026-11-28", "2026-11-29"]),
        ):
            answer = self.plane.admin("GET", f"/admin/usage?by={by}").json()
            self.assertEqual([row[by] for row in answer["rows"]], names)

    def test_days(self) -> None:
        """A range of days counts what happened in it."""
        answer = self.plane.admin("GET", "/admin/usage?since=2026-11-29&until=2026-11-29").json()
        self.assertEqual(answer["total"]["requests"], 3)

    def test_csv(self) -> None:
        """A spreadsheet gets a line of names and exact amounts."""
        reply = self.plane.admin("GET", "/admin/usage?by=upstream", accept="text/csv")
        self.assertEqual(reply.headers["content-type"], "text/csv; charset=utf-8; header=present")
        lines = reply.body.decode().split("\r\n")
        self.assertEqual(
            lines[0],
            "upstream,requests,input_tokens,cached_input_tokens,cache_write_input_tokens,"
            "output_tokens,cost_usd",
        )
        self.assertEqual(lines[1], ",1,1000,100,0,0,0")
        self.assertEqual(lines[3], "openai,2,2000,200,0,20,0.000327")
        by_key = self.plane.admin("GET", "/admin/usage", accept="text/csv").body.decode()
        self.assertTrue(by_key.startswith("key,key_sha256,requests,"))

    def test_csv_has_no_formulas(self) -> None:
        """A model name is whatever a client made it."""
        batch = {"events": [event(id="5", route_model='=cmd|"/c calc"!A1')]}
        self.plane.internal("POST", "/internal/usage/batch", json.dumps(batch).encode())
        reply = self.plane.admin("GET", "/admin/usage?by=model", accept="text/csv")
        self.assertIn('\r\n"\'=cmd|""/c calc""!A1",1,', reply.body.decode())

    def test_bad_questions(self) -> None:
        """A grouping or a day that there is not is refused, with what would do."""
        for query in (
            "by=week",
            "since=yesterday",
            "since=20261129",
            "until=2026-02-30",
            "since=2026-11-29&until=2026-11-28",
            "from=2026-11-29",
        ):
            reply = self.plane.admin("GET", f"/admin/usage?{query}")
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), query)

    def test_the_days_of_one(self) -> None:
        """By day, those of one key, model or upstream, which sum up to its row among all."""
        by_key = self.plane.admin("GET", "/admin/usage").json()["rows"]
        hashes = [row["key_sha256"] for row in by_key]
        asked = [("key", "app"), ("key", hashes[-1]), ("model", "fast"), ("upstream", "openai")]
        for kind, name in asked:
            rows = self.plane.admin("GET", f"/admin/usage?by={kind}").json()["rows"]
            (row,) = [row for row in rows if name in (row[kind], row.get("key_sha256"))]
            answer = self.plane.admin("GET", f"/admin/usage?by=day&{kind}={name}").json()
            self.assertEqual(answer["by"], "day")
            self.assertGreater(len(answer["rows"]), 0)
            for member in ("requests", "input_tokens", "cost_usd"):
                self.assertEqual(answer["total"][member], row[member], (kind, name, member))
        answer = self.plane.admin("GET", "/admin/usage?by=day&model=none-such").json()
        self.assertEqual(answer["rows"], [])
        for query in (
            "key=app",
            "by=model&key=app",
            "by=day&key=app&model=fast",
            "by=day&key=nobody",
            "by=day&model=",
            "by=day&model=fast&since=today",
        ):
            reply = self.plane.admin("GET", f"/admin/usage?{query}")
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), query)

    def test_many_keys_take_turns(self) -> None:
        """A long answer is made in pieces, with a turn for others in between."""
        self.patch(usage_report, "ROWS_AT_ONCE", 1)
        before = self.plane.pauses
        answer = self.plane.admin("GET", "/admin/usage?by=model").json()
        self.assertIsNone(answer["by_key_since"])
        self.assertGreaterEqual(self.plane.pauses - before, len(answer["rows"]) - 1)
        self.assertGreater(len(answer["rows"]), 1)

    def test_in_slices_it_is_the_same(self) -> None:
        """Whatever the slices, rows, order and sums are those of an answer made in one go."""
        events = [
            event(id=f"many-{n}", key_sha256=f"{n % 7:064x}", route_model=f"m{n % 5}")
            for n in range(60)
        ]
        self.plane.internal(
            "POST", "/internal/usage/batch", json.dumps({"events": events}).encode()
        )
        asked = [
            (f"/admin/usage?{query}", accept)
            for query in ("by=key", "by=key&since=2026-01-01", "by=model", "by=upstream", "by=day")
            for accept in ("application/json", "text/csv")
        ]
        whole = [self.plane.admin("GET", target, accept=accept) for target, accept in asked]
        self.assertEqual(whole[0].json()["total"]["requests"], 64)
        for at_once in (1, 2, 3):
            self.patch(usage_report, "ROWS_AT_ONCE", at_once)
            self.patch(totals, "ROWS_AT_ONCE", at_once)
            self.patch(totals, "SORTED_AT_ONCE", at_once)
            for (target, accept), expected in zip(asked, whole, strict=True):
                sliced = self.plane.admin("GET", target, accept=accept)
                self.assertEqual((sliced.status, sliced.body), (200, expected.body), target)

    def test_not_ready(self) -> None:
        """Sums are not told before the ledger is loaded."""
        plane = Plane(self.mktemp(), open_ledger=False)
        for target in ("/admin/usage", "/admin/requests"):
            reply = plane.admin("GET", target)
            self.assertEqual((reply.status, reply.json()["code"]), (503, "not_ready"))

    def test_requests(self) -> None:
        """The newest come first, each with the name of its key and its exact cost."""
        reply = self.plane.admin("GET", "/admin/requests?limit=4")
        rows = reply.json()["requests"]
        self.assertEqual([row["id"] for row in rows], ["4", "3", "2", "1"])
        self.assertEqual([row["key"] for row in rows], ["app", None, "app", "app"])
        self.assertIn(b'"cost_usd":0.0001635,', reply.body)
        self.assertEqual(
            len(self.plane.admin("GET", "/admin/requests?limit=1").json()["requests"]), 1
        )
        for limit in ("0", "501", "x", "-1", "", "1e2"):
            self.assertEqual(self.plane.admin("GET", f"/admin/requests?limit={limit}").status, 400)

    def test_metrics(self) -> None:
        """Recorded events are counted with bounded labels: unknown names are folded."""
        body = self.plane.admin("GET", "/metrics").body.decode()
        for line in (
            'omnigate_usage_events_total{route="fast",status_class="2xx",upstream="openai"} 2.0',
            'omnigate_usage_events_total{route="fast",status_class="5xx",upstream="none"} 1.0',
            'omnigate_usage_events_total{route="other",status_class="2xx",upstream="other"} 1.0',
            'omnigate_tokens_total{cache="read",direction="input",route="fast"} 300.0',
            'omnigate_cost_usd_total{route="fast"} 0.000327',
            "omnigate_ledger_unpriced_events_total 1.0",
            'omnigate_keys{source="file"} 1.0',
        ):
            self.assertIn(line + "\n", body)
        reply = self.plane.admin("GET", "/metrics", accept="application/openmetrics-text")
        self.assertTrue(reply.body.endswith(b"# EOF\n"))
        self.assertTrue(reply.headers["content-type"].startswith("application/openmetrics-text"))


class ConfigTests(SynchronousTestCase):
    """The config in force."""

    def test_as_in_force(self) -> None:
        """The whole config is shown with its defaults, and amounts as numbers."""
        plane = Plane(self.mktemp())
        answer = plane.admin("GET", "/admin/config").json()
        self.assertEqual(answer["faults"], [])
        self.assertEqual(answer["config"]["upstreams"][0]["api_key_env"], "OPENAI_API_KEY")
        self.assertEqual(answer["config"]["upstreams"][0]["head_timeout_ms"], 120_000)
        self.assertEqual(answer["config"]["routes"][0]["targets"][0]["price"]["input"], 0.15)
        self.assertNotIn("routes_by_model", answer["config"])

    def test_reload(self) -> None:
        """A good file comes into force; one with faults is refused with all of them."""
        plane = Plane(self.mktemp())
        plane.write_config(CONFIG.replace('"app"', '"web"'))
        reply = plane.admin("POST", "/admin/reload")
        self.assertEqual(
            (reply.status, reply.json()),
            (200, {"reloaded": True, "keys": 1, "upstreams": 1, "routes": 1}),
        )
        self.assertEqual(plane.admin("GET", "/admin/keys/web").status, 200)
        plane.write_config(
            CONFIG.replace("rpm", "rmp").replace('upstream = "openai"', 'upstream = "x"')
        )
        reply = plane.admin("POST", "/admin/reload")
        self.assertEqual((reply.status, reply.json()["code"]), (409, "conflict"))
        self.assertEqual(reply.headers["content-type"], "application/problem+json")
        self.assertEqual(
            [fault["path"] for fault in reply.json()["faults"]],
            ["keys[0].rmp", "routes[0].targets[0].upstream"],
        )
        self.assertEqual(plane.admin("GET", "/admin/keys/web").status, 200)
        self.assertEqual(len(plane.admin("GET", "/admin/config").json()["faults"]), 2)
        self.assertIn(
            b"omnigate_config_reload_failures_total 1.0", plane.admin("GET", "/metrics").body
        )
