"""Files that are replaced whole, on disks that refuse in the middle."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.control.whole_file import FileInDoubtError, replace_or_undo
from omnigate.testing.disk import FaultyDisk


class Refusing(FaultyDisk):
    """A disk that refuses the calls of these numbers, and every one from a number on.

    :ivar refused: the numbers of calls, from 0 on.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.refused: set[int] = set()
        self.number = -1

    def _attempt(self, call: str) -> None:
        self.number += 1
        if self.number in self.refused:
            self.fail(call)
        super()._attempt(call)


class ReplaceTests(SynchronousTestCase):
    """One replacement."""

    def replaced(self, old: bytes, new: bytes, refused: set[int]) -> tuple[str, bytes, int]:
        """What a replacement says, what stands there then, and how many calls it took."""
        folder = self.mktemp()
        disk = Refusing(folder)
        self.patch(files, "os", disk)
        path = os.path.join(folder, "keys.json")
        files.replace_file(path, old)
        disk.number, disk.refused = -1, refused
        try:
            replace_or_undo(path, new, old)
            said = "done"
        except OSError:
            said = "refused"
        except FileInDoubtError as error:
            said = "doubt"
            self.assertIn("keys.json", str(error))
        calls, disk.refused = disk.number + 1, set()
        with open(path, "rb") as file:
            return said, file.read(), calls

    def test_every_call_refused_once_twice_and_for_good(self) -> None:
        """What is said is so: done, as it was, or nobody knows."""
        found: set[str] = set()
        for old, new in ((b"old", b"new"), (b"a long old one", b"new"), (b"old", b"a long one")):
            self.assertEqual(self.replaced(old, new, set())[:2], ("done", new))
            for first in range(12):
                for others in ({first + gap} for gap in range(12)):
                    self.judge(old, new, {first} | others, found)
                self.judge(old, new, set(range(first, 100)), found)
        self.assertEqual(found, {"done", "refused", "doubt"})

    def judge(self, old: bytes, new: bytes, refused: set[int], found: set[str]) -> None:
        said, there, _ = self.replaced(old, new, refused)
        found.add(said)
        if said == "done":
            self.assertEqual(there, new, refused)
        elif said == "refused":
            self.assertEqual(there, old, refused)
