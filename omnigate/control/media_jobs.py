"""Media jobs of one generation: what runs them, stores their outputs and tells of their ends.

The job store is a store of its own and opened before this. All else about jobs is made here, begins
with the generation and ends with it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import CancelledError, Deferred, FirstError, gatherResults, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.control.files_api import FilesApi
from omnigate.control.job_figures import JobFigures
from omnigate.control.media_views import ConfiguredGuard, MediaViews, Surroundings
from omnigate.control.routes import Endpoint
from omnigate.errors import GatewayError
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.jobs.alarms import Alarms
from omnigate.jobs.conversing import Conversing
from omnigate.jobs.debts import Debts
from omnigate.jobs.file_reads import FileReads
from omnigate.jobs.job import Job
from omnigate.jobs.keeping import Keeping
from omnigate.jobs.means import Means
from omnigate.jobs.outputs import Outputs
from omnigate.jobs.pace import Pace
from omnigate.jobs.provider_line import ProviderLine
from omnigate.jobs.provider_slots import ProviderSlots
from omnigate.jobs.runner import Runner
from omnigate.jobs.signed_urls import FileSigner, load_files_key
from omnigate.jobs.storage import S3
from omnigate.jobs.storage_s3 import S3Storage
from omnigate.jobs.store import JobStore
from omnigate.jobs.stored_files import StoredFiles
from omnigate.jobs.turn_budget import TurnBudget
from omnigate.jobs.webhooks.delivery import Webhooks
from omnigate.ledger.trusted_time import TrustedTime
from omnigate.periods import DAY_MS

#: How often it is looked whether the log is to be written anew, and which jobs are past keeping.
UPKEEP_SECONDS: Final = 60.0

#: Jobs whose files are removed at once: a bucket takes some 20 ms for each.
REMOVED_AT_ONCE: Final = 16

#: Jobs whose files are counted in one turn of the reactor, at a start.
STEP: Final = 2_000


class MediaJobs:
    """All about jobs but the store; a :class:`~omnigate.control.guard.Store`.

    :ivar store: the job store.
    :ivar runner: runs jobs: whoever makes or cancels one tells it.
    :ivar outputs: stores and removes files.
    :ivar input_reads: reads inputs that are files, for whoever asks.
    :ivar files: opens stored outputs.
    :ivar webhooks: delivers ends of jobs.
    :ivar views: what jobs are shown as.
    :ivar figures: sums over all jobs.
    :ivar outbound: what sends requests.
    """

    _log = Logger(namespace="omnigate.jobs")
    name = "media jobs"

    def __init__(self, store: JobStore, around: Surroundings) -> None:
        self.store = store
        self.views = views = MediaViews(store, around)
        self._around = around
        self.figures = JobFigures(around.now_ms)
        self.outbound = outbound = around.connect(ConfiguredGuard(around.config))
        bucket = S3Storage(
            lambda: views.media().s3,
            around.credential,
            lambda: outbound,
            around.reader.submit,
            around.clock,
            lambda: around.now_ms() / 1000,
        )
        self.outputs = Outputs(
            around.media_folder,
            around.writer,
            around.worker,
            lambda: outbound,
            lambda: views.media().storage,
            around.pause,
            around.clock.seconds,
            {S3: bucket},
        )
        # Apart, so that whoever reads many inputs slowly keeps nobody from their outputs.
        self.input_reads = FileReads(around.reader, around.clock)
        self.files = StoredFiles(
            store.get, self.outputs.local, FileReads(around.reader, around.clock), bucket
        )
        incoming, alarms = self.outputs.incoming, Alarms(around.clock)
        means = Means(
            keeping=Keeping(store, around.clock),
            media=views.media,
            credential=around.credential,
            adapters=ADAPTERS,
            recipients=views.recipients,
            conversing=Conversing(
                ProviderLine(
                    outbound,
                    incoming,
                    views.media,
                    alarms.after,
                    TurnBudget(around.clock),
                ),
                Pace(around.clock),
                around.clock,
                alarms,
            ),
            outputs=self.outputs,
            clear=incoming.clear,
            slots=ProviderSlots(lambda: views.media().max_running_per_provider),
            clock=around.clock,
            now_ms=around.now_ms,
        )
        self.webhooks = Webhooks(
            store,
            outbound,
            around.clock,
            around.now_ms,
            lambda: views.media().webhooks,
            views.shown,
            views.webhook_secrets,
            random.random,
        )
        self.runner = Runner(
            means,
            Debts(store, around.books, means.is_priced, around.pause),
            self.webhooks.arm,
            views.succeeded,
            around.pause,
        )
        self._timer: IDelayedCall | None = None
        self._is_sweeping = False
        self._removing: Deferred[list[None]] = succeed([])
        # By the wall clock alone, one that is a month ahead for a minute would have all files gone.
        self._trusted = TrustedTime(0, None, 0.0)

    # -- as a store ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin, with the jobs that the store has."""
        around = self._around
        self.views.signer = FileSigner(
            await around.writer.submit(partial(load_files_key, around.state_folder))
        )
        self.store.watchers.append(self.outputs.names.changed)
        self.store.watchers.append(self.figures.changed)
        self.store.removal_watchers.append(self._removed)
        self.store.removal_watchers.append(self.figures.removed)
        jobs, known_ms = self.store.every(), 0
        for start in range(0, len(jobs), STEP):
            some = jobs[start : start + STEP]
            self.outputs.names.load(some)
            self.figures.load(some)
            known_ms = max(known_ms, *(max(job.created_ms, job.finished_ms) for job in some))
            await around.pause()
        self._trusted = TrustedTime(around.now_ms(), known_ms or None, around.steady())
        await self.outputs.open()
        self.webhooks.start()
        await self.runner.open()
        self._set_timer()

    async def close(self) -> None:
        """End in order: what would be paid twice is waited for, for a while."""
        self._stop_timer()
        self._removing.cancel()
        await self.runner.close()
        await self.webhooks.stop()
        await self.outputs.close()
        await self.outbound.close()

    def abandon(self) -> Deferred[None]:
        """Let go of everything at once."""
        self._stop_timer()
        self._removing.cancel()
        self.runner.abandon()
        self.webhooks.abandon()
        self.outputs.abandon()
        return Deferred.fromCoroutine(self.outbound.close())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return what data planes ask of jobs and their files."""
        wall = self._around.now_ms
        return FilesApi(self.files, self.views.opened_signer, lambda: wall() / 1000).endpoints()

    # -- upkeep -------------------------------------------------------------------------------

    def _removed(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.outputs.names.changed(job, None)

    async def _remove_files(self, jobs: Sequence[Job]) -> None:
        """Remove the files of jobs that are gone, but those that other jobs have too.

        Nobody looks through a bucket for what an end in between leaves there, so no more jobs are
        removed meanwhile.
        """
        left = iter(jobs)

        async def some() -> None:
            for job in left:
                await self.outputs.remove(job.outputs)

        tasks = [Deferred.fromCoroutine(some()) for _ in range(REMOVED_AT_ONCE)]
        self._removing = gatherResults(tasks, consumeErrors=True)
        try:
            await self._removing
        except FirstError as error:
            error.subFailure.raiseException()

    def _set_timer(self) -> None:
        self._timer = self._around.clock.callLater(UPKEEP_SECONDS, self._keep_up)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _keep_up(self) -> None:
        self._set_timer()
        Deferred.fromCoroutine(self.store.check()).addErrback(self._failed)
        if not self._is_sweeping:
            self._is_sweeping = True
            Deferred.fromCoroutine(self._swept()).addErrback(self._failed)

    async def _swept(self) -> None:
        try:
            around = self._around
            now_ms = self._trusted.look(around.now_ms(), around.steady())
            days = around.config().retention.jobs_days
            if days:
                removed = await self.store.sweep(now_ms - days * DAY_MS, self._remove_files)
                if removed:
                    self._log.info(
                        "{count} jobs were older than {days} days, and removed",
                        count=len(removed),
                        days=days,
                    )
        finally:
            self._is_sweeping = False

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError) and self._timer is None:
            return  # the end of this generation
        if failure.check(GatewayError):
            self._log.warn("jobs are not looked after: {error}", error=failure.getErrorMessage())
        else:
            self._log.failure("jobs are not looked after", failure)


def state_folder_of(jobs_path: str) -> str:
    """Return the folder of the secret of signed URLs: beside the log of jobs."""
    return os.path.dirname(jobs_path) or "."
