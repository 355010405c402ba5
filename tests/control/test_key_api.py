"""Gateway keys by the admin API: pages, limits, rotation."""

from __future__ import annotations

import json
import re
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import SnapshotKey, SnapshotSecret, decode_snapshot
from omnigate.control import key_api
from omnigate.control.key_api import MAX_PAGE
from omnigate.control.key_secret import sha256_hex
from omnigate.control.redaction import redacted
from omnigate.jobs import age_files
from omnigate.periods import rfc3339
from tests.control.conversation import Reply
from tests.control.plane import CONFIG, START, Plane

LIMITS: dict[str, Any] = {
    "tpm": 60_000,
    "allowed_ips": ["10.0.0.0/8", "2001:db8::1"],
    "endpoints": ["chat", "models"],
    "expires_at": "2027-01-31T01:00:00+01:00",
    "disabled": True,
}


RECIPIENT = "age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m"


class KeyApiCase(SynchronousTestCase):
    """A control plane with one file key."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.plane = Plane(self.folder)

    def ask(self, method: str, target: str, **members: Any) -> Reply:
        body = json.dumps(members).encode() if method in ("POST", "PATCH") else None
        return self.plane.admin(method, target, body)

    def create(self, name: str, **members: Any) -> Any:
        reply = self.ask("POST", "/admin/keys", name=name, **members)
        self.assertEqual(reply.status, 201, reply.body)
        return reply.json()

    def snapshot(self) -> dict[str, SnapshotKey]:
        """The keys as a data plane gets them, by name."""
        data = self.plane.internal("GET", "/internal/config").body
        return {key.name: key for key in decode_snapshot(data).keys}


class PageTests(KeyApiCase):
    """Lists of keys."""

    def names(self, target: str) -> tuple[list[str], str | None]:
        answer = self.ask("GET", target).json()
        return [key["name"] for key in answer["keys"]], answer["next"]

    def test_pages(self) -> None:
        """Each goes on behind the last name of the one before, and the last one says so."""
        for name in ("b", "a", "c"):
            self.create(name)
        self.assertEqual(self.names("/admin/keys"), (["a", "app", "b", "c"], None))
        self.assertEqual(self.names("/admin/keys?limit=2"), (["a", "app"], "app"))
        self.assertEqual(self.names("/admin/keys?limit=2&after=app"), (["b", "c"], None))
        self.assertEqual(self.names("/admin/keys?after=bb"), (["c"], None))
        self.assertEqual(self.names("/admin/keys?after=zz"), ([], None))

    def test_two_keys_with_one_name(self) -> None:
        """They stand on one page, so that neither is passed over."""
        self.create("web")
        self.plane.write_config(CONFIG.replace('name = "app"', 'name = "web"'))
        self.plane.admin("POST", "/admin/reload")
        self.create("z")
        self.assertEqual(self.names("/admin/keys?limit=1"), (["web", "web"], "web"))
        self.assertEqual(self.names("/admin/keys?limit=1&after=web"), (["z"], None))

    def test_a_full_page(self) -> None:
        """Where nothing is asked for there is a bound all the same."""
        keys = "".join(
            f'[[keys]]\nname = "key-{n:04}"\nkey_sha256 = "{n:064x}"\n' for n in range(MAX_PAGE)
        )
        self.plane.write_config(CONFIG + keys)
        self.plane.admin("POST", "/admin/reload")
        names, after = self.names("/admin/keys")
        self.assertEqual((len(names), after), (MAX_PAGE, "key-0998"))
        self.assertEqual(self.names("/admin/keys?after=key-0998"), (["key-0999"], None))
        self.assertEqual(self.plane.pauses, 3)

    def test_keys_with_long_lists(self) -> None:
        """Fewer of them are shown in one go, and none is left out or shown twice."""
        self.patch(key_api, "ENTRIES_AT_ONCE", 4)
        lengths = {"a": 1, "b": 3, "c": 1, "d": 9, "e": 2}
        for name, length in lengths.items():
            self.create(name, models=["fast"] * length)
        shown = self.plane.admin("GET", "/admin/keys").json()["keys"]
        found = {key["name"]: len(key["models"]) for key in shown if key["name"] != "app"}
        self.assertEqual((found, len(shown), self.plane.pauses), (lengths, 6, 3))

    def test_pages_of_long_lists(self) -> None:
        """They hold fewer keys than were asked for, at least one, and none gets lost."""
        self.patch(key_api, "MAX_PAGE_LIST_BYTES", 20)
        for name, length in {"a": 3, "b": 1, "c": 2, "d": 1, "e": 1}.items():
            self.create(name, models=["m" * 7] * length)
        found: list[list[str]] = []
        after: str | None = ""
        while after is not None:
            page, after = self.names("/admin/keys?limit=3" + (f"&after={after}" if after else ""))
            found.append(page)
        self.assertEqual(found, [["a"], ["app", "b"], ["c"], ["d", "e"]])

    def test_bad_pages(self) -> None:
        for query in ("limit=0", f"limit={MAX_PAGE + 1}", "limit=x", "after=", "after=%2E", "x=1"):
            reply = self.ask("GET", f"/admin/keys?{query}")
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"))


class LimitTests(KeyApiCase):
    """What a key may be held to."""

    def test_made_changed_and_taken_away(self) -> None:
        """Each limit is shown as it was given, in its one spelling, and reaches data planes."""
        made = self.create("m1", **LIMITS)
        shown = LIMITS | {"expires_at": "2027-01-31T00:00:00.000Z"}
        self.assertEqual({name: made[name] for name in LIMITS}, shown)
        self.assertNotIn("m1", self.snapshot())
        self.assertEqual(self.ask("PATCH", "/admin/keys/m1", disabled=False).status, 200)
        key = self.snapshot()["m1"]
        self.assertEqual((key.tpm, key.expires_ms), (60_000, 1_801_353_600_000))
        self.assertEqual(key.allowed_ips, ("10.0.0.0/8", "2001:db8::1"))
        self.assertEqual((key.endpoints, key.secrets), (("chat", "models"), None))
        bare = self.ask("PATCH", "/admin/keys/m1", **dict.fromkeys(LIMITS)).json()
        nothing = {"tpm": 0, "disabled": False}
        self.assertEqual({name: bare[name] for name in LIMITS}, dict.fromkeys(LIMITS) | nothing)
        self.assertEqual(self.snapshot()["m1"].tpm, 0)

    def test_of_file_keys(self) -> None:
        """They are shown alike; a file key is never disabled."""
        limits = 'tpm = 5\nallowed_ips = ["192.0.2.0/24"]\nexpires_at = 2027-01-31T00:00:00Z\n'
        self.plane.write_config(CONFIG.replace("rpm = 600\n", limits + 'endpoints = ["chat"]\n'))
        self.assertEqual(self.plane.admin("POST", "/admin/reload").status, 200)
        shown = self.ask("GET", "/admin/keys/app").json()
        self.assertEqual((shown["tpm"], shown["allowed_ips"]), (5, ["192.0.2.0/24"]))
        self.assertEqual(shown["expires_at"], "2027-01-31T00:00:00.000Z")
        self.assertEqual((shown["endpoints"], shown["disabled"]), (["chat"], False))
        key = self.snapshot()["app"]
        self.assertEqual((key.tpm, key.expires_ms), (5, 1_801_353_600_000))
        self.plane.write_config(CONFIG.replace("rpm = 600\n", "disabled = true\n"))
        reply = self.plane.admin("POST", "/admin/reload")
        self.assertEqual(reply.status, 409)
        self.assertIn(b"is for managed keys", reply.body)

    def test_what_they_may_be(self) -> None:
        """Every fault names its member, in a new key and in a change."""
        self.create("m1")
        wrong: tuple[dict[str, Any], ...] = (
            {"tpm": -1},
            {"tpm": 1.5},
            {"allowed_ips": []},
            {"allowed_ips": "10.0.0.0/8"},
            {"allowed_ips": ["10.0.0.1/8"]},
            {"allowed_ips": ["10.0.0.0/8"] * 65},
            {"allowed_ips": [None]},
            {"endpoints": []},
            {"endpoints": ["chats"]},
            {"endpoints": ["chat"] * 9},
            {"expires_at": "2027-01-31"},
            {"expires_at": 1_801_353_600},
            {"disabled": 1},
            {"disabled": "yes"},
            {"secret_sha256": "0" * 64},
            {"earlier": []},
            {"expires_ms": 5},
        )
        for members in wrong:
            (param,) = members
            for reply in (
                self.ask("POST", "/admin/keys", name="m2", **members),
                self.ask("PATCH", "/admin/keys/m1", **members),
            ):
                self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"))
                self.assertEqual(reply.json()["param"], param)


class JobTests(KeyApiCase):
    """Limits of media jobs, and what their webhooks are signed with."""

    def renew(self, name: str = "m1", **members: Any) -> Reply:
        return self.ask("POST", f"/admin/keys/{name}/webhook-secret", **members)

    def signing(self) -> tuple[str, ...]:
        key = self.plane.book.get("m1")
        assert key is not None
        return key.webhook_secrets(self.plane.now_ms())

    def test_limits(self) -> None:
        """They are told, changed and taken away; no data plane has to know them."""
        limits = {"max_open_jobs": 5, "max_jobs_per_day": 100, "age_recipients": [RECIPIENT]}
        made = self.create("m1", **limits)
        self.assertEqual({member: made[member] for member in limits}, limits)
        told = self.ask("PATCH", "/admin/keys/m1", max_open_jobs=6, age_recipients=None).json()
        self.assertEqual((told["max_open_jobs"], told["age_recipients"]), (6, None))
        self.assertEqual(told["max_jobs_per_day"], 100)
        key = self.plane.book.get("m1")
        assert key is not None
        self.assertEqual((key.max_open_jobs, key.age_recipients), (6, ()))
        for member, value in (
            ("max_open_jobs", -1),
            ("max_jobs_per_day", 10_000_001),
            ("age_recipients", []),
            ("age_recipients", [RECIPIENT[:-1]]),
            ("age_recipients", RECIPIENT),
        ):
            reply = self.ask("PATCH", "/admin/keys/m1", **{member: value})
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"))

    def test_nothing_to_encrypt_with(self) -> None:
        """Recipients are refused where jobs could not be stored for them; what was stays."""
        self.create("m1", age_recipients=[RECIPIENT])
        self.patch(age_files, "fault_of", lambda recipients: "no age" if recipients else "")
        reply = self.ask("POST", "/admin/keys", name="m2", age_recipients=[RECIPIENT])
        self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"))
        self.assertIn("no age", reply.json()["detail"])
        self.assertEqual(self.ask("POST", "/admin/keys", name="m2").status, 201)
        self.assertEqual(self.ask("PATCH", "/admin/keys/m1", rpm=5).status, 200)
        told = self.ask("PATCH", "/admin/keys/m1", age_recipients=[RECIPIENT] * 2)
        self.assertEqual(told.status, 400)
        now = self.ask("GET", "/admin/keys/m1").json()
        self.assertEqual((now["age_recipients"], now["rpm"]), ([RECIPIENT], 5))

    def test_webhook_secrets(self) -> None:
        """Each is told once; the ones before sign too for their grace, two of them at most."""
        self.create("m1", rpm=7)
        self.assertEqual(self.signing(), ())
        first = self.renew().json()
        self.assertRegex(first["secret"], r"^whsec_[A-Za-z0-9+/]{43}=$")
        self.assertEqual((first["signs_webhooks"], first["rpm"]), (True, 7))
        self.assertIsNone(first["old_webhook_secrets_until"])
        second = self.renew().json()
        until = rfc3339((START + 86_400) * 1000)
        self.assertEqual(second["old_webhook_secrets_until"], until)
        self.assertEqual(self.signing(), (second["secret"], first["secret"]))
        third = self.renew(grace_s=60).json()
        self.assertEqual(self.signing(), (third["secret"], second["secret"], first["secret"]))
        reply = self.renew(grace_s=60)
        self.assertEqual((reply.status, reply.json()["code"]), (409, "conflict"))
        self.plane.clock.advance(60)
        self.assertEqual(self.signing(), (third["secret"],))
        last = self.renew(grace_s=0).json()
        self.assertEqual(self.signing(), (last["secret"],))
        # A start finds it.
        self.plane.close()
        self.plane = Plane(self.folder)
        self.assertEqual(self.signing(), (last["secret"],))
        told = self.ask("DELETE", "/admin/keys/m1/webhook-secret").json()
        self.assertEqual((self.signing(), told["signs_webhooks"]), ((), False))

    def test_it_survives_what_else_is_changed(self) -> None:
        self.create("m1")
        secret = self.renew().json()["secret"]
        self.ask("PATCH", "/admin/keys/m1", rpm=9)
        self.ask("POST", "/admin/keys/m1/rotate", grace_s=60)
        self.assertEqual(self.signing(), (secret,))

    def test_nothing_else_tells_it(self) -> None:
        """No listing, no audit log, no config, no snapshot, no representation."""
        self.create("m1")
        secret = self.renew().json()["secret"]
        self.ask("PATCH", "/admin/keys/m1", max_open_jobs=3)
        told = [
            self.ask("GET", path).body
            for path in ("/admin/keys", "/admin/keys/m1", "/admin/audit", "/admin/config")
        ]
        told.append(self.plane.internal("GET", "/internal/config").body)
        told.append(repr(self.plane.book.get("m1")).encode())
        with open(f"{self.folder}/audit.jsonl", "rb") as file:
            told.append(file.read())
        self.assertIn(b'"key.webhook_secret"', told[-1])
        for text in told:
            self.assertNotIn(secret.removeprefix("whsec_").encode(), text)
        self.assertNotIn(secret, redacted(f"# {secret}"))

    def test_refusals(self) -> None:
        """Of keys that there are not, of the file's, of secrets that there are not."""
        self.create("m1")
        for method in ("POST", "DELETE"):
            for name, status, code in (("none", 404, "not_found"), ("app", 409, "conflict")):
                reply = self.ask(method, f"/admin/keys/{name}/webhook-secret")
                self.assertEqual((reply.status, reply.json()["code"]), (status, code))
        self.assertEqual(self.ask("DELETE", "/admin/keys/m1/webhook-secret").status, 404)
        for members in ({"grace_s": -1}, {"grace_s": 2_592_001}, {"secret": "whsec_x"}):
            self.assertEqual(self.renew(**members).status, 400)


class RotationTests(KeyApiCase):
    """New secrets."""

    def rotate(self, name: str = "m1", **members: Any) -> Reply:
        return self.ask("POST", f"/admin/keys/{name}/rotate", **members)

    def test_rotate(self) -> None:
        """The new secret is shown once; the key stays what it was, and so does its identity."""
        made = self.create("m1", rpm=7)
        reply = self.rotate(grace_s=60)
        told = reply.json()
        secret, until = told.pop("secret"), rfc3339((START + 60) * 1000)
        self.assertEqual((reply.status, told["old_secrets_until"]), (200, until))
        self.assertEqual((told["key_sha256"], told["rpm"]), (made["key_sha256"], 7))
        self.assertEqual(told["rotated_at"], rfc3339(START * 1000))
        self.assertEqual(told, self.ask("GET", "/admin/keys/m1").json())
        self.assertNotIn(sha256_hex(secret), json.dumps(told))
        key = self.snapshot()["m1"]
        self.assertEqual(
            key.secrets,
            (
                SnapshotSecret(sha256_hex(secret)),
                SnapshotSecret(made["key_sha256"], (START + 60) * 1000),
            ),
        )
        self.plane.clock.advance(60)
        self.assertIsNone(self.ask("GET", "/admin/keys/m1").json()["old_secrets_until"])
        # A start finds all of it.
        before = self.snapshot()
        self.plane.close()
        self.plane = Plane(self.folder)
        self.assertEqual(self.snapshot(), before)

    def test_without_grace(self) -> None:
        """Which is what there is if none is asked for."""
        self.create("m1")
        told = self.rotate().json()
        self.assertIsNone(told["old_secrets_until"])
        self.assertEqual(
            self.snapshot()["m1"].secrets, (SnapshotSecret(sha256_hex(told["secret"])),)
        )

    def test_what_cannot_be_rotated(self) -> None:
        """Each refusal says what to do."""
        self.create("m1", disabled=True)
        self.create("m2", expires_at="2026-01-01T00:00:00Z")
        for name, status, code, words in (
            ("none", 404, "not_found", "no managed key"),
            ("app", 409, "conflict", "stands in the config file"),
            ("m1", 409, "conflict", "enable it"),
            ("m2", 409, "conflict", "expires_at"),
        ):
            reply = self.rotate(name)
            self.assertEqual((reply.status, reply.json()["code"]), (status, code))
            self.assertIn(words, reply.json()["detail"])
        for members in ({"grace_s": -1}, {"grace_s": 2_592_001}, {"grace_s": "1"}, {"grace": 1}):
            self.assertEqual(self.rotate("m1", **members).status, 400)
        self.assertEqual(self.plane.admin("POST", "/admin/keys/m1/rotate", b"").status, 400)
        self.assertEqual(self.ask("GET", "/admin/keys/m1/rotate").status, 405)

    def test_a_disk_that_refuses(self) -> None:
        """The old secret stays the one that works."""
        self.create("m1")
        before = self.snapshot()
        self.plane.writer.stop()
        reply = self.rotate(grace_s=5)
        self.assertEqual((reply.status, reply.json()["code"]), (503, "storage_unavailable"))
        self.assertEqual(self.snapshot(), before)


class AuditTests(KeyApiCase):
    """What the audit log says of changes to keys."""

    def lines(self) -> list[dict[str, Any]]:
        """The lines of this log, oldest first."""
        entries: list[dict[str, Any]] = self.ask("GET", "/admin/audit").json()["entries"]
        return entries[::-1]

    def test_each_change(self) -> None:
        """The names and new values of what was changed, and nothing that opens a key."""
        made = self.create("m1", rpm=5, tpm=0, budget_usd=0.5, models=["fast"])
        self.ask("PATCH", "/admin/keys/m1", rpm=None, budget_usd=None, endpoints=["chat"])
        self.ask("PATCH", "/admin/keys/m1", rpm=0)
        secret = self.ask("POST", "/admin/keys/m1/rotate", grace_s=60).json()["secret"]
        self.ask("DELETE", "/admin/keys/m1")
        period = {"budget_period": "total"}
        self.assertEqual(
            [(line["action"], line["detail"]) for line in self.lines()],
            [
                ("key.create", {"rpm": 5, "models": ["fast"], "budget_usd": "0.5", **period}),
                (
                    "key.change",
                    {"rpm": 0, "endpoints": ["chat"], "budget_usd": None, "budget_period": None},
                ),
                ("key.rotate", {"grace_s": 60}),
                ("key.delete", {}),
            ],
        )
        for line in self.lines():
            self.assertEqual((line["target"], line["outcome"]), ("m1", "done"))
            self.assertEqual(line["actor"], "admin-token")
            self.assertTrue(line["request_id"])
        with open(self.plane.audit.path, encoding="utf-8") as file:
            written = file.read()
        for hidden in (made["secret"], made["key_sha256"], secret, sha256_hex(secret)):
            self.assertNotIn(hidden, written)

    def test_what_fails_after_its_line_has_a_second_one(self) -> None:
        self.create("m1")
        self.plane.writer.stop()
        for method, target, members in (
            ("POST", "/admin/keys", {"name": "m2"}),
            ("PATCH", "/admin/keys/m1", {"rpm": 5}),
            ("POST", "/admin/keys/m1/rotate", {}),
            ("DELETE", "/admin/keys/m1", {}),
        ):
            self.assertEqual(self.ask(method, target, **members).status, 503)
            done, failed = self.lines()[-2:]
            self.assertEqual((done["outcome"], failed["outcome"]), ("done", "failed"))
            self.assertEqual(done["action"], failed["action"])
            self.assertEqual(failed["detail"], {"code": "storage_unavailable"})

    def test_what_is_refused_has_none(self) -> None:
        self.create("m1", disabled=True)
        before = self.lines()
        for method, target, members in (
            ("POST", "/admin/keys", {"name": "m1"}),
            ("POST", "/admin/keys", {"name": "m2", "tpm": -1}),
            ("PATCH", "/admin/keys/m1", {"tpm": -1}),
            ("PATCH", "/admin/keys/app", {"rpm": 5}),
            ("POST", "/admin/keys/m1/rotate", {}),
            ("DELETE", "/admin/keys/none", {}),
        ):
            self.assertGreaterEqual(self.ask(method, target, **members).status, 400)
        self.assertEqual(self.lines(), before)

    def test_no_change_without_its_line(self) -> None:
        """Where the audit log cannot be written, nothing is done."""
        self.create("m1")
        before = self.snapshot()
        self.plane.audit.abandon()
        for method, target, members in (
            ("POST", "/admin/keys", {"name": "m2"}),
            ("PATCH", "/admin/keys/m1", {"rpm": 5}),
            ("POST", "/admin/keys/m1/rotate", {}),
            ("DELETE", "/admin/keys/m1", {}),
        ):
            self.assertEqual(self.ask(method, target, **members).status, 503)
        self.assertEqual(self.snapshot(), before)
        self.assertEqual(self.ask("GET", "/admin/keys").json()["keys"][1]["rpm"], 0)


class ExpiringTests(KeyApiCase):
    """Keys that are to be looked after."""

    def expiring(self) -> float:
        (line,) = re.findall(rb"^omnigate_keys_expiring (\S+)$", self.plane.scrape(), re.MULTILINE)
        return float(line)

    def test_within_a_week(self) -> None:
        """Counted from seven days before to the moment itself, unless it is disabled."""
        week = 7 * 86_400
        self.create("soon", expires_at=rfc3339((START + week + 10) * 1000))
        self.create("off", expires_at=rfc3339((START + 5) * 1000), disabled=True)
        self.create("never")
        self.assertEqual(self.expiring(), 0)
        self.plane.clock.advance(10)
        self.assertEqual(self.expiring(), 1)
        self.plane.clock.advance(week - 0.001)
        self.assertEqual(self.expiring(), 1)
        self.plane.clock.advance(0.001)
        self.assertEqual(self.expiring(), 0)
