"""When keys were used last."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import last_uses
from omnigate.control.last_uses import LastUse, LastUses
from omnigate.events import decode_event
from tests.control.plane import APP_SHA, START, event

NOW_MS = START * 1000


class LastUseTests(SynchronousTestCase):
    """The newest event of each key."""

    def setUp(self) -> None:
        self.now_ms = NOW_MS + 10

    def uses(self, *recent: dict[str, Any]) -> LastUses:
        return LastUses(lambda: recent, lambda: self.now_ms)

    def recorded(self, uses: LastUses, **members: Any) -> None:
        uses.recorded(decode_event(event(**members)))

    def test_the_newest_counts(self) -> None:
        """Events come in any order, and the ledger's newest ones are older than those seen."""
        uses = self.uses(event(ts_ms=NOW_MS - 5), event(key_sha256="b" * 64, ts_ms=NOW_MS))
        self.recorded(uses, route_model="late", ts_ms=NOW_MS + 7)
        self.recorded(uses, route_model="early", ts_ms=NOW_MS + 6)
        self.assertEqual(uses.of(APP_SHA), LastUse(NOW_MS + 7, "late"))
        self.assertEqual(uses.of("b" * 64), LastUse(NOW_MS, "fast"))
        self.assertIsNone(uses.of("c" * 64))

    def test_clocks_that_are_wrong(self) -> None:
        """Neither a data plane's that is ahead nor ours that was set back hides what comes then."""
        uses = self.uses(event(key_sha256="b" * 64, ts_ms=NOW_MS + 10**9))
        self.recorded(uses, route_model="ahead", ts_ms=NOW_MS + 10**9)
        self.assertEqual(uses.of(APP_SHA), LastUse(self.now_ms, "ahead"))
        self.assertEqual(uses.of("b" * 64), LastUse(self.now_ms, "fast"))
        self.now_ms += 5000
        self.recorded(uses, route_model="then", ts_ms=self.now_ms - 3)
        self.assertEqual(uses.of(APP_SHA), LastUse(self.now_ms - 3, "then"))
        self.now_ms -= 3_600_000
        self.recorded(uses, route_model="back", ts_ms=self.now_ms - 3)
        self.assertEqual(uses.of(APP_SHA), LastUse(self.now_ms - 3, "back"))

    def test_events_that_say_nothing(self) -> None:
        """What an older version recorded without a member is passed over."""
        self.assertIsNone(self.uses({"key_sha256": APP_SHA, "ts_ms": NOW_MS}).of(APP_SHA))

    def test_there_is_a_bound(self) -> None:
        """The key that was seen first is forgotten."""
        self.patch(last_uses, "MAX_USES", 2)
        uses = self.uses()
        for digit in "abc":
            self.recorded(uses, key_sha256=digit * 64)
        self.assertEqual([uses.of(d * 64) is None for d in "abc"], [True, False, False])
