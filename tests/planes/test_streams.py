"""Streams: what goes out, when, what is hidden, and what a break looks like."""

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import FakeClient, MemoryDataPlane, get, request, upstream
from tests.planes.scenes import (
    CHAT,
    CHAT_STREAM,
    CLOSING,
    DONE,
    END,
    FINISH,
    MESSAGES_STREAM,
    STREAM_HEAD,
    USAGE,
    chunk,
    delta,
    two_targets,
)

ASKS_FOR_USAGE = CHAT_STREAM[:-1] + b',"stream_options":{"include_usage":true}}'


class StreamTestCase(SynchronousTestCase):
    body = CHAT_STREAM
    environ: dict[str, str] = {}

    def setUp(self) -> None:
        self.plane = two_targets(self.environ)
        self.client: FakeClient = self.plane.client()
        self.client.send(request(self.body))

    def says(self, *pieces: bytes) -> None:
        """The upstream sends these events or comments, each in a chunk of its own."""
        for piece in pieces:
            self.plane.last.answer(chunk(piece))

    def check_event(self, status: int, estimated: bool, *outcomes: str) -> None:
        """There is one event, it is this one, and nothing is left over."""
        [event] = self.plane.events
        self.assertEqual((status, estimated), (event.status, event.estimated))
        self.assertEqual(list(outcomes), self.plane.outcomes)
        self.assertEqual((0, 0), (self.plane.in_flight, len(self.plane.plane.abandoned)))


class BeginningTests(StreamTestCase):
    def test_head_goes_with_the_first_event(self) -> None:
        """Before the first event nothing goes out; then head and event at once."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(b": wait\n\n", b"id: 1\n\n", b"retry: 5\n\n")
        self.assertEqual(b"", self.client.received())
        self.says(delta(b"Hel"))
        answer = self.client.answer
        self.assertEqual((200, False), (answer.status, answer.whole))
        self.assertEqual(delta(b"Hel"), answer.body[-len(delta(b"Hel")) :])
        self.assertEqual(b"text/event-stream", answer.headers[b"content-type"])
        self.assertNotIn(b"content-length", answer.headers)
        for name in (b"x-omnigate-request-id", b"x-request-id", b"request-id"):
            self.assertEqual(self.plane.plane.exchanges[0].id.encode(), answer.headers[name])

    def test_first_event_may_hold_nothing(self) -> None:
        """The first event is passed on when it comes, whatever it holds."""
        role = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
        self.plane.last.answer(STREAM_HEAD)
        self.says(role)
        self.assertEqual(role, self.client.answer.body)

    def test_empty(self) -> None:
        """A stream without an event leads to the next target."""
        self.plane.last.answer(STREAM_HEAD + chunk(b": nothing\n\n") + END)
        self.assertEqual(["u1", "u2"], self.plane.at)
        self.assertEqual(b"", self.client.received())

    def test_first_event_is_an_error(self) -> None:
        """So does one that begins with an error, whose connection is given up."""
        self.plane.last.answer(STREAM_HEAD + chunk(b": one\n\n"))
        self.says(b'data: {"error":{"message":"no"}}\n\n')
        self.assertFalse(self.plane.opened[0].open)
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")) + chunk(CLOSING) + END)
        self.assertTrue(self.client.answer.whole)
        self.assertNotIn(b'"no"', self.client.answer.body)
        self.check_event(200, False, "error_event", "ok")

    def test_only_a_hidden_event(self) -> None:
        """A stream of nothing but the usage that the client is not to see is an empty answer.

        It was never called finished, so its figures count as an estimate.
        """
        self.plane.last.answer(STREAM_HEAD + chunk(USAGE) + END)
        self.assertEqual(["u1"], self.plane.at)
        answer = self.client.answer
        self.assertEqual((200, b"", True), (answer.status, answer.body, answer.whole))
        self.check_event(200, True, "ok")
        [event] = self.plane.events
        self.assertEqual((9, 3), (event.input_tokens, event.output_tokens))

    def test_unasked(self) -> None:
        """A client that did not ask for a stream and gets one gets it as a stream."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")) + chunk(FINISH + DONE) + END)
        self.assertEqual(b"text/event-stream", client.answer.headers[b"content-type"])
        self.assertTrue(client.answer.whole)


class PassingTests(StreamTestCase):
    def test_each_event_at_once(self) -> None:
        """Each event goes out in the turn in which its last byte comes."""
        self.plane.last.answer(STREAM_HEAD)
        body = b""
        for text in (b"a", b"b", b"c"):
            self.says(delta(text)[:30])
            self.assertEqual(body, self.client.answers()[0].body if body else b"")
            self.says(delta(text)[30:])
            body += delta(text)
            self.assertEqual(body, self.client.answer.body)

    def test_hidden_usage(self) -> None:
        """The usage that the gateway asked for is kept from a client that did not."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), FINISH, USAGE, DONE)
        self.plane.last.answer(END)
        self.assertEqual(delta(b"Hi") + FINISH + DONE, self.client.answer.body)
        self.check_event(200, False, "ok")
        self.assertEqual(9, self.plane.events[0].input_tokens)

    def test_usage_asked_for(self) -> None:
        """A client that asked for it sees it."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(ASKS_FOR_USAGE))
        self.assertTrue(
            plane.last.requests().endswith(ASKS_FOR_USAGE.replace(b"small", b"vendor-1"))
        )
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END)
        self.assertEqual(delta(b"Hi") + CLOSING, client.answer.body)

    def test_comments_and_controls(self) -> None:
        """Comments pass, blocks without data do not reach OpenAI-style clients."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), b": wait\n\n", b"id: 7\n\n", b"retry: 5\n\n", delta(b"Ho"))
        self.assertEqual(delta(b"Hi") + b": wait\n\n" + delta(b"Ho"), self.client.answer.body)

    def test_error_inside(self) -> None:
        """An error event inside a stream is passed on as one."""
        error = b'data: {"error":{"message":"no more"}}\n\n'
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), error)
        self.plane.last.answer(END)
        self.assertEqual(delta(b"Hi") + error, self.client.answer.body)
        self.assertTrue(self.client.answer.whole)
        self.check_event(200, True, "ok")

    def test_end_is_not_made_up(self) -> None:
        """A stream that its protocol never finished is relayed as it came, and estimated."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"))
        self.plane.last.answer(END)
        self.assertEqual((delta(b"Hi"), True), (self.client.answer.body, self.client.answer.whole))
        self.check_event(200, True, "ok")
        self.assertEqual(len(CHAT_STREAM) // 4, self.plane.events[0].input_tokens)

    def test_running_totals_are_not_the_end(self) -> None:
        """Usage in every chunk closes nothing, as long as the answer is not called finished."""
        said = b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":%d}}\n\n'
        for finish in (b"", DONE, FINISH):
            self.setUp()
            self.plane.last.answer(STREAM_HEAD)
            self.says(said % 1, said % 2, finish or said % 2)
            self.plane.last.answer(END)
            self.check_event(200, not finish, "ok")
            self.assertEqual(2 if finish else 3, self.plane.events[0].output_tokens)

    def test_event_is_spooled_before_the_end(self) -> None:
        """Nobody holds a whole answer whose usage is not yet in the spool."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), CLOSING)
        self.assertEqual([], self.plane.events)
        seen: list[bytes] = []
        append = self.plane._append
        self.plane.plane.books._append = lambda line: (
            seen.append(self.client.received()) or append(line)  # type: ignore[func-returns-value]
        )
        self.plane.last.answer(END)
        self.assertFalse(seen[0].endswith(END))
        self.assertTrue(self.client.received().endswith(END))

    def test_next_request(self) -> None:
        """After a stream both connections are used again."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), CLOSING)
        self.plane.last.answer(END)
        self.client.send(get(b"/v1/models"))
        self.client.send(request(CHAT_STREAM))
        self.assertEqual([200, 200], [answer.status for answer in self.client.answers()])
        self.assertEqual(1, len(self.plane.opened))

    def test_http10(self) -> None:
        """An HTTP/1.0 client gets the bytes without chunks, and the end of the connection."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM).replace(b"HTTP/1.1", b"HTTP/1.0"))
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")) + chunk(FINISH + USAGE + DONE))
        self.assertNotIn(b"transfer-encoding", client.received())
        plane.last.answer(END)
        self.assertTrue(client.received().endswith(delta(b"Hi") + FINISH + DONE))
        self.assertFalse(client.open)
        self.assertFalse(client.transport.aborted)

    def test_log(self) -> None:
        """The log tells when the first byte went out, and how many there were."""
        self.plane.clock.advance(0.5)
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), CLOSING)
        self.plane.last.answer(END)
        [line] = self.plane.lines
        self.assertTrue(line.stream)
        self.assertEqual(500, line.first_byte_ms)
        self.assertEqual(len(self.client.answer.body), line.bytes_out)


class BreakTests(StreamTestCase):
    def test_cut(self) -> None:
        """A break shows as one: no closing chunk, the connection dropped, no other target."""
        for reason in (ConnectionLost, ConnectionDone):
            self.setUp()
            self.plane.last.answer(STREAM_HEAD)
            self.says(delta(b"Hi"))
            self.plane.last.close(reason)
            self.assertEqual(["u1"], self.plane.at)
            answer = self.client.answer
            self.assertEqual((delta(b"Hi"), False), (answer.body, answer.whole))
            self.assertFalse(self.client.open)
            self.check_event(499, True, "truncated")
            [line] = self.plane.lines
            self.assertEqual(("upstream_cut", "error"), (line.error_code, line.level))

    def test_cut_after_its_figures(self) -> None:
        """If the closing figures have come, they are the provider's."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"), CLOSING)
        self.plane.last.close(ConnectionLost)
        self.assertFalse(self.client.answer.whole)
        self.check_event(499, False, "truncated")

    def test_bad_chunk(self) -> None:
        """So does a chunk that cannot be read."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"))
        self.plane.last.answer(b"zz\r\n")
        self.assertFalse(self.client.answer.whole)
        self.check_event(499, True, "bad_framing")

    def test_counts_against_the_target(self) -> None:
        """Broken streams are failures of the target."""
        for _ in range(3):
            client = self.plane.client()
            client.send(request(CHAT_STREAM))
            self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
            self.plane.last.close(ConnectionLost)
        self.plane.client().send(request(CHAT_STREAM))
        self.assertEqual("u2", self.plane.last.upstream)


class SilenceTests(StreamTestCase):
    environ = {"OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "20000", "OMNIGATE_HEARTBEAT_MS": "5000"}

    def test_silent_upstream(self) -> None:
        """After the idle time both sides are closed."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"))
        self.plane.advance(19.5)
        self.assertTrue(self.client.open)
        self.plane.advance(1)
        self.assertFalse(self.client.open)
        self.assertFalse(self.plane.last.open)
        self.assertFalse(self.client.answer.whole)
        self.check_event(499, True, "stream_idle_timeout")

    def test_heartbeats(self) -> None:
        """A stream whose head is out is kept alive; before that nothing is sent."""
        self.plane.last.answer(STREAM_HEAD)
        self.plane.advance(11)
        self.assertEqual(b"", self.client.received())
        self.says(delta(b"Hi"))
        self.plane.advance(5.5)
        self.assertEqual(delta(b"Hi") + b": keep-alive\n\n", self.client.answer.body)
        self.says(CLOSING)
        self.plane.last.answer(END)
        self.assertTrue(self.client.answer.whole)

    def test_heartbeats_of_anthropic(self) -> None:
        """Anthropic-style clients get a ping, as their protocol has it."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")], environ=self.environ)
        client = plane.client()
        client.send(request(MESSAGES_STREAM, b"/v1/messages"))
        first = b'event: message_start\ndata: {"type":"message_start"}\n\n'
        plane.last.answer(STREAM_HEAD + chunk(first))
        plane.advance(5.5)
        self.assertEqual(first + b'event: ping\ndata: {"type": "ping"}\n\n', client.answer.body)

    def test_not_inside_an_event(self) -> None:
        """A heartbeat never stands inside an event."""
        long = delta(b"x" * 70_000)
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        self.says(long[:69_000])
        self.plane.advance(12)
        self.assertNotIn(b"keep-alive", self.client.received())
        self.says(long[69_000:])
        self.plane.advance(6)
        self.assertEqual(delta(b"Hi") + long + b": keep-alive\n\n", self.client.answer.body)

    def test_switched_off(self) -> None:
        """None are sent where they are switched off."""
        plane = MemoryDataPlane(environ={"OMNIGATE_HEARTBEAT_MS": "0"})
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        plane.advance(60)
        self.assertEqual(delta(b"Hi"), client.answer.body)


class SlowClientTests(StreamTestCase):
    def begin(self) -> None:
        """A stream whose client has stopped to read, and more of it than its transport holds."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"))
        self.client.stall()
        self.says(delta(b"x" * 70_000))

    def test_back_pressure(self) -> None:
        """What the client does not take is not taken from the upstream; then it goes on."""
        self.begin()
        self.assertFalse(self.plane.last.transport.reading)
        held = len(self.client.transport.dataBuffer)
        self.says(delta(b"y" * 70_000))
        self.assertEqual(held, len(self.client.transport.dataBuffer))
        self.client.take()
        self.plane.turn()
        self.assertTrue(self.plane.last.transport.reading)
        self.says(CLOSING)
        self.plane.last.answer(END)
        self.assertEqual(
            delta(b"Hi") + delta(b"x" * 70_000) + delta(b"y" * 70_000) + FINISH + DONE,
            self.client.answer.body,
        )
        self.check_event(200, False, "ok")

    def test_takes_nothing(self) -> None:
        """A client that takes nothing for 30 s is given up on; the stream is read on."""
        self.begin()
        self.plane.advance(29.5)
        self.assertFalse(self.client.transport.disconnecting)
        self.plane.advance(1)
        self.assertTrue(self.client.transport.disconnecting)
        self.assertEqual(1, len(self.plane.plane.abandoned))
        self.assertEqual(1, self.plane.in_flight)
        self.says(CLOSING)
        self.plane.last.answer(END)
        self.check_event(499, False, "ok")
        self.plane.advance(31)
        self.assertFalse(self.client.transport.connected)

    def test_takes_little(self) -> None:
        """One that takes a little in every 30 s is not."""
        self.begin()
        for _ in range(5):
            self.plane.advance(25)
            self.client.take(100)
        self.assertFalse(self.client.transport.disconnecting)

    def test_stalls_with_the_end(self) -> None:
        """A stream that is whole is billed as whole, whether its last bytes are taken or not."""
        self.plane.last.answer(STREAM_HEAD)
        self.says(delta(b"Hi"))
        self.client.stall()
        self.says(CLOSING)
        self.plane.last.answer(END)
        self.check_event(200, False, "ok")
        self.plane.advance(61)
        self.assertFalse(self.client.transport.connected)
        self.plane.advance(30)
        self.assertEqual(0, len(self.plane.watchdog))

    def test_leaves_while_full(self) -> None:
        """One that leaves with its transport full is let go, and the stream read on."""
        self.begin()
        self.client.leave(ConnectionLost)
        self.plane.turn()
        self.assertTrue(self.plane.last.transport.reading)
        self.says(CLOSING)
        self.plane.last.answer(END)
        self.check_event(499, False, "ok")
