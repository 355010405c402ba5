"""Tests for omnigate.ledger.loading: where a start begins, and what it says of it."""

import errno
import os
from itertools import combinations

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from omnigate.ledger import loading, recorded_ids, store
from omnigate.ledger.id_file import HEADER
from omnigate.ledger.id_table import IdTable
from omnigate.ledger.replay import LedgerUnreadableError
from omnigate.ledger.service import LoadCanceledError
from omnigate.ledger.upkeep import CHECK_SECONDS
from omnigate.periods import DAY_MS
from tests.ledger.ledger_case import COST, LedgerCase, line
from tests.ledger.test_ingest import as_dict

DAY_SECONDS = DAY_MS / 1000


def powerset(paths: list[str]) -> list[tuple[str, ...]]:
    """All choices of some paths, from none to all."""
    sizes = range(len(paths) + 1)
    return [chosen for size in sizes for chosen in combinations(paths, size)]


class LoadingCase(LedgerCase):
    """A ledger whose log is heard."""

    def setUp(self) -> None:
        super().setUp()
        self.logged: list[LogEvent] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.logged.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def errors(self) -> list[str]:
        """What was logged as an error since the last time."""
        found = [
            formatEvent(event) for event in self.logged if event["log_level"] is LogLevel.error
        ]
        self.logged.clear()
        return found

    def restarted(self) -> int:
        """Start anew; how many events were replayed."""
        self.ledger = self.opened()
        return self.ledger.counters.replayed


class SourceTests(LoadingCase):
    """The newest valid snapshot, else the spare, else everything."""

    def setUp(self) -> None:
        super().setUp()
        # The spare covers e1, the snapshot e1 and e2; e3 stands in the segment only.
        for name in ("e1", "e2"):
            self.recorded(name)
            self.clock.advance(CHECK_SECONDS)
        self.recorded("e3")
        self.assertEqual(self.errors(), [])
        self.left = self.disk.contents()

    def again(self) -> None:
        """Put everything back as it was left."""
        self.disk.kill()
        for path in self.disk.contents():
            self.disk.unlink(path)
        for path, content in self.left.items():
            self.disk.put(path, content)

    def test_only_what_came_after_the_snapshot_is_replayed(self) -> None:
        """And ids tell what was counted before it."""
        self.assertEqual(self.restarted(), 1)
        self.assertEqual((self.spent(), self.errors()), (3 * COST, []))
        self.assertEqual(self.recorded("e1", "e2", "e3").duplicates, 3)

    def test_a_damaged_snapshot_gives_way_to_the_spare(self) -> None:
        """Whichever byte of it is damaged, and however much is missing; the log says why."""
        path = self.family.snapshot
        whole = self.left[path]
        damaged = [whole[:size] for size in range(0, len(whole), 40)]
        damaged += [
            whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
            for at in range(30, len(whole), 37)
        ]
        for content in damaged:
            self.again()
            self.disk.put(path, content)
            self.assertEqual(self.restarted(), 2)
            self.assertEqual(self.spent(), 3 * COST)
            (told,) = self.errors()
            self.assertIn(path, told)
            self.assertIn(self.family.spare, told)
            # The new snapshot took the place of the damaged one; the spare is still the good one.
            self.assertEqual(self.content(self.family.spare), self.left[self.family.spare])
            self.assertEqual(self.restarted(), 0)

    def test_without_both_everything_is_read(self) -> None:
        """The log names both and says what is wrong with each; ids are made anew."""
        for content in (b"", b"junk", None):
            self.again()
            for path in (self.family.snapshot, self.family.spare):
                if content is None:
                    self.disk.unlink(path)
                else:
                    self.disk.put(path, content)
            self.disk.put(self.family.ids("2026-11-29"), b"junk")
            self.assertEqual(self.restarted(), 3)
            self.assertEqual(self.spent(), 3 * COST)
            told = self.errors()
            self.assertEqual(len(told), 0 if content is None else 1)
            for text in told:
                self.assertIn(self.family.snapshot, text)
                self.assertIn(self.family.spare, text)
            self.assertEqual(self.recorded("e1", "e2", "e3").duplicates, 3)

    def test_all_three_ways_come_to_the_same(self) -> None:
        """Every sum and the newest events, whatever the start began with."""
        answers = []
        for lost in ((), (self.family.snapshot,), (self.family.snapshot, self.family.spare)):
            self.again()
            for path in lost:
                self.disk.unlink(path)
            self.restarted()
            ledger = self.ledger
            answers.append(
                ([ledger.totals(by) for by in ("key", "model", "upstream", "day")], ledger.recent())
            )
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])

    def test_a_snapshot_that_does_not_fit_the_segment_is_not_used(self) -> None:
        """Its bytes are not those that were counted: fewer of them, or others."""
        lines = self.left[self.path]
        others = line("x1") + line("x2") + line("x3")
        for content, spent in ((lines[: len(lines) // 2], 1), (b"", 0), (others, 3)):
            self.again()
            self.disk.put(self.path, content)
            self.restarted()
            self.assertEqual(self.spent(), spent * COST)
            self.assertIn(self.path, "".join(self.errors()))

    def test_a_snapshot_of_a_later_version_stops_the_start(self) -> None:
        """It is named and left alone, and so is a spare that would be needed."""
        newer = b"omnigate-ledger-snapshot 99\nwhat ever\n"
        for paths in ((self.family.snapshot,), (self.family.snapshot, self.family.spare)):
            self.again()
            for path in paths[:-1]:
                self.disk.put(path, b"junk")
            self.disk.put(paths[-1], newer)
            ledger = self.made()
            error = self.failureResultOf(ledger.open(), LedgerUnreadableError).value
            self.assertIn(paths[-1], str(error))
            self.assertIn("start the version of omnigate that wrote it", str(error))
            self.assertEqual(self.content(paths[-1]), newer)

    def test_leftovers_are_removed(self) -> None:
        """What was being written when the process was killed is never read."""
        left = [self.family.snapshot_tmp, self.family.probe, self.family.probe_tmp]
        for path in left:
            self.disk.put(path, self.left[self.family.spare])
        self.restarted()
        self.assertFalse(self.disk.contents().keys() & set(left))


class TakeOverTests(LoadingCase):
    """A ledger of a version that knew one file only."""

    def test_its_lines_are_replayed_once(self) -> None:
        """The first start counts them and writes a snapshot; the file stays as it is."""
        with open(os.path.join(os.path.dirname(__file__), "version1.jsonl"), "rb") as file:
            content = file.read()
        self.write(content)
        events = content.count(b"\n")
        self.assertEqual(self.restarted(), events)
        self.assertEqual(self.errors(), [])
        self.assertEqual(self.content(), content)
        before = self.spent()
        self.recorded("new")
        self.stopped()
        self.assertEqual(self.restarted(), 0)
        self.assertEqual(self.spent(), before + COST)
        self.assertEqual(self.ledger.events, events + 1)
        self.assertTrue(self.content().startswith(content))


class StepTests(LoadingCase):
    """The start goes step by step."""

    def test_it_can_be_broken_off_after_each_step(self) -> None:
        """The files are closed then, and the next start is whole."""
        self.patch(loading, "STEP_LINES", 2)
        self.write(b"".join(line(f"e{n}") for n in range(7)))
        steps = 0
        while True:
            self.writer.holding = True
            ledger = self.made()
            opening = ledger.open()
            self.writer.run(steps)
            if opening.called:
                break
            closed = ledger.close()
            while self.writer.run(1):
                pass
            self.failureResultOf(opening, LoadCanceledError)
            self.successResultOf(closed)
            steps += 1
        self.successResultOf(opening)
        self.assertGreater(steps, 7)
        while self.writer.run(1):
            pass
        self.assertEqual(self.spent(ledger), 7 * COST)

    def test_what_each_step_finds_is_logged(self) -> None:
        """Damaged lines are told with their places, however many steps were done before."""
        self.patch(loading, "STEP_LINES", 2)
        content = b"".join(line(f"e{n}") for n in range(3)) + b"junk\n"
        self.write(content * 3)
        self.restarted()
        told = [text for text in self.errors() if "is damaged" in text]
        self.assertEqual(len(told), 3)
        for times, text in enumerate(told, 1):
            self.assertIn(f"at offset {times * len(content) - 5} ", text)


class MissingTests(LoadingCase):
    """Segments that are not there."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(store, "SEAL_BYTES", 1)
        for number in range(4):
            self.recorded(f"e{number}")
        self.assertEqual(self.errors(), [])

    def test_deleted_segments_without_snapshots_lose_their_spend(self) -> None:
        """It is told as an error; what cannot be read any more is kept aside."""
        for number in (1, 2):
            self.disk.unlink(self.family.sealed(number))
        self.assertEqual(self.restarted(), 0)
        self.assertEqual((self.spent(), self.errors()), (4 * COST, []))
        for path in (self.family.snapshot, self.family.spare):
            self.disk.put(path, b"junk")
        self.assertEqual(self.restarted(), 2)
        self.assertEqual(self.spent(), 2 * COST)
        self.assertIn("lost", " ".join(self.errors()))
        self.assertEqual(self.content(self.family.snapshot + ".damaged"), b"junk")
        self.assertEqual(self.content(self.family.spare + ".damaged"), b"junk")
        self.recorded("e9")
        self.assertEqual(self.restarted(), 0)

    def test_a_snapshot_that_is_not_used_is_kept(self) -> None:
        """Whatever of the segments is gone, what alone has their sums outlives the next snapshots.

        So it can be put back with the segments, once these are found.
        """
        left = self.disk.contents()
        segments = [path for path in left if path.endswith(".jsonl")]
        for gone in powerset(segments):
            self.write(b"")
            for path, content in left.items():
                if path not in gone:
                    self.disk.put(path, content)
            self.restarted()
            if self.spent() == 4 * COST:
                continue
            self.assertTrue(self.errors(), gone)
            for name in ("e7", "e8", "e9"):
                self.recorded(name)
                self.clock.advance(CHECK_SECONDS)
            self.stopped()
            kept = self.content(self.family.snapshot + ".damaged")
            self.assertEqual(kept, left[self.family.snapshot], gone)

    def test_what_was_kept_before_is_not_written_over(self) -> None:
        """Each start that goes wrong keeps its own, up to nine of them."""
        for number in range(12):
            self.disk.kill()
            self.disk.put(self.family.snapshot, b"junk %d" % number)
            self.restarted()
        kept = {name for name in self.names() if ".snapshot.damaged" in name}
        self.assertEqual(len(kept), loading.KEPT_ASIDE)
        self.assertEqual(self.content(self.family.snapshot + ".damaged"), b"junk 0")
        self.assertEqual(self.content(self.family.snapshot + ".damaged.9"), b"junk 11")

    def test_a_segment_missing_in_the_middle_is_told(self) -> None:
        """Its events are not counted; the others are."""
        for path in (self.family.snapshot, self.family.spare, self.family.sealed(2)):
            self.disk.unlink(path)
        self.assertEqual(self.restarted(), 3)
        self.assertIn(self.family.sealed(2), " ".join(self.errors()))

    def test_a_stray_segment_of_any_number(self) -> None:
        """It is told how many are missing before it, at once; one of an absurd number stops it."""
        left = self.disk.contents()
        for digits in range(6, 40):
            path = self.family.sealed(10**digits - 1)
            self.disk.kill()
            self.disk.put(path, line("stray"))
            if digits <= 9:
                self.restarted()
                self.assertEqual(self.spent(), 5 * COST)
                self.assertIn(self.family.sealed(5), " ".join(self.errors()))
            else:
                error = self.failureResultOf(self.made().open(), LedgerUnreadableError)
                self.assertIn(path, str(error.value))
                self.assertEqual(self.disk.contents(), {**left, path: line("stray")})
            self.write(b"")
            for name, content in left.items():
                self.disk.put(name, content)

    def test_no_active_file_is_an_empty_one(self) -> None:
        """As a crash between the two halves of sealing leaves it."""
        self.disk.unlink(self.path)
        self.assertEqual(self.restarted(), 0)
        self.assertEqual(self.errors(), [])
        self.recorded("e5")
        self.assertEqual(self.spent(self.opened()), 5 * COST)


class IdTests(LoadingCase):
    """The ids after a start are those of the events that were counted."""

    def test_ids_without_a_line_are_cut_off(self) -> None:
        """An id that was written for an event that is not in the ledger does not hide it."""
        self.recorded("e1")
        self.stopped()
        path = self.family.ids("2026-11-29")
        before = self.content(path)
        self.successResultOf(self.ledger.open())
        self.recorded("e2")
        self.disk.put(self.path, line("e1"))
        self.disk.put(self.family.ids("2026-11-28"), self.content(path))
        self.ledger = self.opened()
        self.assertNotIn("ledger.ids.2026-11-28", self.names())
        self.assertEqual(self.recorded("e1", "e2").recorded, 1)
        self.assertTrue(self.content(path).startswith(before))

    def test_ids_are_read_when_they_are_needed(self) -> None:
        """A start with nothing to replay is ready before they are, and they are there for it."""
        self.recorded("e1")
        self.stopped()
        self.writer.holding = True
        ledger = self.made()
        opening = ledger.open()
        while not opening.called:
            self.writer.run(1)
        self.successResultOf(opening)
        resent = ledger.record([as_dict("e1")])
        self.writer.run()
        self.assertEqual(self.successResultOf(resent).duplicates, 1)

    def test_a_changed_id_file_is_told(self) -> None:
        """Whichever bit of it turned, as far as its table knows it."""
        self.patch(recorded_ids, "TABLE_LEAST_IDS", 1)
        self.recorded("e1", "e2")
        self.stopped()
        path = self.family.ids("2026-11-29")
        before = self.content(path)
        for at in range(len(HEADER), len(before)):
            changed = bytearray(before)
            changed[at] ^= 1 << at % 8
            self.disk.kill()
            self.disk.put(path, bytes(changed))
            self.restarted()
            (told,) = self.errors()
            self.assertIn(f"{path} was changed", told)
            self.assertEqual(self.spent(), 2 * COST)
        self.disk.kill()
        self.disk.put(path, before)
        self.restarted()
        self.assertEqual(self.errors(), [])

    def test_a_table_that_cannot_be_read_is_made_anew(self) -> None:
        """It is derived, so a bad block in it keeps nobody from starting."""
        self.patch(recorded_ids, "TABLE_LEAST_IDS", 1)
        self.recorded("e1", "e2")
        self.stopped()
        self.patch(IdTable, "decode", self.unreadable)
        self.restarted()
        self.assertEqual((self.recorded("e1", "e2", "e3").duplicates, self.errors()), (2, []))

    @staticmethod
    def unreadable(pieces: object, size: int) -> None:
        """As a disk with a bad block answers."""
        raise OSError(errno.EIO, "Input/output error")

    def test_a_missing_id_file_costs_no_sums(self) -> None:
        """As in a backup without it: the events are then not known any more, and the log says so.

        Where the spare still has all ids that it covers, the start begins with it.
        """
        self.recorded("e1")
        self.stopped()
        self.disk.unlink(self.family.ids("2026-11-29"))
        self.ledger = self.opened()
        self.assertEqual(self.recorded("e1").duplicates, 1)
        self.recorded("e2")
        self.stopped()
        self.logged.clear()
        self.disk.unlink(self.family.ids("2026-11-29"))
        self.ledger = self.opened()
        self.assertEqual(self.spent(), 2 * COST)
        self.assertIn(self.family.ids("2026-11-29"), " ".join(self.errors()))
        self.assertEqual(self.recorded("e1").recorded, 1)
