"""When a changed config file is read: watched, polled, settled, and while it is being written."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Mapping

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.config_reading import FileStamp, stamp_of
from omnigate.control.config_watch import (
    MAX_SETTLE_LOOKS,
    MAX_WRITER_LOOKS,
    POLL_SECONDS,
    SETTLE_SECONDS,
    ConfigWatch,
    Folders,
    names_on_the_way,
)


class ToldFolders:
    """A watch that the test itself tells what happened."""

    def __init__(self, changed: Callable[[bool | None], None]) -> None:
        self.changed = changed
        self.names: Mapping[str, Collection[str]] = {}
        self.stopped = False

    def watch(self, names: Mapping[str, Collection[str]]) -> None:
        self.names = names

    def stop(self) -> None:
        self.stopped = True


class WatchCase(SynchronousTestCase):
    """A file, a clock, and a watch that notes what is read."""

    def setUp(self) -> None:
        self.folder = os.path.realpath(self.mktemp())
        os.makedirs(self.folder)
        self.path = os.path.join(self.folder, "omnigate.toml")
        self.clock = Clock()
        self.reads: list[str | None] = []
        self.known: FileStamp | None = None
        self.held: Deferred[None] | None = None
        self.put("start")
        self.known = stamp_of(self.path)
        self.watch = ConfigWatch(
            self.path, self.clock, lambda: self.known, self.read, self.make_folders
        )

    def make_folders(self, changed: Callable[[bool | None], None]) -> Folders:
        self.folders = ToldFolders(changed)
        return self.folders

    def read(self) -> Deferred[None]:
        self.known = stamp_of(self.path)
        text = None
        if os.path.isfile(self.path):
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        self.reads.append(text)
        return self.held or succeed(None)

    def put(self, text: str) -> None:
        """Replace the file by rename."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path + ".new", self.path)

    def grow(self, text: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.clock.advance(0.05)


class ToldTests(WatchCase):
    """With a watch on its folder."""

    def setUp(self) -> None:
        super().setUp()
        self.watch.start()
        self.addCleanup(self.watch.stop)

    def test_a_rename_is_read_once_it_has_settled(self) -> None:
        self.put("new")
        self.folders.changed(False)
        self.assertEqual(self.reads, [])
        self.clock.advance(SETTLE_SECONDS)
        self.assertEqual(self.reads, ["new"])
        self.pass_time(10)
        self.assertEqual(self.reads, ["new"])

    def test_many_changes_at_once_are_one(self) -> None:
        for n in range(50):
            self.put(f"new {n}")
            self.folders.changed(False)
        self.pass_time(1)
        self.assertEqual(self.reads, ["new 49"])

    def test_events_without_a_change_read_nothing(self) -> None:
        for _ in range(50):
            self.folders.changed(None)
            self.pass_time(0.05)
        self.assertEqual((self.reads, len(self.clock.getDelayedCalls())), ([], 1))

    def test_a_writer_that_pauses_is_waited_for(self) -> None:
        """Half of a file is not read, however slowly the other half comes."""
        with open(self.path, "w", encoding="utf-8") as file:
            self.folders.changed(True)
            for n in range(10):
                file.write(f"piece {n}\n")
                file.flush()
                self.folders.changed(True)
                self.pass_time(1)
        self.assertEqual(self.reads, [])
        self.folders.changed(False)
        self.pass_time(2 * SETTLE_SECONDS + 0.1)
        self.assertEqual([text.count("piece") for text in self.reads if text], [10])

    def test_a_writer_that_never_closes_is_not_waited_for_for_ever(self) -> None:
        self.grow("and more")
        self.folders.changed(True)
        self.pass_time(SETTLE_SECONDS * MAX_WRITER_LOOKS * 1.5)
        self.assertEqual(self.reads, ["startand more"])

    def test_an_empty_file_is_about_to_be_written(self) -> None:
        """What a shell makes of ``slow-program > file`` is not read until something is in it."""
        with open(self.path, "w", encoding="utf-8"):
            pass
        self.folders.changed(False)
        self.pass_time(5)
        self.assertEqual(self.reads, [])
        self.grow("whole")
        self.folders.changed(False)
        self.pass_time(0.5)
        self.assertEqual(self.reads, ["whole"])

    def test_an_empty_file_that_stays_so_is_read_in_the_end(self) -> None:
        self.put("")
        self.folders.changed(False)
        self.pass_time(SETTLE_SECONDS * MAX_WRITER_LOOKS * 1.5)
        self.assertEqual(self.reads, [""])

    def test_a_pipe_in_its_place(self) -> None:
        """It is empty too, but nobody waits for what may come out of it."""
        os.unlink(self.path)
        os.mkfifo(self.path)
        self.folders.changed(None)
        self.pass_time(2 * SETTLE_SECONDS)
        self.assertEqual(self.reads, [None])

    def test_gone_and_back(self) -> None:
        os.unlink(self.path)
        self.folders.changed(None)
        self.pass_time(0.5)
        self.assertEqual(self.reads, [None])
        self.pass_time(10)
        self.put("back")
        self.folders.changed(False)
        self.pass_time(0.5)
        self.assertEqual(self.reads, [None, "back"])

    def test_a_change_during_a_reading_is_read_after_it(self) -> None:
        """Two readings are never under way at once, and the last state is never missed."""
        self.held = Deferred()
        self.put("one")
        self.folders.changed(False)
        self.pass_time(0.5)
        self.put("two")
        self.folders.changed(False)
        self.pass_time(10)
        self.assertEqual(self.reads, ["one"])
        held, self.held = self.held, None
        held.callback(None)
        self.pass_time(0.5)
        self.assertEqual(self.reads, ["one", "two"])

    def test_what_could_not_come_into_force_is_tried_again(self) -> None:
        """A reading that leaves no stamp behind is repeated by the polls, and not in a hurry."""
        self.put("new")
        read = self.read

        def refused() -> Deferred[None]:
            result = read()
            self.known = None
            return result

        self.watch._read = refused
        self.folders.changed(False)
        self.pass_time(3 * (POLL_SECONDS + SETTLE_SECONDS))
        self.assertIn(len(self.reads), (3, 4))

    def test_stop(self) -> None:
        """Nothing is left behind, in the middle of a settling or of a reading."""
        self.put("new")
        self.folders.changed(False)
        self.watch.stop()
        self.assertEqual((self.clock.getDelayedCalls(), self.folders.stopped), ([], True))
        self.folders.changed(False)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_any_history(self) -> None:
        """Whatever happens in whatever order, the last state is read, and none twice in a row."""
        rng = random.Random(3)
        for turn in range(150):
            action = rng.randrange(6)
            if action == 0:
                self.put(f"put {turn}")
            elif action == 1:
                self.grow(f" grown {turn}")
            elif action == 2 and os.path.exists(self.path):
                os.unlink(self.path)
            elif action == 3:
                self.pass_time(rng.random() * 3)
            if rng.random() < 0.8:  # events may be lost, and polls are there
                self.folders.changed(rng.choice([False, None]))
        self.put("last")
        self.pass_time(POLL_SECONDS + 2 * SETTLE_SECONDS + 0.2)
        self.assertEqual(self.reads[-1], "last")
        for before, after in zip(self.reads, self.reads[1:], strict=False):
            self.assertFalse(before == after, self.reads)


class PolledTests(WatchCase):
    """Without a watch."""

    def make_folders(self, changed: Callable[[bool | None], None]) -> Folders:
        raise OSError("no more inotify instances")

    def test_polls_do_it_alone(self) -> None:
        """It is told once that nothing can be watched, and the file is looked at."""
        with capturedLogs() as logs:
            self.watch.start()
        self.assertEqual(len([event for event in logs if event.get("path") == self.path]), 1)
        self.put("new")
        self.pass_time(POLL_SECONDS + SETTLE_SECONDS + 0.1)
        self.assertEqual(self.reads, ["new"])
        self.watch.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_file_that_never_stands_still(self) -> None:
        """It is left to the next poll, and nobody is kept busy."""
        self.watch.start()
        self.addCleanup(self.watch.stop)
        self.pass_time(POLL_SECONDS)
        for n in range(MAX_SETTLE_LOOKS + 2):
            self.put(f"{n}")
            self.clock.advance(SETTLE_SECONDS)
        self.assertEqual(self.reads, [])
        (timer,) = self.clock.getDelayedCalls()
        self.assertGreater(timer.getTime() - self.clock.seconds(), SETTLE_SECONDS)


class WayTests(SynchronousTestCase):
    """Which names decide what stands at a path."""

    def setUp(self) -> None:
        self.folder = os.path.realpath(self.mktemp())
        os.makedirs(os.path.join(self.folder, "conf"))
        self.conf = os.path.join(self.folder, "conf")

    def below(self, path: str) -> dict[str, set[str]]:
        """The names within the folder of the test, by folder relative to it."""
        return {
            os.path.relpath(folder, self.folder): names
            for folder, names in names_on_the_way(path).items()
            if folder.startswith(self.folder)
        }

    def test_plain_file(self) -> None:
        """Its own folder, and in the folder above it that folder."""
        expected = {"conf": {"a.toml"}, ".": {"conf"}}
        self.assertEqual(self.below(f"{self.conf}/a.toml"), expected)
        self.assertEqual(self.below(f"{self.conf}/../conf/./a.toml"), expected)

    def test_as_container_platforms_do_it(self) -> None:
        """A link to a file behind a link to a folder: all three folders."""
        os.makedirs(f"{self.conf}/..2026")
        os.symlink("..2026", f"{self.conf}/..data")
        os.symlink("..data/a.toml", f"{self.conf}/a.toml")
        expected = {
            "conf": {"a.toml", "..data", "..2026"},
            ".": {"conf"},
            "conf/..2026": {"a.toml"},
        }
        self.assertEqual(self.below(f"{self.conf}/a.toml"), expected)

    def test_link_to_a_folder(self) -> None:
        """The link on the way, and the folder that it leads to."""
        os.symlink(self.conf, f"{self.folder}/link")
        found = self.below(f"{self.folder}/link/a.toml")
        self.assertEqual(found["."], {"link", "conf"})
        self.assertEqual(found["conf"], {"a.toml"})

    def test_links_in_a_circle(self) -> None:
        """They come to an end."""
        os.symlink("b", f"{self.conf}/a")
        os.symlink("a", f"{self.conf}/b")
        self.assertEqual(self.below(f"{self.conf}/a")["conf"], {"a", "b"})

    def test_root(self) -> None:
        self.assertEqual(names_on_the_way("/a.toml"), {"/": {"a.toml"}})
