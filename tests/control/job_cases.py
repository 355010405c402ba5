"""Media jobs in the store of a plane in memory, in whatever state a test wants them."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from omnigate.jobs.job import RUNNING, Attempt, Billable, Job, JobError, Output, Webhook
from omnigate.jobs.store import KeyLimits, NewJob
from tests.control.plane import APP_SHA, CONFIG, Plane

MEDIA = """
[[media.routes]]
model = "picture"
price_multipliers = { quality = { high = 2.5 } }
  [[media.routes.targets]]
  adapter = "replicate"
  model = "black-forest-labs/flux-schnell"
  api_key_env = "REPLICATE_API_TOKEN"
  price = { per_job = 0.001, per_output = 0.003 }
"""
MEDIA_CONFIG = CONFIG + MEDIA

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)

NO_LIMITS = KeyLimits(0, 0)


def attempt(**members: Any) -> Attempt:
    """One attempt at the only target of the route."""
    found: dict[str, Any] = {
        "target": 0,
        "adapter": "replicate",
        "base_url": "https://api.replicate.com",
        "model": "black-forest-labs/flux-schnell",
        "started_ms": 1_795_982_401_000,
    }
    return Attempt(**(found | members))


def output(**members: Any) -> Output:
    """One stored picture, or what else the members say."""
    found: dict[str, Any] = {
        "content_type": "image/png",
        "size": len(PNG),
        "sha256": "ab" * 32,
        "source": "url",
        "storage": "local",
        "name": "job/0.png",
    }
    return Output(**(found | members))


class JobCases:
    """Makes and changes jobs of a plane."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.store = plane.generation.jobs

    def make(
        self,
        model: str = "picture",
        key_sha256: str = APP_SHA,
        input: dict[str, Any] | None = None,
        **members: Any,
    ) -> Job:
        """Make a job that waits; nobody runs it."""
        given = {"prompt": "a lighthouse"} if input is None else input
        made: list[tuple[Job, bool]] = []
        new = NewJob(key_sha256, model, msgspec.json.encode(given), **members)
        Deferred.fromCoroutine(self.store.create(new, NO_LIMITS)).addCallback(made.append)
        return made[0][0]

    def change(self, job: Job, **fields: Any) -> Job:
        """Change a job."""
        changed: list[Job] = []
        Deferred.fromCoroutine(self.store.change(job.id, **fields)).addCallback(changed.append)
        return changed[0]

    def run(self, job: Job, **members: Any) -> Job:
        """Have a job run."""
        now_ms = self.plane.now_ms()
        tried = attempt(started_ms=now_ms, **members)
        return self.change(job, status=RUNNING, started_ms=now_ms, target=0, attempts=(tried,))

    def end(self, job: Job, status: str, code: str = "", message: str = "", **fields: Any) -> Job:
        """Have a job end, with the last attempt that it has."""
        now_ms = self.plane.now_ms()
        error = JobError(code, message) if code else None
        attempts = job.attempts
        if attempts:
            last = msgspec.structs.replace(
                attempts[-1], ended_ms=now_ms, outcome=status, error=error
            )
            attempts = (*attempts[:-1], last)
        if job.webhook is not None and "webhook" not in fields:
            fields["webhook"] = msgspec.structs.replace(
                job.webhook, state="pending", next_ms=now_ms
            )
        return self.change(
            job, status=status, finished_ms=now_ms, attempts=attempts, error=error, **fields
        )

    def succeeded(self, *outputs: Output, **members: Any) -> Job:
        """Make a job that has succeeded with outputs and a cost."""
        job = self.run(self.make(**members))
        self.plane.clock.advance(3)
        return self.end(
            job,
            "succeeded",
            outputs=outputs or (output(),),
            billable=Billable(outputs=len(outputs) or 1),
            cost_nano=4_000_000,
            provider_job_id="rp-77",
        )

    def keep(self, job: Job, n: int, content: bytes) -> None:
        """Write the file of an output where the plane has its media."""
        path = os.path.join(self.plane.lasting.media_dir, *job.outputs[n].name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


def given_up(url: str = "https://hooks.example.com/in") -> Webhook:
    """A webhook that was tried as often as it may be."""
    return Webhook(
        url,
        state="given_up",
        attempts=8,
        last_ms=1_795_982_400_000,
        last_status=503,
        last_error="the receiver is away",
    )
