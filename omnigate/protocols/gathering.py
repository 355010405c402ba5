"""What the connections of one reactor put aside in a turn, to be sent together.

To send wakes the process at the other end, and that costs most of a send: a switch to the peer
and back, or a call to another core.  Where the sends of many connections follow one another, a
peer is awake already and finds more of its work done.  So in a turn of
:class:`~omnigate.protocols.lean_reactor.LeanReactor` connections put aside what they write, and
the reactor has it sent at the turn's end, or earlier when much waits; not in a turn of few events
(:data:`FEW_EVENTS`).

Whoever has to do something before any of it is sent asks for that with :meth:`Gathering.first`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.logger import Logger

#: Connections that wait until all are sent. Half of what there is to gain is there with four, and
#: next to nothing is gained beyond sixteen; by then the first has waited for the work of sixteen
#: events, some 30 us each: under a millisecond.
MAX_GATHERED = 16

#: Events of a poll that are not worth gathering for: so few sends wake their peers as often, and to
#: put aside costs half a microsecond each.
FEW_EVENTS = 3

#: Bytes put aside of one connection; what is more is sent at once. Small writes are joined; to
#: join large ones, or hold them back, costs more than a send.
MAX_ASIDE_BYTES = 65536


class PutsAside(Protocol):
    """A connection that has put something aside."""

    def send_aside(self) -> None:
        """Send it now."""


class Gathering:
    """See the module's docstring.

    :ivar waiting: the connections that have put something aside, in the order of their writes.
    """

    __slots__ = ("_first", "waiting")

    _log = Logger()

    def __init__(self) -> None:
        self.waiting: list[PutsAside] = []
        self._first: list[Callable[[], None]] = []

    def first(self, call: Callable[[], None]) -> None:
        """Have ``call`` made once, before anything more is sent."""
        self._first.append(call)

    def call_first(self) -> None:
        """Make the calls that come before a send."""
        calls, self._first = self._first, []
        for call in calls:
            try:
                call()
            except BaseException:
                self._log.failure("a call before the sends of a turn failed")

    def send(self) -> None:
        """Send all that was put aside; one that fails is logged and hinders no other."""
        if self._first:
            self.call_first()
        waiting = self.waiting
        # One may be added meanwhile, by a producer that is told to pause: it has its turn as well,
        # and so has a call that is to come before.
        for connection in waiting:
            if self._first:
                self.call_first()
            try:
                connection.send_aside()
            except BaseException:
                self._log.failure("a connection could not be sent what was put aside for it")
        waiting.clear()
