"""What was used and what it cost, by key, model, upstream or day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.plots import Series, stacked
from omnigate.control.dashboard.scales import USD
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.spans import PRESETS, Span, day_of, read_span
from omnigate.control.dashboard.usage_view import (
    GROUPINGS,
    ROWS_A_PAGE,
    bars_of,
    dearest,
    names_of,
    usage_line,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.usage_api import csv_answer, in_steps
from omnigate.control.usage_report import UsageReport
from omnigate.errors import GatewayError
from omnigate.ledger.totals import Sums

PATH: Final = "/usage"


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
        by, span = self._asked(call)
        keys = self._sources.book.names_by_hash() if by == "key" else {}
        report = await self._report(by, span, keys)
        total = await report.total()
        part = page_of(len(report.rows), ROWS_A_PAGE, call.query.get("page"))
        plot, is_by_week = await self._plot(by, span, report, keys)
        by_key_since = self._sources.ledger.by_key_since if by == "key" else None
        return self._pages.answer(
            "usage.html",
            call.person,
            status=400 if span.faults else 200,
            title="Usage",
            place=PATH,
            by=by,
            groupings={name: (text, _path(name, span)) for name, text in GROUPINGS.items()},
            presets={
                name: (text, f"{PATH}?{urlencode({'by': by, 'period': name})}")
                for name, text in PRESETS.items()
            },
            span=span,
            typed={name: call.query.get(name, span.days.get(name, "")) for name in _FIELDS},
            lines=[usage_line(by, row, total, span) for row in part.of(report.rows)],
            total=total,
            part=part,
            pager=part.links(PATH, {"by": by, **span.query}),
            plot=plot,
            is_by_week=is_by_week,
            csv_path=f"{PATH}/csv?{urlencode({'by': by, **span.query})}",
            by_key_since=by_key_since,
        )

    async def csv(self, call: Call) -> Answer:
        """Answer all rows of what the page shows, in its order, as CSV."""
        by, span = self._asked(call)
        for name, fault in span.faults.items():
            raise GatewayError("invalid_request", f"{name}: {fault}", param=name)
        keys = self._sources.book.names_by_hash() if by == "key" else {}
        report = await self._report(by, span, keys)
        return await csv_answer(report, f"omnigate-usage-by-{by}-{span.file_part}.csv")

    def _asked(self, call: Call) -> tuple[str, Span]:
        by = call.query.get("by", "key")
        today = day_of(self._sources.now_ms())
        return by if by in GROUPINGS else "key", read_span(call.query, today)

    async def _report(self, by: str, span: Span, keys: Mapping[str, str]) -> UsageReport:
        """Sum up: the dearest first, and of days the newest."""
        sources = self._sources
        sums = await in_steps(
            sources.ledger.gather(by, span.since, span.until),
            sources.pause,
        )
        report = UsageReport(by, sources.pause)
        await report.take(sums, keys)
        if by == "day":
            report.rows.reverse()
        else:
            await report.order_by_cost()
        return report

    async def _plot(
        self, by: str, span: Span, report: UsageReport, keys: Mapping[str, str]
    ) -> tuple[Markup | None, bool]:
        """Draw what each day or week cost, by the dearest names; nothing where nothing did.

        :return: the plot, and whether it is of weeks.
        """
        rows = dearest(by, report.rows)
        days = await in_steps(
            self._sources.ledger.costs_by_day(by, names_of(by, rows, keys), span.since, span.until),
            self._sources.pause,
        )
        bars = bars_of(days, len(rows), span, day_of(self._sources.now_ms()))
        if not any(map(any, (*bars.groups, bars.others))):
            return None, bars.by_week
        names = [usage_line(by, row, Sums(), span).name for row in rows]
        series = [Series(*pair) for pair in zip(names, bars.groups, strict=True)]
        if any(bars.others):
            series.append(Series("other" if rows else "all", bars.others))
        every = "each week from its Monday on" if bars.by_week else "each day"
        return stacked(f"Cost of {every}", bars.labels, series, USD), bars.by_week


_FIELDS: Final = ("since", "until")


def _path(by: str, span: Span) -> str:
    return f"{PATH}?{urlencode({'by': by, **span.query})}"
