"""What is written to a client."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.response import Response, status_line
from omnigate.protocols.watchdog import Watchdog
from omnigate.wire.body import LAST_CHUNK
from tests.planes.reading import read_answers
from tests.planes.transport import WireTransport

#: What every answer says of when it was made.
DATE = b"date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"


class Client:
    """The connection, which remembers how the answer ended."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def response_ended(self, response: Response) -> None:
        self.told.append("ended")

    def response_aborted(self, response: Response) -> None:
        self.told.append("aborted")


class Flow:
    """Who is told to pause."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def client_full(self) -> None:
        self.told.append("full")

    def client_ready(self) -> None:
        self.told.append("ready")


class ResponseTestCase(SynchronousTestCase):
    def make(
        self, *, head_only: bool = False, http10: bool = False, keep_alive: bool = True
    ) -> Response:
        self.client = Client()
        self.flow = Flow()
        self.wire = WireTransport(Clock())
        return Response(
            self.client,
            self.wire,
            HttpDate(Watchdog(Clock()), lambda: 0.0),
            head_only=head_only,
            http10=http10,
            keep_alive=keep_alive,
        )


class WholeTests(ResponseTestCase):
    def test_bytes(self) -> None:
        """An answer with the length counted here, in one write."""
        response = self.make()
        response.whole(200, b"x: y\r\n", b"hello")
        self.assertEqual(
            b"HTTP/1.1 200 OK\r\n" + DATE + b"content-length: 5\r\nx: y\r\n\r\nhello",
            self.wire.value(),
        )
        self.assertEqual(["ended"], self.client.told)
        self.assertTrue(response.started and response.ended)
        self.assertEqual(5, response.bytes_out)

    def test_end_of_the_connection(self) -> None:
        """Whoever's connection ends is told so: HTTP/1.0 clients, and those that asked."""
        for response in (self.make(keep_alive=False), self.make(http10=True)):
            wire = response._transport
            response.whole(200, b"", b"")
            self.assertIn(b"\r\nconnection: close\r\n", wire.value())
            self.assertFalse(response.keep_alive)

    def test_head_only(self) -> None:
        """The answer to HEAD tells the length and has no body."""
        self.make(head_only=True).whole(200, b"", b"hello")
        self.assertEqual(
            b"HTTP/1.1 200 OK\r\n" + DATE + b"content-length: 5\r\n\r\n", self.wire.value()
        )

    def test_status_lines(self) -> None:
        """Every status has a line; those of providers have their names."""
        for status, line in (
            (200, b"HTTP/1.1 200 OK\r\n"),
            (429, b"HTTP/1.1 429 Too Many Requests\r\n"),
            (529, b"HTTP/1.1 529 Overloaded\r\n"),
            (299, b"HTTP/1.1 299 \r\n"),
        ):
            self.assertEqual(line, status_line(status))


class StreamTests(ResponseTestCase):
    def test_chunks(self) -> None:
        """Each piece is a chunk, the first goes with the head, the end is the last chunk."""
        response = self.make()
        response.begin(200, b"x: y\r\n", b"hel", self.flow)
        self.assertEqual(
            b"HTTP/1.1 200 OK\r\n"
            + DATE
            + b"transfer-encoding: chunked\r\nx: y\r\n\r\n3\r\nhel\r\n",
            self.wire.value(),
        )
        response.piece(b"lo")
        response.end()
        self.assertTrue(self.wire.value().endswith(b"2\r\nlo\r\n" + LAST_CHUNK))
        self.assertEqual(["ended"], self.client.told)
        self.assertEqual(5, response.bytes_out)

    def test_empty(self) -> None:
        """A body without a byte is not ended twice."""
        response = self.make()
        response.begin(200, b"", b"", self.flow)
        response.end()
        [answer] = read_answers(self.wire.value(), True)
        self.assertEqual((b"", True), (answer.body, answer.whole))
        self.assertTrue(self.wire.value().endswith(b"\r\n\r\n" + LAST_CHUNK))

    def test_http10(self) -> None:
        """An HTTP/1.0 client gets no chunks: its body ends with the connection."""
        response = self.make(http10=True)
        response.begin(200, b"", b"hel", self.flow)
        response.piece(b"lo")
        response.end()
        self.assertEqual(
            b"HTTP/1.1 200 OK\r\n" + DATE + b"connection: close\r\n\r\nhello", self.wire.value()
        )
        self.assertFalse(response.keep_alive)

    def test_last_answer_of_a_connection(self) -> None:
        """A chunked answer says when it is the last."""
        self.make(keep_alive=False).begin(200, b"", b"x", self.flow)
        self.assertIn(b"\r\nconnection: close\r\n", self.wire.value())

    def test_abort(self) -> None:
        """A broken answer has no end, whoever asks for one afterwards."""
        response = self.make()
        response.begin(200, b"", b"x", self.flow)
        response.abort()
        response.abort()
        response.end()
        self.assertEqual(["aborted"], self.client.told)
        self.assertFalse(self.wire.value().endswith(LAST_CHUNK))

    def test_client_gone(self) -> None:
        """To a client that is gone nothing ends."""
        response = self.make()
        response.begin(200, b"", b"x", self.flow)
        response.client_gone()
        response.end()
        response.abort()
        self.assertEqual([], self.client.told)

    def test_flow(self) -> None:
        """Pauses are told to whom they concern, from the first byte to the last."""
        response = self.make()
        response.client_full()
        response.client_ready()
        response.begin(200, b"", b"x", self.flow)
        response.client_full()
        response.client_ready()
        response.end()
        response.client_full()
        response.client_ready()
        self.assertEqual(["full", "ready"], self.flow.told)

    def test_untaken(self) -> None:
        """What waits for the client is known where the transport tells it."""
        response = self.make()
        self.wire.window = 10
        self.wire.write(b"x" * 15)
        self.assertEqual(5, response.untaken())

        class Secure:
            """A transport that keeps it to itself."""

        self.assertEqual(
            -1, Response(self.client, Secure(), HttpDate(Watchdog(Clock()), lambda: 0.0)).untaken()
        )
