"""A worker tells its parent what it has counted: every second, and when it is asked.

What is told every second is what a scrape knows of a worker that was killed since. A line that the
parent does not read is not filled up: what is not told now is told later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from omnigate.gateway.figure_changes import Changes, encode_piece
from omnigate.metric_families import Part
from omnigate.protocols.worker_channel import Figures

#: How often changes are told, in seconds.
TELL_SECONDS: Final = 1.0

#: Of more rows than this the changes are told so many times less often: to go through 20,000 takes
#: some 15 milliseconds, a few hundred at a time.
ROWS_A_SECOND: Final = 20_000

_NOTHING: Final = msgspec.Raw(b"[]")


class Line(Protocol):
    """The line to the parent."""

    @property
    def is_read(self) -> bool:
        """Whether the parent reads what it is sent."""

    def send(self, message: Figures) -> None:
        """Send a message."""


class FigureTeller:
    """See the module's docstring.

    :param read: reads all figures, a few hundred at a time.
    """

    log = Logger()

    def __init__(self, read: Callable[[], Iterable[Part]], line: Line, clock: IReactorTime) -> None:
        self._read = read
        self._line = line
        self._clock = clock
        self._changes = Changes()
        self._busy = False
        self._again = False
        self._asked = 0
        self._waiting: list[Deferred[None]] = []
        self._seconds_to_wait = 0
        self._loop = LoopingCall(self._second)
        self._loop.clock = clock

    def start(self) -> None:
        """Begin to tell."""
        self._loop.start(TELL_SECONDS, now=False)

    def wanted(self, number: int) -> None:
        """Tell all that there is by now, and then this number."""
        self._asked = number
        self._again = True
        self._tell_unless_busy()

    def stop(self) -> Deferred[None]:
        """Tell all that there is by now, and nothing after it.

        :return: fires when it is told; it never fails.
        """
        if self._loop.running:
            self._loop.stop()
        stopped: Deferred[None] = Deferred()
        self._waiting.append(stopped)
        self._again = True
        self._tell_unless_busy()
        return stopped

    def _second(self) -> None:
        if self._seconds_to_wait:
            self._seconds_to_wait -= 1
        else:
            self._tell_unless_busy()

    def _tell_unless_busy(self) -> None:
        if not self._busy:
            self._busy = self._again = True
            Deferred.fromCoroutine(self._tell()).addErrback(
                lambda failure: self.log.failure("figures cannot be told", failure)
            ).addCallback(lambda _: self._told())

    async def _tell(self) -> None:
        while self._again:
            # Whoever asks from now on may mean what was passed already.
            self._again = False
            number, self._asked = self._asked, 0
            for piece in self._changes.since(self._read()):
                if piece:
                    self._line.send(Figures(0, msgspec.Raw(encode_piece(piece))))
                # The others have their turn.
                await self._turn()
                if not self._line.is_read:
                    return
            self._seconds_to_wait = self._changes.rows // ROWS_A_SECOND
            if number:
                self._line.send(Figures(number, _NOTHING))
                await self._turn()

    def _told(self) -> None:
        self._busy = False
        waiting, self._waiting = self._waiting, []
        for stopped in waiting:
            stopped.callback(None)

    def _turn(self) -> Deferred[None]:
        turn: Deferred[None] = Deferred()
        self._clock.callLater(0, turn.callback, None)
        return turn
