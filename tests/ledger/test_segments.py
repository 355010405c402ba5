"""Tests for omnigate.ledger.segments."""

import errno
import os
from hashlib import sha256
from random import Random

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.ledger import segment_reading
from omnigate.ledger.family import Family, Position, SealedSegment
from omnigate.ledger.lines import MAX_LINE_BYTES, encode_line
from omnigate.ledger.segments import Segments, Torn
from omnigate.testing.disk import FaultyDisk
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import few_bytes
from tests.usage import usage_event


def line(number: int, day: str = "2026-11-29") -> bytes:
    return encode_line(usage_event(str(number)), number, f"{day}T12:00:00.000Z")


FIRST = Position(1, 0)

#: Lines and parts of lines, empty ones and such as are too long for a limit of 20 bytes.
CONTENT = st.lists(
    st.sampled_from([b"\n", b"a", b"bc" * 9, b"d" * 20, b"e" * 21, b"f" * 70, b"g\n"])
).map(b"".join)


def places(content: bytes) -> list[tuple[int, bytes]]:
    """Each line of a file with its offset; what lacks a line end is one, too."""
    found, at = [], 0
    for each in content.split(b"\n"):
        found.append((at, each))
        at += len(each) + 1
    return found if found[-1][1] else found[:-1]


class SegmentsTests(SynchronousTestCase):
    """Reading all segments once, then appending to the last one."""

    def setUp(self) -> None:
        self.disk = FaultyDisk(self.mktemp())
        self.patch(files, "os", self.disk)
        self.family = Family(os.path.join(self.disk.folder, "ledger.jsonl"))
        self.segments = Segments(self.family)

    def write(self, path: str, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    def content(self, path: str | None = None) -> bytes:
        with open(path or self.family.active, "rb") as file:
            return file.read()

    def names(self) -> list[str]:
        return sorted(os.listdir(self.disk.folder))

    def read_all(
        self, position: Position = FIRST, limit: int = 100, events: int = 0
    ) -> list[tuple[int, int, bytes | None]]:
        """Open, and read all there is: segment, offset and bytes of each line."""
        self.segments.open()
        self.segments.begin_reading(position, events)
        found = []
        while piece := self.segments.next_lines(limit):
            self.assertLessEqual(len(piece.lines), limit)
            self.segments.count(len(piece.lines))
            found += [(piece.segment, *each) for each in piece.lines]
        return found

    def started(self) -> Segments:
        """Segments of a new process, ready to append."""
        self.segments = Segments(self.family)
        self.read_all()
        self.segments.begin_appending()
        return self.segments

    def three(self) -> Segments:
        """Two sealed segments and an active one, of two lines each."""
        segments = self.started()
        for number in (1, 3, 5):
            segments.append(line(number) + line(number + 1), 2)
            if number < 5:
                segments.seal()
        return segments

    # -- a start ------------------------------------------------------------------------------

    def test_nothing_there_is_segment_one_and_empty(self) -> None:
        """It is made, for its owner's eyes alone, and its name is synced."""
        self.assertEqual(self.read_all(), [])
        self.assertIsNone(self.segments.begin_appending())
        self.assertEqual(self.segments.position, Position(1, 0))
        self.assertIsNone(self.segments.opened_day)
        self.assertEqual(self.segments.append(b"one\n", 1), Position(1, 4))
        self.assertEqual(os.stat(self.family.active).st_mode & 0o777, 0o600)
        self.disk.crash()
        self.assertEqual(self.content(), b"one\n")

    def test_all_lines_come_in_order_with_their_places(self) -> None:
        """Segment after segment, in slices of one segment each; the rest goes on as before."""
        self.three()
        expected = self.segments.sealed
        self.segments.close()
        self.segments = Segments(self.family)
        both = len(line(1))
        lines = [
            (segment, offset, line(2 * segment - 1 + offset // both)[:-1])
            for segment in (1, 2, 3)
            for offset in (0, both)
        ]
        for limit in (1, 2, 100):
            self.assertEqual(self.read_all(limit=limit), lines)
            self.assertEqual(self.segments.sealed, expected)
        self.assertIsNone(self.segments.begin_appending())
        self.assertEqual(self.segments.position, Position(3, 2 * both))
        digest = sha256(line(5) + line(6)).hexdigest()
        self.assertEqual(self.segments.active_sha256(), digest)
        self.assertEqual(self.segments.seal(), SealedSegment(3, 2 * both, digest, 2))

    def test_what_is_known_of_a_sealed_segment(self) -> None:
        """Its number, length, hash and events: told when it is sealed, and found again."""
        segments = self.three()
        content = line(3) + line(4)
        record = SealedSegment(2, len(content), sha256(content).hexdigest(), 2)
        self.assertEqual(segments.sealed[1], record)
        segments.close()
        self.read_all(Position(2, len(line(3))), events=1)
        self.assertEqual(self.segments.sealed, [record])

    def test_reading_begins_where_a_snapshot_ended(self) -> None:
        """Lines before it are not read, in whatever segment it ended."""
        self.three()
        self.segments.close()
        half = len(line(1))
        for position, first in (
            (Position(1, half), 2),
            (Position(2, 0), 3),
            (Position(2, 2 * half), 5),
            (Position(3, half), 6),
            (Position(3, 2 * half), 7),
        ):
            read = self.read_all(position)
            self.assertEqual([each[2] for each in read], [line(n)[:-1] for n in range(first, 7)])
            self.segments.begin_appending()
            self.assertEqual(self.segments.active_sha256(), sha256(line(5) + line(6)).hexdigest())

    def test_deleted_segments_are_passed_over(self) -> None:
        """The first one that is left is read from its beginning, whatever the position says."""
        self.three()
        self.segments.close()
        os.unlink(self.family.sealed(1))
        self.assertEqual([each[0] for each in self.read_all(Position(1, 7))], [2, 2, 3, 3])

    def test_a_torn_line_is_cut_off_before_anything_is_appended(self) -> None:
        """In the active segment only; all torn, or behind other lines."""
        for before in (b"", b"one\n", b"x\n" * 4):
            for limit in (1, 4, 100):
                self.write(self.family.active, before + b"torn")
                self.assertEqual(len(self.read_all(limit=limit)), before.count(b"\n"))
                torn = self.segments.begin_appending()
                self.assertEqual(torn, Torn(self.family.active, len(before), 4))
                self.segments.append(b"new\n", 1)
                self.assertEqual(self.content(), before + b"new\n")
                self.assertEqual(
                    self.segments.active_sha256(), sha256(before + b"new\n").hexdigest()
                )

    def test_a_sealed_segment_is_judged_to_its_last_byte(self) -> None:
        """It was synced whole, so what lacks a line end is damage and not torn."""
        self.write(self.family.sealed(1), b"one\nrest")
        self.assertEqual(self.read_all(), [(1, 0, b"one"), (1, 4, b"rest")])
        self.assertEqual(
            self.segments.sealed, [SealedSegment(1, 8, sha256(b"one\nrest").hexdigest(), 2)]
        )

    def test_lines_that_are_too_long_have_no_bytes(self) -> None:
        """They are told with their places, and the hash is of all bytes nevertheless."""
        long = b"x" * (MAX_LINE_BYTES + 1)
        content = long + b"\none\n" + long + b"\n" + long[1:] + b"\n" + long + b"\n"
        for path in (self.family.sealed(1), self.family.active):
            self.write(path, content)
        for limit in (1, 2, 100):
            self.assertEqual(
                [each[2] for each in self.read_all(limit=limit)],
                [None, b"one", None, long[1:], None] * 2,
            )
            self.segments.begin_appending()
            digest = sha256(content).hexdigest()
            self.assertEqual(self.segments.active_sha256(), digest)
            self.assertEqual(self.segments.sealed[0].sha256, digest)
            self.assertEqual(self.segments.size, len(content))

    def test_a_slice_is_bounded_in_bytes(self) -> None:
        """However long the lines are."""
        self.patch(segment_reading, "SLICE_BYTES", 1000)
        self.write(self.family.active, (b"x" * 300 + b"\n") * 10)
        self.segments.open()
        self.segments.begin_reading(Position(1, 0))
        sizes = []
        while piece := self.segments.next_lines(100):
            sizes.append(len(piece.lines))
        self.assertEqual(sizes, [4, 4, 2])

    def test_only_what_the_disk_has_is_read(self) -> None:
        """Lines that a failed sync lost are not counted because the cache still shows them."""
        self.started().append(b"one\n", 1)
        self.disk.fail("fdatasync")
        self.disk.fail("ftruncate")
        self.assertRaises(OSError, self.segments.append, b"two\n", 1)
        self.assertEqual(self.content(), b"one\ntwo\n")
        self.disk.kill()
        self.segments = Segments(self.family)
        self.assertEqual(self.read_all(), [(1, 0, b"one")])
        self.assertEqual(self.segments.begin_appending(), Torn(self.family.active, 4, 4))

    def test_a_start_that_failed_can_be_tried_again(self) -> None:
        """Whichever call failed; and appending before a start is a fault of the caller."""
        self.assertRaises(RuntimeError, self.segments.append, b"one\n", 1)
        self.assertRaises(RuntimeError, self.segments.begin_reading, Position(1, 0))
        self.assertRaises(RuntimeError, self.segments.next_lines, 1)
        self.disk.fail("fdatasync")
        self.assertRaises(OSError, self.segments.open)
        self.assertRaises(RuntimeError, self.segments.begin_reading, Position(1, 0))
        self.segments.open()
        self.segments.begin_reading(Position(1, 0))
        self.assertRaises(RuntimeError, self.segments.begin_appending)
        self.assertIsNone(self.segments.next_lines(1))
        self.disk.fail("fsync")
        self.assertRaises(OSError, self.segments.begin_appending)
        self.segments.begin_appending()
        self.segments.append(b"one\n", 1)
        self.segments.close()
        self.segments.close()
        self.assertRaises(RuntimeError, self.segments.append, b"two\n", 1)

    # -- whose it is --------------------------------------------------------------------------

    def test_two_processes_do_not_share_a_ledger(self) -> None:
        """The second one is refused until the first has closed it, also after a seal."""
        first = self.started()
        second = Segments(self.family)
        for _ in range(2):
            error = self.assertRaises(OSError, second.open)
            self.assertEqual(error.errno, errno.EBUSY)
            first.append(b"one\n", 1)
            first.seal()
        first.close()
        second.open()

    def test_not_even_while_it_is_being_sealed(self) -> None:
        """There is no active file for a moment, and somebody else makes one."""
        first = self.started()
        first.append(b"one\n", 1)
        self.disk.fail("fsync")
        self.assertRaises(OSError, first.seal)
        self.assertEqual(first.size, 0)
        self.assertFalse(os.path.exists(self.family.active))
        second = Segments(self.family)
        error = self.assertRaises(OSError, second.open)
        self.assertEqual(error.errno, errno.EBUSY)
        first.append(b"two\n", 1)
        self.assertRaises(OSError, second.open)
        first.close()
        self.assertEqual(second.open().sealed, [1])

    # -- appending and sealing ----------------------------------------------------------------

    def test_the_day_that_a_segment_was_begun_on(self) -> None:
        """That of its first line, before and after a start; a damaged line has none."""
        first = self.started()
        self.assertIsNone(first.opened_day)
        first.append(line(1, "2026-11-29") + line(2, "2026-11-30"), 2)
        first.append(line(3, "2026-11-30"), 1)
        self.assertEqual(first.opened_day, "2026-11-29")
        first.close()
        self.assertEqual(self.started().opened_day, "2026-11-29")
        self.segments.seal()
        self.assertIsNone(self.segments.opened_day)
        self.segments.close()
        self.write(self.family.active, b"what\n" + line(1, "2026-11-28"))
        self.assertEqual(self.started().opened_day, "2026-11-28")
        self.segments.close()
        self.write(self.family.active, b"what\n")
        self.assertLess(self.started().opened_day or "", "2026")

    def test_a_refused_write_leaves_nothing_behind(self) -> None:
        """Neither in the file nor in the position, the hash and the counts."""
        self.started().append(b"one\n", 1)
        for break_disk in (
            lambda: self.disk.fail("fdatasync"),
            lambda: self.disk.fail("write"),
            lambda: setattr(self.disk, "free_bytes", 2),
        ):
            break_disk()
            self.assertRaises(OSError, self.segments.append, b"two\n", 1)
            self.assertEqual(self.segments.position, Position(1, 4))
            self.disk.heal()
            self.assertEqual(self.content(), b"one\n")
        self.segments.append(b"three\n", 1)
        digest = sha256(b"one\nthree\n").hexdigest()
        self.assertEqual(self.segments.active_sha256(), digest)
        self.assertEqual(self.segments.seal(), SealedSegment(1, 10, digest, 2))

    def test_nothing_is_written_into_a_file_that_was_moved_or_emptied(self) -> None:
        """Not where it was moved to, and not where another stands; once it is back, it goes on."""
        aside = self.family.active + ".aside"
        self.started().append(b"one\n", 1)
        os.rename(self.family.active, aside)
        for prepare in (lambda: None, lambda: self.write(self.family.active, b"")):
            prepare()
            for call in (lambda: self.segments.append(b"two\n", 1), self.segments.seal):
                self.assertEqual(self.assertRaises(OSError, call).errno, errno.ESTALE)
        os.rename(aside, self.family.active)
        self.segments.append(b"three\n", 1)
        self.assertEqual(self.content(), b"one\nthree\n")
        os.truncate(self.family.active, 0)
        error = self.assertRaises(OSError, self.segments.append, b"two\n", 1)
        self.assertIn("shortened", str(error))
        self.assertEqual(self.content(), b"")

    def test_sealing_gives_the_name_and_begins_anew(self) -> None:
        """No byte is written again, and numbers are never given twice."""
        segments = self.three()
        self.assertEqual(
            self.names(), ["ledger.000001.jsonl", "ledger.000002.jsonl", "ledger.jsonl"]
        )
        self.assertEqual(self.content(self.family.sealed(2)), line(3) + line(4))
        self.assertEqual(segments.position.segment, 3)
        os.unlink(self.family.sealed(1))
        segments.seal()
        self.assertRaises(RuntimeError, segments.seal)
        segments.close()
        self.assertEqual(self.started().position, Position(4, 0))

    def test_a_file_in_the_way_is_not_overwritten(self) -> None:
        """A sealed segment that somebody put there is not ours to replace."""
        self.started().append(b"one\n", 1)
        self.write(self.family.sealed(1), b"theirs\n")
        self.assertEqual(self.assertRaises(OSError, self.segments.seal).errno, errno.EEXIST)
        self.assertEqual(self.content(self.family.sealed(1)), b"theirs\n")
        os.unlink(self.family.sealed(1))
        self.assertEqual(self.segments.seal().number, 1)

    def test_a_seal_that_broke_off_is_finished_by_the_next_append(self) -> None:
        """Whichever call failed: the segment is sealed or not, and what is told says which."""
        self.started().append(b"one\n", 1)
        for call in ("fdatasync", "replace"):
            self.disk.fail(call)
            self.assertRaises(OSError, self.segments.seal)
            self.assertEqual((self.segments.size, self.segments.sealed), (4, []))
        for call in ("fsync", "open"):
            number = self.segments.position.segment
            self.disk.fail(call, times=2)
            self.assertRaises(OSError, self.segments.seal)
            self.assertEqual(self.segments.size, 0)
            self.assertEqual(self.segments.sealed[-1].number, number)
            self.assertRaises(OSError, self.segments.append, b"two\n", 1)
            self.disk.heal()
            self.assertEqual(self.segments.append(b"two\n", 1), Position(number + 1, 4))
            self.assertEqual(self.content(self.family.sealed(number))[3:], b"\n")

    def test_a_power_loss_in_any_moment_of_a_seal_loses_no_line(self) -> None:
        """After each call: every line is there once, in the segment that it was in."""
        for calls in range(20):
            self.started().append(b"one\n", 1)
            number = self.segments.position.segment
            self.disk.calls_left = calls
            try:
                self.segments.seal()
                self.segments.append(b"two\n", 1)
                done = True
            except OSError:
                done = False
            self.disk.crash()
            self.segments = Segments(self.family)
            read = [each for each in self.read_all() if each[0] >= number]
            expected = [(number, 0, b"one")] + [(number + 1, 0, b"two")] * done
            self.assertEqual(read[: len(expected)], expected)
            self.assertLessEqual(len(read), 2)
            self.segments.begin_appending()
            if self.segments.size:
                self.segments.seal()
            self.segments.close()
        self.assertTrue(done)


class AnyContentTests(SynchronousTestCase):
    """Whatever stands in the files."""

    @settings(max_examples=200, deadline=None)
    @given(st.lists(CONTENT, max_size=3), CONTENT, st.integers(1, 5), st.integers(1, 40), st.data())
    def test_every_byte_is_in_a_line_or_torn(
        self, sealed: list[bytes], active: bytes, limit: int, piece: int, data: st.DataObject
    ) -> None:
        """Lines, places and hashes are those of the bytes, from wherever the reading begins."""
        self.patch(segment_reading, "MAX_LINE_BYTES", 20)
        self.patch(files, "READ_BYTES", piece)
        disk = MemoryDisk("/state", recording=False)
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        family = Family("/state/ledger.jsonl")
        for number, content in enumerate(sealed, 1):
            disk.put(family.sealed(number), content)
        disk.put(family.active, active)
        contents = [*sealed, active[: active.rfind(b"\n") + 1]]
        expected = [
            (number, at, line if len(line) <= 20 else None)
            for number, content in enumerate(contents, 1)
            for at, line in places(content)
        ]
        begin = data.draw(st.sampled_from([(1, 0), *(each[:2] for each in expected)]))
        segments = Segments(family)
        segments.open()
        segments.begin_reading(Position(*begin))
        found = []
        while each := segments.next_lines(limit):
            found += [(each.segment, *line) for line in each.lines]
        self.assertEqual(found, [each for each in expected if each[:2] >= begin])
        torn = segments.begin_appending()
        self.assertEqual(torn.size if torn else 0, len(active) - len(contents[-1]))
        self.assertEqual(segments.active_sha256(), sha256(contents[-1]).hexdigest())
        self.assertEqual(
            [(each.number, each.size, each.sha256) for each in segments.sealed],
            [
                (number, len(content), sha256(content).hexdigest())
                for number, content in enumerate(sealed, 1)
                if number >= begin[0]
            ],
        )
        segments.close()


class DamageTests(SynchronousTestCase):
    """Whether what a snapshot covers is still there."""

    def setUp(self) -> None:
        self.folder = os.path.realpath(self.mktemp())
        os.makedirs(self.folder)
        self.family = Family(os.path.join(self.folder, "ledger.jsonl"))
        segments = self.opened()
        segments.begin_reading(Position(1, 0))
        segments.next_lines(1)
        segments.begin_appending()
        for number in range(1, 4):
            segments.append(line(number) * 2, 2)
            segments.seal()
        self.position = segments.append(line(4), 1)
        self.digest = segments.active_sha256()
        self.sealed = list(segments.sealed)
        segments.append(line(5), 1)
        self.segments = segments

    def opened(self) -> Segments:
        segments = Segments(self.family)
        segments.open()
        self.addCleanup(segments.close)
        return segments

    def damage(self) -> str | None:
        self.segments.close()
        self.segments = self.opened()
        return self.segments.damage_of(self.position, self.digest, self.sealed)

    def assertDamaged(self, *words: str) -> None:  # noqa: N802
        damage = self.damage()
        self.assertIsNotNone(damage)
        for word in words:
            self.assertIn(word, damage or "")

    def change(self, path: str, at: int, put: bytes) -> None:
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(put)

    def test_all_is_well(self) -> None:
        """Also when the segment was sealed since, and others after it."""
        self.assertIsNone(self.damage())
        self.assertIsNone(self.segments.damage_of(Position(1, 0), sha256().hexdigest(), []))
        self.segments.begin_reading(self.position)
        self.assertEqual(self.segments.next_lines(9).lines[0][1], line(5)[:-1])  # type: ignore[union-attr]
        self.assertIsNone(self.segments.next_lines(9))
        self.segments.begin_appending()
        self.segments.seal()
        self.segments.append(line(6), 1)
        self.assertIsNone(self.damage())

    def test_a_changed_byte(self) -> None:
        """Before the position it is damage, behind it none of the snapshot's business."""
        self.change(self.family.active, self.position.offset + 3, b"?")
        self.assertIsNone(self.damage())
        self.change(self.family.active, self.position.offset - 1, b"?")
        self.assertDamaged(self.family.active, "not those")

    def test_a_segment_that_is_too_short(self) -> None:
        """The position's own, and one before it."""
        os.truncate(self.family.active, self.position.offset)
        self.assertIsNone(self.damage())
        os.truncate(self.family.active, self.position.offset - 1)
        self.assertDamaged(self.family.active, "fewer")
        os.truncate(self.family.sealed(2), 3)
        self.assertDamaged(self.family.sealed(2), "has 3 bytes")

    def test_old_segments_may_be_deleted(self) -> None:
        """From the first one on; not from the middle, and not all."""
        os.unlink(self.family.sealed(1))
        self.assertIsNone(self.damage())
        os.unlink(self.family.sealed(2))
        self.assertIsNone(self.damage())
        os.unlink(self.family.sealed(3))
        self.assertDamaged("missing")

    def test_a_segment_that_is_lost(self) -> None:
        """One in the middle; the active one; the one of the position, sealed since."""
        os.rename(self.family.sealed(2), self.family.sealed(2) + ".x")
        self.assertDamaged(self.family.sealed(2), "missing")
        os.rename(self.family.sealed(2) + ".x", self.family.sealed(2))
        os.unlink(self.family.active)
        self.assertDamaged(self.family.active, "has 0 bytes")
        os.rename(self.family.active, self.family.sealed(5))
        self.assertDamaged(self.family.sealed(4), "missing")
        self.position = Position(9, 0)
        self.assertDamaged("missing")


@attrs.frozen
class Told:
    """What the world outside knows: how many lines are recorded, and the newest snapshot."""

    lines: int
    position: Position
    sha256: str
    sealed: tuple[SealedSegment, ...]
    covered: int


class CrashTests(SynchronousTestCase):
    """Whatever a crash leaves: every recorded line is there once, and where it was."""

    def use(self, disk: MemoryDisk) -> Family:
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        return Family("/state/ledger.jsonl")

    def started(self, family: Family) -> tuple[Segments, list[tuple[Position, bytes]]]:
        """Segments that were read from the first line on, and their lines."""
        segments = Segments(family)
        segments.open()
        segments.begin_reading(FIRST)
        found = []
        while piece := segments.next_lines(3):
            segments.count(len(piece.lines))
            found += [(Position(piece.segment, at), line or b"") for at, line in piece.lines]
        segments.begin_appending()
        return segments, found

    def test_every_crash_of_a_life(self) -> None:
        """A kill or a power loss after each step and within each write, and one more after that."""
        rng = Random(1)
        disk = MemoryDisk("/state")
        family = self.use(disk)
        segments, _ = self.started(family)
        written: list[tuple[Position, bytes]] = []
        told = Told(0, FIRST, sha256().hexdigest(), (), 0)
        for turn in range(12):
            group = [line(10 * turn + n) for n in range(rng.randrange(1, 4))]
            offset = segments.size
            for each in group:
                written.append((Position(segments.position.segment, offset), each[:-1]))
                offset += len(each)
            segments.append(b"".join(group), len(group))
            told = attrs.evolve(told, lines=len(written))
            disk.mark(told)
            if rng.random() < 0.5:
                segments.seal()
            if rng.random() < 0.5:
                told = Told(
                    len(written),
                    segments.position,
                    segments.active_sha256(),
                    tuple(segments.sealed),
                    len(written),
                )
                disk.mark(told)
        segments.close()
        checked = 0
        for state in disk.crash_states(few_bytes, rng, mixed=2):
            now = state.marks[-1] if state.marks else attrs.evolve(told, lines=0, covered=0)
            assert isinstance(now, Told)
            left = state.disk(recording=True)
            family = self.use(left)
            if now.covered:
                self.check_snapshot(family, now, written)
            half_sealed = state.killed and family.active not in state.contents()
            segments, found = self.started(family)
            self.assertEqual(found[: now.lines], written[: now.lines])
            # Of the group that was being written any number of whole lines may be there.
            self.assertEqual(found, written[: len(found)])
            self.assertLess(len(found) - now.lines, 4)
            segments.append(line(1000), 1)
            if half_sealed:
                self.check_second_crash(left, found)
                family = self.use(left)
            left.crash("/state", rng)
            segments, again = self.started(family)
            self.assertEqual([each[1] for each in again], [*(f[1] for f in found), line(1000)[:-1]])
            self.assertEqual(again[: len(found)], found)
            segments.close()
            checked += 1
        self.assertGreater(checked, 200)

    def check_snapshot(
        self, family: Family, now: Told, written: list[tuple[Position, bytes]]
    ) -> None:
        """What the newest snapshot covers is there, and what follows is read on from it."""
        segments = Segments(family)
        segments.open()
        self.assertIsNone(segments.damage_of(now.position, now.sha256, now.sealed))
        segments.begin_reading(now.position)
        lines = []
        while piece := segments.next_lines(100):
            lines += [each for _, each in piece.lines]
        self.assertEqual(
            lines[: now.lines - now.covered], [each for _, each in written[now.covered : now.lines]]
        )
        segments.close()

    def check_second_crash(self, disk: MemoryDisk, found: list[tuple[Position, bytes]]) -> None:
        """A start that found a seal broken off may be crashed in like any other."""
        for state in disk.crash_states(few_bytes):
            segments, again = self.started(self.use(state.disk()))
            self.assertEqual(again[: len(found)], found)
            segments.close()
