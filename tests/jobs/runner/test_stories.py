"""Stories of jobs: whatever comes in whatever order, nobody is paid twice but in the one window.

Jobs are made, canceled, answered by two providers in every way they have; the disk fills up, writes
hang, the ledger is away, the process is killed or stopped, all by a seed. In the end everything is
well again, and each job has come to its end. The store is the true one, on a disk in memory.
"""

from __future__ import annotations

import json
import random
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from omnigate import files
from omnigate.jobs.debts import Debts
from omnigate.jobs.job import CANCELED, SUCCEEDED, Job
from omnigate.jobs.keeping import Keeping
from omnigate.jobs.new_job import KeyLimits, NewJob
from omnigate.jobs.runner import Runner
from omnigate.jobs.store import JobStore
from omnigate.outbound.messages import Answer, Request
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.jobs.runner.runner_case import KEY, OTHER_KEY, Provider, RunnerCase, target

FOLDER = "/state"
STORIES = 60
STEPS = 120
MAX_JOBS = 5

SUBMIT = ("accepted", "accepted", "done 1", "done 2", "no", "limited")
POLL = ("running", "running", "done 1", "junk", "junk", "no", "stopped")
CANCEL = ("stopped", "late", "unclear")


class WatchedProvider(Provider):
    """A provider that knows who was submitted to it, and says where that is once too often.

    :ivar open: attempts whose submit was sent, and of which a crash could make another one.
    :ivar excused: attempts that a crash has met in the window.
    """

    def __init__(self, case: StoryTests) -> None:
        super().__init__()
        self.case = case
        self.sent: dict[tuple[str, int], int] = {}
        self.excused: set[tuple[str, int]] = set()
        self.kinds: list[str] = []
        self.ids = 0

    async def send(self, job_id: str, request: Request) -> Answer:
        """Take a request in, and hold it until it is answered."""
        kind = request.url.rsplit("/", 1)[1].split(" ")[0]
        if kind == "submit":
            self._submitted(job_id)
        self.heard.append(request.url)
        held: Deferred[Answer] = Deferred(self._cut)
        self.held.append((kind, held))
        return await held

    def _submitted(self, job_id: str) -> None:
        job = self.case.store.get(job_id)
        assert job is not None
        attempt = job_id, len(job.attempts)
        self.case.assertEqual((job.status, job.provider_job_id), ("running", ""))
        self.case.assertFalse(job.attempts[-1].outcome, "its target is not on the disk")
        if attempt in self.sent:
            self.case.assertIn(attempt, self.excused, f"{attempt} is submitted twice")
            self.excused.discard(attempt)
        self.sent[attempt] = self.sent.get(attempt, 0) + 1

    def crashed(self) -> None:
        """Excuse those that were in the window: sent, and their ids not on the disk."""
        for job in self.case.store.unfinished():
            attempt = job.id, len(job.attempts)
            if attempt in self.sent and not job.provider_job_id:
                self.excused.add(attempt)
        self.held.clear()

    def answer(self, words: random.Random, wells: bool = False) -> None:
        """Answer the oldest request that waits."""
        kind, held = self.held.popleft()
        if held.called:
            return
        if wells:
            word = "late" if kind == "cancel" else "done 1"
        else:
            word = words.choice({"submit": SUBMIT, "poll": POLL, "cancel": CANCEL}[kind])
        if word == "accepted":
            self.ids += 1
            word = f"accepted p{self.ids}"
        held.callback(Answer(200, body=word.encode()))


class StoryTests(RunnerCase):
    """One story for each seed."""

    store: JobStore

    def setUp(self) -> None:
        self.disk = MemoryDisk(FOLDER, recording=False)
        self.patch(files, "os", self.disk)
        self.patch(files, "fcntl", self.disk)
        self.watched = WatchedProvider(self)
        self.ends: dict[str, list[str]] = {}
        self.crashes: list[Failure] = []
        super().setUp()
        self.provider = self.watched
        self.use(target("one"), target("two"), timeout_s=60)
        self.media = attrs.evolve(self.media, max_running_per_provider=3)
        self.start()

    def start(self) -> None:
        """Begin a life on what the disk has."""
        self.disk.kill()
        self.writer = SynchronousWriter()
        self.store = JobStore(
            f"{FOLDER}/jobs.jsonl", self.writer, self.now_ms, crashed=self.crashes.append
        )
        self.successResultOf(Deferred.fromCoroutine(self.store.open()))
        self.store.watchers.append(self.changed)

        async def pause() -> None:
            return None

        means = attrs.evolve(self.make_means(), keeping=Keeping(self.store, self.clock))
        debts = Debts(self.store, self.books, lambda job: True, pause)
        self.runner = Runner(means, debts, self.finished.append, lambda: (), pause)
        self.successResultOf(Deferred.fromCoroutine(self.runner.open()))
        self.addCleanup(self.runner.abandon)

    def changed(self, before: Job | None, after: Job) -> None:
        if after.is_final and (before is None or not before.is_final):
            self.ends.setdefault(after.id, []).append(after.status)

    # -- what may happen ----------------------------------------------------------------------

    def step(self, words: random.Random) -> None:
        """Have one thing happen."""
        what = words.random()
        if what < 0.12 and len(self.store) < MAX_JOBS:
            self.make(words)
        elif what < 0.55 and self.watched.held:
            self.watched.answer(words)
        elif what < 0.62 and len(self.store):
            job = words.choice(self.store.every())
            Deferred.fromCoroutine(self.runner.cancel(job.id)).addErrback(lambda _: None)
        elif what < 0.66:
            self.writer.holding = not self.writer.holding
        elif what < 0.74:
            self.writer.run(words.randint(1, 3))
        elif what < 0.77:
            self.disk.free_bytes[FOLDER] = words.choice((0, 50, 10**9))
        elif what < 0.80:
            self.books.refusals = words.randint(0, 2)
        elif what < 0.84:
            self.crash()
        elif what < 0.86:
            self.stop()
        else:
            self.clock.advance(words.choice((0.5, 2, 2, 5, 30)))
        self.turn()

    def make(self, words: random.Random) -> None:
        input = {"prompt": f"number {words.random()}"}
        made = Deferred.fromCoroutine(
            self.store.create(
                NewJob(
                    key_sha256=words.choice((KEY, OTHER_KEY)),
                    model="words",
                    input_json=json.dumps(input).encode(),
                    request_sha256="00",
                ),
                KeyLimits(0, 0),
            )
        )
        made.addCallbacks(lambda found: self.runner.run(found[0]), lambda failure: None)

    def crash(self) -> None:
        """Lose the process, and what was on its way to the disk."""
        self.watched.crashed()
        self.runner.abandon()
        self.store.abandon()
        self.turn()
        self.disk.free_bytes[FOLDER] = 10**9
        self.start()

    def stop(self) -> None:
        """Stop in order, and begin anew."""
        self.writer.holding = False
        self.writer.run()
        self.disk.free_bytes[FOLDER] = 10**9
        stopping = Deferred.fromCoroutine(self.runner.close())
        for _ in range(5):
            if not stopping.called and self.watched.held:
                self.watched.answer(random.Random(1))
            self.turn()
        if not stopping.called:
            self.watched.crashed()  # half a minute is over: what is cut then is as in a crash
            self.clock.advance(31)
            self.turn()
        self.successResultOf(stopping)
        self.watched.held.clear()
        self.successResultOf(Deferred.fromCoroutine(self.store.close()))
        self.start()

    # -- the end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """Make everything well, and wait until each job has ended."""
        self.disk.free_bytes[FOLDER] = 10**9
        self.books.refusals = 0
        self.writer.holding = False
        self.writer.run()
        for _ in range(300):
            if not self.store.unfinished() and not self.store.with_debts():
                return
            self.turn()
            while self.watched.held:
                self.watched.answer(random.Random(0), wells=True)
                self.turn()
            self.clock.advance(10)
        left = [(job.id, job.status, job.cost_owed) for job in self.store.unfinished()]
        self.fail(f"these never end: {left}, {self.store.with_debts()}")

    def judge(self) -> None:
        """Hold the jobs to what was promised."""
        for job in self.store.every():
            self.assertEqual(len(self.ends.get(job.id, [])), 1, self.ends)
            told = self.books.events.get(job.id)
            if job.status == CANCELED and not job.attempts:
                self.assertIsNone(told)
                continue
            assert told is not None
            self.assertEqual(told.cost_nano, job.cost_nano)
            self.assertEqual(bool(job.outputs), job.status == SUCCEEDED)
            self.assertTrue(all(attempt.outcome for attempt in job.attempts), job)
            if job.status == SUCCEEDED:
                self.assertGreater(job.cost_nano, 0)
        self.assertLessEqual(len(self.books.events), len(self.store))
        self.assertEqual((self.runner.running, self.crashes), (0, []))

    def story(self, seed: int) -> None:
        words = random.Random(seed)
        for _ in range(STEPS):
            self.step(words)
        self.heal()
        self.judge()


def _add_stories() -> None:
    for seed in range(STORIES):

        def test(self: Any, seed: int = seed) -> None:
            self.story(seed)

        setattr(StoryTests, f"test_story_{seed:02}", test)


_add_stories()
