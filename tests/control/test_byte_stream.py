"""Answers that go on: over a transport in memory, and over TCP."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from omnigate.control.byte_stream import ByteStream
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.web import IDLE_SECONDS, REQUEST_SECONDS
from tests.control.conversation import ADMIN, Conversation, read_reply, request_bytes
from tests.control.dashboard.test_door import made_key
from tests.control.dashboard.visitor import Visitor
from tests.control.plane import Plane

#: More than the buffers of two sockets and a transport take.
MUCH = 64 * 1024 * 1024
PIECE = b"x" * 65_536

ASKED = request_bytes("GET", "/admin/stream", ADMIN)


class Streaming:
    """An endpoint that goes on, and one that does not."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.streams: list[ByteStream] = []
        self.closed = 0
        self.talk = Conversation(
            Endpoint("GET", "/admin/stream", self.run),
            Endpoint("GET", "/admin/broken", self.run_broken),
            Endpoint("GET", "/admin/plain", self.run_plain),
            Endpoint("GET", "/admin/sized", self.run_sized),
            clock=clock,
        )

    async def run(self, call: Call) -> Answer:
        return Answer(content_type=b"text/event-stream", stream=self.begin)

    async def run_broken(self, call: Call) -> Answer:
        def begin(stream: ByteStream) -> None:
            raise ZeroDivisionError

        return Answer(content_type=b"text/event-stream", stream=begin)

    async def run_plain(self, call: Call) -> Answer:
        return Answer(b"{}")

    async def run_sized(self, call: Call) -> Answer:
        return Answer(headers=((b"content-length", b"6"),), stream=self.begin)

    def begin(self, stream: ByteStream) -> None:
        self.streams.append(stream)
        stream.closed = self.note_closed

    def note_closed(self) -> None:
        self.closed += 1


class MemoryTests(SynchronousTestCase):
    """What comes out, and how it ends."""

    def setUp(self) -> None:
        self.streaming = Streaming()
        self.channel, self.transport = self.streaming.talk.connect()

    @property
    def stream(self) -> ByteStream:
        return self.streaming.streams[-1]

    def ask(self, target: str = "/admin/stream", method: str = "GET") -> None:
        self.channel.dataReceived(request_bytes(method, target, ADMIN))

    def written(self) -> bytes:
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    def test_it_goes_on_until_it_is_ended(self) -> None:
        """A head at once, then a chunk for each writing, then the end; the connection is kept."""
        self.ask()
        head = self.written()
        self.assertRegex(head, rb"^HTTP/1.1 200 OK\r\n")
        self.assertIn(b"transfer-encoding: chunked", head.lower())
        self.assertIn(b"content-type: text/event-stream", head.lower())
        self.assertNotIn(b"content-length", head.lower())
        self.stream.write(b"one")
        self.assertEqual(self.written(), b"3\r\none\r\n")
        self.stream.end()
        self.assertEqual(self.written(), b"0\r\n\r\n")
        self.assertEqual((self.stream.is_open, self.streaming.closed), (False, 1))
        self.stream.write(b"two")
        self.stream.end()
        self.stream.lost()
        self.assertEqual((self.written(), self.streaming.closed), (b"", 1))
        self.ask("/admin/plain")
        self.assertEqual(read_reply(self.written())[0].status, 200)
        self.ask()
        self.assertTrue(self.stream.is_open)

    def test_of_a_length_that_is_known(self) -> None:
        """It is no chunks, and the connection is kept."""
        self.ask("/admin/sized")
        head = self.written().lower()
        self.assertIn(b"content-length: 6\r\n", head)
        self.assertNotIn(b"transfer-encoding", head)
        self.stream.write(b"one")
        self.stream.write(b"two")
        self.stream.end()
        self.assertEqual(self.written(), b"onetwo")
        self.ask("/admin/plain")
        self.assertEqual(read_reply(self.written())[0].status, 200)

    def test_what_ends_early_is_broken_off(self) -> None:
        """Nobody is left waiting for the rest, or takes it for whole."""
        self.ask("/admin/sized")
        self.stream.write(b"one")
        self.stream.end()
        self.assertFalse(self.transport.connected)
        self.assertEqual((self.stream.is_open, self.streaming.closed), (False, 1))
        self.assertEqual(self.streaming.talk.factory.streams, set())

    def test_the_reader_leaves(self) -> None:
        """That is told once; nothing is written any more."""
        self.ask()
        self.written()
        self.transport.loseConnection()
        self.assertEqual((self.stream.is_open, self.streaming.closed), (False, 1))
        self.stream.write(b"one")
        self.stream.end()
        self.assertEqual((self.written(), self.streaming.closed), (b"", 1))
        self.assertEqual(self.streaming.talk.factory.streams, set())

    def test_a_slow_reader(self) -> None:
        """Whoever writes sees that there is no room, and when there is again."""
        self.ask()
        self.assertTrue(self.stream.has_room)
        producer: Any = self.transport.producer
        producer.pauseProducing()
        self.assertFalse(self.stream.has_room)
        producer.resumeProducing()
        self.assertTrue(self.stream.has_room)
        self.stream.end()
        self.assertFalse(self.stream.has_room)

    def test_head(self) -> None:
        """It has the same head and no body, and nothing goes on."""
        self.ask(method="HEAD")
        self.assertRegex(self.written(), rb"(?s)^HTTP/1.1 200 OK\r\n.*\r\n\r\n$")
        self.assertEqual(self.streaming.streams, [])
        self.ask("/admin/plain")
        self.assertEqual(read_reply(self.written())[0].status, 200)

    def test_no_deadline_cuts_it(self) -> None:
        """Neither that of a request nor that of an idle connection; both hold again after it."""
        self.ask()
        clock = self.streaming.talk.clock
        for _ in range(100):
            clock.advance(max(IDLE_SECONDS, REQUEST_SECONDS))
        self.assertTrue(self.stream.is_open)
        self.assertTrue(self.transport.connected)
        self.stream.end()
        clock.advance(IDLE_SECONDS + 1)
        self.assertFalse(self.transport.connected)

    def test_what_is_asked_meanwhile_waits(self) -> None:
        """It is answered behind the end."""
        self.ask()
        self.written()
        self.ask("/admin/plain")
        self.stream.write(b"one")
        self.assertEqual(self.written(), b"3\r\none\r\n")
        self.stream.end()
        end, _, rest = self.written().partition(b"0\r\n\r\n")
        self.assertEqual((end, read_reply(rest)[0].body), (b"", b"{}"))

    def test_what_is_asked_meanwhile_is_bounded(self) -> None:
        """Nothing more is read of somebody who sends and does not read; later it is answered."""
        self.ask()
        producer: Any = self.transport.producer
        producer.pauseProducing()
        self.ask("/admin/plain")
        self.assertEqual(self.transport.producerState, "paused")
        producer.resumeProducing()
        self.assertEqual(self.transport.producerState, "paused")
        self.written()
        self.stream.end()
        self.assertEqual(self.transport.producerState, "producing")
        end, _, rest = self.written().partition(b"0\r\n\r\n")
        self.assertEqual((end, read_reply(rest)[0].body), (b"", b"{}"))

    def test_behind_what_was_not_taken(self) -> None:
        """A stream behind an answer that nobody has read yet begins without room."""
        producer: Any = self.transport.producer
        producer.pauseProducing()
        self.ask()
        self.assertFalse(self.stream.has_room)
        producer.resumeProducing()
        self.assertTrue(self.stream.has_room)

    def test_a_beginning_that_fails(self) -> None:
        """Nobody is left waiting."""
        self.ask("/admin/broken")
        self.assertTrue(self.written().endswith(b"0\r\n\r\n"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_all_are_ended(self) -> None:
        """When the plane stops, or its stores are made anew."""
        self.ask()
        other, _ = self.streaming.talk.connect()
        other.dataReceived(ASKED)
        self.assertEqual(len(self.streaming.talk.factory.streams), 2)
        self.streaming.talk.factory.end_streams()
        self.assertEqual([stream.is_open for stream in self.streaming.streams], [False, False])
        self.assertTrue(self.written().endswith(b"0\r\n\r\n"))
        self.assertEqual(self.streaming.talk.factory.streams, set())


class SessionTests(SynchronousTestCase):
    """A stream of somebody who has signed in."""

    def setUp(self) -> None:
        self.streaming = Streaming()
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        find = self.plane.guard.find

        def find_more(method: str, path: str) -> tuple[Endpoint, str]:
            if path == "/live/test":
                return Endpoint("GET", "/live/test", self.streaming.run), ""
            return find(method, path)

        self.plane.guard.find = find_more  # type: ignore[method-assign]

    def begin(self, secret: str = "") -> tuple[ByteStream, Any]:
        self.visitor.sign_in(*([secret] if secret else []))
        channel, transport = self.plane.talk.connect()
        channel.dataReceived(request_bytes("GET", "/live/test", self.visitor.headers()))
        transport.clear()
        stream = self.streaming.streams[-1]
        stream.write(b"one")
        self.assertEqual(transport.value(), b"3\r\none\r\n")
        transport.clear()
        return stream, transport

    def assert_ended(self, stream: ByteStream, transport: Any) -> None:
        stream.write(b"two")
        self.assertEqual(transport.value(), b"0\r\n\r\n")
        self.assertFalse(stream.is_open)

    def test_it_ends_with_the_session(self) -> None:
        """An hour after the page was opened: then the browser asks again, with its new cookie."""
        stream, transport = self.begin()
        self.plane.clock.advance(3599)
        stream.write(b"two")
        self.assertEqual(transport.value(), b"3\r\ntwo\r\n")
        transport.clear()
        self.plane.clock.advance(1)
        self.assert_ended(stream, transport)

    def test_it_does_not_keep_a_session_going(self) -> None:
        """A page that nobody looks at asks, too; one that somebody opens does."""
        self.visitor.sign_in()
        self.plane.clock.advance(60)
        channel, transport = self.plane.talk.connect()
        channel.dataReceived(request_bytes("GET", "/live/test", self.visitor.headers()))
        self.assertIn(b"200 OK", transport.value())
        self.assertNotIn(b"set-cookie", transport.value().lower())
        self.assertIn("set-cookie", self.visitor.get("/").headers)

    def test_it_ends_with_the_key(self) -> None:
        """Not one byte is written after it was disabled."""
        stream, transport = self.begin(made_key(self.plane))
        self.plane.admin("PATCH", "/admin/admin-keys/ann", b'{"disabled":true}')
        self.assert_ended(stream, transport)

    def test_it_ends_with_signing_out(self) -> None:
        """In this tab and any other."""
        stream, transport = self.begin()
        self.visitor.page("/")
        self.visitor.send("/sign-out", {})
        self.assert_ended(stream, transport)

    def test_it_is_for_people_only(self) -> None:
        """A stranger gets a plain refusal that a script can read, and no form."""
        reply = self.plane.talk.ask("GET", "/live/test")
        self.assertEqual((reply.status, self.streaming.streams), (401, []))
        self.assertEqual(reply.headers["content-type"], "text/plain; charset=utf-8")


class Reader(Protocol):
    """Reads what is sent, and tells when enough of it is there."""

    def __init__(self) -> None:
        self.taken = 0
        self.tail = b""
        self._wanted: tuple[int, bytes, Deferred[None]] | None = None
        self.lost: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.taken += len(data)
        self.tail = (self.tail + data)[-1000:]
        self._look()

    def until(self, size: int, end: bytes = b"") -> Deferred[None]:
        """Fires when so many bytes are there, and the last ones are these."""
        waiting: Deferred[None] = Deferred()
        self._wanted = (size, end, waiting)
        self._look()
        return waiting

    def _look(self) -> None:
        if self._wanted is not None:
            size, end, waiting = self._wanted
            if self.taken >= size and self.tail.endswith(end):
                self._wanted = None
                waiting.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.callback(None)


class TcpTests(TestCase):
    """Over a real socket."""

    @inlineCallbacks
    def setUp(self) -> Generator[Deferred[Any], Any, None]:  # type: ignore[override]
        reactor: Any = global_reactor
        self.streaming = Streaming()
        port = reactor.listenTCP(0, self.streaming.talk.factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.reader = Reader()
        address = TCP4ClientEndpoint(reactor, "127.0.0.1", port.getHost().port)
        yield connectProtocol(address, self.reader)
        self.addCleanup(self.leave)

    def leave(self) -> Deferred[None]:
        self.transport.loseConnection()
        return self.reader.lost

    @property
    def transport(self) -> Any:
        return self.reader.transport

    def ask(self) -> Deferred[None]:
        """Ask, and wait for the head."""
        self.transport.write(ASKED)
        return self.reader.until(1, b"\r\n\r\n")

    @inlineCallbacks
    def test_a_reader_that_takes_nothing(self) -> Generator[Deferred[Any], Any, None]:
        """There is no room then; once it reads again there is, and nothing is missing."""
        yield self.ask()
        stream = self.streaming.streams[0]
        self.transport.pauseProducing()
        written = 0
        head = self.reader.taken
        while stream.has_room and written < MUCH:
            stream.write(PIECE)
            written += len(PIECE)
            yield self.turn()
        self.assertLess(written, MUCH)
        self.transport.resumeProducing()
        chunks = written + written // len(PIECE) * len(b"10000\r\n\r\n")
        yield self.reader.until(head + chunks)
        while not stream.has_room:
            yield self.turn()
        stream.end()
        yield self.reader.until(head + chunks + 5, b"0\r\n\r\n")

    @inlineCallbacks
    def test_kept_after_the_end(self) -> Generator[Deferred[Any], Any, None]:
        """The next answer comes over the same connection."""
        yield self.ask()
        self.streaming.streams[0].write(b"one")
        self.streaming.streams[0].end()
        yield self.reader.until(1, b"3\r\none\r\n0\r\n\r\n")
        self.transport.write(request_bytes("GET", "/admin/plain", ADMIN))
        yield self.reader.until(1, b"\r\n\r\n{}")

    @inlineCallbacks
    def test_the_reader_leaves(self) -> Generator[Deferred[Any], Any, None]:
        """That is told, also where nothing is written."""
        yield self.ask()
        stream = self.streaming.streams[0]
        closed: Deferred[None] = Deferred()
        stream.closed = lambda: closed.callback(None)
        self.transport.loseConnection()
        yield closed
        self.assertEqual((stream.is_open, stream.has_room), (False, False))

    def turn(self) -> Deferred[None]:
        """Let the reactor look at its sockets."""
        reactor: Any = global_reactor
        turned: Deferred[None] = Deferred()
        reactor.callLater(0, turned.callback, None)
        return turned
