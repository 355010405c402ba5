"""What an ended exchange owes: one usage event or one counted refusal, and its line in the log.

This is the only place where any of them is made, so that the sum over both is the number of
exchanges that asked for work. :func:`usage`, :func:`refusal` and :func:`read` are the ends of an
exchange, and the first one wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigate.events import (
    NO_TOKENS,
    AttemptRecord,
    TokenCounts,
    UsageEvent,
    checked_line,
    encode_event,
)
from omnigate.gateway.access_log import AccessLine, level_of, moment_text
from omnigate.gateway.tally import Tally
from omnigate.metric_families import NONE, OTHER

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.tables import Target


class Books:
    """Takes events and refusals.

    :param append: puts an event's line into the spool; ``False`` when it is full.
    :param refuse: counts a refusal by key name and code.
    :ivar events: usage events so far.
    :ivar refusals: refusals so far.
    :ivar tally: what metrics are made of.
    """

    def __init__(self, append: Callable[[bytes], bool], refuse: Callable[[str, str], None]) -> None:
        self._append = append
        self._refuse = refuse
        self.events = 0
        self.refusals = 0
        self.tally = Tally()

    def usage(
        self,
        event: UsageEvent,
        outcome: str,
        seconds: float,
        first_seconds: float | None = None,
    ) -> None:
        """Account for an exchange that cost, or may have cost, money.

        :param outcome: see :class:`~omnigate.gateway.tally.Tally`.
        :param seconds: how long it took, from its head on.
        :param first_seconds: how long it took to the first byte of a relayed answer.
        """
        self.events += 1
        self._append(checked_line(encode_event(event)))
        self.tally.used(event, outcome, seconds, first_seconds)

    def refusal(
        self, key_name: str, code: str, status: int, endpoint: str = NONE, route: str = NONE
    ) -> None:
        """Account for an exchange that was turned away before any upstream was asked."""
        self.refusals += 1
        self._refuse(key_name, code)
        self.tally.refused(code, status, endpoint, route)


def usage(
    exchange: Exchange,
    status: int,
    counts: TokenCounts,
    estimated: bool,
    target: Target | None,
    attempts: list[AttemptRecord],
    started_at: float,
    first_at: float | None = None,
    error_code: str = "",
    cached: bool = False,
) -> None:
    """End an exchange with a usage event.

    :param target: which answered.
    :param started_at: when work on it began, by the clock.
    :param first_at: when the first byte of its answer was passed on, where it was relayed.
    """
    key = exchange.key
    assert key is not None
    if key.rules is not None:
        exchange.used(counts)
    if not exchange.end():
        return
    plane = exchange.plane
    now = plane.clock.seconds()
    ts_ms = int(plane.wall() * 1000)
    scan, endpoint = exchange.scan, exchange.endpoint
    assert scan is not None and endpoint is not None
    upstream = model = None
    if target is not None:
        upstream, model = target.upstream_name, target.model
    entered_at = exchange.entered_at
    first_seconds = None if first_at is None else first_at - entered_at
    outcome = "answered"
    if status == 499:
        outcome = "broken_off"
    elif error_code:
        outcome = "failed"
    elif cached:
        outcome = "cached"
    # In order and not by name: an event has 17 members, and a name for each costs as much again.
    event = UsageEvent(
        exchange.id,
        key.sha256,
        exchange.route_model,
        upstream,
        model,
        status,
        scan.stream,
        counts.input_tokens,
        counts.cached_input_tokens,
        counts.cache_write_input_tokens,
        counts.output_tokens,
        cached,
        estimated,
        _milliseconds(now - started_at),
        attempts,
        ts_ms,
        endpoint.kind,
    )
    plane.books.usage(event, outcome, now - entered_at, first_seconds)
    if plane.access_log.enabled:
        first_ms = None if first_seconds is None else _milliseconds(first_seconds)
        tried = len(attempts)
        _log(
            exchange,
            now,
            ts_ms,
            status,
            error_code,
            upstream,
            model,
            counts,
            first_ms,
            tried,
            estimated,
        )


def _milliseconds(seconds: float) -> int:
    """Of a duration; a clock that was set back makes none of them negative."""
    return int(seconds * 1000) if seconds > 0 else 0


def refusal(exchange: Exchange, code: str, status: int) -> None:
    """End an exchange with a counted refusal."""
    if not exchange.end():
        return
    plane, key, endpoint = exchange.plane, exchange.key, exchange.endpoint
    plane.books.refusal(
        key.name if key else "",
        code,
        status,
        endpoint.kind if endpoint else NONE,
        _route_name(exchange),
    )
    _log_unbilled(exchange, status, code)


def read(exchange: Exchange, status: int, endpoint: str = "models") -> None:
    """End an exchange that starts no work: it is logged, and owes nothing else.

    :param endpoint: what metrics call that which was read.
    """
    if not exchange.end():
        return
    plane = exchange.plane
    plane.books.tally.plain(NONE, endpoint, status, "answered")
    _log_unbilled(exchange, status, "")


def _route_name(exchange: Exchange) -> str:
    """The route of a refused request as metrics name it, whatever its client wrote."""
    if not exchange.route_model:
        return NONE
    tables = exchange.tables
    known = tables is not None and exchange.route_model in tables.routes
    return exchange.route_model if known else OTHER


def _log_unbilled(exchange: Exchange, status: int, error_code: str) -> None:
    plane = exchange.plane
    if plane.access_log.enabled:
        _log(exchange, plane.clock.seconds(), int(plane.wall() * 1000), status, error_code)


def _log(
    exchange: Exchange,
    now: float,
    ts_ms: int,
    status: int,
    error_code: str,
    upstream: str | None = None,
    model: str | None = None,
    counts: TokenCounts = NO_TOKENS,
    first_ms: int | None = None,
    attempts: int = 0,
    estimated: bool = False,
) -> None:
    """Log an exchange that has ended.

    :param now: by the clock.
    :param ts_ms: the same moment, in milliseconds since 1970.
    """
    key, head, scan = exchange.key, exchange.head, exchange.scan
    exchange.plane.access_log.line(
        AccessLine(
            moment_text(ts_ms),
            level_of(status, error_code),
            exchange.id,
            key.name if key is not None else None,
            head.method.decode("latin-1"),
            exchange.target.path,
            exchange.route_model or None,
            model,
            upstream,
            status,
            error_code or None,
            scan is not None and scan.stream,
            counts.input_tokens,
            counts.output_tokens,
            counts.cached_input_tokens,
            first_ms,
            _milliseconds(now - exchange.entered_at),
            attempts,
            head.content_length,
            exchange.response.bytes_out,
            exchange.peer,
            estimated,
        )
    )
