"""Twisted's epoll reactor with fewer steps between the kernel and a protocol.

Chosen with ``twistd --reactor=omnigate``.  Five differences, without effect on what a protocol
sees: a descriptor that is readable and nothing else is read straight away, without the logging
context around each event; TCP connections write directly
(:mod:`omnigate.protocols.direct_tcp`); what they write while the events of one poll are acted on
is sent together after the last of them (:mod:`omnigate.protocols.gathering`) where a poll has more
than a few; a poll takes as many events as timers can wait for; and timers go by the monotonic
clock, so that a machine whose wall clock is put back does not stand still, nor cut every stream
when it is put forward.  Everything runs on the stock reactors too, only dearer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from errno import EINTR
from select import EPOLLIN, EPOLLOUT
from socket import AF_INET, AF_INET6
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IConnector, IListeningPort, IProtocolFactory
from twisted.internet.main import installReactor
from twisted.internet.protocol import ClientFactory, ServerFactory
from twisted.logger import Logger

from omnigate.protocols.direct_tcp import DirectConnector, DirectPort
from omnigate.protocols.gathering import FEW_EVENTS, MAX_GATHERED, Gathering

#: Events taken from one poll: enough that a busy loop seldom polls, few enough that timers and
#: new connections get their turn.
MAX_EVENTS = 256

#: Events taken at first, and where each takes long.
FIRST_EVENTS = 16
FEWEST_EVENTS = 8

#: Timers, and what threads have handed over, wait for all events of a poll. Where that took longer,
#: in seconds, the next poll takes fewer; those left over it has told first.
TURN_SECONDS = 0.006


class LeanReactor(EPollReactor):
    """See the module's docstring.

    :ivar gathering: where connections put aside what they write; ``None`` but in a turn, which is
        while the events of one poll are acted on, and in a turn of few events.
    :ivar few_events: up to so many events of a poll nothing is put aside: what is written goes to
        the socket at once, as on a stock reactor with the same transports.
    """

    lean_log = Logger()

    few_events = FEW_EVENTS

    seconds = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.gathering: Gathering | None = None
        self._gathering = Gathering()
        self._most = FIRST_EVENTS
        super().__init__()  # type: ignore[no-untyped-call]

    def before_sends(self, call: Callable[[], None]) -> bool:
        """Have ``call`` made once, before anything more of this turn is sent.

        :return: False outside of a turn, where what is written is sent at once; ``call`` is not
            made then.
        """
        gathering = self.gathering
        if gathering is None:
            return False
        gathering.first(call)
        return True

    def doPoll(self, timeout: float | None) -> None:
        """Wait for events, act on them, and send what connections wrote meanwhile."""
        try:
            events = self._poller.poll(-1 if timeout is None else timeout, self._most)
        except OSError as error:
            if error.errno == EINTR:
                return
            raise
        gathering = self._gathering
        count = len(events)
        began = self.seconds() if count >= FEWEST_EVENTS else None
        if count > self.few_events:
            self.gathering = gathering
        waiting = gathering.waiting
        selectables = self._selectables
        try:
            for fd, event in events:
                selectable = selectables.get(fd)
                if selectable is None:
                    continue
                if event != EPOLLIN:
                    self._more_than_read(selectable, fd, event)
                else:
                    try:
                        why = selectable.doRead()
                    except BaseException:
                        why = sys.exc_info()[1]
                        self.lean_log.failure("a descriptor could not be read")
                    if why:
                        self._guarded(self._disconnectSelectable, selectable, why, True)
                if len(waiting) >= MAX_GATHERED:
                    gathering.send()
        finally:
            self.gathering = None
            gathering.send()
        if began is not None:
            self._took(count, self.seconds() - began)

    def _took(self, count: int, seconds: float) -> None:
        """Have the next poll take as many events as there is time for."""
        if seconds > TURN_SECONDS:
            self._most = max(FEWEST_EVENTS, count // 2)
        elif count == self._most and seconds < TURN_SECONDS / 6:
            self._most = min(MAX_EVENTS, 2 * count)

    doIteration = doPoll

    def _more_than_read(self, selectable: Any, fd: int, event: int) -> None:
        """Act on an event with which a descriptor may send of its queue.

        It is read first, if it can be; what is asked for then comes before it sends, too.
        """
        if event & EPOLLIN and event & EPOLLOUT:
            self._guarded(self._doReadOrWrite, selectable, fd, event & ~EPOLLOUT)
            if self._selectables.get(fd) is not selectable:
                return
            event = EPOLLOUT
        self._gathering.call_first()
        self._guarded(self._doReadOrWrite, selectable, fd, event)

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        """Act on one descriptor; what it does not bear must not keep the others waiting."""
        try:
            act(*arguments)
        except Exception:
            self.lean_log.failure("the end of a connection could not be told")

    def listenTCP(
        self, port: int, factory: ServerFactory, backlog: int = 50, interface: str = ""
    ) -> IListeningPort:
        """Listen, with connections that write directly."""
        listening: Any = DirectPort(port, factory, backlog, interface, self)
        listening.startListening()
        return listening  # type: ignore[no-any-return]

    def connectTCP(
        self,
        host: str,
        port: int,
        factory: ClientFactory[Any],
        timeout: float = 30.0,
        bindAddress: Any = None,  # noqa: N803
    ) -> IConnector:
        """Connect, with a connection that writes directly."""
        connector: Any = DirectConnector(host, port, factory, timeout, bindAddress, self)
        connector.connect()
        return connector  # type: ignore[no-any-return]

    def adoptStreamPort(
        self,
        fileDescriptor: int,  # noqa: N803
        addressFamily: int,  # noqa: N803
        factory: IProtocolFactory,
    ) -> IListeningPort:
        """Take over a listening socket, from systemd or from a parent process."""
        listening: Any
        if addressFamily in (AF_INET, AF_INET6):
            listening = DirectPort._fromListeningDescriptor(  # type: ignore[no-untyped-call]
                self, fileDescriptor, addressFamily, factory
            )
            listening.startListening()
        else:
            listening = super().adoptStreamPort(  # type: ignore[no-untyped-call]
                fileDescriptor, addressFamily, factory
            )
        return listening  # type: ignore[no-any-return]


def install() -> None:
    """Make it the process's reactor; nothing else may have installed one before."""
    installReactor(LeanReactor())
