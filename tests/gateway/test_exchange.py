"""The steps of a request up to its forwarding: each refusal, its code, its count, its place."""

import json
import tracemalloc
from collections import Counter

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import SnapshotTarget
from omnigate.errors import ERRORS
from omnigate.events import NO_TOKENS
from omnigate.gateway import settle
from tests.planes.memory import (
    KEY,
    FakeClient,
    MemoryDataPlane,
    get,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.reading import Answer
from tests.planes.scenes import ANSWER, CHAT, CHAT_STREAM, MESSAGES

BLOCKED = "og-blocked-key-0123456789"
NARROW = "og-narrow-key-0123456789"
UNKNOWN = "og-unknown-key-0123456789"
IDS = (b"x-omnigate-request-id", b"x-request-id", b"request-id")
MEBIBYTE = 1024 * 1024


class ExchangeTestCase(SynchronousTestCase):
    environ: dict[str, str] = {}

    def setUp(self) -> None:
        self.plane = MemoryDataPlane(
            routes=[
                route("small", ("u1", "vendor-1"), ("u2", "vendor-2")),
                route("big", ("u1", "vendor-3")),
            ],
            upstreams=[upstream("u1"), upstream("u2", "anthropic")],
            keys=[
                key(),
                key("blocked", BLOCKED, blocked=True),
                key("narrow", NARROW, models=("big", "gpt-*")),
            ],
            environ=self.environ,
        )

    def ask(self, data: bytes) -> Answer:
        """Send a request on a connection of its own, and read its answer."""
        self.client: FakeClient = self.plane.client()
        self.client.send(data)
        [answer] = self.client.answers()
        return answer

    def check_refused(self, data: bytes, code: str, *, key_name: str = "k1") -> Answer:
        """The request is refused: told in its protocol, counted once, logged once, no more."""
        before = len(self.plane.refused)
        answer = self.ask(data)
        kind = ERRORS[code]
        self.assertEqual((kind.status, code), (answer.status, answer.code))
        self.assertTrue(answer.whole)
        anthropic = b"/v1/messages" in data
        wanted = kind.anthropic_type if anthropic else kind.openai_type
        self.assertEqual(wanted, answer.json["error"]["type"])
        self.assertEqual(b"application/json", answer.headers[b"content-type"])
        [request_id] = {answer.headers[name] for name in IDS}
        if anthropic:
            self.assertEqual(request_id.decode(), answer.json["request_id"])
        self.assertEqual([(key_name, code)], self.plane.refused[before:])
        self.assertEqual(([], []), (self.plane.events, self.plane.opened))
        line = self.plane.lines[-1]
        self.assertEqual((request_id.decode(), code), (line.request_id, line.error_code))
        self.assertEqual(kind.status, line.status)
        self.assertEqual(0, self.plane.in_flight)
        self.assertEqual(0, self.plane.plane.admission.memory_bytes)
        return answer


class KeyTests(ExchangeTestCase):
    def with_headers(self, headers: bytes) -> bytes:
        return request(CHAT).replace(b"authorization: Bearer %b\r\n" % KEY.encode(), headers)

    def test_refused(self) -> None:
        """Without a key that is known here nothing is done; one in another shape is none."""
        shapeless = (
            b"",
            b"authorization: Bearer \r\n",
            b"authorization: %b\r\n" % KEY.encode(),
            b"authorization: Basic %b\r\n" % KEY.encode(),
        )
        for headers in (
            *shapeless,
            b"authorization: Bearer %b\r\n" % UNKNOWN.encode(),
            b"authorization: Bearer %b extra\r\n" % KEY.encode(),
            b"x-api-key: %b\r\n" % UNKNOWN.encode(),
            b"x-api-key: Bearer %b\r\n" % KEY.encode(),
            b"authorization: Bearer x\r\nx-api-key: y\r\n",
        ):
            answer = self.check_refused(self.with_headers(headers), "invalid_api_key", key_name="")
            self.assertNotIn(UNKNOWN, answer.message)
            self.assertEqual(headers in shapeless, "no key was sent" in answer.message)

    def test_taken(self) -> None:
        """A key may come in either header; of two the one that is known is taken."""
        for headers in (
            b"authorization: Bearer %b\r\n" % KEY.encode(),
            b"authorization: bearer   %b\r\n" % KEY.encode(),
            b"x-api-key: %b\r\n" % KEY.encode(),
            b"authorization: Bearer %b\r\nx-api-key: %b\r\n" % (KEY.encode(), KEY.encode()),
            b"authorization: Bearer %b\r\nx-api-key: unknown\r\n" % KEY.encode(),
            b"authorization: Bearer unknown\r\nx-api-key: %b\r\n" % KEY.encode(),
            b"authorization: Basic unknown\r\nx-api-key: %b\r\n" % KEY.encode(),
        ):
            client = self.plane.client()
            client.send(self.with_headers(headers))
            self.assertEqual("k1", self.plane.plane.exchanges[-1].key.name)  # type: ignore[union-attr]

    def test_two_known(self) -> None:
        """Of two that are known ``authorization`` counts."""
        self.check_refused(
            self.with_headers(
                b"x-api-key: %b\r\nauthorization: Bearer %b\r\n" % (KEY.encode(), BLOCKED.encode())
            ),
            "budget_exceeded",
            key_name="blocked",
        )

    def test_blocked(self) -> None:
        """A key without budget may not start work, whatever the work is."""
        for path, body in ((b"/v1/messages/count_tokens", MESSAGES), (b"/v1/embeddings", CHAT)):
            self.check_refused(
                request(body, path, secret=BLOCKED), "budget_exceeded", key_name="blocked"
            )

    def test_never_crosses(self) -> None:
        """The gateway key does not cross to the upstream."""
        client = self.plane.client()
        client.send(request(CHAT, headers=b"x-api-key: %b\r\n" % KEY.encode()))
        self.assertNotIn(KEY.encode(), self.plane.last.requests())


class BodyTests(ExchangeTestCase):
    environ = {"OMNIGATE_MAX_REQUEST_MB": "1"}

    def test_faults(self) -> None:
        """A body that is not plainly one request is refused, and its connection kept."""
        cases = (
            (b"", "invalid_json"),
            (b"{", "invalid_json"),
            (b"[]", "invalid_request"),
            (b'{"model":"small"} x', "invalid_json"),
            (b'{"model":"sm\xff"}', "invalid_json"),
            (b'{"model":"small","x":' + b"[" * 64 + b"]" * 64 + b"}", "invalid_json"),
            (b"{}", "invalid_request"),
            (b'{"model":5}', "invalid_request"),
            (b'{"model":null}', "invalid_request"),
            (b'{"model":"small","model":"small"}', "invalid_request"),
            (b'{"mod\\u0065l":"small"}', "invalid_request"),
            (b'{"model":"small","stream":true,"stream":false}', "invalid_request"),
        )
        for body, code in cases:
            self.check_refused(request(body), code)
            self.check_refused(request(body, b"/v1/messages"), code)
            self.assertTrue(self.client.open, body)

    def test_large_bodies(self) -> None:
        """A larger body is judged as it arrives, and as strictly."""
        filler = b'"x":"' + b"y" * 200_000 + b'",'
        for body, code in (
            (b"{" + filler + b'"model":5}', "invalid_request"),
            (b"{" + filler + b'"model":"small","model":"small"}', "invalid_request"),
            (b"{" + filler + b'"model":"small"', "invalid_json"),
            (b"[" + filler, "invalid_request"),
        ):
            self.check_refused(request(body), code)
        client = self.plane.client()
        client.send(request(b"{" + filler + b'"model":"small"}'))
        self.assertTrue(self.plane.last.requests().endswith(filler + b'"model":"vendor-1"}'))

    def test_too_large(self) -> None:
        """A declared length over the limit is refused before any of the body comes."""
        head = request(b"x" * (MEBIBYTE + 1))[: -MEBIBYTE - 1]
        self.check_refused(head, "request_too_large")
        self.check_refused(
            head.replace(b"/v1/chat/completions", b"/v1/messages"), "request_too_large"
        )
        self.assertFalse(self.client.open)
        client = self.plane.client()
        client.send(request(b"x" * MEBIBYTE)[:-MEBIBYTE])
        self.assertEqual(b"", client.received())

    def test_in_small_pieces(self) -> None:
        """A body that comes in pieces of two bytes takes no more memory than it may."""
        for size in (100_000, 400_000):
            body = CHAT[:-1] + b',"user":"' + b"x" * size + b'"}'
            sent = request(body)
            client = self.plane.client()
            client.send(sent[: -len(body)])
            exchange = self.plane.plane.exchanges[-1]
            tracemalloc.start()
            try:
                for start in range(0, len(body) - 1, 2):
                    exchange.body_piece(body[start : start + 2], False)
                held = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            self.assertLess(held, 4 * len(body))
            exchange.body_piece(body[-1:], True)
            self.assertTrue(
                self.plane.last.requests().endswith(body.replace(b"small", b"vendor-1"))
            )

    def test_message_holds_nothing_of_others(self) -> None:
        """What a client sent is repeated in bounds and without control bytes only."""
        answer = self.check_refused(
            request(b'{"model":"a\\r\\n\\u001b[31m' + b"x" * 5000 + b'"}'), "model_not_found"
        )
        self.assertLess(len(answer.body), 1000)
        self.assertNotIn("\x1b", answer.message)
        self.assertNotIn("\n", answer.message)


class AdmissionTests(ExchangeTestCase):
    environ = {
        "OMNIGATE_MAX_CONCURRENT_PER_KEY": "2",
        "OMNIGATE_REQUEST_MEMORY_MB": "16",
        "OMNIGATE_MAX_REQUEST_MB": "8",
    }

    def test_in_flight(self) -> None:
        """One more than the bound is refused before its body, until another one has ended."""
        first, second = self.plane.client(), self.plane.client()
        first.send(request(CHAT))
        second.send(request(CHAT)[:-5])
        third = self.plane.client()
        third.send(request(CHAT)[: -len(CHAT)])
        self.assertEqual(
            (429, "concurrency_limit_exceeded"), (third.answer.status, third.answer.code)
        )
        self.assertEqual(b"1", third.answer.headers[b"retry-after"])
        self.plane.last.answer(reply(ANSWER))
        fourth = self.plane.client()
        fourth.send(request(CHAT))
        self.assertEqual(b"", fourth.received())
        other = self.plane.client()
        other.send(request(CHAT, secret=NARROW))
        self.assertEqual("model_not_allowed", other.answer.code)

    def test_memory(self) -> None:
        """A key's share and the whole budget are kept by declared lengths."""
        head = request(b"x" * (2 * MEBIBYTE))[: -2 * MEBIBYTE]
        clients = [self.plane.client() for _ in range(2)]
        clients[0].send(head)
        clients[1].send(head)
        answer = clients[1].answer
        self.assertEqual((429, "request_memory_exceeded"), (answer.status, answer.code))
        self.assertEqual(b"1", answer.headers[b"retry-after"])
        self.assertEqual(4 * MEBIBYTE, self.plane.plane.admission.memory_bytes)
        clients[0].leave()
        self.assertEqual(0, self.plane.plane.admission.memory_bytes)

    def test_whole_memory(self) -> None:
        """When all of it is in use, everybody is told to come back."""
        names = [f"og-many-keys-012345678{index}" for index in range(5)]
        self.plane.install(
            [route("small", ("u1", "vendor-1"))],
            [upstream("u1")],
            [key(name, name) for name in names],
        )
        head = request(b"x" * (2 * MEBIBYTE))[: -2 * MEBIBYTE]
        for name in names[:4]:
            self.plane.client().send(head.replace(KEY.encode(), name.encode()))
        client = self.plane.client()
        client.send(head.replace(KEY.encode(), names[4].encode()))
        self.assertEqual((503, "overloaded"), (client.answer.status, client.answer.code))
        self.assertEqual(b"1", client.answer.headers[b"retry-after"])

    def test_too_large_and_too_many(self) -> None:
        """A body that is too large is told so, and not to come back, whatever memory is left."""
        head = request(b"x")[:-1].replace(b"content-length: 1", b"content-length: 99999999999")
        answer = self.check_refused(head, "request_too_large")
        self.assertNotIn(b"retry-after", answer.headers)
        for _ in range(2):
            self.plane.client().send(request(CHAT))
        self.assertEqual("concurrency_limit_exceeded", self.ask(head).code)

    def test_blocked_first(self) -> None:
        """A key without budget is told that before anything about size or number."""
        head = request(b"x", secret=BLOCKED)[:-1]
        for length in (b"1", b"8388609", b"99999999999"):
            sized = head.replace(b"content-length: 1", b"content-length: " + length)
            self.check_refused(sized, "budget_exceeded", key_name="blocked")

    def test_own_bound(self) -> None:
        """A key's own bound counts instead of the default."""
        self.plane.install(
            [route("small", ("u1", "vendor-1"))], [upstream("u1")], [key(max_concurrent=1)]
        )
        self.plane.client().send(request(CHAT))
        answer = self.ask(request(CHAT))
        self.assertIn("1 requests in flight", answer.message)


class RateTests(ExchangeTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane(
            routes=[
                route("small", ("u1", "vendor-1"), ("u2", "vendor-2")),
                route("only", ("u2", "vendor-2")),
            ],
            upstreams=[upstream("u1"), upstream("u2", "anthropic")],
            keys=[key(rpm=3, max_concurrent=1), key("narrow", NARROW, models=("big",), rpm=3)],
        )

    def test_burst_and_wait(self) -> None:
        """After the burst the client is told how long to wait, and that is the truth."""
        for _ in range(3):
            self.ask(request(b"{}"))
        answer = self.check_refused(request(CHAT), "rate_limit_exceeded")
        self.assertEqual(b"20", answer.headers[b"retry-after"])
        self.check_refused(request(MESSAGES, b"/v1/messages"), "rate_limit_exceeded")
        self.plane.clock.advance(19.9)
        answer = self.check_refused(request(CHAT), "rate_limit_exceeded")
        self.assertEqual(b"1", answer.headers[b"retry-after"])
        self.plane.clock.advance(0.1)
        client = self.plane.client()
        client.send(request(CHAT))
        self.assertEqual(b"", client.received())

    def test_the_wait_is_the_truth(self) -> None:
        """Whatever the rate, who waits as long as told is served, and never told over a minute."""
        for rpm, wait in ((1, b"60"), (7, b"9"), (59, b"2"), (60, b"1"), (1000, b"1")):
            self.plane.install(
                [route("small", ("u1", "vendor-1"))], [upstream("u1")], [key(rpm=rpm)], f"{rpm}"
            )
            self.plane.advance(60, 60)
            for _ in range(rpm):
                self.ask(request(b"{}"))
            answer = self.check_refused(request(b"{}"), "rate_limit_exceeded")
            self.assertEqual(wait, answer.headers[b"retry-after"], rpm)
            self.plane.advance(float(wait), float(wait))
            self.check_refused(request(b"{}"), "invalid_request")

    def test_before_the_body(self) -> None:
        """The refusal comes before any of the body."""
        for _ in range(3):
            self.ask(request(b"{}"))
        self.check_refused(request(CHAT)[: -len(CHAT)], "rate_limit_exceeded")

    def test_charged(self) -> None:
        """A request that is refused for its body or its model has used up one of the minute's."""
        large = request(b"x")[:-1].replace(b"content-length: 1", b"content-length: 8388609")
        for refused, code in (
            (large, "request_too_large"),
            (request(b"{"), "invalid_json"),
            (request(b"{}"), "invalid_request"),
            (request(CHAT.replace(b"small", b"none")), "model_not_found"),
            (request(CHAT, secret=NARROW), "model_not_allowed"),
            (
                request(CHAT.replace(b"small", b"only"), b"/v1/embeddings"),
                "endpoint_not_supported",
            ),
        ):
            self.setUp()
            name = "narrow" if NARROW.encode() in refused else "k1"
            for _ in range(3):
                self.check_refused(refused, code, key_name=name)
            self.check_refused(refused, "rate_limit_exceeded", key_name=name)

    def test_refused_before_it_counts(self) -> None:
        """A request that is refused before its turn at the rate costs nothing of it."""
        self.plane.client().send(request(CHAT)[:-1])
        for _ in range(5):
            answer = self.ask(request(CHAT, headers=b"x-n: 1\r\n"))
            self.assertEqual("concurrency_limit_exceeded", answer.code)
            self.ask(request(CHAT, secret=UNKNOWN))
            self.ask(request(CHAT, b"/v1/nothing"))
            self.ask(get(b"/v1/chat/completions"))
        settle.refusal(self.plane.plane.exchanges[0], "client_disconnected", 499)
        self.check_refused(request(b"{}"), "invalid_request")
        self.check_refused(request(b"{}"), "invalid_request")
        self.check_refused(request(b"{}"), "rate_limit_exceeded")

    def test_not_charged(self) -> None:
        """What is not metered is not charged, and neither is a read."""
        for _ in range(5):
            client = self.plane.client()
            body = MESSAGES.replace(b"small", b"only")
            client.send(request(body, b"/v1/messages/count_tokens"))
            self.plane.last.answer(reply(b'{"input_tokens":9}'))
            self.assertEqual(200, client.answer.status)
            self.ask(get(b"/v1/models"))
        self.assertEqual([], self.plane.refused)


class ShapeTests(ExchangeTestCase):
    def test_the_endpoint_s_own(self) -> None:
        """An error has the shape of the endpoint it comes from, whatever else the client sends."""
        version = b"anthropic-version: 2023-06-01\r\n"
        for path, protocol in (
            (b"/v1/chat/completions", "openai"),
            (b"/v1/completions", "openai"),
            (b"/v1/responses", "openai"),
            (b"/v1/embeddings", "openai"),
            (b"/v1/messages", "anthropic"),
            (b"/v1/messages/count_tokens", "anthropic"),
        ):
            for headers in (b"", version):
                for sent in (request(b"{}", path, headers), get(path, headers)):
                    shape = "anthropic" if self.ask(sent).json.get("type") == "error" else "openai"
                    self.assertEqual(protocol, shape, sent)

    def test_elsewhere(self) -> None:
        """Where nothing is, the shape is that of the client, as far as it can be told."""
        version = b"anthropic-version: 2023-06-01\r\n"
        for path in (b"/v1/nothing", b"/v1/models/none", b"//v1/models", b"/models", b"/a/../b"):
            for headers, told in ((b"", None), (version, "error")):
                self.assertEqual(told, self.ask(get(path, headers)).json.get("type"), path)
        for path in (b"/messages", b"//v1/messages", b"/v1/v1/messages", b"/v1/messages/batches"):
            self.assertEqual("error", self.ask(get(path)).json["type"], path)


class RouteTests(ExchangeTestCase):
    def test_model_of_another_key(self) -> None:
        """A key with a list of models gets no other, whether there is a route for it or not."""
        for model in (b"small", b"none", b"gpt", b"bigger"):
            answer = self.check_refused(
                request(CHAT.replace(b"small", model), secret=NARROW),
                "model_not_allowed",
                key_name="narrow",
            )
            self.assertEqual("model", answer.json["error"]["param"])

    def test_no_route(self) -> None:
        """A model that no route has is not there."""
        for secret, name, model in ((KEY, "k1", b"none"), (NARROW, "narrow", b"gpt-9")):
            answer = self.check_refused(
                request(CHAT.replace(b"small", model), secret=secret),
                "model_not_found",
                key_name=name,
            )
            self.assertIn(model.decode(), answer.message)

    def test_media_model(self) -> None:
        """A model of media jobs is listed, and whoever asks it for text is told where to ask."""
        self.plane.install(
            [route("small", ("u1", "v"))], [upstream("u1")], [key()], "2", media_models=("flux",)
        )
        body = CHAT.replace(b"small", b"flux")
        for path in (b"/v1/chat/completions", b"/v1/responses", b"/v1/messages"):
            answer = self.check_refused(request(body, path), "endpoint_not_supported")
            self.assertIn("POST /v1/jobs", answer.message)
        listed = self.ask(get(b"/v1/models")).json["data"]
        self.assertEqual([model["id"] for model in listed], ["small", "flux"])

    def test_no_target_of_the_protocol(self) -> None:
        """What is never translated is not there where no target speaks the client's protocol."""
        self.plane.install([route("big", ("u2", "v"))], [upstream("u2", "anthropic")], [key()], "2")
        body = CHAT.replace(b"small", b"big")
        for path in (b"/v1/embeddings", b"/v1/completions"):
            answer = self.check_refused(request(body, path), "endpoint_not_supported")
            self.assertIn("openai", answer.message)

    def test_targets_of_both_protocols(self) -> None:
        """A mixed route is asked in its own order, whatever the client speaks."""
        for path, body in (
            (b"/v1/messages", MESSAGES),
            (b"/v1/chat/completions", CHAT),
            (b"/v1/responses", b'{"model":"small","input":"Hi"}'),
        ):
            self.plane.client().send(request(body, path))
        self.assertEqual(["u1", "u1", "u1"], self.plane.at)
        self.plane.client().send(request(CHAT, b"/v1/embeddings"))
        self.assertEqual("u1", self.plane.at[-1])

    def test_what_is_sent(self) -> None:
        """The bytes at the upstream are the client's but for the model, and the usage asked for."""
        body = b'{ "stream" : false,\n "model":"small", "x": 1.0e5, "x": "\\u0041\xc3\xa9" }'
        self.plane.client().send(request(body))
        self.assertTrue(
            self.plane.last.requests().endswith(b"\r\n\r\n" + body.replace(b"small", b"vendor-1"))
        )
        self.plane.client().send(request(CHAT_STREAM))
        sent = self.plane.last.requests().partition(b"\r\n\r\n")[2]
        self.assertEqual(
            CHAT_STREAM.replace(b"small", b"vendor-1"),
            sent.replace(b'"stream_options":{"include_usage":true},', b""),
        )

    def test_query(self) -> None:
        """A plain query goes on."""
        self.plane.install(
            [route("small", ("u2", "vendor-2"))], [upstream("u2", "anthropic")], [key()], "2"
        )
        self.plane.client().send(request(MESSAGES, b"/v1/messages?beta=true"))
        self.assertTrue(
            self.plane.last.requests().startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\n")
        )

    def test_every_endpoint(self) -> None:
        """Each endpoint leads to the same one of the upstream."""
        for path in (
            b"/v1/chat/completions",
            b"/v1/completions",
            b"/v1/responses",
            b"/v1/embeddings",
            b"/v1/messages",
            b"/v1/messages/count_tokens",
        ):
            name, protocol = ("u2", "anthropic") if b"messages" in path else ("u1", "openai")
            self.plane.install(
                [route("small", (name, "vendor-2"))], [upstream(name, protocol)], [key()], name
            )
            self.plane.client().send(request(CHAT, path))
            self.assertTrue(self.plane.last.requests().startswith(b"POST %b HTTP/1.1\r\n" % path))

    def test_strategies(self) -> None:
        """Of one request after the other the route's strategy chooses the first target."""
        for strategy, weights, wanted in (
            ("failover", (1, 1, 1), {"a": 12}),
            ("round_robin", (1, 1, 1), {"a": 4, "b": 4, "c": 4}),
            ("weighted", (0, 1, 0), {"b": 12}),
        ):
            targets = tuple(
                SnapshotTarget(upstream="u1", model=model, weight=weight, caps=0)
                for model, weight in zip("abc", weights, strict=True)
            )
            self.plane.install(
                [attrs.evolve(route("small", strategy=strategy), targets=targets)],
                [upstream("u1")],
                [key()],
                strategy,
            )
            sent: Counter[str] = Counter()
            for _ in range(12):
                self.plane.client().send(request(CHAT))
                connection = self.plane.busy[0]
                body = connection.requests().rpartition(b"\r\n\r\n")[2]
                sent[json.loads(body)["model"]] += 1
                connection.answer(reply(ANSWER))
            self.assertEqual(wanted, dict(sent), strategy)


class ContinueTests(ExchangeTestCase):
    environ = {"OMNIGATE_MAX_CONCURRENT_PER_KEY": "1"}

    def head(self, length: int = 9, path: bytes = b"/v1/messages", secret: str = KEY) -> bytes:
        """The head of a request that waits for leave to send its body."""
        sent = request(b"", path, b"expect: 100-continue\r\n", secret)
        return sent.replace(b"content-length: 0", b"content-length: %d" % length)

    def test_refused(self) -> None:
        """Who is refused before the body is not asked for it, and not taken for a new client."""
        for head, status in (
            (self.head(secret=UNKNOWN), 401),
            (self.head(secret=BLOCKED), 402),
            (self.head(path=b"/v1/nothing"), 404),
            (self.head(path=b"/v1/models"), 405),
            (self.head(10**9), 413),
            (self.head().replace(b"100-continue", b"tea"), 417),
        ):
            answer = self.ask(head)
            self.assertEqual((status, 0), (answer.status, answer.interim))
            self.assertEqual(b"close", answer.headers[b"connection"])
            self.client.send(get(b"/v1/models"))
            self.assertEqual(1, len(self.client.answers()))
            self.assertEqual(0, self.plane.in_flight)

    def test_wanted(self) -> None:
        """Who is admitted is asked once, and the next one refused without being asked."""
        client = self.plane.client()
        client.send(self.head(2))
        self.assertEqual(b"HTTP/1.1 100 Continue\r\n\r\n", client.received())
        answer = self.ask(self.head(2))
        self.assertEqual((429, 0), (answer.status, answer.interim))
        client.send(b"{}")
        self.assertEqual((400, 1), (client.answer.status, client.answer.interim))
        client.send(get(b"/v1/models"))
        self.assertEqual([400, 200], [answer.status for answer in client.answers()])


class EndTests(ExchangeTestCase):
    """The two ends, of which the first wins."""

    def test_first_wins(self) -> None:
        """Whatever comes after an end makes no second one."""
        for sent, ends in (
            (request(CHAT), (1, 0)),
            (request(b"{}"), (0, 1)),
            (get(b"/v1/models"), (0, 0)),
        ):
            self.setUp()
            client = self.plane.client()
            client.send(sent)
            for connection in self.plane.busy:
                connection.answer(reply(ANSWER))
            [exchange] = self.plane.plane.exchanges
            for _ in range(2):
                settle.refusal(exchange, "internal_error", 500)
                settle.read(exchange, 200)
                exchange.client_lost()
                if ends[0]:
                    settle.usage(exchange, 499, NO_TOKENS, False, None, [], 0.0)
            self.assertEqual(ends, (len(self.plane.events), len(self.plane.refused)))
            self.assertEqual(1, len(self.plane.lines))
            self.assertEqual(0, self.plane.in_flight)


class LogTests(ExchangeTestCase):
    def test_line(self) -> None:
        """One line for each request, with what happened and neither content nor key."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.plane.clock.advance(1.5)
        self.plane.last.answer(reply(ANSWER))
        [line], [event] = self.plane.lines, self.plane.events
        self.assertEqual(event.id, line.request_id)
        self.assertEqual(client.answer.headers[b"x-request-id"].decode(), event.id)
        self.assertEqual(
            ("POST", "/v1/chat/completions", 200, "k1", "small", "u1", "vendor-1", None),
            (
                line.method,
                line.path,
                line.status,
                line.key,
                line.route,
                line.upstream,
                line.model,
                line.error_code,
            ),
        )
        self.assertEqual(
            (9, 3, 1, False, len(CHAT), len(ANSWER)),
            (
                line.input_tokens,
                line.output_tokens,
                line.attempts,
                line.estimated,
                line.bytes_in,
                line.bytes_out,
            ),
        )
        self.assertEqual((1500, 1500), (line.duration_ms, event.latency_ms))
        for text in ("Hi", "Hello", KEY):
            self.assertNotIn(text, str(line))

    def test_model(self) -> None:
        """A line names the model asked for: the beginning of one that is none, a route's whole."""
        name = "m" * 150
        self.plane.install([route(name, ("u1", "vendor-1"))], [upstream("u1")], [key()], "2")
        self.ask(request(CHAT.replace(b"small", b"x" * 150)))
        self.assertEqual("x" * 100, self.plane.lines[-1].route)
        self.plane.client().send(request(CHAT.replace(b"small", name.encode())))
        self.plane.last.answer(reply(ANSWER))
        self.assertEqual(name, self.plane.lines[-1].route)
        self.assertEqual(name, self.plane.events[-1].route_model)

    def test_level(self) -> None:
        """Every line tells how bad it is."""
        self.plane.refusing = {"u1", "u2"}
        self.ask(request(CHAT))
        self.ask(request(b"{}"))
        self.ask(get(b"/v1/models"))
        self.ask(get(b"//v1/models"))
        self.assertEqual(["error", "info", "info", "info"], [x.level for x in self.plane.lines])

    def test_bytes_out(self) -> None:
        """A line tells how long the answer was that the client got, whoever it came from."""
        self.plane.refusing = {"u1", "u2"}
        for sent in (
            request(CHAT),
            request(b"{}"),
            request(CHAT, secret=UNKNOWN),
            get(b"/v1/models"),
            get(b"/v1/nothing"),
            get(b"//v1/models"),
        ):
            answer = self.ask(sent)
            self.assertEqual(len(answer.body), self.plane.lines[-1].bytes_out, sent)
            self.assertGreater(len(answer.body), 0)
        for path in (b"/v1/models", b"/v1/nothing", b"//v1/models"):
            client = self.plane.client()
            client.send(get(path, method=b"HEAD"))
            self.assertTrue(client.received().endswith(b"\r\n\r\n"))
            self.assertEqual(0, self.plane.lines[-1].bytes_out, path)

    def test_no_query(self) -> None:
        """What stands in a query is not logged, wherever the path leads."""
        for path in (b"/v1/models", b"//v1/models", b"/a/../b", b"/v1/nothing"):
            self.ask(get(path + b"?api-key=hidden"))
            self.assertEqual(path.decode(), self.plane.lines[-1].path)

    def test_ids_differ(self) -> None:
        """No two requests have the same id."""
        for _ in range(100):
            self.ask(get(b"/nothing"))
        self.assertEqual(100, len({line.request_id for line in self.plane.lines}))

    def test_failure(self) -> None:
        """The end of a walk without an answer is logged with its code."""
        self.plane.refusing = {"u1", "u2"}
        self.ask(request(CHAT))
        [line] = self.plane.lines
        self.assertEqual(
            (502, "all_upstreams_failed", None, 2),
            (line.status, line.error_code, line.upstream, line.attempts),
        )
