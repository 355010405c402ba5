"""Tests for omnigate.ledger.segments."""

import errno
import os

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.ledger import segments
from omnigate.ledger.lines import MAX_LINE_BYTES
from omnigate.ledger.segments import SLICE_LINES, ActiveSegment
from omnigate.testing.disk import FaultyDisk


class ActiveSegmentTests(SynchronousTestCase):
    """Reading once, then appending."""

    def setUp(self) -> None:
        self.disk = FaultyDisk(self.mktemp())
        self.patch(files, "os", self.disk)
        self.patch(segments, "os", self.disk)
        self.path = os.path.join(self.disk.folder, "ledger.jsonl")
        self.segment = ActiveSegment(self.path)

    def write(self, content: bytes) -> None:
        with open(self.path, "wb") as file:
            file.write(content)

    def content(self) -> bytes:
        with open(self.path, "rb") as file:
            return file.read()

    def read_all(self) -> list[tuple[int, bytes | None]]:
        self.segment.begin_reading()
        found = []
        while lines := self.segment.next_lines():
            found.extend(lines)
        return found

    def test_a_file_that_is_not_there_is_empty(self) -> None:
        """It is made, for its owner's eyes alone, and its name is synced."""
        self.assertEqual(self.read_all(), [])
        self.assertEqual(self.segment.begin_appending(), (0, 0))
        self.segment.append(b"one\n")
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        self.disk.crash()
        self.assertEqual(self.content(), b"one\n")

    def test_the_name_is_synced_also_by_a_second_start(self) -> None:
        """A process that made the file may have been killed before it synced the name."""
        self.disk.calls_left = 1
        self.assertRaises(OSError, self.segment.begin_appending)
        self.disk.kill()
        self.assertTrue(os.path.exists(self.path))
        self.segment = ActiveSegment(self.path)
        self.segment.begin_appending()
        self.segment.append(b"one\n")
        self.disk.crash()
        self.assertEqual(self.content(), b"one\n")

    def test_lines_come_in_slices_with_their_offsets(self) -> None:
        """Each line once, with the place where it begins, and never too many at a time."""
        self.write(b"".join(b"%d\n" % n for n in range(SLICE_LINES + 3)))
        self.segment.begin_reading()
        first, second = self.segment.next_lines(), self.segment.next_lines()
        self.assertEqual((len(first), len(second)), (SLICE_LINES, 3))
        self.assertEqual(first[:3] + first[10:11], [(0, b"0"), (2, b"1"), (4, b"2"), (20, b"10")])
        self.assertEqual(self.segment.next_lines(), [])

    def test_a_torn_line_is_no_line(self) -> None:
        """It is not handed out, and is cut off before anything is appended."""
        self.write(b"one\ntw")
        self.assertEqual(self.read_all(), [(0, b"one")])
        self.assertEqual(self.segment.begin_appending(), (4, 2))
        self.segment.append(b"three\n")
        self.assertEqual(self.content(), b"one\nthree\n")

    def test_nothing_but_a_torn_line(self) -> None:
        """The file is empty then."""
        self.write(b"tw")
        self.assertEqual(self.read_all(), [])
        self.assertEqual(self.segment.begin_appending(), (0, 2))
        self.assertEqual(self.content(), b"")

    def test_a_torn_line_at_the_end_of_a_slice(self) -> None:
        """A slice that holds nothing but the torn line is the end."""
        self.write(b"x\n" * SLICE_LINES + b"torn")
        self.assertEqual(len(self.read_all()), SLICE_LINES)
        self.assertEqual(self.segment.begin_appending(), (2 * SLICE_LINES, 4))

    def test_a_line_that_is_too_long_has_no_bytes(self) -> None:
        """It is told with its place, and the lines behind it are read."""
        long = b"x" * (MAX_LINE_BYTES + 1)
        self.write(b"one\n" + long + b"\n" + long[1:] + b"\n")
        self.assertEqual(self.read_all(), [(0, b"one"), (4, None), (4 + len(long) + 1, long[1:])])
        self.assertEqual(self.segment.begin_appending()[1], 0)

    def test_only_what_the_disk_has_is_read(self) -> None:
        """Lines that a failed sync lost are not counted because the cache still shows them."""
        self.segment.begin_appending()
        self.segment.append(b"one\n")
        self.disk.fail("fdatasync")
        self.disk.fail("ftruncate")
        self.assertRaises(OSError, self.segment.append, b"two\n")
        self.assertEqual(self.content(), b"one\ntwo\n")
        self.disk.kill()
        self.segment = ActiveSegment(self.path)
        self.assertEqual(self.read_all(), [(0, b"one")])
        self.assertEqual(self.segment.begin_appending(), (4, 4))

    def test_two_processes_do_not_share_a_file(self) -> None:
        """The second one is refused until the first has closed it."""
        self.segment.begin_reading()
        second = ActiveSegment(self.path)
        error = self.assertRaises(OSError, second.begin_reading)
        self.assertEqual(error.errno, errno.EBUSY)
        self.segment.begin_appending()
        self.assertRaises(OSError, second.begin_reading)
        self.segment.close()
        second.begin_reading()
        second.begin_reading()

    def test_nothing_is_written_into_a_file_that_was_moved(self) -> None:
        """Not where it was moved to, and not where another stands; once it is back, it goes on."""
        aside = self.path + ".1"
        self.segment.begin_appending()
        self.segment.append(b"one\n")
        os.rename(self.path, aside)
        self.assertRaises(FileNotFoundError, self.segment.append, b"two\n")
        self.write(b"")
        error = self.assertRaises(OSError, self.segment.append, b"two\n")
        self.assertEqual(error.errno, errno.ESTALE)
        os.rename(aside, self.path)
        self.segment.append(b"three\n")
        self.assertEqual(self.content(), b"one\nthree\n")

    def test_nothing_is_written_into_a_file_that_was_emptied(self) -> None:
        """Its lines are gone, and the sums in memory are no longer those of the file."""
        self.segment.begin_appending()
        self.segment.append(b"one\n")
        os.truncate(self.path, 0)
        error = self.assertRaises(OSError, self.segment.append, b"two\n")
        self.assertIn("shortened", str(error))
        self.assertEqual(self.content(), b"")

    def test_it_is_closed_after_a_start_that_failed(self) -> None:
        """Appending then is a fault of the caller; opening again is not."""
        self.disk.fail("fdatasync")
        self.assertRaises(OSError, self.segment.begin_appending)
        self.assertRaises(RuntimeError, self.segment.append, b"one\n")
        self.segment.begin_appending()
        self.segment.append(b"one\n")
        self.segment.close()
        self.segment.close()
        self.assertRaises(RuntimeError, self.segment.append, b"two\n")
