"""Files that arrive: written and hashed in the writer, their source paused, gone when unneeded."""

import errno
import hashlib
import os

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs.incoming import (
    HEAD_BYTES,
    MAX_WAITING_BYTES,
    PIECE_OVERHEAD,
    Incoming,
    IncomingFile,
)
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter

JOB = "job_01hx"
MEDIA = "/state/media"


class Source:
    """Where a body comes from: notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        """Note it."""
        self.told.append("pause")

    def resume(self) -> None:
        """Note it."""
        self.told.append("resume")


class IncomingTestCase(SynchronousTestCase):
    """A folder on a disk in memory."""

    def setUp(self) -> None:
        self.disk = MemoryDisk("/state")
        self.patch(files, "os", self.disk)
        self.disk.mkdir(MEDIA)
        self.writer = SynchronousWriter()
        self.incoming = Incoming(MEDIA, self.writer)
        self.source = Source()

    def sink(self, max_bytes: int = 10_000_000) -> IncomingFile:
        """Return a file that has begun."""
        sink = self.incoming.sink(JOB, 0, max_bytes)
        sink.begin(self.source)
        return sink

    def left(self) -> dict[str, bytes]:
        """Return what lies in the folder."""
        return self.disk.contents(MEDIA)


class KeepingTest(IncomingTestCase):
    """A body that is whole."""

    @given(st.lists(st.binary(max_size=200), max_size=20))
    def test_what_came_is_what_is_kept(self, pieces: list[bytes]) -> None:
        sink = self.sink()
        for piece in pieces:
            sink.write(piece)
        self.successResultOf(sink.finish())
        kept, whole = sink.kept, b"".join(pieces)
        assert kept is not None
        self.assertEqual(self.left()[kept.path], whole)
        self.assertEqual(kept.size, len(whole))
        self.assertEqual(kept.sha256, hashlib.sha256(whole).hexdigest())
        self.assertEqual(kept.head, whole[:HEAD_BYTES])
        self.assertEqual(kept.prefix, "")

    def test_it_is_on_the_disk_for_certain(self) -> None:
        sink = self.sink()
        sink.write(b"one")
        self.successResultOf(sink.finish())
        assert sink.kept is not None
        self.disk.write_back()
        self.disk.crash()
        self.assertEqual(self.left()[sink.kept.path], b"one")

    def test_every_file_has_a_name_of_its_own(self) -> None:
        first, second = self.sink(), self.sink()
        for sink in (first, second):
            self.successResultOf(sink.finish())
        assert first.kept is not None and second.kept is not None
        self.assertNotEqual(first.kept.path, second.kept.path)

    def test_long_files_are_synced_as_they_grow(self) -> None:
        self.patch(files, "SYNC_BYTES", 1000)
        sink = self.sink()
        for _ in range(10):
            sink.write(b"x" * 300)
        self.assertEqual(self.disk.calls.count("fdatasync"), 2)


class SlowDiskTest(IncomingTestCase):
    """A source that is faster than the disk."""

    def setUp(self) -> None:
        super().setUp()
        self.writer.holding = True

    def test_the_source_is_paused_and_resumed(self) -> None:
        sink = self.sink()
        piece = bytes(64 * 1024 - PIECE_OVERHEAD)
        for _ in range(MAX_WAITING_BYTES // (len(piece) + PIECE_OVERHEAD)):
            sink.write(piece)
        self.assertEqual(self.source.told, [])
        sink.write(piece)
        self.assertEqual(self.source.told, ["pause"])
        sink.write(piece)
        self.assertEqual(self.writer.run(1), 1)
        self.assertEqual(self.source.told, ["pause"])
        self.assertEqual(self.writer.run(1), 1)
        self.assertEqual(self.source.told, ["pause", "resume"])

    def test_bytes_that_come_one_by_one(self) -> None:
        sink, count = self.sink(), 0
        while not self.source.told:
            sink.write(b"x")
            count += 1
        self.assertLess(count, 5_000)
        self.writer.run()
        self.assertEqual(self.disk.calls.count("write"), 2)
        self.assertEqual(list(self.left().values()), [b"x" * count])

    def test_one_job_at_a_time_waits_for_the_writer(self) -> None:
        sink = self.sink()
        for _ in range(100):
            sink.write(b"piece")
        self.assertEqual(self.writer.pending, 1)
        done = sink.finish()
        self.assertNoResult(done)
        self.assertEqual(self.writer.run(), 3)
        self.successResultOf(done)
        assert sink.kept is not None
        self.assertEqual(sink.kept.size, 500)

    def test_abandoned_in_the_middle(self) -> None:
        sink = self.sink()
        sink.write(b"one")
        sink.write(b"two")
        sink.abandon()
        sink.write(b"three")
        self.writer.run()
        self.assertEqual(self.left(), {})

    def test_abandoned_while_it_is_finished(self) -> None:
        sink = self.sink()
        sink.write(b"one")
        done = sink.finish()
        sink.abandon()
        self.assertEqual(self.failureResultOf(done, OSError).value.errno, errno.ECANCELED)
        self.writer.run()
        self.assertEqual(self.left(), {})
        self.assertIsNone(sink.kept)


class RefusedTest(IncomingTestCase):
    """What cannot be kept."""

    def test_a_full_disk_is_told_as_such(self) -> None:
        sink = self.sink()
        sink.write(b"x" * 100)
        self.disk.free_bytes["/state"] = 50
        sink.write(b"x" * 100)
        self.assertIsNotNone(sink.failure)
        with self.assertRaises(OSError):
            sink.write(b"x" * 100)
        error = self.failureResultOf(sink.finish(), OSError).value
        self.assertEqual(error.errno, errno.ENOSPC)
        self.assertIsNone(sink.kept)
        self.assertEqual(self.left(), {})

    def test_a_source_that_was_paused_goes_on_after_a_failure(self) -> None:
        self.writer.holding = True
        sink = self.sink()
        for _ in range(20):
            sink.write(bytes(64 * 1024))
        self.disk.fail("write", error=errno.ENOSPC)
        self.writer.run()
        self.assertEqual(self.source.told, ["pause", "resume"])
        self.failureResultOf(sink.finish(), OSError)

    def test_a_sync_that_fails(self) -> None:
        sink = self.sink()
        sink.write(b"one")
        self.disk.fail("fdatasync")
        self.assertEqual(self.failureResultOf(sink.finish(), OSError).value.errno, errno.EIO)
        self.assertEqual(self.left(), {})

    def test_more_than_may_be(self) -> None:
        sink = self.sink(max_bytes=5)
        sink.write(b"12345")
        self.assertIsNone(sink.failure)
        with self.assertRaises(OSError):
            sink.write(b"6")
        self.assertEqual(self.failureResultOf(sink.finish(), OSError).value.errno, errno.EFBIG)
        self.assertEqual(self.left(), {})

    def test_a_writer_that_takes_nothing(self) -> None:
        self.writer.stop()
        sink = self.sink()
        sink.write(b"one")
        self.assertEqual(self.failureResultOf(sink.finish(), OSError).value.errno, errno.ECANCELED)

    def test_finished_twice(self) -> None:
        sink = self.sink()
        self.successResultOf(sink.finish())
        self.assertEqual(self.failureResultOf(sink.finish(), OSError).value.errno, errno.EBADF)
        self.assertIsNotNone(sink.kept)


class ClearingTest(IncomingTestCase):
    """What lies here is of no use for long."""

    def setUp(self) -> None:
        super().setUp()
        for n in range(3):
            sink = self.incoming.sink(JOB, n, 100)
            sink.write(b"content")
            self.successResultOf(sink.finish())
        other = self.incoming.sink("job_other", 0, 100)
        other.write(b"other")
        self.successResultOf(other.finish())

    def test_the_files_of_one_job(self) -> None:
        self.successResultOf(self.incoming.clear(JOB))
        self.assertEqual(list(self.left().values()), [b"other"])
        self.assertEqual(self.disk.listdir(f"{MEDIA}/.incoming"), ["job_other"])

    def test_of_a_job_that_has_none(self) -> None:
        self.successResultOf(self.incoming.clear("job_none"))
        self.assertEqual(len(self.left()), 4)

    def test_what_cannot_be_removed_is_logged(self) -> None:
        self.disk.fail("unlink")
        self.successResultOf(self.incoming.clear(JOB))
        self.assertEqual(len(self.left()), 4)

    def test_all_at_a_start(self) -> None:
        self.disk.put(f"{MEDIA}/.incoming/stray", b"stray")
        self.assertEqual(self.successResultOf(Incoming(MEDIA, self.writer).sweep()), 3)
        self.assertEqual(self.left(), {})
        self.assertEqual(self.disk.listdir(f"{MEDIA}/.incoming"), [])

    def test_at_the_very_first_start(self) -> None:
        self.assertEqual(self.successResultOf(Incoming("/state/new", self.writer).sweep()), 0)


class TrueDiskTest(SynchronousTestCase):
    """The same on the disk of this machine."""

    def test_kept_and_cleared(self) -> None:
        media = self.mktemp()
        os.makedirs(media)
        incoming = Incoming(media, SynchronousWriter())
        sink = incoming.sink(JOB, 0, 100)
        sink.write(b"content")
        self.successResultOf(sink.finish())
        assert sink.kept is not None
        with open(sink.kept.path, "rb") as file:
            self.assertEqual(file.read(), b"content")
        self.assertEqual(os.stat(sink.kept.path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(sink.kept.path)).st_mode & 0o777, 0o700)
        self.successResultOf(incoming.clear(JOB))
        self.assertEqual(os.listdir(os.path.join(media, ".incoming")), [])
