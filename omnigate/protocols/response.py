"""What is written to a client: one answer, framed by us.

Until a head is out everything is still possible; afterwards the only way to tell
a client that something broke is to drop its connection without the closing chunk,
so :meth:`Response.abort` is then the only error there is.

Bodies to HTTP/1.0 clients are never chunked; they end with the connection
(RFC 9112 §6.1: a chunked coding must not be sent to an HTTP/1.0 client).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Protocol

from omnigate.protocols.direct_tcp import untaken_bytes
from omnigate.protocols.http_date import HttpDate
from omnigate.wire.body import LAST_CHUNK, chunk

_STATUS_LINES: dict[int, bytes] = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode("ascii"))
    for status in HTTPStatus
} | {529: b"HTTP/1.1 529 Overloaded\r\n", 499: b"HTTP/1.1 499 Client Closed Request\r\n"}


def status_line(status: int) -> bytes:
    """The first line of an answer; a status without a name gets none."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


class ResponseOwner(Protocol):
    """Where a response belongs: the connection it is written to."""

    def response_ended(self, response: Response) -> None:
        """The answer is with the transport, whole."""

    def response_aborted(self, response: Response) -> None:
        """The answer was broken off; the connection is to be dropped."""


class Flow(Protocol):
    """Who is to stop and go on with the client's ability to take bytes."""

    def client_full(self) -> None:
        """The client's transport holds enough; send nothing more for now."""

    def client_ready(self) -> None:
        """The client's transport has room again."""


class Response:
    """One answer to one request.

    Its connection is the transport's producer, and tells it when to pause and go on.

    :param date: gives the line that says when the answer was made.
    :ivar started: the head is out.
    :ivar ended: nothing more will be written, for whatever reason.
    :ivar bytes_out: body bytes handed to the transport, framing not counted.
    """

    __slots__ = (
        "_date",
        "_flow",
        "_owner",
        "_transport",
        "bytes_out",
        "chunked",
        "ended",
        "head_only",
        "http10",
        "keep_alive",
        "started",
    )

    def __init__(
        self,
        owner: ResponseOwner,
        transport: Any,
        date: HttpDate,
        head_only: bool = False,
        http10: bool = False,
        keep_alive: bool = True,
    ) -> None:
        self._owner = owner
        self._transport = transport
        self._date = date
        self._flow: Flow | None = None
        self.head_only = head_only
        self.http10 = http10
        self.keep_alive = keep_alive and not http10
        self.chunked = False
        self.started = False
        self.ended = False
        self.bytes_out = 0

    def whole(self, status: int, headers: bytes, body: bytes) -> None:
        """Send a complete answer with a length counted here.

        :param headers: header lines, each with its CRLF, without any framing header.
        """
        self.started = self.ended = True
        size = len(body)
        if self.head_only:
            body = b""
        self.bytes_out = len(body)
        block = b"%b%bcontent-length: %d\r\n%b%b\r\n" % (
            _STATUS_LINES.get(status) or status_line(status),
            self._date.line(),
            size,
            headers,
            b"" if self.keep_alive else b"connection: close\r\n",
        )
        self._transport.write(block + body)
        self._owner.response_ended(self)

    def head_alone(self, status: int, headers: bytes, size: int | None) -> None:
        """Send the head of an answer to HEAD, whose body nobody has read.

        :param size: the length of that body; None where it is not known.
        """
        self.started = self.ended = True
        block = b"%b%b%b%b%b\r\n" % (
            status_line(status),
            self._date.line(),
            b"" if size is None else b"content-length: %d\r\n" % size,
            headers,
            b"" if self.keep_alive else b"connection: close\r\n",
        )
        self._transport.write(block)
        self._owner.response_ended(self)

    def begin_sized(self, status: int, headers: bytes, size: int, first: bytes, flow: Flow) -> None:
        """Do as :meth:`begin`, with a length that the body is known to have."""
        self.started = True
        self._flow = flow
        self.bytes_out = len(first)
        head = b"%b%bcontent-length: %d\r\n%b%b\r\n" % (
            status_line(status),
            self._date.line(),
            size,
            headers,
            b"" if self.keep_alive else b"connection: close\r\n",
        )
        self._transport.write(head + first)

    def begin(self, status: int, headers: bytes, first: bytes, flow: Flow) -> None:
        """Send the head of a streamed answer and the first piece of its body in one write.

        :param first: may be empty, when the body has no byte for this client.
        """
        self.started = True
        self.chunked = not self.http10
        self._flow = flow
        self.bytes_out = len(first)
        if not self.chunked:
            self.keep_alive = False
        head = b"%b%b%b%b%b\r\n" % (
            status_line(status),
            self._date.line(),
            b"transfer-encoding: chunked\r\n" if self.chunked else b"",
            headers,
            b"" if self.keep_alive else b"connection: close\r\n",
        )
        if self.chunked and first:
            first = chunk(first)
        self._transport.write(head + first)

    def piece(self, data: bytes) -> None:
        """Send a piece of a streamed body; ``data`` is not empty (an empty chunk is the end)."""
        self.bytes_out += len(data)
        if self.chunked:
            self._transport.write(chunk(data))
        else:
            self._transport.write(data)

    def end(self) -> None:
        """End a streamed body properly."""
        if self.ended:
            return
        self.ended = True
        self._flow = None
        if self.chunked:
            self._transport.write(LAST_CHUNK)
        self._owner.response_ended(self)

    def abort(self) -> None:
        """Break the answer off, so that the client cannot take it for whole."""
        if self.ended:
            return
        self.ended = True
        self._flow = None
        self._owner.response_aborted(self)

    def untaken(self) -> int:
        """Bytes that the client has not taken, or -1 where the transport does not tell."""
        return untaken_bytes(self._transport)

    def client_gone(self) -> None:
        """The connection is lost: nothing can be written any more."""
        self.ended = True
        self._flow = None

    def client_full(self) -> None:
        """The transport's buffer is over its mark: make the upstream wait."""
        if self._flow is not None:
            self._flow.client_full()

    def client_ready(self) -> None:
        """The transport's buffer is empty again."""
        if self._flow is not None:
            self._flow.client_ready()
