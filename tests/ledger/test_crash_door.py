"""What a ledger does where something breaks in it, and how it is let go."""

from __future__ import annotations

from typing import Any

from twisted.python.failure import Failure

from omnigate.ledger.books import Books
from omnigate.ledger.recording import LedgerBroken, StorageUnavailable
from omnigate.ledger.service import LedgerNotReady, LoadCanceledError
from omnigate.ledger.store import LedgerStore
from omnigate.ledger.trouble import PROBE_SECONDS
from omnigate.ledger.upkeep import CHECK_SECONDS
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.ledger_case import COST, LedgerCase
from tests.ledger.test_ingest import as_dict


class BrokenError(Exception):
    """What nobody expects."""


def breaks(*arguments: Any, **options: Any) -> None:
    raise BrokenError


class CrashCase(LedgerCase):
    """A ledger that says when it has crashed."""

    def setUp(self) -> None:
        self.crashes: list[Failure] = []
        super().setUp()

    def opened(self, **options: Any) -> Any:
        return super().opened(crashed=self.crashes.append, **options)

    def another(self) -> None:
        """Let the crashed one go, and open another one on the same files, within one process."""
        self.ledger.abandon()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.writer = SynchronousWriter()
        self.ledger = self.opened()


class CrashTests(CrashCase):
    """Faults of the program in each of its works."""

    def crashed(self) -> None:
        """The ledger has said so, once."""
        self.assertEqual([crash.type for crash in self.crashes], [BrokenError])
        self.flushLoggedErrors(BrokenError)

    def test_in_a_write(self) -> None:
        """Before the line, or behind it: the batch is not acknowledged, and counts once when sent
        again."""
        for name in ("_turn_to", "_count"):
            self.setUp()
            self.recorded("e1")
            broken = self.patch(LedgerStore, name, breaks)
            done = self.ledger.record([as_dict("e2")])
            self.failureResultOf(done, LedgerBroken)
            self.crashed()
            # Nothing goes on with what is in doubt, and no snapshot is made of it.
            self.failureResultOf(self.ledger.record([as_dict("e3")]), StorageUnavailable)
            broken.restore()
            self.another()
            self.assertEqual(self.recorded("e1", "e2", "e3").duplicates, 1 + (name == "_count"))
            self.assertEqual(self.spent(), 3 * COST)

    def test_in_the_books(self) -> None:
        """Half of a group in the sums is gone with them."""
        broken = self.patch(Books, "enter", breaks)
        self.failureResultOf(self.ledger.record([as_dict("e1")]), LedgerBroken)
        self.crashed()
        broken.restore()
        self.another()
        self.assertEqual(self.recorded("e1").duplicates, 1)
        self.assertEqual(self.spent(), COST)

    def test_in_a_new_day(self) -> None:
        """Sums that are half of a new day are told by nobody."""
        broken = self.patch(Books, "turn_to", breaks)
        self.failureResultOf(self.ledger.record([as_dict("e1")]), LedgerNotReady)
        broken.restore()
        self.crashed()

    def test_in_the_upkeep(self) -> None:
        """A snapshot, a seal, a look at old segments."""
        for name in ("install_snapshot", "seal", "turn_to"):
            self.setUp()
            self.recorded("e1")
            broken = self.patch(LedgerStore, name, breaks)
            self.clock.advance(CHECK_SECONDS)
            broken.restore()
            self.crashed()
            self.another()
            self.assertEqual(self.spent(), COST)

    def test_in_a_probe(self) -> None:
        """While the disk is tried."""
        self.fill()
        self.refuse("e1")
        broken = self.patch(LedgerStore, "probe", breaks)
        self.clock.advance(PROBE_SECONDS)
        broken.restore()
        self.crashed()

    def test_in_the_warming(self) -> None:
        """While ids are read."""
        broken = self.patch(LedgerStore, "warm_up", breaks)
        self.ledger.abandon()
        self.writer = SynchronousWriter()
        self.ledger = self.opened()
        broken.restore()
        self.crashed()

    def refuse(self, name: str) -> None:
        """Send a batch that the disk refuses."""
        self.ledger.record([as_dict(name)]).addErrback(lambda _: None)

    def test_what_a_disk_says_is_no_crash(self) -> None:
        """Whatever call fails."""
        for call in ("write", "fdatasync", "open", "replace", "fsync"):
            self.failing(call, 1)
            self.refuse(call)
            self.clock.advance(CHECK_SECONDS)
            self.disk.heal()
            self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.crashes, [])


class AbandonTests(CrashCase):
    """A ledger that is let go of, at any moment."""

    def test_what_is_under_way(self) -> None:
        """No batch is answered but with a refusal, and none counts twice, written or not."""
        self.recorded("e0")
        self.writer.holding = True
        done = [self.ledger.record([as_dict(f"e{n}")]) for n in range(1, 4)]
        self.ledger.abandon()
        for batch in done:
            self.failureResultOf(batch, LedgerNotReady)
        self.failureResultOf(self.ledger.record([as_dict("e9")]), LedgerNotReady)
        self.assertFalse(self.ledger.ready)
        self.assertRaises(LedgerNotReady, self.spent)
        self.another()
        self.assertEqual(self.recorded("e0", "e1", "e2", "e3").duplicates, 1)
        self.assertEqual(self.spent(), 4 * COST)

    def test_a_write_that_comes_back_late(self) -> None:
        """Its lines stand in the file; its batch was answered that nobody knows."""
        self.writer.holding = True
        done = self.ledger.record([as_dict("e1")])
        # In hand: the job is being done while the ledger is let go.
        job = self.writer._jobs.popleft()
        written = job.call()
        self.ledger.abandon()
        self.failureResultOf(done, LedgerNotReady)
        job.done.callback(written)
        self.another()
        self.assertEqual(self.recorded("e1").duplicates, 1)
        self.assertEqual(self.spent(), COST)

    def test_in_every_step_of_a_start(self) -> None:
        """It comes to nothing, and the files are free for the next one."""
        self.recorded(*(f"e{n}" for n in range(50)))
        self.stopped()
        for steps in range(1000):
            self.writer = SynchronousWriter(holding=True)
            ledger = self.made(crashed=self.crashes.append)
            opening = ledger.open()
            self.writer.run(steps)
            if opening.called:
                break
            ledger.abandon()
            failure = self.failureResultOf(opening)
            self.assertNotIsInstance(failure.value, AssertionError)
            self.assertEqual(self.clock.getDelayedCalls(), [])
            self.assertRaises(RuntimeError, ledger.open)
        else:
            self.fail("it was never loaded")
        self.assertTrue(steps > 2)
        self.assertEqual(self.crashes, [])

    def test_in_a_close(self) -> None:
        """What was being closed is not closed any more, and writes nothing."""
        self.recorded("e1")
        self.writer.holding = True
        closing = self.ledger.close()
        before = self.disk.contents()
        self.ledger.abandon()
        self.assertEqual(self.disk.contents(), before)
        closing.addErrback(lambda _: None)
        self.another()
        self.assertEqual(self.spent(), COST)

    def test_twice_and_never_opened(self) -> None:
        """Does nothing more."""
        self.ledger.abandon()
        self.ledger.abandon()
        self.made().abandon()

    def test_canceled(self) -> None:
        """A start whose step comes back after that says that it was closed."""
        self.recorded("e1")
        self.stopped()
        self.writer = SynchronousWriter(holding=True)
        ledger = self.made()
        opening = ledger.open()
        job = self.writer._jobs.popleft()
        ledger.abandon()
        job.done.callback((None, []))
        self.failureResultOf(opening, LoadCanceledError)
