"""Who changed what, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode

from omnigate.control.audit_file import MAX_ENTRIES
from omnigate.control.audit_line import MAX_SEQ
from omnigate.control.dashboard.audit_view import Story, Wanted, part_of
from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.sources import Sources
from omnigate.control.routes import Answer, Call, Endpoint

PATH: Final = "/audit"

#: Digits of the highest number of a line.
_SEQ_DIGITS: Final = len(str(MAX_SEQ))


class AuditPage:
    """The endpoint of the page."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (Endpoint("GET", PATH, self.show, free_query=True),)

    async def show(self, call: Call) -> Answer:
        """Show a page of lines."""
        wanted = Wanted(*(call.query.get(name, "") for name in ("actor", "action", "target")))
        lines = self._sources.audit.entries(MAX_ENTRIES)
        part = part_of(lines, wanted, _seq(call.query.get("before")))
        await self._sources.pause()
        story = Story(lines)
        book = self._sources.book
        rows = [story.row(line, book.get(line.target) is not None) for line in part.lines]
        await self._sources.pause()
        return self._pages.answer(
            "audit.html",
            call.person,
            title="Audit",
            place=PATH,
            wanted=wanted,
            actors=_options((line.actor for line in lines), wanted.actor),
            actions=_options((line.action for line in lines), wanted.action),
            kept=len(lines),
            oldest=lines[-1].ts if lines else "",
            is_full=len(lines) >= MAX_ENTRIES,
            rows=rows,
            newer=_link(wanted, part.newer),
            older=_link(wanted, part.older),
        )


def _seq(text: str | None) -> int | None:
    """Return the number of a line; None for what is none."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text[: _SEQ_DIGITS + 1])


def _options(values: Iterable[str], chosen: str) -> list[tuple[str, str]]:
    found = sorted({*values, chosen} - {""})
    return [("", "All"), *((value, value) for value in found)]


def _link(wanted: Wanted, before: int | None) -> str:
    if before is None:
        return ""
    query = {**wanted.query, **({"before": str(before)} if before else {})}
    return f"{PATH}?{urlencode(query)}" if query else PATH
