"""Which jobs end with what an earlier one made, by the ``cache_ttl_s`` of their routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from omnigate.errors import GatewayError
from omnigate.jobs.earlier_jobs import MAX_REMEMBERED, EarlierJobs, is_worth_reading, mark_of
from omnigate.jobs.job import Job
from omnigate.jobs.means import Means

#: Jobs that are passed over in one turn of the reactor.
STEP: Final = 100


class Sharing:
    """The earlier jobs under the config in force.

    :param succeeded: yields the jobs that have succeeded, the newest first, or those of them that
        are worth looking at.
    :param pause: lets the reactor do something else.
    """

    def __init__(
        self,
        means: Means,
        succeeded: Callable[[], Iterable[Job]],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._means = means
        self._jobs = means.keeping.jobs
        self._succeeded = succeeded
        self._pause = pause
        self._earlier = EarlierJobs(self._jobs.get)

    def mark(self, job: Job) -> bytes | None:
        """Return what identical jobs have in common; None where nobody looks for them."""
        route = self._means.route(job.model)
        return mark_of(job, job.input) if route is not None and route.cache_ttl_s else None

    def find(self, job: Job, mark: bytes | None) -> Job | None:
        """Return the job whose outputs one that has not begun may have."""
        route = self._means.route(job.model)
        if route is None or not route.cache_ttl_s or job.cancel_ms or job.attempts:
            return None
        recipients = self._means.recipients(job.key_sha256)
        if recipients is None:
            return None
        return self._earlier.find(mark, route.cache_ttl_s, recipients, self._means.now_ms())

    def remember(self, mark: bytes | None, job: Job) -> None:
        """Remember a job that has ended, if it has outputs of its own."""
        recipients = self._means.recipients(job.key_sha256)
        if recipients is not None:
            self._earlier.remember(mark, job, recipients)

    async def load(self) -> None:
        """Remember what was done in former lives, where a route asks for it."""
        routes, now_ms = self._means.media().routes, self._means.now_ms()
        since = {route.model: now_ms - route.cache_ttl_s * 1000 for route in routes}
        if not any(route.cache_ttl_s for route in routes):
            return
        looked_at = read = 0
        for job in self._succeeded():
            looked_at += 1
            if job.finished_ms > since.get(job.model, job.finished_ms) and is_worth_reading(job):
                read += 1
                if read > MAX_REMEMBERED:
                    return  # no more are remembered
                try:
                    input = await self._jobs.input_of(job)
                except GatewayError:
                    continue  # one that cannot be read is done anew
                self._earlier.load(mark_of(job, input), job)
                await self._pause()
            elif looked_at % STEP == 0:
                await self._pause()
