"""The thread that does the disk work of one store, so that the reactor never waits for a disk."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Interface, implementer

from omnigate.files import take_sync_seconds

T = TypeVar("T")

# Jobs waiting for a writer. A store submits one at a time for all that waits, and a few small
# ones beside it; a thousand mean that the disk has stood still for long.
MAX_PENDING_JOBS = 1024

# etcd's threshold too: a disk that takes a second to sync is about to become the story.
SLOW_JOB_SECONDS = 1.0


class WriterBusyError(Exception):
    """A writer takes no more jobs for now: too many wait for the disk, or it has no thread."""


class WriterStoppedError(Exception):
    """A job was handed to a writer that has been stopped."""


class IWriter(Interface):
    """Does the disk work of one store, one job after the other."""

    def submit(job: Callable[[], T]) -> "Deferred[T]":  # noqa: N805
        """Do ``job`` after all that were submitted before it, away from the reactor.

        :returns: its result or its failure; :class:`WriterBusyError` or
            :class:`WriterStoppedError` where it was not taken.
        """

    def stop() -> "Deferred[None]":
        """Take no more jobs; fires when those taken are done."""

    def abandon(last: Callable[[], object] | None = None) -> "Deferred[None]":  # noqa: N805
        """Take no more jobs, and drop those that wait; their Deferreds fail.

        :param last: done after the job in hand, such as closing files.
        :returns: fires when nothing is done any more.
        """


class _Job(Generic[T]):
    """A job that waits, and the Deferred of whoever submitted it."""

    def __init__(self, call: Callable[[], T], done: "Deferred[T]") -> None:
        self.call = call
        self.done = done


@implementer(IWriter)
class WriterThread:
    """One thread that does the disk work of one store, in the order it was submitted.

    The thread is started by the first job and not before, since a daemon may still fork until
    then. Results come back through ``reactor_call``, so whoever submitted never sees the thread.
    """

    log = Logger()

    def __init__(
        self,
        name: str,
        reactor_call: Callable[..., object],
        max_pending: int = MAX_PENDING_JOBS,
        crashed: Callable[[Failure], None] | None = None,
    ) -> None:
        """Prepare the writer.

        :param name: what the log and the process list call it.
        :param reactor_call: the reactor's ``callFromThread``.
        :param max_pending: how many jobs may wait.
        :param crashed: told, on the reactor's thread, if the thread itself is lost; no job is done
            after that. Without it another thread goes on.
        """
        self.name = name
        self._reactor_call = reactor_call
        self._max_pending = max_pending
        self._crashed = crashed
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._in_hand: _Job[Any] | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._abandoned = False
        self._stopped: list[Deferred[None]] = []
        self.pending = 0

    def submit(self, job: Callable[[], T]) -> "Deferred[T]":
        """Do ``job`` in the thread, after all that were submitted before it.

        Called on the reactor's thread. Cancelling the Deferred does not take the job back.

        :returns: the job's result or failure; :class:`WriterBusyError` where too many wait or no
            thread is to be had,
            :class:`WriterStoppedError` after :meth:`stop`.
        """
        if self._stopping:
            return fail(self._stopped_error())
        if self.pending >= self._max_pending:
            return fail(WriterBusyError(f"{self.pending} jobs wait for the writer {self.name}"))
        return self._put(job)

    def _put(self, job: Callable[[], T]) -> "Deferred[T]":
        done: Deferred[T] = Deferred()
        self.pending += 1
        self._jobs.put(_Job(job, done))
        if self._thread is None:
            try:
                self._start()
            except WriterBusyError as error:
                self._drop(error)
        return done

    def _start(self) -> None:
        """Start the thread.

        :raises WriterBusyError: the system has none to give; the next job tries it again.
        """
        thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise WriterBusyError(
                f"the writer {self.name} gets no thread ({error}); let this process have more tasks"
            ) from None
        self._thread = thread

    def _stopped_error(self) -> WriterStoppedError:
        return WriterStoppedError(f"the writer {self.name} has been stopped")

    def stop(self) -> "Deferred[None]":
        """Take no more jobs, and end the thread when those taken are done.

        :returns: fires then; a second call fires together with the first.
        """
        if self._thread is None:
            self._stopping = True
            return succeed(None)
        stopped: Deferred[None] = Deferred()
        self._stopped.append(stopped)
        if not self._stopping:
            self._stopping = True
            self._jobs.put(None)
        return stopped

    def abandon(self, last: Callable[[], object] | None = None) -> "Deferred[None]":
        """Take no more jobs, drop those that wait, and end the thread after the job in hand.

        :param last: done in the thread before it ends, such as closing files. What it raises is
            logged. It is done also where the thread has been lost, by another one.
        :returns: fires when the thread has ended, however long the job in hand takes.
        """
        if not self._abandoned:
            self._drop()
        self._stopping = self._abandoned = True
        if last is not None:
            self._put(last).addErrback(
                lambda failure: self.log.failure(
                    "the last job of the writer {name} failed", failure, name=self.name
                )
            )
        if self._thread is None:
            return succeed(None)
        ended: Deferred[None] = Deferred()
        self._stopped.append(ended)
        self._jobs.put(None)
        return ended

    def _drop(self, error: Exception | None = None) -> None:
        """Let no job that waits be done."""
        dropped = []
        with contextlib.suppress(queue.Empty):
            while True:
                dropped.append(self._jobs.get_nowait())
        for job in dropped:
            if job is not None:
                self.pending -= 1
                job.done.errback(error or self._stopped_error())

    def _run(self) -> None:
        """Do jobs until the end mark; the only method that runs in the thread, with ``_do``."""
        try:
            while (job := self._jobs.get()) is not None:
                self._in_hand = job
                self._do(job.call, job.done)
                self._in_hand = job = None
        except BaseException:
            self._reactor_call(self._lost, Failure())
        else:
            self._reactor_call(self._ended)

    def _do(self, job: Callable[[], T], done: "Deferred[T]") -> None:
        take_sync_seconds()
        began = time.monotonic()
        result: T | Failure
        try:
            result = job()
        except BaseException:
            result = Failure()
        seconds = time.monotonic() - began
        self._reactor_call(self._deliver, done, result, seconds, take_sync_seconds())

    def _deliver(
        self, done: "Deferred[T]", result: "T | Failure", seconds: float, syncing: float
    ) -> None:
        """Hand a result over, on the reactor's thread."""
        self.pending -= 1
        if seconds > SLOW_JOB_SECONDS:
            self.log.warn(
                "the writer {name} took {seconds:.1f} s for one job, {syncing:.1f} s of them for "
                "syncs{remedy}",
                name=self.name,
                seconds=seconds,
                syncing=syncing,
                # A large config that is read, or a ledger that is loaded, is work for the core.
                remedy="; look after the disk of its folder" if syncing > seconds / 2 else "",
            )
        if isinstance(result, Failure):
            done.errback(result)
        else:
            done.callback(result)

    def _lost(self, failure: Failure) -> None:
        """The thread is lost, on the reactor's thread, and with it the job in hand."""
        in_hand, self._in_hand = self._in_hand, None
        if self._crashed is None:
            self.log.failure("the thread of the writer {name} is lost", failure, name=self.name)
        else:
            self._stopping = True
            self._crashed(failure)
        if in_hand is not None and not in_hand.done.called:
            self.pending -= 1
            in_hand.done.errback(WriterStoppedError(f"the thread of {self.name} is lost"))
        if self._crashed is not None and not self._abandoned:
            self._drop()
        self._ended()

    def _ended(self) -> None:
        """The thread has come to its end, on the reactor's thread."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if not self._jobs.empty():
            # Its end came in between, or had begun when the last job was given out.
            try:
                self._start()
            except WriterBusyError as error:
                self._drop(error)
            else:
                return
        stopped, self._stopped = self._stopped, []
        for waiting in stopped:
            waiting.callback(None)
