"""What all exchanges share: refusals of heads, ids, upstreams with their credentials, reloads."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.plane import compile_upstream
from omnigate.gateway.tables import Upstream
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.pool import UpstreamPool
from tests.planes.memory import (
    SECRET,
    MemoryDataPlane,
    get,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import ANSWER, CHAT, CHAT_STREAM, CLOSING, END, STREAM_HEAD, chunk, delta


class HeadTests(SynchronousTestCase):
    def test_refusals(self) -> None:
        """A malformed head is refused before it has an id, in the shape of the protocol meant."""
        cases = (
            (b"garbage\r\n\r\n", 400, "invalid_request"),
            (b"POST /v1/messages HTTP/1.1\r\nhost: g\r\n\r\n", 411, "length_required"),
            (
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\n"
                b"transfer-encoding: chunked\r\n\r\n",
                411,
                "length_required",
            ),
            (
                b"POST /v1/messages HTTP/1.1\r\nhost: g\r\nexpect: tea\r\n"
                b"content-length: 1\r\n\r\n",
                417,
                "expectation_failed",
            ),
            (b"GET / HTTP/3.0\r\nhost: g\r\n\r\n", 505, "invalid_request"),
            (
                b"POST /v1/messages HTTP/1.1\r\nhost: g\r\nanthropic-version: \xff\r\n"
                b"content-length: 1\r\n\r\n",
                400,
                "invalid_request",
            ),
            (
                b"POST /v1/messages HTTP/1.1\r\nhost: g\r\nanthropic-beta: a b\r\n"
                b"content-length: 1\r\n\r\n",
                400,
                "invalid_request",
            ),
        )
        for head, status, code in cases:
            plane = MemoryDataPlane()
            client = plane.client()
            client.send(head)
            answer = client.answer
            self.assertEqual((status, code), (answer.status, answer.code), head)
            self.assertEqual([("", code)], plane.refused)
            self.assertEqual(b"application/json", answer.headers[b"content-type"])
            self.assertNotIn(b"x-omnigate-request-id", answer.headers)
            self.assertEqual(b"/v1/messages" in head, answer.json.get("type") == "error")
            self.assertFalse(client.open)
            self.assertEqual(([], []), (plane.plane.exchanges, plane.lines))

    def test_shape_of_an_endless_head(self) -> None:
        """A head that is too long is told so in the shape of the protocol meant, too."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(b"POST /v1/messages HTTP/1.1\r\nhost: g\r\nx: " + b"y" * 33000)
        self.assertEqual((400, "error"), (client.answer.status, client.answer.json["type"]))

    def test_targets_that_are_none(self) -> None:
        """A sound head whose target is none gets an id and a line in the log, too."""
        cases = (
            (b"GET /a/../b HTTP/1.1\r\nhost: g\r\n\r\n", 400, "invalid_path"),
            (b"GET //v1/messages HTTP/1.1\r\nhost: g\r\n\r\n", 404, "not_found"),
            (b"HEAD /chat/completions HTTP/1.1\r\nhost: g\r\n\r\n", 404, "not_found"),
        )
        for head, status, code in cases:
            plane = MemoryDataPlane()
            client = plane.client()
            client.send(head)
            [line] = plane.lines
            self.assertEqual((status, code), (line.status, line.error_code), head)
            self.assertEqual([("", code)], plane.refused)
            self.assertIn(b"\r\ncontent-type: application/json\r\n", client.received())
            self.assertIn(b"x-omnigate-request-id: " + line.request_id.encode(), client.received())
            self.assertFalse(client.open)


class SettingTests(SynchronousTestCase):
    def test_what_is_set_holds(self) -> None:
        """Times and sizes of the settings are those that the plane goes by."""
        for setting, value, name, wanted in (
            ("CLIENT_TIMEOUT_MS", "1500", "client_timeout_seconds", 1.5),
            ("CLIENT_STALL_TIMEOUT_MS", "2500", "stall_timeout_seconds", 2.5),
            ("STREAM_IDLE_TIMEOUT_MS", "3500", "stream_idle_seconds", 3.5),
            ("HEARTBEAT_MS", "4500", "heartbeat_seconds", 4.5),
            ("HEARTBEAT_MS", "0", "heartbeat_seconds", 0),
            ("MAX_REQUEST_MB", "3", "max_body_bytes", 3 * 1024 * 1024),
            ("DEBUG_HEADERS", "0", "debug_headers", False),
        ):
            plane = MemoryDataPlane(environ={"OMNIGATE_" + setting: value}).plane
            self.assertEqual(wanted, getattr(plane, name), setting)
        plane = MemoryDataPlane(environ={"OMNIGATE_PARSE_MEMORY_MB": "3"}).plane
        self.assertEqual(3 * 1024 * 1024, plane.parse_memory.budget_bytes)

    def test_debug_headers(self) -> None:
        """Answers name the upstream and the attempts, unless that is switched off."""
        for value, told in (("1", True), ("0", False)):
            plane = MemoryDataPlane(environ={"OMNIGATE_DEBUG_HEADERS": value})
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(reply(ANSWER))
            self.assertEqual(told, b"x-omnigate-upstream" in client.answer.headers)
            self.assertEqual(told, b"x-omnigate-attempts" in client.answer.headers)

    def test_figures(self) -> None:
        """What the plane tells of itself is what it holds at the moment."""
        plane = MemoryDataPlane(routes=[route("small", ("u1", "vendor-1"), cache_ttl_s=60)])
        left, client = plane.client(), plane.client()
        left.send(request(CHAT_STREAM))
        plane.busy[0].answer(STREAM_HEAD + chunk(delta(b"Hi")))
        plane.busy[0].answer(chunk(b"data: " + b"x" * 5000))
        left.leave()
        client.send(request(CHAT))
        figures = plane.plane.figures()
        self.assertEqual(2, figures["requests_in_flight"])
        self.assertEqual(2 * len(CHAT + CHAT_STREAM), figures["request_memory_bytes"])
        self.assertEqual(5006, figures["held_answer_bytes"])
        self.assertEqual((1, 0), (figures["abandoned_answers"], figures["cache_answers"]))
        plane.last.answer(reply(ANSWER))
        figures = plane.plane.figures()
        self.assertEqual((1, 1), (figures["requests_in_flight"], figures["cache_answers"]))
        self.assertGreater(figures["cache_bytes"], len(ANSWER))


class UpstreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pool = UpstreamPool(lambda build: Deferred(), MemoryDataPlane().watchdog)

    def compile(self, protocol: str = "openai", **changes: Any) -> Upstream:
        facts: dict[str, Any] = {"base_url": "https://api.test:8443/base/v1", **changes}
        config = upstream("u1", protocol, **facts)
        environ = {"UPSTREAM_KEY": SECRET}
        return compile_upstream(config, parse_address(config.base_url), self.pool, environ)

    def test_lines(self) -> None:
        """Every request names the host, asks for plain bytes, and carries the credential."""
        for protocol, credential in (
            ("openai", b"authorization: Bearer " + SECRET.encode()),
            ("anthropic", b"x-api-key: " + SECRET.encode()),
        ):
            compiled = self.compile(protocol)
            lines = compiled.lines.split(b"\r\n")
            self.assertIn(b"host: api.test:8443", lines)
            self.assertIn(b"user-agent: omnigate", lines)
            self.assertIn(b"accept-encoding: identity", lines)
            self.assertIn(b"content-type: application/json", lines)
            self.assertIn(credential, lines)
            self.assertEqual(b"/base/v1", compiled.path)
            self.assertIsNone(compiled.missing)

    def test_no_record_shows_the_credential(self) -> None:
        """No log line shows a credential by way of the record that holds it."""
        self.assertNotIn(SECRET, repr(self.compile()))

    def test_no_credential(self) -> None:
        """An upstream without a credential is sent none."""
        compiled = self.compile(api_key_env=None)
        self.assertEqual((b"", None), (compiled.secret, compiled.missing))
        self.assertNotIn(b"authorization", compiled.lines)

    def test_missing_credential(self) -> None:
        """A credential that should be there and is not is noted."""
        compiled = self.compile(api_key_env="ABSENT_KEY")
        self.assertEqual((b"", "ABSENT_KEY"), (compiled.secret, compiled.missing))


class ReloadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane(keys=[key(rpm=2, max_concurrent=1)])

    def reload(self, **upstream_changes: Any) -> None:
        """Put a changed snapshot in force."""
        self.plane.install(
            [route("small", ("u1", "vendor-1")), route("new", ("u1", "vendor-9"))],
            [upstream("u1", **upstream_changes)],
            [key(rpm=2, max_concurrent=1)],
            version="2",
        )

    def test_requests_under_way(self) -> None:
        """A request under way ends as it began, and still counts for its key."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.reload(head_timeout_ms=9000)
        again = self.plane.client()
        again.send(request(CHAT))
        self.assertEqual("concurrency_limit_exceeded", again.answer.code)
        self.plane.last.answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status)
        self.assertEqual(0, self.plane.in_flight)

    def test_kept_connections(self) -> None:
        """Kept connections of an upstream that did not change are used on."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.plane.last.answer(reply(ANSWER))
        self.reload()
        client.send(request(CHAT.replace(b"small", b"new")))
        self.assertEqual(1, len(self.plane.opened))
        self.assertIn(b"vendor-9", self.plane.last.requests())

    def test_retired_connections(self) -> None:
        """Those of one that changed are closed, idle ones at once, the others when they are."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.plane.last.answer(reply(ANSWER))
        self.reload(head_timeout_ms=9000)
        self.plane.turn()
        self.assertFalse(self.plane.last.open)
        client.send(request(CHAT))
        self.assertEqual(2, len(self.plane.opened))
        self.reload(head_timeout_ms=8000)
        self.assertTrue(self.plane.last.open)
        self.plane.last.answer(reply(ANSWER))
        self.plane.turn()
        self.assertFalse(self.plane.last.open)
        self.assertEqual(2, len(client.answers()))

    def test_rate(self) -> None:
        """The bucket of a key is not filled by a reload."""
        client = self.plane.client()
        for _ in range(2):
            client.send(request(b"{}"))
        self.reload()
        client.send(request(CHAT))
        self.assertEqual("rate_limit_exceeded", client.answer.code)

    def test_cooldown(self) -> None:
        """A target rests on."""
        self.plane.install(
            [route("small", ("u1", "a"), ("u1", "b"))], [upstream("u1")], [key()], version="2"
        )
        client = self.plane.client()
        client.send(request(CHAT))
        self.plane.last.answer(reply(b"{}", b"429 Slow", b"retry-after: 30\r\n"))
        self.plane.busy[0].answer(reply(ANSWER))
        self.plane.install(
            [route("small", ("u1", "a"), ("u1", "b"))], [upstream("u1")], [key()], version="3"
        )
        client.send(request(CHAT))
        sent = self.plane.busy[0].requests()
        self.assertTrue(sent.endswith(CHAT.replace(b"small", b"b")))

    def test_key_that_went(self) -> None:
        """A key that is gone works no more; its stream under way is not cut."""
        client = self.plane.client()
        client.send(request(CHAT_STREAM))
        self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        self.plane.install([route("small", ("u1", "vendor-1"))], [upstream("u1")], [], version="2")
        self.plane.last.answer(chunk(CLOSING) + END)
        self.assertTrue(client.answer.whole)
        client.send(get(b"/v1/models"))
        self.assertEqual(401, client.answer.status)

    def test_close(self) -> None:
        """At the end all kept connections are closed."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.plane.last.answer(reply(ANSWER))
        self.plane.plane.close()
        self.plane.turn()
        self.assertFalse(self.plane.last.open)
