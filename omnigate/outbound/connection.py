"""One connection to another server: a request at a time, and its answer out of its framing."""

from __future__ import annotations

from typing import Any
from typing import Protocol as Shape

from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from omnigate.outbound.messages import BAD_FRAMING, CONNECTION_LOST, TRUNCATED
from omnigate.wire.body import BodyReader, FramingError, TruncatedBody, reader_for
from omnigate.wire.head import (
    MAX_HEAD_BYTES,
    ResponseHead,
    ResponseHeadError,
    find_head_end,
    parse_response_head,
)

#: Interim (1xx) heads that are passed over before an answer.
MAX_INTERIM_HEADS = 8


class Taker(Shape):
    """Who sent the request, and takes the answer.

    :ivar sent: whether all of the request was handed over.
    """

    sent: bool

    def answer_head(self, head: ResponseHead) -> None:
        """The final head."""

    def answer_data(self, data: bytes) -> None:
        """A piece of the body, never empty."""

    def answer_end(self) -> None:
        """The body is whole; the connection is free or closed by now."""

    def answer_lost(self, fault: str, detail: str) -> None:
        """There will be no more of it."""


class Owner(Shape):
    """Who keeps connections."""

    def connection_made(self, connection: Connection) -> None:
        """It is up."""

    def connection_free(self, connection: Connection) -> None:
        """It may carry another request."""

    def connection_left(self, connection: Connection) -> None:
        """Nothing more is said on it; have it closed."""

    def connection_gone(self, connection: Connection) -> None:
        """It is closed; told once."""


class Connection(Protocol):
    """See the module's docstring.

    :ivar server: the origin that it leads to.
    :ivar used: whether a request was answered on it.
    :ivar heard: whether a byte has come for the request under way.
    """

    def __init__(self, owner: Owner, server: str) -> None:
        self.server = server
        self.used = False
        self.heard = False
        self.wire: Any = None
        self._owner = owner
        self._taker: Taker | None = None
        self._method = b""
        self._keep = False
        self._head: ResponseHead | None = None
        self._reader: BodyReader | None = None
        self._buffer = b""
        self._searched = 0
        self._interim = 0
        self._paused = False
        self._left = False
        self._dropped = False

    def connectionMade(self) -> None:
        """It is up."""
        self.wire = self.transport
        self._owner.connection_made(self)

    def send(self, request: bytes, method: str, taker: Taker, *, keep: bool) -> None:
        """Write a request, or its head.

        :param keep: whether the connection may be kept after the answer.
        """
        self._taker = taker
        self._method = method.encode("ascii")
        self._keep = keep
        self._head = self._reader = None
        self._buffer = b""
        self._searched = self._interim = 0
        self.heard = False
        self.wire.write(request)

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        return not (self._dropped or self._left or self._taker is not None)

    def pause(self) -> None:
        """Take nothing more for now."""
        if not self._paused and not self._dropped:
            self._paused = True
            self.wire.pauseProducing()

    def resume(self) -> None:
        """Go on taking."""
        if self._paused and not self._dropped:
            self._paused = False
            self.wire.resumeProducing()

    def drop(self) -> None:
        """Close it at once; the taker hears nothing more."""
        self._taker = None
        if not self._dropped:
            self._dropped = True
            self.wire.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Bytes of an answer; bytes that nobody asked for end the connection."""
        taker = self._taker
        if taker is None:
            self.drop()
            return
        self.heard = True
        try:
            if self._reader is None:
                self._read_head(data)
            else:
                self._read_body(data)
        except (ResponseHeadError, FramingError) as error:
            self._lose(BAD_FRAMING, str(error))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The end of a body without another end, else of the answer."""
        self._dropped = True
        self._owner.connection_gone(self)
        if self._taker is None:
            return
        if self._reader is None:
            self._lose(CONNECTION_LOST, "the connection ended before the answer")
            return
        try:
            self._reader.finish()
        except TruncatedBody as error:
            self._lose(TRUNCATED, str(error))
            return
        # A body without a length is whole only if the peer closed in earnest; a reset is a cut.
        if reason.check(connectionDone.type):
            self._end()
        else:
            self._lose(TRUNCATED, "the connection broke inside the body")

    def _read_head(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while self._reader is None:
            end = find_head_end(buffer, self._searched)
            if end > MAX_HEAD_BYTES or (end < 0 and len(buffer) > MAX_HEAD_BYTES):
                raise ResponseHeadError(f"the head is longer than {MAX_HEAD_BYTES} bytes")
            if end < 0:
                self._buffer = buffer
                self._searched = max(0, len(buffer) - 3)
                return
            head = parse_response_head(buffer[:end], self._method)
            buffer = buffer[end:]
            self._searched = 0
            if head.status >= 200:
                self._buffer = b""
                self._head = head
                self._reader = reader_for(head)
                break
            self._interim += 1
            if self._interim > MAX_INTERIM_HEADS:
                raise ResponseHeadError(f"more than {MAX_INTERIM_HEADS} interim heads")
        taker = self._taker
        assert taker is not None
        taker.answer_head(head)
        if self._taker is not None and (buffer or self._reader.ended):
            self._read_body(buffer)

    def _read_body(self, data: bytes) -> None:
        reader = self._reader
        assert reader is not None
        payload = reader.feed(data)
        if payload and self._taker is not None:
            self._taker.answer_data(payload)
        if reader.ended and self._taker is not None:
            self._end()

    def _end(self) -> None:
        """The answer is whole: be free for another request, or close."""
        taker, head, reader = self._taker, self._head, self._reader
        assert taker is not None
        assert head is not None
        assert reader is not None
        self._taker = None
        if reader.rest or not taker.sent:
            self.drop()
        elif not self._dropped:
            self.resume()
            if self._keep and head.keep_alive:
                self.used = True
                self._owner.connection_free(self)
            else:
                self._left = True
                self._owner.connection_left(self)
        taker.answer_end()

    def _lose(self, fault: str, detail: str) -> None:
        taker = self._taker
        self.drop()
        if taker is not None:
            taker.answer_lost(fault, detail)
