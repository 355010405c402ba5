"""A control plane in memory with much behind it, for the dashboard to be measured on.

Its stores are the real ones, with their files in a folder, and are filled the way they are at work:
events come in batches, keys stand in ``keys.json``, lines in the audit log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from bench.dashboard_jobs import write_jobs
from omnigate.control.audit_file import MAX_ENTRIES
from omnigate.control.audit_line import AuditEntry, encode_line, line_of
from omnigate.control.auth import Credentials
from omnigate.control.config_file import ConfigFile
from omnigate.control.dashboard.entrance import make_entrance
from omnigate.control.gateway_key import MANAGED, GatewayKey
from omnigate.control.generation import guard_stores, record_config
from omnigate.control.key_file import KEYS_FILE
from omnigate.control.lasting import Lasting
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import MAX_ROWS, Reports
from omnigate.control.routes import (
    Answer,
    Call,
    Endpoint,
    Routes,
    parse_filters,
    parse_query,
    parse_target,
)
from omnigate.control.sessions import Session, Ticket
from omnigate.errors import GatewayError
from omnigate.events import MAX_BATCH_EVENTS, AttemptRecord, UsageEvent, encode_event
from omnigate.ledger.service import IngestResult
from omnigate.money import NANO_PER_USD
from omnigate.periods import DAY_MS
from omnigate.reactor_lag import ReactorLag
from omnigate.testing.writer import SynchronousWriter

T = TypeVar("T")

#: 2026-11-30T12:00:00Z.
NOW_MS: Final = 1_796_040_000_000

ADMIN_TOKEN: Final = "admin-token-of-the-benchmark"


@attrs.frozen
class Size:
    """How much there is."""

    events: int = 1_000_000
    keys: int = 1_000
    models: int = 50
    upstreams: int = 10
    days: int = 30
    jobs: int = 100_000


@attrs.frozen
class Took:
    """What one page took, in milliseconds of processor time.

    :ivar steps_ms: of each step; between two of them others have their turn.
    :ivar aside_ms: what writer threads did meanwhile.
    """

    what: str
    status: int
    steps_ms: tuple[float, ...]
    aside_ms: float
    size: int

    @property
    def whole_ms(self) -> float:
        """All together."""
        return sum(self.steps_ms) + self.aside_ms

    @property
    def hold_ms(self) -> float:
        """The longest step."""
        return max(self.steps_ms)


class _Writer(SynchronousWriter):
    """Does jobs on the spot, and tells how long each took: a real one does them elsewhere.

    :param took: given what a job took, in seconds of processor time.
    """

    def __init__(self, took: Callable[[float], None]) -> None:
        super().__init__()
        self._took = took

    def submit(self, job: Callable[[], T]) -> Deferred[T]:
        """Do a job."""

        def timed() -> T:
            began = time.thread_time()
            try:
                return job()
            finally:
                self._took(time.thread_time() - began)

        return super().submit(timed)


class DashboardPlane:
    """The stores, and the endpoints asked without a socket.

    :param folder: where the files go; some 700 bytes for each event.
    :ivar job_id: of a media job.
    """

    def __init__(self, folder: Path, size: Size) -> None:
        self.size = size
        self.clock = Clock()
        self.clock.advance(NOW_MS / 1000)
        self._steps: list[float] = []
        self._began = self._aside = 0.0
        names = [f"model-{number}" for number in range(size.models)]
        upstreams = [f"upstream-{number}" for number in range(size.upstreams)]
        (folder / "omnigate.toml").write_text("".join(_config(names, upstreams)))
        (folder / "keys.json").write_bytes(KEYS_FILE.encode(map(_key, range(size.keys))))
        entry = AuditEntry("key.change", "admin-key:ops", "key-7", detail={"rpm": 600})
        with (folder / "audit.jsonl").open("wb") as file:
            for seq in range(1, MAX_ENTRIES + 1):
                file.write(encode_line(line_of(entry, seq, NOW_MS - (MAX_ENTRIES - seq) * 60_000)))
        hashes = [_key(number).sha256 for number in range(size.keys)]
        self.job_id = write_jobs(folder / "jobs.jsonl", size.jobs, hashes, NOW_MS)
        self.lasting = self._lasting(folder, names, upstreams)
        self.guard = guard_stores(self.lasting)
        record = record_config(self.lasting, self.guard)
        self.guard.start()
        generation = self.guard.current
        assert generation is not None and generation.ledger.ready
        self.generation = generation
        assert self.lasting.config_file.reading is not None
        Deferred.fromCoroutine(record.started(self.lasting.config_file.reading))
        self._report(names, upstreams)
        self._record_events()
        self._routes = Routes(*self.guard.endpoints)
        ticket = Ticket("", NOW_MS, NOW_MS, "0" * 32)
        self._session = Session(ticket, "admin-token", True, "0" * 64)

    def close(self) -> None:
        """Close the files."""
        self.guard.stop()

    def _lasting(self, folder: Path, models: list[str], upstreams: list[str]) -> Lasting:
        config_file = ConfigFile(str(folder / "omnigate.toml"), self.clock, lambda name: None)
        config_file.load()
        metrics, reports = ControlMetrics(), Reports(NOW_MS - DAY_MS)
        metrics.allow_names(models, upstreams)
        now = self.clock.seconds
        credentials = Credentials("internal-token", ADMIN_TOKEN, now, metrics.auth_failed)
        metrics.watch_plane(config_file, reports, ReactorLag(self.clock), now)
        return Lasting(
            ledger_path=str(folder / "ledger.jsonl"),
            keys_path=str(folder / "keys.json"),
            admin_keys_path=str(folder / "admin_keys.json"),
            audit_path=str(folder / "audit.jsonl"),
            audit_max_bytes=1 << 30,
            history_path=str(folder / "config_history.json"),
            jobs_path=str(folder / "jobs.jsonl"),
            receipts_path=str(folder / "receipts.json"),
            media_dir=str(folder / "media"),
            credential=config_file.credential,
            config_file=config_file,
            credentials=credentials,
            metrics=metrics,
            reports=reports,
            clock=self.clock,
            wall=now,
            steady=now,
            make_writer=lambda name, lost: _Writer(self._job_took),
            metrics_writer=SynchronousWriter(),
            entrance=make_entrance(ADMIN_TOKEN, credentials, lambda: int(now() * 1000)),
            pause=self.pause,
        )

    def _report(self, models: list[str], upstreams: list[str]) -> None:
        """Report what four data planes would: refusals, figures, upstreams in trouble."""
        reports = self.lasting.reports
        for number in range(MAX_ROWS):
            key = number % self.size.keys
            reports.refused(f"key-{key}", "rate_limit_exceeded", number, NOW_MS)
        for reporter in range(4):
            states = {upstreams[reporter % len(upstreams)]: 1}
            figures = {"requests_in_flight": 10.0, "reactor_lag_seconds": 0.003}
            reports.report_figures(figures, NOW_MS / 1000, f"{reporter:032x}", states)
        for model in models:
            labels = [model, "chat", "2xx", "answered"]
            self.lasting.metrics.counted("omnigate_data_requests_total", labels, 1000)

    def _record_events(self) -> None:
        ledger, batch = self.generation.ledger, []
        told: list[IngestResult] = []
        for event in events(self.size):
            batch.append(encode_event(event))
            if len(batch) == MAX_BATCH_EVENTS:
                ledger.record(batch).addCallback(told.append)
                batch = []
        if batch:
            ledger.record(batch).addCallback(told.append)
        recorded = sum(result.recorded for result in told)
        assert recorded == self.size.events, f"{recorded} of {self.size.events} were recorded"

    # -- asking -------------------------------------------------------------------------------

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All endpoints of the control plane."""
        return self.guard.endpoints

    async def pause(self) -> None:
        """End a step; nobody else is there to have a turn."""
        self._steps.append(time.thread_time() - self._began)
        self._began = time.thread_time()

    def _job_took(self, seconds: float) -> None:
        """Leave a job out of the step it was submitted in."""
        self._aside += seconds
        self._began += seconds

    def ask(self, target: str) -> Took:
        """Ask for a page once, as somebody who has signed in.

        :raises Exception: whatever the page raises, but for a refusal.
        """
        parsed = parse_target(target.encode())
        endpoint, name = self._routes.find("GET", parsed.path)
        if endpoint.free_query:
            query = parse_filters(parsed.query)
        else:
            query = parse_query(parsed.query, endpoint.query)
        call = Call("GET", parsed.path, name, query, b"", "bench", session=self._session)
        answers: list[Answer] = []
        self._steps, self._aside = [], 0.0
        self._began = time.thread_time()
        done = Deferred.fromCoroutine(_run(endpoint, call))
        faults: list[Failure] = []
        done.addCallbacks(answers.append, faults.append)
        self._steps.append(time.thread_time() - self._began)
        for fault in faults:
            if not isinstance(fault.value, GatewayError):
                fault.raiseException()
            answers.append(Answer(status=fault.value.kind.status))
        assert answers, f"{target} waits for something"
        steps = tuple(step * 1000 for step in self._steps)
        return Took(target, answers[0].status, steps, self._aside * 1000, len(answers[0].body))


async def _run(endpoint: Endpoint, call: Call) -> Answer:
    return await endpoint.run(call)


def events(size: Size) -> Iterator[UsageEvent]:
    """Yield the events, the newest of them now; of a hundred two failed and three fell over."""
    dice = Random(1)
    hashes = [_sha256(number) for number in range(size.keys)]
    for number in range(size.events):
        model = number % size.models
        first, second = (f"upstream-{(model + each) % size.upstreams}" for each in (0, 1))
        luck = dice.random()
        attempts = [AttemptRecord(first, f"target-{model}", "ok", 200, 700)]
        if luck < 0.05:
            attempts[0] = AttemptRecord(first, f"target-{model}", "status_503", 503, 90)
            again = ("timeout", None, 30_000) if luck < 0.02 else ("ok", 200, 800)
            attempts.append(AttemptRecord(second, f"target-{model}", *again))
        answered = attempts[-1].outcome == "ok"
        yield UsageEvent(
            id=f"event-{number}",
            key_sha256=hashes[dice.randrange(size.keys)],
            route_model=f"model-{model}",
            upstream=attempts[-1].upstream if answered else None,
            target_model=f"target-{model}" if answered else None,
            status=200 if answered else 502,
            stream=True,
            input_tokens=1000 if answered else 0,
            cached_input_tokens=100 if answered else 0,
            cache_write_input_tokens=0,
            output_tokens=200 if answered else 0,
            cached=False,
            estimated=False,
            latency_ms=sum(attempt.duration_ms for attempt in attempts),
            attempts=attempts,
            ts_ms=NOW_MS - (size.events - number) * size.days * DAY_MS // size.events,
            endpoint="chat",
        )


def _sha256(number: int) -> str:
    return sha256(b"%d" % number).hexdigest()


def _key(number: int) -> GatewayKey:
    return GatewayKey(
        name=f"key-{number}",
        sha256=_sha256(number),
        source=MANAGED,
        rpm=600,
        models=("model-1", "model-2", "model-*") if number % 3 else None,
        budget_nano=NANO_PER_USD * (number % 7) or None,
        budget_period="monthly",
        created_ms=NOW_MS - number * DAY_MS // 10,
    )


def _config(models: list[str], upstreams: list[str]) -> Iterator[str]:
    for name in upstreams:
        yield f'[[upstreams]]\nname = "{name}"\nprotocol = "openai"\n'
        yield f'base_url = "https://{name}.example/v1"\n'
    for number, name in enumerate(models):
        yield f'[[routes]]\nmodel = "{name}"\n'
        for each in (0, 1):
            upstream = upstreams[(number + each) % len(upstreams)]
            yield f'  [[routes.targets]]\n  upstream = "{upstream}"\n  model = "target-{number}"\n'
            yield "  price = { input = 0.15, cached_input = 0.075, output = 0.60 }\n"
