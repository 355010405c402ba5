"""The job store: every media job, on the disk before anybody is told of it.

The files are those of :mod:`omnigate.jobs.job_log`. What is asked for waits in a queue; all that
waits is judged one after the other (:mod:`omnigate.jobs.job_draft`), written by one write and one
sync, and only then visible (:mod:`omnigate.jobs.job_groups`). A write that fails is an error for
each of its group, and nothing has changed.

A final job does not hold its input in memory, and one over 8 KiB never does: it is read back by
:meth:`JobStore.input_of`, by the writer. What a job takes in memory is then two
kilobytes and more, twice the length of its line; see :data:`~omnigate.jobs.job_draft.MAX_SIZE`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.jobs.job import FAILED, STORAGE_FAILED, Job, JobError
from omnigate.jobs.job_compaction import Compaction
from omnigate.jobs.job_draft import Draft, JobFinal, JobGone
from omnigate.jobs.job_groups import Groups
from omnigate.jobs.job_lines import DamagedLineError
from omnigate.jobs.job_log import JobLog
from omnigate.jobs.job_replay import JobLogUnreadableError, Replay
from omnigate.jobs.job_table import JobTable, Page
from omnigate.jobs.long_strings import (
    NotJsonError,
    TooComplexError,
    at_once,
    cut_steps,
    tree_steps,
)
from omnigate.jobs.new_job import JobIds, KeyLimits, NewJob
from omnigate.jobs.store_faults import EXPECTED, InputLost, StorageUnavailable
from omnigate.jobs.webhooks.schedule import armed
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

__all__ = [
    "InputLost",
    "JobFinal",
    "JobGone",
    "JobLogUnreadableError",
    "JobStore",
    "KeyLimits",
    "NewJob",
    "StorageUnavailable",
]

#: Jobs that are kept, at 2 to 2.5 KB of memory each. A key with the usual limit makes as many in
#: thirty days.
MAX_JOBS: Final = 300_000

#: Jobs that a retention sweep removes at a time; taking them out of lists of 300,000 takes 2 ms.
SWEEP_BATCH: Final = 100


def _unexpected(failure: Failure) -> None:
    failure.raiseException()


class JobStore:
    """The one writer and reader of the job log.

    :param path: the log, such as ``/var/lib/omnigate/jobs.jsonl``.
    :param writer: the thread that does all disk work of this store, and of nothing else.
    :param now_ms: milliseconds since 1970.
    :param crashed: told of what this store has no answer for; it is to be abandoned then.
    :param max_jobs: how many jobs are kept.
    :param chance: gives as many bytes as it is asked for that nobody can guess.
    :ivar watchers: called with each job that changed, before (None for a new one) and after, once
        it is visible.
    :ivar removal_watchers: called with the jobs that a retention sweep has removed.
    """

    _log = Logger()
    name = "jobs"

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        *,
        crashed: Callable[[Failure], None] = _unexpected,
        max_jobs: int = MAX_JOBS,
        chance: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.path: Final = path
        self.watchers: list[Callable[[Job | None, Job], None]] = []
        self.removal_watchers: list[Callable[[Sequence[Job]], None]] = []
        self._writer = writer
        self._now_ms = now_ms
        self._crashed = crashed
        self._chance = chance
        self._files = JobLog(path)
        self._groups = Groups(self._files, writer, max_jobs, self._tell, crashed)
        self._ids = JobIds()
        self._compaction = Compaction(self._files, self._groups, writer, crashed)

    # -- opening and closing ------------------------------------------------------------------

    async def open(self) -> None:
        """Read the log back; from then on jobs can be made and changed.

        :raises JobLogUnreadableError: it is there and cannot be used.
        """
        while True:
            replay = await self._writer.submit(self._files.open_step)
            if replay is not None:
                break
        self._begin_with(replay)
        await self._end_doubtful(replay)
        if self._groups.lines_since:
            # Of many jobs it takes seconds, and nobody need wait for it.
            first = self._compaction.first(replay.damaged)
            Deferred.fromCoroutine(first).addErrback(self._crashed)

    def _begin_with(self, replay: Replay) -> None:
        for text in replay.told:
            self._log.error("{text}", text=text)
        for text in replay.mended:
            self._log.info("{text}", text=text)
        groups, table = self._groups, replay.table
        self._ids = JobIds(table.newest_id)
        groups.table = table
        groups.lines_since = replay.lines if replay.lines > len(table) else 0
        groups.is_open = True

    async def _end_doubtful(self, replay: Replay) -> None:
        """End the jobs of which a change may be missing, since going on could pay twice."""
        for job_id in replay.in_doubt:
            job = self._table.get(job_id)
            if job is None or job.is_final:
                continue
            now_ms = self._now_ms()
            fields: dict[str, Any] = {
                "status": FAILED,
                "finished_ms": now_ms,
                "cost_owed": True,  # nothing that is known of, but its event in the ledger
                "error": JobError(
                    STORAGE_FAILED,
                    "a part of this job's record was damaged on the disk, so it is not known how "
                    "far it got; make a new one",
                ),
            }
            if job.webhook is not None:
                fields["webhook"] = armed(job.webhook, now_ms)
            self._log.error("{id}: ended as failed, since its record is damaged", id=job_id)
            try:
                await self.change(job_id, **fields)
            except StorageUnavailable as error:
                raise JobLogUnreadableError(
                    f"{self.path}: {error.detail}; make room on that disk, since a damaged job has "
                    "to be ended before anything goes on"
                ) from None

    async def close(self) -> None:
        """Write what waits, take nothing more, and close the files; the writer is not stopped."""
        await self._groups.end()
        # A writer that has been stopped already has nothing to close.
        with suppress(*EXPECTED):
            await self._writer.submit(self._files.close)

    def abandon(self) -> Deferred[None]:
        """Let go of everything at once; whoever waits is told that nothing is known."""
        self.watchers.clear()
        self.removal_watchers.clear()
        self._groups.abandon()
        return self._writer.abandon(self._files.close)

    # -- reading ------------------------------------------------------------------------------

    @property
    def _table(self) -> JobTable:
        return self._groups.table

    def __len__(self) -> int:
        return len(self._table)

    @property
    def failed_writes(self) -> int:
        """How many groups the disk refused."""
        return self._groups.failed_writes

    @property
    def open_jobs(self) -> int:
        """How many jobs are not final."""
        return self._table.open

    @property
    def log_bytes(self) -> int:
        """How long the log is."""
        return self._files.size

    def get(self, job_id: str) -> Job | None:
        """Return a job as the disk has it.

        Its :attr:`~omnigate.jobs.job.Job.input` is None once it is final, or where it lies in a
        file; see :meth:`input_of`.
        """
        return self._table.get(job_id)

    def every(self) -> list[Job]:
        """Return all jobs, the oldest first; of 300,000 it takes 15 ms."""
        return [entry.job for entry in self._table.entries()]

    def repeated(self, key_sha256: str, idempotency_key: str) -> Job | None:
        """Return the job that a key has made with an idempotency key."""
        return self._table.repeat_of((key_sha256, idempotency_key))

    def unfinished(self) -> list[Job]:
        """Return the jobs that are not final, the oldest first."""
        return self._table.unfinished()

    def with_debts(self, after: str = "", limit: int | None = None) -> list[Job]:
        """Return the jobs whose cost is owed or whose webhook is pending, the oldest first.

        :param after: the id of the job behind which to go on: 100,000 take 150 ms, so whoever looks
            at all of them asks for some at a time.
        """
        return self._table.with_debts(after, limit)

    def jobs_of(
        self,
        key_sha256: str,
        *,
        status: str | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> tuple[list[Job], bool]:
        """Return jobs of a key, the newest first, and whether there are more.

        :param after: the id of the job behind which to go on.
        """
        page = self._table.page(key_sha256=key_sha256, status=status, after=after, limit=limit)
        return page.jobs, page.has_more

    def newest(
        self,
        *,
        key_sha256: str | None = None,
        model: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> Page:
        """Return jobs of all keys, or those that are asked for, the newest first.

        A page may have fewer jobs than asked for, or none, and more behind it, since only so many
        are looked at for one; go on with its :attr:`~omnigate.jobs.job_table.Page.after`.
        """
        return self._table.page(
            key_sha256=key_sha256, status=status, model=model, after=after, limit=limit
        )

    def input_path(self, job_id: str) -> str:
        """Return where the input of a job lies that is a file."""
        return self._files.inputs.path(job_id)

    async def input_json(self, job: Job) -> bytes:
        """Return the input of a job as JSON.

        :raises InputLost: it is not there any more.
        :raises StorageUnavailable: it cannot be read now.
        """
        if job.input is not None:
            return msgspec.json.encode(job.input)
        try:
            return await self._writer.submit(
                partial(self._files.read_input, job.id, job.input_file)
            )
        except (DamagedLineError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
                raise StorageUnavailable(f"{job.id}: {error}") from None
            raise InputLost(f"{job.id}: {error}") from None
        except (WriterBusyError, WriterStoppedError) as error:
            raise StorageUnavailable(f"{job.id}: {error}") from None

    async def input_of(self, job: Job) -> dict[str, Any]:
        """Return the input of a job, from memory, or from where it lies.

        :raises InputLost: it is not there any more.
        :raises StorageUnavailable: it cannot be read now.
        """
        if job.input is not None:
            return job.input
        content = await self.input_json(job)
        try:
            # In the thread, and in steps: a picture of eight million bytes would hold all else.
            return await self._writer.submit(partial(_read_object, content))
        except (NotJsonError, TooComplexError) as error:
            raise InputLost(f"{job.id}: {error}") from None
        except (WriterBusyError, WriterStoppedError) as error:
            raise StorageUnavailable(f"{job.id}: {error}") from None

    # -- changes ------------------------------------------------------------------------------

    async def create(self, new: NewJob, limits: KeyLimits) -> tuple[Job, bool]:
        """Make a job, unless its idempotency key has made one before.

        All is judged in one step with the insert, so two cannot take the last place.

        :return: the job, and whether it is new.
        :raises GatewayError: ``too_many_open_jobs``, ``too_many_jobs_today``, ``invalid_request``,
            ``storage_unavailable``, ``not_ready``; nothing was made then.
        """

        def judge(draft: Draft) -> Callable[[], tuple[Job, bool]]:
            now_ms = self._now_ms()
            job_id, made = draft.create(
                new, limits, now_ms, lambda: self._ids.make(now_ms, self._chance(10))
            )
            job = draft.get(job_id)
            return lambda: (self._table.get(job_id) or job, made)

        made: tuple[Job, bool] = await self._groups.want(judge, len(new.input_json))
        return made

    async def change(self, job_id: str, **fields: Any) -> Job:
        """Change a job; what was written is visible when this returns.

        :param fields: whole fields of :class:`~omnigate.jobs.job.Job`. Where nothing differs,
            nothing is written.
        :return: the job as it is then.
        :raises JobGone: there is no such job.
        :raises JobFinal: it is final, and something else than ``webhook`` or ``cost_owed`` would
            change.
        :raises StorageUnavailable: it could not be written; the job is as it was.
        :raises ValueError: its states do not follow each other, or a field never changes.
        """

        def judge(draft: Draft) -> Callable[[], Job]:
            draft.change(job_id, fields)
            job = draft.get(job_id)
            return lambda: self._table.get(job_id) or job

        job: Job = await self._groups.want(judge, 0)
        return job

    async def sweep(
        self,
        before_ms: int,
        then: Callable[[Sequence[Job]], Awaitable[None]] | None = None,
    ) -> list[Job]:
        """Remove the final jobs that ended before that and owe nothing, with their inputs.

        :param then: what is done about some that were removed, such as about their outputs, before
            the next are.
        :return: those that were removed.
        :raises GatewayError: ``storage_unavailable``, ``not_ready``; the rest stays.
        """
        removed: list[Job] = []
        try:
            while ids := self._table.ended_before(before_ms, SWEEP_BATCH):
                jobs = [job for job in map(self._table.get, ids) if job is not None]
                gone = set(await self._groups.want(partial(_judge_removal, ids), 0))
                if not gone:
                    break
                batch = [job for job in jobs if job.id in gone]
                removed += batch
                with_files = [job.id for job in batch if job.input_file]
                if with_files:
                    self._writer.submit(partial(self._files.remove_inputs, with_files)).addErrback(
                        lambda failure: failure.trap(*EXPECTED) and None
                    )
                self._tell_removed(batch)
                if then is not None:
                    await then(batch)
        finally:
            if removed and self._groups.is_open:
                await self._compaction.run()
        return removed

    async def check(self) -> None:
        """Write the log anew if it has grown enough since; to be called once a minute."""
        if self._compaction.is_due:
            await self._compaction.run()

    def _tell_removed(self, jobs: Sequence[Job]) -> None:
        for watcher in self.removal_watchers:
            try:
                watcher(jobs)
            except Exception:
                self._log.failure("the removal of jobs could not be told of")

    def _tell(self, before: Job | None, after: Job) -> None:
        for watcher in self.watchers:
            try:
                watcher(before, after)
            except Exception:
                # It is written, whatever becomes of those who are told.
                self._log.failure("a change of {id} could not be told of", id=after.id)


def _read_object(content: bytes) -> dict[str, Any]:
    cut = at_once(cut_steps(content))
    return at_once(tree_steps(cut, cut.rest))


def _judge_removal(ids: Sequence[str], draft: Draft) -> Callable[[], list[str]]:
    removed = draft.remove(ids)
    return lambda: removed
