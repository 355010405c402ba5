"""How a job, or an attempt of it, ends: the fields of the change that says so."""

from __future__ import annotations

from typing import Any

import msgspec

from omnigate.jobs.adapters.base import Done
from omnigate.jobs.attempting import CameToNothing, GivenUp
from omnigate.jobs.bill import Bill
from omnigate.jobs.job import CANCELED, FAILED, Attempt, Job, Output
from omnigate.jobs.webhooks.schedule import armed


def final_fields(
    job: Job,
    status: str,
    now_ms: int,
    *,
    end: CameToNothing | GivenUp | None = None,
    bill: Bill | None = None,
    done: Done | None = None,
    outputs: tuple[Output, ...] = (),
) -> dict[str, Any]:
    """Return all that changes with the end of a job, which is one change.

    :param end: why it ends, where it did not succeed.
    :param bill: what its last attempt costs; of one that was given up it counts only if the
        provider is paid all the same.
    :param done: what the provider made.
    """
    if isinstance(end, GivenUp):
        done = end.done
        bill = bill if end.charged else None
    fields: dict[str, Any] = {
        "status": status,
        "finished_ms": now_ms,
        "attempts": ended(job, end, status, now_ms),
        "outputs": outputs,
        "error": end.error if isinstance(end, CameToNothing) else None,
        # A job that was canceled before anything was tried has used nothing, and is no event.
        "cost_owed": bool(job.attempts) or status != CANCELED,
        "provider_job_id": job.provider_job_id,
    }
    if bill is not None:
        fields["billable"] = bill.billable(done, len(outputs))
        fields["cost_nano"] = bill.cost_nano(fields["billable"])
    if done is not None:
        fields["provider_ms"] = done.provider_ms
        fields["provider_job_id"] = done.provider_job_id or job.provider_job_id
    if job.webhook is not None:
        fields["webhook"] = armed(job.webhook, now_ms)
    return fields


def note_fields(job: Job, end: CameToNothing, now_ms: int) -> dict[str, Any]:
    """Return what changes with an attempt that came to nothing."""
    fields: dict[str, Any] = {"attempts": ended(job, end, FAILED, now_ms)}
    if end.provider_job_id:
        fields["provider_job_id"] = end.provider_job_id
    return fields


def ended(
    job: Job, end: CameToNothing | GivenUp | None, status: str, now_ms: int
) -> tuple[Attempt, ...]:
    """Return the attempts of a job with the last one ended, if it was not."""
    attempts = job.attempts
    if not attempts or attempts[-1].outcome:
        return attempts
    error, outcome = None, status
    if isinstance(end, CameToNothing):
        error, outcome = end.error, "rate_limited" if end.rate_limited else FAILED
    last = msgspec.structs.replace(attempts[-1], ended_ms=now_ms, outcome=outcome, error=error)
    return (*attempts[:-1], last)
