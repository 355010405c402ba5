"""Writer threads that are abandoned, or lost."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.writer import SynchronousWriter
from omnigate.writer_thread import WriterStoppedError, WriterThread

#: More than anything here takes.
SECONDS = 30.0


class LossError(BaseException):
    """What a thread ends with that should never end so."""


class Reactor:
    """Does in the test's thread what other threads ask for, one call at a time."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    def call_from_thread(self, call: Callable[..., object], *arguments: Any) -> None:
        self._calls.put(lambda: call(*arguments))

    def step(self) -> None:
        """Wait for the next call, and do it."""
        self._calls.get(timeout=SECONDS)()


class AbandonTests(SynchronousTestCase):
    """A writer that is told to let go."""

    def setUp(self) -> None:
        self.reactor = Reactor()
        self.crashes: list[Failure] = []
        self.writer = WriterThread(
            "ledger", self.reactor.call_from_thread, crashed=self.crashes.append
        )
        self.done: list[str] = []
        self.before = threading.active_count()

    def until(self, fired: Deferred[Any]) -> None:
        while not fired.called:
            self.reactor.step()

    def test_what_waits_is_dropped_and_what_is_in_hand_ends(self) -> None:
        """The last job is done behind it, in the thread; then there is no thread any more."""
        go, begun = threading.Event(), threading.Event()

        def in_hand() -> str:
            begun.set()
            go.wait(SECONDS)
            return "in hand"

        first = self.writer.submit(in_hand)
        waiting = self.writer.submit(lambda: self.done.append("waiting"))
        self.assertTrue(begun.wait(SECONDS))
        ended = self.writer.abandon(
            lambda: self.done.append(f"last in {threading.current_thread().name}")
        )
        again = self.writer.abandon()
        self.failureResultOf(waiting, WriterStoppedError)
        self.failureResultOf(self.writer.submit(lambda: None), WriterStoppedError)
        self.assertNoResult(ended)
        go.set()
        self.until(ended)
        self.assertEqual(self.successResultOf(first), "in hand")
        self.successResultOf(again)
        self.assertEqual(self.done, ["last in ledger"])
        self.assertEqual((threading.active_count(), self.writer.pending), (self.before, 0))

    def test_idle_or_never_used(self) -> None:
        """The last job is done all the same, and what it raises is logged."""
        for used in (False, True):
            self.setUp()
            if used:
                self.until(self.writer.submit(lambda: None))
            self.until(self.writer.abandon(lambda: 1 // 0))
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
            self.assertEqual(threading.active_count(), self.before)
        self.successResultOf(WriterThread("x", self.reactor.call_from_thread).abandon())

    def test_after_a_stop(self) -> None:
        """A writer whose end has begun still does the last job."""
        self.until(self.writer.submit(lambda: None))
        stopped = self.writer.stop()
        self.until(self.writer.abandon(lambda: self.done.append("last")))
        self.successResultOf(stopped)
        self.assertEqual(self.done, ["last"])
        self.assertEqual(threading.active_count(), self.before)

    def lose(self, *jobs: Callable[[], Any]) -> list[Deferred[Any]]:
        """Let the thread be lost with the first of these jobs."""

        go = threading.Event()

        def lost(job: object, done: object) -> None:
            go.wait(SECONDS)
            raise LossError

        self.patch(self.writer, "_do", lost)
        submitted = [self.writer.submit(job) for job in jobs]
        go.set()
        return submitted

    def test_lost(self) -> None:
        """Whoever waits is told, and so is whoever may do something about it."""
        in_hand, waiting = self.lose(lambda: None, lambda: None)
        self.reactor.step()
        self.assertEqual([crash.type for crash in self.crashes], [LossError])
        for deferred in (in_hand, waiting, self.writer.submit(lambda: None)):
            self.failureResultOf(deferred, WriterStoppedError)
        self.assertEqual((threading.active_count(), self.writer.pending), (self.before, 0))
        self.successResultOf(self.writer.stop())

    def test_lost_and_abandoned(self) -> None:
        """Files are closed even so, whichever of the two is heard of first."""
        for first in (True, False):
            self.setUp()
            self.lose(lambda: None)[0].addErrback(lambda _: None)
            if first:
                self.reactor.step()
            # The thread that closes them is a new one, and does its work.
            self.patch(self.writer, "_do", WriterThread._do.__get__(self.writer))
            self.until(self.writer.abandon(lambda: self.done.append("closed")))
            self.assertEqual(self.done, ["closed"])
            self.assertEqual(threading.active_count(), self.before)

    def test_lost_without_anybody_to_tell(self) -> None:
        """It is logged, and another thread does what waits and what comes."""
        self.writer = WriterThread("ledger", self.reactor.call_from_thread)
        lost, waiting = self.lose(lambda: None, lambda: "waiting")
        self.patch(self.writer, "_do", WriterThread._do.__get__(self.writer))
        self.until(lost)
        self.failureResultOf(lost, WriterStoppedError)
        self.assertEqual(len(self.flushLoggedErrors(LossError)), 1)
        self.until(waiting)
        self.assertEqual(self.successResultOf(waiting), "waiting")
        more = self.writer.submit(lambda: "more")
        self.until(more)
        self.until(self.writer.stop())
        self.assertEqual(threading.active_count(), self.before)


class SynchronousAbandonTests(SynchronousTestCase):
    """The stand-in does the same."""

    def test_abandoned(self) -> None:
        """What waits is dropped; the last job is done when nothing is in hand."""
        writer, done = SynchronousWriter(holding=True), list[str]()
        waiting = writer.submit(lambda: done.append("waiting"))
        writer.stuck = True
        ended = writer.abandon(lambda: done.append("last"))
        self.failureResultOf(waiting, WriterStoppedError)
        self.assertNoResult(ended)
        writer.unstick()
        self.successResultOf(ended)
        self.assertEqual(done, ["last"])
        self.successResultOf(writer.abandon())
