"""Stores that crash when they are told to, and a group of them, for tests of the guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from omnigate.control.guard import Crashed
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.testing.writer import SynchronousWriter


class CrashError(Exception):
    """What broke in a store, on purpose."""


@attrs.define(eq=False)
class CrashingStore:
    """A store that does nothing, and as slowly as it is told to.

    :ivar told: notes what is asked of it.
    :ivar slow: the names of methods that answer only when :meth:`go_on` says so.
    :ivar failing: the names of methods that fail.
    """

    name: str
    crashed: Callable[[Failure], None]
    told: list[str]
    slow: set[str] = attrs.Factory(set)
    failing: set[str] = attrs.Factory(set)
    _waiting: list[Deferred[None]] = attrs.Factory(list)

    def crash(self) -> None:
        """Say that something broke."""
        self.crashed(Failure(CrashError(self.name)))

    def go_on(self, error: Exception | None = None) -> None:
        """Let what is slow be done, or fail."""
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            if error is None:
                deferred.callback(None)
            else:
                deferred.errback(error)

    def _do(self, what: str) -> Deferred[None]:
        self.told.append(f"{what} {self.name}")
        if what in self.failing:
            raise CrashError(f"{self.name} does not {what}")
        if what not in self.slow:
            return succeed(None)
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def open(self) -> Deferred[None]:
        """Open it."""
        return self._do("open")

    def close(self) -> Deferred[None]:
        """Close it."""
        return self._do("close")

    def abandon(self) -> Deferred[None]:
        """Let it go."""
        return self._do("abandon")


@attrs.define(eq=False)
class CrashingGroup:
    """A generation of such stores, with one endpoint that needs them, ``/admin/work``.

    :ivar work: what the endpoint waits for.
    """

    stores: Sequence[CrashingStore]
    writers: Sequence[SynchronousWriter]
    number: int
    work: Deferred[None] | None = None
    endpoints: Sequence[Endpoint] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.endpoints = (Endpoint("POST", "/admin/work", self._work, body_limit=1024),)

    async def _work(self, call: Call) -> Answer:
        if self.work is not None:
            await self.work
        return Answer(b'{"generation":%d}' % self.number)


def group(crashed: Crashed, number: int, told: list[str], *names: str) -> CrashingGroup:
    """Make a group of stores of these names, with one writer."""
    stores = [CrashingStore(name, partial(crashed, name), told) for name in names]
    return CrashingGroup(stores, [SynchronousWriter()], number)
