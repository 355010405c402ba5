"""What a key may know of itself."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from tests.control.plane import APP_SHA, Plane, event

PATH = "/internal/v1/usage/"


class OwnUsageTests(SynchronousTestCase):
    """The answer to a data plane."""

    def test_a_key_with_a_budget(self) -> None:
        """Spend, what is left, when it turns, and limits; exact, as of the last batch."""
        plane = Plane(self.mktemp())
        first = plane.internal("GET", PATH + APP_SHA).json()
        self.assertEqual(
            (0, 0.01, 0.01), tuple(first[f"{x}_usd"] for x in ("spent", "budget", "left"))
        )
        batch = json.dumps({"events": [event()]}).encode()
        plane.internal("POST", "/internal/usage/batch", batch)
        told = plane.internal("GET", PATH + APP_SHA).json()
        self.assertEqual(
            {
                "name": "app",
                "spent_usd": 0.0001635,
                "budget_usd": 0.01,
                "left_usd": 0.0098365,
                "blocked": False,
                "period": "daily",
                "timezone": "UTC",
                "turns_at": "2026-11-30T00:00:00.000Z",
                "rpm": 600,
                "tpm": 0,
                "max_concurrent": 0,
                "max_open_jobs": 0,
                "max_jobs_per_day": 10_000,
                "models": None,
                "endpoints": None,
                "expires_at": None,
            },
            told,
        )

    def test_a_key_without_one(self) -> None:
        """All it ever spent; nothing of soft budgets and networks. A rotation changes no sum."""
        plane = Plane(self.mktemp())
        body = {
            "name": "m1",
            "soft_budget_usd": 1,
            "allowed_ips": ["192.0.2.1"],
            "endpoints": ["chat"],
            "tpm": 500,
            "expires_at": "2027-01-31T00:00:00Z",
        }
        made = plane.admin("POST", "/admin/keys", json.dumps(body).encode()).json()
        used = event(key_sha256=made["key_sha256"])
        plane.internal("POST", "/internal/usage/batch", json.dumps({"events": [used]}).encode())
        plane.admin("POST", "/admin/keys/m1/rotate", b"{}")
        reply = plane.internal("GET", PATH + made["key_sha256"])
        told = reply.json()
        self.assertEqual(
            (0.0001635, None, None, None, 500, ["chat"], "2027-01-31T00:00:00.000Z"),
            tuple(
                told[name]
                for name in (
                    "spent_usd",
                    "budget_usd",
                    "left_usd",
                    "turns_at",
                    "tpm",
                    "endpoints",
                    "expires_at",
                )
            ),
        )
        for word in (b"soft", b"192.0.2", b"sha256", b"secret"):
            self.assertNotIn(word, reply.body)

    def test_refusals(self) -> None:
        """A key that is not there, a ledger that is not loaded, and anybody but a data plane."""
        plane = Plane(self.mktemp())
        self.assertEqual(404, plane.internal("GET", PATH + "0" * 64).status)
        self.assertEqual(404, plane.internal("GET", PATH + "app").status)
        self.assertEqual(401, plane.talk.ask("GET", PATH + APP_SHA, ()).status)
        plane = Plane(self.mktemp(), open_ledger=False)
        self.assertEqual(503, plane.internal("GET", PATH + APP_SHA).status)
