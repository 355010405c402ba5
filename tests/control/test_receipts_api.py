"""Receipts at the control plane."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.attested import MAX_TOLD, Told, ToldBatch
from tests.control.conversation import INTERNAL
from tests.control.plane import APP_SHA, START, Plane
from tests.receipts.test_judging import exchanged


class ReceiptsApiTests(SynchronousTestCase):
    """``POST /internal/receipts`` and what can be read afterwards."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.addCleanup(self.plane.close)

    def tell(self, *told: Told) -> Any:
        """A data plane tells of answers."""
        body = msgspec.json.encode(ToldBatch(receipts=list(told)))
        return self.plane.internal("POST", "/internal/receipts", body)

    def read(self, name: str, key: str = APP_SHA) -> Any:
        """A client with this key asks for a receipt."""
        headers = ((b"x-omnigate-key-sha256", key.encode()),) if key else ()
        return self.plane.talk.ask("GET", f"/internal/v1/receipts/{name}", (*INTERNAL, *headers))

    def test_told_and_read(self) -> None:
        """By the key whose request it was, and by nobody else."""
        told = Told(
            exchanged=exchanged(id="r1", key_sha256=APP_SHA, ts_ms=START * 1000), settled=True
        )
        self.assertEqual(200, self.tell(told).status)
        found = self.read("r1")
        self.assertEqual((200, "unavailable"), (found.status, found.json()["verdict"]))
        self.assertEqual("no_signature", found.json()["reason"])
        self.assertNotIn("key_sha256", found.json())
        for name, key in (("r1", "b" * 64), ("r1", ""), ("r2", APP_SHA)):
            refused = self.read(name, key)
            self.assertEqual((404, "not_found"), (refused.status, refused.json()["error"]["code"]))

    def test_what_is_refused(self) -> None:
        """Too many, and what is no batch."""
        told = Told(exchanged=exchanged())
        self.assertEqual(400, self.tell(*[told] * (MAX_TOLD + 1)).status)
        bodies: tuple[Any, ...] = (
            {},
            [],
            {"receipts": [{}]},
            {"receipts": [{"exchanged": {"id": 1}}]},
        )
        for body in bodies:
            answer = self.plane.internal("POST", "/internal/receipts", json.dumps(body).encode())
            self.assertEqual(400, answer.status)
