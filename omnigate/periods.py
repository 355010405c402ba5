"""Days and months of UTC: when they begin, and what they are called.

Budgets and totals are kept by these names. Instants are milliseconds since 1970. Time zones and
summer time play no part, and leap seconds have no instant of their own.
"""

import datetime
from functools import lru_cache

DAY_MS = 86_400_000

DAILY = "daily"
MONTHLY = "monthly"
TOTAL = "total"
PERIODS = (DAILY, MONTHLY, TOTAL)

_EPOCH = datetime.date(1970, 1, 1).toordinal()


# Events come nearly in order: today, and late ones of a few days before. 64 names a process.
@lru_cache(maxsize=64)
def _day_name(day: int) -> str:
    """Return the name of the day that many days after 1970-01-01."""
    return datetime.date.fromordinal(_EPOCH + day).isoformat()


def utc_day(ts_ms: int) -> str:
    """Return the day of an instant, such as ``2026-11-29``."""
    return _day_name(ts_ms // DAY_MS)


def utc_month(ts_ms: int) -> str:
    """Return the month of an instant, such as ``2026-11``."""
    return _day_name(ts_ms // DAY_MS)[:7]


def next_turn(period: str, now_ms: int) -> int | None:
    """Return the instant at which the period of ``now_ms`` ends and the next one begins.

    :returns: ``None`` for ``total``, which never turns.
    :raises ValueError: there is no such period.
    """
    if period == TOTAL:
        return None
    today = now_ms // DAY_MS
    if period == DAILY:
        return (today + 1) * DAY_MS
    if period == MONTHLY:
        date = datetime.date.fromordinal(_EPOCH + today)
        # 32 days after the first lies in the next month, whatever the month's length.
        later = date.replace(day=1) + datetime.timedelta(days=32)
        return (later.replace(day=1).toordinal() - _EPOCH) * DAY_MS
    raise ValueError(f"no such period: {period!r}; there are {', '.join(PERIODS)}")


def rfc3339(ts_ms: int) -> str:
    """Return an instant in UTC as RFC 3339 writes it: ``2026-11-29T08:05:00.250Z``."""
    day, within = divmod(ts_ms, DAY_MS)
    seconds, millis = divmod(within, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day_name(day)}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"
