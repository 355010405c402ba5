"""What was used, as people and programs get it: rows of sums, as JSON or as CSV.

Ten thousand keys, and as many that are gone, make an answer of some megabytes. It is put in order
and written a few hundred rows at a time, so that nobody else waits for the whole of it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeVar

import attrs
import msgspec

from omnigate.config.prices import PRICES_DATE
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.totals import NamedSums, Sums
from omnigate.money import usd
from omnigate.periods import DAY_MS, utc_day
from omnigate.text import for_spreadsheets

#: Sums that are made rows of an answer in one go: about 3 ms.
ROWS_AT_ONCE: Final = 500

_COUNTS: Final = (
    "requests",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
)

T = TypeVar("T")

_encode = msgspec.json.Encoder(decimal_format="number").encode


@attrs.define
class UsageRow:
    """One row: what it is for, with the name of a key that there still is, and its sums.

    :ivar key: the name of a key; None of one that is gone, and of what is no key.
    :ivar name: the key's hash (of several, one), the model, the upstream or the day.
    """

    key: str | None
    name: str | None
    sums: Sums


class _KeyRow(msgspec.Struct, gc=False):
    """The row of a key, as JSON has it; ten thousand of them are made faster than dictionaries."""

    key: str | None
    key_sha256: str | None
    requests: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    output_tokens: int
    cost_usd: msgspec.Raw


class UsageReport:
    """One answer about what was used.

    :param by: what the sums are for: ``key``, ``model``, ``upstream`` or ``day``.
    :param pause: lets the reactor do something else in between.
    :ivar rows: what was taken: keys in the order of their names, all else as it came.
    """

    def __init__(self, by: str, pause: Callable[[], Awaitable[None]]) -> None:
        self.rows: list[UsageRow] = []
        self._by = by
        self._pause = pause

    async def take(self, sums: Sequence[NamedSums], names: Mapping[str, str]) -> None:
        """Take the sums; the hashes of one key are added up under its name.

        :param sums: in the order of their names.
        :param names: the names of keys by their hashes. Keys that are gone have none; they stand
            last, in the order of their hashes.
        """
        known: dict[str, UsageRow] = {}
        others: list[UsageRow] = []
        async for slice_ in self._slices(sums):
            for named in slice_:
                key = names.get(named.name or "") if self._by == "key" else None
                if key is None:
                    others.append(UsageRow(None, named.name, named.sums))
                elif key in known:
                    known[key].sums.add(named.sums)
                else:
                    known[key] = UsageRow(key, named.name, named.sums)
        self.rows = [*(known[key] for key in sorted(known)), *others]

    async def order_by_cost(self) -> None:
        """Put the dearest first; what cost the same stays as it was."""
        runs = [sorted(rows, key=_dearest) async for rows in self._slices(self.rows)]
        merged = merge(*runs, key=_dearest)
        ordered: list[UsageRow] = []
        while rows := list(islice(merged, ROWS_AT_ONCE)):
            ordered += rows
            await self._pause()
        self.rows = ordered

    async def total(self) -> Sums:
        """Add all rows up."""
        total = Sums()
        async for rows in self._slices(self.rows):
            for row in rows:
                total.add(row.sums)
        return total

    async def json(self, **members: Any) -> bytes:
        """Write the answer as JSON.

        :param members: what else the answer says of itself.
        """
        pieces: list[bytes] = []
        async for rows in self._slices(self.rows):
            pieces.append(_encode([self._object(row) for row in rows])[1:-1])
        # Put together once: encoding megabytes once more would take as long as all rows.
        head = _encode({"by": self._by, **members})[:-1]
        total = _members(await self.total())
        tail = _encode({"total": total, "price_table_date": PRICES_DATE})[1:]
        return b"".join([head, b',"rows":[', b",".join(pieces), b"],", tail])

    def _object(self, row: UsageRow) -> _KeyRow | dict[str, Any]:
        if self._by == "key":
            return _KeyRow(row.key, row.name, *_counts(row.sums), _cost(row.sums))
        return {self._by: row.name, **_members(row.sums)}

    async def csv(self) -> bytes:
        """Write the answer as RFC 4180 has it, with a line of names.

        An empty field is a name that is not.
        """
        by_key = self._by == "key"
        pieces = [_lines([(self._by, *(("key_sha256",) if by_key else ()), *_COUNTS, "cost_usd")])]
        async for rows in self._slices(self.rows):
            pieces.append(_lines(self._cells(row) for row in rows))
        return b"".join(pieces)

    def _cells(self, row: UsageRow) -> list[object]:
        names = (row.key, row.name) if self._by == "key" else (row.name,)
        cells: list[object] = [for_spreadsheets(name or "") for name in names]
        return [*cells, *_counts(row.sums), usd(row.sums.cost_nano)]

    async def _slices(self, rows: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """Give rows in slices, with pauses between them."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            if start:
                await self._pause()
            yield rows[start : start + ROWS_AT_ONCE]


def days_of_one(days: Sequence[DayRows]) -> list[UsageRow]:
    """Return the days of the only group that was asked for, but for those without any of it."""
    return [
        UsageRow(None, utc_day(day.number * DAY_MS), Sums(*day.groups[0]))
        for day in days
        if any(day.groups[0])
    ]


def _dearest(row: UsageRow) -> int:
    return -row.sums.cost_nano


def _counts(sums: Sums) -> tuple[int, int, int, int, int]:
    """Return the figures of :data:`_COUNTS`."""
    return (
        sums.requests,
        sums.input_tokens,
        sums.cached_input_tokens,
        sums.cache_write_input_tokens,
        sums.output_tokens,
    )


def _members(sums: Sums) -> dict[str, Any]:
    """A row of sums; the amount is a JSON number that is exact."""
    return {**dict(zip(_COUNTS, _counts(sums), strict=True)), "cost_usd": _cost(sums)}


def _cost(sums: Sums) -> msgspec.Raw:
    return msgspec.Raw(usd(sums.cost_nano).encode("ascii"))


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8")
