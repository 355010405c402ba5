"""A worker's log on its way to the parent's."""

import io
import os
import sys
import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import LogEvent, Logger, LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from omnigate.workers.log import (
    MAX_LINE_BYTES,
    MAX_TEXT_CHARS,
    LogLine,
    LogLines,
    PipeObserver,
    write_line,
)


def pieces(data: bytes, size: int) -> list[LogLine | str]:
    """What comes out of ``data`` in pieces of a size, and at its end."""
    lines = LogLines()
    found: list[LogLine | str] = []
    for start in range(0, len(data), size):
        found += lines.feed(data[start : start + size])
    return [*found, *lines.end()]


class PipeCase(SynchronousTestCase):
    """With a pipe."""

    def setUp(self) -> None:
        self.reader, self.writer = os.pipe()
        self.addCleanup(self.close)

    def close(self) -> None:
        """Close what is still open."""
        for descriptor in (self.reader, self.writer):
            if descriptor >= 0:
                os.close(descriptor)

    def read(self) -> bytes:
        """What was written; less than a pipe holds."""
        return os.read(self.reader, 65536)


class ObserverTests(PipeCase):
    """What a worker writes."""

    def log(self, level: Any, text: str, **values: object) -> list[LogLine | str]:
        """Log something in a worker; what the parent reads."""
        # A file takes what a pipe without a reader would not.
        with tempfile.TemporaryFile() as file:
            log = Logger(namespace="omnigate.sample", observer=PipeObserver(file.fileno()))
            log.emit(level, text, **values)
            file.seek(0)
            return list(LogLines().feed(file.read()))

    def test_event(self) -> None:
        """Level, where it comes from and text arrive, however many lines it has."""
        self.assertEqual(
            self.log(LogLevel.warn, "{count} are\nmissing", count=3),
            [LogLine("warn", "omnigate.sample#warn", "3 are\nmissing")],
        )

    def test_odd_text(self) -> None:
        """Text that UTF-8 cannot say is said as far as it can be, and a long one is cut."""
        self.assertEqual(
            self.log(LogLevel.info, "{what}", what="\udcff\x1b"),
            [LogLine("info", "omnigate.sample#info", "?\x1b")],
        )
        (line,) = self.log(LogLevel.info, "{what}", what="\x1f" * 2 * MAX_TEXT_CHARS)
        assert isinstance(line, LogLine)
        self.assertLess(len(line.text), MAX_TEXT_CHARS + 10)

    def test_failure(self) -> None:
        """A traceback comes with the event."""
        observer = PipeObserver(self.writer)
        log = Logger(namespace="omnigate.sample", observer=observer)
        try:
            raise ValueError("odd")
        except ValueError:
            log.failure("it broke")
        (line,) = LogLines().feed(self.read())
        assert isinstance(line, LogLine)
        self.assertIn("it broke", line.text)
        self.assertIn("ValueError: odd", line.text)
        self.assertEqual(line.level, "critical")

    def test_parent_is_gone(self) -> None:
        """Then the log goes to standard output, as that of a plane that is alone."""
        out = io.StringIO()
        self.patch(sys, "__stdout__", out)
        os.close(self.reader)
        self.reader = -1
        log = Logger(namespace="omnigate.sample", observer=PipeObserver(self.writer))
        log.info("one")
        log.info("two")
        first, second = out.getvalue().splitlines()
        self.assertIn("[omnigate.sample#info] one", first)
        self.assertIn("[omnigate.sample#info] two", second)

    def test_parent_logs_it(self) -> None:
        """In the parent's log the event has the worker's name and its own level."""
        events: list[LogEvent] = []
        note: Any = events.append
        globalLogPublisher.addObserver(note)
        self.addCleanup(globalLogPublisher.removeObserver, note)
        LogLine("warn", "omnigate.sample#warn", "it {is} odd").emit(2)
        LogLine("nonsense", "-", "fine").emit(0)
        told = [
            (event["log_level"].name, event["log_system"], event["log_format"].format(**event))
            for event in events
            if "worker" in event
        ]
        self.assertEqual(
            told,
            [
                ("warn", "omnigate.sample#warn", "worker 2: it {is} odd"),
                ("info", "-", "worker 0: fine"),
            ],
        )


class LogLinesTests(PipeCase):
    """What the parent takes apart."""

    @settings(max_examples=100)
    @given(
        st.lists(
            st.one_of(
                st.builds(LogLine, st.just("info"), st.text(max_size=8), st.text(max_size=20)),
                st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=20),
            ),
            max_size=5,
        ),
        st.integers(1, 50),
    )
    def test_lines(self, lines: list[LogLine | str], size: int) -> None:
        """Events and plain lines come out as they went in, however they are cut."""
        reader, writer = os.pipe()
        for line in lines:
            if isinstance(line, LogLine):
                write_line(writer, line)
            else:
                os.write(writer, line.encode() + b"\n")
        os.close(writer)
        with open(reader, "rb") as file:
            data = file.read()
        self.assertEqual(pieces(data, size), lines)

    def test_end_without_line_end(self) -> None:
        """The last words of an interpreter count, whether they are a line or not."""
        self.assertEqual(
            pieces(b"Killed\n\nSegmentation fault", 7), ["Killed", "Segmentation fault"]
        )

    def test_no_event(self) -> None:
        """What only looks like an event is a plain line."""
        for text in ('{"omnigate":"log"}', '{"omnigate":', "{}", '{"omnigate":"log","level":1}'):
            self.assertEqual(pieces(text.encode() + b"\n", 100), [text])

    def test_too_long(self) -> None:
        """Of a line without end the beginning is kept, once, and what follows it is read again."""
        data = b"x" * (5 * MAX_LINE_BYTES) + b"\nnext\n"
        for size in (1000, 65536, len(data)):
            found = pieces(data, size)
            self.assertEqual(found, ["x" * MAX_TEXT_CHARS, "next"])

    def test_longest_event(self) -> None:
        """The longest event that a worker writes is read."""
        line = LogLine("info", "-", "\x01" * MAX_TEXT_CHARS)
        with tempfile.TemporaryFile() as file:
            write_line(file.fileno(), line)
            file.seek(0)
            self.assertEqual(pieces(file.read(), 65536), [line])
