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
    was taken. What did not change since the last time is not written anew.

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
    name = day.name
    flags = (day.keys is not None, day.quarters is not None)
    yield _encode_lines([("day", name, *day.everything, *flags)])
    tables = (("day_key", day.keys), ("day_model", day.models), ("day_upstream", day.upstreams))
    for kind, rows in tables:
        yield from _chunks((kind, name, each, *row) for each, row in (rows or {}).items())
    yield from _chunks(
        (
            ("quarters", name, key, {n: cost for n, cost in enumerate(cells) if cost})
            for key, cells in (day.quarters or {}).items()
        ),
        CHUNK_QUARTERS,
    )


def _recent_row(line: bytes) -> bytes:
    """The row of an event; nothing for a line that is damaged where no sum looks."""
    row = b'["recent",%b]\n' % line.rstrip(b"\n")
    try:
        _KIND_LIST["recent"].decode(row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    return row


# -- reading ----------------------------------------------------------------------------------

_Figures = (Requests, Natural, Natural, Natural, Natural, Natural)


def _decoder(*types: Any) -> Callable[[bytes], Any]:
    """A reader of arrays: of the kind, and a member of each type."""
    return msgspec.json.Decoder(GenericAlias(tuple, (str, *types))).decode


@attrs.define
class RowReader:
    """Rows on their way back into the tables.

    :ivar totals: where the sums go; new.
    :ivar recent: the lines of the newest events, oldest first.
    """

    totals: Totals = attrs.Factory(Totals)
    recent: list[bytes] = attrs.Factory(list)
    _place: int = 0
    _month: Month | None = None
    _number: int = -1
    _day: Day | None = None
    _lines: list[bytes] = attrs.Factory(list)
    _lifetimes: Row = NOTHING
    _months: Row = NOTHING
    _days: Row = NOTHING

    def enter(self, line: bytes) -> None:
        """Enter one row.

        :param line: the row without its newline.
        :raises DamagedRowError: it is no row, or not one that can stand here.
        """
        kind = _KINDS.get(line[: line.find(b'"', 2)])
        if kind is None:
            raise DamagedRowError("no row of a known kind")
        try:
            row = kind.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedRowError(str(error)) from None
        if kind.place != self._place:
            if kind.place < self._place:
                raise DamagedRowError("a row of this kind cannot stand behind the one before it")
            self._end_month()
            self._end_day()
            self._place = kind.place
        kind.enter(self, row, line)

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

    def _enter_lifetime(self, row: Any, line: bytes) -> None:
        figures = row[2:]
        self._put(self.totals.lifetimes, sys.intern(row[1]), figures)
        self._lifetimes = plus(self._lifetimes, figures)

    def _enter_month(self, row: Any, line: bytes) -> None:
        month = self._month
        if month is None or month.name != row[1]:
            if month is not None and row[1] < month.name:
                raise DamagedRowError("months in the wrong order")
            _number_of(row[1] + "-01")
            self._end_month()
            month = self._month = self.totals.open_month(row[1])
        figures = row[3:]
        self._put(month.keys, self._key(row[2], figures), figures)
        self._months = plus(self._months, figures)
        self._lines.append(line)
        self.totals.key_month_rows += 1

    def _enter_day(self, row: Any, line: bytes) -> None:
        self._end_day()
        number = _number_of(row[1])
        if number <= self._number:
            raise DamagedRowError("days in the wrong order")
        day = self.totals.open_day(number)
        *_, by_key, quarters = row
        if not by_key:
            day.keys = None
        if not quarters:
            day.quarters = None
        day.everything = row[2:8]
        self._number, self._day = number, day
        self._days = plus(self._days, day.everything)
        self._lines.append(line)

    def _enter_day_key(self, row: Any, line: bytes) -> None:
        figures = row[3:]
        self._put(self._of_day(row[1], line).keys, self._key(row[2], figures), figures)
        self.totals.key_day_rows += 1

    def _enter_day_model(self, row: Any, line: bytes) -> None:
        self._put(self._of_day(row[1], line).models, row[2], row[3:])

    def _enter_day_upstream(self, row: Any, line: bytes) -> None:
        self._put(self._of_day(row[1], line).upstreams, row[2], row[3:])

    def _enter_quarters(self, row: Any, line: bytes) -> None:
        _, name, key, costs = row
        day = self._of_day(name, line)
        if day.quarters is None or key in day.quarters:
            raise DamagedRowError("quarters of an hour that should not be there")
        if not costs or sum(costs.values()) != day.spend(key):
            raise DamagedRowError("the quarters of an hour do not add up to their day")
        day.quarters[sys.intern(key)] = _cells(costs)

    def _enter_recent(self, row: Any, line: bytes) -> None:
        self.recent.append(line[len(b'["recent",') : -1] + b"\n")

    def _of_day(self, name: str, line: bytes) -> Day:
        """The day whose rows are being read, which a row must be of."""
        if self._day is None or self._day.name != name:
            raise DamagedRowError("a row of a day without that day")
        self._lines.append(line)
        return self._day

    def _key(self, key: str, figures: Row) -> str:
        """The one string that names a key, whose row must fit in its lifetime."""
        lifetime = self.totals.lifetimes.get(key)
        if lifetime is None or not _within(figures, lifetime):
            raise DamagedRowError("a row of a key that is more than its lifetime")
        return sys.intern(key)

    def _put(self, rows: Rows | None, name: str | None, figures: Row) -> None:
        if rows is None or name in rows:
            raise DamagedRowError("a row that stands there already, or should not be there")
        rows[name] = figures

    def _end_month(self) -> None:
        if self._month is not None:
            self._month.written = self._taken()
            self._month = None

    def _end_day(self) -> None:
        """Hold the rows of the day that was read against its own."""
        day = self._day
        if day is None:
            return
        self._day = None
        day.written = self._taken()
        for rows in (day.models, day.upstreams, day.keys):
            if rows is not None and _sum(rows) != day.everything:
                raise DamagedRowError(f"the rows of {day.name} do not add up to it")
        if day.quarters is not None:
            if day.keys is None:
                raise DamagedRowError(f"{day.name} has quarters of an hour and no keys")
            if len(day.quarters) != sum(row[-1] > 0 for row in day.keys.values()):
                raise DamagedRowError(f"{day.name} lacks quarters of an hour")

    def _taken(self) -> list[bytes]:
        """The rows just read, as they will be written the next time."""
        lines, self._lines = self._lines, []
        return [b"\n".join([*lines, b""])]


@attrs.frozen
class _Kind:
    """A kind of row: its place among the others, how it is read, and what becomes of it."""

    place: int
    decode: Callable[[bytes], Any]
    enter: Callable[[RowReader, Any, bytes], None]


_KIND_LIST = {
    "lifetime": _Kind(0, _decoder(str, *_Figures), RowReader._enter_lifetime),
    "month": _Kind(1, _decoder(str, str, *_Figures), RowReader._enter_month),
    "day": _Kind(2, _decoder(str, *_Figures, bool, bool), RowReader._enter_day),
    "day_key": _Kind(2, _decoder(str, str, *_Figures), RowReader._enter_day_key),
    "day_model": _Kind(2, _decoder(str, str, *_Figures), RowReader._enter_day_model),
    "day_upstream": _Kind(2, _decoder(str, str | None, *_Figures), RowReader._enter_day_upstream),
    "quarters": _Kind(2, _decoder(str, str, dict[Quarter, Requests]), RowReader._enter_quarters),
    "recent": _Kind(3, _decoder(dict[str, msgspec.Raw]), RowReader._enter_recent),
}

#: By what a row begins with, up to the quotation mark behind the kind.
_KINDS = {b'["%b' % name.encode("ascii"): kind for name, kind in _KIND_LIST.items()}


def _number_of(text: str) -> int:
    """The number of a day, from 1970 on."""
    try:
        day = parse_day("row", text)
    except ValueError as error:
        raise DamagedRowError(str(error)) from None
    number = day.toordinal() - _EPOCH_DAY
    if number < 0:
        raise DamagedRowError(f'"{text}" lies before 1970')
    return number


def _within(row: Row, most: Row) -> bool:
    a, b, c, d, e, f = row
    p, q, r, s, t, u = most
    return a <= p and b <= q and c <= r and d <= s and e <= t and f <= u


def _sum(rows: Rows) -> Row:
    sums = NOTHING
    for row in rows.values():
        sums = plus(sums, row)
    return sums


def _cells(costs: Mapping[int, int]) -> Cells:
    """The quarters of a day, from those with a cost."""
    try:
        cells: Cells = array("q", bytes(8 * QUARTERS))
        for quarter, cost in costs.items():
            cells[quarter] = cost
    except OverflowError:
        cells = [costs.get(quarter, 0) for quarter in range(QUARTERS)]
    return cells
