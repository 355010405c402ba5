"""What is counted of requests."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import AttemptRecord, UsageEvent
from omnigate.gateway import tally as module
from omnigate.gateway.tally import Durations, Tally
from omnigate.metric_families import BUCKETS, OTHER
from tests.usage import usage_event

EVENT = usage_event(
    route_model="small",
    input_tokens=1,
    cached_input_tokens=20,
    cache_write_input_tokens=300,
    output_tokens=4000,
    attempts=[
        AttemptRecord("u1", "vendor-1", "status_429", 429, 1),
        AttemptRecord("u2", "vendor-2", "ok", 200, 1),
    ],
)


def event(**changes: Any) -> UsageEvent:
    """An event that differs in these."""
    return msgspec.structs.replace(EVENT, **changes)


class DurationTests(SynchronousTestCase):
    def test_bounds(self) -> None:
        """A bucket takes what is at most its bound; the last takes the rest."""
        for place, bound in enumerate(BUCKETS):
            durations = Durations()
            durations.add(bound)
            durations.add(bound * 1.001)
            wanted = [0] * (len(BUCKETS) + 1)
            wanted[place] += 1
            wanted[place + 1] += 1
            self.assertEqual(wanted, durations.counts)
            self.assertAlmostEqual(bound * 2.001, durations.total_seconds)

    def test_below_all(self) -> None:
        """A clock that was put back gives no bucket of its own."""
        durations = Durations()
        durations.add(-1.0)
        self.assertEqual(1, durations.counts[0])


class TallyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.tally = Tally()

    def test_used(self) -> None:
        """One request, with all that it took."""
        self.tally.used(EVENT, "answered", 2.0, 0.3)
        self.tally.used(EVENT, "answered", 2.0, 0.3)
        self.assertEqual({("small", "chat", 2, "answered"): 2}, self.tally.requests)
        self.assertEqual({("u1", "status_429"): 2, ("u2", "ok"): 2}, self.tally.attempts)
        self.assertEqual({"small": [2, 40, 600, 8000]}, self.tally.tokens)
        self.assertEqual(2, sum(self.tally.durations["chat"].counts))
        self.assertEqual(0.6, self.tally.first_events["chat"].total_seconds)

    def test_first_event(self) -> None:
        """Only streams have one; a long answer that is relayed has not."""
        self.tally.used(event(stream=False), "answered", 2.0, 0.3)
        self.tally.used(EVENT, "failed", 2.0, None)
        self.assertEqual(0, sum(self.tally.first_events["chat"].counts))

    def test_refused(self) -> None:
        """A refusal counts by its code, and as a request."""
        self.tally.refused("invalid_json", 400, "chat")
        self.tally.refused("overloaded", 503)
        self.tally.refused("model_not_allowed", 403, "chat", "small")
        found = {code: count for code, count in self.tally.refusals.items() if count}
        self.assertEqual({"invalid_json": 1, "overloaded": 1, "model_not_allowed": 1}, found)
        self.assertEqual(
            {
                ("none", "chat", 4, "refused"): 1,
                ("none", "none", 5, "refused"): 1,
                ("small", "chat", 4, "refused"): 1,
            },
            self.tally.requests,
        )

    def test_every_code_stands_at_zero(self) -> None:
        """A counter that is there from the start shows its first step."""
        self.assertIn("rate_limit_exceeded", self.tally.refusals)
        self.assertEqual({0}, set(self.tally.refusals.values()))

    def test_bounded(self) -> None:
        """Names beyond the bound are counted as one, whichever way they come."""
        self.patch(module, "MAX_NAMES", 3)
        for number in range(10):
            attempts = [AttemptRecord(f"u{number}", "m", "ok", 200, 1)]
            self.tally.used(
                event(route_model=f"r{number}", attempts=attempts), "answered", 1.0, None
            )
            self.tally.plain(f"q{number}", "chat", 403, "refused")
        self.assertEqual({"r0", "q0", "r1", OTHER}, set(self.tally.tokens))
        self.assertEqual(20, sum(self.tally.requests.values()))
        self.assertEqual({"r0", "q0", "r1", OTHER}, {row[0] for row in self.tally.requests})
        self.assertEqual({"u0", "u1", "u2", OTHER}, {pair[0] for pair in self.tally.attempts})
        self.assertEqual(10, sum(self.tally.attempts.values()))

    def test_rows_are_bounded(self) -> None:
        """Rows beyond the bound are those of all other routes; those that are there go on."""
        self.patch(module, "MAX_ROWS", 4)
        for number in range(9):
            for status, outcome in ((200, "answered"), (499, "broken_off")):
                self.tally.used(event(route_model=f"r{number}", status=status), outcome, 1.0, None)
        for _ in range(3):
            self.tally.used(event(route_model="r0"), "answered", 1.0, None)
        self.assertEqual(
            {
                ("r0", "chat", 2, "answered"): 4,
                ("r0", "chat", 4, "broken_off"): 1,
                ("r1", "chat", 2, "answered"): 1,
                ("r1", "chat", 4, "broken_off"): 1,
                (OTHER, "chat", 2, "answered"): 7,
                (OTHER, "chat", 4, "broken_off"): 7,
            },
            self.tally.requests,
        )
