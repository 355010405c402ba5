"""What needs somebody, the worst first."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.budget_shares import Budgets, BudgetShare
from omnigate.control.dashboard.needs import (
    ENDING_MS,
    MAX_NAMES,
    MAX_NEEDS,
    Need,
    Seen,
    UpstreamSeen,
    needs,
)
from omnigate.control.dashboard.target_states import State
from omnigate.control.job_figures import EndedLately
from omnigate.control.minutes import Minute
from omnigate.control.plane_states import SILENT_MS, STALE_CONFIG_MS, PlaneState
from omnigate.control.target_record import AttemptError, Fared

NOW = 1_795_982_400_000


def plane(name: str = "gw", **members: Any) -> PlaneState:
    found: dict[str, Any] = {
        "reporter": name,
        "told_ms": NOW,
        "figures": {},
        "upstreams": {},
        "host": name,
    }
    return PlaneState(**(found | {"address": ":80"} | members))


def budget(name: str, share: float) -> BudgetShare:
    return BudgetShare(name, "daily", int(share * 100), 100, share, share >= 1, None)


def said(**members: Any) -> list[Need]:
    return needs(Seen(NOW, **members))


def text(found: list[Need]) -> str:
    return " ".join(need.text for need in found).replace("\N{NARROW NO-BREAK SPACE}", " ")


class NeedsTests(SynchronousTestCase):
    def test_nothing(self) -> None:
        """All is well with a data plane that reports, and keys that have budgets left."""
        well = plane(
            polled_ms=NOW - 2000,
            spool_since_ms=NOW - 500,
            figures={
                "spool_events": 3,
                "reactor_lag_seconds": 0.02,
                "certificate_expiry_timestamp_seconds": (NOW + ENDING_MS) / 1000 + 9,
            },
        )
        seen = Budgets([budget("a", 0.79)], [budget("a", 0.79)], 1, 0, 0)
        recent = Minute(requests=1000, errors=900, failures=49)
        self.assertEqual([], said(planes=[well], is_expected=True, budgets=seen, recent=recent))

    def test_no_price(self) -> None:
        (one,), (some,) = said(unpriced=1), said(unpriced=3)
        self.assertEqual("1 request was recorded at $0, since its target has no price.", one.text)
        self.assertIn("3 requests were recorded at $0, since their targets have", some.text)

    def test_the_worst_first(self) -> None:
        found = said(
            unpriced=3,
            hold_seconds=2.0,
            faults=2,
            trouble="the disk is full",
            planes=[plane(polled_ms=NOW - STALE_CONFIG_MS - 1)],
        )
        self.assertEqual(["bad", "bad", "warn", "warn", "warn"], [need.kind for need in found])
        self.assertIn("Nothing can be recorded: the disk is full.", found[0].text)
        self.assertIn("2 faults", found[1].text)
        self.assertEqual("/config", found[1].path)

    def test_data_planes(self) -> None:
        for planes, words in (
            ([], "No data plane reports."),
            ([plane(told_ms=NOW - SILENT_MS - 1)], "gw (:80) has not reported for 30.0 s."),
            ([plane(polled_ms=NOW - 180_000)], "no usable config for 3 min"),
            (
                [plane(figures={"spool_events": 1204}, spool_since_ms=NOW - 720_000)],
                "1,204 usage events wait at gw (:80), for up to 12 min.",
            ),
            (
                [plane(figures={"spool_events": 1}, spool_since_ms=NOW - 60_000)],
                "1 usage event waits",
            ),
            ([plane(figures={"spool_events": 1000})], "1,000 usage events wait at gw (:80)."),
            ([plane(figures={"reactor_lag_seconds": 0.5})], "gw (:80) stood still for 500 ms"),
        ):
            found = text(said(planes=planes, is_expected=True)).replace("1 204", "1,204")
            self.assertIn(words, found.replace("1 000", "1,000"))

    def test_all_silent(self) -> None:
        """Then each says so, and that none is left."""
        found = said(planes=[plane(told_ms=NOW - SILENT_MS - 1)], is_expected=True)
        self.assertEqual(2, len(found))

    def test_upstreams(self) -> None:
        last = AttemptError(NOW, "id", "fast", "m", "timeout", None, 5)
        (need,) = said(
            upstreams=[
                UpstreamSeen("ok", State("healthy", "good"), Fared(9, 0), None),
                UpstreamSeen("a&b", State("failing", "bad"), Fared(57, 43), last),
            ]
        )
        self.assertEqual(
            "Upstream a&b: failing; 43 % of 100 attempts failed in ten minutes, the last one: "
            "no answer in time.",
            text([need]),
        )
        self.assertEqual("/models/upstream?name=a%26b", need.path)
        # One that is not asked has no share of anything.
        (need,) = said(upstreams=[UpstreamSeen("x", State("no credential", "bad"), Fared(), None)])
        self.assertEqual("Upstream x: no credential.", need.text)

    def test_errors(self) -> None:
        for minute, kinds in (
            (Minute(requests=19, failures=19), []),  # too few to say anything
            (Minute(requests=100, failures=4), []),
            (Minute(requests=100, failures=5), ["warn"]),
            (Minute(requests=100, failures=25), ["bad"]),
            (Minute(requests=100, errors=100), []),  # faults of clients
        ):
            self.assertEqual(kinds, [need.kind for need in said(recent=minute)])

    def test_budgets(self) -> None:
        one = Budgets([budget("app", 1.0)], [], 1, 1, 0)
        self.assertEqual("Key app has spent its budget and is blocked.", text(said(budgets=one)))
        many = [budget(f"k{n}", 1.2) for n in range(9)]
        near = [budget("app", 0.91), budget("bot", 0.8)]
        found = said(budgets=Budgets([*many, *near], near, 20, 9, 2))
        self.assertEqual(
            "9 keys (k0, k1, k2, k3 and others) have spent their budgets and are blocked. "
            "2 keys (app at 91 %, bot at 80 %) have nearly spent their budgets.",
            text(found),
        )
        self.assertLessEqual(found[0].text.count(","), MAX_NAMES)

    def test_certificates(self) -> None:
        day = 86_400_000
        for left, words, kind in (
            (13 * day, "ends in 13 d", "warn"),
            (2 * day, "ends in 48 h", "bad"),
            (-1, "has ended", "bad"),
        ):
            (need,) = said(certificate_ms=NOW + left)
            self.assertEqual(kind, need.kind)
            self.assertEqual(f"This control plane: its certificate {words}.", text([need]))
            expiry = {"certificate_expiry_timestamp_seconds": (NOW + left) / 1000}
            (need,) = said(planes=[plane(figures=expiry)])
            self.assertEqual(kind, need.kind)

    def test_bounded(self) -> None:
        silent = [plane(f"gw{n}", told_ms=NOW - SILENT_MS - 1) for n in range(500)]
        found = said(planes=silent)
        self.assertEqual(MAX_NEEDS + 1, len(found))
        self.assertEqual("And 480 more like these.", found[-1].text)


class JobTests(SynchronousTestCase):
    """Media jobs."""

    def test_many_fail(self) -> None:
        self.assertEqual([], said(jobs=EndedLately(4, 4)))
        self.assertEqual([], said(jobs=EndedLately(100, 19)))
        (some,) = said(jobs=EndedLately(10, 2))
        self.assertEqual(("warn", "/jobs?status=failed"), (some.kind, some.path))
        self.assertIn("20 % of the media jobs", text([some]))
        (most,) = said(jobs=EndedLately(10, 5))
        self.assertEqual("bad", most.kind)

    def test_webhooks_that_were_given_up(self) -> None:
        (one,) = said(given_up=["job_2"])
        self.assertIn("The webhook of 1 job was given up", one.text)
        (some,) = said(given_up=["job_2", "job_1"])
        self.assertIn("Webhooks of 2 jobs", some.text)
        self.assertEqual("/jobs/job_2", some.path)

    def test_costs_that_are_owed(self) -> None:
        self.assertEqual([], said(owed=5, owed_seconds=599.0))
        (need,) = said(owed=1, owed_seconds=720.0)
        self.assertEqual("bad", need.kind)
        self.assertIn("lacks the cost of 1 job, for up to 12 min", text([need]))
