"""Sums of what was recorded, by key, model, upstream and day, in whole nano-dollars.

Nothing here is rounded or estimated: every sum is a sum of integers that were fixed when the event
was recorded. An event counts on the UTC day and month of its own time stamp, whenever it arrives,
and against the hash of the key it names; who wants the figure of a rotated key adds up its hashes.

Kept in memory are

* for every key its lifetime, and its months;
* for every day the sum of all, and the sums by key, by model and by upstream;
* for the days that a current period of any time zone may begin or end in, the cost of each quarter
  of an hour by key (:mod:`~omnigate.ledger.kept_days` says which days these are).

The bounds of these tables say how far back they reach. The lifetimes are never dropped, and neither
is anything that a period in progress is made of.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import date, timedelta
from heapq import merge
from itertools import chain
from typing import cast

import attrs

from omnigate.ledger.day_rows import DayRows, rows_of_days
from omnigate.ledger.kept_days import KeptDays
from omnigate.ledger.period_parts import PeriodParts, find_parts
from omnigate.ledger.tables import (
    COST,
    NOTHING,
    QUARTER_MS,
    Counted,
    Day,
    Month,
    Row,
    Rows,
    add_cost,
    add_to,
    plus,
)
from omnigate.periods import (
    DAY_MS,
    PERIODS,
    PERIODS_REMEMBERED,
    TOTAL,
    UTC,
    utc_day,
    utc_month,
)

#: A year and the month before it, so that a figure can be compared with last year's.
DAYS_KEPT = 400

#: Days held at once: those kept, and as many again for events that are dated in the future. An
#: event of one more day, or of one too long past to be kept, counts for its key's lifetime and
#: month, and is told by no day.
DAYS_HELD = 1_000

#: Five years of months.
MONTHS_KEPT = 61

#: Rows of one key on one day, over all days; one takes about 380 bytes, so 95 MB. 10,000 keys that
#: are used every day have 25 days, 600 keys have all. Beyond it the oldest days lose their rows by
#: key, never those that a current week or month needs.
KEY_DAY_ROWS = 250_000

#: Rows of one key in one month, over all months, another 95 MB: 10,000 keys have two years of
#: months, 4,000 keys all. Beyond it the oldest months are dropped, never one that a current period
#: lies in.
KEY_MONTH_ROWS = 250_000

#: Names a day may hold by model and by upstream. Both come from the config file, which has tens to
#: hundreds; what goes beyond is summed under :data:`OTHER`, so that a data plane gone wrong cannot
#: fill the memory. Keys are exempt (their sums decide over budgets): each was made by an operator.
NAMES_PER_DAY = 10_000

#: The longest name of a model or an upstream that has a row of its own: as long as the config file
#: lets one be. An event may bring one of 60,000 characters.
LONGEST_NAME = 256

#: The name that stands for the names beyond :data:`NAMES_PER_DAY`, and for those that are too long.
OTHER = "(other)"

#: Rows of an answer that are made in one go: about 3 ms. There is no bound for how many keys there
#: have been.
ROWS_AT_ONCE = 1_000

#: Rows of one name whose sum takes as long as making one row of an answer.
SUMMED_AS_ONE = 20

#: Names that are sorted in one go: about 2 ms. These runs are merged row by row.
SORTED_AT_ONCE = 5_000

#: What totals can be grouped by.
GROUPINGS = ("key", "model", "upstream", "day")


@attrs.define
class Sums:
    """One row of an answer: how many requests, how many tokens of each kind, and their cost."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0

    def add(self, other: Sums) -> None:
        """Add another row to this one."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.cached_input_tokens += other.cached_input_tokens
        self.cache_write_input_tokens += other.cache_write_input_tokens
        self.output_tokens += other.output_tokens
        self.cost_nano += other.cost_nano


@attrs.define
class NamedSums:
    """One row of an answer: the key hash, model, upstream or day, and its sums."""

    name: str | None
    sums: Sums


class Totals:
    """The books: events are counted in one by one, sums are read out.

    Until it was told the time (:meth:`drop_before`), it keeps all that it could need.
    """

    def __init__(self) -> None:
        self.days: dict[int, Day] = {}
        self.months: dict[str, Month] = {}
        self.lifetimes: Rows = {}
        self.kept = KeptDays(None)
        self.key_day_rows = 0
        self.key_month_rows = 0
        self._unkept: Day | None = None
        # What each period asked for is made of; found anew once there is another table.
        self._parts: dict[tuple[str, str], PeriodParts] = {}

    def count(self, event: Counted, cost_nano: int) -> None:
        """Count one recorded event in.

        :param event: the event; its ``ts_ms`` decides the day and the month.
        :param cost_nano: what it cost, as it stands in its line of the ledger.
        """
        number, within_ms = divmod(event.ts_ms, DAY_MS)
        day = self.days.get(number)
        if day is None:
            day = self._day_of_event(number)
        key = event.key_sha256
        row = (
            1,
            event.input_tokens,
            event.cached_input_tokens,
            event.cache_write_input_tokens,
            event.output_tokens,
            cost_nano,
        )
        month = day.month
        day.written = month.written = ()
        for rows, name in ((day.models, event.route_model), (day.upstreams, event.upstream)):
            if name in rows:
                rows[name] = plus(rows[name], row)
            else:
                # Beyond so many names, the rest is one.
                full = len(rows) >= NAMES_PER_DAY or len(name or "") > LONGEST_NAME
                add_to(rows, OTHER if full else name, row)
        if key in month.keys:
            month.keys[key] = plus(month.keys[key], row)
            self.lifetimes[key] = plus(self.lifetimes[key], row)
        else:
            self._first_of_month(month, key, row)
        if day.keys is not None:
            if key in day.keys:
                day.keys[key] = plus(day.keys[key], row)
            else:
                self._first_of_day(day, key, row)
            if cost_nano and day.quarters is not None:
                add_cost(day.quarters, key, within_ms // QUARTER_MS, cost_nano)

    def _day_of_event(self, number: int) -> Day:
        """The day of an event that is the first of it, or of a day that is not kept."""
        today = self.kept.today
        past = today is not None and number <= today - DAYS_KEPT
        if not past and (len(self.days) < DAYS_HELD or self.kept.needs_keys(number)):
            return self.open_day(number)
        # A day that nobody will ask for. The next event is often of the same one.
        name = utc_day(number * DAY_MS)
        if self._unkept is None or self._unkept.name != name:
            month = self.open_month(utc_month(number * DAY_MS))
            self._unkept = Day(name, month, keys=None, quarters=None)
        return self._unkept

    def open_day(self, number: int) -> Day:
        """Begin the table of a day that has none."""
        self._parts.clear()
        start_ms = number * DAY_MS
        day = self.days[number] = Day(utc_day(start_ms), self.open_month(utc_month(start_ms)))
        if not self.kept.needs_quarters(number):
            day.quarters = None
        return day

    def open_month(self, name: str) -> Month:
        """The table of a month, which is begun where there is none."""
        month = self.months.get(name)
        if month is None:
            self._parts.clear()
            month = self.months[name] = Month(name)
        return month

    def _first_of_month(self, month: Month, key: str, row: Row) -> None:
        """Count the first event of a key in a month, which may be its first at all."""
        key = sys.intern(key)  # one string for all the tables that name the key
        add_to(self.lifetimes, key, row)
        month.keys[key] = row
        self.key_month_rows += 1
        if self.key_month_rows > KEY_MONTH_ROWS:
            self._drop_months()

    def _first_of_day(self, day: Day, key: str, row: Row) -> None:
        """Count the first event of a key on a day."""
        assert day.keys is not None
        day.keys[sys.intern(key)] = row
        self.key_day_rows += 1
        if self.key_day_rows > KEY_DAY_ROWS:
            self._drop_key_days()

    # -- asking -------------------------------------------------------------------------------

    def spend_nano(
        self, key_hashes: Iterable[str], period: str, now_ms: int, zone: str = UTC
    ) -> int:
        """Nano-dollars that a key spent in the period that ``now_ms`` falls into.

        Exact for every period in progress, of any zone whose midnights lie on a quarter of an hour
        of UTC, as all have since 1980: its first day is among those whose quarters are kept, and
        so are the days of its turn. Of a period that is over it is exact in UTC as far as the rows
        reach. In another zone, once the quarters of its first and last day are gone, each of these
        days counts whole, for the period that its noon (UTC) lies in; so does an event that came
        too late to be told by the quarter.

        :param key_hashes: the hashes of the key, earlier ones of a rotated key included.
        :param period: one of :data:`~omnigate.periods.PERIODS`.
        :param zone: the time zone of the period.
        :raises ValueError: there is no such period, or no such zone on this machine.
        """
        if period not in PERIODS:
            raise ValueError(f'no budget period "{period}": use one of {", ".join(PERIODS)}')
        keys = set(key_hashes)
        if period == TOTAL:
            return sum(self.lifetimes[key][COST] for key in keys if key in self.lifetimes)
        parts = self._parts.get((period, zone))
        if parts is None or not parts.start_ms <= now_ms < parts.end_ms:
            parts = find_parts(self.days, self.months, period, now_ms, zone)
            if len(self._parts) >= PERIODS_REMEMBERED:
                self._parts.clear()
            self._parts[period, zone] = parts
        return sum(map(parts.spend, keys))

    def lifetime(self, key_hashes: Iterable[str]) -> Sums:
        """All that was ever recorded for a key, over all its hashes."""
        sums = NOTHING
        for key in set(key_hashes):
            sums = plus(sums, self.lifetimes.get(key, NOTHING))
        return Sums(*sums)

    @property
    def events(self) -> int:
        """How many events were counted."""
        return sum(row[0] for row in self.lifetimes.values())

    @property
    def by_key_since(self) -> str | None:
        """The UTC day from which on every day has its rows by key; None where all have."""
        dropped = [number for number, day in self.days.items() if day.keys is None]
        return utc_day((max(dropped) + 1) * DAY_MS) if dropped else None

    def grouped(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> list[NamedSums]:
        """Sums by key, model, upstream or day, over the days from ``since`` to ``until``.

        By key, days before :attr:`by_key_since` add nothing. With thousands of keys and many days
        it takes some 100 ms; :meth:`gather` does the same in steps.

        :param by: one of :data:`GROUPINGS`.
        :param since: the first UTC day counted, as ``YYYY-MM-DD``; None for all that are kept.
        :param until: the last UTC day counted; None for all that are kept.
        :return: one row a name, in the order of the names, the nameless first. By key and without
            days, the lifetime: also what was recorded on days no longer kept.
        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        steps = self.gather(by, since, until)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(list[NamedSums], end.value)

    def gather(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> Generator[None, None, list[NamedSums]]:
        """Find the same as :meth:`grouped`, one day a step, which takes 2 ms, then the rows.

        Events may be counted between two steps: of each day, those count that came before it was
        added up.

        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        _check_grouping(by)
        first, last = _day_bounds(since, until)
        if by == "key" and since is None and until is None:
            return _gather([self.lifetimes])
        days = [day for number, day in self.days.items() if first <= number <= last]
        return _gather(map(_ROWS[by], days))

    def rows_by_day(
        self,
        by: str,
        groups: Sequence[Collection[str | None]],
        since: str | None = None,
        until: str | None = None,
    ) -> Generator[None, None, list[DayRows]]:
        """Find what each day with events came to, and what of it some groups did, one day a step.

        By key, a day before :attr:`by_key_since` has nothing for any group.

        :param by: one of :data:`GROUPINGS`.
        :param groups: the names that make up each group, such as the hashes of one key.
        :return: in the order of the days.
        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        _check_grouping(by)
        first, last = _day_bounds(since, until)
        days = [(number, self.days[number]) for number in sorted(self.days)]
        asked = [(number, day) for number, day in days if first <= number <= last]
        return rows_of_days(asked, _ROWS[by], groups)

    # -- forgetting ---------------------------------------------------------------------------

    def drop_before(self, now_ms: int) -> None:
        """Go on with the time: forget the rows of days and months long past; lifetimes stay.

        To be told before a replay as well: it then keeps no more than is needed now.
        """
        self._parts.clear()
        self._unkept = None
        self.kept = KeptDays.at(now_ms)
        today = now_ms // DAY_MS
        for number in [n for n in self.days if n <= today - DAYS_KEPT]:
            self.key_day_rows -= len(self.days.pop(number).keys or ())
        for number, day in self.days.items():
            if day.quarters is not None and not self.kept.needs_quarters(number):
                day.quarters = None
                day.written = ()
        year, month = map(int, utc_month(now_ms).split("-"))
        oldest = year * 12 + month - MONTHS_KEPT
        for name in list(self.months):
            year, month = map(int, name.split("-"))
            if year * 12 + month <= oldest:
                self.key_month_rows -= len(self.months.pop(name).keys)
        self._drop_key_days()
        self._drop_months()

    def _drop_key_days(self) -> None:
        """Drop the rows by key of the oldest days, down to the bound."""
        if self.key_day_rows <= KEY_DAY_ROWS:
            return
        for number in sorted(self.days):
            day = self.days[number]
            if day.keys and not self.kept.needs_keys(number):
                self.key_day_rows -= len(day.keys)
                day.keys = day.quarters = None
                day.written = ()
                if self.key_day_rows <= KEY_DAY_ROWS:
                    return

    def _drop_months(self) -> None:
        """Drop the rows of the oldest months, down to the bound."""
        if self.key_month_rows <= KEY_MONTH_ROWS:
            return
        for name in sorted(self.months):
            month = self.months[name]
            if month.keys and not self.kept.needs_month(name):
                self.key_month_rows -= len(month.keys)
                # A new table, not an emptied one, since a snapshot may be going through it.
                month.keys = {}
                month.written = ()
                if self.key_month_rows <= KEY_MONTH_ROWS:
                    return

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Totals):
            return NotImplemented
        return (self.days, self._months_with_rows(), self.lifetimes) == (
            other.days,
            other._months_with_rows(),
            other.lifetimes,
        )

    __hash__ = None  # type: ignore[assignment]

    def _months_with_rows(self) -> dict[str, Month]:
        return {name: month for name, month in self.months.items() if month.keys}


_ROWS: dict[str, Callable[[Day], Rows]] = {
    "key": lambda day: day.keys or {},
    "model": lambda day: day.models,
    "upstream": lambda day: day.upstreams,
    "day": lambda day: {day.name: day.everything},
}


def _check_grouping(by: str) -> None:
    if by not in GROUPINGS:
        raise ValueError(f'no totals by "{by}": use key, model, upstream or day')


def _gather(tables: Iterable[Rows]) -> Generator[None, None, list[NamedSums]]:
    """Take the rows of tables, one a step; then put their sums in order, so many a step."""
    gathered: defaultdict[str | None, list[Row]] = defaultdict(list)
    alone: Rows = {}
    for rows in tables:
        if not gathered and not alone:
            # There may be no second one, and of all keys there ever were a copy is quick.
            alone = dict(rows)
        else:
            gathered.update((name, [row]) for name, row in alone.items())
            alone = {}
            for name, row in rows.items():
                gathered[name].append(row)
        yield
    found: list[NamedSums] = []
    names = yield from _in_order(alone or gathered)
    taken = 0
    for name in names:
        if alone:
            sums, rows_of_name = Sums(*alone[name]), 1
        else:
            several = gathered[name]
            # Column by column: a quarter of what it takes to add them up row by row.
            sums, rows_of_name = Sums(*map(sum, zip(*several, strict=True))), len(several)
        found.append(NamedSums(name, sums))
        taken += name is not None and 1 + rows_of_name // SUMMED_AS_ONE
        if taken >= ROWS_AT_ONCE:
            taken = 0
            yield
    if taken:
        yield
    return found


def _in_order(
    names: Mapping[str | None, object],
) -> Generator[None, None, Iterator[str | None]]:
    """Put names in order, so many a step; none at all comes first."""
    known = [name for name in names if name is not None]
    runs: list[list[str]] = []
    for start in range(0, len(known), SORTED_AT_ONCE):
        runs.append(sorted(known[start : start + SORTED_AT_ONCE]))
        yield
    return chain([None] if None in names else [], merge(*runs))


def _day_bounds(since: str | None, until: str | None) -> tuple[int, int]:
    """The numbers (days since 1970) of the first and the last day."""
    epoch = date(1970, 1, 1)
    first = date.min if since is None else parse_day("since", since)
    last = date.max if until is None else parse_day("until", until)
    one = timedelta(days=1)
    return (first - epoch) // one, (last - epoch) // one


def parse_day(which: str, text: str) -> date:
    """Read a day written as ``YYYY-MM-DD``.

    :param which: what the day is, for the message.
    :raises ValueError: it is no such day.
    """
    # fromisoformat alone would also take "20261129" and "2026-W48-7"
    if len(text) == 10 and text[4] == text[7] == "-":
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    raise ValueError(f'{which}: "{text}" is no day; write it as YYYY-MM-DD')
