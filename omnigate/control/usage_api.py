"""What was used and what was refused: sums of the ledger, and refusals.

Amounts of money are exact decimal numbers of US dollars.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, Protocol, TypeVar, cast

from omnigate.control.admin_json import encode, time
from omnigate.control.keys import KeyBook
from omnigate.control.parameters import Parameter
from omnigate.control.reports import Reports
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
from omnigate.control.usage_report import UsageReport
from omnigate.errors import GatewayError
from omnigate.ledger.totals import GROUPINGS, NamedSums

Found = TypeVar("Found")

BY: Final = Parameter("by", "what to sum up by", {**one_of(*GROUPINGS), "default": "key"})
SINCE: Final = Parameter("since", "the first day that counts", DAY)
UNTIL: Final = Parameter("until", "the last day that counts", DAY)
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
                parameters=(BY, SINCE, UNTIL),
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
        try:
            sums = await in_steps(self._ledger.gather(by, since, until), self._pause)
        except ValueError as error:
            raise GatewayError("invalid_request", str(error)) from None
        if since is not None and until is not None and since > until:
            raise GatewayError("invalid_request", "since is after until", param="since")
        report = UsageReport(by, self._pause)
        await report.take(sums, self._book.names_by_hash() if by == "key" else {})
        if "text/csv" in call.accept.lower():
            return await csv_answer(report, f"omnigate-usage-by-{by}.csv")
        since_whole = self._ledger.by_key_since if by == "key" else None
        return Answer(await report.json(since=since, until=until, by_key_since=since_whole))

    async def refusals(self, call: Call) -> Answer:
        """Answer the refusals that data planes reported since the start, the largest first."""
        found = [
            {"key": row.key, "code": row.code, "count": row.count, "last_at": time(row.last_ms)}
            for row in self._reports.rows()
        ]
        return Answer(encode({"since": time(self._reports.since_ms), "refusals": found}))


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
