"""The stores crash under a data plane: keys that are blocked stay so, and the others go on."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import encode_event
from omnigate.ledger.books import Books
from tests.planes.memory import FakeClient, reply, request
from tests.planes.scenes import ANSWER
from tests.planes.test_rotation import CHAT, BothPlanes


class BrokenError(Exception):
    """What nobody expects."""


def breaks(*arguments: Any) -> None:
    raise BrokenError


class CrashedStoresTests(SynchronousTestCase):
    """One key over its budget, one without any."""

    def setUp(self) -> None:
        self.both = BothPlanes(self.mktemp())
        self.poor, self.rich = (
            self.both.admin("POST", "/admin/keys", name=name, **limits)["secret"]
            for name, limits in (("poor", {"budget_usd": 0.000001}), ("rich", {}))
        )
        self.both.poll()
        self.assertEqual(self.ask(self.poor), 200)
        self.both.poll()
        self.assertEqual(self.ask(self.poor), 402)

    def ask(self, secret: str) -> int:
        """The status of the answer to one request."""
        client: FakeClient = self.both.client("192.0.2.7")
        client.send(request(CHAT, secret=secret))
        if not client.received():
            self.both.last.answer(reply(ANSWER))
        return client.answer.status

    def deliver(self) -> tuple[int, Any]:
        """Send all events so far, as often as it takes."""
        events = [json.loads(encode_event(event)) for event in self.both.events]
        body = json.dumps({"events": events}).encode()
        told = self.both.control.internal("POST", "/internal/usage/batch", body)
        return told.status, told.json()

    def test_a_crash(self) -> None:
        """Whoever was served is billed once, whatever was sent how often."""
        control = self.both.control
        self.assertEqual(self.ask(self.rich), 200)
        control.slow_starts = True
        broken = self.patch(Books, "enter", breaks)
        self.assertEqual(self.deliver()[0], 503)
        broken.restore()
        self.flushLoggedErrors(BrokenError)
        control.clock.advance(0)
        for _ in range(3):
            # Down: no config, no acknowledgement, and the data plane goes by what it has.
            told = control.internal("GET", "/internal/config")
            self.assertEqual((told.status, told.json()["error"]["code"]), (503, "not_ready"))
            self.assertEqual(self.deliver()[0], 503)
            self.assertEqual((self.ask(self.poor), self.ask(self.rich)), (402, 200))
            self.both.wait(1)
        control.slow_starts = control.writer.holding = False
        while control.writer.run():
            pass
        generation = control.guard.current
        assert generation is not None
        control.take(generation)
        status, told = self.deliver()
        self.assertEqual((status, told["recorded"], told["duplicates"]), (200, 3, 2))
        self.both.poll()
        self.assertEqual((self.ask(self.poor), self.ask(self.rich)), (402, 200))
        rows = self.both.admin("GET", "/admin/usage?by=key")["rows"]
        self.assertEqual({row["key"]: row["requests"] for row in rows}, {"poor": 1, "rich": 4})
