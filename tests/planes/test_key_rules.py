"""What holds for some keys only: an end, addresses, endpoints, tokens a minute."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import SnapshotSecret
from omnigate.dialects.expected_tokens import expected_tokens
from omnigate.token_bucket import AmountBucket
from tests.planes.memory import (
    KEY,
    FakeClient,
    MemoryDataPlane,
    digest_of,
    get,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.reading import Answer
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    MESSAGE,
    MESSAGES,
    STREAM_HEAD,
    chunk,
    delta,
)

NEW = "og-new-secret-0123456789"


class RulesTestCase(SynchronousTestCase):
    """One key with rules."""

    def plane(self, environ: dict[str, str] | None = None, **rules: Any) -> MemoryDataPlane:
        """A data plane whose key has these rules."""
        return MemoryDataPlane(keys=[key(**rules)], environ=environ)

    def ask(
        self,
        plane: MemoryDataPlane,
        body: bytes = CHAT,
        address: str | None = None,
        **said: Any,
    ) -> FakeClient:
        """Send a request."""
        client = plane.client(address)
        client.send(request(body, **said))
        return client

    def refused(self, plane: MemoryDataPlane, client: FakeClient, status: int, code: str) -> Answer:
        """The client was refused with this, which was counted and logged under the key's name."""
        answer = client.answer
        self.assertEqual((status, code), (answer.status, answer.code))
        self.assertEqual(("k1", code), plane.refused[-1])
        line = plane.lines[-1]
        self.assertEqual(("k1", status, code), (line.key, line.status, line.error_code))
        self.assertEqual(0, plane.in_flight)
        return answer

    def passed(self, plane: MemoryDataPlane, client: FakeClient) -> None:
        """The client's request went on to the upstream, which answers."""
        self.assertEqual(b"", client.received())
        plane.last.answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status)


class EndTests(RulesTestCase):
    """Keys and secrets that end."""

    def test_expiry(self) -> None:
        """To the millisecond, by the plane's own clock, whether a config comes or not."""
        plane = self.plane()
        end = plane.wall() + 10.0
        plane.install([route("small", ("u1", "a"))], [upstream("u1")], [expiring(end)], "2")
        self.passed(plane, self.ask(plane))
        plane.clock.advance(9.998)
        self.passed(plane, self.ask(plane))
        plane.clock.advance(0.002)
        answer = self.refused(plane, self.ask(plane), 401, "invalid_api_key")
        self.assertIn(b"this key expired at 2026-09-21T", answer.body)
        self.assertIn(b"www-authenticate", answer.headers)
        client = plane.client()
        client.send(get(b"/v1/models"))
        self.refused(plane, client, 401, "invalid_api_key")

    def test_a_stream_goes_on(self) -> None:
        """What began in time is answered to its end."""
        plane = self.plane()
        end = plane.wall() + 1.0
        plane.install([route("small", ("u1", "a"))], [upstream("u1")], [expiring(end)], "2")
        client = self.ask(plane, CHAT_STREAM)
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hel")))
        plane.clock.advance(5.0)
        plane.last.answer(chunk(delta(b"lo")) + chunk(CLOSING) + END)
        self.assertTrue(client.answer.whole)
        self.assertEqual(200, plane.events[-1].status)

    def test_grace(self) -> None:
        """Both secrets open the key until the old one ends; all is counted for one identity."""
        plane = self.plane()
        secrets = (
            SnapshotSecret(digest_of(NEW)),
            SnapshotSecret(digest_of(KEY), int((plane.wall() + 10.0) * 1000)),
        )
        parts = ([route("small", ("u1", "a"))], [upstream("u1")])
        plane.install(*parts, [key(secrets=secrets, rpm=4, max_concurrent=2)], "2")
        first, second = self.ask(plane), self.ask(plane, secret=NEW)
        self.refused_for_place(self.ask(plane, secret=NEW))
        self.refused_for_place(self.ask(plane))
        plane.opened[0].answer(reply(ANSWER))
        plane.opened[1].answer(reply(ANSWER))
        self.assertEqual((200, 200), (first.answer.status, second.answer.status))
        self.assertEqual({digest_of(KEY)}, {event.key_sha256 for event in plane.events})
        self.passed(plane, self.ask(plane))
        self.passed(plane, self.ask(plane, secret=NEW))
        answer = self.refused(plane, self.ask(plane), 429, "rate_limit_exceeded")
        self.assertIn(b"4 requests a minute", answer.body)
        plane.clock.advance(15.0)
        answer = self.refused(plane, self.ask(plane), 401, "invalid_api_key")
        self.assertIn(b"replaced by a new one and ended at", answer.body)
        self.passed(plane, self.ask(plane, secret=NEW))

    def refused_for_place(self, client: FakeClient) -> None:
        self.assertEqual("concurrency_limit_exceeded", client.answer.code)

    def test_a_rotation_without_grace(self) -> None:
        """The old secret is nobody's; what the key used up stays used up."""
        plane = self.plane(rpm=1, tpm=1000)
        self.passed(plane, self.ask(plane))
        assert plane.plane.tables is not None
        [before] = plane.plane.tables.keys.values()
        rotated = key(secrets=(SnapshotSecret(digest_of(NEW)),), rpm=1, tpm=1000)
        plane.install([route("small", ("u1", "a"))], [upstream("u1")], [rotated], "2")
        unknown = self.ask(plane)
        self.assertEqual("invalid_api_key", unknown.answer.code)
        self.assertEqual(("", "invalid_api_key"), plane.refused[-1])
        self.refused(plane, self.ask(plane, secret=NEW), 429, "rate_limit_exceeded")
        [after] = plane.plane.tables.keys.values()
        assert before.rules is not None and after.rules is not None
        self.assertIs(before.use, after.use)
        self.assertIs(before.bucket, after.bucket)
        self.assertIs(before.rules.tokens, after.rules.tokens)

    def test_the_other_credential_may_be_better(self) -> None:
        """Of two credentials the one that opens something counts, whichever stands first."""
        plane = self.plane()
        ended = int(plane.wall() * 1000) - 1
        secrets = (SnapshotSecret(digest_of(NEW)), SnapshotSecret(digest_of(KEY), ended))
        parts = ([route("small", ("u1", "a"))], [upstream("u1")])
        plane.install(*parts, [key(secrets=secrets)], "2")
        both = b"x-api-key: %b\r\n"
        self.passed(plane, self.ask(plane, secret=NEW, headers=both % KEY.encode()))
        self.passed(plane, self.ask(plane, headers=both % NEW.encode()))
        for other in (KEY, "nobodys"):
            client = self.ask(plane, headers=both % other.encode())
            self.refused(plane, client, 401, "invalid_api_key")


def expiring(end: float, **changes: Any) -> Any:
    """A key that ends at this moment."""
    return key(expires_ms=int(end * 1000), **changes)


class AddressTests(RulesTestCase):
    """Keys that may be used from some addresses only."""

    def test_addresses(self) -> None:
        """Who comes from elsewhere is refused, and so is who has no address."""
        plane = self.plane(allowed_ips=("192.0.2.0/24", "2001:db8::1"))
        for address in ("192.0.2.1", "192.0.2.255", "::ffff:192.0.2.7", "2001:db8:0::1"):
            self.passed(plane, self.ask(plane, address=address))
            self.assertNotIn("ffff", plane.lines[-1].client)
        for other in ("192.0.3.1", "2001:db8::2", "::1", None):
            client = self.ask(plane, address=other)
            answer = self.refused(plane, client, 403, "address_not_allowed")
            self.assertEqual("permission_error", answer.json["error"]["type"])
            if other is not None:
                self.assertEqual(other, plane.lines[-1].client)
                self.assertNotIn(other.encode(), answer.body)
        client = plane.client("192.0.3.1")
        client.send(get(b"/v1/models"))
        self.refused(plane, client, 403, "address_not_allowed")

    def test_behind_proxies(self) -> None:
        """The header counts where it comes from a proxy that is trusted, and else nothing."""
        header = b"x-forwarded-for: 10.9.9.9, 192.0.2.7, 10.0.0.2\r\n"
        rules: dict[str, Any] = {"allowed_ips": ("192.0.2.0/24",)}
        trusting = self.plane({"OMNIGATE_TRUSTED_PROXIES": "10.0.0.0/8,unix"}, **rules)
        for proxy in ("10.0.0.1", None):
            self.passed(trusting, self.ask(trusting, address=proxy, headers=header))
            self.assertEqual("192.0.2.7", trusting.lines[-1].client)
        client = self.ask(trusting, address="203.0.113.1", headers=header)
        self.refused(trusting, client, 403, "address_not_allowed")
        self.assertEqual("203.0.113.1", trusting.lines[-1].client)
        plain = self.plane(**rules)
        client = self.ask(plain, address="10.0.0.1", headers=header)
        self.refused(plain, client, 403, "address_not_allowed")
        self.assertEqual("10.0.0.1", plain.lines[-1].client)

    def test_a_target_that_is_none(self) -> None:
        """The log has the client's address there, too."""
        plane = self.plane({"OMNIGATE_TRUSTED_PROXIES": "10.0.0.0/8"})
        client = plane.client("10.0.0.1")
        client.send(b"GET /a/../b HTTP/1.1\r\nhost: g\r\nx-forwarded-for: 192.0.2.7\r\n\r\n")
        self.assertEqual("192.0.2.7", plane.lines[-1].client)

    def test_who_is_told_what(self) -> None:
        """From a wrong address nobody learns of the budget, and without one nobody of endpoints."""
        rules: dict[str, Any] = {"allowed_ips": ("192.0.2.0/24",), "endpoints": ("messages",)}
        plane = self.plane(blocked=True, **rules)
        self.refused(plane, self.ask(plane, address="::1"), 403, "address_not_allowed")
        self.refused(plane, self.ask(plane, address="192.0.2.1"), 402, "budget_exceeded")
        plane = self.plane(**rules)
        client = self.ask(plane, address="192.0.2.1")
        self.refused(plane, client, 403, "endpoint_not_allowed")
        plane = self.plane(expires_ms=1, **rules)
        self.refused(plane, self.ask(plane, address="::1"), 401, "invalid_api_key")


class EndpointTests(RulesTestCase):
    """Keys for some endpoints."""

    def test_endpoints(self) -> None:
        """Others are refused before the body is read, in the shape of their protocol."""
        plane = self.plane(endpoints=("chat", "models"), rpm=1)
        for path in (b"/v1/messages", b"/v1/messages/count_tokens", b"/v1/responses"):
            client = plane.client()
            client.send(request(MESSAGES, path)[: -len(MESSAGES)])
            answer = self.refused(plane, client, 403, "endpoint_not_allowed")
            self.assertIn(b"only for chat, models", answer.body)
            self.assertEqual(b"/v1/messages" in path, answer.json.get("type") == "error")
        self.passed(plane, self.ask(plane))
        client = plane.client()
        client.send(get(b"/v1/models"))
        self.assertEqual(200, client.answer.status)

    def test_the_model_list(self) -> None:
        """It is an endpoint, too, and so is one model of it; probes are not."""
        plane = self.plane(endpoints=("chat",))
        for path in (b"/v1/models", b"/v1/models/small"):
            client = plane.client()
            client.send(get(path))
            answer = self.refused(plane, client, 403, "endpoint_not_allowed")
            self.assertIn(b"may not be used for models, only for chat", answer.body)
        client = plane.client()
        client.send(get(b"/healthz"))
        self.assertEqual(200, client.answer.status)
        self.passed(plane, self.ask(plane))


def tokens_of(plane: MemoryDataPlane) -> AmountBucket:
    """What the one key's tokens are counted in."""
    assert plane.plane.tables is not None
    [found] = plane.plane.tables.identities.values()
    assert found.rules is not None and found.rules.tokens is not None
    return found.rules.tokens


class TokenTests(RulesTestCase):
    """Keys with tokens a minute."""

    def left(self, plane: MemoryDataPlane) -> int:
        """How many tokens could be reserved right now."""
        bucket, now = tokens_of(plane), plane.clock.seconds()
        least, most = 0, bucket.rate
        while least < most:
            middle = (least + most + 1) // 2
            need = bucket.need(middle)
            if bucket.reserve(need, now) == 0.0:
                bucket.settle(need, 0, now)
                least = middle
            else:
                most = middle - 1
        return least

    def test_figures_settle_what_was_reserved(self) -> None:
        """While it is under way the guess is gone, afterwards what the provider counted."""
        plane = self.plane(tpm=1000)
        body = CHAT[:-1] + b',"max_tokens":500}'
        client = self.ask(plane, body)
        self.assertEqual(1000 - expected_tokens(body), self.left(plane))
        self.passed(plane, client)
        self.assertEqual(1000 - 12, self.left(plane))
        self.assertEqual(0, tokens_of(plane).held)

    def test_refused(self) -> None:
        """With words about tokens, and how long it takes; the refused request takes none."""
        plane = self.plane(tpm=1000)
        body = CHAT[:-1] + b',"max_tokens":600}'
        first = self.ask(plane, body)
        second = self.ask(plane, body)
        answer = self.refused_with_one(plane, second)
        self.assertIn(b"1000 tokens a minute", answer.body)
        self.assertIn(b"may come to 619", answer.body)
        # Twice 619 is 238 more than there are.
        self.assertEqual(b"15", answer.headers[b"retry-after"])
        self.passed(plane, first)
        self.passed(plane, self.ask(plane, body))

    def refused_with_one(self, plane: MemoryDataPlane, client: FakeClient) -> Answer:
        self.assertEqual(("k1", "rate_limit_exceeded"), plane.refused[-1])
        self.assertEqual("rate_limit_exceeded", plane.lines[-1].error_code)
        self.assertEqual(1, plane.in_flight)
        self.assertTrue(client.open, "its body was read, so the connection lives")
        return client.answer

    def test_who_waits_as_told_is_served(self) -> None:
        """And not a second earlier."""
        plane = MemoryDataPlane(None, [upstream("u1", head_timeout_ms=90_000)], [key(tpm=600)])
        body = CHAT[:-1] + b',"max_tokens":450}'
        self.passed(plane, self.ask(plane, CHAT[:-1] + b',"max_tokens":5}'))
        held = self.ask(plane, body)
        client = self.ask(plane, body)
        wait = int(client.answer.headers[b"retry-after"])
        plane.clock.advance(wait - 1)
        self.assertEqual(429, self.ask(plane, body).answer.status)
        plane.clock.advance(1)
        self.assertEqual(b"", self.ask(plane, body).received())
        held.leave()

    def test_a_request_larger_than_the_limit(self) -> None:
        """It goes when the bucket is full; nobody is told to wait longer than a minute."""
        plane = self.plane(tpm=10)
        client = self.ask(plane)
        self.passed(plane, client)
        answer = self.ask(plane).answer
        self.assertEqual((429, b"60"), (answer.status, answer.headers[b"retry-after"]))
        # To count tokens uses none, and is not held up.
        counted = self.ask(plane, MESSAGES, path=b"/v1/messages/count_tokens")
        self.assertEqual(200, counted.answer.status)
        plane.clock.advance(72)
        self.passed(plane, self.ask(plane))

    def test_debts(self) -> None:
        """An answer far above the guess is paid off within two minutes."""
        plane = self.plane(tpm=100)
        client = self.ask(plane)
        plane.last.answer(reply(ANSWER.replace(b'"prompt_tokens":9', b'"prompt_tokens":900000')))
        self.assertEqual(200, client.answer.status)
        answer = self.ask(plane).answer
        self.assertEqual((429, b"60"), (answer.status, answer.headers[b"retry-after"]))
        plane.clock.advance(69)
        self.passed(plane, self.ask(plane))

    def test_what_costs_nothing(self) -> None:
        """Refusals of both sides, answers of the cache, token counts and reads leave all there."""
        body = CHAT[:-1] + b',"max_tokens":50}'
        plane = self.plane(tpm=1000)
        parts = ([route("small", ("u1", "a"), cache_ttl_s=60)], [upstream("u1")])
        plane.install(*parts, [key(tpm=1000)], "2")
        self.passed(plane, self.ask(plane, body))
        left = self.left(plane)
        self.assertEqual(200, self.ask(plane, body).answer.status)
        self.assertTrue(plane.events[-1].cached)
        for path in (b"/v1/messages/count_tokens", b"/v1/embeddings"):
            client = self.ask(plane, MESSAGES, path=path)
            if not client.received():
                plane.last.answer(reply(b'{"error":{"message":"no"}}', b"400 Bad Request"))
            self.assertTrue(client.received())
        self.assertEqual(404, self.ask(plane, body.replace(b"small", b"none")).answer.status)
        self.ask(plane, body[:-1])
        plane.refusing.add("u1")
        plane.opened[0].close()
        fresh = request(body, headers=b"cache-control: no-cache\r\n")
        client = plane.client()
        client.send(fresh)
        plane.advance(10)
        self.assertEqual(502, client.answer.status)
        self.assertGreaterEqual(self.left(plane), left)
        self.assertEqual(0, tokens_of(plane).held)

    def test_whatever_ends_it(self) -> None:
        """A client that leaves, in each way, and an upstream that breaks off: settled once."""
        for abandon in ("read_on", "cancel"):
            for answered in (b"", STREAM_HEAD + chunk(delta(b"Hello there"))):
                plane = self.plane(tpm=1000)
                parts = ([route("small", ("u1", "a"))], [upstream("u1", abandon=abandon)])
                plane.install(*parts, [key(tpm=1000)], "2")
                client = self.ask(plane, CHAT_STREAM)
                plane.last.answer(answered)
                client.leave()
                if abandon == "read_on":
                    self.assertGreater(tokens_of(plane).held, 0, "it may still cost")
                    plane.last.answer((b"" if answered else STREAM_HEAD) + chunk(CLOSING) + END)
                    self.assertEqual(1000 - 12, self.left(plane))
                self.assertEqual(0, tokens_of(plane).held)
                [event] = plane.events
                used = event.input_tokens + event.output_tokens
                self.assertEqual(1000 - used, self.left(plane))

    def test_a_translated_answer(self) -> None:
        """Its figures count as those of any other."""
        plane = MemoryDataPlane(
            [route("small", ("c1", "claude-1"))], [upstream("c1", "anthropic")], [key(tpm=5000)]
        )
        client = self.ask(plane)
        self.assertEqual(b"", client.received())
        plane.last.answer(reply(MESSAGE))
        self.assertEqual(200, client.answer.status)
        self.assertEqual((5000 - 12, 0), (self.left(plane), tokens_of(plane).held))

    def test_a_new_limit(self) -> None:
        """What is left stays in proportion; a limit that is lifted holds nobody back."""
        plane = self.plane(tpm=1000)
        client = self.ask(plane, CHAT[:-1] + b',"max_tokens":481}')
        self.assertEqual(500, self.left(plane))
        parts = ([route("small", ("u1", "vendor-1"))], [upstream("u1")])
        plane.install(*parts, [key(tpm=200)], "2")
        self.assertEqual(100, self.left(plane))
        before = tokens_of(plane)
        plane.install(*parts, [key()], "3")
        self.passed(plane, client)
        self.assertEqual(0, before.held)
        for _ in range(20):
            self.passed(plane, self.ask(plane, CHAT[:-1] + b',"max_tokens":100000}'))

    def test_a_key_that_goes_meanwhile(self) -> None:
        """What is under way for it is settled all the same."""
        plane = self.plane(tpm=1000)
        client = self.ask(plane)
        before = tokens_of(plane)
        plane.install([route("small", ("u1", "vendor-1"))], [upstream("u1")], [], "2")
        self.passed(plane, client)
        self.assertEqual(0, before.held)
