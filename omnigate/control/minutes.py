"""What happened in each minute of the last day: requests, errors, tokens, cost, waiting times.

Kept in memory and begun with the process. Requests come with the events that data planes deliver,
and count in the minute in which they ended; refusals, waiting times and looks into the response
cache come as growth in reports every few seconds, and count when they arrive. So a data plane that
ends or starts anew takes nothing away, and there is nothing to be subtracted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from omnigate.control.histogram import quantile
from omnigate.events import UsageEvent
from omnigate.metric_families import BUCKETS

MINUTE_MS: Final = 60_000

#: A day, so that this morning can be held against yesterday's. A minute takes some 700 bytes.
MINUTES_KEPT: Final = 24 * 60

#: From this status on a request failed by the gateway or its providers, and not by its client.
_FAILED: Final = 500


@attrs.define
class Minute:
    """One minute, or several together.

    :ivar requests: those that reached a route and ended, whatever came of them.
    :ivar errors: of these, the ones that ended with a status of 400 or more.
    :ivar failures: of the errors, the ones with 500 or more.
    :ivar refusals: requests refused before a route was asked; they are not among the others.
    :ivar cached_tokens: of the prompts, what providers had in their caches.
    :ivar hits: answers out of the response cache, and ``misses`` looks in vain.
    :ivar first_events: waiting times of streams by the buckets of data planes.
    """

    requests: int = 0
    errors: int = 0
    failures: int = 0
    refusals: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0
    hits: int = 0
    misses: int = 0
    first_events: list[int] = attrs.Factory(lambda: [0] * (len(BUCKETS) + 1))

    def add(self, other: Minute) -> None:
        """Add another one to this."""
        self.requests += other.requests
        self.errors += other.errors
        self.failures += other.failures
        self.refusals += other.refusals
        self.input_tokens += other.input_tokens
        self.cached_tokens += other.cached_tokens
        self.output_tokens += other.output_tokens
        self.cost_nano += other.cost_nano
        self.hits += other.hits
        self.misses += other.misses
        for at, count in enumerate(other.first_events):
            self.first_events[at] += count

    def first_event_seconds(self, share: float) -> float | None:
        """Return the waiting time that this share of streams stayed below."""
        return quantile(self.first_events, share)


@attrs.frozen
class Span:
    """Some minutes in a row, as one point of a plot.

    :ivar at_ms: when it begins.
    :ivar sums: ``None`` of a time before this process, unless something of it was delivered since.
    """

    at_ms: int
    sums: Minute | None


class Minutes:
    """The last day, minute by minute.

    :param since_ms: when the process began; of what was before it, only that is known which data
        planes had kept and delivered later.
    """

    def __init__(self, since_ms: int) -> None:
        self.since_ms: Final = since_ms
        self._minutes: dict[int, Minute] = {}

    def recorded(self, event: UsageEvent, cost_nano: int, now_ms: int) -> None:
        """Count an event that was recorded, in the minute in which its request ended."""
        # A data plane whose clock is ahead has no minutes of its own.
        minute = self._at(min(event.ts_ms, now_ms), now_ms)
        if minute is None:
            return
        minute.requests += 1
        if event.status >= 400:
            minute.errors += 1
            if event.status >= _FAILED:
                minute.failures += 1
        cached = event.cached_input_tokens
        minute.input_tokens += event.input_tokens + cached + event.cache_write_input_tokens
        minute.cached_tokens += cached
        minute.output_tokens += event.output_tokens
        minute.cost_nano += cost_nano

    def refused(self, count: int, now_ms: int) -> None:
        """Count requests that were refused."""
        minute = self._at(now_ms, now_ms)
        if minute is not None:
            minute.refusals += count

    def counted(self, name: str, labels: Sequence[str], growth: float, now_ms: int) -> None:
        """Count what a row of a data plane's family has grown by; most families are not for here.

        :param name: the family's name on the data plane.
        """
        if not 0 < growth < 1e12:
            return
        if name == "omnigate_data_time_to_first_event_seconds" and len(labels) == 2:
            bucket = labels[1]
            if bucket.isdecimal() and len(bucket) <= 2 and int(bucket) <= len(BUCKETS):
                minute = self._at(now_ms, now_ms)
                if minute is not None:
                    minute.first_events[int(bucket)] += int(growth)
        elif name == "omnigate_data_cache_lookups_total" and len(labels) == 1:
            minute = self._at(now_ms, now_ms)
            if minute is not None and labels[0] == "hit":
                minute.hits += int(growth)
            elif minute is not None and labels[0] == "miss":
                minute.misses += int(growth)

    # -- asking -------------------------------------------------------------------------------

    def last(self, minutes: int, now_ms: int) -> Minute:
        """Return the sums of so many minutes, the one that is not over among them."""
        now = now_ms // MINUTE_MS
        return _together(self._between(now - minutes + 1, now + 1))

    def minutes_known(self, minutes: int, now_ms: int) -> float:
        """Return for how many of the last minutes anything is known: what a rate is divided by."""
        now = now_ms // MINUTE_MS
        begun = range(now - minutes + 1, now + 1)
        first = next((number for number in begun if number in self._minutes), now)
        known_ms = min(self.since_ms, first * MINUTE_MS)
        return max(1.0, (now_ms - max(known_ms, begun[0] * MINUTE_MS)) / MINUTE_MS)

    def spans(self, points: int, minutes: int, now_ms: int) -> list[Span]:
        """Return the last points of a plot, the oldest first.

        :param minutes: how many one point is made of.
        """
        end = now_ms // MINUTE_MS + 1
        found = []
        for start in range(end - points * minutes, end, minutes):
            some = self._between(start, start + minutes)
            is_known = some or (start + minutes) * MINUTE_MS > self.since_ms
            found.append(Span(start * MINUTE_MS, _together(some) if is_known else None))
        return found

    def _between(self, start: int, end: int) -> list[Minute]:
        minutes = self._minutes
        return [minutes[number] for number in range(start, end) if number in minutes]

    def _at(self, ms: int, now_ms: int) -> Minute | None:
        """The minute of an instant; ``None`` of one that is not kept."""
        number = ms // MINUTE_MS
        minute = self._minutes.get(number)
        if minute is not None:
            return minute
        oldest = now_ms // MINUTE_MS - MINUTES_KEPT
        if number <= oldest:
            return None
        # Also those of a clock that was set back.
        if len(self._minutes) >= MINUTES_KEPT:
            for old in [old for old in self._minutes if old <= oldest]:
                del self._minutes[old]
            if len(self._minutes) >= MINUTES_KEPT:
                del self._minutes[max(self._minutes)]
        minute = self._minutes[number] = Minute()
        return minute


def _together(minutes: Iterable[Minute]) -> Minute:
    sums = Minute()
    for minute in minutes:
        sums.add(minute)
    return sums
