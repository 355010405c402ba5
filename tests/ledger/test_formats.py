"""Files of the first version of every format are read for ever, and the page of formats is right.

``first/`` holds what the first versions wrote: ``lines-1.jsonl`` the version whose lines had no
checksum, with nothing beside the one file; ``family/`` the first one with segments, snapshots and
id files, which was started on that file, recorded more, was stopped, started again, and killed.
They are never made anew. Whoever adds a version keeps a file of it here, beside these.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import msgspec
from twisted.internet.task import Clock
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.ledger.family import Family
from omnigate.ledger.id_file import HEADER
from omnigate.ledger.id_table import DIGEST_BYTES, PARTS, Digests, IdTable, id_digest
from omnigate.ledger.lines import LINE_VERSION, MAX_LINE_BYTES, DamagedLineError, decode_line
from omnigate.ledger.service import Ledger
from omnigate.ledger.snapshots import decode
from omnigate.ledger.verify import verify
from omnigate.money import Price
from omnigate.testing.writer import SynchronousWriter
from tests.usage import usage_event

FIRST = Path(__file__).parent / "first"
PAGE = Path(__file__).parent.parent.parent / "docs" / "ledger.md"

KEY_A, KEY_B = "a1" * 32, "b2" * 32

#: When the family was killed.
KILLED_MS = 1_796_094_003_000

#: What each key comes to: requests, the four counts, and the cost in nano-dollars.
OF_LINES_1 = {
    KEY_A: (4, 2_700, 300, 0, 750, 123_749_299),
    KEY_B: (2, 1_800, 200, 40, 500, 7_000_000_001),
}
OF_FAMILY = {
    KEY_A: (6, 4_500, 500, 0, 1_250, 124_334_299),
    KEY_B: (4, 3_600, 400, 40, 1_000, 7_000_292_501),
}
DAYS_OF_FAMILY = {
    "2026-10-30": (1, 7_000_000_000),
    "2026-11-29": (4, 123_749_290),
    "2026-11-30": (3, 585_010),
    "2026-12-01": (2, 292_500),
}


class FirstVersionTests(SynchronousTestCase):
    """A real start from kept files."""

    def started(self, source: str, *without: str) -> Ledger:
        """Start a ledger from a copy of these files, less some of them."""
        self.folder = Path(self.mktemp())
        if (FIRST / source).is_dir():
            shutil.copytree(FIRST / source, self.folder)
        else:
            self.folder.mkdir()
            shutil.copy(FIRST / source, self.folder / "ledger.jsonl")
        for name in without:
            (self.folder / name).unlink()
        self.clock = Clock()
        self.clock.advance(KILLED_MS / 1000)
        path = str(self.folder / "ledger.jsonl")
        ledger = Ledger(path, self.clock, SynchronousWriter(), lambda event: Price(0, 0, 0, 0))
        self.successResultOf(ledger.open())
        self.addCleanup(self.stopped, ledger)
        return ledger

    def stopped(self, ledger: Ledger) -> None:
        """Stop a ledger, and let the snapshot that is due be written."""
        closing = ledger.close()
        self.clock.pump([0.01] * 10)
        self.successResultOf(closing)

    def check(self, ledger: Ledger, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Hold the sums of each key against what is known."""
        found = {key: figures_of(ledger, key) for key in expected}
        self.assertEqual(found, expected)
        self.assertEqual(len(ledger.totals("key")), len(expected))

    def resent(self, ledger: Ledger, count: int) -> tuple[int, int]:
        """Send all events of the kept files again: how many counted, how many did not."""
        events = [msgspec.to_builtins(usage_event(f"{n:032x}")) for n in range(1, count + 1)]
        result = self.successResultOf(ledger.record(events))
        return result.recorded, result.duplicates

    def test_lines_of_version_1(self) -> None:
        """One file of lines without a checksum, with one event twice."""
        ledger = self.started("lines-1.jsonl")
        self.check(ledger, OF_LINES_1)
        self.assertEqual(ledger.counters.replay_duplicates, 1)
        self.assertEqual(self.resent(ledger, 6), (0, 6))

    def test_a_family(self) -> None:
        """The snapshot is taken, and the one line behind it read."""
        ledger = self.started("family")
        self.check(ledger, OF_FAMILY)
        days = {row.name: (row.sums.requests, row.sums.cost_nano) for row in ledger.totals("day")}
        self.assertEqual(days, DAYS_OF_FAMILY)
        self.assertEqual(ledger.counters.replayed, 1)
        self.assertEqual(self.resent(ledger, 10), (0, 10))

    def test_the_spare(self) -> None:
        """It is of the same format, and the same comes of it."""
        ledger = self.started("family", "ledger.snapshot")
        self.check(ledger, OF_FAMILY)
        self.assertEqual(ledger.counters.replayed, 2)
        self.assertEqual(self.resent(ledger, 10), (0, 10))

    def test_segments_alone(self) -> None:
        """Lines of both versions in one segment; the same comes of them."""
        ledger = self.started("family", "ledger.snapshot", "ledger.snapshot.prev")
        self.check(ledger, OF_FAMILY)
        self.assertEqual(ledger.counters.replayed, 10)
        self.assertEqual(self.resent(ledger, 10), (0, 10))

    def test_a_table(self) -> None:
        """It holds the ids of its day, and no other."""
        path = FIRST / "family" / "ledger.ids.2026-11-29"
        records = path.read_bytes().removeprefix(HEADER)
        table_file = path.with_name(path.name + ".table").read_bytes()
        head, table = IdTable.decode([table_file], len(table_file))
        self.assertEqual(head.days, {"2026-11-29": (4, crc32(records))})
        self.assertEqual(len(table), 4)
        some = Digests(b"".join(id_digest(f"{n:032x}") for n in range(1, 11)))
        self.assertEqual(table.missing(some, range(10)), list(range(4, 10)))

    def test_what_is_written_on(self) -> None:
        """After a start, one more event, and a stop, all files agree."""
        for source in ("lines-1.jsonl", "family"):
            ledger = self.started(source)
            event = msgspec.to_builtins(usage_event("one more", ts_ms=KILLED_MS))
            self.assertEqual(self.successResultOf(ledger.record([event])).recorded, 1)
            self.stopped(ledger)
            findings = verify(Family(str(self.folder / "ledger.jsonl")), 3)
            self.assertEqual([str(found) for found in findings.first], [])
            self.assertIn("events compared", findings.checked[-2])

    def test_the_kept_files_agree(self) -> None:
        """Nobody touched them."""
        findings = verify(Family(str(FIRST / "family" / "ledger.jsonl")), 3)
        self.assertEqual([str(found) for found in findings.first], [])
        self.assertEqual((findings.events, findings.duplicates), (10, 1))
        self.assertEqual(len(findings.checked), 3)


def figures_of(ledger: Ledger, key: str) -> tuple[int, ...]:
    """The figures of a key."""
    sums = ledger.lifetime([key])
    return (
        sums.requests,
        sums.input_tokens,
        sums.cached_input_tokens,
        sums.cache_write_input_tokens,
        sums.output_tokens,
        sums.cost_nano,
    )


class PageTests(SynchronousTestCase):
    """The examples of docs/ledger.md."""

    def setUp(self) -> None:
        if not PAGE.is_file():
            raise SkipTest("the pages are in the checkout only, not in the installed package")
        self.page = PAGE.read_text(encoding="utf-8")

    def example(self, begin: str) -> bytes:
        """The example that begins so, its broken lines put together again."""
        blocks = re.findall(r"(?m)(?:^    .*\n)+", self.page)
        (block,) = [block for block in blocks if block.startswith(f"    {begin}")]
        text = block.replace("\n      ", "")
        return re.sub(r"(?m)^    ", "", text).encode("utf-8")

    def test_lines(self) -> None:
        """Both versions, of one event; the newer one with its right checksum."""
        new, old = self.example('{"v":2,'), self.example('{"id":')
        event, cost_nano = decode_line(new)
        self.assertEqual((event.v, cost_nano), (LINE_VERSION, 292_500))
        self.assertRaises(DamagedLineError, decode_line, new.replace(b":900,", b":901,"))
        of_old, old_cost = decode_line(old)
        self.assertEqual((of_old.v, of_old.id, old_cost), (1, event.id, cost_nano))

    def test_every_member_of_a_line_is_told(self) -> None:
        """As the example has them."""
        told = re.findall(r"`(\w+)`", self.page.partition("| member |")[2].partition("\n\n")[0])
        for name in msgspec.json.decode(self.example('{"v":2,')):
            self.assertIn(name, told)

    def test_snapshot(self) -> None:
        """It is of the line's ledger, and a start would take it."""
        line = self.example('{"v":2,')
        head, books = decode(self.example("omnigate-ledger-snapshot 1"))
        self.assertEqual((head.position.segment, head.position.offset), (1, len(line)))
        self.assertEqual(sum(row[0] for row in books.totals.lifetimes.values()), 1)
        for kind in ("lifetime", "month", "day", "day_key", "day_model", "day_upstream"):
            self.assertIn(f'`["{kind}", ', self.page)

    def test_ids(self) -> None:
        """The id file of the line's ledger, and the checksum that a table's head has of it."""
        event, _ = decode_line(self.example('{"v":2,'))
        dump = self.example("00000000  ").decode()
        data = bytes.fromhex("".join(row[8:] for row in dump.splitlines()))
        self.assertEqual(data, HEADER + id_digest(event.id))
        self.assertIn(f'"days":{{"2026-11-29":[1,{crc32(id_digest(event.id))}]}}', self.page)
        self.assertIn(f"each of the {PARTS} parts", self.page)
        self.assertIn(f"{DIGEST_BYTES} × slots", self.page)
        self.assertIn(f"at most\n{MAX_LINE_BYTES:,} bytes", self.page)
