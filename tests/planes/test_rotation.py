"""A key that is rotated, in both planes: what control says is what the data plane does."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.snapshot import decode_snapshot
from omnigate.events import encode_event
from tests.control.plane import Plane
from tests.planes.memory import FakeClient, MemoryDataPlane, reply, request
from tests.planes.scenes import ANSWER

CHAT = b'{"model":"fast","messages":[{"role":"user","content":"Hi"}]}'


class BothPlanes(MemoryDataPlane):
    """A data plane by the clock of a control plane, from which it has its config."""

    def __init__(self, folder: str) -> None:
        self.control = Plane(folder)
        super().__init__(configured=False, environ={"OPENAI_API_KEY": "sk-upstream"})

    def wall(self) -> float:
        """Seconds since 1970."""
        return self.control.clock.seconds()

    def poll(self) -> None:
        """Take the newest config, and deliver what was used."""
        lines = [json.loads(encode_event(event)) for event in self.events]
        if lines:
            batch = json.dumps({"events": lines}).encode()
            told = self.control.internal("POST", "/internal/usage/batch", batch)
            assert told.status == 200, told
        data = self.control.internal("GET", "/internal/config").body
        self.plane.install(decode_snapshot(data), self._open_upstream)

    def wait(self, seconds: float) -> None:
        """Let time pass for both."""
        self.control.clock.advance(seconds)
        self.clock.advance(seconds)

    def admin(self, method: str, target: str, **members: Any) -> Any:
        """Ask the control plane as an operator."""
        body = json.dumps(members).encode() if method in ("POST", "PATCH") else None
        told = self.control.admin(method, target, body)
        assert told.status in (200, 201), told
        return told.json()


class RotationTests(SynchronousTestCase):
    """One life of a key."""

    def setUp(self) -> None:
        self.both = BothPlanes(self.mktemp())
        self.old = self.both.admin("POST", "/admin/keys", name="m1", rpm=6)["secret"]
        self.both.poll()

    def ask(self, secret: str) -> FakeClient:
        client = self.both.client("192.0.2.7")
        client.send(request(CHAT, secret=secret))
        return client

    def works(self, secret: str) -> bool:
        """Whether a request with a secret is served, or refused as one of nobody."""
        client = self.ask(secret)
        if not client.received():
            self.both.last.answer(reply(ANSWER))
        answer = client.answer
        if answer.status != 200:
            self.assertEqual((answer.status, answer.code), (401, "invalid_api_key"))
        return answer.status == 200

    def test_with_grace(self) -> None:
        """Both work, the old one to its moment without another poll; they share limits and bill."""
        self.assertTrue(self.works(self.old))
        told = self.both.admin("POST", "/admin/keys/m1/rotate", grace_s=30)
        new = told["secret"]
        self.assertEqual((self.works(new), self.works(self.old)), (False, True))
        self.both.poll()
        self.assertEqual((self.works(new), self.works(self.old)), (True, True))
        self.assertEqual((self.works(new), self.works(self.old)), (True, True))
        # Six a minute are one key's, whichever of its secrets they came with.
        for secret in (new, self.old):
            self.assertEqual(self.ask(secret).answer.code, "rate_limit_exceeded")
        self.both.wait(29.999)
        self.assertTrue(self.works(self.old))
        self.both.wait(0.001)
        self.assertEqual((self.works(self.old), self.works(new)), (False, True))
        self.both.poll()
        self.assertEqual({event.key_sha256 for event in self.both.events}, {told["key_sha256"]})
        spent = self.both.admin("GET", "/admin/keys/m1")["spent_usd"]
        self.assertAlmostEqual(spent, 8 * (9 * 0.15 + 3 * 0.60) / 1_000_000)
        (row,) = self.both.admin("GET", "/admin/usage?by=key")["rows"]
        self.assertEqual((row["key"], row["requests"]), ("m1", 8))

    def test_without_grace(self) -> None:
        """The old secret works until the next poll, the new one from then on."""
        new = self.both.admin("POST", "/admin/keys/m1/rotate")["secret"]
        self.assertEqual((self.works(self.old), self.works(new)), (True, False))
        self.both.poll()
        self.assertEqual((self.works(self.old), self.works(new)), (False, True))

    def test_ended_early(self) -> None:
        """Who rotates again without any grace ends what still works."""
        second = self.both.admin("POST", "/admin/keys/m1/rotate", grace_s=3600)["secret"]
        third = self.both.admin("POST", "/admin/keys/m1/rotate", grace_s=0)["secret"]
        self.both.poll()
        self.assertEqual([self.works(s) for s in (self.old, second, third)], [False, False, True])

    def test_disabled_and_enabled(self) -> None:
        """No secret opens a disabled key; enabled again, all do that did."""
        new = self.both.admin("POST", "/admin/keys/m1/rotate", grace_s=3600)["secret"]
        self.both.admin("PATCH", "/admin/keys/m1", disabled=True)
        self.both.poll()
        self.assertEqual((self.works(self.old), self.works(new)), (False, False))
        self.both.admin("PATCH", "/admin/keys/m1", disabled=False)
        self.both.poll()
        self.assertEqual((self.works(self.old), self.works(new)), (True, True))

    def test_expiring(self) -> None:
        """All secrets stop at the key's end, without another poll."""
        new = self.both.admin("POST", "/admin/keys/m1/rotate", grace_s=3600)["secret"]
        self.both.admin("PATCH", "/admin/keys/m1", expires_at="2026-11-29T20:00:10+00:00")
        self.both.poll()
        self.both.wait(9.999)
        self.assertEqual((self.works(self.old), self.works(new)), (True, True))
        self.both.wait(0.001)
        self.assertEqual((self.works(self.old), self.works(new)), (False, False))
