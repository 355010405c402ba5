"""What each day came to, by a few groups of names: the bars of a plot, or the days of one name.

Sums by name and day are far more than anybody looks at: ten thousand keys have a million of them in
a quarter of a year. A page has a handful of groups, so only those are looked up in each day.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import reduce

import attrs

from omnigate.ledger.tables import NOTHING, Day, Row, Rows, plus


@attrs.frozen
class DayRows:
    """One UTC day.

    :ivar number: the day, as days since 1970.
    :ivar groups: what each group came to, in the order they were asked for.
    :ivar everything: what all came to, those of no group included.
    """

    number: int
    groups: tuple[Row, ...]
    everything: Row


def rows_of_days(
    days: Iterable[tuple[int, Day]],
    rows_of: Callable[[Day], Rows],
    groups: Sequence[Collection[str | None]],
) -> Generator[None, None, list[DayRows]]:
    """Find what groups came to on each of the days, one day a step.

    :param days: with their numbers, in the order they are to be told in.
    :param rows_of: gives the rows that the groups are of. Of a day without them (its rows by key
        may have been dropped) every group is nothing.
    :param groups: the names that make up each group.
    """
    found = []
    for number, day in days:
        rows = rows_of(day)
        sums = tuple(
            reduce(plus, (rows[name] for name in names if name in rows), NOTHING)
            for names in groups
        )
        found.append(DayRows(number, sums, day.everything))
        yield
    return found
