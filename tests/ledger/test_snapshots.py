"""Tests for omnigate.ledger.snapshots and the rows of a snapshot."""

import errno
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger import snapshots
from omnigate.ledger import totals as totals_module
from omnigate.ledger.books import Books
from omnigate.ledger.family import Position, SealedSegment
from omnigate.ledger.lines import decode_line, encode_line
from omnigate.ledger.snapshots import (
    DamagedSnapshotError,
    NewerSnapshotError,
    SnapshotHead,
    decode,
    encode,
)
from omnigate.ledger.tables import QUARTER_MS
from omnigate.periods import DAY_MS, PERIODS, bounds, rfc3339
from tests.ledger.test_totals import NOV_29, Usage
from tests.ledger.zones import ODD_ZONES, PLACES
from tests.usage import usage_event

HEAD = SnapshotHead(
    written_at="2026-11-29T12:00:00.000Z",
    position=Position(7, 123),
    active_sha256="ab" * 32,
    sealed=(SealedSegment(5, 67_108_900, "cd" * 32, 1000), SealedSegment(6, 10, "ef" * 32, 1)),
    ids={"2026-11-28": 5, "2026-11-29": 0},
    events=0,
)

KINDS = (
    "lifetime",
    "month",
    "day",
    "day_key",
    "day_model",
    "day_upstream",
    "quarters",
    "recent",
)

#: The first version, as it was written then. It is read for ever.
GOLDEN = Path(__file__).parent / "snapshot-v1.bin"


def some_books() -> Books:
    """Books of every kind of row: days of the past, quarters, no upstream, names with quotes."""
    books = Books()
    books.totals.drop_before(NOV_29)
    for number in range(8):
        event = usage_event(f"id{number}", ts_ms=NOV_29 - number * 11 * DAY_MS + number * 3_000_000)
        event.key_sha256 = ("ab" if number % 3 else "cd") * 32
        event.route_model = 'quo"te\\\n\u00e9\U0001f600' if number == 4 else "fast"
        if number % 4 == 3:
            event.upstream = event.target_model = None
        line = encode_line(event, (number + 1) % 8 * 1_000_000_007, rfc3339(NOV_29))
        books.replay([(*decode_line(line), line)])
    books.totals.drop_before(NOV_29 + DAY_MS)
    return books


def file_of(books: Books, **changes: Any) -> bytes:
    head = attrs.evolve(HEAD, events=books.totals.events, **changes)
    return b"".join(encode(head, books.rows()))


def sealed(payload: bytes, magic: bytes = b"omnigate-ledger-snapshot 1\n") -> bytes:
    """A file with the right checksum, whatever the payload."""
    return b"%b%b\n%b" % (magic, sha256(payload).hexdigest().encode(), payload)


def payload_of(file: bytes) -> list[bytes]:
    """The head and the rows of a file, each with its newline."""
    return file.split(b"\n", 2)[2].splitlines(keepends=True)


def with_rows(file: bytes, rows: list[bytes]) -> bytes:
    """A file with other rows, of which the head tells right."""
    head = json.loads(payload_of(file)[0])
    head["rows"] = len(rows)
    return sealed(b"".join([msgspec.json.encode(head) + b"\n", *rows]))


NAMES = st.text(max_size=5)
COUNTS = st.integers(0, 10**12)
USAGES = st.builds(
    Usage,
    key_sha256=st.sampled_from(["k1", "k2", "k3"]) | NAMES,
    route_model=st.sampled_from(["fast", "slow"]) | NAMES,
    upstream=st.sampled_from(["openai", "local", None]) | NAMES,
    input_tokens=COUNTS,
    cached_input_tokens=COUNTS,
    cache_write_input_tokens=COUNTS,
    output_tokens=COUNTS,
    ts_ms=st.integers(NOV_29 - 40 * DAY_MS, NOV_29 + DAY_MS) | st.integers(0, 253_402_300_799_999),
)
EVENTS = st.lists(
    st.tuples(USAGES, st.just(0) | st.integers(0, 10**15) | st.integers(0, 10**22)), max_size=20
)
TURNS = st.none() | st.integers(NOV_29 - 50 * DAY_MS, NOV_29 + 900 * DAY_MS)


def enter(books: Books, events: list[tuple[Usage, int]], turn: int | None) -> None:
    for usage, cost in events:
        books.totals.count(usage, cost)
    if turn is not None:
        books.totals.drop_before(turn)


class RoundTripTests(SynchronousTestCase):
    """What is written is read back the same."""

    def assert_round_trip(self, books: Books) -> Books:
        """Write, read and write once more; return what was read."""
        file = file_of(books)
        head, back = decode(file)
        rows = len(payload_of(file)) - 1
        self.assertEqual(head, attrs.evolve(HEAD, events=books.totals.events, rows=rows))
        self.assertTrue(back == books)
        self.assertTrue(back.totals.key_day_rows == books.totals.key_day_rows)
        self.assertTrue(back.totals.key_month_rows == books.totals.key_month_rows)
        # From what is remembered of the first writing, and from what was read.
        self.assertEqual(file_of(books), file)
        self.assertEqual(file_of(back), file)
        return back

    def test_empty_books(self) -> None:
        """A ledger without events has a snapshot of no rows."""
        self.assert_round_trip(Books())

    def test_all_kinds_of_rows(self) -> None:
        """Every kind is there, and the list of recent events."""
        books = some_books()
        kinds = {json.loads(row)[0] for row in payload_of(file_of(books))[1:]}
        self.assertEqual(kinds, set(KINDS))
        back = self.assert_round_trip(books)
        self.assertEqual(len(back.recent(100)), 8)
        self.assertEqual(back.recent(100), books.recent(100))

    @settings(max_examples=200, deadline=None)
    @given(EVENTS, TURNS, EVENTS, TURNS, st.booleans())
    def test_any_books(
        self,
        first: list[tuple[Usage, int]],
        turn: int | None,
        second: list[tuple[Usage, int]],
        later: int | None,
        tight: bool,
    ) -> None:
        """Whatever was counted and dropped, before a snapshot and after it."""
        bound = {"KEY_DAY_ROWS": 4, "KEY_MONTH_ROWS": 4, "NAMES_PER_DAY": 2, "DAYS_HELD": 6}
        patches = [self.patch(totals_module, name, bound[name]) for name in bound if tight]
        try:
            self.assert_books(first, turn, second, later)
        finally:
            for patch in patches:
                patch.restore()

    def assert_books(
        self,
        first: list[tuple[Usage, int]],
        turn: int | None,
        second: list[tuple[Usage, int]],
        later: int | None,
    ) -> None:
        """Take snapshots of some books, and go on with both them and what was read."""
        books = Books()
        enter(books, first, turn)
        back = self.assert_round_trip(books)
        back.totals.kept = books.totals.kept
        for each in (books, back):
            enter(each, second, later)
        self.assertTrue(books == back)
        self.assertEqual(file_of(books), file_of(back))
        self.assert_round_trip(books)
        for period in PERIODS:
            for zone in ("UTC", "Asia/Kathmandu", "America/New_York"):
                now = NOV_29 if later is None else later
                spent = [
                    each.totals.spend_nano(["k1"], period, now, zone) for each in (books, back)
                ]
                self.assertEqual(spent[0], spent[1])

    def test_a_damaged_line_among_the_recent_ones_does_not_spoil_a_snapshot(self) -> None:
        """What cannot be read back as a row is left out; one that nobody can show is kept."""
        for bad, kept in ((b'"\xff"', 1), (b'"\\ud800"', 0), (b"01", 0)):
            books = Books()
            event = usage_event("e")
            line = encode_line(event, 1, rfc3339(NOV_29))
            books.replay([(*decode_line(line), line.replace(b'"ok"', bad))])
            rows = [row for row in payload_of(file_of(books)) if row.startswith(b'["recent"')]
            self.assertEqual(len(rows), kept)
            decode(file_of(books))

    def test_none_is_written_that_could_not_be_read(self) -> None:
        """One byte more than is read back is refused, and not as damage of a file."""
        books = some_books()
        size = len(file_of(books))
        self.patch(snapshots, "MAX_SNAPSHOT_BYTES", size)
        self.assertEqual(len(file_of(books)), size)
        self.patch(snapshots, "MAX_SNAPSHOT_BYTES", size - 1)
        error = self.assertRaises(OSError, file_of, books)
        self.assertEqual(error.errno, errno.EFBIG)

    def test_pieces_are_small(self) -> None:
        """However many keys there are, no piece has more than 500 rows."""
        books = Books()
        for number in range(1700):
            books.totals.count(Usage(key_sha256=f"{number:064x}"), 5)
        for chunk in books.rows():
            self.assertTrue(chunk.count(b"\n") <= 500)
        self.assert_round_trip(books)

    def test_what_did_not_change_is_not_written_anew(self) -> None:
        """Past days are the same bytes; a late event makes them anew."""
        books = some_books()
        file_of(books)

        def days() -> list[int]:
            chunks = [chunk for chunk in books.rows() if chunk.startswith(b'["day')]
            return [id(chunk) for chunk in chunks]

        before = days()
        self.assertEqual(days(), before)
        books.totals.count(Usage(ts_ms=NOV_29), 5)
        after = days()
        self.assertNotEqual(after, before)
        self.assertTrue(len(set(after) & set(before)) > 10)
        self.assert_round_trip(books)

    def test_an_event_between_two_pieces_is_not_forgotten(self) -> None:
        """Pieces that were overtaken are not kept for the next snapshot."""
        books = some_books()
        for chunk in books.rows():
            if chunk.startswith(b'["day_model","2026-11-29"'):
                books.totals.count(Usage(key_sha256="ab" * 32, route_model="fast"), 5)
        self.assert_round_trip(books)

    def test_the_day_may_turn_while_a_snapshot_is_made(self) -> None:
        """What is dropped between two pieces leaves a snapshot that agrees with itself."""
        pieces = sum(1 for _ in some_books().rows())
        self.assertTrue(pieces > 30)
        for place in range(pieces):
            for days in (2, 40, 400, 3000):
                books = some_books()
                head = attrs.evolve(HEAD, events=books.totals.events)
                chunks: list[bytes] = []
                for chunk in books.rows():
                    chunks.append(chunk)
                    if len(chunks) == place:
                        names = ("KEY_DAY_ROWS", "KEY_MONTH_ROWS")
                        patches = [self.patch(totals_module, name, 3) for name in names]
                        books.totals.drop_before(NOV_29 + days * DAY_MS)
                        for patch in patches:
                            patch.restore()
                _, back = decode(b"".join(encode(head, chunks)))
                self.assertTrue(back.totals.lifetimes == books.totals.lifetimes)
                self.assert_round_trip(books)

    def test_a_table_may_be_dropped_while_it_is_written(self) -> None:
        """A month, a day's keys and its quarters, in the midst of their rows."""
        for start in (b'["month","2026-10"', b'["day_key","2026-10-20"', b'["quarters"'):
            books = Books()
            for days in (40, 2):
                for number in range(700):
                    usage = Usage(key_sha256=f"{number:064x}", ts_ms=NOV_29 - days * DAY_MS)
                    books.totals.count(usage, 5)
            head = attrs.evolve(HEAD, events=books.totals.events)
            chunks: list[bytes] = []
            dropped = False
            for chunk in books.rows():
                chunks.append(chunk)
                if chunk.startswith(start) and not dropped:
                    dropped = True
                    names = ("KEY_DAY_ROWS", "KEY_MONTH_ROWS")
                    patches = [self.patch(totals_module, name, 3) for name in names]
                    books.totals.drop_before(NOV_29 + 30 * DAY_MS)
                    for patch in patches:
                        patch.restore()
            self.assertTrue(dropped)
            _, back = decode(b"".join(encode(head, chunks)))
            self.assertTrue(back.totals.lifetimes == books.totals.lifetimes)
            self.assertFalse(back == books)
            self.assert_round_trip(books)

    def test_a_snapshot_given_up_half_way_leaves_nothing_behind(self) -> None:
        """The next one is whole."""
        books = some_books()
        for end in range(1, 40):
            for _, _chunk in zip(range(end), books.rows(), strict=False):
                pass
            self.assert_round_trip(some_books())
            self.assertEqual(file_of(books), file_of(some_books()))
            books = some_books()


class RestartTests(SynchronousTestCase):
    """The spend of periods in progress, over restarts."""

    @settings(max_examples=200, deadline=None)
    @given(
        st.integers(315_532_800_000, 2_145_916_800_000),
        st.lists(
            st.tuples(st.just("pass"), st.integers(0, 40 * 24), st.just(0))
            | st.tuples(st.just("event"), st.integers(-96, 40 * 96), st.integers(0, 10**15))
            | st.tuples(st.just("restart"), st.integers(0, 10 * 24), st.just(0)),
            max_size=25,
        ),
        st.sampled_from(ODD_ZONES) | st.sampled_from(PLACES),
    )
    def test_any_period_is_exact_after_any_restart(
        self, now: int, steps: list[tuple[str, int, int]], zone: str
    ) -> None:
        """A snapshot of an earlier day has the quarters of an hour that are needed later."""
        books = Books()
        books.totals.drop_before(now)
        events: list[tuple[int, int]] = []
        for what, amount, cost in steps:
            if what == "event":
                ts_ms = max(0, now - amount * QUARTER_MS + cost % 7 - 3)
                events.append((ts_ms, cost))
                books.totals.count(Usage(ts_ms=ts_ms), cost)
                continue
            now += amount * 3_600_000
            if what == "restart":
                books = decode(file_of(books))[1]
            books.totals.drop_before(now)
            for period in PERIODS:
                start, end = bounds(period, now, zone)
                exact = sum(cost for ts_ms, cost in events if start <= ts_ms < end)
                spent = books.totals.spend_nano(["k1"], period, now, zone)
                self.assertEqual(spent, exact, (zone, period))


class DamageTests(SynchronousTestCase):
    """Nothing but what was written is accepted."""

    def refuse(self, file: bytes) -> str:
        return str(self.assertRaises(DamagedSnapshotError, decode, file))

    def setUp(self) -> None:
        """Write a snapshot."""
        self.books = some_books()
        self.file = file_of(self.books)
        self.rows = payload_of(self.file)[1:]

    def test_any_byte_changed(self) -> None:
        """By one bit, or to any of a few others."""
        for place in range(len(self.file)):
            for flip in (0x01, 0x80):
                changed = bytearray(self.file)
                changed[place] ^= flip
                self.refuse(bytes(changed))

    def test_any_cut(self) -> None:
        """At each byte, and with anything behind."""
        for end in range(len(self.file)):
            self.refuse(self.file[:end])
        for more in (b"\n", b" ", b"\x00", self.rows[-1]):
            self.refuse(self.file + more)

    def test_what_is_no_snapshot(self) -> None:
        """Another file, and an empty one."""
        for data in (b"", b"\n", b"{}\n", b"omnigate-ledger-snapshot 01\n", b"\x00" * 1000):
            self.assertIn("line 1", self.refuse(data))
        self.assertIn("line 2", self.refuse(b"omnigate-ledger-snapshot 1\n"))
        self.assertIn("line 1", self.refuse(self.file.replace(b"\n", b"\r\n", 2)))
        self.assertIn("line 3", self.refuse(sealed(b"")))
        self.assertIn("line 3", self.refuse(sealed(b"{}")))

    def test_any_row_cut_or_doubled_under_a_right_checksum(self) -> None:
        """The head tells how many there are."""
        head = payload_of(self.file)[0]
        for place in range(len(self.rows)):
            cut = self.rows[:place] + self.rows[place + 1 :]
            self.refuse(sealed(head + b"".join(cut)))
            doubled = self.rows[: place + 1] + self.rows[place:]
            self.refuse(sealed(head + b"".join(doubled)))

    def test_any_row_doubled_or_moved_though_the_head_tells_of_it(self) -> None:
        """A name stands once, and each row in its place. Events of the list may stand twice."""
        for place, row in enumerate(self.rows):
            if row.startswith(b'["recent"'):
                continue
            doubled = self.rows[: place + 1] + self.rows[place:]
            message = self.refuse(with_rows(self.file, doubled))
            self.assertTrue(message.startswith("line "), message)
            if not row.startswith(b'["lifetime"'):
                self.refuse(
                    with_rows(self.file, [row, *self.rows[:place], *self.rows[place + 1 :]])
                )
            self.refuse(with_rows(self.file, [*self.rows[:place], *self.rows[place + 1 :], row]))

    def test_rows_left_out_though_the_head_does_not_tell_of_them(self) -> None:
        """Those that others add up to are missed."""
        for place, row in enumerate(self.rows):
            if not row.startswith((b'["recent"', b'["month"')):
                rows = self.rows[:place] + self.rows[place + 1 :]
                self.refuse(with_rows(self.file, rows))

    def test_the_line_of_the_damage_is_named(self) -> None:
        """As an editor counts the lines of the file; of damage in two lines, one of them."""
        for place, row in enumerate(self.rows):
            damaged = [b'["other",1]\n', b"5\n", b"\n", row[:-2] + b" ]\n", row[:-2] + b",]\n"]
            members = json.loads(row)
            for index, member in enumerate(members):
                if isinstance(member, int) and not isinstance(member, bool):
                    changed = [*members[:index], -1, *members[index + 1 :]]
                    damaged.append(json.dumps(changed).encode() + b"\n")
            for bad in damaged:
                if bad[-3:] == b" ]\n" and not row.startswith(b'["recent"'):
                    continue  # only white space, and no text is taken out of it
                rows = [*self.rows[:place], bad, *self.rows[place + 1 :]]
                message = self.refuse(with_rows(self.file, rows))
                self.assertTrue(message.startswith(f"line {place + 4}: "), (message, bad))

    def test_the_line_among_many_is_named(self) -> None:
        """In the midst of a run of rows that are read at once."""
        books = Books()
        for number in range(1200):
            books.totals.count(Usage(key_sha256=f"{number:064x}"), 5)
        file = file_of(books)
        rows = payload_of(file)[1:]
        for place in (0, 3, 499, 500, 777, 1199, 1200, 1900, 2500, len(rows) - 1):
            for bad in (rows[place].replace(b"[", b"[[", 1), rows[place - 1]):
                changed = [*rows[:place], bad, *rows[place + 1 :]]
                message = self.refuse(with_rows(file, changed))
                if bad.startswith(b"[["):
                    self.assertTrue(message.startswith(f"line {place + 4}: "), (message, bad))

    def test_numbers_and_names_out_of_range(self) -> None:
        """Each member of each row is of its type, within its range, and one number of many."""
        bad: list[Any] = [-1, 0.5, "1", None, True, [], {}, -(10**30)]
        for place, row in enumerate(self.rows):
            members = json.loads(row)
            if members[0] == "recent":
                continue
            for index in range(len(members)):
                for value in bad:
                    if members[0] == "day_upstream" and index == 2 and value in ("1", None):
                        continue
                    if isinstance(members[index], str) and isinstance(value, str):
                        continue
                    if isinstance(members[index], bool) and isinstance(value, bool):
                        continue
                    changed = [*members[:index], value, *members[index + 1 :]]
                    rows = list(self.rows)
                    rows[place] = json.dumps(changed).encode() + b"\n"
                    self.refuse(with_rows(self.file, rows))
            for changed in (members[:-1], [*members, 1], []):
                rows = list(self.rows)
                rows[place] = json.dumps(changed).encode() + b"\n"
                self.refuse(with_rows(self.file, rows))

    def test_rows_that_disagree(self) -> None:
        """A figure of a day that is one more or less than the others add up to."""
        for place, row in enumerate(self.rows):
            members = json.loads(row)
            if not members[0].startswith("day"):
                continue
            for index in range(len(members)):
                if isinstance(members[index], bool) or not isinstance(members[index], int):
                    continue
                for by in (-1, 1):
                    changed = list(members)
                    changed[index] += by
                    rows = list(self.rows)
                    rows[place] = json.dumps(changed).encode() + b"\n"
                    self.refuse(with_rows(self.file, rows))

    def test_quarters_that_disagree(self) -> None:
        """They add up to their day, are 96, and stand only where they are kept."""
        place = next(n for n, row in enumerate(self.rows) if row.startswith(b'["quarters"'))
        kind, day, key, costs = json.loads(self.rows[place])
        (quarter, cost), *_ = costs.items()
        for changed in (
            {quarter: cost + 1},
            {quarter: cost, "95": 1},
            {"96": cost},
            {"-1": cost},
            {"x": cost},
            {quarter: cost, "0": 0},
            {},
        ):
            rows = list(self.rows)
            rows[place] = json.dumps([kind, day, key, changed]).encode() + b"\n"
            self.refuse(with_rows(self.file, rows))

    def test_flags_that_disagree(self) -> None:
        """A day says whether it has rows by key, and quarters of an hour."""
        for place, row in enumerate(self.rows):
            members = json.loads(row)
            if members[0] != "day":
                continue
            for by_key, quarters in ((False, False), (False, True), (True, not members[-1])):
                rows = list(self.rows)
                changed = [*members[:-2], by_key, quarters]
                rows[place] = json.dumps(changed).encode() + b"\n"
                # A day that cost nothing has no quarters to miss.
                if by_key and members[-3] == 0:
                    continue
                self.refuse(with_rows(self.file, rows))

    def test_months_that_disagree(self) -> None:
        """No month of a key, and not all of them together, are more than its lifetime."""
        book = Books()
        book.totals.count(Usage(), 5)
        file = file_of(book)
        rows = payload_of(file)[1:]
        month = b'["month","2026-11","k1",%d,10,3,2,5,5]\n'
        self.assertIn(month % 1, rows)
        place = rows.index(month % 1)
        for wrong in (
            [month % 2],
            [month % 1, month.replace(b"-11", b"-12") % 1],
            [month.replace(b"k1", b"k2") % 1],
            [month.replace(b"-11", b"-1") % 1],
            [month.replace(b"2026", b"1969") % 1],
        ):
            self.refuse(with_rows(file, [*rows[:place], *wrong, *rows[place + 1 :]]))

    def test_heads_out_of_range(self) -> None:
        """Each member of the head is checked under a right checksum, too."""
        head_line, *rows = payload_of(self.file)
        head = json.loads(head_line)
        one = head["sealed"][0]
        cases: list[tuple[str, Any]] = [
            ("version", 0),
            ("version", "1"),
            ("written_at", "yesterday"),
            ("written_at", 5),
            ("segment", 0),
            ("segment", 6),
            ("offset", -1),
            ("active_sha256", "AB" * 32),
            ("active_sha256", "ab"),
            ("active_sha256", "ab" * 32 + "\n"),
            ("sealed", [one, one]),
            ("sealed", [head["sealed"][1], one]),
            ("sealed", [{**one, "size": -1}]),
            ("sealed", [{**one, "sha256": ""}]),
            ("sealed", [{**one, "more": 1}]),
            ("sealed", {}),
            ("ids", {"today": 1}),
            ("ids", {"2026-11-29": -1}),
            ("ids", []),
            ("events", head["events"] + 1),
            ("events", head["events"] - 1),
            ("rows", head["rows"] + 1),
            ("rows", head["rows"] - 1),
            ("more", 1),
        ]
        for name, value in cases:
            changed = json.dumps({**head, name: value}).encode() + b"\n"
            message = self.refuse(sealed(b"".join([changed, *rows])))
            self.assertTrue(message.startswith("line "), message)
        for name in head:
            changed = json.dumps({k: v for k, v in head.items() if k != name}).encode() + b"\n"
            self.refuse(sealed(b"".join([changed, *rows])))

    @settings(max_examples=300, deadline=None)
    @given(st.data())
    def test_whatever_the_rows_are_they_are_read_or_refused(self, data: st.DataObject) -> None:
        """Never with another error; what is read is written again as it was read."""
        values = st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-5, 10**25)
            | st.floats(allow_nan=False)
            | st.sampled_from(["2026-11-29", "2026-11", "ab" * 32, "fast", "lifetime", "day"])
            | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["0", "95", "96", "a"]), inner, max_size=2)
            ),
            max_leaves=5,
        )
        rows = [json.loads(row) for row in self.rows]
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(rows) - 1))
            what = data.draw(st.sampled_from(["member", "move", "drop", "new"]))
            if what == "member" and rows[place]:
                rows[place][data.draw(st.integers(0, len(rows[place]) - 1))] = data.draw(values)
            elif what == "move":
                rows.insert(data.draw(st.integers(0, len(rows) - 1)), rows.pop(place))
            elif what == "drop":
                del rows[place]
            else:
                kind = data.draw(st.sampled_from([*KINDS, "other"]))
                rows.insert(place, [kind, *data.draw(st.lists(values, max_size=9))])
        file = with_rows(self.file, [json.dumps(row).encode() + b"\n" for row in rows])
        try:
            _, books = decode(file)
        except DamagedSnapshotError as error:
            self.assertTrue(str(error).startswith("line "))
            return
        again = decode(file_of(books))[1]
        self.assertTrue(again == books)

    @settings(max_examples=300, deadline=None)
    @given(st.binary(max_size=200), st.sampled_from([b"", b"1\n", b"2\n", b"99\n"]))
    def test_any_bytes_are_refused(self, data: bytes, version: bytes) -> None:
        """Never with another error."""
        magic = b"omnigate-ledger-snapshot " + version if version else b""
        self.assertRaises((DamagedSnapshotError, NewerSnapshotError), decode, magic + data)
        self.assertRaises(
            (DamagedSnapshotError, NewerSnapshotError), decode, sealed(data + b"\n", magic)
        )


class VersionTests(SynchronousTestCase):
    """Files of other versions."""

    def test_the_first_version_is_read(self) -> None:
        """A file that was written by the first version gives the books that it was made of."""
        golden = GOLDEN.read_bytes()
        head, books = decode(golden)
        now = some_books()
        self.assertTrue(books.totals == now.totals)
        self.assertEqual(head, attrs.evolve(HEAD, events=8, rows=head.rows))
        self.assertEqual(books.totals.spend_nano(["ab" * 32], "total", 0), 16_000_000_112)
        ids = [event["id"] for event in books.recent(100)]
        self.assertEqual(ids, [f"id{number}" for number in range(7, -1, -1)])
        # And as long as it is the version that is written, it is written alike.
        kept = [row for row in payload_of(golden)[1:] if not row.startswith(b'["recent"')]
        self.assertEqual(payload_of(file_of(now))[1 : 1 + len(kept)], kept)

    def test_a_later_version_is_no_damage(self) -> None:
        """It stops the start, with the remedy, whichever line tells of it."""
        file = file_of(some_books())
        head, *rows = payload_of(file)
        later = head.replace(b'"version":1', b'"version":2,"more":[]')
        files: list[bytes] = [
            sealed(b"".join([later, *rows]), b"omnigate-ledger-snapshot 2\n"),
            sealed(b"".join([later, *rows])),
            b"omnigate-ledger-snapshot 2\n" + b"\x00\xff" * 100,
            b"omnigate-ledger-snapshot 17\n",
        ]
        for each in files:
            error = self.assertRaises(NewerSnapshotError, decode, each)
            self.assertIn("start the version", str(error).lower())

    def test_a_first_line_damaged_into_a_later_version(self) -> None:
        """Where all the rest is of this version and whole, it is damage."""
        file = file_of(some_books()).replace(b"snapshot 1\n", b"snapshot 3\n", 1)
        self.assertRaises(DamagedSnapshotError, decode, file)
