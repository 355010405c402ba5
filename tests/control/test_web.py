"""The listener: what is judged before a body is read, and what is answered."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.client_address import TrustedProxies
from omnigate.control import web
from omnigate.control.auth import WRONG_IN_WINDOW
from omnigate.control.parameters import whole
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.web import IDLE_SECONDS, REQUEST_SECONDS, ControlFactory
from omnigate.errors import GatewayError
from tests.control.conversation import (
    ADMIN,
    INTERNAL,
    Conversation,
    Headers,
    read_reply,
    request_bytes,
)


class ListenerTests(SynchronousTestCase):
    """A small control plane with one endpoint of each kind."""

    def setUp(self) -> None:
        self.calls: list[Call] = []
        self.waiting: Deferred[Answer] = Deferred()

        async def record(call: Call) -> Answer:
            self.calls.append(call)
            return Answer(b'{"ok":true}')

        async def wait(call: Call) -> Answer:
            self.calls.append(call)
            return await self.waiting

        async def refuse(call: Call) -> Answer:
            raise GatewayError("not_ready", "later", retry_after=1)

        async def fail(call: Call) -> Answer:
            raise ZeroDivisionError("private words")

        async def odd(call: Call) -> Answer:
            return Answer(status=99)

        self.talk = Conversation(
            Endpoint("GET", "/healthz", record),
            Endpoint("GET", "/internal/config", refuse),
            Endpoint("POST", "/internal/usage/batch", record, body_limit=100),
            Endpoint("GET", "/admin/keys", record, parameters=(whole("limit", "", 1, 9),)),
            Endpoint("POST", "/admin/keys", record, body_limit=50),
            Endpoint("GET", "/admin/keys/{name}", record),
            Endpoint("GET", "/internal/v1/jobs", wait),
            Endpoint("POST", "/internal/v1/jobs", record, body_limit=100),
            Endpoint("GET", "/admin/slow", wait),
            Endpoint("GET", "/admin/broken", fail),
            Endpoint("GET", "/admin/odd", odd),
        )

    def test_open_path_needs_no_credentials(self) -> None:
        """Anyone may ask for health, by GET and by HEAD."""
        reply = self.talk.ask("GET", "/healthz")
        self.assertEqual((reply.status, reply.body), (200, b'{"ok":true}'))
        reply = self.talk.ask("HEAD", "/healthz")
        self.assertEqual((reply.status, reply.headers["content-length"]), (200, "11"))
        self.assertEqual(reply.body, b"")

    def test_answer_headers(self) -> None:
        """An answer carries a date, an id and a length, and does not say what serves it."""
        reply = self.talk.ask("GET", "/healthz", ((b"x-omnigate-request-id", b"abc-1"),))
        self.assertEqual(reply.headers["x-omnigate-request-id"], "abc-1")
        self.assertEqual(reply.headers["date"], "Thu, 01 Jan 1970 00:00:00 GMT")
        self.assertEqual(reply.headers["cache-control"], "no-store")
        self.assertNotIn("server", reply.headers)
        self.assertNotIn("transfer-encoding", reply.headers)

    def test_odd_request_id_is_replaced(self) -> None:
        """An id that could forge a log line is not echoed."""
        for headers in (
            ((b"x-omnigate-request-id", b"a b"),),
            ((b"x-omnigate-request-id", b"a" * 129),),
            ((b"x-omnigate-request-id", b"a"), (b"x-omnigate-request-id", b"b")),
        ):
            reply = self.talk.ask("GET", "/healthz", headers)
            self.assertRegex(reply.headers["x-omnigate-request-id"], "^[0-9a-f]{32}$")

    def test_each_audience_has_its_own_credential(self) -> None:
        """Neither token works in the other's place."""
        cases: list[tuple[str, str, Headers, int]] = [
            ("GET", "/admin/keys", (), 401),
            ("GET", "/admin/keys", INTERNAL, 401),
            ("GET", "/admin/keys", ((b"authorization", INTERNAL[0][1]),), 401),
            ("GET", "/admin/keys", ADMIN, 200),
            ("GET", "/admin/keys", ADMIN + ADMIN, 401),
            ("POST", "/internal/usage/batch", ADMIN, 401),
            ("POST", "/internal/usage/batch", ((b"x-omnigate-internal", ADMIN[0][1]),), 401),
            ("POST", "/internal/usage/batch", INTERNAL, 200),
            ("POST", "/internal/usage/batch", INTERNAL + INTERNAL, 401),
        ]
        for method, target, headers, status in cases:
            reply = self.talk.ask(method, target, headers)
            self.assertEqual(reply.status, status, (target, headers))

    def test_an_address_behind_a_proxy(self) -> None:
        """A lock-out is that of the client, whom only a trusted proxy may name."""
        wrong = (b"authorization", b"Bearer wrong")

        def ask(client: bytes, *headers: tuple[bytes, bytes]) -> int:
            headers = (*headers, (b"x-forwarded-for", client))
            return self.talk.ask("GET", "/admin/keys", headers).status

        self.talk.factory.gate.proxies = TrustedProxies.parse("192.168.1.0/24")
        for _ in range(WRONG_IN_WINDOW):
            self.assertEqual(ask(b"203.0.113.1, 198.51.100.7", wrong), 401)
        self.assertEqual(ask(b"198.51.100.7", *ADMIN), 429)
        self.assertEqual(ask(b"198.51.100.8", *ADMIN), 200)
        self.assertEqual(ask(b"198.51.100.7, 198.51.100.8", *ADMIN), 200)
        self.assertEqual([call.address for call in self.calls], ["198.51.100.8"] * 2)
        self.talk.factory.gate.proxies = TrustedProxies()
        self.assertEqual(ask(b"198.51.100.7", *ADMIN), 200)
        self.assertEqual(self.calls[-1].address, "192.168.1.1")
        self.assertEqual({call.actor for call in self.calls}, {"admin-token"})

    def test_what_is_no_request(self) -> None:
        """It gets a problem document as any refusal does, and nothing behind it is read."""
        behind = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
        head = b"POST /admin/keys HTTP/1.1\r\nauthorization: " + ADMIN[0][1] + b"\r\n"
        for sent in (
            b"GET /healthz\r\n\r\n",
            b"GET  /healthz HTTP/1.1\r\n\r\n",
            b"GET /healthz HTTP/9.9\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01" + b"x" * 20_000,
            b"GET /healthz HTTP/1.1\r\na: " + b"b" * 20_000 + b"\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n",
            b"GET /healthz HTTP/1.1\r\nno header\r\nhost: x\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nhost: a\x00b\r\n\r\n",
            head + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
            head + b"content-length: +2\r\n\r\n{}",
            head + b"content-length: " + b"9" * 5000 + b"\r\n\r\n{}",
            head + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
            head + b"transfer-encoding: gzip\r\n\r\n{}",
        ):
            channel, transport = self.talk.connect()
            channel.dataReceived(sent + behind)
            reply, rest = read_reply(transport.value())
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), sent)
            self.assertEqual(reply.headers["content-type"], "application/problem+json")
            self.assertRegex(reply.headers["x-omnigate-request-id"], "^[0-9a-f]{32}$")
            self.assertEqual((reply.headers["connection"], rest), ("close", b""), sent)
        self.assertEqual(self.calls, [])

    def test_one_host(self) -> None:
        """Without a host, or with two, nothing is done that a proxy may have meant otherwise."""
        for hosts in (b"", b"host: a\r\nhost: b\r\n", b"host: a\r\nHOST: a\r\n"):
            for target in (b"/healthz", b"/admin/keys", b"/internal/config"):
                channel, transport = self.talk.connect()
                lines = b"\r\n".join(b": ".join(header) for header in (*ADMIN, *INTERNAL))
                channel.dataReceived(b"GET %b HTTP/1.1\r\n%b%b\r\n\r\n" % (target, hosts, lines))
                reply, _ = read_reply(transport.value())
                self.assertEqual((reply.status, b"host" in reply.body), (400, True), target)
        self.assertEqual(self.calls, [])

    def test_error_shapes(self) -> None:
        """Operators get problem documents, data planes the envelope that clients get."""
        reply = self.talk.ask("GET", "/admin/keys")
        self.assertEqual(reply.headers["content-type"], "application/problem+json")
        self.assertEqual(reply.headers["www-authenticate"], 'Bearer realm="omnigate"')
        self.assertEqual(reply.json()["code"], "invalid_token")
        reply = self.talk.ask("GET", "/internal/config")
        self.assertEqual(reply.headers["content-type"], "application/json")
        self.assertEqual(reply.json()["error"]["code"], "invalid_token")
        channel, transport = self.talk.connect()
        channel.dataReceived(b"GET /internal/config HTTP/1.1\r\n\r\n")
        reply, _ = read_reply(transport.value())
        self.assertEqual((reply.status, reply.json()["error"]["code"]), (400, "invalid_request"))
        reply = self.talk.ask("GET", "/internal/config", INTERNAL)
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, "1"))
        self.assertEqual(reply.json()["error"]["code"], "not_ready")

    def test_credentials_come_before_endpoints(self) -> None:
        """Without a token nobody learns which endpoints there are."""
        for target in ("/admin", "/admin/nothing", "/admin/keys/a/b", "/internal/nothing"):
            self.assertEqual(self.talk.ask("GET", target).status, 401, target)
        self.assertEqual(self.talk.ask("DELETE", "/admin/keys").status, 401)
        self.assertEqual(self.talk.ask("GET", "/admin/nothing", ADMIN).status, 404)
        reply = self.talk.ask("DELETE", "/admin/keys", ADMIN)
        self.assertEqual((reply.status, reply.headers["allow"]), (405, "GET, HEAD, POST"))

    def test_unknown_first_segment(self) -> None:
        """What nothing is behind is a 404, whoever asks."""
        for target in ("/", "/v1/chat/completions", "/Admin/keys", "/adminx", "/internal2/config"):
            self.assertEqual(self.talk.ask("GET", target, ADMIN).status, 404, target)

    def test_one_spelling_of_a_path(self) -> None:
        """Encoded, doubled and dotted paths are refused before anything else is looked at."""
        for target in (
            "/admin/%6beys",
            "/%61dmin/keys",
            "//admin/keys",
            "/admin//keys",
            "/admin/keys/",
            "/admin/./keys",
            "/healthz/../admin/keys",
            "/admin/keys;x=1",
            "/admin\\keys",
            "admin/keys",
            "http://control/admin/keys",
            "*",
            "/healthz#x",
            "/" + "a" * 3000,
        ):
            reply = self.talk.ask("GET", target)
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_path"), target)
        self.assertEqual(self.calls, [])

    def test_query_is_strict(self) -> None:
        """A parameter that the endpoint does not know is refused, not passed over."""
        self.assertEqual(self.talk.ask("GET", "/admin/keys?limit=1%302", ADMIN).status, 200)
        self.assertEqual(self.calls[-1].query, {"limit": "102"})
        for query in ("limits=1", "limit=1&limit=2", "limit", "limit=%zz", "limit=%ff", "&", "=1"):
            reply = self.talk.ask("GET", f"/admin/keys?{query}", ADMIN)
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), query)
        self.assertEqual(self.talk.ask("GET", "/healthz?x=1").status, 400)

    def test_open_segment(self) -> None:
        """The last segment of a pattern is handed to the endpoint."""
        self.talk.ask("GET", "/admin/keys/app-1", ADMIN)
        self.assertEqual((self.calls[-1].path, self.calls[-1].name), ("/admin/keys/app-1", "app-1"))

    def test_refused_body_is_not_read(self) -> None:
        """Of a request that is refused by its head, no byte of the body is taken."""
        for headers, length, status in (
            ((), 10, 401),
            (ADMIN, 51, 413),
            (ADMIN, 10**15, 413),
        ):
            channel, transport = self.talk.connect()
            head = request_bytes("POST", "/admin/keys", headers)[:-2]
            channel.dataReceived(head + b"content-length: %d\r\n\r\n" % length)
            reply, _ = read_reply(transport.value())
            self.assertEqual(reply.status, status)
            self.assertEqual(reply.headers["connection"], "close")
            self.assertFalse(transport.connected)
            channel.dataReceived(b"x" * 100 + request_bytes("GET", "/admin/keys", ADMIN))
        self.assertEqual(self.calls, [])

    def test_continue_is_sent_to_the_admitted_only(self) -> None:
        """Who waits for leave to send a body gets it, or the refusal at once."""
        for headers, first in ((ADMIN, b"HTTP/1.1 100"), ((), b"HTTP/1.1 401")):
            channel, transport = self.talk.connect()
            head = request_bytes("POST", "/admin/keys", headers)[:-2]
            channel.dataReceived(head + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
            self.assertTrue(transport.value().startswith(first))
            if transport.connected:
                transport.loseConnection()

    def test_bodies(self) -> None:
        """A body needs a length, and an endpoint that takes one."""
        reply = self.talk.ask("POST", "/admin/keys", ADMIN, b"{}")
        self.assertEqual((reply.status, self.calls[-1].body), (200, b"{}"))
        self.assertEqual(self.talk.ask("GET", "/admin/keys", ADMIN, b"{}").status, 400)
        chunked = (*ADMIN, (b"transfer-encoding", b"chunked"))
        self.assertEqual(self.talk.ask("POST", "/admin/keys", chunked).status, 411)
        form = (*ADMIN, (b"content-type", b"application/x-www-form-urlencoded"))
        self.talk.ask("POST", "/admin/keys", form, b"a=1&b=2")
        self.assertEqual(self.calls[-1].body, b"a=1&b=2")

    def test_only_http_1_1(self) -> None:
        """Neither HTTP/1.0 nor the preface of HTTP/2 gets any further than the head."""
        for data, status in (
            (b"GET /healthz HTTP/1.0\r\n\r\n", b"505"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
            (b"GET /healthz\r\n\r\n", b"400"),
        ):
            channel, transport = self.talk.connect()
            channel.dataReceived(data)
            self.assertEqual(transport.value()[9:12], status, data)
            self.assertFalse(transport.connected)
        self.assertEqual(self.calls, [])

    def test_garbage(self) -> None:
        """Heads that are none end their connection and nothing else."""
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\ncontent-length: +1\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            b"POST /healthz HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n",
            b"GET /healthz HTTP/1.1\r\na: " + b"b" * 20000 + b"\r\n\r\n",
        ):
            channel, transport = self.talk.connect()
            channel.dataReceived(data)
            self.assertFalse(transport.connected, data[:40])
        self.assertEqual(self.calls, [])
        self.assertEqual(self.talk.factory.connections, 0)

    def test_split_anywhere(self) -> None:
        """Whatever the cut of the bytes, the same request is read, and the next one after it."""
        data = request_bytes("POST", "/admin/keys", ADMIN, b'{"name":"a"}')
        data += request_bytes("GET", "/healthz")
        for step in (1, 7, len(data)):
            self.calls.clear()
            channel, transport = self.talk.connect()
            for start in range(0, len(data), step):
                channel.dataReceived(data[start : start + step])
            self.assertEqual([call.path for call in self.calls], ["/admin/keys", "/healthz"])
            self.assertEqual(self.calls[0].body, b'{"name":"a"}')
            first, rest = read_reply(transport.value())
            second, rest = read_reply(rest)
            self.assertEqual((first.status, second.status, rest), (200, 200, b""))
            transport.loseConnection()

    def test_failure_is_answered_and_logged(self) -> None:
        """A fault in an endpoint is a 500 for its caller, without the private words."""
        reply = self.talk.ask("GET", "/admin/broken", ADMIN)
        self.assertEqual((reply.status, reply.json()["code"]), (500, "internal_error"))
        self.assertNotIn(b"private", reply.body)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_what_cannot_be_written(self) -> None:
        """Nobody waits for an answer that does not come."""
        channel, wire = self.talk.connect()
        channel.dataReceived(request_bytes("GET", "/admin/odd", ADMIN))
        self.assertEqual((wire.connected, wire.value()), (False, b""))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_caller_leaves(self) -> None:
        """An answer that nobody waits for is dropped."""
        channel, transport = self.talk.connect()
        channel.dataReceived(request_bytes("GET", "/admin/slow", ADMIN))
        transport.loseConnection()
        self.waiting.callback(Answer(b"late"))
        self.assertEqual(transport.value(), b"")

    def test_lock_out(self) -> None:
        """After twenty wrong tokens an address is refused for a minute, whatever it shows."""
        wrong = ((b"authorization", b"Bearer wrong-wrong-wrong-wrong"),)
        for _ in range(20):
            self.assertEqual(self.talk.ask("GET", "/admin/keys", wrong).status, 401)
        reply = self.talk.ask("GET", "/admin/keys", ADMIN)
        self.assertEqual((reply.status, reply.json()["code"]), (429, "too_many_attempts"))
        self.assertEqual(reply.reason, "Too Many Requests")
        self.assertEqual(reply.headers["retry-after"], "60")
        self.talk.clock.advance(60)
        self.assertEqual(self.talk.ask("GET", "/admin/keys", ADMIN).status, 200)

    def test_slow_request(self) -> None:
        """A request that trickles in is cut off, although each byte came in time."""
        channel, transport = self.talk.connect()
        transport.abortConnection = transport.loseConnection  # type: ignore[method-assign]
        for _ in range(int(REQUEST_SECONDS) + 1):
            if transport.connected:
                channel.dataReceived(b"G")
            self.talk.clock.advance(1)
        self.assertFalse(transport.connected)

    def test_idle_connection(self) -> None:
        """A connection that says nothing is closed in the end."""
        channel, transport = self.talk.connect()
        channel.dataReceived(request_bytes("GET", "/healthz"))
        self.talk.clock.advance(IDLE_SECONDS - 1)
        self.assertTrue(transport.connected)
        self.talk.clock.advance(1)
        self.assertFalse(transport.connected)
        self.assertEqual(self.talk.clock.getDelayedCalls(), [])

    def test_connections_are_bounded(self) -> None:
        """One too many is closed at once, where all others are of data planes."""
        factory: Any = ControlFactory(self.talk.factory.gate, max_connections=1)
        self.talk.factory = factory
        channel, transport = self.talk.connect()
        channel.dataReceived(request_bytes("GET", "/internal/config", INTERNAL))
        channel.dataReceived(request_bytes("GET", "/admin/keys", ADMIN))
        self.assertIsNone(factory.buildProtocol(None))
        transport.loseConnection()
        self.assertIsNotNone(factory.buildProtocol(None))

    def test_operators_give_way(self) -> None:
        """A data plane gets in where people hold all there is, and keeps what it has."""
        factory: Any = ControlFactory(self.talk.factory.gate, max_connections=3)
        self.talk.factory = factory
        asks = {
            True: request_bytes("GET", "/internal/config", INTERNAL),
            False: request_bytes("GET", "/admin/keys", ADMIN),
        }
        people, planes = [], []
        for _ in range(3):
            channel, transport = self.talk.connect()
            channel.dataReceived(asks[False])
            people.append((channel, transport))
        people[0][0].dataReceived(asks[False])  # who was idle for longest is now the second one
        for left in ([True, False, True], [True, False, False], [False] * 3):
            channel, transport = self.talk.connect()
            channel.dataReceived(asks[True])
            planes.append(transport)
            self.assertEqual([transport.connected for _, transport in people], left)
        self.assertTrue(all(transport.connected for transport in planes))
        self.assertEqual(factory.connections, 3)

    def test_applications_keep_no_data_plane_out(self) -> None:
        """However many ask for jobs, configs and usage come through; one that leaves makes room."""
        self.talk.factory = ControlFactory(
            self.talk.factory.gate, max_connections=4, max_forwards=2
        )
        ask = request_bytes("GET", "/internal/v1/jobs", INTERNAL)
        held = []
        for _ in range(2):
            channel, transport = self.talk.connect()
            channel.dataReceived(ask)
            held.append(transport)
        for _ in range(4):
            channel, transport = self.talk.connect()
            channel.dataReceived(ask)
            reply, _ = read_reply(transport.value())
            self.assertEqual((reply.status, reply.headers["retry-after"]), (503, "1"))
            self.assertEqual(reply.json()["error"]["code"], "overloaded")
            transport.loseConnection()
        made = self.talk.ask("POST", "/internal/v1/jobs", INTERNAL, b"{}")
        self.assertEqual((made.status, len(self.calls)), (503, 2))
        usage = self.talk.ask("POST", "/internal/usage/batch", INTERNAL, b"{}")
        self.assertEqual(usage.status, 200)
        self.assertEqual(self.talk.ask("GET", "/admin/keys", ADMIN).status, 200)
        held[0].loseConnection()
        self.talk.connect()[0].dataReceived(ask)
        self.assertEqual(len(self.calls), 5)

    def test_a_connection_that_served_an_application(self) -> None:
        """It counts as one of theirs until the data plane itself asks for something on it."""
        self.talk.factory = ControlFactory(
            self.talk.factory.gate, max_connections=4, max_forwards=1
        )
        self.waiting.callback(Answer(b"{}"))
        ask = request_bytes("GET", "/internal/v1/jobs", INTERNAL)
        channel, transport = self.talk.connect()
        channel.dataReceived(ask)
        channel.dataReceived(ask)
        self.assertEqual(self.talk.ask("GET", "/internal/v1/jobs", INTERNAL).status, 503)
        channel.dataReceived(request_bytes("GET", "/internal/config", INTERNAL))
        self.assertEqual(self.talk.ask("GET", "/internal/v1/jobs", INTERNAL).status, 200)
        channel.dataReceived(ask)
        self.assertEqual(transport.value().count(b"HTTP/1.1 200"), 3)

    def test_no_key_has_all_files(self) -> None:
        """However many processes pass its requests on, some of one key's are under way at once."""
        ask = [
            request_bytes(
                "GET", "/internal/v1/jobs", (*INTERNAL, (b"x-omnigate-key-sha256", name * 64))
            )
            for name in (b"a", b"b")
        ]
        held = []
        for _ in range(web.MAX_FORWARDS_OF_KEY):
            channel, transport = self.talk.connect()
            channel.dataReceived(ask[0])
            held.append(transport)
        channel, transport = self.talk.connect()
        channel.dataReceived(ask[0])
        reply, _ = read_reply(transport.value())
        self.assertEqual((reply.status, reply.headers["retry-after"]), (429, "1"))
        self.assertEqual(reply.json()["error"]["code"], "concurrency_limit_exceeded")
        self.talk.connect()[0].dataReceived(ask[1])
        held[0].loseConnection()
        made = (*INTERNAL, (b"x-omnigate-key-sha256", b"a" * 64))
        for _ in range(2):
            channel.dataReceived(request_bytes("POST", "/internal/v1/jobs", made, b"{}"))
        self.assertEqual(len(self.calls), web.MAX_FORWARDS_OF_KEY + 3)
        channel.dataReceived(ask[0])
        self.assertEqual(len(self.calls), web.MAX_FORWARDS_OF_KEY + 4)

    def test_answers_that_nobody_takes(self) -> None:
        """Of requests that came together the next one waits until the answer before it is taken."""
        channel, transport = self.talk.connect()
        whole = b"".join(request_bytes("GET", f"/admin/keys/{name}", ADMIN) for name in "abcdef")
        channel.pauseProducing()
        channel.dataReceived(whole[:-30])
        self.assertEqual([call.name for call in self.calls], ["a"])
        self.assertEqual(transport.producerState, "paused")
        channel.dataReceived(whole[-30:])
        self.talk.clock.advance(REQUEST_SECONDS)
        self.assertEqual([call.name for call in self.calls], ["a"])
        channel.resumeProducing()
        self.assertEqual([call.name for call in self.calls], list("abcdef"))
        self.assertEqual(transport.producerState, "producing")
        rest = transport.value()
        for _ in "abcdef":
            reply, rest = read_reply(rest)
            self.assertEqual(reply.status, 200)
        self.assertEqual(rest, b"")

    def test_many_who_take_nothing(self) -> None:
        """All that they are kept has a bound; data planes and the last one keep theirs."""
        size = len(self.talk.ask("GET", "/admin/keys", ADMIN).body)
        self.patch(web, "MAX_UNTAKEN_BYTES", 3 * size)
        planes: list[tuple[Any, Any]] = []
        people: list[tuple[Any, Any]] = []
        for ask, into, count in (
            (request_bytes("POST", "/internal/usage/batch", INTERNAL, b"{}"), planes, 5),
            (request_bytes("GET", "/admin/keys", ADMIN), people, 4),
        ):
            for _ in range(count):
                channel, transport = self.talk.connect()
                channel.pauseProducing()
                channel.dataReceived(ask)
                into.append((channel, transport))
        self.assertEqual([wire.connected for _, wire in people], [False, True, True, True])
        people[1][0].resumeProducing()
        people[2][1].loseConnection()
        for left in ([False, True, False, True, True], [False, True, False, True, True, True]):
            channel, transport = self.talk.connect()
            channel.pauseProducing()
            channel.dataReceived(request_bytes("GET", "/admin/keys", ADMIN))
            people.append((channel, transport))
            self.assertEqual([wire.connected for _, wire in people], left)
        self.assertTrue(all(wire.connected for _, wire in planes))
        self.patch(web, "MAX_UNTAKEN_BYTES", 0)
        channel, transport = self.talk.connect()
        channel.pauseProducing()
        channel.dataReceived(request_bytes("GET", "/admin/keys", ADMIN))
        self.assertEqual(read_reply(transport.value())[0].status, 200)
        self.assertTrue(transport.connected)

    def test_somebody_who_takes_nothing(self) -> None:
        """A connection on which requests wait is closed as an idle one is."""
        channel, transport = self.talk.connect()
        channel.pauseProducing()
        channel.dataReceived(request_bytes("GET", "/admin/keys", ADMIN) * 3)
        self.talk.clock.advance(IDLE_SECONDS)
        self.assertFalse(transport.connected)
        self.assertEqual(len(self.calls), 1)

    def test_who_stands_in_line(self) -> None:
        """Data planes and probes are answered at once, and so is whoever changes something."""
        line: list[tuple[str, Deferred[None]]] = []

        async def turn(who: str) -> None:
            line.append((who, Deferred()))
            await line[-1][1]

        self.talk.factory.gate.turn = turn
        self.assertEqual(self.talk.ask("GET", "/healthz").status, 200)
        self.assertEqual(self.talk.ask("GET", "/internal/config", INTERNAL).status, 503)
        self.assertEqual(self.talk.ask("POST", "/admin/keys", ADMIN, b"{}").status, 200)
        self.assertEqual(line, [])
        for method in ("GET", "HEAD"):
            done = len(self.calls)
            channel, transport = self.talk.connect()
            channel.dataReceived(request_bytes(method, "/admin/keys", ADMIN))
            who, waiting = line.pop()
            self.assertEqual((who, transport.value(), len(self.calls)), ("admin-token", b"", done))
            waiting.callback(None)
            self.assertEqual(read_reply(transport.value())[0].status, 200)
            self.assertEqual(len(self.calls), done + 1)

    def test_who_leaves_the_line(self) -> None:
        """Nothing is made for somebody who is not there any more."""
        waiting: Deferred[None] = Deferred()

        async def turn(who: str) -> None:
            await waiting

        self.talk.factory.gate.turn = turn
        channel, transport = self.talk.connect()
        channel.dataReceived(request_bytes("GET", "/admin/keys", ADMIN))
        transport.loseConnection()
        waiting.callback(None)
        self.assertEqual(self.calls, [])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_strangers_give_way(self) -> None:
        """Whoever opens many connections keeps neither operators nor data planes out."""
        factory: Any = ControlFactory(self.talk.factory.gate, max_connections=6)
        self.talk.factory = factory
        kept = []
        for target, credential in (("/admin/keys", ADMIN), ("/internal/config", INTERNAL)):
            channel, transport = self.talk.connect()
            channel.dataReceived(request_bytes("GET", target, credential))
            kept.append(transport)
        wrong = ((b"authorization", b"Bearer wrong"),)
        strangers = []
        for sent in (
            b"",
            b"GET /admin/keys HT",
            request_bytes("GET", "/healthz"),
            request_bytes("GET", "/admin/keys", wrong),
            request_bytes("GET", "/healthz", ADMIN),
        ):
            channel, transport = self.talk.connect()
            channel.dataReceived(sent)
            strangers.append(transport)
            self.assertEqual(self.talk.ask("GET", "/admin/keys", ADMIN).status, 200)
        for _ in range(20):
            strangers.append(self.talk.connect()[1])
        self.assertEqual([transport.connected for transport in strangers[-4:]], [True] * 4)
        self.assertFalse(any(transport.connected for transport in strangers[:-4]))
        self.assertTrue(all(transport.connected for transport in kept))
        self.assertEqual(factory.connections, 6)


class HalfClosingTests(SynchronousTestCase):
    """What happens to a caller that is still sending when it is refused."""

    def test_rest_is_discarded_for_two_seconds(self) -> None:
        """The caller can read the refusal before the connection goes."""
        from twisted.internet.interfaces import ITCPTransport
        from zope.interface import directlyProvides

        clock = Clock()
        talk = Conversation(clock=clock)
        channel, transport = talk.connect()
        events: list[str] = []
        directlyProvides(transport, ITCPTransport)
        fake: Any = transport
        fake.loseWriteConnection = lambda: events.append("half closed")
        fake.abortConnection = lambda: events.append("aborted")
        channel.dataReceived(request_bytes("POST", "/admin/keys", (), b"x" * 10))
        self.assertEqual(events, ["half closed"])
        channel.dataReceived(b"more")
        clock.advance(2)
        self.assertEqual(events, ["half closed", "aborted"])
