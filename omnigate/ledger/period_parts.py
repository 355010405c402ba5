"""What a budget's period is made of: the tables that its spend is told from.

Neither a month nor a week is walked through event by event: a month is the row of the UTC month,
and less or more of the days at its ends, by the quarter of an hour where the midnights of a zone
are not those of UTC.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from omnigate.ledger.tables import COST, Day, Month
from omnigate.periods import DAY_MS, MONTHLY, bounds, utc_month

#: The most that a zone's clocks are ahead of UTC.
MOST_AHEAD_MS = 14 * 3_600_000


@attrs.define
class PeriodParts:
    """What a period is made of: whole months and days, and days up to an instant of theirs.

    :ivar more: what is added up; ``less``: what of it lies outside the period.
    :ivar more_before: the days that count up to so many milliseconds; ``less_before``: those that
        count from there on only.
    """

    start_ms: int
    end_ms: int
    more: list[Day | Month] = attrs.Factory(list)
    less: list[Day | Month] = attrs.Factory(list)
    more_before: list[tuple[Day, int]] = attrs.Factory(list)
    less_before: list[tuple[Day, int]] = attrs.Factory(list)

    def spend(self, key: str) -> int:
        """What a key spent in the period, in nano-dollars."""
        spent = 0
        for table in self.more:
            if table.keys is not None and key in table.keys:
                spent += table.keys[key][COST]
        for table in self.less:
            spent -= table.spend(key)
        for day, within_ms in self.more_before:
            spent += day.spend_before(key, within_ms)
        for day, within_ms in self.less_before:
            spent -= day.spend_before(key, within_ms)
        return spent


def find_parts(
    days: Mapping[int, Day], months: Mapping[str, Month], period: str, now_ms: int, zone: str
) -> PeriodParts:
    """Find what a period is made of.

    :param days: by their numbers since 1970.
    :param months: by their names.
    :param period: ``daily``, ``weekly`` or ``monthly``.
    :return: what holds for every key, until the period ends or there is another table.
    :raises UnknownZoneError: there is no such zone on this machine.
    """
    start_ms, end_ms = bounds(period, now_ms, zone)
    first, cut_ms = divmod(start_ms, DAY_MS)
    last, tail_ms = divmod(end_ms, DAY_MS)
    parts = PeriodParts(start_ms, end_ms)
    if period != MONTHLY:
        parts.more += [days[number] for number in range(first, last) if number in days]
    else:
        # Midnight of the first of a month comes up to 14 hours early and 12 hours late, so 14
        # hours behind it the UTC month is the one that the zone means.
        name = utc_month(start_ms + MOST_AHEAD_MS)
        if name in months:
            parts.more.append(months[name])
        if utc_month(start_ms) != name and first in days:
            parts.more.append(days[first])
        if utc_month(end_ms) == name and last in days:
            parts.less.append(days[last])
    if tail_ms and last in days:
        parts.more_before.append((days[last], tail_ms))
    if cut_ms and first in days:
        parts.less_before.append((days[first], cut_ms))
    return parts
