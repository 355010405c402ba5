"""The page where a request is tried: sent through the data plane, watched, and priced."""

from __future__ import annotations

from typing import Final

from omnigate.control.byte_stream import EVENT_STREAM
from omnigate.control.dashboard import try_key
from omnigate.control.dashboard.data_plane import MAX_TRIES, DataPlane
from omnigate.control.dashboard.pages import HEADERS, HTML, Pages
from omnigate.control.dashboard.request_view import RequestView, view_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.try_form import (
    MADE,
    MAX_FORM_BYTES,
    STYLES,
    TryForm,
    asked_for,
    read_try,
)
from omnigate.control.dashboard.try_run import Teller, TryRun
from omnigate.control.dashboard.try_tellers import EventTeller, PageTeller
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError

PLACE: Final = "/try"

#: Models that the field offers; any other can be written.
MAX_OFFERED: Final = 500


class TryPage:
    """The endpoints of the page."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources
        self._key = try_key.TryKey(sources.book, sources.audit)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", PLACE, self.show, free_query=True),
            Endpoint("POST", PLACE, self.send, body_limit=MAX_FORM_BYTES),
            Endpoint("POST", "/try/stream", self.stream, body_limit=MAX_FORM_BYTES),
        )

    async def show(self, call: Call) -> Answer:
        """Show the form."""
        return self._form(call, asked_for(call.query), 200)

    async def send(self, call: Call) -> Answer:
        """Send the request; the page is written as the answer comes."""
        wanted = read_try(call.form)
        if wanted.faults:
            return self._form(call, wanted, 400)
        teller = PageTeller(self._pages, call.person, self._sources.data_plane.url)
        teller.take(self._page(call, wanted, teller.mark))
        return await self._begun(call, wanted, teller, HTML)

    async def stream(self, call: Call) -> Answer:
        """Send the request; the script of the page hears of it in events."""
        wanted = read_try(call.form)
        if wanted.faults:
            return self._form(call, wanted, 400)
        teller = EventTeller(self._pages, call.person, self._sources.data_plane.url)
        return await self._begun(call, wanted, teller, EVENT_STREAM)

    async def _begun(
        self, call: Call, wanted: TryForm, teller: Teller, content_type: bytes
    ) -> Answer:
        """Return the answer that goes on.

        :raises GatewayError: ``overloaded``, or what refused to make a key.
        """
        sources, is_new = self._sources, wanted.source == MADE
        data_plane = sources.data_plane
        _check_place(data_plane)
        secret = wanted.secret
        if is_new:
            secret = await self._key.secret(call)
            # Nobody takes the last one between here and the start of the run.
            _check_place(data_plane)
        run = TryRun(
            wanted.style,
            wanted.request(secret),
            is_new,
            data_plane,
            sources.clock,
            self._find,
            teller,
        )
        return Answer(content_type=content_type, headers=HEADERS, stream=run.start)

    def _find(self, request_id: str) -> RequestView | None:
        """Return what the ledger has of a request, if it is among the newest."""
        sources = self._sources
        try:
            event = sources.ledger.find_recent(request_id)
        except GatewayError:  # the stores are being opened anew
            return None
        # Nothing of it tells whose key it was, so no names are needed.
        return None if event is None else view_of(event, {}, sources.config_file.config)

    def _form(self, call: Call, wanted: TryForm, status: int) -> Answer:
        html = self._page(call, wanted, "")
        return Answer(html.encode("utf-8", "replace"), HTML, status, HEADERS)

    def _page(self, call: Call, wanted: TryForm, mark: str) -> str:
        """Return the page.

        :param mark: stands where an answer is to come; the empty string without one.
        """
        sources = self._sources
        models = [route.model for route in sources.config_file.config.routes[:MAX_OFFERED]]
        if not wanted.model and models:
            model = models[0]
        else:
            model = wanted.model
        return self._pages.html(
            "try.html",
            call.person,
            title="Try it",
            place=PLACE,
            wanted=wanted,
            model=model,
            models=models,
            styles=tuple(STYLES.items()),
            url=sources.data_plane.url,
            key_name=try_key.NAME,
            key_budget=try_key.BUDGET_USD,
            key_minutes=try_key.LIFE_MS // 60_000,
            mark=mark,
        )


def _check_place(data_plane: DataPlane) -> None:
    if data_plane.is_full:
        raise GatewayError(
            "overloaded",
            f"{MAX_TRIES} requests are being tried already, which is as many as this plane sends "
            "at once; try again when one has ended",
        )
