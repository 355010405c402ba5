"""Changes of jobs on their way to the disk: judged, written and told group by group."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.jobs.job import Job
from omnigate.jobs.job_draft import Draft
from omnigate.jobs.job_log import JobLog
from omnigate.jobs.job_table import JobTable
from omnigate.jobs.store_faults import EXPECTED, StorageUnavailable, not_open
from omnigate.writer_thread import IWriter

#: What is written together: so much that one sync serves many, so little that judging it, and
#: telling everybody afterwards, takes some milliseconds.
MAX_GROUP: Final = 100
MAX_GROUP_BYTES: Final = 16 * 1024 * 1024

#: What may wait to be written; more waits only when the disk has stopped answering.
MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 128 * 1024 * 1024


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


class Groups:
    """Takes what is wanted, and does all that waits by one write and one sync.

    The next group is judged when the one before is settled, by what is there then; so one that
    fails leaves nothing to be taken back.

    :param tell: told of each job that changed, before (None for a new one) and after.
    :param crashed: told of a fault of this program; nothing is taken any more then.
    :ivar table: the jobs as the disk has them.
    :ivar is_open: whether anything is taken.
    :ivar lines_since: lines of the log but for those that its last compaction wrote.
    :ivar failed_writes: how many groups the disk refused.
    """

    _log = Logger(namespace="omnigate.jobs")

    def __init__(
        self,
        files: JobLog,
        writer: IWriter,
        max_jobs: int,
        tell: Callable[[Job | None, Job], None],
        crashed: Callable[[Failure], None],
    ) -> None:
        self.table = JobTable()
        self.is_open = False
        self.lines_since = 0
        self.failed_writes = 0
        self._files = files
        self._writer = writer
        self._max_jobs = max_jobs
        self._tell = tell
        self._crashed = crashed
        self._waiting: deque[_Wanted] = deque()
        self._waiting_bytes = 0
        self._in_hand: list[_Wanted] = []
        self._writing = False
        self._between: list[Deferred[None]] = []
        self._idle: list[Deferred[None]] = []

    def end(self) -> Deferred[None]:
        """Take nothing more; fires when what waits is done."""
        self.is_open = False
        if not self._writing and not self._waiting:
            return succeed(None)
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        return idle

    def abandon(self) -> None:
        """Take nothing more, and tell whoever waits that nothing is known."""
        self.is_open = False
        failed = [*self._in_hand, *self._waiting]
        self._waiting.clear()
        self._in_hand, self._writing = [], False
        for wanted in failed:
            wanted.done.errback(not_open())

    def want(self, judge: Callable[[Draft], Callable[[], Any]], size: int) -> Deferred[Any]:
        """Have something judged, written and told.

        :param judge: puts it into a draft, and returns what makes the result once it is written;
            what it raises is the answer.
        :param size: about how many bytes are to be written for it.
        """
        if not self.is_open:
            return fail(not_open())
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes + size > MAX_WAITING_BYTES:
            return fail(StorageUnavailable(f"{self._files.path}: the disk does not keep up"))
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
            draft = Draft(self.table, self._max_jobs)
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
        self.lines_since += len(draft.lines)
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

    def _refused(self, failure: Failure, group: list[_Wanted]) -> None:
        """The group is not on the disk: nothing of it has happened."""
        if self._in_hand is not group:
            return
        if not failure.check(*EXPECTED):
            self._broken(failure, group)
            return
        self.failed_writes += 1
        detail = f"{self._files.path}: {failure.getErrorMessage()}"
        self._log.error("jobs cannot be written: {detail}", detail=detail)
        self._in_hand = []
        for wanted in group:
            wanted.fault = wanted.fault or Failure(StorageUnavailable(detail))
        self._settle(group)
        self._go_on()

    def _broken(self, failure: Failure, group: list[_Wanted]) -> None:
        """A fault of this program: what is in memory may not be what is on the disk."""
        self.is_open = False
        failed = [*group, *self._waiting]
        self._waiting.clear()
        self._in_hand, self._writing = [], False
        for wanted in failed:
            if not wanted.done.called:
                wanted.done.errback(not_open())
        self._crashed(failure)

    def until_between(self) -> Deferred[None]:
        """Wait until no group is in hand; what is done then on the spot precedes the next one."""
        between: Deferred[None] = Deferred()
        self._between.append(between)
        if not self._writing:
            self._go_on()
        return between
