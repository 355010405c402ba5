"""Several attempts at one request: what of one may not reach into the next."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.connector import UpstreamConnectError
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
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)

FIRST_ERROR = STREAM_HEAD + chunk(b'data: {"error":{"message":"no"}}\n\n')

#: What makes the walk go on, in states of all kinds.
LEADS_ON = (
    reply(ERROR, b"503 Busy"),
    reply(ERROR, b"429 Slow"),
    reply(ERROR, b"401 Who"),
    reply(b"<html>"),
    reply(ERROR),
    FIRST_ERROR,
    STREAM_HEAD + END,
    b"garbage\r\n\r\n",
)


class NextTargetTests(SynchronousTestCase):
    def begin(self, first: bytes, environ: dict[str, str] | None = None) -> None:
        """A request whose first target answered so; the second has it now."""
        self.plane = two_targets(environ)
        self.client = self.plane.client()
        self.client.send(request(CHAT_STREAM))
        self.plane.last.answer(first)
        self.assertEqual(["u1", "u2"], self.plane.at)

    def test_own_time(self) -> None:
        """Each target has its own time until the head, whatever the one before had begun."""
        for first in LEADS_ON:
            self.begin(first)
            self.plane.advance(4.8)
            self.assertEqual([], self.plane.events)
            self.plane.advance(0.6)
            self.assertEqual("timeout", self.plane.outcomes[-1], first)
            self.assertAlmostEqual(5100, self.plane.events[0].attempts[1].duration_ms, delta=150)

    def test_own_answer(self) -> None:
        """A stream, a short answer and a refusal are taken as what they are."""
        for first in LEADS_ON:
            for answer, body in (
                (STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END, delta(b"Hi")),
                (reply(ANSWER), ANSWER),
                (reply(ERROR, b"400 Bad"), ERROR),
            ):
                self.begin(first)
                self.plane.last.answer(answer)
                self.assertIn(body, self.client.answer.body)
                self.assertTrue(self.client.answer.whole)
                figures = (0, 0) if b"400 Bad" in answer else (9, 3)
                [event] = self.plane.events
                self.assertEqual(figures, (event.input_tokens, event.output_tokens), first)

    def test_own_figures(self) -> None:
        """A client that leaves before the second head pays for that attempt alone."""
        for first in LEADS_ON:
            self.begin(first, {"OMNIGATE_ABORT_DRAIN_MS": "0"})
            self.client.leave()
            [event] = self.plane.events
            self.assertEqual(
                (len(CHAT_STREAM) // 4, 0, True),
                (event.input_tokens, event.output_tokens, event.estimated),
                first,
            )
            self.assertEqual("u2", event.upstream)

    def test_own_reading(self) -> None:
        """An answer that is read on is read as what it is."""
        for first in LEADS_ON:
            for answer in (reply(ANSWER), STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END):
                self.begin(first)
                self.client.leave()
                self.plane.last.answer(answer)
                [event] = self.plane.events
                self.assertEqual(
                    (9, 3, False), (event.input_tokens, event.output_tokens, event.estimated)
                )
                self.assertEqual("ok", self.plane.outcomes[-1])

    def test_leaves_between_two(self) -> None:
        """While a connection to the second is being made nothing costs anything."""
        for first in LEADS_ON:
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT_STREAM))
            plane.slow = True
            plane.last.answer(first)
            client.leave()
            [connecting] = plane.connecting
            self.assertTrue(connecting.canceled)
            self.assertEqual(2, len(plane.events[0].attempts))
            self.assertEqual("canceled", plane.outcomes[-1])
            self.assertEqual((0, False), (plane.events[0].input_tokens, plane.events[0].estimated))
            self.assertEqual(0, plane.in_flight)

    def test_all_of_them(self) -> None:
        """The attempts are told in their order, each with its status, and without a secret."""
        names = [f"u{index}" for index in range(len(LEADS_ON))]
        plane = MemoryDataPlane(
            routes=[route("small", *[(name, "m") for name in names])],
            upstreams=[upstream(name) for name in names],
        )
        client = plane.client()
        client.send(request(CHAT_STREAM))
        for first in LEADS_ON:
            plane.last.answer(first.replace(b"busy", SECRET.encode()))
        self.assertEqual(names, [attempt.upstream for attempt in plane.events[0].attempts])
        statuses = [attempt.status for attempt in plane.events[0].attempts]
        self.assertEqual([503, 429, 401, 200, 200, 200, 200, None], statuses)
        answer = client.answer
        self.assertEqual((429, b"5"), (answer.status, answer.headers[b"retry-after"]))
        places = [answer.message.index(f"{name}/m: ") for name in names]
        self.assertEqual(sorted(places), places)
        for secret in (SECRET, "no ", "test", "sign"):
            self.assertNotIn(secret, answer.message.replace("at least one", ""))


class SharedUpstreamTests(SynchronousTestCase):
    """Two models at one upstream, and a third one elsewhere."""

    def begin(self, environ: dict[str, str] | None = None, body: bytes = CHAT) -> None:
        self.plane = MemoryDataPlane(
            routes=[route("small", ("u1", "a"), ("u1", "b"), ("u2", "c"))],
            upstreams=[upstream("u1"), upstream("u2")],
            environ=environ,
        )
        self.client = self.plane.client()
        self.client.send(request(body))

    def asked(self) -> str:
        """The model that is being asked now."""
        [connection] = self.plane.busy
        body = connection.requests().rpartition(b"\r\n\r\n")[2]
        return body.split(b'"model":"')[1][:1].decode()

    def test_perhaps_at_work(self) -> None:
        """An upstream that may be at work on a request does not get it under another name."""
        idle = {"OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "9000"}

        def wait(connection: FakeConnection) -> None:
            self.plane.advance(9.5)

        for begun, then in (
            (b"", FakeConnection.close),
            (b"", wait),
            (reply(ANSWER)[:10], FakeConnection.close),
            (reply(ANSWER)[:-5], FakeConnection.close),
            (reply(ANSWER)[:-5], wait),
            (STREAM_HEAD, FakeConnection.close),
            (STREAM_HEAD + chunk(b": wait\n\n"), wait),
        ):
            self.begin(idle)
            connection = self.plane.last
            if begun:
                connection.answer(begun)
            then(connection)
            self.assertEqual("c", self.asked(), (begun, then))

    def test_not_at_work(self) -> None:
        """One that has answered, or never had it, does."""
        for answer in LEADS_ON:
            self.begin()
            self.plane.last.answer(answer)
            self.assertEqual("b", self.asked(), answer)

    def test_never_had_it(self) -> None:
        """So does one that could not be reached."""
        for error, tries in ((None, 2), (UpstreamConnectError("u1: 5 s", "timeout"), 1)):
            plane = self.plane = MemoryDataPlane(
                routes=[route("small", ("u1", "a"), ("u1", "b"))], upstreams=[upstream("u1")]
            )
            plane.slow = True
            plane.client().send(request(CHAT))
            for index in range(tries):
                plane.connecting[index].fail(error)
            self.assertEqual(tries + 1, len(plane.connecting))
            plane.connecting[-1].succeed()
            self.assertEqual("b", self.asked())


class RetryTests(SynchronousTestCase):
    def test_own_retry_for_each_target(self) -> None:
        """Every target has its one fresh connection, also the last."""
        plane = two_targets()
        client = plane.client()
        # An idle connection with either.
        client.send(request(CHAT))
        plane.last.answer(reply(ERROR, b"503 Busy"))
        plane.last.answer(reply(ANSWER))
        client.send(request(CHAT))
        for at in (["u1", "u2", "u1"], ["u1", "u2", "u1", "u2"]):
            plane.busy[0].close()
            self.assertEqual(at[:3], plane.at[:3])
            if len(at) == 3:
                plane.busy[0].close()
            else:
                self.assertEqual(at, plane.at)
        plane.last.answer(reply(ANSWER))
        self.assertEqual(["connection_lost", "ok"], plane.outcomes)

    def test_not_after_a_byte(self) -> None:
        """A kept connection that said anything at all is not tried again."""
        for said in (b"H", b"HTTP/1.1 100 Continue\r\n\r\n", reply(ANSWER)[:-1]):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(reply(ANSWER))
            client.send(request(CHAT))
            plane.last.answer(said)
            plane.last.close()
            self.assertEqual(["u1", "u2"], plane.at, said)


class KeptConnectionTests(SynchronousTestCase):
    def test_each_ending(self) -> None:
        """A connection is used again after whatever ended whole, and after nothing else."""
        long = reply(b'{"choices":["' + b"x" * 70_000 + b'"]}')
        stream = STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END
        cases: tuple[tuple[bytes, bool], ...] = (
            (reply(ANSWER), True),
            (long, True),
            (stream, True),
            (reply(ERROR, b"400 Bad"), True),
            (reply(ERROR, b"503 Busy"), True),
            (reply(ERROR, b"401 Who"), True),
            (reply(b"<html>"), True),
            (STREAM_HEAD + END, True),
            (FIRST_ERROR, False),
            (reply(b"<html>" + b"x" * 70_000), False),
            (reply(b"x" * 70_000, b"503 Busy"), False),
            (reply(ANSWER, headers=b"connection: close\r\n"), False),
            (reply(ANSWER).replace(b"HTTP/1.1", b"HTTP/1.0"), False),
            (reply(ANSWER) + b"HTTP/1.1 200 OK\r\n", False),
        )
        for answer, kept in cases:
            plane = MemoryDataPlane()
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(answer)
            client.send(request(CHAT))
            self.assertEqual(1 if kept else 2, len(plane.opened), answer[:80])
            plane.last.answer(reply(ANSWER))
            self.assertEqual(200, client.answer.status)


class StrategyTests(SynchronousTestCase):
    def first_asked(self, strategy: str, requests: int) -> list[str]:
        """Which target each of so many requests goes to first."""
        plane = MemoryDataPlane(
            routes=[route("small", ("u1", "a"), ("u2", "b"), ("u3", "c"), strategy=strategy)],
            upstreams=[upstream("u1"), upstream("u2"), upstream("u3")],
        )
        firsts = []
        client = plane.client()
        for _ in range(requests):
            client.send(request(CHAT))
            [connection] = plane.busy
            firsts.append(connection.upstream)
            connection.answer(reply(ANSWER))
        return firsts

    def test_strategies(self) -> None:
        """A route's strategy picks who goes first."""
        self.assertEqual(["u1"] * 4, self.first_asked("failover", 4))
        self.assertEqual(["u1", "u2", "u3", "u1"], self.first_asked("round_robin", 4))
        self.assertEqual({"u1", "u2", "u3"}, set(self.first_asked("weighted", 60)))


class HintTests(SynchronousTestCase):
    def play(self, *answers: tuple[bytes, bytes]) -> Any:
        """The end of a walk whose targets answer with these statuses and headers."""
        names = [f"u{index}" for index in range(len(answers))]
        plane = MemoryDataPlane(
            routes=[route("small", *[(name, "m") for name in names])],
            upstreams=[upstream(name) for name in names],
        )
        client = plane.client()
        client.send(request(CHAT))
        for status, headers in answers:
            plane.last.answer(reply(ERROR, status, headers))
        return client.answer

    def test_longest(self) -> None:
        """Of several limits the longest wait counts, however each was told."""
        slow = b"429 Slow"
        for waits, told, advice in (
            ((b"", b""), b"5", None),
            ((b"retry-after: 7\r\n", b""), b"7", None),
            ((b"retry-after: soon\r\n", b"retry-after: -4\r\n"), b"5", None),
            ((b"retry-after: 7\r\n", b"retry-after: 200\r\n"), b"200", b"false"),
            (
                (b"retry-after: 7\r\n", b"retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
                b"7",
                None,
            ),
            (
                (b"retry-after: Fri, 01 Jan 2100 00:00:00 GMT\r\n", b"retry-after: 3\r\n"),
                b"31536000",
                b"false",
            ),
        ):
            answer = self.play(*[(slow, headers) for headers in waits])
            self.assertEqual(429, answer.status)
            self.assertEqual(told, answer.headers[b"retry-after"], waits)
            self.assertEqual(advice, answer.headers.get(b"x-should-retry"), waits)

    def test_of_others(self) -> None:
        """Waits of other failures do not count, and there is none without a limit."""
        busy = (b"503 Busy", b"retry-after: 50\r\n")
        answer = self.play(busy, (b"429 Slow", b"retry-after: 2\r\n"), (b"401 Who", b""))
        self.assertEqual((429, b"2"), (answer.status, answer.headers[b"retry-after"]))
        answer = self.play(busy, busy)
        self.assertEqual(502, answer.status)
        self.assertNotIn(b"retry-after", answer.headers)
