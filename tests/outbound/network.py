"""A network in memory: names and numbers of a table, and peers that say what they are told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.outbound.messages import Answer, Pausable
from omnigate.protocols.addresses import UpstreamAddress
from omnigate.protocols.connector import UpstreamConnectError


class Wire(StringTransport):
    """The client's end of a connection; it is closed a turn after it was asked to be.

    :ivar slow: it takes one write and then no more until a test has it resume.
    :ivar stubborn: the peer never closes in order.
    :ivar broken: whether it was broken off.
    """

    producer: Any = None

    def __init__(self, clock: Clock, protocol: IProtocol) -> None:
        super().__init__()
        self._clock = clock
        self._protocol = protocol
        self.lost = False
        self.slow = False
        self.stubborn = False

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.slow and self.producer is not None:
            self.producer.pauseProducing()

    @property
    def broken(self) -> bool:
        return bool(self.disconnected)

    def abortConnection(self) -> None:
        super().abortConnection()
        self._clock.callLater(0, self.lose, ConnectionAborted())

    def loseConnection(self) -> None:
        super().loseConnection()
        if not self.stubborn:
            self._clock.callLater(0, self.lose, ConnectionDone())

    def lose(self, why: Exception) -> None:
        """End it, once."""
        if not self.lost:
            self.lost = True
            if self.producer is not None:
                self.producer.stopProducing()
            self._protocol.connectionLost(Failure(why))


class Peer:
    """The other end of a connection.

    :ivar address: what was connected to.
    """

    def __init__(self, clock: Clock, address: UpstreamAddress, protocol: Any) -> None:
        self.address = address
        self.protocol = protocol
        self.wire = Wire(clock, protocol)

    @property
    def heard(self) -> bytes:
        """What the client has sent so far."""
        return bytes(self.wire.value())

    def forget(self) -> None:
        """Hear anew from here on."""
        self.wire.clear()

    @property
    def open(self) -> bool:
        """Whether nobody has closed it."""
        return not (self.wire.lost or self.wire.disconnecting)

    @property
    def paused(self) -> bool:
        """Whether the client takes nothing for now."""
        return bool(self.wire.producerState == "paused")

    def says(self, data: bytes) -> None:
        """Send."""
        if not self.wire.lost:
            self.protocol.dataReceived(data)

    def answers(self, status: int, body: bytes = b"", *headers: str) -> None:
        """Send an answer with a length."""
        lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *headers]
        self.says("\r\n".join([*lines, "", ""]).encode() + body)

    def closes(self, *, clean: bool = True) -> None:
        """Close, or break."""
        self.wire.lose(ConnectionDone() if clean else ConnectionLost())


class Network:
    """Names, and who can be reached.

    :ivar names: the addresses of each name; a Deferred instead is a look-up that goes on.
    :ivar asked: every look-up.
    :ivar tried: every address that was connected to.
    :ivar dead: numbers that cannot be reached.
    :ivar peers: who was, in their order.
    :ivar slow: whether connections take one write at a time.
    """

    def __init__(self, names: Mapping[str, Any] | None = None) -> None:
        self.clock = Clock()
        self.names: dict[str, Any] = dict(names or {})
        self.asked: list[str] = []
        self.tried: list[UpstreamAddress] = []
        self.dead: set[str] = set()
        self.peers: list[Peer] = []
        self.slow = False

    def resolve(self, name: str) -> Deferred[list[str]]:
        self.asked.append(name)
        found = self.names.get(name, [])
        if isinstance(found, Deferred):
            return found
        return succeed(list(found))

    def connect(
        self, address: UpstreamAddress, make: Callable[[], IProtocol], seconds: float
    ) -> Deferred[IProtocol]:
        self.tried.append(address)
        if address.number in self.dead:
            return fail(UpstreamConnectError(f"cannot connect to {address.host}: refused"))
        protocol = make()
        peer = Peer(self.clock, address, protocol)
        peer.wire.slow = self.slow
        self.peers.append(peer)
        protocol.makeConnection(peer.wire)
        return succeed(protocol)

    def outbound(
        self, allow: Sequence[str] = (), refuse: Sequence[str] = (), **changes: Any
    ) -> Outbound:
        """Make a client of this network."""
        options = {"resolve": self.resolve, "connect": self.connect, **changes}
        return Outbound(self.clock, AddressGuard(allow, refuse), **options)

    def begin(self, work: Any) -> Deferred[Answer]:
        """Have a request begin, and be sent."""
        begun = Deferred.fromCoroutine(work)
        self.turn()
        return begun

    def turn(self) -> None:
        """Have the reactor see to everybody."""
        for _ in range(3):
            self.clock.advance(0)

    @property
    def last(self) -> Peer:
        """Who was connected to last."""
        return self.peers[-1]


class MemorySink:
    """Keeps what it is given.

    :ivar told: what it was told, pieces left out.
    :ivar done: what :meth:`finish` returns, where a test will fire it.
    :ivar refuses: what :meth:`write` raises.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self.content = b""
        self.source: Pausable | None = None
        self.done: Deferred[None] | None = None
        self.refuses: Exception | None = None

    def begin(self, source: Pausable) -> None:
        self.told.append("begin")
        self.source = source

    def write(self, data: bytes) -> None:
        assert data
        if self.refuses is not None:
            raise self.refuses
        self.content += data

    def finish(self) -> Deferred[None]:
        self.told.append("finish")
        return succeed(None) if self.done is None else self.done

    def abandon(self) -> None:
        self.told.append("abandon")
