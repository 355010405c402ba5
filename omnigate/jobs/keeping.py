"""What the runner needs of the job store, and changes that wait for a disk that is full.

A job that cannot be written just now is not failed: what was paid for is not thrown away, and what
a provider accepted is not submitted again. Its task waits until the store takes the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from omnigate.errors import GatewayError
from omnigate.jobs.job import Job
from omnigate.jobs.store import InputLost

T = TypeVar("T")

#: How long to wait before a change is tried again, the last one over and over.
RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)


class Jobs(Protocol):
    """The store, as far as the runner knows it."""

    @property
    def open_jobs(self) -> int:
        """How many jobs are not final."""

    def get(self, job_id: str) -> Job | None:
        """Return a job as the disk has it."""

    def change(self, job_id: str, **fields: Any) -> Awaitable[Job]:
        """Change fields of a job; done once they are on the disk."""

    def input_of(self, job: Job) -> Awaitable[dict[str, Any]]:
        """Read the input of a job."""

    def unfinished(self) -> list[Job]:
        """Return the jobs that are not final."""

    def with_debts(self, after: str = "", limit: int | None = None) -> list[Job]:
        """Return the final jobs of which somebody has yet to hear, the oldest first.

        :param after: the id of the job behind which to go on.
        """


class Keeping:
    """Changes jobs, and waits where the store cannot.

    :param jobs: the store.
    :param clock: for the pauses.
    """

    _log = Logger(namespace="omnigate.jobs")

    def __init__(self, jobs: Jobs, clock: IReactorTime) -> None:
        self.jobs = jobs
        self._clock = clock

    async def change(self, job_id: str, **fields: Any) -> Job:
        """Change fields of a job, however long that takes.

        :raises Exception: what the store says but that it cannot write now: that there is no such
            job, or that it is final.
        """
        return await self._tried(job_id, lambda: self.jobs.change(job_id, **fields))

    async def input_of(self, job: Job) -> dict[str, Any]:
        """Read the input of a job, however long that takes.

        :raises Exception: the input is gone, or damaged.
        """
        return await self._tried(job.id, lambda: self.jobs.input_of(job))

    async def _tried(self, job_id: str, call: Callable[[], Awaitable[T]]) -> T:
        tries = 0
        while True:
            try:
                return await _uncut(call())
            except GatewayError as error:
                if error.kind.code != "storage_unavailable" or isinstance(error, InputLost):
                    raise
                if not tries:
                    self._log.warn(
                        "{job}: waits for the job store: {error}", job=job_id, error=error.message
                    )
            await deferLater(self._clock, RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)])
            tries += 1


async def _uncut(work: Awaitable[T]) -> T:
    """Wait for work of the store, which is done to its end also where nobody waits any more."""
    result: Deferred[T] = Deferred()

    def ended(outcome: Any) -> None:
        if not result.called:
            result.callback(outcome)

    Deferred.fromCoroutine(_awaited(work)).addBoth(ended)
    return await result


async def _awaited(work: Awaitable[T]) -> T:
    return await work
