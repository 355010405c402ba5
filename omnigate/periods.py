"""Days, weeks and months, in UTC or a named time zone: when they begin, and what they are called.

Budgets and totals are kept by these names. Instants are milliseconds since 1970; leap seconds have
no instant of their own. Totals are always kept by the days and months of UTC; only the periods of
a budget may follow the clocks of a place.

Where clocks are put forward and back, a day has 23 or 25 hours, or another length; it begins with
the first instant at which the clocks of the zone show its date. Where its midnight is left out,
that is the instant at which they are put forward; where it comes twice, the first one. A date that
a zone left out whole is a day of no length.

The rules of the zones are read from the machine's own zone files, or from the package ``tzdata``
where it is installed; each zone once.
"""

import datetime
import struct
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY_MS = 86_400_000

DAILY = "daily"
WEEKLY = "weekly"
MONTHLY = "monthly"
TOTAL = "total"
PERIODS = (DAILY, WEEKLY, MONTHLY, TOTAL)

#: The zone of everything that names none.
UTC = "UTC"

#: The instant at which ``total`` ends: the first of the year 10000, behind every instant there is.
END_MS = 253_402_300_800_000

#: Zones that are remembered; there are 600.
ZONES_REMEMBERED = 1_024

#: Periods that are remembered with their bounds: three for each of the 600 zones there are.
PERIODS_REMEMBERED = 2_000

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_INSTANT = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_DAY = datetime.timedelta(days=1)

#: Zone files that are no place's clocks: with leap seconds, or whatever this machine is set to.
_NO_PLACES = ("right/", "posix/", "posixrules", "localtime", "Factory")

_remembered: dict[tuple[str, str], tuple[int, int]] = {}


class UnknownZoneError(ValueError):
    """This machine does not know a time zone; the text says what to do."""


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


# One that is not found is looked for again: it may be installed meanwhile. One that is taken off
# the machine goes on as it was, as Python's own table, of eight zones, would not have it.
@lru_cache(maxsize=ZONES_REMEMBERED)
def time_zone(name: str) -> datetime.tzinfo:
    """Return the clocks of a zone, by its name in the IANA database.

    :param name: such as ``Europe/Stockholm``; ``UTC`` needs no zone files.
    :raises UnknownZoneError: there is no such zone on this machine, or its file cannot be read.
    """
    if name == UTC:
        return datetime.UTC
    try:
        if name.startswith(_NO_PLACES):
            raise ValueError("no place's clocks")
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, struct.error, AssertionError):
        # The last two are what Python's reader makes of a file that is cut off.
        raise UnknownZoneError(
            f'no time zone "{name}" on this machine; use a name such as "Europe/Stockholm", or, if '
            "the name is right, install the system's time zone files or the Python package tzdata"
        ) from None


def bounds(period: str, now_ms: int, zone: str = UTC) -> tuple[int, int]:
    """Return when the period of ``now_ms`` began and when it ends.

    A week begins on Monday. ``total`` lasts from 1970 to :data:`END_MS`.

    :param period: one of :data:`PERIODS`.
    :param zone: the zone whose midnights count; for ``total``, none do.
    :return: its first instant, and the first one behind it, which is the next period's.
    :raises UnknownZoneError: there is no such zone on this machine.
    :raises ValueError: there is no such period.
    """
    known = _remembered.get((period, zone))
    if known is not None and known[0] <= now_ms < known[1]:
        return known
    if period not in PERIODS:
        raise ValueError(f"no such period: {period!r}; there are {', '.join(PERIODS)}")
    if period == TOTAL:
        return 0, END_MS
    found = _find_bounds(period, now_ms, time_zone(zone))
    if len(_remembered) >= PERIODS_REMEMBERED:
        _remembered.clear()
    _remembered[period, zone] = found
    return found


def next_turn(period: str, now_ms: int, zone: str = UTC) -> int | None:
    """Return the instant at which the period of ``now_ms`` ends and the next one begins.

    :returns: ``None`` for ``total``, which never turns.
    :raises ValueError: there is no such period, or no such zone on this machine.
    """
    end_ms = bounds(period, now_ms, zone)[1]
    return None if period == TOTAL else end_ms


def _find_bounds(period: str, now_ms: int, zone: datetime.tzinfo) -> tuple[int, int]:
    date = (_FIRST_INSTANT + now_ms * _MILLISECOND).astimezone(zone).date()
    first = _first_day(period, date)
    following = _first_day_after(period, first)
    end_ms = _beginning(following, zone)
    # Clocks that were put back over midnight show once more a date that has ended.
    while now_ms >= end_ms:
        first, following = following, _first_day_after(period, following)
        end_ms = _beginning(following, zone)
    return _beginning(first, zone), end_ms


def _first_day(period: str, date: datetime.date) -> datetime.date:
    """The first date of the period of a date."""
    if period == WEEKLY:
        return date - date.weekday() * _DAY
    return date.replace(day=1) if period == MONTHLY else date


def _first_day_after(period: str, first: datetime.date) -> datetime.date:
    """The first date of the period behind the one that begins with a date."""
    if period == WEEKLY:
        return first + 7 * _DAY
    # 32 days after the first lies in the next month, whatever the month's length.
    return (first + 32 * _DAY).replace(day=1) if period == MONTHLY else first + _DAY


def _beginning(date: datetime.date, zone: datetime.tzinfo) -> int:
    """The first instant at which the clocks of a zone show a date, or a later one."""
    midnight = datetime.datetime.combine(date, datetime.time(), zone)
    # By the clocks before a change and by those after it: of a midnight that comes twice, the
    # first time; of one that was left out, an instant at or behind the change, and one before it.
    found = _instant(midnight)
    before = _instant(midnight.replace(fold=1))
    if before >= found:
        return found
    naive = midnight.replace(tzinfo=None)
    while found - before > 1:
        middle = (before + found) // 2
        shown = (_FIRST_INSTANT + middle * _MILLISECOND).astimezone(zone)
        if shown.replace(tzinfo=None) >= naive:
            found = middle
        else:
            before = middle
    return found


def _instant(moment: datetime.datetime) -> int:
    return (moment - _FIRST_INSTANT) // _MILLISECOND


def rfc3339(ts_ms: int) -> str:
    """Return an instant in UTC as RFC 3339 writes it: ``2026-11-29T08:05:00.250Z``."""
    day, within = divmod(ts_ms, DAY_MS)
    seconds, millis = divmod(within, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day_name(day)}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"
