"""What an attested upstream is asked, and what the control plane is told."""

from __future__ import annotations

import json
import time
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IProtocol
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import SnapshotUpstream
from omnigate.gateway import attesting as attesting_module
from omnigate.gateway.attesting import (
    EVIDENCE_SECONDS,
    NO_EVIDENCE_SECONDS,
    PAUSES,
    RETRY_SECONDS,
    SEND_SECONDS,
    Attesting,
)
from omnigate.gateway.control_client import ControlError
from omnigate.gateway.plane import compile_upstream
from omnigate.gateway.tables import Upstream
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.pool import UpstreamPool
from tests.planes.memory import (
    SECRET,
    FakeClient,
    FakeConnection,
    MemoryDataPlane,
    reply,
    request,
    route,
    upstream,
)

CHAT = b'{"model":"deep","messages":[]}'
ANSWER = b'{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
ADDRESS = "0x" + "ab" * 20
NONCE = "01" * 32


class AttestedPlane(MemoryDataPlane):
    """A data plane whose upstream signs its answers."""

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, Any], Deferred[tuple[int, bytes]]]] = []
        self.attesting: Attesting | None = None
        super().__init__(configured=False)
        self.attesting = Attesting(self.post, self.clock, lambda: 1_790_000_000_000, lambda: NONCE)
        near = upstream("near", attestation="near", signing_algo="ecdsa")
        self.install([route("deep", ("near", "vendor/deep"))], [near], [self.key()])

    def key(self) -> Any:
        """Its one key."""
        from tests.planes.memory import key

        return key()

    def post(self, path: str, body: bytes) -> Deferred[tuple[int, bytes]]:
        """The control plane is told something."""
        assert path == "/internal/receipts"
        answer: Deferred[tuple[int, bytes]] = Deferred()
        self.posts.append((json.loads(body), answer))
        return answer

    def _open_upstream(self, config: SnapshotUpstream) -> Upstream:
        def connect(build: Any) -> Deferred[IProtocol]:
            if config.name in self.refusing:
                return fail(ConnectionRefusedError())
            return succeed(cast(IProtocol, self.connected(config.name, build).protocol))

        assert self.attesting is not None
        pool = UpstreamPool(connect, self.watchdog, self.attesting.connection)
        return compile_upstream(config, parse_address(config.base_url), pool, self._environ)


class AttestingTests(SynchronousTestCase):
    """See the module's docstring."""

    def setUp(self) -> None:
        self.plane = AttestedPlane()
        self.number = 0

    @property
    def upstream(self) -> FakeConnection:
        """Where the newest request to the upstream went: the one connection that is kept."""
        return self.plane.last

    def chat(self, answer: bytes = ANSWER) -> FakeClient:
        """A client asks, and is answered."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.upstream.answer(reply(answer))
        return client

    def asked(self) -> bytes:
        """The newest request to the upstream."""
        return self.upstream.requests().rpartition(b"GET /v1")[2]

    def signature(self) -> bytes:
        """What a signature looks like."""
        return json.dumps({"text": "a:b", "signature": "0x00", "signing_address": ADDRESS}).encode()

    def report(self) -> bytes:
        """What a report looks like."""
        node: dict[str, Any] = {
            "signing_address": ADDRESS.upper().replace("X", "x"),
            "intel_quote": "00",
            "nvidia_payload": "x" * 100_000,
            "other": 1,
        }
        return json.dumps({"model_attestations": [{}, node]}).encode()

    def told(self) -> list[dict[str, Any]]:
        """What the control plane has been told by now."""
        for _ in range(2):
            self.plane.advance(SEND_SECONDS + 0.2)
            for _, answer in self.plane.posts:
                if not answer.called:
                    answer.callback((200, b"{}"))
        return [one for body, _ in self.plane.posts for one in body["receipts"]]

    def test_the_whole_way(self) -> None:
        """Hashes at once, then what the upstream signed and what it says of its hardware."""
        client = self.chat()
        exchange = self.plane.plane.exchanges[0]
        self.assertEqual(exchange.id.encode(), client.answer.headers[b"x-omnigate-receipt"])
        head = self.asked()
        self.assertTrue(
            head.startswith(
                b"/signature/chatcmpl-1?model=vendor%2Fdeep&signing_algo=ecdsa HTTP/1.1"
            )
        )
        self.assertIn(b"authorization: Bearer " + SECRET.encode(), head)
        self.assertIn(b"x-no-aliasing: true", head)
        self.upstream.answer(reply(self.signature()))
        self.assertIn(
            b"/attestation/report?model=vendor%2Fdeep&nonce=" + NONCE.encode(), self.asked()
        )
        self.upstream.answer(reply(self.report()))
        pending, settled = self.told()
        self.assertEqual(
            (None, None, False), (pending["signature"], pending["evidence"], pending["settled"])
        )
        exchanged = settled["exchanged"]
        self.assertEqual(pending["exchanged"], exchanged)
        self.assertEqual((exchange.id, "chatcmpl-1"), (exchanged["id"], exchanged["completion_id"]))
        self.assertEqual((NONCE, True), (settled["evidence"]["nonce"], settled["settled"]))
        node = settled["evidence"]["report"]
        self.assertEqual({"signing_address", "intel_quote", "nvidia_payload"}, set(node))
        self.assertEqual("…", node["nvidia_payload"])

    def test_a_report_is_kept_for_an_hour(self) -> None:
        """And asked for anew after that."""
        self.chat()
        self.upstream.answer(reply(self.signature()))
        self.upstream.answer(reply(self.report()))
        self.chat()
        self.upstream.answer(reply(self.signature()))
        self.assertEqual(1, self.upstream.requests().count(b"/attestation/report"))
        self.assertEqual(4, len(self.told()))
        self.plane.advance(EVIDENCE_SECONDS, 60)
        self.chat()
        self.upstream.answer(reply(self.signature()))
        self.assertIn(b"/attestation/report", self.asked())

    def test_a_signature_that_is_late(self) -> None:
        """It is asked for again and again, for a minute."""
        self.chat()
        for pause in PAUSES[1:]:
            self.upstream.answer(reply(b'{"error_code":"x"}', b"404 x"))
            self.plane.advance(pause + 0.1)
        self.assertEqual(len(PAUSES), self.upstream.requests().count(b"/signature/"))
        self.upstream.answer(reply(b"{}", b"404 x"))
        settled = self.told()[-1]
        self.assertEqual((None, True), (settled["signature"], settled["settled"]))

    def test_an_upstream_that_will_not(self) -> None:
        """Another refusal is taken for one; what is no signature is asked for again."""
        self.chat()
        self.upstream.answer(reply(b"{}", b"401 x"))
        self.assertEqual((None, True), (self.told()[-1]["signature"], self.told()[-1]["settled"]))
        for junk in (b"[]", b"{}", b"<html>", b'{"text": 1}'):
            self.chat()
            self.upstream.answer(reply(junk))
            self.plane.advance(1.2)
            self.upstream.answer(reply(b"{}", b"401 x"))

    def test_reports_that_are_none(self) -> None:
        """There is no evidence then, or none of the node that signed."""
        for report, found in (
            (b"<html>", None),
            (b"[]", None),
            (b'{"model_attestations":[{"signing_address":"0x00"}]}', {}),
        ):
            self.chat()
            self.upstream.answer(reply(self.signature()))
            self.upstream.answer(reply(report))
            evidence = self.told()[-1]["evidence"]
            self.assertEqual(found, None if evidence is None else evidence["report"], report)
            self.plane.advance(NO_EVIDENCE_SECONDS, 10)

    def test_reports_that_take_long(self) -> None:
        """One with very many values is not read, and costs next to nothing."""
        for many in ("1e308,", "[],", '{"signing_address":1},', '"a",'):
            body = b'{"all_attestations":[%b0]}' % (many * (4_000_000 // len(many))).encode()
            self.chat()
            self.upstream.answer(reply(self.signature()))
            began = time.thread_time()
            self.upstream.answer(reply(body))
            self.assertLess(time.thread_time() - began, 0.2, many)
            self.assertIsNone(self.told()[-1]["evidence"])
            self.plane.advance(NO_EVIDENCE_SECONDS, 10)

    def test_a_report_without_the_node(self) -> None:
        """It is told of, and another one is asked for a minute later."""
        for report, found in ((b'{"signing_address":"0x00"}', False), (self.report(), True)):
            self.chat()
            self.upstream.answer(reply(self.signature()))
            self.assertIn(b"/attestation/report", self.asked())
            self.upstream.answer(reply(report))
            self.chat()
            self.upstream.answer(reply(self.signature()))
            self.assertNotIn(b"/attestation/report", self.asked())
            for one in [one for one in self.told() if one["settled"]][-2:]:
                self.assertEqual(found, bool(one["evidence"] and one["evidence"]["report"]))
            self.plane.advance(NO_EVIDENCE_SECONDS, 10)

    def test_one_report_at_a_time(self) -> None:
        """Whoever wants the same one meanwhile waits for it, and asks for none."""
        self.chat()
        self.upstream.answer(reply(self.signature()))
        asked = self.upstream
        self.assertIn(b"/attestation/report", self.asked())
        for _ in range(3):
            self.chat()
            self.upstream.answer(reply(self.signature()))
        self.assertIsNot(asked, self.upstream)
        self.assertNotIn(b"/attestation/report", self.upstream.requests())
        asked.answer(reply(self.report()))
        told = [one for one in self.told() if one["settled"]]
        self.assertEqual(4, len(told))
        self.assertTrue(all(one["evidence"] for one in told))

    def test_answers_after_which_it_is_asked_again(self) -> None:
        """A rate limit and the like say nothing of the signature."""
        for status in (b"202 x", b"429 x", b"503 x"):
            self.chat()
            self.upstream.answer(reply(b"{}", status))
            self.plane.advance(1.2)
            self.upstream.answer(reply(self.signature()))
            self.upstream.answer(reply(b"{}", b"404 x"))
            self.assertIsNotNone(self.told()[-1]["signature"])

    def test_batches_of_long_reports(self) -> None:
        """They are no longer than the control plane takes."""
        self.patch(attesting_module, "MAX_BATCH_BYTES", 300)
        self.chat()
        self.upstream.answer(reply(self.signature()))
        self.upstream.answer(reply(self.report()))
        for _ in range(3):
            self.chat()
            self.upstream.answer(reply(self.signature()))
        for _ in range(8):
            self.told()
        sizes = [len(body["receipts"]) for body, _ in self.plane.posts]
        self.assertEqual(8, sum(sizes))
        for body, _ in self.plane.posts:
            kept = [one["evidence"] for one in body["receipts"] if one["evidence"]]
            self.assertLessEqual(len(kept), 2)

    def test_a_connection_that_was_being_closed(self) -> None:
        """It is asked again at once on a fresh one, for a report as for a signature."""
        self.chat()
        self.upstream.close()
        self.assertIn(b"/signature/", self.asked())
        self.upstream.answer(reply(self.signature()))
        self.upstream.close()
        self.assertIn(b"/attestation/report", self.asked())
        self.upstream.answer(reply(self.report()))
        self.assertEqual({"near"}, {one["exchanged"]["upstream"] for one in self.told()})
        self.assertIsNotNone(self.told()[-1]["evidence"])

    def test_a_refusal(self) -> None:
        """There is no receipt of it, and it names none."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.upstream.answer(reply(b'{"error":{"message":"no"}}', b"400 x"))
        self.assertEqual(400, client.answer.status)
        self.assertNotIn(b"x-omnigate-receipt", client.answer.headers)
        self.assertEqual([], self.told())

    def test_what_is_not_asked_for(self) -> None:
        """An answer without an id, and one that was cut short."""
        self.chat(b'{"choices":[]}')
        self.assertNotIn(b"/signature/", self.upstream.requests())
        self.assertEqual("", self.told()[-1]["exchanged"]["completion_id"])

    def test_bounds(self) -> None:
        """So many at once, and so much that waits; the oldest gives way."""
        self.patch(attesting_module, "MAX_ASKED", 1)
        self.patch(attesting_module, "MAX_WAITING", 3)
        self.chat()
        first = self.upstream
        for _ in range(4):
            self.chat()
        self.assertTrue(first.open)
        assert self.plane.attesting is not None
        self.assertEqual(2, self.plane.attesting.dropped)
        self.assertEqual([True] * 3, [one["settled"] for one in self.told()])

    def test_a_control_plane_that_is_away(self) -> None:
        """It is told again; what it refuses is dropped."""
        self.chat()
        self.plane.advance(SEND_SECONDS + 0.2)
        [(body, answer)] = self.plane.posts
        answer.errback(ControlError("away"))
        self.plane.advance(RETRY_SECONDS + 0.2)
        self.assertEqual(body, self.plane.posts[1][0])
        self.plane.posts[1][1].callback((503, b""))
        self.plane.advance(RETRY_SECONDS + 0.2)
        self.plane.posts[2][1].callback((400, b""))
        self.plane.advance(RETRY_SECONDS + 0.2)
        self.assertEqual(3, len(self.plane.posts))
        assert self.plane.attesting is not None
        self.assertEqual(1, self.plane.attesting.dropped)

    def test_stopping(self) -> None:
        """Nothing goes on."""
        self.chat()
        assert self.plane.attesting is not None
        self.plane.attesting.stop()
        self.plane.advance(100, 1)
        self.assertEqual([], self.plane.posts)
