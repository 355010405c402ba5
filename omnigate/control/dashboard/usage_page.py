"""What was used and what it cost, by key, model, upstream or day."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import Final
from urllib.parse import urlencode

import attrs
from markupsafe import Markup

from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.plots import Series, stacked
from omnigate.control.dashboard.scales import USD
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.spans import PRESETS, day_of
from omnigate.control.dashboard.usage_asked import GROUPINGS, Asked, read_asked
from omnigate.control.dashboard.usage_view import (
    ROWS_A_PAGE,
    Bars,
    bars_of,
    dearest,
    names_of,
    only_one,
    usage_line,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.usage_api import csv_answer, in_steps
from omnigate.control.usage_report import UsageReport, UsageRow, days_of_one
from omnigate.errors import GatewayError
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.totals import Sums

PATH: Final = "/usage"

#: What of the form is filled in.
_FIELDS: Final = ("since", "until")


@attrs.frozen
class Found:
    """What the ledger told.

    :ivar groups: the rows that a plot tells apart.
    :ivar days: what each day came to, by these groups.
    """

    report: UsageReport
    groups: Sequence[UsageRow]
    days: Sequence[DayRows]


class UsagePage:
    """The endpoints of the page, and of the file that says the same."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", PATH, self.show, free_query=True),
            Endpoint("GET", f"{PATH}/csv", self.csv, free_query=True),
        )

    async def show(self, call: Call) -> Answer:
        """Show a page of rows with their total, and what each day cost."""
        today = day_of(self._sources.now_ms())
        asked = read_asked(call.query, today)
        span = asked.span
        found = await self._find(asked)
        rows = found.report.rows
        total = await found.report.total()
        part = page_of(len(rows), ROWS_A_PAGE, call.query.get("page"))
        bars = bars_of(found.days, len(found.groups), span, today)
        plot = _plot(asked, found.groups, bars)
        # The page itself takes as long again.
        await self._sources.pause()
        known = self._known(asked.by)
        is_by_key = "key" in (asked.by, asked.kind)
        return self._pages.answer(
            "usage.html",
            call.person,
            status=400 if span.faults else 200,
            title="Usage",
            place=PATH,
            asked=asked,
            span=span,
            groupings={
                name: (text, _path({"by": name, **span.query})) for name, text in GROUPINGS.items()
            },
            presets={
                name: (text, _path({**asked.query, "period": name}))
                for name, text in PRESETS.items()
            },
            typed={name: call.query.get(name, span.days.get(name, "")) for name in _FIELDS},
            lines=[usage_line(asked, row, total, known) for row in part.of(rows)],
            total=total,
            part=part,
            pager=part.links(PATH, {**asked.query, **span.query}),
            plot=plot,
            is_by_week=bars.by_week,
            csv_path=f"{PATH}/csv?{urlencode({**asked.query, **span.query})}",
            by_key_since=self._sources.ledger.by_key_since if is_by_key else None,
        )

    async def csv(self, call: Call) -> Answer:
        """Answer all rows of what the page shows, in its order, as CSV."""
        asked = read_asked(call.query, day_of(self._sources.now_ms()))
        for name, fault in asked.span.faults.items():
            raise GatewayError("invalid_request", f"{name}: {fault}", param=name)
        found = await self._find(asked, with_days=False)
        return await csv_answer(found.report, asked.filename)

    async def _find(self, asked: Asked, with_days: bool = True) -> Found:
        """Sum up: the dearest first, and of days the newest.

        :param with_days: whether to find what each day came to where that is not the rows.
        """
        sources, by, span = self._sources, asked.by, asked.span
        report = UsageReport(by, sources.pause)
        if asked.kind:
            days = await self._days(asked.kind, [self._names(asked)], asked)
            report.rows = days_of_one(days)[::-1]
            return Found(report, [], only_one(days))
        keys = sources.book.names_by_hash() if by == "key" else {}
        # Of ten thousand keys each look at all of them takes some milliseconds.
        await sources.pause()
        steps = sources.ledger.gather(by, span.since, span.until)
        await report.take(await in_steps(steps, sources.pause), keys)
        if by == "day":
            report.rows.reverse()
        else:
            await report.order_by_cost()
        if not with_days:
            return Found(report, [], [])
        groups = dearest(by, report.rows)
        names = names_of(by, groups, keys)
        await sources.pause()
        return Found(report, groups, await self._days(by, names, asked))

    async def _days(
        self, by: str, groups: Sequence[Collection[str | None]], asked: Asked
    ) -> list[DayRows]:
        since, until = asked.span.since, asked.span.until
        steps = self._sources.ledger.rows_by_day(by, groups, since, until)
        return await in_steps(steps, self._sources.pause)

    def _known(self, by: str) -> Container[str]:
        """Return the names that have a page since they are in the config."""
        config = self._sources.config_file.config
        if by == "model":
            return config.routes_by_model
        return {upstream.name for upstream in config.upstreams} if by == "upstream" else ()

    def _names(self, asked: Asked) -> Collection[str | None]:
        """Return the names in the ledger that are behind the one that is asked for."""
        key = self._sources.book.get(asked.name) if asked.kind == "key" else None
        # Of a key that is gone, the hash is what there is of its name.
        return [asked.name] if key is None else list(key.hashes)


def _path(query: dict[str, str]) -> str:
    return f"{PATH}?{urlencode(query)}"


def _plot(asked: Asked, groups: Sequence[UsageRow], bars: Bars) -> Markup | None:
    """Draw what each day or week cost, by the dearest names; nothing where nothing did."""
    if not any(map(any, (*bars.groups, bars.others))):
        return None
    names = [usage_line(asked, row, Sums()).name for row in groups]
    series = [Series(*pair) for pair in zip(names, bars.groups, strict=True)]
    if any(bars.others):
        series.append(Series("other" if groups else asked.name or "all", bars.others))
    every = "each week from its Monday on" if bars.by_week else "each day"
    return stacked(f"Cost of {every}", bars.labels, series, USD)
