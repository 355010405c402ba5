"""Who may have a connection next: a bound on all of them, and on those of one server.

Servers have their turns one after the other, and those who wait for one server in the order they
came; so a server that answers slowly keeps only its own callers waiting.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred, fail

#: Connections at once, to all servers: half of the 1,024 open files that a process has by default.
MAX_CONNECTIONS: Final = 512
#: Connections at once to one server, so that one that hangs leaves as many for the others.
MAX_TO_ONE: Final = 256
#: Callers that wait; as many as jobs run at once at most are some hundreds, and each has one call.
MAX_WAITING: Final = 10_000
#: Turns given in one turn of the reactor: to begin a connection takes 1 ms, or 2 on a slow core.
GIVEN_AT_ONCE: Final = 4


class TooManyWaitingError(Exception):
    """The queue is full."""


class Turns:
    """Gives turns, each of which is given back once.

    :param call_soon: calls when the reactor has seen to everybody else.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        max_in_all: int = MAX_CONNECTIONS,
        max_to_one: int = MAX_TO_ONE,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._call_soon = call_soon
        self._max_in_all = max_in_all
        self._max_to_one = max_to_one
        self._max_waiting = max_waiting
        # Servers that somebody waits for, the next one first.
        self._waiting: OrderedDict[str, deque[Deferred[None]]] = OrderedDict()
        self._taken: dict[str, int] = {}
        self._asked = False
        self.waiting = 0
        self.taken = 0

    def take(self, server: str) -> Deferred[None]:
        """Wait for a turn; fails with :exc:`TooManyWaitingError`. Who cancels it waits no more."""
        if self.waiting >= self._max_waiting:
            return fail(TooManyWaitingError(f"{self.waiting} requests wait for a connection"))
        turn: Deferred[None] = Deferred(lambda turn: self._leave(server, turn))
        self._waiting.setdefault(server, deque()).append(turn)
        self.waiting += 1
        self._give_soon()
        return turn

    def give_back(self, server: str) -> None:
        """End a turn."""
        self.taken -= 1
        left = self._taken[server] - 1
        if left:
            self._taken[server] = left
        else:
            del self._taken[server]
        if self.waiting:
            self._give_soon()

    def _leave(self, server: str, turn: Deferred[None]) -> None:
        queue = self._waiting[server]
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._waiting[server]

    def _give_soon(self) -> None:
        if not self._asked:
            self._asked = True
            self._call_soon(self._give)

    def _give(self) -> None:
        self._asked = False
        for _ in range(GIVEN_AT_ONCE):
            if self.taken >= self._max_in_all:
                return
            server = next(filter(self._has_room, self._waiting), None)
            if server is None:
                return
            queue = self._waiting[server]
            turn = queue.popleft()
            self.waiting -= 1
            if queue:
                self._waiting.move_to_end(server)
            else:
                del self._waiting[server]
            self.taken += 1
            self._taken[server] = self._taken.get(server, 0) + 1
            turn.callback(None)
        if self.waiting:
            self._give_soon()

    def _has_room(self, server: str) -> bool:
        return self._taken.get(server, 0) < self._max_to_one
