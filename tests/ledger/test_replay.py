"""Tests for omnigate.ledger.replay."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.ledger.books import Books
from omnigate.ledger.family import Family
from omnigate.ledger.lines import encode_line
from omnigate.ledger.recorded_ids import RecordedIds
from omnigate.ledger.replay import DAMAGE_LOGGED, LedgerUnreadableError, Replay
from omnigate.testing.memory_disk import MemoryDisk
from tests.ledger.test_lines import RECEIVED
from tests.usage import usage_event

KEY = "ab" * 32
PATH = "/state/ledger.jsonl"


class ReplayTests(SynchronousTestCase):
    """Reading into the books."""

    def setUp(self) -> None:
        disk = MemoryDisk("/state", recording=False)
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        self.replay = self.replaying(3)

    def replaying(self, ids_days: int) -> Replay:
        ids = RecordedIds(Family(PATH), ids_days)
        ids.open({})
        return Replay(Books(), ids)

    def enter(self, *lines: bytes | None) -> int:
        offset, found = 0, []
        for line in lines:
            found.append((offset, line))
            offset += len(line or b"")
        return self.replay.enter(PATH, found)

    def cost(self) -> int:
        return self.replay.books.totals.lifetime([KEY]).cost_nano

    def line(self, name: str, cost_nano: int = 1, day: str = RECEIVED[:10]) -> bytes:
        return encode_line(usage_event(name), cost_nano, day + RECEIVED[10:])

    def test_each_id_counts_once(self) -> None:
        """Within one slice, and over several; the first line stands."""
        self.assertEqual(self.enter(self.line("a", 1), self.line("b", 2), self.line("a", 4)), 2)
        self.assertEqual(self.enter(self.line("b", 8), self.line("c", 16)), 1)
        self.assertEqual((self.replay.events, self.replay.duplicates), (3, 2))
        self.assertEqual(self.cost(), 1 + 2 + 16)

    def test_ids_are_forgotten_as_the_days_went_by(self) -> None:
        """An event that was rightly recorded again, its id long forgotten, counts again."""
        self.replay = self.replaying(1)
        days = ("2026-11-27", "2026-11-28", "2026-11-29")
        self.assertEqual(self.enter(*(self.line("e", 1, day) for day in days)), 2)
        self.assertEqual(self.replay.duplicates, 1)

    def test_damage_is_counted_and_noted_up_to_a_bound(self) -> None:
        """A file full of junk fills no log."""
        self.assertEqual(self.enter(*(b"junk %d\n" % n for n in range(100)), None), 0)
        self.assertEqual((self.replay.events, self.replay.damaged), (0, 101))
        self.assertEqual(len(self.replay.notes), DAMAGE_LOGGED)
        self.assertIn(f"{PATH}: the line at offset 7 is damaged", self.replay.notes[1].text)

    def test_a_line_of_a_later_version_ends_it(self) -> None:
        """With the place and the remedy."""
        error = self.assertRaises(
            LedgerUnreadableError, self.enter, self.line("a"), b'{"v":3,"what":"ever"}\n'
        )
        self.assertIn(f"{PATH} at offset {len(self.line('a'))}", str(error))

    def test_lines_of_other_kinds_are_counted(self) -> None:
        """Members that this version does not know change nothing."""
        line = self.line("job", 5)
        head, tail = line[:-2].rsplit(b',"crc32"', 1)
        self.assertTrue(tail)
        plain = head.replace(b'{"v":2,', b'{"kind":"media",') + b"}"
        self.assertEqual(self.enter(plain), 1)
        self.assertEqual(self.cost(), 5)
