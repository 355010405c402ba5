"""One request whose answer is collected up to a bound."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.wire.head import ResponseHead


class UnusableError(Exception):
    """The answer was lost or refused; the message says why."""


class StaleError(Exception):
    """A kept connection was being closed when the request was written to it."""


class Asked:
    """One request, whose answer is collected up to a bound.

    :ivar done: fires with head and body. Cancelling it drops the connection.
    """

    def __init__(self, connection: UpstreamConnection, request: bytes, max_bytes: int) -> None:
        self._connection = connection
        self._left = self._max_bytes = max_bytes
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self.done: Deferred[tuple[ResponseHead, bytes]] = Deferred(lambda _: connection.drop())
        connection.send(request, self)

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Refuse at once what is going to be too long, or may be cut without anyone's noticing."""
        self._head = head
        if head.framing == "close":
            self._refuse("its answer has neither a length nor chunks, and might be cut")
        elif head.content_length > self._max_bytes:
            self._refuse_long()

    def answer_data(self, data: bytes) -> None:
        """Keep a piece, within the bound."""
        self._left -= len(data)
        if self._left < 0:
            self._refuse_long()
        else:
            self._pieces.append(data)

    def answer_end(self) -> None:
        """It is whole."""
        assert self._head is not None
        self.done.callback((self._head, b"".join(self._pieces)))

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """There is no answer, or half of one."""
        self.done.errback(StaleError(reason) if loss is Loss.STALE else UnusableError(reason))

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above."""
        self._connection.drop()
        self.done.errback(failure)

    def _refuse_long(self) -> None:
        self._refuse(f"its answer is longer than {self._max_bytes} bytes")

    def _refuse(self, why: str) -> None:
        self._pieces.clear()
        self._connection.drop()
        self.done.errback(UnusableError(why))
