"""Media jobs of one generation: what runs them, stores their outputs and tells of their ends.

The job store is a store of its own and opened before this. All else about jobs is made here, begins
with the generation and ends with it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.config.schema import Config
from omnigate.control.keys import KeyBook
from omnigate.errors import GatewayError
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.jobs.conversing import Conversing
from omnigate.jobs.debts import Books, Debts
from omnigate.jobs.job import SUCCEEDED, Job
from omnigate.jobs.job_json import NO_INPUT, job_json
from omnigate.jobs.keeping import Keeping
from omnigate.jobs.means import Means
from omnigate.jobs.outputs import Outputs
from omnigate.jobs.pace import Pace
from omnigate.jobs.provider_line import ProviderLine
from omnigate.jobs.provider_slots import ProviderSlots
from omnigate.jobs.runner import Runner
from omnigate.jobs.signed_urls import FileSigner, load_files_key
from omnigate.jobs.store import JobStore
from omnigate.jobs.targets import tried_target
from omnigate.jobs.webhooks.delivery import Webhooks
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.periods import DAY_MS
from omnigate.writer_thread import IWriter

#: How often it is looked whether the log is to be written anew, and which jobs are past keeping.
UPKEEP_SECONDS: Final = 60.0

#: Jobs whose files are counted in one turn of the reactor, at a start.
STEP: Final = 2_000


class ConfiguredGuard(AddressGuard):
    """Judges addresses by ``[outbound]`` of the config in force."""

    def __init__(self, config: Callable[[], Config]) -> None:
        super().__init__()
        self._config = config
        self._of = config().outbound
        self._guard = AddressGuard(self._of.allow, self._of.refuse)

    def allowed(self, packed: bytes) -> bool:
        """Whether a connection may be made to an address."""
        outbound = self._config().outbound
        if outbound is not self._of:
            self._guard, self._of = AddressGuard(outbound.allow, outbound.refuse), outbound
        return self._guard.allowed(packed)


@attrs.frozen(eq=False)
class Surroundings:
    """What media jobs need of the control plane.

    :ivar config: the config in force.
    :ivar credential: gives the value of a variable that ``[media]`` names.
    :ivar state_folder: where the secret of signed URLs lies.
    :ivar media_folder: where outputs lie.
    :ivar writer: whose thread takes what arrives.
    :ivar worker: whose thread does what takes long.
    :ivar connect: makes what sends requests.
    :ivar pause: lets the reactor do something else.
    """

    config: Callable[[], Config]
    credential: Callable[[str], str | None]
    book: KeyBook
    books: Books
    state_folder: str
    media_folder: str
    writer: IWriter
    worker: IWriter
    clock: IReactorTime
    now_ms: Callable[[], int]
    connect: Callable[[AddressGuard], Outbound]
    pause: Callable[[], Awaitable[None]]


class MediaJobs:
    """All about jobs but the store; a :class:`~omnigate.control.guard.Store`.

    :ivar store: the job store.
    :ivar runner: runs jobs: whoever makes or cancels one tells it.
    :ivar outputs: stores and removes files.
    :ivar webhooks: delivers ends of jobs.
    :ivar signer: signs URLs of files; there once this is open.
    """

    _log = Logger(namespace="omnigate.jobs")
    name = "media jobs"

    def __init__(self, store: JobStore, around: Surroundings) -> None:
        self.store = store
        self._around = around
        self._outbound = around.connect(ConfiguredGuard(around.config))
        self.outputs = Outputs(
            around.media_folder,
            around.writer,
            around.worker,
            lambda: self._outbound,
            lambda: around.config().media.storage,
            around.pause,
        )
        line = ProviderLine(self._outbound, self.outputs.incoming, lambda: around.config().media)
        self._means = Means(
            keeping=Keeping(store, around.clock),
            media=lambda: around.config().media,
            credential=around.credential,
            adapters=ADAPTERS,
            recipients=self.recipients,
            conversing=Conversing(line, Pace(around.clock), around.clock),
            outputs=self.outputs,
            clear=self.outputs.incoming.clear,
            slots=ProviderSlots(lambda: around.config().media.max_running_per_provider),
            clock=around.clock,
            now_ms=around.now_ms,
        )
        self.webhooks = Webhooks(
            store,
            self._outbound,
            around.clock,
            around.now_ms,
            lambda: around.config().media.webhooks,
            self.shown,
            self._webhook_secrets,
            random.random,
        )
        self.runner = Runner(
            self._means,
            Debts(store, around.books, self._is_priced, around.pause),
            self.webhooks.arm,
            self._succeeded,
            around.pause,
        )
        self.signer: FileSigner | None = None
        self._upkeep = LoopingCall(self._keep_up)
        self._upkeep.clock = around.clock
        self._sweeping: Deferred[None] | None = None

    # -- as a store ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin, with the jobs that the store has."""
        around = self._around
        self.signer = FileSigner(
            await around.writer.submit(partial(load_files_key, around.state_folder))
        )
        # Before the jobs that there are: a change meanwhile would be missed.
        self.store.watchers.append(self.outputs.names.changed)
        self.store.removal_watchers.append(self._removed)
        jobs = self.store.every()
        for start in range(0, len(jobs), STEP):
            self.outputs.names.load(jobs[start : start + STEP])
            await around.pause()
        await self.outputs.open()
        self.webhooks.start()
        await self.runner.open()
        self._upkeep.start(UPKEEP_SECONDS, now=False)

    async def close(self) -> None:
        """End in order: what would be paid twice is waited for, for a while."""
        if self._upkeep.running:
            self._upkeep.stop()
        await self.runner.close()
        await self.webhooks.stop()
        await self._outbound.close()

    def abandon(self) -> Deferred[None]:
        """Let go of everything at once."""
        if self._upkeep.running:
            self._upkeep.stop()
        self.runner.abandon()
        self.webhooks.abandon()
        return Deferred.fromCoroutine(self._outbound.close())

    # -- what others ask ----------------------------------------------------------------------

    def shown(self, job: Job, input: Any = NO_INPUT) -> dict[str, Any]:
        """Return a job as its client sees it, with URLs of its outputs."""
        around = self._around
        media = around.config().media
        expires = around.now_ms() // 1000 + media.signed_url_ttl_s
        sign = None if self.signer is None else self.signer.until(expires)
        return job_json(job, sign=sign, public_url=media.public_url, input=input)

    def recipients(self, key_sha256: str) -> Sequence[str]:
        """Return whom the outputs of a key's jobs are encrypted for."""
        key = self._around.book.owner(key_sha256)
        own = () if key is None else key.age_recipients
        return own or self._around.config().media.age_recipients

    def _webhook_secrets(self, key_sha256: str) -> tuple[str, ...]:
        key = self._around.book.owner(key_sha256)
        return () if key is None else key.webhook_secrets(self._around.now_ms())

    def _is_priced(self, job: Job) -> bool:
        route = self._means.route(job.model)
        if route is None or not job.attempts:
            return True
        target = tried_target(self._means.targets(route), job.attempts[-1])
        return target is None or target.config.price is not None

    def _succeeded(self) -> Iterator[Job]:
        """Yield what a client may ask for once more, the newest first."""
        for route in self._around.config().media.routes:
            after: str | None = None
            while route.cache_ttl_s and after != "":
                page = self.store.newest(
                    model=route.model, status=SUCCEEDED, after=after, limit=STEP
                )
                yield from page.jobs
                after = page.after if page.has_more else ""

    # -- upkeep -------------------------------------------------------------------------------

    def _removed(self, jobs: Sequence[Job]) -> None:
        """Remove the files of jobs that are gone, but those that other jobs have too."""
        for job in jobs:
            self.outputs.names.changed(job, None)
        Deferred.fromCoroutine(self._remove_files(jobs)).addErrback(self._failed)

    async def _remove_files(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            await self.outputs.remove(job.outputs)

    def _keep_up(self) -> None:
        if self._sweeping is not None:
            return

        def done(result: object) -> None:
            self._sweeping = None
            if isinstance(result, Failure):
                self._failed(result)

        self._sweeping = Deferred.fromCoroutine(self._swept())
        self._sweeping.addBoth(done)

    async def _swept(self) -> None:
        await self.store.check()
        days = self._around.config().retention.jobs_days
        if days:
            removed = await self.store.sweep(self._around.now_ms() - days * DAY_MS)
            if removed:
                self._log.info(
                    "{count} jobs were older than {days} days, and removed",
                    count=len(removed),
                    days=days,
                )

    def _failed(self, failure: Failure) -> None:
        if failure.check(GatewayError):
            self._log.warn("jobs are not looked after: {error}", error=failure.getErrorMessage())
        else:
            self._log.failure("jobs are not looked after", failure)


def state_folder_of(jobs_path: str) -> str:
    """Return the folder of the secret of signed URLs: beside the log of jobs."""
    return os.path.dirname(jobs_path) or "."
