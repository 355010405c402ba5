"""What a worker has to say, on its way into the log of its parent.

All workers and the parent are one daemon with one log, wherever ``twistd`` was told to write it.
So a worker writes its log to standard error, which is a pipe to the parent, one line of JSON for
each event (:func:`observer`); the parent takes the pipe apart again (:class:`LogLines`).  What else
comes on it, the line of a failed start or the last words of an interpreter, is plain text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

import msgspec
from twisted.logger import (
    ILogObserver,
    InvalidLogLevelError,
    LogEvent,
    Logger,
    LogLevel,
    eventAsText,
    textFileLogObserver,
)
from zope.interface import implementer

#: Characters of one event that are kept: a long traceback has 5,000.
MAX_TEXT_CHARS: Final = 16_384

#: Bytes of one line of the pipe: what so many characters come to in JSON, at six each.
MAX_LINE_BYTES: Final = 6 * MAX_TEXT_CHARS + 1024

_STANDARD_ERROR: Final = 2

_encode = msgspec.json.Encoder().encode

_log = Logger(namespace="omnigate.workers")


class LogLine(msgspec.Struct, frozen=True, tag_field="omnigate", tag="log"):
    """One event of a worker's log; ``system`` is what stands in brackets before it."""

    level: str
    system: str
    text: str

    def emit(self, worker: int) -> None:
        """Log it here, under the worker's name."""
        try:
            level = LogLevel.levelWithName(self.level)
        except InvalidLogLevelError:
            level = LogLevel.info
        _log.emit(
            level,
            "worker {worker}: {text}",
            worker=worker,
            text=self.text,
            log_system=self.system,
        )


_decode = msgspec.json.Decoder(LogLine).decode


@implementer(ILogObserver)
class PipeObserver:
    """Writes events to the parent; once it is gone, as text to standard output."""

    def __init__(self, descriptor: int = _STANDARD_ERROR) -> None:
        self._descriptor = descriptor
        self._orphaned: ILogObserver | None = None

    def __call__(self, event: LogEvent) -> None:
        """Take one event."""
        if self._orphaned is not None:
            self._orphaned(event)
            return
        text = eventAsText(event, includeTimestamp=False, includeSystem=False)
        if not text:
            return
        level = event.get("log_level") or LogLevel.info
        system = event.get("log_system") or f"{event.get('log_namespace', '-')}#{level.name}"
        try:
            write_line(self._descriptor, LogLine(level.name, _cut(str(system)[:100]), _cut(text)))
        except OSError:
            assert sys.__stdout__ is not None
            self._orphaned = textFileLogObserver(sys.__stdout__)
            self._orphaned(event)


def observer() -> PipeObserver:
    """Return the observer of a worker; what its ``twistd`` is given as ``--logger``."""
    return PipeObserver()


def write_line(descriptor: int, line: LogLine) -> None:
    """Write one event.

    :raises OSError: nobody reads it.
    """
    left = memoryview(_encode(line) + b"\n")
    while left:
        left = left[os.write(descriptor, left) :]


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS] + " …"


class LogLines:
    """Takes apart what comes from a worker; of a line that is too long the beginning is kept."""

    def __init__(self) -> None:
        self._held = b""
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[LogLine | str]:
        """Yield the events and lines that are whole with ``data``."""
        *whole, rest = (self._held + data).split(b"\n")
        for line in whole:
            if self._skipping:
                self._skipping = False
            elif line:
                yield _read(line[:MAX_LINE_BYTES])
        self._held = rest
        if self._skipping:
            self._held = b""
        elif len(rest) > MAX_LINE_BYTES:
            self._held, self._skipping = b"", True
            yield _read(rest[:MAX_LINE_BYTES])

    def end(self) -> Iterator[LogLine | str]:
        """Yield what came without a line end."""
        if self._held:
            yield _read(self._held)
            self._held = b""


def _read(line: bytes) -> LogLine | str:
    if line.startswith(b'{"omnigate":'):
        try:
            return _decode(line)
        except msgspec.MsgspecError:
            pass
    return line.decode("utf-8", "replace")[:MAX_TEXT_CHARS]
