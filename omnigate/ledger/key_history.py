"""What one key used of late, as far as the totals tell it without a look at the disk."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from omnigate.ledger.tables import NOTHING, Row, plus
from omnigate.ledger.totals import Sums, Totals
from omnigate.periods import DAY_MS, utc_day, utc_month


@attrs.frozen
class KeyDay:
    """One UTC day of a key.

    :ivar sums: ``None`` where the rows by key of that day are no longer kept.
    """

    name: str
    sums: Sums | None


@attrs.frozen
class KeyHistory:
    """What a key used.

    :ivar days: the last days, the oldest first, today among them.
    :ivar month: in this UTC month.
    :ivar lifetime: all that was ever recorded.
    """

    days: tuple[KeyDay, ...]
    month: Sums
    lifetime: Sums

    @property
    def today(self) -> Sums:
        """What was used on this UTC day, whose rows are always kept."""
        return self.days[-1].sums or Sums()


def key_history(
    totals: Totals, key_hashes: Iterable[str], now_ms: int, days: int = 30
) -> KeyHistory:
    """Look up what a key used: a few look-ups for each day."""
    hashes, today = set(key_hashes), now_ms // DAY_MS
    found = []
    for number in range(today - days + 1, today + 1):
        day = totals.days.get(number)
        name = utc_day(number * DAY_MS)
        if day is not None and day.keys is None:
            found.append(KeyDay(name, None))
        else:
            found.append(KeyDay(name, _sums({} if day is None else day.keys or {}, hashes)))
    month = totals.months.get(utc_month(now_ms))
    return KeyHistory(
        tuple(found),
        _sums({} if month is None else month.keys, hashes),
        totals.lifetime(hashes),
    )


def last_days(totals: Totals, key_hashes: Iterable[str], now_ms: int) -> dict[str, str]:
    """Return the last UTC day up to today on which each of these hashes was used.

    Those that were not used on any day that is kept are left out. A hundred of them take 4 ms.
    """
    wanted, found = set(key_hashes), {}
    today = now_ms // DAY_MS
    for number in sorted(totals.days, reverse=True):
        if not wanted:
            break
        day = totals.days[number]
        if number > today or not day.keys:
            continue
        for sha256 in wanted & day.keys.keys():
            found[sha256] = day.name
            wanted.discard(sha256)
    return found


def _sums(rows: dict[str | None, Row], hashes: set[str]) -> Sums:
    sums = NOTHING
    for sha256 in hashes:
        sums = plus(sums, rows.get(sha256, NOTHING))
    return Sums(*sums)
