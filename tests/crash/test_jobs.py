"""The job store, at every point of its life and every state that a crash may leave.

What is held of each state:

* a start succeeds, also on a full disk;
* what was acknowledged is there, in just that state; what was refused or still under way is there
  whole, or not at all;
* no job is there twice for one idempotency key, and asking again makes each missing one once;
* what a retention sweep has removed does not come back;
* every input can be read, and no file is left that belongs to no job;
* a crash in the middle of the recovery heals as well.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from twisted.logger import ILogObserver, LogEvent, Logger
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from omnigate import files
from omnigate.jobs import job_draft, job_log, store
from omnigate.jobs.job_compaction import Compaction
from omnigate.jobs.job_groups import Groups
from omnigate.jobs.store import JobStore
from omnigate.testing.memory_disk import CrashState, MemoryDisk
from omnigate.testing.platter import Create, Remove, Rename, Tears, every_byte, few_bytes
from tests.crash.jobs_life import FOLDER, INPUTS, Known, Life

Step = Callable[[Life], object]


def step(name: str, *arguments: object) -> Step:
    """Name a step."""
    return lambda life: getattr(life, name)(*arguments)


#: Little, so that it can be torn at every byte.
SHORT_LIFE: list[Step] = [
    step("create", 2),
    step("run"),
    step("end"),
]

#: Everything that a store does, once.
WHOLE_LIFE: list[Step] = [
    step("create", 3),
    step("run"),
    step("run", 1),
    step("end"),
    step("settle"),
    step("compact"),
    step("create"),
    step("end", 2),
    step("start"),
    step("write_back"),
    step("fault", "fdatasync"),
    step("create", 2),  # refused
    step("heal"),
    step("create", 2),
    step("fill", 50),
    step("create", 2),  # refused
    step("run"),  # refused
    step("compact"),  # refused
    step("heal"),
    step("run"),
    step("end"),
    step("settle"),
    step("sweep", 1),
    step("fault", "fsync", 1, INPUTS),
    step("create", 2),  # refused
    step("fault", "replace"),
    step("compact"),
    step("fault", "fsync"),
    step("compact"),
    step("heal"),
    step("compact_unsynced"),
    step("create", 2),
    step("run", 1),
    step("compact"),
    step("end", 1),
    step("settle", 1),
    step("fault", "unlink", 1, INPUTS),
    step("sweep", 1),
    step("heal"),
    step("create", 1),
    step("stop"),
]

#: What a life by chance is made of.
ANY_STEPS: list[Step] = [
    *[step("create", 1)] * 2,
    *[step("create", 2)] * 3,
    *[step("run", back) for back in range(3)],
    *[step("end", back) for back in range(4)],
    *[step("settle", back) for back in range(4)],
    *[step("sweep", 1)] * 2,
    step("sweep", 0.2),
    *[step("compact")] * 3,
    step("compact_unsynced"),
    step("start"),
    step("stop"),
    *[step("write_back")] * 2,
    step("fault", "write"),
    step("fault", "fdatasync"),
    step("fault", "fsync"),
    step("fault", "fsync", 1, INPUTS),
    step("fault", "write", 1, INPUTS),
    step("fault", "unlink", 1, INPUTS),
    step("fault", "replace"),
    step("fault", "open", 2),
    step("fault", "ftruncate", 2),
    step("fill", 0),
    step("fill", 300),
    *[step("heal")] * 4,
]

#: How many lives by chance are lived.
SEEDS = 8

#: The share of the states of such a life that is walked.
SHARE = 0.2

#: Of so many states, one is started on while the disk is full.
FULL_EVERY = 5

#: Of so many states, one has every crash of its recovery walked as well.
NESTED_EVERY = 500


@implementer(ILogObserver)
class Unheard:
    """Hears of everything, and says nothing."""

    def __call__(self, event: LogEvent) -> None:
        """Do nothing."""


class JobsCrashTests(SynchronousTestCase):
    """A job store started on what a crash left."""

    def setUp(self) -> None:
        """Make everything happen after few jobs, and the log quiet."""
        self.patch(files, "os", MemoryDisk(FOLDER))
        self.patch(files, "fcntl", MemoryDisk(FOLDER))
        self.patch(job_draft, "MAX_INLINE_INPUT_BYTES", 40)
        self.patch(job_log, "STEP_JOBS", 2)
        self.patch(job_log, "MAX_READ_BYTES", 900)
        self.patch(job_log, "SYNC_BYTES", 600)
        self.patch(job_log, "LAST_STEP_BYTES", 100)
        self.patch(store, "SWEEP_BATCH", 2)
        for owner in (JobStore, Groups, Compaction):
            self.patch(owner, "_log", Logger(observer=Unheard()))
        self.walked = self.nested = 0

    def live(self, steps: list[Step]) -> Life:
        """Let a store live through steps."""
        life = Life(self, MemoryDisk(FOLDER))
        for number, one in enumerate(steps):
            try:
                one(life)
            except Exception as error:
                raise AssertionError(f"step {number}: {error!r}") from error
        return life

    def walk(
        self, life: Life, tears: Tears, rng: Random, mixed: int, story: str, share: float = 1.0
    ) -> None:
        """Start on everything that a crash of a life may leave.

        :param share: the share of the states that is taken, by chance; but all of those in which a
            name has just changed.
        """
        history = life.disk.history
        for state in life.disk.crash_states(tears, rng, mixed):
            named = isinstance(history[state.point - 1], Create | Rename | Remove)
            if not named and rng.random() >= share:
                continue
            self.walked += 1
            place = f"{story}, after step {state.point}: {state.label}"
            nested = self.walked % NESTED_EVERY == 0
            known = self.recover(state, place, recording=nested)
            if not nested:
                continue
            for again in known.disk.crash_states(few_bytes):
                self.nested += 1
                self.recover(again, f"{place}; again at {again.point}: {again.label}")

    def recover(self, state: CrashState, place: str, recording: bool = False) -> Life:
        """Start on what is left, ask again for everything, stop, and look at it."""
        known = state.marks[-1] if state.marks else None
        assert known is None or isinstance(known, Known)
        try:
            full = self.walked % FULL_EVERY == 0
            life = Life(self, state.disk(recording), known, full=full)
            life.heal()
            life.repeat_all()
            life.run()
            life.stop()
        except Exception as error:
            raise AssertionError(f"{place}: {error!r}; left: {sizes(state)}") from error
        return life

    def test_a_short_life_torn_at_every_byte(self) -> None:
        """Lines and inputs, every write of them torn everywhere."""
        life = self.live(SHORT_LIFE)
        self.walk(life, every_byte, Random(1), 0, "a short life", share=0.2)
        print(f"{self.walked} states of a short life, and {self.nested} of recoveries from them")

    def test_a_whole_life(self) -> None:
        """Everything that a store does, with every write of it torn in three places."""
        life = self.live(WHOLE_LIFE)
        self.walk(life, few_bytes, Random(1), 1, "a whole life", share=0.5)
        self.assertGreater(self.walked, 800)
        print(f"{self.walked} states of a whole life, and {self.nested} of recoveries from them")

    def test_lives_by_chance(self) -> None:
        """Any order of steps, faults among them."""
        for seed in range(SEEDS):
            rng = Random(seed)
            story = f"the life of seed {seed}"
            try:
                life = self.live([rng.choice(ANY_STEPS) for _ in range(25)])
            except Exception as error:
                raise AssertionError(f"{story}: {error!r}") from error
            self.walk(life, few_bytes, rng, 1, story, share=SHARE)
        print(f"{self.walked} states of {SEEDS} lives, and {self.nested} of recoveries from them")


def sizes(state: CrashState) -> dict[str, int]:
    """What is left, in short."""
    return {path.rpartition("/")[2]: len(data) for path, data in state.contents().items()}
