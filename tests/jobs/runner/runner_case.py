"""A runner with a store in memory, a clock by hand, and a provider that says what a test tells it.

The provider speaks in words: its answers are ``accepted p1``, ``done 2``, ``failed``, ``limited``,
``running``, ``running 30`` (seconds to wait), ``stopped``, ``late``, ``unclear``, and ``junk``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import MediaConfig, MediaPriceConfig, MediaRouteConfig, MediaTargetConfig
from omnigate.errors import GatewayError
from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    CancelOutcome,
    Done,
    Failed,
    Handle,
    InlineSource,
    InputFault,
    NotCanceled,
    PollOutcome,
    Running,
    Source,
    Steps,
    Stopped,
    SubmitOutcome,
    Task,
    Transient,
    Unclear,
)
from omnigate.jobs.conversing import Conversing
from omnigate.jobs.debts import Debts
from omnigate.jobs.job import (
    PROVIDER_BAD_ANSWER,
    PROVIDER_FAILED,
    PROVIDER_RATE_LIMITED,
    Billable,
    Job,
    JobError,
    Output,
    Webhook,
)
from omnigate.jobs.keeping import Keeping
from omnigate.jobs.means import Means
from omnigate.jobs.output_faults import OutputFault, OutputLimits
from omnigate.jobs.pace import Pace
from omnigate.jobs.provider_slots import ProviderSlots
from omnigate.jobs.runner import Runner
from omnigate.ledger.counters import IngestResult
from omnigate.ledger.ingest import Priced
from omnigate.outbound.messages import NOT_KEPT, Answer, Request

NOW_S = 1_796_000_000.0
KEY = "ab" * 32
OTHER_KEY = "cd" * 32


class WordsAdapter(Adapter):
    """An adapter whose provider answers in words."""

    name: ClassVar[str] = "replicate"
    default_base_url: ClassVar[str] = "https://words.example"
    can_cancel: ClassVar[bool] = True

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Take everything but what a model refuses, or cannot even look at."""
        if model == "acme/picky":
            raise InputFault("prompt", "is too long for this")
        if model == "acme/broken":
            raise ValueError("a fault of the adapter")

    def billable(self, task: Task) -> Billable:
        """Charge for the prompt."""
        return Billable(characters=len(task.input["prompt"]))

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Send the prompt."""
        word, number = yield from self._ask(task, "submit", task.input["prompt"])
        if word == "accepted":
            return Accepted(Handle(number, {"note": number}))
        if word == "done":
            return _done(number)
        return _failed(word)

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask about an id."""
        word, number = yield from self._ask(task, f"poll {handle.provider_job_id}")
        if word == "running":
            return Running(float(number or 0))
        if word == "done":
            return _done(number)
        if word == "stopped":
            return Stopped()
        if word == "broken":
            raise ValueError("a fault of the adapter")
        return Transient(_error("no word")) if word == "junk" else _failed(word)

    def cancel(self, task: Task, handle: Handle) -> Steps[CancelOutcome]:
        """Ask for a stop."""
        word, _ = yield from self._ask(task, f"cancel {handle.provider_job_id}")
        if word == "stopped":
            return Stopped()
        return NotCanceled() if word == "late" else Unclear()

    def _ask(
        self, task: Task, what: str, body: str = ""
    ) -> Generator[Request, Answer, tuple[str, str]]:
        headers = (("authorization", task.credential),)
        answer = yield Request("POST", f"{task.base_url}/{what}", headers, body.encode())
        word, _, number = answer.body.decode().partition(" ")
        return word, number


class StubbornAdapter(WordsAdapter):
    """One whose provider cannot be stopped."""

    name: ClassVar[str] = "xai_video"
    can_cancel: ClassVar[bool] = False


def _done(count: str) -> Done:
    return Done([InlineSource(b"x", "image/png")] * int(count or 1), provider_ms=2_000)


def _error(message: str) -> JobError:
    return JobError(PROVIDER_BAD_ANSWER, message)


def _failed(word: str) -> Failed:
    if word == "limited":
        return Failed(JobError(PROVIDER_RATE_LIMITED, "slow down"), rate_limited=True)
    return Failed(JobError(PROVIDER_FAILED, word))


@attrs.define
class Provider:
    """The line to all providers: each request is answered by the next word, or held.

    :ivar words: what is said next; while there is none, requests are held.
    :ivar heard: every request, as ``host/what``.
    :ivar held: the requests that nobody has answered.
    :ivar cut: how many connections were broken off by us.
    """

    words: deque[str] = attrs.field(factory=deque)
    heard: list[str] = attrs.field(factory=list)
    credentials: list[str] = attrs.field(factory=list)
    held: deque[tuple[str, Deferred[Answer]]] = attrs.field(factory=deque)
    cut: int = 0
    always: str = ""

    async def send(self, job_id: str, request: Request) -> Answer:
        """Answer with the next word."""
        self.heard.append(request.url.removeprefix("https://"))
        self.credentials.append(dict(request.headers)["authorization"])
        word = self.always or (self.words.popleft() if self.words else "")
        if word:
            return _said(word)
        held: Deferred[Answer] = Deferred(self._cut)
        self.held.append((job_id, held))
        return await held

    def _cut(self, _: object) -> None:
        self.cut += 1

    def say(self, word: str) -> None:
        """Answer the oldest request that waits."""
        _, held = self.held.popleft()
        held.callback(_said(word))


def _said(word: str) -> Answer:
    if word == "not kept":
        return Answer(200, fault=NOT_KEPT, detail="no space left on device")
    return Answer(200, body=word.encode())


class Shelf:
    """A job store in memory that can refuse.

    :ivar refusals: how many changes the disk refuses from now on.
    :ivar lines: every change, in order.
    :ivar reads: whose inputs were read.
    :ivar looks: how many that owe were found at each look.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.refusals = 0
        self.looks: list[int] = []
        self.reads: list[str] = []

    @property
    def open_jobs(self) -> int:
        """How many are not final."""
        return len(self.unfinished())

    def put(self, job: Job) -> Job:
        """Put a job there."""
        self.jobs[job.id] = job
        return job

    def get(self, job_id: str) -> Job | None:
        """Return a job."""
        return self.jobs.get(job_id)

    async def change(self, job_id: str, **fields: Any) -> Job:
        """Change it, unless it is final or the disk refuses."""
        if self.refusals:
            self.refusals -= 1
            raise GatewayError("storage_unavailable", "the disk is full")
        job = self.jobs[job_id]
        if job.is_final and not set(fields) <= {"cost_owed", "webhook"}:
            raise ValueError(f"{job_id} is final")
        self.lines.append((job_id, fields))
        self.jobs[job_id] = job = msgspec.structs.replace(job, **fields)
        return job

    async def input_of(self, job: Job) -> dict[str, Any]:
        """Return the input."""
        self.reads.append(job.id)
        assert job.input is not None
        return job.input

    def unfinished(self) -> list[Job]:
        """Return what is not final."""
        return [job for job in self.jobs.values() if not job.is_final]

    def with_debts(self, after: str = "", limit: int | None = None) -> list[Job]:
        """Return whose cost is owed."""
        owing = [job for job in self.jobs.values() if job.cost_owed and job.id > after]
        self.looks.append(len(owing[:limit]))
        return owing[:limit]


class LedgerBook:
    """A ledger in memory that can be down.

    :ivar refusals: how many batches it refuses from now on.
    """

    def __init__(self) -> None:
        self.events: dict[str, Priced] = {}
        self.told = 0
        self.refusals = 0

    def record_priced(self, events: Sequence[Priced]) -> Deferred[IngestResult]:
        """Record events, each id once."""
        done: Deferred[IngestResult] = Deferred()
        if self.refusals:
            self.refusals -= 1
            done.errback(Failure(GatewayError("not_ready", "the ledger is not loaded yet")))
            return done
        for each in events:
            self.told += 1
            self.events.setdefault(each.event.id, each)
        done.callback(IngestResult(recorded=len(events), duplicates=0, invalid=0, unpriced=0))
        return done


class Cellar:
    """Stores outputs, or says what a test wants.

    :ivar fault: raised instead, once.
    :ivar why_unready: why nothing can be kept; None while that is being found out.
    """

    def __init__(self) -> None:
        self.why_unready: str | None = ""
        self.fault: Exception | None = None
        self.stored: list[str] = []
        self.cleared: list[str] = []
        self.recipients: list[Sequence[str]] = []
        self.waiting: Deferred[None] | None = None

    def unready(self) -> str | None:
        """Say it."""
        return self.why_unready

    async def store(
        self,
        job: Job,
        sources: Sequence[Source],
        *,
        own_origin: str,
        limits: OutputLimits,
        recipients: Sequence[str],
    ) -> tuple[Output, ...]:
        """Store them, by saying so."""
        if self.waiting is not None:
            await self.waiting
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        self.stored.append(job.id)
        self.recipients.append(recipients)
        return tuple(
            Output("image/png", 1, "00", "inline", "local", f"{job.id}/{n}.png")
            for n in range(len(sources))
        )

    def clear(self, job_id: str) -> None:
        """Note it."""
        self.cleared.append(job_id)


def target(host: str = "words.example", **fields: Any) -> MediaTargetConfig:
    """Return a target of the provider that speaks in words."""
    values: dict[str, Any] = {
        "adapter": "replicate",
        "model": "acme/words",
        "base_url": f"https://{host}",
        "api_key_env": "WORDS_KEY",
        "price": MediaPriceConfig(per_job=Decimal(1), per_output=Decimal(2)),
    }
    return MediaTargetConfig(**{**values, **fields})


def route(*targets: MediaTargetConfig, **fields: Any) -> MediaRouteConfig:
    """Return the one route that tests use."""
    return MediaRouteConfig(**{"model": "words", "targets": targets or (target(),), **fields})


class RunnerCase(SynchronousTestCase):
    """Tests of a runner."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(NOW_S)
        self.provider = Provider()
        self.shelf = Shelf()
        self.books = LedgerBook()
        self.cellar = Cellar()
        self.finished: list[Job] = []
        self.media = MediaConfig(routes=(route(),))
        self.recipients: Sequence[str] | None = ()
        self.secret = "secret-1"
        self._made = 0
        self.runner = self.make_runner()

    def now_ms(self) -> int:
        return int(self.clock.seconds() * 1000)

    def make_runner(self) -> Runner:
        """A runner of a new life, which is up."""

        async def pause() -> None:
            return None

        debts = Debts(self.shelf, self.books, lambda job: True, pause)
        runner = Runner(self.make_means(), debts, self.finished.append, self.succeeded, pause)
        self.successResultOf(Deferred.fromCoroutine(runner.open()))
        self.addCleanup(runner.abandon)
        return runner

    def make_means(self) -> Means:
        """What a runner of a new life runs jobs with."""
        return Means(
            keeping=Keeping(self.shelf, self.clock),
            media=lambda: self.media,
            credential=lambda name: self.secret,
            adapters={"replicate": WordsAdapter(), "xai_video": StubbornAdapter()},
            recipients=lambda key: self.recipients,
            conversing=Conversing(self.provider, Pace(self.clock), self.clock),
            outputs=self.cellar,
            clear=self.cellar.clear,
            slots=ProviderSlots(lambda: self.media.max_running_per_provider),
            clock=self.clock,
            now_ms=self.now_ms,
        )

    def succeeded(self) -> Iterable[Job]:
        jobs = [job for job in self.shelf.jobs.values() if job.status == "succeeded"]
        return reversed(jobs)

    def use(self, *targets: MediaTargetConfig, **fields: Any) -> None:
        """Go on with a config whose one route has these targets."""
        self.media = attrs.evolve(self.media, routes=(route(*targets, **fields),))

    def new_job(self, *, prompt: str = "a fox", **fields: Any) -> Job:
        """A job that was just made, and is run."""
        job = self.made_job(prompt=prompt, **fields)
        self.runner.run(job)
        self.turn()
        return self.job(job)

    def made_job(self, *, prompt: str = "a fox", **fields: Any) -> Job:
        """A job on the shelf."""
        self._made += 1
        values = {
            "id": f"job_{self._made}",
            "key_sha256": KEY,
            "model": "words",
            "created_ms": self.now_ms(),
            "input": {"prompt": prompt},
            **fields,
        }
        return self.shelf.put(Job(**values))

    def job(self, job: Job) -> Job:
        """The job as it is now."""
        found = self.shelf.get(job.id)
        assert found is not None
        return found

    def turn(self, times: int = 12) -> None:
        """Let the reactor turn, without time passing."""
        for _ in range(times):
            self.clock.advance(0)

    def wait(self, seconds: float = 2.0) -> None:
        """Let time pass, and the reactor turn."""
        self.clock.advance(seconds)
        self.turn()

    def says(self, *words: str) -> None:
        """What the provider says next."""
        self.provider.words.extend(words)

    def cancel(self, job: Job) -> Job:
        """Cancel a job; the answer has to be there at once."""
        canceling = Deferred.fromCoroutine(self.runner.cancel(job.id))
        self.turn()
        self.assertIsNotNone(self.successResultOf(canceling))
        return self.job(job)

    def restart(self) -> None:
        """Crash, and begin anew from what is on the shelf."""
        self.runner.abandon()
        self.turn()
        self.provider.held.clear()
        self.runner = self.make_runner()
        self.turn()

    def outcomes(self, job: Job) -> list[str]:
        return [attempt.outcome for attempt in self.job(job).attempts]


def webhook() -> Webhook:
    """A webhook that a job has."""
    return Webhook(url="https://hook.example/x")


__all__ = ["KEY", "OTHER_KEY", "OutputFault", "RunnerCase", "route", "target", "webhook"]
