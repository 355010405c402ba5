"""Which days a page is about: one of a few usual spans, or two days that somebody filled in.

Days are those of UTC, as the ledger keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

import attrs

from omnigate.ledger.totals import parse_day

#: The spans that are a link away, by what the address calls them.
PRESETS: Final[Mapping[str, str]] = {
    "today": "Today",
    "month": "This month",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
    "all": "All",
}
DEFAULT: Final = "30d"

_BY_HAND: Final = ""
_DAYS: Final = {"today": 1, "7d": 7, "30d": 30, "90d": 90}


@attrs.frozen
class Span:
    """The first and the last day, both of which count; None where there is no bound.

    :ivar preset: which of :data:`PRESETS` it is; empty for days that were filled in.
    :ivar faults: what is wrong with what was filled in, by field; the default counts then.
    """

    since: str | None
    until: str | None
    preset: str
    faults: Mapping[str, str] = attrs.Factory(dict)

    @property
    def query(self) -> dict[str, str]:
        """The parameters that lead to it again; tomorrow, a preset is other days."""
        if self.preset != _BY_HAND:
            return {"period": self.preset}
        return self.days

    @property
    def days(self) -> dict[str, str]:
        """Its bounds as parameters."""
        bounds = {"since": self.since, "until": self.until}
        return {name: day for name, day in bounds.items() if day is not None}

    @property
    def words(self) -> str:
        """What it is called."""
        if self.since is None and self.until is None:
            return "all that is kept"
        if self.since == self.until:
            return str(self.since)
        if self.until is None:
            return f"since {self.since}"
        return f"until {self.until}" if self.since is None else f"{self.since} to {self.until}"

    @property
    def file_part(self) -> str:
        """What it is called in the name of a file."""
        if self.since is None and self.until is None:
            return "all"
        if self.since == self.until:
            return str(self.since)
        return "-".join(f"{name}-{day}" for name, day in self.days.items())


def preset_span(preset: str, today: date) -> Span:
    """Return one of the usual spans, as of a day."""
    if preset == "all":
        return Span(None, None, preset)
    if preset == "month":
        first = today.replace(day=1)
    else:
        # Before the year 1 there is no day.
        first = date.fromordinal(max(1, today.toordinal() - _DAYS[preset] + 1))
    return Span(first.isoformat(), today.isoformat(), preset)


def read_span(query: Mapping[str, str], today: date) -> Span:
    """Return the span that an address asks for; two days count before a preset.

    One of two days alone leaves the other side open.
    """
    since, until = query.get("since"), query.get("until")
    if since is None and until is None:
        preset = query.get("period", DEFAULT)
        return preset_span(preset if preset in PRESETS else DEFAULT, today)
    faults: dict[str, str] = {}
    for name, text in (("since", since), ("until", until)):
        if text is not None:
            try:
                parse_day(name, text)
            except ValueError:
                faults[name] = "This is no day; write it as 2026-11-30."
    if not faults and since is not None and until is not None and since > until:
        faults["since"] = "This day is after the last one."
    if faults:
        return attrs.evolve(preset_span(DEFAULT, today), faults=faults)
    return Span(since, until, _BY_HAND)


def day_of(now_ms: int) -> date:
    """Return the day of UTC that a moment lies in."""
    return date(1970, 1, 1) + timedelta(milliseconds=now_ms)
