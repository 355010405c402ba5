"""One client's connection: heads judged, bodies handed on, one exchange at a time.

States of :class:`ClientConnection`:

``HEAD``     waiting for a request head, or idle between two requests;
``BODY``     the exchange wants the body, and it is arriving;
``ANSWER``   the exchange is at work; bytes that arrive belong to the next request;
``DISCARD``  answered without having read the body: what still comes is thrown away for
             a moment, so that the client sees the answer and not a reset;
``CLOSED``   we closed it, or it is gone.

What a request *means* is for the plane (:class:`Plane`); nothing here knows keys,
routes or money.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any
from typing import Protocol as Shape

from twisted.internet.interfaces import (
    IAddress,
    IProtocolNegotiationFactory,
    IPushProducer,
    ISSLTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from omnigate.client_address import plain
from omnigate.protocols.direct_tcp import untaken_bytes
from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.response import Response
from omnigate.protocols.watchdog import NEVER, Watchdog
from omnigate.wire.head import (
    MAX_HEAD_BYTES,
    HeadError,
    RequestHead,
    find_head_end,
    head_too_long,
    parse_request_head,
)
from omnigate.wire.known_head import KnownHead, keep_head
from omnigate.wire.target import Target, TargetError, parse_target

#: Seconds for which what a client still sends is thrown away after an answer to a request
#: whose body was not read: enough for the answer to get there before a reset would.
DISCARD_SECONDS = 2.0
#: Bytes of a next request taken while one is being answered; beyond it we stop reading.
#: One head and a small body: what a client that pipelines may reasonably send ahead.
AHEAD_BYTES = 65536
#: Requests of one connection begun in one turn of the reactor, where all are answered at once: a
#: read may hold two thousand of them, and at up to a millisecond each others would wait for long.
MAX_BEGUN_AT_ONCE = 16
#: Heads of one connection kept in a row of which none came again; after so many the last one stays.
#: A proxy that sends several clients' requests in turn would have each head kept for nothing, which
#: takes a third of the time that it takes to read one.
MAX_KEPT_IN_VAIN = 8
#: Connections beyond the cap that are told so at the same time; any more are dropped.
MAX_TURNED_AWAY = 64

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class State(enum.Enum):
    """See the module's docstring."""

    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    DISCARD = "discard"
    CLOSED = "closed"


_HEAD, _BODY, _ANSWER, _DISCARD, _CLOSED = State


class Exchange(Shape):
    """One request and its answer, as its connection sees it."""

    def begin(self) -> bool:
        """Judge the head; ``True`` when the body is wanted, else it has been answered."""

    def body_piece(self, data: bytes, last: bool) -> None:
        """A piece of the body; ``last`` when it is complete."""

    def client_lost(self) -> None:
        """The client is gone; nothing can be written any more."""

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above."""


class Plane(Shape):
    """What decides about requests."""

    watchdog: Watchdog
    date: HttpDate
    client_timeout_seconds: float
    stall_timeout_seconds: float

    def exchange(
        self, head: RequestHead, target: Target, response: Response, peer: str
    ) -> Exchange:
        """A new exchange for a request whose head is well formed."""

    def head_refusal(self, first: bytes, error: HeadError) -> tuple[int, bytes, bytes]:
        """Status, header lines and body for a malformed head; counts it.

        :param first: its first line, as far as there is one.
        """

    def target_refusal(
        self, head: RequestHead, error: TargetError, peer: str
    ) -> tuple[int, bytes, bytes]:
        """The same for a sound head whose target is not in its canonical form."""


@implementer(IPushProducer)
class ClientConnection(Protocol):
    """See the module's docstring for the states.

    It is its transport's producer for as long as it lives, and hands pauses on to the answer
    under way.  Between two answers a pause keeps back the next request: a client that sends
    requests and takes no answers must not fill our memory.
    """

    def __init__(self, plane: Plane, factory: ClientFactory, peer: str) -> None:
        # Twisted's ITransport leaves out half of what a TCP transport can do.
        self._wire: Any = None
        self._plane = plane
        self._watchdog = plane.watchdog
        # What Watchdog.after would add, told once: deadlines are set with each request.
        self._patience = plane.client_timeout_seconds + plane.watchdog.interval
        self._factory = factory
        self._peer = peer
        self._state = _HEAD
        self._buffer = b""
        self._searched = 0
        self._known: KnownHead | None = None
        self._kept_in_vain = 0
        self._body_left = 0
        self._exchange: Exchange | None = None
        self._response: Response | None = None
        self._keep_alive = True
        self._advancing = False
        self._resting = False
        self._reading_paused = False
        self._full = False
        self._untaken = 0
        self.deadline = NEVER

    def connectionMade(self) -> None:
        """Join the watchdog: the first request is due within the client timeout."""
        self._wire = self.transport
        self._wire.setTcpNoDelay(True)
        self._wire.registerProducer(self, True)
        self.deadline = self._watchdog.now + self._patience
        self._watchdog.add(self)
        self._factory.opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of a head, of a body, or of a next request."""
        state = self._state
        if state is _HEAD and not self._full and not self._resting:
            if self._buffer:
                self._buffer += data
            else:
                # The first byte of a request: an idle time does not count against it.
                self.deadline = self._watchdog.now + self._patience
                self._buffer = data
            self._advance()
        elif state is _BODY:
            self._body_received(data)
        elif state is _ANSWER or state is _HEAD:
            self._buffer += data
            if len(self._buffer) > AHEAD_BYTES and not self._reading_paused:
                self._reading_paused = True
                self._wire.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the exchange, if there is one."""
        self._state = _CLOSED
        self._buffer = b""
        self.deadline = NEVER
        self._watchdog.discard(self)
        self._factory.closed(self)
        exchange, self._exchange = self._exchange, None
        response, self._response = self._response, None
        if response is not None:
            response.client_gone()
        if exchange is not None:
            self._tell_lost(exchange)

    def _tell_lost(self, exchange: Exchange) -> None:
        try:
            exchange.client_lost()
        except Exception:
            exchange.crashed(Failure())

    def deadline_passed(self, now: float) -> None:
        """The client was too slow with a request, or did not take the rest of an answer."""
        if self._state is _CLOSED or (self._state is _HEAD and self._full):
            untaken = untaken_bytes(self._wire)
            if 0 <= untaken < self._untaken:
                # Slow, but it takes; as in the middle of an answer.
                self._await_taking()
                return
        self.deadline = NEVER
        if self._state is _CLOSED:
            self._wire.abortConnection()
        else:
            self._close()

    # -- the transport's producer

    def pauseProducing(self) -> None:
        """The client's transport holds enough."""
        self._full = True
        if self._response is not None:
            self._response.client_full()

    def resumeProducing(self) -> None:
        """The client has taken everything."""
        self._full = False
        if self._response is not None:
            self._response.client_ready()
        elif self._state is _HEAD and not self._advancing:
            self._wait_for_head()

    def stopProducing(self) -> None:
        """The connection is going; :meth:`connectionLost` tells the exchange."""

    # -- the plane's side

    @property
    def idle(self) -> bool:
        """Whether no exchange is under way."""
        return self._exchange is None

    def stop_after_answer(self) -> None:
        """Drain: close now when idle, else after the answer that is under way."""
        if self._exchange is None:
            self._close()
        elif self._response is not None:
            self._response.keep_alive = self._keep_alive = False

    def cut(self) -> None:
        """The grace is over: drop the connection, whatever is under way on it."""
        self._wire.abortConnection()

    def turn_away(self, answer: bytes) -> None:
        """Answer a connection beyond the cap and let it go; its request is not read."""
        self._wire.write(answer)
        self._discard()

    # -- the response's owner

    def response_ended(self, response: Response) -> None:
        """The answer is whole; go on with the next request or close."""
        if response is not self._response:
            return
        self._exchange = None
        self._response = None
        if self._state is _BODY:
            self._discard()
        elif not response.keep_alive:
            self._close()
        else:
            self._state = _HEAD
            if self._full:
                self._await_taking()
            else:
                self._wait_for_head()

    def response_aborted(self, response: Response) -> None:
        """Drop the connection so that the client sees that the answer is not whole."""
        if response is not self._response:
            return
        self._exchange = None
        self._response = None
        self._state = _CLOSED
        self.deadline = NEVER
        transport = self._wire
        if response.chunked:
            # What was sent is real and stays readable: the last bytes go out, then a FIN
            # without the closing chunk.  A client that does not take them is cut off.
            transport.unregisterProducer()
            transport.loseConnection()
            self._await_taking()
        else:
            # Nothing was sent; or to an HTTP/1.0 client, to whom a FIN would be the proper end.
            transport.abortConnection()

    # -- reading

    def _wait_for_head(self) -> None:
        """Go on with what has come of the next request, and with reading."""
        self.deadline = self._watchdog.now + self._patience
        if (self._buffer or self._reading_paused) and not self._advancing:
            self._advance()

    def _advance(self) -> None:
        """Take the complete heads in the buffer, one exchange after the other, and read on."""
        if self._resting:
            return
        self._advancing = True
        begun = 0
        try:
            while self._state is _HEAD and self._buffer and not self._full:
                if begun == MAX_BEGUN_AT_ONCE:
                    self._resting = True
                    self._watchdog.call_soon(self._rested)
                    break
                if not self._take_head():
                    break
                begun += 1
        finally:
            self._advancing = False
        if self._reading_paused and len(self._buffer) <= AHEAD_BYTES:
            # Not before: each answer would let in another read, and what waits grow for ever.
            self._reading_paused = False
            self._wire.resumeProducing()

    def _rested(self) -> None:
        """The others have had their turn."""
        self._resting = False
        if self._state is _HEAD:
            self._advance()

    def _take_head(self) -> bool:
        """Begin an exchange with the head at the front; ``False`` when it is not complete."""
        buffer = self._buffer
        known = self._known
        if known is not None and not self._searched:
            again = known.again(buffer)
            if again is not None:
                self._buffer = buffer[known.end :]
                self._begin(again, known.target)
                return True
        end = find_head_end(buffer, self._searched)
        if end < 0 or end > MAX_HEAD_BYTES:
            if end < 0 and len(buffer) <= MAX_HEAD_BYTES:
                self._searched = max(0, len(buffer) - 3)
                return False
            self._refuse_head(buffer[:64], head_too_long(buffer))
            return False
        block = buffer[:end]
        self._buffer = buffer[end:] if end < len(buffer) else b""
        self._searched = 0
        try:
            head = parse_request_head(block)
        except HeadError as error:
            if block.startswith(b"\r\n") and len(block) > 4:
                # One empty line before a request is passed over (RFC 9112, 2.2).
                self._buffer = block[2:] + self._buffer
                return True
            self._refuse_head(block.split(b"\r\n", 1)[0], error)
            return False
        try:
            target = parse_target(head.target)
        except TargetError as error:
            answer = self._plane.target_refusal(head, error, self._peer)
            self._refuse(answer, head.method == b"HEAD")
            return False
        self._keep(block, head, target)
        self._begin(head, target)
        return True

    def _keep(self, block: bytes, head: RequestHead, target: Target) -> None:
        """Keep a head that was read, to know it should it come again."""
        known = self._known
        if known is not None:
            self._kept_in_vain = 0 if known.end else self._kept_in_vain + 1
        if self._kept_in_vain < MAX_KEPT_IN_VAIN:
            self._known = keep_head(block, head, target) or known

    def _begin(self, head: RequestHead, target: Target) -> None:
        plane = self._plane
        size = self._body_left = head.content_length
        http10 = head.http10
        keep_alive = self._keep_alive = head.keep_alive and not http10
        # Until the body has been read, an answer ends the connection.
        response = self._response = Response(
            self, self._wire, plane.date, head.method == b"HEAD", http10, keep_alive and not size
        )
        # BODY from here on, so that an answer given before the body was read is followed
        # by a discard and never by a "request" parsed out of the body.
        self._state = _BODY if size else _ANSWER
        exchange = self._exchange = plane.exchange(head, target, response, self._peer)
        try:
            if not exchange.begin() or self._exchange is not exchange:
                return
            if not size:
                self.deadline = NEVER
                exchange.body_piece(b"", True)
                return
            if head.expect_continue and not self._buffer:
                self._wire.write(CONTINUE)
        except Exception:
            exchange.crashed(Failure())
            return
        if self._buffer:
            data, self._buffer = self._buffer, b""
            self._body_received(data)

    def _body_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        left = self._body_left - len(data)
        if left < 0:
            self._buffer = data[left:]
            data = data[:left]
            left = 0
        self._body_left = left
        if not left:
            self._state = _ANSWER
            self.deadline = NEVER
            self._response.keep_alive = self._keep_alive  # type: ignore[union-attr]
        try:
            exchange.body_piece(data, not left)
        except Exception:
            exchange.crashed(Failure())

    def _refuse_head(self, line: bytes, error: HeadError) -> None:
        """Answer a head that cannot be trusted, and close: framing doubt is never repaired.

        :param line: the request line, as far as there is one.
        """
        self._refuse(self._plane.head_refusal(line, error), line.startswith(b"HEAD "))

    def _refuse(self, answer: tuple[int, bytes, bytes], head_only: bool = False) -> None:
        status, headers, body = answer
        self._buffer = b""
        response = Response(
            self, self._wire, self._plane.date, head_only=head_only, keep_alive=False
        )
        response.whole(status, headers, body)
        self._discard()

    # -- closing

    def _await_taking(self) -> None:
        """Of what was written the client is to take something within each stall time."""
        self._untaken = untaken_bytes(self._wire)
        self.deadline = self._watchdog.after(self._plane.stall_timeout_seconds)

    def _discard(self) -> None:
        """Send the end, then throw away what comes until the client ends or time is up."""
        transport = self._wire
        self._state = _DISCARD
        self._buffer = b""
        self.deadline = self._watchdog.after(DISCARD_SECONDS)
        if self._reading_paused:
            self._reading_paused = False
            transport.resumeProducing()
        # A transport that has a paused producer ends nothing.
        transport.unregisterProducer()
        half_close = getattr(transport, "loseWriteConnection", None)
        if half_close is not None and not ISSLTransport.providedBy(transport):
            half_close()

    def _close(self) -> None:
        self._state = _CLOSED
        self._buffer = b""
        self._await_taking()
        exchange, self._exchange = self._exchange, None
        response, self._response = self._response, None
        if response is not None:
            response.client_gone()
        self._wire.unregisterProducer()
        self._wire.loseConnection()
        if exchange is not None:
            self._tell_lost(exchange)


@implementer(IProtocolNegotiationFactory)
class ClientFactory(Factory):
    """Makes connections up to a cap; those beyond it are told to come back.

    :param full_answer: the whole HTTP answer for a connection beyond the cap.
    """

    noisy = False

    def __init__(
        self, plane: Plane, max_connections: int, full_answer: Callable[[], bytes]
    ) -> None:
        self._plane = plane
        self._max_connections = max_connections
        self._full_answer = full_answer
        self.connections: set[ClientConnection] = set()
        self._turned_away: set[ClientConnection] = set()

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        """A connection, a connection that is turned away, or nothing (dropped)."""
        peer = plain(str(getattr(addr, "host", "") or ""))
        if len(self.connections) < self._max_connections:
            return ClientConnection(self._plane, self, peer)
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            return None
        return ClientConnection(self._plane, self, peer)

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802
        """What a TLS handshake may agree on; without it a client that names any is refused."""
        return [b"http/1.1"]

    def busy(self) -> int:
        """How many connections have an exchange under way."""
        return sum(1 for connection in self.connections if not connection.idle)

    def opened(self, connection: ClientConnection) -> None:
        """A connection is up."""
        if len(self.connections) < self._max_connections:
            self.connections.add(connection)
        else:
            self._turned_away.add(connection)
            connection.turn_away(self._full_answer())

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self._turned_away.discard(connection)
