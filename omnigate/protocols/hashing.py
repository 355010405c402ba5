"""Connections to an upstream that signs its answers: what passes is hashed on its way.

What is hashed are the bodies as they stand on the wire, out of their transfer coding and before
anything is read in them: that of the request as it leaves, that of the answer as it comes. Other
upstreams have connections that know nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, cast

import attrs
from twisted.python.failure import Failure

from omnigate.protocols.upstream import (
    AnswerReceiver,
    ConnectionOwner,
    Loss,
    UpstreamConnection,
    WholeReceiver,
)
from omnigate.wire.head import ResponseHead

#: A request is hashed in slices of this size, with a turn of the reactor between two: 3 ms each.
SLICE_BYTES: Final = 2 * 1024 * 1024

#: The id of a completion stands at the beginning of its answer.
ID_WITHIN_BYTES: Final = 4096

_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,256})"')


@attrs.frozen
class Hashed:
    """One exchange with the upstream, hashed.

    :ivar subject: what the receiver said that it is about.
    :ivar response_sha256: empty where the answer did not end properly.
    :ivar completion_id: empty where none was seen.
    """

    subject: Any
    request_sha256: str
    response_sha256: str
    completion_id: str


class HashingConnection(UpstreamConnection):
    """See the module's docstring.

    :param told: called with each answered request once its answer has ended, if that was a success.
    """

    def __init__(self, owner: ConnectionOwner, told: Callable[[Hashed], None]) -> None:
        super().__init__(owner)
        self._told = told

    def send(self, request: bytes, receiver: AnswerReceiver) -> None:
        """Write a request; where its receiver has a ``subject`` that is not None, it is hashed."""
        subject = getattr(receiver, "subject", None)
        if subject is not None:
            receiver = _Hashing(self._owner, request, receiver, subject, self._told)
        super().send(request, receiver)

    def drop(self) -> None:
        """End the connection at once; an answer under way was cut short."""
        hashing = self._receiver
        super().drop()
        if isinstance(hashing, _Hashing):
            hashing.cut()

    def hand_over(self, receiver: AnswerReceiver) -> None:
        """From now on the answer goes to another receiver, and is hashed all the same."""
        hashing = self._receiver
        if isinstance(hashing, _Hashing):
            hashing.receiver = receiver
            receiver = hashing
        super().hand_over(receiver)


class _Hashing:
    """Stands before a receiver, and passes everything on to it."""

    def __init__(
        self,
        owner: ConnectionOwner,
        request: bytes,
        receiver: AnswerReceiver,
        subject: Any,
        told: Callable[[Hashed], None],
    ) -> None:
        self.receiver = receiver
        self._owner = owner
        self._subject = subject
        self._told = told
        self._status = 0
        self._begun = b""
        self._answer = sha256()
        self._asked = sha256()
        # The head is ours, and ends with the first empty line.
        self._request: memoryview | None = memoryview(request)[request.index(b"\r\n\r\n") + 4 :]
        self._ended: str | None = None
        self._slice()

    def _slice(self) -> None:
        """Hash a slice of the request; whoever has ended meanwhile waits for the last."""
        request = self._request
        assert request is not None
        self._asked.update(request[:SLICE_BYTES])
        self._request = request[SLICE_BYTES:]
        if self._request:
            self._owner.call_soon(self._slice)
            return
        self._request = None
        if self._ended is not None:
            self._tell(self._ended)

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """The final head."""
        self._status = head.status
        self.receiver.answer_head(connection, head)

    def answer_data(self, data: bytes) -> None:
        """A piece of the body."""
        self._take(data)
        self.receiver.answer_data(data)

    def answer_end(self) -> None:
        """The body is whole."""
        self._end(self._answer.hexdigest())
        self.receiver.answer_end()

    def answer_whole(self, body: bytes) -> None:
        """All of the body, and its end."""
        self._take(body)
        self._end(self._answer.hexdigest())
        cast(WholeReceiver, self.receiver).answer_whole(body)

    def cut(self) -> None:
        """The answer will not be taken to its end."""
        if self._begun:
            self._end("")

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """There will be no more of this answer."""
        self.cut()
        self.receiver.answer_lost(loss, reason)

    def crashed(self, failure: Failure) -> None:
        """An exception escaped."""
        self.receiver.crashed(failure)

    def _take(self, data: bytes) -> None:
        self._answer.update(data)
        if len(self._begun) < ID_WITHIN_BYTES:
            self._begun += data[: ID_WITHIN_BYTES - len(self._begun)]

    def _end(self, response_sha256: str) -> None:
        if not 200 <= self._status < 300:
            return
        if self._request is None:
            self._tell(response_sha256)
        else:
            self._ended = response_sha256

    def _tell(self, response_sha256: str) -> None:
        found = _ID.search(self._begun)
        self._told(
            Hashed(
                self._subject,
                self._asked.hexdigest(),
                response_sha256,
                "" if found is None else found[1].decode("utf-8", "replace"),
            )
        )
