"""Which UTC days the periods in progress are made of, in every time zone at once.

Midnights of other zones lie within a UTC day. So that the spend of a period can be told exactly in
any zone, whatever the config says now or later, the cost of each quarter of an hour is kept for the
days on which a period in progress can have begun, and for all later ones.

Why these suffice. Clocks are at most 12 hours behind UTC and 14 ahead of it (so it has been since
1980, and the tests ask every zone there is). Let T be today, a UTC day.

* What a zone calls today is T-1, T or T+1. Its period is that of this date (or of the next date, if
  the clocks were put back over midnight; that one has begun then, so it is not behind T+1 either).
* A date D begins between 14 hours before midnight of UTC and 12 hours after it: on D-1 or D. This
  also holds for a date whose midnight, or all of it, was left out.

So a period in progress began on F-1 or F, where F is the first date of the period of T-1, T or
T+1; and it ends later than now: today, or on a later day. For ``daily``, F-1 is T-2 at the
earliest, for ``weekly`` T-8.

A day that is needed today was needed on every day before: it was still to come, or the date whose
period begins there was in the same period. So what is kept of a day holds all its events, however
often days are dropped.
"""

from __future__ import annotations

from datetime import date

import attrs

from omnigate.periods import DAY_MS

#: The last days and those to come: where a day in progress can have begun, in any zone.
DAYS_BACK = 2

#: Where a week in progress can have begun, in any zone.
WEEK_BACK = 8

#: How far ahead a period in progress can end: a month, and a day for the zone.
DAYS_AHEAD = 33

_EPOCH = date(1970, 1, 1).toordinal()


@attrs.frozen
class KeptDays:
    """The days that matter today. Days are numbers, counted from 1970-01-01.

    :ivar today: the UTC day; None while it is not known, and every day matters.
    :ivar begun: days on which a week or month in progress can have begun, in any zone.
    """

    today: int | None
    begun: frozenset[int] = frozenset()

    @classmethod
    def at(cls, now_ms: int) -> KeptDays:
        """The days that matter at an instant."""
        today = now_ms // DAY_MS
        begun = set()
        for number in (today - 1, today, today + 1):
            day = date.fromordinal(_EPOCH + number)
            for first in (number - day.weekday(), number - day.day + 1):
                begun |= {first - 1, first}
        return cls(today, frozenset(begun))

    def needs_quarters(self, number: int) -> bool:
        """Whether a period in progress can begin or end within this day."""
        return self.today is None or number >= self.today - DAYS_BACK or number in self.begun

    def needs_keys(self, number: int) -> bool:
        """Whether the sum of a period in progress may need this day's rows by key."""
        if self.today is None or number in self.begun:
            return True
        return self.today - WEEK_BACK <= number <= self.today + DAYS_AHEAD

    def needs_month(self, name: str) -> bool:
        """Whether a month, such as ``2026-11``, is in progress in some zone."""
        if self.today is None:
            return True
        around = (self.today - 1, self.today, self.today + 1)
        return name in {date.fromordinal(_EPOCH + number).isoformat()[:7] for number in around}
