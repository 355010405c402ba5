"""A turnstile: work that comes all at once is let through one piece in each turn of the reactor."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from twisted.internet.defer import Deferred

from omnigate.errors import GatewayError

#: Batches that wait: each data plane's worker sends one at a time, and a plane has at most 64. A
#: batch has some 300 KB.
MAX_IN_LINE: Final = 64


class Turnstile:
    """Lets one through, then the reactor has a turn for everybody else, then the next.

    A batch of 500 events takes 6 to 8 ms to be read and priced. Several data planes send at the
    same time, and what the reactor finds in one poll it does in one go.

    :param pause: lets the reactor do something else.
    """

    def __init__(self, pause: Callable[[], Awaitable[None]]) -> None:
        self._pause = pause
        self._line: deque[Deferred[None]] = deque()
        self._turning = False

    async def enter(self) -> None:
        """Return when it is one's turn.

        :raises GatewayError: ``overloaded``, where too many wait.
        """
        if len(self._line) >= MAX_IN_LINE:
            raise GatewayError(
                "overloaded",
                f"{MAX_IN_LINE} batches wait to be looked at; send this one again in a second",
                retry_after=1,
            )
        mine: Deferred[None] = Deferred()
        self._line.append(mine)
        if not self._turning:
            self._turning = True
            Deferred.fromCoroutine(self._turn())
        await mine

    async def _turn(self) -> None:
        while self._line:
            await self._pause()
            self._line.popleft().callback(None)
        self._turning = False
