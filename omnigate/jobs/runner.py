"""The runner: takes jobs in turn, runs each to its end, and takes up again what a restart left.

A job that waits is no more than its id in a queue; one that runs is a coroutine
(:class:`~omnigate.jobs.job_life.Life`). What the runner knows it has from the store, so it can be
thrown away at any moment and made anew: a job with a provider's id goes on being polled, one that
has a target and no id is submitted once more, and nothing else ever is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.defer import TimeoutError as DeferredTimeoutError
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.jobs.debts import Debts
from omnigate.jobs.job import QUEUED, Job
from omnigate.jobs.job_life import Life
from omnigate.jobs.means import Means
from omnigate.jobs.provider_slots import address_of
from omnigate.jobs.sharing import Sharing
from omnigate.jobs.targets import next_target
from omnigate.jobs.tasks import begin_task, follow

#: How often it is looked for costs that are owed, and for jobs that nobody runs.
CHECK_SECONDS: Final = 60.0

#: Jobs that are put in line in one turn of the reactor, at a start.
STEP: Final = 50

#: How long whoever makes or cancels a job waits for an end that takes no more than a write.
END_SECONDS: Final = 5.0

#: How long a stop waits for calls that would be made, and paid, once more.
STOP_SECONDS: Final = 30.0


class Runner:
    """Runs the jobs of one store.

    :param means: what they are run with.
    :param debts: brings their costs into the ledger.
    :param finished: told of each job that is final, once.
    :param succeeded: yields the jobs that have succeeded, the newest first, or those of them that
        are worth looking at.
    :param pause: lets the reactor do something else.
    """

    _log = Logger(namespace="omnigate.jobs")
    name = "job runner"

    def __init__(
        self,
        means: Means,
        debts: Debts,
        finished: Callable[[Job], None],
        succeeded: Callable[[], Iterable[Job]],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._means = means
        self._jobs = means.keeping.jobs
        self._debts = debts
        self._finished = finished
        self._pause = pause
        self._sharing = Sharing(means, succeeded, pause)
        self._lives: dict[str, Life] = {}
        self._tasks: dict[str, Deferred[None]] = {}
        self._stray: set[Deferred[None]] = set()
        self._left: set[str] = set()  # until a restart
        self._check: IDelayedCall | None = None
        self._is_up = False
        self._is_over = False

    @property
    def running(self) -> int:
        """How many jobs run."""
        return len(self._lives)

    # -- start and stop -----------------------------------------------------------------------

    async def open(self) -> None:
        """Begin; what a former life left is taken up in steps, beside everything else."""
        self._is_up = True
        self._look()
        self._spawn(self._sharing.load())

    async def close(self) -> None:
        """Take up nothing more; wait a while for what would have to be paid once more."""
        self._is_up = False
        self._stop_check()
        self._means.slots.stop()
        for job_id, life in tuple(self._lives.items()):
            if not life.stop():
                self._tasks[job_id].cancel()
        for stray in tuple(self._stray):
            stray.cancel()
        rest = tuple(self._tasks.values())
        if rest:
            self._log.info("waits for {count} calls of providers", count=len(rest))
            timer = self._means.clock.callLater(STOP_SECONDS, self._cut)
            await DeferredList([follow(task) for task in rest])
            if timer.active():
                timer.cancel()
        self.abandon()

    def _cut(self) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()

    def abandon(self) -> None:
        """Let go of everything at once, and write nothing."""
        self._is_up, self._is_over = False, True
        self._stop_check()
        self._means.slots.stop()
        for task in (*self._tasks.values(), *self._stray):
            task.cancel()
        self._means.conversing.stop()

    # -- what is asked of it ------------------------------------------------------------------

    def run(self, job: Job) -> None:
        """Run a job, now or when it is its turn."""
        if not self._is_up or job.is_final or job.id in self._lives or job.id in self._left:
            return
        if self._means.slots.waits_at(job.id):
            return
        address = self._address(job)
        if address is None or (job.cancel_ms and job.status == QUEUED) or self._shares(job):
            self._begin(job.id)  # which ends at once
        else:
            # Where too many wait, the check of the next minute puts it in line.
            self._means.slots.put(address, job.key_sha256, job.id, partial(self._begin, job.id))

    async def begin(self, job: Job) -> Job:
        """Run a job that was just made.

        :return: the job as it is then: final already, where it shares what an earlier one made.
        """
        shares = self._shares(job)
        self.run(job)
        if shares:
            await self._wait_for(job.id)
        return self._jobs.get(job.id) or job

    def _shares(self, job: Job) -> bool:
        return job.status == QUEUED and bool(self._sharing.find(job, self._sharing.mark(job)))

    async def cancel(self, job_id: str) -> Job | None:
        """Cancel a job.

        :return: the job as it is then: canceled if nothing ran yet, final if it was too late, or
            on its way there; None where there is none.
        :raises GatewayError: the wish could not be written down.
        """
        job = self._jobs.get(job_id)
        if job is None or job.is_final:
            return job
        if not job.cancel_ms:
            try:
                job = await self._jobs.change(job_id, cancel_ms=self._means.now_ms())
            except Exception:
                now = self._jobs.get(job_id)
                if now is None or now.is_final:
                    return now  # it came to its end meanwhile
                raise
        life = self._lives.get(job_id)
        if life is not None:
            life.wish.ask()
        elif job.status == QUEUED:
            self._means.slots.leave(job_id)
            self._begin(job_id)
            life = self._lives.get(job_id)
        if life is not None and job.status == QUEUED:
            await self._wait_for(job_id)
        return self._jobs.get(job_id)

    async def _wait_for(self, job_id: str) -> None:
        """Wait for the end of a job that is about to come, though not for a disk that is full."""
        task = self._tasks.get(job_id)
        if task is not None:
            with suppress(DeferredTimeoutError):
                await follow(task).addTimeout(END_SECONDS, self._means.clock)

    # -- one job ------------------------------------------------------------------------------

    def _address(self, job: Job) -> str | None:
        """Return the address of the provider that a job goes to next, or goes on at."""
        if job.attempts and not job.attempts[-1].outcome:
            return address_of(job.attempts[-1].base_url)
        route = self._means.route(job.model)
        target = None if route is None else next_target(self._means.targets(route), job.attempts)
        return None if target is None else address_of(target.base_url)

    def _begin(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        if not self._is_up or job is None or job.is_final or job_id in self._lives:
            self._means.slots.leave(job_id)
            return
        life = self._lives[job_id] = Life(job, self._means)
        task = self._tasks[job_id] = Deferred.fromCoroutine(self._live(life))
        task.addBoth(self._ended, job_id)

    async def _live(self, life: Life) -> None:
        await self._means.conversing.pace.turn()
        job_id = life.job.id
        life.refresh(self._jobs.get(job_id))
        mark = self._sharing.mark(life.job)
        try:
            earlier = self._sharing.find(life.job, mark)
            final = await (life.live() if earlier is None else life.share(earlier))
        except CancelledError:
            raise
        except Exception:
            now = self._jobs.get(job_id)
            if self._is_over or now is None or now.is_final:
                return  # of the store's doing
            self._log.failure("{job}: a fault of this program", job=job_id)
            final = await life.broken()
        self._means.slots.leave(job_id)
        if self._is_over:
            return
        self._sharing.remember(mark, final)
        self._log.info(
            "{job} of {model}: {status}{why}, attempts: {count}",
            job=job_id,
            model=final.model,
            status=final.status,
            why=f" ({final.error.code})" if final.error else "",
            count=len(final.attempts),
        )
        self._finished(final)
        await self._debts.settle(final)

    def _ended(self, result: object, job_id: str) -> None:
        self._means.slots.leave(job_id)
        self._lives.pop(job_id, None)
        self._tasks.pop(job_id, None)
        if not isinstance(result, Failure) or (result.check(CancelledError) and not self._is_up):
            return
        # A fault of this program that could not even be written down. Whatever was submitted is
        # polled again; but what nobody knows an id of would be paid once more each minute.
        self._log.failure("{job}: could not be ended", result, job=job_id)
        job = self._jobs.get(job_id)
        if job is not None and job.attempts and not job.provider_job_id:
            self._left.add(job_id)

    # -- what is looked after -----------------------------------------------------------------

    def _stop_check(self) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.cancel()

    def _look(self) -> None:
        self._check = self._means.clock.callLater(CHECK_SECONDS, self._look)
        self._spawn(self._take_up())
        self._spawn(self._debts.settle_all())

    async def _take_up(self) -> None:
        """Run what nobody runs: what a restart left, and what found no place in line."""
        if self._jobs.open_jobs <= len(self._lives) + self._queued():
            return
        # Those that run already have the first places: their time goes on.
        jobs = sorted(self._jobs.unfinished(), key=lambda job: job.status == QUEUED)
        for start in range(0, len(jobs), STEP):
            for job in jobs[start : start + STEP]:
                now = self._jobs.get(job.id)
                if now is not None:
                    self.run(now)
            await self._pause()

    def _queued(self) -> int:
        """How many jobs are in line and do nothing else."""
        return self._means.slots.waiting - sum(map(self._waits, self._lives))

    def _waits(self, job_id: str) -> bool:
        return bool(self._means.slots.waits_at(job_id))

    def _spawn(self, work: Awaitable[None]) -> None:
        stray: Deferred[None] = begin_task(work)
        self._stray.add(stray)

        def gone(result: object) -> None:
            self._stray.discard(stray)
            if isinstance(result, Failure) and not result.check(CancelledError):
                self._log.failure("the runner's look at its jobs failed", result)

        stray.addBoth(gone)
