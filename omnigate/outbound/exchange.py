"""One request and its answer, held to limits of time and size."""

from __future__ import annotations

from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from omnigate.outbound.body_sender import BodySender, Pieces
from omnigate.outbound.connection import Connection
from omnigate.outbound.messages import (
    BAD_FRAMING,
    NOT_KEPT,
    TIMEOUT,
    TOO_LARGE,
    Answer,
    BodyRefused,
    Sink,
)
from omnigate.text import one_line, reason_of
from omnigate.wire.head import ResponseHead

#: Seconds without a byte after which a peer is given up, be it one that sends or one that takes.
IDLE_SECONDS: Final = 30.0
#: An answer that is no 2xx is read up to here, for its words.
MAX_ERROR_BYTES: Final = 4 * 2**20

#: What a whole file is answered with. A 206 that nobody asked for is a part of one, and a 202 or a
#: 204 is none.
WHOLE: Final = frozenset((200, 203))

# Characters of a coding's name that are told.
_SHOWN_CHARS = 40


class Deadline:
    """When something must be over that may take several requests; it begins with the first.

    :param clock: the reactor's time.
    """

    def __init__(self, clock: Any, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self.until = 0.0

    def begin(self) -> None:
        """Have the time run, unless it does."""
        self.until = self.until or self._clock.seconds() + self.seconds

    @property
    def left(self) -> float:
        """Seconds until then, 0 at least."""
        return max(0.0, self.until - float(self._clock.seconds()))


@attrs.frozen
class Limits:
    """What an answer is held to.

    :ivar max_bytes: of its body.
    :ivar head_seconds: from the whole request to the head.
    :ivar deadline: when all of it must be over.
    :ivar status_only: the status is all that counts: a body is read and thrown away, and however
        that ends it is no fault.
    :ivar heads_only: only a whole file is read: nothing of an answer of another status than
        :data:`WHOLE`.
    :ivar what: what is too large if it is.
    """

    max_bytes: int
    head_seconds: float
    deadline: Deadline
    status_only: bool = False
    heads_only: bool = False
    what: str = "the answer"


def all_headers(head: ResponseHead) -> list[tuple[str, str]]:
    """Read every header line of an answer; names in lower case."""
    lines = head.block.decode("latin-1").split("\r\n")[1:-2]
    pairs = (line.partition(":") for line in lines)
    return [(name.lower(), value.strip(" \t")) for name, _, value in pairs]


class Exchange:
    """One request on one connection; what comes of it fires :attr:`answer` once.

    Cancelling :attr:`answer` closes the connection.

    :param clock: the reactor's time.
    :ivar headers: all lines of the head, for whoever needs more than the first of a name.
    :ivar sent: whether all of the request was handed over.
    """

    def __init__(self, clock: Any, limits: Limits, sink: Sink | None = None) -> None:
        self.answer: Deferred[Answer] = Deferred(lambda _: self._stop())
        self.headers: list[tuple[str, str]] = []
        self.sent = False
        self._clock = clock
        self._limits = limits
        self._sink = sink
        self._connection: Connection | None = None
        self._sender: BodySender | None = None
        self._timer: Any = None
        self._since: float = clock.seconds()
        self._status = 0
        self._body = bytearray()
        self._size = 0
        self._max_bytes = limits.max_bytes
        self._sinking = False
        self._paused = False
        self._over = False

    def begin(
        self,
        connection: Connection,
        request: bytes,
        method: str,
        body: tuple[Pieces, int] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Send the request.

        :param request: its head, and its body where that is short.
        :param body: a longer one, and its length.
        """
        self._connection = connection
        self.sent = body is None
        self._moved()
        self._watch()
        connection.send(request, method, self, keep=keep)
        if body is not None:
            pieces, size = body
            self._sender = BodySender(connection.wire, pieces, size, self._moved, self._all_sent)
            self._sender.start()

    # -- what the sink may ask

    def pause(self) -> None:
        """Take nothing more for now; the peer's time stands still."""
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Go on."""
        self._paused = False
        self._moved()
        if self._connection is not None:
            self._connection.resume()
            self._watch()

    # -- what the connection tells

    def answer_head(self, head: ResponseHead) -> None:
        """Judge what is announced."""
        limits = self._limits
        self._status = head.status
        self.headers = all_headers(head)
        self._moved()
        self._watch()
        good = 200 <= head.status < 300
        if limits.heads_only and head.status not in WHOLE:
            self._finish()
            return
        if not good:
            self._max_bytes = min(limits.max_bytes, MAX_ERROR_BYTES)
        coding = head.headers.get(b"content-encoding", b"").lower()
        if limits.status_only:
            return
        if coding not in (b"", b"identity"):
            name = one_line(coding, _SHOWN_CHARS)
            self._fail(BAD_FRAMING, f"the answer is packed ({name}), though that was not asked for")
        elif head.framing == "length" and head.content_length > self._max_bytes:
            self._too_large()
        elif good and self._sink is not None:
            self._sinking = True
            self._sink.begin(self)

    def answer_data(self, data: bytes) -> None:
        """Count a piece, and keep it."""
        self._since = self._clock.seconds()
        self._size += len(data)
        if self._size > self._max_bytes:
            if self._limits.status_only:
                self._finish()
            else:
                self._too_large()
        elif self._sinking:
            assert self._sink is not None
            try:
                self._sink.write(data)
            except BodyRefused as refused:
                self._fail(refused.fault, refused.detail)
            except OSError as error:
                self._fail(NOT_KEPT, _words_of(error))
        elif not self._limits.status_only:
            self._body += data

    def answer_end(self) -> None:
        """Have it kept."""
        self._connection = None
        if not self._sinking:
            self._finish()
            return
        assert self._sink is not None
        self._paused = True
        self._watch()
        maybeDeferred(self._sink.finish).addCallbacks(self._kept, self._not_kept)

    def answer_lost(self, fault: str, detail: str) -> None:
        """Tell of it, unless nobody minds."""
        self._connection = None
        if self._status and self._limits.status_only:
            self._finish()
        else:
            self._fail(fault, detail)

    # -- our own

    def _kept(self, _: None) -> None:
        if not self._over:
            self._sinking = False
            self._finish()

    def _not_kept(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, BodyRefused):
            self._fail(error.fault, error.detail)
        else:
            assert error is not None
            self._fail(NOT_KEPT, _words_of(error))

    def _all_sent(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(NOT_KEPT, f"the body could not be read: {reason_of(error)}")
            return
        self.sent = True
        self._moved()
        self._watch()

    def _moved(self) -> None:
        self._since = self._clock.seconds()

    def _deadline(self) -> tuple[float, str]:
        """When to give up for now, and what is said then."""
        limits = self._limits
        deadline = limits.deadline
        end = deadline.until, f"it was not over within {deadline.seconds:g} s"
        if self._paused:
            return end
        if self.sent and not self._status:
            wait, why = limits.head_seconds, f"no answer within {limits.head_seconds:g} s"
        else:
            wait, why = IDLE_SECONDS, f"{IDLE_SECONDS:g} s without a byte"
        return min(end, (self._since + wait, why))

    def _watch(self) -> None:
        """Have the clock set to the deadline that holds now."""
        if self._timer is not None:
            self._timer.cancel()
        wait = self._deadline()[0] - self._clock.seconds()
        self._timer = self._clock.callLater(max(0.0, wait), self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        deadline, why = self._deadline()
        if self._clock.seconds() < deadline:
            self._watch()
        elif self._status and self._limits.status_only:
            self._finish()
        else:
            self._fail(TIMEOUT, why)

    def _too_large(self) -> None:
        # An answer that is none is not held to the same bound, but is not told of as another one.
        self._fail(TOO_LARGE, f"{self._limits.what} is larger than {self._max_bytes} bytes")

    def _stop(self) -> None:
        """Let everything go; what is told from here on comes too late."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sender is not None:
            self._sender.stopProducing()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        if self._sinking:
            self._sinking = False
            assert self._sink is not None
            self._sink.abandon()

    def _fail(self, fault: str, detail: str) -> None:
        self._tell(Answer(self._status, self._first_headers(), fault=fault, detail=detail))

    def _finish(self) -> None:
        self._tell(Answer(self._status, self._first_headers(), bytes(self._body)))

    def _tell(self, answer: Answer) -> None:
        if not self._over:
            self._stop()
            self._body.clear()
            self.answer.callback(answer)

    def _first_headers(self) -> dict[str, str]:
        return dict(reversed(self.headers))


def _words_of(error: BaseException) -> str:
    """Return what is wrong with a disk, without the path of a file."""
    told = error.strerror if isinstance(error, OSError) else None
    return told.lower() if told else reason_of(error)
