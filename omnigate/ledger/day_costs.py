"""What each day cost, by a few groups of names: the bars of a plot.

Sums by name and day are far more than anybody looks at: ten thousand keys have a million of them in
a quarter of a year. A plot has a handful of groups, so only those are looked up in each day.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence

import attrs

from omnigate.ledger.tables import COST, NOTHING, Day, Rows


@attrs.frozen
class DayCosts:
    """One UTC day, in nano-dollars.

    :ivar number: the day, as days since 1970.
    :ivar groups: what each group cost, in the order they were asked for.
    :ivar everything: what everybody cost, those of no group included.
    """

    number: int
    groups: tuple[int, ...]
    everything: int


def costs_of_days(
    days: Iterable[tuple[int, Day]],
    rows_of: Callable[[Day], Rows],
    groups: Sequence[Collection[str | None]],
) -> Generator[None, None, list[DayCosts]]:
    """Find what groups cost on each of the days, one day a step.

    :param days: with their numbers, in the order they are to be told in.
    :param rows_of: gives the rows that the groups are of. Of a day without them (its rows by key
        may have been dropped) every group cost nothing.
    :param groups: the names that make up each group.
    """
    found = []
    for number, day in days:
        rows = rows_of(day)
        costs = tuple(sum(rows.get(name, NOTHING)[COST] for name in names) for names in groups)
        found.append(DayCosts(number, costs, day.everything[COST]))
        yield
    return found
