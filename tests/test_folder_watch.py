"""Folders watched by inotify, with true files."""

from __future__ import annotations

import os
import struct
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.interfaces import IReadDescriptor
from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface.verify import verifyObject

from omnigate.folder_watch import MAX_FOLDERS, FolderEvent, FolderWatch, events_in


class Reading:
    """As much of a reactor as a watch needs."""

    def __init__(self) -> None:
        self.readers: list[Any] = []

    def addReader(self, reader: object) -> None:  # noqa: N802
        self.readers.append(reader)

    def removeReader(self, reader: object) -> None:  # noqa: N802
        self.readers.remove(reader)


class WatchTests(SynchronousTestCase):
    """What is told of a folder."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.makedirs(self.folder)
        self.path = os.path.join(self.folder, "omnigate.toml")
        reactor: Any = Reading()
        self.reactor = reactor
        self.told: list[bool | None] = []
        try:
            self.watch = FolderWatch(self.reactor, self.told.append)
        except OSError as error:
            raise SkipTest(f"no inotify here: {error}") from None
        self.addCleanup(self.watch.stop)
        self.watch.watch({self.folder: ["omnigate.toml"]})

    def write(self, path: str, text: str = "x", mode: str = "w") -> None:
        with open(path, mode, encoding="utf-8") as file:
            file.write(text)

    def seen(self) -> list[bool | None]:
        """What was told since this was asked for last."""
        self.watch.doRead()
        told = list(self.told)
        self.told.clear()
        return told

    def test_interface(self) -> None:
        self.assertTrue(verifyObject(IReadDescriptor, self.watch))
        self.assertEqual(self.reactor.readers, [self.watch])

    def test_written(self) -> None:
        """Writing is told while it goes on, and closing when it is over."""
        with open(self.path, "w", encoding="utf-8") as file:
            self.assertEqual(self.seen(), [None])
            file.write("x")
            file.flush()
            self.assertEqual(self.seen(), [True])
        self.assertEqual(self.seen(), [False])

    def test_moved_there(self) -> None:
        """A file that is renamed into place is whole."""
        self.write(self.path + ".new")
        self.assertEqual(self.seen(), [])
        os.rename(self.path + ".new", self.path)
        self.assertEqual(self.seen(), [False])

    def test_other_things(self) -> None:
        """Removal, a link in its place, another mode: something happened."""
        self.write(self.path)
        self.seen()
        os.chmod(self.path, 0o600)
        self.assertEqual(self.seen(), [None])
        os.unlink(self.path)
        self.assertEqual(set(self.seen()), {None})
        os.symlink("elsewhere", self.path)
        self.assertEqual(self.seen(), [None])

    def test_neighbours(self) -> None:
        """What happens to other files of the folder is not told; reading never is."""
        self.write(self.path)
        self.seen()
        for n in range(100):
            self.write(os.path.join(self.folder, f"ledger.{n}"))
        with open(self.path, encoding="utf-8") as file:
            file.read()
        self.assertEqual(self.seen(), [])

    def test_folder_that_goes(self) -> None:
        """A folder that is removed and made again is told, and can be watched again."""
        os.rmdir(self.folder)
        self.assertEqual(self.seen(), [None])
        os.makedirs(self.folder)
        self.write(self.path)
        self.assertEqual(self.seen(), [])
        self.watch.watch({self.folder: ["omnigate.toml"]})
        os.unlink(self.path)
        self.assertEqual(self.seen(), [None])

    def test_another_folder_of_the_same_path(self) -> None:
        """It is the folder that stands at a path now that is watched, not one that stood there."""
        os.rename(self.folder, self.folder + ".old")
        os.makedirs(self.folder)
        self.seen()
        self.watch.watch({self.folder: ["omnigate.toml"]})
        self.write(os.path.join(self.folder + ".old", "omnigate.toml"))
        self.assertEqual(self.seen(), [])
        self.write(self.path)
        self.assertIn(False, self.seen())

    def test_two_paths_of_one_folder(self) -> None:
        """A folder that is watched by two paths is watched on when one of them is let go of."""
        other = self.folder + ".link"
        os.symlink(self.folder, other)
        self.watch.watch({self.folder: ["a"], other: ["omnigate.toml"]})
        self.watch.watch({other: ["omnigate.toml"]})
        self.write(self.path)
        self.assertIn(False, self.seen())

    def test_what_is_not_there(self) -> None:
        """A folder that is not there, or is none, is left out; more than there may be, too."""
        self.write(self.path)
        names = {self.path: ["x"], "/nowhere/at/all": ["x"], "a\0b": ["x"]}
        self.watch.watch(names)
        self.watch.watch({f"/nowhere/{n}": ["x"] for n in range(MAX_FOLDERS * 2)})
        self.seen()

    def test_stopped(self) -> None:
        """Afterwards nothing is read and nothing is open."""
        fd = self.watch.fileno()
        self.watch.stop()
        self.watch.stop()
        self.assertRaises(OSError, os.fstat, fd)
        self.assertEqual((self.reactor.readers, self.watch.fileno()), ([], -1))
        self.watch.watch({self.folder: ["omnigate.toml"]})

    def test_stopped_in_the_middle(self) -> None:
        """Whoever is told may stop it, and is told no more."""
        for _ in range(3):
            self.write(self.path)

        def stop(writing: bool | None) -> None:
            self.told.append(writing)
            self.watch.stop()

        self.patch(self.watch, "_changed", stop)
        self.watch.doRead()
        self.assertEqual(len(self.told), 1)

    def test_busy_folder(self) -> None:
        """A folder in which much happens takes no memory beyond one read at a time."""

        def write() -> None:
            for n in range(2000):
                self.write(os.path.join(self.folder, f"{n}"))

        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
        self.write(self.path)
        told: list[bool | None] = []
        for _ in range(1000):
            told += self.seen()
            if False in told or None in told:
                return
        self.fail("nothing was told")


class EventTests(SynchronousTestCase):
    """The bytes of the kernel."""

    @given(
        st.lists(st.tuples(st.integers(-1, 99), st.integers(0, 2**32 - 1), st.binary(max_size=9)))
    )
    def test_events(self, events: list[tuple[int, int, bytes]]) -> None:
        """Names come without their padding, and nothing is lost between events."""
        data, expected = b"", []
        for number, mask, name in events:
            name = name.replace(b"\0", b"")
            padded = name + b"\0" * (16 - len(name)) if name else b""
            data += struct.pack("=iIII", number, mask, 0, len(padded)) + padded
            expected.append(FolderEvent(number, mask, name))
        self.assertEqual(list(events_in(data)), expected)
