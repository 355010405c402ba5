"""The list of media jobs, and one of them whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omnigate.control.dashboard.job_rows import row_of
from omnigate.control.dashboard.job_view import view_of
from omnigate.control.dashboard.live_parts import mark_of
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.dashboard.paths import job_path, jobs_path
from omnigate.control.dashboard.sources import Sources
from omnigate.control.job_changes import JobChanges
from omnigate.control.job_search import (
    AFTER,
    FILTERS,
    FoundJobs,
    JobFilter,
    find_jobs,
    is_job_id,
    read_filter,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.jobs.job import Job

#: The menu's entry.
PLACE: Final = "/jobs"

#: Rows of one page.
ROWS: Final = 50

#: How often the list comes up while somebody looks.
SECONDS: Final = 2

#: Names that are offered while somebody types; more would be more than a browser shows.
MAX_OFFERED: Final = 100

#: A form holds its token and nothing else.
MAX_FORM_BYTES: Final = 4096

#: What is looked for by its id.
_ID: Final = "id"

#: What may be chosen of states.
STATES: Final = (
    ("", "any"),
    ("queued", "queued"),
    ("running", "running"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("canceled", "canceled"),
)

#: What has just been done, as the address of the page behind it says.
DONE: Final[Mapping[str, tuple[str, str]]] = {
    "canceled": ("The job is canceled, or will be as soon as its provider has answered.", "good"),
    "ended": ("The job had ended before it could be canceled.", "info"),
    "sent": (
        "The webhook is being sent once more. Load the page again to see what came of it.",
        "good",
    ),
}


class JobsPage:
    """The endpoints of media jobs."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources
        self._store = sources.media.store
        self._changes = JobChanges(sources.media, sources.audit)
        self._names: tuple[tuple[int, int], dict[str, str]] = ((-1, -1), {})
        sources.live.whole("jobs", self._live, seconds=SECONDS)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", PLACE, self.show_list, free_query=True),
            Endpoint("GET", "/jobs/{id}", self.show, free_query=True),
            Endpoint("POST", "/jobs/{id}/cancel", self.cancel, body_limit=MAX_FORM_BYTES),
            Endpoint("POST", "/jobs/{id}/webhook", self.retry, body_limit=MAX_FORM_BYTES),
        )

    # -- the list -----------------------------------------------------------------------------

    async def show_list(self, call: Call) -> Answer:
        """Show a page of the list; a whole id leads to its job."""
        typed = {each.name: call.query.get(each.name, "") for each in FILTERS}
        typed[_ID] = job_id = call.query.get(_ID, "")
        if job_id and is_job_id(job_id) and self._store.get(job_id) is not None:
            return see_other(job_path(job_id))
        try:
            if job_id:
                raise GatewayError("invalid_request", "there is no job of this id", param=_ID)
            wanted = read_filter(call.query, self._sources.book)
        except GatewayError as refusal:
            if refusal.param not in typed:
                raise
            fault = {refusal.param: refusal.message}
            return self._list(call, typed, JobFilter(), FoundJobs([], None), fault)
        found = await find_jobs(self._store, wanted, ROWS, self._sources.pause)
        return self._list(call, typed, wanted, found)

    def _list(
        self,
        call: Call,
        typed: dict[str, str],
        wanted: JobFilter,
        found: FoundJobs,
        faults: Mapping[str, str] = {},
    ) -> Answer:
        media = self._sources.config_file.config.media
        is_first = wanted.after is None
        rows = self._rows(found.jobs)
        older = {**typed, AFTER.name: found.next or ""}
        return self._pages.answer(
            "jobs.html",
            call.person,
            status=400 if faults else 200,
            title="Jobs",
            place=PLACE,
            typed=typed,
            faults=faults,
            states=STATES,
            models=sorted(route.model for route in media.routes)[:MAX_OFFERED],
            part=rows,
            mark=mark_of(rows),
            is_live=is_first and not faults and bool(found.jobs),
            has_rows=bool(found.jobs),
            has_routes=bool(media.routes),
            is_filtered=any(typed.values()),
            newer="" if is_first else jobs_path(typed),
            older=jobs_path(older) if found.next else "",
            total=len(self._store),
            open_jobs=self._store.open_jobs,
            keeps_days=self._sources.config_file.config.retention.jobs_days,
        )

    async def _live(self, query: Mapping[str, str]) -> str:
        """Make the rows of the first page anew."""
        wanted = read_filter(query, self._sources.book)
        found = await find_jobs(self._store, wanted, ROWS, self._sources.pause)
        return self._rows(found.jobs)

    def _rows(self, jobs: list[Job]) -> str:
        names, now_ms = self._key_names(), self._sources.now_ms()
        return self._pages.html(
            "job_rows.html", None, rows=[row_of(job, names, now_ms) for job in jobs]
        )

    # -- one job ------------------------------------------------------------------------------

    async def show(self, call: Call) -> Answer:
        """Show one job."""
        job = self._changes.find(call.name)
        try:
            input_json = await self._store.input_json(job)
        except GatewayError:
            input_json = None  # lost, or the disk does not answer: the rest is worth a look
        await self._sources.pause()
        done, kind = DONE.get(call.query.get("done", ""), ("", "good"))
        return self._pages.answer(
            "job.html",
            call.person,
            title=f"Job {job.id}",
            place=PLACE,
            done=done,
            done_kind=kind,
            **self._values(job, input_json),
        )

    def _values(self, job: Job, input_json: bytes | None) -> dict[str, Any]:
        media = self._sources.config_file.config.media
        names, now_ms = self._key_names(), self._sources.now_ms()
        return {"view": view_of(job, input_json, names, media, now_ms)}

    async def cancel(self, call: Call) -> Answer:
        """Cancel a job."""
        before = self._changes.find(call.name)
        await self._changes.cancel(call, call.name)
        return see_other(f"{job_path(before.id)}?done={'ended' if before.is_final else 'canceled'}")

    async def retry(self, call: Call) -> Answer:
        """Send a webhook once more."""
        job = await self._changes.retry_webhook(call, call.name)
        return see_other(f"{job_path(job.id)}?done=sent")

    def _key_names(self) -> dict[str, str]:
        """Return the name of every key by its hashes; they are gathered once for each change."""
        book = self._sources.book
        if self._names[0] != book.revision:
            self._names = book.revision, book.names_by_hash()
        return self._names[1]
