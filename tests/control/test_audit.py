"""The audit log as others use it."""

from __future__ import annotations

import errno
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.control.audit import AuditEntry, AuditLine, AuditLog
from omnigate.control.audit_file import AuditFileError
from omnigate.errors import GatewayError
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from omnigate.writer_thread import MAX_PENDING_JOBS, WriterThread

PATH = "/state/audit.jsonl"


class LogCase(SynchronousTestCase):
    """A log on a disk in memory, with a clock."""

    def setUp(self) -> None:
        self.disk = MemoryDisk("/state")
        self.patch(files, "os", self.disk)
        self.patch(files, "fcntl", self.disk)
        self.clock = Clock()
        self.clock.advance(1_795_982_400)
        self.crashes: list[Failure] = []
        self.audit = self.opened()

    def made(self) -> AuditLog:
        self.writer = SynchronousWriter()
        return AuditLog(
            PATH,
            self.clock,
            self.writer,
            lambda: int(self.clock.seconds() * 1000),
            max_bytes=10**6,
            crashed=self.crashes.append,
        )

    def opened(self) -> AuditLog:
        audit = self.made()
        self.successResultOf(Deferred.fromCoroutine(audit.open()))
        return audit

    def record(self, target: str) -> Deferred[None]:
        return Deferred.fromCoroutine(
            self.audit.record(AuditEntry("key.create", "admin-token", target))
        )

    def close(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.audit.close()))

    def told(self) -> list[AuditLine]:
        """All lines, oldest first."""
        return self.audit.entries(1000)[::-1]


class RecordTests(LogCase):
    """Entries and their lines."""

    def test_durable(self) -> None:
        """What was recorded is on the disk, and in the list, which a restart brings back."""
        self.successResultOf(self.record("a"))
        self.assertIn(b'"target":"a"', self.disk.certain()[PATH])
        before = self.told()
        self.close()
        self.audit = self.opened()
        self.assertEqual(self.told(), before)
        self.assertEqual((self.audit.lines_written, self.audit.failed_writes), (0, 0))

    def test_not_before_it_is_there(self) -> None:
        """Nobody is told of a line before the disk has it."""
        self.writer.holding = True
        waiting = self.record("a")
        self.assertNoResult(waiting)
        self.assertEqual(self.told(), [])
        self.writer.run()
        self.successResultOf(waiting)
        self.assertEqual([line.target for line in self.told()], ["a"])

    def test_refusing_disk(self) -> None:
        """A line that cannot be written is refused, counted, not told, and no number is used up."""
        for call in ("write", "fdatasync"):
            self.disk.fail(call, error=errno.ENOSPC)
            error = self.failureResultOf(self.record("lost"), GatewayError).value
            self.assertEqual(error.kind.code, "storage_unavailable")
            self.assertNotIn("/state", error.message)
        self.successResultOf(self.record("a"))
        self.assertEqual([(line.seq, line.target) for line in self.told()], [(1, "a")])
        self.assertEqual((self.audit.lines_written, self.audit.failed_writes), (1, 2))
        self.assertNotIn(b"lost", self.disk.contents()[PATH])
        self.assertEqual(self.crashes, [])

    def test_before_and_after(self) -> None:
        """A log that is not open writes nothing, and says so."""
        self.close()
        error = self.failureResultOf(self.record("a"), GatewayError).value
        self.assertEqual(error.kind.code, "not_ready")
        self.audit.sign_in_failed("10.0.0.1", "wrong")
        self.assertEqual((self.disk.contents()[PATH], self.clock.getDelayedCalls()), (b"", []))

    def test_busy_writer(self) -> None:
        """A disk that does not keep up refuses, and holds nothing without a bound."""
        self.writer.holding = True
        results: list[Deferred[Any]] = [self.record(f"k{n}") for n in range(MAX_PENDING_JOBS)]
        error = self.failureResultOf(self.record("more"), GatewayError).value
        self.assertEqual(error.kind.code, "storage_unavailable")
        self.writer.run()
        for result in results:
            self.successResultOf(result)

    def test_crash(self) -> None:
        """What it has no answer for is handed up, and the caller is refused."""
        self.patch(self.disk, "fdatasync", lambda fd: 1 // 0)
        error = self.failureResultOf(self.record("a"), GatewayError).value
        self.assertEqual(error.kind.code, "storage_unavailable")
        self.assertEqual([crash.type for crash in self.crashes], [ZeroDivisionError])

    def test_cannot_open(self) -> None:
        """A file that cannot be opened is one line with its name and the remedy."""
        self.close()
        self.disk.fail("open", error=errno.EACCES)
        failure = self.failureResultOf(Deferred.fromCoroutine(self.made().open()), AuditFileError)
        self.assertIn(PATH, str(failure.value))
        self.assertIn("OMNIGATE_AUDIT", str(failure.value))

    def test_abandoned(self) -> None:
        """One that is let go of writes nothing more, and ends its writer."""
        self.audit.sign_in_failed("10.0.0.1", "wrong")
        self.audit.sign_in_failed("10.0.0.1", "wrong")
        before = self.disk.contents()
        self.successResultOf(self.audit.abandon())
        self.failureResultOf(self.record("a"), GatewayError)
        self.clock.advance(61)
        self.assertEqual(self.disk.contents(), before)
        self.assertEqual((self.clock.getDelayedCalls(), self.crashes), ([], []))
        self.successResultOf(self.audit.abandon())

    def test_pages(self) -> None:
        """The newest come first, and a page begins below a number."""
        for n in range(10):
            self.successResultOf(self.record(f"k{n}"))
        self.assertEqual([line.seq for line in self.audit.entries(3)], [10, 9, 8])
        self.assertEqual([line.seq for line in self.audit.entries(3, 8)], [7, 6, 5])
        self.assertEqual([line.seq for line in self.audit.entries(3, 2)], [1])
        self.assertEqual(self.audit.entries(3, 1), [])


class SignInTests(LogCase):
    """Failed sign-ins."""

    def test_a_hundred_in_a_minute(self) -> None:
        """They are two lines, the second with 99 repeats."""
        for n in range(100):
            self.audit.sign_in_failed("10.0.0.1", "wrong" if n < 20 else "locked")
            self.clock.advance(0.5)
        self.assertEqual(len(self.told()), 1)
        self.clock.advance(10)
        first, rest = self.told()
        self.assertEqual((first.action, first.outcome), ("sign_in.failed", "failed"))
        self.assertEqual((first.address, first.detail), ("10.0.0.1", {"reason": "wrong"}))
        self.assertEqual(rest.detail, {"repeats": 99, "locked": 80, "wrong": 19})
        self.assertEqual(rest.address, "10.0.0.1")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_several_addresses(self) -> None:
        """Each has its minute; each summary comes when its own is over."""
        for second in range(3):
            for _ in range(second + 1):
                self.audit.sign_in_failed(f"10.0.0.{second}", "wrong")
            self.clock.advance(10)
        self.clock.advance(29.9)
        self.assertEqual(len(self.told()), 3)
        self.clock.advance(10.1)
        self.assertEqual(self.told()[-1].detail["repeats"], 1)
        self.clock.advance(10)
        self.assertEqual([line.detail.get("repeats") for line in self.told()][3:], [1, 2])

    def test_clean_stop(self) -> None:
        """A stop in the middle of the minute writes what was counted."""
        for _ in range(5):
            self.audit.sign_in_failed("10.0.0.1", "wrong")
        self.close()
        self.assertIn(b'{"repeats":4,"wrong":4}', self.disk.certain()[PATH])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_refusing_disk(self) -> None:
        """A line that nobody waits for is missed in the log and counted, and goes on."""
        self.disk.fail("write")
        self.audit.sign_in_failed("10.0.0.1", "wrong")
        self.audit.sign_in_failed("10.0.0.1", "wrong")
        self.clock.advance(60)
        self.assertEqual((self.audit.failed_writes, len(self.told())), (1, 1))


class ThreadTests(SynchronousTestCase):
    """With the true disk and the true thread."""

    def test_many_at_once(self) -> None:
        """Entries that come together are written in their order, each once."""
        calls: list[Any] = []
        folder = self.mktemp()
        os.makedirs(folder)
        writer = WriterThread("audit", lambda *call: calls.append(call))
        path = os.path.join(folder, "audit.jsonl")
        audit = AuditLog(path, Clock(), writer, lambda: 0, max_bytes=4000)

        def run(result: Deferred[Any]) -> None:
            while not result.called:
                while calls:
                    call, *arguments = calls.pop(0)
                    call(*arguments)

        run(Deferred.fromCoroutine(audit.open()))
        results = [
            Deferred.fromCoroutine(audit.record(AuditEntry("a", "b", str(n)))) for n in range(40)
        ]
        run(results[-1])
        for result in results:
            self.successResultOf(result)
        self.assertEqual(
            [line.target for line in audit.entries(40)], [str(n) for n in range(40)][::-1]
        )
        run(Deferred.fromCoroutine(audit.close()))
        self.assertEqual(len(os.listdir(folder)), 2)
