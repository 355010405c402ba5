"""The first page: how everything is, with what is not well on top."""

from __future__ import annotations

from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.sources import Sources
from omnigate.control.routes import Answer, Call, Endpoint


class OverviewPage:
    """The endpoint of the first page."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (Endpoint("GET", "/", self.show),)

    async def show(self, call: Call) -> Answer:
        """Show the page."""
        return self._pages.answer("overview.html", call.person, title="Overview", place="/")
