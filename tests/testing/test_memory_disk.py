"""Tests for omnigate.testing.memory_disk, and with it for omnigate.testing.platter."""

import contextlib
import errno
import os
from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.testing.memory_disk import CrashState, MemoryDisk
from omnigate.testing.platter import few_bytes

PATH = "/state/a.log"


class DiskCase(SynchronousTestCase):
    """The file primitives on a disk in memory."""

    def setUp(self) -> None:
        """Put the disk in the place of the true one."""
        self.use(MemoryDisk())

    def use(self, disk: MemoryDisk) -> None:
        """Go on with another disk."""
        self.disk = disk
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)

    def left(self, killed: bool | None = None, path: str = PATH) -> set[bytes | None]:
        """Return all that any crash may have left of a file."""
        return {
            state.contents().get(path)
            for state in self.disk.crash_states()
            if killed is None or state.killed == killed
        }

    def last(self, killed: bool) -> list[CrashState]:
        """Return the states of a crash after the last step, told before or not."""
        self.disk.mark(None)
        point = len(self.disk.history)
        states = list(self.disk.crash_states())
        return [state for state in states if (state.point, state.killed) == (point, killed)]


class CrashStateTests(DiskCase):
    """What a crash may leave."""

    def test_a_write_is_torn_at_every_byte(self) -> None:
        """What was not synced is there, or not, or in part, with zero bytes behind it or not."""
        self.disk.put(PATH, b"one\n")
        self.disk.record()
        files.AppendFile(PATH).append(b"two\n")
        expected = {b"one\n" + b"two\n"[:kept] for kept in range(5)}
        expected |= {one.ljust(8, b"\0") for one in expected}
        self.assertEqual(self.left(killed=False), expected)

    def test_a_killed_process_loses_nothing_that_it_wrote(self) -> None:
        """But a power loss after that may still take it."""
        file = files.AppendFile(PATH)
        file.append(b"one\n")
        (state,) = self.last(killed=True)
        self.assertEqual(state.contents(), {PATH: b"one\n"})
        disk = state.disk(recording=True)
        disk.mark("nothing")
        self.assertEqual(
            {one.contents().get(PATH) for one in disk.crash_states() if not one.killed},
            {b"one\n"[:kept] + tail for kept in range(5) for tail in (b"", bytes(4 - kept))},
        )

    def test_what_was_synced_is_there_in_every_state(self) -> None:
        """From the sync on, whatever comes after it."""
        file = files.AppendFile(PATH)
        file.append(b"one\n")
        file.sync()
        self.disk.record()
        file.append(b"two\n")
        file.cut(4)
        file.append(b"3\n")
        self.assertEqual({(one or b"")[:4] for one in self.left()}, {b"one\n"})

    def test_a_cut_may_be_undone(self) -> None:
        """Until the next sync the old content may come back."""
        self.disk.put(PATH, b"one\n")
        self.disk.record()
        file = files.AppendFile(PATH)
        file.cut(0)
        self.assertEqual({state.contents()[PATH] for state in self.last(False)}, {b"", b"one\n"})
        file.sync()
        self.assertEqual({state.contents()[PATH] for state in self.last(False)}, {b""})

    def test_names_are_kept_or_not_each_for_itself(self) -> None:
        """Two files that were made, and a third that was removed, in every combination."""
        self.disk.put("/state/c", b"")
        self.disk.record()
        for name in "ab":
            self.disk.close(self.disk.open(f"/state/{name}", os.O_CREAT | os.O_WRONLY))
        files.remove_file("/state/c")
        found = {"".join(sorted(name[-1] for name in one.contents())) for one in self.last(False)}
        self.assertEqual(found, {"", "a", "b", "c", "ab", "ac", "bc", "abc"})
        files.sync_directory("/state")
        (state,) = self.last(False)
        self.assertEqual(state.contents(), {"/state/a": b"", "/state/b": b""})

    def test_a_sync_of_a_file_says_nothing_of_its_name(self) -> None:
        """Content without a name is gone."""
        self.disk.fail("fsync")
        self.assertRaises(OSError, files.AppendFile, PATH)
        self.disk.crash()
        self.assertEqual(self.disk.contents(), {})

    def test_a_replaced_file_is_the_old_or_the_new_one(self) -> None:
        """Whole, whatever happened in between, and the new one once it is done."""
        self.disk.put(PATH, b"old")
        self.disk.record()
        files.replace_file(PATH, [b"ne", b"w"])
        self.assertEqual(self.left(), {b"old", b"new"})
        self.assertEqual({one.contents()[PATH] for one in self.last(False)}, {b"new"})
        self.assertEqual(self.disk.contents(), {PATH: b"new"})

    def test_a_careless_replacement_is_found_out(self) -> None:
        """Without the sync before the rename the file may be empty or torn."""
        self.disk.put(PATH, b"old")
        self.disk.record()
        fd = self.disk.open(PATH + ".tmp", os.O_CREAT | os.O_WRONLY)
        self.disk.write(fd, b"new")
        self.disk.replace(PATH + ".tmp", PATH)
        self.assertLessEqual({b"old", b"new", b""}, self.left())

    def test_one_of_two_generations_is_whole_in_every_state(self) -> None:
        """The spare or the file; and the spare is never newer than the file."""
        for content in (b"one", b"two", b"three"):
            files.replace_file(PATH, content, temporary=PATH + ".tmp", spare=PATH + ".prev")
            self.disk.mark(content)
        names = {None: 0, b"one": 1, b"two": 2, b"three": 3}
        for state in self.disk.crash_states():
            told, left = len(state.marks), state.contents()
            file, spare = names[left.get(PATH)], names[left.get(PATH + ".prev")]
            self.assertGreaterEqual(max(file, spare), told, state)
            self.assertTrue(not file or spare < file, state)

    def test_a_failed_sync_has_lost_its_bytes(self) -> None:
        """A later sync that succeeds does not bring them to the disk; writing them anew does."""
        fd = self.disk.open(PATH, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        files.sync_directory("/state")
        self.disk.write(fd, b"one\n")
        self.disk.fail("fdatasync")
        self.assertRaises(OSError, self.disk.fdatasync, fd)
        self.disk.write(fd, b"two\n")
        self.disk.fdatasync(fd)
        self.assertEqual(self.disk.contents(), {PATH: b"one\ntwo\n"})
        self.assertEqual({one.contents()[PATH] for one in self.last(False)}, {b"\0\0\0\0two\n"})
        files.settle_file(PATH)
        self.assertEqual(self.disk.contents(), {PATH: b"\0\0\0\0two\n"})
        self.disk.ftruncate(fd, 0)
        self.disk.write(fd, b"one\n")
        self.disk.fdatasync(fd)
        self.disk.crash()
        self.assertEqual(self.disk.contents(), {PATH: b"one\n"})

    def test_marks_tell_what_was_known_by_then(self) -> None:
        """A state has the marks before it, and only those."""
        file = files.AppendFile(PATH)
        for number in range(3):
            file.append(b"%d\n" % number)
            file.sync()
            self.disk.mark(number)
        for state in self.disk.crash_states(few_bytes):
            lines = state.contents().get(PATH, b"").split()
            told = [b"%d" % number for number in state.marks if isinstance(number, int)]
            self.assertEqual(lines[: len(told)], told)
        self.assertEqual(state.marks, (0, 1, 2))

    def test_mixed_states_are_the_same_for_the_same_seed(self) -> None:
        """And are not all the simple ones."""
        for path in (PATH, PATH + "2"):
            file = files.AppendFile(path)
            for number in range(3):
                file.append(b"line %d\n" % number)

        def states(seed: int) -> list[dict[str, bytes]]:
            found = self.disk.crash_states(few_bytes, Random(seed), mixed=20)
            return [one.contents() for one in found]

        self.assertEqual(states(1), states(1))
        self.assertGreater(len(states(1)), len(list(self.disk.crash_states(few_bytes))) + 30)

    def test_a_power_loss_by_chance_is_one_of_those_permitted(self) -> None:
        """What was synced is there, and what is there was written."""
        for seed in range(50):
            self.use(MemoryDisk())
            file = files.AppendFile(PATH)
            file.append(b"one\n")
            file.sync()
            file.append(b"two\n")
            self.disk.crash(rng=Random(seed))
            left = self.disk.contents()[PATH]
            self.assertEqual(left[:4], b"one\n")
            self.assertTrue(b"two\n".startswith(left[4:].rstrip(b"\0")), left)


class FolderTests(DiskCase):
    """Folders within a folder, and files that are moved from one into another."""

    def setUp(self) -> None:
        """Make two folders for certain, and a file in the first."""
        super().setUp()
        for name in ("one", "two"):
            files.make_folder(f"/state/{name}")
        self.disk.put("/state/one/a", b"content")
        self.disk.record()

    def everything(self) -> set[frozenset[str]]:
        """Return the names of the files that any power loss may have left."""
        return {
            frozenset(path.removeprefix("/state/") for path in state.contents())
            for state in self.disk.crash_states()
            if not state.killed
        }

    def test_a_file_that_is_moved_is_at_one_place_at_least(self) -> None:
        """Or at both; and at the new one alone once that is over."""
        files.move_file("/state/one/a", "/state/two/b")
        self.disk.mark("moved")
        before = {frozenset({"one/a"}), frozenset({"two/b"}), frozenset({"one/a", "two/b"})}
        # Between the rename and the first sync nothing is promised.
        self.assertEqual(self.everything(), before | {frozenset()})
        after = {tuple(state.contents()) for state in self.last(killed=False)}
        self.assertEqual(after, {("/state/two/b",)})

    def test_a_folder_that_was_not_synced_takes_its_files_along(self) -> None:
        """However well those were."""
        files.make_folder("/state/three", sync=False)
        files.move_file("/state/one/a", "/state/three/a")
        self.assertIn(frozenset(), self.everything())
        self.disk.crash()
        self.assertEqual(sorted(self.disk.listdir("/state")), ["one", "two"])
        self.assertEqual(self.disk.contents(), {})

    def test_an_empty_folder_is_left(self) -> None:
        """One that was synced."""
        for state in self.disk.crash_states():
            self.use(state.disk())
            self.assertEqual(sorted(self.disk.listdir("/state")), ["one", "two"])

    def test_a_folder_that_was_removed_may_come_back(self) -> None:
        """Until the one above it is synced."""
        self.assertTrue(files.remove_folder("/state/two"))
        self.disk.crash()
        self.assertEqual(sorted(self.disk.listdir("/state")), ["one", "two"])
        self.assertTrue(files.remove_folder("/state/one"))
        files.sync_directory("/state")
        self.disk.crash()
        self.assertEqual(self.disk.listdir("/state"), ["two"])

    def test_what_cannot_be(self) -> None:
        """It is refused as a true disk refuses it."""
        for call, code in (
            (lambda: self.disk.mkdir("/state/one"), errno.EEXIST),
            (lambda: self.disk.mkdir("/state/x/y"), errno.ENOENT),
            (lambda: self.disk.rmdir("/state/one"), errno.ENOTEMPTY),
            (lambda: self.disk.rmdir("/state/one/a"), errno.ENOTDIR),
            (lambda: self.disk.rmdir("/state/x"), errno.ENOENT),
            (lambda: self.disk.unlink("/state/one"), errno.EISDIR),
            (lambda: self.disk.replace("/state/one/a", "/state/two"), errno.EISDIR),
            (lambda: self.disk.replace("/state/one/a", "/state/x/a"), errno.ENOENT),
            (lambda: self.disk.open("/state/x/a", os.O_CREAT | os.O_WRONLY), errno.ENOENT),
            (lambda: self.disk.open("/state/one", os.O_WRONLY), errno.EISDIR),
        ):
            with self.assertRaises(OSError) as caught:
                call()
            self.assertEqual(caught.exception.errno, code)


class FaultTests(DiskCase):
    """Disks that fail, and machines."""

    def test_a_full_disk_takes_what_fits(self) -> None:
        """The file primitives cut the piece off again, which makes room."""
        file = files.AppendFile(PATH)
        self.disk.free_bytes["/state"] = 6
        file.append(b"one\n")
        error = self.assertRaises(OSError, file.append, b"two\n")
        self.assertEqual(error.errno, errno.ENOSPC)
        self.assertEqual(self.disk.contents(), {PATH: b"one\n"})
        self.assertEqual(self.disk.free_bytes, {"/state": 2})
        files.remove_file(PATH)
        self.assertEqual(self.disk.free_bytes, {"/state": 6})
        self.disk.heal()
        file.append(b"two\n")

    def test_calls_fail_as_often_as_told(self) -> None:
        """With the error that was asked for, and then no more."""
        file = files.AppendFile(PATH)
        self.disk.fail("write", 2, errno.EDQUOT)
        for _ in range(2):
            error = self.assertRaises(OSError, file.append, b"one\n")
            self.assertEqual(error.errno, errno.EDQUOT)
        file.append(b"one\n")
        self.disk.fail("read")
        self.assertRaises(OSError, files.read_file, PATH, 10)
        self.assertEqual(files.read_file(PATH, 10), b"one\n")

    def test_the_world_may_end_after_any_call(self) -> None:
        """From then on nothing has an effect; a kill leaves the file as it was at that moment."""
        file = files.AppendFile(PATH)
        self.disk.calls_left["/state"] = 1
        file.append(b"one\n")
        self.assertRaises(OSError, file.sync)
        self.assertRaises(OSError, file.append, b"two\n")
        self.assertRaises(OSError, files.read_file, PATH, 10)
        self.disk.kill()
        self.assertRaises(OSError, file.append, b"two\n")
        file.close()
        files.AppendFile(PATH).sync()
        self.disk.crash()
        self.assertEqual(self.disk.contents(), {PATH: b"one\n"})

    def test_a_lock_ends_with_its_process(self) -> None:
        """Another open of the same file does not get it until then."""
        files.lock_file(PATH)
        error = self.assertRaises(OSError, files.lock_file, PATH)
        self.assertEqual(error.errno, errno.EBUSY)
        self.disk.kill()
        files.close_file(files.lock_file(PATH))
        files.close_file(files.lock_file(PATH))

    def test_machines_fail_alone(self) -> None:
        """Faults, kills and power losses of one leave the other alone."""
        self.use(MemoryDisk("/control", "/data", recording=False))
        ours, theirs = files.AppendFile("/control/a"), files.AppendFile("/data/a")
        self.disk.fail("fdatasync", folder="/control")
        self.disk.free_bytes["/control"] = 4
        for file in (ours, theirs):
            file.append(b"one\n")
        self.assertRaises(OSError, ours.append, b"two\n")
        theirs.append(b"two\n")
        theirs.sync()
        theirs.append(b"3\n")
        self.assertRaises(OSError, ours.sync)
        self.disk.crash("/control")
        self.assertRaises(OSError, ours.append, b"4\n")
        theirs.append(b"4\n")
        self.assertEqual(self.disk.contents(), {"/control/a": b"", "/data/a": b"one\ntwo\n3\n4\n"})
        self.disk.crash("/data")
        self.assertEqual(self.disk.contents("/data"), {"/data/a": b"one\ntwo\n"})

    def test_nothing_else_of_os_is_there(self) -> None:
        """A call that would reach the true disk is an error of the test."""
        self.assertRaises(AttributeError, getattr, self.disk, "truncate")
        self.assertRaises(FileNotFoundError, files.AppendFile, "/elsewhere/a")


Action = tuple[str, str, int]

ACTIONS: dict[str, Callable[[str, str, int], object]] = {
    "append": lambda path, _, n: files.append_file(path, b"%d\n" % n * n),
    "cut": lambda path, _, n: cut(path, n),
    "replace": lambda path, _, n: files.replace_file(path, [b"x" * n, b"y"]),
    "spare": lambda path, other, n: files.replace_file(path, b"z" * n, spare=other),
    "rename": lambda path, other, _: files.rename_file(path, other),
    "remove": lambda path, _, __: files.remove_file(path),
    "read": lambda path, _, n: files.read_file(path, n),
    "pieces": lambda path, _, n: b"".join(files.read_pieces(path, n, 2 * n)),
    "lines": lambda path, _, n: list(files.read_lines(path, n)),
    "size": lambda path, _, __: files.file_size(path),
    "names": lambda path, _, __: files.list_names(os.path.dirname(path)),
    "sweep": lambda path, _, __: files.sweep_temporaries(*os.path.split(path)),
    "settle": lambda path, _, __: files.settle_file(path),
    "lock": lambda path, _, __: files.close_file(files.lock_file(path)),
}


def cut(path: str, length: int) -> None:
    """Cut a file, if it is long enough."""
    file = files.AppendFile(path)
    with contextlib.suppress(ValueError):
        file.cut(length)
    file.close()


class TrueDiskTests(SynchronousTestCase):
    """The disk in memory beside a true one."""

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.tuples(st.sampled_from(sorted(ACTIONS)), st.sampled_from("ab"), st.integers(0, 30)),
            max_size=30,
        )
    )
    def test_the_same_calls_have_the_same_outcome(self, actions: list[Action]) -> None:
        """Results, errors and contents, of every primitive in any order."""
        disk = MemoryDisk()
        folder = self.mktemp()
        os.mkdir(folder)
        for name, file, number in actions:
            paths = ["a", "b"] if file == "a" else ["b", "a"]
            outcomes: list[tuple[int | None, object]] = []
            for place, stand_in in ((folder, None), ("/state", disk)):
                names = ("os", "fcntl") if stand_in else ()
                patches = [self.patch(files, module, stand_in) for module in names]
                try:
                    first, second = (os.path.join(place, path) for path in paths)
                    outcomes.append((0, ACTIONS[name](first, second, number)))
                except OSError as error:
                    outcomes.append((error.errno, None))
                for patched in patches:
                    patched.restore()
            self.assertEqual(outcomes[0], outcomes[1], name)
        self.assertEqual(
            {os.path.basename(path): content for path, content in disk.contents().items()},
            {name: read(os.path.join(folder, name)) for name in os.listdir(folder)},
        )


def read(path: str) -> bytes:
    """Return what a true file holds."""
    with open(path, "rb") as file:
        return file.read()
