"""Clients that leave, at every step of a request."""

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.abandoned import MAX_ABANDONED
from tests.planes.memory import FakeClient, MemoryDataPlane, reply, request, upstream
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)

#: The input that is billed where the provider never told: a quarter of the request's bytes.
ESTIMATED_INPUT = len(CHAT) // 4


class LeavingTestCase(SynchronousTestCase):
    environ: dict[str, str] = {}

    def setUp(self) -> None:
        self.plane = MemoryDataPlane(environ=self.environ)
        self.client = self.plane.client()

    def check_event(self, figures: tuple[int, int, bool], outcome: str) -> None:
        """There is one event, of status 499, with these figures; and nothing is left over."""
        [event] = self.plane.events
        self.assertEqual(
            (499, *figures),
            (event.status, event.input_tokens, event.output_tokens, event.estimated),
        )
        self.assertEqual([outcome], self.plane.outcomes)
        self.assertEqual([], self.plane.refused)
        line = self.plane.lines[-1]
        self.assertEqual(("client_disconnected", "info"), (line.error_code, line.level))
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        self.assertEqual(0, self.plane.in_flight)
        self.assertEqual(0, self.plane.plane.admission.memory_bytes)
        self.assertEqual(0, len(self.plane.plane.abandoned))
        self.plane.advance(55)
        self.assertEqual(0, len(self.plane.watchdog))


class EarlyTests(LeavingTestCase):
    def test_in_the_body(self) -> None:
        """Nothing was asked of anybody: a refusal is counted, and the place is given back."""
        for size in (1, 20):
            self.setUp()
            self.client.send(request(CHAT)[:-size])
            self.assertEqual(1, self.plane.in_flight)
            self.client.leave()
            self.assertEqual([("k1", "client_disconnected")], self.plane.refused)
            self.assertEqual([], self.plane.events)
            self.assertEqual([], self.plane.opened)
            self.check_nothing_left()

    def test_in_the_head(self) -> None:
        """Half a head is no request."""
        self.client.send(request(CHAT)[:20])
        self.client.leave()
        self.assertEqual([], self.plane.refused)
        self.check_nothing_left()

    def test_while_connecting(self) -> None:
        """The attempt to connect is called off, no other takes its place, nothing is billed."""
        self.plane.slow = True
        self.client.send(request(CHAT))
        self.client.leave()
        [connecting] = self.plane.connecting
        self.assertTrue(connecting.canceled)
        self.assertIsNone(self.plane.events[0].upstream)
        self.check_event((0, 0, False), "canceled")

    def test_body_is_let_go(self) -> None:
        """With its place a request gives up its body, whoever still knows of it."""
        for data in (request(CHAT), request(CHAT)[:-1]):
            for answered in (False, True):
                self.setUp()
                self.client.send(data)
                exchange = self.plane.plane.exchanges[-1]
                self.assertTrue(exchange.body or exchange._arriving)
                if answered and self.plane.opened:
                    self.plane.last.answer(reply(ANSWER))
                self.client.leave()
                if self.plane.in_flight:
                    self.plane.last.answer(reply(ANSWER))
                self.assertEqual(0, self.plane.in_flight)
                self.assertFalse(exchange.body or exchange._arriving)


class LongRequestTests(LeavingTestCase):
    """A request that is longer than what a socket takes at once."""

    body = CHAT_STREAM.replace(b"Hi", b"x" * 500_000)

    def send(self, taken: int, **changes: str) -> None:
        """Have it sent to an upstream that has taken so many bytes of it."""
        self.plane = MemoryDataPlane(upstreams=[upstream("u1", **changes)])
        self.client = self.plane.client()
        self.client.send(request(CHAT))
        self.plane.last.answer(reply(ANSWER))
        self.plane.events.clear()
        self.plane.last.transport.window = taken
        self.client.send(request(self.body))
        self.assertEqual(1, len(self.plane.opened))

    def test_not_sent_whole(self) -> None:
        """It is called off at once, and costs nothing: nobody can have acted on it."""
        for taken in (0, 1, 1000, 400_000):
            for abandon in ("read_on", "cancel"):
                self.send(taken, abandon=abandon)
                self.client.leave()
                self.assertFalse(self.plane.last.open)
                self.check_event((0, 0, False), "canceled")
                self.assertEqual("u1", self.plane.events[0].upstream)

    def test_sent_whole(self) -> None:
        """However late its last byte went, from then on it is read on."""
        for taken in (1_000_000, 1000):
            self.send(taken)
            self.plane.last.transport.peer_takes()
            self.client.leave()
            self.assertEqual([], self.plane.events)
            self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END)
            self.check_event((9, 3, False), "ok")

    def test_answered_early(self) -> None:
        """An answer that has begun is read on, however much of the request it did not want."""
        self.send(1000)
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        self.client.leave()
        self.assertEqual([], self.plane.events)
        self.plane.last.answer(chunk(CLOSING) + END)
        self.check_event((9, 3, False), "ok")


class ShortAnswerTests(LeavingTestCase):
    def test_before_the_head(self) -> None:
        """The answer is read to its end for the provider's own figures."""
        self.client.send(request(CHAT))
        self.client.leave()
        self.assertEqual([], self.plane.events)
        self.assertEqual(1, self.plane.in_flight)
        self.plane.last.answer(reply(ANSWER))
        self.assertTrue(self.plane.last.protocol.usable)
        self.check_event((9, 3, False), "ok")

    def test_at_any_byte(self) -> None:
        """Wherever in the answer the client leaves, its figures are read."""
        answer = reply(ANSWER)
        for size in (1, 17, answer.index(b"\r\n\r\n"), len(answer) - len(ANSWER), len(answer) - 1):
            self.setUp()
            self.client.send(request(CHAT))
            self.plane.last.answer(answer[:size])
            self.client.leave()
            self.assertEqual([], self.plane.events, size)
            self.plane.last.answer(answer[size:])
            self.check_event((9, 3, False), "ok")

    def test_cut_afterwards(self) -> None:
        """If the upstream breaks off as well, what came is estimated."""
        self.client.send(request(CHAT))
        self.plane.last.answer(reply(ANSWER)[:-40])
        self.client.leave()
        self.plane.last.close(ConnectionLost)
        self.check_event((ESTIMATED_INPUT, (len(ANSWER) - 40) // 4, True), "truncated")

    def test_lost_before_the_head(self) -> None:
        """Of a request without an answer the input is estimated."""
        self.client.send(request(CHAT))
        self.client.leave()
        self.plane.last.close()
        self.check_event((ESTIMATED_INPUT, 0, True), "connection_lost")

    def test_failure(self) -> None:
        """A failure costs nothing, wherever the client left; no other target is asked."""
        failure = reply(ERROR, b"503 Busy", b"retry-after: 20\r\n")
        for size in (0, 10, len(failure) - 1):
            self.plane = two_targets()
            self.client = self.plane.client()
            self.client.send(request(CHAT))
            if size:
                self.plane.last.answer(failure[:size])
            self.client.leave()
            self.plane.last.answer(failure[size:])
            self.assertEqual(["u1"], self.plane.at)
            self.check_event((0, 0, False), "status_503")
            self.assertEqual("u1", self.plane.events[0].upstream)

    def test_failure_is_remembered(self) -> None:
        """The provider's wish to be left alone is obeyed all the same."""
        self.plane = two_targets()
        self.client = self.plane.client()
        self.client.send(request(CHAT))
        self.client.leave()
        self.plane.last.answer(reply(ERROR, b"429 Slow", b"retry-after: 20\r\n"))
        self.plane.client().send(request(CHAT))
        self.assertEqual(["u1", "u2"], self.plane.at)

    def test_refusal(self) -> None:
        """So does an answer that says no, and one about our own credential."""
        for status, outcome in ((b"400 Bad", "ok"), (b"401 Who", "upstream_auth")):
            self.setUp()
            self.client.send(request(CHAT))
            self.client.leave()
            self.plane.last.answer(reply(ERROR, status))
            self.check_event((0, 0, False), outcome)


class LongAnswerTests(LeavingTestCase):
    def test_estimate_counts_all(self) -> None:
        """Of a long answer the part before the client left counts as much as the rest."""
        body = b'{"choices":["' + b"x" * 150_000 + b'"]}'
        answer = reply(body)
        for size in (10, 40_000, 100_000):
            self.setUp()
            self.client.send(request(CHAT))
            self.plane.last.answer(answer[:size])
            self.client.leave()
            self.plane.last.answer(answer[size:])
            self.check_event((ESTIMATED_INPUT, len(body) // 4, True), "ok")


class StreamTests(LeavingTestCase):
    def begin(self, *events: bytes) -> None:
        self.client.send(request(CHAT_STREAM))
        self.plane.last.answer(STREAM_HEAD)
        for event in events:
            self.plane.last.answer(chunk(event))

    def test_at_any_event(self) -> None:
        """Wherever the client leaves a stream, the provider's closing figures are read."""
        for events in ((), (delta(b"Hel"),), (delta(b"Hel"), b": comment\n\n", b"data: {")):
            self.setUp()
            self.begin(*events)
            self.client.leave()
            self.assertEqual(1, len(self.plane.plane.abandoned))
            self.assertEqual(1, self.plane.in_flight)
            if events[-1:] == (b"data: {",):
                self.plane.last.answer(chunk(b"}\n\n"))
            self.plane.last.answer(chunk(CLOSING) + END)
            self.assertTrue(self.plane.last.protocol.usable)
            self.check_event((9, 3, False), "ok")

    def test_reset(self) -> None:
        """A reset is a way to leave, too."""
        self.begin(delta(b"Hel"))
        self.client.leave(ConnectionLost)
        self.plane.last.answer(chunk(CLOSING) + END)
        self.check_event((9, 3, False), "ok")

    def test_place_is_kept(self) -> None:
        """Hanging up and coming back is no way around the bound on requests in flight."""
        self.plane = MemoryDataPlane(environ={"OMNIGATE_MAX_CONCURRENT_PER_KEY": "1"})
        self.client = self.plane.client()
        self.begin(delta(b"Hel"))
        self.client.leave()
        again = self.plane.client()
        again.send(request(CHAT))
        self.assertEqual("concurrency_limit_exceeded", again.answer.code)
        self.plane.last.answer(chunk(CLOSING) + END)
        again = self.plane.client()
        again.send(request(CHAT))
        self.assertEqual(b"", again.received())

    def test_paused_stream(self) -> None:
        """A stream that was waiting for its client goes on when the client is gone."""
        self.begin(delta(b"Hel"))
        self.client.stall()
        self.plane.last.answer(chunk(delta(b"x" * 70000)))
        self.assertFalse(self.plane.last.transport.reading)
        self.client.leave()
        self.plane.turn()
        self.assertTrue(self.plane.last.transport.reading)
        self.plane.last.answer(chunk(CLOSING) + END)
        self.check_event((9, 3, False), "ok")

    def test_upstream_breaks_off(self) -> None:
        """If the upstream breaks off before its figures, they are estimated."""
        self.begin(delta(b"Hel"))
        self.client.leave()
        self.plane.last.close(ConnectionLost)
        [event] = self.plane.events
        self.assertEqual((499, True), (event.status, event.estimated))
        self.assertEqual(len(CHAT_STREAM) // 4, event.input_tokens)
        self.assertEqual(["truncated"], self.plane.outcomes)

    def test_it_takes_too_long(self) -> None:
        """After the bound in time the upstream is let go, and what came is estimated."""
        self.begin(delta(b"Hel"))
        self.client.leave()
        for _ in range(119):
            self.plane.last.answer(chunk(delta(b"x")))
            self.plane.advance(1)
        self.assertEqual([], self.plane.events)
        self.plane.advance(2)
        self.assertFalse(self.plane.last.open)
        self.assertEqual(
            (True, 120), (self.plane.events[0].estimated, self.plane.events[0].output_tokens)
        )
        self.assertEqual(["timeout"], self.plane.outcomes)
        self.check_nothing_left()


class BoundedTests(LeavingTestCase):
    environ = {"OMNIGATE_ABORT_DRAIN_MAX_MB": "1"}

    def test_bytes(self) -> None:
        """After the bound in bytes the upstream is let go."""
        self.client.send(request(CHAT_STREAM))
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hel")))
        self.client.leave()
        for _ in range(16):
            self.plane.last.answer(chunk(delta(b"x" * 65300)))
        self.assertEqual([], self.plane.events)
        self.plane.last.answer(chunk(delta(b"x" * 65300)))
        self.assertFalse(self.plane.last.open)
        self.assertTrue(self.plane.events[0].estimated)
        self.check_nothing_left()

    def test_number(self) -> None:
        """Beyond the bound in number answers are let go at once."""
        clients: list[FakeClient] = []
        for _ in range(MAX_ABANDONED + 1):
            clients.append(self.plane.client())
            clients[-1].send(request(CHAT_STREAM))
            self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hel")))
        for client in clients:
            client.leave()
        self.assertEqual(MAX_ABANDONED, len(self.plane.plane.abandoned))
        self.assertFalse(self.plane.last.open)
        [event] = self.plane.events
        self.assertEqual((499, True), (event.status, event.estimated))
        for connection in self.plane.opened[:-1]:
            connection.answer(chunk(CLOSING) + END)
        self.assertEqual(MAX_ABANDONED + 1, len(self.plane.events))
        self.check_nothing_left()


class SwitchedOffTests(LeavingTestCase):
    environ = {"OMNIGATE_ABORT_DRAIN_MS": "0"}

    def test_at_once(self) -> None:
        """With a bound of 0 ms nothing is read on."""
        self.client.send(request(CHAT_STREAM))
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hel")))
        self.client.leave()
        self.assertFalse(self.plane.last.open)
        self.assertEqual((499, True), (self.plane.events[0].status, self.plane.events[0].estimated))
        self.check_nothing_left()


class CancelTests(LeavingTestCase):
    def test_upstream_that_is_canceled(self) -> None:
        """An upstream of one's own is stopped when its client leaves."""
        for sent in (b"", STREAM_HEAD, STREAM_HEAD + chunk(delta(b"Hel"))):
            self.plane = MemoryDataPlane(upstreams=[upstream("u1", abandon="cancel")])
            self.client = self.plane.client()
            self.client.send(request(CHAT_STREAM))
            if sent:
                self.plane.last.answer(sent)
            self.client.leave()
            self.assertFalse(self.plane.last.open)
            [event] = self.plane.events
            self.assertEqual((499, True), (event.status, event.estimated))
            self.assertEqual(["canceled"], self.plane.outcomes)
            self.check_nothing_left()


class StoppingTests(LeavingTestCase):
    def test_stop(self) -> None:
        """At a stop each answer that is still read on bills what it has."""
        for body, sent, estimated in (
            (CHAT_STREAM, STREAM_HEAD + chunk(delta(b"Hel")), True),
            (CHAT_STREAM, STREAM_HEAD + chunk(CLOSING), False),
            (CHAT, reply(ANSWER)[:-10], True),
        ):
            self.setUp()
            self.client.send(request(body))
            self.plane.last.answer(sent)
            self.client.leave()
            self.plane.plane.abandoned.stop()
            self.plane.turn()
            self.assertFalse(self.plane.last.open)
            [event] = self.plane.events
            self.assertEqual((499, estimated), (event.status, event.estimated))
            self.check_nothing_left()
