"""Several processes write to one log, and no line is torn."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway import log_output as log_output_module
from omnigate.gateway.log_output import PIPE_BUF, LogOutput, pieces_of
from omnigate.testing.disk import FaultyDisk
from tests.gateway.log_writer import LINES, line

ROOT = Path(__file__).resolve().parent.parent.parent
GROUPS = 300
NAMES = ("a", "b", "c")
SECONDS = 120.0

Writer = subprocess.Popen[bytes]


class ProcessTests(SynchronousTestCase):
    """Three processes at full speed."""

    def start(self, path: str, limits: dict[str, int], stdout: int) -> list[Writer]:
        """Start one for each name; ``limits`` says where its disk is full."""
        module = [sys.executable, "-m", "tests.gateway.log_writer", path]
        running = []
        for name in NAMES:
            command = [*module, name, str(GROUPS), str(limits.get(name, 0))]
            running.append(subprocess.Popen(command, stdout=stdout, cwd=ROOT))
        self.addCleanup(self.end, running)
        return running

    def end(self, running: list[Writer]) -> None:
        """End what still runs."""
        for process in running:
            process.kill()
            process.wait(SECONDS)
            if process.stdout is not None:
                process.stdout.close()

    def check(self, text: bytes, names: tuple[str, ...] = NAMES) -> None:
        """All lines of all processes are there, whole, and of each in its order."""
        self.assertTrue(text.endswith(b"\n"))
        for name in names:
            mark = b'{"name":"%b"' % name.encode()
            found = [one + b"\n" for one in text.split(b"\n") if one.startswith(mark)]
            expected = [line(name, number) for number in range(GROUPS * LINES)]
            self.assertEqual(len(expected), len(found))
            self.assertTrue(expected == found)

    def test_one_file(self) -> None:
        """Into one file: all lines whole."""
        path = os.path.abspath(self.mktemp())
        running = self.start(path, {}, subprocess.PIPE)
        self.assertEqual([b"0\n"] * 3, [one.communicate(timeout=SECONDS)[0] for one in running])
        text = Path(path).read_bytes()
        self.check(text)
        self.assertEqual(3 * GROUPS * LINES, text.count(b"\n"))

    def test_one_pipe(self) -> None:
        """Into one pipe: all lines whole."""
        reading, writing = os.pipe()
        try:
            running = self.start("-", {}, writing)
        finally:
            os.close(writing)
        with open(reading, "rb") as stream:
            text = stream.read()
        self.assertEqual([0] * 3, [one.wait(SECONDS) for one in running])
        self.check(text)
        self.assertEqual(3 * GROUPS * LINES, text.count(b"\n"))

    def test_one_with_a_full_disk(self) -> None:
        """What two of them cannot write to its end tears no line of the third."""
        path = os.path.abspath(self.mktemp())
        room = sum(len(line("a", number)) for number in range(GROUPS * LINES))
        running = self.start(path, {"a": room // 2, "b": 3 * room // 4}, subprocess.PIPE)
        failed = [int(one.communicate(timeout=SECONDS)[0]) for one in running]
        self.assertLess(0, failed[0])
        self.assertLess(0, failed[1])
        self.assertEqual(0, failed[2])
        text = Path(path).read_bytes()
        self.check(text, ("c",))
        # The write that met the end, if it was one of theirs, was cut off once.
        odd = [one for one in text.split(b"\n") if one and not one.endswith(b'"}')]
        self.assertLessEqual(len(odd), 2)


class FileTests(SynchronousTestCase):
    """Two outputs to one file, step by step."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.disk = FaultyDisk(self.folder)
        self.patch(log_output_module, "os", self.disk)
        self.numbers = itertools.count()

    def outputs(self, shared: bool = True) -> tuple[str, LogOutput, LogOutput]:
        """Two of them, open, at a new file."""
        path = os.path.join(self.folder, str(next(self.numbers)))
        one, other = LogOutput(path, shared), LogOutput(path, shared)
        for output in (one, other):
            output.open()
            self.addCleanup(output.close)
        return path, one, other

    def test_disk_that_fills(self) -> None:
        """Wherever a full disk cuts a group off, the lines of the other stand on their own."""
        group = b"".join(b"first-%d\n" % number for number in range(3))
        for free in range(len(group)):
            path, one, other = self.outputs()
            self.disk.free_bytes = free
            self.assertRaises(OSError, one.write, group)
            self.assertRaises(OSError, other.write, b"lost\n")
            self.disk.heal()
            other.write(b"second\n")
            one.write(b"third\n")
            text = Path(path).read_bytes()
            self.assertTrue(text.endswith(b"second\nthird\n"), (free, text))
            whole = free // 8
            cut = text.removesuffix(b"second\nthird\n").split(b"\n")
            self.assertEqual([b"first-%d" % number for number in range(whole)], cut[:whole])
            self.assertEqual(whole + bool(free % 8) + 1, len(cut), (free, text))

    def test_room_that_comes_back(self) -> None:
        """A line that was cut off is written again, whole, once there is room in time."""
        path, one, _ = self.outputs()
        write = self.disk.write
        rooms = [3, 1, 9, 100]

        def short(fd: int, data: bytes | memoryview) -> int:
            return write(fd, data[: rooms.pop(0)])

        self.patch(self.disk, "write", short)
        one.write(b"first\nsecond\n")
        self.assertEqual(b"fir\nfirst\nsec\nsecond\n", self.text(path))

    def text(self, path: str) -> bytes:
        """Read a file."""
        return Path(path).read_bytes()

    def test_little_room_for_ever(self) -> None:
        """A disk that takes a byte at a time is given up after a few."""
        path, one, _ = self.outputs()
        write = self.disk.write
        self.patch(self.disk, "write", lambda fd, data: write(fd, data[:1]))
        self.assertRaises(OSError, one.write, b"first\n")
        self.assertLess(len(self.text(path)), 20)

    def test_torn_by_a_process_that_is_gone(self) -> None:
        """The remains that a killed process left, of this run or an earlier one, end there."""
        path, one, _ = self.outputs()
        with open(path, "ab") as stream:
            stream.write(b'{"ts":')
        one.write(b"next\n")
        self.assertEqual(b'{"ts":\nnext\n', self.text(path))

    def test_emptied_under_us(self) -> None:
        """A file that somebody cut (copytruncate) begins with a line, not with an empty one."""
        path, one, other = self.outputs()
        one.write(b"first\n")
        os.truncate(path, 0)
        other.write(b"second\n")
        self.assertEqual(b"second\n", self.text(path))

    def test_lock(self) -> None:
        """A process that keeps the lock, or a system without locks, does not stop the log."""
        path, one, other = self.outputs()
        with open(path, "rb") as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            one.write(b"first\n")
        self.patch(fcntl, "flock", self.no_lock)
        other.write(b"second\n")
        self.assertEqual(b"first\nsecond\n", self.text(path))

    def no_lock(self, *_: object) -> None:
        """What a file system without locks says."""
        raise OSError("none")

    def test_unreadable(self) -> None:
        """A file that is ours to write and not to read is written, its own remains minded."""
        path, _, _ = self.outputs()
        open_file = self.disk.open

        def no_reading(path: str, flags: int, mode: int = 0o777) -> int:
            if flags & os.O_ACCMODE == os.O_RDONLY:
                raise PermissionError
            return open_file(path, flags, mode)

        self.patch(self.disk, "open", no_reading)
        output = LogOutput(path, True)
        output.open()
        self.disk.free_bytes = 3
        self.assertRaises(OSError, output.write, b"first\n")
        self.disk.heal()
        output.write(b"second\n")
        output.close()
        self.assertEqual(b"fir\nsecond\n", self.text(path))


class PieceTests(SynchronousTestCase):
    """What a pipe is given at a time."""

    @given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 40))
    def test_pieces(self, lengths: list[int], most: int) -> None:
        """Pieces are whole lines, as many as fit, and all of them make up the text."""
        text = b"".join(b"x" * length + b"\n" for length in lengths)
        pieces = [bytes(piece) for piece in pieces_of(text, most)]
        self.assertEqual(text, b"".join(pieces))
        for piece, after in itertools.pairwise([*pieces, text]):
            self.assertTrue(piece.endswith(b"\n"))
            self.assertTrue(len(piece) <= most or piece.count(b"\n") == 1)
            if after is not text:
                self.assertGreater(len(piece) + after.index(b"\n") + 1, most)

    def fill(self, output: LogOutput) -> None:
        """Write until it takes no more."""
        while True:
            output.write((b"x" * 999 + b"\n") * 20)

    def test_full_pipe(self) -> None:
        """A pipe that nobody reads is waited for a moment; what is in it is whole lines."""
        self.patch(log_output_module, "_PIPE_SECONDS", 0.01)
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        kept = os.dup(1)
        os.dup2(writing, 1)
        os.set_blocking(writing, False)
        try:
            output = LogOutput("-", True)
            output.open()
            self.assertRaises(BlockingIOError, self.fill, output)
            output.close()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(writing)
        text = os.read(reading, 1 << 20)
        self.assertLess(PIPE_BUF, len(text))
        self.assertEqual({b"x" * 999, b""}, set(text.split(b"\n")))
