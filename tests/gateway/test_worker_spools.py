"""What a run with more workers left is delivered, and lost at no step."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway import delivery as delivery_module
from omnigate.gateway import spool as spool_module
from omnigate.gateway.spool import Spool
from omnigate.gateway.worker_spools import LOOK_SECONDS, LeftSpools, left_paths, worker_path
from omnigate.testing.writer import SynchronousWriter
from tests.gateway.test_delivery import Answer, Control

FLUSH = 1.0


class Keeping(Control):
    """A control plane that keeps what it was sent while it is silent."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.sent: list[tuple[str, bytes]] = []

    def post(self, path: str, body: bytes) -> Deferred[Answer]:
        """Keep it, and do nothing yet."""
        if self.silent:
            self.sent.append((path, body))
        return super().post(path, body)


class NameTests(SynchronousTestCase):
    """Whose file is whose."""

    def test_names(self) -> None:
        """Worker 0 has the plain name, the others their number before the suffix."""
        for path, names in (
            ("/a/x.spool", ["/a/x.spool", "/a/x-1.spool", "/a/x-63.spool"]),
            ("x.cache.json", ["x.cache.json", "x.cache-1.json", "x.cache-63.json"]),
            ("/a.b/spool", ["/a.b/spool", "/a.b/spool-1", "/a.b/spool-63"]),
        ):
            self.assertEqual(names, [worker_path(path, index) for index in (0, 1, 63)])

    @given(st.integers(0, 63), st.integers(0, 63), st.sampled_from(["x.spool", "x", ".x", "a-1.b"]))
    def test_no_two_alike(self, one: int, other: int, path: str) -> None:
        """Two workers have two names, and neither takes the other's temporary files for its own."""
        names = worker_path(path, one), worker_path(path, other)
        self.assertEqual(one == other, names[0] == names[1])
        if one != other:
            self.assertFalse((names[1] + ".rewrite.tmp").startswith(names[0] + "."))

    def test_left(self) -> None:
        """Those beyond the workers there are, by number; nothing else in the folder."""
        folder = self.mktemp()
        os.mkdir(folder)
        path = os.path.join(folder, "x.spool")
        for index in (0, 1, 2, 9, 10, 63):
            Path(worker_path(path, index)).touch()
        for name in ("x-.spool", "x-01.spool", "x-a.spool", "x-100.spool", "y-5.spool", "x-5"):
            Path(folder, name).touch()
        for name in ("x-5.spool.refused", "x-5.spool.lock", "x-5.spool.rewrite.tmp", "x-²0.spool"):
            Path(folder, name).touch()
        os.mkdir(os.path.join(folder, "x-7.spool"))
        for count, left in ((1, (1, 2, 9, 10, 63)), (2, (2, 9, 10, 63)), (10, (10, 63)), (64, ())):
            expected = [worker_path(path, index) for index in left]
            self.assertEqual(expected, left_paths(path, count))


class LeftCase(SynchronousTestCase):
    """A folder with spools of three workers, of which one is left."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "x.spool")
        self.clock = Clock()
        self.writer = SynchronousWriter()
        self.control = Keeping(self.clock)
        self.left = self.make()

    def make(self, count: int = 1) -> LeftSpools:
        """The task."""
        return LeftSpools(self.path, count, self.writer, self.control.post, self.clock, FLUSH)

    def put(self, index: int, *numbers: int) -> str:
        """Have a worker leave these events."""
        path = worker_path(self.path, index)
        Path(path).write_bytes(b"".join(b'{"id":"%d"}\n' % number for number in numbers))
        return path

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)

    def files(self) -> list[str]:
        """What is in the folder."""
        return sorted(os.listdir(self.folder))


class EmptyTests(LeftCase):
    def test_delivered(self) -> None:
        """All that was left is delivered, once, and the files are gone; refused ones stay."""
        self.put(0, 100)
        self.put(1, 1, 2)
        self.put(2, 3)
        self.put(12)
        Path(worker_path(self.path, 1) + ".refused").write_bytes(b"x\n")
        Path(worker_path(self.path, 1) + ".rewrite.tmp").write_bytes(b"x\n")
        self.left.start()
        self.pass_time(5)
        self.assertEqual([1, 2, 3], self.control.recorded)
        self.assertEqual(["x-1.spool.refused", "x.spool"], self.files())
        self.assertEqual((3, 0, 0), (self.left.delivered, self.left.failures, self.left.put_aside))
        self.assertEqual((0, 0), (self.left.count, self.left.bytes))
        self.assertEqual([], self.clock.getDelayedCalls())
        self.successResultOf(self.left.stop())

    def test_nothing_left(self) -> None:
        """Where nothing was left nothing is done."""
        self.put(0, 100)
        self.left.start()
        self.assertEqual([], self.clock.getDelayedCalls())
        self.assertEqual(["x.spool"], self.files())
        self.successResultOf(self.left.stop())

    def test_own_spools_of_workers(self) -> None:
        """Those of the workers that are there are theirs."""
        for index in range(4):
            self.put(index, index)
        self.left = self.make(3)
        self.left.start()
        self.pass_time(3)
        self.assertEqual([3], self.control.recorded)
        self.assertEqual(["x-1.spool", "x-2.spool", "x.spool"], self.files())

    def test_control_plane_away(self) -> None:
        """Until the control plane takes them they stay in their file, and are told of."""
        path = self.put(1, 1, 2)
        self.put(2, 3)
        self.control.away = True
        self.left.start()
        self.pass_time(30)
        self.assertEqual((2, 22), (self.left.count, self.left.bytes))
        self.assertLess(1, self.left.failures)
        self.assertEqual(b'{"id":"1"}\n{"id":"2"}\n', Path(path).read_bytes())
        self.control.away = False
        self.pass_time(30)
        self.assertEqual([1, 2, 3], self.control.recorded)
        self.assertEqual([], self.files())

    def test_stop(self) -> None:
        """A stop takes no time, at whatever it comes, and the next start delivers the rest."""
        for away in (True, False):
            for seconds in (0.0, 0.5, 1.0, 3.0, 12.0):
                self.setUp()
                self.control.away = away
                self.put(1, 1, 2)
                self.put(2, 3)
                self.left.start()
                self.pass_time(seconds)
                self.successResultOf(self.left.stop())
                self.assertEqual([], self.clock.getDelayedCalls())
                self.control.away = False
                self.left = self.make()
                self.left.start()
                self.pass_time(20)
                self.assertEqual([1, 2, 3], self.control.recorded)
                self.assertEqual([], self.files())

    def test_stop_while_a_post_is_out(self) -> None:
        """What is not acknowledged stays."""
        self.put(1, 1, 2)
        self.control.silent = True
        self.left.start()
        self.clock.advance(0)
        self.successResultOf(self.left.stop())
        self.assertEqual(["x-1.spool", "x-1.spool.lock"], self.files())

    def test_in_use(self) -> None:
        """One that a process still has is left alone, told of once, and had later."""
        path = self.put(1, 1)
        self.put(2, 2)
        with open(path + ".lock", "wb") as kept, capturedLogs() as logged:
            fcntl.flock(kept, fcntl.LOCK_EX)
            self.left.start()
            self.pass_time(5 * LOOK_SECONDS)
            self.assertEqual([2], self.control.recorded)
        self.assertEqual([path], [one["path"] for one in logged if "reason" in one])
        self.pass_time(LOOK_SECONDS + 2)
        self.assertEqual([2, 1], self.control.recorded)
        self.assertEqual([], self.files())

    def test_unreadable(self) -> None:
        """One that cannot be opened does not hold up the others."""
        os.mkdir(self.put(1, 1) + ".lock")
        self.put(2, 2)
        self.left.start()
        self.pass_time(5)
        self.assertEqual([2], self.control.recorded)
        self.assertIn("x-1.spool", self.files())
        self.successResultOf(self.left.stop())

    def test_what_cannot_be_looked_at(self) -> None:
        """A folder that cannot be read, or a busy thread, is waited for; it is told once."""
        for away in ("folder", "writer"):
            self.setUp()
            self.put(1, 1, 2)
            if away == "folder":
                os.rename(self.folder, self.folder + ".moved")
                Path(self.folder).touch()
            else:
                self.writer = SynchronousWriter(holding=True, max_pending=0)
                self.left = self.make()
            with capturedLogs() as logged:
                self.left.start()
                self.pass_time(5 * LOOK_SECONDS)
            self.assertEqual(1, len([one for one in logged if "reason" in one]), away)
            if away == "folder":
                os.unlink(self.folder)
                os.rename(self.folder + ".moved", self.folder)
            self.writer.holding = False
            self.pass_time(LOOK_SECONDS + 5)
            self.assertEqual([1, 2], self.control.recorded, away)
            self.assertEqual([], self.files(), away)
            self.assertEqual([], self.clock.getDelayedCalls(), away)

    def test_stop_while_nothing_can_be_looked_at(self) -> None:
        """A stop takes no time then, either."""
        self.writer = SynchronousWriter(holding=True, max_pending=0)
        self.left = self.make()
        self.left.start()
        self.pass_time(1.5 * LOOK_SECONDS)
        self.successResultOf(self.left.stop())
        self.assertEqual([], self.clock.getDelayedCalls())

    def test_much(self) -> None:
        """A long one goes in batches, rewritten meanwhile, and is removed when all is done."""
        self.patch(spool_module, "MAX_DEAD_BYTES", 1000)
        self.patch(delivery_module, "MAX_BATCH_EVENTS", 50)
        self.put(1, *range(1000))
        self.writer.holding = True
        self.left.start()
        for _ in range(100):
            self.writer.run(1)
            self.clock.advance(0.2)
        self.assertEqual(list(range(1000)), self.control.recorded)
        self.assertEqual([], self.files())


class CrashTests(LeftCase):
    def test_any_moment(self) -> None:
        """Killed at any moment, all is delivered in the end; twice at most what was just sent."""
        for steps in range(40):
            self.setUp()
            self.patch(delivery_module, "MAX_BATCH_EVENTS", 2)
            self.put(1, 1, 2, 3, 4, 5)
            self.put(2, 6)
            self.writer.holding = True
            self.control.silent = True
            self.left.start()
            for step in range(steps):
                if step % 3 == 0:
                    self.writer.run(1)
                elif step % 3 == 1:
                    self.clock.advance(FLUSH)
                else:
                    self.answer(lost=step == steps - 1)
            # The process is gone: what it had open is closed, and nothing else happens.
            if self.left._spool is not None:
                self.left._spool.close()
            self.writer, self.clock = SynchronousWriter(), Clock()
            before = list(self.control.recorded)
            self.control = Keeping(self.clock)
            self.left = self.make()
            self.left.start()
            self.pass_time(10)
            after = self.control.recorded
            self.assertEqual({1, 2, 3, 4, 5, 6}, {*before, *after}, steps)
            self.assertLessEqual(len(before) + len(after), 8, steps)
            self.assertEqual([], self.files(), steps)

    def answer(self, lost: bool) -> None:
        """Have the control plane take what was sent; its answer may not arrive."""
        while self.control.open:
            waiting = self.control.open.pop(0)
            path, body = self.control.sent.pop(0)
            answer = self.control.judge(path, body)
            if not lost:
                waiting.callback(answer)


class LockTests(LeftCase):
    def test_removed_lock(self) -> None:
        """A lock that was removed while it was waited for is no lock: the new one is taken."""
        path = self.put(1)
        first = Spool(path, self.writer)
        first.open()
        flock = fcntl.flock
        raced: list[int] = []

        def racing(fd: int, how: int) -> None:
            if not raced:
                # The second has opened the file, and now the first removes it.
                raced.append(fd)
                first.remove()
            flock(fd, how)

        self.patch(fcntl, "flock", racing)
        second = Spool(path, self.writer)
        second.open()
        self.addCleanup(second.close)
        self.assertEqual(1, len(raced))
        third = Spool(path, self.writer)
        self.assertRaises(spool_module.SpoolInUseError, third.open)

    def test_not_with_events(self) -> None:
        """A spool in which something waits is not removed."""
        spool = Spool(self.put(1, 1), self.writer)
        spool.open()
        self.addCleanup(spool.close)
        self.assertRaises(ValueError, spool.remove)
