"""The usage event field by field, and what an upstream's own settings make of a request."""

import hashlib
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import AttemptRecord, UsageEvent
from tests.planes.memory import KEY, SECRET, MemoryDataPlane, reply, request, route, upstream
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

CACHED = (
    b'{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":90,"completion_tokens":5,'
    b'"prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":20}}}'
)


class EventTests(SynchronousTestCase):
    def check(self, plane: MemoryDataPlane, began: float, **fields: Any) -> None:
        """The newest event has these fields, and the usual ones elsewhere."""
        usual = UsageEvent(
            id=plane.plane.exchanges[-1].id,
            key_sha256=hashlib.sha256(KEY.encode()).hexdigest(),
            route_model="small",
            upstream="u1",
            target_model="vendor-1",
            status=200,
            stream=False,
            input_tokens=9,
            cached_input_tokens=0,
            cache_write_input_tokens=0,
            output_tokens=3,
            cached=False,
            estimated=False,
            latency_ms=int((plane.clock.seconds() - began) * 1000),
            attempts=[],
            ts_ms=int(plane.wall() * 1000),
            endpoint="chat",
        )
        event = plane.events[-1]
        tried = [msgspec.structs.replace(attempt, duration_ms=0) for attempt in event.attempts]
        self.assertEqual(
            msgspec.structs.replace(usual, **fields), msgspec.structs.replace(event, attempts=tried)
        )

    def test_whole(self) -> None:
        """A whole answer, with tokens out of and into the provider's cache."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        began = plane.clock.seconds()
        plane.advance(1.5)
        plane.last.answer(reply(CACHED))
        self.check(
            plane,
            began,
            input_tokens=30,
            cached_input_tokens=40,
            cache_write_input_tokens=20,
            output_tokens=5,
            attempts=[AttemptRecord("u1", "vendor-1", "ok", 200, 0)],
        )

    def test_second_target(self) -> None:
        """A stream of the second target; the time counts from the first attempt on."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        began = plane.clock.seconds()
        plane.advance(1)
        plane.last.answer(reply(ERROR, b"503 Busy"))
        plane.advance(1)
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        plane.advance(1)
        plane.last.answer(chunk(CLOSING) + END)
        self.check(
            plane,
            began,
            stream=True,
            upstream="u2",
            target_model="vendor-2",
            attempts=[
                AttemptRecord("u1", "vendor-1", "status_503", 503, 0),
                AttemptRecord("u2", "vendor-2", "ok", 200, 0),
            ],
        )
        durations = [attempt.duration_ms for attempt in plane.events[-1].attempts]
        self.assertEqual([1000, 2000], [round(duration, -2) for duration in durations])

    def test_nobody(self) -> None:
        """A request that nobody answered has no upstream and no tokens."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(ERROR, b"429 Slow"))
        self.check(
            plane,
            plane.clock.seconds(),
            status=429,
            upstream=None,
            target_model=None,
            input_tokens=0,
            output_tokens=0,
            attempts=[AttemptRecord("u1", "vendor-1", "status_429", 429, 0)],
        )

    def test_left(self) -> None:
        """A client that left before a connection was there."""
        plane = MemoryDataPlane()
        plane.slow = True
        client = plane.client()
        client.send(request(CHAT))
        client.leave()
        self.check(
            plane,
            plane.clock.seconds(),
            status=499,
            upstream=None,
            target_model=None,
            input_tokens=0,
            output_tokens=0,
            attempts=[AttemptRecord("u1", "vendor-1", "canceled", None, 0)],
        )

    def test_cache(self) -> None:
        """An answer of the response cache has no upstream, no tokens and no attempts."""
        plane = MemoryDataPlane(routes=[route("small", ("u1", "vendor-1"), cache_ttl_s=60)])
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(ANSWER))
        client.send(request(CHAT))
        self.check(
            plane,
            plane.clock.seconds(),
            cached=True,
            upstream=None,
            target_model=None,
            input_tokens=0,
            output_tokens=0,
        )

    def test_endpoints(self) -> None:
        """Each endpoint goes by its own short name."""
        for path, protocol, answer, kind in (
            (b"/v1/completions", "openai", ANSWER, "completions"),
            (b"/v1/responses", "openai", MESSAGE, "responses"),
            (b"/v1/embeddings", "openai", ANSWER, "embeddings"),
            (b"/v1/messages", "anthropic", MESSAGE, "messages"),
        ):
            plane = MemoryDataPlane(upstreams=[upstream("u1", protocol)])
            client = plane.client()
            client.send(request(CHAT, path))
            plane.last.answer(reply(answer))
            tried = [AttemptRecord("u1", "vendor-1", "ok", 200, 0)]
            self.check(plane, plane.clock.seconds(), endpoint=kind, attempts=tried)


class UpstreamTests(SynchronousTestCase):
    def head(self, headers: bytes = b"", protocol: str = "anthropic", **changes: Any) -> bytes:
        """The head that such an upstream is sent."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", protocol, **changes)])
        path = b"/v1/messages" if protocol == "anthropic" else b"/v1/chat/completions"
        plane.client().send(request(MESSAGES, path, headers))
        return plane.last.requests().partition(b"\r\n\r\n")[0] + b"\r\n"

    def test_version(self) -> None:
        """A version is sent where the client sent none."""
        version = b"anthropic-version: 2026-10-21\r\n"
        self.assertIn(version, self.head(anthropic_version="2026-10-21"))
        self.assertNotIn(b"anthropic-version", self.head())
        sent = self.head(b"anthropic-version: 2023-06-01\r\n", anthropic_version="2026-10-21")
        self.assertIn(b"anthropic-version: 2023-06-01\r\n", sent)
        self.assertNotIn(version, sent)

    def test_betas(self) -> None:
        """Named betas are taken out, the others stay."""
        betas = b"anthropic-beta: one,two\r\n"
        self.assertIn(b"anthropic-beta: two\r\n", self.head(betas, drop_betas=("one",)))
        self.assertNotIn(b"anthropic-beta", self.head(betas, drop_betas=("one", "two")))
        self.assertIn(betas, self.head(betas))

    def test_address(self) -> None:
        """A path before the endpoint's own is kept, and the host is the address's."""
        head = self.head(protocol="openai", base_url="http://proxy.test:8000/openai/v1")
        self.assertTrue(head.startswith(b"POST /openai/v1/chat/completions HTTP/1.1\r\n"))
        self.assertIn(b"\r\nhost: proxy.test:8000\r\n", head)

    def test_credential(self) -> None:
        """Each protocol has its header for the credential; none is sent where none is named."""
        secret = SECRET.encode()
        self.assertIn(b"x-api-key: %b\r\n" % secret, self.head())
        self.assertIn(b"authorization: Bearer %b\r\n" % secret, self.head(protocol="openai"))
        for protocol in ("openai", "anthropic"):
            head = self.head(protocol=protocol, api_key_env=None)
            for word in (b"authorization", b"x-api-key", KEY.encode()):
                self.assertNotIn(word, head)
