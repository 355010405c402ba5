"""Tests for omnigate.testing.disk."""

import errno
import os

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.testing.disk import FaultyDisk


class FaultyDiskTests(SynchronousTestCase):
    """The file primitives on a disk that fails."""

    def setUp(self) -> None:
        self.disk = FaultyDisk(self.mktemp())
        self.patch(files, "os", self.disk)
        self.path = os.path.join(self.disk.folder, "a.log")

    def content(self) -> bytes | None:
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def test_what_was_synced_survives_a_power_loss(self) -> None:
        """And what was not is gone."""
        file = files.AppendFile(self.path)
        file.append(b"one\n")
        file.sync()
        file.append(b"two\n")
        self.assertEqual(self.content(), b"one\ntwo\n")
        self.disk.crash()
        self.assertEqual(self.content(), b"one\n")

    def test_an_unsynced_write_is_torn_where_the_test_says(self) -> None:
        """Any beginning of what was not synced may survive, with zero bytes behind it or not."""
        for kept in range(5):
            for zero_filled, rest in ((False, b""), (True, bytes(4 - kept))):
                disk = FaultyDisk(self.mktemp())
                self.patch(files, "os", disk)
                self.path = os.path.join(disk.folder, "a.log")
                files.AppendFile(self.path).append(b"two\n")
                self.assertEqual(disk.unsynced(self.path), 4)
                disk.crash(kept, zero_filled=zero_filled)
                self.assertEqual(self.content(), b"two\n"[:kept] + rest)

    def test_a_cut_is_a_change_that_may_be_lost(self) -> None:
        """Until the next sync the old content may come back."""
        file = files.AppendFile(self.path)
        file.append(b"one\n")
        file.sync()
        file.cut(0)
        self.assertEqual((self.content(), self.disk.unsynced(self.path)), (b"", 1))
        self.disk.crash()
        self.assertEqual(self.content(), b"one\n")
        file = files.AppendFile(self.path)
        file.cut(0)
        file.append(b"two\n")
        self.disk.crash(lambda path, steps: steps - 1)
        self.assertEqual(self.content(), b"two")

    def test_a_name_lasts_from_the_sync_of_its_folder(self) -> None:
        """A new file that is synced, and whose folder is not, is gone."""
        self.disk.fail("fsync")
        self.assertRaises(OSError, files.AppendFile, self.path)
        self.disk.crash(10)
        self.assertIsNone(self.content())

    def test_a_replaced_file_is_the_old_or_the_new_one(self) -> None:
        """Until the folder is synced a power loss brings the old one back."""
        files.replace_file(self.path, b"old")
        for calls in range(6):
            self.disk.calls_left = calls
            try:
                files.replace_file(self.path, b"new")
            except OSError:
                self.disk.crash()
                self.assertEqual(self.content(), b"old")
        self.disk.heal()
        files.replace_file(self.path, b"new")
        self.disk.crash()
        self.assertEqual(self.content(), b"new")
        self.assertEqual(os.listdir(self.disk.folder), ["a.log"])

    def test_a_full_disk_takes_what_fits(self) -> None:
        """The file primitives cut the piece off again, which makes room."""
        file = files.AppendFile(self.path)
        self.disk.free_bytes = 6
        file.append(b"one\n")
        error = self.assertRaises(OSError, file.append, b"two\n")
        self.assertEqual(error.errno, errno.ENOSPC)
        self.assertEqual((self.content(), self.disk.free_bytes), (b"one\n", 2))
        self.disk.heal()
        file.append(b"two\n")
        self.assertEqual(self.content(), b"one\ntwo\n")

    def test_a_failed_sync_has_lost_its_bytes(self) -> None:
        """A later sync that succeeds does not bring them to the disk; writing them anew does."""
        fd = self.disk.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        files.sync_directory(self.disk.folder)
        self.disk.write(fd, b"one\n")
        self.disk.fail("fdatasync")
        self.assertRaises(OSError, self.disk.fdatasync, fd)
        self.disk.write(fd, b"two\n")
        self.disk.fdatasync(fd)
        self.assertEqual(self.content(), b"one\ntwo\n")
        self.disk.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.assertEqual(self.content(), b"\0\0\0\0two\n")
        self.disk.crash()
        self.assertEqual(self.content(), b"\0\0\0\0two\n")

    def test_calls_fail_as_often_as_told(self) -> None:
        """With the error that was asked for, and then no more."""
        file = files.AppendFile(self.path)
        self.disk.fail("write", 2, errno.EDQUOT)
        for _ in range(2):
            error = self.assertRaises(OSError, file.append, b"one\n")
            self.assertEqual(error.errno, errno.EDQUOT)
        file.append(b"one\n")
        self.assertEqual(self.content(), b"one\n")

    def test_the_world_may_end_after_any_call(self) -> None:
        """From then on nothing has an effect; a kill leaves the file as it was at that moment."""
        file = files.AppendFile(self.path)
        self.disk.calls_left = 1
        file.append(b"one\n")
        self.assertRaises(OSError, file.sync)
        self.assertRaises(OSError, file.append, b"two\n")
        self.assertEqual((self.content(), self.disk.unsynced(self.path)), (b"one\n", 4))
        self.disk.kill()
        files.AppendFile(self.path).sync()
        self.disk.crash()
        self.assertEqual(self.content(), b"one\n")

    def test_what_was_there_before_is_taken_for_synced(self) -> None:
        """A disk made over a folder with files begins from them."""
        with open(self.path, "wb") as file:
            file.write(b"old\n")
        disk = FaultyDisk(self.disk.folder)
        self.patch(files, "os", disk)
        files.AppendFile(self.path).append(b"new\n")
        disk.crash()
        self.assertEqual(self.content(), b"old\n")
