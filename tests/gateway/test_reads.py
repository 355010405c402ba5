"""Requests that start no work: probes, lists, and everything that is no endpoint."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.gateway.reads import PROBES
from tests.planes.memory import KEY, MemoryDataPlane, get, key, request, route, upstream
from tests.planes.reading import Answer
from tests.planes.scenes import CHAT

ANTHROPIC = b"anthropic-version: 2023-06-01\r\n"
IDS = (b"x-omnigate-request-id", b"x-request-id", b"request-id")


class ReadsTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane(
            routes=[
                route("small", ("u1", "vendor-1")),
                route("org/big", ("u1", "vendor-2")),
                route("claude-x", ("u2", "vendor-3")),
            ],
            upstreams=[upstream("u1"), upstream("u2", "anthropic")],
            keys=[
                key(),
                key("narrow", "og-narrow-key-0123456789", models=("org/*", "small")),
                key("broke", "og-blocked-key-0123456789", blocked=True),
            ],
        )

    def ask(
        self,
        path: bytes,
        headers: bytes = b"",
        *,
        method: bytes = b"GET",
        secret: str = KEY,
        plane: MemoryDataPlane | None = None,
    ) -> Answer:
        """Send one request on a connection of its own, and read its answer."""
        client = (plane or self.plane).client()
        client.send(get(path, headers, method, secret))
        [answer] = client.answers(method)
        self.assertTrue(answer.whole)
        client.leave()
        return answer


class ProbeTests(ReadsTestCase):
    def test_probes(self) -> None:
        """Probes need no key, and are neither logged nor counted."""
        for path in PROBES:
            answer = self.ask(path.encode(), secret="")
            self.assertEqual((200, {"status": "ok"}), (answer.status, answer.json))
            self.assertEqual(b"no-store", answer.headers[b"cache-control"])
            self.assertEqual(b"application/json", answer.headers[b"content-type"])
        answer = self.ask(b"/", secret="")
        self.assertEqual((200, "omnigate"), (answer.status, answer.json["name"]))
        self.assertEqual(b"application/json", answer.headers[b"content-type"])
        self.assertEqual(([], [], []), (self.plane.lines, self.plane.refused, self.plane.events))

    def test_ids(self) -> None:
        """All of them but /healthz carry the request id."""
        for path in (b"/", b"/livez", b"/readyz"):
            answer = self.ask(path, secret="")
            self.assertEqual(1, len({answer.headers[name] for name in IDS}), path)
        self.assertFalse(set(IDS) & set(self.ask(b"/healthz", secret="").headers))

    def test_head(self) -> None:
        """HEAD is answered wherever GET is, with the same head and no body."""
        for path in (b"/", b"/healthz", b"/livez", b"/readyz", b"/v1/models", b"/v1/models/small"):
            head, full = self.ask(path, method=b"HEAD"), self.ask(path)
            self.assertEqual((200, b""), (head.status, head.body), path)
            self.assertEqual(b"%d" % len(full.body), head.headers[b"content-length"], path)

    def test_without_a_config(self) -> None:
        """Without a config the plane lives but is not ready, and says so to everybody else."""
        plane = MemoryDataPlane(configured=False)
        for path, status in ((b"/", 200), (b"/healthz", 200), (b"/livez", 200), (b"/readyz", 503)):
            self.assertEqual(status, self.ask(path, secret="", plane=plane).status, path)
        answer = self.ask(b"/readyz", secret="", plane=plane)
        self.assertEqual(b"1", answer.headers[b"retry-after"])
        self.assertIn("configuration", answer.json["reason"])
        for path in (b"/v1/models", b"/nothing"):
            answer = self.ask(path, plane=plane)
            self.assertEqual((503, "gateway_not_ready"), (answer.status, answer.code))
            self.assertEqual(b"1", answer.headers[b"retry-after"])
        client = plane.client()
        client.send(request(CHAT))
        self.assertEqual("gateway_not_ready", client.answer.code)
        self.assertEqual([("", "gateway_not_ready")] * 3, plane.refused)

    def test_draining(self) -> None:
        """While it stops the plane lives but is not ready."""
        self.plane.plane.draining = True
        self.assertEqual(200, self.ask(b"/livez", secret="").status)
        answer = self.ask(b"/readyz", secret="")
        self.assertEqual((503, "draining"), (answer.status, answer.json["reason"]))

    def test_other_methods(self) -> None:
        """Other methods are not for probes."""
        for path in (b"/", b"/healthz", b"/readyz"):
            answer = self.ask(path, method=b"DELETE", secret="")
            self.assertEqual((405, b"GET, HEAD"), (answer.status, answer.headers[b"allow"]))

    def test_hello(self) -> None:
        """Claude Code's first question gets its 404 at once and without a key."""
        self.assertEqual(404, self.ask(b"/api/hello", method=b"HEAD", secret="").status)
        self.assertEqual(401, self.ask(b"/api/hello", secret="").status)
        plane = MemoryDataPlane(configured=False)
        answer = self.ask(b"/api/hello", method=b"HEAD", secret="", plane=plane)
        self.assertEqual(404, answer.status)

    def test_websocket(self) -> None:
        """A WebSocket is refused before anything else is looked at, so that Codex goes on."""
        upgrade = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        for plane in (self.plane, MemoryDataPlane(configured=False)):
            answer = self.ask(b"/v1/responses", upgrade, secret="", plane=plane)
            self.assertEqual(426, answer.status)
            self.assertEqual(b"HTTP/1.1", answer.headers[b"upgrade"])
            self.assertEqual(b"upgrade", answer.headers[b"connection"])
        self.assertEqual(405, self.ask(b"/v1/responses").status)

    def test_websocket_in_http10(self) -> None:
        """HTTP/1.0 has no upgrades, so the header means nothing there (RFC 9110 §7.8)."""
        client = self.plane.client()
        client.send(
            get(b"/v1/responses", b"upgrade: websocket\r\n").replace(b"HTTP/1.1", b"HTTP/1.0")
        )
        self.assertEqual(405, client.answer.status)


#: The list, a model that there is, one that there is not.
MODEL_PATHS = (b"/v1/models", b"/v1/models/small", b"/v1/models/none")
SHAPES = {
    "openai": {
        "list": {"object", "data"},
        "one": {"id", "object", "created", "owned_by"},
        "unknown": {"error"},
    },
    "anthropic": {
        "list": {"data", "has_more", "first_id", "last_id"},
        "one": {"type", "id", "display_name", "created_at", "lifecycle"},
        "unknown": {"type", "error", "request_id"},
    },
}


class ModelTests(ReadsTestCase):
    def test_openai(self) -> None:
        """The list in OpenAI's shape, in the order of the config."""
        answer = self.ask(b"/v1/models")
        self.assertEqual("list", answer.json["object"])
        self.assertEqual(["small", "org/big", "claude-x"], [m["id"] for m in answer.json["data"]])
        self.assertEqual({"model"}, {m["object"] for m in answer.json["data"]})
        self.assertEqual(1, len({answer.headers[name] for name in IDS}))

    def test_anthropic(self) -> None:
        """The list in Anthropic's shape for a client that names its version."""
        answer = self.ask(b"/v1/models?limit=1000", ANTHROPIC)
        self.assertEqual((False, "small"), (answer.json["has_more"], answer.json["first_id"]))
        self.assertEqual({"model"}, {m["type"] for m in answer.json["data"]})

    def test_the_shape_follows_the_client(self) -> None:
        """Either header of Anthropic's clients means their shape; a bearer token means nothing."""
        by_hand = b"x-api-key: %b\r\n" % KEY.encode()
        for headers, secret, wanted in (
            (b"", KEY, "openai"),
            (b"openai-beta: x\r\n", KEY, "openai"),
            (ANTHROPIC, KEY, "anthropic"),
            (by_hand, "", "anthropic"),
            (by_hand, KEY, "anthropic"),
            (by_hand + ANTHROPIC, "", "anthropic"),
        ):
            answers = [self.ask(path, headers, secret=secret) for path in MODEL_PATHS]
            for answer, kind in zip(answers, ("list", "one", "unknown"), strict=True):
                self.assertEqual(answer.status, 404 if kind == "unknown" else 200)
                self.assertEqual(set(answer.json), SHAPES[wanted][kind], f"{headers!r} {kind}")

    def test_only_what_the_key_may(self) -> None:
        """A key with a list of models sees those."""
        answer = self.ask(b"/v1/models", secret="og-narrow-key-0123456789")
        self.assertEqual(["small", "org/big"], [m["id"] for m in answer.json["data"]])
        answer = self.ask(b"/v1/models/claude-x", secret="og-narrow-key-0123456789")
        self.assertEqual((404, "model_not_found"), (answer.status, answer.code))

    def test_blocked_key(self) -> None:
        """A key without budget may still read."""
        for path in (b"/v1/models", b"/v1/models/small"):
            self.assertEqual(200, self.ask(path, secret="og-blocked-key-0123456789").status)

    def test_one(self) -> None:
        """One model, however its id is spelled."""
        for path, model in (
            (b"/v1/models/small", "small"),
            (b"/v1/models/org/big", "org/big"),
            (b"/v1/models/org%2Fbig", "org/big"),
            (b"/v1/models/claude%2Dx", "claude-x"),
        ):
            self.assertEqual(model, self.ask(path).json["id"])
            self.assertEqual("model", self.ask(path, ANTHROPIC).json["type"])

    def test_unknown(self) -> None:
        """A model that is none, in the shape of the client's protocol."""
        for path in (b"/v1/models/none", b"/v1/models/org%252Fbig"):
            answer = self.ask(path)
            self.assertEqual((404, "model_not_found"), (answer.status, answer.code))
        answer = self.ask(b"/v1/models/none", ANTHROPIC)
        self.assertEqual("error", answer.json["type"])
        self.assertEqual(answer.headers[b"request-id"].decode(), answer.json["request_id"])

    def test_logged_and_not_counted(self) -> None:
        """A read is a line in the log, and neither a usage event nor a refusal."""
        self.ask(b"/v1/models")
        [line] = self.plane.lines
        self.assertEqual((200, "/v1/models", "k1"), (line.status, line.path, line.key))
        self.assertEqual(([], []), (self.plane.events, self.plane.refused))

    def test_key_is_needed(self) -> None:
        """The list is for those with a key."""
        for headers, secret in ((b"", ""), (b"", "og-unknown-key-000000")):
            answer = self.ask(b"/v1/models", headers, secret=secret)
            self.assertEqual((401, "invalid_api_key"), (answer.status, answer.code))
            self.assertTrue(answer.whole)
            self.assertTrue(answer.headers[b"www-authenticate"].startswith(b"Bearer "))


class NowhereTests(ReadsTestCase):
    def test_after_the_key(self) -> None:
        """Only who has a key is told what there is not."""
        self.assertEqual(401, self.ask(b"/v1/nothing", secret="").status)
        answer = self.ask(b"/v1/nothing")
        self.assertEqual((404, "not_found"), (answer.status, answer.code))
        self.assertEqual([("", "invalid_api_key"), ("k1", "not_found")], self.plane.refused)

    def test_method(self) -> None:
        """A wrong method is told which ones there are."""
        for path, method, allowed in (
            (b"/v1/chat/completions", b"GET", b"POST"),
            (b"/v1/messages/count_tokens", b"DELETE", b"POST"),
            (b"/v1/models", b"DELETE", b"GET, HEAD"),
            (b"/v1/models/small", b"DELETE", b"GET, HEAD"),
        ):
            self.assertEqual(401, self.ask(path, method=method, secret="").status)
            answer = self.ask(path, method=method)
            self.assertEqual((405, "method_not_allowed"), (answer.status, answer.code))
            self.assertEqual(allowed, answer.headers[b"allow"])

    def test_unknown_method(self) -> None:
        """A method that HTTP does not know is 501 wherever a known one is 405 (RFC 9110 §9.1)."""
        for path in (b"/", b"/healthz", b"/readyz", b"/v1/models", b"/v1/responses"):
            for method, status in (
                (b"BREW", 501),
                (b"get", 501),
                (b"OPTIONS", 405),
                (b"TRACE", 405),
                (b"CONNECT", 405),
                (b"DELETE", 405),
            ):
                answer = self.ask(path, method=method)
                self.assertEqual((status, "method_not_allowed"), (answer.status, answer.code))
                self.assertTrue(answer.headers[b"allow"])

    def test_hints(self) -> None:
        """A path that is a little off is told the right one, key or no key."""
        for path, right in (
            (b"//v1/messages", "/v1/messages"),
            (b"/messages", "/v1/messages"),
            (b"/chat/completions", "/v1/chat/completions"),
            (b"/v1/v1/messages", "/v1/messages"),
        ):
            answer = self.ask(path, secret="")
            self.assertEqual((404, "not_found"), (answer.status, answer.code), path)
            self.assertIn(right, answer.message)
        for wanted in (*ENDPOINTS, "/v1/models"):
            for off in (wanted[3:], "/" + wanted, "/" + wanted[3:], "/v1" + wanted):
                self.assertIn(f" {wanted}?", self.ask(off.encode(), secret="").message, off)

    def test_posted_to_the_wrong_place(self) -> None:
        """The same for a request with a body, in the shape of the protocol meant."""
        client = self.plane.client()
        client.send(request(CHAT, b"//v1/messages"))
        self.assertEqual((404, "error"), (client.answer.status, client.answer.json["type"]))

    def test_body_is_not_read(self) -> None:
        """A body sent to nowhere is not read as the next request."""
        client = self.plane.client()
        client.send(request(get(b"/v1/models"), b"/v1/nothing"))
        self.assertEqual([404], [answer.status for answer in client.answers()])
        self.assertFalse(client.open)
