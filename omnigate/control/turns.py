"""Work for people and their programs: one step of it in each turn of the reactor.

A page takes some milliseconds. Of a hundred that are asked for at once the reactor would make all
before it looks at anybody else. So they stand in line here, and in each turn one of them gets on by
a step. Data planes stand in no line: they wait for one step, however many people there are.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

#: While so many that have begun stand in line, no other begins: each holds what it has gathered.
MAX_BEGUN: Final = 8


class Turns:
    """The line.

    :ivar waiting: how many stand in it.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._new: dict[str, deque[Deferred[None]]] = {}  # by whose it is; the next one first
        self._begun: deque[Deferred[None]] = deque()
        self._began_last = False
        self._is_called = False
        self.waiting = 0

    def begin(self, who: str) -> Deferred[None]:
        """Wait for the turn of work that has not begun.

        :param who: whose it is; they take turns, so nobody waits for all that another one wants.
        """
        return self._stand(self._new.setdefault(who, deque()))

    def go_on(self) -> Deferred[None]:
        """Wait for the next turn of work that has begun."""
        return self._stand(self._begun)

    def _stand(self, line: deque[Deferred[None]]) -> Deferred[None]:
        waiting: Deferred[None] = Deferred()
        line.append(waiting)
        self.waiting += 1
        self._call()
        return waiting

    def _call(self) -> None:
        if self.waiting and not self._is_called:
            self._is_called = True
            self._clock.callLater(0, self._next)

    def _next(self) -> None:
        self._is_called = False
        waiting = self._chosen()
        self.waiting -= 1
        self._call()  # whatever becomes of this one
        waiting.callback(None)

    def _chosen(self) -> Deferred[None]:
        """Take one out of the line: one that has begun and a new one by turns."""
        begun = len(self._begun)
        self._began_last = bool(self._new) and (
            not begun or (begun < MAX_BEGUN and not self._began_last)
        )
        if not self._began_last:
            return self._begun.popleft()
        who = next(iter(self._new))
        line = self._new.pop(who)
        waiting = line.popleft()
        if line:
            self._new[who] = line  # behind everybody else
        return waiting
