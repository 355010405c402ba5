"""Single requests: the newest usage events, what is found among all that were recorded, and one.

Amounts of money are exact decimal numbers of US dollars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from omnigate.control.admin_json import encode
from omnigate.control.keys import KeyBook
from omnigate.control.parameters import read_text, read_whole, text, whole
from omnigate.control.request_filters import (
    CURSOR,
    FILTERS,
    NEWEST,
    read_start,
    read_wanted,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    COUNT,
    DOLLARS,
    FLAG,
    TEXT,
    TIME,
    Schema,
    or_null,
    record,
    rows,
)
from omnigate.errors import GatewayError
from omnigate.events import MAX_ID_CHARS
from omnigate.ledger.books import RECENT_EVENTS
from omnigate.ledger.event_filter import EventFilter
from omnigate.ledger.event_search import EventSearch
from omnigate.ledger.looking_back import write_cursor

#: Two screens; whoever wants more says so, up to all that is kept.
DEFAULT_REQUESTS: Final = 100
MAX_REQUESTS: Final = RECENT_EVENTS

#: How often the ledger is looked into for one request, each time some hundred MB further back.
#: What is older is found by going on from there.
MAX_LOOKS_FOR_ONE: Final = 10

LIMIT: Final = whole("limit", "how many events to show", DEFAULT_REQUESTS, MAX_REQUESTS)

BEFORE: Final = text(
    "before",
    "show events older than the one of this id only: `next` of the page before. It leads through "
    "the newest events, without filters",
    MAX_ID_CHARS,
)

_ATTEMPT: Final = {
    "upstream": TEXT,
    "model": TEXT,
    "outcome": TEXT,
    "status": or_null(COUNT),
    "duration_ms": COUNT,
}

#: As the ledger keeps it; of an event that a later version recorded there may be more.
EVENT: Final[Schema] = record(
    {
        "id": TEXT,
        "key": or_null(TEXT),
        "key_sha256": TEXT,
        "route_model": TEXT,
        "upstream": or_null(TEXT),
        "target_model": or_null(TEXT),
        "endpoint": TEXT,
        "stream": FLAG,
        "status": COUNT,
        "input_tokens": COUNT,
        "cached_input_tokens": COUNT,
        "cache_write_input_tokens": COUNT,
        "output_tokens": COUNT,
        "estimated": FLAG,
        "cached": FLAG,
        "cost_usd": DOLLARS,
        "attempts": rows(record(_ATTEMPT, more=True, title="Attempt")),
        "latency_ms": COUNT,
        "ts_ms": COUNT,
        "ts": TIME,
        "received_at": TIME,
    },
    more=True,
    title="UsageEvent",
)
REQUESTS: Final[Schema] = record(
    {
        "requests": rows(EVENT),
        "next": or_null(TEXT),
        "cursor": or_null(TEXT),
        "searched_back_to": or_null(TIME),
    }
)


class Newest(Protocol):
    """The ledger, as far as it has events in memory."""

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest events, newest first."""


class RequestsApi:
    """The endpoints of whoever asks for single requests."""

    def __init__(self, book: KeyBook, ledger: Newest, search: EventSearch) -> None:
        self._book = book
        self._ledger = ledger
        self._search = search

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET",
                "/admin/requests",
                self.requests,
                summary="Show the newest usage events, or find some further back, newest first",
                parameters=(LIMIT, BEFORE, *FILTERS, CURSOR),
                answer=REQUESTS,
                refusals=("not_ready", "overloaded", "storage_unavailable"),
            ),
            Endpoint(
                "GET",
                "/admin/requests/{id}",
                self.request,
                summary="Show the usage event of one request",
                answer=EVENT,
                refusals=("not_found", "not_ready", "overloaded", "storage_unavailable"),
                segment={"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,256}$"},
            ),
        )

    async def requests(self, call: Call) -> Answer:
        """Answer a page of events, newest first, and where the next one begins."""
        limit = read_whole(call.query, LIMIT)
        before = read_text(call.query, BEFORE)
        if not any(parameter.name in call.query for parameter in (*FILTERS, CURSOR)):
            return self._newest(limit, before)
        if before is not None:
            raise GatewayError(
                "invalid_request",
                "before leads through the newest events alone; a search goes on by its cursor",
                param="before",
            )
        wanted = read_wanted(call.query, self._book)
        found = await self._search.look_back(wanted, limit, read_start(call.query))
        return self._answer(
            found.events,
            cursor=None if found.next is None else write_cursor(found.next),
            searched_back_to=found.back_to,
        )

    async def request(self, call: Call) -> Answer:
        """Answer one event.

        :raises GatewayError: ``not_found``; the text says how far back it was looked for.
        """
        before, back_to = None, None
        for _ in range(MAX_LOOKS_FOR_ONE):
            found = await self._search.look_back(EventFilter(id=call.name), 1, before)
            if found.events:
                return Answer(encode(shown(found.events[0], self._book.names_by_hash())))
            before, back_to = found.next, found.back_to or back_to
            if before is None:
                raise GatewayError(
                    "not_found",
                    "no request of this id is recorded; one that the gateway refused itself uses "
                    "nothing and is counted with the refusals",
                )
        raise GatewayError(
            "not_found",
            f"not among what was recorded since {back_to}; go on with "
            f"/admin/requests?id=...&cursor={write_cursor(before) if before else NEWEST}",
        )

    def _newest(self, limit: int, before: str | None) -> Answer:
        """Answer out of the events that are at hand."""
        events = self._ledger.recent(MAX_REQUESTS)
        if before is not None:
            places = [place for place, event in enumerate(events) if event["id"] == before]
            # Of an event that is no longer kept there is none older, either.
            events = events[places[0] + 1 :] if places else []
        more = events[limit - 1]["id"] if len(events) > limit else None
        return self._answer(events[:limit], next=more)

    def _answer(
        self,
        events: Iterable[dict[str, Any]],
        *,
        next: str | None = None,
        cursor: str | None = None,
        searched_back_to: str | None = None,
    ) -> Answer:
        names = self._book.names_by_hash()
        value = {
            "requests": [shown(event, names) for event in events],
            "next": next,
            "cursor": cursor,
            "searched_back_to": searched_back_to,
        }
        return Answer(encode(value))


def shown(event: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return an event with the name of its key, as it is told to programs."""
    return {
        **event,
        "key": names.get(event.get("key_sha256", "")),
        "cost_usd": msgspec.Raw(str(event["cost_usd"]).encode("ascii")),
    }
