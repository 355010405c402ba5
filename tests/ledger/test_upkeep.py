"""Tests for omnigate.ledger.upkeep: sealing, snapshots and retention, each when it is due."""

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import implementer

from omnigate.ledger import store, upkeep
from omnigate.ledger.books import Books
from omnigate.ledger.service import Ledger
from omnigate.ledger.upkeep import CHECK_SECONDS
from omnigate.periods import DAY_MS
from tests.ledger.ledger_case import COST, LedgerCase, line
from tests.ledger.test_ingest import NOW_MS, as_dict

DAY_SECONDS = DAY_MS / 1000

#: From the time of these tests to the next midnight of UTC.
TO_MIDNIGHT = DAY_SECONDS - NOW_MS / 1000 % DAY_SECONDS


class SnapshotTests(LedgerCase):
    """When a snapshot is made: for each reason one, and one for all that come together."""

    def setUp(self) -> None:
        super().setUp()
        # The first start of a ledger found no snapshot, and made one.
        self.assertEqual(self.ledger.counters.snapshots, 1)

    def made_since(self) -> int:
        """How many snapshots were made since the last time."""
        count, self.ledger.counters.snapshots = self.ledger.counters.snapshots, 0
        return count

    def test_after_so_many_events(self) -> None:
        """Each time that many were recorded, however they came."""
        self.patch(upkeep, "SNAPSHOT_EVENTS", 10)
        self.ledger = self.opened()
        self.made_since()
        for number in range(35):
            self.recorded(f"e{number}")
            self.recorded(f"e{number}")
        self.assertEqual(self.made_since(), 3)
        self.recorded(*(f"f{number}" for number in range(25)))
        self.assertEqual(self.made_since(), 1)

    def test_every_five_minutes_if_anything_was_recorded(self) -> None:
        """Nothing new, no snapshot: resent events are nothing new."""
        self.made_since()
        self.recorded("e1")
        self.assertEqual(self.made_since(), 0)
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.made_since(), 1)
        self.recorded("e1")
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.made_since(), 0)

    def test_after_a_start_that_replayed(self) -> None:
        """And after no other one."""
        self.recorded("e1")
        for expected in (1, 0, 0):
            self.ledger = self.opened()
            self.assertEqual(self.made_since(), expected)
            self.assertEqual(self.spent(), COST)

    def test_after_a_start_that_found_no_usable_snapshot(self) -> None:
        """From the spare, or from the first line on."""
        self.recorded("e1")
        self.stopped()
        self.disk.put(self.family.snapshot, b"junk")
        self.ledger = self.opened()
        self.assertEqual(self.made_since(), 1)
        for path in (self.family.snapshot, self.family.spare):
            self.disk.put(path, b"junk")
        self.ledger = self.opened()
        self.assertEqual(self.made_since(), 1)
        self.ledger = self.opened()
        self.assertEqual(self.made_since(), 0)

    def test_at_a_clean_stop_if_anything_was_recorded(self) -> None:
        """So the next start replays nothing."""
        self.made_since()
        self.stopped()
        self.assertEqual(self.made_since(), 0)
        self.ledger = self.opened()
        self.recorded("e1")
        self.stopped()
        self.assertEqual(self.made_since(), 1)
        self.assertEqual(self.opened().counters.replayed, 0)

    def test_after_ids_were_forgotten(self) -> None:
        """Whether a batch or the clock brought it about, and with no other reason beside it."""
        self.ledger = self.opened(ids_days=1)
        self.recorded("e1")
        self.clock.advance(CHECK_SECONDS)
        self.made_since()
        self.clock.rightNow += 2 * DAY_SECONDS
        self.recorded("e2")
        self.assertEqual(self.made_since(), 1)
        self.clock.advance(CHECK_SECONDS)
        self.made_since()
        self.clock.rightNow += 2 * DAY_SECONDS
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.made_since(), 1)
        self.assertEqual(self.ledger.figures.ids, 0)

    def test_after_a_kill_that_came_in_between(self) -> None:
        """Ids were forgotten, and the process did not live to write a snapshot without them."""
        self.recorded("e1")
        self.clock.advance(CHECK_SECONDS)
        self.disk.unlink(self.family.ids("2026-11-29"))
        self.clock.rightNow += 9 * DAY_SECONDS
        for expected in (1, 0):
            self.ledger = self.opened()
            self.assertEqual(self.made_since(), expected)

    def test_after_sealing(self) -> None:
        """A segment of its full length is sealed at once, with one snapshot for that."""
        self.patch(store, "SEAL_BYTES", 3 * len(line("e1")))
        self.made_since()
        self.recorded("e1", "e2")
        self.assertEqual(self.made_since(), 0)
        self.recorded("e3", "e4")
        self.assertEqual(self.made_since(), 1)
        self.assertEqual(self.content(), b"")
        self.assertEqual(self.content(self.family.sealed(1)).count(b"\n"), 4)
        self.recorded("e5")
        self.ledger = self.opened()
        self.assertEqual(self.ledger.counters.replayed, 1)
        self.assertEqual(self.spent(), 5 * COST)
        self.assertEqual(self.ledger.figures.segments, 2)

    def test_all_reasons_at_once_make_one(self) -> None:
        """Events, sealing, the check, ids forgotten."""
        self.patch(upkeep, "SNAPSHOT_EVENTS", 2)
        self.patch(store, "SEAL_BYTES", len(line("e1")))
        self.ledger = self.opened(ids_days=1)
        self.recorded("e1")
        self.made_since()
        self.clock.rightNow += 2 * DAY_SECONDS
        self.recorded("e2", "e3")
        self.assertEqual(self.made_since(), 1)

    def test_what_comes_due_during_one_has_the_next(self) -> None:
        """And what only repeats the reason has none."""
        self.patch(upkeep, "SNAPSHOT_EVENTS", 2)
        self.ledger = self.opened()
        self.made_since()
        self.writer.holding = True
        for number in range(5):
            self.ledger.record([as_dict(f"e{number}")])
        while self.writer.run(1):
            pass
        self.assertGreaterEqual(self.made_since(), 1)
        self.stopped_held()
        self.writer.holding = False
        self.ledger = self.opened()
        self.assertEqual((self.spent(), self.ledger.counters.replayed), (5 * COST, 0))

    def stopped_held(self) -> None:
        """Stop the ledger with a writer that has to be told."""
        closed = self.ledger.close()
        while self.writer.run(1):
            pass
        self.successResultOf(closed)


class SlicesTests(LedgerCase):
    """The rows of a snapshot are made in slices, and belong to one moment."""

    def test_batches_wait_while_rows_are_made(self) -> None:
        """They are written behind the snapshot, whose position and sums are those of before."""
        pauses: list[Deferred[None]] = []

        async def pause() -> None:
            pauses.append(Deferred())
            await pauses[-1]

        rows = Books.rows

        def slow_rows(books: Books) -> Iterator[bytes]:
            for chunk in rows(books):
                self.clock.rightNow += 0.006
                yield chunk

        self.patch(Books, "rows", slow_rows)
        self.ledger = self.opened(pause=pause)
        self.recorded("e1", "e2")
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(len(pauses), 1)
        late = self.ledger.record([as_dict("late")])
        self.assertNoResult(late)
        self.assertEqual(self.spent(), 2 * COST)
        while pauses:
            self.assertNoResult(late)
            pauses.pop().callback(None)
        self.assertEqual(self.successResultOf(late).recorded, 1)
        self.ledger = self.opened(pause=pause)
        self.assertEqual((self.ledger.counters.replayed, self.spent()), (1, 3 * COST))
        while pauses:
            pauses.pop().callback(None)

    def test_batches_that_wait_do_not_wait_for_the_disk(self) -> None:
        """The next group is handed to the writer behind the snapshot, not after it."""
        self.recorded("e1")
        self.writer.holding = True
        self.clock.advance(CHECK_SECONDS)
        while self.ledger.counters.snapshots < 2 and self.writer.pending:
            self.ledger.record([as_dict(f"e{self.writer.pending}")])
            self.writer.run(1)
        self.assertEqual(self.ledger.counters.snapshots, 2)


class FailingSnapshotTests(LedgerCase):
    """A disk that takes no snapshot."""

    def setUp(self) -> None:
        super().setUp()
        self.logged: list[LogEvent] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            if "no snapshot" in str(event.get("what")):
                self.logged.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def test_recording_goes_on_and_it_is_tried_again(self) -> None:
        """It is counted each time and logged once a minute; the old snapshot is there as before."""
        self.patch(upkeep, "SNAPSHOT_EVENTS", 1)
        self.ledger = self.opened()
        before = self.content(self.family.snapshot)
        counters = self.ledger.counters
        for number in range(5):
            self.failing("replace")
            self.assertEqual(self.recorded(f"e{number}").recorded, 1)
        self.assertEqual((counters.failed_snapshots, len(self.logged)), (5, 1))
        self.assertEqual(self.content(self.family.snapshot), before)
        self.assertIsNone(self.ledger.trouble)
        self.assertNotIn("ledger.snapshot.tmp", self.names())
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(counters.failed_snapshots, 5)
        self.assertNotEqual(self.content(self.family.snapshot), before)
        self.assertEqual(self.opened().counters.replayed, 0)

    def test_one_that_was_owed_comes_with_the_next_check(self) -> None:
        """Though nothing was recorded since."""
        self.recorded("e1")
        self.patch(store, "SEAL_BYTES", 1)
        self.failing("fsync", 100)
        self.recorded("e2")
        self.disk.heal()
        counters = self.ledger.counters
        made = counters.snapshots
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(counters.snapshots, made + 1)
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(counters.snapshots, made + 1)

    def test_a_stop_goes_on(self) -> None:
        """It is logged, and the next start replays."""
        self.recorded("e1")
        self.failing("replace", 10)
        self.stopped()
        self.disk.heal()
        self.ledger = self.opened()
        self.assertEqual((self.ledger.counters.replayed, self.spent()), (1, COST))

    def test_every_call_may_fail(self) -> None:
        """Whatever the disk refuses on the way, no start is misled, and the next one is whole."""
        for call in ("open", "write", "fsync", "fdatasync", "replace", "fchmod", "unlink"):
            for skipped in range(4):
                name = f"{call}.{skipped}"
                self.recorded(name)
                with self.failing_after(call, skipped):
                    self.clock.advance(CHECK_SECONDS)
                self.disk.heal()
                spent = self.spent()
                self.ledger = self.opened()
                self.assertEqual(self.spent(), spent, name)

    @contextmanager
    def failing_after(self, call: str, skipped: int) -> Iterator[None]:
        """Let the call fail once, after so many that do not."""
        real = getattr(self.disk, call)
        left = [skipped]

        def once(*args: object, **named: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                self.disk.fail(call)
            return real(*args, **named)

        patched = self.patch(self.disk, call, once)
        yield
        patched.restore()


class SealingTests(LedgerCase):
    """When the active segment is sealed."""

    def test_at_the_first_check_after_its_day(self) -> None:
        """Not before, and an empty one never."""
        self.recorded("e1")
        self.clock.advance(CHECK_SECONDS)
        self.assertNotIn("ledger.000001.jsonl", self.names())
        self.clock.rightNow += TO_MIDNIGHT
        self.clock.advance(CHECK_SECONDS)
        self.assertIn("ledger.000001.jsonl", self.names())
        self.clock.rightNow += DAY_SECONDS
        self.clock.advance(CHECK_SECONDS)
        self.assertNotIn("ledger.000002.jsonl", self.names())
        self.recorded("e2")
        self.assertEqual(self.spent(self.opened()), 2 * COST)

    def test_one_that_was_begun_before_a_restart(self) -> None:
        """Its first line tells its day."""
        self.recorded("e1")
        self.disk.kill()
        self.clock.rightNow += TO_MIDNIGHT
        self.ledger = self.opened()
        self.clock.advance(CHECK_SECONDS)
        self.assertIn("ledger.000001.jsonl", self.names())

    def test_a_disk_that_refuses_is_tried_again(self) -> None:
        """Recording goes on in the segment, and the next check seals it."""
        self.recorded("e1")
        self.clock.rightNow += TO_MIDNIGHT
        self.failing("replace", 10)
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.recorded("e2").recorded, 1)
        self.disk.heal()
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.content(self.family.sealed(1)).count(b"\n"), 2)
        self.assertEqual(self.spent(self.opened()), 2 * COST)


class RetentionTests(LedgerCase):
    """``retention.ledger_days``."""

    def setUp(self) -> None:
        super().setUp()
        self.ledger = self.opened(ledger_days=2)

    def a_day(self, name: str, ledger: Ledger | None = None) -> None:
        """Record something, and go on to the same time of the next day, and the check then."""
        self.recorded(name)
        self.clock.rightNow += DAY_SECONDS - CHECK_SECONDS
        self.clock.advance(CHECK_SECONDS)

    def sealed(self) -> list[str]:
        return [name for name in self.names() if name.startswith("ledger.0")]

    def test_old_segments_go_and_sums_stay(self) -> None:
        """Those whose last line is older than that; the totals are what they were."""
        for number in range(6):
            self.a_day(f"e{number}")
        self.assertEqual(self.sealed(), ["ledger.000005.jsonl", "ledger.000006.jsonl"])
        self.assertEqual(self.ledger.figures.segments, 3)
        self.assertEqual(self.spent(), 6 * COST)
        self.assertEqual(self.spent(self.opened()), 6 * COST)

    def test_the_newest_stays_however_old(self) -> None:
        """The numbering goes on from it."""
        for number in range(3):
            self.a_day(f"e{number}")
        for _ in range(3):
            self.clock.rightNow += 10 * DAY_SECONDS
            self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.sealed(), ["ledger.000003.jsonl"])
        self.a_day("e4")
        self.assertIn("ledger.000004.jsonl", self.sealed())
        self.assertEqual(self.spent(self.opened()), 4 * COST)

    def test_a_start_writes_a_snapshot_before_it_deletes(self) -> None:
        """Only the one it began with is known to be good; then two are."""
        self.ledger = self.opened()
        for number in range(4):
            self.a_day(f"e{number}")
        self.stopped()
        self.ledger = self.opened(ledger_days=1)
        made = self.ledger.counters.snapshots
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.ledger.counters.snapshots, made + 1)
        self.assertEqual(self.sealed(), ["ledger.000004.jsonl"])
        self.disk.put(self.family.snapshot, b"junk")
        self.assertEqual(self.spent(self.opened()), 4 * COST)

    def test_without_two_snapshots_nothing_goes(self) -> None:
        """While none can be written, the segments stay."""
        self.ledger = self.opened()
        for number in range(4):
            self.a_day(f"e{number}")
        self.stopped()
        self.ledger = self.opened(ledger_days=1)
        self.failing("replace", 100)
        for _ in range(3):
            self.clock.advance(CHECK_SECONDS)
        self.assertEqual(len(self.sealed()), 4)
        self.disk.heal()
        for _ in range(2):
            self.clock.advance(CHECK_SECONDS)
        self.assertEqual(len(self.sealed()), 1)

    def test_it_may_change_while_running(self) -> None:
        """As a config that is read again asks for; 0 keeps all."""
        self.ledger.keep(ids_days=3, ledger_days=0)
        for number in range(5):
            self.a_day(f"e{number}")
        self.assertEqual(len(self.sealed()), 5)
        self.ledger.keep(ids_days=3, ledger_days=1)
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(len(self.sealed()), 1)

    def test_ids_days_may_change_while_running(self) -> None:
        """More or fewer days of ids are kept from the next look on."""
        self.recorded("e1")
        self.clock.rightNow += 2 * DAY_SECONDS
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.recorded("e1").duplicates, 1)
        self.ledger.keep(ids_days=1, ledger_days=0)
        self.clock.advance(CHECK_SECONDS)
        self.assertEqual(self.recorded("e1").recorded, 1)
