"""One end of a TCP connection as a Twisted protocol sees it, without a socket.

The rules are those of Twisted's own TCP transports, the awkward ones included: what is
written waits while the peer takes nothing, a streaming producer is paused over 64 KiB and
resumed when all is gone, a connection does not close while a paused producer is registered,
nothing is read while reading is paused, and every end is told one turn of the reactor later.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

#: What Twisted reads at most in one go, and over what it pauses a producer.
BUFFER_BYTES = 65536


class WireTransport:
    """See the module's docstring.

    :ivar window: bytes that the peer still takes; ``inf`` for a peer that takes everything.
    :ivar connected: the protocol has not been told of the end.
    :ivar disconnecting: the protocol asked for the end.
    :ivar aborted: it asked for a reset.
    :ivar half_closed: the peer has seen the end of what we send.
    :ivar reading: the protocol takes what the peer sends.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._taken = bytearray()
        self._inbox: deque[bytes | Exception] = deque()
        self._producer_paused = False
        self._half_closing = False
        self.protocol: Any = None
        self.producer: Any = None
        self.streaming = False
        self.window = inf
        self.dataBuffer = bytearray()
        self.offset = 0
        self.gathered = False  # see direct_tcp.DirectWriting
        self.connected = True
        self.disconnecting = False
        self.aborted = False
        self.half_closed = False
        self.reading = True
        self.no_delay = False

    def connect(self, protocol: Any) -> None:
        """Begin: give ``protocol`` its transport."""
        self.protocol = protocol
        protocol.makeConnection(self)

    # -- what the peer does

    def value(self) -> bytes:
        """All bytes the peer has taken."""
        return bytes(self._taken)

    def peer_sends(self, data: bytes) -> None:
        """Bytes arrive, and are read when the protocol reads."""
        for start in range(0, len(data), BUFFER_BYTES):
            self._inbox.append(data[start : start + BUFFER_BYTES])
        self._deliver()

    def unread(self) -> int:
        """How many bytes have arrived that the protocol has not taken."""
        return sum(len(item) for item in self._inbox if isinstance(item, bytes))

    def peer_closes(self, reason: Exception | None = None) -> None:
        """The peer ends the connection; what it sent before is read first."""
        self._inbox.append(reason or ConnectionDone())
        self._deliver()

    def peer_takes(self, size: float = inf) -> None:
        """The peer takes ``size`` bytes more than it has."""
        self.window += size
        self._flush()

    def _deliver(self) -> None:
        while self._inbox and self.reading and self.connected and not self.disconnecting:
            item = self._inbox.popleft()
            if isinstance(item, bytes):
                self.protocol.dataReceived(item)
            else:
                self._lost(item)

    def _flush(self) -> None:
        if not self.connected or self.aborted:
            return
        size = int(min(len(self.dataBuffer), self.window))
        if size:
            self._taken += self.dataBuffer[:size]
            del self.dataBuffer[:size]
            self.window -= size
        if self.dataBuffer:
            return
        if self.producer is not None and (not self.streaming or self._producer_paused):
            self._producer_paused = False
            self.producer.resumeProducing()
        elif self.disconnecting:
            self._end_soon(ConnectionDone())
        elif self._half_closing:
            self.half_closed = True

    def _end_soon(self, reason: Exception) -> None:
        self._clock.callLater(0, self._lost, reason)

    def _lost(self, reason: Exception) -> None:
        if not self.connected:
            return
        self.connected = False
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.stopProducing()
        self.protocol.connectionLost(Failure(reason))

    # -- what the protocol does

    def write(self, data: bytes) -> None:
        """Send; what the peer does not take waits."""
        if not isinstance(data, bytes):
            raise TypeError("only bytes can be written")
        if not self.connected or self.aborted or self.half_closed:
            return
        self.dataBuffer += data
        size = int(min(len(self.dataBuffer), self.window))
        self._taken += self.dataBuffer[:size]
        del self.dataBuffer[:size]
        self.window -= size
        if self.producer is not None and self.streaming and len(self.dataBuffer) > BUFFER_BYTES:
            self._producer_paused = True
            self.producer.pauseProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Take one producer."""
        if self.producer is not None:
            raise RuntimeError("a producer is registered already")
        if not self.connected:
            producer.stopProducing()
            return
        self.producer = producer
        self.streaming = streaming

    def unregisterProducer(self) -> None:
        """Forget it; a close that waited for it goes on."""
        self.producer = None
        if self.connected and (self.disconnecting or self._half_closing):
            self._flush()

    def pauseProducing(self) -> None:
        """Read nothing more."""
        self.reading = False

    def resumeProducing(self) -> None:
        """Read again, from the next turn on."""
        if self.connected and not self.disconnecting and not self.reading:
            self.reading = True
            self._clock.callLater(0, self._deliver)

    def stopProducing(self) -> None:
        """End."""
        self.loseConnection()

    def loseConnection(self) -> None:
        """End once everything is with the peer."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self._flush()

    def abortConnection(self) -> None:
        """End now."""
        if self.connected and not self.aborted:
            self.disconnecting = self.aborted = True
            self.dataBuffer.clear()
            self._end_soon(ConnectionAborted())

    def loseWriteConnection(self) -> None:  # noqa: N802
        """Let the peer see the end once everything is with it, and go on reading."""
        if self.connected:
            self._half_closing = True
            self._flush()

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Remember it."""
        self.no_delay = enabled
