"""Every refusal that a text client can meet, provoked over real sockets.

Each tells its status and its code, and retry-after where time helps; it keeps the connection, or
ends it where the body was not read or the framing is in doubt; it has a request id unless the head
could not be trusted; it is counted, by key and code; and it gives back its place: the key of these
tests may have one request in flight, and after each refusal has one answered.
"""

import socket
from collections import Counter

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import ERRORS
from omnigate.wire.head import MAX_HEAD_BYTES
from tests.process.daemons import (
    Gateway,
    free_ports,
    key_of,
    key_table,
    route_table,
    shared,
    upstream_table,
    wait_for,
)
from tests.process.raw import RawAnswer, answers_in, dial, exchange, read_rest

#: Of the data plane here.
MAX_CONNECTIONS = 40
REQUEST_MEMORY_MB = 16
SETTINGS = {
    "MAX_CONNECTIONS": str(MAX_CONNECTIONS),
    "REQUEST_MEMORY_MB": str(REQUEST_MEMORY_MB),
    "CLIENT_TIMEOUT_MS": "20000",
}
#: A declared length of which one key may not have two in flight, nor all keys five.
LARGE = REQUEST_MEMORY_MB * 1024 * 1024 // 4 // 2

#: Codes of the table that the text paths of the data plane do not give: of the control plane, of
#: jobs and translation, and of a fault of ours (``tests/planes/test_crashes.py``).
NOT_MET_HERE = {
    "too_many_open_jobs",
    "too_many_jobs_today",
    "invalid_signature",
    "internal_error",
    "control_plane_unavailable",
    "not_ready",
    "storage_unavailable",
}

HOST = b"Host: gateway\r\n"
#: What follows each cause; answered only where the connection is kept.
BEHIND = b"GET /livez HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"
LARGE_KEYS = ("large-1", "large-2", "large-3", "large-4", "large-5")


def config(provider_port: int) -> str:
    """Keys with a limit each, and models that fail in each way."""
    return (
        key_table("one", max_concurrent=1)
        + key_table("narrow", models=["claude"])
        + key_table("elsewhere", allowed_ips=["192.0.2.0/24"])
        + key_table("embedder", endpoints=["embeddings"])
        + key_table("ended", expires_at="2026-01-01T00:00:00Z")
        + key_table("poor", budget_usd=0.000001, budget_period="total")
        + key_table("slow", rpm=1)
        + "".join(key_table(name) for name in LARGE_KEYS)
        + upstream_table("openai", "openai", provider_port)
        + upstream_table("anthropic", "anthropic", provider_port)
        + upstream_table("nowhere", "openai", 1)
        + upstream_table("keyless", "openai", provider_port, "NO_SUCH_KEY")
        + route_table("small", ("openai", "fake-small"))
        + route_table("paced", ("openai", "fake-words-100-paced-40"))
        + route_table("claude", ("anthropic", "fake-small"))
        + route_table("down", ("openai", "fake-503"), ("nowhere", "fake-small"))
        + route_table("limited", ("openai", "fake-429-retry-after-7"), ("openai", "fake-500"))
        + route_table("unpaid", ("keyless", "fake-small"))
        + route_table("locked", ("openai", "fake-401"))
    )


def chat(model: str = "small") -> bytes:
    """A body."""
    return b'{"model":"%b","messages":[{"role":"user","content":"Hello"}]}' % model.encode()


def posted(
    body: bytes, key: str = "one", path: bytes = b"/v1/chat/completions", length: int | None = None
) -> bytes:
    """A request, with any declared length."""
    size = len(body) if length is None else length
    secret = b"Authorization: Bearer %b\r\n" % key_of(key).encode() if key else b""
    head = b"POST %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n" % (path, HOST, secret, size)
    return head + body


def got(path: bytes, key: str = "one", method: bytes = b"GET", lines: bytes = b"") -> bytes:
    """A request without a body."""
    secret = b"Authorization: Bearer %b\r\n" % key_of(key).encode() if key else b""
    return b"%b %b HTTP/1.1\r\n%b%b%b\r\n" % (method, path, HOST, secret, lines)


@attrs.frozen
class Cause:
    """What is sent, and what comes of it.

    :ivar key: the key it is counted for; empty where none was read.
    :ivar kept: the connection is used for the next request.
    :ivar has_id: the answer has a request id.
    :ivar counted: it is a refusal; what reached an upstream is a usage event instead.
    :ivar shape: the protocol that the error is told in.
    """

    sent: bytes
    status: int
    code: str
    key: str = ""
    kept: bool = False
    has_id: bool = True
    counted: bool = True
    shape: str = "openai"


def bad_head(
    status: int, code: str, lines: bytes, first: bytes = b"POST /v1/messages HTTP/1.1"
) -> Cause:
    """A head that is refused before there is an id."""
    shape = "anthropic" if b"/v1/messages" in first else "openai"
    sent = first + b"\r\n" + HOST + lines + b"\r\n"
    return Cause(sent, status, code, has_id=False, shape=shape)


#: Refusals that need nothing but the request.
CAUSES: dict[str, Cause] = {
    "a folded line": bad_head(400, "invalid_request", b"X: a\r\n b\r\n"),
    "a control byte": bad_head(400, "invalid_request", b"X: a\x01\r\n"),
    "two lengths": bad_head(400, "invalid_request", b"Content-Length: 5\r\nContent-Length: 6\r\n"),
    "a beta that is not plain": bad_head(
        400, "invalid_request", b"Content-Length: 2\r\nanthropic-beta: a b\r\n"
    ),
    "no length": bad_head(411, "length_required", b""),
    "chunked": bad_head(411, "length_required", b"Transfer-Encoding: chunked\r\n"),
    "an expectation": bad_head(417, "expectation_failed", b"Content-Length: 2\r\nExpect: x\r\n"),
    "HTTP/2": bad_head(505, "invalid_request", b"", b"GET / HTTP/2.0"),
    "an absolute target": bad_head(400, "invalid_path", b"", b"GET http://a/ HTTP/1.1"),
    "an endless head": bad_head(400, "invalid_request", b"X: " + b"x" * MAX_HEAD_BYTES),
    "an endless target": bad_head(414, "invalid_path", b"", b"GET /" + b"a" * MAX_HEAD_BYTES),
    "a long path": Cause(got(b"/" + b"a" * 1024), 414, "invalid_path"),
    "an encoded path": Cause(got(b"/v1/%6dodels"), 400, "invalid_path"),
    "an encoded query": Cause(got(b"/v1/models?a=%20"), 400, "invalid_path"),
    "a doubled path": Cause(
        posted(chat(), path=b"//v1/messages"), 404, "not_found", shape="anthropic"
    ),
    "no key": Cause(posted(chat(), key=""), 401, "invalid_api_key"),
    "no key, no body": Cause(got(b"/v1/models", key=""), 401, "invalid_api_key", kept=True),
    "an unknown key": Cause(got(b"/v1/models", key="none"), 401, "invalid_api_key", kept=True),
    "nowhere": Cause(got(b"/v1/nothing"), 404, "not_found", "one", kept=True),
    "posted to nowhere": Cause(posted(chat(), path=b"/v1/nothing"), 404, "not_found", "one"),
    "a wrong method": Cause(
        got(b"/v1/models", method=b"DELETE"), 405, "method_not_allowed", "one", kept=True
    ),
    "an unknown method": Cause(
        got(b"/v1/messages", method=b"BREW"),
        *(501, "method_not_allowed", "one"),
        kept=True,
        shape="anthropic",
    ),
    "a WebSocket": Cause(
        got(b"/v1/responses", lines=b"Upgrade: websocket\r\nConnection: upgrade\r\n"),
        *(426, "endpoint_not_supported"),
        kept=True,
    ),
    "too large": Cause(posted(b"", length=9 * 1024 * 1024), 413, "request_too_large", "one"),
    "no JSON": Cause(posted(b"hello"), 400, "invalid_json", "one", kept=True),
    "no JSON in a message": Cause(
        posted(b"hello", path=b"/v1/messages"),
        *(400, "invalid_json", "one"),
        kept=True,
        shape="anthropic",
    ),
    "nested too deep": Cause(
        posted(b'{"model":"small","x":' + b"[" * 64 + b"]" * 64 + b"}"),
        *(400, "invalid_json", "one"),
        kept=True,
    ),
    "a fault seen early": Cause(
        posted(b'{"model":"a","model":"b"' + b" " * 200_000, length=300_000),
        *(400, "invalid_request", "one"),
    ),
    "no model": Cause(posted(b"{}"), 400, "invalid_request", "one", kept=True),
    "a model of another key": Cause(
        posted(chat(), key="narrow"), 403, "model_not_allowed", "narrow", kept=True
    ),
    "another address": Cause(
        got(b"/v1/models", key="elsewhere"), 403, "address_not_allowed", "elsewhere", kept=True
    ),
    "another endpoint": Cause(
        posted(chat(), key="embedder"), 403, "endpoint_not_allowed", "embedder"
    ),
    "a key that has ended": Cause(
        got(b"/v1/models", key="ended"), 401, "invalid_api_key", "ended", kept=True
    ),
    "an unknown model": Cause(posted(chat("none")), 404, "model_not_found", "one", kept=True),
    "one unknown model": Cause(got(b"/v1/models/none"), 404, "model_not_found", "one", kept=True),
    "the other protocol": Cause(
        posted(chat("claude"), path=b"/v1/embeddings"),
        *(404, "endpoint_not_supported", "one"),
        kept=True,
    ),
    "a conversation that its provider keeps": Cause(
        posted(chat()[:-1] + b',"max_tokens":9,"thread":{"id":"t"}}', path=b"/v1/messages"),
        *(400, "thread_unsupported_request", "one"),
        kept=True,
        shape="anthropic",
    ),
    "a field that cannot be translated": Cause(
        posted(chat("claude")[:-1] + b',"n":2}'),
        *(400, "untranslatable_request", "one"),
        kept=True,
    ),
    "too much to be translated": Cause(
        posted(chat("claude")[:-1] + b',"x":[' + b"[]," * 500_000 + b"[]]}"),
        *(400, "request_too_complex", "one"),
        kept=True,
    ),
    "all targets down": Cause(
        posted(chat("down")), 502, "all_upstreams_failed", kept=True, counted=False
    ),
    "a rate limit of the provider": Cause(
        posted(chat("limited")), 429, "upstream_rate_limited", kept=True, counted=False
    ),
    "a credential that is refused": Cause(
        posted(chat("locked")), 502, "upstream_authentication_failed", kept=True, counted=False
    ),
    "a credential that is not there": Cause(
        posted(chat("unpaid")), 502, "upstream_authentication_failed", kept=True, counted=False
    ),
}

#: Codes that need more than a request; each has a test of its own below.
STATES = {
    "budget_exceeded",
    "rate_limit_exceeded",
    "concurrency_limit_exceeded",
    "request_memory_exceeded",
    "overloaded",
    "gateway_not_ready",
}


class RefusalTests(SynchronousTestCase):
    """See the module's docstring."""

    def setUp(self) -> None:
        self.gateway = shared("refusals", lambda: Gateway(config, SETTINGS).start())
        self.addCleanup(lambda: self.assertEqual(self.gateway.traces(), []))
        self.before = self.counts()
        self.expected: Counter[tuple[str, str]] = Counter()

    def counts(self) -> Counter[tuple[str, str]]:
        """Refusals so far, by key and code."""
        rows = self.gateway.admin().call("GET", "/admin/refusals")["refusals"]
        return Counter({(row["key"], row["code"]): row["count"] for row in rows})

    def check_counts(self) -> None:
        """Those that were expected have been counted, and no others."""
        wanted = self.before + self.expected
        wait_for("all refusals counted", lambda: self.counts().total() >= wanted.total())
        self.assertEqual(self.counts(), wanted)

    def check(self, cause: Cause, answer: RawAnswer, name: str) -> None:
        """What every refusal owes."""
        self.assertEqual((answer.status, answer.code), (cause.status, cause.code), name)
        self.assertEqual("x-omnigate-request-id" in answer.headers, cause.has_id, name)
        self.assertEqual(answer.closes, not cause.kept, name)
        self.assertEqual(answer.json.get("type"), "error" if cause.shape == "anthropic" else None)
        kind, error = ERRORS[cause.code], answer.json["error"]
        wanted = kind.anthropic_type if cause.shape == "anthropic" else kind.openai_type
        self.assertEqual(error["type"], wanted, name)
        self.assertTrue(error["message"], name)
        if cause.counted:
            self.expected[cause.key, cause.code] += 1

    def ask(self, cause: Cause, name: str = "") -> RawAnswer:
        """Send a cause, and check what comes of it and of the request behind it."""
        answers = answers_in(exchange(self.gateway.data_port, cause.sent + BEHIND))
        self.assertEqual(len(answers), 2 if cause.kept else 1, (name, answers))
        self.check(cause, answers[0], name)
        return answers[0]

    def check_place(self, key: str = "one") -> None:
        """The key has its one place, and all of its memory."""
        self.assertEqual(self.gateway.ask("small", key=key).status, 200)

    def test_causes(self) -> None:
        """Each is refused as it must be, and gives its place back."""
        for name, cause in CAUSES.items():
            self.ask(cause, name)
            self.check_place()
        self.check_counts()

    def test_every_code(self) -> None:
        """No code of the table is left out."""
        met = {cause.code for cause in CAUSES.values()}
        self.assertEqual(met | STATES | NOT_MET_HERE, set(ERRORS))
        self.assertEqual((met | STATES) & NOT_MET_HERE, set())

    def test_budget(self) -> None:
        """A key that has spent its budget starts no new work, and may read."""
        self.gateway.event(self.gateway.ask("small", key="poor").id)
        cause = Cause(posted(chat(), key="poor"), 402, "budget_exceeded", "poor")

        def blocked() -> bool:
            status = self.gateway.ask("small", key="poor").status
            self.expected["poor", "budget_exceeded"] += status == 402
            return status == 402

        wait_for("the key to be blocked", blocked)
        self.ask(cause)
        answer = self.gateway.get("/v1/models", key_of("poor"))
        self.assertEqual(answer.status, 200)
        self.check_counts()

    def test_rate(self) -> None:
        """A key that asks too often is told when to come back; counting tokens is free."""
        self.gateway.ask("small", key="slow")
        cause = Cause(posted(chat(), key="slow"), 429, "rate_limit_exceeded", "slow")
        answer = self.ask(cause)
        self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60, answer.headers)
        counting = posted(chat("claude"), key="slow", path=b"/v1/messages/count_tokens")
        [counted, _] = answers_in(exchange(self.gateway.data_port, counting + BEHIND))
        self.assertEqual(counted.status, 200)
        self.check_counts()

    def test_concurrency(self) -> None:
        """A key with a request in flight has no place for another, until that one has ended."""
        body = chat("paced")[:-1] + b',"stream":true}'
        cause = Cause(posted(chat()), 429, "concurrency_limit_exceeded", "one")
        with dial(self.gateway.data_port) as opened:
            opened.sendall(posted(body))
            self.assertTrue(opened.recv(1))
            self.assertEqual(self.ask(cause).headers["retry-after"], "1")
            # Who leaves keeps the place until the answer has been read to its end.
            opened.shutdown(socket.SHUT_RDWR)
        self.assertEqual(self.ask(cause).headers["retry-after"], "1")

        def free() -> bool:
            status = self.gateway.ask("small", key="one").status
            self.expected["one", cause.code] += status == 429
            return status == 200

        wait_for("the place", free)
        self.check_counts()

    def test_memory(self) -> None:
        """Memory is given out by the declared length: a quarter to a key, and no more than all."""
        port = self.gateway.data_port
        too_much = Cause(
            posted(b"", key="large-1", length=LARGE + 1), 429, "request_memory_exceeded", "large-1"
        )
        self.assertEqual(self.ask(too_much).headers["retry-after"], "1")
        held = [dial(port) for _ in LARGE_KEYS[:4]]
        try:
            for key, opened in zip(LARGE_KEYS, held, strict=False):
                opened.sendall(posted(b"{", key=key, length=LARGE))
            # They are read in the order in which they came, and this one after them.
            self.assertEqual(self.gateway.get("/livez").status, 200)
            second = Cause(posted(chat(), key="large-1"), 429, "request_memory_exceeded", "large-1")
            last = Cause(posted(chat(), key="large-5"), 503, "overloaded", "large-5")
            for cause in (second, last):
                self.assertEqual(self.ask(cause).headers["retry-after"], "1")
            self.assertEqual(self.gateway.get("/v1/models", key_of("large-5")).status, 200)
        finally:
            for opened in held:
                opened.close()
        self.expected.update({(key, "client_disconnected"): 1 for key in LARGE_KEYS[:4]})

        def free() -> bool:
            status = self.gateway.ask("small", key="large-5").status
            self.expected["large-5", "overloaded"] += status == 503
            return status == 200

        wait_for("the memory", free)
        for key in LARGE_KEYS:
            self.check_place(key)
        self.check_counts()

    def test_connections(self) -> None:
        """One connection too many is told so at once, and the others go on."""
        port = self.gateway.data_port
        # When this one has ended, those of the tests before are forgotten too.
        exchange(port, BEHIND)
        held = [dial(port) for _ in range(MAX_CONNECTIONS)]
        try:
            with dial(port) as opened:
                [answer] = answers_in(read_rest(opened))
            self.check(Cause(b"", 503, "overloaded", has_id=False), answer, "one too many")
            self.assertEqual(answer.headers["retry-after"], "1")
            held[0].sendall(posted(chat()) + BEHIND)
            answers = answers_in(read_rest(held[0]))
            self.assertEqual([answer.status for answer in answers], [200, 200])
        finally:
            for opened in held:
                opened.close()
        self.check_counts()

    def test_no_config(self) -> None:
        """A data plane that never had a config says so, with an id, and lives."""
        port, nobody = free_ports(2)
        run = self.gateway.spawn(
            "data",
            DATA_LISTEN=f"tcp:{port}:interface=127.0.0.1",
            CONTROL_URL=f"http://127.0.0.1:{nobody}",
            STATE_DIR=str(self.gateway.folder / "unready"),
        )
        run.wait_ready(port, "/livez")
        try:
            for sent, kept in ((posted(chat()), False), (got(b"/v1/models"), True)):
                answers = answers_in(exchange(port, sent + BEHIND))
                self.assertEqual(len(answers), 2 if kept else 1)
                cause = Cause(sent, 503, "gateway_not_ready", kept=kept, counted=False)
                self.check(cause, answers[0], "no config")
                self.assertEqual(answers[0].headers["retry-after"], "1")
        finally:
            run.kill()
