"""The interface to data planes that needs no store: their counts and figures.

Who cannot record can still be told how much waits, and that is when it matters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec

from omnigate.control.internal_api import read_body
from omnigate.control.lately import Lately
from omnigate.control.metrics import ControlMetrics
from omnigate.control.plane_states import About
from omnigate.control.reports import Reports
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.events import MAX_COUNT
from omnigate.text import repair_utf8

#: A data plane tells at most 4,000 pairs of key and code at a time, in some 400 KB, and 300 KB of
#: other counts.
MAX_COUNTERS_BYTES: Final = 1024 * 1024
MAX_REFUSAL_ROWS: Final = 10_000

#: Rows of a report that are counted in one turn of the reactor: two or three milliseconds.
ROWS_A_TURN: Final = 1_000

#: A process of a data plane calls itself by 32 hexadecimal digits.
MAX_REPORTER_CHARS: Final = 64


class _Refusal(msgspec.Struct):
    key: str
    code: str
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]


class _Counters(msgspec.Struct):
    refusals: list[_Refusal] = []
    gauges: dict[str, float] = {}
    # Which process reports; what does not say counts as one.
    reporter: Annotated[str, msgspec.Meta(max_length=MAX_REPORTER_CHARS)] = ""
    leaving: bool = False
    # The number of this report, where they are numbered; see omnigate.gateway.count_reports.
    number: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)] = 0
    # Names of families, and rows of labels and by how much each has grown.
    counts: list[tuple[str, list[tuple[list[str], float]]]] = []
    upstreams: dict[str, int] = {}
    # Who it is and how it fares; older ones do not say.
    about: About | None = None


_counters = msgspec.json.Decoder(_Counters)


class CountersApi:
    """The endpoint under ``/internal/`` for reports of data planes.

    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        reports: Reports,
        metrics: ControlMetrics,
        lately: Lately,
        now: Callable[[], float],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._reports = reports
        self._metrics = metrics
        self._lately = lately
        self._now = now
        self._pause = pause

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("POST", "/internal/counters", self.counters, body_limit=MAX_COUNTERS_BYTES),
        )

    async def counters(self, call: Call) -> Answer:
        """Take counts and figures; memory only.

        What a report says that is not known here is passed over: its sender may be newer.
        """
        counters = read_body(_counters, repair_utf8(call.body))
        if len(counters.refusals) > MAX_REFUSAL_ROWS:
            raise GatewayError(
                "invalid_request",
                f"a report holds at most {MAX_REFUSAL_ROWS} rows",
                param="refusals",
            )
        now = self._now()
        if counters.leaving:
            self._reports.leave(counters.reporter)
            self._lately.planes.leave(counters.reporter)
        elif counters.gauges:
            self._reports.report_figures(
                counters.gauges, now, counters.reporter, counters.upstreams
            )
            self._lately.planes.told(
                counters.reporter,
                counters.gauges,
                counters.upstreams,
                counters.about,
                int(now * 1000),
            )
        # Noted before the first pause, since the same report may come again meanwhile.
        if self._reports.is_new(counters.reporter, counters.number):
            await self._count(counters, int(now * 1000))
        return Answer(b"{}")

    async def _count(self, counters: _Counters, now_ms: int) -> None:
        """Count the rows of a report, some in each turn of the reactor."""
        for number, row in enumerate(counters.refusals, 1):
            self._reports.refused(row.key, row.code, row.count, now_ms)
            self._metrics.refused(row.code, row.count)
            self._lately.refused(row.count, now_ms)
            if number % ROWS_A_TURN == 0:
                await self._pause()
        number = 0
        for name, rows in counters.counts:
            for labels, growth in rows:
                self._metrics.counted(name, labels, growth)
                self._lately.counted(name, labels, growth, now_ms)
                number += 1
                if number % ROWS_A_TURN == 0:
                    await self._pause()
