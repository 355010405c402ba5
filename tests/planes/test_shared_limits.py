"""Whole data planes that share counters, as the workers of one daemon do."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import SnapshotSecret
from omnigate.gateway.shared_limits import SharedKeyUse
from omnigate.gateway.shared_uses import CONNECTIONS, TOKENS_HELD
from tests.gateway.sharing import Workers
from tests.planes.memory import (
    FULL,
    KEY,
    FakeClient,
    MemoryDataPlane,
    digest_of,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import ANSWER, CHAT


class SharedLimitsTests(SynchronousTestCase):
    def planes(self, count: int, **changes: Any) -> list[MemoryDataPlane]:
        self.memory = Workers(count)
        self.addCleanup(self.memory.close)
        environ = changes.pop("environ", None)
        return [
            MemoryDataPlane(keys=[key(**changes)], environ=environ, shared=shared)
            for shared in self.memory.all
        ]

    def ask(self, plane: MemoryDataPlane, body: bytes = CHAT, secret: str = KEY) -> FakeClient:
        client = plane.client()
        client.send(request(body, secret=secret))
        return client

    def test_requests_in_flight(self) -> None:
        """A key may have so many in flight, wherever they are; figures are each plane's own."""
        planes = self.planes(2, max_concurrent=3)
        clients = [self.ask(planes[n % 2]) for n in range(3)]
        for plane in planes:
            refused = self.ask(plane).answer
            self.assertEqual(429, refused.status)
            self.assertIn(b"already has 3 requests in flight", refused.body)
        self.assertEqual([2, 1], [plane.plane.figures()["requests_in_flight"] for plane in planes])
        planes[0].opened[0].answer(reply(ANSWER))
        self.assertEqual(200, clients[0].answer.status)
        self.assertEqual([1, 1], [plane.plane.figures()["requests_in_flight"] for plane in planes])
        self.assertEqual(b"", self.ask(planes[1]).received())

    def test_rate(self) -> None:
        """A key may send so many a minute, wherever it sends them."""
        planes = self.planes(3, rpm=4)
        for n in range(4):
            self.assertEqual(b"", self.ask(planes[n % 3]).received())
        for plane in planes:
            self.assertIn(b"4 requests a minute", self.ask(plane).answer.body)

    def test_a_new_config_arrives_here_first(self) -> None:
        """What a key holds is counted through changes that the planes learn of one by one."""
        planes = self.planes(2, max_concurrent=2)
        clients = [self.ask(plane) for plane in planes]
        parts = ([route("small", ("u1", "vendor-1"))], [upstream("u1")])
        planes[0].install(*parts, [key(max_concurrent=3)], "2")
        self.assertEqual(429, self.ask(planes[1]).answer.status)
        clients.append(self.ask(planes[0]))
        self.assertEqual(b"", clients[-1].received())
        self.assertEqual(429, self.ask(planes[0]).answer.status)
        planes[0].install(*parts, [], "3")
        self.assertEqual(429, self.ask(planes[1]).answer.status)
        self.assertEqual(401, self.ask(planes[0]).answer.status)

    def test_a_worker_that_dies(self) -> None:
        """Its places are free again once the parent has cleared them, its tokens stay taken."""
        planes = self.planes(2, max_concurrent=2, rpm=3)
        for _ in range(2):
            self.ask(planes[0])
        self.assertIn(b"in flight", self.ask(planes[1]).answer.body)
        self.memory.parent.clear(0)
        self.assertEqual(b"", self.ask(planes[1]).received())
        self.assertIn(b"3 requests a minute", self.ask(planes[1]).answer.body)

    def test_tokens(self) -> None:
        """A key may use so many tokens a minute, wherever it uses them; figures settle it."""
        planes = self.planes(2, tpm=1000)
        body = CHAT[:-1] + b',"max_tokens":400}'
        clients = [self.ask(plane, body) for plane in planes]
        for plane in planes:
            refused = self.ask(plane, body).answer
            self.assertEqual((429, "rate_limit_exceeded"), (refused.status, refused.code))
            self.assertIn(b"1000 tokens a minute", refused.body)
        for plane, client in zip(planes, clients, strict=True):
            plane.last.answer(reply(ANSWER))
            self.assertEqual(200, client.answer.status)
        self.assertEqual([0, 0], self.held(planes[0]))
        self.assertEqual(b"", self.ask(planes[0], body).received())
        self.assertEqual(b"", self.ask(planes[1], body).received())
        self.assertEqual(429, self.ask(planes[0], body).answer.status)
        # A worker that is gone used nothing of what it had reserved.
        self.memory.parent.clear(1)
        self.assertEqual(b"", self.ask(planes[0], body).received())

    def test_a_rotation(self) -> None:
        """Its limits stay one, while one worker knows the new secret and the other does not."""
        planes = self.planes(2, tpm=1000, rpm=4, max_concurrent=2)
        body = CHAT[:-1] + b',"max_tokens":900}'
        first = self.ask(planes[0], body)
        parts = ([route("small", ("u1", "vendor-1"))], [upstream("u1")])
        rotated = key(
            secrets=(SnapshotSecret(digest_of("og-new-key-0123456789")),),
            tpm=1000,
            rpm=4,
            max_concurrent=2,
        )
        planes[0].install(*parts, [rotated], "2")
        for plane, secret in ((planes[0], "og-new-key-0123456789"), (planes[1], KEY)):
            refused = self.ask(plane, body, secret).answer
            self.assertIn(b"1000 tokens a minute", refused.body)
        self.assertEqual(b"", self.ask(planes[1], CHAT).received())
        refused = self.ask(planes[0], CHAT, "og-new-key-0123456789").answer
        self.assertEqual("concurrency_limit_exceeded", refused.code)
        planes[0].opened[0].answer(reply(ANSWER))
        self.assertEqual(200, first.answer.status)
        refused = self.ask(planes[0], CHAT, "og-new-key-0123456789").answer
        self.assertIn(b"4 requests a minute", refused.body)

    def held(self, plane: MemoryDataPlane) -> list[int]:
        """What the planes have reserved of the one key's tokens."""
        assert plane.plane.tables is not None
        [found] = plane.plane.tables.identities.values()
        assert isinstance(found.use, SharedKeyUse)
        return list(found.use.row.ints(TOKENS_HELD))

    def test_memory_for_bodies(self) -> None:
        """The budget for all bodies, and the share of a key, hold over all planes."""
        planes = self.planes(
            2, environ={"OMNIGATE_REQUEST_MEMORY_MB": "1", "OMNIGATE_MAX_REQUEST_MB": "1"}
        )
        for plane in planes:
            plane.client().send(head(60_000))
        refused = plane.client()
        refused.send(head(30_000))
        self.assertEqual(429, refused.answer.status)
        self.assertIn(b"too large together", refused.answer.body)
        for plane in planes:
            self.assertEqual(120_000, plane.plane.figures()["request_memory_bytes"])

    def test_connections(self) -> None:
        """The cap on connections is one for all: whoever comes beyond it is told so."""
        planes = self.planes(2, environ={"OMNIGATE_MAX_CONNECTIONS": "3"})
        first, second = planes
        clients = [first.client(), second.client(), second.client()]
        for plane in planes:
            self.assertEqual(FULL, plane.client().received())
        clients[0].leave()
        self.assertEqual(b"", second.client().received())
        self.assertEqual(FULL, first.client().received())
        self.assertEqual([0, 3], list(self.memory.parent.plane.ints(CONNECTIONS)))
        self.memory.parent.clear(1)
        self.assertEqual(b"", first.client().received())


def head(length: int) -> bytes:
    """The head of a request whose body is still to come."""
    return request(b"x" * length).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
