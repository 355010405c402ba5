"""Tests for omnigate.ledger.service and omnigate.ledger.recording."""

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from omnigate.errors import GatewayError
from omnigate.events import UsageEvent
from omnigate.ledger import recording, service
from omnigate.ledger.books import Books
from omnigate.ledger.ingest import Entry
from omnigate.ledger.recorded_ids import id_digest
from omnigate.ledger.recording import LedgerBroken
from omnigate.ledger.replay import LedgerUnreadableError
from omnigate.ledger.service import (
    IngestResult,
    Ledger,
    LedgerNotReady,
    LoadCanceledError,
    StorageUnavailable,
)
from omnigate.ledger.trouble import FAILING, FAULTY, FULL, MOVED, SILENT
from omnigate.money import Price
from omnigate.periods import DAY_MS
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import Sync, Write
from tests.ledger.ledger_case import COST, FOLDER, KEY, LedgerCase, line, price
from tests.ledger.test_ingest import NOW_MS, as_dict


class RecordTests(LedgerCase):
    """What a batch does on a disk that is well."""

    def test_a_batch_is_written_synced_and_counted(self) -> None:
        """Its lines are in the file and synced before it is acknowledged."""
        result = self.recorded("e1", "e2")
        self.assertEqual(result, IngestResult(2, 0, 0, 0))
        self.assertEqual(self.content().count(b"\n"), 2)
        self.disk.crash()
        self.assertEqual(self.content().count(b"\n"), 2)
        self.assertEqual(self.spent(), 2 * COST)
        self.assertEqual(self.ledger.counters.recorded, 2)

    def test_the_line_is_synced_before_the_id_is_written(self) -> None:
        """So an id that is on the disk always has its line there, and a lost one comes with it."""
        self.recorded("e0")
        self.use(MemoryDisk(FOLDER, contents=self.disk.contents()))
        self.ledger = self.opened()
        self.disk.record()
        self.recorded("e1")
        kinds = [type(step) for step in self.disk.history]
        self.assertEqual(kinds, [Write, Sync, Write])
        line, sync, digest = self.disk.history
        assert isinstance(line, Write) and isinstance(sync, Sync) and isinstance(digest, Write)
        self.assertEqual(line.number, sync.number)
        self.assertEqual(digest.data, id_digest("e1"))

    def test_a_turn_is_bounded_however_many_batches_come_in_it(self) -> None:
        """What does not fit in the next group waits as it came, without a price."""
        self.patch(recording, "MAX_GROUP_EVENTS", 4)
        asked: list[str] = []

        def price_noted(event: UsageEvent) -> Price | None:
            asked.append(event.id)
            return price(event)

        self.ledger = self.opened(price=price_noted)
        self.writer.holding = True
        batches = [[as_dict(f"{i}.{n}") for n in range(2)] for i in range(6)]
        done = [self.ledger.record(batch) for batch in batches]
        self.assertEqual(len(asked), 2)
        turns = []
        while self.writer.run(1):
            turns.append(len(asked))
        self.assertEqual(turns, [6, 10, 12, 12])
        self.assertEqual([self.successResultOf(d).recorded for d in done], [2] * 6)
        self.assertEqual(asked, [f"{i}.{n}" for i in range(6) for n in range(2)])

    def test_groups_end_with_the_day(self) -> None:
        """Ids are kept under the day of recording, which is that of writing, so a group has one."""
        self.writer.holding = True
        self.ledger.record([as_dict("e1")])
        self.ledger.record([as_dict("e2")])
        self.clock.rightNow += DAY_MS / 1000
        self.ledger.record([as_dict("e3")])
        self.writer.run()
        for day, ids in (("2026-11-29", 1), ("2026-11-30", 2)):
            self.assertEqual(len(self.content(self.family.ids(day))), 16 + 16 * ids)

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
        self.assertEqual(self.disk.calls.count("fdatasync"), 2)
        self.assertEqual([self.successResultOf(d).recorded for d in done], [1] * 5)
        self.assertEqual(self.content().count(b"\n"), 5)

    def test_a_group_is_bounded(self) -> None:
        """A group ends where the next batch would make it too large, and each batch is whole."""
        self.patch(recording, "MAX_GROUP_EVENTS", 3)
        self.writer.holding = True
        sizes = (1, 2, 2, 5, 1)
        batches = [[as_dict(f"{i}.{n}") for n in range(size)] for i, size in enumerate(sizes)]
        done = [self.ledger.record(batch) for batch in batches]
        self.disk.calls.clear()
        self.writer.run()
        self.assertEqual(self.disk.calls.count("fdatasync"), 5)
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
        """All events are recorded and told of, and the fault is logged once."""
        seen: list[str] = []

        def observe(event: UsageEvent, cost_nano: int) -> None:
            seen.append(event.id)
            raise KeyError("no such label")

        self.ledger = self.opened(observe=observe)
        self.assertEqual(self.recorded("e1", "e2", "e3").recorded, 3)
        self.assertEqual(seen, ["e1", "e2", "e3"])
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_a_batch_that_cannot_be_judged_fails_alone(self) -> None:
        """A fault of the program is that batch's answer; those beside it are recorded."""

        def price_or_fault(event: UsageEvent) -> Price | None:
            if event.id == "odd":
                raise KeyError("no such table")
            return price(event)

        self.ledger = self.opened(price=price_or_fault)
        self.writer.holding = True
        done = [self.ledger.record([as_dict(name)]) for name in ("e1", "e2", "odd", "e3")]
        self.writer.run()
        self.failureResultOf(done.pop(2), KeyError)
        self.assertEqual([self.successResultOf(d).recorded for d in done], [1, 1, 1])
        self.assertEqual((self.ledger.trouble, self.spent()), (None, 3 * COST))

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
        self.patch(recording, "MAX_WAITING_EVENTS", 3)
        self.writer.holding = True
        done = [self.ledger.record([as_dict(str(n))]) for n in range(4)]
        refused = self.ledger.record([as_dict("late")])
        self.assertIn("keep up", str(self.failureResultOf(refused, StorageUnavailable).value))
        self.writer.run()
        self.assertEqual(sum(self.successResultOf(d).recorded for d in done), 4)
        self.writer.holding = False
        self.assertEqual(self.recorded("late").recorded, 1)

    def test_the_bytes_that_may_wait_are_bounded(self) -> None:
        """A few batches of long events are refused as many batches of short ones are."""
        event = msgspec.json.encode(as_dict("e")).ljust(1_000)
        self.patch(recording, "MAX_WAITING_BYTES", 3_000)
        self.writer.holding = True
        done = [self.ledger.record([event.replace(b'"e"', b'"%d"' % n)]) for n in range(4)]
        refused = self.ledger.record([event])
        self.assertIn("keep up", str(self.failureResultOf(refused, StorageUnavailable).value))
        self.writer.run()
        self.assertEqual(sum(self.successResultOf(d).recorded for d in done), 4)
        self.writer.holding = False
        self.assertEqual(self.successResultOf(self.ledger.record([event])).recorded, 1)

    def test_a_batch_without_anything_to_write_says_nothing_of_the_disk(self) -> None:
        """It is acknowledged while the disk is full, and the disk is not well for that."""
        self.recorded("e1")
        self.fill()
        refused = self.ledger.record([as_dict("e2")])
        self.failureResultOf(refused, StorageUnavailable)
        self.assertEqual(self.recorded("e1"), IngestResult(0, 1, 0, 0))
        self.assertEqual(self.successResultOf(self.ledger.record([b"{}"])).invalid, 1)
        self.assertEqual(self.ledger.trouble, FULL)

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


class StartTests(LedgerCase):
    """What a start finds, and makes of it."""

    def test_everything_is_back_after_a_restart(self) -> None:
        """Totals, ids and the newest events are what they were, and nothing is priced again."""
        self.recorded("e1", "e2")
        self.recorded("e3")
        before = self.ledger.totals("model"), self.ledger.recent(2)
        for stop in (self.stopped, self.disk.kill):
            stop()
            self.ledger = self.opened(price=lambda event: None)
            self.assertEqual((self.ledger.totals("model"), self.ledger.recent(2)), before)
            self.assertEqual(self.ledger.counters.replayed, 0)
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
        whole, torn = line("e1") + line("e2"), line("e3")
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
        self.write(line("e1") + bytes(300_000))
        ledger = self.opened()
        self.assertEqual(ledger.counters.torn_bytes, 300_000)
        self.assertEqual(self.content(), line("e1"))

    def test_a_damaged_line_in_the_middle_is_left_and_counted(self) -> None:
        """The start goes on, the other lines count, and the file is not changed."""
        junk = bytes(50) + b"\n" + line("e2")[20:] + b"\n" + b"x" * 100_000 + b"\n"
        content = line("e1") + junk + line("e3")
        self.write(content)
        ledger = self.opened()
        self.assertEqual(ledger.counters.damaged_lines, 4)
        self.assertEqual(self.spent(ledger), 2 * COST)
        self.assertEqual(self.content(), content)

    def test_a_line_twice_counts_once(self) -> None:
        """It is skipped and counted as such."""
        self.write(line("e1") * 3)
        ledger = self.opened()
        self.assertEqual((ledger.counters.replayed, ledger.counters.replay_duplicates), (1, 2))
        self.assertEqual(self.spent(ledger), COST)

    def test_a_file_of_a_later_version_is_refused_and_left_alone(self) -> None:
        """The start fails with the file, the place and the remedy."""
        content = line("e1") + b'{"v":3,"what":"ever"}\n' + b"torn"
        self.write(content)
        ledger = self.made()
        error = self.failureResultOf(ledger.open(), LedgerUnreadableError).value
        self.assertIn(f"{self.path} at offset {len(line('e1'))}", str(error))
        self.assertIn("version 3", str(error))
        self.assertFalse(ledger.ready)
        self.assertEqual(self.content(), content)

    def test_a_start_that_failed_can_be_tried_again(self) -> None:
        """A file that cannot be opened is named, with the cause; later it opens."""
        self.recorded("e1")
        ledger = self.made()
        self.failing("fdatasync")
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
        while not opening.called:
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
        self.recorded("e0")
        self.disk.calls_left[FOLDER] = 1
        self.failureResultOf(self.ledger.record([as_dict("e1")]), StorageUnavailable)
        for _ in range(2):
            self.ledger = self.opened()
            self.assertEqual(self.spent(), 2 * COST)
            self.disk.crash()

    def test_a_revision_tells_of_every_change(self) -> None:
        """It changes with a start and with what is recorded, and with nothing else."""
        seen = [self.ledger.revision]
        self.recorded("e1")
        seen.append(self.ledger.revision)
        self.recorded("e1")
        self.assertEqual(self.ledger.revision, seen[-1])
        self.stopped()
        self.successResultOf(self.ledger.open())
        seen.append(self.ledger.revision)
        self.assertEqual(len(set(seen)), 3)


class CloseTests(LedgerCase):
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
        for _ in range(2):
            self.stopped()
        self.stopped(self.made())


class FailingDiskTests(LedgerCase):
    """A disk that refuses."""

    def refused(self, done: Deferred[IngestResult]) -> StorageUnavailable:
        error = self.failureResultOf(done, StorageUnavailable).value
        assert isinstance(error, StorageUnavailable)
        return error

    def test_a_full_disk_acknowledges_nothing(self) -> None:
        """The batch fails with the cause and the remedy and leaves no trace, in memory or file."""
        self.recorded("e1")
        before = self.content()
        self.fill(100)
        error = self.refused(self.ledger.record([as_dict("e2"), as_dict("e3")]))
        self.assertIn("No space left on device", error.message)
        self.assertNotIn(self.path, error.message)
        self.assertIn(self.path, error.detail)
        self.assertEqual((error.kind.status, error.retry_after), (503, 1))
        self.assertEqual((self.spent(), len(self.ledger.recent())), (COST, 1))
        self.assertEqual(self.content(), before)
        self.assertEqual(self.ledger.counters.failed_writes, 1)
        self.assertEqual(self.ledger.counters.recorded, 1)
        self.assertEqual(self.ledger.trouble, FULL)

    def test_it_heals_by_itself(self) -> None:
        """Once there is room again, the resent batch is recorded, as often as it failed."""
        for call in ("write", "fdatasync"):
            for with_cut in (False, True):
                name = f"{call}.{with_cut}"
                spent = self.spent()
                for _ in range(3):
                    self.failing(call)
                    if with_cut:
                        self.failing("ftruncate")
                    self.refused(self.ledger.record([as_dict(name)]))
                self.disk.heal()
                self.assertEqual(self.recorded(name).recorded, 1)
                self.assertEqual(self.spent(), spent + COST)
                self.assertIsNone(self.ledger.trouble)
        self.disk.crash()
        self.assertEqual(self.spent(self.opened()), self.spent())

    def test_it_is_well_again_without_traffic(self) -> None:
        """The disk is tried every few seconds; the trouble is over when it takes a group again."""
        for cause, words in ((self.fill, FULL), (lambda: self.failing("write", 10**6), FAILING)):
            cause()
            self.refused(self.ledger.record([as_dict("e1")]))
            self.clock.pump([1.0] * 10)
            self.assertEqual(self.ledger.trouble, words)
            self.disk.heal()
            self.clock.pump([1.0] * 4)
            self.assertIsNone(self.ledger.trouble)
            self.assertNotIn("ledger.jsonl.probe", self.names())
        self.assertEqual(self.spent(), 0)

    def test_a_little_room_is_not_enough(self) -> None:
        """A disk on which a full group would not fit is still called full."""
        self.fill()
        self.refused(self.ledger.record([as_dict("e1")]))
        self.fill(100_000)
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.ledger.trouble, FULL)

    def test_a_disk_that_does_not_answer_is_told(self) -> None:
        """Though nothing has failed yet."""
        self.writer.holding = True
        done = self.ledger.record([as_dict("e1")])
        self.clock.advance(9)
        self.assertIsNone(self.ledger.trouble)
        self.clock.advance(2)
        self.assertEqual(self.ledger.trouble, SILENT)
        self.writer.run()
        self.assertEqual(self.successResultOf(done).recorded, 1)
        self.assertIsNone(self.ledger.trouble)

    def test_a_file_that_was_moved_takes_no_batch(self) -> None:
        """Events in a file that a restart does not find are not acknowledged."""
        self.disk.replace(self.path, self.path + ".1")
        logged: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            logged.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.refused(self.ledger.record([as_dict("e1")]))
        self.assertEqual(self.ledger.trouble, MOVED)
        self.assertIn("put the file back", "\n".join(logged))
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.ledger.trouble, MOVED)
        self.disk.replace(self.path + ".1", self.path)
        self.clock.pump([1.0] * 4)
        self.assertIsNone(self.ledger.trouble)
        self.assertEqual(self.recorded("e1").recorded, 1)

    def test_what_waits_behind_a_failure_is_judged_by_itself(self) -> None:
        """What hung on the failed one is not a duplicate of it: it is recorded, once."""
        self.writer.holding = True
        self.failing("fdatasync")
        done = [self.ledger.record([as_dict("e1")]) for _ in range(3)]
        self.writer.run()
        self.refused(done[0])
        self.assertEqual(self.successResultOf(done[1]), IngestResult(1, 0, 0, 0))
        self.assertEqual(self.successResultOf(done[2]), IngestResult(0, 1, 0, 0))
        self.assertEqual(self.spent(), COST)

    def test_a_sync_that_fails_is_not_trusted_afterwards(self) -> None:
        """The lines it was for are written anew: they would be missing after a power loss."""
        self.failing("fdatasync")
        self.refused(self.ledger.record([as_dict("e1")]))
        self.recorded("e1", "e2")
        self.disk.crash()
        ledger = self.opened()
        self.assertEqual(ledger.counters.damaged_lines, 0)
        self.assertEqual(self.spent(ledger), 2 * COST)

    def test_ids_that_cannot_be_kept_spoil_nothing(self) -> None:
        """They are in memory, and a start takes them from the lines."""
        self.recorded("e1")
        size = len(line("e2"))
        self.fill(size)
        self.assertEqual(self.recorded("e2").recorded, 1)
        self.assertEqual(self.recorded("e1", "e2").duplicates, 2)
        self.ledger = self.opened()
        self.assertEqual(self.recorded("e1", "e2").duplicates, 2)
        self.assertEqual(self.spent(), 2 * COST)

    def test_a_writer_that_takes_no_more_refuses_batches(self) -> None:
        """A stopped writer is told as storage that is unavailable."""
        self.successResultOf(self.writer.stop())
        error = self.refused(self.ledger.record([as_dict()]))
        self.assertIn("WriterStoppedError", error.message)

    def test_sums_in_doubt_take_no_more(self) -> None:
        """After a fault of the bookkeeping nothing is recorded or snapshotted until a new start."""
        self.recorded("e1")
        self.stopped()
        self.successResultOf(self.ledger.open())
        before = self.content(self.family.snapshot)
        self.recorded("e2")
        enter = Books.enter

        def enter_half(books: Books, entries: list[Entry]) -> None:
            enter(books, entries[:1])
            raise ZeroDivisionError

        faulty = self.patch(Books, "enter", enter_half)
        # The group is in hand when a snapshot falls due, which waits for it.
        self.writer.holding = True
        done = self.ledger.record([as_dict("e3"), as_dict("e4")])
        self.clock.advance(301)
        while self.writer.run(1):
            pass
        self.failureResultOf(done, LedgerBroken)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.ledger.trouble, FAULTY)
        self.refused(self.ledger.record([as_dict("e5")]))
        self.writer.holding = False
        self.clock.advance(301)
        self.stopped()
        self.assertEqual(self.content(self.family.snapshot), before)
        faulty.restore()
        self.ledger = self.opened()
        self.assertEqual(self.spent(), 4 * COST)
        self.assertEqual(self.recorded("e3", "e4").duplicates, 2)
