"""A job as its client sees it."""

import json
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.job import Attempt, Job, JobError, Output, Webhook
from omnigate.jobs.job_json import job_json

JOB = Job(
    id="job_01",
    key_sha256="ab" * 32,
    model="flux",
    created_ms=1_793_527_200_000,
    status="succeeded",
    metadata={"order": 7},
    idempotency_key="mine",
    webhook=Webhook(
        "https://hooks.example/1", "pending", 2, 5, 4, 503, "the receiver answered 503"
    ),
    started_ms=1_793_527_200_250,
    finished_ms=1_793_527_209_000,
    provider_job_id="provider's own",
    attempts=(
        Attempt(
            target=0,
            adapter="fal",
            base_url="https://fal.example",
            model="flux/dev",
            started_ms=1,
            outcome="failed",
            error=JobError("provider_failed", "no"),
        ),
        Attempt(
            target=1,
            adapter="replicate",
            base_url="https://replicate.example",
            model="flux-schnell",
            started_ms=2,
            outcome="succeeded",
        ),
    ),
    outputs=(
        Output("image/webp", 30, "00" * 32, "url", "local", "job_01/0.webp"),
        Output("image/png", 5, "11" * 32, "inline", "s3", "job_01/1.png", encrypted=True),
    ),
    cost_nano=3_000_001,
)


def shown(job: Job, **settings: Any) -> dict[str, Any]:
    """The JSON as its reader has it."""
    return json.loads(msgspec.json.encode(job_json(job, **settings)))  # type: ignore[no-any-return]


class JobJsonTests(SynchronousTestCase):
    maxDiff = None

    def test_the_whole(self) -> None:
        """Each member that a client knows, and none of the gateway's own."""
        self.assertEqual(
            {
                "id": "job_01",
                "object": "job",
                "model": "flux",
                "status": "succeeded",
                "created_at": "2026-11-01T10:00:00.000Z",
                "started_at": "2026-11-01T10:00:00.250Z",
                "finished_at": "2026-11-01T10:00:09.000Z",
                "metadata": {"order": 7},
                "outputs": [
                    {
                        "url": "/v1/files/job_01/0",
                        "content_type": "image/webp",
                        "bytes": 30,
                        "sha256": "00" * 32,
                    },
                    {
                        "url": "/v1/files/job_01/1",
                        "content_type": "image/png",
                        "bytes": 5,
                        "sha256": "11" * 32,
                        "encrypted": True,
                    },
                ],
                "error": None,
                "cost_usd": 0.003000001,
                "cached": False,
                "attempts": [
                    {
                        "upstream": "fal",
                        "model": "flux/dev",
                        "outcome": "failed",
                        "error": {"code": "provider_failed", "message": "no"},
                    },
                    {"upstream": "replicate", "model": "flux-schnell", "outcome": "succeeded"},
                ],
                "cancel_requested": False,
                "webhook": {
                    "url": "https://hooks.example/1",
                    "state": "pending",
                    "attempts": 2,
                    "last_status": 503,
                    "last_error": "the receiver answered 503",
                },
            },
            shown(JOB),
        )

    def test_a_new_one(self) -> None:
        """What has not happened yet is null, or empty."""
        new = shown(Job(id="job_02", key_sha256="", model="m", created_ms=1))
        self.assertEqual("queued", new["status"])
        for name in ("started_at", "finished_at", "metadata", "error", "webhook"):
            self.assertIs(None, new[name], name)
        self.assertEqual(([], [], 0), (new["outputs"], new["attempts"], new["cost_usd"]))
        self.assertNotIn("input", new)

    def test_urls(self) -> None:
        """With a public URL those of files are whole, and signed ones stand beside them."""
        first = shown(
            JOB, sign=lambda path: path + "?signature=1", public_url="https://gw.example/"
        )
        self.assertEqual(
            (
                "https://gw.example/v1/files/job_01/0",
                "https://gw.example/v1/files/job_01/0?signature=1",
            ),
            (first["outputs"][0]["url"], first["outputs"][0]["signed_url"]),
        )

    def test_the_input(self) -> None:
        """It is shown where it is given."""
        self.assertEqual({"prompt": "x"}, shown(JOB, input={"prompt": "x"})["input"])

    def test_the_cost_is_exact(self) -> None:
        """It is written with all its digits."""
        written = msgspec.json.encode(job_json(msgspec.structs.replace(JOB, cost_nano=10**18 + 1)))
        self.assertIn(b'"cost_usd":1000000000.000000001,', written)

    def test_canceled_and_cached(self) -> None:
        """A wish to cancel shows, and that the outputs are another job's."""
        job = msgspec.structs.replace(JOB, cancel_ms=5, cached_from="job_00")
        self.assertEqual([True, True], [shown(job)["cancel_requested"], shown(job)["cached"]])
