"""Append, replace, cut and read back; and the thread that does it."""

import errno
import fcntl
import os
import resource
import signal
import stat
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.files import (
    READ_BYTES,
    AppendFile,
    NewFile,
    append_file,
    close_file,
    file_size,
    list_names,
    lock_file,
    make_folder,
    move_file,
    read_file,
    read_lines,
    read_pieces,
    remove_empty_folder,
    remove_file,
    remove_folder,
    rename_file,
    replace_file,
    settle_file,
    sweep_temporaries,
    sync_directory,
    write_file,
)
from omnigate.testing.memory_disk import MemoryDisk

MAX_LINE = 1000


def noted(done: list[int], number: int) -> int:
    """Keep ``number`` in the list of what was done."""
    done.append(number)
    return number


def refuse(*_: Any) -> None:
    """Fail as a sick disk does."""
    raise OSError(errno.EIO, "Input/output error")


class FolderTestCase(SynchronousTestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.path = os.path.join(self.folder, "log.jsonl")

    def content(self) -> bytes:
        """Return what the file holds."""
        with open(self.path, "rb") as file:
            return file.read()

    def put(self, data: bytes) -> None:
        """Make the file hold ``data``."""
        with open(self.path, "wb") as file:
            file.write(data)

    def lines(
        self, max_line: int = MAX_LINE, start: int = 0
    ) -> list[tuple[int, bytes | None, bool]]:
        """Return all lines of the file."""
        return list(read_lines(self.path, max_line, start))

    def cut_torn_tail(self) -> None:
        """Do what a store does at its start: cut off what no line end stands behind."""
        file = AppendFile(self.path)
        torn = [offset for offset, _, complete in self.lines() if not complete]
        if torn:
            file.cut(torn[0])
        file.sync()
        file.close()

    def limit_file_size(self, size: int) -> None:
        """Let no file of this process grow beyond ``size``, as on a full disk."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))


class AppendFileTests(FolderTestCase):
    def opened(self) -> AppendFile:
        """Return the file, closed at the end of the test."""
        file = AppendFile(self.path)
        self.addCleanup(file.close)
        return file

    def test_a_new_file_is_private(self) -> None:
        """Nobody else on the machine reads who used what."""
        self.opened()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)

    def test_lines_go_behind_what_is_there(self) -> None:
        """Opening again does not overwrite, and the size is known."""
        self.put(b"one\n")
        file = self.opened()
        file.append(b"two\n")
        file.append(b"three\nfour\n")
        file.sync()
        self.assertEqual(self.content(), b"one\ntwo\nthree\nfour\n")
        self.assertEqual(file.size, len(self.content()))

    def test_a_full_disk_leaves_no_half_line(self) -> None:
        """What was written of a refused append is cut off, and the file can be used on."""
        file = self.opened()
        file.append(b"a" * 99 + b"\n")
        self.limit_file_size(150)
        self.assertRaises(OSError, file.append, b"b" * 99 + b"\n")
        self.assertEqual(file.size, 100)
        self.assertEqual(self.content(), b"a" * 99 + b"\n")
        file.append(b"short\n")
        self.assertEqual(self.content(), b"a" * 99 + b"\nshort\n")

    def test_a_cut_that_fails_too_is_made_up_for_later(self) -> None:
        """No line is ever appended to the rest of a torn one."""
        file = self.opened()
        file.append(b"one\n")
        write, room = os.write, [b"sec"]

        def tear(fd: int, data: bytes) -> int:
            if room:
                return write(fd, room.pop())
            raise OSError(errno.ENOSPC, "No space left on device")

        broken_write = self.patch(os, "write", tear)
        broken_cut = self.patch(os, "ftruncate", refuse)
        self.assertRaises(OSError, file.append, b"seconds\n")
        self.assertEqual(self.content(), b"one\nsec")
        broken_write.restore()
        self.assertRaises(OSError, file.append, b"two\n")
        self.assertRaises(OSError, file.sync)
        broken_cut.restore()
        file.append(b"two\n")
        self.assertEqual(self.content(), b"one\ntwo\n")

    def test_a_refused_sync_takes_back_what_it_was_for(self) -> None:
        """Lines that were never safe do not come back at the next start; safe ones stay."""
        file = self.opened()
        file.append(b"safe\n")
        file.sync()
        file.append(b"one\n")
        file.append(b"two\n")
        sick = self.patch(os, "fdatasync", refuse)
        self.assertRaises(OSError, file.sync)
        self.assertEqual(self.content(), b"safe\n")
        sick.restore()
        file.append(b"three\n")
        file.sync()
        self.assertEqual(self.content(), b"safe\nthree\n")

    def test_cutting_forgets_the_rest(self) -> None:
        """A drained spool begins again at nothing."""
        file = self.opened()
        file.append(b"one\ntwo\n")
        file.cut(4)
        file.append(b"2\n")
        self.assertEqual(self.content(), b"one\n2\n")
        self.assertRaises(ValueError, file.cut, 7)
        file.cut(0)
        self.assertEqual((self.content(), file.size), (b"", 0))

    def test_closing_twice_is_harmless(self) -> None:
        """A second close does not close somebody else's file."""
        file = AppendFile(self.path)
        file.close()
        file.close()
        self.assertRaises(OSError, file.append, b"x\n")

    def test_a_folder_that_is_not_there(self) -> None:
        """The error names the place."""
        error = self.assertRaises(OSError, AppendFile, os.path.join(self.folder, "no", "log"))
        self.assertIn("no/log", str(error))

    def test_one_append_to_a_closed_file(self) -> None:
        """A line now and then needs no file held open."""
        append_file(self.path, b"one\n")
        append_file(self.path, b"two\n")
        self.assertEqual(self.content(), b"one\ntwo\n")


class SickDisk:
    """Stands in for the calls of a disk that tears writes and refuses syncs when told to."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.sick = False
        self.write_really = os.write
        self.sync_really = os.fdatasync

    def write(self, fd: int, data: bytes) -> int:
        """Write what there is room for; nothing more when the room is used up."""
        if self.room is None:
            return self.write_really(fd, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.write_really(fd, data[: self.room])
        self.room -= written
        return written

    def fdatasync(self, fd: int) -> None:
        """Sync, or refuse."""
        if self.sick:
            refuse()
        self.sync_really(fd)


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 30)),
    st.tuples(st.just("torn"), st.integers(1, 30)),
    st.tuples(st.just("sync"), st.just(0)),
    st.tuples(st.just("refused"), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 40)),
)


class AnyHistoryTests(FolderTestCase):
    @settings(max_examples=120, deadline=None)
    @given(st.lists(steps, max_size=25))
    def test_accepted_lines_stand_and_refused_ones_do_not(
        self, history: list[tuple[str, int]]
    ) -> None:
        """The file holds the accepted lines, and after a crash all that were synced."""
        disk = SickDisk()
        patches = [self.patch(os, "write", disk.write), self.patch(os, "fdatasync", disk.fdatasync)]
        try:
            self.play(disk, history)
        finally:
            for patched in patches:
                patched.restore()

    def play(self, disk: SickDisk, history: list[tuple[str, int]]) -> None:
        """Do what the history says, and compare with what should be there."""
        self.put(b"")
        file = AppendFile(self.path)
        accepted: list[bytes] = []
        synced = 0
        for number, (step, size) in enumerate(history):
            line = b"%d:" % number + b"x" * size + b"\n"
            if step == "append":
                file.append(line)
                accepted.append(line)
            elif step == "torn":
                disk.room = min(size, len(line) - 1)
                self.assertRaises(OSError, file.append, line)
                disk.room = None
            elif step == "sync":
                file.sync()
                synced = len(accepted)
            elif step == "refused":
                disk.sick = True
                self.assertRaises(OSError, file.sync)
                disk.sick = False
                del accepted[synced:]
            elif step == "reopen":
                file.close()
                file = AppendFile(self.path)
                synced = len(accepted)
            else:
                file.close()
                # Of what was not synced, any part may be lost.
                safe = sum(map(len, accepted[:synced]))
                os.truncate(self.path, max(safe, len(self.content()) - size))
                self.cut_torn_tail()
                kept = len(self.lines())
                self.assertTrue(kept >= synced)
                del accepted[kept:]
                file, synced = AppendFile(self.path), kept
            self.assertEqual(self.content(), b"".join(accepted))
            self.assertEqual(file.size, len(self.content()))
        file.close()


class ReplaceFileTests(FolderTestCase):
    def test_the_content_is_replaced(self) -> None:
        """The new content is there, private, and nothing else is left."""
        self.put(b"a long old content")
        replace_file(self.path, b"new")
        self.assertEqual(self.content(), b"new")
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(os.listdir(self.folder), ["log.jsonl"])

    def test_a_failure_at_any_step_leaves_the_old_file_alone(self) -> None:
        """No step that fails loses the old content or leaves a temporary file."""
        self.put(b"old")
        for step in ("fchmod", "write", "fsync", "replace"):
            sick = self.patch(os, step, refuse)
            self.assertRaises(OSError, replace_file, self.path, b"new")
            sick.restore()
            self.assertEqual(self.content(), b"old", step)
            self.assertEqual(os.listdir(self.folder), ["log.jsonl"], step)

    def test_a_full_disk_leaves_the_old_file_alone(self) -> None:
        """A content that does not fit replaces nothing."""
        self.put(b"old")
        self.limit_file_size(100)
        self.assertRaises(OSError, replace_file, self.path, b"x" * 200)
        self.assertEqual(self.content(), b"old")
        self.assertEqual(os.listdir(self.folder), ["log.jsonl"])

    def test_a_name_without_a_folder_is_in_the_working_one(self) -> None:
        """A relative path works as everywhere."""
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        replace_file("log.jsonl", b"here")
        append_file("other", b"x\n")
        self.assertEqual(sorted(os.listdir(".")), ["log.jsonl", "other"])

    def test_leftovers_are_swept(self) -> None:
        """Temporary files of this name go at a start; those of other names stay."""
        kept = ["log.jsonl", "log.jsonl.1", "log.jsonlx.tmp", "other.tmp"]
        for name in [*kept, "log.jsonl.tmp", "log.jsonl.a1b2.tmp"]:
            with open(os.path.join(self.folder, name), "wb"):
                pass
        removed = sweep_temporaries(self.folder, "log.jsonl")
        self.assertEqual(removed, ["log.jsonl.a1b2.tmp", "log.jsonl.tmp"])
        self.assertEqual(sorted(os.listdir(self.folder)), kept)
        self.assertEqual(sweep_temporaries(os.path.join(self.folder, "nowhere"), "x"), [])

    def test_a_real_leftover_is_swept(self) -> None:
        """What a killed replacement leaves is what the sweep removes."""
        self.patch(os, "replace", refuse)
        healed = self.patch(os, "unlink", refuse)
        self.assertRaises(OSError, replace_file, self.path, b"new")
        self.assertEqual(len(os.listdir(self.folder)), 1)
        healed.restore()
        self.assertEqual(len(sweep_temporaries(self.folder, "log.jsonl")), 1)


class SpareTests(FolderTestCase):
    """A file that is replaced while the old one is kept."""

    def setUp(self) -> None:
        """Name the files."""
        super().setUp()
        self.spare, self.temporary = self.path + ".prev", self.path + ".tmp"

    def replace(self, *pieces: bytes) -> None:
        """Replace the file by pieces."""
        replace_file(self.path, iter(pieces), temporary=self.temporary, spare=self.spare)

    def contents(self) -> dict[str, bytes]:
        """Return all that is in the folder."""
        found = {}
        for name in os.listdir(self.folder):
            with open(os.path.join(self.folder, name), "rb") as file:
                found[name] = file.read()
        return found

    def test_the_old_one_becomes_the_spare(self) -> None:
        """The first has no spare; each later one leaves the one before it, and no other."""
        self.replace(b"o", b"", b"ne")
        self.assertEqual(self.contents(), {"log.jsonl": b"one"})
        self.replace(b"two")
        self.assertEqual(self.contents(), {"log.jsonl": b"two", "log.jsonl.prev": b"one"})
        with open(self.temporary, "wb") as leftover:
            leftover.write(b"a longer one that was broken off")
        self.replace(b"three")
        self.assertEqual(self.contents(), {"log.jsonl": b"three", "log.jsonl.prev": b"two"})

    def test_a_failure_leaves_the_old_one_in_its_place(self) -> None:
        """Whatever call fails, the content is the old one and nothing temporary is left."""
        replaces = []

        def second_fails(source: str, target: str) -> None:
            replaces.append(source)
            if len(replaces) == 2:
                refuse()
            os.rename(source, target)

        for step, call in (("write", refuse), ("fsync", refuse), ("replace", second_fails)):
            self.replace(b"old")
            sick = self.patch(os, step, call)
            self.assertRaises(OSError, self.replace, b"new")
            sick.restore()
            self.assertEqual(self.contents()["log.jsonl"], b"old", step)
            self.assertNotIn("log.jsonl.tmp", self.contents())

    def test_pieces_that_fail_replace_nothing(self) -> None:
        """What makes the pieces may raise anything."""

        def pieces() -> Any:
            yield b"new"
            raise ZeroDivisionError

        self.replace(b"old")
        self.assertRaises(
            ZeroDivisionError, replace_file, self.path, pieces(), temporary=self.temporary
        )
        self.assertEqual(self.contents(), {"log.jsonl": b"old"})


class NameTests(FolderTestCase):
    """Names and whole files."""

    def test_names_and_sizes(self) -> None:
        """What is not there has no names and no size; a folder has none either."""
        self.put(b"12345")
        os.mkdir(os.path.join(self.folder, "a"))
        self.assertEqual(list_names(self.folder), ["a", "log.jsonl"])
        self.assertEqual(list_names(self.path + ".d"), [])
        self.assertEqual(file_size(self.path), 5)
        self.assertIsNone(file_size(os.path.join(self.folder, "a")))
        self.assertIsNone(file_size(self.path + ".1"))

    def test_renamed_and_removed(self) -> None:
        """A rename takes the place of what is there; a removal says whether anything was."""
        self.put(b"old")
        rename_file(self.path, self.path + ".1")
        self.put(b"new")
        rename_file(self.path, self.path + ".1", sync=False)
        self.assertEqual(read_file(self.path + ".1", 10), b"new")
        self.assertEqual([remove_file(self.path + ".1") for _ in range(2)], [True, False])
        self.assertRaises(FileNotFoundError, rename_file, self.path, self.path + ".1")

    def test_a_whole_file_of_bounded_length(self) -> None:
        """One that is longer than it may be is refused, one that is not there is None."""
        self.put(b"x" * (READ_BYTES + 1))
        self.assertEqual(read_file(self.path, READ_BYTES + 1), b"x" * (READ_BYTES + 1))
        error = self.assertRaises(OSError, read_file, self.path, READ_BYTES)
        self.assertEqual(error.errno, errno.EFBIG)
        self.assertIsNone(read_file(self.path + ".1", 1))

    def test_pieces_between_two_offsets(self) -> None:
        """They end where they are told to, or with the file."""
        content = os.urandom(2 * READ_BYTES + 100)
        self.put(content)
        self.assertEqual([len(p) for p in read_pieces(self.path)], [READ_BYTES, READ_BYTES, 100])
        for start, end in ((0, 0), (5, 5), (7, READ_BYTES + 9), (3, None), (9, len(content) + 1)):
            self.assertEqual(b"".join(read_pieces(self.path, start, end)), content[start:end])
        self.assertRaises(FileNotFoundError, list, read_pieces(self.path + ".1"))


class LockTests(FolderTestCase):
    """One process for a file."""

    def test_only_one_has_it(self) -> None:
        """The second is told so, until the first has closed it; the file is private."""
        fd = lock_file(self.path)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        error = self.assertRaises(OSError, lock_file, self.path)
        self.assertEqual(error.errno, errno.EBUSY)
        self.assertIn("another process", str(error))
        close_file(fd)
        close_file(lock_file(self.path))

    def test_a_file_that_was_removed_meanwhile_is_not_the_one(self) -> None:
        """Whoever takes the file while its holder removes it takes the one that stands there."""
        flock, removals = fcntl.flock, [self.path]

        def removed_first(fd: int, operation: int) -> None:
            if removals:
                os.unlink(removals.pop())
            flock(fd, operation)

        self.patch(fcntl, "flock", removed_first)
        fd = lock_file(self.path)
        self.assertRaises(OSError, lock_file, self.path)
        close_file(fd)

    def test_a_file_system_without_locks(self) -> None:
        """It lets everybody have it; any other refusal is told."""
        for code in (errno.ENOLCK, errno.EOPNOTSUPP):

            def without(fd: int, operation: int, code: int = code) -> None:
                raise OSError(code, os.strerror(code))

            self.patch(fcntl, "flock", without)
            close_file(lock_file(self.path))
        self.patch(fcntl, "flock", refuse)
        self.assertRaises(OSError, lock_file, self.path)

    def test_settling(self) -> None:
        """It changes nothing of what is there; a file that is not there is told."""
        self.put(b"one\n")
        settle_file(self.path)
        self.assertEqual(self.content(), b"one\n")
        self.assertRaises(FileNotFoundError, settle_file, self.path + ".1")


class NewFileTests(FolderTestCase):
    """A file that grows until it is whole, and then finds its place."""

    def test_written_synced_and_moved(self) -> None:
        for name in ("in", "out"):
            self.assertTrue(make_folder(os.path.join(self.folder, name)))
            self.assertFalse(make_folder(os.path.join(self.folder, name)))
        file = NewFile(os.path.join(self.folder, "in", "a"))
        file.write(b"one")
        file.write(memoryview(b"two"))
        file.sync()
        file.close()
        file.close()
        self.assertEqual(file.size, 6)
        move_file(file.path, os.path.join(self.folder, "out", "b"))
        self.assertEqual(read_file(os.path.join(self.folder, "out", "b"), 10), b"onetwo")
        self.assertTrue(remove_empty_folder(os.path.join(self.folder, "in")))
        self.assertFalse(remove_empty_folder(os.path.join(self.folder, "out")))
        self.assertFalse(remove_empty_folder(os.path.join(self.folder, "in")))
        self.assertTrue(remove_folder(os.path.join(self.folder, "out")))
        self.assertFalse(remove_folder(os.path.join(self.folder, "out")))
        self.assertEqual(os.listdir(self.folder), [])

    def test_there_is_one_already(self) -> None:
        self.put(b"other")
        with self.assertRaises(FileExistsError):
            NewFile(self.path)
        with self.assertRaises(FileExistsError):
            make_folder(self.path)
        self.assertEqual(self.content(), b"other")

    def test_discarded(self) -> None:
        file = NewFile(self.path)
        file.write(b"one")
        file.discard()
        file.discard()
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_and_its_files_are_private(self) -> None:
        folder = os.path.join(self.folder, "in")
        make_folder(folder)
        NewFile(os.path.join(folder, "a")).close()
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, "a")).st_mode), 0o600)


class WriteFileTests(FolderTestCase):
    """A file of its own, whose name is synced by the caller."""

    def test_the_content_is_there_and_for_nobody_else(self) -> None:
        """Whatever stood there before is gone."""
        self.put(b"longer than it will be")
        write_file(self.path, b"new")
        self.assertEqual(self.content(), b"new")
        other = os.path.join(self.folder, "other")
        write_file(other, b"")
        self.assertEqual(stat.S_IMODE(os.stat(other).st_mode), 0o600)

    def test_only_the_folder_is_left_to_sync(self) -> None:
        """A power loss takes the name and not the content."""
        disk = MemoryDisk("/state")
        self.patch(files, "os", disk)
        write_file("/state/a", b"content")
        self.assertEqual(disk.certain(), {})
        sync_directory("/state")
        self.assertEqual(disk.certain(), {"/state/a": b"content"})

    def test_a_disk_that_refuses_is_told(self) -> None:
        """Nobody takes the file for written."""
        for call in ("open", "write", "fsync"):
            disk = MemoryDisk("/state")
            self.patch(files, "os", disk)
            disk.fail(call)
            self.assertRaises(OSError, write_file, "/state/a", b"content")


class SyncDirectoryTests(FolderTestCase):
    def test_a_file_system_without_the_call_is_passed_over(self) -> None:
        """Only a disk that refused is an error."""

        def unknown(fd: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

        sync_directory(self.folder)
        patched = self.patch(os, "fsync", unknown)
        sync_directory(self.folder)
        patched.restore()
        self.patch(os, "fsync", refuse)
        self.assertRaises(OSError, sync_directory, self.folder)


class ReadPiecesTests(SynchronousTestCase):
    """What is read piece by piece."""

    def test_a_failure_names_the_file(self) -> None:
        """In the middle of it, too, where the call knows a number only."""
        disk = MemoryDisk("/state", contents={"/state/file": bytes(3 * files.READ_BYTES)})
        self.patch(files, "os", disk)
        for pieces in range(4):
            reading = files.read_pieces("/state/file")
            for _ in range(pieces):
                next(reading)
            disk.fail("read")
            error = self.assertRaises(OSError, next, reading)
            self.assertEqual((error.errno, error.filename), (errno.EIO, "/state/file"))

    def test_a_pipe_holds_nobody(self) -> None:
        """One that nobody writes is empty; a start does not wait for a writer."""
        path = self.mktemp()
        os.mkfifo(path)
        self.assertEqual(list(files.read_pieces(path)), [])


class ReadLinesTests(FolderTestCase):
    def test_lines_with_their_offsets(self) -> None:
        """Each line comes with the place where it begins."""
        self.put(b"one\n\nthree\n")
        self.assertEqual(self.lines(), [(0, b"one", True), (4, b"", True), (5, b"three", True)])

    def test_the_torn_tail_is_told(self) -> None:
        """A last line without an end is not complete."""
        self.put(b"one\ntw")
        self.assertEqual(self.lines(), [(0, b"one", True), (4, b"tw", False)])

    def test_reading_from_an_offset(self) -> None:
        """A reader that knows a prefix begins behind it."""
        self.put(b"one\ntwo\n")
        self.assertEqual(self.lines(start=4), [(4, b"two", True)])
        self.assertEqual(self.lines(start=8), [])

    def test_no_file_has_no_lines(self) -> None:
        """A file that is not there yet is an empty one."""
        self.assertEqual(self.lines(), [])

    def test_a_line_too_long_is_passed_over_in_bounded_memory(self) -> None:
        """Its place is told, its bytes are not; the lines behind it are read."""
        junk = b"x" * (3 * READ_BYTES)
        self.put(b"one\n" + junk + b"\ntwo\n" + junk)
        self.assertEqual(
            self.lines(),
            [
                (0, b"one", True),
                (4, None, True),
                (5 + len(junk), b"two", True),
                (9 + len(junk), None, False),
            ],
        )

    def test_the_longest_line_is_read(self) -> None:
        """The bound is a length that is still read, wherever a piece ends."""
        for before in (0, READ_BYTES - 3, READ_BYTES - MAX_LINE, READ_BYTES - MAX_LINE - 1):
            good, bad = b"x" * MAX_LINE, b"y" * (MAX_LINE + 1)
            lead = (b"." * 99 + b"\n") * (before // 100) + b"\n" * (before % 100)
            self.put(lead + good + b"\n" + bad + b"\n" + good)
            found = [
                line for _, line, _ in self.lines() if line is None or line[:1] in (b"x", b"y")
            ]
            self.assertEqual(found, [good, None, good])

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=12),
        st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")),
        st.integers(1, 50),
        st.integers(1, 30),
    )
    def test_any_cut_of_the_bytes_gives_the_same_lines(
        self, whole: list[bytes], tail: bytes, piece: int, max_line: int
    ) -> None:
        """However the file falls into pieces, the lines are those of the file."""
        data = b"".join(line + b"\n" for line in whole) + tail
        self.put(data)
        expected: list[tuple[int, bytes | None, bool]] = []
        offset = 0
        for line in whole:
            expected.append((offset, line if len(line) <= max_line else None, True))
            offset += len(line) + 1
        if tail:
            expected.append((offset, tail if len(tail) <= max_line else None, False))
        patched = self.patch(files, "READ_BYTES", piece)
        try:
            self.assertEqual(self.lines(max_line), expected)
        finally:
            patched.restore()


class TornTailTests(FolderTestCase):
    def test_cut_at_every_byte_of_the_last_record(self) -> None:
        """Wherever a crash cut the last record, the others stand and new ones follow cleanly."""
        first, last = b'{"id":"a"}\n{"id":"b"}\n', b'{"id":"\xc3\xa4","n":12}\n'
        for kept in range(len(last) + 1):
            self.put((first + last)[: len(first) + kept])
            self.cut_torn_tail()
            whole = len(first) + (len(last) if kept == len(last) else 0)
            self.assertEqual(self.content(), (first + last)[:whole])
            file = AppendFile(self.path)
            file.append(b'{"id":"d"}\n')
            file.sync()
            file.close()
            lines = self.lines()
            self.assertTrue(all(complete for _, _, complete in lines))
            expected = [b'{"id":"a"}', b'{"id":"b"}', b'{"id":"d"}']
            if kept == len(last):
                expected.insert(2, last[:-1])
            self.assertEqual([line for _, line, _ in lines], expected)

    def test_a_tail_of_zeros_is_torn(self) -> None:
        """Some file systems leave zeros where a write was lost."""
        self.put(b"one\n" + bytes(5000))
        self.cut_torn_tail()
        self.assertEqual(self.content(), b"one\n")

    def test_a_long_torn_tail(self) -> None:
        """However long it is, it is found."""
        for whole in (b"one\n", b""):
            self.put(whole + b"x" * (2 * READ_BYTES + 5))
            self.cut_torn_tail()
            self.assertEqual(self.content(), whole)

    def test_cutting_never_fills_up(self) -> None:
        """A length beyond the file is a mistake, not zeros."""
        self.put(b"one\n")
        file = AppendFile(self.path)
        self.assertRaises(ValueError, file.cut, 5)
        self.assertEqual(self.content(), b"one\n")
        file.cut(0)
        self.assertEqual(self.content(), b"")
        file.close()
