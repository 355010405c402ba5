"""One attempt to deliver a webhook: written down, sent, judged, and written down again.

An attempt is on the disk before its request is sent; so whatever becomes of this process, a
receiver gets no more than ``max_attempts`` requests, unless a person sends one more. What cannot be
written is not sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import attrs
import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.job import GIVEN_UP, PENDING, Job, Webhook
from omnigate.jobs.webhooks import schedule, signing
from omnigate.jobs.webhooks.payload import Shown, payload
from omnigate.jobs.webhooks.schedule import MAX_ERROR_CHARS, Verdict
from omnigate.outbound.client import MAX_WEBHOOK_ANSWER_BYTES, WEBHOOK_SECONDS
from omnigate.outbound.messages import TIMEOUT, Answer, Request
from omnigate.text import reason_of

#: Seconds after which an attempt is over whatever the outbound side says of it: beside the 15 that
#: it has, it may wait there for its turn. A signature is good for five minutes.
BACKSTOP_SECONDS: Final = 120.0

#: The live secrets of a key by its SHA-256, the new one first.
SecretsOf: TypeAlias = Callable[[str], tuple[str, ...]]


class Jobs(Protocol):
    """What is needed of :class:`omnigate.jobs.store.JobStore`."""

    def get(self, job_id: str, /) -> Job | None:
        """Return a job as the disk has it."""

    def change(self, job_id: str, /, *, webhook: Webhook) -> Awaitable[Job]:
        """Write a job's webhook down, and return the job once that is synced."""

    def with_debts(self, after: str, limit: int, /) -> list[Job]:
        """Return some jobs with something still to be done, such as a pending webhook."""


class Poster(Protocol):
    """What is needed of :class:`omnigate.outbound.client.Outbound`."""

    async def post_guarded(
        self, request: Request, max_bytes: int, /, *, allow_http: bool
    ) -> Answer:
        """Send a request to a URL that someone else chose."""


@attrs.define
class WebhookCounters:
    """What became of deliveries since the start.

    :ivar delivered: attempts that were answered with a 2xx.
    :ivar failed: attempts that were sent, and were not.
    :ivar refused: attempts without a request: the URL, its address or a missing secret forbade it.
    :ivar given_up: deliveries that have had their last attempt.
    :ivar not_written: attempts put off, and outcomes lost, as the store could not write.
    """

    delivered: int = 0
    failed: int = 0
    refused: int = 0
    given_up: int = 0
    not_written: int = 0


class Attempts:
    """Makes attempts.

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
        shown: Shown,
        secrets_of: SecretsOf,
        random: Callable[[], float],
    ) -> None:
        self.counters = WebhookCounters()
        self._store = store
        self._outbound = outbound
        self._clock = clock
        self._now_ms = now_ms
        self._shown = shown
        self._secrets_of = secrets_of
        self._random = random
        self._sending: dict[str, Deferred[Answer]] = {}
        self._is_cut = False

    def cut(self) -> None:
        """Cut off all requests under way, and write nothing more."""
        self._is_cut = True
        for sent in tuple(self._sending.values()):
            sent.cancel()

    async def make(self, job_id: str, settings: WebhooksConfig, *, by_hand: bool) -> bool:
        """Make the attempt that is due, or give the delivery up where it has had all of them.

        :param by_hand: a person wants it, so it may be one more.
        :returns: False where what comes before the request could not be written: nothing was sent,
            and it is to be tried again later.
        """
        job = self._store.get(job_id)
        if job is None or job.webhook is None:
            return True
        now_ms, most = self._now_ms(), settings.max_attempts
        is_early = job.webhook.next_ms > now_ms and not schedule.is_clock_behind(
            job.webhook, now_ms
        )
        if is_early and not by_hand:
            return True  # it was sent meanwhile
        hook = schedule.begun(job.webhook, now_ms, most, self._random(), by_hand=by_hand)
        if hook is None:
            return job.webhook.state != PENDING or await self._give_up(job, job.webhook)
        if not await self._write(job, hook):
            return False
        if self._is_cut:
            return True
        verdict = await self._send(job, hook, settings)
        self._count(verdict)
        hook = schedule.ended(hook, verdict, self._now_ms(), most, self._random())
        if await self._write(job, hook) and hook.state == GIVEN_UP:
            self._count_end(job)
        return True

    async def _give_up(self, job: Job, hook: Webhook) -> bool:
        written = await self._write(job, schedule.given_up(hook))
        if written:
            self._count_end(job)
        return written

    async def _write(self, job: Job, hook: Webhook) -> bool:
        """Write a webhook's state down; says whether that is on the disk."""
        try:
            await self._store.change(job.id, webhook=hook)
        except CancelledError:
            raise
        except Exception as error:
            if not self._is_cut and self._store.get(job.id) is not None:
                self.counters.not_written += 1
                # What the store refuses is told by the store.
                if not isinstance(error, GatewayError):
                    self._log.failure("the webhook of {job} cannot be written", job=job.id)
            return False
        return True

    async def _send(self, job: Job, hook: Webhook, settings: WebhooksConfig) -> Verdict:
        secrets = self._secrets_of(job.key_sha256)
        if not secrets and not settings.allow_unsigned:
            return Verdict("failed", error="the key has no webhook secret", refused=True)
        body = payload(_before(job, hook), self._shown)
        message_id, timestamp = signing.webhook_id(job.id), self._now_ms() // 1_000
        try:
            headers = signing.headers(secrets, message_id, timestamp, body)
        except ValueError as error:
            return Verdict("failed", error=reason_of(error, MAX_ERROR_CHARS), refused=True)
        request = Request("POST", hook.url, headers, body, head_seconds=WEBHOOK_SECONDS)
        sent = Deferred.fromCoroutine(
            self._outbound.post_guarded(
                request, MAX_WEBHOOK_ANSWER_BYTES, allow_http=settings.allow_http
            )
        )
        sent.addTimeout(BACKSTOP_SECONDS, self._clock)
        self._sending[job.id] = sent
        try:
            answer = await sent
        except DeferredTimeoutError:
            answer = Answer(0, fault=TIMEOUT)
        finally:
            del self._sending[job.id]
        return schedule.judge(answer, self._now_ms())

    def _count(self, verdict: Verdict) -> None:
        if verdict.kind == "delivered":
            self.counters.delivered += 1
        elif verdict.refused:
            self.counters.refused += 1
        else:
            self.counters.failed += 1

    def _count_end(self, job: Job) -> None:
        self.counters.given_up += 1
        self._log.info("the webhook of {job} was given up", job=job.id)


def _before(job: Job, hook: Webhook) -> Job:
    """The job as an attempt tells of it: counted, and with what is known of the one before."""
    assert job.webhook is not None
    known = msgspec.structs.replace(
        hook, last_status=job.webhook.last_status, last_error=job.webhook.last_error
    )
    return msgspec.structs.replace(job, webhook=known)
