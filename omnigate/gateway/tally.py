"""What a data plane counts of its requests: plain numbers, written at a request's end.

A scrape turns them into metrics (:mod:`omnigate.gateway.metrics`); here nothing is looked up but
dictionaries, so that counting a request costs less than a microsecond. Every table is bounded:
routes and upstreams are names of the config, and of a config that is reloaded with ever new names
the later ones are counted as one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from omnigate.errors import CLIENT_GONE, ERRORS
from omnigate.events import UsageEvent
from omnigate.metric_families import BUCKETS, NONE, OTHER

#: Routes and upstreams that are counted apart; a config may have 5,000 routes.
MAX_NAMES: Final = 10_000

#: Rows of requests that are counted apart. Somebody who asks each of 5,000 routes for everything,
#: and leaves every other time, could make ten times as many, and a scrape of them takes seconds.
MAX_ROWS: Final = 50_000


class Durations:
    """How long something took, by buckets.

    :ivar counts: how many fell into each of ``BUCKETS``, and beyond the last.
    :ivar total_seconds: all of them together.
    """

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total_seconds += seconds


class Tally:
    """The counts since the start.

    :ivar requests: by route, endpoint, class of the status (2 is 2xx) and outcome: ``answered``,
        ``cached``, ``failed`` (no target could answer, or a fault of ours), ``broken_off`` (by
        either side) or ``refused``.
    :ivar refusals: refused requests by their code.
    :ivar attempts: tries at upstreams, by upstream and outcome.
    :ivar tokens: by route: input, input read from and written to the provider's prompt cache,
        output.
    :ivar durations: of requests that reached their route, by endpoint.
    :ivar first_events: times to the first event of a stream, by endpoint.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int, str], int] = {}
        self.refusals: dict[str, int] = dict.fromkeys((*ERRORS, CLIENT_GONE), 0)
        self.attempts: dict[tuple[str, str], int] = {}
        self.tokens: dict[str, list[int]] = {}
        self.durations: dict[str, Durations] = {}
        self.first_events: dict[str, Durations] = {}
        self._upstreams: set[str] = set()

    def used(
        self, event: UsageEvent, outcome: str, seconds: float, first_seconds: float | None
    ) -> None:
        """Count a request that ended with a usage event.

        :param seconds: from its head to its end.
        :param first_seconds: from its head to the first byte of an answer that was relayed.
        """
        route = event.route_model
        tokens = self.tokens.get(route)
        if tokens is None:
            route, tokens = self._add_route(route)
        tokens[0] += event.input_tokens
        if event.cached_input_tokens:
            tokens[1] += event.cached_input_tokens
        if event.cache_write_input_tokens:
            tokens[2] += event.cache_write_input_tokens
        tokens[3] += event.output_tokens
        endpoint = event.endpoint
        try:
            self.requests[route, endpoint, event.status // 100, outcome] += 1
        except KeyError:
            self._add_request(route, endpoint, event.status, outcome)
        for record in event.attempts:
            try:
                self.attempts[record.upstream, record.outcome] += 1
            except KeyError:
                self._add_attempt(record.upstream, record.outcome)
        try:
            durations = self.durations[endpoint]
        except KeyError:
            durations = self._add_endpoint(endpoint)
        durations.add(seconds)
        if first_seconds is not None and event.stream:
            self.first_events[endpoint].add(first_seconds)

    def refused(self, code: str, status: int, endpoint: str = NONE, route: str = NONE) -> None:
        """Count a request that was refused.

        :param route: a name of the config, ``OTHER`` or ``NONE``.
        """
        self.refusals[code] = self.refusals.get(code, 0) + 1
        self.plain(route, endpoint, status, "refused")

    def plain(self, route: str, endpoint: str, status: int, outcome: str) -> None:
        """Count a request that used nothing.

        :param route: a name of the config, ``OTHER`` or ``NONE``.
        """
        if route not in self.tokens and route not in (OTHER, NONE):
            route, _ = self._add_route(route)
        self._add_request(route, endpoint, status, outcome)

    def _add_request(self, route: str, endpoint: str, status: int, outcome: str) -> None:
        requests = self.requests
        row = (route, endpoint, status // 100, outcome)
        if row not in requests and len(requests) >= MAX_ROWS:
            row = (OTHER, endpoint, status // 100, outcome)
        requests[row] = requests.get(row, 0) + 1

    def _add_route(self, route: str) -> tuple[str, list[int]]:
        if len(self.tokens) >= MAX_NAMES:
            route = OTHER
        return route, self.tokens.setdefault(route, [0, 0, 0, 0])

    def _add_endpoint(self, endpoint: str) -> Durations:
        self.first_events[endpoint] = Durations()
        self.durations[endpoint] = durations = Durations()
        return durations

    def _add_attempt(self, upstream: str, outcome: str) -> None:
        if upstream not in self._upstreams:
            if len(self._upstreams) >= MAX_NAMES:
                upstream = OTHER
            self._upstreams.add(upstream)
        pair = (upstream, outcome)
        self.attempts[pair] = self.attempts.get(pair, 0) + 1
