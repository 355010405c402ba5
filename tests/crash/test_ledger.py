"""The ledger, at every point of its life and every state that a crash may leave.

What is held of each state:

* a start succeeds;
* every event that was acknowledged is counted, once, in every sum; no event is counted that was not
  sent;
* the sums are those of the lines on the disk, and of what deleted segments held;
* an event that was not acknowledged and is sent again is counted once in the end; one that was
  counted is a duplicate;
* what the start and the resending leave verifies without a difference, and a crash in the middle of
  them heals as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from random import Random

from twisted.logger import ILogObserver, LogEvent, Logger
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from omnigate import files
from omnigate.ledger import loading, recorded_ids, store, upkeep
from omnigate.ledger.recording import Recording
from omnigate.ledger.service import Ledger
from omnigate.ledger.trouble import Trouble
from omnigate.ledger.upkeep import Upkeep
from omnigate.ledger.verify import verify
from omnigate.testing.memory_disk import CrashState, MemoryDisk
from omnigate.testing.platter import Create, Remove, Rename, Tears, every_byte, few_bytes
from tests.crash.ledger_life import FAMILY, FOLDER, MAX_EVENTS, Known, Life, Options

Step = Callable[[Life], object]


def step(name: str, *arguments: object) -> Step:
    """Name a step."""
    return lambda life: getattr(life, name)(*arguments)


#: Little, so that it can be torn at every byte.
SHORT_LIFE: list[Step] = [
    step("send_new", 1),
    step("wait"),
    step("send_new", 1),
]

#: Everything that a ledger does, once.
WHOLE_LIFE: list[Step] = [
    step("send_new", 2),
    step("resend", 1),
    step("send_new", 3),
    step("wait"),  # a snapshot
    step("send_new", 4),  # so many that it is sealed
    step("start"),
    step("send_new", 1),
    step("wait", 1),  # sealed since the day is over
    step("send_new", 2),
    step("resend", 3),
    step("write_back"),
    step("fault", "fdatasync"),
    step("send_new", 2),  # refused
    step("heal"),
    step("resend", 3),
    step("fill", 100),
    step("send_new", 2),  # refused, in part written
    step("wait"),
    step("heal"),
    step("resend", 2),
    step("wait", 1),  # the first segments and ids are too old
    step("send_new", 2),
    step("fault", "replace"),
    step("wait", 1),
    step("resend", 1),
    step("stop"),
    step("send_new", 1),
    step("wait", 2),
    step("start"),
]

#: Days and segments, and then so long a time that they all are too old.
LATE_LIFE: list[Step] = [
    *[step("send_new", 6), step("wait", 0.5)] * 4,
    step("write_back"),
    step("wait", 4),
]

#: The ids are lost, or were forgotten while their lines are still to be replayed.
IDLESS_LIFE: list[Step] = [
    step("send_new", 2),
    step("wait"),
    step("send_new", 2),
    step("lose_ids"),
    step("send_new", 1),
    step("start"),
    step("send_new", 1),
    step("wait", 4),
    step("send_new", 1),
]

#: What a life by chance is made of.
ANY_STEPS: list[Step] = [
    *[step("send_new", 1)] * 3,
    *[step("send_new", 2)] * 3,
    step("send_new", 5),
    step("resend", 1),
    step("resend", 4),
    step("resend", MAX_EVENTS),
    *[step("wait")] * 2,
    step("wait", 0.5),
    *[step("wait", 1)] * 2,
    step("wait", 3),
    step("start"),
    step("stop"),
    *[step("write_back")] * 2,
    step("fault", "write"),
    step("fault", "fdatasync"),
    step("fault", "fsync"),
    step("fault", "replace"),
    step("fault", "unlink"),
    step("fault", "open", 2),
    step("fill", 0),
    step("fill", 300),
    *[step("heal")] * 4,
]

#: How long things are kept in the lives by chance, in turn.
ANY_OPTIONS = (Options(2, 1), Options(0, 0), Options(0, 1), Options(1, 0), Options(3, 2))

#: How many lives by chance are lived.
SEEDS = 10

#: The share of the states of such a life that is walked.
SHARE = 0.05

#: Of so many states, what is left of one in the end is verified.
VERIFIED_EVERY = 4

#: Checks in a little more than an hour.
HOUR_CHECKS = 13

#: Of so many states, one is started on while the disk is full.
FULL_EVERY = 5

#: Of so many states, one has every crash of its recovery walked as well.
NESTED_EVERY = 1_200


@implementer(ILogObserver)
class Unheard:
    """Hears of everything, and says nothing."""

    def __call__(self, event: LogEvent) -> None:
        """Do nothing."""


class LedgerCrashTests(SynchronousTestCase):
    """A ledger started on what a crash left."""

    def setUp(self) -> None:
        """Make everything happen after few events, and the log quiet."""
        self.patch(files, "os", MemoryDisk(FOLDER))
        self.patch(files, "fcntl", MemoryDisk(FOLDER))
        self.patch(store, "SEAL_BYTES", 2_500)
        self.patch(store, "PROBE_BYTES", 500)
        self.patch(upkeep, "SNAPSHOT_EVENTS", 7)
        self.patch(loading, "STEP_LINES", 3)
        self.patch(recorded_ids, "TABLE_LEAST_IDS", 4)
        self.patch(recorded_ids, "TABLE_STEP_IDS", 4)
        self.patch(recorded_ids, "UNSYNCED_BYTES", 80)
        self.patch(recorded_ids, "OPEN_FILES", 1)
        for owner in (Ledger, Recording, Trouble, Upkeep):
            self.patch(owner, "_log", Logger(observer=Unheard()))
        self.walked = self.nested = 0

    def live(self, steps: list[Step], options: Options) -> Life:
        """Let a ledger live through steps, and hold what is true after each."""
        life = Life(self, MemoryDisk(FOLDER), options)
        before: set[int] = set()
        for number, one in enumerate(steps):
            one(life)
            counted = life.counted()
            self.assertLessEqual(before | set(life.acknowledged), counted, f"step {number}")
            before = counted
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
            known = self.recover(state, life.options, place, recording=nested)
            if not nested:
                continue
            for again in known.disk.crash_states(few_bytes):
                self.nested += 1
                self.recover(again, life.options, f"{place}; again at {again.point}: {again.label}")

    def recover(
        self, state: CrashState, options: Options, place: str, recording: bool = False
    ) -> Life:
        """Start on what is left, send again what may be, stop, and look at everything."""
        known = state.marks[-1] if state.marks else None
        assert known is None or isinstance(known, Known)
        try:
            # A start on a full disk counts what there is, and writes the rest down later.
            full = self.walked % FULL_EVERY == 0
            life = Life(self, state.disk(recording), options, known, full=full)
            if full:
                self.assertLessEqual(set(life.acknowledged), life.counted())
                life.heal()
            self.look(life)
        except Exception as error:
            raise AssertionError(f"{place}: {error!r}; left: {sizes(state)}") from error
        return life

    def look(self, life: Life) -> None:
        """Hold what must be so after a crash."""
        must = set(life.acknowledged)
        counted = life.counted()
        self.assertLessEqual(must, counted, "an event that was acknowledged is not counted")
        lines = life.lines()
        self.assertLessEqual(set(lines), counted)
        if life.options.ledger_days == 0:
            self.assertEqual(set(lines), counted, "an event is counted and not on the disk")
        again = life.known().sendable(life.options.ids_days)
        result = life.send(again)
        assert result is not None
        self.assertEqual(result.duplicates, len(again & counted))
        after = life.counted()
        self.assertEqual(after, counted | again)
        # A start believes a clock that is far ahead of the last line only after an hour: until then
        # ids that were forgotten before the crash are missed.
        is_verified = self.walked % VERIFIED_EVERY == 0 and not life.forgotten
        for _ in range(HOUR_CHECKS if is_verified else 2):
            life.wait()
        life.stop()
        self.assertEqual(life.counted(), after)
        self.assertEqual(life.ledger.counters.replayed, 0, "replayed after a clean stop")
        if not life.options.ids_days and not life.forgotten:
            self.assertEqual(len(set(life.lines())), len(life.lines()), "a line stands twice")
        if is_verified:
            findings = verify(FAMILY, life.options.ids_days)
            self.assertEqual(list(map(str, findings.first)), [])

    def test_a_short_life_torn_at_every_byte(self) -> None:
        """Lines and ids, every write of them torn everywhere."""
        life = self.live(SHORT_LIFE, Options(2, 1))
        self.walk(life, bytes_of_lines, Random(1), 0, "a short life")
        print(f"{self.walked} states of a short life, and {self.nested} of recoveries from them")

    def test_a_whole_life(self) -> None:
        """Everything that a ledger does, with every write of it torn in three places."""
        life = self.live(WHOLE_LIFE, Options(2, 1))
        self.walk(life, few_bytes, Random(1), 1, "a whole life", share=0.5)
        self.assertGreater(self.walked, 1_000)
        print(f"{self.walked} states of a whole life, and {self.nested} of recoveries from them")

    def test_many_segments_and_days_go_at_once(self) -> None:
        """Whichever of them a power loss brings back."""
        life = self.live(LATE_LIFE, Options(1, 1))
        self.walk(life, few_bytes, Random(1), 0, "a late life", share=0.5)

    def test_ids_that_are_gone_hide_no_event(self) -> None:
        """Events behind the snapshot are counted, however often the start after it is crashed."""
        self.patch(sys.modules[__name__], "NESTED_EVERY", 16)
        life = self.live(IDLESS_LIFE, Options(1, 0))
        self.walk(life, few_bytes, Random(1), 0, "a life without ids", share=0.1)

    def test_lives_by_chance(self) -> None:
        """Any order of steps, faults among them."""
        for seed in range(SEEDS):
            rng = Random(seed)
            options = ANY_OPTIONS[seed % len(ANY_OPTIONS)]
            story = f"the life of seed {seed}"
            try:
                life = self.live([rng.choice(ANY_STEPS) for _ in range(25)], options)
            except Exception as error:
                raise AssertionError(f"{story}: {error!r}") from error
            self.walk(life, few_bytes, rng, 1, story, share=SHARE)
        print(f"{self.walked} states of {SEEDS} lives, and {self.nested} of recoveries from them")


def bytes_of_lines(length: int) -> Iterable[int]:
    """Tear what may be a line or ids everywhere, and what is a whole file in three places."""
    return every_byte(length) if length < 1_200 else few_bytes(length)


def sizes(state: CrashState) -> dict[str, int]:
    """What is left, in short."""
    return {path.rpartition("/")[2]: len(data) for path, data in state.contents().items()}
