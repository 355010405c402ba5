"""A server's side of connections on one reactor of several kinds, and their raw other ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from omnigate.protocols.direct_tcp import DirectPort
from omnigate.protocols.lean_reactor import MAX_EVENTS, LeanReactor

#: What a loaded machine may take for what takes milliseconds.
SECONDS = 30.0

#: The ways to serve that must not differ in what a protocol or a peer sees: the reactor that
#: gathers, Twisted's own, and connections that write directly on Twisted's own.
KINDS = ("LeanReactor", "EPollReactor", "direct")


class Served(Protocol):
    """Does what it is given to do when a byte comes, and remembers what it is told.

    It is its transport's producer.
    """

    wire: Any

    def __init__(self) -> None:
        self.told: list[str] = []
        self.act: Callable[[Served], object] = lambda served: None
        self.acted = 0
        self.lost = False
        self.on_resume: Callable[[], object] = lambda: None

    def connectionMade(self) -> None:
        self.wire = self.transport
        # What is in the kernel's hands is small, so that there is soon too much.
        self.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        self.wire.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        self.acted += 1
        self.act(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True
        self.told.append(type(reason.value).__name__)

    def pauseProducing(self) -> None:
        # Twisted says it again with each write that follows.
        if self.told[-1:] != ["pause"]:
            self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")
        self.on_resume()

    def stopProducing(self) -> None:
        pass


class Peer:
    """The other end of one connection.

    :ivar received: all that has come.
    :ivar end: ``open``, ``fin`` or ``reset``.
    """

    def __init__(self, stage: Stage, served: Served, end: socket.socket) -> None:
        self._stage = stage
        self.served = served
        self.socket = end
        self.received = b""
        self.end = "open"

    def poke(self, act: Callable[[Served], object]) -> None:
        """Have something done by the protocol when a byte comes, in its reactor's turn.

        Nothing is done where the connection was lost.
        """
        before = self.served.acted
        self.served.act = act
        if not self.served.lost:
            self.socket.send(b"!")
            self._stage.spin(lambda: self.served.acted > before or self.served.lost)

    def take(self, most: int = 1 << 30) -> None:
        """Take what has come."""
        while self.end == "open" and most > 0:
            try:
                data = self.socket.recv(min(65536, most))
            except BlockingIOError:
                return
            except ConnectionResetError:
                self.end = "reset"
                return
            most -= len(data)
            self.received += data
            if not data:
                self.end = "fin"

    def take_all(self, size: int) -> bytes:
        """Take until so much has come or nothing more can come."""

        def enough() -> bool:
            self.take()
            return len(self.received) >= size or self.end != "open"

        self._stage.spin(enough)
        return self.received

    def take_end(self) -> str:
        """Take until the connection ends, and tell how."""

        def ended() -> bool:
            self.take()
            return self.end != "open"

        self._stage.spin(ended)
        return self.end


class Stage:
    """One reactor that serves, and what is connected to it.

    :ivar served: the protocols of all connections so far.
    """

    def __init__(self, kind: str, wrap: Callable[[Factory, Any], Any] | None = None) -> None:
        self.reactor: Any = EPollReactor()
        if kind == "LeanReactor":
            self.reactor = LeanReactor()
            # So that it gathers, however few events a scene has.
            self.reactor.few_events = 0
            self.reactor._most = MAX_EVENTS
        self.served: list[Served] = []
        self.ends: list[socket.socket] = []
        factory: Any = Factory()
        factory.noisy = False
        factory.buildProtocol = self._build
        if wrap is not None:
            factory = wrap(factory, self.reactor)
        if kind == "direct":
            self.port: Any = DirectPort(0, factory, 50, "127.0.0.1", self.reactor)
            self.port.startListening()
        else:
            self.port = self.reactor.listenTCP(0, factory, interface="127.0.0.1")

    def _build(self, addr: object) -> Served:
        served = Served()
        self.served.append(served)
        return served

    def dial(self) -> Peer:
        """Connect to it."""
        end = socket.socket()
        self.ends.append(end)
        end.connect(("127.0.0.1", self.port.getHost().port))
        end.setblocking(False)
        count = len(self.served)
        self.spin(lambda: len(self.served) > count and self.served[-1].transport is not None)
        return Peer(self, self.served[-1], end)

    def turn(self) -> None:
        """Let the reactor have one turn, with its timers before it."""
        self.reactor.runUntilCurrent()
        self.reactor.doIteration(0.001)

    def spin(self, until: Callable[[], bool]) -> None:
        """Let the reactor turn until something has come true."""
        deadline = time.monotonic() + SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise AssertionError("what was waited for did not come")
            self.turn()

    def quiet(self) -> None:
        """Let it turn until it waits for nobody to take anything."""
        self.turn()
        self.spin(lambda: not self.reactor.getWriters())

    def close(self) -> None:
        """Close everything."""
        for end in self.ends:
            end.close()
        self.reactor.removeAll()
        for served in self.served:
            if getattr(served.transport, "socket", None) is not None:
                served.transport.socket.close()  # type: ignore[union-attr]
        self.port.socket.close()
        self.reactor.waker.connectionLost(None)
        self.reactor._poller.close()
