"""Media jobs of all keys by the admin API."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import admin_jobs_api
from omnigate.control.admin_jobs_api import MAX_JOBS
from omnigate.jobs.job import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Attempt,
    Job,
    JobError,
    Output,
    Webhook,
)
from omnigate.jobs.store import JobStore, KeyLimits, NewJob
from tests.control.job_cases import MEDIA_CONFIG, JobCases, given_up
from tests.control.plane import APP_SHA, Plane

GONE_SHA = "7" * 64

OUTPUT = Output(
    content_type="image/png",
    size=70,
    sha256="e" * 64,
    source="url",
    storage="local",
    name="x",
    encrypted=True,
)


def make_job(store: JobStore, key_sha256: str = APP_SHA, model: str = "flux", **more: Any) -> Job:
    """Make a job in a store whose writer is no thread."""
    new = NewJob(
        key_sha256=key_sha256,
        model=model,
        input_json=b'{"prompt":"secret wish"}',
        **more,
    )
    made: list[tuple[Job, bool]] = []
    Deferred.fromCoroutine(store.create(new, KeyLimits(0, 1_000_000))).addCallback(made.append)
    return made[0][0]


class AdminJobsApiTests(SynchronousTestCase):
    """What is found, and how it is told."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.store = self.plane.generation.jobs

    def make(self, *args: Any, **more: Any) -> str:
        self.plane.clock.advance(1)
        return make_job(self.store, *args, **more).id

    def change(self, job_id: str, **fields: Any) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.store.change(job_id, **fields)))

    def found(self, query: str = "") -> tuple[list[str], str | None]:
        told = self.plane.admin("GET", f"/admin/jobs{query}").json()
        return [job["id"] for job in told["jobs"]], told["next"]

    def test_one(self) -> None:
        """As its client sees it, with whose it is and the provider's id; without its input."""
        job_id = self.make(metadata={"order": 7}, webhook_url="https://h.example/hook")
        self.change(
            job_id,
            status=RUNNING,
            provider_job_id="p-1",
            attempts=(
                Attempt(
                    target=0,
                    adapter="fal",
                    base_url="https://queue.fal.run",
                    model="m",
                    started_ms=5,
                    ended_ms=9,
                    outcome="failed",
                    error=JobError(code="provider_failed", message="no"),
                ),
            ),
        )
        self.change(
            job_id,
            status=SUCCEEDED,
            outputs=(OUTPUT,),
            cost_nano=3_000_000,
            webhook=Webhook(url="https://h.example/hook", state=PENDING),
        )
        reply = self.plane.admin("GET", f"/admin/jobs/{job_id}")
        told = reply.json()
        self.assertEqual((told["key"], told["key_sha256"]), ("app", APP_SHA))
        self.assertEqual((told["provider_job_id"], told["cost_usd"]), ("p-1", 0.003))
        self.assertEqual(told["metadata"], {"order": 7})
        self.assertEqual(told["attempts"][0]["error"]["code"], "provider_failed")
        (output,) = told["outputs"]
        self.assertEqual((output["url"], output["encrypted"]), (f"/v1/files/{job_id}/0", True))
        self.assertNotIn(b"secret wish", reply.body)
        self.assertEqual(self.plane.admin("GET", "/admin/jobs").json()["jobs"], [told])

    def test_filters(self) -> None:
        """By key, by name or hash, also of a key that is gone; by model; by status."""
        first = self.make()
        second = self.make(GONE_SHA, "film")
        third = self.make(APP_SHA, "film")
        self.change(second, status=FAILED, error=JobError(code="provider_failed"))
        self.assertEqual(self.found(), ([third, second, first], None))
        for query, expected in (
            ("?key=app", [third, first]),
            (f"?key={APP_SHA}", [third, first]),
            (f"?key={GONE_SHA}", [second]),
            ("?model=film", [third, second]),
            ("?model=film&key=app", [third]),
            ("?status=failed", [second]),
            ("?status=succeeded", []),
        ):
            self.assertEqual(self.found(query), (expected, None), query)
        gone = self.plane.admin("GET", f"/admin/jobs/{second}").json()
        self.assertEqual((gone["key"], gone["key_sha256"]), (None, GONE_SHA))

    def test_pages(self) -> None:
        """Each goes on behind the last job of the one before."""
        made = [self.make() for _ in range(5)][::-1]
        seen, after = [], ""
        for _ in range(5):
            ids, following = self.found(f"?limit=2{after}")
            seen += ids
            if following is None:
                break
            after = f"&after={following}"
        self.assertEqual(seen, made)

    def test_many_outputs(self) -> None:
        """Others have their turn between the steps of a page."""
        self.patch(admin_jobs_api, "STEP_BYTES", 500)
        for _ in range(3):
            job_id = self.make()
            self.change(job_id, status=SUCCEEDED, outputs=(OUTPUT,) * 4)
        before = self.plane.pauses
        self.found()
        self.assertGreaterEqual(self.plane.pauses - before, 2)

    def test_refusals(self) -> None:
        for query in (
            "?status=done",
            "?after=x",
            "?limit=0",
            f"?limit={MAX_JOBS + 1}",
            "?key=nobody",
            "?more=1",
        ):
            reply = self.plane.admin("GET", f"/admin/jobs{query}")
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), query)
        for job_id in ("job_" + "0" * 26, "x"):
            self.assertEqual(self.plane.admin("GET", f"/admin/jobs/{job_id}").status, 404)


class ChangeTests(SynchronousTestCase):
    """What an operator does about one."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp(), MEDIA_CONFIG)
        self.jobs = JobCases(self.plane)
        self.addCleanup(self.plane.close)

    def actions(self) -> list[tuple[str, str]]:
        lines = self.plane.admin("GET", "/admin/audit").json()["entries"]
        return [(line["action"], line["target"]) for line in lines if "job." in line["action"]]

    def test_cancel(self) -> None:
        job = self.jobs.run(self.jobs.make())
        told = self.plane.admin("POST", f"/admin/jobs/{job.id}/cancel").json()
        self.assertEqual((True, "running"), (told["cancel_requested"], told["status"]))
        self.assertEqual([("job.cancel", job.id)], self.actions())

    def test_too_late(self) -> None:
        """Nothing changes, so nothing is written down."""
        job = self.jobs.succeeded()
        reply = self.plane.admin("POST", f"/admin/jobs/{job.id}/cancel")
        self.assertEqual((200, "succeeded"), (reply.status, reply.json()["status"]))
        self.assertEqual([], self.actions())

    def test_a_webhook_once_more(self) -> None:
        job = self.jobs.end(self.jobs.make(), FAILED, "x", webhook=given_up())
        reply = self.plane.admin("POST", f"/admin/jobs/{job.id}/webhook")
        self.assertEqual(200, reply.status)
        self.assertEqual([("job.webhook", job.id)], self.actions())

    def test_no_webhook(self) -> None:
        delivered = Webhook("https://h.test/", state="delivered")
        for job in (
            self.jobs.make(),
            self.jobs.make(webhook_url="https://h.test/"),
            self.jobs.end(self.jobs.make(), FAILED, "x", webhook=delivered),
        ):
            reply = self.plane.admin("POST", f"/admin/jobs/{job.id}/webhook")
            self.assertEqual((409, "conflict"), (reply.status, reply.json()["code"]))
        self.assertEqual([], self.actions())

    def test_no_job(self) -> None:
        for action in ("cancel", "webhook"):
            self.assertEqual(404, self.plane.admin("POST", f"/admin/jobs/job_1/{action}").status)
