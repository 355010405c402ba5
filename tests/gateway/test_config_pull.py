"""The config pull: the newest snapshot is in force, and never less than there was."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import Config
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotKey,
    build_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from omnigate.gateway import config_pull as config_pull_module
from omnigate.gateway.config_pull import EARLY_SECONDS, FETCH_SECONDS, ConfigPull
from omnigate.testing.writer import SynchronousWriter

POLL = 2.0


def snapshot(name: str, blocked: bool = False) -> Snapshot:
    """Make a snapshot with one key."""
    key = SnapshotKey(
        sha256="ab" * 32, name=name, rpm=0, models=None, blocked=blocked, max_concurrent=0
    )
    return build_snapshot(Config(), [key])


class PassingClock(Clock):
    """A clock that goes on between two looks at it, and like a reactor takes no time that is past.

    :ivar step: seconds that each look takes.
    """

    step = 0.0

    def seconds(self) -> float:
        """Tell the time."""
        self.rightNow += self.step
        return super().seconds()

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> Any:
        """Call later, if it is later."""
        assert delay >= 0, delay
        return super().callLater(delay, callable, *args, **kw)


class PullCase(SynchronousTestCase):
    """A pull with a control plane that answers as told."""

    def setUp(self) -> None:
        """Make the parts."""
        self.clock = PassingClock()
        self.writer = SynchronousWriter()
        folder = self.mktemp()
        os.mkdir(folder)
        self.path = os.path.join(folder, "config.cache.json")
        self.answer: tuple[int, bytes] | Exception | None = None
        self.asked = 0
        self.open: list[Deferred[tuple[int, bytes]]] = []
        self.installed: list[Snapshot] = []
        self.slices: list[Callable[[], None]] = []
        self.fault: Exception | None = None
        self.pull = self.make()

    def make(self) -> ConfigPull:
        """Make a pull."""
        return ConfigPull(self.fetch, self.clock, POLL, self.path, self.install, self.writer)

    def fetch(self) -> Deferred[tuple[int, bytes]]:
        """Answer a poll."""
        self.asked += 1
        if self.answer is None:
            waiting: Deferred[tuple[int, bytes]] = Deferred()
            self.open.append(waiting)
            return waiting
        if isinstance(self.answer, Exception):
            return fail(self.answer)
        return succeed(self.answer)

    def install(self, new: Snapshot) -> Iterator[None]:
        """Put a snapshot in force, or fail, with something that happens behind each slice."""
        for happens in self.slices:
            self.clock.callLater(0, happens)
            yield
        if self.fault is not None:
            raise self.fault
        self.installed.append(new)

    def give(self, new: Snapshot) -> None:
        """Have polls answered with a snapshot."""
        self.answer = 200, encode_snapshot(new)

    def cache(self, content: bytes) -> None:
        """Write the copy on disk."""
        with open(self.path, "wb") as stream:
            stream.write(content)

    def cached(self) -> bytes:
        """Read the copy on disk."""
        with open(self.path, "rb") as stream:
            return stream.read()

    def errors(self, logged: Sequence[dict[str, Any]]) -> list[str]:
        """Return the reasons of the errors logged."""
        return [
            str(event.get("reason") or event.get("error"))
            for event in logged
            if event["log_level"] >= LogLevel.error
        ]


class PollTests(PullCase):
    """What polls bring."""

    def test_installed(self) -> None:
        """The first poll is made at once; its snapshot is installed and saved."""
        first = self.pull.first_snapshot()
        self.give(snapshot("a"))
        self.pull.start()
        self.assertEqual(self.installed, [snapshot("a")])
        self.assertEqual(self.successResultOf(first), snapshot("a"))
        self.assertEqual(self.pull.version, snapshot("a").version)
        self.assertEqual(decode_snapshot(self.cached()), snapshot("a"))
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_slices(self) -> None:
        """A large config comes into force slice by slice, each in a turn of the reactor's own.

        Until then the one before is told as the one in force, and what is told meanwhile counts.
        """
        self.give(snapshot("a"))
        self.pull.start()
        seen = []

        def look() -> None:
            seen.append((self.pull.version, self.asked, len(self.installed)))
            self.pull.told(snapshot("c").version)
            self.give(snapshot("c"))
            self.slices = []

        self.slices = [look] * 3
        self.give(snapshot("b"))
        self.clock.advance(POLL)
        self.assertEqual(seen, [(snapshot("a").version, 2, 1)] * 3)
        self.assertEqual(self.pull.version, snapshot("c").version)

    def test_stop_between_slices(self) -> None:
        """A stop gives up what is half done; the copy on disk is that of the config in force."""
        self.give(snapshot("a"))
        self.pull.start()
        stopped: list[Deferred[None]] = []
        self.slices = [lambda: None, lambda: stopped.append(self.pull.stop()), lambda: None]
        self.give(snapshot("b"))
        self.clock.advance(POLL)
        self.successResultOf(stopped[0])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.pull.version, snapshot("a").version)
        self.assertEqual(decode_snapshot(self.cached()), snapshot("a"))
        self.assertEqual(len(self.installed), 1)

    def test_only_what_is_new(self) -> None:
        """The same version is not installed again, another one is."""
        self.give(snapshot("a"))
        self.pull.start()
        for _ in range(5):
            self.clock.advance(POLL)
        self.assertEqual((self.asked, len(self.installed)), (6, 1))
        self.give(snapshot("a", blocked=True))
        self.clock.advance(POLL)
        self.assertEqual([one.keys[0].blocked for one in self.installed], [False, True])
        self.assertEqual(decode_snapshot(self.cached()), snapshot("a", blocked=True))

    def test_told_of_another_version(self) -> None:
        """A version that is not ours is asked for at once; ours, and one asked for before, not."""
        self.give(snapshot("a"))
        self.pull.start()
        self.pull.told(snapshot("a").version)
        self.clock.advance(0)
        self.assertEqual(self.asked, 1)
        self.pull.told(snapshot("b").version)
        self.assertEqual(self.asked, 1)
        self.clock.advance(0)
        self.assertEqual(self.asked, 2)
        # It was not what came; the polls go on as ever.
        self.pull.told(snapshot("b").version)
        self.clock.advance(POLL - 0.01)
        self.assertEqual(self.asked, 2)
        self.clock.advance(0.01)
        self.assertEqual(self.asked, 3)
        # One that is yet to be made has no version.
        for asked in (4, 5):
            self.clock.advance(EARLY_SECONDS)
            self.pull.told("")
            self.clock.advance(0)
            self.assertEqual(self.asked, asked)

    def test_told_of_a_version_that_was_there_before(self) -> None:
        """The same keys are blocked as yesterday, which is news again today."""
        self.give(snapshot("a"))
        self.pull.start()
        for name in "babab":
            self.clock.advance(EARLY_SECONDS)
            self.give(snapshot(name))
            self.pull.told(snapshot(name).version)
            self.clock.advance(0)
            self.assertEqual(self.pull.version, snapshot(name).version)

    def test_told_over_and_over(self) -> None:
        """However many batches tell of however many versions, polls keep their distance."""
        for names in (["b", "c"], [""], ["", "b", "c", "", "d"]):
            self.asked = 0
            self.pull = self.make()
            self.give(snapshot("a"))
            self.pull.start()
            for turn in range(1_000):
                name = names[turn % len(names)]
                self.pull.told(snapshot(name).version if name else "")
                self.clock.advance(1 / 1024)
            # The first poll of all, one told of at once, and one each distance after it.
            self.assertEqual(self.asked, 1 + 1 + 7)
            self.pull.stop()

    def test_told_while_polls_are_slow(self) -> None:
        """The distance is from the beginning of one to that of the next, so there is no more."""
        self.pull.start()
        for asked in range(1, 5):
            self.assertEqual(self.asked, asked)
            self.pull.told("")
            self.clock.advance(2 * EARLY_SECONDS)
            self.open.pop().callback((200, encode_snapshot(snapshot("a"))))
            self.clock.advance(0)

    def test_told_during_a_poll(self) -> None:
        """The answer under way may be older than what was told, so there is another poll."""
        self.pull.start()
        self.pull.told(snapshot("b").version)
        [waiting] = self.open
        self.give(snapshot("b"))
        waiting.callback((200, encode_snapshot(snapshot("a"))))
        self.clock.advance(0)
        self.assertEqual([one.keys[0].name for one in self.installed], ["a", "b"])
        self.clock.advance(POLL - 0.01)
        self.assertEqual(self.asked, 2)

    def test_told_at_any_moment(self) -> None:
        """Time goes on between two looks at the clock, and the polls with it."""
        self.clock.step = 1e-6
        self.give(snapshot("a"))
        self.pull.start()
        for name in "bcdef":
            self.answer = None
            asked = self.asked
            self.pull.told(snapshot(name).version)
            self.clock.advance(EARLY_SECONDS)
            self.assertEqual(self.asked, asked + 1)
            # And while that poll is under way, of yet another.
            self.pull.told("")
            self.give(snapshot(name))
            self.clock.advance(2 * EARLY_SECONDS)
            self.open.pop().callback(self.answer or (0, b""))
            self.assertEqual(self.installed[-1], snapshot(name))
            self.clock.advance(EARLY_SECONDS)
            self.assertEqual(self.asked, asked + 2)

    def test_end_of_the_polls_is_told(self) -> None:
        """Should there be no next poll, that stands in the log at once."""
        self.pull.start()

        def broken(*_: object) -> object:
            raise ZeroDivisionError

        self.patch(self.clock, "callLater", broken)
        self.open.pop().callback((503, b""))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_told_after_the_stop(self) -> None:
        """The last delivery is answered when there are no polls any more."""
        self.give(snapshot("a"))
        self.pull.start()
        self.pull.stop()
        self.pull.told("")
        self.clock.advance(POLL)
        self.assertEqual(self.asked, 1)

    def test_same_version_other_bytes(self) -> None:
        """A snapshot that is only written differently is not new."""
        self.give(snapshot("a"))
        self.pull.start()
        self.answer = 200, encode_snapshot(snapshot("a")) + b"\n"
        self.clock.advance(POLL)
        self.assertEqual(len(self.installed), 1)
        self.assertEqual(self.pull.failures, 0)

    def test_large(self) -> None:
        """A large snapshot is decoded in the writer's thread, and refused the same."""
        # A thousand networks, at up to 20 µs each.
        self.assertLess(config_pull_module.MAX_DECODED_AT_ONCE_BYTES, 1000 * len('"1.2.3.4",'))
        self.patch(config_pull_module, "MAX_DECODED_AT_ONCE_BYTES", 10)
        self.writer.holding = True
        self.give(snapshot("a"))
        self.pull.start()
        self.assertEqual((self.installed, self.writer.pending), ([], 1))
        self.writer.run()
        self.assertEqual(self.installed, [snapshot("a")])
        self.answer = 200, b"{" * 20
        self.clock.advance(POLL)
        self.writer.run()
        self.assertEqual(self.pull.failures, 1)
        self.give(snapshot("b"))
        self.clock.advance(POLL)
        self.successResultOf(self.pull.stop())
        self.writer.run()
        self.assertEqual(self.installed, [snapshot("a")])

    def test_failures_change_nothing(self) -> None:
        """Whatever a poll meets, the snapshot in force stays, and it is told once."""
        self.give(snapshot("a"))
        self.pull.start()
        whole = encode_snapshot(snapshot("b"))
        for answer, words in (
            ((503, b""), "the control plane is not ready"),
            ((401, b""), "OMNIGATE_INTERNAL_TOKEN"),
            ((401, b""), "OMNIGATE_CONTROL_URL"),
            ((429, b""), "OMNIGATE_INTERNAL_TOKEN"),
            ((404, b""), "OMNIGATE_CONTROL_URL"),
            ((500, b""), "answered 500"),
            ((204, b""), "answered 204"),
            ((200, b""), "not usable"),
            ((200, b"<html>"), "not usable"),
            ((200, whole[:-1]), "not usable"),
            ((200, whole.replace(b'"b"', b'"c"')), "not usable"),
            (ConnectionError("connection refused"), "connection refused"),
        ):
            with self.subTest(words=words), capturedLogs() as logged:
                self.answer = answer
                for _ in range(20):
                    self.clock.advance(POLL)
                self.give(snapshot("a"))
                self.clock.advance(POLL)
            self.assertEqual(len(self.errors(logged)), 1)
            self.assertIn(words, self.errors(logged)[0])
            self.assertIn("no longer", logged[-1]["log_format"])
        self.assertEqual(len(self.installed), 1)
        self.assertEqual(self.pull.failures, 240)

    def test_none_at_all(self) -> None:
        """Without any snapshot the log says that there is none to serve with."""
        self.answer = 503, b""
        with capturedLogs() as logged:
            self.pull.start()
        self.assertIn("none to serve with", self.errors(logged)[0])
        self.assertIsNone(self.pull.version)
        first = self.pull.first_snapshot()
        self.assertNoResult(first)
        self.give(snapshot("a"))
        self.clock.advance(POLL)
        self.successResultOf(first)
        self.successResultOf(self.pull.first_snapshot())

    def test_silence(self) -> None:
        """A poll without an answer is given up, and the next one made."""
        self.pull.start()
        self.clock.advance(FETCH_SECONDS)
        self.assertEqual(self.pull.failures, 1)
        self.give(snapshot("a"))
        self.clock.advance(POLL)
        self.assertEqual(len(self.installed), 1)

    def test_install_fails(self) -> None:
        """A snapshot that cannot be put in force leaves the old one there, and is tried again."""
        self.give(snapshot("a"))
        self.pull.start()
        self.give(snapshot("b"))
        self.fault = RuntimeError("no")
        for _ in range(5):
            self.clock.advance(POLL)
        self.assertEqual(self.pull.version, snapshot("a").version)
        self.assertEqual(decode_snapshot(self.cached()), snapshot("a"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.fault = None
        self.clock.advance(POLL)
        self.assertEqual(self.pull.version, snapshot("b").version)

    def test_stop(self) -> None:
        """After a stop nothing is fetched, and a poll under way is given up."""
        self.give(snapshot("a"))
        self.pull.start()
        self.successResultOf(self.pull.stop())
        self.clock.advance(100)
        self.assertEqual(self.asked, 1)
        self.answer = None
        self.pull.start()
        self.successResultOf(self.pull.stop())
        self.clock.advance(100)
        self.assertEqual((self.asked, self.clock.getDelayedCalls()), (2, []))


class CacheTests(PullCase):
    """The copy on disk."""

    def test_start_from_it(self) -> None:
        """A start without the control plane serves what was last in force."""
        self.cache(encode_snapshot(snapshot("a")))
        self.answer = ConnectionError("refused")
        self.pull.start()
        self.assertEqual(self.installed, [snapshot("a")])
        self.successResultOf(self.pull.first_snapshot())

    def test_same_version(self) -> None:
        """The same version from the control plane is neither installed nor written again."""
        self.cache(encode_snapshot(snapshot("a")))
        before = os.stat(self.path).st_ino
        self.give(snapshot("a"))
        self.pull.start()
        self.assertEqual(len(self.installed), 1)
        self.assertEqual(os.stat(self.path).st_ino, before)

    def test_kept_by_another(self) -> None:
        """A worker that starts from another's copy reads it and leaves it as it is."""
        before = encode_snapshot(snapshot("a"))
        self.cache(before)
        half = f"{self.path}.0123abcd.tmp"
        os.link(self.path, half)
        self.give(snapshot("b"))
        self.pull = ConfigPull(
            self.fetch, self.clock, POLL, self.path, self.install, self.writer, keeps=False
        )
        self.pull.start()
        self.assertTrue(os.path.exists(half))
        self.assertEqual([snapshot("a"), snapshot("b")], self.installed)
        self.assertEqual(before, self.cached())

    def test_half_a_copy(self) -> None:
        """What a kill left of the writing of one is removed by whoever writes it."""
        half = f"{self.path}.0123abcd.tmp"
        with open(half, "wb") as file:
            file.write(b"{")
        self.pull.start()
        self.assertFalse(os.path.exists(half))

    def test_damaged(self) -> None:
        """A damaged copy is told and ignored, and the next snapshot takes its place."""
        whole = encode_snapshot(snapshot("a"))
        for content in (b"", b"{", whole[:-1], whole.replace(b'"a"', b'"b"'), b"\0" * 100):
            with self.subTest(content=content[:10]), capturedLogs() as logged:
                self.cache(content)
                self.pull = self.make()
                self.installed.clear()
                self.answer = None
                self.pull.start()
                self.assertEqual(self.installed, [])
                self.assertEqual(len(self.errors(logged)), 1)
                self.successResultOf(self.pull.stop())
        self.give(snapshot("a"))
        self.pull = self.make()
        self.pull.start()
        self.assertEqual(self.cached(), whole)

    def test_unreadable(self) -> None:
        """A copy that cannot be read does not stop a start, nor one that cannot be written."""
        os.mkdir(self.path)
        self.give(snapshot("a"))
        with capturedLogs() as logged:
            self.pull.start()
        self.assertEqual(len(self.installed), 1)
        self.assertEqual(len(self.errors(logged)), 2)

    def test_cannot_be_installed(self) -> None:
        """A copy that cannot be put in force does not stop a start."""
        self.cache(encode_snapshot(snapshot("a")))
        self.fault = RuntimeError("no")
        self.answer = None
        self.pull.start()
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertIsNone(self.pull.version)

    def test_no_file(self) -> None:
        """A first start has no copy, which is no fault."""
        with capturedLogs() as logged:
            self.pull.start()
        self.assertEqual(logged, [])
