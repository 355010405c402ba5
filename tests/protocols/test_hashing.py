"""Connections that hash what passes."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.hashing import SLICE_BYTES, Hashed, HashingConnection
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.wire.head import ResponseHead


class Wire(StringTransport):
    """A connection in memory."""

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Nothing here waits."""

    def abortConnection(self) -> None:
        """It is gone."""
        self.disconnecting = True


class Owner:
    """A pool of one."""

    def __init__(self) -> None:
        self.soon: list[Any] = []

    def connection_made(self, connection: UpstreamConnection) -> None:
        """It is up."""

    def connection_free(self, connection: UpstreamConnection) -> None:
        """It is free."""

    def connection_gone(self, connection: UpstreamConnection) -> None:
        """It is gone."""

    def call_soon(self, call: Any) -> None:
        """Later."""
        self.soon.append(call)


class Receiver:
    """Takes an answer; with a subject it is told of."""

    def __init__(self, subject: Any = "it") -> None:
        self.subject = subject
        self.body = b""
        self.ends: list[str] = []

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """The head."""

    def answer_data(self, data: bytes) -> None:
        """A piece."""
        self.body += data

    def answer_end(self) -> None:
        """The end."""
        self.ends.append("end")

    def answer_whole(self, body: bytes) -> None:
        """All at once."""
        self.body += body
        self.ends.append("whole")

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """A break."""
        self.ends.append(loss.value)

    def crashed(self, failure: Failure) -> None:
        """A fault."""
        failure.raiseException()


ASKED = b'{"model":"deep"}'
REQUEST = b"POST / HTTP/1.1\r\nhost: a\r\n\r\n" + ASKED
BODY = b'{"id": "chatcmpl-1", "choices": []}'


def reply(body: bytes, status: int = 200, size: int | None = None) -> bytes:
    """An answer with a length."""
    return b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%b" % (status, size or len(body), body)


class HashingTests(SynchronousTestCase):
    """See the module's docstring."""

    def setUp(self) -> None:
        self.owner = Owner()
        self.told: list[Hashed] = []
        self.connection = HashingConnection(self.owner, self.told.append)
        self.connection.makeConnection(Wire())

    def digest(self, body: bytes) -> Hashed:
        """What is to be told of an answer."""
        return Hashed("it", sha256(ASKED).hexdigest(), sha256(body).hexdigest(), "chatcmpl-1")

    @given(st.lists(st.integers(1, 30), max_size=8), st.booleans(), st.booleans())
    def test_any_cut(self, cuts: list[int], whole: bool, chunked: bool) -> None:
        """However the bytes come, and in whatever framing, the same is hashed."""
        self.setUp()
        receiver = Receiver()
        send = self.connection.send_for_whole if whole else self.connection.send
        send(REQUEST, receiver)
        data = reply(BODY)
        if chunked:
            data = b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n"
            data += b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
        for cut in cuts:
            self.connection.dataReceived(data[:cut])
            data = data[cut:]
        if data:
            self.connection.dataReceived(data)
        self.assertEqual([self.digest(BODY)], self.told)
        self.assertEqual(BODY, receiver.body)
        self.assertEqual(1, len(receiver.ends))

    def test_handed_over(self) -> None:
        """Another receiver changes nothing."""
        first, second = Receiver(), Receiver(None)
        self.connection.send_for_whole(REQUEST, first)
        self.connection.dataReceived(reply(BODY)[:60])
        self.connection.hand_over(second)
        self.connection.dataReceived(reply(BODY)[60:])
        self.assertEqual(BODY, first.body + second.body)
        self.assertEqual(([], ["end"]), (first.ends, second.ends))
        self.assertEqual([self.digest(BODY)], self.told)

    def test_what_is_not_told(self) -> None:
        """Failures, and requests that are about nothing."""
        self.connection.send(REQUEST, Receiver())
        self.connection.dataReceived(reply(BODY, 500))
        self.connection.send(REQUEST, Receiver(None))
        self.connection.dataReceived(reply(BODY))
        self.assertEqual([], self.told)

    def test_cut_short(self) -> None:
        """There is no hash of an answer that did not end, nor anything of one that never began."""
        for end in ("lost", "dropped"):
            self.setUp()
            self.connection.send(REQUEST, Receiver())
            self.connection.dataReceived(reply(BODY, size=900))
            if end == "lost":
                self.connection.connectionLost(Failure(ConnectionLost()))
            else:
                self.connection.drop()
            self.assertEqual(
                ["", "chatcmpl-1"], [self.told[0].response_sha256, self.told[0].completion_id]
            )
            self.assertEqual(1, len(self.told))
        self.setUp()
        self.connection.send(REQUEST, Receiver())
        self.connection.connectionLost(Failure(ConnectionDone()))
        self.assertEqual([], self.told)

    def test_large_requests_are_hashed_in_slices(self) -> None:
        """No turn of the reactor takes more than one; the answer may come before the last."""
        body = b"x" * (3 * SLICE_BYTES + 5)
        self.connection.send(REQUEST[: -len(ASKED)] + body, Receiver())
        self.connection.dataReceived(reply(BODY))
        self.assertEqual([], self.told)
        turns = 0
        while not self.told:
            [call], self.owner.soon = self.owner.soon, []
            call()
            turns += 1
        self.assertEqual(3, turns)
        self.assertEqual(sha256(body).hexdigest(), self.told[0].request_sha256)

    def test_ids(self) -> None:
        """Of an event stream, of JSON, of neither."""
        for body, name in (
            (b'data: {"id":"chatcmpl-9","x":1}\n\n', "chatcmpl-9"),
            (b'{"object":"x","id" : "c-1"}', "c-1"),
            (b"{}", ""),
            (b'{"id":"' + b"x" * 300 + b'"}', ""),
            (b" " * 5000 + b'{"id":"late"}', ""),
        ):
            self.told.clear()
            self.connection.send(REQUEST, Receiver())
            self.connection.dataReceived(reply(body))
            self.assertEqual(name, self.told[0].completion_id)
