"""What the ledger is told of a job: one event, whatever came of it."""

from __future__ import annotations

from typing import Final

from omnigate.events import MAX_COUNT, AttemptRecord, MediaEvent
from omnigate.jobs.job import CANCELED, SUCCEEDED, Attempt, Job

#: What stands in ``endpoint``.
ENDPOINT: Final = "jobs"

#: The status of a job's event.
_STATUS: Final = {SUCCEEDED: 200, CANCELED: 499}
_FAILED: Final = 502

_OUTCOMES: Final = {"succeeded": "ok", "": "canceled"}


def event_of(job: Job) -> MediaEvent:
    """Return the event of a job that is final.

    Its upstream is whose work is billed: nobody's for a job that failed for nothing, or that an
    earlier one answered.
    """
    last = job.attempts[-1] if job.attempts else None
    answered = last if last is not None and (job.status == SUCCEEDED or job.billable) else None
    billable = job.billable
    return MediaEvent(
        id=job.id,
        key_sha256=job.key_sha256,
        route_model=job.model,
        upstream=None if answered is None else answered.adapter,
        target_model=None if answered is None else answered.model,
        status=_STATUS.get(job.status, _FAILED),
        stream=False,
        input_tokens=0,
        cached_input_tokens=0,
        cache_write_input_tokens=0,
        output_tokens=0,
        cached=bool(job.cached_from),
        estimated=False,
        latency_ms=_between(job.started_ms or job.created_ms, job.finished_ms),
        attempts=[_record(attempt) for attempt in job.attempts],
        ts_ms=job.finished_ms,
        endpoint=ENDPOINT,
        characters=0 if billable is None else min(billable.characters, MAX_COUNT),
        media_ms=0 if billable is None else min(billable.milliseconds, MAX_COUNT),
        outputs=len(job.outputs) if billable is None else min(billable.outputs, MAX_COUNT),
    )


def _record(attempt: Attempt) -> AttemptRecord:
    outcome = attempt.outcome
    if outcome == "failed" and attempt.error is not None:
        outcome = attempt.error.code
    return AttemptRecord(
        upstream=attempt.adapter,
        model=attempt.model,
        outcome=_OUTCOMES.get(outcome, outcome),
        status=None,
        duration_ms=_between(attempt.started_ms, attempt.ended_ms),
    )


def _between(from_ms: int, until_ms: int) -> int:
    """The time between; none where a clock was set back."""
    return max(0, min(until_ms - from_ms, MAX_COUNT))
