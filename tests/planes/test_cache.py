"""A route with a response cache: what is answered from it, to whom, and what never gets in."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.admission import KeyUse
from tests.planes.memory import KEY, SECRET, MemoryDataPlane, key, reply, request, route, upstream
from tests.planes.scenes import ANSWER, CHAT, MESSAGES

OTHER = "og-other-key-0123456789"


class CacheTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane(
            routes=[route("small", ("u1", "vendor-1"), cache_ttl_s=60)],
            keys=[key(), key("k2", OTHER)],
        )
        self.client = self.plane.client()

    def ask(
        self, body: bytes = CHAT, *, asked: bool, headers: bytes = b"", secret: str = KEY
    ) -> None:
        """Send a request; ``asked`` tells whether the upstream is to see it."""
        before = sum(connection.requests().count(b"POST ") for connection in self.plane.opened)
        self.client.send(request(body, headers=headers, secret=secret))
        after = sum(connection.requests().count(b"POST ") for connection in self.plane.opened)
        self.assertEqual(asked, after > before)
        if asked:
            self.plane.last.answer(reply(ANSWER))

    def test_hit(self) -> None:
        """The same request is answered without an upstream, marked, and costs nothing."""
        self.ask(asked=True)
        self.ask(b" " + CHAT, asked=False)
        first, second = self.client.answers()
        self.assertEqual(first.body, second.body)
        self.assertEqual(b"hit", second.headers[b"x-omnigate-cache"])
        self.assertNotIn(b"x-omnigate-cache", first.headers)
        event = self.plane.events[-1]
        self.assertEqual(
            (True, None, 0, 0),
            (event.cached, event.upstream, event.input_tokens, event.output_tokens),
        )
        self.assertEqual(0, self.plane.in_flight)

    def test_credential(self) -> None:
        """A credential that the provider repeats is not in what is kept, wherever it stood."""
        self.client.send(request(CHAT))
        told = b"content-type: application/json; x=%b" % SECRET.encode()
        answer = reply(ANSWER.replace(b"Hello", SECRET.encode()))
        self.plane.last.answer(answer.replace(b"content-type: application/json", told))
        self.ask(asked=False)
        first, second = self.client.answers()
        self.assertEqual(b"application/json; x=[redacted]", second.headers[b"content-type"])
        self.assertEqual(first.body, second.body)
        self.assertNotIn(SECRET.encode(), self.client.received())

    def test_no_tree(self) -> None:
        """Where no tree is made of a request it is served, not kept, and holds no memory."""
        crowded = b'"x":{' + b",".join([b'"%d":0' % number for number in range(1025)]) + b"}"
        for more in (
            crowded,
            b'"n":1,"n":2',
            b'"x":[' + b"0," * 10001 + b"0]",
        ):
            body = CHAT[:-1] + b"," + more + b"}"
            self.ask(body, asked=True)
            self.ask(body, asked=True)
            self.assertEqual(200, self.client.answer.status, body[-40:])
        self.assertEqual(0, len(self.plane.plane.cache))
        self.assertEqual(0, self.plane.plane.figures()["parse_memory_bytes"])

    def test_no_room(self) -> None:
        """While the memory for trees is in use requests are served and not looked up."""
        self.ask(asked=True)
        memory = self.plane.plane.parse_memory
        rooms = [memory.reserve(KeyUse(), memory.budget_bytes // 2) for _ in range(2)]
        self.assertEqual(memory.budget_bytes, self.plane.plane.figures()["parse_memory_bytes"])
        self.ask(asked=True)
        for room in rooms:
            room.release()
        self.ask(asked=False)
        self.assertEqual(0, memory.bytes)

    def test_lifetime(self) -> None:
        """After the route's time the upstream is asked again."""
        self.ask(asked=True)
        self.plane.advance(59)
        self.ask(asked=False)
        self.client = self.plane.client()
        self.plane.advance(2)
        self.ask(asked=True)

    def test_not_the_same(self) -> None:
        """Another key, another parameter, another header that goes on: another question."""
        self.ask(asked=True)
        self.ask(asked=True, secret=OTHER)
        self.ask(CHAT[:-1] + b',"max_tokens":5}', asked=True)
        self.ask(asked=True, headers=b"openai-beta: new=1\r\n")
        self.ask(asked=False, headers=b"x-stainless-retry-count: 1\r\n")

    def test_opt_out(self) -> None:
        """``no-cache`` wants a fresh answer, which is kept; ``no-store`` takes and keeps none."""
        self.ask(asked=True, headers=b"cache-control: no-store\r\n")
        self.ask(asked=True)
        for wish in (b"no-cache", b"max-age=0, No-Cache", b"no-store", b"no-cache, no-store"):
            self.ask(asked=True, headers=b"cache-control: %b\r\n" % wish)
        self.ask(asked=False)

    def test_fresh_answer_is_kept(self) -> None:
        """The fresh answer takes the place of the old one, and its time begins anew."""
        self.ask(asked=True)
        self.plane.advance(40)
        self.client = self.plane.client()
        self.ask(asked=True, headers=b"cache-control: no-cache\r\n")
        self.plane.advance(40)
        self.client = self.plane.client()
        self.ask(asked=False)

    def test_not_for_these(self) -> None:
        """What asks for a stream, and what counts tokens, is asked anew whatever it is answered."""
        stream = CHAT[:-1] + b',"stream":true}'
        self.ask(stream, asked=True)
        self.ask(stream, asked=True)
        self.plane.install(
            [route("small", ("a1", "vendor-1"), cache_ttl_s=60)],
            [upstream("a1", "anthropic")],
            [key()],
            version="2",
        )
        for _ in range(2):
            self.client.send(request(MESSAGES, b"/v1/messages/count_tokens"))
            self.plane.busy[0].answer(reply(b'{"input_tokens":9}'))
        self.assertEqual(0, len(self.plane.plane.cache))

    def test_each_event_says_what_it_was(self) -> None:
        """A hit is marked in its event, which is otherwise like any; its line tells its length."""
        self.ask(asked=True)
        self.ask(asked=False)
        first, second = self.plane.events
        self.assertEqual((False, True), (first.cached, second.cached))
        self.assertEqual(
            ("small", 200, False, [], None, 0, first.key_sha256),
            (
                second.route_model,
                second.status,
                second.estimated,
                second.attempts,
                second.target_model,
                second.latency_ms,
                second.key_sha256,
            ),
        )
        self.assertEqual(len(ANSWER), self.plane.lines[-1].bytes_out)
        self.assertNotEqual(first.id, second.id)
        self.assertEqual(self.client.answers()[1].headers[b"request-id"].decode(), second.id)

    def test_never_kept(self) -> None:
        """An error and a cut answer are not kept."""
        self.client.send(request(CHAT))
        self.plane.last.answer(reply(b'{"error":{"message":"no","type":"x"}}', b"400 Bad Request"))
        self.client.send(request(CHAT))
        self.plane.last.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
        self.plane.last.close()
        self.ask(asked=True)
        self.assertEqual(1, len(self.plane.plane.cache))

    def test_limits_come_first(self) -> None:
        """A key that is blocked, or limited to other models, gets no cached answer either."""
        self.ask(asked=True)
        self.plane.install(
            [route("small", ("u1", "vendor-1"), cache_ttl_s=60)],
            [upstream("u1")],
            [key(blocked=True)],
            version="2",
        )
        self.client.send(request(CHAT))
        self.assertEqual(402, self.client.answers()[-1].status)
        self.plane.install(
            [route("small", ("u1", "vendor-1"), cache_ttl_s=60)],
            [upstream("u1")],
            [key(models=("big",))],
            version="3",
        )
        self.client = self.plane.client()
        self.client.send(request(CHAT))
        self.assertEqual(403, self.client.answers()[-1].status)

    def test_charged(self) -> None:
        """A hit counts against the key's rate."""
        self.plane.install(
            [route("small", ("u1", "vendor-1"), cache_ttl_s=60)],
            [upstream("u1")],
            [key(rpm=2)],
            version="2",
        )
        self.ask(asked=True)
        self.ask(asked=False)
        self.client.send(request(CHAT))
        self.assertEqual("rate_limit_exceeded", self.client.answer.code)
