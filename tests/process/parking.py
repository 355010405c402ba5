"""Runs ``twistd`` with places on the way of a media job where the job stays for ever.

A job says by its metadata where: ``{"park": "before accepted"}``. It gets there as it always does,
a file named after the place tells, and nothing more of it happens in this life: whoever kills the
process then kills it exactly there. All other jobs go on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred

from omnigate.jobs.job import DELIVERED, Job
from omnigate.jobs.job_life import Life
from omnigate.jobs.runner import Runner
from omnigate.jobs.store import JobStore

#: The variable that names the folder of the files that tell.
FOLDER: Final = "PARKING_FOLDER"

#: The program of a child: everything behind it on the command line is twistd's.
PROGRAM: Final = (
    "import sys; from tests.process import parking; parking.install(); "
    "from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
)

#: The changes of a job that the disk sees, in their order; a job may stay before or after each.
CHANGES: Final = ("target", "accepted", "cancel", "final", "attempt", "delivered", "cost")

#: It is on the disk, and its client has not been answered.
UNANSWERED: Final = "unanswered"

#: Before it is looked at at all; its client may have been answered.
CREATED: Final = "created"


def kind_of(fields: Mapping[str, Any]) -> str:
    """Return what a change of a job is, one of :data:`CHANGES`, or nothing."""
    if "finished_ms" in fields:
        return "final"
    if fields.get("provider_job_id"):
        return "accepted"
    if "target" in fields:
        return "target"
    if "cancel_ms" in fields:
        return "cancel"
    if fields.get("cost_owed") is False:
        return "cost"
    if "webhook" in fields:
        return "delivered" if fields["webhook"].state == DELIVERED else "attempt"
    return ""


async def _stay(job: Job | None, place: str) -> None:
    if job is None or (job.metadata or {}).get("park") != place:
        return
    Path(os.environ[FOLDER], job.id).touch()
    forever: Deferred[None] = Deferred()
    await forever


def install() -> None:
    """Put the places on the way, before the daemon is made."""
    change, live, begin = JobStore.change, Life.live, Runner.begin

    async def changes(self: JobStore, job_id: str, **fields: Any) -> Job:
        job, kind = self.get(job_id), kind_of(fields)
        await _stay(job, f"before {kind}")
        changed = await change(self, job_id, **fields)
        await _stay(job, f"after {kind}")
        return changed

    async def lives(self: Life) -> Job:
        await _stay(self.job, CREATED)
        return await live(self)

    async def begins(self: Runner, job: Job) -> Job:
        await _stay(job, UNANSWERED)
        return await begin(self, job)

    store: Any = JobStore
    life: Any = Life
    runner: Any = Runner
    store.change, life.live, runner.begin = changes, lives, begins
