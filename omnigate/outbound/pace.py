"""Spreads work that is short, but may come a hundredfold at once, over turns of the reactor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from twisted.logger import Logger

#: What is done in one turn. A step of a TLS handshake takes 1 to 3 ms.
DONE_AT_ONCE: Final = 2

_log = Logger()


class Pace:
    """Calls in the order in which it was asked to; there are as many as connections at most.

    :param reactor: has the turns.
    """

    def __init__(self, reactor: Any, done_at_once: int = DONE_AT_ONCE) -> None:
        self._reactor = reactor
        self._done_at_once = done_at_once
        self._waiting: deque[Callable[[], None]] = deque()
        self._asked = False

    def __call__(self, call: Callable[[], None]) -> None:
        """Have this called in one of the next turns."""
        self._waiting.append(call)
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._asked = False
        for _ in range(min(self._done_at_once, len(self._waiting))):
            try:
                self._waiting.popleft()()
            except Exception:
                _log.failure("a step of a connection failed")
        if self._waiting:
            self._ask()
