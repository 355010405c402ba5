"""How far a long reading is, told on standard error."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

#: On a terminal the one line changes ten times a second at most.
TERMINAL_SECONDS = 0.1

#: Elsewhere, in a log say, each telling is a line of its own.
LINE_SECONDS = 5.0

_ERASE = "\r\033[K"


class Progress:
    """Tells how many bytes of all are done.

    On a terminal that is one line that changes and is gone at the end. Elsewhere nothing is told
    unless it was asked for.

    :param total_bytes: how many there are to do; more may come, while somebody writes.
    :param asked: whether to tell where there is no terminal, too.
    """

    def __init__(
        self,
        total_bytes: int,
        asked: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total_bytes
        self._stream = stream or sys.stderr
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._told = self._terminal or asked
        self._pause = TERMINAL_SECONDS if self._terminal else LINE_SECONDS
        self._next = clock() + self._pause
        self._shown = False

    def __call__(self, done_bytes: int) -> None:
        """Tell how far it is, unless that was told just now."""
        if not self._told:
            return
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._pause
        text = _share(done_bytes, max(self._total, done_bytes))
        if self._terminal:
            self._stream.write(_ERASE + text)
            self._stream.flush()
            self._shown = True
        else:
            print(text, file=self._stream)

    def clear(self) -> None:
        """Make room for something else to be written."""
        if self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._shown = False


def _share(done: int, total: int) -> str:
    """How far it is, in words."""
    percent = 100 * done // total if total else 100
    return f"{_megabytes(done)} of {_megabytes(total)} MB read, {percent} %"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f}"
