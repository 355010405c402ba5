"""A job store that lives on a disk in memory, and what the world outside knows of its jobs.

Job number *n* is made with the idempotency key ``n``, so that a start tells which of them are
there; all else of it follows from its number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.job import FINAL, PENDING, RUNNING, SUCCEEDED, Job, Output, Webhook
from omnigate.jobs.store import JobStore, KeyLimits, NewJob, StorageUnavailable
from omnigate.periods import DAY_MS
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.crash.ledger_life import use

FOLDER = "/state"
PATH = f"{FOLDER}/jobs.jsonl"
INPUTS = f"{PATH}.inputs"
NOW_MS = 1_796_000_000_000
KEYS = ("a" * 64, "b" * 64)
NO_LIMITS = KeyLimits(0, 0)

#: What may be true of a job: the states it may be in, None for not there.
Allowed = tuple[Job | None, ...]


def input_of(number: int) -> dict[str, Any]:
    """The input of a job: each other one is long, as the tests count it."""
    return {"prompt": f"{number}" + "x" * (60 if number % 2 else 5)}


def new_job(number: int) -> NewJob:
    """What is asked for."""
    input = input_of(number)
    return NewJob(
        key_sha256=KEYS[number % len(KEYS)],
        model="flux",
        input_json=json.dumps(input).encode(),
        metadata={"n": number} if number % 3 else None,
        webhook_url="https://e.com/" if number % 4 == 0 else None,
        idempotency_key=str(number),
        request_sha256=f"{number:064x}",
    )


@attrs.frozen
class Known:
    """What the world outside knows.

    :ivar now_ms: the time.
    :ivar made: how many jobs were ever asked for.
    :ivar jobs: by number, the states that those may be in of which somebody was told.
    :ivar gone: numbers of jobs that were removed for good.
    :ivar chances: how often a number by chance was taken.
    """

    now_ms: int
    made: int
    jobs: Mapping[int, Allowed]
    gone: frozenset[int] = frozenset()
    chances: int = 0


class Life:
    """A job store on a disk, restarted and faulted as its steps say.

    :ivar disk: its marks are :class:`Known`.
    """

    def __init__(
        self,
        case: SynchronousTestCase,
        disk: MemoryDisk,
        known: Known | None = None,
        *,
        full: bool = False,
    ) -> None:
        """Start the store.

        :param full: whether nothing fits on the disk at that start.
        """
        known = known or Known(NOW_MS, 0, {})
        self.case = case
        self.disk = disk
        self.clock = Clock()
        self.now_ms = known.now_ms
        self.made = known.made
        self.jobs = dict(known.jobs)
        self.gone = known.gone
        self.chances = known.chances
        use(disk)
        self.start(full=full)

    # -- the process --------------------------------------------------------------------------

    def start(self, *, full: bool = False) -> None:
        """Start a process; the one before was killed. The disk is well then, or full."""
        self.disk.kill()
        if full:
            self.disk.free_bytes[FOLDER] = 0
        self.writer = SynchronousWriter()
        self.store = JobStore(
            PATH, self.writer, lambda: self.now_ms, crashed=self.crashed, chance=self.chance
        )
        self.mark()
        self.done(self.store.open())
        self.look()

    def crashed(self, failure: Any) -> None:
        failure.raiseException()

    def chance(self, length: int) -> bytes:
        self.chances += 1
        return self.chances.to_bytes(length, "big")

    def done(self, coroutine: Any) -> Any:
        return self.case.successResultOf(Deferred.fromCoroutine(coroutine))

    def stop(self) -> None:
        """Stop cleanly, and start again."""
        self.done(self.store.close())
        self.start()

    def mark(self) -> None:
        """Write down what the world outside knows by now."""
        self.disk.mark(
            Known(self.now_ms, self.made, dict(self.jobs), self.gone, self.chances + 1_000)
        )

    # -- what is asked for --------------------------------------------------------------------

    def attempt(
        self, wanted: list[Callable[[], Any]], outcomes: Mapping[int, Sequence[Job | None]]
    ) -> list[Any]:
        """Ask for several things at once, which are written together, and note what came of it.

        :param outcomes: by number of a job, the states it may come to, in their order.
        """
        before, size = dict(self.jobs), self.store.log_bytes
        for number, states in outcomes.items():
            self.jobs[number] = (*before.get(number, (None,)), *states)
        self.mark()
        self.writer.holding = True
        # Something is in hand while the rest gathers, so that the rest is one group.
        asked = [Deferred.fromCoroutine(one()) for one in wanted]
        results: list[Any] = []
        for each in asked:
            each.addBoth(results.append)
        while self.writer.run():
            pass
        self.writer.holding = False
        self.case.assertEqual(len(results), len(wanted), "something without an answer")
        refused = [result for result in results if _is_refusal(result)]
        if not refused and self.store.log_bytes != size:
            # The log is synced to its end: what is in it is so, and nothing else.
            for number, allowed in [*self.jobs.items()]:
                last = self.visible(number)
                self.case.assertIn(last, allowed)
                if last is None:
                    self.gone |= {number} if allowed[0] is not None else set()
                    del self.jobs[number]
                else:
                    self.jobs[number] = (last,)
        self.mark()
        return results

    def visible(self, number: int) -> Job | None:
        """The job of a number, as the store tells it."""
        return self.store.repeated(KEYS[number % len(KEYS)], str(number))

    def create(self, count: int = 1) -> None:
        """Make jobs together, the last one asked for twice."""
        numbers = list(range(self.made, self.made + count))
        self.made += count
        outcomes: dict[int, list[Job | None]] = {n: [ANY] for n in numbers}
        self.attempt(
            [partial(self.store.create, new_job(n), NO_LIMITS) for n in [*numbers, numbers[-1]]],
            outcomes,
        )

    def change(self, *changes: tuple[int, dict[str, Any]]) -> None:
        """Change jobs together, by their number from the newest that is there."""
        there = [number for number in sorted(self.jobs) if self.visible(number) is not None]
        wanted: list[Callable[[], Any]] = []
        possible: dict[int, list[Job]] = {}
        for back, fields in changes:
            if back >= len(there):
                continue
            number = there[-1 - back]
            now = self.visible(number)
            assert now is not None
            if now.is_final and "status" in fields:
                continue
            fields = {
                name: value(now) if callable(value) else value for name, value in fields.items()
            }
            states = possible.setdefault(number, [now])
            # Each is written with the one before it or alone, where that one was refused.
            states += [_changed(job, fields) for job in states]
            wanted.append(partial(self.store.change, now.id, **fields))
        if wanted:
            self.attempt(wanted, {number: states[1:] for number, states in possible.items()})

    def run(self, back: int = 0) -> None:
        """Have a job go on."""
        self.change(
            (back, {"target": 0, "started_ms": self.now_ms}),
            (back, {"status": RUNNING, "provider_job_id": "p" * 20}),
        )

    def end(self, back: int = 0) -> None:
        """Have a job come to its end, with its debts."""
        self.change(
            (
                back,
                {
                    "status": SUCCEEDED,
                    "finished_ms": self.now_ms,
                    "outputs": (Output("image/png", 1, "f" * 64, "url", "local", "x"),),
                    "cost_owed": True,
                    "webhook": lambda job: job.webhook and Webhook(job.webhook.url, PENDING),
                },
            )
        )

    def settle(self, back: int = 0) -> None:
        """Pay what is owed about a job."""
        self.change(
            (back, {"cost_owed": False}),
            (back, {"webhook": lambda job: job.webhook and Webhook(job.webhook.url, "delivered")}),
        )

    def sweep(self, days: float = 1) -> None:
        """Let time pass, and remove what is old."""
        self.now_ms += int(days * DAY_MS)
        before_ms = self.now_ms - DAY_MS // 2
        old: dict[int, list[Job | None]] = {}
        for number in self.jobs:
            job = self.visible(number)
            if job is not None and job.is_final and job.finished_ms < before_ms:
                owes = job.cost_owed or (job.webhook is not None and job.webhook.state == PENDING)
                if not owes:
                    old[number] = [None]
        self.attempt([partial(self.store.sweep, before_ms)], old)

    def compact(self) -> None:
        """Write the log anew while jobs are made and changed."""
        number = self.made
        self.made += 1
        self.attempt(
            [
                self.store._compaction.run,
                partial(self.store.create, new_job(number), NO_LIMITS),
            ],
            {number: [ANY]},
        )

    def compact_unsynced(self) -> None:
        """Write the log anew, and have the name of the new one not synced."""
        self.mark()
        self.writer.holding = True
        compaction = Deferred.fromCoroutine(self.store._compaction.run())
        self.writer.run(1)
        self.disk.fail("fsync", folder=FOLDER)
        while self.writer.run():
            pass
        self.writer.holding = False
        self.case.successResultOf(compaction)

    def fault(self, call: str, times: int = 1, folder: str = FOLDER) -> None:
        """Let a call of the disk fail."""
        self.disk.fail(call, times, folder=folder)

    def fill(self, free_bytes: int) -> None:
        """Let no more than so many bytes fit."""
        self.disk.free_bytes[FOLDER] = free_bytes

    def heal(self) -> None:
        """Let the disk be well again."""
        self.disk.heal()

    def write_back(self) -> None:
        """Let the kernel bring everything to the disk."""
        self.disk.write_back()

    # -- what is true -------------------------------------------------------------------------

    def look(self) -> None:
        """Hold what must be so of a store that was just started."""
        case = self.case
        found: dict[int, Job] = {}
        for job in self.store.newest(limit=10_000).jobs:
            number = int(job.idempotency_key)
            case.assertNotIn(number, found, "a job came twice")
            case.assertNotIn(number, self.gone, "a job that was removed is there")
            case.assertLess(number, self.made, "a job that nobody asked for")
            found[number] = job
        for number, allowed in self.jobs.items():
            now = found.get(number)
            if now is not None and any(state is ANY for state in allowed):
                # Nobody was told of it: then it is whole, and new.
                case.assertEqual(now, self.as_new(number, now), "a job is there half")
            else:
                case.assertIn(now, allowed, "a job is not as somebody was told")
        case.assertLessEqual(set(found), set(self.jobs), "a job that was refused for good")
        files = self.disk.contents(INPUTS)
        expected = {f"{INPUTS}/{job.id}.json" for job in found.values() if job.input_file}
        case.assertEqual(set(files), expected, "the files of inputs")
        for number, job in found.items():
            case.assertEqual(self.done(self.store.input_of(job)), input_of(number))
        rest = {path for path in self.disk.contents() if not path.startswith(INPUTS)}
        case.assertEqual(rest, {PATH}, "something is left")
        self.jobs = {number: (job,) for number, job in found.items()}
        self.mark()

    def as_new(self, number: int, like: Job) -> Job:
        """The job of a number as it was made, with what only the store knows."""
        new = new_job(number)
        return Job(
            id=like.id,
            key_sha256=new.key_sha256,
            model=new.model,
            created_ms=like.created_ms,
            input=None if number % 2 else json.loads(new.input_json),
            input_file=bool(number % 2),
            metadata=new.metadata,
            idempotency_key=new.idempotency_key,
            request_sha256=new.request_sha256,
            webhook=None if new.webhook_url is None else Webhook(new.webhook_url),
        )

    def repeat_all(self) -> None:
        """Ask again for every job that may be asked for: each is there once then."""
        for number in range(self.made):
            if number in self.gone:
                continue
            was = self.visible(number)
            self.jobs.setdefault(number, (None, ANY))
            self.mark()
            job, made = self.done(self.store.create(new_job(number), NO_LIMITS))
            self.case.assertEqual((job, made), (was or job, was is None))
            self.jobs[number] = (job,)
            self.mark()


class _Any:
    """Equal to every job: one that nobody was told of."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job | _Any)

    __hash__ = None  # type: ignore[assignment]


ANY: Any = _Any()


def _changed(job: Job, fields: dict[str, Any]) -> Job:
    after = msgspec.structs.replace(job, **fields)
    return msgspec.structs.replace(after, input=None) if after.status in FINAL else after


def _is_refusal(result: Any) -> bool:
    check = getattr(result, "check", None)
    return check is not None and bool(check(StorageUnavailable))
