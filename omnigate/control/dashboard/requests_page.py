"""The list of requests, searched as far back as the ledger goes, and one request whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from omnigate.control.dashboard.live_parts import Update
from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.paths import search_path
from omnigate.control.dashboard.request_rows import KeyMark, row_of
from omnigate.control.dashboard.request_view import view_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.parameters import Parameter
from omnigate.control.request_filters import (
    CURSOR,
    FILTERS,
    ID,
    SINCE,
    UNTIL,
    read_start,
    read_time,
    read_wanted,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.ledger.budgets import Standing
from omnigate.ledger.event_filter import EventFilter
from omnigate.ledger.looking_back import LookedBack, read_cursor, write_cursor
from omnigate.periods import rfc3339

#: Rows of one page: as many as are looked through without a search.
ROWS: Final = 50

#: Names that are offered while somebody types; more would be more than a browser shows.
MAX_OFFERED: Final = 100

#: An id that means the same to a shell, to grep and in JSON.
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

#: What may be chosen of statuses; any other one is written in the address.
STATUSES: Final = (
    ("", "any"),
    ("ok", "answered (below 400)"),
    ("failed", "failed (400 and above)"),
    ("4xx", "4xx"),
    ("5xx", "5xx"),
    ("429", "429 rate limited"),
    ("cut", "499 broken off"),
    ("502", "502 every target failed"),
)


class RequestsPage:
    """The endpoints of requests."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources
        self._names: tuple[tuple[int, int], dict[str, str]] = ((-1, -1), {})
        sources.live.rows("requests", self.render_new_rows)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", "/requests", self.show, free_query=True),
            Endpoint("GET", "/requests/one", self.show_one, free_query=True),
        )

    async def show(self, call: Call) -> Answer:
        """Show the newest requests that are asked for."""
        typed = {each.name: call.query.get(each.name, "") for each in FILTERS}
        try:
            wanted = read_wanted(call.query, self._sources.book)
            start = read_start(call.query)
        except GatewayError as refusal:
            if refusal.param not in typed:
                raise
            fault, status = (refusal.param, refusal.message), refusal.kind.status
            return self._list(call, typed, LookedBack([], None, None), fault, status)
        found = await self._sources.search.look_back(wanted, ROWS, start)
        return self._list(call, typed, found)

    async def render_new_rows(self, query: Mapping[str, str], mark: str) -> Update | None:
        """Return the rows of requests that came since a mark, the newest first."""
        try:
            after = read_cursor(mark) if mark else None
        except ValueError:
            raise GatewayError("invalid_request", "no such mark; load the page again") from None
        wanted = read_wanted(query, self._sources.book)
        found = await self._sources.search.look_back(wanted, ROWS + 1 if mark else 1, after=after)
        if after is not None and (found.end is None or found.end < after):
            return await self._begin_anew(wanted)
        if found.end is None or found.end == after:
            return None
        if not mark or not (found.events or found.next):
            return Update("", write_cursor(found.end))
        rows = [row_of(event, self._key_names()) for event in found.events[:ROWS]]
        # There may have been more than are shown at once, or than one look reads.
        html = self._pages.html(
            "request_rows.html", None, rows=rows, has_gap=found.next is not None
        )
        return Update(html, write_cursor(found.end))

    async def _begin_anew(self, wanted: EventFilter) -> Update | None:
        """Say that there may be more, where the ledger ends before the mark of a page.

        It is another ledger then, such as an older copy. Which of its rows the page has is not
        known.
        """
        found = await self._sources.search.look_back(wanted, 1)
        if found.end is None:
            return None
        html = self._pages.html("request_rows.html", None, rows=[], has_gap=True)
        return Update(html, write_cursor(found.end))

    async def show_one(self, call: Call) -> Answer:
        """Show one request, or say how far it was looked for."""
        request_id = call.query.get(ID.name, "")
        if not request_id:
            raise GatewayError("not_found", "say which request: /requests/one?id=…")
        start = read_start(call.query)
        found = await self._sources.search.look_back(EventFilter(id=request_id), 1, start)
        if not found.events:
            return self._not_found(call, request_id, found)
        view = view_of(found.events[0], self._key_names(), self._sources.config_file.config)
        return self._pages.answer(
            "request.html",
            call.person,
            title="Request",
            place="/requests",
            view=view,
            around=search_path({"key": view.row.key.word}),
            grep=_grep(view.row.id),
            standing=self._standing(view.row.key),
        )

    # -- within -------------------------------------------------------------------------------

    def _list(
        self,
        call: Call,
        typed: dict[str, str],
        found: LookedBack,
        fault: tuple[str, str] = ("", ""),
        status: int = 200,
    ) -> Answer:
        if not fault[0]:
            typed = {**typed, **_as_field(SINCE, call.query), **_as_field(UNTIL, call.query)}
        is_first = CURSOR.name not in call.query
        older = "" if found.next is None else write_cursor(found.next)
        is_live = is_first and not typed["until"] and not typed["id"] and not fault[0]
        is_full = len(found.events) >= ROWS
        return self._pages.answer(
            "requests.html",
            call.person,
            status=status,
            title="Requests",
            place="/requests",
            typed=typed,
            faults={fault[0]: fault[1]},
            statuses=_statuses(typed["status"]),
            models=_names(self._sources.config_file.config.routes_by_model),
            upstreams=_names(each.name for each in self._sources.config_file.config.upstreams),
            rows=[row_of(event, self._key_names()) for event in found.events],
            has_gap=False,
            mark=write_cursor(found.end) if is_live and found.end is not None else "",
            is_live=is_live,
            is_filtered=any(typed.values()),
            newer="" if is_first else search_path(typed),
            older=search_path({**typed, CURSOR.name: older}) if older else "",
            back_to=found.back_to if older and not is_full else None,
            keeps_days=self._sources.config_file.config.retention.ledger_days,
        )

    def _not_found(self, call: Call, request_id: str, found: LookedBack) -> Answer:
        older = "" if found.next is None else write_cursor(found.next)
        return self._pages.answer(
            "request_not_found.html",
            call.person,
            status=200 if older else 404,
            title="Request not found",
            place="/requests",
            request_id=request_id,
            back_to=found.back_to,
            older=older,
            keeps_days=self._sources.config_file.config.retention.ledger_days,
        )

    def _standing(self, mark: KeyMark) -> Standing | None:
        """Return how the key of a request stands now; ``None`` without one, or without a budget."""
        key = None if mark.is_gone else self._sources.book.get(mark.word)
        if key is None or key.budget_nano is None:
            return None
        return self._sources.watch.standing(key)

    def _key_names(self) -> dict[str, str]:
        """Return the name of every key by its hashes; they are gathered once for each change."""
        book = self._sources.book
        if self._names[0] != book.revision:
            self._names = book.revision, book.names_by_hash()
        return self._names[1]


def _grep(request_id: str) -> str:
    """Return a command that finds a request in an access log; none for an id of odd characters."""
    if not _PLAIN_ID.fullmatch(request_id):
        return ""
    return f'grep \'"request_id":"{request_id}"\' access.log'


def _as_field(parameter: Parameter, query: Mapping[str, str]) -> dict[str, str]:
    """Return a time as a field for times takes it, whatever form it was written in."""
    value = query.get(parameter.name)
    if value is None:
        return {}
    written = rfc3339(read_time(parameter.name, value, is_end=parameter is UNTIL))
    return {parameter.name: written[:16] if written[17:23] == "00.000" else written[:23]}


def _statuses(chosen: str) -> list[tuple[str, str]]:
    """Return what may be chosen of statuses, and what stands in the address already."""
    known = [each for each, _ in STATUSES]
    return [*STATUSES, *([] if chosen in known else [(chosen, chosen)])]


def _names(names: Iterable[str]) -> list[str]:
    """Return the first names, in order."""
    return sorted(names)[:MAX_OFFERED]
