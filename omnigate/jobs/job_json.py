"""A job as its client sees it: the JSON of ``GET /v1/jobs/{id}``, of lists and of webhooks.

Times are RFC 3339 with milliseconds, money is an exact JSON number. What is the gateway's own
business, such as ids and addresses of providers, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from omnigate.jobs.job import Attempt, Job, JobError, Output, Webhook
from omnigate.money import usd
from omnigate.periods import rfc3339

#: Given the path of a file at the gateway, returns it with a query that opens it without a key.
Sign: TypeAlias = Callable[[str], str]

#: What :func:`job_json` is given where a job's input is not shown; None is a value of JSON.
NO_INPUT: Final = msgspec.UNSET


def file_path(job_id: str, n: int) -> str:
    """Return where the gateway serves an output of a job."""
    return f"/v1/files/{job_id}/{n}"


def job_json(
    job: Job,
    *,
    sign: Sign | None = None,
    public_url: str | None = None,
    input: Any = NO_INPUT,
) -> dict[str, Any]:
    """Return a job as an object for :func:`msgspec.json.encode`.

    :param sign: makes the ``signed_url`` of each output; without it there is none.
    :param public_url: put before the paths of files, so that they are whole URLs.
    :param input: what the job was asked for, where it is shown.
    """
    shown: dict[str, Any] = {
        "id": job.id,
        "object": "job",
        "model": job.model,
        "status": job.status,
        "created_at": _time(job.created_ms),
        "started_at": _time(job.started_ms),
        "finished_at": _time(job.finished_ms),
        "metadata": job.metadata,
        "outputs": [
            _output(output, file_path(job.id, n), sign, (public_url or "").rstrip("/"))
            for n, output in enumerate(job.outputs)
        ],
        "error": _error(job.error),
        # As it is written, since a float would round it.
        "cost_usd": msgspec.Raw(usd(job.cost_nano).encode("ascii")),
        "cached": bool(job.cached_from),
        "attempts": [_attempt(attempt) for attempt in job.attempts],
        "cancel_requested": bool(job.cancel_ms),
        "webhook": _webhook(job.webhook),
    }
    if input is not NO_INPUT:
        shown["input"] = input
    return shown


def _time(ms: int) -> str | None:
    return rfc3339(ms) if ms else None


def _error(error: JobError | None) -> dict[str, str] | None:
    return None if error is None else {"code": error.code, "message": error.message}


def _output(output: Output, path: str, sign: Sign | None, origin: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"url": origin + path}
    if sign is not None:
        shown["signed_url"] = origin + sign(path)
    shown["content_type"] = output.content_type
    shown["bytes"] = output.size
    shown["sha256"] = output.sha256
    if output.encrypted:
        shown["encrypted"] = True
    return shown


def _attempt(attempt: Attempt) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "upstream": attempt.adapter,
        "model": attempt.model,
        "outcome": attempt.outcome,
    }
    if attempt.error is not None:
        shown["error"] = _error(attempt.error)
    return shown


def _webhook(webhook: Webhook | None) -> dict[str, Any] | None:
    if webhook is None:
        return None
    return {
        "url": webhook.url,
        "state": webhook.state,
        "attempts": webhook.attempts,
        "last_status": webhook.last_status or None,
        "last_error": webhook.last_error or None,
    }
