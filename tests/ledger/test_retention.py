"""Tests for omnigate.ledger.retention."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.ledger.family import Position
from omnigate.ledger.retention import MAX_SEGMENTS, deletable, last_write, outdated
from omnigate.testing.memory_disk import MemoryDisk
from tests.ledger.ledger_case import line

DAYS = ["2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23"]


class OutdatedTests(SynchronousTestCase):
    """Which segments are too old."""

    def found(self, written: dict[int, str | None], cutoff: str) -> list[int]:
        self.read: list[int] = []

        def last(number: int) -> str | None:
            self.read.append(number)
            return written[number]

        return outdated(sorted(written), last, cutoff)

    def test_those_before_the_cutoff_go_but_the_newest_stays(self) -> None:
        """The numbering is read from the names, so one is always left."""
        written: dict[int, str | None] = dict(enumerate(DAYS, 5))
        self.assertEqual(self.found(written, "2026-11-22"), [5, 6])
        self.assertEqual(self.found(written, "2027"), [5, 6, 7])
        self.assertEqual(self.found(written, "2026-11-20"), [])
        self.assertEqual(self.found({}, "2027"), [])

    def test_one_that_cannot_be_read_is_as_old_as_the_next(self) -> None:
        """It was written no later than that; where none tells, it stays."""
        self.assertEqual(self.found({1: None, 2: DAYS[0], 3: DAYS[3]}, "2026-11-22"), [1, 2])
        self.assertEqual(self.found({1: None, 2: DAYS[3], 3: DAYS[3]}, "2026-11-22"), [])
        self.assertEqual(self.found({1: DAYS[0], 2: None, 3: None}, "2027"), [1])

    def test_some_at_a_time(self) -> None:
        """Of many only the oldest are looked at."""
        written: dict[int, str | None] = dict.fromkeys(range(1, 1000), DAYS[0])
        self.assertEqual(self.found(written, "2027"), list(range(1, MAX_SEGMENTS + 1)))
        self.assertLessEqual(len(set(self.read)), MAX_SEGMENTS + 1)

    @given(
        st.dictionaries(st.integers(1, 9), st.sampled_from([*DAYS, None])), st.sampled_from(DAYS)
    )
    def test_always_a_row_from_the_oldest_on(
        self, written: dict[int, str | None], cutoff: str
    ) -> None:
        """No segment goes before an older one, and none that was written after the cutoff."""
        found = self.found(written, cutoff)
        self.assertEqual(found, sorted(written)[: len(found)])
        self.assertLess(len(found), max(1, len(written)))
        for number in found:
            self.assertLess(written[number] or "", cutoff)


class DeletableTests(SynchronousTestCase):
    """Which of them two snapshots cover."""

    def test_both_generations_must_cover_a_segment(self) -> None:
        """A snapshot covers the segments before the one of its position."""
        cases: list[tuple[Position | None, Position | None, list[int]]] = [
            (Position(4, 0), Position(3, 700), [1, 2]),
            (Position(3, 700), Position(9, 0), [1, 2]),
            (Position(9, 0), None, []),
            (None, Position(9, 0), []),
            (Position(1, 9), Position(1, 5), []),
        ]
        for newest, spare, expected in cases:
            self.assertEqual(deletable([1, 2, 3], [newest, spare]), expected)


class LastWriteTests(SynchronousTestCase):
    """When a segment was written last."""

    def setUp(self) -> None:
        self.disk = MemoryDisk("/state", recording=False)
        self.patch(files, "os", self.disk)

    def test_the_last_line_that_can_be_read_tells(self) -> None:
        """Junk behind it does not hide it; a segment of junk tells nothing."""
        first, second = (line("e", f"{day}T10:00:00.000Z") for day in DAYS[:2])
        cases = [
            (first + second, f"{DAYS[1]}T10:00:00.000Z"),
            (first + b"junk\n" + second[20:], f"{DAYS[0]}T10:00:00.000Z"),
            (first * 1000 + second, f"{DAYS[1]}T10:00:00.000Z"),
            (b"junk\n" * 100_000, None),
            (b"", None),
        ]
        for content, expected in cases:
            self.disk.put("/state/segment", content)
            self.assertEqual(last_write("/state/segment"), expected)
