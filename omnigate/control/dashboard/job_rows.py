"""One media job as a row of a list, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from omnigate.control.dashboard.job_causes import STATE_KINDS, WEBHOOK_KINDS, ended_cause
from omnigate.control.dashboard.paths import job_path
from omnigate.control.dashboard.request_rows import KeyMark, key_of
from omnigate.jobs.job import Job
from omnigate.text import one_line

#: What is shown of a name in a list; the job's own page has all of it.
NAME_CHARS: Final = 40

#: What is shown of an id in a list: its end, since ids of one hour begin alike.
ID_CHARS: Final = 8


@attrs.frozen
class JobRow:
    """One job.

    :ivar path: its own page.
    :ivar upstream: the adapter that was tried last; empty before the first.
    :ivar took_ms: from its creation to its end, or to now.
    :ivar webhook: the state of its webhook in words; empty where there is none.
    """

    path: str
    id: str
    short_id: str
    created_ms: int
    key: KeyMark
    model: str
    upstream: str
    state: str
    state_kind: str
    cause: str
    took_ms: int
    attempts: int
    outputs: int
    is_cached: bool
    is_canceling: bool
    cost_nano: int
    is_owed: bool
    webhook: str
    webhook_kind: str


def row_of(job: Job, names: Mapping[str, str], now_ms: int) -> JobRow:
    """Return the row of a job.

    :param names: the name of every key, by its hashes.
    """
    hook = job.webhook
    cause = ended_cause(job)
    return JobRow(
        path=job_path(job.id),
        id=job.id,
        short_id=f"…{job.id[-ID_CHARS:]}",
        created_ms=job.created_ms,
        key=key_of(job.key_sha256, names),
        model=one_line(job.model, NAME_CHARS),
        upstream=one_line(job.attempts[-1].adapter, NAME_CHARS) if job.attempts else "",
        state=job.status,
        state_kind=STATE_KINDS.get(job.status, "quiet"),
        cause=cause.title if cause is not None and cause.title != job.status else "",
        took_ms=max(0, (job.finished_ms if job.is_final else now_ms) - job.created_ms),
        attempts=len(job.attempts),
        outputs=len(job.outputs),
        is_cached=bool(job.cached_from),
        is_canceling=bool(job.cancel_ms) and not job.is_final,
        cost_nano=job.cost_nano,
        is_owed=job.cost_owed,
        webhook="" if hook is None else webhook_words(hook.state),
        webhook_kind="" if hook is None else WEBHOOK_KINDS.get(hook.state, "quiet"),
    )


def webhook_words(state: str) -> str:
    """Return the state of a webhook in words."""
    return state.replace("_", " ") or "at its end"
