"""A stand-in for the writer thread that does its work on the spot, or when it is told to."""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred, execute, fail, succeed
from zope.interface import implementer

from omnigate.files import MAX_PENDING_JOBS, IWriter, WriterBusyError, WriterStoppedError

T = TypeVar("T")


@implementer(IWriter)
class SynchronousWriter:
    """Does jobs in the caller's thread: at once, or while ``holding`` only in :meth:`run`.

    :ivar holding: whether jobs wait for :meth:`run`, as they would for a slow disk.
    """

    def __init__(self, holding: bool = False, max_pending: int = MAX_PENDING_JOBS) -> None:
        """Make a writer without a thread."""
        self.holding = holding
        self._max_pending = max_pending
        self._jobs: deque[Callable[[], object]] = deque()
        self._stopping = False
        self._stopped: list[Deferred[None]] = []

    @property
    def pending(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    def submit(self, job: Callable[[], T]) -> "Deferred[T]":
        """Do ``job`` now, or keep it while holding."""
        if self._stopping:
            return fail(WriterStoppedError("the writer has been stopped"))
        if not self.holding:
            return execute(job)
        if len(self._jobs) >= self._max_pending:
            return fail(WriterBusyError(f"{len(self._jobs)} jobs wait for the writer"))
        done: Deferred[T] = Deferred()
        self._jobs.append(lambda: execute(job).chainDeferred(done))
        return done

    def run(self, count: int | None = None) -> int:
        """Do the jobs that wait, or the first ``count`` of them.

        :returns: how many were done.
        """
        done = 0
        while self._jobs and (count is None or done < count):
            self._jobs.popleft()()
            done += 1
        if not self._jobs:
            stopped, self._stopped = self._stopped, []
            for waiting in stopped:
                waiting.callback(None)
        return done

    def stop(self) -> "Deferred[None]":
        """Take no more jobs; fires when those that wait are done."""
        self._stopping = True
        if not self._jobs:
            return succeed(None)
        stopped: Deferred[None] = Deferred()
        self._stopped.append(stopped)
        return stopped
