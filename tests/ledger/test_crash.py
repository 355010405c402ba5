"""The ledger under any order of batches, faults of the disk, kills and power losses."""

import errno
import os

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.events import UsageEvent
from omnigate.ledger import segments
from omnigate.ledger.service import IngestResult, Ledger, StorageUnavailable
from omnigate.money import Price
from omnigate.testing.disk import FaultyDisk
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_ingest import NOW_MS, as_dict

KEY = "ab" * 32


def price(event: UsageEvent) -> Price:
    """Event number n costs 2**n nano-dollars, so that a sum tells which events are in it."""
    return Price(0, 0, 0, 10**6 * 2 ** int(event.id))


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
    """Lose the power: of what was not synced only the given share reached the disk."""

    share: float
    zero_filled: bool


Step = Send | Work | Fault | Fill | Stop | Heal | Kill | PowerLoss

STEPS = st.one_of(
    st.builds(Send, st.lists(st.integers(0, 5), min_size=1, max_size=3)),
    st.builds(Send, st.lists(st.integers(0, 5), min_size=1, max_size=3)),
    st.builds(Work, st.integers(1, 2)),
    st.just(Work(2)),
    st.builds(Fault, st.sampled_from(["write", "fdatasync", "ftruncate"]), st.integers(1, 2)),
    st.builds(Fill, st.integers(0, 900)),
    st.builds(Stop, st.integers(0, 4)),
    st.just(Heal()),
    st.just(Kill()),
    st.builds(PowerLoss, st.floats(0, 1), st.booleans()),
)


class Play:
    """Plays steps against a ledger, and holds what is true at every moment."""

    def __init__(self, case: SynchronousTestCase) -> None:
        self.case = case
        self.disk = FaultyDisk(case.mktemp())
        case.patch(files, "os", self.disk)
        case.patch(segments, "os", self.disk)
        self.clock = Clock()
        self.clock.advance(NOW_MS / 1000)
        self.sent: set[int] = set()
        self.acknowledged: set[int] = set()
        self.start()

    def start(self) -> None:
        self.disk.kill()
        self.under_way: list[tuple[list[int], list[object]]] = []
        self.writer = SynchronousWriter()
        path = os.path.join(self.disk.folder, "ledger.jsonl")
        self.ledger = Ledger(path, self.clock, self.writer, price)
        self.case.successResultOf(self.ledger.open())
        self.writer.holding = True

    def counted(self) -> set[int]:
        """Which events are in the sums: each once, or the sum is another set's."""
        row = self.ledger.lifetime([KEY])
        numbers = {n for n in range(6) if row.cost_nano >> n & 1}
        self.case.assertEqual(row.cost_nano, sum(2**n for n in numbers))
        self.case.assertEqual(row.requests, len(numbers))
        self.case.assertEqual({int(e["id"]) for e in self.ledger.recent()}, numbers)
        return numbers

    def play(self, step: Step) -> None:
        before = self.counted()
        if isinstance(step, Send):
            self.sent.update(step.numbers)
            batch = [as_dict(str(n), output_tokens=1, input_tokens=0) for n in step.numbers]
            outcome: list[object] = []
            self.ledger.record(batch).addBoth(outcome.append)
            self.under_way.append((step.numbers, outcome))
        elif isinstance(step, Work):
            self.writer.run(step.count)
        elif isinstance(step, Fault):
            self.disk.fail(step.call, step.times, errno.EIO)
        elif isinstance(step, Fill):
            self.disk.free_bytes = step.free_bytes
        elif isinstance(step, Stop):
            self.disk.calls_left = step.calls
        elif isinstance(step, Heal):
            self.disk.heal()
        else:
            if isinstance(step, PowerLoss):
                share, zero_filled = step.share, step.zero_filled
                self.disk.crash(lambda _, steps: int(steps * share), zero_filled=zero_filled)
            self.start()
        self.settle()
        counted = self.counted()
        # Nothing that was counted is ever lost, nothing acknowledged is uncounted.
        self.case.assertLessEqual(before, counted)
        self.case.assertLessEqual(self.acknowledged, counted)
        self.case.assertLessEqual(counted, self.sent)

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
        self.play(Work(10))
        self.case.assertEqual(self.under_way, [])
        self.case.assertEqual(self.counted(), self.sent)
        self.play(PowerLoss(0.0, False))
        self.case.assertEqual(self.counted(), self.sent)


class CrashTests(SynchronousTestCase):
    """What was acknowledged is counted, and counted once."""

    @settings(max_examples=150, deadline=None)
    @given(st.lists(STEPS, max_size=25))
    def test_any_story_ends_with_each_event_counted_once(self, steps: list[Step]) -> None:
        """The sums are those of what was acknowledged, and of whole events that came through."""
        play = Play(self)
        for step in steps:
            play.play(step)
        play.finish()

    def test_a_power_loss_at_every_byte_of_a_batch(self) -> None:
        """However much of the last write reached the disk, a resend completes it."""
        kept, length = 0, 1
        while kept <= length:
            play = Play(self)
            play.play(Send([1]))
            play.play(Work(1))
            play.disk.calls_left = 1  # the write, and not its sync
            play.play(Send([2]))
            play.play(Work(1))
            self.assertEqual(play.acknowledged, {1})
            length = play.disk.unsynced(os.path.join(play.disk.folder, "ledger.jsonl"))
            play.disk.crash(kept, zero_filled=kept % 2 == 1)
            play.start()
            self.assertEqual(play.counted(), {1, 2} if kept == length else {1})
            play.finish()
            kept += 7 if kept + 7 < length else 1
