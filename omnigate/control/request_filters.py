"""What somebody looks for among recorded events, as queries of the API and of pages write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigate.control.keys import KeyBook
from omnigate.control.parameters import Parameter, read_text, text
from omnigate.errors import GatewayError
from omnigate.events import MAX_ID_CHARS, MAX_KEY_CHARS
from omnigate.ledger.event_filter import STATUS_KINDS, EventFilter, parse_status
from omnigate.ledger.family import Position
from omnigate.ledger.looking_back import read_cursor
from omnigate.periods import END_MS

#: The longest name of a model or an upstream that is looked for.
MAX_NAME_CHARS: Final = 512

#: Where a search begins that goes back from the newest event.
NEWEST: Final = "newest"

ID: Final = text("id", "show the event of this request id", MAX_ID_CHARS)
KEY: Final = text(
    "key",
    "show events of the key of this name, or, of a key that is gone, of this SHA-256",
    MAX_KEY_CHARS,
)
MODEL: Final = text("model", "show events of this model, as clients ask for it", MAX_NAME_CHARS)
UPSTREAM: Final = text(
    "upstream", "show events that were sent to this upstream in any attempt", MAX_NAME_CHARS
)
STATUS: Final = Parameter(
    "status",
    "show events of this status, or kind of statuses: failed is 400 and above, cut is 499",
    {"type": "string", "pattern": f"^([1-5][0-9]{{2}}|{'|'.join(STATUS_KINDS)})$"},
)
SINCE: Final = text(
    "since", "show what ended at this time or later: RFC 3339, or a day; UTC if not said", 40
)
UNTIL: Final = text(
    "until", "show what ended before this time, or by the end of this day; UTC if not said", 40
)
CURSOR: Final = text(
    "cursor",
    f"go on where the answer before ended, which said this; {NEWEST} begins with the newest event",
    32,
)
FILTERS: Final = (ID, KEY, MODEL, UPSTREAM, STATUS, SINCE, UNTIL)

_HASH: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_wanted(query: Mapping[str, str], book: KeyBook) -> EventFilter:
    """Return which events a query asks for.

    :raises GatewayError: ``invalid_request``, with the parameter that is at fault.
    """
    status = query.get("status")
    since, until = read_text(query, SINCE), read_text(query, UNTIL)
    since_ms = None if since is None else read_time(SINCE.name, since)
    until_ms = None if until is None else read_time(UNTIL.name, until, is_end=True)
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise GatewayError("invalid_request", "since is after until", param="since")
    try:
        statuses = None if status is None else parse_status(status)
    except ValueError as error:
        raise GatewayError("invalid_request", str(error), param="status") from None
    key = read_text(query, KEY)
    return EventFilter(
        id=read_text(query, ID),
        key_hashes=None if key is None else hashes_of(book, key),
        model=read_text(query, MODEL),
        upstream=read_text(query, UPSTREAM),
        statuses=statuses,
        since_ms=since_ms,
        until_ms=until_ms,
    )


def read_start(query: Mapping[str, str]) -> Position | None:
    """Return where a search goes on; ``None`` begins with the newest event.

    :raises GatewayError: ``invalid_request``.
    """
    cursor = query.get("cursor", NEWEST)
    if cursor == NEWEST:
        return None
    try:
        return read_cursor(cursor)
    except ValueError as error:
        raise GatewayError("invalid_request", str(error), param="cursor") from None


def hashes_of(book: KeyBook, key: str) -> frozenset[str]:
    """Return what a key's events are recorded by: all its hashes, those of before rotations too.

    :param key: its name, or a hash.
    :raises GatewayError: ``invalid_request``: there is no such key.
    """
    found = book.get(key)
    if found is not None:
        return frozenset(found.hashes)
    if not _HASH.fullmatch(key):
        raise GatewayError(
            "invalid_request",
            "there is no key of this name; one that is gone is found by its SHA-256",
            param="key",
        )
    return frozenset((key.lower(),))


def read_time(name: str, value: str, is_end: bool = False) -> int:
    """Return an instant in milliseconds since 1970.

    :param value: RFC 3339, in which seconds and the offset may be left out, or a day.
    :param is_end: whether a day means its end.
    :raises GatewayError: ``invalid_request``.
    """
    is_day = _DAY.fullmatch(value) is not None
    try:
        if not is_day and not _TIME.fullmatch(value):
            raise ValueError
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if is_day and is_end:
            moment += timedelta(days=1)
        ms = (moment - _FIRST) // timedelta(milliseconds=1)
        if ms >= END_MS:  # by its offset
            raise OverflowError
        return max(0, ms)
    except (ValueError, OverflowError):
        raise GatewayError(
            "invalid_request",
            f"{name} must be a time such as 2026-11-29T20:00:00Z, or a day",
            param=name,
        ) from None
