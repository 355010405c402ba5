"""One attempt: a job at one target, from the submit to what came of it.

The submit is sent once. A provider's id is on the disk before it is polled for. Nothing here
decides about the job; it says what this target has come to (:data:`End`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import attrs
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    Done,
    Failed,
    Handle,
    PollOutcome,
    Running,
    Steps,
    Stopped,
    Task,
    Transient,
    Unclear,
)
from omnigate.jobs.conversing import Conversing, NotKeptError, OutOfTime
from omnigate.jobs.job import (
    PROVIDER_BAD_ANSWER,
    PROVIDER_FAILED,
    PROVIDER_TIMEOUT,
    STORAGE_FAILED,
    JobError,
)
from omnigate.jobs.wish import Wish

#: So many polls in a row that tell nothing abandon a target.
MAX_TRANSIENT: Final = 5

#: A provider that wants to be left alone for longer is asked after so long all the same.
MAX_WAIT_SECONDS: Final = 60.0

#: How long an abandoned provider may take to answer that it is to stop: nobody waits for it.
FAREWELL_SECONDS: Final = 10.0

#: How long one poll may take with all its requests: its answer may hold the media, up to 256 MiB.
POLL_SECONDS: Final = 1_800.0

#: How long the one poll may take that a job out of time has after a restart.
LAST_SECONDS: Final = 60.0

#: How long a cancel may take.
CANCEL_SECONDS: Final = 120.0


@attrs.frozen
class Delivered:
    """It is done there, and its outputs can be fetched."""

    done: Done


@attrs.frozen
class CameToNothing:
    """This target is abandoned.

    :ivar provider_job_id: the provider's id, where it gave one with the failure.
    """

    error: JobError
    rate_limited: bool = False
    provider_job_id: str = ""


@attrs.frozen
class GivenUp:
    """The client canceled it.

    :ivar done: what it had made by then, which nobody stores.
    :ivar charged: whether the provider works on, or has done its work, and is paid.
    """

    charged: bool = False
    done: Done | None = None


@attrs.frozen
class NotKept:
    """The provider has done its work and is paid, and our own disk did not take what it made.

    Any other provider's would meet the same disk.
    """

    error: JobError


End: TypeAlias = Delivered | CameToNothing | GivenUp | NotKept


@attrs.define(eq=False)
class Attempting:
    """One attempt.

    :ivar adapter: whose conversations are led.
    :ivar task: returns what it is to do; asked anew for each conversation, for the credential may
        have been changed. Its ``input`` may be empty but for the submit.
    :ivar wish: the client's.
    :ivar ends_at: when it is out of time, by the clock.
    :ivar timeout_s: the route's time-out, to be told of.
    :ivar interval: returns the seconds between polls.
    :ivar accepted: puts a provider's id on the disk.
    """

    adapter: Adapter
    task: Callable[[], Task]
    wish: Wish
    ends_at: float
    timeout_s: int
    interval: Callable[[], float]
    accepted: Callable[[Handle], Awaitable[None]]
    conversing: Conversing
    clock: IReactorTime
    _log = Logger(namespace="omnigate.jobs")

    async def begin(self) -> End | Handle:
        """Submit it, once.

        :return: a handle where the provider works on it, which is on the disk by now.
        """
        if self._is_wished():
            return GivenUp()
        if self._is_over():
            return self._out_of_time()
        task = self.task()
        try:
            outcome = await self.conversing.lead(task.job_id, self.adapter.submit(task), self._left)
        except OutOfTime:
            return GivenUp() if self.wish.ever else self._out_of_time()
        except NotKeptError as error:
            return GivenUp(charged=True) if self.wish.ever else NotKept(_not_kept(error))
        except CancelledError:
            raise
        except Exception:
            self._log.failure("{job}: {name} broke", job=task.job_id, name=self.adapter.name)
            outcome = Failed(JobError(PROVIDER_BAD_ANSWER, "the answer could not be read"))
        if isinstance(outcome, Accepted):
            await self.accepted(outcome.handle)
            return outcome.handle
        if isinstance(outcome, Done):
            if self.wish.ever:
                return GivenUp(charged=True, done=outcome)
            return Delivered(outcome)
        return self._failed(outcome)

    async def go_on(self, handle: Handle, *, is_resumed: bool = False) -> End:
        """Poll until there is an end.

        :param is_resumed: whether nobody has polled for a while, since the gateway was down: then
            it is polled once also where it is out of time, for it may be done, and paid.
        """
        bad, wait = 0, self.interval()
        if is_resumed and self._is_over():
            wait = 0.0
        else:
            is_resumed = False
        while True:
            if self.wish.asked:
                self.wish.asked = False
                if not self.adapter.can_cancel:
                    return GivenUp(charged=True)
                if await self._cancel(handle, CANCEL_SECONDS):
                    return GivenUp()
                wait = 0.0  # it came too late, or one poll decides
            await self.wish.sleep(self.conversing.alarms, min(wait, self._left))
            if self._is_wished():
                continue
            if self._is_over() and not is_resumed:
                return await self._abandon(handle)
            outcome = await self._poll(handle, LAST_SECONDS if is_resumed else self._left)
            is_resumed = False
            if outcome is None:
                return await self._abandon(handle)
            if isinstance(outcome, Done):
                if self._is_wished() and not self.adapter.can_cancel:
                    return GivenUp(charged=True, done=outcome)
                return Delivered(outcome)
            if isinstance(outcome, Failed):
                return self._failed(outcome)
            if isinstance(outcome, Stopped):
                if self.wish.ever:
                    return GivenUp()
                return CameToNothing(JobError(PROVIDER_FAILED, "canceled at the provider"))
            bad = bad + 1 if isinstance(outcome, Transient) else 0
            if isinstance(outcome, Transient) and bad >= MAX_TRANSIENT:
                if outcome.error.code == STORAGE_FAILED:
                    return NotKept(outcome.error)
                # One that answers nothing of use is not asked for anything more.
                return GivenUp() if self.wish.ever else CameToNothing(outcome.error)
            wait = max(self.interval(), min(outcome.wait_seconds, MAX_WAIT_SECONDS))

    @property
    def _left(self) -> float:
        return self.ends_at - self.clock.seconds()

    def _is_over(self) -> bool:
        return self._left <= 0

    def _is_wished(self) -> bool:
        return self.wish.asked

    async def _poll(
        self, handle: Handle, seconds: float
    ) -> Running | Done | Failed | Stopped | Transient | None:
        """Poll once.

        :return: None where it is out of time.
        """
        task = self.task()
        try:
            return await self._led(
                task, self.adapter.poll(task, handle), min(seconds, POLL_SECONDS)
            )
        except OutOfTime:
            if self._is_over():
                return None
            return Transient(JobError(PROVIDER_TIMEOUT, "the provider did not answer in time"))

    async def _led(self, task: Task, steps: Steps[PollOutcome], seconds: float) -> PollOutcome:
        try:
            return await self.conversing.lead(task.job_id, steps, seconds)
        except (OutOfTime, CancelledError):
            raise
        except NotKeptError as error:
            # It can be had again, and by then the disk may have room.
            return Transient(_not_kept(error))
        except Exception:
            self._log.failure("{job}: {name} broke", job=task.job_id, name=self.adapter.name)
            return Transient(JobError(PROVIDER_BAD_ANSWER, "the answer could not be read"))

    async def _cancel(self, handle: Handle, seconds: float) -> bool:
        """Ask the provider to stop; returns whether it says that it has."""
        task = self.task()
        try:
            outcome = await self.conversing.lead(
                task.job_id, self.adapter.cancel(task, handle), seconds
            )
        except OutOfTime:
            outcome = Unclear()
        except CancelledError:
            raise
        except Exception:
            self._log.failure("{job}: {name} broke", job=task.job_id, name=self.adapter.name)
            outcome = Unclear()
        return isinstance(outcome, Stopped)

    async def _abandon(self, handle: Handle) -> End:
        """Have the provider stop what nobody waits for any more, if it can."""
        if self.adapter.can_cancel:
            await self._cancel(handle, FAREWELL_SECONDS)
        return GivenUp() if self.wish.ever else self._out_of_time()

    def _failed(self, outcome: Failed) -> End:
        if self.wish.ever:
            return GivenUp()
        return CameToNothing(outcome.error, outcome.rate_limited, outcome.provider_job_id)

    def _out_of_time(self) -> CameToNothing:
        message = f"no result within {self.timeout_s} seconds"
        return CameToNothing(JobError(PROVIDER_TIMEOUT, message))


def _not_kept(error: NotKeptError) -> JobError:
    return JobError(STORAGE_FAILED, f"the output could not be kept: {error}")
