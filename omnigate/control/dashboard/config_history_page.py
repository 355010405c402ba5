"""The configs that were in force, and what each was new in against the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from omnigate.control.config_history import HistoryEntry
from omnigate.control.dashboard.config_page import PATH as CONFIG
from omnigate.control.dashboard.config_page import TABS
from omnigate.control.dashboard.config_text import LINES_A_PAGE, Diff, clipped, diff_of, lines_of
from omnigate.control.dashboard.config_view import change_lines, change_words
from omnigate.control.dashboard.line_diff import compare
from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.usage_api import in_steps
from omnigate.errors import GatewayError

PATH: Final = f"{CONFIG}/history"


class ConfigHistoryPage:
    """The endpoints of the history."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", PATH, self.show, free_query=True),
            Endpoint("GET", f"{PATH}/{{id}}", self.entry, free_query=True),
        )

    async def show(self, call: Call) -> Answer:
        """Show all entries; there are never more than fifty."""
        entries = self._sources.history.entries()
        reading = self._sources.config_file.reading
        return self._pages.answer(
            "config_history.html",
            call.person,
            title="Config: history",
            place=CONFIG,
            tabs=TABS,
            tab=PATH,
            entries=[(entry, change_words(change_lines(entry.changes))) for entry in entries],
            # One that was put back stands there twice.
            in_force=next(
                (e.id for e in entries if reading is not None and e.sha256 == reading.sha256), 0
            ),
        )

    async def entry(self, call: Call) -> Answer:
        """Show one entry: what was new, line by line, and its text."""
        entries = self._sources.history.entries()
        index = next((n for n, one in enumerate(entries) if str(one.id) == call.name), None)
        if index is None:
            raise GatewayError("not_found", "the history has no config of this number (any more)")
        entry = entries[index]
        before = entries[index + 1] if index + 1 < len(entries) else None
        lines = await self._lines(entry)
        diff = None
        if lines and before is not None and before.text is not None:
            diff = await self._diff(before, lines)
        part = page_of(len(lines), LINES_A_PAGE, call.query.get("page"))
        return self._pages.answer(
            "config_entry.html",
            call.person,
            title=f"Config {entry.id}",
            place=CONFIG,
            entry=entry,
            before=before,
            changes=change_lines(entry.changes),
            diff=diff,
            lines="\n".join(map(clipped, part.of(lines))),
            part=part,
            pager=part.links(f"{PATH}/{entry.id}", {}),
        )

    async def _diff(self, before: HistoryEntry, lines: Sequence[str]) -> Diff:
        old = await self._lines(before)
        blocks = await in_steps(compare(old, lines), self._sources.pause)
        return diff_of(old, lines, blocks)

    async def _lines(self, entry: HistoryEntry) -> list[str]:
        """Return the lines of an entry; to cut four megabytes takes some milliseconds."""
        await self._sources.pause()
        return [] if entry.text is None else lines_of(entry.text)
