"""The sums as rows of a snapshot, written and read back: one JSON array a line.

In this order, months and days rising, the rows of a day together behind its own::

    ["lifetime", key, *figures]
    ["month", "2026-11", key, *figures]
    ["day", "2026-11-30", *figures, by_key, quarters]
    ["day_key", "2026-11-30", key, *figures]
    ["day_model", "2026-11-30", model, *figures]
    ["day_upstream", "2026-11-30", upstream or null, *figures]
    ["quarters", "2026-11-30", key, {"13": cost, ...}]
    ["recent", the line of an event]

The figures are those of :class:`~omnigate.ledger.totals.Sums`: requests (at least 1), input tokens,
cached input tokens, cache write input tokens, output tokens, and the cost in nano-dollars. The flag
``by_key`` says that the day still has its rows by key, ``quarters`` that it has the cost of each of
its 96 quarters of an hour (0 to 95, those without cost left out), for each key with a cost. The
newest event comes last.

A reader trusts none of it: types, ranges, names and order are checked row by row, and so is that

* a name stands once in its table;
* the rows of a day by model, by upstream and, where it has them, by key each add up to its own;
* the quarters of a key add up to the cost of its day;
* no row of a key is more than its lifetime, and all months, or all days, no more than all
  lifetimes.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from types import GenericAlias
from typing import Annotated, Any

import attrs
import msgspec

from omnigate.ledger.tables import NOTHING, QUARTERS, Cells, Day, Month, Row, Rows, plus
from omnigate.ledger.totals import Totals, parse_day

#: Rows written in one go, under 1 ms; of the wider rows of quarters, and lines of events, fewer.
CHUNK_ROWS = 500
CHUNK_QUARTERS = 200
CHUNK_RECENT = 50

_EPOCH_DAY = date(1970, 1, 1).toordinal()

#: Bytes within which the kind of a row ends.
LONGEST_KIND = 20

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode_lines = msgspec.json.Encoder().encode_lines

Requests = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Quarter = Annotated[int, msgspec.Meta(ge=0, le=QUARTERS - 1)]


class DamagedRowError(ValueError):
    """A row is not what a snapshot has, or disagrees with others; the text says how."""


# -- writing ----------------------------------------------------------------------------------


def write_rows(totals: Totals, recent: Iterable[bytes]) -> Iterator[bytes]:
    """Write all sums and the newest events, in pieces of whole lines.

    Making one piece takes at most a few milliseconds. Nothing may be counted in until the last one
    was taken; the totals may be told the time meanwhile. What did not change since the last time is
    not written anew.

    :param recent: the lines of the newest events, oldest first.
    """
    yield from _chunks((("lifetime", key, *row) for key, row in totals.lifetimes.items()))
    for _, month in sorted(totals.months.items()):
        yield from _kept(month, _month_chunks(month))
    for _, day in sorted(totals.days.items()):
        yield from _kept(day, _day_chunks(day))
    lines = iter(recent)
    while some := list(islice(lines, CHUNK_RECENT)):
        yield b"".join(_recent_row(line) for line in some)


def _kept(table: Month | Day, made: Iterator[bytes]) -> Iterator[bytes]:
    """The rows of a table as they were written the last time, or anew."""
    if table.written:
        yield from table.written
        return
    keeping: list[bytes] = []
    table.written = keeping
    written = []
    for chunk in made:
        written.append(chunk)
        yield chunk
    # Something else stands there if an event was counted meanwhile.
    if table.written is keeping:
        keeping.extend(written)


def _chunks(rows: Iterator[tuple[Any, ...]], size: int = CHUNK_ROWS) -> Iterator[bytes]:
    while some := list(islice(rows, size)):
        yield _encode_lines(some)


def _month_chunks(month: Month) -> Iterator[bytes]:
    return _chunks(("month", month.name, key, *row) for key, row in month.keys.items())


def _day_chunks(day: Day) -> Iterator[bytes]:
    # Taken now, since tables may be dropped from the day while this goes on.
    name, keys, quarters = day.name, day.keys, day.quarters
    yield _encode_lines([("day", name, *day.everything, keys is not None, quarters is not None)])
    tables = (("day_key", keys or {}), ("day_model", day.models), ("day_upstream", day.upstreams))
    for kind, rows in tables:
        yield from _chunks((kind, name, each, *row) for each, row in rows.items())
    yield from _chunks(
        (
            ("quarters", name, key, {n: cost for n, cost in enumerate(cells) if cost})
            for key, cells in (quarters or {}).items()
        ),
        CHUNK_QUARTERS,
    )


def _recent_row(line: bytes) -> bytes:
    """The row of an event; nothing for a line that is damaged where no sum looks."""
    row = b'["recent",%b]\n' % line.rstrip(b"\n")
    try:
        _KINDS[b'["recent'].decoder.decode(row)
    except _UNREADABLE:
        return b""
    return row


# -- reading ----------------------------------------------------------------------------------


@attrs.define
class RowReader:
    """Rows on their way back into the tables.

    :ivar totals: where the sums go; new.
    :ivar recent: the lines of the newest events, oldest first.
    :ivar entered: how many rows were read; the last of them is the one that is damaged.
    """

    totals: Totals = attrs.Factory(Totals)
    recent: list[bytes] = attrs.Factory(list)
    entered: int = 0
    _place: int = 0
    _month: Month | None = None
    _number: int = -1
    _day: Day | None = None
    _blocks: list[bytes] = attrs.Factory(list)
    _lifetimes: Row = NOTHING
    _months: Row = NOTHING
    _days: Row = NOTHING
    _sum: Row = NOTHING
    _keys: Row = NOTHING
    _models: Row = NOTHING
    _upstreams: Row = NOTHING

    def enter(self, data: bytes, start: int = 0) -> None:
        """Enter rows, some hundred at a time.

        :param data: the rows, each with its newline.
        :param start: where the first one begins.
        :raises DamagedRowError: one is no row, or not one that can stand there.
        """
        while start < len(data):
            kind = _KINDS.get(data[start : data.find(b'"', start + 2, start + LONGEST_KIND)])
            run = None if kind is None else kind.run.match(data, start)
            if kind is None or run is None:
                raise self._damage("no row of a known kind")
            rows = self._decode(kind, run[0])
            if kind.place != self._place:
                if kind.place < self._place:
                    raise self._damage("a row of this kind cannot stand behind the one before it")
                self._end_month()
                self._end_day()
                self._place = kind.place
            kind.enter(self, rows, run[0])
            start = run.end()

    def _decode(self, kind: _Kind, block: bytes) -> list[Any]:
        """Read a run of rows of one kind."""
        try:
            rows = kind.decoder.decode_lines(block)
            if len(rows) == block.count(b"\n"):
                return rows
        except _UNREADABLE:
            pass
        for line in block.split(b"\n")[:-1]:
            try:
                kind.decoder.decode(line)
            except _UNREADABLE as error:
                raise self._damage(str(error)) from None
            self.entered += 1
        raise DamagedRowError("more than one row in a line")

    def _damage(self, reason: str) -> DamagedRowError:
        """Say what is wrong with the row behind those that were entered."""
        self.entered += 1
        return DamagedRowError(reason)

    def finish(self, events: int) -> None:
        """Hold the tables against each other, once all rows are entered.

        :param events: how many events the rows must tell of.
        :raises DamagedRowError: they disagree.
        """
        self._end_month()
        self._end_day()
        if self._lifetimes[0] != events:
            raise DamagedRowError(f"lifetimes of {self._lifetimes[0]} events, not {events}")
        if not _within(self._months, self._lifetimes):
            raise DamagedRowError("the months are more than the lifetimes")
        if not _within(self._days, self._lifetimes):
            raise DamagedRowError("the days are more than the lifetimes")

    # Each of these enters a run of rows of one kind, and of one month or day. ``entered`` goes
    # along with the rows, so that it tells the damaged one.

    def _enter_lifetimes(self, rows: list[Any], block: bytes) -> None:
        table = self.totals.lifetimes
        for row in rows:
            self.entered += 1
            _put(table, sys.intern(row[1]), row[2:])
        self._lifetimes = plus(self._lifetimes, _sum(rows))

    def _enter_months(self, rows: list[Any], block: bytes) -> None:
        name, month = rows[0][1], self._month
        if month is None or month.name != name:
            if month is not None and name < month.name:
                raise self._damage("months in the wrong order")
            self._number_of(name + "-01")
            self._end_month()
            month = self._month = self.totals.open_month(name)
        self._enter_keys(month.keys, rows)
        self._months = plus(self._months, _sum(rows))
        self.totals.key_month_rows += len(rows)
        self._blocks.append(block)

    def _enter_day(self, rows: list[Any], block: bytes) -> None:
        self._end_day()
        (row,) = rows
        number = self._number_of(row[1])
        if number <= self._number:
            raise self._damage("days in the wrong order")
        self.entered += 1
        day = self.totals.open_day(number)
        *_, by_key, quarters = row
        if not by_key:
            day.keys = None
        if not quarters:
            day.quarters = None
        self._number, self._day = number, day
        self._keys = self._models = self._upstreams = NOTHING
        self._sum = row[2:8]
        self._days = plus(self._days, self._sum)
        self._blocks.append(block)

    def _enter_day_keys(self, rows: list[Any], block: bytes) -> None:
        keys = self._of_day(rows, block).keys
        if keys is None:
            raise self._damage("a row by key of a day that has none")
        self._enter_keys(keys, rows)
        self._keys = plus(self._keys, _sum(rows))
        self.totals.key_day_rows += len(rows)

    def _enter_keys(self, table: Rows, rows: list[Any]) -> None:
        """Enter rows by key of a month or a day."""
        lifetimes = self.totals.lifetimes
        for row in rows:
            self.entered += 1
            key, figures = row[2], row[3:]
            lifetime = lifetimes.get(key)
            if lifetime is None or not _within(figures, lifetime):
                raise DamagedRowError("a row of a key that is more than its lifetime")
            _put(table, sys.intern(key), figures)

    def _enter_day_models(self, rows: list[Any], block: bytes) -> None:
        self._enter_names(self._of_day(rows, block).models, rows)
        self._models = plus(self._models, _sum(rows))

    def _enter_day_upstreams(self, rows: list[Any], block: bytes) -> None:
        self._enter_names(self._of_day(rows, block).upstreams, rows)
        self._upstreams = plus(self._upstreams, _sum(rows))

    def _enter_names(self, table: Rows, rows: list[Any]) -> None:
        for row in rows:
            self.entered += 1
            _put(table, row[2], row[3:])

    def _enter_quarters(self, rows: list[Any], block: bytes) -> None:
        day = self._of_day(rows, block)
        for _, _, key, costs in rows:
            self.entered += 1
            if day.quarters is None or key in day.quarters:
                raise DamagedRowError("quarters of an hour that should not be there")
            if not costs or sum(costs.values()) != day.spend(key):
                raise DamagedRowError("the quarters of an hour do not add up to their day")
            day.quarters[sys.intern(key)] = _cells(costs)

    def _enter_recent(self, rows: list[Any], block: bytes) -> None:
        for line in block.split(b"\n")[:-1]:
            self.entered += 1
            if not line.endswith(b"}]"):
                raise DamagedRowError("an event that does not end with its row")
            self.recent.append(line[len(b'["recent",') : -1] + b"\n")

    def _of_day(self, rows: list[Any], block: bytes) -> Day:
        """The day that is being read, which the rows must be of."""
        if self._day is None or self._day.name != rows[0][1]:
            raise self._damage("a row of a day without that day")
        self._blocks.append(block)
        return self._day

    def _number_of(self, text: str) -> int:
        """The number of a day, from 1970 on."""
        try:
            number = parse_day("row", text).toordinal() - _EPOCH_DAY
        except ValueError as error:
            raise self._damage(str(error)) from None
        if number < 0:
            raise self._damage(f'"{text}" lies before 1970')
        return number

    def _end_month(self) -> None:
        """Let the month that was read be written the next time as it was read."""
        if self._month is not None:
            self._month.written, self._blocks = self._blocks, []
            self._month = None

    def _end_day(self) -> None:
        """Hold the rows of the day that was read against its own; they are kept as a month's."""
        day = self._day
        if day is None:
            return
        self._day = None
        day.written, self._blocks = self._blocks, []
        keys = self._sum if day.keys is None else self._keys
        if not self._models == self._upstreams == keys == self._sum:
            raise DamagedRowError(f"the rows of {day.name} do not add up to it")
        if day.quarters is not None:
            if day.keys is None:
                raise DamagedRowError(f"{day.name} has quarters of an hour and no keys")
            if len(day.quarters) != sum(row[-1] > 0 for row in day.keys.values()):
                raise DamagedRowError(f"{day.name} lacks quarters of an hour")


_Enter = Callable[[RowReader, list[Any], bytes], None]


@attrs.frozen
class _Kind:
    """A kind of row.

    :ivar place: where it stands among the others; those of a day stand together.
    :ivar enter: what becomes of a run of rows, decoded and as they were.
    :ivar run: matches such a run: some rows of this kind, of one month or day.
    :ivar decoder: reads one row, or many.
    """

    place: int
    enter: _Enter
    run: re.Pattern[bytes]
    decoder: msgspec.json.Decoder[Any]


def _kind(place: int, enter: _Enter, run: bytes, *types: Any) -> _Kind:
    """A kind of row, whose members behind the first are of these types."""
    decoder = msgspec.json.Decoder(GenericAlias(tuple, (str, *types)))
    return _Kind(place, enter, re.compile(run), decoder)


def _rows(name: bytes, most: int = CHUNK_ROWS) -> bytes:
    """Matches rows of a kind."""
    return rb'(?:\["%b",[^\n]*\n){1,%d}' % (name, most)


def _rows_of_one(name: bytes) -> bytes:
    """Matches rows of a kind that name the same month or day."""
    row = rb'\["%b",%%b[^\n]*\n' % name
    return row % rb'("[^"\n]*")' + rb"(?:%b){0,%d}" % (row % rb"\1", CHUNK_ROWS - 1)


_NUMBERS = (Requests, Natural, Natural, Natural, Natural, Natural)
_BY_NAME = (str, str, *_NUMBERS)
_BY_UPSTREAM = (str, str | None, *_NUMBERS)
_COSTS = (str, str, dict[Quarter, Requests])

#: By what a row begins with, up to the quotation mark behind the kind.
_KINDS = {
    b'["lifetime': _kind(0, RowReader._enter_lifetimes, _rows(b"lifetime"), str, *_NUMBERS),
    b'["month': _kind(1, RowReader._enter_months, _rows_of_one(b"month"), *_BY_NAME),
    b'["day': _kind(2, RowReader._enter_day, _rows(b"day", 1), str, *_NUMBERS, bool, bool),
    b'["day_key': _kind(2, RowReader._enter_day_keys, _rows_of_one(b"day_key"), *_BY_NAME),
    b'["day_model': _kind(2, RowReader._enter_day_models, _rows_of_one(b"day_model"), *_BY_NAME),
    b'["day_upstream': _kind(
        2, RowReader._enter_day_upstreams, _rows_of_one(b"day_upstream"), *_BY_UPSTREAM
    ),
    b'["quarters': _kind(2, RowReader._enter_quarters, _rows_of_one(b"quarters"), *_COSTS),
    b'["recent': _kind(3, RowReader._enter_recent, _rows(b"recent"), dict[str, msgspec.Raw]),
}


def _put(rows: Rows, name: str | None, figures: Row) -> None:
    if name in rows:
        raise DamagedRowError("a row of a name that has one already")
    rows[name] = figures


def _within(row: Row, most: Row) -> bool:
    a, b, c, d, e, f = row
    p, q, r, s, t, u = most
    return a <= p and b <= q and c <= r and d <= s and e <= t and f <= u


def _sum(rows: list[Any]) -> Row:
    """The sum of decoded rows, whose last six members are the figures."""
    *_, a, b, c, d, e, f = zip(*rows, strict=True)
    return sum(a), sum(b), sum(c), sum(d), sum(e), sum(f)


def _cells(costs: Mapping[int, int]) -> Cells:
    """The quarters of a day, from those with a cost."""
    try:
        cells: Cells = array("q", bytes(8 * QUARTERS))
        for quarter, cost in costs.items():
            cells[quarter] = cost
    except OverflowError:
        cells = [costs.get(quarter, 0) for quarter in range(QUARTERS)]
    return cells
