"""What is the matter with media jobs now, kept up to date by their changes; for metrics and people.

It begins with the jobs that the store has, and a scrape or a page looks at sums.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from omnigate.jobs.job import FAILED, GIVEN_UP, PENDING, Job
from omnigate.periods import DAY_MS

_MINUTE_MS: Final = 60_000

#: How far back jobs that ended are counted, for how many of them failed.
LATELY_MINUTES: Final = 15

#: Webhooks that were given up and are remembered by their jobs.
MAX_GIVEN_UP: Final = 100


@attrs.define
class _Minute:
    """The jobs that ended in one minute."""

    number: int
    ended: int = 0
    failed: int = 0


@attrs.frozen
class EndedLately:
    """Jobs that ended in the last minutes."""

    ended: int = 0
    failed: int = 0


class JobFigures:
    """Sums over all jobs.

    :param now_ms: milliseconds since 1970.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._states: Counter[str] = Counter()
        # Ids of jobs, with the time since when; those of a start stand as they were made.
        self._owed: dict[str, int] = {}
        self._pending: set[str] = set()
        self._given_up: deque[tuple[int, str]] = deque(maxlen=MAX_GIVEN_UP)
        self._minutes: dict[int, _Minute] = {}

    def load(self, jobs: Sequence[Job]) -> None:
        """Begin with jobs that there are, the oldest first."""
        for job in jobs:
            self.changed(None, job)

    def changed(self, before: Job | None, after: Job) -> None:
        """Take note of a change, as a watcher of the store."""
        if before is not None:
            self._states[before.status] -= 1
        self._states[after.status] += 1
        if after.cost_owed:
            self._owed.setdefault(after.id, after.finished_ms)
        else:
            self._owed.pop(after.id, None)
        if after.is_final and (before is None or not before.is_final):
            self._count(after)
        state = "" if after.webhook is None else after.webhook.state
        if state == PENDING:
            self._pending.add(after.id)
        else:
            self._pending.discard(after.id)
        was = "" if before is None or before.webhook is None else before.webhook.state
        if after.webhook is not None and state != was and state == GIVEN_UP:
            self._given_up.append((after.webhook.last_ms or after.finished_ms, after.id))
        elif was == GIVEN_UP and state != GIVEN_UP:
            self._forget((after.id,))

    def removed(self, jobs: Iterable[Job]) -> None:
        """Forget jobs that are gone, as a watcher of the store."""
        for job in jobs:
            self._states[job.status] -= 1
        self._forget([job.id for job in jobs])

    def _forget(self, job_ids: Iterable[str]) -> None:
        gone = set(job_ids)
        if any(job_id in gone for _, job_id in self._given_up):
            kept = [one for one in self._given_up if one[1] not in gone]
            self._given_up.clear()
            self._given_up.extend(kept)

    def _count(self, job: Job) -> None:
        number = job.finished_ms // _MINUTE_MS
        if self._now_ms() // _MINUTE_MS - number >= LATELY_MINUTES:
            return
        minute = self._minutes.get(number)
        if minute is None:
            minute = self._minutes[number] = _Minute(number)
            if len(self._minutes) > LATELY_MINUTES:
                # Not the first one here: those of a start stand as their jobs were made.
                del self._minutes[min(self._minutes)]
        minute.ended += 1
        minute.failed += job.status == FAILED

    # -- what there is ------------------------------------------------------------------------

    def in_state(self, status: str) -> int:
        """Return how many jobs are in a state."""
        return self._states[status]

    @property
    def owed(self) -> int:
        """How many costs the ledger does not have yet."""
        return len(self._owed)

    @property
    def owed_seconds(self) -> float:
        """For how long the ledger has not had the cost that came first; 0 where it has all."""
        if not self._owed:
            return 0.0
        return max(0.0, (self._now_ms() - min(self._owed.values())) / 1000)

    @property
    def webhooks_pending(self) -> int:
        """How many webhooks are still to be delivered."""
        return len(self._pending)

    def given_up(self) -> list[str]:
        """Return the jobs whose webhooks were given up within a day, the newest first."""
        since_ms = self._now_ms() - DAY_MS
        return [job_id for at_ms, job_id in reversed(self._given_up) if at_ms >= since_ms]

    def lately(self) -> EndedLately:
        """Return how many jobs ended in the last minutes, and how many of them failed."""
        first = self._now_ms() // _MINUTE_MS - LATELY_MINUTES + 1
        minutes = [minute for minute in self._minutes.values() if minute.number >= first]
        return EndedLately(
            sum(minute.ended for minute in minutes), sum(minute.failed for minute in minutes)
        )
