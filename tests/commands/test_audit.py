"""Tests for omnigate audit."""

import contextlib
import csv
import io
import json
import os
from typing import Any

from omnigate import cli
from tests.test_admin_client import TOKEN, AdminServerTestCase, FakeAdmin


def line(seq: int, **members: Any) -> dict[str, Any]:
    """A line of the audit log."""
    return {
        "ts": "2026-11-30T09:00:00.000Z",
        "seq": seq,
        "action": "key.change",
        "actor": "admin-token",
        "address": "10.0.0.7",
        "target": "app",
        "outcome": "done",
        "request_id": f"req-{seq}",
        "detail": {"budget_usd": 1.10},
        **members,
    }


class AuditTests(AdminServerTestCase):
    """omnigate audit."""

    def run_audit(self, *arguments: str) -> str:
        """What it prints."""
        environ = {"OMNIGATE_CONTROL_URL": self.url, "OMNIGATE_ADMIN_TOKEN": TOKEN}
        self.patch(os, "environ", environ)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(cli.main(("audit", *arguments)), 0)
        return out.getvalue()

    def answer(self, query: str, lines: list[dict[str, Any]], following: int | None) -> None:
        """Have the control plane answer a page."""
        content = json.dumps({"entries": lines, "next": following}).encode()
        FakeAdmin.answers[f"/admin/audit?{query}"] = (200, content)

    def test_shapes(self) -> None:
        """A table, all of it as JSON, and CSV that no spreadsheet runs."""
        self.answer("limit=20", [line(2, target="=1+1"), line(1, detail={})], None)
        text = self.run_audit()
        self.assertEqual(text.splitlines()[0].split()[:4], ["ts", "seq", "actor", "action"])
        self.assertIn('{"budget_usd":1.1}', text)
        self.assertNotIn("req-1", text)
        told = json.loads(self.run_audit("--json"))
        self.assertEqual(told["entries"][0], line(2, target="=1+1"))
        first, second = csv.DictReader(io.StringIO(self.run_audit("--format", "csv"), newline=""))
        self.assertEqual((first["target"], first["request_id"]), ("'=1+1", "req-2"))
        self.assertEqual(second["detail"], "")

    def test_pages(self) -> None:
        """It asks on until it has so many lines, or there are no more."""
        self.answer("limit=100", [line(n) for n in range(250, 150, -1)], 151)
        self.answer("limit=100&before=151", [line(n) for n in range(150, 50, -1)], 51)
        self.answer("limit=20&before=51", [line(n) for n in range(50, 30, -1)], 31)
        self.answer("limit=100&before=51", [line(n) for n in range(50, 0, -1)], None)
        for limit, last in (("220", 31), ("1000", 1)):
            found = json.loads(self.run_audit("--limit", limit, "--json"))["entries"]
            self.assertEqual([row["seq"] for row in found], list(range(250, last - 1, -1)))
        self.assertEqual(json.loads(self.run_audit("--limit", "0", "--json")), {"entries": []})
        for following in (151, 200):
            self.answer("limit=100&before=151", [line(150)], following)
            with contextlib.redirect_stderr(io.StringIO()) as err:
                self.assertEqual(cli.main(("audit", "--limit", "1000")), 1)
            self.assertIn("do not go on", err.getvalue())
