"""What was refused before any provider was asked, why, and what to do about it."""

from __future__ import annotations

from typing import Final

from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.refusals_view import (
    PATH,
    chosen,
    misfits_of,
    reasons_of,
    refused_keys,
)
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.routes import Answer, Call, Endpoint

#: A screen or two; the largest counts come first.
ROWS_A_PAGE: Final = 100


class RefusalsPage:
    """The endpoint of the page."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (Endpoint("GET", PATH, self.show, free_query=True),)

    async def show(self, call: Call) -> Answer:
        """Show the page."""
        reports = self._sources.reports
        key, code = call.query.get("key", ""), call.query.get("code", "")
        rows = reports.rows()
        codes = sorted({row.code for row in rows} | ({code} if code else set()))
        found = chosen(rows, key, code)
        await self._sources.pause()
        part = page_of(len(found), ROWS_A_PAGE, call.query.get("page"))
        wanted = {name: text for name, text in (("key", key), ("code", code)) if text}
        page = part.of(found)
        book = self._sources.book
        return self._pages.answer(
            "refusals.html",
            call.person,
            title="Refusals",
            place=PATH,
            since_ms=reports.since_ms,
            any=bool(rows),
            key=key,
            code=code,
            codes=[("", "All"), *((one, one) for one in codes)],
            reasons=reasons_of(found, key),
            refused=refused_keys(page, {row.key for row in page if book.get(row.key)}),
            part=part,
            pager=part.links(PATH, wanted),
            misfits=misfits_of(self._sources.metrics.auth_failures()),
        )
