"""The spool of the data plane, at every point of its life and every state a crash may leave.

What is held, whatever is left:

* a start never fails;
* an event that nobody acknowledged is there if it was in the file when the process was killed, and
  if it ever was on the disk for certain when the power went. Appends are not synced, so a power
  loss may take the newest ones;
* the events are in order, each is there once, and each is what was appended, byte for byte;
* an event that was put aside is in the file beside the spool;
* the spool takes events again, and they are there after the next start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from random import Random

import attrs
from twisted.logger import ILogObserver, LogEvent, Logger
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from omnigate import files
from omnigate.events import checked_line, is_intact
from omnigate.gateway import spool as spool_module
from omnigate.gateway.spool import MAX_LINE_BYTES, Spool
from omnigate.testing.memory_disk import CrashState, MemoryDisk
from omnigate.testing.platter import Tears, every_byte, few_bytes
from omnigate.testing.writer import SynchronousWriter

PATH = "/state/usage.spool"
ASIDE = PATH + ".refused"

#: The most events of a history's spool: few, so that one is full at times.
MAX_EVENTS = 12

#: After so many events a file that could not be written is tried again.
EVENTS_BETWEEN_TRIES = 3

#: The event that a start on what was left takes.
NEW = 10**6

#: Of so many states, one has every crash of its start walked as well.
NESTED_EVERY = 80


def event(number: int) -> bytes:
    """Make an event's line, with the checksum by which one made of two is known."""
    return checked_line(b'{"id":"%d","model":"%s"}' % (number, b"m" * (number % 7)))


def number_of(line: bytes) -> int:
    """Return the number of an event, which must say what was appended.

    Where a power loss joined two in the middle of the word ``crc32``, the first is still whole.
    """
    told = json.loads(line)
    number = int(told["id"])
    assert told["model"] == "m" * (number % 7), line
    return number


def numbers_in(content: bytes) -> set[int]:
    """Return the numbers of the whole lines in a file of events."""
    whole = content.split(b"\n")[:-1]
    return {number_of(line) for line in whole if line.startswith(b'{"id"') and is_intact(line)}


@attrs.frozen
class Known:
    """What must be found after a crash.

    :ivar written: events that a killed process leaves in the spool.
    :ivar synced: events that a power loss leaves in the spool.
    :ivar aside: events in the file beside it.
    """

    written: frozenset[int] = frozenset()
    synced: frozenset[int] = frozenset()
    aside: frozenset[int] = frozenset()


class Life:
    """A spool that lives through steps, on a disk that takes them down.

    :ivar disk: where it lives; its marks are :class:`Known`.
    :ivar made: how many events were made.
    """

    def __init__(self, case: SynchronousTestCase, disk: MemoryDisk) -> None:
        self.case = case
        self.disk = disk
        self.made = 0
        self.known = Known()
        # What a full disk has kept out of the file; from then on only what is seen there counts.
        self.faulty = False
        self.turn: list[Callable[[], None]] | None = None
        self.rewriting = False
        self.covered: set[int] = set()
        self.rewrites = 0
        self.start()

    def start(self, max_events: int = MAX_EVENTS) -> None:
        """Start, as after a kill or a clean stop."""
        self.turn = None
        self.faulty = self.rewriting = False
        self.writer = SynchronousWriter(holding=True)
        self.spool = Spool(PATH, self.writer, max_events, before_sends=self.before_sends)
        self.spool.open()
        self.note()

    def before_sends(self, call: Callable[[], None]) -> bool:
        """Put off what is written within a turn."""
        if self.turn is None:
            return False
        self.turn.append(call)
        return True

    def note(self) -> None:
        """Mark what must be found from now on."""
        if self.rewriting and not self.spool.rewriting:
            self.check_rewritten()
        self.rewriting = self.spool.rewriting
        waiting = frozenset(number_of(line) for line in self.spool.peek(10**6))
        seen = numbers_in(self.disk.contents().get(PATH, b"")) & waiting
        if not self.faulty and self.turn is None:
            self.case.assertEqual(seen, waiting, "an event is not in the file")
        certain = numbers_in(self.disk.certain().get(PATH, b"")) & waiting
        self.known = Known(
            self.known.written & waiting | seen, self.known.synced & waiting | certain, self.aside()
        )
        self.disk.mark(self.known)

    def check_rewritten(self) -> None:
        """Hold that what waited when a rewrite began is on the disk for certain, if it was done."""
        waiting = {number_of(line) for line in self.spool.peek(10**6)}
        certain = numbers_in(self.disk.certain().get(PATH, b""))
        if not self.faulty:
            self.case.assertLessEqual(self.covered & waiting, certain)
            self.rewrites += 1

    def aside(self) -> frozenset[int]:
        """Return the events put aside."""
        return frozenset(numbers_in(self.disk.certain().get(ASIDE, b"")))

    def forget(self, numbers: set[int]) -> None:
        """Mark that these events need not be found any more, before they are removed."""
        self.known = Known(
            self.known.written - numbers, self.known.synced - numbers, self.known.aside
        )
        self.disk.mark(self.known)

    # -- steps --------------------------------------------------------------------------------

    def append(self) -> None:
        """Take one event."""
        self.made += 1
        before = self.spool.rewriting
        self.spool.append(event(self.made))
        self.look(before)

    def look(self, before: bool) -> None:
        """Take note of what waits when a rewrite begins."""
        if self.spool.rewriting and not before:
            self.covered = {number_of(line) for line in self.spool.peek(10**6)}

    def too_long(self) -> None:
        """Take one that is too long."""
        self.case.assertFalse(self.spool.append(b"x" * MAX_LINE_BYTES))

    def acknowledge(self, count: int) -> None:
        """Deliver the oldest events."""
        lines = self.spool.peek(count)
        self.forget({number_of(line) for line in lines})
        before = self.spool.rewriting
        self.spool.acknowledge(len(lines))
        self.look(before)

    def work(self) -> None:
        """Let the writer do one job."""
        self.writer.run(1)

    def put_aside(self) -> None:
        """Put the oldest event aside, if nothing is wrong with the disk."""
        if self.spool.count:
            number = number_of(self.spool.peek(1)[0])
            # Until it is done one of the two files has it.
            done: list[str] = []
            self.spool.put_aside().addCallbacks(done.append, lambda why: why.trap(OSError))
            self.writer.run()
            self.case.assertEqual(bool(done), number in self.aside())

    def begin_turn(self) -> None:
        """Let the reactor put off what it sends."""
        if self.turn is None:
            self.turn = []

    def end_turn(self) -> None:
        """Let it send."""
        calls, self.turn = self.turn or [], None
        for call in calls:
            call()

    def fill(self) -> None:
        """Fill the disk but for a few bytes."""
        self.faulty = True
        self.disk.free_bytes["/state"] = 30

    def fail(self, call: str) -> None:
        """Let one call fail."""
        self.faulty = True
        self.disk.fail(call)

    def heal(self) -> None:
        """Make room."""
        self.disk.heal()

    def recover(self) -> None:
        """Make room, and hold that what waits in memory is written with one of the next events."""
        self.end_turn()
        self.disk.heal()
        for _ in range(EVENTS_BETWEEN_TRIES + 2):
            self.writer.run()
            if self.spool.count == MAX_EVENTS:
                self.acknowledge(1)
            self.append()
        self.writer.run()
        self.faulty = False

    def write_back(self) -> None:
        """Let the kernel bring everything to the disk."""
        self.disk.write_back()

    def kill(self, max_events: int = MAX_EVENTS) -> None:
        """End the process, and start anew."""
        self.disk.kill()
        self.forget_beyond(max_events)
        self.start(max_events)

    def stop(self) -> None:
        """Stop in an orderly way, and start anew."""
        self.disk.heal()
        self.end_turn()
        self.spool.close()
        self.writer.run()
        self.forget_beyond(MAX_EVENTS)
        self.start()

    def forget_beyond(self, max_events: int) -> None:
        """A start takes so many events from the front of the file; the rest is given up."""
        content = self.disk.contents().get(PATH, b"")
        self.forget(set(sorted(numbers_in(content))[max_events:]))

    def drain(self) -> None:
        """Deliver everything, and remove the spool."""
        self.end_turn()
        self.writer.run()
        self.acknowledge(10**6)
        self.writer.run()
        if not self.spool.rewriting:
            self.spool.remove()
            self.start()


Step = Callable[[Life], None]


def step(name: str, *arguments: object) -> Step:
    """Name a step."""
    return lambda life: getattr(life, name)(*arguments)


#: One life with everything in it once. The small bounds of the test make a rewrite due soon.
WHOLE_LIFE: list[Step] = [
    *[step("append")] * 4,
    step("acknowledge", 1),
    *[step("append")] * 4,
    step("too_long"),
    step("write_back"),
    step("append"),
    step("acknowledge", 5),  # a rewrite is due
    step("append"),
    step("work"),
    step("append"),
    step("acknowledge", 1),
    step("work"),
    step("append"),
    step("work"),
    step("append"),
    step("kill"),
    step("put_aside"),
    *[step("append")] * 9,  # the last are too many
    step("acknowledge", 4),
    step("fail", "replace"),  # the rewrite comes to nothing
    *[step("work")] * 3,
    *[step("append")] * 5,
    step("acknowledge", 3),
    *[step("work")] * 4,
    step("stop"),
    *[step("append")] * 6,
    step("acknowledge", 7),  # rewritten
    *[step("work")] * 4,
    step("append"),
    step("write_back"),
    *[step("append")] * 4,
    step("acknowledge", 5),  # and again
    *[step("work")] * 4,
    *[step("append")] * 4,
    step("acknowledge", 6),
    step("work"),
    step("fail", "write"),  # an event is in neither file
    step("append"),
    step("work"),
    step("recover"),
    step("acknowledge", 10**6),  # emptied
    step("append"),
    step("begin_turn"),
    *[step("append")] * 3,
    step("acknowledge", 1),
    step("end_turn"),
    step("put_aside"),
    step("fill"),
    *[step("append")] * 3,
    step("write_back"),
    step("recover"),  # the file is written anew
    step("append"),
    step("write_back"),
    step("append"),
    step("kill", 3),  # more in the file than may be
    step("append"),
    step("kill"),
    step("drain"),
    step("append"),
]

#: What a life by chance is made of.
ANY_STEPS: list[Step] = [
    *[step("append")] * 8,
    *[step("work")] * 5,
    step("acknowledge", 1),
    step("acknowledge", 3),
    step("acknowledge", 6),
    step("put_aside"),
    step("begin_turn"),
    *[step("end_turn")] * 2,
    step("fill"),
    step("fail", "write"),
    step("fail", "fdatasync"),
    step("fail", "replace"),
    step("heal"),
    *[step("recover")] * 2,
    *[step("write_back")] * 2,
    step("kill"),
    step("kill", 4),
    step("stop"),
    step("drain"),
]


@implementer(ILogObserver)
class Unheard:
    """Hears of everything that is dropped, and says nothing."""

    def __call__(self, event: LogEvent) -> None:
        """Do nothing."""


class SpoolCrashTests(SynchronousTestCase):
    """A spool started on what a crash left."""

    def setUp(self) -> None:
        """Make rewrites frequent, and the log quiet."""
        self.patch(spool_module, "MAX_DEAD_BYTES", 100)
        self.patch(spool_module, "_MAX_TAIL_BYTES", 60)
        self.patch(spool_module, "_PIECE_BYTES", 100)
        self.patch(spool_module, "_EVENTS_BETWEEN_TRIES", EVENTS_BETWEEN_TRIES)
        self.patch(spool_module, "_log", Logger(observer=Unheard()))
        self.walked = self.nested = 0

    def use(self, disk: MemoryDisk) -> MemoryDisk:
        """Put a disk in the place of the true one."""
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        return disk

    def live(self, steps: list[Step]) -> Life:
        """Let a spool live through steps."""
        life = Life(self, self.use(MemoryDisk()))
        for one in steps:
            one(life)
            life.note()
        return life

    def walk(self, life: Life, tears: Tears, rng: Random, mixed: int, story: str) -> None:
        """Start on everything that a crash of a life may leave."""
        for state in life.disk.crash_states(tears, rng, mixed):
            self.walked += 1
            nested = self.walked % NESTED_EVERY == 0
            self.check(state, range(1, life.made + 1), story, nested)

    def check(self, state: CrashState, made: range, story: str, nested: bool) -> None:
        """Start on one state."""
        known = state.marks[-1] if state.marks else Known()
        assert isinstance(known, Known)
        disk = self.use(state.disk(recording=nested))
        place = f"{story}, after step {state.point}: {state.label}; left: {state.contents()}"
        aside = numbers_in(disk.contents().get(ASIDE, b""))
        # A start on a full disk cannot repair the file; it loads what there is all the same.
        if self.walked % 3 == 0:
            disk.free_bytes["/state"] = 0
        must = (known.written if state.killed else known.synced) - aside
        self.started(disk, must, made, place)
        self.assertLessEqual(known.aside, aside, place)
        for again in disk.crash_states(few_bytes) if nested else ():
            self.nested += 1
            told = f"{place}; again: {again.label}; left: {again.contents()}"
            must = (known.written if again.killed and state.killed else known.synced) - aside
            self.started(self.use(again.disk()), must, made, told)

    def started(self, disk: MemoryDisk, must: Set[int], made: range, place: str) -> None:
        """Start, take an event, and start again on a disk that is well.

        :param must: events that each start finds.
        :param made: the events of the life before.
        """
        found = self.opened(disk, place)
        self.assertLessEqual(must, set(found), place)
        self.assertLessEqual(set(found), {*made, NEW}, place)
        new = NEW + (NEW in found)
        full = "/state" in disk.free_bytes
        if full:
            # There is room for the event, and not for a repair.
            disk.free_bytes["/state"] = len(event(new)) + 1
        self.spool.append(event(new))
        disk.kill()
        again = self.opened(disk, place)
        if full:
            # A last line without its end, of an event that nobody was answered for, may be gone.
            self.assertLessEqual({*must, new}, set(again), place)
            self.assertLessEqual(set(again), {*found, new}, place)
        else:
            self.assertEqual(again, [*found, new], place)
        names = {path.rpartition("/")[2] for path in disk.contents()}
        self.assertLessEqual(names, {"usage.spool", "usage.spool.lock", "usage.spool.refused"})
        disk.kill()

    def opened(self, disk: MemoryDisk, place: str) -> list[int]:
        """Start, and return what waits."""
        self.spool = Spool(PATH, SynchronousWriter())
        try:
            self.spool.open()
        except Exception as error:
            self.fail(f"the start failed with {error!r}: {place}")
        found = [number_of(line) for line in self.spool.peek(10**6)]
        self.assertEqual(found, sorted(set(found)), place)
        return found

    def test_a_whole_life_torn_at_every_byte(self) -> None:
        """Everything that a spool does, with every write of it torn everywhere."""
        life = self.live(WHOLE_LIFE)
        self.walk(life, every_byte, Random(1), 3, "a whole life")
        self.assertGreater(self.walked, 1000)
        self.assertGreater(life.rewrites, 1)
        print(f"{self.walked} states of a whole life, and {self.nested} of starts on them")

    def test_lives_by_chance(self) -> None:
        """Any order of steps, faults among them."""
        for seed in range(SEEDS):
            rng = Random(seed)
            life = self.live([rng.choice(ANY_STEPS) for _ in range(40)])
            self.walk(life, few_bytes, rng, 2, f"the life of seed {seed}")
        print(f"{self.walked} states of {SEEDS} lives, and {self.nested} of starts on them")


#: How many lives by chance are lived.
SEEDS = 12
