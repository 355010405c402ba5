"""Holds the sums that were recomputed from the events against those of a snapshot.

Every row of both must be the same, but for what a ledger forgets on its own: days and months long
past, and, of many keys, the oldest rows by key. Such rows are passed over where one of the two has
them no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import attrs
import msgspec

from omnigate.ledger.books import RECENT_EVENTS, Books
from omnigate.ledger.tables import NOTHING, Day
from omnigate.ledger.totals import (
    DAYS_HELD,
    DAYS_KEPT,
    KEY_MONTH_ROWS,
    MONTHS_KEPT,
    NAMES_PER_DAY,
    Totals,
)
from omnigate.periods import DAY_MS, utc_day, utc_month

_K = TypeVar("_K")
_V = TypeVar("_V")

_FIGURES = (
    "requests",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "cost_nano",
)

_encode = msgspec.json.Encoder().encode


@attrs.frozen
class RowDifference:
    """A row that is not the same.

    :ivar row: the first members of the row, its kind and names, as a snapshot has them.
    :ivar text: what is wrong with it.
    """

    row: tuple[str | None, ...]
    text: str

    def offset_in(self, snapshot: bytes) -> int | None:
        """Where the row begins in the snapshot; None if it is not there."""
        found = snapshot.find(b"\n" + _encode(self.row)[:-1] + b",")
        return None if found < 0 else found + 1


def differences(mine: Books, theirs: Books, now_ms: int) -> Iterator[RowDifference]:
    """Compare recomputed books with those of a snapshot.

    :param mine: the recomputed ones. They go on with the time, as the others did.
    :param now_ms: when the snapshot was written.
    """
    mine.totals.drop_before(now_ms)
    yield from _lifetimes(mine.totals, theirs.totals)
    yield from _months(mine.totals, theirs.totals, now_ms)
    yield from _days(mine.totals, theirs.totals, now_ms)
    if mine.recent(RECENT_EVENTS) != theirs.recent(RECENT_EVENTS):
        yield RowDifference(("recent",), "the newest events are not those before the position")


def shortfalls(least: Totals, theirs: Totals) -> Iterator[RowDifference]:
    """Find lifetimes of a snapshot that are below what some of its events add up to."""
    for key, row in least.lifetimes.items():
        other = theirs.lifetimes.get(key, NOTHING)
        if any(need > have for need, have in zip(row, other, strict=True)):
            text = f"{_figures(other)}, less than the segments that are left: {_figures(row)}"
            yield RowDifference(("lifetime", key), text)


def _lifetimes(mine: Totals, theirs: Totals) -> Iterator[RowDifference]:
    for key, row, other in _unequal(mine.lifetimes, theirs.lifetimes):
        yield RowDifference(("lifetime", key), _told(row, other))


def _months(mine: Totals, theirs: Totals, now_ms: int) -> Iterator[RowDifference]:
    year, month = map(int, utc_month(now_ms).split("-"))
    oldest = year * 12 + month - MONTHS_KEPT
    # From here on either of the two may have dropped its oldest months to stay within the bound.
    full = max(mine.key_month_rows, theirs.key_month_rows) > KEY_MONTH_ROWS // 2
    for name in sorted(mine.months.keys() | theirs.months.keys()):
        year, month = map(int, name.split("-"))
        if year * 12 + month <= oldest or (full and not mine.kept.needs_month(name)):
            continue
        tables = [totals.months.get(name) for totals in (mine, theirs)]
        rows, others = ({} if table is None else table.keys for table in tables)
        for key, row, other in _unequal(rows, others):
            yield RowDifference(("month", name, key), _told(row, other))


def _days(mine: Totals, theirs: Totals, now_ms: int) -> Iterator[RowDifference]:
    oldest = now_ms // DAY_MS - DAYS_KEPT
    full = max(len(mine.days), len(theirs.days)) >= DAYS_HELD
    for number in sorted(mine.days.keys() | theirs.days.keys()):
        if number <= oldest or (full and not mine.kept.needs_keys(number)):
            continue
        day, other = mine.days.get(number), theirs.days.get(number)
        if day is None or other is None:
            name = utc_day(number * DAY_MS)
            rows = (day and day.everything, other and other.everything)
            yield RowDifference(("day", name), _told(*rows))
        else:
            yield from _of_day(day, other)


def _of_day(day: Day, other: Day) -> Iterator[RowDifference]:
    name = day.name
    if day.everything != other.everything:
        yield RowDifference(("day", name), _told(day.everything, other.everything))
    if day.keys is not None and other.keys is not None:
        for key, row, found in _unequal(day.keys, other.keys):
            yield RowDifference(("day_key", name, key), _told(row, found))
    for kind, rows, others in (
        ("day_model", day.models, other.models),
        ("day_upstream", day.upstreams, other.upstreams),
    ):
        if max(len(rows), len(others)) >= NAMES_PER_DAY:
            continue  # which names had a row of their own depends on the order of the events
        for each, row, found in _unequal(rows, others):
            yield RowDifference((kind, name, each), _told(row, found))
    if day.quarters is not None and other.quarters is not None:
        for key, cells, costs in _unequal(day.quarters, other.quarters, list):
            text = "has other costs than the quarters of an hour of the events"
            if cells is None or costs is None:
                text = _told(cells, costs)
            yield RowDifference(("quarters", name, key), text)


def _unequal(
    mine: Mapping[_K, _V], theirs: Mapping[_K, _V], as_value: Callable[[_V], object] = lambda v: v
) -> Iterator[tuple[_K, _V | None, _V | None]]:
    """Yield what one of two tables has otherwise than the other, in the order of theirs."""
    for name, other in theirs.items():
        row = mine.get(name)
        if row is None or as_value(row) != as_value(other):
            yield name, row, other
    for name, row in mine.items():
        if name not in theirs:
            yield name, row, None


def _told(row: object, other: object) -> str:
    """Say what a row has, and what it should have."""
    if other is None:
        return "is missing, though there are events of it"
    if row is None:
        return "is there, though there is no event of it"
    return f"has {_figures(other)}; the events add up to {_figures(row)}"


def _figures(row: object) -> str:
    assert isinstance(row, tuple)
    return ", ".join(f"{name} {value}" for name, value in zip(_FIGURES, row, strict=True))
