"""The thread that does the disk work of one store."""

import errno
import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import ILogObserver, LogEvent, Logger
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from omnigate import writer_thread
from omnigate.files import append_file
from omnigate.testing.writer import SynchronousWriter
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError, WriterThread


def noted(done: list[int], number: int) -> int:
    """Keep ``number`` in the list of what was done."""
    done.append(number)
    return number


def refuse(*_: Any) -> None:
    """Fail as a sick disk does."""
    raise OSError(errno.EIO, "Input/output error")


class FakeReactor:
    """Collects what a thread wants done, and does it where the test stands."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = (
            queue.SimpleQueue()
        )

    def call_from_thread(self, call: Callable[..., object], *args: object) -> None:
        """Keep ``call`` for :meth:`step`."""
        self.calls.put((call, args))

    def step(self) -> None:
        """Wait for one call and do it."""
        call, args = self.calls.get(timeout=5)
        call(*args)


class WriterContractTests(SynchronousTestCase):
    """What holds for the thread and for its stand-in."""

    def writers(self) -> list[tuple[Any, Callable[[], None]]]:
        """Return each writer, with what makes its next job come back."""
        reactor = FakeReactor()
        thread = WriterThread("test", reactor.call_from_thread, max_pending=3)
        stand_in = SynchronousWriter(holding=True, max_pending=3)
        return [(thread, reactor.step), (stand_in, lambda: void(stand_in.run(1)))]

    def test_they_provide_the_interface(self) -> None:
        """A store takes either."""
        for writer, _ in self.writers():
            verifyObject(IWriter, writer)

    def test_jobs_are_done_in_order(self) -> None:
        """Results come back one by one, in the order of the jobs."""
        for writer, step in self.writers():
            done: list[int] = []
            results = [writer.submit(partial(noted, done, n)) for n in range(3)]
            self.assertEqual(writer.pending, 3)
            for n, result in enumerate(results):
                self.assertNoResult(result)
                step()
                self.assertEqual(self.successResultOf(result), n)
            self.assertEqual((done, writer.pending), ([0, 1, 2], 0))
            self.end(writer, step)

    def test_a_failure_comes_back_and_the_next_job_is_done(self) -> None:
        """A job that raises fails its own Deferred and nothing else."""
        for writer, step in self.writers():
            bad, good = writer.submit(refuse), writer.submit(lambda: 5)
            step()
            step()
            self.failureResultOf(bad, OSError)
            self.assertEqual(self.successResultOf(good), 5)
            self.end(writer, step)

    def test_too_many_jobs_are_refused(self) -> None:
        """A disk that stands still does not fill the memory."""
        for writer, step in self.writers():
            for _ in range(3):
                writer.submit(lambda: None)
            self.failureResultOf(writer.submit(lambda: None), WriterBusyError)
            for _ in range(3):
                step()
            self.end(writer, step)

    def test_stopping_does_what_was_taken_and_takes_no_more(self) -> None:
        """A stop loses nothing that was submitted before it."""
        for writer, step in self.writers():
            result = writer.submit(lambda: "done")
            stopped = writer.stop()
            again = writer.stop()
            self.assertNoResult(stopped)
            self.failureResultOf(writer.submit(lambda: None), WriterStoppedError)
            step()
            self.assertEqual(self.successResultOf(result), "done")
            self.end(writer, step, stopped)
            self.successResultOf(again)
            self.successResultOf(writer.stop())

    def test_stopping_an_idle_writer(self) -> None:
        """A writer that never had a job is stopped at once."""
        for writer, _ in self.writers():
            self.successResultOf(writer.stop())
            self.failureResultOf(writer.submit(lambda: None), WriterStoppedError)

    def test_cancelling_does_not_take_a_job_back(self) -> None:
        """Who no longer waits is told so; the job is done all the same."""
        for writer, step in self.writers():
            done: list[int] = []
            result = writer.submit(partial(noted, done, 1))
            result.cancel()
            self.failureResultOf(result, CancelledError)
            step()
            self.assertEqual(done, [1])
            self.end(writer, step)

    def end(
        self, writer: Any, step: Callable[[], None], stopped: "Deferred[None] | None" = None
    ) -> None:
        """Stop a writer whose jobs are done."""
        stopped = stopped or writer.stop()
        if not stopped.called:
            step()
        self.successResultOf(stopped)


def void(_: object) -> None:
    """Drop a value."""


@implementer(ILogObserver)
class Listener:
    """Keeps log events."""

    def __init__(self, told: list[LogEvent]) -> None:
        self.told = told

    def __call__(self, event: LogEvent) -> None:
        self.told.append(event)


class WriterThreadTests(SynchronousTestCase):
    def test_work_is_done_in_another_thread_that_ends(self) -> None:
        """The reactor's thread does not touch the disk; no thread is left behind."""
        reactor = FakeReactor()
        writer = WriterThread("ledger", reactor.call_from_thread)
        before = threading.active_count()
        name = writer.submit(lambda: threading.current_thread().name)
        reactor.step()
        self.assertEqual(self.successResultOf(name), "ledger")
        stopped = writer.stop()
        reactor.step()
        self.successResultOf(stopped)
        self.assertEqual(threading.active_count(), before)

    def test_a_thread_that_is_not_to_be_had(self) -> None:
        """Jobs are refused, none waits for a thread that never ran, and the next is done again."""
        reactor = FakeReactor()
        writer = WriterThread("test", reactor.call_from_thread)
        self.without_threads()
        for _ in range(2):
            failure = self.failureResultOf(writer.submit(lambda: 1), WriterBusyError)
            self.assertIn("no more", failure.getErrorMessage())
        self.assertEqual(writer.pending, 0)
        self.threads.restore()
        result = writer.submit(lambda: 2)
        reactor.step()
        self.assertEqual(self.successResultOf(result), 2)
        self.end(writer, reactor)

    def test_stopping_and_abandoning_without_a_thread(self) -> None:
        """Nobody waits for the end of a thread that could not be had."""
        for last in (None, lambda: None):
            writer = WriterThread("test", FakeReactor().call_from_thread)
            self.without_threads()
            self.failureResultOf(writer.submit(lambda: 1), WriterBusyError)
            self.successResultOf(writer.abandon(last))
            self.successResultOf(writer.stop())
            self.threads.restore()
            self.assertEqual(len(self.flushLoggedErrors(WriterBusyError)), last is not None)

    def test_no_thread_to_go_on_after_one_that_is_lost(self) -> None:
        """What waited for the next one is refused, and a stop comes to its end."""
        reactor = FakeReactor()
        writer = WriterThread("test", reactor.call_from_thread)
        lost = writer.submit(lambda: 1)
        reactor.calls.get(timeout=5)  # its result is not delivered yet
        writer._jobs.put(None)
        call, args = reactor.calls.get(timeout=5)
        waiting = writer.submit(lambda: 2)
        stopped = writer.stop()
        self.without_threads()
        call(*args)
        self.failureResultOf(waiting, WriterBusyError)
        self.successResultOf(stopped)
        self.assertNoResult(lost)

    def without_threads(self) -> None:
        """Let the system start no thread until ``self.threads.restore()``."""

        def refused(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread: no more")

        self.threads = self.patch(threading.Thread, "start", refused)

    def end(self, writer: WriterThread, reactor: FakeReactor) -> None:
        """Stop a writer whose jobs are done."""
        stopped = writer.stop()
        reactor.step()
        self.successResultOf(stopped)

    def test_no_thread_is_there_before_the_first_job(self) -> None:
        """A daemon may fork after the writer is made."""
        before = threading.active_count()
        WriterThread("idle", FakeReactor().call_from_thread)
        self.assertEqual(threading.active_count(), before)

    def test_a_slow_disk_is_news(self) -> None:
        """A job that takes longer than it may is logged with the writer's name."""
        self.patch(writer_thread, "SLOW_JOB_SECONDS", -1.0)
        told: list[LogEvent] = []
        reactor = FakeReactor()
        writer = WriterThread("ledger", reactor.call_from_thread)
        writer.log = Logger(observer=Listener(told))
        result = writer.submit(lambda: None)
        reactor.step()
        self.successResultOf(result)
        stopped = writer.stop()
        reactor.step()
        self.successResultOf(stopped)
        self.assertEqual([event["name"] for event in told], ["ledger"])

    def test_the_time_of_syncs_is_told_apart(self) -> None:
        """Of a slow job, and of that one alone: what else took time is no fault of the disk."""
        folder = self.mktemp()
        os.mkdir(folder)
        self.patch(writer_thread, "SLOW_JOB_SECONDS", -1.0)
        sync, slow = os.fdatasync, threading.Event()
        self.patch(os, "fdatasync", lambda fd: (slow.wait(0.05), sync(fd)))
        told: list[LogEvent] = []
        reactor = FakeReactor()
        writer = WriterThread("ledger", reactor.call_from_thread)
        writer.log = Logger(observer=Listener(told))
        for job in (partial(append_file, os.path.join(folder, "a"), b"1\n"), lambda: None):
            result = writer.submit(job)
            reactor.step()
            self.successResultOf(result)
        stopped = writer.stop()
        reactor.step()
        self.successResultOf(stopped)
        self.assertTrue(0.05 <= told[0]["syncing"] <= told[0]["seconds"], told[0])
        self.assertEqual(told[1]["syncing"], 0.0)
        self.assertEqual(["disk" in event["remedy"] for event in told], [True, False])
