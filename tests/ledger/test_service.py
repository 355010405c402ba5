"""Tests for omnigate.ledger.service."""

import os
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.errors import GatewayError
from omnigate.events import UsageEvent
from omnigate.ledger import segments, service
from omnigate.ledger.lines import encode_line
from omnigate.ledger.replay import LedgerUnreadableError, LoadCanceledError
from omnigate.ledger.service import IngestResult, Ledger, LedgerNotReady, StorageUnavailable
from omnigate.money import Price
from omnigate.periods import DAY_MS
from omnigate.testing.disk import FaultyDisk
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_ingest import MINI, NOW_MS, as_dict
from tests.ledger.test_lines import RECEIVED
from tests.usage import usage_event

#: What one event of these tests costs.
COST = 900 * 150 + 100 * 75 + 250 * 600

KEY = "ab" * 32


def price(event: UsageEvent) -> Price | None:
    return MINI if event.target_model == "gpt-4o-mini" else None


class LedgerTestCase(SynchronousTestCase):
    """A ledger on a faulty disk, with a writer that works on the spot or when told to."""

    def setUp(self) -> None:
        self.disk = FaultyDisk(self.mktemp())
        self.patch(files, "os", self.disk)
        self.patch(segments, "os", self.disk)
        self.path = os.path.join(self.disk.folder, "ledger.jsonl")
        self.clock = Clock()
        self.clock.advance(NOW_MS / 1000)
        self.writer = SynchronousWriter()
        self.ledger = self.opened()

    def made(self, **options: Any) -> Ledger:
        """The ledger of a new process; the one before was killed."""
        self.disk.kill()
        return Ledger(self.path, self.clock, self.writer, price, **options)

    def opened(self, **options: Any) -> Ledger:
        ledger = self.made(**options)
        self.successResultOf(ledger.open())
        return ledger

    def content(self) -> bytes:
        with open(self.path, "rb") as file:
            return file.read()

    def write(self, content: bytes) -> None:
        with open(self.path, "wb") as file:
            file.write(content)

    def recorded(self, *ids: str) -> IngestResult:
        return self.successResultOf(self.ledger.record([as_dict(name) for name in ids]))

    def spent(self, ledger: Ledger | None = None) -> int:
        return (ledger or self.ledger).spend_nano([KEY], "total", NOW_MS)


class RecordTests(LedgerTestCase):
    """What a batch does on a disk that is well."""

    def test_a_batch_is_written_synced_and_counted(self) -> None:
        """Its lines are in the file and synced before it is acknowledged."""
        result = self.recorded("e1", "e2")
        self.assertEqual(result, IngestResult(2, 0, 0, 0))
        self.assertEqual(self.content().count(b"\n"), 2)
        self.assertEqual(self.disk.unsynced(self.path), 0)
        self.assertEqual(self.disk.calls[-2:], ["write", "fdatasync"])
        self.assertEqual(self.spent(), 2 * COST)
        self.assertEqual(self.ledger.counters.recorded, 2)

    def test_nothing_is_known_of_a_batch_before_its_sync(self) -> None:
        """While the writer works, no sum and no list tells of it, and nobody is acknowledged."""
        self.writer.holding = True
        done = self.ledger.record([as_dict()])
        self.assertNoResult(done)
        self.assertEqual((self.spent(), self.ledger.recent(), self.content()), (0, [], b""))
        self.writer.run()
        self.assertEqual(self.successResultOf(done).recorded, 1)
        self.assertEqual(self.spent(), COST)

    def test_what_waits_together_is_synced_together(self) -> None:
        """While one group is being written, all that comes is the next one: one write, one sync."""
        self.writer.holding = True
        done = [self.ledger.record([as_dict(f"e{n}")]) for n in range(5)]
        self.disk.calls.clear()
        self.writer.run()
        self.assertEqual(self.disk.calls, ["write", "fdatasync"] * 2)
        self.assertEqual([self.successResultOf(d).recorded for d in done], [1] * 5)
        self.assertEqual(self.content().count(b"\n"), 5)

    def test_a_group_is_bounded(self) -> None:
        """A group ends where the next batch would make it too large, and each batch is whole."""
        self.patch(service, "MAX_GROUP_EVENTS", 3)
        self.writer.holding = True
        sizes = (1, 2, 2, 5, 1)
        batches = [[as_dict(f"{i}.{n}") for n in range(size)] for i, size in enumerate(sizes)]
        done = [self.ledger.record(batch) for batch in batches]
        self.disk.calls.clear()
        self.writer.run()
        self.assertEqual(self.disk.calls.count("write"), 5)
        self.assertEqual([self.successResultOf(d).recorded for d in done], list(sizes))
        self.assertEqual(self.spent(), 11 * COST)

    def test_a_resent_batch_changes_nothing(self) -> None:
        """It is acknowledged without a write, five times over."""
        self.recorded("e1", "e2")
        before = self.content()
        for _ in range(5):
            self.assertEqual(self.recorded("e1", "e2"), IngestResult(0, 2, 0, 0))
        self.assertEqual((self.content(), self.spent()), (before, 2 * COST))
        self.assertEqual(self.ledger.counters.duplicates, 10)

    def test_a_batch_resent_too_early_waits_for_the_first(self) -> None:
        """It is acknowledged only once the events are on the disk, and they are there once."""
        self.writer.holding = True
        first, second = self.ledger.record([as_dict()]), self.ledger.record([as_dict()])
        self.assertNoResult(second)
        self.writer.run()
        self.assertEqual(self.successResultOf(first), IngestResult(1, 0, 0, 0))
        self.assertEqual(self.successResultOf(second), IngestResult(0, 1, 0, 0))
        self.assertEqual(self.content().count(b"\n"), 1)

    def test_a_caller_that_gives_up_does_not_stop_the_recording(self) -> None:
        """The events are recorded all the same."""
        self.writer.holding = True
        done = self.ledger.record([as_dict()])
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.writer.run()
        self.assertEqual(self.spent(), COST)

    def test_bad_and_unpriced_events_are_counted_and_logged(self) -> None:
        """A batch's good events are kept; a target without a price is logged once."""
        bad = as_dict("bad", output_tokens=-1)
        for n in range(3):
            unpriced = as_dict(f"u{n}", target_model="other\nline")
            result = self.successResultOf(
                self.ledger.record([bad, as_dict(f"e{n}"), unpriced, unpriced])
            )
            self.assertEqual(result, IngestResult(2, 1, 1, 1))
        counters = self.ledger.counters
        self.assertEqual((counters.invalid, counters.unpriced, counters.duplicates), (3, 3, 3))
        self.assertEqual(self.spent(), 3 * COST)

    def test_observers_are_told_of_what_is_recorded(self) -> None:
        """Each recorded event once, with its cost, and never one that was there before."""
        seen: list[tuple[str, int]] = []
        self.recorded("old")
        self.ledger = self.opened(observe=lambda event, cost: seen.append((event.id, cost)))
        self.recorded("old", "new")
        self.assertEqual(seen, [("new", COST)])

    def test_a_failing_observer_spoils_nothing(self) -> None:
        """The events are recorded and acknowledged; the fault is logged."""

        def observe(event: UsageEvent, cost_nano: int) -> None:
            raise KeyError("no such label")

        self.ledger = self.opened(observe=observe)
        self.assertEqual(self.recorded("e1").recorded, 1)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_an_empty_batch_is_acknowledged(self) -> None:
        """It writes nothing."""
        self.assertEqual(self.recorded(), IngestResult(0, 0, 0, 0))
        self.assertEqual(self.content(), b"")

    def test_batches_are_bounded(self) -> None:
        """One that is too large is refused whole, before anything is done with it."""
        many = [as_dict(str(n)) for n in range(service.MAX_BATCH_EVENTS + 1)]
        error = self.failureResultOf(self.ledger.record(many), GatewayError).value
        self.assertEqual(error.kind.code, "invalid_request")
        self.assertEqual(self.content(), b"")

    def test_what_may_wait_is_bounded(self) -> None:
        """When the disk stands still, batches are refused rather than piled up."""
        self.patch(service, "MAX_WAITING_EVENTS", 3)
        self.writer.holding = True
        done = [self.ledger.record([as_dict(str(n))]) for n in range(4)]
        refused = self.ledger.record([as_dict("late")])
        self.assertIn("keep up", str(self.failureResultOf(refused, StorageUnavailable).value))
        self.writer.run()
        self.assertEqual(sum(self.successResultOf(d).recorded for d in done), 4)
        self.writer.holding = False
        self.assertEqual(self.recorded("late").recorded, 1)

    def test_ids_are_forgotten_after_their_days(self) -> None:
        """Within the days kept a resend counts once; after them it is a new event."""
        self.ledger = self.opened(ids_days=1)
        self.recorded("e1")
        self.clock.advance(DAY_MS / 1000)
        self.assertEqual(self.recorded("e1").duplicates, 1)
        self.clock.advance(DAY_MS / 1000)
        self.assertEqual(self.recorded("e1").recorded, 1)
        restarted = self.opened(ids_days=1)
        self.assertEqual(self.spent(restarted), 2 * COST)


class StartTests(LedgerTestCase):
    """What a start finds, and makes of it."""

    def line(self, name: str) -> bytes:
        return encode_line(usage_event(name), COST, RECEIVED)

    def test_everything_is_back_after_a_restart(self) -> None:
        """Totals, ids and the newest events are what they were, and nothing is priced again."""
        self.recorded("e1", "e2")
        self.recorded("e3")
        before = self.ledger.totals("model"), self.ledger.recent(2)
        self.successResultOf(self.ledger.close())
        self.patch(self, "ledger", Ledger(self.path, self.clock, self.writer, lambda event: None))
        self.successResultOf(self.ledger.open())
        self.assertEqual((self.ledger.totals("model"), self.ledger.recent(2)), before)
        self.assertEqual(self.ledger.counters.replayed, 3)
        self.assertEqual(self.recorded("e1", "e2", "e3").duplicates, 3)
        self.assertEqual(self.spent(), 3 * COST)

    def test_recent_events_are_newest_first(self) -> None:
        """As objects, with the exact cost as text."""
        self.recorded("e1", "e2")
        newest, older = self.ledger.recent()
        self.assertEqual((newest["id"], older["id"]), ("e2", "e1"))
        self.assertEqual(newest["cost_usd"], "0.0002925")
        self.assertEqual(len(self.ledger.recent(1)), 1)

    def test_a_torn_last_line_is_cut_at_every_byte(self) -> None:
        """However much of the last line a crash left, the others are counted and it is gone."""
        whole, torn = self.line("e1") + self.line("e2"), self.line("e3")
        for length in range(len(torn)):
            self.write(whole + torn[:length])
            ledger = self.opened()
            self.assertEqual(ledger.counters.torn_bytes, length)
            self.assertEqual((self.spent(ledger), self.content()), (2 * COST, whole))
            self.successResultOf(ledger.close())
        ledger = self.opened()
        self.successResultOf(ledger.record([as_dict("e3")]))
        self.assertEqual(self.spent(self.opened()), 3 * COST)

    def test_a_torn_line_may_be_longer_than_any_line(self) -> None:
        """A tail of zero bytes, which some file systems leave, is cut off too."""
        self.write(self.line("e1") + bytes(300_000))
        ledger = self.opened()
        self.assertEqual(ledger.counters.torn_bytes, 300_000)
        self.assertEqual(self.content(), self.line("e1"))

    def test_a_damaged_line_in_the_middle_is_left_and_counted(self) -> None:
        """The start goes on, the other lines count, and the file is not changed."""
        junk = bytes(50) + b"\n" + self.line("e2")[20:] + b"\n" + b"x" * 100_000 + b"\n"
        content = self.line("e1") + junk + self.line("e3")
        self.write(content)
        ledger = self.opened()
        self.assertEqual(ledger.counters.damaged_lines, 4)
        self.assertEqual(self.spent(ledger), 2 * COST)
        self.assertEqual(self.content(), content)

    def test_a_line_twice_counts_once(self) -> None:
        """It is skipped and counted as such."""
        self.write(self.line("e1") * 3)
        ledger = self.opened()
        self.assertEqual((ledger.counters.replayed, ledger.counters.replay_duplicates), (1, 2))
        self.assertEqual(self.spent(ledger), COST)

    def test_a_file_of_a_later_version_is_refused_and_left_alone(self) -> None:
        """The start fails with the file, the place and the remedy."""
        content = self.line("e1") + b'{"v":3,"what":"ever"}\n' + b"torn"
        self.write(content)
        ledger = self.made()
        error = self.failureResultOf(ledger.open(), LedgerUnreadableError).value
        self.assertIn(f"{self.path} at offset {len(self.line('e1'))}", str(error))
        self.assertIn("version 3", str(error))
        self.assertFalse(ledger.ready)
        self.assertEqual(self.content(), content)

    def test_a_start_that_failed_can_be_tried_again(self) -> None:
        """A file that cannot be opened is named, with the cause; later it opens."""
        self.recorded("e1")
        ledger = self.made()
        self.disk.fail("fdatasync")
        error = self.failureResultOf(ledger.open(), LedgerUnreadableError).value
        self.assertIn(self.path, str(error))
        self.assertIn("Input/output error", str(error))
        self.assertRaises(LedgerNotReady, ledger.totals, "key")
        self.successResultOf(ledger.open())
        self.assertEqual(self.spent(ledger), COST)
        self.assertEqual(ledger.counters.replayed, 1)

    def test_a_second_process_is_refused(self) -> None:
        """Two control planes would cut off what the other writes."""
        second = Ledger(self.path, self.clock, self.writer, price)
        error = self.failureResultOf(second.open(), LedgerUnreadableError).value
        self.assertIn("a second control plane", str(error))
        self.assertEqual(self.recorded("e1").recorded, 1)

    def test_a_missing_folder_is_named(self) -> None:
        """The error says which file, and which variable names it."""
        ledger = Ledger(self.path + ".d/ledger.jsonl", self.clock, self.writer, price)
        error = self.failureResultOf(ledger.open(), LedgerUnreadableError).value
        self.assertIn("No such file or directory", str(error))
        self.assertIn("OMNIGATE_LEDGER", str(error))

    def test_nothing_is_told_or_taken_before_it_is_loaded(self) -> None:
        """Sums are refused rather than answered from half-filled books."""
        self.recorded("e1")
        self.writer.holding = True
        ledger = self.made()
        opening = ledger.open()
        while self.writer.pending:
            self.assertFalse(ledger.ready)
            for ask in (
                lambda: ledger.spend_nano([KEY], "total", NOW_MS),
                lambda: ledger.totals("key"),
                lambda: ledger.lifetime([KEY]),
                ledger.recent,
            ):
                self.assertRaises(LedgerNotReady, ask)
            self.failureResultOf(ledger.record([as_dict("e2")]), LedgerNotReady)
            self.assertRaises(RuntimeError, ledger.open)
            self.writer.run(1)
        self.successResultOf(opening)
        self.assertEqual(self.spent(ledger), COST)

    def test_what_a_killed_process_left_is_synced_before_it_counts(self) -> None:
        """Lines that were written and never synced cannot vanish after a start has counted them."""
        self.disk.calls_left = 1
        self.failureResultOf(self.ledger.record([as_dict("e1")]), StorageUnavailable)
        self.assertGreater(self.disk.unsynced(self.path), 0)
        self.assertEqual(self.spent(self.opened()), COST)
        self.disk.crash()
        self.assertEqual(self.spent(self.opened()), COST)


class CloseTests(LedgerTestCase):
    """Stopping."""

    def test_a_close_finishes_what_waits(self) -> None:
        """Batches that were taken are acknowledged, later ones refused, then the file is closed."""
        self.writer.holding = True
        done = [self.ledger.record([as_dict(f"e{n}")]) for n in range(3)]
        closed = self.ledger.close()
        self.failureResultOf(self.ledger.record([as_dict("late")]), LedgerNotReady)
        self.writer.run()
        self.assertEqual([self.successResultOf(d).recorded for d in done], [1, 1, 1])
        self.successResultOf(closed)
        self.assertFalse(self.ledger.ready)
        self.writer.holding = False
        self.assertEqual(self.spent(self.opened()), 3 * COST)

    def test_a_close_breaks_a_start_off(self) -> None:
        """The start fails, the close fires after it, and it can be opened again."""
        self.recorded("e1")
        for steps in range(1, 5):
            self.writer.holding = True
            ledger = self.made()
            opening = ledger.open()
            self.writer.run(steps - 1)
            closed = ledger.close()
            self.writer.run()
            self.failureResultOf(opening, LoadCanceledError)
            self.successResultOf(closed)
            self.writer.holding = False
            self.successResultOf(ledger.open())
            self.assertEqual(self.spent(ledger), COST)

    def test_closing_twice_is_no_error(self) -> None:
        """Nor is closing what never was open."""
        for ledger in (self.ledger, self.ledger, self.made()):
            self.successResultOf(ledger.close())


class FailingDiskTests(LedgerTestCase):
    """A disk that refuses."""

    def refused(self, done: Deferred[IngestResult]) -> StorageUnavailable:
        error = self.failureResultOf(done, StorageUnavailable).value
        assert isinstance(error, StorageUnavailable)
        return error

    def test_a_full_disk_acknowledges_nothing(self) -> None:
        """The batch fails with the cause and the remedy and leaves no trace, in memory or file."""
        self.recorded("e1")
        before = self.content()
        self.disk.free_bytes = 100
        error = self.refused(self.ledger.record([as_dict("e2"), as_dict("e3")]))
        self.assertIn("No space left on device", error.message)
        self.assertNotIn(self.path, error.message)
        self.assertIn(self.path, error.detail)
        self.assertEqual((error.kind.status, error.retry_after), (503, 1))
        self.assertEqual((self.spent(), len(self.ledger.recent())), (COST, 1))
        self.assertEqual(self.content(), before)
        self.assertEqual(self.ledger.counters.failed_writes, 1)
        self.assertEqual(self.ledger.counters.recorded, 1)

    def test_it_heals_by_itself(self) -> None:
        """Once there is room again, the resent batch is recorded, as often as it failed."""
        for call in ("write", "fdatasync"):
            for with_cut in (False, True):
                name = f"{call}.{with_cut}"
                spent = self.spent()
                for _ in range(3):
                    self.disk.fail(call)
                    if with_cut:
                        self.disk.fail("ftruncate")
                    self.refused(self.ledger.record([as_dict(name)]))
                self.disk.heal()
                self.assertEqual(self.recorded(name).recorded, 1)
                self.assertEqual(self.spent(), spent + COST)
        self.disk.crash()
        self.assertEqual(self.spent(self.opened()), self.spent())

    def test_a_file_that_was_moved_takes_no_batch(self) -> None:
        """Events in a file that a restart does not find are not acknowledged."""
        os.rename(self.path, self.path + ".1")
        error = self.refused(self.ledger.record([as_dict("e1")]))
        self.assertIn("No such file", error.message)
        os.rename(self.path + ".1", self.path)
        self.assertEqual(self.recorded("e1").recorded, 1)

    def test_what_waits_behind_a_failure_fails_too(self) -> None:
        """A batch whose events hang on the failed one's is not acknowledged for them."""
        self.writer.holding = True
        self.disk.fail("fdatasync")
        done = [self.ledger.record([as_dict("e1")]) for _ in range(3)]
        self.writer.run()
        for each in done:
            self.refused(each)
        self.writer.holding = False
        self.assertEqual(self.recorded("e1"), IngestResult(1, 0, 0, 0))

    def test_a_sync_that_fails_is_not_trusted_afterwards(self) -> None:
        """The lines it was for are written anew: they would be missing after a power loss."""
        self.disk.fail("fdatasync")
        self.refused(self.ledger.record([as_dict("e1")]))
        self.recorded("e1", "e2")
        self.disk.crash()
        ledger = self.opened()
        self.assertEqual(ledger.counters.damaged_lines, 0)
        self.assertEqual(self.spent(ledger), 2 * COST)

    def test_a_writer_that_takes_no_more_refuses_batches(self) -> None:
        """A stopped writer is told as storage that is unavailable."""
        self.successResultOf(self.writer.stop())
        error = self.refused(self.ledger.record([as_dict()]))
        self.assertIn("WriterStoppedError", error.message)
        self.assertEqual(len(self.flushLoggedErrors(files.WriterStoppedError)), 1)
