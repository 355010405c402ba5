"""The access log: whole lines, in order, harmless to terminals, never in the way."""

import json
import os
import unicodedata
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import CLIENT_GONE, UPSTREAM_CUT
from omnigate.gateway import access_log as access_log_module
from omnigate.gateway import log_output as log_output_module
from omnigate.gateway.access_log import FLUSH_SECONDS, AccessLine, AccessLog, level_of, time_text
from omnigate.gateway.log_output import PIPE_BUF
from omnigate.testing.disk import FaultyDisk
from omnigate.testing.writer import SynchronousWriter
from omnigate.text import valid_text


def access_line(**changes: Any) -> AccessLine:
    """An ordinary request with some changes."""
    ts = changes.pop("ts", 1_790_000_000.007)
    facts: dict[str, Any] = {
        "ts": time_text(ts),
        "level": "info",
        "request_id": "0a" * 16,
        "key": "app",
        "method": "POST",
        "path": "/v1/chat/completions",
        "route": "fast",
        "model": "gpt-4o-mini",
        "upstream": "openai",
        "status": 200,
        "error_code": None,
        "stream": True,
        "input_tokens": 120,
        "output_tokens": 40,
        "cached_input_tokens": 3,
        "first_byte_ms": 210,
        "duration_ms": 1200,
        "attempts": 1,
        "bytes_in": 1024,
        "bytes_out": 2048,
        "client": "192.0.2.1",
        "estimated": False,
    }
    return AccessLine(**{**facts, **changes})


class AccessLogCase(SynchronousTestCase):
    """A log in a file."""

    def setUp(self) -> None:
        """Open it."""
        self.folder = self.mktemp()
        self.disk = FaultyDisk(self.folder)
        self.patch(log_output_module, "os", self.disk)
        self.path = os.path.join(self.folder, "access.log")
        self.clock = Clock()
        self.writer = SynchronousWriter()
        self.log = self.make(self.path)

    def make(self, path: str) -> AccessLog:
        """Make and open a log."""
        log = AccessLog(path, self.writer, self.clock)
        log.start()
        self.addCleanup(log.stop)
        return log

    def line(self, **changes: Any) -> None:
        """Log an ordinary request with some changes."""
        self.log.line(access_line(**changes))

    def text(self, path: str | None = None) -> str:
        """Read a file."""
        with open(path or self.path, encoding="utf-8", newline="") as stream:
            return stream.read()


class LineTests(AccessLogCase):
    """What a line looks like."""

    def test_members(self) -> None:
        """All members stand in their order."""
        self.line()
        self.clock.advance(FLUSH_SECONDS)
        self.assertEqual(
            self.text(),
            '{"msg":"request","ts":"2026-09-21T14:13:20.007Z","level":"info",'
            '"request_id":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","key":"app","method":"POST",'
            '"path":"/v1/chat/completions","route":"fast","model":"gpt-4o-mini",'
            '"upstream":"openai","status":200,"error_code":null,'
            '"stream":true,"in":120,"out":40,"cached":3,"ttfb_ms":210,"dur_ms":1200,"attempts":1,'
            '"bytes_in":1024,"bytes_out":2048,"client":"192.0.2.1","estimated":false}\n',
        )

    def test_time(self) -> None:
        """Each line has its own time, whatever second the one before was in."""
        for ts in (0, 0.999, 1, 1_790_000_000.0, 1_789_999_999.9994):
            self.line(ts=ts)
        self.clock.advance(FLUSH_SECONDS)
        self.assertEqual(
            [json.loads(line)["ts"] for line in self.text().splitlines()],
            [
                "1970-01-01T00:00:00.000Z",
                "1970-01-01T00:00:00.999Z",
                "1970-01-01T00:00:01.000Z",
                "2026-09-21T14:13:20.000Z",
                "2026-09-21T14:13:19.999Z",
            ],
        )

    def test_level(self) -> None:
        """A fault of the gateway or of the providers stands out, a refusal or a lost client not."""
        for status, code, level in (
            (200, "", "info"),
            (429, "rate_limit_exceeded", "info"),
            (499, CLIENT_GONE, "info"),
            (499, UPSTREAM_CUT, "error"),
            (500, "internal_error", "error"),
        ):
            self.assertEqual(level, level_of(status, code), code)

    def test_absent(self) -> None:
        """What does not apply is null."""
        names = ["key", "route", "model", "upstream", "error_code"]
        self.line(**dict.fromkeys(names), first_byte_ms=None)
        self.clock.advance(FLUSH_SECONDS)
        line = json.loads(self.text())
        absent = [name for name, value in line.items() if value is None]
        self.assertEqual(absent, [*names, "ttfb_ms"])

    def test_long_text(self) -> None:
        """Long paths and model names of a client are cut."""
        self.line(path="/" + "p" * 30_000, route="m" * 30_000)
        self.clock.advance(FLUSH_SECONDS)
        self.assertLess(len(self.text()), 1200)

    def test_longest_line(self) -> None:
        """Whatever clients and configs choose, a line is no longer than a pipe takes at once."""
        for worst in ("\x00", "\x9f", "\ud800", "\u202e", "é", "😀", '"', "x"):
            self.setUp()
            self.line(
                key="k" * 64,
                upstream="u" * 64,
                method="M" * 24,
                path="/" + worst * 30_000,
                route=worst * 30_000,
                model=worst * 256,
                error_code="concurrency_limit_exceeded",
                client="[1234:1234:1234:1234:1234:1234:1234:1234%interface0]:65535",
                **dict.fromkeys(
                    ("input_tokens", "output_tokens", "cached_input_tokens", "bytes_in"), 10**18
                ),
                bytes_out=10**18,
                duration_ms=10**18,
                first_byte_ms=10**18,
            )
            self.clock.advance(FLUSH_SECONDS)
            self.assertLessEqual(len(self.text().encode()), PIPE_BUF, repr(worst))
            self.assertEqual(1, self.text().count("\n"))

    @settings(max_examples=100, deadline=None)
    @given(st.text(st.characters(exclude_categories=()), max_size=20))
    def test_any_text(self, text: str) -> None:
        """Whatever a model is called, it stays one line without control characters."""
        self.setUp()
        self.line(model=text)
        self.clock.advance(FLUSH_SECONDS)
        line = self.text()
        self.assertEqual(line.count("\n"), 1)
        self.assertNotIn("Cc", {unicodedata.category(char) for char in line[:-1]})
        self.assertEqual(json.loads(line)["model"], valid_text(text))

    def test_escapes(self) -> None:
        """Control characters and half characters are escaped or replaced."""
        self.line(model="a\x1b[1m\x7f\x9b\n\u202eb\ud800")
        self.line(model="next")
        self.clock.advance(FLUSH_SECONDS)
        self.assertEqual(
            {"request"}, {json.loads(line)["msg"] for line in self.text().splitlines()}
        )
        self.assertIn(
            r'"model":"a\u001b[1m\u007f\u009b\n\u202eb' + "\N{REPLACEMENT CHARACTER}", self.text()
        )
        self.assertEqual(self.text().count("\n"), 2)


class WritingTests(AccessLogCase):
    """When and where lines are written."""

    def test_in_groups(self) -> None:
        """Lines are written together, a moment after the first, and nothing ticks while idle."""
        self.line()
        self.clock.advance(FLUSH_SECONDS / 2)
        self.line()
        self.assertEqual(self.text(), "")
        self.clock.advance(FLUSH_SECONDS / 2)
        self.assertEqual(self.text().count("\n"), 2)
        self.assertEqual(self.log.written, 2)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_slow_disk(self) -> None:
        """While the disk stands still lines wait, up to a bound; then they are dropped, counted."""
        self.patch(access_log_module, "MAX_WAITING_LINES", 5)
        self.writer.holding = True
        self.line(attempts=0)
        self.clock.advance(FLUSH_SECONDS)
        with capturedLogs() as logged:
            for number in range(1, 9):
                self.line(attempts=number)
                self.clock.advance(FLUSH_SECONDS)
        self.assertEqual(self.writer.pending, 1)
        self.assertEqual(self.log.dropped, 3)
        self.assertEqual([event["log_level"] for event in logged], [LogLevel.error] * 2)
        self.writer.holding = False
        self.writer.run()
        self.clock.advance(FLUSH_SECONDS)
        attempts = [json.loads(line)["attempts"] for line in self.text().splitlines()]
        self.assertEqual(attempts, [0, 1, 2, 3, 4, 5])

    def test_many_lines(self) -> None:
        """A large group is written whole and in order."""
        for number in range(1234):
            self.line(attempts=number)
        self.clock.advance(FLUSH_SECONDS)
        attempts = [json.loads(line)["attempts"] for line in self.text().splitlines()]
        self.assertEqual(attempts, list(range(1234)))

    def test_reopen(self) -> None:
        """After rotation lines go to the new file; those before went to the old one."""
        self.line(attempts=1)
        os.rename(self.path, self.path + ".1")
        self.successResultOf(self.log.reopen())
        self.line(attempts=2)
        self.clock.advance(FLUSH_SECONDS)
        self.assertIn('"attempts":1,', self.text(self.path + ".1"))
        self.assertIn('"attempts":2,', self.text())
        self.assertEqual(self.text().count("\n"), 1)

    def test_reopen_fails(self) -> None:
        """Where the file cannot be opened anew the old one stays in use."""
        os.rename(self.path, self.path + ".1")
        os.mkdir(self.path)
        with capturedLogs() as logged:
            self.successResultOf(self.log.reopen())
        self.assertEqual(len(logged), 1)
        self.line()
        self.clock.advance(FLUSH_SECONDS)
        self.assertEqual(self.text(self.path + ".1").count("\n"), 1)

    def test_close(self) -> None:
        """Closing writes what waits, and lines after it are nothing."""
        self.line()
        self.successResultOf(self.log.stop())
        self.line()
        self.assertEqual(self.text().count("\n"), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.successResultOf(self.log.stop())

    def test_off(self) -> None:
        """A log that is off opens nothing and keeps nothing."""
        self.log = self.make("off")
        self.line()
        self.assertFalse(self.log.enabled)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.successResultOf(self.log.reopen())
        self.successResultOf(self.log.stop())
        self.assertFalse(os.path.exists("off"))

    def test_standard_output(self) -> None:
        """``-`` is standard output, which stays open when the log is closed."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        kept = os.dup(1)
        os.dup2(writing, 1)
        os.close(writing)
        try:
            self.log = self.make("-")
            self.line()
            self.clock.advance(FLUSH_SECONDS)
            self.successResultOf(self.log.stop())
            os.fstat(1)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        self.assertTrue(os.read(reading, 65536).endswith(b'"estimated":false}\n'))

    def test_cannot_open(self) -> None:
        """A file that cannot be opened stops the start and is named."""
        error = self.assertRaises(OSError, self.make, "/nowhere/access.log")
        self.assertEqual(error.filename, "/nowhere/access.log")

    def test_full_disk(self) -> None:
        """Lines that cannot be written are counted and told; the log goes on."""
        self.log = self.make("/dev/full")
        with capturedLogs() as logged:
            for _ in range(5):
                self.line()
                self.clock.advance(FLUSH_SECONDS)
        self.assertEqual((self.log.dropped, self.log.written), (5, 0))
        self.assertEqual(len(logged), 3)

    def test_disk_that_fills(self) -> None:
        """Wherever a full disk cuts a line off, those that come later stand on lines of their own.

        A reopened log, of another file or of the same, is no different.
        """
        length = len(msgspec.json.encode(access_line(attempts=0))) + 1
        for free in (*range(0, 2 * length, 29), length - 1, length, length + 1):
            for then in ("", "reopen", "rotate"):
                path = os.path.join(self.folder, f"{free}{then}")
                log = self.make(path)
                self.disk.free_bytes = free
                with capturedLogs():
                    for number in range(3):
                        log.line(access_line(attempts=number))
                    self.clock.advance(FLUSH_SECONDS)
                    log.line(access_line(attempts=8))
                    self.clock.advance(FLUSH_SECONDS)
                self.disk.heal()
                before = self.text(path)
                if then == "rotate":
                    os.rename(path, path + ".1")
                if then:
                    self.successResultOf(log.reopen())
                log.line(access_line(attempts=9))
                self.successResultOf(log.stop())
                text = self.text(path)
                *lines, last, end = text.split("\n")
                self.assertEqual((9, ""), (json.loads(last)["attempts"], end), (free, then))
                if then == "rotate":
                    self.assertEqual([], lines)
                    continue
                self.assertTrue(text.startswith(before))
                whole = [json.loads(line) for line in lines if len(line) >= length - 1]
                told = [one["attempts"] for one in whole]
                self.assertEqual(list(range((free + 1) // length)), told)
                self.assertEqual(free // length + bool(free % length), len(lines))
