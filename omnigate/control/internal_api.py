"""The interface to data planes: their config, their usage events, their counts of refusals.

Everything under ``/internal/`` needs the internal token. A usage batch is answered once it is on
the disk, and not before; a poll is answered ``503 not_ready`` while the ledger is not loaded, since
"nothing spent" would unblock every key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec
from twisted.internet.defer import Deferred

from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.snapshots import Snapshots
from omnigate.errors import GatewayError
from omnigate.events import MAX_BATCH_EVENTS, MAX_COUNT
from omnigate.ledger.service import IngestResult
from omnigate.text import repair_utf8

#: Five hundred events with the longest attempts lists a route allows stay below.
MAX_BATCH_BYTES: Final = 16 * 1024 * 1024

#: A data plane tells at most 4,000 pairs of key and code at a time, in some 400 KB, and 300 KB of
#: other counts.
MAX_COUNTERS_BYTES: Final = 1024 * 1024
MAX_REFUSAL_ROWS: Final = 10_000

#: Rows of a report that are counted in one turn of the reactor: two or three milliseconds.
ROWS_A_TURN: Final = 1_000

#: A process of a data plane calls itself by 32 hexadecimal digits.
MAX_REPORTER_CHARS: Final = 64

T = TypeVar("T")


class Recorder(Protocol):
    """The ledger, as far as batches need it."""

    def record(self, events: Sequence[bytes | dict[str, Any]]) -> Deferred[IngestResult]:
        """Record a batch; fires once it is on the disk."""


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    # Kept raw: an event that cannot be read is the ledger's to count, not a reason to refuse the
    # others that came with it.
    events: list[msgspec.Raw]


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


_batch = msgspec.json.Decoder(_Batch)
_counters = msgspec.json.Decoder(_Counters)


class InternalApi:
    """The endpoints under ``/internal/``.

    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        ledger: Recorder,
        reports: Reports,
        metrics: ControlMetrics,
        now: Callable[[], float],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._snapshots = snapshots
        self._ledger = ledger
        self._reports = reports
        self._metrics = metrics
        self._now = now
        self._pause = pause

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", "/internal/config", self.config),
            Endpoint("POST", "/internal/usage/batch", self.usage_batch, body_limit=MAX_BATCH_BYTES),
            Endpoint("POST", "/internal/counters", self.counters, body_limit=MAX_COUNTERS_BYTES),
        )

    async def config(self, call: Call) -> Answer:
        """Answer the snapshot; 304 where the data plane has that version."""
        snapshot = await self._snapshots.current()
        etag = f'"{snapshot.version}"'
        headers = ((b"etag", etag.encode("ascii")),)
        if call.if_none_match == etag:
            return Answer(status=304, headers=headers)
        return Answer(snapshot.data, headers=headers)

    async def usage_batch(self, call: Call) -> Answer:
        """Record a batch of usage events and answer what became of them.

        The answer tells the version of the config as of now, so that a data plane with another one
        need not wait for its next poll to know that a key has spent its budget.
        """
        events = _read(_batch, call.body).events
        if len(events) > MAX_BATCH_EVENTS:
            raise GatewayError(
                "invalid_request",
                f"a batch holds at most {MAX_BATCH_EVENTS} events, this one {len(events)}",
                param="events",
            )
        result = await self._ledger.record([bytes(event) for event in events])
        return Answer(
            msgspec.json.encode(
                {
                    "recorded": result.recorded,
                    "duplicates": result.duplicates,
                    "invalid": result.invalid,
                    "config_version": self._snapshots.version_after_events(),
                }
            )
        )

    async def counters(self, call: Call) -> Answer:
        """Take counts and figures; memory only.

        What a report says that is not known here is passed over: its sender may be newer.
        """
        counters = _read(_counters, repair_utf8(call.body))
        if len(counters.refusals) > MAX_REFUSAL_ROWS:
            raise GatewayError(
                "invalid_request",
                f"a report holds at most {MAX_REFUSAL_ROWS} rows",
                param="refusals",
            )
        now = self._now()
        if counters.leaving:
            self._reports.leave(counters.reporter)
        elif counters.gauges:
            self._reports.report_figures(
                counters.gauges, now, counters.reporter, counters.upstreams
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
            if number % ROWS_A_TURN == 0:
                await self._pause()
        number = 0
        for name, rows in counters.counts:
            for labels, growth in rows:
                self._metrics.counted(name, labels, growth)
                number += 1
                if number % ROWS_A_TURN == 0:
                    await self._pause()


def _read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body, or refuse it as what it is not."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise GatewayError("invalid_request", str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise GatewayError("invalid_json", f"the body is no JSON: {error}") from None
