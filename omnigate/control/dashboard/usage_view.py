"""What the page of usage shows, made of sums: rows with links, and the bars of a plot."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode

import attrs

from omnigate.control.dashboard.paths import key_path, model_path, search_path, upstream_path
from omnigate.control.dashboard.request_rows import HASH_CHARS
from omnigate.control.dashboard.spans import Span
from omnigate.control.dashboard.usage_asked import Asked
from omnigate.control.usage_report import UsageRow
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.tables import COST
from omnigate.ledger.totals import DAYS_KEPT, Sums

#: A screen or two; the rest is a page away, and the CSV file has all.
ROWS_A_PAGE: Final = 100

#: Groups that a plot tells apart: as many as there are colours that can be told apart.
MAX_GROUPS: Final = 8

#: Bars of a plot: a quarter of a year of days. What is longer has a bar for each week.
MAX_BARS: Final = 92

#: What a row of the ledger has no name for: no upstream answered.
NAMELESS: Final = "(none answered)"

_EPOCH: Final = date(1970, 1, 1)


@attrs.frozen
class UsageLine:
    """One row of the table.

    :ivar hint: what there is to say of the name; empty where it speaks for itself.
    :ivar path: the page of what it names; empty where there is none.
    :ivar requests_path: the page of its requests; empty where they cannot be asked for.
    :ivar share: of the cost of all rows, 0 to 1.
    """

    name: str
    hint: str
    path: str
    requests_path: str
    share: float
    sums: Sums


def usage_line(asked: Asked, row: UsageRow, total: Sums, known: Container[str] = ()) -> UsageLine:
    """Return a row as it is shown.

    :param known: the models, or the upstreams, that are in the config.
    """
    by, span = asked.by, asked.span
    share = row.sums.cost_nano / total.cost_nano if total.cost_nano else 0.0
    name, hint, path, wanted = row.name or NAMELESS, "", "", {}
    if by == "key" and row.key is not None:
        name, path, wanted = row.key, key_path(row.key), {"key": row.key}
    elif by == "key":
        path, wanted = key_path(name), {"key": name}
        name, hint = f"{name[:HASH_CHARS]}\N{HORIZONTAL ELLIPSIS}", "a key that is gone"
    elif by == "model":
        path, wanted = model_path(name) if name in known else "", {"model": name}
    elif by == "upstream" and row.name is None:
        hint = "refused by every upstream, or answered out of the cache"
    elif by == "upstream":
        path, wanted = upstream_path(name) if name in known else "", {"upstream": name}
    else:
        wanted = {"since": name, "until": name}
        path = f"/usage?{urlencode(wanted)}" if not asked.kind else ""
        wanted |= {asked.kind: asked.name} if asked.kind else {}
    requests_path = search_path({**span.days, **wanted}) if wanted else ""
    return UsageLine(name, hint, path, requests_path, share, row.sums)


def dearest(by: str, rows: Sequence[UsageRow]) -> list[UsageRow]:
    """Return the rows that a plot tells apart, the dearest first; of days, none."""
    if by == "day":
        return []
    return [row for row in rows[:MAX_GROUPS] if row.sums.cost_nano > 0]


def names_of(
    by: str, rows: Sequence[UsageRow], keys: Mapping[str, str]
) -> list[Collection[str | None]]:
    """Return the names in the ledger that are behind each row: all hashes of a key.

    :param keys: the names of keys by their hashes.
    """
    if by != "key":
        return [[row.name] for row in rows]
    hashes: dict[str, list[str | None]] = {row.key: [] for row in rows if row.key is not None}
    for digest, name in keys.items():
        if name in hashes:
            hashes[name].append(digest)
    return [[row.name] if row.key is None else hashes[row.key] for row in rows]


def only_one(days: Sequence[DayRows]) -> list[DayRows]:
    """Return days as a plot has them where nobody counts but the only group asked for."""
    return [DayRows(day.number, (), day.groups[0]) for day in days]


@attrs.frozen
class Bars:
    """The bars of a plot, in nano-dollars.

    :ivar labels: the day of each; of a week, its Monday.
    :ivar groups: for each group, the values of all bars.
    :ivar others: what is in no group, for all bars.
    :ivar by_week: whether a bar is a week.
    """

    labels: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]
    by_week: bool


def bars_of(days: Sequence[DayRows], groups: int, span: Span, today: date) -> Bars:
    """Put the costs of days into bars, those of days without events included.

    :param days: days with events, in their order.
    :param groups: how many groups were asked for.
    """
    first, last = _bounds(days, span, today)
    by_week = last - first >= MAX_BARS
    starts = _weeks(first, last) if by_week else list(range(first, last + 1))
    places = {start: place for place, start in enumerate(starts)}
    values = [[0] * len(starts) for _ in range(groups)]
    others = [0] * len(starts)
    for day in days:
        if first <= day.number <= last:
            place = places[_monday(day.number) if by_week else day.number]
            for group, cost in zip(values, day.groups, strict=True):
                group[place] += cost[COST]
            others[place] += day.everything[COST] - sum(cost[COST] for cost in day.groups)
    labels = tuple((_EPOCH + timedelta(days=start)).isoformat() for start in starts)
    return Bars(labels, tuple(map(tuple, values)), tuple(others), by_week)


def _bounds(days: Sequence[DayRows], span: Span, today: date) -> tuple[int, int]:
    """Return the first and the last day of the plot, as days since 1970.

    Between bounds that lie anywhere, only days that the ledger keeps are shown; what is dated in
    the future is in the table alone.
    """
    now = (today - _EPOCH).days
    begin = days[0].number if days else now
    first = begin if span.since is None else (date.fromisoformat(span.since) - _EPOCH).days
    last = now if span.until is None else (date.fromisoformat(span.until) - _EPOCH).days
    last = max(min(last, now), now - DAYS_KEPT)
    # A span that begins long before anything was recorded would be mostly empty.
    first = max(first, min(begin, last - MAX_BARS + 1), now - DAYS_KEPT)
    return min(first, last), last


def _monday(number: int) -> int:
    """Return the Monday of a day's week; 1970 began on a Thursday."""
    return number - (number + 3) % 7


def _weeks(first: int, last: int) -> list[int]:
    return list(range(_monday(first), last + 1, 7))
