# mypy: allow-untyped-calls
# (twisted's services and reactors carry no types)
"""A worker: the data plane as one of several processes on one port, under a parent.

It listens on the socket that the parent has opened, says to the parent what a plane that is alone
says to systemd, and stops when the parent says so or is gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from itertools import chain
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.protocol import Factory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from omnigate.daemon import Ending, endpoint_of, refuse_start
from omnigate.data_parts import data_service
from omnigate.data_tap import LISTEN, PROGRAM
from omnigate.gateway.figure_teller import FigureTeller
from omnigate.gateway.plane_figures import PlaneFigures, collector_parts
from omnigate.gateway.service import DataService
from omnigate.gateway.shared_uses import CONNECTIONS, SharedUses, SharedUsesError
from omnigate.gateway.worker_spools import worker_path
from omnigate.protocols.inherited_port import Counts, inherit_port
from omnigate.protocols.worker_channel import (
    ALIVE_SECONDS,
    Alive,
    Channel,
    Down,
    Drain,
    FiguresWanted,
    Hangup,
    Hurry,
    Ready,
    Status,
    decode_down,
)
from omnigate.settings import DataSettings
from omnigate.systemd_notify import READY
from omnigate.tls_endpoint import inherited
from omnigate.workers.seat import WorkerSeat, seat_fault

_STATUS = "STATUS="

_FROM_SYSTEMD = re.compile(r"(^|:)systemd:.*", re.DOTALL)

_log = Logger(namespace="omnigate.workers")


class WorkerEnding(Ending):
    """How a worker ends: as its parent says, or by a signal of its own, or without a parent."""

    def __init__(self, program: str, reactor: Any) -> None:
        super().__init__(program, reactor, in_front=True)
        self._hangup: Callable[[], object] | None = None

    def on_hangup(self, call: Callable[[], object]) -> None:
        """Call ``call`` when the parent passes SIGHUP on, and at one of its own."""
        super().on_hangup(call)
        self._hangup = call

    def heard(self, message: Down) -> None:
        """Do what the parent says."""
        if isinstance(message, Hangup):
            if self._hangup is not None:
                self._hangup()
        elif isinstance(message, Drain):
            self.stop()
        elif isinstance(message, Hurry):
            self.stop()
            self.hurry()

    def _asked_to_stop(self) -> None:
        """Take a signal; the parent may have said the same just before, so one is no hurry."""
        self.stop()
        if self._signals > 1:
            self.hurry()

    def orphaned(self) -> None:
        """Stop, since the parent is gone: another one may want the port and the files."""
        if not self.stopping:
            _log.warn("the parent of this worker is gone; it stops")
            self.stop()


class InheritingReactor:
    """The reactor, but for listening: whatever an endpoint asks for is the inherited socket.

    :param descriptor: of the socket; the first port takes it.
    :param counts: the connections of each worker, see :class:`FairShare`, as is ``index``.
    """

    def __init__(self, reactor: Any, descriptor: int, counts: Counts, index: int) -> None:
        self._reactor = reactor
        self._descriptor = descriptor
        self._counts = counts
        self._index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def _port(self, factory: IProtocolFactory) -> IListeningPort:
        return inherit_port(self._reactor, self._descriptor, factory, self._counts, self._index)

    def listenTCP(
        self, port: int, factory: IProtocolFactory, backlog: int = 50, interface: str = ""
    ) -> IListeningPort:
        """For ``tcp:`` and ``tcp6:``."""
        return self._port(factory)

    def listenSSL(  # noqa: N802
        self,
        port: int,
        factory: IProtocolFactory,
        contextFactory: Any,  # noqa: N803
        backlog: int = 50,
        interface: str = "",
    ) -> IListeningPort:
        """For ``ssl:``."""
        # Most need no OpenSSL.
        from omnigate.certificate_files import TlsFactory

        return self._port(TlsFactory(contextFactory, False, factory))

    def listenUNIX(  # noqa: N802
        self,
        address: str,
        factory: IProtocolFactory,
        backlog: int = 50,
        mode: int = 0o666,
        wantPID: bool = False,  # noqa: N803
    ) -> IListeningPort:
        """For ``unix:``."""
        return self._port(factory)


def endpoint_text(listen: str) -> str:
    """Return the endpoint string for a worker.

    What systemd handed over is a socket like any other by now, and is not found under its name.
    """
    return _FROM_SYSTEMD.sub(r"\1tcp:0", inherited(listen))


def own_files(settings: DataSettings, seat: WorkerSeat) -> DataSettings:
    """Return the settings with file names of this worker's own; the first keeps the plain ones.

    The copy of the config is one for all, so that a worker that was not there before has one to
    start from, too.
    """
    return attrs.evolve(settings, spool=worker_path(settings.spool, seat.index))


def worker_service(settings: DataSettings, seat: WorkerSeat, reactor: Any) -> Service:
    """Put a worker together; what is wrong ends the start with its line, which the parent reads."""
    # Signals of the terminal are for the parent, which then stops its workers in order.
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    ending = WorkerEnding(PROGRAM, reactor)
    teller: FigureTeller | None = None

    def heard(message: Down) -> None:
        if not isinstance(message, FiguresWanted):
            ending.heard(message)
        elif teller is not None:
            teller.wanted(message.number)

    channel = Channel(decode_down, heard, ending.orphaned)
    _connect(reactor, seat.channel_fd, channel)
    shared = _attach(seat)
    listening = InheritingReactor(
        reactor, seat.listen_fd, shared.plane.ints(CONNECTIONS), seat.index
    )
    endpoint = endpoint_of(PROGRAM, listening, endpoint_text(settings.listen), LISTEN)
    service = data_service(own_files(settings, seat), reactor, ending, endpoint, shared)
    if settings.metrics_listen:
        teller = _teller(service, channel, reactor)

    def tell(words: str) -> None:
        for line in words.split("\n"):
            if line == READY:
                channel.send(Ready())
            elif line.startswith(_STATUS):
                channel.send(Status(line.removeprefix(_STATUS)))

    service.manager = tell
    pulse = LoopingCall(channel.send_if_read, Alive())
    pulse.clock = reactor
    reactor.callWhenRunning(pulse.start, ALIVE_SECONDS)
    return service


def _attach(seat: WorkerSeat) -> SharedUses:
    """Count with the other workers."""
    try:
        return SharedUses.attach(seat.counters_fd, seat.index)
    except SharedUsesError as error:
        refuse_start(PROGRAM, [str(error)])


def _teller(service: DataService, channel: Channel[Down], reactor: Any) -> FigureTeller:
    """Have the worker's figures told for the parent's metrics."""
    plane = PlaneFigures(service.parts, service.factory)
    teller = FigureTeller(lambda: chain(plane.parts(), collector_parts()), channel, reactor)
    service.parts.teller = teller
    return teller


def _connect(reactor: Any, descriptor: int, channel: Channel[Down]) -> None:
    """Put the channel on its socket, or end the start where there is none."""
    try:
        os.set_blocking(descriptor, False)
        reactor.adoptStreamConnection(
            descriptor, socket.AF_UNIX, Factory.forProtocol(lambda: channel)
        )
    except OSError as error:
        reason = f"file descriptor {descriptor}: {error.strerror or error}"
        refuse_start(PROGRAM, [seat_fault(reason)])
    os.close(descriptor)
