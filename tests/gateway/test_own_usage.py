"""What a key may ask about itself."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.control_client import ControlError
from omnigate.gateway.own_usage import MAX_ASKED, MAX_WAITING, OwnUsage
from tests.planes.memory import KEY, FakeClient, MemoryDataPlane, digest_of, get, key, request
from tests.planes.scenes import CHAT

TOLD = b'{"name":"k1","spent_usd":1.5}'


class OwnUsageTests(SynchronousTestCase):
    """``GET /v1/usage``."""

    def setUp(self) -> None:
        self.asked: list[tuple[str, Deferred[tuple[int, bytes]]]] = []
        self.plane = self.with_key()

    def with_key(self, **changes: Any) -> MemoryDataPlane:
        """A plane whose one key has this."""
        plane = MemoryDataPlane(keys=[key(**changes)])
        plane.plane.own_usage = OwnUsage(self.get)
        return plane

    def get(self, path: str) -> Deferred[tuple[int, bytes]]:
        """Ask the control plane, which answers when the test does."""
        answer: Deferred[tuple[int, bytes]] = Deferred()
        self.asked.append((path, answer))
        return answer

    def ask(self, secret: str = KEY, method: bytes = b"GET") -> FakeClient:
        """Somebody asks."""
        client = self.plane.client()
        client.send(get(b"/v1/usage", secret=secret, method=method))
        return client

    def test_what_the_control_plane_tells(self) -> None:
        """It is asked for the key's identity, and told word for word; the connection lives on."""
        client = self.ask()
        [(path, answer)] = self.asked
        self.assertEqual(f"/internal/v1/usage/{digest_of(KEY)}", path)
        self.assertEqual(b"", client.received())
        answer.callback((200, TOLD))
        told = client.answer
        self.assertEqual((200, TOLD), (told.status, told.body))
        self.assertEqual(b"no-store", told.headers[b"cache-control"])
        line = self.plane.lines[-1]
        self.assertEqual(("k1", "/v1/usage", 200, 29), (line.key, line.path, 200, line.bytes_out))
        self.assertEqual(([], []), (self.plane.events, self.plane.refused))
        client.send(get(b"/v1/usage", method=b"HEAD"))
        self.asked[-1][1].callback((200, TOLD))
        self.assertEqual([200, 200], [each.status for each in client.answers(b"GET", b"HEAD")])

    def test_who_may_ask(self) -> None:
        """Whoever has a key, also one without a budget left; from where the key may be used."""
        self.assertEqual(401, self.ask("og-unknown-key-0123456789").answer.status)
        self.plane = self.with_key(allowed_ips=("192.0.2.1",))
        self.assertEqual("address_not_allowed", self.ask().answer.code)
        self.assertEqual([], self.asked)
        self.plane = self.with_key(blocked=True, endpoints=("chat",))
        client = self.ask()
        self.asked[-1][1].callback((200, TOLD))
        self.assertEqual(200, client.answer.status)

    def test_what_is_no_such_question(self) -> None:
        """Another method, or a body."""
        client = self.plane.client()
        client.send(request(CHAT, b"/v1/usage"))
        self.assertEqual(405, client.answer.status)
        client = self.plane.client()
        client.send(get(b"/v1/usage", headers=b"content-length: 2\r\n") + b"{}")
        self.assertEqual((400, "invalid_request"), (client.answer.status, client.answer.code))
        self.assertEqual([], self.asked)

    def test_the_control_plane_is_away(self) -> None:
        """Which is told apart from one that is not ready yet; each is counted as a refusal."""
        for outcome, status, code in (
            (ControlError("no answer"), 502, "control_plane_unavailable"),
            ((503, b"{}"), 503, "not_ready"),
            ((404, b"{}"), 502, "control_plane_unavailable"),
            ((401, b"{}"), 502, "control_plane_unavailable"),
        ):
            client = self.ask()
            _, answer = self.asked[-1]
            if isinstance(outcome, Exception):
                answer.errback(outcome)
            else:
                answer.callback(outcome)
            self.assertEqual((status, code), (client.answer.status, client.answer.code))
            self.assertEqual(("k1", code), self.plane.refused[-1])
            self.assertNotIn(b"no answer", client.received())
        self.plane.plane.own_usage = OwnUsage(lambda path: fail(ControlError("at once")))
        self.assertEqual("control_plane_unavailable", self.ask().answer.code)
        self.plane.plane.own_usage = None
        self.assertEqual(404, self.ask().answer.status)

    def test_a_fault_of_ours(self) -> None:
        """It is logged, and the client is told that the answer does not come."""
        client = self.ask()
        self.asked[-1][1].errback(ZeroDivisionError())
        self.assertEqual(502, client.answer.status)
        self.assertEqual(1, len(self.flushLoggedErrors(ZeroDivisionError)))

    def test_a_client_that_leaves(self) -> None:
        """What comes then goes nowhere, and there is room for the next one."""
        for _ in range(MAX_ASKED + 1):
            self.ask().leave()
            self.asked[-1][1].callback((200, TOLD))
        self.assertEqual({("k1", "client_disconnected")}, set(self.plane.refused))

    def test_a_key_that_asks_again_and_again(self) -> None:
        """There is one question for it, and one answer for all who wait and are still there."""
        clients = [self.ask() for _ in range(3 * MAX_ASKED)]
        [(_, answer)] = self.asked
        clients[1].leave()
        answer.callback((200, TOLD))
        del clients[1]
        self.assertEqual({(200, TOLD)}, {(one.answer.status, one.answer.body) for one in clients})
        for _ in range(MAX_WAITING):
            self.ask().leave()
        self.assertEqual(2, len(self.asked))
        self.assertEqual("overloaded", self.ask().answer.code)

    def test_a_crowd(self) -> None:
        """So many keys ask at once and no more; those who ask later are served."""
        secrets = [f"og-key-{number:020}" for number in range(MAX_ASKED + 1)]
        self.plane = MemoryDataPlane(keys=[key(secret, secret) for secret in secrets])
        self.plane.plane.own_usage = OwnUsage(self.get)
        *clients, refused = [self.ask(secret) for secret in secrets]
        self.assertEqual((503, "overloaded"), (refused.answer.status, refused.answer.code))
        self.asked[0][1].callback((200, TOLD))
        self.assertEqual(200, clients[0].answer.status)
        self.assertEqual(b"", self.ask(secrets[-1]).received())
