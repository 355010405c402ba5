"""Admin keys over HTTP: what operators are answered, what they may do, and what is written down."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import fail
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.auth import WRONG_IN_WINDOW
from omnigate.periods import rfc3339
from tests.control.conversation import Headers, Reply, read_reply, request_bytes
from tests.control.plane import Plane


def bearer(secret: str) -> Headers:
    return ((b"authorization", b"Bearer " + secret.encode()),)


class AdminKeyCase(SynchronousTestCase):
    """A control plane."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())

    def ask(self, method: str, target: str, **members: Any) -> Reply:
        body = None if method in ("GET", "DELETE") else json.dumps(members).encode()
        return self.plane.admin(method, target, body)

    def create(self, **members: Any) -> Any:
        reply = self.ask("POST", "/admin/admin-keys", **members)
        self.assertEqual(reply.status, 201, reply.body)
        return reply.json()

    def told(self) -> list[Any]:
        """The audit log, oldest first."""
        entries = self.plane.admin("GET", "/admin/audit").json()["entries"]
        return list(reversed(entries))


class ApiTests(AdminKeyCase):
    """The endpoints."""

    def test_a_life(self) -> None:
        """Made, shown, changed, rotated, taken away; the secret is shown when it is made."""
        made = self.create(name="ops", scope="read_only", allowed_ips=["10.0.0.0/8"])
        secret = made.pop("secret")
        self.assertEqual(
            made,
            {
                "name": "ops",
                "scope": "read_only",
                "disabled": False,
                "allowed_ips": ["10.0.0.0/8"],
                "created_at": "2026-11-29T20:00:00.000Z",
                "expires_at": None,
                "rotated_at": None,
                "old_secrets_until": None,
            },
        )
        self.assertEqual(self.ask("GET", "/admin/admin-keys/ops").json(), made)
        self.assertEqual(self.ask("GET", "/admin/admin-keys").json(), {"keys": [made]})
        expires = rfc3339(self.plane.now_ms() + 86_400_000)
        made |= {"scope": "full", "allowed_ips": None, "expires_at": expires}
        changed = self.ask(
            "PATCH", "/admin/admin-keys/ops", scope="full", allowed_ips=None, expires_at=expires
        )
        self.assertEqual(changed.json(), made)
        rotated = self.ask("POST", "/admin/admin-keys/ops/rotate", grace_s=60).json()
        self.assertNotEqual(rotated.pop("secret"), secret)
        made |= {
            "rotated_at": "2026-11-29T20:00:00.000Z",
            "old_secrets_until": "2026-11-29T20:01:00.000Z",
        }
        self.assertEqual(rotated, made)
        self.assertEqual(
            self.ask("DELETE", "/admin/admin-keys/ops").json(), {"name": "ops", "deleted": True}
        )
        self.assertEqual(self.ask("GET", "/admin/admin-keys/ops").status, 404)
        with open(self.plane.audit.path, encoding="utf-8") as file:
            written = file.read()
        self.assertNotIn(secret, written)
        self.assertNotRegex(written, "[0-9a-f]{64}")

    def test_each_change_has_its_line(self) -> None:
        """Who, what and how, before it is made; one that then fails has a second line."""
        secret = self.create(name="ops", scope="full")["secret"]
        self.plane.talk.ask(
            "PATCH",
            "/admin/admin-keys/ops",
            (*bearer(secret), (b"x-omnigate-request-id", b"r-1")),
            b'{"disabled":true,"expires_at":"2027-01-01T00:00:00+01:00"}',
        )
        create, change = self.told()
        self.assertEqual(
            (create["action"], create["actor"], create["target"], create["outcome"]),
            ("admin_key.create", "admin-token", "ops", "done"),
        )
        self.assertEqual(
            (change["action"], change["actor"], change["request_id"], change["detail"]),
            (
                "admin_key.change",
                "admin-key:ops",
                "r-1",
                {
                    "scope": "full",
                    "expires_at": "2026-12-31T23:00:00.000Z",
                    "disabled": True,
                    "allowed_ips": None,
                },
            ),
        )
        self.plane.writer.submit = lambda job: fail(OSError(28, "full"))  # type: ignore[method-assign]
        self.assertEqual(self.ask("DELETE", "/admin/admin-keys/ops").status, 503)
        done, failed = self.told()[2:]
        self.assertEqual(
            [(line["action"], line["outcome"], line["detail"]) for line in (done, failed)][1],
            ("admin_key.delete", "failed", {"code": "storage_unavailable"}),
        )
        self.assertEqual(done["outcome"], "done")
        for method, target, members in (
            ("POST", "/admin/admin-keys", {"name": "ops", "scope": "full"}),
            ("PATCH", "/admin/admin-keys/none", {}),
            ("POST", "/admin/admin-keys/ops/rotate", {"grace_s": -1}),
        ):
            self.assertIn(self.ask(method, target, **members).status, (400, 404, 409))
        self.assertEqual(len(self.told()), 4)

    def test_rotation_bodies(self) -> None:
        """A grace has bounds, and nothing else stands in the body."""
        self.create(name="ops", scope="full")
        target = "/admin/admin-keys/ops/rotate"
        for members in ({"grace_s": 2_592_001}, {"grace_s": 1.5}, {"grace_s": "1"}, {"g": 1}):
            self.assertEqual(self.ask("POST", target, **members).status, 400, members)
        self.assertIsNone(self.ask("POST", target).json()["old_secrets_until"])


class SignInTests(AdminKeyCase):
    """What a key opens."""

    def status(self, secret: str, method: str = "GET", target: str = "/admin/keys") -> int:
        body = b'{"name":"k"}' if method in ("POST", "PATCH") else None
        reply = self.plane.talk.ask(method, target, bearer(secret), body)
        self.plane.described.check(method, target, reply)
        return reply.status

    def test_scopes(self) -> None:
        """Who may look only may look everywhere, and nothing else."""
        full = self.create(name="full", scope="full")["secret"]
        looker = self.create(name="looker", scope="read_only")["secret"]
        for endpoint in self.plane.talk.routes.endpoints:
            target = endpoint.pattern.replace("{name}", "none").replace("{id}", "1")
            if endpoint.is_page or not target.startswith(("/admin", "/metrics")):
                continue
            self.assertNotIn(self.status(full, endpoint.method, target), (401, 403))
            status = self.status(looker, endpoint.method, target)
            if endpoint.method == "GET":
                self.assertNotIn(status, (401, 403), target)
                self.assertNotIn(self.status(looker, "HEAD", target), (401, 403), target)
            else:
                self.assertEqual(status, 403, target)
        reply = self.plane.talk.ask("POST", "/admin/reload", bearer(looker))
        self.assertEqual(reply.json()["code"], "insufficient_scope")

    def test_a_refused_scope_leaves_the_body_unread(self) -> None:
        """It is refused from the head, and the connection ends."""
        looker = self.create(name="looker", scope="read_only")["secret"]
        channel, transport = self.plane.talk.connect()
        channel.dataReceived(
            b"POST /admin/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer "
            + looker.encode()
            + b"\r\ncontent-length: 100\r\n\r\n"
        )
        self.assertIn(b"403 Forbidden", transport.value())
        self.assertIn(b"connection: close", transport.value().lower())

    def test_taken_away_while_a_body_is_on_its_way(self) -> None:
        """Whoever began a request before that makes no key for afterwards."""
        for what, change, code in (
            ("gone", ("DELETE", {}), "invalid_token"),
            ("disabled", ("PATCH", {"disabled": True}), "invalid_token"),
            ("looker", ("PATCH", {"scope": "read_only"}), "insufficient_scope"),
            ("elsewhere", ("PATCH", {"allowed_ips": ["203.0.113.9"]}), "address_not_allowed"),
        ):
            secret = self.create(name=what, scope="full")["secret"]
            body = b'{"name": "back-door", "scope": "full"}'
            sent = request_bytes("POST", "/admin/admin-keys", bearer(secret), body)
            channel, transport = self.plane.talk.connect()
            channel.dataReceived(sent[:-5])
            method, members = change
            self.ask(method, f"/admin/admin-keys/{what}", **members)
            channel.dataReceived(sent[-5:])
            reply, _ = read_reply(transport.value())
            self.assertEqual(reply.json()["code"], code)
        self.assertEqual(self.ask("GET", "/admin/admin-keys/back-door").status, 404)

    def test_changes_count_at_once(self) -> None:
        """Disabled, enabled, rotated, expired, deleted."""
        secret = self.create(name="ops", scope="full")["secret"]
        self.assertEqual(self.status(secret), 200)
        self.ask("PATCH", "/admin/admin-keys/ops", disabled=True)
        self.assertEqual(self.status(secret), 401)
        self.ask("PATCH", "/admin/admin-keys/ops", disabled=False)
        new = self.ask("POST", "/admin/admin-keys/ops/rotate", grace_s=10).json()["secret"]
        self.assertEqual((self.status(secret), self.status(new)), (200, 200))
        self.plane.clock.advance(10)
        self.assertEqual((self.status(secret), self.status(new)), (401, 200))
        self.ask("PATCH", "/admin/admin-keys/ops", expires_at=rfc3339(self.plane.now_ms() + 1000))
        self.assertEqual(self.status(new), 200)
        self.plane.clock.advance(1)
        self.assertEqual(self.status(new), 401)
        self.ask("PATCH", "/admin/admin-keys/ops", expires_at=None)
        self.assertEqual(self.status(new), 200)
        self.ask("DELETE", "/admin/admin-keys/ops")
        self.assertEqual(self.status(new), 401)

    def test_a_right_secret_that_opens_nothing_locks_nobody_out(self) -> None:
        """An old script must not lock out the operator behind the same address."""
        secret = self.create(name="ops", scope="full", disabled=True)["secret"]
        for _ in range(WRONG_IN_WINDOW + 5):
            self.assertEqual(self.status(secret), 401)
        self.assertEqual(self.ask("GET", "/admin/keys").status, 200)
        body = self.plane.scrape()
        self.assertIn(
            b'omnigate_auth_failures_total{audience="admin",reason="disabled"} 25.0', body
        )

    def test_failed_sign_ins_are_in_the_audit_log(self) -> None:
        """The first of an address at once, the rest when the minute is over."""
        secret = self.create(name="ops", scope="full", disabled=True)["secret"]
        self.plane.talk.credentials.sign_in_failed = self.plane.audit.sign_in_failed
        for wrong in ("x", "y", secret):
            self.assertEqual(self.status(wrong), 401)
        self.plane.clock.advance(60)
        first, rest = self.told()[1:]
        self.assertEqual(
            (first["action"], first["detail"]), ("sign_in.failed", {"reason": "wrong"})
        )
        self.assertEqual(rest["detail"], {"repeats": 2, "wrong": 1, "disabled": 1})

    def test_guesses_are_locked_out(self) -> None:
        """Well-formed or not; then not even a right secret opens."""
        secret = self.create(name="ops", scope="full")["secret"]
        for n in range(WRONG_IN_WINDOW):
            self.assertEqual(self.status(f"oga_{n:049d}"), 401)
        self.assertEqual(self.status(secret), 429)
        self.plane.clock.advance(61)
        self.assertEqual(self.status(secret), 200)

    def test_while_the_keys_are_away(self) -> None:
        """An admin key waits for them and is not told that it is wrong; the token works."""
        secret = self.create(name="ops", scope="full")["secret"]
        self.plane.admin_keys.is_open = False
        for _ in range(WRONG_IN_WINDOW + 1):
            self.assertEqual(self.status(secret), 503)
        self.assertEqual(self.ask("GET", "/admin/keys").status, 200)
