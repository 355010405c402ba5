"""The ``date`` line of our answers (RFC 9110 §6.6.1), made once a second and not for each."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from math import nan

from omnigate.protocols.watchdog import Watchdog


class HttpDate:
    """Tells the time to as many answers as ask, out of one line.

    The clock is looked at once a sweep, so the line may lag by one sweep's interval.

    :param wall: seconds since 1970.
    """

    __slots__ = ("_line", "_read_at", "_second", "_wall", "_watchdog")

    def __init__(self, watchdog: Watchdog, wall: Callable[[], float]) -> None:
        self._watchdog = watchdog
        self._wall = wall
        self._read_at = nan
        self._second = -1
        self._line = b""

    def line(self) -> bytes:
        """The header line, with its CRLF."""
        now = self._watchdog.now
        if now != self._read_at:
            self._read_at = now
            self._read()
        return self._line

    def _read(self) -> None:
        second = int(self._wall())
        if second != self._second:
            self._second = second
            self._line = b"date: %b\r\n" % formatdate(second, usegmt=True).encode("ascii")
