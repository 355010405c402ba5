"""One connection to a provider: one request at a time, one answer, what is known of delivery.

The connection tells an :class:`AnswerReceiver` what comes: the head once, the
payload of the body as it was read (already out of its framing, and unpacked), and
one end: :meth:`AnswerReceiver.answer_end` or :meth:`AnswerReceiver.answer_lost`.
A :class:`WholeReceiver` is told of body and end in one, where all came in one read.
How much is known of the request's fate stands in :class:`Loss`, since that alone
decides whether it may be sent again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any
from typing import Protocol as Shape

from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from omnigate.protocols.direct_tcp import is_put_aside, unsent_bytes
from omnigate.protocols.watchdog import NEVER
from omnigate.wire.body import BodyReader, FramingError, TruncatedBody, reader_for
from omnigate.wire.content_coding import PackedReader, packed_reader
from omnigate.wire.head import (
    MAX_HEAD_BYTES,
    ResponseHead,
    ResponseHeadError,
    find_head_end,
    parse_response_head,
)

#: Requests up to this size go into a socket's buffer as a whole; Linux gives it more than that.
LARGE_BYTES = 65536

#: A body up to this size that comes with its head may be given in one piece; one read has no more.
WHOLE_BYTES = 65536

#: Interim (1xx) heads skipped before an answer; more is a peer that plays with us.
MAX_INTERIM_HEADS = 8


class Loss(enum.Enum):
    """How an answer was lost.

    ``STALE``      a kept connection closed before a byte of the answer came, or spoke before it
                   was asked: the usual race with a server that closes idle connections; safe to
                   try again once;
    ``NO_ANSWER``  a fresh connection closed before a byte of the answer: whether the request
                   was acted on is not known;
    ``FRAMING``    the answer cannot be framed, so nothing in it can be trusted;
    ``TRUNCATED``  the answer ended before its framing said so.
    """

    STALE = "stale"
    NO_ANSWER = "no_answer"
    FRAMING = "framing"
    TRUNCATED = "truncated"

    @property
    def outcome(self) -> str:
        """What an attempt that ended so is called."""
        return _OUTCOMES[self]


_OUTCOMES = {
    Loss.STALE: "connection_lost",
    Loss.NO_ANSWER: "connection_lost",
    Loss.FRAMING: "bad_framing",
    Loss.TRUNCATED: "truncated",
}


class AnswerReceiver(Shape):
    """Who sent the request and is told about the answer."""

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """The final head."""

    def answer_data(self, data: bytes) -> None:
        """A piece of the body's payload, never empty."""

    def answer_end(self) -> None:
        """The body is whole; the connection is already free for others."""

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """There will be no more of this answer."""

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above; the connection is dropped."""


class WholeReceiver(AnswerReceiver, Shape):
    """A receiver that is glad of a body in one piece."""

    def answer_whole(self, body: bytes) -> None:
        """All of the body, and its end; the connection is already free for others."""


class ConnectionOwner(Shape):
    """The pool a connection belongs to."""

    def connection_made(self, connection: UpstreamConnection) -> None:
        """The connection is up."""

    def connection_free(self, connection: UpstreamConnection) -> None:
        """The answer is whole and the connection may carry another request."""

    def connection_gone(self, connection: UpstreamConnection) -> None:
        """The connection is lost or was dropped; told once."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call once the reactor has seen to everybody else."""


class UpstreamConnection(Protocol):
    """See the module's docstring.

    :ivar used: a request has been answered on this connection before.
    :ivar busy: a request is under way.
    :ivar deadline: when an idle connection is to be closed; the pool sets it.
    """

    def __init__(self, owner: ConnectionOwner) -> None:
        self._wire: Any = None
        self._owner = owner
        self._receiver: AnswerReceiver | None = None
        self._in_one = False  # the receiver is a WholeReceiver
        # Of the body under way one reads: the framing alone, or what is packed in it.
        self._reader: BodyReader | None = None
        self._packed: PackedReader | None = None
        self._holding = False  # nothing is read while something waits to be unpacked
        self._arrived = b""  # what waits and has not been looked at
        self._queued = False  # a turn for it has been asked for
        self._closed: Failure | None = None  # how the connection ended in the meantime
        self._head: ResponseHead | None = None
        self._buffer = b""
        self._searched = 0
        self._interim = 0
        self._lost = False
        self._paused = False
        self._large = False
        self.used = False
        self.deadline = NEVER

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._receiver is not None

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        return not self._lost and self._receiver is None

    def connectionMade(self) -> None:
        """Small requests must not wait for an acknowledgement of the one before."""
        self._wire = self.transport
        self._wire.setTcpNoDelay(True)
        self._owner.connection_made(self)

    def send(self, request: bytes, receiver: AnswerReceiver) -> None:
        """Write a whole request, a POST; its answer goes to ``receiver``."""
        # Of an answer that came before nothing is left, or this connection would not be free.
        self._receiver = receiver
        self._in_one = False
        self._large = len(request) > LARGE_BYTES
        self._wire.write(request)

    def send_for_whole(self, request: bytes, receiver: WholeReceiver) -> None:
        """Do the same for one who is glad of a body in one piece."""
        self.send(request, receiver)
        self._in_one = True

    def hand_over(self, receiver: AnswerReceiver) -> None:
        """From now on the answer goes to ``receiver``, in pieces."""
        self._receiver = receiver
        self._in_one = False

    def still_sending(self) -> bool:
        """Whether a part of the request has not gone out yet.

        Then nobody can act on the request; and if it was answered all the same, the next one would
        queue behind it.
        """
        return self._large and unsent_bytes(self._wire) > 0

    def pause(self) -> None:
        """Take nothing more from the provider for now."""
        # Between two requests it must be read, or nobody would notice that it was closed.
        if self._receiver is None or self._paused:
            return
        if not self._lost:
            self._paused = True
            self._wire.pauseProducing()
        elif self._holding:
            self._paused = True

    def resume(self) -> None:
        """Go on taking."""
        if not self._paused:
            return
        if self._holding:
            self._paused = False
            self._unpack_soon()
        elif not self._lost:
            self._paused = False
            self._wire.resumeProducing()

    def drop(self) -> None:
        """End the connection at once; the receiver hears nothing more."""
        self._receiver = None
        self._lose()

    def deadline_passed(self, now: float) -> None:
        """Idle for long enough."""
        self.drop()

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._owner.connection_gone(self)
            self._wire.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Bytes of an answer; bytes without a request are a fault of the peer."""
        receiver = self._receiver
        if receiver is None or self._lost:
            self._lose()
            return
        reader = self._reader
        try:
            if reader is not None:
                payload = reader.feed(data)
                if payload:
                    receiver.answer_data(payload)
                if reader.ended:
                    self._body_ended(reader)
            elif self._packed is not None:
                self._packed_arrived(data)
            elif is_put_aside(self._wire):
                # Not a byte of the request has gone out: this was said to the idle connection, as
                # by a server that tells 408 before it closes, and answers nothing of ours.
                self._fail(Loss.STALE, "the upstream spoke before it was asked")
            else:
                self._head_received(data)
        except Exception as error:
            self._broke(receiver, error)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The end of the answer where its framing says so, else its loss."""
        was_lost, self._lost = self._lost, True
        if not was_lost:
            self._owner.connection_gone(self)
        if self._holding:
            # What has come is unpacked first.
            self._closed = reason
        elif self._receiver is not None:
            self._connection_over(self._receiver, reason)

    def _connection_over(self, receiver: AnswerReceiver, reason: Failure) -> None:
        reader = self._reader or self._packed
        why = reason.getErrorMessage()
        if reader is None:
            if self._buffer:
                self._fail(Loss.TRUNCATED, f"the connection ended inside the head ({why})")
            elif self.used and not self._interim:
                self._fail(Loss.STALE, why)
            else:
                self._fail(Loss.NO_ANSWER, why)
            return
        try:
            reader.finish()
        except TruncatedBody:
            self._fail(Loss.TRUNCATED, f"the connection ended inside the body ({why})")
            return
        # A body framed by close is whole only if the peer really closed; a reset is a cut.
        if not reason.check(connectionDone.type):
            self._fail(Loss.TRUNCATED, f"the connection broke inside the body ({why})")
            return
        self._receiver = None
        try:
            receiver.answer_end()
        except Exception:
            receiver.crashed(Failure())

    def _head_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = find_head_end(buffer, self._searched)
        if end < 0 or end > MAX_HEAD_BYTES:
            if end >= 0 or len(buffer) > MAX_HEAD_BYTES:
                raise ResponseHeadError(f"the head is longer than {MAX_HEAD_BYTES} bytes")
            self._searched = max(0, len(buffer) - 3)
            self._buffer = buffer
            return
        head = parse_response_head(buffer[:end])
        buffer = buffer[end:]
        self._buffer = b""
        self._searched = 0
        if head.status < 200:
            self._interim += 1
            if self._interim > MAX_INTERIM_HEADS:
                raise ResponseHeadError(f"more than {MAX_INTERIM_HEADS} interim heads")
            if buffer:
                self._head_received(buffer)
            return
        self._interim = 0
        self._head = head
        receiver = self._receiver
        assert receiver is not None
        packed = b"content-encoding" in head.headers
        if (
            self._in_one
            and len(buffer) == head.content_length <= WHOLE_BYTES
            and head.framing == "length"
            and not packed
        ):
            receiver.answer_head(self, head)
            # It may have dropped us, or handed the answer over.
            receiver = self._receiver
            if self._in_one and receiver is not None:
                self._answered(b"")
                try:
                    receiver.answer_whole(buffer)  # type: ignore[attr-defined]
                except Exception:
                    receiver.crashed(Failure())
                return
            reader = self._reader = reader_for(head)
        else:
            reader = reader_for(head)
            if packed:
                self._packed = packed_reader(head, reader)
            if self._packed is None:
                self._reader = reader
            receiver.answer_head(self, head)
            receiver = self._receiver
        if receiver is not None and (buffer or reader.ended):
            if self._packed is None:
                payload = reader.feed(buffer)
                if payload:
                    receiver.answer_data(payload)
                if reader.ended:
                    self._body_ended(reader)
            else:
                self._packed_arrived(buffer)

    def _body_ended(self, reader: BodyReader) -> None:
        """All of the body has come, unless the receiver has dropped us."""
        # It may also have handed the rest over to another one.
        receiver = self._receiver
        if receiver is not None:
            self._body_whole(receiver, reader)

    def _packed_arrived(self, data: bytes) -> None:
        """Have it unpacked in its turn: a hundred reads at once may hold megabytes each."""
        self._arrived = self._arrived + data if self._arrived else data
        if not self._holding:
            self._holding = True
            self._wire.pauseProducing()
            if not self._paused:
                self._unpack_soon()

    def _unpack_soon(self) -> None:
        """Ask for a turn, unless one is waited for."""
        if not self._queued:
            self._queued = True
            self._owner.call_soon(self._unpack_on)

    def _unpack(self, receiver: AnswerReceiver) -> None:
        """Unpack one slice; others have their turn before the next."""
        packed = self._packed
        assert packed is not None
        data, self._arrived = self._arrived, b""
        payload = packed.feed(data)
        if payload:
            receiver.answer_data(payload)
            taker = self._receiver
            if taker is None:
                self._holding = False
                return
            receiver = taker
        if packed.more or self._arrived:
            if not self._paused:
                self._unpack_soon()
            return
        self._holding = False
        if not self._paused and not self._lost:
            self._wire.resumeProducing()
        if packed.ended:
            packed.finish()
            self._body_whole(receiver, packed)
        elif self._closed is not None:
            self._connection_over(receiver, self._closed)

    def _unpack_on(self) -> None:
        """The next turn of what waits to be unpacked."""
        self._queued = False
        receiver = self._receiver
        # Where it was paused meanwhile, it is called again when it goes on.
        if receiver is not None and self._holding and not self._paused:
            try:
                self._unpack(receiver)
            except Exception as error:
                self._broke(receiver, error)

    def _body_whole(self, receiver: AnswerReceiver, reader: BodyReader | PackedReader) -> None:
        self._answered(reader.rest)
        try:
            receiver.answer_end()
        except Exception:
            receiver.crashed(Failure())

    def _answered(self, rest: bytes) -> None:
        """The answer is whole: be free for others, unless this connection cannot be used again.

        :param rest: what came behind the body.
        """
        head = self._head
        assert head is not None
        self._receiver = self._reader = self._packed = None
        if head.keep_alive and not rest and not self._lost and not self.still_sending():
            self.used = True
            if self._paused:
                self.resume()
            self._owner.connection_free(self)
        else:
            self._lose()

    def _fail(self, loss: Loss, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        self._lose()
        if receiver is not None:
            try:
                receiver.answer_lost(loss, reason)
            except Exception:
                receiver.crashed(Failure())

    def _broke(self, told: AnswerReceiver, error: Exception) -> None:
        """Tell of an exception; ``told`` may have dropped us before it went on and failed."""
        if isinstance(error, (ResponseHeadError, FramingError)):
            self._fail(Loss.FRAMING, str(error))
            return
        if isinstance(error, TruncatedBody):
            self._fail(Loss.TRUNCATED, str(error))
            return
        failure = Failure()
        receiver, self._receiver = self._receiver, None
        self._lose()
        (receiver or told).crashed(failure)
