"""What the parent of several workers knows of their figures, and how it asks for the latest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from omnigate.gateway import figures
from omnigate.gateway.figure_changes import Changes, decode_piece
from omnigate.gateway.figure_sums import FigureSums
from omnigate.gateway.plane_figures import collector_parts
from omnigate.metric_families import Part
from omnigate.protocols.worker_channel import Figures

#: How long workers may take to tell their latest figures, in seconds; then what they told last
#: counts. A scraper waits for ten.
ASK_SECONDS: Final = 2.0

#: What the sums call the parent itself.
_PARENT: Final = -1


class WorkerFigures:
    """The sum over all workers.

    :param ask: asks every worker that can answer, with a number to tell again, and returns which.
    :param count: how many workers serve, and how many were started in the place of others so far.
    """

    def __init__(
        self,
        ask: Callable[[int], Collection[int]],
        count: Callable[[], tuple[int, int]],
        clock: IReactorTime,
    ) -> None:
        self._ask = ask
        self._count = count
        self._clock = clock
        self._sums = FigureSums()
        self._own = Changes()
        self._number = 0
        self._missing: set[int] = set()
        self._waiting: tuple[Deferred[None], IDelayedCall] | None = None

    def told(self, worker: int, message: Figures) -> None:
        """Take what a worker tells."""
        self._sums.take(worker, decode_piece(message.figures))
        if message.number == self._number:
            self._answered(worker)

    def gone(self, worker: int) -> None:
        """Note that a worker's process has ended."""
        self._sums.forget(worker)
        self._answered(worker)

    def latest(self) -> Deferred[None]:
        """Ask for the latest figures; asked for by one at a time.

        :return: fires when all have told them, or took too long. It never fails.
        """
        self._number += 1
        self._missing = set(self._ask(self._number))
        if not self._missing:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._waiting = (done, self._clock.callLater(ASK_SECONDS, self._enough))
        return done

    def parts(self) -> Iterator[Part]:
        """Read the sums, a few hundred rows at a time."""
        serving, restarts = self._count()
        own = [
            Part(figures.WORKERS, [((), serving)]),
            Part(figures.RESTARTS, [((), restarts)]),
            *collector_parts(),
        ]
        for piece in self._own.since(own):
            self._sums.take(_PARENT, piece)
        yield from self._sums.parts()

    def _answered(self, worker: int) -> None:
        self._missing.discard(worker)
        if not self._missing and self._waiting is not None:
            self._waiting[1].cancel()
            self._enough()

    def _enough(self) -> None:
        if self._waiting is not None:
            done, _ = self._waiting
            self._waiting = None
            self._missing = set()
            done.callback(None)
