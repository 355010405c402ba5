"""Why a media job or one of its attempts ended as it did, and what to do about it, in plain words.

The codes are those of :mod:`omnigate.jobs.job`; the ledger has the same words as outcomes of the
attempts of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from omnigate.control.dashboard.causes import BAD, GOOD, WARN, Cause
from omnigate.control.dashboard.media_requests import ATTEMPTS
from omnigate.jobs.job import (
    CANCELED,
    FAILED,
    PROVIDER_RATE_LIMITED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Attempt,
    Job,
)

#: What a state is called, and the kind of its badge.
STATE_KINDS: Final[Mapping[str, str]] = {
    QUEUED: "quiet",
    RUNNING: "info",
    SUCCEEDED: GOOD,
    FAILED: BAD,
    CANCELED: WARN,
}

#: The same of a webhook; empty is before the end of its job.
WEBHOOK_KINDS: Final[Mapping[str, str]] = {
    "": "quiet",
    "pending": WARN,
    "delivered": GOOD,
    "given_up": BAD,
}

#: By code, and by the outcome of an attempt where that has no code.
CAUSES: Final[Mapping[str, Cause]] = {
    **ATTEMPTS,
    SUCCEEDED: ATTEMPTS["ok"],
    PROVIDER_RATE_LIMITED: ATTEMPTS["rate_limited"],
    FAILED: Cause("failed", "The provider could not do it."),
}

_UNDER_WAY: Final = Cause("under way", "It is being worked on.", kind="info")


def job_cause(code: str) -> Cause:
    """Return what a code means; for one that is not known, that word."""
    found = CAUSES.get(code)
    return found or Cause(code.replace("_", " "), "A later version of the gateway knows this.")


def attempt_cause(attempt: Attempt) -> Cause:
    """Return how an attempt ended, or that it goes on."""
    if not attempt.outcome:
        return _UNDER_WAY
    if attempt.error is not None and attempt.outcome != CANCELED:
        return job_cause(attempt.error.code)
    return job_cause(attempt.outcome)


def ended_cause(job: Job) -> Cause | None:
    """Return why a job ended as it did; ``None`` before, and where there is nothing to say."""
    if job.status == CANCELED:
        return ATTEMPTS["canceled"]
    if job.status != FAILED:
        return None
    return job_cause(FAILED if job.error is None else job.error.code)
