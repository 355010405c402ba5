"""The processes of data planes, as they told of themselves."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.plane_states import (
    KEPT_MS,
    MAX_RESTING,
    SILENT_MS,
    STALE_CONFIG_MS,
    About,
    PlaneStates,
    resting_targets,
    upstream_states,
)
from omnigate.control.reports import MAX_REPORTERS
from omnigate.upstream_state import UpstreamState
from tests.control.plane import Plane

NOW = 1_795_982_400_000


def about(**members: Any) -> About:
    found = {"host": "gw-1", "address": "127.0.0.1:8080", "version": "1", "polled_ago": 2.0}
    return msgspec.convert(found | members, About)


class PlaneStatesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.planes = PlaneStates()

    def told(self, reporter: str, now_ms: int = NOW, **members: Any) -> None:
        self.planes.told(reporter, {"spool_events": 3}, {}, about(**members), now_ms)

    def names(self, now_ms: int = NOW) -> list[str]:
        return [state.name for state in self.planes.all(now_ms)]

    def test_names(self) -> None:
        self.told("b", worker=1)
        self.told("a", worker=0)
        self.planes.told("0123456789abcdef", {}, {}, None, NOW)
        self.assertEqual(
            [
                "data plane 01234567",
                "gw-1 (127.0.0.1:8080, worker 0)",
                "gw-1 (127.0.0.1:8080, worker 1)",
            ],
            self.names(),
        )

    def test_a_successor_takes_the_place(self) -> None:
        """One that was killed is not shown as silent beside the one that runs."""
        self.told("a")
        self.planes.told("", {}, {}, None, NOW)
        self.told("b", NOW + 1)
        self.assertEqual(["", "b"], [state.reporter for state in self.planes.all(NOW + 1)])

    def test_leaving(self) -> None:
        self.told("a")
        self.planes.leave("a")
        self.planes.leave("a")
        self.assertEqual([], self.names())

    def test_silence(self) -> None:
        self.told("a")
        (state,) = self.planes.all(NOW + SILENT_MS + 1)
        self.assertTrue(state.is_silent(NOW + SILENT_MS + 1))
        self.assertFalse(state.is_silent(NOW + SILENT_MS))
        self.assertEqual([], self.planes.heard(NOW + SILENT_MS + 1))
        self.assertEqual([], self.names(NOW + KEPT_MS + 1))

    def test_an_old_config(self) -> None:
        self.told("a", polled_ago=59.0)
        (state,) = self.planes.all(NOW)
        self.assertFalse(state.is_stale(NOW))
        self.assertTrue(state.is_stale(NOW + STALE_CONFIG_MS))
        self.told("a", polled_ago=-1.0)
        (state,) = self.planes.all(NOW)
        self.assertFalse(state.is_stale(NOW + STALE_CONFIG_MS))

    def test_bounded(self) -> None:
        for number in range(MAX_REPORTERS + 5):
            self.told(f"r{number}", worker=number)
        self.assertEqual(MAX_REPORTERS, len(self.names()))
        self.told("r9", worker=9, resting=[("u", f"m{n}", 1, 1) for n in range(500)])
        state = next(state for state in self.planes.all(NOW) if state.reporter == "r9")
        self.assertEqual(MAX_RESTING, len(state.resting))

    def test_odd_numbers(self) -> None:
        self.told(
            "a",
            polled_ago=1e300,
            config_at=-5.0,
            spool_since=1e200,
            resting=[("u", "m", 1e300, -1e300)],
        )
        (state,) = self.planes.all(NOW)
        self.assertEqual(
            (None, None, None), (state.polled_ms, state.config_ms, state.spool_since_ms)
        )
        self.assertEqual("u", state.resting[0].upstream)

    def test_the_worst_counts(self) -> None:
        self.planes.told("a", {}, {"x": 1, "y": 99}, about(worker=0), NOW)
        self.planes.told("b", {}, {"x": 2}, about(worker=1), NOW)
        self.assertEqual(
            {"x": UpstreamState.COOLING, "y": UpstreamState.HEALTHY},
            upstream_states(self.planes.all(NOW)),
        )

    def test_the_longest_rest_counts(self) -> None:
        self.told("a", worker=0, resting=[("x", "m", 5.0, 60.0)])
        self.told("b", worker=1, resting=[("x", "m", 25.0, 30.0), ("x", "n", -5.0, 9.0)])
        found = resting_targets(self.planes.all(NOW))
        self.assertEqual(NOW + 25_000, found["x", "m"].until_ms)
        self.assertEqual(NOW - 30_000, found["x", "m"].since_ms)
        self.assertEqual(NOW - 5_000, found["x", "n"].until_ms)


class ReportTests(SynchronousTestCase):
    """What comes by a report."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.addCleanup(self.plane.close)

    def report(self, status: int = 200, **members: Any) -> None:
        body = json.dumps({"gauges": {"spool_events": 1}, "reporter": "a"} | members).encode()
        self.assertEqual(status, self.plane.internal("POST", "/internal/counters", body).status)

    def states(self) -> list[str]:
        return [state.name for state in self.plane.lasting.lately.planes.all(self.plane.now_ms())]

    def test_who_it_is(self) -> None:
        self.report(about={"host": "gw-1", "address": "[::]:80", "newer": [1, 2]})
        self.assertEqual(["gw-1 ([::]:80)"], self.states())
        self.report(leaving=True)
        self.assertEqual([], self.states())

    def test_an_older_one(self) -> None:
        self.report()
        self.assertEqual(["data plane a"], self.states())

    def test_a_newer_one_is_not_believed_everything(self) -> None:
        self.report(status=400, about={"host": 7})
        self.report(about={"host": "x" * 5000, "missing": ["a\x1b[2J"]})
        (state,) = self.plane.lasting.lately.planes.all(self.plane.now_ms())
        self.assertLess(len(state.host), 70)
        self.assertNotIn("\x1b", state.missing[0])

    def test_counts(self) -> None:
        rows = [("omnigate_data_time_to_first_event_seconds", [(["chat", "3"], 5)])]
        refusals = [{"key": "app", "code": "not_found", "count": 2}]
        for _ in range(2):  # the same report comes again
            self.report(number=1, counts=rows, refusals=refusals)
        now = self.plane.lasting.lately.minutes.last(1, self.plane.now_ms())
        self.assertEqual((5, 2), (sum(now.first_events), now.refusals))
