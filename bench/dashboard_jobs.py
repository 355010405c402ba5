"""Media jobs for the dashboard to be measured on, in the log of a control plane that starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from omnigate.jobs.job import Attempt, Billable, Job, JobError, Output, Webhook
from omnigate.jobs.job_lines import job_line
from omnigate.jobs.new_job import id_of

_MODELS: Final = ("picture", "film", "voice")
_BASE_URL: Final = "https://api.replicate.com/v1"

#: Jobs of a month, with one in nine that failed, and all of them final: none is run.
_DAYS_MS: Final = 30 * 86_400_000


def job_id(number: int, made_ms: int) -> str:
    """Return the id of a job; its time and nothing left to chance."""
    return id_of(made_ms << 80 | number)


def jobs(count: int, key_sha256: list[str], now_ms: int) -> Iterator[Job]:
    """Yield jobs, the oldest first."""
    dice = Random("jobs")
    for number in range(count):
        made_ms = now_ms - _DAYS_MS + _DAYS_MS * number // max(1, count) + 1
        fails = number % 9 == 0
        error = JobError("provider_failed", "422: the prompt was refused") if fails else None
        outcome = "failed" if fails else "succeeded"
        model = "black-forest-labs/flux-schnell"
        attempts = tuple(
            Attempt(n, "replicate", _BASE_URL, model, made_ms, made_ms + 4_000, outcome, error)
            for n in range(1 + number % 3)
        )
        identity = job_id(number, made_ms)
        hook = Webhook("https://hooks.example.com/jobs", "given_up", 8, 0, made_ms, 503)
        yield Job(
            identity,
            dice.choice(key_sha256),
            dice.choice(_MODELS),
            made_ms,
            status=outcome,
            metadata={"order": number},
            webhook=hook if number % 5 == 0 else None,
            started_ms=made_ms + 20,
            finished_ms=made_ms + 4_100,
            target=0,
            provider_job_id=f"provider-{number}",
            attempts=attempts,
            outputs=()
            if fails
            else tuple(
                Output("image/png", 900_000, "ab" * 32, "url", "local", f"{identity}/{n}.png")
                for n in range(4)
            ),
            error=error,
            billable=None if fails else Billable(outputs=4),
            cost_nano=0 if fails else 12_000_000,
        )


def write_jobs(path: Path, count: int, key_sha256: list[str], now_ms: int) -> str:
    """Write a log of jobs, and return the id of one of them; empty where there is none."""
    last = ""
    with path.open("wb") as file:
        for job in jobs(count, key_sha256, now_ms):
            file.write(job_line(job, 1, b'{"prompt":"a lighthouse in a storm"}'))
            last = job.id
    return last
