"""The parent of several workers: one start, one stop, whatever becomes of the workers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.daemon import BROKEN, CLEAN, HURRY_SECONDS, START_FAILED, USAGE
from omnigate.daemon_service import Listener
from omnigate.protocols.worker_channel import (
    Alive,
    Down,
    Drain,
    Figures,
    Hangup,
    Hurry,
    Ready,
    Status,
)
from omnigate.settings import read_data_settings
from omnigate.workers.parent import (
    AFTER_GRACE_SECONDS,
    HURRIED_SECONDS,
    LAST_RESORT_SECONDS,
    NoConnections,
    ParentService,
)
from omnigate.workers.place import SILENT_SECONDS, End, WorkerPlace
from tests.workers.test_place import FakeRun

GRACE = 5.0


class Socketless:
    """What an endpoint listens with that has no socket of its own."""

    def getHost(self) -> str:
        """Return where it listens."""
        return "nowhere"


class Port:
    """A port that is none."""

    def __init__(self) -> None:
        self.reading = True
        self.open = True
        self._shouldShutdown = True

    def stopReading(self) -> None:  # noqa: N802
        self.reading = False

    def fileno(self) -> int:
        return 7

    def getHost(self) -> str:
        return "here"

    def stopListening(self) -> None:  # noqa: N802
        self.open = False


class Endpoint:
    """An endpoint that gives a port."""

    def __init__(self, port: object) -> None:
        self._port = port

    def listen(self, factory: object) -> Deferred[Any]:
        return fail(self._port) if isinstance(self._port, Exception) else succeed(self._port)


class Ending:
    """What decides over the end of the process, and notes it."""

    def __init__(self) -> None:
        self.hangup: Callable[[], object] | None = None
        self.hurry: Callable[[], object] | None = None
        self.watched = False
        self.in_order = False
        self.failed: list[tuple[str, int]] = []

    def watch(self) -> None:
        self.watched = True

    def on_hangup(self, call: Callable[[], object]) -> None:
        self.hangup = call

    def on_hurry(self, call: Callable[[], object]) -> None:
        self.hurry = call

    def stopped(self) -> None:
        self.in_order = True

    def fail_start(self, line: str, status: int = START_FAILED) -> None:
        self.failed.append((line, status))


class ParentCase(SynchronousTestCase):
    """With a parent of three workers."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.port: Any = Port()
        self.ending: Any = Ending()
        self.runs: list[tuple[WorkerPlace, FakeRun]] = []
        self.words: list[str] = []
        self.build(self.port)

    def build(self, port: object) -> None:
        """Make the parent."""
        environ = {
            "OMNIGATE_INTERNAL_TOKEN": "x" * 16,
            "OMNIGATE_WORKERS": "3",
            "OMNIGATE_SHUTDOWN_GRACE_MS": str(int(GRACE * 1000)),
        }
        settings, _ = read_data_settings(environ)
        endpoint: Any = Endpoint(port)
        listener = Listener(endpoint, NoConnections(), lambda error: f"no port: {error}")
        self.parent = ParentService(settings, listener, self.spawn, self.clock, {}, self.ending)
        self.parent.manager = self.words.append

    def spawn(self, place: WorkerPlace, listen_fd: int) -> FakeRun:
        """Start a process that is none."""
        self.assertEqual(listen_fd, 7)
        run = FakeRun(100 + len(self.runs))
        self.runs.append((place, run))
        return run

    def start(self) -> None:
        """Start the parent."""
        self.parent.privilegedStartService()
        self.parent.startService()
        self.addCleanup(self.stop_looking)

    def stop_looking(self) -> None:
        """Leave no timer."""
        if self.parent._watch.running:
            self.parent._watch.stop()

    def serve(self) -> None:
        """Start the parent and have all workers ready."""
        self.start()
        for place in self.parent.places:
            place.heard(Ready())

    def told(self, index: int) -> list[Down]:
        """What the first process of a place was told."""
        return self.runs[index][1].told

    def advance(self, seconds: float) -> None:
        """Let time go by, in the parent's steps."""
        self.clock.pump([0.05] * round(seconds / 0.05))

    def alive(self, seconds: float) -> None:
        """Let time go by with workers that have a pulse."""
        for _ in range(round(seconds)):
            for place in self.parent.places:
                if place.run is not None:
                    place.heard(Alive())
            self.clock.advance(1.0)


class StartTests(ParentCase):
    """The start."""

    def test_start(self) -> None:
        """The port is opened and nothing accepted on it; a process for each worker."""
        self.start()
        self.assertFalse(self.port.reading)
        self.assertFalse(self.port._shouldShutdown)
        self.assertTrue(self.ending.watched)
        self.assertEqual([place.index for place, _ in self.runs], [0, 1, 2])

    def test_ready(self) -> None:
        """Systemd is told when every worker has been ready once, and how many serve."""
        self.start()
        first, second, third = self.parent.places
        first.heard(Ready())
        first.heard(Status("2 keys, 1 models in force"))
        second.heard(Ready())
        self.assertNotIn("READY=1", "\n".join(self.words))
        second.ended(End(None, signal.SIGKILL))
        third.heard(Ready())
        self.assertEqual(
            self.words[-1],
            "READY=1\nSTATUS=2 of 3 workers serve; 2 keys, 1 models in force",
        )
        self.advance(1)
        second.heard(Ready())
        self.assertEqual(self.words[-1], "STATUS=3 of 3 workers serve; 2 keys, 1 models in force")
        self.assertEqual("\n".join(self.words).count("READY=1"), 1)

    def test_port_in_use(self) -> None:
        """A port that cannot be had is one line, as for a plane that is alone."""
        self.build(OSError("in use"))
        self.ending.fail_start = self.fail
        self.assertRaises(self.failureException, self.parent.privilegedStartService)

    def test_no_socket(self) -> None:
        """An endpoint without a socket of its own cannot be shared."""
        self.build(Socketless())
        self.parent.privilegedStartService()
        [(line, status)] = self.ending.failed
        self.assertIn("OMNIGATE_WORKERS", line)
        self.assertEqual(status, START_FAILED)

    def test_worker_cannot_start(self) -> None:
        """The line of the first that says why ends the whole start, and only its line."""
        for status in (START_FAILED, USAGE):
            self.setUp()
            self.start()
            for place in self.parent.places[:2]:
                place.wrote(b"omnigate-data: no disk\nTraceback\nomnigate-data: nor memory\n")
                place.ended(End(status))
            line = "no disk\nomnigate-data: nor memory"
            self.assertEqual(self.ending.failed, [(line, status)])
            self.alive(120)
            self.assertEqual(len(self.runs), 3)

    def test_worker_says_nothing(self) -> None:
        """There is a line all the same."""
        self.start()
        self.parent.places[0].ended(End(START_FAILED))
        self.assertIn("said nothing", self.ending.failed[0][0])


class RunningTests(ParentCase):
    """While it runs."""

    def test_hangup(self) -> None:
        """SIGHUP goes to every worker."""
        self.serve()
        self.ending.hangup()
        for index in range(3):
            self.assertEqual(self.told(index), [Hangup()])

    def test_silent_worker(self) -> None:
        """Is killed, and no other; the next one takes its place."""
        self.serve()
        silent = self.parent.places[1]
        for _ in range(round(SILENT_SECONDS) + 1):
            for place in (self.parent.places[0], self.parent.places[2]):
                place.heard(Alive())
            self.clock.advance(1.0)
        self.assertEqual([run.kills for _, run in self.runs], [0, 1, 0])
        silent.ended(End(None, signal.SIGKILL))
        self.alive(2)
        self.assertEqual([place.index for place, _ in self.runs], [0, 1, 2, 1])

    def test_who_wants_to_know(self) -> None:
        """Figures and ends are told to whoever asked for them."""
        ends: list[int] = []
        figures: list[tuple[int, int]] = []
        self.parent.on_ended.append(ends.append)
        self.parent.on_figures.append(lambda index, told: figures.append((index, told.number)))
        self.serve()
        self.parent.places[2].heard(Figures(5, msgspec.Raw(b"{}")))
        self.parent.places[2].ended(End(BROKEN))
        self.assertEqual((ends, figures), ([2], [(2, 5)]))


class StopTests(ParentCase):
    """The stop."""

    def stop(self) -> Deferred[None]:
        """Begin to stop."""
        stopped = self.parent.stopService()
        self.advance(0.1)
        return stopped

    def test_drain(self) -> None:
        """Nothing is listened on, every worker drains, and the end waits for the last."""
        self.serve()
        stopped = self.stop()
        self.assertFalse(self.port.open)
        for place, run in self.runs:
            self.assertEqual(run.told, [Drain()])
            self.assertNoResult(stopped)
            self.assertFalse(self.ending.in_order)
            place.ended(End(CLEAN))
        self.advance(0.1)
        self.successResultOf(stopped)
        self.assertTrue(self.ending.in_order)
        self.assertEqual([run.kills for _, run in self.runs], [0, 0, 0])
        self.alive(120)
        self.assertEqual(len(self.runs), 3)
        self.assertIn("STOPPING=1", self.words[-1])

    def test_one_does_not_end(self) -> None:
        """After its grace and what comes then it is killed; the stop is in order all the same."""
        self.serve()
        stopped = self.stop()
        for place in self.parent.places[1:]:
            place.ended(End(CLEAN))
        self.advance(GRACE + AFTER_GRACE_SECONDS - 0.5)
        self.assertEqual(self.runs[0][1].kills, 0)
        self.advance(0.5)
        self.assertEqual([run.kills for _, run in self.runs], [1, 0, 0])
        self.assertNoResult(stopped)
        self.parent.places[0].ended(End(None, signal.SIGKILL))
        self.advance(0.1)
        self.successResultOf(stopped)
        self.assertTrue(self.ending.in_order)

    def test_one_cannot_be_killed(self) -> None:
        """A process that hangs in the kernel does not hold the stop for ever."""
        self.serve()
        stopped = self.stop()
        self.advance(GRACE + AFTER_GRACE_SECONDS + 10)
        self.successResultOf(stopped)

    def test_hurry(self) -> None:
        """All are told, and killed soon after; the parent itself is the last to give up."""
        self.serve()
        stopped = self.stop()
        self.ending.hurry()
        for index in range(3):
            self.assertEqual(self.told(index), [Drain(), Hurry()])
        self.advance(HURRIED_SECONDS - 0.2)
        self.assertEqual(self.runs[0][1].kills, 0)
        self.advance(0.4)
        self.assertEqual([run.kills for _, run in self.runs], [1, 1, 1])
        self.assertNoResult(stopped)
        self.assertGreater(HURRIED_SECONDS, HURRY_SECONDS)
        self.assertGreater(LAST_RESORT_SECONDS, HURRIED_SECONDS)

    def test_while_one_is_being_replaced(self) -> None:
        """No worker is started during a stop."""
        self.serve()
        self.parent.places[1].ended(End(BROKEN))
        stopped = self.stop()
        for place in (self.parent.places[0], self.parent.places[2]):
            place.ended(End(CLEAN))
        self.advance(0.1)
        self.successResultOf(stopped)
        self.advance(5)
        self.assertEqual(len(self.runs), 3)

    def test_one_ends_during_the_stop(self) -> None:
        """However it ends, it is not replaced."""
        self.serve()
        stopped = self.stop()
        for place in self.parent.places:
            place.ended(End(None, signal.SIGSEGV))
        self.advance(5)
        self.successResultOf(stopped)
        self.assertEqual(len(self.runs), 3)
