"""Why a media job or one of its attempts ended as it did, and what to do about it, in plain words.

The codes are those of :mod:`omnigate.jobs.job`; the ledger has the same words as outcomes of the
attempts of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from omnigate.control.dashboard.causes import BAD, GOOD, WARN, Cause
from omnigate.jobs.job import (
    CANCELED,
    CANCELED_ERROR,
    FAILED,
    OUTPUT_REFUSED,
    OUTPUT_TOO_LARGE,
    OUTPUT_UNAVAILABLE,
    PROVIDER_BAD_ANSWER,
    PROVIDER_FAILED,
    PROVIDER_RATE_LIMITED,
    PROVIDER_TIMEOUT,
    QUEUED,
    RUNNING,
    STORAGE_FAILED,
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

_RATE_LIMITED: Final = Cause(
    "provider's rate limit",
    "The provider's rate limit or quota was used up.",
    "Ask the provider for a higher limit, lower media.max_running_per_provider, or give the route "
    "another target.",
)
_CANCELED: Final = Cause(
    "canceled", "It was canceled: its client asked for that, or an operator did.", kind=WARN
)

#: By code, and by the outcome of an attempt where that has no code.
CAUSES: Final[Mapping[str, Cause]] = {
    SUCCEEDED: Cause("succeeded", "The provider delivered, and the outputs are stored.", kind=GOOD),
    "ok": Cause("succeeded", "The provider delivered, and the outputs are stored.", kind=GOOD),
    CANCELED_ERROR: _CANCELED,
    "rate_limited": _RATE_LIMITED,
    PROVIDER_RATE_LIMITED: _RATE_LIMITED,
    PROVIDER_FAILED: Cause(
        "provider failed",
        "The provider refused the job, or its model failed at it.",
        "Its message says why: often the input, the model's name or the provider's credential.",
    ),
    PROVIDER_TIMEOUT: Cause(
        "no answer in time",
        "The provider did not finish within the time that the route allows.",
        "Allow more with timeout_s of the media route, or put a faster target first.",
    ),
    PROVIDER_BAD_ANSWER: Cause(
        "unreadable answer",
        "What the provider answered is not what its API says.",
        "Check adapter and base_url of the target; a proxy in between answers like this, too.",
    ),
    OUTPUT_REFUSED: Cause(
        "output refused",
        "The provider named an output at an address that the gateway may not reach.",
        "If that address is known to be good, allow it with outbound.allow.",
    ),
    OUTPUT_UNAVAILABLE: Cause(
        "output not to be had",
        "The provider said that it is done, and its output could not be fetched.",
        "Look whether the gateway reaches the provider's file host, and at its status page.",
    ),
    OUTPUT_TOO_LARGE: Cause(
        "output too large",
        "An output, all of them together, or their number is over the limits of the gateway.",
        "Raise max_output_bytes, max_job_output_bytes or max_outputs_per_job in [media].",
    ),
    STORAGE_FAILED: Cause(
        "storage failed",
        "The outputs could not be stored. That is the gateway's own fault, so no other provider "
        "was tried.",
        "Look at the disk of the media folder, or at the bucket and its credentials.",
    ),
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
        return _CANCELED
    if job.status != FAILED:
        return None
    return job_cause(FAILED if job.error is None else job.error.code)
