"""Looks names up: both families, once for all who ask at the same time, and few at once.

A look-up sits in a thread of the reactor for as long as the system's resolver likes, half a minute
and more where a name server is silent. Nobody waits that long here, but the thread does; so there
is a bound on them, or the names of one webhook would keep everybody from the threads.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHostResolution, IResolutionReceiver
from zope.interface import implementer

#: Look-ups at once of one of three kinds of names; the reactor has ten threads for all.
AT_ONCE: Final = 3


@implementer(IResolutionReceiver)
class _Lookup:
    """One name that is looked up, and who waits for it."""

    def __init__(self, owner: Lookups, name: str) -> None:
        self.name = name
        self.waiting: list[Deferred[list[str]]] = []
        self._owner = owner
        self._numbers: list[str] = []

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:  # noqa: N802, N803
        """It goes on in a thread; there is no way to stop it."""

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802
        """One of the addresses."""
        number = getattr(address, "host", "")
        if number not in self._numbers:
            self._numbers.append(number)

    def resolutionComplete(self) -> None:  # noqa: N802
        """That was all."""
        self._owner.looked_up(self, self._numbers)


class Lookups:
    """The names of one kind, such as those that clients write.

    :param reactor: has the name resolver.
    """

    def __init__(self, reactor: Any, at_once: int = AT_ONCE) -> None:
        self._reactor = reactor
        self._at_once = at_once
        self._running: dict[str, _Lookup] = {}
        self._waiting: OrderedDict[str, _Lookup] = OrderedDict()

    def __call__(self, name: str) -> Deferred[list[str]]:
        """Fire with the addresses of a name as text; with none where it has none."""
        lookup = self._running.get(name) or self._waiting.get(name)
        if lookup is None:
            lookup = self._waiting[name] = _Lookup(self, name)
        waiting = lookup.waiting
        result: Deferred[list[str]] = Deferred(lambda result: self._leave(lookup, result))
        waiting.append(result)
        self._begin()
        return result

    def looked_up(self, lookup: _Lookup, numbers: list[str]) -> None:
        """Tell all who wait for it, and begin another."""
        self._running.pop(lookup.name, None)
        waiting, lookup.waiting = lookup.waiting, []
        for result in waiting:
            result.callback(list(numbers))
        self._begin()

    def _leave(self, lookup: _Lookup, result: Deferred[list[str]]) -> None:
        lookup.waiting.remove(result)
        if not lookup.waiting:
            self._waiting.pop(lookup.name, None)

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            name, lookup = self._waiting.popitem(last=False)
            self._running[name] = lookup
            self._reactor.nameResolver.resolveHostName(lookup, name)
