"""The ledger under any order of batches, faults of the disk, kills and power losses.

Event number n costs 2**n nano-dollars, so that a sum tells which events are in it, and that each is
in it once.
"""

import errno
from collections.abc import Callable, Iterable
from random import Random

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.events import UsageEvent
from omnigate.ledger import store, upkeep
from omnigate.ledger.family import Family
from omnigate.ledger.service import IngestResult, Ledger, StorageUnavailable
from omnigate.ledger.upkeep import CHECK_SECONDS
from omnigate.ledger.verify import verify
from omnigate.money import Price
from omnigate.periods import DAY_MS
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import few_bytes
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_ingest import NOW_MS, as_dict

KEY = "ab" * 32
FOLDER = "/state"
PATH = f"{FOLDER}/ledger.jsonl"

DAY_SECONDS = DAY_MS / 1000


def price(event: UsageEvent) -> Price:
    """The price of an event with one output token."""
    return Price(0, 0, 0, 10**6 * 2 ** int(event.id))


def batch(numbers: Iterable[int]) -> list[bytes | dict[str, object]]:
    """Events of these numbers."""
    return [as_dict(str(n), output_tokens=1, input_tokens=0) for n in numbers]


def counted(case: SynchronousTestCase, ledger: Ledger) -> set[int]:
    """Which events are in the sums: each once, or the sum is another set's."""
    row = ledger.lifetime([KEY])
    numbers = {n for n in range(row.cost_nano.bit_length()) if row.cost_nano >> n & 1}
    case.assertEqual(row.requests, len(numbers))
    case.assertEqual({int(e["id"]) for e in ledger.recent()}, numbers)
    for by in ("day", "model", "upstream", "key"):
        case.assertEqual(sum(named.sums.cost_nano for named in ledger.totals(by)), row.cost_nano)
    return numbers


@attrs.frozen
class Send:
    """Send one batch."""

    numbers: list[int]


@attrs.frozen
class Work:
    """Let the writer do so many jobs."""

    count: int


@attrs.frozen
class Fault:
    """Let a call of the disk fail."""

    call: str
    times: int


@attrs.frozen
class Fill:
    """Leave room for so many bytes."""

    free_bytes: int


@attrs.frozen
class Stop:
    """Let the world end after so many calls of the disk, whether by a kill or a power loss."""

    calls: int


@attrs.frozen
class Heal:
    """Repair the disk."""


@attrs.frozen
class Kill:
    """Kill the process: what it wrote stays, what it had not written is gone."""


@attrs.frozen
class PowerLoss:
    """Lose the power: of what was not synced nothing reached the disk, or what the seed says."""

    seed: int


@attrs.frozen
class Wait:
    """Let time pass: what is due every five minutes, or with a new day, is done."""

    days: int


Step = Wait | Send | Work | Fault | Fill | Stop | Heal | Kill | PowerLoss

STEPS = st.one_of(
    st.builds(Send, st.lists(st.integers(0, 5), min_size=1, max_size=3)),
    st.builds(Send, st.lists(st.integers(0, 5), min_size=1, max_size=3)),
    st.builds(Work, st.integers(1, 2)),
    st.just(Work(2)),
    st.builds(
        Fault,
        st.sampled_from(["write", "fdatasync", "ftruncate", "fsync", "replace", "open"]),
        st.integers(1, 2),
    ),
    st.builds(Fill, st.integers(0, 900)),
    st.builds(Stop, st.integers(0, 4)),
    st.just(Heal()),
    st.just(Kill()),
    st.builds(PowerLoss, st.integers(0, 1000)),
    st.builds(Wait, st.integers(0, 2)),
)


class Play:
    """Plays steps against a ledger, and holds what is true at every moment."""

    def __init__(self, case: SynchronousTestCase) -> None:
        self.case = case
        self.disk = MemoryDisk(FOLDER, recording=False)
        case.patch(files, "os", self.disk)
        case.patch(files, "fcntl", self.disk)
        self.rng = Random(1)
        self.clock = Clock()
        self.clock.advance(NOW_MS / 1000)
        self.sent: set[int] = set()
        self.acknowledged: set[int] = set()
        self.start()

    def start(self) -> None:
        self.disk.kill()
        for call in self.clock.getDelayedCalls():
            call.cancel()
        self.under_way: list[tuple[list[int], list[object]]] = []
        self.writer = SynchronousWriter()
        self.ledger = Ledger(PATH, self.clock, self.writer, price, ids_days=0, ledger_days=1)
        self.case.successResultOf(self.ledger.open())
        self.writer.holding = True

    def play(self, step: Step) -> None:
        before = counted(self.case, self.ledger)
        if isinstance(step, Send):
            self.sent.update(step.numbers)
            outcome: list[object] = []
            self.ledger.record(batch(step.numbers)).addBoth(outcome.append)
            self.under_way.append((step.numbers, outcome))
        elif isinstance(step, Work):
            self.writer.run(step.count)
        elif isinstance(step, Fault):
            self.disk.fail(step.call, step.times, errno.EIO)
        elif isinstance(step, Fill):
            self.disk.free_bytes[FOLDER] = step.free_bytes
        elif isinstance(step, Stop):
            self.disk.calls_left[FOLDER] = step.calls
        elif isinstance(step, Heal):
            self.disk.heal()
        elif isinstance(step, Wait):
            self.clock.rightNow += step.days * DAY_SECONDS
            self.clock.advance(CHECK_SECONDS)
        else:
            if isinstance(step, PowerLoss):
                self.disk.crash(rng=Random(step.seed) if step.seed else None)
            self.start()
        self.settle()
        after = counted(self.case, self.ledger)
        # Nothing that was counted is ever lost, nothing acknowledged is uncounted.
        self.case.assertLessEqual(before, after)
        self.case.assertLessEqual(self.acknowledged, after)
        self.case.assertLessEqual(after, self.sent)

    def settle(self) -> None:
        """Take note of what was acknowledged, and forget what was refused."""
        waiting = []
        for numbers, outcome in self.under_way:
            if not outcome:
                waiting.append((numbers, outcome))
            elif isinstance(outcome[0], IngestResult):
                self.acknowledged.update(numbers)
            else:
                self.case.assertIsInstance(getattr(outcome[0], "value", None), StorageUnavailable)
        self.under_way = waiting

    def finish(self) -> None:
        """Restart on a disk that is well, and send everything that was ever sent once more."""
        self.play(Kill())
        self.play(Send(sorted(self.sent)))
        self.play(Work(100))
        self.case.assertEqual(self.under_way, [])
        self.case.assertEqual(counted(self.case, self.ledger), self.sent)
        self.play(PowerLoss(0))
        self.case.assertEqual(counted(self.case, self.ledger), self.sent)


class StoryTests(SynchronousTestCase):
    """What was acknowledged is counted, and counted once."""

    @settings(max_examples=200, deadline=None)
    @given(st.lists(STEPS, max_size=30))
    def test_any_story_ends_with_each_event_counted_once(self, steps: list[Step]) -> None:
        """The sums are those of what was acknowledged, and of whole events that came through."""
        self.patch(upkeep, "SNAPSHOT_EVENTS", 4)
        self.patch(store, "SEAL_BYTES", 2_000)
        self.patch(store, "PROBE_BYTES", 1_000)
        play = Play(self)
        for step in steps:
            play.play(step)
        play.finish()


@attrs.frozen
class Told:
    """Something that the world outside knows: that events were sent or acknowledged, and when."""

    what: str
    numbers: tuple[int, ...]
    at: float


class World:
    """A ledger on a disk that writes its history down, and what the world outside knows."""

    def __init__(
        self, case: SynchronousTestCase, disk: MemoryDisk, now: float, ids_days: int
    ) -> None:
        self.case = case
        self.disk = disk
        setattr(files, "os", disk)  # noqa: B010
        setattr(files, "fcntl", disk)  # noqa: B010
        self.clock = Clock()
        self.clock.advance(now)
        self.ids_days = ids_days
        self.start()

    def start(self) -> None:
        """Start a process; the one before was killed."""
        self.disk.kill()
        for call in self.clock.getDelayedCalls():
            call.cancel()
        self.ledger = Ledger(
            PATH, self.clock, SynchronousWriter(), price, ids_days=self.ids_days, ledger_days=1
        )
        self.case.successResultOf(self.ledger.open())

    def send(self, *numbers: int) -> None:
        """Record a batch; the world outside then knows that it was acknowledged, and when."""
        self.disk.mark(Told("sent", numbers, self.clock.seconds()))
        self.case.successResultOf(self.ledger.record(batch(numbers)))
        self.disk.mark(Told("acknowledged", numbers, self.clock.seconds()))

    def wait(self, days: int = 0) -> None:
        """Let time pass until the next check."""
        self.clock.rightNow += days * DAY_SECONDS
        self.disk.mark(Told("waited", (), self.clock.seconds() + CHECK_SECONDS))
        self.clock.advance(CHECK_SECONDS)

    def stop(self) -> None:
        """Stop cleanly."""
        self.case.successResultOf(self.ledger.close())


def spare(world: World) -> None:
    """A snapshot that went bad, after segments were deleted: the spare is all there is."""
    for number in range(3):
        world.send(number)
        world.wait(days=1)
    world.send(3)
    world.disk.put(f"{FOLDER}/ledger.snapshot", b"what the disk made of it")
    world.start()
    world.send(4)
    world.wait()


class CrashPointTests(SynchronousTestCase):
    """Whatever a crash leaves at any moment, a start makes the right sums of it.

    :mod:`tests.crash.test_ledger` does so for everything that a ledger does on a disk that is well.
    """

    def setUp(self) -> None:
        self.patch(files, "os", MemoryDisk())
        self.patch(files, "fcntl", MemoryDisk())
        self.patch(store, "SEAL_BYTES", 1_500)

    def crashed(self, play: Callable[[World], None], ids_days: int = 0) -> None:
        """Play, and start on what each crash of the history may have left."""
        disk = MemoryDisk(FOLDER)
        play(World(self, disk, NOW_MS / 1000, ids_days))
        self.rng = Random(7)
        self.states = 0
        self.check_all(disk, (), ids_days)
        self.assertGreater(self.states, 400)

    def check_all(self, disk: MemoryDisk, before: tuple[Told, ...], ids_days: int) -> None:
        """Check each crash state of a disk; of the crashes of a start after a crash, some.

        :param before: what the world outside knew before the history of the disk.
        """
        for state in disk.crash_states(few_bytes, rng=self.rng, mixed=1):
            if before and self.rng.random() > 0.04:
                continue
            self.states += 1
            told = before + tuple(mark for mark in state.marks if isinstance(mark, Told))
            again = state.disk(recording=not before and self.rng.random() < 0.08)
            try:
                self.check(again, told, ids_days)
            except Exception as error:
                raise AssertionError(f"step {state.point}, {state.label}: {error}") from error
            if again.history and not before:
                self.check_all(again, told or (Told("sent", (), NOW_MS / 1000),), ids_days)

    def check(self, disk: MemoryDisk, told: tuple[Told, ...], ids_days: int) -> None:
        """Start on what is left, send all that may not have arrived, and start again."""
        now = max((mark.at for mark in told), default=NOW_MS / 1000)
        acknowledged = {n for mark in told if mark.what == "acknowledged" for n in mark.numbers}
        sent = {n for mark in told for n in mark.numbers}
        world = World(self, disk, now, ids_days)
        found = counted(self, world.ledger)
        self.assertLessEqual(acknowledged, found)
        self.assertLessEqual(found, sent)
        # What was sent so long ago that its id may be forgotten is not sent again.
        fresh = {
            n
            for mark in told
            if mark.what == "sent" and (not ids_days or now - mark.at < ids_days * DAY_SECONDS)
            for n in mark.numbers
        }
        world.send(*sorted(fresh | (sent - acknowledged)))
        self.assertEqual(counted(self, world.ledger), sent)
        world.start()
        self.assertEqual(counted(self, world.ledger), sent)
        if self.rng.random() < 0.2:
            self.assertEqual(verify(Family(PATH), ids_days).first, [])

    def test_a_bad_snapshot(self) -> None:
        """The spare, while the bad one is being replaced."""
        self.crashed(spare)
