"""Looks for media jobs of all keys, as far back as there are any, in turns that hold nobody up."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs

from omnigate.control.keys import KeyBook
from omnigate.control.parameters import Parameter, read_text, text
from omnigate.control.request_filters import hashes_of
from omnigate.control.schemas import one_of
from omnigate.errors import GatewayError
from omnigate.jobs.job import STATES, Job
from omnigate.jobs.store import JobStore

KEY: Final = text("key", "only jobs of this gateway key: its name, or its SHA-256", 64)
MODEL: Final = text("model", "only jobs of this media route", 256)
STATUS: Final = Parameter("status", "only jobs with this status", one_of(*STATES))
AFTER: Final = text("after", "go on behind the job of this id: `next` of the page before", 64)
FILTERS: Final = (KEY, MODEL, STATUS)

#: Looks for one page, each at 20,000 jobs and for two milliseconds: all jobs that there may be.
MAX_LOOKS: Final = 16

_ID: Final = re.compile(r"job_[0-9a-hjkmnp-tv-z]{26}", re.ASCII)


@attrs.frozen
class JobFilter:
    """Which jobs are wanted; ``None`` stands for any.

    :ivar after: the id of the job behind which they come.
    """

    key_sha256: str | None = None
    model: str | None = None
    status: str | None = None
    after: str | None = None


@attrs.frozen
class FoundJobs:
    """Jobs, the newest first.

    :ivar next: where to go on; ``None`` at the end.
    """

    jobs: list[Job]
    next: str | None


def is_job_id(value: str) -> bool:
    """Whether that is how the id of a job is written."""
    return _ID.fullmatch(value) is not None


def read_filter(query: Mapping[str, str], book: KeyBook) -> JobFilter:
    """Return which jobs a query asks for.

    :raises GatewayError: ``invalid_request``, with the parameter that is at fault.
    """
    status, after = query.get(STATUS.name), query.get(AFTER.name)
    if status is not None and status not in STATES:
        raise GatewayError(
            "invalid_request", f"status must be one of {', '.join(STATES)}", param=STATUS.name
        )
    if after is not None and not is_job_id(after):
        raise GatewayError("invalid_request", "after must be the id of a job", param=AFTER.name)
    key = read_text(query, KEY)
    key_sha256 = None if key is None else next(iter(hashes_of(book, key)))
    return JobFilter(key_sha256, read_text(query, MODEL), status, after)


async def find_jobs(
    store: JobStore, wanted: JobFilter, limit: int, pause: Callable[[], Awaitable[None]]
) -> FoundJobs:
    """Return the newest jobs that are wanted."""
    found: list[Job] = []
    after = wanted.after
    for _ in range(MAX_LOOKS):
        page = store.newest(
            key_sha256=wanted.key_sha256,
            model=wanted.model,
            status=wanted.status,
            after=after,
            limit=limit - len(found),
        )
        found += page.jobs
        after = page.after
        if not page.has_more:
            return FoundJobs(found, None)
        if len(found) >= limit:
            break
        await pause()
    return FoundJobs(found, after)
