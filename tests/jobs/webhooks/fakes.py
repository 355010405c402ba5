"""A store, an outbound side and a clock for the tests of deliveries."""

import json
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.job import PENDING, SUCCEEDED, Job, Webhook
from omnigate.jobs.job_json import job_json
from omnigate.jobs.webhooks.delivery import Webhooks
from omnigate.outbound.messages import Answer, Request

START_MS = 1_793_527_210_000
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class MemoryJobs:
    """Jobs in memory.

    :ivar written: each webhook that was written down, in order, by job.
    :ivar full: whether the disk is.
    :ivar broken: raised by each change, once set.
    :ivar held: with a list here, changes wait until :meth:`let_go`.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.written: list[tuple[str, Webhook]] = []
        self.full = False
        self.broken: Exception | None = None
        self.held: list[Deferred[None]] | None = None
        self.watchers: list[Callable[[Job | None, Job], None]] = []

    def put(self, job: Job) -> Job:
        """Have a job be there, and tell the watchers."""
        before = self.jobs.get(job.id)
        self.jobs[job.id] = job
        for watcher in self.watchers:
            watcher(before, job)
        return job

    def get(self, job_id: str) -> Job | None:
        """The job as the disk has it."""
        return self.jobs.get(job_id)

    async def change(self, job_id: str, *, webhook: Webhook) -> Job:
        """Write a webhook's state down."""
        if self.broken is not None:
            raise self.broken
        if self.full:
            raise GatewayError("storage_unavailable", "the disk is full")
        if self.held is not None:
            done: Deferred[None] = Deferred()
            self.held.append(done)
            await done
        if job_id not in self.jobs:
            raise KeyError(job_id)
        self.written.append((job_id, webhook))
        return self.put(msgspec.structs.replace(self.jobs[job_id], webhook=webhook))

    def let_go(self) -> None:
        """Let all changes that wait be written."""
        held, self.held = self.held or [], None
        for done in held:
            done.callback(None)

    def with_debts(self, after: str, limit: int) -> list[Job]:
        """Jobs with a pending webhook, and one that owes something else."""
        owing = [j for j in self.jobs.values() if j.webhook and j.webhook.state == PENDING]
        owing.append(Job(id="job_owes", key_sha256="x", model="m", created_ms=1))
        return sorted((j for j in owing if j.id > after), key=lambda j: j.id)[:limit]


@attrs.define
class Sent:
    """A request that was sent, and its answer to come."""

    request: Request
    max_bytes: int
    allow_http: bool
    answer: Deferred[Answer]

    @property
    def body(self) -> dict[str, Any]:
        """The body as its receiver reads it."""
        return json.loads(self.request.body)  # type: ignore[no-any-return]

    @property
    def job(self) -> str:
        """The job it tells of."""
        return str(self.body["data"]["id"])


class MemoryOutbound:
    """Keeps requests until the test answers them.

    :ivar open: those without an answer, the oldest first.
    :ivar sent: all there were.
    :ivar answer: answers each request at once, where it is set.
    """

    def __init__(self) -> None:
        self.open: list[Sent] = []
        self.sent: list[Sent] = []
        self.answer: Answer | None = None

    async def post_guarded(self, request: Request, max_bytes: int, *, allow_http: bool) -> Answer:
        """Keep a request."""
        sent = Sent(request, max_bytes, allow_http, Deferred())
        self.sent.append(sent)
        if self.answer is not None:
            return self.answer
        self.open.append(sent)
        try:
            return await sent.answer
        finally:
            if sent in self.open:
                self.open.remove(sent)

    def reply(self, status: int, **headers: str) -> None:
        """Answer the oldest request."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.open[0].answer.callback(Answer(status, names))


class World:
    """Everything that a service stands on, and the service; it can crash and begin again."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryJobs()
        self.outbound = MemoryOutbound()
        self.settings = WebhooksConfig()
        self.secrets: tuple[str, ...] = (SECRET,)
        self.fraction = 0.5
        self.hooks = self.begin()

    def now_ms(self) -> int:
        """What the clock on the wall shows."""
        return START_MS + round(self.clock.seconds() * 1_000)

    def begin(self) -> Webhooks:
        """Start a service over what the disk has."""
        self.hooks = Webhooks(
            self.store,
            self.outbound,
            self.clock,
            self.now_ms,
            lambda: self.settings,
            job_json,
            lambda key: self.secrets,
            lambda: self.fraction,
        )
        arm = self.hooks.arm
        self.store.watchers = [lambda before, after: arm(after)]
        self.hooks.start()
        return self.hooks

    def crash(self) -> Webhooks:
        """End the service with whatever it does, and start another one over what was written."""
        self.hooks.abandon()
        self.outbound.open.clear()
        return self.begin()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with as many turns of the reactor as that takes."""
        self.clock.pump([seconds, *([0.0] * 5)])

    def job(self, name: str = "1", key: str = "a", *, hook: Webhook | None = None) -> Job:
        """A job with a webhook that has come to its end just now."""
        return self.store.put(
            Job(
                id=f"job_{name}",
                key_sha256=key,
                model="flux",
                created_ms=START_MS - 9_000,
                finished_ms=self.now_ms(),
                status=SUCCEEDED,
                webhook=hook or Webhook("https://hooks.example/x", PENDING, next_ms=self.now_ms()),
            )
        )

    def hook(self, name: str = "1") -> Webhook:
        """The webhook of a job as the disk has it."""
        hook = self.store.jobs[f"job_{name}"].webhook
        assert hook is not None
        return hook
