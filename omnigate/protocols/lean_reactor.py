"""Twisted's epoll reactor with fewer steps between the kernel and a protocol.

Chosen with ``twistd --reactor=omnigate``.  Three differences, without effect on what a protocol
sees: a descriptor that is readable and nothing else is read straight away, without the logging
context around each event; TCP connections write directly
(:mod:`omnigate.protocols.direct_tcp`); and timers go by the monotonic clock, so that a machine
whose wall clock is put back does not stand still, nor cut every stream when it is put forward.
Everything runs on the stock reactors too, only dearer.
"""

from __future__ import annotations

import sys
import time
from errno import EINTR
from select import EPOLLIN
from socket import AF_INET, AF_INET6
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IConnector, IListeningPort, IProtocolFactory
from twisted.internet.main import installReactor
from twisted.internet.protocol import ClientFactory, ServerFactory
from twisted.logger import Logger

from omnigate.protocols.direct_tcp import DirectConnector, DirectPort

#: Events taken from one poll: enough that a busy loop seldom polls, few enough that timers and
#: new connections get their turn.
MAX_EVENTS = 256


class LeanReactor(EPollReactor):
    """See the module's docstring."""

    lean_log = Logger()

    seconds = staticmethod(time.monotonic)

    def doPoll(self, timeout: float | None) -> None:
        """Wait for events and act on them."""
        try:
            events = self._poller.poll(-1 if timeout is None else timeout, MAX_EVENTS)
        except OSError as error:
            if error.errno == EINTR:
                return
            raise
        selectables = self._selectables
        for fd, event in events:
            selectable = selectables.get(fd)
            if selectable is None:
                continue
            if event != EPOLLIN:
                self._doReadOrWrite(selectable, fd, event)  # type: ignore[no-untyped-call]
                continue
            try:
                why = selectable.doRead()
            except BaseException:
                why = sys.exc_info()[1]
                self.lean_log.failure("a descriptor could not be read")
            if why:
                self._disconnectSelectable(  # type: ignore[no-untyped-call]
                    selectable, why, True
                )

    doIteration = doPoll

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
    installReactor(LeanReactor())  # type: ignore[no-untyped-call]
