# mypy: allow-untyped-calls
# (the methods of twisted.web's channel and request carry no types)
"""The HTTP/1.1 listener of the control plane: a gate in front, a small router behind it.

It stands on ``twisted.web``'s channel. What is added: a request is judged when its head is there
(version, path, credentials, endpoint, length, in this order; :mod:`omnigate.control.request`), and
a refused one is answered then, its body left unread and the connection closed. ``twisted.web``'s
own protocol switch (HTTP/2), its form parsing and its access log are not used: each would be one
more parser in front of the gate.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from twisted.internet.interfaces import (
    IAddress,
    IProtocolNegotiationFactory,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, Request
from zope.interface import implementer

from omnigate.control.byte_stream import ByteStream
from omnigate.control.request import MAX_HEAD_BYTES, MAX_HEADERS, ControlRequest, Gate
from omnigate.errors import GatewayError

#: A data plane holds a handful of kept connections, a browser six at most.
MAX_CONNECTIONS: Final = 512

#: Those on which applications may read and write jobs and files, through all processes of all data
#: planes; each process lets 256 through, and a slow reader stays for long. The others are for what
#: data planes themselves ask for, without which no budget and no config is kept, and for operators.
MAX_FORWARDS: Final = 384

#: Of those under way, whose are one key's; signed addresses count as one. It is what each process
#: of a data plane lets through as well, and half of the files that are read at once, so that no key
#: has all of these through many processes.
MAX_FORWARDS_OF_KEY: Final = 64

#: Answers to people and programs that were written and are not taken yet: a dozen of the largest.
#: Beyond it whoever has left theirs for longest gives way.
MAX_UNTAKEN_BYTES: Final = 64 * 1024 * 1024

#: An idle connection is closed after this long. Data planes poll every few seconds.
IDLE_SECONDS: Final = 75

#: A whole request must be there this long after its first byte, however slowly it trickles.
REQUEST_SECONDS: Final = 30.0

#: After a refusal, what the caller is still sending is discarded this long, so that it can read
#: the answer instead of a reset.
LINGER_SECONDS: Final = 2.0


class ControlChannel(HTTPChannel):
    """One connection."""

    maxHeaders = MAX_HEADERS  # noqa: N815
    totalHeadersSize = MAX_HEAD_BYTES  # noqa: N815
    requestFactory = ControlRequest  # type: ignore[assignment]  # noqa: N815

    gate: Gate
    factory: ControlFactory

    def __init__(self) -> None:
        super().__init__()
        self._refused = False
        self._deadline: Any = None
        self._linger: Any = None

    def connectionMade(self) -> None:
        """Start the wait for a request."""
        self.factory.opened(self)
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        """Take bytes; after a refusal they are discarded."""
        if self._refused:
            return
        if not self._handlingRequest and not self.paused:
            self._start_deadline()
        super().dataReceived(data)

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802
        """Take bytes of a body, or behind a request that is being answered.

        Those of a refused request are discarded.
        """
        if not self._refused:
            super().rawDataReceived(data)
            if self._handlingRequest and self.is_stuck:
                # twisted.web would keep all that comes: while nothing can be written it does not
                # stop reading, and an answer that goes on may last for minutes.
                self._networkProducer.pauseProducing()

    def allHeadersReceived(self) -> None:  # noqa: N802
        """Judge the head; refuse here if a body would follow it."""
        request: ControlRequest = self.requests[-1]
        # The channel keeps the request line under these names until the body is there, which
        # would be too late.
        refusal = request.judge_head(self._command, self._path, self._version, self.length)
        if refusal is None and request.is_known:
            self.factory.vouched(self, is_data_plane=request.is_of_data_plane)
            refusal = self.factory.admit(self, request.forwarded_for)
            if refusal is not None:
                request.refuse(refusal)
        if refusal is None or self.length == 0:
            super().allHeadersReceived()
            return
        self._stop_deadline()
        self._refused = True
        self.persistent = False
        request.write_answer(request.refusal_answer(refusal))

    def allContentReceived(self) -> None:  # noqa: N802
        """Answer a request whose body is there."""
        self._stop_deadline()
        super().allContentReceived()

    def requestDone(self, request: Request) -> None:  # noqa: N802
        """Go on to what was sent meanwhile, once the other side has taken the answer.

        Else whoever sends many requests at once and reads nothing would have us keep all answers.
        """
        self.factory.answered(self)
        self.paused = self.is_stuck  # what has come then stays in the receiver of lines
        super().requestDone(request)
        if self.paused:
            self._networkProducer.pauseProducing()
        if self.requests and not self._handlingRequest:
            self._start_deadline()

    def resumeProducing(self) -> None:
        """Go on, since the other side has taken what was written."""
        super().resumeProducing()
        self.factory.taken(self)
        self.paused = False
        if self._buffer and not self._handlingRequest:
            self.dataReceived(b"")

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """Take a line of a head; those behind a refusal are discarded."""
        if not self._refused:
            super().lineReceived(line)

    def headerReceived(self, line: bytes) -> bool:  # noqa: N802
        """Take a header; one whose number has thousands of digits is refused like any other."""
        try:
            return bool(super().headerReceived(line))
        except ValueError:
            self._respondToBadRequestAndDisconnect()
            return False

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802
        """Refuse a head that is one endless line."""
        self._respondToBadRequestAndDisconnect()

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802
        """Refuse what is no request at all; twisted.web would send a bare status line."""
        if self._refused:
            return
        self._stop_deadline()
        self._refused = True
        self.persistent = False
        if not self.requests:
            self.requests.append(self.requestFactory(self, 0))
        request: ControlRequest = self.requests[-1]
        request.write_answer(request.refuse_head())

    def loseConnection(self) -> None:
        """Close; after a refusal only the writing half at first."""
        half_closes = ITCPTransport.providedBy(self.transport)
        transport: Any = self.transport
        if not self._refused or not half_closes:
            super().loseConnection()
        elif self._linger is None:
            transport.unregisterProducer()
            transport.loseWriteConnection()
            self._linger = self.callLater(LINGER_SECONDS, self.forceAbortClient)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the connection."""
        self.factory.lost(self)
        self._stop_deadline()
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        super().connectionLost(reason)

    @property
    def is_stuck(self) -> bool:
        """Whether the other side has not taken what was written."""
        return bool(self._waitingForTransport)

    def give_way(self) -> None:
        """Close at once."""
        transport: Any = self.transport
        transport.abortConnection()

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.callLater(REQUEST_SECONDS, self._request_too_slow)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            if self._deadline.active():
                self._deadline.cancel()
            self._deadline = None

    def _request_too_slow(self) -> None:
        self._deadline = None
        self.forceAbortClient()


@implementer(IProtocolNegotiationFactory)
class ControlFactory(Factory):
    """Makes the connections of the control plane's listener, as many as it may hold.

    Where there is no room, the oldest one gives way on which nobody has shown a right credential
    yet, and where there is none the one of a person or a program that has asked for nothing for the
    longest time. Whoever opens many cannot keep operators out, and nobody with a browser data
    planes: what they hold gives way to nobody.

    :ivar streams: the answers that go on.
    """

    noisy = False

    def __init__(
        self,
        gate: Gate,
        max_connections: int = MAX_CONNECTIONS,
        max_forwards: int = MAX_FORWARDS,
    ) -> None:
        self.gate = gate
        self.connections = 0
        self.streams: set[ByteStream] = set()
        self._max_connections = max_connections
        self._strangers: dict[ControlChannel, None] = {}  # the oldest first
        self._operators: dict[ControlChannel, None] = {}  # who has asked last is at the end
        self._data_planes: set[ControlChannel] = set()
        self._max_forwards = max_forwards
        # Those whose last request was an application's. The end of an answer may be on its way to
        # a slow reader long after it was written, so it is connections that count.
        self._forwards: set[ControlChannel] = set()
        self._under_way: dict[ControlChannel, str] = {}
        self._asking: Counter[str] = Counter()
        self._untaken: dict[ControlChannel, int] = {}  # bytes; the oldest first
        self._untaken_bytes = 0

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        """Make one connection; ``None``, where there is no room for it, closes it at once."""
        if self.connections >= self._max_connections:
            lesser = self._strangers or self._operators
            if not lesser:
                return None
            oldest = next(iter(lesser))
            del lesser[oldest]
            oldest.give_way()
        channel = ControlChannel()
        channel.factory = self
        channel.gate = self.gate
        channel.timeOut = IDLE_SECONDS
        # The channel's own would use the global reactor.
        channel.callLater = self.gate.clock.callLater  # type: ignore[method-assign,assignment]
        return channel

    def opened(self, channel: ControlChannel) -> None:
        """Count a connection, of which nothing is known yet."""
        self.connections += 1
        self._strangers[channel] = None

    def vouched(self, channel: ControlChannel, is_data_plane: bool) -> None:
        """Keep a connection on which somebody has shown a right credential."""
        self._strangers.pop(channel, None)
        self._operators.pop(channel, None)
        if is_data_plane:
            self._data_planes.add(channel)
        elif channel not in self._data_planes:
            self._operators[channel] = None

    def admit(self, channel: ControlChannel, identity: str | None) -> GatewayError | None:
        """Note whose request a connection goes on with, or return why it may not.

        :param identity: the key of the application that it is of, empty for a signed address;
            None where it is of no application.
        """
        if identity is None:
            self._forwards.discard(channel)
            return None
        if self._asking[identity] >= MAX_FORWARDS_OF_KEY:
            return GatewayError(
                "concurrency_limit_exceeded",
                f"{MAX_FORWARDS_OF_KEY} requests for jobs and files are under way already; wait "
                "for one to end",
                retry_after=1,
            )
        if channel not in self._forwards and len(self._forwards) >= self._max_forwards:
            return GatewayError(
                "overloaded",
                "too many ask for jobs and files at once; try again",
                retry_after=1,
            )
        self._forwards.add(channel)
        self._under_way[channel] = identity
        self._asking[identity] += 1
        return None

    def answered(self, channel: ControlChannel) -> None:
        """Note that what was asked for on a connection is written, or is given up."""
        identity = self._under_way.pop(channel, None)
        if identity is not None:
            self._asking[identity] -= 1
            if not self._asking[identity]:
                del self._asking[identity]

    def lost(self, channel: ControlChannel) -> None:
        """Forget a connection."""
        self.connections -= 1
        self._strangers.pop(channel, None)
        self._operators.pop(channel, None)
        self._data_planes.discard(channel)
        self._forwards.discard(channel)
        self.answered(channel)
        self.taken(channel)

    def untaken(self, channel: ControlChannel, size: int) -> None:
        """Count an answer that the other side has not taken whole; others may have to give way."""
        if channel in self._data_planes:
            return
        self._untaken[channel] = self._untaken.pop(channel, 0) + size
        self._untaken_bytes += size
        while self._untaken_bytes > MAX_UNTAKEN_BYTES and len(self._untaken) > 1:
            oldest = next(iter(self._untaken))
            self.taken(oldest)
            oldest.give_way()

    def taken(self, channel: ControlChannel) -> None:
        """Note that the other side has taken all there was."""
        self._untaken_bytes -= self._untaken.pop(channel, 0)

    def end_streams(self) -> None:
        """End in order all answers that go on; whoever reads asks again."""
        for stream in tuple(self.streams):
            stream.end()

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802
        """What a TLS handshake may agree on; without it a client that names any is refused."""
        return [b"http/1.1"]

    def log(self, request: Request) -> None:
        """Keep no access log; twisted.web's calls this after every answer."""
