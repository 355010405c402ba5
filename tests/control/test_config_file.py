"""Tests for the config file in force."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import MAX_CONFIG_BYTES, Config, ConfigError
from omnigate.config.structure import Fault
from omnigate.control import config_reading
from omnigate.control.config_file import FILE, SIGNAL, Cause, ConfigFile
from omnigate.control.config_reading import Reading, read_config_text
from omnigate.control.config_watch import MAX_SETTLE_LOOKS, POLL_SECONDS, SETTLE_SECONDS
from omnigate.errors import GatewayError
from omnigate.jobs import age_files
from omnigate.settings import SettingsError
from omnigate.testing.writer import SynchronousWriter
from omnigate.text import REDACTED

GOOD = """
[[keys]]
name = "app"
key_env = "APP"
"""
OTHER = GOOD + "rpm = 5\n"
BAD = "[[keys]]\nname = 3\n"
RECIPIENT = "age1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnzs23v9ccrydpk8qarc0savhh7m"
ENVIRON = {"APP": "a-key-for-the-app-0123"}


class ConfigFileCase(SynchronousTestCase):
    """A folder with a config file, and a clock."""

    def setUp(self) -> None:
        self.path = self.mktemp()
        self.clock = Clock()
        self.clock.advance(1_000)
        self.seen: list[Config] = []
        self.file = ConfigFile(self.path, self.clock, dict(ENVIRON).get)

    def write(self, text: str) -> None:
        """Replace the file by rename, as editors do."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path + ".new", self.path)

    def again(self, actor: str = SIGNAL) -> bool:
        """Have it read again, and return whether it was good."""
        return self.successResultOf(self.file.reload(Cause(actor)))

    def loaded(self, text: str = GOOD) -> ConfigFile:
        self.write(text)
        self.file.load()
        self.file.on_change(self.seen.append)
        return self.file


class RecipientsTest(ConfigFileCase):
    """Outputs that are to be encrypted."""

    TEXT = GOOD + f"age_recipients = [{RECIPIENT!r}]\n[media]\nage_recipients = [{RECIPIENT!r}]\n"

    def test_with_the_extra(self) -> None:
        """They are taken."""
        self.patch(age_files, "fault_of", lambda recipients: "")
        self.loaded(self.TEXT)
        self.assertEqual(self.file.config.media.age_recipients, (RECIPIENT,))

    def test_without_it(self) -> None:
        """The places are told, and what to install."""

        def no_module(name: str) -> Any:
            raise ImportError(name)

        self.patch(age_files, "import_module", no_module)
        self.write(self.TEXT)
        faults = self.assertRaises(ConfigError, self.file.load).faults
        self.assertEqual(
            [str(fault) for fault in faults],
            [
                f"{place}: {age_files.REMEDY}"
                for place in ("media.age_recipients", "keys[0].age_recipients")
            ],
        )
        self.loaded(GOOD)


class LoadTests(ConfigFileCase):
    """The start: a good file is in force, a bad one stops it."""

    def test_a_good_file(self) -> None:
        file = self.loaded()
        self.assertEqual([key.config.name for key in file.file_keys], ["app"])
        self.assertEqual(file.config.keys[0].key_env, "APP")
        self.assertEqual((file.loaded_at, file.reloads, file.failures), (1_000, 1, 0))

    def refused(self) -> str:
        with self.assertRaises(ConfigError) as caught:
            self.file.load()
        return str(caught.exception)

    def test_faults_of_the_text(self) -> None:
        self.write(BAD)
        self.assertIn("keys[0].name", self.refused())
        self.assertEqual(self.file.config, Config())

    def test_a_secret_in_the_wrong_place(self) -> None:
        """A fault that repeats a word of the file repeats no credential, at a start and later."""
        secret = "sk-live-0123456789abcdef"
        row = f'name = "a"\nkey_sha256 = "{"a" * 64}"\n'
        texts = (
            f"{secret} = 1\n",
            f'[[keys]]\n{row}allowed_ips = ["{secret}"]\n',
            f'[[keys]]\n{row}budget_timezone = "{secret}"\n',
            f'[[upstreams]]\nname = "u"\nprotocol = "{secret}"\nbase_url = "http://h/v1"\n',
        )
        for text in texts:
            self.write(text)
            self.assertNotIn(secret, self.refused())
            self.assertIn(REDACTED, self.refused())
        file = self.loaded()
        for text in texts:
            self.write(text)
            with capturedLogs() as logged:
                self.assertFalse(self.again())
            told = [str(event.get("fault")) for event in logged] + [str(one) for one in file.faults]
            self.assertTrue(any(REDACTED in one for one in told))
            self.assertFalse(any(secret in one for one in told))

    def test_a_variable_that_is_not_set(self) -> None:
        self.write('keys = [{name = "a", key_env = "NOT_THERE"}]')
        self.assertIn('keys[0].key_env ("a"): NOT_THERE is not set', self.refused())

    def test_files_that_cannot_be_read(self) -> None:
        """Each has one line that names the file; a pipe without a writer does not block."""
        self.assertIn(f"{self.path}: the config file cannot be read: no such", self.refused())
        os.mkdir(self.path)
        self.assertIn("is a directory", self.refused())
        os.rmdir(self.path)
        os.mkfifo(self.path)
        self.assertIn("is no regular file", self.refused())

    def test_the_length_is_bounded(self) -> None:
        self.write("#" * MAX_CONFIG_BYTES)
        self.assertEqual(len(read_config_text(self.path)), MAX_CONFIG_BYTES)
        self.write("#" * (MAX_CONFIG_BYTES + 1))
        self.assertIn("is longer than", self.refused())

    def test_bytes_that_are_not_utf8_are_told_with_their_line(self) -> None:
        with open(self.path, "wb") as file:
            file.write(b"# one\n# two \xff\n")
        self.assertEqual(self.refused(), "line 2: is not UTF-8")


class ReloadTests(ConfigFileCase):
    """A reload on request."""

    def test_a_new_config_is_in_force_and_told(self) -> None:
        file = self.loaded()
        self.write(OTHER)
        self.clock.advance(5)
        self.assertTrue(self.again())
        self.assertEqual(file.config.keys[0].rpm, 5)
        self.assertEqual(self.seen, [file.config])
        self.assertEqual((file.loaded_at, file.reloads, file.failures), (1_005, 2, 0))

    def test_an_unchanged_config_is_counted_and_not_told(self) -> None:
        file = self.loaded()
        self.write(GOOD + "# a remark\n")
        self.assertTrue(self.again())
        self.assertEqual((self.seen, file.reloads), ([], 2))

    def test_a_file_with_faults_replaces_nothing(self) -> None:
        file = self.loaded()
        before = file.config
        self.write(BAD)
        self.assertFalse(self.again())
        self.assertIs(file.config, before)
        self.assertEqual((self.seen, file.reloads, file.failures), ([], 1, 1))
        self.assertEqual([fault.path for fault in file.faults], ["keys[0]", "keys[0].name"])
        self.write(GOOD)
        self.assertTrue(self.again())
        self.assertEqual((file.faults, file.failures), ((), 1))

    def test_a_file_that_is_gone_replaces_nothing(self) -> None:
        file = self.loaded()
        os.remove(self.path)
        self.assertFalse(self.again())
        self.assertEqual(len(file.config.keys), 1)
        self.assertIn("cannot be read", str(file.faults[0]))

    def test_a_reading_that_breaks_is_a_fault(self) -> None:
        """The file is not in force, whatever kept it from that, until it can be read."""
        broken = [False]

        def look(name: str) -> str | None:
            if broken[0]:
                raise LookupError(name)
            return ENVIRON.get(name)

        self.file = ConfigFile(self.path, self.clock, look)
        self.loaded()
        self.write(OTHER)
        broken[0] = True
        self.failureResultOf(self.file.reload(Cause(SIGNAL)), LookupError)
        self.assertEqual((self.file.failures, len(self.file.faults)), (1, 1))
        self.assertEqual(self.file.config.keys[0].rpm, 0)
        broken[0] = False
        self.assertTrue(self.again())
        self.assertEqual((self.file.faults, self.file.config.keys[0].rpm), ((), 5))

    def test_a_new_secret_behind_the_same_text_is_a_change(self) -> None:
        environ = dict(ENVIRON)
        self.file = ConfigFile(self.path, self.clock, environ.get)
        self.loaded()
        environ["APP"] = "another-key-for-the-app"
        self.assertTrue(self.again())
        self.assertEqual(len(self.seen), 1)

    def test_a_listener_that_fails_does_not_keep_the_config_from_others(self) -> None:
        def fail(config: Config) -> None:
            raise ZeroDivisionError

        self.write(GOOD)
        self.file.load()
        self.file.on_change(fail)
        self.file.on_change(self.seen.append)
        self.write(OTHER)
        self.assertTrue(self.again())
        self.assertEqual(self.seen, [self.file.config])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


MEDIA = """
[media]
storage = "s3"
s3 = { endpoint = "https://h", bucket = "out", access_key_env = "ID", secret_key_env = "SECRET" }
[[media.routes]]
model = "flux"
targets = [
    { adapter = "fal", model = "m", api_key_env = "FAL_KEY" },
    { adapter = "replicate", model = "m", api_key_env = "TOKEN" },
    { adapter = "gemini", model = "m" },
]
"""


class CredentialTests(ConfigFileCase):
    """What ``[media]`` names and the environment holds."""

    def setUp(self) -> None:
        super().setUp()
        self.environ = {"FAL_KEY": "id:secret", "ID": "access", "OTHER": "not named"}
        self.file = ConfigFile(self.path, self.clock, self.lookup)

    def lookup(self, name: str) -> str | None:
        if name == "TOKEN":
            raise SettingsError(["TOKEN_FILE: cannot be read"])
        return self.environ.get(name)

    def told(self, logged: Any) -> list[str]:
        return [str(event["fault"]) for event in logged if "fault" in event]

    def test_those_that_are_named(self) -> None:
        """Each is told as it is; what is missing is a warning and keeps nothing from starting."""
        self.write(MEDIA)
        with capturedLogs() as logged:
            self.file.load()
        values = [self.file.credential(name) for name in ("FAL_KEY", "ID", "SECRET", "TOKEN")]
        self.assertEqual(values, ["id:secret", "access", None, None])
        self.assertIsNone(self.file.credential("OTHER"))
        self.assertEqual(
            self.told(logged),
            [
                'TOKEN_FILE: cannot be read; the media model "flux" needs it',
                "SECRET is not set in the control plane's environment, nor is SECRET_FILE; "
                "the bucket needs it",
            ],
        )
        self.assertNotIn("id:secret", repr(self.file.reading))

    def test_a_new_credential_behind_the_same_text(self) -> None:
        """It is in force once the file is read again, and told where it is amiss now."""
        self.write(MEDIA)
        self.file.load()
        self.environ = {"FAL_KEY": "id:another", "SECRET": "s"}
        with capturedLogs() as logged:
            self.assertTrue(self.again())
        self.assertEqual(self.file.credential("FAL_KEY"), "id:another")
        self.assertEqual(self.file.credential("SECRET"), "s")
        self.assertIsNone(self.file.credential("ID"))
        (told,) = self.told(logged)
        self.assertTrue(told.startswith("ID is not set"), told)

    def test_of_a_bucket_that_is_not_used(self) -> None:
        self.write(MEDIA.replace('storage = "s3"', ""))
        self.file.load()
        self.assertIsNone(self.file.credential("ID"))
        self.assertEqual(self.file.credential("FAL_KEY"), "id:secret")


class PollTests(ConfigFileCase):
    """Changes of the file are found without being asked for."""

    def polling(self, text: str = GOOD) -> ConfigFile:
        file = self.loaded(text)
        file.start_watching()
        self.addCleanup(file.stop)
        return file

    def pass_time(self, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Let time pass in steps of a settling look."""
        for _ in range(round(seconds / SETTLE_SECONDS) + 1):
            meanwhile()
            self.clock.advance(SETTLE_SECONDS)

    def test_a_changed_file_is_loaded_once_it_stands_still(self) -> None:
        file = self.polling()
        self.write(OTHER)
        self.clock.advance(POLL_SECONDS)
        self.assertEqual(file.reloads, 1)
        self.clock.advance(SETTLE_SECONDS)
        self.assertEqual((file.reloads, file.config.keys[0].rpm), (2, 5))
        self.pass_time(10)
        self.assertEqual(file.reloads, 2)

    def test_an_untouched_file_is_not_read_again(self) -> None:
        file = self.polling()
        self.pass_time(20)
        self.assertEqual((file.reloads, file.failures), (1, 0))

    def test_a_file_that_is_being_written_is_left_alone(self) -> None:
        file = self.polling()
        grown = [0]

        def grow() -> None:
            grown[0] += 1
            self.write(GOOD + "# a remark\n" * grown[0] + ("[[keys" if grown[0] < 25 else ""))

        self.pass_time(POLL_SECONDS + 10 * SETTLE_SECONDS, grow)
        self.assertEqual((file.reloads, file.failures), (1, 0))
        self.write(OTHER)
        self.pass_time(POLL_SECONDS + SETTLE_SECONDS)
        self.assertEqual((file.config.keys[0].rpm, file.failures), (5, 0))

    def test_a_file_that_never_stands_still_keeps_nobody_busy(self) -> None:
        file = self.polling()
        grown = [0]

        def grow() -> None:
            grown[0] += 1
            self.write("#" * grown[0])

        self.pass_time(POLL_SECONDS + SETTLE_SECONDS * (MAX_SETTLE_LOOKS + 2), grow)
        self.assertEqual(file.reloads, 1)
        (timer,) = self.clock.getDelayedCalls()
        self.assertGreater(timer.getTime() - self.clock.seconds(), SETTLE_SECONDS)

    def test_a_bad_file_is_told_once_and_then_again_when_it_changes(self) -> None:
        file = self.polling()
        self.write(BAD)
        self.pass_time(10)
        self.assertEqual((file.failures, file.reloads), (1, 1))
        self.write(BAD + "# still\n")
        self.pass_time(4)
        self.assertEqual(file.failures, 2)
        self.write(OTHER)
        self.pass_time(4)
        self.assertEqual((file.failures, file.reloads, file.faults), (2, 2, ()))

    def test_a_file_that_vanishes_and_comes_back(self) -> None:
        file = self.polling()
        os.remove(self.path)
        self.pass_time(10)
        self.assertEqual((file.failures, len(file.config.keys)), (1, 1))
        self.write(OTHER)
        self.pass_time(4)
        self.assertEqual(file.config.keys[0].rpm, 5)

    def test_a_link_that_is_swapped_is_a_change(self) -> None:
        """Container platforms keep the file and swap a link on the way to it."""
        for name, text in (("one", GOOD), ("two", OTHER)):
            os.makedirs(self.path + name)
            with open(os.path.join(self.path + name, "c.toml"), "w", encoding="utf-8") as out:
                out.write(text)
        link = self.path + "link"
        os.symlink(os.path.abspath(self.path + "one"), link)
        file = ConfigFile(os.path.join(link, "c.toml"), self.clock, dict(ENVIRON).get)
        file.load()
        file.start_watching()
        os.symlink(os.path.abspath(self.path + "two"), link + ".new")
        os.rename(link + ".new", link)
        self.pass_time(3)
        self.assertEqual(file.config.keys[0].rpm, 5)
        file.stop()

    def test_stopping_leaves_no_timer(self) -> None:
        file = self.polling()
        file.start_watching()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        file.stop()
        file.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class ThreadTests(ConfigFileCase):
    """Readings by a thread, one at a time."""

    def setUp(self) -> None:
        super().setUp()
        self.reader = SynchronousWriter(holding=True)
        self.file = ConfigFile(self.path, self.clock, dict(ENVIRON).get, reader=self.reader)
        self.loaded()

    def ask(self, actor: str) -> Deferred[bool]:
        return self.file.reload(Cause(actor))

    def test_nothing_is_in_force_before_it_was_read(self) -> None:
        self.write(OTHER)
        waiting = self.ask(SIGNAL)
        self.assertNoResult(waiting)
        self.assertEqual((self.file.config.keys[0].rpm, self.seen), (0, []))
        self.reader.run()
        self.assertTrue(self.successResultOf(waiting))
        self.assertEqual((self.file.config.keys[0].rpm, len(self.seen)), (5, 1))

    def test_many_at_once_are_few_readings(self) -> None:
        """While one is under way, all that one actor asks for is one more, and all are told."""
        self.write(OTHER)
        first = self.ask("admin-token")
        later = [self.ask("admin-token") for _ in range(50)] + [self.ask(SIGNAL) for _ in range(50)]
        self.reader.run(1)
        self.assertTrue(self.successResultOf(first))
        self.assertNoResult(later[0])
        self.reader.run()
        self.assertEqual([self.successResultOf(one) for one in later], [True] * 100)
        self.assertEqual((self.file.reloads, len(self.seen)), (4, 1))

    def test_a_change_behind_a_reading_is_not_missed(self) -> None:
        """One that asks while an older text is being read is told of the newer one."""
        first = self.ask(SIGNAL)
        self.write(BAD)
        second = self.ask(SIGNAL)
        self.reader.run(1)
        self.write(OTHER)
        self.reader.run()
        self.assertFalse(self.successResultOf(first))
        self.assertTrue(self.successResultOf(second))
        self.assertEqual(self.file.config.keys[0].rpm, 5)

    def test_a_change_that_no_thread_could_read_is_read_later(self) -> None:
        """A thread that takes nothing for now is told of, and the polls go on."""
        reader = SynchronousWriter(holding=True, max_pending=1)
        self.file = ConfigFile(self.path, self.clock, dict(ENVIRON).get, reader=reader)
        self.loaded().start_watching()
        self.addCleanup(self.file.stop)
        reader.submit(lambda: None)
        self.write(OTHER)
        self.clock.pump([POLL_SECONDS, SETTLE_SECONDS])
        self.assertEqual((self.file.reloads, self.file.failures), (1, 1))
        self.assertIn("cannot be read now", str(self.file.faults[0]))
        reader.run()
        reader.holding = False
        self.clock.pump([POLL_SECONDS, SETTLE_SECONDS])
        self.assertEqual((self.file.config.keys[0].rpm, self.file.faults), (5, ()))

    def test_stopped(self) -> None:
        """After a stop nothing is read, and whoever asks is told so."""
        self.successResultOf(self.file.stop())
        failure = self.failureResultOf(self.ask(SIGNAL), GatewayError)
        self.assertEqual(failure.value.kind.code, "not_ready")


class WitnessTests(ConfigFileCase):
    """Who is asked before a config comes into force."""

    def setUp(self) -> None:
        super().setUp()
        self.loaded()
        self.asked: list[tuple[str, bool, int]] = []
        self.answer: Deferred[None] = succeed(None)
        self.file.witness = self.witness

    async def witness(
        self, cause: Cause, reading: Reading | None, faults: tuple[Fault, ...]
    ) -> None:
        self.asked.append((cause.actor, reading is not None and reading.changed, len(faults)))
        await self.answer

    def test_of_everything_that_is_read(self) -> None:
        for text in (OTHER, OTHER, BAD):
            self.write(text)
            self.again()
        self.assertEqual(self.asked, [(SIGNAL, True, 0), (SIGNAL, False, 0), (SIGNAL, False, 2)])

    def test_before_it_is_in_force(self) -> None:
        """While the witness writes, the old config serves."""
        self.answer = Deferred()
        self.write(OTHER)
        waiting = self.file.reload(Cause(FILE))
        self.assertNoResult(waiting)
        self.assertEqual(self.file.config.keys[0].rpm, 0)
        self.answer.callback(None)
        self.assertTrue(self.successResultOf(waiting))
        self.assertEqual(self.file.config.keys[0].rpm, 5)

    def test_who_refuses(self) -> None:
        """What it refuses is not in force, is shown as a fault, and is found by the next poll."""
        self.answer = fail(GatewayError("storage_unavailable", "the disk is full"))
        self.file.start_watching()
        self.addCleanup(self.file.stop)
        self.write(OTHER)
        self.failureResultOf(self.file.reload(Cause(SIGNAL)), GatewayError)
        self.assertEqual((self.file.config.keys[0].rpm, self.seen), (0, []))
        self.assertIn("the disk is full", str(self.file.faults[0]))
        self.answer = succeed(None)
        for _ in range(20):
            self.clock.advance(SETTLE_SECONDS)
        self.assertEqual((self.file.config.keys[0].rpm, self.file.faults), (5, ()))


class EmptyTests(ConfigFileCase):
    """A file that was emptied."""

    def test_it_takes_no_keys_away_by_itself(self) -> None:
        """Found by the watch it is refused; asked for by an operator it is what he wants."""
        file = self.loaded()
        self.write("# nothing is left\n")
        self.assertFalse(self.again(FILE))
        self.assertEqual((len(file.config.keys), len(file.faults)), (1, 1))
        self.assertIn("holds nothing", str(file.faults[0]))
        self.assertTrue(self.again(SIGNAL))
        self.assertEqual((file.config, file.faults), (Config(), ()))
        self.assertTrue(self.again(FILE))

    def test_a_file_that_is_written_meanwhile(self) -> None:
        """It is read again, and not taken half new and half old."""
        self.loaded()
        reads = 0
        true = config_reading._stamp

        def stamp(found: os.stat_result) -> config_reading.FileStamp:
            nonlocal reads
            reads += 1
            return attrs.evolve(true(found), changed_ns=reads)

        self.patch(config_reading, "_stamp", stamp)
        with self.assertRaises(ConfigError) as caught:
            read_config_text(self.path)
        self.assertIn("is being written", str(caught.exception))
        self.assertEqual(reads, 2 * config_reading.MAX_READS)
