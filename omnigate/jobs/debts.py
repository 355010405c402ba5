"""Brings the costs of finished jobs into the ledger, at once or once it can be reached again.

A job is final, with its cost and the mark that the cost is owed, in one change. Then the ledger is
told, and the mark taken away. The id of the event is the job's, and the ledger counts an id once,
so a crash anywhere between leaves a mark that does no harm.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.logger import Logger

from omnigate.errors import GatewayError
from omnigate.jobs.job import Job
from omnigate.jobs.keeping import Jobs
from omnigate.jobs.usage import event_of
from omnigate.ledger.counters import IngestResult
from omnigate.ledger.ingest import Priced

#: Costs that are told to the ledger at once; more is to be told only after a restart.
BATCH: Final = 100

#: Jobs that are looked at in one turn of the reactor: a receiver of webhooks that is down for days
#: leaves a hundred thousand that owe something, if not their cost.
STEP: Final = 2_000


class Books(Protocol):
    """The ledger."""

    def record_priced(self, events: Sequence[Priced]) -> Deferred[IngestResult]:
        """Record events with their costs; each id once."""


class Debts:
    """Settles what is owed.

    :param jobs: the store.
    :param books: the ledger.
    :param is_priced: whether the target that a job is billed for has a price.
    :param pause: lets the reactor do something else.
    """

    _log = Logger(namespace="omnigate.jobs")

    def __init__(
        self,
        jobs: Jobs,
        books: Books,
        is_priced: Callable[[Job], bool],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._jobs = jobs
        self._books = books
        self._is_priced = is_priced
        self._pause = pause
        self._turn = DeferredLock()
        self._telling: set[str] = set()
        # What the ledger has and the store could not note. The ledger forgets ids after some days,
        # and a disk of the store's may be full for longer.
        self._recorded: set[str] = set()

    async def settle(self, job: Job) -> None:
        """Tell the ledger of one job; where that cannot be done now, :meth:`settle_all` will."""
        if self._is_owed(job):
            await self._told([job])

    async def settle_all(self) -> None:
        """Tell the ledger of all that it has not heard of; one such round at a time."""
        if self._turn.locked:
            return
        await self._turn.acquire()
        try:
            after = ""
            while page := self._jobs.with_debts(after, STEP):
                after = page[-1].id
                if not await self._settle_some([job.id for job in page if job.cost_owed]):
                    return
                await self._pause()
        finally:
            self._turn.release()

    async def _settle_some(self, owing: Sequence[str]) -> bool:
        for start in range(0, len(owing), BATCH):
            found = (self._jobs.get(job_id) for job_id in owing[start : start + BATCH])
            batch = [job for job in found if job is not None and self._is_owed(job)]
            if batch and not await self._told(batch):
                return False
            await self._pause()
        return True

    def _is_owed(self, job: Job) -> bool:
        return job.cost_owed and job.id not in self._telling

    async def _told(self, jobs: Sequence[Job]) -> bool:
        """Tell the ledger, then note that it knows.

        :return: whether that is worth going on with.
        """
        telling = {job.id for job in jobs}
        self._telling |= telling
        try:
            unknown = [job for job in jobs if job.id not in self._recorded]
            if unknown:
                await self._books.record_priced([self._priced(job) for job in unknown])
                self._recorded.update(job.id for job in unknown)
            for job in jobs:
                await self._jobs.change(job.id, cost_owed=False)
                self._recorded.discard(job.id)
        except GatewayError as error:
            self._log.warn(
                "the cost of {count} jobs is not in the ledger yet, and is recorded within a "
                "minute of the cause's end: {error}",
                count=len(jobs),
                error=error.message,
            )
            return False
        except CancelledError:
            raise
        except Exception:
            self._log.failure("the cost of {job} could not be recorded", job=jobs[0].id)
            return False
        finally:
            self._telling -= telling
        return True

    def _priced(self, job: Job) -> Priced:
        known = job.cost_nano > 0 or job.billable is None or self._is_priced(job)
        return Priced(event_of(job), job.cost_nano if known else None)
