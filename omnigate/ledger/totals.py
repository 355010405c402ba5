"""Sums of what was recorded, by key, model, upstream and day, in whole nano-dollars.

Nothing here is rounded or estimated: every sum is a sum of integers that were fixed when the event
was recorded. An event counts on the UTC day and month of its own time stamp, whenever it arrives,
and against the hash of the key it names; who wants the figure of a rotated key adds up its hashes.

Kept in memory are

* for every key its lifetime, and its months;
* for every day the sum of all, and the sums by key, by model and by upstream.

:data:`DAYS_KEPT` and :data:`MONTHS_KEPT` say how far back; the lifetime is never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Protocol

import attrs

from omnigate.periods import DAILY, DAY_MS, MONTHLY, PERIODS, TOTAL, bounds, utc_day, utc_month

#: A year and the month before it, so that a figure can be compared with last year's. One row is
#: about 350 bytes: 100 keys that are used every day hold 14 MB of rows by day.
DAYS_KEPT = 400

#: Five years of months; 1,000 keys hold about 20 MB of them.
MONTHS_KEPT = 61

#: Names a day may hold by model and by upstream. Both come from the config file, which has tens to
#: hundreds; what goes beyond is summed under :data:`OTHER`, so that a data plane gone wrong cannot
#: fill the memory. Keys are exempt (their sums decide over budgets): each was made by an operator.
NAMES_PER_DAY = 10_000

#: The name that stands for the names beyond :data:`NAMES_PER_DAY`.
OTHER = "(other)"

#: What totals can be grouped by.
GROUPINGS = ("key", "model", "upstream", "day")


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


@attrs.define
class Sums:
    """One row: how many requests, how many tokens of each kind, and their cost."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0

    def count(self, event: Counted, cost_nano: int) -> None:
        """Add one event and its cost in nano-dollars."""
        self.requests += 1
        self.input_tokens += event.input_tokens
        self.cached_input_tokens += event.cached_input_tokens
        self.cache_write_input_tokens += event.cache_write_input_tokens
        self.output_tokens += event.output_tokens
        self.cost_nano += cost_nano

    def add(self, other: Sums) -> None:
        """Add another row to this one."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.cached_input_tokens += other.cached_input_tokens
        self.cache_write_input_tokens += other.cache_write_input_tokens
        self.output_tokens += other.output_tokens
        self.cost_nano += other.cost_nano


#: Rows by name. ``None`` is the upstream of requests that no upstream answered.
Rows = dict[str | None, Sums]


@attrs.frozen
class NamedSums:
    """One row of an answer: the key hash, model, upstream or day, and its sums."""

    name: str | None
    sums: Sums


@attrs.define
class _Day:
    """The sums of one UTC day, and the row of its month to which each key's events go too."""

    name: str
    months: Rows
    everything: Sums = attrs.Factory(Sums)
    keys: Rows = attrs.Factory(dict)
    models: Rows = attrs.Factory(dict)
    upstreams: Rows = attrs.Factory(dict)


class Totals:
    """The books: events are counted in one by one, sums are read out."""

    def __init__(self) -> None:
        self._days: dict[int, _Day] = {}
        self._months: dict[str, Rows] = {}
        self._lifetime: Rows = {}

    def count(self, event: Counted, cost_nano: int) -> None:
        """Count one recorded event in.

        :param event: the event; its ``ts_ms`` decides the day and the month.
        :param cost_nano: what it cost, as it stands in its line of the ledger.
        """
        number = event.ts_ms // DAY_MS
        day = self._days.get(number)
        if day is None:
            day = self._open_day(number)
        key = event.key_sha256
        day.everything.count(event, cost_nano)
        _row(day.keys, key).count(event, cost_nano)
        _row_within(day.models, event.route_model).count(event, cost_nano)
        _row_within(day.upstreams, event.upstream).count(event, cost_nano)
        _row(day.months, key).count(event, cost_nano)
        _row(self._lifetime, key).count(event, cost_nano)

    def _open_day(self, number: int) -> _Day:
        start_ms = number * DAY_MS
        months = self._months.setdefault(utc_month(start_ms), {})
        day = self._days[number] = _Day(utc_day(start_ms), months)
        return day

    def spend_nano(self, key_hashes: Iterable[str], period: str, now_ms: int) -> int:
        """Nano-dollars that a key spent in the period that ``now_ms`` falls into.

        :param key_hashes: the hashes of the key, earlier ones of a rotated key included.
        :param period: one of :data:`~omnigate.periods.PERIODS`, in UTC.
        :raises ValueError: the period is none of these.
        """
        rows: Rows
        if period not in PERIODS:
            raise ValueError(f'no budget period "{period}": use one of {", ".join(PERIODS)}')
        if period == TOTAL:
            rows = self._lifetime
        elif period == MONTHLY:
            rows = self._months.get(utc_month(now_ms), {})
        elif period == DAILY:
            day = self._days.get(now_ms // DAY_MS)
            rows = {} if day is None else day.keys
        else:
            start_ms, end_ms = bounds(period, now_ms)
            numbers = range(start_ms // DAY_MS, end_ms // DAY_MS)
            days = [self._days[number] for number in numbers if number in self._days]
            keys = set(key_hashes)
            return sum(day.keys[key].cost_nano for day in days for key in keys if key in day.keys)
        return sum(rows[key].cost_nano for key in set(key_hashes) if key in rows)

    def lifetime(self, key_hashes: Iterable[str]) -> Sums:
        """All that was ever recorded for a key, over all its hashes."""
        sums = Sums()
        for key in set(key_hashes):
            row = self._lifetime.get(key)
            if row is not None:
                sums.add(row)
        return sums

    def grouped(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> list[NamedSums]:
        """Sums by key, model, upstream or day, over the days from ``since`` to ``until``.

        :param by: one of :data:`GROUPINGS`.
        :param since: the first UTC day counted, as ``YYYY-MM-DD``; None for all that are kept.
        :param until: the last UTC day counted; None for all that are kept.
        :return: one row a name, in the order of the names, the nameless first. By key and without
            days, the lifetime: also what was recorded on days no longer kept.
        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        if by not in GROUPINGS:
            raise ValueError(f'no totals by "{by}": use key, model, upstream or day')
        first, last = _day_bounds(since, until)
        if by == "key" and since is None and until is None:
            return _sorted_rows(self._lifetime)
        merged: Rows = {}
        rows_of = _ROWS[by]
        for number, day in self._days.items():
            if first <= number <= last:
                for name, row in rows_of(day).items():
                    _row(merged, name).add(row)
        return _sorted_rows(merged)

    def drop_before(self, now_ms: int) -> None:
        """Forget the rows of days and months that are long past; lifetimes stay."""
        today = now_ms // DAY_MS
        for number in [n for n in self._days if n <= today - DAYS_KEPT]:
            del self._days[number]
        year, month = map(int, utc_month(now_ms).split("-"))
        oldest = year * 12 + month - MONTHS_KEPT
        for name in list(self._months):
            year, month = map(int, name.split("-"))
            if year * 12 + month <= oldest:
                del self._months[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Totals):
            return NotImplemented
        return (self._days, self._months, self._lifetime) == (
            other._days,
            other._months,
            other._lifetime,
        )

    __hash__ = None  # type: ignore[assignment]


_ROWS: dict[str, Callable[[_Day], Rows]] = {
    "key": lambda day: day.keys,
    "model": lambda day: day.models,
    "upstream": lambda day: day.upstreams,
    "day": lambda day: {day.name: day.everything},
}


def _row(rows: Rows, name: str | None) -> Sums:
    row = rows.get(name)
    if row is None:
        row = rows[name] = Sums()
    return row


def _row_within(rows: Rows, name: str | None) -> Sums:
    """The row of a name, or of :data:`OTHER` once there are too many names."""
    row = rows.get(name)
    if row is None:
        row = _row(rows, OTHER) if len(rows) >= NAMES_PER_DAY else _row(rows, name)
    return row


def _sorted_rows(rows: Rows) -> list[NamedSums]:
    """Copies of the rows, so that a reader holds figures that no longer change."""
    names = sorted(rows, key=lambda name: (name is not None, name or ""))
    return [NamedSums(name, attrs.evolve(rows[name])) for name in names]


def _day_bounds(since: str | None, until: str | None) -> tuple[int, int]:
    """The numbers (days since 1970) of the first and the last day."""
    epoch = date(1970, 1, 1)
    first = date.min if since is None else _parse_day("since", since)
    last = date.max if until is None else _parse_day("until", until)
    one = timedelta(days=1)
    return (first - epoch) // one, (last - epoch) // one


def _parse_day(which: str, text: str) -> date:
    # fromisoformat alone would also take "20261129" and "2026-W48-7"
    if len(text) == 10 and text[4] == text[7] == "-":
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    raise ValueError(f'{which}: "{text}" is no day; write it as YYYY-MM-DD')
