"""What was used and what was refused: sums of the ledger, and refusals.

Amounts of money are exact decimal numbers of US dollars.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, cast

from omnigate.control.admin_json import encode, time
from omnigate.control.keys import KeyBook
from omnigate.control.parameters import Parameter, read_text, text
from omnigate.control.reports import Reports
from omnigate.control.request_filters import MAX_NAME_CHARS, hashes_of
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    COUNT,
    DAY,
    DOLLARS,
    TEXT,
    TIME,
    Schema,
    one_of,
    or_null,
    record,
    rows,
)
from omnigate.control.usage_report import UsageReport, days_of_one
from omnigate.errors import GatewayError
from omnigate.events import MAX_KEY_CHARS
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.totals import GROUPINGS, NamedSums

Found = TypeVar("Found")

BY: Final = Parameter("by", "what to sum up by", {**one_of(*GROUPINGS), "default": "key"})
SINCE: Final = Parameter("since", "the first day that counts", DAY)
UNTIL: Final = Parameter("until", "the last day that counts", DAY)

#: What the days of one name alone are asked for with; the ledger keeps no sums by two names.
KEY: Final = text(
    "key",
    "with by=day, tell the days of this key alone: by its name, or its SHA-256 if it is gone",
    MAX_KEY_CHARS,
)
MODEL: Final = text("model", "with by=day, tell the days of this model alone", MAX_NAME_CHARS)
UPSTREAM: Final = text(
    "upstream", "with by=day, tell the days of this upstream alone", MAX_NAME_CHARS
)
ONE_OF: Final = (KEY, MODEL, UPSTREAM)

_SUMS: Final = {
    "requests": COUNT,
    "input_tokens": COUNT,
    "cached_input_tokens": COUNT,
    "cache_write_input_tokens": COUNT,
    "output_tokens": COUNT,
    "cost_usd": DOLLARS,
}
_USAGE_ROW: Final = {
    "key": or_null(TEXT),
    "key_sha256": TEXT,
    "model": or_null(TEXT),
    "upstream": or_null(TEXT),
    "day": DAY,
    **_SUMS,
}

USAGE: Final[Schema] = record(
    {
        "by": one_of(*GROUPINGS),
        "since": or_null(DAY),
        "until": or_null(DAY),
        "by_key_since": or_null(DAY),
        "rows": rows(
            record(
                _USAGE_ROW,
                optional=[name for name in _USAGE_ROW if name not in _SUMS],
                title="UsageRow",
            )
        ),
        "total": record(_SUMS, title="Sums"),
        "price_table_date": DAY,
    },
    title="Usage",
)
REFUSALS: Final[Schema] = record(
    {
        "since": TIME,
        "refusals": rows(
            record({"key": TEXT, "code": TEXT, "count": COUNT, "last_at": TIME}, title="Refusals")
        ),
    }
)


class Accounts(Protocol):
    """The ledger, as far as operators look into it."""

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""

    @property
    def by_key_since(self) -> str | None:
        """The day from which on sums by key are whole; None where all are."""

    def gather(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> Generator[None, None, list[NamedSums]]:
        """Find sums by key, model, upstream or day, in steps."""

    def rows_by_day(
        self,
        by: str,
        groups: Sequence[Collection[str | None]],
        since: str | None = None,
        until: str | None = None,
    ) -> Generator[None, None, list[DayRows]]:
        """Find what each day came to, by groups of names, in steps."""

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest events, newest first."""


class UsageApi:
    """The endpoints of whoever asks what was used.

    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        book: KeyBook,
        ledger: Accounts,
        reports: Reports,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._book = book
        self._ledger = ledger
        self._reports = reports
        self._pause = pause

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET",
                "/admin/usage",
                self.usage,
                summary="Sum up what was used; as CSV where text/csv is accepted",
                parameters=(BY, SINCE, UNTIL, *ONE_OF),
                answer=USAGE,
                other_types=("text/csv",),
                refusals=("not_ready",),
            ),
            Endpoint(
                "GET",
                "/admin/refusals",
                self.refusals,
                summary="Count refusals by key and code since the start",
                answer=REFUSALS,
            ),
        )

    async def usage(self, call: Call) -> Answer:
        """Answer sums by key, model, upstream or day, as JSON or as CSV."""
        by = call.query.get("by", "key")
        since, until = call.query.get("since"), call.query.get("until")
        if by not in GROUPINGS:
            raise GatewayError(
                "invalid_request", f"by must be one of {', '.join(GROUPINGS)}", param="by"
            )
        kind, name = _one_of(call.query, by)
        report = UsageReport(by, self._pause)
        try:
            if kind:
                names: Collection[str] = (
                    hashes_of(self._book, name) if kind == KEY.name else (name,)
                )
                days = self._ledger.rows_by_day(kind, [names], since, until)
                report.rows = days_of_one(await in_steps(days, self._pause))
            else:
                sums = await in_steps(self._ledger.gather(by, since, until), self._pause)
                await report.take(sums, self._book.names_by_hash() if by == "key" else {})
        except ValueError as error:
            raise GatewayError("invalid_request", str(error)) from None
        if since is not None and until is not None and since > until:
            raise GatewayError("invalid_request", "since is after until", param="since")
        if "text/csv" in call.accept.lower():
            return await csv_answer(report, f"omnigate-usage-by-{by}.csv")
        is_by_key = "key" in (by, kind)
        since_whole = self._ledger.by_key_since if is_by_key else None
        return Answer(await report.json(since=since, until=until, by_key_since=since_whole))

    async def refusals(self, call: Call) -> Answer:
        """Answer the refusals that data planes reported since the start, the largest first."""
        found = [
            {"key": row.key, "code": row.code, "count": row.count, "last_at": time(row.last_ms)}
            for row in self._reports.rows()
        ]
        return Answer(encode({"since": time(self._reports.since_ms), "refusals": found}))


def _one_of(query: Mapping[str, str], by: str) -> tuple[str, str]:
    """Return what one of alone is asked for, and its name; empty texts where there is none.

    :raises GatewayError: ``invalid_request``: there are two, or it is not by day.
    """
    found = [(each.name, name) for each in ONE_OF if (name := read_text(query, each)) is not None]
    if not found:
        return "", ""
    if len(found) > 1 or by != "day":
        message = "one key, model or upstream alone is told by day; say by=day, and one of them"
        raise GatewayError("invalid_request", message, param=found[-1][0])
    return found[0]


async def in_steps(
    steps: Generator[None, None, Found], pause: Callable[[], Awaitable[None]]
) -> Found:
    """Take all steps, with pauses between them, and return what comes out.

    :param pause: lets the reactor do something else.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Found, end.value)
        await pause()


async def csv_answer(report: UsageReport, filename: str) -> Answer:
    """Answer a report as a file of CSV."""
    disposition = f'attachment; filename="{filename}"'.encode("ascii")
    return Answer(
        await report.csv(),
        b"text/csv; charset=utf-8; header=present",
        headers=((b"content-disposition", disposition),),
    )
