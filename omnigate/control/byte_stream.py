"""An answer that goes on: bytes are written as they come up, until one of both sides ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

#: What a body of server-sent events is.
EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"


@implementer(IPushProducer)
class ByteStream:
    """The body of an answer whose head is written.

    Nothing is kept here: whoever writes looks first at :attr:`has_room`, and leaves out
    what the other side has no use for later.

    :param request: what is written to; the ``write`` and ``finish`` of a twisted.web request.
    :param length: how much the head has promised; None where it has not. An answer that ends before
        that is broken off.
    :param may_read: asked before each writing whether whoever reads still may: a session may end
        while the stream goes on.
    :ivar is_open: whether anybody still reads.
    :ivar has_room: whether the other side has taken what was written before.
    :ivar closed: called once when it is over, whoever ended it.
    :ivar turned: called when there is no room any more, and when there is again.
    """

    def __init__(
        self,
        request: Any,
        may_read: Callable[[], bool] = lambda: True,
        length: int | None = None,
    ) -> None:
        self._request = request
        self._owed = length
        self._may_read = may_read
        self.is_open = True
        self.has_room = True
        self.closed: Callable[[], None] = lambda: None
        self.turned: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:
        """Write, if anybody still reads; where they may no more, the answer ends instead."""
        if self.is_open and not self._may_read():
            self.end()
        if self.is_open:
            if self._owed is not None:
                self._owed -= len(data)
            self._request.write(data)

    def end(self) -> None:
        """End the answer in order."""
        if self.is_open:
            self._close()
            self._request.unregisterProducer()
            if self._owed:
                self._request.break_off()
            else:
                self._request.finish()

    def lost(self) -> None:
        """Take notice that nobody reads any more."""
        if self.is_open:
            self._close()

    def _close(self) -> None:
        self.is_open = self.has_room = False
        closed, self.closed = self.closed, lambda: None
        closed()

    # Doors of the transport.

    def pauseProducing(self) -> None:
        """Note that the other side is slower than we are."""
        self.has_room = False
        self.turned()

    def resumeProducing(self) -> None:
        """Note that it has caught up."""
        self.has_room = self.is_open
        self.turned()

    def stopProducing(self) -> None:
        """Take notice that the connection is gone."""
        self.lost()
