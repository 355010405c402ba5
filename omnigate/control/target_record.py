"""How each target fared in the last hour, as the attempts of recorded events tell it.

A target is a model at an upstream. Kept in memory, begun with the process, and bounded: only what
the config in force names is kept, the rest is forgotten with the config that named it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from omnigate.config.schema import Config
from omnigate.control.histogram import quantile
from omnigate.events import AttemptRecord, UsageEvent
from omnigate.metric_families import BUCKETS

#: An hour in slots of five minutes: long enough to see a bad hour, short enough to see it end.
SLOT_MS: Final = 300_000
SLOTS: Final = 12

#: Targets of which anything is kept, those that were asked first: one takes 3 KB if it is busy.
MAX_TARGETS: Final = 5_000

#: Errors of one upstream that can be looked at; an older one is a request like any other.
ERRORS_KEPT: Final = 20

#: Our own ways to end an attempt say nothing about the target (see :class:`.AttemptRecord`).
_NO_VERDICT: Final = frozenset(("canceled", "no_room"))
_OK: Final = "ok"

#: What is passed on as an answer, and yet says that the target can serve nobody: the account has no
#: credit, or there is no such model. Whatever else is refused with 4xx is the client's doing.
_USELESS: Final = frozenset((402, 404))
#: Of these, a 404 may be of an earlier answer that the request names.
_BY_REFERENCE: Final = "responses"


@attrs.frozen
class AttemptError:
    """One attempt that failed.

    :ivar at_ms: when its request ended.
    :ivar route: the model that the client asked for.
    """

    at_ms: int
    request_id: str
    route: str
    model: str
    outcome: str
    status: int | None
    duration_ms: int


@attrs.define
class Fared:
    """Attempts at one target, or at several together, in some time.

    :ivar durations: of those that answered, by the buckets of requests.
    """

    answered: int = 0
    failed: int = 0
    durations: list[int] = attrs.Factory(lambda: [0] * (len(BUCKETS) + 1))

    def count(self, other: Fared) -> None:
        """Add the attempts of another one, and not how long they took."""
        self.answered += other.answered
        self.failed += other.failed

    def add(self, other: Fared) -> None:
        """Add another one to this."""
        self.count(other)
        pairs = zip(self.durations, other.durations, strict=True)
        self.durations = [one + another for one, another in pairs]

    @property
    def attempts(self) -> int:
        """How many there were."""
        return self.answered + self.failed

    @property
    def success_share(self) -> float | None:
        """The share that was answered; ``None`` where there were none."""
        return self.answered / self.attempts if self.attempts else None

    def seconds(self, share: float) -> float | None:
        """Return the time that this share of the answers took at most."""
        return quantile(self.durations, share)


@attrs.define
class _Record:
    """What is kept of a target.

    :ivar slots: by the number of their five minutes, the oldest first.
    """

    slots: dict[int, Fared] = attrs.Factory(dict)
    last_error: AttemptError | None = None


class TargetRecords:
    """The targets of the config in force, and how they fared."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._records: dict[tuple[str, str], _Record] = {}
        self._of_upstreams: dict[str, _Record] = {}
        self._errors: dict[str, deque[AttemptError]] = {}

    def take(self, config: Config) -> None:
        """Go on with a config: forget the targets that it does not name."""
        if config is self._config:
            return
        self._config = config
        self._known = frozenset(
            (target.upstream, target.model) for route in config.routes for target in route.targets
        )
        upstreams = {upstream.name for upstream in config.upstreams}
        self._records = {key: kept for key, kept in self._records.items() if key in self._known}
        self._of_upstreams = {
            name: kept for name, kept in self._of_upstreams.items() if name in upstreams
        }
        self._errors = {name: kept for name, kept in self._errors.items() if name in upstreams}

    def recorded(self, event: UsageEvent, now_ms: int) -> None:
        """Take the attempts of an event that was recorded."""
        for attempt in event.attempts:
            outcome = _outcome(event, attempt)
            if outcome not in _NO_VERDICT:
                self._attempted(event, attempt, outcome, min(event.ts_ms, now_ms), now_ms)

    def _attempted(
        self, event: UsageEvent, attempt: AttemptRecord, outcome: str, at_ms: int, now_ms: int
    ) -> None:
        key = (attempt.upstream, attempt.model)
        record = self._records.get(key)
        if record is None:
            if key not in self._known or len(self._records) >= MAX_TARGETS:
                return
            record = self._records[key] = _Record()
        of_upstream = self._of_upstreams.get(attempt.upstream)
        if of_upstream is None:
            of_upstream = self._of_upstreams[attempt.upstream] = _Record()
        _count(record, attempt, outcome, at_ms, now_ms)
        _count(of_upstream, attempt, outcome, at_ms, now_ms)
        if outcome == _OK:
            return
        error = AttemptError(
            at_ms,
            event.id,
            event.route_model,
            attempt.model,
            outcome,
            attempt.status,
            attempt.duration_ms,
        )
        last = record.last_error
        # One of a time that is still to come is of a clock that was set back since.
        if last is None or not at_ms < last.at_ms <= now_ms:
            record.last_error = error
        self._errors.setdefault(attempt.upstream, deque(maxlen=ERRORS_KEPT)).append(error)

    # -- asking -------------------------------------------------------------------------------

    def fared(self, upstream: str, model: str, now_ms: int, slots: int = SLOTS) -> Fared:
        """Return how a target fared.

        :param slots: over how many times five minutes, the one that is not over among them.
        """
        return _fared(self._records.get((upstream, model)), now_ms, slots)

    def upstreams_fared(self, now_ms: int, slots: int = SLOTS) -> dict[str, Fared]:
        """Return how the upstreams that were asked at all fared; not how long they took."""
        return {
            name: _fared(record, now_ms, slots, Fared.count)
            for name, record in self._of_upstreams.items()
        }

    def upstream_fared(self, name: str, now_ms: int, slots: int = SLOTS) -> Fared:
        """Return how one upstream fared, with the times that it took."""
        return _fared(self._of_upstreams.get(name), now_ms, slots)

    def last_error(self, upstream: str, model: str) -> AttemptError | None:
        """Return the newest error of a target."""
        record = self._records.get((upstream, model))
        return None if record is None else record.last_error

    def errors(self, upstream: str) -> list[AttemptError]:
        """Return the newest errors of an upstream, newest first."""
        kept = self._errors.get(upstream, ())
        return sorted(kept, key=lambda error: error.at_ms)[::-1]


def _outcome(event: UsageEvent, attempt: AttemptRecord) -> str:
    """Return what an attempt says of its target."""
    status = attempt.status
    if attempt.outcome != _OK or status not in _USELESS:
        return attempt.outcome
    return _OK if status == 404 and event.endpoint == _BY_REFERENCE else f"status_{status}"


def _count(record: _Record, attempt: AttemptRecord, outcome: str, at_ms: int, now_ms: int) -> None:
    fared = _slot(record, at_ms // SLOT_MS, now_ms // SLOT_MS)
    if fared is None:
        return
    if outcome == _OK:
        fared.answered += 1
        fared.durations[bisect_left(BUCKETS, attempt.duration_ms / 1000)] += 1
    else:
        fared.failed += 1


def _fared(
    record: _Record | None,
    now_ms: int,
    slots: int,
    add: Callable[[Fared, Fared], None] = Fared.add,
) -> Fared:
    found = Fared()
    if record is not None:
        oldest = now_ms // SLOT_MS - slots
        for number, fared in record.slots.items():
            if number > oldest:
                add(found, fared)
    return found


def _slot(record: _Record, number: int, now: int) -> Fared | None:
    """The slot of an attempt; ``None`` of one that was too long ago."""
    fared = record.slots.get(number)
    if fared is None and number > now - SLOTS:
        for old in [old for old in record.slots if old <= now - SLOTS]:
            del record.slots[old]
        fared = record.slots[number] = Fared()
    return fared
