"""Delivers webhooks: when they are due, fairly, and again until they are taken.

A delivery waits for its instant, then for its turn among the keys, and then one attempt is made
(:mod:`omnigate.jobs.webhooks.attempts`). How far it has come stands in its job, so it goes on after
a restart. It may come more than once, since an answer may be lost on its way, or before it is
written down: receivers know a repeat by its ``webhook-id``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.fair_queue import FairQueue
from omnigate.jobs.job import DELIVERED, GIVEN_UP, PENDING, Job
from omnigate.jobs.webhooks import schedule
from omnigate.jobs.webhooks.attempts import Attempts, Jobs, Poster, SecretsOf, WebhookCounters
from omnigate.jobs.webhooks.due_times import DueTimes
from omnigate.jobs.webhooks.payload import Shown

#: How often it is looked for deliveries that nothing waits for any more.
CHECK_SECONDS: Final = 60.0

#: What could not be written, or found no room, is tried again after so long.
PUT_OFF_MS: Final = 30_000

#: How long a stop waits for attempts under way: one that is cut off has been used up.
STOP_SECONDS: Final = 5.0

#: Deliveries that are armed, or become due, in one turn of the reactor: about a millisecond's work.
_SLICE: Final = 200

#: Attempts begun in one turn: each makes JSON and signatures, a tenth of a millisecond's work for a
#: job with one output, and two milliseconds' for one with the most there may be, 256.
_BEGUN_A_TURN: Final = 4


class Webhooks:
    """The service.

    :param settings: ``[media.webhooks]`` as it is in force.
    :param shown: makes the JSON of a job, with the URLs of its outputs.
    :param random: from 0 to 1, for delays.
    """

    _log = Logger()

    def __init__(
        self,
        store: Jobs,
        outbound: Poster,
        clock: IReactorTime,
        now_ms: Callable[[], int],
        settings: Callable[[], WebhooksConfig],
        shown: Shown,
        secrets_of: SecretsOf,
        random: Callable[[], float],
    ) -> None:
        self._store = store
        self._attempts = Attempts(store, outbound, clock, now_ms, shown, secrets_of, random)
        self._clock = clock
        self._now_ms = now_ms
        self._settings = settings
        self._due = DueTimes()
        sizes = settings()
        # Key and job.
        self._queue: FairQueue[tuple[str, str]] = FairQueue(
            sizes.max_concurrent, sizes.max_concurrent_per_key
        )
        self._by_hand: set[str] = set()
        self._running: set[str] = set()
        self._started = False
        self._beginning = False
        self._timer: IDelayedCall | None = None
        self._check_timer: IDelayedCall | None = None
        self._turn: IDelayedCall | None = None
        self._seen_to = ""
        self._idle: list[Deferred[None]] = []

    @property
    def counters(self) -> WebhookCounters:
        """What became of deliveries, for metrics."""
        return self._attempts.counters

    @property
    def waiting(self) -> int:
        """How many deliveries wait, for their instant or for their turn."""
        return len(self._due) + self._queue.waiting

    @property
    def running(self) -> int:
        """How many attempts are under way."""
        return len(self._running)

    # -- what others call ---------------------------------------------------------------------

    def start(self) -> None:
        """Begin with what the store knows to be pending."""
        self._started = True
        self._check()

    async def stop(self) -> None:
        """Begin nothing more; wait a little for what is under way, then cut it off."""
        self._halt()
        if not self._running:
            return
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        timer = self._clock.callLater(STOP_SECONDS, self.abandon)
        try:
            await idle
        finally:
            if timer.active():
                timer.cancel()

    def abandon(self) -> None:
        """Cut off everything at once, and write nothing more."""
        self._halt()
        self._attempts.cut()

    def arm(self, job: Job) -> None:
        """See to the delivery of a job's end, if it is pending and nothing waits for it by then."""
        hook = job.webhook
        if not self._started or hook is None or hook.state != PENDING:
            return
        now_ms = self._now_ms()
        due_ms = schedule.due_ms(hook, now_ms)
        if self._knows(job):
            known_ms = self._due.due_ms(job.id)
            if known_ms is None or known_ms <= due_ms or not schedule.is_clock_behind(hook, now_ms):
                return
        self._due.put(job.id, due_ms)
        self._set_timer()

    def retry(self, job_id: str) -> Job:
        """Send a delivery once more now, also after it was given up; a person wants it.

        One that was given up is not tried again after that.

        :returns: the job as it is; what comes of it is seen from its webhook later.
        :raises GatewayError: there is no such job or nothing to deliver, or too much waits.
        """
        job = self._store.get(job_id)
        if job is None:
            raise GatewayError("not_found", "there is no job with this id")
        hook = job.webhook
        if hook is None or hook.state not in (PENDING, GIVEN_UP):
            reason = (
                "it was delivered" if hook and hook.state == DELIVERED else "it has none to send"
            )
            raise GatewayError("invalid_request", f"the job's webhook is not sent again: {reason}")
        if not self._started:
            raise GatewayError("not_ready", "webhooks are not sent now; try again", retry_after=5)
        if job_id in self._running:
            return job
        if not (self._waits(job) or self._queue.put(*_item(job))):
            raise GatewayError("overloaded", "too many webhooks wait; try again", retry_after=60)
        self._due.drop(job_id)
        self._by_hand.add(job_id)
        self._begin()
        return job

    # -- waiting ------------------------------------------------------------------------------

    def _knows(self, job: Job) -> bool:
        return job.id in self._due or job.id in self._running or self._waits(job)

    def _waits(self, job: Job) -> bool:
        return (job.key_sha256, job.id) in self._queue

    def _halt(self) -> None:
        self._started = False
        for timer in (self._timer, self._check_timer, self._turn):
            if timer is not None and timer.active():
                timer.cancel()
        self._timer = self._check_timer = self._turn = None

    def _check(self) -> None:
        """Arm, in slices, whatever is pending and has lost its timer."""
        self._check_timer = self._clock.callLater(CHECK_SECONDS, self._check)
        self._seen_to = ""
        self._see_some()

    def _see_some(self) -> None:
        if not self._started:
            return
        jobs = self._store.with_debts(self._seen_to, _SLICE)
        for job in jobs:
            self.arm(job)
        if len(jobs) == _SLICE:
            self._seen_to = jobs[-1].id
            self._clock.callLater(0, self._see_some)

    def _set_timer(self) -> None:
        """Wake up when the next delivery is due; or earlier, in case the clock is set."""
        first_ms = self._due.first_ms()
        if first_ms is None or not self._started:
            return
        seconds = min(max(0.0, (first_ms - self._now_ms()) / 1_000), CHECK_SECONDS)
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= self._clock.seconds() + seconds:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        for _ in range(_SLICE):
            job_id = self._due.take(now_ms)
            if job_id is None:
                break
            job = self._store.get(job_id)
            if job is not None and not (self._waits(job) or self._queue.put(*_item(job))):
                self._due.put(job_id, now_ms + PUT_OFF_MS)
        self._set_timer()
        self._begin()

    # -- running ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin what has its turn, some in each turn of the reactor."""
        if self._beginning or self._turn is not None or not self._started:
            return
        self._beginning = True
        settings = self._settings()
        self._queue.resize(settings.max_concurrent, settings.max_concurrent_per_key)
        for _ in range(_BEGUN_A_TURN):
            item = self._queue.next()
            if item is None:
                break
            key, job_id = item
            self._running.add(job_id)
            by_hand = job_id in self._by_hand
            self._by_hand.discard(job_id)
            made = Deferred.fromCoroutine(self._attempts.make(job_id, settings, by_hand=by_hand))
            made.addBoth(self._ended, key, job_id, by_hand)
        else:
            self._turn = self._clock.callLater(0, self._next_turn)
        self._beginning = False

    def _next_turn(self) -> None:
        self._turn = None
        self._begin()

    def _ended(self, result: bool | Failure, key: str, job_id: str, by_hand: bool) -> None:
        self._running.discard(job_id)
        self._queue.done(key)
        if isinstance(result, Failure) and not result.check(CancelledError):
            # A fault of this program. It may be one before anything was written, so it is not tried
            # again at once.
            self._log.failure("the webhook of {job} was not delivered", result, job=job_id)
        if self._started:
            job = self._store.get(job_id)
            if job is not None and result is True:
                self.arm(job)
            elif job is not None:
                self._put_off(job_id, by_hand and result is False)
            self._begin()
        elif not self._running:
            idle, self._idle = self._idle, []
            for waiter in idle:
                waiter.callback(None)

    def _put_off(self, job_id: str, by_hand: bool) -> None:
        if by_hand:
            self._by_hand.add(job_id)
        self._due.put(job_id, self._now_ms() + PUT_OFF_MS)
        self._set_timer()


def _item(job: Job) -> tuple[str, tuple[str, str]]:
    return job.key_sha256, (job.key_sha256, job.id)
