"""The tables that totals are kept in: rows by name, for each month and each day."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import reduce
from typing import Protocol, TypeAlias

import attrs

from omnigate.periods import DAY_MS

#: A quarter of an hour. The midnights of all zones lie on one, since 1980.
QUARTER_MS = 900_000
QUARTERS = DAY_MS // QUARTER_MS


class Counted(Protocol):
    """What a sum needs to know of an event: the live one and the one read back both have it."""

    @property
    def key_sha256(self) -> str:
        """Which key, as the SHA-256 of its secret in hex."""

    @property
    def route_model(self) -> str:
        """The model name the client used."""

    @property
    def upstream(self) -> str | None:
        """Which upstream answered; None when none did."""

    @property
    def input_tokens(self) -> int:
        """Input tokens that no prompt cache served."""

    @property
    def cached_input_tokens(self) -> int:
        """Input tokens read from the provider's prompt cache."""

    @property
    def cache_write_input_tokens(self) -> int:
        """Input tokens written to the provider's prompt cache."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""

    @property
    def ts_ms(self) -> int:
        """When it happened, in milliseconds since 1970."""


#: A row of a table: the figures of :class:`Sums` in their order. A tuple of integers is let go by
#: the garbage collector; half a million objects of a class would hold the process for 60 ms each
#: time that it goes through all of them.
Row = tuple[int, int, int, int, int, int]

#: Rows by name. ``None`` is the upstream of requests that no upstream answered.
Rows = dict[str | None, Row]

#: The cost of each quarter of an hour of a day: 64-bit integers, and a list where they do not do.
Cells: TypeAlias = "array[int] | list[int]"

NOTHING: Row = (0, 0, 0, 0, 0, 0)
COST = 5


def plus(row: Row, other: Row) -> Row:
    """The sum of two rows."""
    a, b, c, d, e, f = row
    p, q, r, s, t, u = other
    return a + p, b + q, c + r, d + s, e + t, f + u


def add_to(rows: Rows, name: str | None, row: Row) -> None:
    """Add a row to the one of a name."""
    known = rows.get(name)
    rows[name] = row if known is None else plus(known, row)


def add_cost(quarters: dict[str, Cells], key: str, quarter: int, cost_nano: int) -> None:
    """Add a cost to a quarter of an hour of a key's day."""
    cells = quarters.get(key)
    if cells is None:
        cells = quarters[sys.intern(key)] = array("q", bytes(8 * QUARTERS))
    try:
        cells[quarter] += cost_nano
    except OverflowError:
        # Nine thousand million dollars within a quarter of an hour; whole numbers have no end.
        cells = quarters[key] = list(cells)
        cells[quarter] += cost_nano


@attrs.define
class Month:
    """One UTC month: a row for each key.

    :ivar written: these rows as a snapshot has them; empty once they have changed.
    """

    name: str
    keys: Rows = attrs.Factory(dict)
    written: Sequence[bytes] = attrs.field(default=(), eq=False)

    def spend(self, key: str) -> int:
        """What a key spent in this month, in nano-dollars."""
        row = self.keys.get(key)
        return 0 if row is None else row[COST]


@attrs.define
class Day:
    """One UTC day.

    :ivar month: the month it lies in, where each key's events count too.
    :ivar keys: the rows by key; None once they were dropped.
    :ivar quarters: the cost of each key by quarter of an hour, for keys with a cost; None where it
        is not kept.
    :ivar written: these rows as a snapshot has them; empty once they have changed.
    """

    name: str
    month: Month = attrs.field(eq=False)
    keys: Rows | None = attrs.Factory(dict)
    models: Rows = attrs.Factory(dict)
    upstreams: Rows = attrs.Factory(dict)
    quarters: dict[str, Cells] | None = attrs.Factory(dict)
    written: Sequence[bytes] = attrs.field(default=(), eq=False)

    @property
    def everything(self) -> Row:
        """The sum of all that happened on this day."""
        return reduce(plus, self.upstreams.values(), NOTHING)

    def spend(self, key: str) -> int:
        """What a key spent on this day, in nano-dollars."""
        row = None if self.keys is None else self.keys.get(key)
        return 0 if row is None else row[COST]

    def spend_before(self, key: str, within_ms: int) -> int:
        """What a key spent on this day before an instant of it.

        To the quarter of an hour; where the quarters are not kept, a day counts whole before an
        instant behind its noon.
        """
        if self.quarters is None:
            return self.spend(key) if within_ms > DAY_MS // 2 else 0
        cells = self.quarters.get(key)
        if cells is None:
            return 0
        return sum(cells[: (within_ms + QUARTER_MS // 2) // QUARTER_MS])
