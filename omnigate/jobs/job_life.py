"""The life of one job while it runs: target after target, until it is final.

What is decided is on the disk before anything follows from it: the target before its submit, the
provider's id before the first poll, the end as one change with outputs and cost.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from omnigate.config.media import MediaRouteConfig
from omnigate.jobs.adapters.base import Done, Handle, Task
from omnigate.jobs.attempting import (
    Attempting,
    CameToNothing,
    Delivered,
    End,
    GivenUp,
    NotKept,
)
from omnigate.jobs.bill import Bill, asked_of
from omnigate.jobs.ending import final_fields, note_fields
from omnigate.jobs.job import (
    CANCELED,
    FAILED,
    PROVIDER_FAILED,
    RUNNING,
    STORAGE_FAILED,
    SUCCEEDED,
    Attempt,
    Job,
    JobError,
    Output,
)
from omnigate.jobs.means import Means
from omnigate.jobs.output_faults import OutputFault, OutputLimits
from omnigate.jobs.provider_slots import address_of
from omnigate.jobs.targets import Target, next_target, tried_target
from omnigate.jobs.wish import Wish

#: How long a wait for a place lasts before it is looked whether there is one after all.
PLACE_SECONDS: Final = 60.0


#: How long is waited before it is asked again whether outputs can be kept: at first, for a disk,
#: and at most, for a bucket that lets a thousand jobs wait.
READY_SECONDS: Final = 0.02
MOST_READY_SECONDS: Final = 1.0


class Life:
    """One job that runs.

    :ivar job: as the disk has it.
    :ivar wish: the client's wish that it be canceled.
    :ivar is_delicate: whether an end of the process now would have the job submitted, and maybe
        paid, once more.
    """

    _log = Logger(namespace="omnigate.jobs")

    def __init__(self, job: Job, means: Means) -> None:
        self.job = job
        self.wish = Wish(bool(job.cancel_ms))
        self.is_delicate = False
        self._is_stopping = False
        self._means = means

    def refresh(self, job: Job | None) -> None:
        """Go on with a job as it is now."""
        if job is not None:
            self.job = job
            if job.cancel_ms and not self.wish.ever:
                self.wish.ask()

    def stop(self) -> bool:
        """End as soon as nothing would be paid once more for it; returns whether to wait for that.

        Whoever need not wait cancels what runs it.
        """
        self._is_stopping = True
        return self.is_delicate

    async def share(self, earlier: Job) -> Job:
        """End with the outputs of a job that did the same before, at no cost."""
        fields = final_fields(self.job, SUCCEEDED, self._means.now_ms(), outputs=earlier.outputs)
        self.job = await self._means.keeping.change(
            self.job.id, **fields, provider_ms=earlier.provider_ms, cached_from=earlier.id
        )
        return self.job

    async def broken(self) -> Job:
        """End after a fault of this program; nothing is tried any more."""
        error = JobError(PROVIDER_FAILED, "a fault of the gateway; its log says more")
        return await self._end(FAILED, CameToNothing(error))

    async def live(self) -> Job:
        """Run it until it is final.

        :return: the job as it ended.
        """
        pause = READY_SECONDS
        while True:
            route = self._means.route(self.job.model)
            if route is None:
                message = "the config has no such media route any more"
                return await self._stopped_by(JobError(PROVIDER_FAILED, message))
            targets = self._means.targets(route)
            attempts = self.job.attempts
            is_open = bool(attempts and not attempts[-1].outcome)
            is_begun = is_open and bool(self.job.provider_job_id)
            if is_open:
                target = tried_target(targets, attempts[-1], is_begun=is_begun)
                if target is None:
                    message = "the config does not have this target any more"
                    await self._note(CameToNothing(JobError(PROVIDER_FAILED, message)))
                    continue
                if self.wish.ever and not is_begun:
                    return await self._end(CANCELED, GivenUp())
            else:
                target = next_target(targets, attempts)
                if self.wish.ever:
                    return await self._end(CANCELED)
                if target is None:
                    return await self._stopped_by(attempts[-1].error if attempts else None)
            unready = "" if is_begun else self._means.outputs.unready()
            if unready is None:
                await self.wish.sleep(self._means.conversing.alarms, pause)
                pause = min(2 * pause, MOST_READY_SECONDS)
                continue
            if unready:
                # It would be paid for, and lost.
                message = "the gateway cannot keep outputs now; its log says why"
                return await self._stopped_by(JobError(STORAGE_FAILED, message))
            if not is_open and not (await self._place(target) and await self._begin(target)):
                continue
            final = await self._attempt(route, target)
            if final is not None:
                return final

    # -- the steps ----------------------------------------------------------------------------

    async def _place(self, target: Target) -> bool:
        """Wait for a place at a target's provider; returns whether there is one.

        By then the config may be another one, so whoever waited looks anew.
        """
        slots, job, address = self._means.slots, self.job, address_of(target.base_url)
        if slots.at(job.id) == address:
            return True
        if slots.waits_at(job.id) != address:
            slots.leave(job.id)
            slots.put(address, job.key_sha256, job.id, self.wish.wake)
            if slots.at(job.id) == address:
                return True
        await self.wish.sleep(self._means.conversing.alarms, PLACE_SECONDS)
        return False

    async def _begin(self, target: Target) -> bool:
        """Write down that a target is tried; returns whether it is to be gone on with."""
        now_ms = self._means.now_ms()
        name, base_url, model = target.identity
        attempt = Attempt(
            target=target.place, adapter=name, base_url=base_url, model=model, started_ms=now_ms
        )
        self.job = await self._means.keeping.change(
            self.job.id,
            status=RUNNING,
            started_ms=self.job.started_ms or now_ms,
            target=target.place,
            attempts=(*self.job.attempts, attempt),
            provider_job_id="",
            provider_notes={},
        )
        return not self.wish.ever

    async def _attempt(self, route: MediaRouteConfig, target: Target) -> Job | None:
        """Try a target, or go on with it.

        :return: the job if it is final now; None where the next target is to be tried.
        """
        try:
            input = await self._means.keeping.input_of(self.job)
        except CancelledError:
            raise
        except Exception:
            self._log.failure("{job}: its input cannot be read", job=self.job.id)
            return await self._stopped_by(JobError(STORAGE_FAILED, "its input cannot be read"))
        task = target.task(self.job.id, route, input)
        asked = asked_of(target, task, is_new=not self.job.provider_job_id)
        if isinstance(asked, JobError):
            await self._note(CameToNothing(asked))
            return None
        bill = Bill.of(route, target, asked, input)
        sent = [input]
        del input, task  # may have megabytes, and are only needed for the submit
        try:
            end = await self._tried(route, target, sent)
            if isinstance(end, Delivered):
                return await self._deliver(end.done, bill)
            if isinstance(end, GivenUp):
                return await self._end(CANCELED, end, bill)
            if isinstance(end, NotKept):
                return await self._end(FAILED, CameToNothing(end.error), bill)
            await self._note(end)
            return None
        finally:
            self.is_delicate = False
            self._means.clear(self.job.id)

    async def _tried(
        self, route: MediaRouteConfig, target: Target, sent: list[dict[str, Any]]
    ) -> End:
        """See it to its end; ``sent`` has the input, which is taken out once that is sent."""
        means, job = self._means, self.job
        spent_ms = max(0, means.now_ms() - job.attempts[-1].started_ms)

        def task() -> Task:
            now = tried_target(means.targets(route), job.attempts[-1]) or target
            return now.task(job.id, route, sent[0] if sent else {})

        attempting = Attempting(
            target.adapter,
            task,
            self.wish,
            ends_at=means.clock.seconds() + route.timeout_s - spent_ms / 1000,
            timeout_s=route.timeout_s,
            interval=lambda: means.media().poll_interval_ms / 1000,
            accepted=self._accepted,
            conversing=means.conversing,
            clock=means.clock,
        )
        if job.provider_job_id:
            handle = Handle(job.provider_job_id, job.provider_notes)
        else:
            self.is_delicate = True
            begun = await attempting.begin()
            if not isinstance(begun, Handle):
                return begun
            handle = begun
        self.is_delicate = False
        if self._is_stopping:
            raise CancelledError
        sent.clear()
        return await attempting.go_on(handle, is_resumed=bool(job.provider_job_id))

    async def _accepted(self, handle: Handle) -> None:
        self.job = await self._means.keeping.change(
            self.job.id,
            provider_job_id=handle.provider_job_id,
            provider_notes=dict(handle.notes),
        )

    async def _deliver(self, done: Done, bill: Bill) -> Job | None:
        """Store the outputs."""
        means, job = self._means, self.job
        recipients = means.recipients(job.key_sha256)
        if recipients is None:
            # Kept in clear, they might be what was to be encrypted; and no key could fetch them.
            error = JobError(
                STORAGE_FAILED, "the key of this job was deleted: nobody may read them"
            )
            return await self._end(FAILED, CameToNothing(error), bill, done)
        try:
            outputs = await means.outputs.store(
                job,
                done.sources,
                own_origin=address_of(bill.target.base_url),
                limits=OutputLimits.of(means.media()),
                recipients=recipients,
            )
        except OutputFault as fault:
            if fault.is_ours:
                return await self._end(FAILED, CameToNothing(fault.error), bill, done)
            if self.wish.ever:
                return await self._end(CANCELED, GivenUp())
            await self._note(CameToNothing(fault.error))
            return None
        except CancelledError:
            raise
        except Exception:
            self._log.failure("{job}: its outputs could not be stored", job=job.id)
            error = JobError(STORAGE_FAILED, "the outputs could not be stored")
            return await self._end(FAILED, CameToNothing(error), bill, done)
        return await self._end(SUCCEEDED, None, bill, done, outputs)

    # -- what is written ----------------------------------------------------------------------

    async def _note(self, end: CameToNothing) -> None:
        """Write down that a target came to nothing, and is not to be gone on with."""
        fields = note_fields(self.job, end, self._means.now_ms())
        if self._is_last_word():
            self.job = msgspec.structs.replace(self.job, **fields)
        else:
            self.job = await self._means.keeping.change(self.job.id, **fields)

    def _is_last_word(self) -> bool:
        """Whether no target is left: then the end of the attempt is told with the job's."""
        route = self._means.route(self.job.model)
        return route is None or next_target(self._means.targets(route), self.job.attempts) is None

    async def _stopped_by(self, error: JobError | None) -> Job:
        """Fail for lack of a target that could be tried."""
        if self.wish.ever:
            return await self._end(CANCELED, GivenUp())
        error = error or JobError(PROVIDER_FAILED, "no target could be tried")
        return await self._end(FAILED, CameToNothing(error))

    async def _end(
        self,
        status: str,
        end: CameToNothing | GivenUp | None = None,
        bill: Bill | None = None,
        done: Done | None = None,
        outputs: tuple[Output, ...] = (),
    ) -> Job:
        """Make it final: one change, with all that belongs to it."""
        fields = final_fields(
            self.job,
            status,
            self._means.now_ms(),
            end=end,
            bill=bill,
            done=done,
            outputs=outputs,
        )
        self.job = await self._means.keeping.change(self.job.id, **fields)
        return self.job
