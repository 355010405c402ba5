"""The files of the audit log: rotation, healing, and every crash."""

from __future__ import annotations

import errno
import os
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.control import audit_file
from omnigate.control.audit_file import MAX_ENTRIES, AuditFile, AuditFileError
from omnigate.control.audit_line import MAX_LINE_BYTES, AuditEntry, AuditLine, decode_line
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import few_bytes

PATH = "/state/audit.jsonl"


def entry(name: str, length: int = 0) -> AuditEntry:
    return AuditEntry("key.change", "admin-token", target=name, detail={"words": "w" * length})


class DiskCase(SynchronousTestCase):
    """A log on a disk in memory."""

    def use(self, disk: MemoryDisk) -> MemoryDisk:
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        self.disk = disk
        return disk

    def setUp(self) -> None:
        self.use(MemoryDisk("/state"))

    def opened(self, max_bytes: int = 10**6) -> tuple[AuditFile, list[AuditLine]]:
        file = AuditFile(PATH, max_bytes)
        return file, file.open().lines

    def held(self, path: str) -> list[int]:
        """The numbers of the lines in a file."""
        lines = self.disk.contents()[path].splitlines()
        return [line.seq for line in map(decode_line, lines) if line is not None]


class FileTests(DiskCase):
    """What stands where."""

    def test_lines_come_back(self) -> None:
        """A start reads back what was written, and numbers go on."""
        file, found = self.opened()
        self.assertEqual(found, [])
        written = [file.append(entry(f"k{n}"), n) for n in range(5)]
        self.assertEqual(self.disk.certain()[PATH].count(b"\n"), 5)
        file.close()
        file, found = self.opened()
        self.assertEqual(found, written)
        self.assertEqual(file.append(entry("next"), 9).seq, 6)

    def test_rotation(self) -> None:
        """No file is longer than it may be, three older ones are kept, and no number is missing."""
        file, _ = self.opened(max_bytes=1000)
        last = 0
        for n in range(60):
            last = file.append(entry(f"k{n}"), n).seq
            for content in self.disk.contents().values():
                self.assertLessEqual(len(content), 1000)
        self.assertEqual(sorted(self.disk.contents()), [PATH, *(f"{PATH}.{n}" for n in (1, 2, 3))])
        kept = [n for name in (".3", ".2", ".1", "") for n in self.held(PATH + name)]
        self.assertEqual(kept, list(range(last - len(kept) + 1, last + 1)))
        self.assertGreater(len(kept), 15)
        file.close()
        _, found = self.opened(max_bytes=1000)
        self.assertEqual([line.seq for line in found], kept)

    def test_a_line_longer_than_the_file_may_be(self) -> None:
        """It has a file of its own."""
        file, _ = self.opened(max_bytes=100)
        for n in range(3):
            file.append(entry(f"k{n}"), n)
        self.assertEqual([self.held(PATH + end) for end in ("", ".1", ".2")], [[3], [2], [1]])

    def test_numbers_after_a_rotation_and_a_start(self) -> None:
        """An active file without a line yet goes on from the one before it."""
        file, _ = self.opened()
        file.append(entry("a"), 0)
        file.close()
        self.disk.replace(PATH, f"{PATH}.1")
        file, found = self.opened()
        self.assertEqual([line.target for line in found], ["a"])
        self.assertEqual(file.append(entry("b"), 0).seq, 2)

    def test_torn_tail(self) -> None:
        """Cut anywhere, the last line is cut off whole and the others are as they were."""
        file, _ = self.opened()
        written = [file.append(entry(f"k{n}"), n) for n in range(3)]
        file.close()
        whole = self.disk.contents()[PATH]
        begin = whole[:-1].rindex(b"\n") + 1
        for end in range(begin + 1, len(whole)):
            self.disk.put(PATH, whole[:end])
            file = AuditFile(PATH, 10**6)
            found = file.open()
            self.assertEqual((found.lines, found.torn_bytes), (written[:2], end - begin))
            self.assertEqual(self.disk.certain()[PATH], whole[:begin])
            file.close()

    def test_damaged_lines_stay(self) -> None:
        """What cannot be read is counted, kept, and written behind."""
        file, _ = self.opened()
        file.append(entry("a"), 0)
        file.close()
        good = self.disk.contents()[PATH]
        damage = b"\0" * 40 + b"\n{}\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\n"
        self.disk.put(PATH, good + damage)
        file = AuditFile(PATH, 10**6)
        found = file.open()
        self.assertEqual((len(found.lines), found.damaged), (1, 3))
        file.append(entry("b"), 0)
        self.assertTrue(self.disk.contents()[PATH].startswith(good + damage))

    def test_what_is_no_audit_log(self) -> None:
        """A file of something else is refused with its name, and left as it is."""
        other = b"x" * (MAX_LINE_BYTES + 1)
        self.disk.put(PATH, other)
        error = self.assertRaises(AuditFileError, self.opened)
        self.assertIn(PATH, str(error))
        self.assertEqual(self.disk.contents()[PATH], other)

    def test_no_regular_file(self) -> None:
        """A folder or a pipe in its place is refused, and not waited for."""
        self.use(MemoryDisk("/state", "/state/audit.jsonl"))
        self.assertIn("no regular file", str(self.assertRaises(AuditFileError, self.opened)))

    def test_only_the_newest_are_read(self) -> None:
        """Of a long file the newest lines come back, and the one that a read begins in is none."""
        self.patch(audit_file, "TAIL_BYTES", 2000)
        file, _ = self.opened()
        last = [file.append(entry(f"k{n}", n), n) for n in range(40)]
        file.close()
        _, found = self.opened()
        self.assertEqual(found, last[-len(found) :])
        self.assertIn(len(found), range(5, 15))
        self.assertEqual(AuditFile(PATH, 10**6).open().damaged, 0)

    def test_as_many_as_memory_keeps(self) -> None:
        file, _ = self.opened(max_bytes=40_000)
        for n in range(MAX_ENTRIES + 50):
            file.append(entry(""), n)
        _, found = self.opened(max_bytes=40_000)
        kept = [n for end in (".3", ".2", ".1", "") for n in self.held(PATH + end)]
        self.assertEqual([line.seq for line in found], kept[-MAX_ENTRIES:])

    def test_moved_away(self) -> None:
        """A file that somebody moved or removed is begun anew, and its lines are not lost in it."""
        file, _ = self.opened()
        file.append(entry("a"), 0)
        self.disk.replace(PATH, "/state/elsewhere")
        file.append(entry("b"), 0)
        self.disk.unlink(PATH)
        file.append(entry("c"), 0)
        self.assertEqual((self.held("/state/elsewhere"), self.held(PATH)), ([1], [3]))

    def test_written_to_by_others(self) -> None:
        """Half a line of somebody else is cut off, and what is no line end in sight is refused."""
        file, _ = self.opened()
        for tail, held in ((b'{"half', [1, 2]), (b"x\n", [1, 2, 3])):
            file.append(entry("a"), 0)
            self.disk.put(PATH, self.disk.contents()[PATH] + tail)
            file.append(entry("b"), 0)
            self.assertEqual(self.held(PATH)[: len(held)], held)
        self.assertEqual(self.held(PATH), [1, 2, 3, 4])
        whole = self.disk.contents()[PATH] + b"x" * (MAX_LINE_BYTES + 1)
        self.disk.put(PATH, whole)
        error = self.assertRaises(AuditFileError, file.append, entry("c"), 0)
        self.assertIn("move it away", str(error))
        self.assertEqual(self.disk.contents()[PATH], whole)


class FaultTests(DiskCase):
    """A disk that refuses."""

    def test_every_call_that_fails(self) -> None:
        """Whatever is refused, in a rotation too, no line is lost, and it goes on after."""
        for call in ("open", "write", "fdatasync", "fsync", "replace"):
            for before in range(12):
                self.use(MemoryDisk("/state"))
                file, _ = self.opened(max_bytes=600)
                told = [file.append(entry(f"k{n}"), n).seq for n in range(before)]
                self.disk.fail(call, error=errno.ENOSPC)
                refused = 0
                for n in range(8):
                    try:
                        told.append(file.append(entry(f"later{n}"), n).seq)
                    except OSError:
                        refused += 1
                self.assertEqual(refused, 1, (call, before))
                kept = [
                    n
                    for end in (".3", ".2", ".1", "")
                    if PATH + end in self.disk.contents()
                    for n in self.held(PATH + end)
                ]
                self.assertEqual(kept, told[-len(kept) :], (call, before))
                self.assertGreaterEqual(len(kept), min(len(told), 7))
                # Nothing that is in memory only: a start finds the same.
                _, found = self.opened(max_bytes=600)
                self.assertEqual([line.seq for line in found], kept)


class CrashTests(DiskCase):
    """Every crash, at every step."""

    def test_acknowledged_lines_survive(self) -> None:
        """After any crash what was acknowledged is there, but for what fell off behind ``.3``.

        And a crash in the middle of what the next start does is no worse.
        """
        rng = Random(7)
        file, _ = self.opened(max_bytes=500)
        self.disk.record()
        told = []
        for n in range(20):
            told.append(file.append(entry(f"k{n}", rng.randrange(40)), n))
            self.disk.mark(tuple(told))
        history = self.disk
        checked = 0
        for state in history.crash_states(few_bytes, rng, mixed=2):
            known = state.marks[-1] if state.marks else ()
            assert isinstance(known, tuple)
            self.use(state.disk(recording=True))
            self.check_start(known)
            checked += 1
            if checked % 40 == 0:
                for again in list(self.disk.crash_states(few_bytes)):
                    self.use(again.disk())
                    self.check_start(known, more=4)
        self.assertGreater(checked, 300)

    def check_start(self, known: tuple[AuditLine, ...], more: int = 1) -> None:
        """A start finds what was known and at most so many lines more, and writes on."""
        file, found = self.opened(max_bytes=500)
        seqs = [line.seq for line in found]
        last = known[-1].seq if known else 0
        newest = seqs[-1] if seqs else 0
        self.assertEqual(seqs, list(range(newest - len(seqs) + 1, newest + 1)))
        self.assertIn(newest, range(last, last + more + 1))
        kept = [line for line in found if line.seq <= last]
        self.assertEqual(kept, list(known[len(known) - len(kept) :]))
        # Four files of two lines, of which the newest may just have been begun.
        self.assertGreaterEqual(len(found), min(len(known), 6))
        added = [file.append(entry(f"after{n}"), n) for n in range(3)]
        file.close()
        _, again = self.opened(max_bytes=500)
        self.assertEqual(again[-3:], added)
        self.assertEqual([line.seq for line in added], [newest + n for n in (1, 2, 3)])


class RealFileTests(SynchronousTestCase):
    """The same on a true disk."""

    def test_pipe(self) -> None:
        """A named pipe is refused at once; opening it for writing would wait for a reader."""
        path = os.path.join(self.mktemp(), "audit.jsonl")
        os.makedirs(os.path.dirname(path))
        os.mkfifo(path)
        self.assertIn(path, str(self.assertRaises(AuditFileError, AuditFile(path, 1).open)))

    def test_private(self) -> None:
        """Nobody else may read it."""
        path = os.path.join(self.mktemp(), "audit.jsonl")
        os.makedirs(os.path.dirname(path))
        file = AuditFile(path, 300)
        file.open()
        for n in range(4):
            file.append(entry("a"), n)
        file.close()
        for name in os.listdir(os.path.dirname(path)):
            mode = os.stat(os.path.join(os.path.dirname(path), name)).st_mode
            self.assertEqual(mode & 0o777, 0o600)
