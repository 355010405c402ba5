"""How each kind of answer is taken: as the answer, as a reason to go on, or as the end."""

from collections.abc import Callable

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.attempt import FAILED_BODY_SECONDS
from tests.planes.memory import (
    SECRET,
    FakeConnection,
    MemoryDataPlane,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    MESSAGE,
    MESSAGES,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)

PLAIN_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

#: What makes the walk go on: the outcome, and what the upstream says.
FAILURES: tuple[tuple[str, bytes], ...] = (
    ("status_429", reply(ERROR, b"429 Slow")),
    ("status_500", reply(ERROR, b"500 Oops")),
    ("status_502", reply(b"<html>", b"502 Bad")),
    ("status_503", reply(b"", b"503 Busy")),
    ("status_529", reply(ERROR, b"529 Overloaded")),
    ("status_429", reply(ERROR, b"429 Slow", b"content-encoding: gzip\r\n")),
    ("upstream_auth", reply(ERROR, b"401 Who")),
    ("upstream_auth", reply(ERROR, b"403 No")),
    ("bad_framing", b"garbage\r\n\r\n"),
    ("bad_framing", PLAIN_HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"),
    ("bad_framing", PLAIN_HEAD + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd"),
    ("bad_framing", PLAIN_HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n"),
    ("bad_framing", PLAIN_HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n"),
    ("bad_framing", PLAIN_HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n"),
    ("bad_framing", reply(ANSWER, headers=b"content-encoding: gzip\r\n")),
    ("unknown_coding", reply(ANSWER, headers=b"content-encoding: br\r\n")),
    (
        "bad_framing",
        b"HTTP/1.1 200 OK\r\ncontent-type: " + b"x" * 257 + b"\r\ncontent-length: 0\r\n\r\n",
    ),
    (
        "bad_framing",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain;\tx=y\r\ncontent-length: 0\r\n\r\n",
    ),
    ("not_json", reply(b"<html>sign in</html>")),
    ("not_json", reply(b"")),
    ("not_json", reply(b"<html>" + b"x" * 70_000)),
    ("not_json", reply(b"[" + b"1," * 40_000 + b"1]")),
    ("not_json", b"HTTP/1.1 204 None\r\n\r\n"),
    ("error_envelope", reply(ERROR)),
    ("empty_stream", STREAM_HEAD + END),
    ("empty_stream", STREAM_HEAD + chunk(b": one\n\n: two\n\n") + END),
    ("error_event", STREAM_HEAD + chunk(b'data: {"error":{"message":"no"}}\n\n')),
)


class FailureTests(SynchronousTestCase):
    def check_next(self, outcome: str, act: Callable[[FakeConnection], object]) -> MemoryDataPlane:
        """What the first upstream does leads to the second one, whose answer is the answer."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        act(plane.last)
        self.assertEqual(["u1", "u2"], plane.at, outcome)
        self.assertEqual(b"", client.received())
        plane.last.answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status, outcome)
        self.assertEqual(b"2", client.answer.headers[b"x-omnigate-attempts"])
        self.assertEqual(b"u2", client.answer.headers[b"x-omnigate-upstream"])
        self.assertEqual([outcome, "ok"], plane.outcomes)
        [event] = plane.events
        self.assertEqual(("u2", "vendor-2"), (event.upstream, event.target_model))
        self.assertEqual((9, 3, False), (event.input_tokens, event.output_tokens, event.estimated))
        return plane

    def test_answers(self) -> None:
        """Each of these answers leads to the next target."""
        for outcome, answer in FAILURES:

            def say(connection: FakeConnection, answer: bytes = answer) -> None:
                connection.answer(answer)

            self.check_next(outcome, say)

    def test_cut_anywhere(self) -> None:
        """So does a short answer that is cut at any byte."""
        answer = reply(ANSWER)
        head = len(answer) - len(ANSWER)
        for size in (1, head - 1, head, head + 1, len(answer) - 1):

            def cut(connection: FakeConnection, size: int = size) -> None:
                connection.answer(answer[:size])
                connection.close()

            self.check_next("truncated", cut)

    def test_stream_cut_before_its_first_event(self) -> None:
        """So does a stream that breaks before its first event."""
        for begun in (b"", chunk(b": wait\n\n"), chunk(b'data: {"id"')):

            def cut(connection: FakeConnection, begun: bytes = begun) -> None:
                connection.answer(STREAM_HEAD + begun)
                connection.close(ConnectionLost)

            self.check_next("truncated", cut)

    def test_silence(self) -> None:
        """So does silence: before the head, in a short answer, before a stream's first event."""
        for environ, sent, seconds, outcome in (
            ({}, b"", 5.3, "timeout"),
            ({}, b"HTTP/1.1 100 Continue\r\n\r\n", 5.3, "timeout"),
            ({}, b"HTTP/1.1 200 OK\r\ncont", 5.3, "timeout"),
            (
                {"OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "9000"},
                reply(ANSWER)[:-1],
                9.3,
                "stream_idle_timeout",
            ),
            ({"OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "9000"}, STREAM_HEAD, 9.3, "stream_idle_timeout"),
        ):
            plane = two_targets(environ)
            client = plane.client()
            client.send(request(CHAT))
            if sent:
                plane.last.answer(sent)
            plane.advance(seconds - 0.4)
            self.assertEqual(["u1"], plane.at, outcome)
            plane.advance(0.4)
            self.assertEqual(["u1", "u2"], plane.at, outcome)
            self.assertFalse(plane.opened[0].open)
            plane.last.answer(reply(ANSWER))
            self.assertEqual([outcome, "ok"], plane.outcomes)
            self.assertEqual(200, client.answer.status)

    def test_slow_failure(self) -> None:
        """The body of a failure is not waited for long; its connection is given up for it."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(ERROR, b"503 Busy")[:-5])
        for _ in range(int(FAILED_BODY_SECONDS * 2)):
            plane.advance(0.5)
            plane.opened[0].answer(b" ")
        plane.advance(0.5)
        self.assertEqual(["u1", "u2"], plane.at)
        self.assertFalse(plane.opened[0].open)
        plane.last.answer(reply(ANSWER))
        self.assertEqual(["status_503", "ok"], plane.outcomes)

    def test_large_failure(self) -> None:
        """Nor is one that is long read to its end."""
        plane = two_targets()
        plane.client().send(request(CHAT))
        plane.last.answer(reply(b"x" * 10_000_000, b"500 Oops")[:80_000])
        self.assertEqual(["u1", "u2"], plane.at)
        self.assertFalse(plane.opened[0].open)

    def test_kept_connection(self) -> None:
        """The connection of a failure that was read to its end is used again."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(ERROR, b"503 Busy"))
        plane.last.answer(reply(ANSWER))
        client.send(request(CHAT))
        self.assertEqual(2, len(plane.opened))
        self.assertTrue(plane.opened[0].protocol.busy)

    def test_missing_credential(self) -> None:
        """An upstream whose credential is not there is not asked."""
        plane = MemoryDataPlane(
            routes=[route("small", ("u1", "a"), ("u2", "b"))],
            upstreams=[upstream("u1", api_key_env="ABSENT_KEY"), upstream("u2")],
        )
        client = plane.client()
        client.send(request(CHAT))
        self.assertEqual(["u2"], plane.at)
        plane.last.answer(reply(ANSWER))
        self.assertEqual(["upstream_auth", "ok"], plane.outcomes)
        self.assertEqual(b"2", client.answer.headers[b"x-omnigate-attempts"])

    def test_missing_credential_everywhere(self) -> None:
        """If there is none anywhere, the operator is named as the one to mend it."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", api_key_env="ABSENT_KEY")])
        client = plane.client()
        client.send(request(CHAT))
        self.assertEqual("upstream_authentication_failed", client.answer.code)
        self.assertEqual(([], 502), (plane.opened, plane.events[0].status))


class EndTests(SynchronousTestCase):
    def play(self, *answers: bytes) -> MemoryDataPlane:
        """Each target answers in turn, and none of them well."""
        names = [f"u{index}" for index in range(len(answers))]
        plane = MemoryDataPlane(
            routes=[route("small", *[(name, "m") for name in names])],
            upstreams=[upstream(name) for name in names],
        )
        self.client = plane.client()
        self.client.send(request(CHAT))
        for answer in answers:
            plane.last.answer(answer)
        return plane

    def test_all_failed(self) -> None:
        """The client is told of every attempt, in its own protocol, and nothing is billed."""
        plane = self.play(*[answer for _, answer in FAILURES if b"429" not in answer])
        answer = self.client.answer
        self.assertEqual(502, answer.status)
        for attempt in plane.events[0].attempts:
            self.assertIn(
                f"{attempt.upstream}/m: {attempt.outcome.replace('_', ' ')}", answer.message
            )
        [event] = plane.events
        self.assertEqual((502, None, None), (event.status, event.upstream, event.target_model))
        self.assertEqual((0, 0, False), (event.input_tokens, event.output_tokens, event.estimated))
        self.assertEqual([], plane.refused)

    def test_rate_limited(self) -> None:
        """If any target was rate limited the client is told to wait, as long as the longest."""
        plane = self.play(
            reply(ERROR, b"500 Oops"),
            reply(ERROR, b"429 Slow", b"retry-after: 7\r\n"),
            reply(ERROR, b"429 Slow", b"retry-after: 20\r\n"),
            reply(ERROR, b"503 Busy", b"retry-after: 50\r\n"),
        )
        answer = self.client.answer
        self.assertEqual((429, "upstream_rate_limited"), (answer.status, answer.code))
        self.assertEqual(b"20", answer.headers[b"retry-after"])
        self.assertEqual(429, plane.events[0].status)

    def test_own_credential(self) -> None:
        """A credential of ours that is refused is not the client's fault."""
        self.play(reply(ERROR, b"401 Who"))
        answer = self.client.answer
        self.assertEqual((502, "upstream_authentication_failed"), (answer.status, answer.code))
        self.assertNotIn(b"too busy", answer.body)

    def test_anthropic(self) -> None:
        """The same in Anthropic's shape."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")])
        client = plane.client()
        client.send(request(MESSAGES, b"/v1/messages"))
        plane.last.answer(reply(ERROR, b"529 Overloaded"))
        self.assertEqual(
            ("error", "api_error"),
            (client.answer.json["type"], client.answer.json["error"]["type"]),
        )


class CooldownTests(SynchronousTestCase):
    def first_asked(self, plane: MemoryDataPlane) -> str:
        """The upstream that the next request goes to; it gets its answer."""
        client = plane.client()
        client.send(request(CHAT))
        [connection] = plane.busy
        connection.answer(reply(ANSWER))
        client.leave()
        return connection.upstream

    def fail_first(self, plane: MemoryDataPlane, answer: bytes) -> None:
        """A request whose first target answers like this, and the second one well."""
        client = plane.client()
        client.send(request(CHAT))
        plane.busy[0].answer(answer)
        for connection in plane.busy:
            connection.answer(reply(ANSWER))
        client.leave()

    def test_provider_asks(self) -> None:
        """A provider's own wish rests the target at once and as long as it says."""
        for status in (b"429 Slow", b"503 Busy", b"529 Overloaded"):
            plane = two_targets()
            self.fail_first(plane, reply(ERROR, status, b"retry-after: 20\r\n"))
            self.assertEqual("u2", self.first_asked(plane))
            plane.advance(19)
            self.assertEqual("u2", self.first_asked(plane))
            plane.advance(1.5)
            self.assertEqual("u1", self.first_asked(plane))

    def test_not_of_others(self) -> None:
        """A wait that other failures name does not count as such a wish."""
        plane = two_targets()
        self.fail_first(plane, reply(ERROR, b"500 Oops", b"retry-after: 20\r\n"))
        self.assertEqual("u1", self.first_asked(plane))

    def test_repeated_failures(self) -> None:
        """After three failures the target goes last for its time."""
        for _, answer in FAILURES:
            if answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 403")):
                continue
            plane = two_targets()
            for _ in range(3):
                self.fail_first(plane, answer)
            self.assertEqual("u2", self.first_asked(plane), answer)
            plane.advance(31)
            self.assertEqual("u1", self.first_asked(plane), answer)

    def test_the_caller_s_own_fault(self) -> None:
        """What the caller did wrong, and our own credential, are no failures of the target."""
        for status in (b"400 Bad", b"404 None", b"422 No", b"401 Who", b"403 No"):
            plane = two_targets()
            for _ in range(4):
                self.fail_first(plane, reply(ERROR, status))
            self.assertEqual("u1", self.first_asked(plane), status)

    def test_resting_is_not_left_out(self) -> None:
        """A resting target is asked when the others fail."""
        plane = two_targets()
        self.fail_first(plane, reply(ERROR, b"429 Slow", b"retry-after: 60\r\n"))
        client = plane.client()
        client.send(request(CHAT))
        plane.busy[0].answer(reply(ERROR, b"500 Oops"))
        [connection] = plane.busy
        self.assertEqual("u1", connection.upstream)


class AnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane()
        self.client = self.plane.client()

    def test_odd_objects(self) -> None:
        """An object that is merely odd is the answer, byte for byte."""
        for body in (b'{"x":1}', b' {"choices":null}', b'{"error":null,"choices":[]}'):
            self.setUp()
            self.client.send(request(CHAT))
            self.plane.last.answer(reply(body))
            self.assertEqual((200, body), (self.client.answer.status, self.client.answer.body))

    def test_framings(self) -> None:
        """Whatever framing the upstream chose, the client gets a length counted here."""
        for answer in (
            reply(ANSWER),
            PLAIN_HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(ANSWER) + END,
            PLAIN_HEAD
            + b"transfer-encoding: chunked\r\n\r\n"
            + b"".join(chunk(bytes([byte])) for byte in ANSWER)
            + b"0\r\nx: y\r\n\r\n",
            PLAIN_HEAD + b"\r\n" + ANSWER,
            PLAIN_HEAD.replace(b"1.1", b"1.0") + b"\r\n" + ANSWER,
        ):
            self.setUp()
            self.client.send(request(CHAT))
            self.plane.last.answer(answer)
            if b"\r\n\r\n{" in answer and b"content-length" not in answer:
                self.plane.last.close()
            self.assertEqual(b"%d" % len(ANSWER), self.client.answer.headers[b"content-length"])
            self.assertEqual(ANSWER, self.client.answer.body)

    def test_errors(self) -> None:
        """Errors of the caller are the answer: an envelope as it came, the rest in one."""
        self.client.send(request(CHAT))
        self.plane.last.answer(reply(ERROR, b"400 Bad"))
        self.assertEqual((400, ERROR), (self.client.answer.status, self.client.answer.body))
        for body, text in ((b"[1]", "[1]"), (b'{"error":"boom"}', "boom"), (b"plain", "plain")):
            self.client.send(request(CHAT))
            self.plane.last.answer(
                reply(body, b"404 None").replace(b"application/json", b"text/plain")
            )
            answer = self.client.answer
            self.assertEqual(404, answer.status)
            self.assertIn(text, answer.message)
            self.assertEqual(b"application/json", answer.headers[b"content-type"])
        self.assertEqual({(0, 0)}, {(e.input_tokens, e.output_tokens) for e in self.plane.events})
        self.assertEqual(4, len(self.plane.events))

    def test_error_to_an_anthropic_client(self) -> None:
        """An odd error to an Anthropic client is put into Anthropic's envelope."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")])
        client = plane.client()
        client.send(request(MESSAGES, b"/v1/messages"))
        plane.last.answer(reply(b"plain", b"404 None"))
        self.assertEqual(("error", "plain"), (client.answer.json["type"], client.answer.message))
        client.send(request(MESSAGES, b"/v1/messages"))
        plane.last.answer(reply(MESSAGE))
        self.assertEqual((9, 3), (plane.events[1].input_tokens, plane.events[1].output_tokens))

    def test_long_answer(self) -> None:
        """An answer over 64 KiB goes out as it comes, in chunks, and is read for its usage."""
        body = b'{"choices":["' + b"x" * 100_000 + b'"],' + ANSWER[ANSWER.index(b'"usage"') :]
        self.client.send(request(CHAT))
        answer = reply(body)
        self.plane.last.answer(answer[:60_000])
        self.assertEqual(b"", self.client.received())
        self.plane.last.answer(answer[60_000:80_000])
        self.assertIn(b"transfer-encoding: chunked", self.client.received())
        self.plane.last.answer(answer[80_000:])
        self.assertEqual((body, True), (self.client.answer.body, self.client.answer.whole))
        [event] = self.plane.events
        self.assertEqual((9, 3, False), (event.input_tokens, event.output_tokens, event.estimated))

    def test_long_answer_cut(self) -> None:
        """One that is cut is dropped without its closing chunk, and goes to no other target."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(b'{"choices":["' + b"x" * 100_000)[:70_000])
        plane.last.answer(b"")
        plane.last.close()
        self.assertEqual(["u1"], plane.at)
        self.assertFalse(client.answer.whole)
        self.assertFalse(client.open)
        [event] = plane.events
        self.assertEqual((499, True), (event.status, event.estimated))
        self.assertEqual(["truncated"], plane.outcomes)

    def test_long_error(self) -> None:
        """So does an error that long; nothing is billed for it."""
        self.client.send(request(CHAT))
        self.plane.last.answer(reply(b'{"error":"' + b"x" * 70_000 + b'"}', b"400 Bad"))
        self.assertEqual((400, True), (self.client.answer.status, self.client.answer.whole))
        [event] = self.plane.events
        self.assertEqual((400, 0, False), (event.status, event.output_tokens, event.estimated))

    def test_debug_headers_off(self) -> None:
        """Who answered is told only if wanted."""
        plane = MemoryDataPlane(environ={"OMNIGATE_DEBUG_HEADERS": "0"})
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(ANSWER))
        self.assertNotIn(b"x-omnigate-upstream", client.answer.headers)
        self.assertNotIn(b"x-omnigate-attempts", client.answer.headers)


class SecretTests(SynchronousTestCase):
    ECHO = b"you sent %b to us" % SECRET.encode()

    def play(self, body: bytes, *pieces: bytes) -> bytes:
        """What the client gets when the upstream says this."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(body))
        for piece in pieces:
            plane.last.answer(piece)
        self.assertTrue(client.answer.whole)
        self.assertIn(b"[redacted]", client.received())
        return client.received()

    def test_struck_out(self) -> None:
        """The credential is struck out of everything that is relayed, wherever it is cut."""
        envelope = b'{"error":{"message":"%b"}}' % self.ECHO
        long = b'{"x":"' + b"y" * 70_000 + self.ECHO + b'"}'
        event = delta(self.ECHO)
        middle = event.index(SECRET.encode()) + 5
        for body, pieces in (
            (CHAT, (reply(ANSWER.replace(b"Hello", self.ECHO)),)),
            (CHAT, (reply(envelope, b"400 Bad"),)),
            (CHAT, (reply(self.ECHO, b"404 None"),)),
            (CHAT, (reply(ANSWER, headers=b"x-request-id: %b\r\n" % self.ECHO),)),
            (CHAT, (reply(long),)),
            (CHAT, (reply(long)[:-30], reply(long)[-30:])),
            (CHAT_STREAM, (STREAM_HEAD + chunk(event) + chunk(CLOSING) + END,)),
            (
                CHAT_STREAM,
                (
                    STREAM_HEAD + chunk(event[:middle]),
                    chunk(event[middle:]) + chunk(CLOSING) + END,
                ),
            ),
        ):
            self.assertNotIn(SECRET.encode(), self.play(body, *pieces))

    def test_not_in_the_end_of_a_walk(self) -> None:
        """What a provider said in a failure is not repeated at all."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(self.ECHO, b"500 Oops"))
        self.assertNotIn(b"you sent", client.received())
