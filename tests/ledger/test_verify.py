"""Tests for omnigate.ledger.verify, and for what it is made of."""

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.ledger import recorded_ids, store, upkeep
from omnigate.ledger.family import Family
from omnigate.ledger.findings import Findings
from omnigate.ledger.id_file import HEADER
from omnigate.ledger.id_table import DIGEST_BYTES
from omnigate.ledger.lines import encode_line
from omnigate.ledger.service import Ledger
from omnigate.ledger.verify import verify
from omnigate.money import Price
from omnigate.periods import DAY_MS
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_crash import FOLDER, PATH, Play
from tests.ledger.test_crash import STEPS as STORY_STEPS
from tests.ledger.test_crash import Step as StoryStep
from tests.ledger.test_export import DAY, LedgerFilesTestCase, line
from tests.ledger.written_ledger import WrittenLedger
from tests.usage import usage_event


class VerifyTestCase(LedgerFilesTestCase):
    """A test with a ledger of some days, at ``self.ledger``.

    Segments 1 and 2 are sealed; the spare covers 1 and a part of 2, the newest snapshot 2 and a
    part of the active one, behind which stand two events more. Some events are of other days than
    they were recorded on.
    """

    def setUp(self) -> None:
        super().setUp()
        self.patch(recorded_ids, "TABLE_LEAST_IDS", 1)
        self.ledger = WrittenLedger(self.family)
        self.count = 0
        self.record(0, 30)
        self.record(1, 30)
        self.ledger.seal()
        self.record(1, 10)
        self.ledger.snapshot(DAY + DAY_MS + 10)
        self.record(2, 20)
        self.ledger.seal()
        self.record(2, 5)
        self.ledger.snapshot(DAY + 2 * DAY_MS + 10)
        self.record(2, 2)

    def record(self, day: int, count: int) -> None:
        """Record some events, on a day counted from :data:`DAY`."""
        for _ in range(count):
            self.count += 1
            event = usage_event(
                f"e{self.count}",
                key_sha256=f"{self.count % 5:064x}",
                route_model=f"m{self.count % 3}",
                upstream=None if self.count % 7 == 0 else "openai",
                ts_ms=DAY + day * DAY_MS + self.count * 1_000 - (self.count % 4 == 0) * 20 * DAY_MS,
            )
            received_ms = DAY + day * DAY_MS + self.count * 1_001
            self.ledger.record(received_ms, event, cost_nano=self.count)

    def verify(self, ids_days: int = 3) -> Findings:
        return verify(self.family, ids_days)

    def one_difference(self) -> str:
        """What is different, if it is one thing."""
        findings = self.verify()
        self.assertEqual(findings.count, 1, [str(found) for found in findings.first])
        return str(findings.first[0])

    def change(self, path: str, offset: int, data: bytes) -> None:
        """Change some bytes of a file."""
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(data)


class RightTests(VerifyTestCase):
    """What is no difference."""

    def test_all_is_right(self) -> None:
        """Everything is compared, and nothing is changed by that."""
        before = self.contents()
        findings = self.verify()
        self.assertEqual([str(found) for found in findings.first], [])
        self.assertEqual((findings.segments, findings.events, findings.duplicates), (3, 97, 0))
        self.assertEqual(findings.notes, [])
        checked = "\n".join(findings.checked)
        self.assertIn("rows of 70 events compared", checked)
        self.assertIn("rows of 95 events compared", checked)
        self.assertIn("95 ids of 3 UTC days", checked)
        self.assertEqual(self.contents(), before)

    def contents(self) -> dict[str, bytes]:
        folder = Path(self.family.folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def test_a_line_that_is_being_written(self) -> None:
        """Half a line at the end is what a running control plane looks like."""
        with open(self.family.active, "ab") as file:
            file.write(line(99)[:-30])
        self.assertEqual(self.verify().count, 0)

    def test_progress(self) -> None:
        """It reaches all bytes of the segments, and never goes back."""
        done: list[int] = []
        verify(self.family, 3, done.append)
        paths = (self.family.sealed(1), self.family.sealed(2), self.family.active)
        self.assertEqual(done[-1], sum(os.path.getsize(path) for path in paths))
        self.assertEqual(done, sorted(done))

    def test_lines_written_twice(self) -> None:
        """They count once, with the snapshots and without."""
        with open(self.family.active, "ab") as file:
            file.write(Path(self.family.sealed(2)).read_bytes())
        findings = self.verify()
        self.assertEqual((findings.count, findings.duplicates), (0, 30))

    def test_a_ledger_of_version_1_lines(self) -> None:
        """An installation that has nothing but one file."""
        folder = Path(self.mktemp())
        folder.mkdir()
        old = (Path(__file__).parent / "version1.jsonl").read_bytes()
        (folder / "ledger.jsonl").write_bytes(old)
        findings = verify(Family(str(folder / "ledger.jsonl")), 3)
        self.assertEqual(findings.count, 0)
        self.assertEqual(findings.events, old.count(b"\n"))
        self.assertIn("nothing to compare", findings.notes[-1])

    def test_a_backup_that_was_sealed_in_between(self) -> None:
        """The events of the active file are then in a sealed one as well, and count once."""
        before = Path(self.family.active).read_bytes()
        self.ledger.seal()
        self.record(2, 3)
        Path(self.family.active).write_bytes(before)
        findings = self.verify()
        self.assertEqual((findings.count, findings.duplicates), (0, before.count(b"\n")))

    def test_many_days(self) -> None:
        """What was dropped from the tables on the way is nothing that is missed."""
        for month in range(1, 30):
            self.record(30 * month, 3)
        self.ledger.snapshot(DAY + 30 * 29 * DAY_MS + 1_000_000)
        findings = self.verify()
        self.assertEqual([str(found) for found in findings.first], [])
        self.assertLess(len(self.ledger.books.totals.days), 40)


class WrongTests(VerifyTestCase):
    """What is a difference, and how it is named."""

    def test_a_changed_line(self) -> None:
        """The first difference is the line itself, with its place."""
        path = self.family.sealed(1)
        data = Path(path).read_bytes()
        offset = data.index(b"\n", 5_000) + 1
        at = data.index(b'"output_tokens":250', offset)
        self.change(path, at, b'"output_tokens":350')
        first, second, *_ = self.verify().first
        self.assertEqual((first.path, first.offset), (path, offset))
        self.assertIn("checksum", first.text)
        self.assertEqual((second.path, second.offset), (path, None))
        self.assertIn("SHA-256", second.text)

    def test_a_changed_line_with_a_right_checksum(self) -> None:
        """Somebody who also wrote the checksum anew is found by the hash and by the sums."""
        path = self.family.sealed(2)
        lines = Path(path).read_bytes().splitlines(keepends=True)
        changed = usage_event("e61", key_sha256=f"{61 % 5:064x}", ts_ms=DAY)
        new = encode_line(changed, 10**9, "2026-11-30T00:00:00.000Z")
        Path(path).write_bytes(b"".join([new, *lines[1:]]))
        texts = "\n".join(map(str, self.verify().first))
        self.assertIn(f"{path} at offset ", texts)
        self.assertIn("the first", texts)
        self.assertIn('the row ["lifetime"', texts)
        self.assertIn("cost_nano 1000000", texts)

    def test_a_changed_row(self) -> None:
        """A snapshot whose checksum was made to fit is found by its sums, at the row."""
        data = Path(self.family.snapshot).read_bytes()
        magic, _, payload = data.split(b"\n", 2)
        before = b'["month","2026-12","%064d",' % 1
        offset = payload.index(before)
        figure = int(payload[offset + len(before) :].split(b",", 1)[0])
        row = payload[offset : payload.index(b"\n", offset)]
        changed = row.replace(before + b"%d," % figure, before + b"%d," % (figure - 1))
        payload = payload.replace(row, changed)
        digest = sha256(payload).hexdigest().encode()
        Path(self.family.snapshot).write_bytes(b"\n".join([magic, digest, payload]))
        (found,) = self.verify().first
        self.assertEqual(found.path, self.family.snapshot)
        self.assertEqual(found.offset, len(magic) + len(digest) + 2 + offset)
        self.assertIn('the row ["month", "2026-12"', found.text)
        self.assertIn(f"has requests {figure - 1}", found.text)
        self.assertIn(f"add up to requests {figure}", found.text)

    def test_a_damaged_snapshot(self) -> None:
        """Any byte of it; the other one is compared all the same."""
        self.change(self.family.snapshot, 500, b"\xff")
        self.assertIn("the checksum does not match", self.one_difference())
        self.assertIn("rows of 70 events compared", "\n".join(self.verify().checked))

    def test_a_later_snapshot(self) -> None:
        """One of another version is told of."""
        self.change(self.family.snapshot, len("omnigate-ledger-snapshot "), b"9")
        self.assertIn(self.family.snapshot, self.one_difference())

    def test_a_segment_that_was_cut(self) -> None:
        """Of the active one more than what was never acknowledged."""
        path = self.family.active
        os.truncate(path, 1_000)
        texts = [str(found) for found in self.verify().first]
        self.assertIn(f"{path} at offset 1000: has 1000 bytes", texts[0])
        self.assertIn("which is not there", texts[1])
        self.assertEqual(len(texts), 2)

    def test_a_missing_segment(self) -> None:
        """In the middle, and the last ones."""
        os.unlink(self.family.sealed(2))
        self.assertIn(f"{self.family.sealed(2)}: is missing", str(self.verify().first[0]))
        self.record(2, 1)
        os.rename(self.family.active, self.family.sealed(3))
        self.assertIn(f"{self.family.sealed(2)}: segment 2 is missing", str(self.verify().first[0]))

    def test_a_missing_snapshot_or_spare(self) -> None:
        """That is told, and is no difference."""
        os.unlink(self.family.spare)
        findings = self.verify()
        self.assertEqual(findings.count, 0)
        self.assertIn("There is no spare", findings.notes[0])
        os.unlink(self.family.snapshot)
        findings = self.verify()
        self.assertEqual(findings.count, 0)
        self.assertIn("nothing to compare", findings.notes[-1])

    def test_what_was_set_aside_is_told(self) -> None:
        """A start that kept what it could not read has left something to look at."""
        path = Path(self.family.spare + ".damaged")
        path.write_bytes(b"")
        self.assertEqual(
            self.verify().notes, [f"{path} was set aside by a start that could not use it."]
        )

    def test_a_changed_id(self) -> None:
        """Named by its record."""
        path = self.family.ids("2026-11-30")
        self.change(path, len(HEADER) + 16 * 7 + 3, b"\x00\x00")
        texts = [str(found) for found in self.verify().first]
        self.assertIn(f"{path} at offset {len(HEADER) + 16 * 7}: is not the id", texts[0])
        self.assertIn(".table: was not made from the first", texts[1])

    def test_an_id_file_that_is_short_or_missing(self) -> None:
        """Whose ids would count a second time."""
        path = self.family.ids("2026-11-30")
        os.unlink(self.family.id_table("2026-11-30"))
        os.truncate(path, len(HEADER) + 16 * 7 + 3)
        self.assertIn("has 7 ids, and the snapshot knows 40", self.one_difference())
        os.truncate(path, 0)
        self.assertIn("has 0 ids", self.one_difference())
        os.unlink(path)
        self.assertIn(f"{path}: is missing; the snapshot knows 40 ids", self.one_difference())
        Path(path).write_bytes(b"not ids at all\r\n" * 41)
        self.assertIn(f"{path} at offset 0: is no id file", self.one_difference())
        Path(path).write_bytes(b"omnigate-ids 2\r\n" * 41)
        self.assertIn("id file of version 2", self.one_difference())

    def test_an_id_file_that_was_dropped(self) -> None:
        """Its day is over for so long that the next snapshot will not know it."""
        self.record(4, 1)
        self.assertFalse(os.path.exists(self.family.ids("2026-11-29")))
        findings = self.verify()
        self.assertEqual(findings.count, 0)
        self.assertIn("ids.2026-11-29 was dropped as too old", findings.notes[0])
        self.assertEqual(self.verify(ids_days=9).count, 1)

    def test_a_damaged_table(self) -> None:
        """It is derived, but a start reads it."""
        path = self.family.id_table("2026-11-29")
        self.change(path, 3_000, b"\x01\x02")
        self.assertIn(f"{path}: cannot be used: its checksum is wrong", self.one_difference())

    def test_ids_that_were_not_kept(self) -> None:
        """A ledger restored without its id files knows fewer than it counted."""
        self.ledger.ids = recorded_ids.RecordedIds(self.family, 3)
        for day in ("2026-11-29", "2026-11-30", "2026-12-01"):
            os.unlink(self.family.ids(day))
            os.unlink(self.family.id_table(day))
        self.ledger.ids.open({})
        self.record(2, 1)
        self.ledger.snapshot(DAY + 2 * DAY_MS + 20)
        texts = "\n".join(map(str, self.verify().first))
        self.assertIn("it knows 1 ids of 2026-12-01, and 28 events were counted", texts)

    def test_many_differences(self) -> None:
        """The first few have their places, and all are counted."""
        path = self.family.sealed(1)
        Path(path).write_bytes(Path(path).read_bytes().replace(b'"status":200', b'"status":201'))
        findings = self.verify()
        self.assertEqual(len(findings.first), 20)
        self.assertGreater(findings.count, 60)


class AnyByteTests(VerifyTestCase):
    """No byte can be another one without being found."""

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_any_byte(self, data: st.DataObject) -> None:
        """In every file but for ids, and a line end, that no snapshot covers yet."""
        ids = [self.family.ids(day) for day in ("2026-11-29", "2026-11-30", "2026-12-01")]
        covered = {
            self.family.sealed(1): 0,
            self.family.sealed(2): 0,
            self.family.active: 1,
            self.family.snapshot: 0,
            self.family.spare: 0,
            ids[0]: 0,
            ids[1]: 0,
            ids[2]: 2 * DIGEST_BYTES,
            **{f"{path}.table": 0 for path in ids},
        }
        path = data.draw(st.sampled_from(sorted(covered)))
        before = Path(path).read_bytes()
        offset = data.draw(st.integers(0, len(before) - covered[path] - 1))
        byte = before[offset] ^ data.draw(st.integers(1, 255))
        self.change(path, offset, bytes([byte]))
        try:
            self.assertGreater(self.verify().count, 0)
        finally:
            Path(path).write_bytes(before)


@attrs.frozen
class Step:
    """Something that happens to a ledger, so many hours after the step before it."""

    what: str
    hours: int
    count: int
    days_late: int


STEPS = st.builds(
    Step,
    st.sampled_from(["record", "record", "record", "seal", "snapshot", "restart"]),
    st.sampled_from([0, 1, 5, 30, 24 * 40]),
    st.integers(1, 12),
    st.sampled_from([0, 0, 1, 2, 9, 33, 420]),
)


class HistoryTests(SynchronousTestCase):
    """A ledger that nothing is wrong with is right, whatever happened to it."""

    @settings(max_examples=60, deadline=None)
    @given(st.lists(STEPS, max_size=40))
    def test_any_history(self, steps: list[Step]) -> None:
        """Late events, months that pass, and restarts at any moment."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        ledger = WrittenLedger(Family(str(folder / "ledger.jsonl")))
        now_ms, number, recorded = DAY, 0, False
        for step in steps:
            now_ms += step.hours * 3_600_000
            if step.what == "record":
                events = []
                for _ in range(step.count):
                    number += 1
                    ts_ms = now_ms - step.days_late * DAY_MS
                    events.append(
                        usage_event(f"e{number}", key_sha256=f"{number % 3:064x}", ts_ms=ts_ms)
                    )
                ledger.record(now_ms, *events, cost_nano=number)
                recorded = True
            elif step.what == "seal" and recorded:
                ledger.seal()
                recorded = False
            elif step.what == "snapshot":
                ledger.snapshot(now_ms)
            elif step.what == "restart":
                ledger.restart(now_ms)
        findings = verify(ledger.family, 3)
        self.assertEqual([str(found) for found in findings.first], [])
        self.assertEqual(findings.events, number)


class BusyDisk:
    """The module ``os``, while somebody else is at work: before some calls something happens."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._working = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if name not in ("open", "stat", "listdir", "read"):
            return call

        def busy(*arguments: Any, **options: Any) -> Any:
            if not self._working:
                self._working = True
                try:
                    self._work()
                finally:
                    self._working = False
            return call(*arguments, **options)

        return busy


class BusyLedger:
    """A ledger that does one thing after the other.

    :ivar number: how many events it has recorded; they have these ids, from 1 on.
    """

    def __init__(self, family: Family) -> None:
        self.ledger = WrittenLedger(family)
        self.now_ms = DAY
        self.number = 0
        self._covered: list[int] = []

    def do(self, step: str) -> None:
        """Record, seal, make a snapshot, delete, or let a day pass."""
        ledger = self.ledger
        self.now_ms += 1
        if step == "record":
            self.number += 1
            ledger.record(self.now_ms, usage_event(f"{self.number}", ts_ms=self.now_ms))
        elif step == "seal" and os.path.getsize(ledger.family.active):
            ledger.seal()
        elif step == "snapshot":
            ledger.snapshot(self.now_ms)
            self._covered.append(ledger.sealed[-1].number if ledger.sealed else 0)
        elif step == "next day":
            self.now_ms += DAY_MS
        elif step == "delete" and len(self._covered) > 1:
            there = [segment.number for segment in ledger.sealed[:-1]]
            ledger.forget_segments([n for n in there if n <= self._covered[-2]][:1])


class BesideTests(SynchronousTestCase):
    """Beside a control plane that records, seals, makes snapshots and deletes."""

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.sampled_from(["", "", "record", "record", "seal", "snapshot", "next day", "delete"]),
            max_size=80,
        )
    )
    def test_no_false_alarm(self, steps: list[str]) -> None:
        """Whatever it does while the files are read, at whatever moment."""
        self.assert_right_beside(steps)

    def test_sealed_at_any_moment(self) -> None:
        """Also between two looks at one and the same segment."""
        moment = 0
        while self.assert_right_beside([*[""] * moment, "seal"]):
            moment += 1
        self.assertGreater(moment, 20)

    def assert_right_beside(self, steps: list[str]) -> bool:
        """Verify while these steps are done; whether all of them were."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        busy = BusyLedger(Family(str(folder / "ledger.jsonl")))
        left = iter(steps)
        for step in (
            "record",
            "seal",
            "record",
            "snapshot",
            "record",
            "seal",
            "record",
            "snapshot",
        ):
            busy.do(step)
        disk = BusyDisk(lambda: busy.do(next(left, "")))
        self.patch(files, "os", disk)
        # It makes a snapshot as soon as it has dropped ids.
        family = busy.ledger.family
        findings = verify(family, 3, settle=lambda: busy.do("snapshot"))
        self.patch(files, "os", os)
        self.assertEqual([str(found) for found in findings.first], [])
        all_done = next(left, None) is None
        busy.do("snapshot")
        findings = verify(family, 3)
        self.assertEqual([str(found) for found in findings.first], [])
        return all_done


class BackupTests(SynchronousTestCase):
    """A copy made in the order that docs/ledger.md tells, while the ledger is in use."""

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.lists(st.sampled_from(["record", "seal", "snapshot"]), max_size=3),
            max_size=12,
        )
    )
    def test_a_start_from_it(self, steps: list[list[str]]) -> None:
        """It has all that was recorded before, each event once, and its files agree."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        busy = BusyLedger(Family(str(folder / "ledger.jsonl")))
        for step in ("record", "seal", "record", "snapshot", "record", "snapshot", "record"):
            busy.do(step)
        before, left = busy.number, iter(steps)
        backup = Path(self.mktemp()).absolute()
        backup.mkdir()
        for patterns in (
            ("ledger.snapshot", "ledger.snapshot.prev", "ledger.jsonl"),
            ("ledger.[0-9]*.jsonl", "ledger.ids.*"),
        ):
            for path in [path for pattern in patterns for path in sorted(folder.glob(pattern))]:
                for step in next(left, []):
                    busy.do(step)
                shutil.copy(path, backup)
        found = verify(Family(str(backup / "ledger.jsonl")), 3)
        self.assertEqual([str(difference) for difference in found.first], [])
        clock = Clock()
        clock.advance(busy.now_ms / 1000)
        price = Price(0, 0, 0, 0)
        ledger = Ledger(str(backup / "ledger.jsonl"), clock, SynchronousWriter(), lambda e: price)
        self.successResultOf(ledger.open())
        days = ledger.totals("day")
        count = sum(row.sums.requests for row in days)
        self.assertTrue(before <= count <= busy.number)
        ids = [event["id"] for event in ledger.recent()]
        self.assertEqual(sorted(ids, key=int), [str(n) for n in range(1, count + 1)])


class StoryTests(SynchronousTestCase):
    """The ledger itself, under faults of the disk, kills and power losses."""

    @settings(max_examples=40, deadline=None)
    @given(st.lists(STORY_STEPS, max_size=30))
    def test_all_files_always_agree(self, steps: list[StoryStep]) -> None:
        """After every step, beside the process; at the end with all that was ever sent."""
        self.patch(upkeep, "SNAPSHOT_EVENTS", 4)
        self.patch(store, "SEAL_BYTES", 2_000)
        self.patch(store, "PROBE_BYTES", 1_000)
        play = Play(self)
        for step in steps:
            play.play(step)
            self.assert_right(play, step)
        play.finish()
        play.writer.holding = False
        play.writer.run(100)
        self.successResultOf(play.ledger.close())
        self.assert_right(play, "the stop")

    def assert_right(self, play: Play, after: object) -> None:
        """Hold that there is no difference in what the disk has now, were it well."""
        well = MemoryDisk(FOLDER, recording=False)
        for path, content in play.disk.contents().items():
            well.put(path, content)
        setattr(files, "os", well)  # noqa: B010
        try:
            findings = verify(Family(PATH), 0)
        finally:
            setattr(files, "os", play.disk)  # noqa: B010
        self.assertEqual([str(found) for found in findings.first], [], after)


class RetentionTests(VerifyTestCase):
    """Where the first segments were deleted."""

    def setUp(self) -> None:
        super().setUp()
        self.ledger.seal()
        self.record(3, 5)
        self.ledger.snapshot(DAY + 3 * DAY_MS + 10)
        self.ledger.forget_segments([1])

    def test_what_can_be_compared_is(self) -> None:
        """From the spare on; and what cannot is told."""
        findings = self.verify()
        self.assertEqual([str(found) for found in findings.first], [])
        self.assertIn("segment 1 was deleted", findings.notes[0])
        checked = "\n".join(findings.checked)
        self.assertIn("with the segments that are left only", checked)
        self.assertIn("rows of 102 events compared", checked)

    def test_a_newest_snapshot_that_does_not_follow(self) -> None:
        """The spare and the events between must come to it."""
        data = Path(self.family.sealed(3)).read_bytes()
        lines = data.splitlines(keepends=True)
        Path(self.family.sealed(3)).write_bytes(data.replace(lines[-1], b""))
        texts = "\n".join(map(str, self.verify().first))
        self.assertIn(f"{self.family.snapshot} at offset ", texts)

    def test_a_spare_below_what_is_left(self) -> None:
        """A lifetime cannot be less than some of its events."""
        os.unlink(self.family.spare)
        self.assertEqual(self.verify().count, 0)
        # As a control plane would whose memory went wrong.
        self.ledger.books.totals.lifetimes.clear()
        self.ledger.books.totals.months.clear()
        self.ledger.books.totals.days.clear()
        self.record(3, 1)
        self.ledger.snapshot(DAY + 3 * DAY_MS + 20)
        os.unlink(self.family.spare)
        texts = "\n".join(map(str, self.verify().first))
        self.assertIn("less than the segments that are left", texts)

    def test_all_snapshots_lost(self) -> None:
        """The sums of what was deleted are lost with them, and that is a difference."""
        os.unlink(self.family.spare)
        os.unlink(self.family.snapshot)
        (found,) = self.verify().first
        self.assertEqual(found.path, self.family.snapshot)
        self.assertIn("it is lost", found.text)
