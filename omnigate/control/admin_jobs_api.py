"""Media jobs of all keys, as operators find them.

A job is told as its client sees it, with whose it is and what its provider calls it; its input is
its client's business and is not told. Amounts of money are exact decimal numbers of US dollars.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from omnigate.control.admin_json import encode
from omnigate.control.job_changes import JobChanges
from omnigate.control.job_search import AFTER, FILTERS, find_jobs, is_job_id, read_filter
from omnigate.control.keys import KeyBook
from omnigate.control.parameters import read_whole, whole
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    COUNT,
    DOLLARS,
    FLAG,
    SHA256,
    TEXT,
    TIME,
    Schema,
    one_of,
    or_null,
    record,
    rows,
)
from omnigate.errors import GatewayError
from omnigate.jobs.job import STATES, Job
from omnigate.jobs.store import JobStore

#: Jobs of a page: each has 17 KB at most, but for its outputs.
DEFAULT_JOBS: Final = 20
MAX_JOBS: Final = 100

#: Bytes of jobs that are shown in one step: 2 ms, be they outputs, attempts, or metadata of numbers
#: that are slow to write.
STEP_BYTES: Final = 64 * 1024

LIMIT: Final = whole("limit", "how many jobs to show at most", DEFAULT_JOBS, MAX_JOBS)

_ERROR: Final = record({"code": TEXT, "message": TEXT}, title="JobError")

JOB: Final[Schema] = record(
    {
        "id": TEXT,
        "object": one_of("job"),
        "key": or_null(TEXT),
        "key_sha256": SHA256,
        "model": TEXT,
        "status": one_of(*STATES),
        "provider_job_id": or_null(TEXT),
        "created_at": TIME,
        "started_at": or_null(TIME),
        "finished_at": or_null(TIME),
        "metadata": or_null({"type": "object"}),
        "outputs": rows(
            record(
                {
                    "url": TEXT,
                    "signed_url": TEXT,
                    "content_type": TEXT,
                    "bytes": COUNT,
                    "sha256": SHA256,
                    "encrypted": FLAG,
                },
                optional=("signed_url", "encrypted"),
                title="JobOutput",
            )
        ),
        "error": or_null(_ERROR),
        "cost_usd": DOLLARS,
        "cached": FLAG,
        "attempts": rows(
            record(
                {"upstream": TEXT, "model": TEXT, "outcome": TEXT, "error": or_null(_ERROR)},
                optional=("error",),
                title="JobAttempt",
            )
        ),
        "cancel_requested": FLAG,
        "webhook": or_null(
            record(
                {
                    "url": TEXT,
                    "state": TEXT,
                    "attempts": COUNT,
                    "last_status": or_null(COUNT),
                    "last_error": or_null(TEXT),
                },
                title="JobWebhook",
            )
        ),
    },
    title="Job",
)
JOBS: Final[Schema] = record({"jobs": rows(JOB), "next": or_null(TEXT)})


class Shown(Protocol):
    """Makes the JSON of a job as its client sees it."""

    def __call__(self, job: Job) -> dict[str, Any]:
        """Return it."""


class AdminJobsApi:
    """The endpoints of whoever looks for media jobs.

    :param shown: makes the JSON of a job.
    :param changes: cancels jobs, and has their webhooks sent once more.
    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        store: JobStore,
        book: KeyBook,
        shown: Shown,
        changes: JobChanges,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._book = book
        self._shown = shown
        self._changes = changes
        self._pause = pause

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET",
                "/admin/jobs",
                self.jobs,
                summary="Find media jobs of all keys, newest first",
                parameters=(LIMIT, *FILTERS, AFTER),
                answer=JOBS,
                refusals=("not_ready",),
            ),
            Endpoint(
                "GET",
                "/admin/jobs/{id}",
                self.job,
                summary="Show one media job",
                answer=JOB,
                refusals=("not_found", "not_ready"),
            ),
            Endpoint(
                "POST",
                "/admin/jobs/{id}/cancel",
                self.cancel,
                summary="Cancel a media job; one that has ended stays as it is",
                answer=JOB,
                refusals=("not_found", "not_ready", "storage_unavailable"),
            ),
            Endpoint(
                "POST",
                "/admin/jobs/{id}/webhook",
                self.send_webhook,
                summary="Send the webhook of a media job once more, also after it was given up",
                answer=JOB,
                refusals=(
                    "not_found",
                    "conflict",
                    "not_ready",
                    "overloaded",
                    "storage_unavailable",
                ),
            ),
        )

    async def jobs(self, call: Call) -> Answer:
        """Answer the jobs that are asked for, and where to go on."""
        limit = read_whole(call.query, LIMIT)
        wanted = read_filter(call.query, self._book)
        found = await find_jobs(self._store, wanted, limit, self._pause)
        told: list[bytes] = []
        size = 0
        for job in found.jobs:
            if size >= STEP_BYTES:
                size = 0
                await self._pause()
            told.append(encode(self._row(job)))
            size += len(told[-1])
        return Answer(b'{"jobs":[%b],"next":%b}' % (b",".join(told), encode(found.next)))

    async def job(self, call: Call) -> Answer:
        """Answer one job."""
        job = self._store.get(call.name) if is_job_id(call.name) else None
        if job is None:
            raise GatewayError("not_found", "there is no job of this id")
        return Answer(encode(self._row(job)))

    async def cancel(self, call: Call) -> Answer:
        """Cancel a job, and answer it as it is then."""
        return Answer(encode(self._row(await self._changes.cancel(call, call.name))))

    async def send_webhook(self, call: Call) -> Answer:
        """Have a webhook sent once more, and answer the job; what comes of it is seen later."""
        return Answer(encode(self._row(await self._changes.retry_webhook(call, call.name))))

    def _row(self, job: Job) -> dict[str, Any]:
        key = self._book.owner(job.key_sha256)
        return {
            **self._shown(job),
            "key": None if key is None else key.name,
            "key_sha256": job.key_sha256,
            "provider_job_id": job.provider_job_id or None,
        }
