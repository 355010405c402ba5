"""Tests for omnigate jobs."""

import contextlib
import csv
import io
import json
import os
from typing import Any

from omnigate import cli
from tests.test_admin_client import TOKEN, AdminServerTestCase, FakeAdmin


def job(number: int, **members: Any) -> dict[str, Any]:
    """A job as the admin API tells it."""
    return {
        "id": f"job_{number:026}",
        "object": "job",
        "key": "app",
        "key_sha256": "a" * 64,
        "model": "picture",
        "status": "succeeded",
        "provider_job_id": "p-1",
        "created_at": "2026-11-30T09:00:00.000Z",
        "started_at": "2026-11-30T09:00:01.000Z",
        "finished_at": "2026-11-30T09:00:05.000Z",
        "metadata": None,
        "outputs": [{"url": "/v1/files/x/0"}, {"url": "/v1/files/x/1"}],
        "error": None,
        "cost_usd": 0.003,
        "cached": False,
        "attempts": [{"upstream": "fal"}, {"upstream": "replicate"}],
        "cancel_requested": False,
        "webhook": {"state": "given_up"},
        **members,
    }


class JobsTests(AdminServerTestCase):
    """omnigate jobs."""

    def run_jobs(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """What it prints, on both outputs."""
        environ = {"OMNIGATE_CONTROL_URL": self.url, "OMNIGATE_ADMIN_TOKEN": TOKEN}
        self.patch(os, "environ", environ)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(cli.main(("jobs", *arguments)), status)
        return out.getvalue(), err.getvalue()

    def answer(self, query: str, found: list[dict[str, Any]], following: str | None) -> None:
        """Have the control plane answer a page."""
        content = json.dumps({"jobs": found, "next": following}).encode()
        FakeAdmin.answers[f"/admin/jobs?{query}"] = (200, content)

    def test_a_table(self) -> None:
        """Lists are told as how many there are, and why a job failed in a word."""
        error = {"code": "output_refused", "message": "x"}
        failed = job(1, status="failed", error=error, outputs=[], webhook=None)
        self.answer("key=app&status=failed&limit=20", [failed], None)
        table, _ = self.run_jobs("list", "--key", "app", "--status", "failed")
        head, row = table.splitlines()
        self.assertEqual(["created_at", "id", "key", "model", "status"], head.split()[:5])
        self.assertIn("failed output_refused replicate 2 0 0.003", " ".join(row.split()))
        self.assertNotIn("webhook", head)

    def test_the_other_shapes(self) -> None:
        self.answer("limit=20", [job(1)], None)
        told = json.loads(self.run_jobs("list", "--json")[0])
        self.assertEqual([job(1)], told["jobs"])
        (row,) = csv.DictReader(io.StringIO(self.run_jobs("list", "--format", "csv")[0]))
        self.assertEqual(
            ("2", "2", "given_up", "replicate"),
            (row["attempts"], row["outputs"], row["webhook"], row["upstream"]),
        )

    def test_pages(self) -> None:
        """It asks on until it has so many, also over a page without any."""
        second, third = job(50)["id"], job(40)["id"]
        self.answer("limit=100", [job(n) for n in range(150, 50, -1)], second)
        self.answer(f"limit=50&after={second}", [], third)
        self.answer(f"limit=50&after={third}", [job(n) for n in range(39, 29, -1)], None)
        told = json.loads(self.run_jobs("list", "--limit", "150", "--json")[0])
        self.assertEqual(110, len(told["jobs"]))
        none = json.loads(self.run_jobs("list", "--limit", "0", "--json")[0])
        self.assertEqual({"jobs": []}, none)
        self.answer(f"limit=50&after={second}", [], second)
        _, words = self.run_jobs("list", "--limit", "150", status=1)
        self.assertIn("do not go on", words)

    def test_one(self) -> None:
        FakeAdmin.answers["/admin/jobs/job_1"] = (200, json.dumps(job(1)).encode())
        table, _ = self.run_jobs("show", "job_1")
        for words in ("provider_job_id", "p-1", "0.003", "state=given_up", "upstream=replicate"):
            self.assertIn(words, table)
        self.assertEqual(table.count("\nattempts "), 2)

    def test_cancel(self) -> None:
        """It says what the job is then."""
        for members, words in (
            ({"status": "canceled"}, "the job is canceled"),
            ({"status": "succeeded"}, "the job is succeeded"),
            ({"status": "running", "cancel_requested": True}, "ends as soon as its provider"),
        ):
            content = json.dumps(job(1, **members)).encode()
            FakeAdmin.answers["/admin/jobs/job_1/cancel"] = (200, content)
            out, told = self.run_jobs("cancel", "job_1")
            self.assertEqual("", out)
            self.assertIn(words, told)
        self.assertEqual("POST", FakeAdmin.asked[-1][0])

    def test_webhook(self) -> None:
        FakeAdmin.answers["/admin/jobs/job_1/webhook"] = (200, json.dumps(job(1)).encode())
        self.assertIn("sending the webhook once more", self.run_jobs("webhook", "job_1")[1])
        self.assertEqual(job(1), json.loads(self.run_jobs("webhook", "job_1", "--json")[0]))
