"""What is counted of media jobs since the process began, for a scrape.

Labels are bounded: routes are names of the config or ``other``, upstreams are adapters, states,
outcomes and codes are those that are known or ``other``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from omnigate.config.media import ADAPTERS
from omnigate.control.job_figures import JobFigures
from omnigate.control.metric_sources import CountedTable
from omnigate.jobs.job import (
    CANCELED_ERROR,
    FAILED,
    OUTPUT_REFUSED,
    OUTPUT_TOO_LARGE,
    OUTPUT_UNAVAILABLE,
    PROVIDER_BAD_ANSWER,
    PROVIDER_FAILED,
    PROVIDER_RATE_LIMITED,
    PROVIDER_TIMEOUT,
    STATES,
    STORAGE_FAILED,
    SUCCEEDED,
    Attempt,
    Job,
)
from omnigate.jobs.storage import LOCAL, S3
from omnigate.jobs.store import JobStore
from omnigate.jobs.webhooks.attempts import WebhookCounters
from omnigate.jobs.webhooks.delivery import Webhooks
from omnigate.metric_families import NONE, OTHER, TOTAL, Family, Part, Row
from omnigate.outbound import messages
from omnigate.outbound.client import Outbound

#: Bounds of the histogram, in seconds: an image takes some, a film minutes, and no job may take
#: more than a day for each of its targets.
JOB_BUCKETS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 86_400)

_OUTCOMES: Final = frozenset(
    (
        SUCCEEDED,
        CANCELED_ERROR,
        FAILED,
        PROVIDER_FAILED,
        PROVIDER_RATE_LIMITED,
        PROVIDER_TIMEOUT,
        PROVIDER_BAD_ANSWER,
        OUTPUT_REFUSED,
        OUTPUT_UNAVAILABLE,
        OUTPUT_TOO_LARGE,
        STORAGE_FAILED,
    )
)
_FAULTS: Final = frozenset(
    (
        messages.CONNECT_ERROR,
        messages.CONNECTION_LOST,
        messages.TIMEOUT,
        messages.BAD_FRAMING,
        messages.TRUNCATED,
        messages.TOO_LARGE,
        messages.REFUSED,
        messages.TOO_MANY_REDIRECTS,
        messages.NOT_KEPT,
    )
)


#: Members of :class:`~omnigate.jobs.webhooks.attempts.WebhookCounters`.
_WEBHOOKS: Final = ("delivered", "failed", "refused", "given_up", "not_written")

_STATE: Final = Family("omnigate_jobs", "sum", "Media jobs that are kept, by state.", ("state",))
_OWED: Final = Family("omnigate_job_costs_owed", "sum", "Costs of jobs that the ledger lacks.")
_OWED_FOR: Final = Family(
    "omnigate_job_cost_owed_seconds",
    "largest",
    "For how long the ledger has lacked the cost that came first.",
)
_PENDING: Final = Family(
    "omnigate_job_webhooks_pending", "sum", "Webhooks that are still to be delivered."
)
_LOG: Final = Family("omnigate_job_log_bytes", "sum", "Length of the log of jobs.")
_DELIVERIES: Final = Family(
    "omnigate_job_webhooks_total",
    "counter",
    "Attempts at webhooks by what came of them, and those that were given up.",
    ("outcome",),
)
_REFUSED_WRITES: Final = Family(
    "omnigate_job_failed_writes_total", "counter", "Changes of jobs that the disk refused."
)

#: What is kept by the jobs themselves.
_STANDING: Final = (_STATE, _OWED, _OWED_FOR, _PENDING, _LOG, _DELIVERIES, _REFUSED_WRITES)


class Watched(Protocol):
    """The media jobs of a generation (:class:`~omnigate.control.media_jobs.MediaJobs`)."""

    store: JobStore
    figures: JobFigures
    webhooks: Webhooks
    outbound: Outbound


class JobMetrics:
    """What is counted, and what is read at each scrape.

    :param route: returns the label of a route.
    """

    def __init__(self, route: Callable[[str], str]) -> None:
        self._route = route
        self._made = _table("omnigate_jobs_created_total", "Media jobs that were made.", "route")
        self._finished = _table(
            "omnigate_jobs_finished_total",
            "Media jobs that ended; outcome is succeeded, canceled, or why it failed.",
            *("route", "upstream", "outcome"),
        )
        self._attempts = _table(
            "omnigate_job_attempts_total",
            "Attempts of media jobs at providers, by how they ended.",
            *("upstream", "outcome"),
        )
        self._bytes = _table(
            "omnigate_job_output_bytes_total", "Bytes of outputs that were stored.", "storage"
        )
        for storage in (LOCAL, S3):
            self._bytes.add((storage,), 0)
        self._requests = _table(
            "omnigate_outbound_requests_total",
            "Requests of media jobs to providers, for files, of webhooks and to the bucket.",
            *("kind", "outcome"),
        )
        self._seconds = Family(
            "omnigate_job_duration_seconds",
            "histogram",
            "From the creation of a media job to its end, by who was tried last.",
            ("upstream",),
            buckets=JOB_BUCKETS,
        )
        # A row for each upstream: how many are in each bucket, and the sum.
        self._times: dict[str, tuple[list[int], list[float]]] = {}
        # What counters had come to in generations before this one.
        self._before = dict.fromkeys((*_WEBHOOKS, _REFUSED_WRITES.name), 0)
        self._watched: Watched | None = None

    def watch(self, media: Watched) -> None:
        """Count what becomes of jobs, those of another generation no more."""
        self._before = self._counted()
        self._watched = media
        media.store.watchers.append(self.changed)
        media.outbound.observe = self.asked

    def _counted(self) -> dict[str, int]:
        """Return the counters that are kept elsewhere; they go on from what they had come to."""
        media = self._watched
        if media is None:
            return self._before
        counters: WebhookCounters = media.webhooks.counters
        now = {name: getattr(counters, name) for name in _WEBHOOKS}
        now[_REFUSED_WRITES.name] = media.store.failed_writes
        return {name: before + now[name] for name, before in self._before.items()}

    def _standing(self, media: Watched) -> Iterator[Part]:
        figures = media.figures
        yield Part(_STATE, [((state,), figures.in_state(state)) for state in STATES])
        yield Part(_OWED, [((), figures.owed)])
        yield Part(_OWED_FOR, [((), figures.owed_seconds)])
        yield Part(_PENDING, [((), figures.webhooks_pending)])
        yield Part(_LOG, [((), media.store.log_bytes)])
        counted = self._counted()
        yield Part(_DELIVERIES, [((name,), counted[name]) for name in _WEBHOOKS])
        yield Part(_REFUSED_WRITES, [((), counted[_REFUSED_WRITES.name])])

    def parts(self) -> Iterator[Part]:
        """Copy all that is counted."""
        for table in (self._made, self._finished, self._attempts, self._bytes, self._requests):
            yield from table.read()
        yield Part(self._seconds, list(self._time_rows()))
        if self._watched is not None:
            yield from self._standing(self._watched)
        else:
            yield from (Part(family, ()) for family in _STANDING)

    def _time_rows(self) -> Iterator[Row]:
        for upstream, (counts, total) in self._times.items():
            for bucket, count in enumerate(counts):
                yield (upstream, str(bucket)), count
            yield (upstream, TOTAL), total[0]

    def changed(self, before: Job | None, after: Job) -> None:
        """Count a change, as a watcher of the store."""
        if before is None:
            self._made.add((self._route(after.model),))
        ended = 0 if before is None else sum(bool(each.outcome) for each in before.attempts)
        for attempt in after.attempts[ended:]:
            if attempt.outcome:
                self._attempts.add((_upstream(attempt.adapter), _attempt_outcome(attempt)))
        if after.is_final and (before is None or not before.is_final):
            self._count_end(after)

    def _count_end(self, job: Job) -> None:
        upstream = _upstream(job.attempts[-1].adapter) if job.attempts else NONE
        outcome = job.status
        if job.status == FAILED and job.error is not None:
            outcome = job.error.code
        self._finished.add((self._route(job.model), upstream, _known(outcome)))
        seconds = max(0, job.finished_ms - job.created_ms) / 1000
        counts, total = self._times.setdefault(upstream, ([0] * (len(JOB_BUCKETS) + 1), [0.0]))
        counts[bisect_left(JOB_BUCKETS, seconds)] += 1
        total[0] += seconds
        if not job.cached_from:
            for output in job.outputs:
                storage = output.storage if output.storage in (LOCAL, S3) else OTHER
                self._bytes.add((storage,), output.stored_size or output.size)

    def asked(self, kind: str, answer: messages.Answer) -> None:
        """Count a request to another server, by its fault or its status.

        :param kind: ``provider``, ``file``, ``webhook`` or ``bucket``.
        """
        outcome = f"{answer.status // 100}xx" if 100 <= answer.status < 600 else OTHER
        if answer.fault:
            outcome = answer.fault if answer.fault in _FAULTS else OTHER
        self._requests.add((kind, outcome))


def _table(name: str, text: str, *labels: str) -> CountedTable:
    return CountedTable(Family(name, "counter", text, labels))


def _upstream(adapter: str) -> str:
    return adapter if adapter in ADAPTERS else OTHER


def _known(outcome: str) -> str:
    return outcome if outcome in _OUTCOMES else OTHER


def _attempt_outcome(attempt: Attempt) -> str:
    if attempt.outcome == FAILED and attempt.error is not None:
        return _known(attempt.error.code)
    if attempt.outcome == "rate_limited":
        return PROVIDER_RATE_LIMITED
    return _known(attempt.outcome)
