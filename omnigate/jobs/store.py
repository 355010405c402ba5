"""The job store: every media job, on the disk before anybody is told of it.

The files are those of :mod:`omnigate.jobs.job_log`. What is asked for waits in a queue; all that
waits is judged one after the other (:mod:`omnigate.jobs.job_draft`), written by one write and one
sync (a *group*), and only then visible. The next group is judged when the one before is settled, so
a write that fails leaves nothing to be taken back: it is an error for each of its group.

A final job does not hold its input in memory, and one over 8 KiB never does: it is read back by
:meth:`JobStore.input_of`, by the writer. What a job takes in memory is then two
kilobytes and more, twice the length of its line; see :data:`~omnigate.jobs.job_draft.MAX_SIZE`.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import attrs
import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.errors import GatewayError
from omnigate.jobs.job import FAILED, PENDING, STORAGE_FAILED, Job, JobError
from omnigate.jobs.job_draft import Draft, JobFinal, JobGone
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

#: What is written together: so much that one sync serves many, so little that judging it, and
#: telling everybody afterwards, takes some milliseconds.
MAX_GROUP: Final = 100
MAX_GROUP_BYTES: Final = 16 * 1024 * 1024

#: What may wait to be written; more waits only when the disk has stopped answering.
MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 128 * 1024 * 1024

#: The log is written anew once more lines than this were appended, and twice the jobs.
MIN_COMPACTION_LINES: Final = 5_000

#: Jobs that a retention sweep removes at a time; taking them out of lists of 300,000 takes 2 ms.
SWEEP_BATCH: Final = 100

#: What a disk or a writer may answer without anything being broken in this program.
_EXPECTED: Final = (OSError, WriterBusyError, WriterStoppedError)


class StorageUnavailable(GatewayError):  # noqa: N818
    """The disk refused; nothing was changed."""

    def __init__(self, detail: str = "", message: str = "") -> None:
        super().__init__(
            "storage_unavailable",
            message
            or "the job could not be written, and nothing was changed; try again, and if it stays, "
            "have an operator look at the control plane's disk",
            retry_after=1,
            detail=detail,
        )


class InputLost(StorageUnavailable):
    """The input of a job is not on the disk any more, or damaged there; trying again won't help."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, "the input of this job is lost: its file is missing or damaged")


@attrs.define(eq=False)
class _Wanted:
    """Something to be done, and who waits for it.

    :ivar judge: puts it into a draft, and returns what is to be returned once it is written.
    :ivar size: about how many bytes are to be written for it.
    """

    judge: Callable[[Draft], Callable[[], Any]]
    size: int
    done: Deferred[Any] = attrs.Factory(Deferred)
    result: Callable[[], Any] | None = None
    fault: Failure | None = None

    def settle(self) -> None:
        """Answer whoever waits."""
        if self.fault is not None:
            self.done.errback(self.fault)
        else:
            assert self.result is not None
            self.done.callback(self.result())


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
    :ivar failed_writes: how many groups the disk refused.
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
        self.failed_writes = 0
        self._writer = writer
        self._now_ms = now_ms
        self._crashed = crashed
        self._max_jobs = max_jobs
        self._chance = chance
        self._files = JobLog(path)
        self._table = JobTable()
        self._ids = JobIds()
        self._is_open = False
        self._waiting: deque[_Wanted] = deque()
        self._waiting_bytes = 0
        self._in_hand: list[_Wanted] = []
        self._writing = False
        self._between: list[Deferred[None]] = []
        self._idle: list[Deferred[None]] = []
        # Lines of the log but for those that its last compaction wrote.
        self._lines_since = 0
        self._compacting = False

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
        if self._lines_since:
            # Of many jobs it takes seconds, and nobody need wait for it.
            Deferred.fromCoroutine(self._first_compaction(replay)).addErrback(self._crashed)

    def _begin_with(self, replay: Replay) -> None:
        for text in replay.told:
            self._log.error("{text}", text=text)
        for text in replay.mended:
            self._log.info("{text}", text=text)
        self._table = replay.table
        self._ids = JobIds(self._table.newest_id)
        self._lines_since = replay.lines if replay.lines > len(self._table) else 0
        self._is_open = True

    async def _end_doubtful(self, replay: Replay) -> None:
        """End the jobs of which a change may be missing, since going on could pay twice."""
        for job_id in replay.in_doubt:
            job = self._table.get(job_id)
            if job is None or job.is_final:
                continue
            fields: dict[str, Any] = {
                "status": FAILED,
                "finished_ms": self._now_ms(),
                "error": JobError(
                    STORAGE_FAILED,
                    "a part of this job's record was damaged on the disk, so it is not known how "
                    "far it got; make a new one",
                ),
            }
            if job.webhook is not None:
                fields["webhook"] = msgspec.structs.replace(job.webhook, state=PENDING)
            self._log.error("{id}: ended as failed, since its record is damaged", id=job_id)
            try:
                await self.change(job_id, **fields)
            except StorageUnavailable as error:
                raise JobLogUnreadableError(
                    f"{self.path}: {error.detail}; make room on that disk, since a damaged job has "
                    "to be ended before anything goes on"
                ) from None

    async def _first_compaction(self, replay: Replay) -> None:
        try:
            await self._writer.submit(partial(self._files.set_aside, replay.damaged))
        except _EXPECTED as error:
            self._tell_uncompacted(error)
        else:
            await self._compact()

    async def close(self) -> None:
        """Write what waits, take nothing more, and close the files; the writer is not stopped."""
        self._is_open = False
        if self._writing or self._waiting:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle
        # A writer that has been stopped already has nothing to close.
        with suppress(*_EXPECTED):
            await self._writer.submit(self._files.close)

    def abandon(self) -> Deferred[None]:
        """Let go of everything at once; whoever waits is told that nothing is known."""
        self._is_open = False
        self.watchers.clear()
        self.removal_watchers.clear()
        failed = [*self._in_hand, *self._waiting]
        self._waiting.clear()
        self._in_hand = []
        self._writing = False
        for wanted in failed:
            wanted.done.errback(_not_open())
        return self._writer.abandon(self._files.close)

    # -- reading ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._table)

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

        made: tuple[Job, bool] = await self._want(judge, len(new.input_json))
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

        job: Job = await self._want(judge, 0)
        return job

    async def sweep(self, before_ms: int) -> list[Job]:
        """Remove the final jobs that ended before that and owe nothing, with their inputs.

        :return: those that were removed. Their outputs are up to the
            :attr:`removal_watchers`.
        :raises GatewayError: ``storage_unavailable``, ``not_ready``; the rest stays.
        """
        removed: list[Job] = []
        try:
            while ids := self._table.ended_before(before_ms, SWEEP_BATCH):
                jobs = [job for job in map(self._table.get, ids) if job is not None]
                gone = set(await self._want(partial(_judge_removal, ids), 0))
                if not gone:
                    break
                batch = [job for job in jobs if job.id in gone]
                removed += batch
                with_files = [job.id for job in batch if job.input_file]
                if with_files:
                    self._writer.submit(partial(self._files.remove_inputs, with_files)).addErrback(
                        lambda failure: failure.trap(*_EXPECTED) and None
                    )
                self._tell_removed(batch)
        finally:
            if removed and self._is_open:
                await self._compact()
        return removed

    def _tell_removed(self, jobs: Sequence[Job]) -> None:
        for watcher in self.removal_watchers:
            try:
                watcher(jobs)
            except Exception:
                self._log.failure("the removal of jobs could not be told of")

    # -- groups -------------------------------------------------------------------------------

    def _want(self, judge: Callable[[Draft], Callable[[], Any]], size: int) -> Deferred[Any]:
        if not self._is_open:
            return fail(_not_open())
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes + size > MAX_WAITING_BYTES:
            return fail(StorageUnavailable(f"{self.path}: the disk does not keep up"))
        wanted = _Wanted(judge, size)
        self._waiting.append(wanted)
        self._waiting_bytes += size
        self._go_on()
        return wanted.done

    def _go_on(self) -> None:
        """Have the next group written, unless one is in hand."""
        while not self._writing:
            between, self._between = self._between, []
            for waiter in between:
                waiter.callback(None)
            if self._is_busy():
                return
            if not self._waiting:
                idle, self._idle = self._idle, []
                for waiter in idle:
                    waiter.callback(None)
                return
            self._writing = True
            draft = Draft(self._table, self._max_jobs)
            group = self._judge(draft)
            if draft.lines:
                self._write(draft, group)
            else:
                # All was refused, or is so already.
                self._settle(group)

    def _is_busy(self) -> bool:
        return self._writing

    def _judge(self, draft: Draft) -> list[_Wanted]:
        """Take what waits into a draft, as far as a group has room."""
        group: list[_Wanted] = []
        size = 0
        while self._waiting and len(group) < MAX_GROUP:
            wanted = self._waiting[0]
            if group and size + wanted.size > MAX_GROUP_BYTES:
                break
            self._waiting.popleft()
            self._waiting_bytes -= wanted.size
            size += wanted.size
            group.append(wanted)
            try:
                wanted.result = wanted.judge(draft)
            except Exception:
                wanted.fault = Failure()
        return group

    def _write(self, draft: Draft, group: list[_Wanted]) -> None:
        self._in_hand = group
        written = self._writer.submit(
            partial(self._files.append, draft.lines, draft.new, draft.inputs, draft.gone)
        )
        written.addCallbacks(
            lambda _: self._written(draft, group), lambda failure: self._refused(failure, group)
        ).addErrback(self._broken, group)

    def _written(self, draft: Draft, group: list[_Wanted]) -> None:
        """The group is on the disk: make it visible, and tell everybody."""
        if self._in_hand is not group:
            return
        changes, _ = draft.take_over()
        self._lines_since += len(draft.lines)
        self._in_hand = []
        for before, after in changes:
            self._tell(before, after)
        self._settle(group)
        self._go_on()

    def _settle(self, group: list[_Wanted]) -> None:
        """Answer whoever waits; what they want then comes behind all of this group."""
        for wanted in group:
            wanted.settle()
        self._writing = False

    def _tell(self, before: Job | None, after: Job) -> None:
        for watcher in self.watchers:
            try:
                watcher(before, after)
            except Exception:
                # It is written, whatever becomes of those who are told.
                self._log.failure("a change of {id} could not be told of", id=after.id)

    def _refused(self, failure: Failure, group: list[_Wanted]) -> None:
        """The group is not on the disk: nothing of it has happened."""
        if self._in_hand is not group:
            return
        if not failure.check(*_EXPECTED):
            self._broken(failure, group)
            return
        self.failed_writes += 1
        detail = f"{self.path}: {failure.getErrorMessage()}"
        self._log.error("jobs cannot be written: {detail}", detail=detail)
        self._in_hand = []
        for wanted in group:
            wanted.fault = wanted.fault or Failure(StorageUnavailable(detail))
        self._settle(group)
        self._go_on()

    def _broken(self, failure: Failure, group: list[_Wanted]) -> None:
        """A fault of this program: what is in memory may not be what is on the disk."""
        self._is_open = False
        failed = [*group, *self._waiting]
        self._waiting.clear()
        self._in_hand, self._writing = [], False
        for wanted in failed:
            if not wanted.done.called:
                wanted.done.errback(_not_open())
        self._crashed(failure)

    def _until_between(self) -> Deferred[None]:
        """Wait until no group is in hand; what is done then on the spot precedes the next one."""
        between: Deferred[None] = Deferred()
        self._between.append(between)
        if not self._writing:
            self._go_on()
        return between

    # -- compaction ---------------------------------------------------------------------------

    async def check(self) -> None:
        """Write the log anew if it has grown enough since; to be called once a minute."""
        if self._lines_since > MIN_COMPACTION_LINES and self._lines_since > 2 * len(self._table):
            await self._compact()

    async def _compact(self) -> None:
        """Write the log anew, one line a job, while groups go on."""
        if self._compacting:
            return
        self._compacting = True
        try:
            await self._until_between()
            # No group is in hand, so these are the jobs of the log as the writer will find it.
            entries, before = self._table.entries(), self._lines_since
            begun = self._writer.submit(self._files.begin_compaction)
            await begun
            place = 0
            while place < len(entries):
                place = await self._writer.submit(partial(self._files.compact, entries, place))
            while not await self._writer.submit(self._files.end_compaction):
                pass
            self._lines_since -= before
        except (*_EXPECTED, DamagedLineError) as error:
            if self._is_open:
                self._tell_uncompacted(error)
            with suppress(*_EXPECTED):
                await self._writer.submit(self._files.drop_compaction)
        except Exception:
            self._crashed(Failure())
        finally:
            self._compacting = False

    def _tell_uncompacted(self, error: Exception) -> None:
        self._log.error(
            "{path}: the log could not be written anew ({error}); it goes on growing, and it is "
            "tried again",
            path=self.path,
            error=str(error),
        )


def _read_object(content: bytes) -> dict[str, Any]:
    cut = at_once(cut_steps(content))
    return at_once(tree_steps(cut, cut.rest))


def _judge_removal(ids: Sequence[str], draft: Draft) -> Callable[[], list[str]]:
    removed = draft.remove(ids)
    return lambda: removed


def _not_open() -> GatewayError:
    return GatewayError(
        "not_ready",
        "the jobs are being read, or closed; look whether it was done, and try again in a second",
        retry_after=1,
    )
