"""The jobs of one gateway key, for a data plane that asks for the key's client.

What is refused is told as the client is to read it. A job of another key is one that is not there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import ceil
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from twisted.internet.defer import DeferredSemaphore

from omnigate.config.schema import Config
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.parameters import text, whole
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.jobs.adapters.base import Adapter
from omnigate.jobs.admission import (
    DEFAULT_LIMIT,
    MAX_BODY_BYTES,
    MAX_LIMIT,
    JobRequest,
    check_idempotency_key,
    read_list_request,
    read_request,
)
from omnigate.jobs.file_reads import FileReads, GoneError
from omnigate.jobs.input_rules import check_input
from omnigate.jobs.job import STATES, Job
from omnigate.jobs.job_draft import same_request
from omnigate.jobs.job_json import NO_INPUT
from omnigate.jobs.long_strings import WHOLE_BYTES, Steps, T
from omnigate.jobs.store import InputLost, JobStore, KeyLimits, NewJob, StorageUnavailable
from omnigate.jobs.webhooks.asked import check_asked
from omnigate.outbound.addresses import AddressGuard
from omnigate.text import quoted
from omnigate.token_bucket import TokenBucket
from omnigate.writer_thread import WriterBusyError, WriterStoppedError

#: Lists that a key may ask for in a minute, if its own rate is not lower: a list of 100 jobs takes
#: two milliseconds.
LIST_RPM: Final = 600

#: Long bodies that are read at once: each takes three times its length, and 25 ms of the processor.
MAX_READING: Final = 4

#: For how long a step of reading goes on before others have their turn, in seconds.
STEP_SECONDS: Final = 0.004

#: Bytes of jobs that are shown in one step: 2 ms, be they outputs, each with its signature, or
#: metadata of numbers that are slow to write.
STEP_BYTES: Final = 64 * 1024

#: Buckets that are kept before it is looked which keys are gone: twice the keys there may be.
MAX_BUCKETS: Final = 20_000

#: A cancel says nothing but what it is for; some clients send ``{}``.
MAX_CANCEL_BYTES: Final = 1024

#: The query of a list.
LIMIT: Final = whole("limit", "jobs of a page", DEFAULT_LIMIT, MAX_LIMIT)
AFTER: Final = text("after", "the id of the job behind which to go on", 64)
STATUS: Final = text("status", "only jobs with this status", 16)

KeyOf: TypeAlias = Callable[[str], GatewayKey | None]


class Shown(Protocol):
    """Makes the JSON of a job as its client sees it."""

    def __call__(self, job: Job, input: Any = NO_INPUT) -> dict[str, Any]:
        """Return it; ``input`` is what is shown of the input."""


class Runs(Protocol):
    """What is needed of :class:`omnigate.jobs.runner.Runner`."""

    async def begin(self, job: Job) -> Job:
        """Run a job that was just made, and return it as it is then."""

    async def cancel(self, job_id: str) -> Job | None:
        """Cancel a job, and return it as it is then."""


class JobsApi:
    """The endpoints under ``/internal/v1/jobs``.

    :param key_of: gives the key with an identity.
    :param config: gives the config in force.
    :param shown: makes the JSON of a job.
    :param reads: reads inputs that are files.
    :param now_ms: milliseconds since 1970.
    :param steady: seconds that nobody sets, for the buckets.
    :param pause: lets the reactor do something else.
    """

    def __init__(
        self,
        store: JobStore,
        runner: Runs,
        key_of: KeyOf,
        watch: BudgetWatch,
        config: Callable[[], Config],
        adapters: Mapping[str, Adapter],
        shown: Shown,
        reads: FileReads,
        *,
        now_ms: Callable[[], int],
        steady: Callable[[], float],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._runner = runner
        self._key_of = key_of
        self._watch = watch
        self._config = config
        self._adapters = adapters
        self._now_ms = now_ms
        self._steady = steady
        self._shown = shown
        self._reads = reads
        self._pause = pause
        self._creating = _Buckets(key_of)
        self._listing = _Buckets(key_of)
        self._reading = DeferredSemaphore(MAX_READING)
        # Idempotency keys of jobs that are being made.
        self._under_way: set[tuple[str, str]] = set()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("POST", "/internal/v1/jobs", self.create, body_limit=MAX_BODY_BYTES),
            Endpoint(
                "GET",
                "/internal/v1/jobs",
                self.list,
                parameters=(LIMIT, AFTER, STATUS),
            ),
            Endpoint("GET", "/internal/v1/jobs/{job}", self.show),
            Endpoint(
                "POST", "/internal/v1/jobs/{job}/cancel", self.cancel, body_limit=MAX_CANCEL_BYTES
            ),
        )

    # -- a new job ----------------------------------------------------------------------------

    async def create(self, call: Call) -> Answer:
        """Make a job: 202 with it; 200 where its idempotency key has made it before."""
        key = self._key(call)
        check_idempotency_key(call.idempotency_key)
        media = self._config().media
        request = await self._read(call.body, media.max_input_bytes)
        repeat = key.sha256, call.idempotency_key
        if call.idempotency_key:
            known = self._store.repeated(*repeat)
            if known is not None:
                return self._answer(same_request(known, request.sha256))
        self._check_key(key, request.model, is_counted=repeat not in self._under_way)
        route = self._config().media_by_model.get(request.model)
        if route is None:
            raise GatewayError(
                "model_not_found", f"there is no media model {quoted(request.model)}"
            )
        check_input(route, self._adapters, request.input, request.input_json)
        if request.webhook_url is not None:
            self._check_webhook(key, request.webhook_url)
        if call.idempotency_key:
            self._under_way.add(repeat)
        try:
            job, made = await self._store.create(
                _new_job(key, request, call.idempotency_key),
                KeyLimits(key.max_open_jobs, key.max_jobs_per_day or media.max_jobs_per_day),
            )
        finally:
            self._under_way.discard(repeat)
        if not made:
            return self._answer(job)
        return self._answer(await self._runner.begin(job), status=202)

    async def _read(self, body: bytes, max_input_bytes: int) -> JobRequest:
        steps = read_request(body, max_input_bytes)
        if len(body) <= WHOLE_BYTES:
            return await self._in_steps(steps)
        await self._reading.acquire()
        try:
            return await self._in_steps(steps)
        finally:
            self._reading.release()

    async def _in_steps(self, steps: Steps[T]) -> T:
        began = self._steady()
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if self._steady() - began >= STEP_SECONDS:
                await self._pause()
                began = self._steady()

    def _key(self, call: Call) -> GatewayKey:
        key = self._key_of(call.key_sha256)
        # A data plane may not know yet.
        if key is None or key.disabled or key.has_expired(self._now_ms()):
            raise GatewayError("invalid_api_key", "there is no such key, or not any more")
        return key

    def _check_key(self, key: GatewayKey, model: str, is_counted: bool) -> None:
        """Judge what the data plane has judged already: a job is paid work, and begins here."""
        if not self._watch.ready:
            raise GatewayError(
                "not_ready", "what keys have spent is still being read; try again", retry_after=1
            )
        if self._watch.standing(key).blocked:
            raise GatewayError(
                "budget_exceeded",
                "this key has spent its budget; an operator can raise it, or wait for the next "
                "period",
            )
        if not key.may_use(model):
            raise GatewayError("model_not_allowed", f"this key may not use {quoted(model)}")
        if is_counted:
            self._creating.take(key, key.rpm, self._steady())

    def _check_webhook(self, key: GatewayKey, url: str) -> None:
        config = self._config()
        guard = AddressGuard(config.outbound.allow, config.outbound.refuse)
        has_secret = bool(key.webhook_secrets(self._now_ms()))
        check_asked(url, config.media.webhooks, guard, has_secret=has_secret)

    # -- reading ------------------------------------------------------------------------------

    async def list(self, call: Call) -> Answer:
        """Answer a page of a key's jobs, the newest first."""
        key = self._key(call)
        wanted = read_list_request(call.query, STATES)
        self._listing.take(key, min(key.rpm or LIST_RPM, LIST_RPM), self._steady())
        jobs, has_more = self._store.jobs_of(
            key.sha256, status=wanted.status, after=wanted.after, limit=wanted.limit
        )
        shown: list[msgspec.Raw] = []
        size = 0
        for job in jobs:
            text = msgspec.json.encode(self._shown(job))
            shown.append(msgspec.Raw(text))
            size += len(text)
            if size >= STEP_BYTES:
                size = 0
                await self._pause()
        return Answer(msgspec.json.encode({"object": "list", "data": shown, "has_more": has_more}))

    async def show(self, call: Call) -> Answer:
        """Answer one job, with its input."""
        job = self._job(call)
        if job.input_file:
            return await self._show_file(job)
        try:
            input: Any = msgspec.Raw(await self._store.input_json(job))
        except InputLost:
            input = None
        return self._answer(self._store.get(job.id) or job, input=input)

    async def _show_file(self, job: Job) -> Answer:
        """Answer one job, its input no faster than it is taken: it may have eight megabytes."""
        if not self._reads.has_room:
            raise GatewayError(
                "overloaded", "too many files are being read; try again in a second", retry_after=1
            )
        path = self._store.input_path(job.id)
        try:
            length = await self._reads.length(path)
        except GoneError:
            return self._answer(self._store.get(job.id) or job, input=None)
        except (OSError, WriterBusyError, WriterStoppedError) as error:
            raise StorageUnavailable(f"{path}: {error}") from None
        shown = msgspec.json.encode(self._shown(self._store.get(job.id) or job))
        before, after = shown[:-1] + b',"input":', b"}"
        size = len(before) + length + len(after)
        return Answer(
            headers=((b"content-length", b"%d" % size),),
            stream=partial(self._reads.send, path, 0, length, before=before, after=after),
        )

    async def cancel(self, call: Call) -> Answer:
        """Have a job canceled, and answer it as it is then; one that is final stays as it is."""
        job = self._job(call)
        canceled = await self._runner.cancel(job.id)
        if canceled is None:
            raise _no_job()
        return self._answer(canceled)

    def _job(self, call: Call) -> Job:
        job = self._store.get(call.name)
        if job is None or job.key_sha256 != call.key_sha256:
            raise _no_job()
        return job

    def _answer(self, job: Job, status: int = 200, input: Any = NO_INPUT) -> Answer:
        return Answer(msgspec.json.encode(self._shown(job, input)), status=status)


class _Buckets:
    """A token bucket for each key that has asked."""

    def __init__(self, key_of: KeyOf) -> None:
        self._key_of = key_of
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, key: GatewayKey, rpm: int, now: float) -> None:
        """Take a token of a key.

        :raises GatewayError: ``rate_limit_exceeded``.
        """
        bucket = self._buckets.get(key.sha256)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._forget()
            bucket = self._buckets[key.sha256] = TokenBucket(rpm)
        bucket.resize(rpm, now)
        wait = bucket.take(now)
        if wait:
            raise GatewayError(
                "rate_limit_exceeded",
                f"this key may send {rpm} such requests a minute; wait and try again",
                retry_after=min(60, ceil(wait)),
            )

    def _forget(self) -> None:
        """Forget the buckets of keys that are gone."""
        self._buckets = {
            sha256: bucket
            for sha256, bucket in self._buckets.items()
            if self._key_of(sha256) is not None
        }


def _new_job(key: GatewayKey, request: JobRequest, idempotency_key: str) -> NewJob:
    return NewJob(
        key_sha256=key.sha256,
        model=request.model,
        input_json=request.input_json,
        metadata=request.metadata,
        webhook_url=request.webhook_url,
        idempotency_key=idempotency_key,
        request_sha256=request.sha256,
    )


def _no_job() -> GatewayError:
    return GatewayError("not_found", "there is no such job of this key")
