"""What data planes counted of their requests, of all of them together.

Growth comes in reports (:class:`omnigate.control.reports.Reports` knows which are new) and is added
up here under the names of a scrape, so a process that ends takes nothing away. A data plane is
believed what it counted, and not how many series there are: labels are names of the config, words
that are known here, or ``other``, and what is no count of a known family is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.metric_families import BUCKETS, NONE, OTHER, TOTAL, Family, Labels, Number, Part

#: The value of the label ``plane``.
PLANE: Final = "data"

#: Series of one family that are kept apart, as many as one data plane keeps; each takes some 300
#: bytes. Beyond them the first label that is a name is ``other``.
MAX_ROWS: Final = 50_000

#: Words for the outcomes of attempts that are kept apart; a data plane has some twenty.
MAX_OUTCOMES: Final = 64

#: The growth of one row between two reports is far below.
MAX_GROWTH: Final = 1e15

REQUESTS: Final = Family(
    "omnigate_requests_total",
    "counter",
    "Requests to data planes that ended; probes are not among them.",
    ("plane", "route", "protocol", "status_class", "outcome"),
)
ATTEMPTS: Final = Family(
    "omnigate_upstream_attempts_total",
    "counter",
    "Tries of data planes at upstreams.",
    ("upstream", "outcome"),
)
DURATIONS: Final = Family(
    "omnigate_request_duration_seconds",
    "histogram",
    "From the head of a request that reached its route to the end of its answer.",
    ("plane", "endpoint"),
)
FIRST_BYTES: Final = Family(
    "omnigate_time_to_first_byte_seconds",
    "histogram",
    "From the head of a streamed request to the first byte of its answer.",
    ("plane", "endpoint"),
)
CACHE_LOOKUPS: Final = Family(
    "omnigate_data_cache_lookups_total",
    "counter",
    "Looks of data planes into their response caches.",
    ("result",),
)
#: Without labels, and under the names that data planes have for them.
PLAIN_COUNTERS: Final = (
    Family(
        "omnigate_spool_dropped_total",
        "counter",
        "Usage events that data planes dropped because a spool was full: lost money.",
    ),
    Family(
        "omnigate_data_delivery_failures_total",
        "counter",
        "Posts of usage that this plane did not take, or did not get.",
    ),
    Family(
        "omnigate_data_usage_put_aside_total",
        "counter",
        "Usage events that this plane refused for good: look at the data plane's log.",
    ),
    Family(
        "omnigate_data_access_log_dropped_total",
        "counter",
        "Lines of access logs that could not be written.",
    ),
    Family(
        "omnigate_data_receipts_dropped_total",
        "counter",
        "Receipts that this plane was not told of.",
    ),
    Family(
        "omnigate_data_tls_reload_failures_total",
        "counter",
        "New certificates that data planes could not serve; the one in force stayed.",
    ),
    Family(
        "omnigate_data_config_poll_failures_total",
        "counter",
        "Polls of the config without a usable answer.",
    ),
)

_PROTOCOLS: Final = {endpoint.kind: endpoint.protocol for endpoint in ENDPOINTS.values()}
_ENDPOINTS: Final = frozenset((*_PROTOCOLS, NONE))
_OUTCOMES: Final = frozenset(("answered", "cached", "failed", "broken_off", "refused"))
_STATUS_CLASSES: Final = frozenset(f"{number}xx" for number in range(1, 6))
_LOOKUPS: Final = frozenset(("hit", "miss"))
_BUCKETS: Final = frozenset((*map(str, range(len(BUCKETS) + 1)), TOTAL))
_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)

#: Gives the name that a name is shown by.
Label = Callable[[str], str]


def _known(value: str, values: frozenset[str]) -> str:
    return value if value in values else OTHER


@attrs.define(eq=False)
class _Table:
    """One family.

    :ivar label: makes the labels of a scrape out of those that are told, and ``None`` of what is
        no row; it fails where there are too many or too few.
    :ivar name_at: which label is a name.
    """

    family: Family
    label: Callable[..., Labels | None]
    name_at: int = 0
    rows: dict[Labels, Number] = attrs.Factory(dict)

    def add(self, told: Sequence[str], growth: Number) -> None:
        try:
            labels = self.label(*told)
        except TypeError:
            return
        if labels is None:
            return
        before = self.rows.get(labels)
        if before is None:
            before = 0
            if len(self.rows) >= MAX_ROWS:
                at = self.name_at
                labels = (*labels[:at], OTHER, *labels[at + 1 :])
                before = self.rows.get(labels, 0)
        self.rows[labels] = before + growth


class PlaneTotals:
    """The totals since the start of this process.

    :param route: gives the label of a route's name, which is one of the config or ``other``.
    :param upstream: the same of an upstream's.
    """

    def __init__(self, route: Label, upstream: Label) -> None:
        self._route = route
        self._upstream = upstream
        self._outcomes: set[str] = set()
        self._tables = {
            "omnigate_data_requests_total": _Table(REQUESTS, self._request, name_at=1),
            "omnigate_data_attempts_total": _Table(ATTEMPTS, self._attempt),
            "omnigate_data_request_duration_seconds": _Table(DURATIONS, _duration, name_at=1),
            "omnigate_data_time_to_first_event_seconds": _Table(FIRST_BYTES, _duration, name_at=1),
            CACHE_LOOKUPS.name: _Table(CACHE_LOOKUPS, lambda result: (_known(result, _LOOKUPS),)),
        }
        for family in PLAIN_COUNTERS:
            self._tables[family.name] = _Table(family, lambda: (), rows={(): 0})
        for result in _LOOKUPS:
            self._tables[CACHE_LOOKUPS.name].add((result,), 0)

    def add(self, name: str, told: Sequence[str], growth: float) -> None:
        """Add what one row of a data plane's family has grown by.

        :param name: the family's name on the data plane; what is not known here is passed over, as
            a newer one may tell more.
        :param told: the labels of the row, as the data plane has them.
        """
        table = self._tables.get(name)
        if table is not None and 0 < growth <= MAX_GROWTH and math.isfinite(growth):
            table.add(told, growth)

    @property
    def names(self) -> frozenset[str]:
        """What the families are called in a scrape."""
        return frozenset(table.family.name for table in self._tables.values())

    def parts(self) -> Iterable[Part]:
        """Read the totals."""
        for table in self._tables.values():
            yield Part(table.family, table.rows.copy().items())

    def _name(self, name: str, label: Label) -> str:
        return NONE if name == NONE else label(name)

    def _request(self, route: str, endpoint: str, status_class: str, outcome: str) -> Labels:
        return (
            PLANE,
            self._name(route, self._route),
            _PROTOCOLS.get(endpoint, NONE),
            _known(status_class, _STATUS_CLASSES),
            _known(outcome, _OUTCOMES),
        )

    def _attempt(self, upstream: str, outcome: str) -> Labels:
        if outcome not in self._outcomes:
            if len(self._outcomes) >= MAX_OUTCOMES or not _WORD.fullmatch(outcome):
                outcome = OTHER
            self._outcomes.add(outcome)
        return self._name(upstream, self._upstream), outcome


def _duration(endpoint: str, bucket: str) -> Labels | None:
    return (PLANE, _known(endpoint, _ENDPOINTS), bucket) if bucket in _BUCKETS else None
