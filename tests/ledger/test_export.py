"""Tests for omnigate.ledger.export, and of omnigate.ledger.reading beside a writer."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import UsageEvent
from omnigate.ledger.export import COLUMNS, Export, as_csv, as_jsonl
from omnigate.ledger.family import Family
from omnigate.ledger.lines import encode_line
from omnigate.ledger.reading import SegmentReader, gaps_in, segments_of
from omnigate.periods import DAY_MS, rfc3339
from tests.usage import usage_event

#: 2026-11-29, the day of the events of these tests.
DAY = 1_795_910_400_000


def line(number: int, ts_ms: int = DAY, received_ms: int | None = None, **changes: object) -> bytes:
    """The line of event number n, which costs n nano-dollars."""
    event = usage_event(f"e{number}", ts_ms=ts_ms, **changes)
    return encode_line(event, number, rfc3339(ts_ms if received_ms is None else received_ms))


class LedgerFilesTestCase(SynchronousTestCase):
    """A test with the files of a ledger, at ``self.family``."""

    def setUp(self) -> None:
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        self.family = Family(str(folder / "ledger.jsonl"))

    def write(self, number: int, *lines: bytes, active: bool = False) -> str:
        """Write a segment; its path."""
        path = self.family.active if active else self.family.sealed(number)
        Path(path).write_bytes(b"".join(lines))
        return path


class ExportTests(LedgerFilesTestCase):
    """Export."""

    def export(self, first_ms: int = 0, end_ms: int = sys.maxsize, ids_days: int = 3) -> Export:
        self.told: list[str] = []
        return Export(self.family, first_ms, end_ms, ids_days, self.told.append)

    def test_sealed_segments_come_first(self) -> None:
        """The lines come as they stand, in the order of recording."""
        lines = [line(number) for number in range(6)]
        self.write(1, *lines[:2])
        self.write(2, *lines[2:3])
        self.write(3, *lines[3:], active=True)
        export = self.export()
        self.assertEqual(b"".join(as_jsonl(export.lines())), b"".join(lines))
        self.assertEqual((export.events, export.duplicates, export.faults), (6, 0, 0))

    def test_days_are_those_of_the_event(self) -> None:
        """Whenever it was recorded: the first and the last millisecond of a day belong to it."""
        times = (DAY - 1, DAY, DAY + DAY_MS - 1, DAY + DAY_MS)
        lines = [line(number, ts, DAY + 3 * DAY_MS) for number, ts in enumerate(times)]
        self.write(1, *lines, active=True)
        export = self.export(DAY, DAY + DAY_MS)
        self.assertEqual(list(export.lines()), [lines[1][:-1], lines[2][:-1]])

    def test_an_event_is_there_once(self) -> None:
        """As the ledger counts: by its id, for as long as that is remembered."""
        again = line(1, received_ms=DAY + 3 * DAY_MS)
        late = line(1, received_ms=DAY + 4 * DAY_MS)
        self.write(1, line(1), line(1))
        self.write(2, again, late, active=True)
        export = self.export()
        self.assertEqual(list(export.lines()), [line(1)[:-1], late[:-1]])
        self.assertEqual(export.duplicates, 2)
        self.assertEqual(len(list(self.export(ids_days=0).lines())), 1)

    def test_what_is_damaged_is_told(self) -> None:
        """With its file and its place; everything else is there."""
        bad = line(2).replace(b'"output_tokens":250', b'"output_tokens":251')
        path = self.write(1, line(1), bad, b"x" * 100_000 + b"\n", b'{"v":3}\n', line(3))
        self.write(2, line(4), line(5)[:-20], active=True)
        export = self.export()
        self.assertEqual(list(export.lines()), [line(n)[:-1] for n in (1, 3, 4)])
        self.assertEqual(export.faults, 3)
        self.assertIn(f"{path}: the line at offset {len(line(1))} cannot be read", self.told[0])
        self.assertIn("longer than", self.told[1])
        self.assertIn("version 3", self.told[2])

    def test_only_the_active_segment_has_a_torn_line(self) -> None:
        """A sealed one was whole, so what lacks its line end there is a line like any other."""
        path = self.write(1, line(1), line(2)[:-1])
        self.write(2, line(3), line(4)[:-9], active=True)
        export = self.export()
        self.assertEqual(list(export.lines()), [line(n)[:-1] for n in (1, 2, 3)])
        self.write(1, line(1), line(2)[:-9])
        export = self.export()
        self.assertEqual(list(export.lines()), [line(n)[:-1] for n in (1, 3)])
        self.assertIn(f"{path}: the line at offset {len(line(1))}", self.told[0])

    def test_a_segment_that_is_missing_is_told(self) -> None:
        """There is no other sign of what it held."""
        self.write(1, line(1))
        self.write(4, line(2))
        export = self.export()
        self.assertEqual(len(list(export.lines())), 2)
        self.assertEqual(len(self.told), 1)
        self.assertIn("segment 2 to 3 is missing", self.told[0])

    def test_a_segment_that_is_deleted_meanwhile_is_told(self) -> None:
        """Retention may get there first."""
        self.write(1, line(1))
        path = Path(self.write(2, line(2)))
        self.write(3, line(3), active=True)
        export = self.export()
        found = export.lines()
        self.assertEqual(next(found), line(1)[:-1])
        path.unlink()
        self.assertEqual(list(found), [line(3)[:-1]])
        self.assertEqual(self.told, [f"{path}: was deleted before it was read"])

    def test_progress_reaches_the_end(self) -> None:
        """It is told in bytes, and never goes back."""
        self.write(1, *[line(n) for n in range(2_500)])
        self.write(2, line(9_999), active=True)
        export, done = self.export(), list[int]()
        export.progress = done.append
        self.assertEqual(len(list(export.lines())), 2_501)
        self.assertEqual(done, sorted(done))
        self.assertGreaterEqual(len(done), 4)

    def test_csv(self) -> None:
        """One row an event under a line of names; attempts are counted."""
        self.write(1, line(1), line(2, upstream=None, cached=True, attempts=[]), active=True)
        text = b"".join(as_csv(self.export().objects())).decode()
        self.assertTrue(text.endswith("\r\n"))
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual(tuple(rows[0]), COLUMNS)
        event = json.loads(line(1))
        for name in ("id", "ts", "received_at", "key_sha256", "route_model", "upstream"):
            self.assertEqual(rows[0][name], event[name])
        self.assertEqual((rows[0]["cost_usd"], rows[0]["attempts"]), ("0.000000001", "1"))
        self.assertEqual((rows[1]["upstream"], rows[1]["cached"]), ("", "true"))

    def test_csv_has_no_formulas(self) -> None:
        """What a spreadsheet would run as one is text there."""
        for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1"):
            self.write(1, line(1, route_model=text), active=True)
            pieces = b"".join(as_csv(self.export().objects())).decode()
            row = next(csv.DictReader(io.StringIO(pieces, newline="")))
            self.assertEqual(row["route_model"], f"'{text}")

    def test_csv_of_a_line_without_checksum(self) -> None:
        """Text of it that is no longer UTF-8 is repaired."""
        old = json.dumps({**json.loads(line(1)), "target_model": "gpt?"}, separators=(",", ":"))
        old_line = old.replace('"v":2,', "").partition(',"crc32"')[0].encode() + b"}\n"
        self.write(1, old_line.replace(b"gpt?", b"gpt\xff"), active=True)
        export = self.export()
        (event,) = export.objects()
        self.assertEqual((event["target_model"], export.faults), ("gpt\ufffd", 0))

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.text(max_size=20), min_size=1, max_size=20))
    def test_any_text_is_one_cell(self, names: list[str]) -> None:
        """Quotes, commas and line ends stay within it."""
        events = [usage_event(str(n), route_model=name) for n, name in enumerate(names)]
        self.write(1, *[encode_line(event, 1, rfc3339(DAY)) for event in events], active=True)
        text = b"".join(as_csv(self.export().objects())).decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual([row["route_model"].removeprefix("'") for row in rows], plain(events))

    def test_large_answers_come_in_pieces(self) -> None:
        """Neither form is ever whole in memory."""
        self.write(1, *[line(n) for n in range(1_000)], active=True)
        self.assertGreater(len(list(as_jsonl(self.export().lines()))), 3)
        self.assertGreater(len(list(as_csv(self.export().objects()))), 1)


def plain(events: list[UsageEvent]) -> list[str]:
    """The model names as they are read back, without an apostrophe of their own."""
    return [event.route_model.removeprefix("'") for event in events]


class ReadingTests(LedgerFilesTestCase):
    """Beside a running control plane."""

    def test_a_segment_that_is_sealed_meanwhile(self) -> None:
        """Whether before or after it is opened, its own lines are read."""
        self.write(1, line(1), active=True)
        (segment,) = segments_of(self.family)
        began = segment.lines()
        Path(self.family.active).rename(self.family.sealed(1))
        self.write(2, line(2), active=True)
        self.assertEqual([found[1] for found in began], [line(1)[:-1]])
        self.assertEqual([found[1] for found in segment.lines()], [line(1)[:-1]])
        self.assertEqual(b"".join(segment.pieces(10)), line(1)[:10])
        self.assertEqual(segment.path, self.family.sealed(1))

    def test_a_segment_sealed_while_it_is_being_opened(self) -> None:
        """The new active segment is not taken for it."""
        self.write(1, line(1), active=True)
        segment = SegmentReader(self.family, 1, active=True)

        def sealing(path: str) -> Iterator[bytes]:
            Path(path).rename(self.family.sealed(1))
            self.write(2, line(2), active=True)
            yield Path(path).read_bytes()

        self.assertEqual(next(segment.lines())[1], line(1)[:-1])
        self.write(1, line(1), active=True)
        calls = iter([sealing, lambda path: iter([Path(path).read_bytes()])])
        found = segment._wherever(lambda path: next(calls)(path))
        self.assertEqual(list(found), [line(1)])

    def test_gaps(self) -> None:
        """Ranges of numbers that are not there."""
        numbers = [SegmentReader(self.family, number) for number in (2, 3, 5, 9, 10**12)]
        self.assertEqual(gaps_in(numbers), [(4, 4), (6, 8), (10, 10**12 - 1)])

    def test_nothing_there(self) -> None:
        """A folder without a ledger has one empty segment."""
        (segment,) = segments_of(Family(self.mktemp() + "/ledger.jsonl"))
        self.assertEqual(list(segment.lines()), [])
