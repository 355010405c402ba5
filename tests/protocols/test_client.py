"""A client's connection with a plane that only remembers."""

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IPushProducer, ISSLTransport
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import directlyProvides
from zope.interface.verify import verifyObject

from omnigate.protocols.client import (
    AHEAD_BYTES,
    DISCARD_SECONDS,
    MAX_BEGUN_AT_ONCE,
    MAX_KEPT_IN_VAIN,
    MAX_TURNED_AWAY,
    ClientConnection,
    ClientFactory,
)
from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.response import Response
from omnigate.protocols.watchdog import Watchdog
from omnigate.wire.head import MAX_HEAD_BYTES, HeadError, RequestHead
from omnigate.wire.target import Target, TargetError
from tests.planes.reading import Answer, read_answers
from tests.planes.transport import BUFFER_BYTES as READ_BYTES
from tests.planes.transport import WireTransport

TIMEOUT = 10.0
STALL = 5.0
FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfull"


def post(body: bytes, headers: bytes = b"", version: bytes = b"1.1") -> bytes:
    """A request with a body."""
    return b"POST /v1/messages HTTP/%b\r\nhost: g\r\n%bcontent-length: %d\r\n\r\n%b" % (
        version,
        headers,
        len(body),
        body,
    )


GET = b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n"


class RecordingExchange:
    """One request; ``Plane.act`` may do something at each step."""

    def __init__(self, plane: "RecordingPlane", head: RequestHead, response: Response) -> None:
        self.plane = plane
        self.head = head
        self.response = response
        self.body = b""
        self.told: list[str] = []

    def _hear(self, word: str) -> None:
        self.told.append(word)
        self.plane.act(self, word)

    def begin(self) -> bool:
        self._hear("begin")
        return not self.response.ended

    def body_piece(self, data: bytes, last: bool) -> None:
        self.body += data
        self._hear("last" if last else "piece")

    def client_lost(self) -> None:
        self._hear("lost")

    def crashed(self, failure: Failure) -> None:
        self.told.append("crashed")
        if not self.response.ended:
            self.answer(status=500)

    def answer(self, body: bytes = b"ok", status: int = 200) -> None:
        self.response.whole(status, b"", body)


class RecordingPlane:
    """Remembers exchanges and refusals."""

    def __init__(self, clock: Clock) -> None:
        self.watchdog = Watchdog(clock)
        self.date = HttpDate(self.watchdog, lambda: 0.0)
        self.client_timeout_seconds = TIMEOUT
        self.stall_timeout_seconds = STALL
        self.exchanges: list[RecordingExchange] = []
        self.refused: list[tuple[bytes, str]] = []
        self.peers: list[str] = []
        self.act: Callable[[RecordingExchange, str], object] = lambda exchange, word: None

    def exchange(
        self, head: RequestHead, target: Target, response: Response, peer: str
    ) -> RecordingExchange:
        exchange = RecordingExchange(self, head, response)
        self.exchanges.append(exchange)
        self.peers.append(peer)
        return exchange

    def head_refusal(self, first: bytes, error: HeadError) -> tuple[int, bytes, bytes]:
        self.refused.append((first, error.code))
        return 400, b"x-refused: yes\r\n", b"no"

    def target_refusal(
        self, head: RequestHead, error: TargetError, peer: str
    ) -> tuple[int, bytes, bytes]:
        self.refused.append((head.target, error.code))
        return 400, b"x-refused: yes\r\n", b"no"


class ClientTestCase(SynchronousTestCase):
    max_connections = 100

    def setUp(self) -> None:
        self.clock = Clock()
        self.plane = RecordingPlane(self.clock)
        self.plane.watchdog.start()
        self.factory = ClientFactory(self.plane, self.max_connections, lambda: FULL)
        self.connection, self.wire = self.connect()

    def connect(self) -> tuple[ClientConnection, WireTransport]:
        """One more client."""
        protocol = self.factory.buildProtocol(IPv4Address("TCP", "192.0.2.7", 1))
        wire = WireTransport(self.clock)
        wire.connect(protocol)
        return cast(ClientConnection, protocol), wire

    def send(self, data: bytes) -> None:
        self.wire.peer_sends(data)
        self.clock.advance(0)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)

    def answers(self, *methods: bytes) -> list[Answer]:
        open_still = self.wire.connected and not self.wire.half_closed
        return read_answers(self.wire.value(), open_still, methods)

    @property
    def exchange(self) -> RecordingExchange:
        return self.plane.exchanges[-1]

    def answer_all(self, at: str = "last") -> None:
        """From now on every request is answered at this step."""
        self.plane.act = lambda exchange, word: exchange.answer() if word == at else None


class RequestTests(ClientTestCase):
    def test_any_cut(self) -> None:
        """However the bytes are cut, two requests come through with their bodies."""
        data = post(b"hello") + GET + post(b"you")
        self.answer_all()
        for size in (1, 2, 3, 50, len(data)):
            self.setUp()
            self.answer_all()
            for start in range(0, len(data), size):
                self.send(data[start : start + size])
            self.assertEqual([b"hello", b"", b"you"], [e.body for e in self.plane.exchanges])
            self.assertEqual([200, 200, 200], [a.status for a in self.answers()])
            self.assertTrue(self.wire.connected)

    def test_peer_and_delay(self) -> None:
        """The exchange is told who asks; small answers are not held back."""
        self.send(GET)
        self.assertEqual(["192.0.2.7"], self.plane.peers)
        self.assertTrue(self.wire.no_delay)

    def test_one_at_a_time(self) -> None:
        """The next request begins when the one before is answered."""
        self.send(GET + GET)
        self.assertEqual(1, len(self.plane.exchanges))
        self.exchange.answer()
        self.assertEqual(2, len(self.plane.exchanges))

    def test_many_at_once(self) -> None:
        """A thousand pipelined requests are answered in order, whatever they cost of the stack."""
        self.answer_all()
        self.send(post(b"x") * 1000)
        self.clock.advance(0)
        self.assertEqual(1000, len(self.answers()))

    def test_others_have_their_turn(self) -> None:
        """A read full of requests that cost next to nothing is not answered in one go."""
        self.answer_all()
        self.wire.peer_sends(GET * 1000)
        self.assertEqual(MAX_BEGUN_AT_ONCE, len(self.plane.exchanges))
        self.clock.advance(0)
        self.assertEqual(1000, len(self.answers()))

    def test_closed_at_rest(self) -> None:
        """A client that leaves while its next requests wait for their turn is forgotten."""
        self.answer_all()
        self.wire.peer_sends(GET * 100)
        self.wire.peer_closes()
        self.clock.advance(0)
        self.assertEqual(MAX_BEGUN_AT_ONCE, len(self.plane.exchanges))
        self.assertEqual(0, len(self.factory.connections))

    def test_never_far_ahead(self) -> None:
        """However many requests are answered, what is taken of the next ones stays bounded."""
        self.send(GET * 20_000)
        for answered in range(1, 300):
            self.exchange.answer()
            self.clock.advance(0)
            taken = len(GET) * 20_000 - self.wire.unread()
            self.assertLessEqual(taken, answered * len(GET) + AHEAD_BYTES + READ_BYTES)
        self.answer_all()
        self.exchange.answer()
        self.clock.advance(0)
        self.assertEqual(20_000, len(self.plane.exchanges))

    def test_body_behind_many(self) -> None:
        """A body of which the beginning was taken ahead is read to its end."""
        body = b"z" * 300_000
        self.send(GET + GET * (AHEAD_BYTES // len(GET) - 1) + post(body) + GET)
        self.answer_all()
        self.exchange.answer()
        self.clock.advance(0)
        self.assertEqual(body, self.plane.exchanges[-2].body)
        self.assertEqual(AHEAD_BYTES // len(GET) + 2, len(self.answers()))

    def test_many_ahead(self) -> None:
        """A client that sends too far ahead is not read until it is its turn."""
        self.send(GET)
        self.send(b"GET /x HTTP/1.1\r\nhost: g\r\nx: " + b"y" * 9000 + b"\r\n\r\n")
        self.assertTrue(self.wire.reading)
        self.send(GET * (AHEAD_BYTES // len(GET)))
        self.assertFalse(self.wire.reading)
        self.send(GET)
        self.answer_all()
        self.plane.exchanges[0].answer()
        self.clock.advance(0)
        self.assertTrue(self.wire.reading)
        self.assertEqual(3 + AHEAD_BYTES // len(GET), len(self.answers()))

    def test_blank_line_first(self) -> None:
        """One empty line before a request is passed over (RFC 9112, 2.2)."""
        self.answer_all()
        self.send(b"\r\n" + GET)
        self.assertEqual([200], [a.status for a in self.answers()])
        self.send(b"\r\n")
        self.send(GET)
        self.assertEqual([200, 200], [a.status for a in self.answers()])
        self.assertEqual([], self.plane.refused)

    def test_nothing_but_blank_lines(self) -> None:
        """More than one is not."""
        self.send(b"\r\n\r\n\r\n" + GET)
        self.assertEqual([(b"", "invalid_request")], self.plane.refused)


class KnownHeadTests(ClientTestCase):
    """A head that is sent again is known again, and nothing is different for it."""

    def seen(self, at: list[bytes], size: int) -> list[Any]:
        """What becomes of requests, each cut into pieces of a size."""
        self.setUp()
        self.answer_all()
        for data in at:
            for start in range(0, len(data), size):
                self.send(data[start : start + size])
        exchanges = [(e.head, e.body, *e.told) for e in self.plane.exchanges]
        return [*exchanges, *self.plane.refused, self.wire.connected]

    def test_lengths_change(self) -> None:
        """Each body has the length of its own head, however they come."""
        bodies = [b"hello", b"you", b"x" * 1000, b"there", b"", b"again", b"y" * 70_000, b"end"]
        requests = [post(body, b"x-a: b\r\n") for body in bodies]
        for at in (requests, [b"".join(requests)]):
            for size in (1, 7, 60, 1 << 20):
                *seen, open_still = self.seen(at, size)
                self.assertEqual(bodies, [entry[1] for entry in seen])
                self.assertTrue(open_still)

    def test_read_once(self) -> None:
        """The header lines of the second are those of the first, and so is its target."""
        self.answer_all()
        self.send(post(b"hello") + post(b"you") + GET + post(b"there"))
        first, second, between, third = (e.head for e in self.plane.exchanges)
        self.assertIs(first.headers, second.headers)
        self.assertIsNot(first.headers, between.headers)
        self.assertIs(first.headers, third.headers)
        self.assertEqual([5, 3, 5], [head.content_length for head in (first, second, third)])

    def shared(self, name: bytes) -> bool:
        """Whether a head is kept, to be known when it comes a second time."""
        for _ in range(2):
            self.send(post(b"hello", b"x-a: %b\r\n" % name))
        first, second = self.plane.exchanges[-2:]
        self.assertEqual(first.head, second.head)
        return first.head.headers is second.head.headers

    def test_kept_in_vain(self) -> None:
        """Heads of many clients in turn are not kept for ever; one that comes again is."""
        self.answer_all()
        self.assertTrue(self.shared(b"one"))
        for number in range(MAX_KEPT_IN_VAIN + 1):
            self.send(post(b"hello", b"x-a: %d\r\n" % number))
        self.assertFalse(self.shared(b"two"))
        self.assertFalse(self.shared(b"three"))
        self.assertTrue(self.shared(b"%d" % (MAX_KEPT_IN_VAIN - 1)))
        self.assertTrue(self.shared(b"four"))

    def test_same_as_alone(self) -> None:
        """Whatever comes second on a connection fares as it does on one of its own."""
        sound = [
            post(b"hello"),
            GET,
            post(b"hello", b"x-a: b\r\n"),
            post(b"hello", b"expect: 100-continue\r\n"),
            post(b"hello", b"connection: close\r\n"),
            post(b"hello", version=b"1.0"),
        ]
        second = [
            *sound,
            *(post(b"hello").replace(b": 5", b": " + length) for length in (b"05", b"+5", b"5, 5")),
            post(b"hello", b"content-length: 5\r\n"),
            post(b"hello").replace(b": 5\r\n", b": 5\r\ncontent-length: 4\r\n"),
            post(b"hello").replace(b": 5\r\n", b": 5\r\ntransfer-encoding: chunked\r\n"),
            post(b"hello").replace(b": 5\r\n", b": 5\r\n 5\r\n"),
            post(b"hello").replace(b": 5\r\n", b": 5\n"),
            post(b"hello").replace(b"POST", b"GET"),
        ]
        for first in sound[:4]:
            for other in second:
                for size in (1, 1 << 20):
                    want = [*self.seen([first], size)[:-1], *self.seen([other], size)]
                    self.assertEqual(want, self.seen([first, other], size), (first, other))


class ContinueTests(ClientTestCase):
    EXPECT = b"expect: 100-continue\r\n"

    def test_wanted(self) -> None:
        """The body is asked for once it is known to be wanted."""
        self.answer_all()
        head = post(b"hello", self.EXPECT)[:-5]
        self.send(head)
        self.assertEqual(b"HTTP/1.1 100 Continue\r\n\r\n", self.wire.value())
        self.send(b"hello")
        [answer] = self.answers()
        self.assertEqual((200, 1), (answer.status, answer.interim))

    def test_refused(self) -> None:
        """A request that is refused by its head is not asked for its body."""
        self.answer_all("begin")
        self.send(post(b"hello", self.EXPECT)[:-5])
        [answer] = self.answers()
        self.assertEqual((200, 0), (answer.status, answer.interim))
        self.assertEqual(b"close", answer.headers[b"connection"])

    def test_body_is_coming_already(self) -> None:
        """Whoever sends it unasked is not asked."""
        self.send(post(b"hello", self.EXPECT))
        self.assertEqual(b"", self.wire.value())
        self.assertEqual(b"hello", self.exchange.body)

    def test_http10(self) -> None:
        """An HTTP/1.0 client cannot read the question."""
        self.send(post(b"hello", self.EXPECT, b"1.0")[:-5])
        self.assertEqual(b"", self.wire.value())


class EndOfAnswerTests(ClientTestCase):
    def test_kept(self) -> None:
        """The connection stays open for the next request."""
        self.answer_all()
        self.send(post(b"x"))
        self.assertTrue(self.wire.connected)
        self.assertNotIn(b"connection", self.answers()[0].headers)

    def test_asked_to_close(self) -> None:
        """A client that asks for it gets its end, and is told so."""
        for request in (post(b"x", b"connection: close\r\n"), post(b"x", version=b"1.0")):
            self.setUp()
            self.answer_all()
            self.send(request + GET)
            self.assertEqual(1, len(self.plane.exchanges))
            [answer] = self.answers()
            self.assertEqual(b"close", answer.headers[b"connection"])
            self.assertFalse(self.wire.connected)

    def test_unread_body(self) -> None:
        """After an answer to an unread body the rest is thrown away for two seconds."""
        self.answer_all("begin")
        self.send(post(b"x" * 1000)[:-900])
        [answer] = self.answers()
        self.assertEqual(b"close", answer.headers[b"connection"])
        self.assertTrue(self.wire.half_closed)
        self.assertTrue(self.wire.connected)
        self.send(b"x" * 900 + GET)
        self.assertEqual(1, len(self.plane.exchanges))
        self.pass_time(DISCARD_SECONDS + 0.5)
        self.assertFalse(self.wire.connected)
        self.assertEqual(0, len(self.plane.watchdog))

    def test_unread_body_over_tls(self) -> None:
        """Half of a TLS connection cannot be closed: it stays open until the time is up."""
        directlyProvides(self.wire, ISSLTransport)
        self.answer_all("begin")
        self.send(post(b"hello")[:-5])
        self.assertEqual(b"close", self.answers()[0].headers[b"connection"])
        self.assertFalse(self.wire.half_closed)
        self.send(GET)
        self.assertEqual(1, len(self.plane.exchanges))
        self.pass_time(DISCARD_SECONDS + 0.5)
        self.assertFalse(self.wire.connected)

    def test_client_closes_while_discarding(self) -> None:
        """A client that has seen the answer and goes ends it sooner."""
        self.answer_all("begin")
        self.send(post(b"x" * 1000)[:-900])
        self.wire.peer_closes()
        self.assertEqual(0, len(self.plane.watchdog))
        self.assertEqual(set(), self.factory.connections)

    def test_answered_in_the_middle_of_the_body(self) -> None:
        """The same for an answer given while the body is still coming."""
        self.answer_all("piece")
        self.send(post(b"x" * 10)[:-5])
        self.assertEqual(1, len(self.answers()))
        self.send(b"x" * 5 + GET)
        self.assertEqual(1, len(self.plane.exchanges))
        self.assertTrue(self.wire.half_closed)

    def test_cut(self) -> None:
        """An answer that is broken off ends the connection without the closing chunk."""
        self.send(GET)
        response = self.exchange.response
        response.begin(200, b"", b"half", cast(object, None))  # type: ignore[arg-type]
        response.abort()
        self.clock.advance(0)
        self.assertFalse(self.wire.connected)
        self.assertFalse(self.wire.aborted)
        [answer] = self.answers()
        self.assertEqual((b"half", False), (answer.body, answer.whole))

    def test_cut_for_http10(self) -> None:
        """Where the end of the connection would be the end of the body, it is reset instead."""
        self.send(GET.replace(b"1.1", b"1.0"))
        response = self.exchange.response
        response.begin(200, b"", b"half", cast(object, None))  # type: ignore[arg-type]
        response.abort()
        self.assertTrue(self.wire.aborted)

    def test_cut_before_the_head(self) -> None:
        """Where nothing was sent the connection is reset."""
        self.send(GET)
        self.exchange.response.abort()
        self.assertTrue(self.wire.aborted)
        self.clock.advance(0)
        self.assertEqual(["begin", "last"], self.exchange.told)

    def test_cut_client_that_takes_nothing(self) -> None:
        """The rest of an answer that was broken off waits for the stall time, not for ever."""
        self.send(GET)
        self.wire.window = 0
        response = self.exchange.response
        response.begin(200, b"", b"half", cast(object, None))  # type: ignore[arg-type]
        response.abort()
        self.pass_time(STALL - 0.5)
        self.assertTrue(self.wire.connected)
        self.pass_time(1)
        self.assertFalse(self.wire.connected)
        self.assertEqual(0, len(self.plane.watchdog))


class RefusalTests(ClientTestCase):
    CASES = (
        b"garbage\r\n\r\n",
        b"GET / HTTP/1.1\nhost: g\n\n",
        b"GET / HTTP/1.1\r\nhost: g\r\n x: folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: g\r\nx: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: g\r\ncontent-length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: g\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: +5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /%2e HTTP/1.1\r\nhost: g\r\n\r\n",
        b"GET //v1/messages HTTP/1.1\r\nhost: g\r\n\r\n",
        b"GET /?a=%20 HTTP/1.1\r\nhost: g\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES,
        b"GET / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
    )

    def test_refused_and_closed(self) -> None:
        """A head that cannot be trusted is answered, and what follows it is thrown away."""
        for head in self.CASES:
            self.setUp()
            self.send(head)
            self.assertEqual(1, len(self.plane.refused), head[:60])
            [answer] = self.answers()
            self.assertEqual(
                (400, b"no", b"close"),
                (answer.status, answer.body, answer.headers[b"connection"]),
                head[:60],
            )
            self.assertTrue(self.wire.half_closed, head[:60])
            self.send(GET)
            self.assertEqual([], self.plane.exchanges)
            self.pass_time(DISCARD_SECONDS + 0.5)
            self.assertFalse(self.wire.connected)

    def test_after_a_good_one(self) -> None:
        """The answer to the request before is not disturbed."""
        self.answer_all()
        self.send(GET + self.CASES[0])
        self.assertEqual([200, 400], [a.status for a in self.answers()])

    def test_to_a_head_request(self) -> None:
        """The refusal of a HEAD request has no body either."""
        for head in (
            b"HEAD //v1/models HTTP/1.1\r\nhost: g\r\n\r\n",
            b"HEAD /v1/models HTTP/1.1\r\n\r\n",
            b"HEAD / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES,
        ):
            self.setUp()
            self.send(head)
            self.assertTrue(self.wire.value().endswith(b"\r\n\r\n"), head[:60])
            self.assertEqual(400, self.answers(b"HEAD")[0].status, head[:60])


class DeadlineTests(ClientTestCase):
    def test_nothing_is_sent(self) -> None:
        """A connection without a request is closed after the client timeout."""
        self.pass_time(TIMEOUT - 0.5)
        self.assertTrue(self.wire.connected)
        self.pass_time(1)
        self.assertFalse(self.wire.connected)
        self.assertEqual(b"", self.wire.value())
        self.assertEqual(0, len(self.plane.watchdog))

    def test_drop_by_drop(self) -> None:
        """The timeout is for the whole request, however busy the client is with it."""
        for data in (GET[:5], post(b"x" * 1000)[:-990]):
            self.setUp()
            self.send(data)
            for _ in range(round(TIMEOUT) + 1):
                self.pass_time(1)
                if self.wire.connected:
                    self.send(b"x")
            self.assertFalse(self.wire.connected)
            self.assertEqual(0, len(self.plane.watchdog))
        self.assertEqual("lost", self.exchange.told[-1])

    def test_idle_time_is_not_the_request_s(self) -> None:
        """A request that begins late on a kept connection has all of its time."""
        self.answer_all()
        self.send(GET)
        self.pass_time(TIMEOUT - 1)
        self.send(GET[:5])
        self.pass_time(TIMEOUT - 1)
        self.send(GET[5:])
        self.assertEqual(2, len(self.answers()))

    def test_none_while_the_answer_is_made(self) -> None:
        """An upstream may take its time."""
        for request in (GET, post(b"x")):
            self.setUp()
            self.send(request)
            self.pass_time(TIMEOUT * 3)
            self.assertTrue(self.wire.connected)
            self.exchange.answer()
            self.pass_time(TIMEOUT + 1)
            self.assertFalse(self.wire.connected)

    def test_answer_not_taken(self) -> None:
        """A client that takes no answer is closed, then reset."""
        self.wire.window = 0
        self.answer_all()
        self.send(GET)
        self.pass_time(TIMEOUT + 0.5)
        self.assertTrue(self.wire.disconnecting)
        self.pass_time(STALL + 0.5)
        self.assertFalse(self.wire.connected)
        self.assertEqual(0, len(self.plane.watchdog))

    def test_lost_that_fails(self) -> None:
        """An exchange that fails at the news of its client's timeout is told of that, too."""

        def act(exchange: RecordingExchange, word: str) -> None:
            if word == "lost":
                raise LookupError

        self.plane.act = act
        self.send(post(b"xx")[:-1])
        self.pass_time(TIMEOUT + 1)
        self.assertEqual(["begin", "piece", "lost", "crashed"], self.exchange.told)

    def test_body_does_not_come(self) -> None:
        """An exchange whose body does not come is told, and its answer is over."""
        self.send(post(b"xx")[:-1])
        self.pass_time(TIMEOUT + 1)
        self.assertEqual(["begin", "piece", "lost"], self.exchange.told)
        self.assertTrue(self.exchange.response.ended)
        self.assertFalse(self.wire.connected)


class BackPressureTests(ClientTestCase):
    def test_answers_not_taken(self) -> None:
        """A client that sends requests and takes no answers is not served on."""
        self.plane.act = lambda exchange, word: (
            exchange.answer(b"x" * 30000) if word == "last" else None
        )
        self.wire.window = 0
        for _ in range(200):
            self.send(GET * 100)
        self.assertLess(len(self.wire.dataBuffer), 100_000)
        self.assertLess(len(self.plane.exchanges), 5)
        self.assertFalse(self.wire.reading)

    def test_served_on_once_taken(self) -> None:
        """It is served on when it takes them."""
        self.plane.act = lambda exchange, word: (
            exchange.answer(b"x" * 30000) if word == "last" else None
        )
        self.wire.window = 0
        self.send(GET * 10)
        self.assertLess(len(self.plane.exchanges), 5)
        for _ in range(10):
            self.wire.window = 0
            self.wire.peer_takes(90000)
        self.wire.peer_takes()
        self.assertEqual(10, len(self.answers()))
        self.send(GET)
        self.assertEqual(11, len(self.answers()))

    def test_never_taken(self) -> None:
        """In the end it is closed."""
        self.plane.act = lambda exchange, word: (
            exchange.answer(b"x" * 70000) if word == "last" else None
        )
        self.wire.window = 0
        self.send(GET * 2)
        self.pass_time(STALL * 2 + 1)
        self.assertFalse(self.wire.connected)
        self.assertEqual(0, len(self.plane.watchdog))

    def test_slow_but_taking(self) -> None:
        """A client that takes a little each time gets the rest of its answer, however it ends."""
        for last in (b"HTTP/1.1\r\n", b"HTTP/1.1\r\nconnection: close\r\n", b"broken off"):
            self.setUp()
            self.plane.act = lambda exchange, word: (
                exchange.answer(b"x" * 70000) if word == "last" else None
            )
            self.wire.window = 0
            if last == b"broken off":
                self.plane.act = lambda exchange, word: None
                self.send(GET)
                response = self.exchange.response
                response.begin(200, b"", b"x" * 70000, cast(object, None))  # type: ignore[arg-type]
                response.abort()
            else:
                self.send(GET.replace(b"HTTP/1.1\r\n", last))
            for _ in range(8):
                self.wire.peer_takes(100)
                self.pass_time(STALL)
            self.assertTrue(self.wire.connected, last)
            self.assertFalse(self.wire.aborted)
            self.pass_time(STALL * 3)
            self.assertFalse(self.wire.connected)
            self.assertEqual(0, len(self.plane.watchdog))

    def test_stream_is_told(self) -> None:
        """The answer under way is told of pauses, the one before is not."""
        told: list[str] = []

        class Flow:
            def client_full(self) -> None:
                told.append("full")

            def client_ready(self) -> None:
                told.append("ready")

        self.send(GET)
        response = self.exchange.response
        response.begin(200, b"", b"x", Flow())
        self.wire.window = 0
        response.piece(b"x" * 70000)
        self.assertEqual(["full"], told)
        self.wire.peer_takes()
        self.assertEqual(["full", "ready"], told)
        response.end()
        self.wire.window = 0
        self.send(GET)
        self.exchange.answer(b"x" * 70000)
        self.assertEqual(["full", "ready"], told)

    def test_closed_with_a_full_transport(self) -> None:
        """A close goes through once the client has taken what is its own."""
        self.wire.window = 0
        self.send(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        self.exchange.answer(b"x" * 70000)
        self.wire.peer_takes()
        self.clock.advance(0)
        self.assertFalse(self.wire.connected)
        self.assertTrue(self.answers()[0].whole)

    def test_cut_with_a_full_transport(self) -> None:
        """What was sent of an answer that breaks off reaches a client that is slow."""
        self.wire.window = 0
        self.send(GET)
        response = self.exchange.response
        response.begin(200, b"", b"x" * 70000, cast(object, None))  # type: ignore[arg-type]
        response.abort()
        self.wire.peer_takes()
        self.clock.advance(0)
        self.assertFalse(self.wire.connected)
        self.assertFalse(self.wire.aborted)
        [answer] = self.answers()
        self.assertEqual((70000, False), (len(answer.body), answer.whole))

    def test_half_closed_with_a_full_transport(self) -> None:
        """So does the end after an unread body."""
        self.plane.act = lambda exchange, word: (
            exchange.answer(b"x" * 70000) if word == "begin" else None
        )
        self.wire.window = 0
        self.send(post(b"xx")[:-1])
        self.wire.peer_takes()
        self.assertTrue(self.wire.half_closed)

    def test_interface(self) -> None:
        """The connection is the producer that Twisted's transports ask for."""
        self.assertTrue(verifyObject(IPushProducer, self.connection))


class LossTests(ClientTestCase):
    def test_at_every_step(self) -> None:
        """The exchange under way is told once, whenever the client goes."""
        for data, told in (
            (post(b"hello")[:-3], ["begin", "piece", "lost"]),
            (post(b"hello")[:-5], ["begin", "lost"]),
            (post(b"hello"), ["begin", "last", "lost"]),
        ):
            self.setUp()
            self.send(data)
            self.wire.peer_closes()
            self.assertEqual(told, self.exchange.told)
            self.assertTrue(self.exchange.response.ended)
            self.assertEqual(0, len(self.plane.watchdog))
            self.assertEqual(set(), self.factory.connections)

    def test_after_the_answer(self) -> None:
        """An exchange that was answered is not told."""
        self.answer_all()
        self.send(GET)
        self.wire.peer_closes()
        self.assertEqual(["begin", "last"], self.exchange.told)

    def test_answer_of_a_lost_client(self) -> None:
        """An answer that comes too late goes nowhere."""
        self.send(GET)
        self.wire.peer_closes()
        self.exchange.response.abort()
        self.exchange.response.end()
        self.assertEqual(b"", self.wire.value())


class CrashTests(ClientTestCase):
    def test_at_every_step(self) -> None:
        """An exception in any step is told to its exchange, and to no other."""
        for word in ("begin", "piece", "last", "lost"):
            self.setUp()

            def act(exchange: RecordingExchange, told: str, word: str = word) -> None:
                if told == word:
                    raise LookupError

            self.plane.act = act
            other, _ = self.connect()
            self.send(post(b"hello")[:-3])
            if word == "lost":
                self.wire.peer_closes()
            elif word == "last":
                self.send(b"llo")
            self.assertEqual("crashed", self.exchange.told[-1], word)
            self.assertTrue(other.idle)
            if word != "lost":
                self.assertEqual([500], [a.status for a in self.answers()])


class CapTests(ClientTestCase):
    max_connections = 2

    def test_one_too_many(self) -> None:
        """A connection beyond the cap is told so at once and closed; the others work on."""
        second, _ = self.connect()
        _, wire = self.connect()
        self.assertEqual(FULL, wire.value())
        self.assertTrue(wire.half_closed)
        wire.peer_sends(GET)
        self.assertEqual([], self.plane.exchanges)
        self.pass_time(DISCARD_SECONDS + 0.5)
        self.assertFalse(wire.connected)
        self.answer_all()
        self.send(GET)
        self.assertEqual(200, self.answers()[0].status)
        self.assertTrue(second.idle)

    def test_room_again(self) -> None:
        """A place that was given up can be taken."""
        self.connect()
        self.wire.peer_closes()
        self.connection, self.wire = self.connect()
        self.answer_all()
        self.send(GET)
        self.assertEqual(200, self.answers()[0].status)

    def test_far_too_many(self) -> None:
        """Even telling has its bound; beyond it connections are dropped."""
        self.connect()
        for _ in range(MAX_TURNED_AWAY):
            self.connect()
        self.assertIsNone(self.factory.buildProtocol(None))
        self.pass_time(DISCARD_SECONDS + 0.5)
        self.assertIsNotNone(self.factory.buildProtocol(None))


class DrainTests(ClientTestCase):
    def test_idle(self) -> None:
        """An idle connection is closed at once."""
        self.connection.stop_after_answer()
        self.clock.advance(0)
        self.assertFalse(self.wire.connected)

    def test_under_way(self) -> None:
        """A request under way is answered, then the connection is closed."""
        for data in (GET, post(b"hello"), post(b"hello")[:-3]):
            self.setUp()
            self.send(data)
            self.connection.stop_after_answer()
            self.assertEqual(1, self.factory.busy())
            if data == post(b"hello")[:-3]:
                self.send(b"llo")
            self.exchange.answer()
            self.clock.advance(0)
            [answer] = self.answers()
            self.assertEqual((200, b"close"), (answer.status, answer.headers[b"connection"]))
            self.assertFalse(self.wire.connected)
            self.assertEqual(0, self.factory.busy())

    def test_stream_under_way(self) -> None:
        """So is a stream whose head is out already."""
        self.send(GET)
        response = self.exchange.response
        response.begin(200, b"", b"x", cast(object, None))  # type: ignore[arg-type]
        self.connection.stop_after_answer()
        response.end()
        self.clock.advance(0)
        self.assertTrue(self.answers()[0].whole)
        self.assertFalse(self.wire.connected)

    def test_cut(self) -> None:
        """After the grace the connection is cut, and the exchange hears of it."""
        self.send(GET)
        self.connection.cut()
        self.clock.advance(0)
        self.assertEqual("lost", self.exchange.told[-1])
        self.assertEqual(0, len(self.plane.watchdog))
