"""A worker's place: started, heard, missed, and started again."""

from __future__ import annotations

import signal
from typing import Any

import attrs
import msgspec
from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from omnigate.daemon import BROKEN, CLEAN, HELD, START_FAILED, USAGE
from omnigate.protocols.worker_channel import Alive, Down, Drain, Figures, Hurry, Ready, Status
from omnigate.workers.log import LogLine
from omnigate.workers.place import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LOOK_SECONDS,
    SILENT_SECONDS,
    STARTING_SECONDS,
    WELL_SECONDS,
    End,
    WorkerPlace,
)

HELD_SECONDS = 50.0


@attrs.define
class FakeRun:
    """A process that is none."""

    pid: int
    told: list[Down] = attrs.field(factory=list)
    kills: int = 0

    def send(self, message: Down) -> None:
        """Note it."""
        self.told.append(message)

    def kill(self) -> None:
        """Note it."""
        self.kills += 1


class FakeOwner:
    """Notes what a place tells."""

    def __init__(self) -> None:
        self.stopping = False
        self.changes = 0
        self.figures: list[Figures] = []
        self.gone: list[int] = []
        self.failed: list[tuple[list[str], int]] = []

    def changed(self) -> None:
        self.changes += 1

    def counted(self, place: WorkerPlace, figures: Figures) -> None:
        self.figures.append(figures)

    def ended(self, place: WorkerPlace) -> None:
        self.gone.append(place.index)

    def start_failed(self, lines: list[str], status: int) -> None:
        self.stopping = True
        self.failed.append((lines, status))


class PlaceCase(SynchronousTestCase):
    """With a place and a clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.owner = FakeOwner()
        self.runs: list[FakeRun] = []
        self.refused = 0
        self.place = WorkerPlace(1, self.start, self.clock, self.owner, HELD_SECONDS)
        self.events: list[LogEvent] = []
        note: Any = self.events.append
        globalLogPublisher.addObserver(note)
        self.addCleanup(globalLogPublisher.removeObserver, note)

    def start(self, place: WorkerPlace) -> FakeRun:
        """Start a process, unless the system refuses."""
        self.assertIs(place, self.place)
        if self.refused:
            self.refused -= 1
            raise OSError(11, "Resource temporarily unavailable")
        self.runs.append(FakeRun(100 + len(self.runs)))
        return self.runs[-1]

    def log(self) -> str:
        """What was logged."""
        return "\n".join(
            event["log_format"].format(**event) for event in self.events if "worker" in event
        )

    def serve(self) -> FakeRun:
        """Start and become ready."""
        self.place.start()
        self.place.heard(Ready())
        return self.runs[-1]

    def look_for(self, seconds: float) -> None:
        """Let so much time pass with the looks that belong to it."""
        for _ in range(int(seconds / LOOK_SECONDS)):
            self.clock.advance(LOOK_SECONDS)
            self.place.look()

    def pause_before_next(self) -> float:
        """Seconds until the next process."""
        count, began = len(self.runs), self.clock.seconds()
        while len(self.runs) == count:
            self.assertLess(self.clock.seconds() - began, 2 * LONGEST_PAUSE)
            (call,) = self.clock.getDelayedCalls()
            self.clock.advance(call.getTime() - self.clock.seconds())
        return self.clock.seconds() - began


class RestartTests(PlaceCase):
    """A worker that ends is replaced."""

    def test_pauses_grow(self) -> None:
        """Each worker that ends soon is waited for longer, up to a bound."""
        self.serve()
        pauses = []
        for _ in range(10):
            self.place.ended(End(None, signal.SIGKILL))
            self.assertFalse(self.place.ready)
            pauses.append(self.pause_before_next())
            self.place.heard(Ready())
        self.assertAlmostEqual(pauses[0], FIRST_PAUSE)
        self.assertAlmostEqual(pauses[1], 2 * FIRST_PAUSE)
        self.assertAlmostEqual(pauses[-1], LONGEST_PAUSE)
        self.assertEqual(pauses, sorted(pauses))

    def test_one_that_ran_well(self) -> None:
        """After a worker that ran for long the pauses begin anew."""
        self.serve()
        for _ in range(5):
            self.place.ended(End(BROKEN))
            self.pause_before_next()
        self.clock.advance(WELL_SECONDS)
        self.place.ended(End(BROKEN))
        self.assertAlmostEqual(self.pause_before_next(), FIRST_PAUSE)

    def test_told(self) -> None:
        """The log says which worker ended, how, and when another comes."""
        self.serve()
        self.clock.advance(3)
        self.place.ended(End(None, signal.SIGKILL))
        self.pause_before_next()
        self.place.ended(End(BROKEN))
        text = self.log()
        self.assertIn("worker 1 (process 100) ended by SIGKILL after 3.0 s", text)
        self.assertIn(f"another is started in {FIRST_PAUSE:g} s", text)
        self.assertIn("worker 1 (process 101) ended with status 70", text)
        self.assertEqual(self.owner.gone, [1, 1])

    def test_stopped_by_hand(self) -> None:
        """One that somebody has stopped is replaced too, and that is no error."""
        self.serve()
        self.place.ended(End(CLEAN))
        levels = {event["log_level"].name for event in self.events if "worker" in event}
        self.assertEqual(levels, {"info"})
        self.assertAlmostEqual(self.pause_before_next(), FIRST_PAUSE)

    def test_system_refuses(self) -> None:
        """Where no process can be had, it is tried again later."""
        self.refused = 3
        self.place.start()
        self.pause_before_next()
        self.assertEqual(len(self.runs), 1)
        self.assertIn("worker 1 cannot be started", self.log())

    def test_failing_later(self) -> None:
        """A start that fails after one that did not is no failed start of the daemon."""
        self.serve()
        for status in (START_FAILED, USAGE, HELD):
            self.place.ended(End(status))
            self.place.wrote(b"omnigate-data: no disk\n")
            self.pause_before_next()
        self.assertEqual(self.owner.failed, [])
        self.assertIn("worker 1: omnigate-data: no disk", self.log())

    def test_unknown_signal(self) -> None:
        """A signal without a name is told by its number."""
        self.assertEqual(End(None, 40).told(), "by signal 40")


class FirstStartTests(PlaceCase):
    """The very first start of a place."""

    def test_fails(self) -> None:
        """Status 1 and 2 end the daemon's start, with the worker's lines."""
        for status in (START_FAILED, USAGE):
            self.setUp()
            self.place.start()
            self.place.wrote(b"omnigate-data: no di")
            self.place.wrote(b"sk\nomnigate-data: nor memory")
            self.place.ended(End(status))
            lines = ["omnigate-data: no disk", "omnigate-data: nor memory"]
            self.assertEqual(self.owner.failed, [(lines, status)])
            self.assertEqual(self.clock.getDelayedCalls(), [])
            self.assertNotIn("no disk", self.log())

    def test_breaks(self) -> None:
        """What may heal is tried again: a crash, a signal."""
        self.place.start()
        for end in (End(BROKEN), End(None, signal.SIGSEGV), End(CLEAN)):
            self.place.wrote(b"Segmentation fault\n")
            self.place.ended(end)
            self.pause_before_next()
        self.assertEqual(self.owner.failed, [])
        self.assertEqual(self.log().count("worker 1: Segmentation fault"), 3)

    def test_files_are_held(self) -> None:
        """A worker of an earlier run may hold the files for as long as it drains, no longer."""
        self.place.start()
        line = b"omnigate-data: x.spool is in use by another process\n"
        while self.clock.seconds() < HELD_SECONDS:
            self.assertEqual(self.owner.failed, [])
            self.place.wrote(line)
            self.place.ended(End(HELD))
            self.pause_before_next()
        self.place.wrote(line)
        self.place.ended(End(HELD))
        self.assertEqual(self.owner.failed, [([line.decode().strip()], START_FAILED)])
        self.assertIn("worker 1 waits for its files", self.log())
        self.assertIn("worker 1: omnigate-data: x.spool is in use", self.log())

    def test_lines_of_a_start_that_succeeds(self) -> None:
        """They are logged when it has, and from then on at once; only so many are kept."""
        self.place.start()
        self.place.wrote(b"DeprecationWarning\n" * 1000)
        self.assertEqual(self.log(), "")
        self.place.heard(Ready())
        self.assertEqual(self.log().count("DeprecationWarning"), 100)
        self.place.wrote(b"Fatal Python error\n")
        self.assertIn("worker 1: Fatal Python error", self.log())

    def test_events_of_its_log(self) -> None:
        """They are logged as they come."""
        self.place.start()
        line = msgspec.json.encode(LogLine("warn", "omnigate.sample#warn", "it is odd"))
        self.place.wrote(line + b"\n")
        self.assertEqual(self.log(), "worker 1: it is odd")


class HeardTests(PlaceCase):
    """What a worker says."""

    def test_ready_and_status(self) -> None:
        """The owner is told of what changes, and not of a pulse."""
        self.serve()
        self.place.heard(Status("2 keys"))
        self.place.heard(Alive())
        self.assertEqual((self.owner.changes, self.place.status), (2, "2 keys"))
        self.assertTrue(self.place.ready and self.place.was_ready)

    def test_figures(self) -> None:
        """They are the owner's."""
        self.serve()
        figures = Figures(1, msgspec.Raw(b"{}"))
        self.place.heard(figures)
        self.assertEqual(self.owner.figures, [figures])

    def test_silence(self) -> None:
        """One that says nothing for long is killed and replaced, like any that ends."""
        run = self.serve()
        for _ in range(10):
            self.look_for(SILENT_SECONDS - 1)
            self.place.heard(Alive())
        self.assertEqual(run.kills, 0)
        self.look_for(SILENT_SECONDS)
        self.place.look()
        self.assertEqual(run.kills, 1)
        self.assertIn("worker 1 (process 100) has said nothing for 30 s; it is killed", self.log())
        self.place.ended(End(None, signal.SIGKILL))
        self.place.look()
        self.pause_before_next()

    def test_the_parent_stood_still(self) -> None:
        """Time in which nobody could listen is no silence, however the clock goes on."""
        run = self.serve()
        for step in (SILENT_SECONDS, 3600.0, -7200.0, 1e9):
            self.clock.rightNow += step
            self.place.look()
            self.assertEqual(run.kills, 0)
            self.place.heard(Alive())
        self.clock.rightNow += 3600.0
        self.look_for(SILENT_SECONDS)
        self.assertEqual(run.kills, 1)

    def test_silent_start(self) -> None:
        """A start may take longer: it reads the spool."""
        self.place.start()
        self.look_for(STARTING_SECONDS - 1)
        self.assertEqual(self.runs[0].kills, 0)
        self.look_for(1)
        self.assertEqual(self.runs[0].kills, 1)
        self.place.ended(End(None, signal.SIGKILL))
        self.pause_before_next()
        self.look_for(SILENT_SECONDS)
        self.place.look()
        self.assertEqual(self.runs[1].kills, 0)


class StopTests(PlaceCase):
    """The end."""

    def test_drain(self) -> None:
        """A process is told, and none comes after it."""
        run = self.serve()
        self.owner.stopping = True
        self.place.drain()
        self.place.hurry()
        self.assertEqual(run.told, [Drain(), Hurry()])
        self.place.ended(End(CLEAN))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_between_two(self) -> None:
        """Where none is there, none is started any more."""
        self.serve()
        self.place.ended(End(BROKEN))
        self.place.drain()
        self.place.hurry()
        self.place.kill()
        self.clock.advance(2 * LONGEST_PAUSE)
        self.assertEqual(len(self.runs), 1)

    def test_start_is_broken_off(self) -> None:
        """What a worker says that is stopped while it starts is nobody's business."""
        self.place.start()
        self.owner.stopping = True
        self.place.drain()
        self.place.wrote(b"KeyboardInterrupt\n")
        self.place.ended(End(START_FAILED))
        self.assertEqual((self.owner.failed, self.log()), ([], ""))
