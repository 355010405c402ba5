"""A stand-in for the writer thread that does its work on the spot, or when it is told to."""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, execute, fail, succeed
from zope.interface import implementer

from omnigate.writer_thread import MAX_PENDING_JOBS, IWriter, WriterBusyError, WriterStoppedError

T = TypeVar("T")


class _Job(Generic[T]):
    """A job that waits, and the Deferred of whoever submitted it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.done: Deferred[T] = Deferred()


@implementer(IWriter)
class SynchronousWriter:
    """Does jobs in the caller's thread: at once, or while ``holding`` only in :meth:`run`.

    :ivar holding: whether jobs wait for :meth:`run`, as they would for a slow disk.
    :ivar stuck: whether a job is in hand that does not end, and with it no writer that was
        abandoned, before :meth:`unstick`.
    """

    def __init__(self, holding: bool = False, max_pending: int = MAX_PENDING_JOBS) -> None:
        """Make a writer without a thread."""
        self.holding = holding
        self._max_pending = max_pending
        self.stuck = False
        self._jobs: deque[_Job[Any]] = deque()
        self._last: Callable[[], object] | None = None
        self._stopping = False
        self._stopped: list[Deferred[None]] = []

    @property
    def pending(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    @property
    def stopping(self) -> bool:
        """Whether it takes no more jobs."""
        return self._stopping

    def submit(self, job: Callable[[], T]) -> "Deferred[T]":
        """Do ``job`` now, or keep it while holding."""
        if self._stopping:
            return fail(WriterStoppedError("the writer has been stopped"))
        if not self.holding:
            return execute(job)
        if len(self._jobs) >= self._max_pending:
            return fail(WriterBusyError(f"{len(self._jobs)} jobs wait for the writer"))
        waiting = _Job(job)
        self._jobs.append(waiting)
        return waiting.done

    def run(self, count: int | None = None) -> int:
        """Do the jobs that wait, or the first ``count`` of them.

        :returns: how many were done.
        """
        done = 0
        while self._jobs and (count is None or done < count):
            job = self._jobs.popleft()
            execute(job.call).chainDeferred(job.done)
            done += 1
        if not self._jobs and not self.stuck:
            self._fire()
        return done

    def _fire(self) -> None:
        stopped, self._stopped = self._stopped, []
        for waiting in stopped:
            waiting.callback(None)

    def stop(self) -> "Deferred[None]":
        """Take no more jobs; fires when those that wait are done."""
        self._stopping = True
        if not self._jobs:
            return succeed(None)
        stopped: Deferred[None] = Deferred()
        self._stopped.append(stopped)
        return stopped

    def abandon(self, last: Callable[[], object] | None = None) -> "Deferred[None]":
        """Take no more jobs and drop those that wait; ``last`` is done at once, or when unstuck."""
        self._stopping = True
        self._last = last or self._last
        while self._jobs:
            self._jobs.popleft().done.errback(WriterStoppedError("the writer was abandoned"))
        ended: Deferred[None] = Deferred()
        self._stopped.append(ended)
        if not self.stuck:
            self.unstick()
        return ended

    def unstick(self) -> None:
        """Let the job in hand end, and with it a writer that was abandoned."""
        self.stuck = False
        last, self._last = self._last, None
        if last is not None:
            last()
        self._fire()
