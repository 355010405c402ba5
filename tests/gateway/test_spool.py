"""The usage spool: what is queued is never lost, whatever happens in between."""

import contextlib
import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import checked_line, encode_event
from omnigate.files import AppendFile
from omnigate.gateway import spool as spool_module
from omnigate.gateway.spool import (
    MAX_BYTES,
    MAX_DEAD_BYTES,
    MAX_EVENTS,
    MAX_LINE_BYTES,
    MAX_PUT_OFF_BYTES,
    Spool,
    SpoolInUseError,
)
from omnigate.testing.writer import SynchronousWriter
from tests.usage import usage_event


def event(number: int, padding: int = 0) -> bytes:
    """Make an event's line; ``padding`` makes it longer."""
    return b'{"id":"%d","route_model":"%s"}' % (number, b"m" * padding)


def numbers(lines: list[bytes]) -> list[int]:
    """Return the numbers of events."""
    return [int(line.split(b'"')[3]) for line in lines]


class FullDisk(AppendFile):
    """A file that does not grow beyond ``room`` bytes."""

    room = 10**9

    def append(self, lines: bytes) -> None:
        """Append, where there is room."""
        if self.size + len(lines) > self.room:
            raise OSError(errno.ENOSPC, "no space left on device")
        super().append(lines)


class Turn:
    """A reactor's turn, as far as the spool has to do with it.

    :ivar under_way: whether what is written is put aside.
    """

    def __init__(self) -> None:
        """Begin outside of a turn."""
        self.under_way = False
        self.calls: list[Callable[[], None]] = []

    def before_sends(self, call: Callable[[], None]) -> bool:
        """Keep the call for :meth:`send`."""
        if self.under_way:
            self.calls.append(call)
        return self.under_way

    def send(self) -> None:
        """Send what was put aside."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class CountingFile(FullDisk):
    """Counts its writes."""

    writes = 0

    def append(self, lines: bytes) -> None:
        """Append, and count it."""
        super().append(lines)
        CountingFile.writes += 1


class SpoolCase(SynchronousTestCase):
    """A folder with a spool in it."""

    def setUp(self) -> None:
        """Make the folder."""
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "usage.spool")
        self.writer = SynchronousWriter()
        self.turn = Turn()
        self.patch(spool_module, "AppendFile", FullDisk)

    def make(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> Spool:
        """Open a spool."""
        spool = Spool(self.path, self.writer, max_events, max_bytes, self.turn.before_sends)
        spool.open()
        self.addCleanup(spool.close)
        return spool

    @contextlib.contextmanager
    def no_room(self, length: int) -> Iterator[None]:
        """Let no file grow beyond ``length`` bytes."""
        self.patch(FullDisk, "room", length)
        try:
            yield
        finally:
            self.patch(FullDisk, "room", 10**9)

    def content(self) -> bytes:
        """Read the file."""
        with open(self.path, "rb") as stream:
            return stream.read()

    def put(self, content: bytes) -> None:
        """Write the file."""
        with open(self.path, "wb") as stream:
            stream.write(content)

    def after_crash(self) -> list[bytes]:
        """Return what a process would load that started from a copy of the folder as it is now."""
        copy = self.mktemp()
        shutil.copytree(self.folder, copy)
        spool = Spool(os.path.join(copy, "usage.spool"), SynchronousWriter())
        spool.open()
        try:
            self.assertEqual(sorted(os.listdir(copy)), ["usage.spool", "usage.spool.lock"])
            return spool.peek(10**9)
        finally:
            spool.close()
            shutil.rmtree(copy)


class QueueTests(SpoolCase):
    """The queue itself."""

    def test_oldest_first(self) -> None:
        """Events come out oldest first and stay until they are acknowledged."""
        spool = self.make()
        for number in range(5):
            self.assertTrue(spool.append(event(number)))
        self.assertEqual(numbers(spool.peek(3)), [0, 1, 2])
        self.assertEqual(numbers(spool.peek(3)), [0, 1, 2])
        spool.acknowledge(2)
        self.assertEqual(numbers(spool.peek()), [2, 3, 4])
        self.assertEqual((spool.count, spool.bytes), (3, 3 * (len(event(0)) + 1)))

    def test_since_when_they_wait(self) -> None:
        """The first one tells; one that does not say is no reason to fail."""
        spool = self.make()
        self.assertEqual(0, spool.oldest_ms)
        spool.append(b'{"id":"a","ts_ms":1795982400000}')
        spool.append(b'{"id":"b"}')
        self.assertEqual(1_795_982_400_000, spool.oldest_ms)
        spool.acknowledge(1)
        self.assertEqual(0, spool.oldest_ms)

    def test_in_the_file_at_once(self) -> None:
        """An event is a line in the file when append returns, for the owner's eyes only."""
        spool = self.make()
        spool.append(event(1))
        self.assertEqual(self.content(), event(1) + b"\n")
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_emptied_when_drained(self) -> None:
        """The file is empty when nothing waits, and takes events again."""
        spool = self.make()
        for number in range(3):
            spool.append(event(number))
        spool.acknowledge(3)
        self.assertEqual(self.content(), b"")
        spool.append(event(4))
        self.assertEqual(self.content(), event(4) + b"\n")

    def test_most_events(self) -> None:
        """Beyond the most events the new one is dropped, counted and logged; the old ones stay."""
        spool = self.make(max_events=3)
        with capturedLogs() as logged:
            taken = [spool.append(event(number)) for number in range(7)]
        self.assertEqual(taken, [True] * 3 + [False] * 4)
        self.assertEqual(numbers(spool.peek()), [0, 1, 2])
        self.assertEqual(spool.dropped, 4)
        errors = [one for one in logged if one["log_level"] == LogLevel.error]
        self.assertEqual([one["dropped"] for one in errors], [1, 2, 4])
        spool.acknowledge(1)
        self.assertTrue(spool.append(event(8)))

    def test_most_bytes(self) -> None:
        """Beyond the most bytes the new one is dropped, too."""
        spool = self.make(max_bytes=2 * (len(event(0)) + 1))
        self.assertEqual([spool.append(event(n)) for n in range(3)], [True, True, False])

    def test_the_bounds_that_are_told(self) -> None:
        """Without other bounds a hundred thousand events wait, or 128 MiB of them, and no more."""
        spool = self.make()
        line = event(0)
        self.assertEqual({True}, {spool.append(line) for _ in range(100_000)})
        self.assertFalse(spool.append(event(1)))
        self.assertEqual((100_000, 1), (spool.count, spool.dropped))
        spool.acknowledge(100_000)
        line = b"x" * (MAX_LINE_BYTES - 1)
        fit = 128 * 1024 * 1024 // MAX_LINE_BYTES
        self.assertEqual({True}, {spool.append(line) for _ in range(fit)})
        self.assertFalse(spool.append(line))
        self.assertEqual(128 * 1024 * 1024, len(self.content()))
        spool.acknowledge(fit)
        self.assertEqual(b"", self.content())

    def test_too_long(self) -> None:
        """A line that no start would load again is not taken."""
        spool = self.make()
        self.assertFalse(spool.append(b"x" * MAX_LINE_BYTES))
        self.assertEqual((spool.count, spool.dropped, self.content()), (0, 1, b""))

    def test_too_much_acknowledged(self) -> None:
        """Acknowledging more than waits is a fault of the caller."""
        spool = self.make()
        spool.append(event(1))
        self.assertRaises(ValueError, spool.acknowledge, 2)
        self.assertEqual(spool.count, 1)

    def test_one_process(self) -> None:
        """A second process does not get the same spool until the first has closed it."""
        spool = self.make()
        error = self.assertRaises(SpoolInUseError, self.make)
        self.assertIn("OMNIGATE_STATE_DIR", str(error))
        spool.close()
        self.make()

    def test_real_events(self) -> None:
        """Events as the plane writes them are loaded again, byte for byte."""
        line = encode_event(usage_event(route_model="fäst"))
        self.make().append(line)
        self.assertEqual(self.after_crash(), [line])

    def test_put_aside(self) -> None:
        """An event put aside is gone from the queue and is in a file of its own."""
        spool = self.make()
        spool.append(event(1))
        spool.append(event(2))
        path = self.successResultOf(spool.put_aside())
        self.assertEqual(numbers(spool.peek()), [2])
        with open(path, "rb") as stream:
            self.assertEqual(stream.read(), event(1) + b"\n")

    def test_put_aside_is_bounded(self) -> None:
        """When too much was put aside the event stays where it is."""
        spool = self.make()
        spool.append(event(1))
        with open(self.path + ".refused", "wb") as stream:
            stream.truncate(spool_module.MAX_ASIDE_BYTES + 1)
        self.failureResultOf(spool.put_aside(), OSError)
        self.assertEqual(spool.count, 1)


class PutOffTests(SpoolCase):
    """Lines that wait until the reactor sends."""

    def setUp(self) -> None:
        """Begin a turn."""
        super().setUp()
        self.patch(spool_module, "AppendFile", CountingFile)
        self.patch(CountingFile, "writes", 0)
        self.turn.under_way = True

    def test_one_write(self) -> None:
        """The lines of a turn are one write, made before the answers are sent."""
        spool = self.make()
        for number in range(5):
            self.assertTrue(spool.append(event(number)))
        self.assertEqual((self.content(), CountingFile.writes), (b"", 0))
        self.assertEqual((spool.count, spool.bytes), (5, 5 * (len(event(0)) + 1)))
        self.assertEqual(numbers(spool.peek()), list(range(5)))
        self.turn.send()
        self.assertEqual(CountingFile.writes, 1)
        self.assertEqual(numbers(self.after_crash()), list(range(5)))
        spool.append(event(5))
        self.turn.send()
        self.assertEqual(CountingFile.writes, 2)
        self.assertEqual(numbers(self.after_crash()), list(range(6)))

    def test_outside_of_a_turn(self) -> None:
        """Outside of a turn each line is written at once, behind all of the turn's."""
        spool = self.make()
        spool.append(event(0))
        self.turn.send()
        self.turn.under_way = False
        spool.append(event(1))
        self.assertEqual(numbers(self.after_crash()), [0, 1])

    def test_bound(self) -> None:
        """No more is put off than may be."""
        spool = self.make()
        number = 0
        while not self.content():
            spool.append(event(number, 1000))
            number += 1
        size = len(event(0, 1000)) + 1
        self.assertTrue(0 <= spool.bytes - MAX_PUT_OFF_BYTES < 2 * size)
        self.assertEqual(len(self.content()), spool.bytes)
        spool.append(event(number))
        self.turn.send()
        self.assertEqual(len(self.content()), spool.bytes)
        self.assertEqual(CountingFile.writes, 2)

    def test_close(self) -> None:
        """What was put off is in the file once it is closed, and nothing is written after that."""
        spool = self.make()
        spool.append(event(0))
        spool.close()
        self.turn.send()
        self.assertEqual(numbers(self.after_crash()), [0])

    def test_acknowledged(self) -> None:
        """What was acknowledged in the turn that it came in leaves nothing behind."""
        spool = self.make()
        for number in range(3):
            spool.append(event(number))
        spool.acknowledge(2)
        self.assertEqual(numbers(self.after_crash()), [0, 1, 2])
        spool.acknowledge(1)
        self.turn.send()
        self.assertEqual(self.content(), b"")

    def test_full_disk(self) -> None:
        """Lines that cannot be written are counted each, told of once, and written later."""
        spool = self.make()
        with self.no_room(0), capturedLogs() as logged:
            for number in range(3):
                self.assertTrue(spool.append(event(number)))
            self.turn.send()
            spool.append(event(3))
            self.turn.send()
        self.assertEqual(len(logged), 1)
        self.assertEqual((spool.count, spool.unwritten), (4, 4))
        self.assertEqual(self.after_crash(), [])
        for number in range(4, 200):
            spool.append(event(number))
            self.turn.send()
        self.assertEqual(numbers(self.after_crash()), list(range(200)))

    def test_taken_away(self) -> None:
        """A file that was taken away is written anew with what was put off."""
        spool = self.make()
        spool.append(event(0))
        self.turn.send()
        os.unlink(self.path)
        spool.append(event(1))
        with capturedLogs():
            spool.look_after_file()
        self.assertEqual(numbers(self.after_crash()), [0, 1])
        self.turn.send()
        self.assertEqual(numbers(self.after_crash()), [0, 1])


class LoadTests(SpoolCase):
    """What a start makes of the file an earlier run left."""

    def test_reload(self) -> None:
        """Everything that waited waits again, in order."""
        spool = self.make()
        for number in range(1000):
            spool.append(event(number))
        spool.acknowledge(10)
        spool.close()
        self.assertEqual(numbers(self.make().peek(10**6))[-990:], list(range(10, 1000)))

    def test_torn_anywhere(self) -> None:
        """A last line that is torn anywhere is dropped alone, and the next one is not glued on."""
        whole = b"".join(event(number) + b"\n" for number in range(3))
        last = event(3)
        for length in range(len(last) + 2):
            with self.subTest(length=length):
                self.put(whole + (last + b"\n")[:length])
                spool = self.make()
                # only the line end is missing: all of the event is there
                expected = [0, 1, 2, 3] if length >= len(last) else [0, 1, 2]
                self.assertEqual(numbers(spool.peek()), expected)
                self.assertEqual(spool.damaged, int(0 < length < len(last)))
                spool.append(event(4))
                self.assertEqual(numbers(self.after_crash()), [*expected, 4])
                spool.close()

    def test_parts_of_two_lines(self) -> None:
        """What a power loss put together out of two events is JSON, and is no event."""
        one, other = (checked_line(event(number)) for number in (1, 2))
        self.put(one[:20] + other[20:] + b"\n" + other + b"\n")
        spool = self.make()
        self.assertEqual([2], numbers(spool.peek()))
        self.assertEqual(1, spool.damaged)

    def test_damaged_lines(self) -> None:
        """Damaged lines are dropped, counted and logged; the others are loaded."""
        damaged = [
            b"\0" * 4096,
            b'{"id":"7","x":"\xff"}',
            b'{"id":7}',
            b'["id"]',
            b"{",
            b"[" * 5000,
            b"x" * (MAX_LINE_BYTES + 1),
        ]
        pieces = [event(0)]
        for number, line in enumerate(damaged, 1):
            pieces += [line, event(number)]
        self.put(b"\n".join(pieces) + b"\n\n")
        with capturedLogs() as logged:
            spool = self.make()
        self.assertEqual(numbers(spool.peek()), list(range(len(damaged) + 1)))
        self.assertEqual(spool.damaged, len(damaged))
        self.assertIn(len(damaged), [one.get("count") for one in logged])
        self.assertEqual(self.content(), b"".join(line + b"\n" for line in pieces[::2]))

    def test_more_than_fits(self) -> None:
        """Of a file that holds more than the queue may, the front is loaded and the rest goes."""
        self.put(b"".join(event(number) + b"\n" for number in range(10)))
        with capturedLogs() as logged:
            spool = self.make(max_events=4)
        self.assertEqual(numbers(spool.peek()), [0, 1, 2, 3])
        self.assertIn(6 * (len(event(0)) + 1), [one.get("rest") for one in logged])
        self.assertEqual(len(self.content()), spool.bytes)

    def test_junk(self) -> None:
        """A line of junk of any length is read through in pieces and dropped."""
        self.put(event(1) + b"\n")
        with open(self.path, "ab") as stream:
            stream.truncate(300 * 1024 * 1024)
            stream.seek(0, os.SEEK_END)
            stream.write(b"\n" + event(2) + b"\n")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assertEqual(numbers(self.make().peek()), [1, 2])
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assertLess(after - before, 32 * 1024)

    def test_endless_damage(self) -> None:
        """A file of nothing but short damaged lines is given up after many of them."""
        self.patch(spool_module, "_MAX_DAMAGED_LINES", 100)
        self.put(event(1) + b"\n" + b"x\n" * 200 + event(2) + b"\n")
        spool = self.make()
        self.assertEqual(numbers(spool.peek()), [1])
        self.assertEqual(self.content(), event(1) + b"\n")

    def test_no_room_to_repair(self) -> None:
        """A start on a full disk keeps the whole lines and cuts the torn one off."""
        self.put(event(1) + b"\nnonsense\n" + event(2) + b'\n{"id":')
        with self.no_room(10):
            spool = self.make()
        self.assertEqual(numbers(spool.peek()), [1, 2])
        spool.append(event(3))
        self.assertEqual(numbers(self.after_crash()), [1, 2, 3])

    def test_leftovers(self) -> None:
        """Temporary files of a rewrite that was broken off are removed."""
        with open(self.path + ".rewrite.tmp", "wb") as stream:
            stream.write(event(9))
        self.assertEqual(self.make().count, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["usage.spool", "usage.spool.lock"])


class RewriteTests(SpoolCase):
    """The file follows what waits."""

    #: large enough that few events make a rewrite due
    PADDING = 30_000

    def fill(self, spool: Spool, count: int, start: int = 0) -> None:
        """Append large events."""
        for number in range(start, start + count):
            spool.append(event(number, self.PADDING))

    def test_rewritten(self) -> None:
        """It is rewritten once the delivered front is over 1 MiB and over what waits."""
        spool = self.make()
        self.fill(spool, 100)
        size = len(event(10, self.PADDING)) + 1
        for acknowledged in range(1, 100):
            spool.acknowledge(1)
            waiting = (100 - acknowledged) * size
            self.assertLessEqual(len(self.content()), waiting + max(waiting, MAX_DEAD_BYTES) + size)
        self.assertEqual(numbers(self.after_crash())[-1:], [99])

    def test_no_loss_at_any_step(self) -> None:
        """A crash at any step of a rewrite finds everything that waits."""
        spool = self.make()
        self.fill(spool, 100)
        self.writer.holding = True
        spool.acknowledge(60)
        expected = list(range(60, 100))

        def check() -> None:
            self.assertLessEqual(set(expected), set(numbers(self.after_crash())))

        number = 100
        steps = 0
        check()
        while self.writer.pending:
            self.fill(spool, 1, number)
            expected.append(number)
            number += 1
            check()
            spool.acknowledge(1)
            del expected[0]
            self.writer.run(1)
            steps += 1
            check()
        # the temporary file; the rename; the closing of the old one
        self.assertEqual(steps, 3)
        self.assertEqual(numbers(self.after_crash())[-1], number - 1)
        self.assertLess(len(self.content()), 50 * self.PADDING)

    def test_large_tail(self) -> None:
        """What comes during a rewrite goes through the thread as well while it is much."""
        spool = self.make()
        self.fill(spool, 100)
        self.writer.holding = True
        spool.acknowledge(60)
        self.fill(spool, 40, 100)
        steps = self.writer.run()
        self.assertEqual(steps, 4)
        self.assertEqual(numbers(self.after_crash()), list(range(60, 140)))

    def test_crash_in_the_temporary_file(self) -> None:
        """A temporary file cut at any byte changes nothing."""
        spool = self.make()
        spool.append(event(1))
        for length in range(len(event(1)) + 2):
            with open(self.path + ".rewrite.tmp", "wb") as stream:
                stream.write((event(1) + b"\n")[:length])
            self.assertEqual(numbers(self.after_crash()), [1])

    def test_drained_meanwhile(self) -> None:
        """A queue that drains during a rewrite leaves an empty file."""
        for jobs in range(3):
            spool = self.make()
            self.fill(spool, 100)
            self.writer.holding = True
            spool.acknowledge(60)
            self.writer.run(jobs)
            spool.acknowledge(40)
            self.writer.run()
            self.assertEqual(self.content(), b"")
            spool.append(event(7))
            self.assertEqual(self.content(), event(7) + b"\n")
            spool.close()
            self.writer.holding = False
            os.unlink(self.path)

    def test_closed_meanwhile(self) -> None:
        """Closing during a rewrite leaves a file that holds everything."""
        for jobs in range(3):
            spool = self.make()
            self.fill(spool, 100)
            self.writer.holding = True
            spool.acknowledge(60)
            self.writer.run(jobs)
            spool.append(event(100))
            spool.close()
            self.writer.run()
            self.writer.holding = False
            self.assertLessEqual(set(range(60, 101)), set(numbers(self.after_crash())))
            os.unlink(self.path)

    def test_no_room_for_a_rewrite(self) -> None:
        """A rewrite that fails leaves the old file in use, and is not tried at every event."""
        spool = self.make()
        self.fill(spool, 100)
        with self.no_room(100), capturedLogs() as logged:
            spool.acknowledge(60)
            spool.acknowledge(1)
        self.assertEqual(len([one for one in logged if one["log_level"] == LogLevel.error]), 1)
        spool.append(event(100))
        self.assertEqual(numbers(self.after_crash())[-40:], list(range(61, 101)))

    def test_written_later(self) -> None:
        """Events that could not be written wait in memory, and are written when there is room."""
        spool = self.make()
        spool.append(event(0))
        with self.no_room(len(event(0)) + 1), capturedLogs() as logged:
            for number in range(1, 4):
                self.assertTrue(spool.append(event(number)))
        self.assertEqual(len(logged), 1)
        self.assertEqual((spool.count, spool.unwritten), (4, 3))
        self.assertEqual(numbers(self.after_crash()), [0])
        for number in range(4, 200):
            spool.append(event(number))
        self.assertEqual(numbers(self.after_crash()), list(range(200)))

    def removed(self) -> None:
        """Somebody removes the file."""
        os.unlink(self.path)

    def replaced(self) -> None:
        """Somebody puts another one in its place, such as a copy."""
        shutil.copy(self.path, self.path + ".copy")
        os.rename(self.path + ".copy", self.path)

    def cut(self) -> None:
        """Somebody empties it, as log rotation may."""
        os.truncate(self.path, 0)

    def cut_in_a_line(self) -> None:
        """Or a part of it."""
        os.truncate(self.path, os.path.getsize(self.path) - 5)

    def test_taken_away(self) -> None:
        """A file that somebody took away or cut is told of, and written anew with what waits."""
        for harm in (self.removed, self.replaced, self.cut, self.cut_in_a_line):
            for holding in (False, True):
                self.setUp()
                spool = self.make()
                for number in range(10):
                    spool.append(event(number))
                spool.acknowledge(3)
                spool.look_after_file()
                harm()
                spool.append(event(10))
                self.writer.holding = holding
                with capturedLogs() as logged:
                    spool.look_after_file()
                    spool.look_after_file()
                self.assertEqual(1, len(logged))
                # Those that come while it is under way are in it, too.
                spool.append(event(11))
                self.writer.run()
                self.assertEqual(list(range(3, 12)), numbers(self.after_crash()), harm)
                spool.append(event(12))
                self.assertEqual(list(range(3, 13)), numbers(self.after_crash()), harm)
                with capturedLogs() as logged:
                    spool.look_after_file()
                self.assertEqual([], logged)
                spool.acknowledge(10)
                self.assertEqual([], self.after_crash())

    def test_taken_away_again(self) -> None:
        """It is missed again, but not told of at every look."""
        spool = self.make()
        told = 0
        for number in range(550):
            spool.append(event(number))
            if number < 450:
                with contextlib.suppress(FileNotFoundError):
                    self.removed()
            with capturedLogs() as logged:
                spool.look_after_file()
            told += len(logged)
        self.assertEqual(6, told)
        self.assertEqual(list(range(550)), numbers(self.after_crash()))

    def test_taken_away_while_nothing_waits(self) -> None:
        """Then it is missed once something does."""
        spool = self.make()
        self.removed()
        with capturedLogs() as logged:
            spool.look_after_file()
            self.assertEqual([], logged)
            spool.append(event(0))
            spool.look_after_file()
        self.assertEqual([0], numbers(self.after_crash()))

    def test_folder_taken_away(self) -> None:
        """While it cannot be written anew it is tried now and then, and serving goes on."""
        spool = self.make()
        spool.append(event(0))
        os.rename(self.folder, self.folder + ".away")
        with capturedLogs() as logged:
            for number in range(1, 60):
                spool.append(event(number))
                spool.look_after_file()
        self.assertEqual(2, len(logged))
        os.mkdir(self.folder)
        for number in range(60, 200):
            spool.append(event(number))
            spool.look_after_file()
        with open(self.path + ".lock", "wb"):
            pass
        self.assertEqual(list(range(200)), numbers(self.after_crash()))

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("append"), st.integers(1, 30)),
                st.tuples(st.just("acknowledge"), st.integers(1, 40)),
                st.tuples(st.just("run"), st.integers(1, 3)),
                st.tuples(st.just("crash"), st.just(0)),
                st.tuples(st.just("turn"), st.just(0)),
                st.tuples(st.just("send"), st.just(0)),
            ),
            max_size=40,
        )
    )
    def test_any_order(self, steps: list[tuple[str, int]]) -> None:
        """Whatever comes in whatever order, all that waits is in the files at every moment.

        Within a turn that is all but what came since the last sends.
        """
        self.patch(spool_module, "MAX_DEAD_BYTES", 200)
        self.patch(spool_module, "_MAX_TAIL_BYTES", 300)
        self.setUp()
        self.writer.holding = True
        spool = self.make()
        waiting: list[int] = []
        number = 0
        answered = 0
        for step, count in steps:
            if step == "append":
                for _ in range(count):
                    spool.append(event(number))
                    waiting.append(number)
                    number += 1
                if not self.turn.under_way:
                    answered = number
            elif step == "acknowledge":
                count = min(count, len(waiting))
                spool.acknowledge(count)
                del waiting[:count]
            elif step == "run":
                self.writer.run(count)
            elif step == "turn":
                self.turn.under_way = True
            elif step == "send":
                self.turn.send()
                self.turn.under_way = False
                answered = number
            else:
                safe = {one for one in waiting if one < answered}
                self.assertLessEqual(safe, set(numbers(self.after_crash())))
            self.assertEqual(numbers(spool.peek(10**6)), waiting)
        self.turn.send()
        self.assertLessEqual(set(waiting), set(numbers(self.after_crash())))
        self.writer.run()
        self.assertLessEqual(set(waiting), set(numbers(self.after_crash())))
        spool.close()
