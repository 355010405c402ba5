"""Bodies that are work to take in: all together only so much of them in one turn of the reactor.

Taking base64 out of 64 KiB of JSON takes a millisecond. Where sixty answers arrive at once, the
reactor would look at sixty sockets before it looks at anybody else. So when a turn has had its
share, all of them are paused until the next one, and what was read already, 64 KiB of each at most,
is kept till then. None waits for another one's end, however slowly that comes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from omnigate.outbound.messages import Pausable, Sink

#: Bytes that are taken in one turn: four reads, some 5 ms.
BYTES_PER_TURN: Final = 256 * 1024


class TurnBudget:
    """The share of all bodies in a turn."""

    def __init__(self, clock: IReactorTime, most: int = BYTES_PER_TURN) -> None:
        self._clock = clock
        self._most = most
        self._sinks: dict[BudgetSink, None] = {}
        self._used = 0
        self._is_called = False

    @property
    def is_spent(self) -> bool:
        """Whether this turn has had its share."""
        return self._used >= self._most

    def enter(self, sink: BudgetSink) -> None:
        """Have a body take part."""
        self._sinks[sink] = None

    def leave(self, sink: BudgetSink) -> None:
        """Have it take part no more."""
        self._sinks.pop(sink, None)

    def spend(self, size: int) -> None:
        """Count what was taken in; pause everybody where that is enough."""
        was_spent = self.is_spent
        self._used += size
        if not self._is_called:
            self._is_called = True
            self._clock.callLater(0, self._begin_anew)
        if self.is_spent and not was_spent:
            for sink in tuple(self._sinks):
                sink.hold()

    def _begin_anew(self) -> None:
        self._is_called = False
        was_spent, self._used = self.is_spent, 0
        if was_spent:
            for sink in tuple(self._sinks):
                if self.is_spent:
                    break  # the rest stays held
                if sink in self._sinks:
                    # Behind all others, so that each has its turn.
                    self._sinks[sink] = self._sinks.pop(sink)
                    sink.let_go()


class BudgetSink:
    """A :class:`~omnigate.outbound.messages.Sink` before another one, which takes part.

    It is the source of the one behind it, which may pause it, too.
    """

    def __init__(self, behind: Sink, budget: TurnBudget) -> None:
        self._behind = behind
        self._budget = budget
        self._source: Pausable | None = None
        self._is_held = self._is_paused = False
        self._kept: deque[bytes] = deque()
        self._ending: Deferred[None] | None = None
        self._failure: Failure | None = None

    # -- what the body comes through ----------------------------------------------------------

    def begin(self, source: Pausable) -> None:
        """Get ready."""
        self._source = source
        self._budget.enter(self)
        self._behind.begin(self)
        if self._budget.is_spent:
            self.hold()

    def write(self, data: bytes) -> None:
        """Take a piece, or keep it for the next turn.

        :raises Exception: what the sink behind has said of this one, or of one before.
        """
        if self._failure is not None:
            self._failure.raiseException()
        if self._is_held:
            self._kept.append(data)
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._behind.write(data)
        self._budget.spend(len(data))

    def finish(self) -> Deferred[None]:
        """The body is whole."""
        if self._failure is not None:
            return fail(self._failure)
        if self._kept:
            self._ending = Deferred()
            return self._ending
        self._budget.leave(self)
        return self._behind.finish()

    def abandon(self) -> None:
        """There will be no more."""
        self._kept.clear()
        self._ending = None
        self._budget.leave(self)
        self._behind.abandon()

    # -- what stops it ------------------------------------------------------------------------

    def hold(self) -> None:
        """Wait for the next turn."""
        self._is_held = True
        self._stop_or_go()

    def let_go(self) -> None:
        """Go on, with what was kept at first."""
        try:
            while self._kept and not self._budget.is_spent:
                self._take(self._kept.popleft())
        except Exception:
            # Told with the next piece, or at the end.
            self._failure = Failure()
            self._kept.clear()
        if self._kept:
            return
        ending, self._ending = self._ending, None
        if ending is not None:
            self._budget.leave(self)
            done = self._behind.finish() if self._failure is None else fail(self._failure)
            done.chainDeferred(ending)
        elif not self._budget.is_spent:
            self._is_held = False
            self._stop_or_go()

    def pause(self) -> None:
        """Wait for the one behind."""
        self._is_paused = True
        self._stop_or_go()

    def resume(self) -> None:
        """Go on."""
        self._is_paused = False
        self._stop_or_go()

    def _stop_or_go(self) -> None:
        assert self._source is not None
        if self._is_held or self._is_paused:
            self._source.pause()
        else:
            self._source.resume()
