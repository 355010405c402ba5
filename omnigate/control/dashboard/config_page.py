"""The config in force: its tables, its text, and what is wrong with the file if it is not that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from omnigate.control.config_api import reload_for
from omnigate.control.dashboard.config_text import LINES_A_PAGE, lines_of, shown_lines
from omnigate.control.dashboard.config_view import (
    ROWS_A_PAGE,
    fault_lines,
    key_line,
    media_line,
    route_line,
    upstream_line,
)
from omnigate.control.dashboard.pages import Pages, see_other
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.routes import Answer, Call, Endpoint

PATH: Final = "/config"

#: The parts of the config, each a page.
TABS: Final = {
    PATH: "Upstreams",
    f"{PATH}/routes": "Routes",
    f"{PATH}/media": "Media routes",
    f"{PATH}/keys": "Keys of the file",
    f"{PATH}/text": "Text",
    f"{PATH}/history": "History",
}

#: A token, and no field beside it.
MAX_FORM_BYTES: Final = 1024

#: What the address says after the file was read again.
_READ: Final = f"{PATH}?read=again"

Row = TypeVar("Row")


class ConfigPage:
    """The endpoints of the config in force."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", PATH, self.upstreams, free_query=True),
            Endpoint("GET", f"{PATH}/routes", self.routes, free_query=True),
            Endpoint("GET", f"{PATH}/media", self.media, free_query=True),
            Endpoint("GET", f"{PATH}/keys", self.keys, free_query=True),
            Endpoint("GET", f"{PATH}/text", self.text, free_query=True),
            Endpoint("POST", f"{PATH}/reload", self.reload, body_limit=MAX_FORM_BYTES),
        )

    async def upstreams(self, call: Call) -> Answer:
        """Show how the file is, and the upstreams."""
        return self._upstreams(call)

    async def routes(self, call: Call) -> Answer:
        """Show the routes."""
        rows = self._sources.config_file.config.routes
        return self._table(call, f"{PATH}/routes", rows, route_line)

    async def media(self, call: Call) -> Answer:
        """Show the routes of media jobs."""
        rows = self._sources.config_file.config.media.routes
        return self._table(call, f"{PATH}/media", rows, media_line)

    async def keys(self, call: Call) -> Answer:
        """Show the keys of the file; managed keys are elsewhere."""
        rows = self._sources.config_file.config.keys
        return self._table(call, f"{PATH}/keys", rows, key_line)

    async def text(self, call: Call) -> Answer:
        """Show the text of the file as it came into force, without what may be a secret."""
        reading = self._sources.config_file.reading
        lines = [] if reading is None else lines_of(reading.text)
        await self._sources.pause()
        part = page_of(len(lines), LINES_A_PAGE, call.query.get("page"))
        shown = await shown_lines(part.of(lines), self._sources.pause)
        path = f"{PATH}/text"
        return self._answer(
            call, path, lines="\n".join(shown), part=part, pager=part.links(path, {})
        )

    async def reload(self, call: Call) -> Answer:
        """Read the file again; show its faults if it has any."""
        if await reload_for(self._sources.config_file, call):
            return see_other(_READ)
        return self._upstreams(call, status=409)

    def _upstreams(self, call: Call, status: int = 200) -> Answer:
        config_file = self._sources.config_file
        was_read = call.query.get("read") == "again" and not config_file.faults
        rows = config_file.config.upstreams
        return self._table(call, PATH, rows, upstream_line, status=status, was_read=was_read)

    def _table(
        self,
        call: Call,
        path: str,
        rows: Sequence[Row],
        line: Callable[[Row], object],
        **values: Any,
    ) -> Answer:
        part = page_of(len(rows), ROWS_A_PAGE, call.query.get("page"))
        lines = [line(row) for row in part.of(rows)]
        return self._answer(
            call, path, lines=lines, part=part, pager=part.links(path, {}), **values
        )

    def _answer(self, call: Call, path: str, status: int = 200, **values: Any) -> Answer:
        config_file = self._sources.config_file
        config = config_file.config
        return self._pages.answer(
            "config.html",
            call.person,
            status=status,
            title="Config" if path == PATH else f"Config: {TABS[path].lower()}",
            place=PATH,
            tabs=TABS,
            tab=path,
            path=config_file.path,
            loaded_ms=int(config_file.loaded_at * 1000),
            faults=fault_lines(config_file.faults),
            fault_count=len(config_file.faults),
            config=config,
            **{"was_read": False, **values},
        )
