"""What a data plane counted reaches the control plane once, whatever is lost or comes twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.counters_api import MAX_COUNTERS_BYTES
from omnigate.control.plane_states import MAX_RESTING, About
from omnigate.control.plane_totals import PlaneTotals
from omnigate.control.reports import Reports
from omnigate.gateway import figures
from omnigate.gateway.count_reports import (
    COUNTERS_PATH,
    MAX_ROWS,
    PIECES_A_TURN,
    SECONDS_BETWEEN_FIGURES,
    CountReports,
    Figures,
)
from omnigate.gateway.plane_figures import MAX_RESTING_TOLD, Identity
from omnigate.gateway.trouble import Rest
from omnigate.metric_families import ROWS_AT_A_TIME, Part, parts_of
from tests.gateway.scraping import Figures as Zeros
from tests.gateway.scraping import Parts, figures_of
from tests.gateway.test_metrics import crowd
from tests.planes.memory import MemoryDataPlane

Counts = dict[tuple[str, ...], int]


class Told(Figures):
    """Figures of a test."""

    def __init__(self) -> None:
        self.shown: dict[str, float] = {}
        self.states: dict[str, int] = {}
        self.who: dict[str, object] = {}
        self.attempts: Counts = {}

    def gauges(self) -> dict[str, float]:
        return self.shown

    def upstreams(self) -> dict[str, int]:
        return self.states

    def about(self) -> dict[str, object]:
        return self.who

    def counts(self) -> Iterator[Part]:
        yield from parts_of(figures.ATTEMPTS, list(self.attempts.items()))


class Control:
    """A control plane that adds up, and a way to it that loses.

    :ivar loses: what becomes of the next posts, then all is well: ``request`` or ``answer`` is
        lost, or ``twice``: the request comes a second time.
    """

    def __init__(self) -> None:
        self.loses: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.begin()

    def begin(self) -> None:
        """Start anew, and know of nothing."""
        self.reports = Reports(0)
        self.totals = PlaneTotals(str, str)

    def post(self, path: str, body: bytes) -> Deferred[tuple[int, bytes]]:
        assert path == COUNTERS_PATH
        assert len(body) < MAX_COUNTERS_BYTES
        fate = self.loses.pop(0) if self.loses else ""
        if fate == "request":
            return fail(ConnectionError())
        if fate == "refused":
            return succeed((503, b""))
        for _ in range(2 if fate == "twice" else 1):
            self.take(json.loads(body))
        self.bodies.append(body)
        return fail(ConnectionError()) if fate == "answer" else succeed((200, b"{}"))

    def take(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if message.get("leaving"):
            self.reports.leave(message["reporter"])
        elif message["gauges"]:
            states = message.get("upstreams")
            self.reports.report_figures(message["gauges"], 0, message["reporter"], states)
        if self.reports.is_new(message["reporter"], message.get("number", 0)):
            for row in message["refusals"]:
                self.reports.refused(row["key"], row["code"], row["count"], 0)
            for name, rows in message.get("counts", ()):
                for labels, growth in rows:
                    self.totals.add(name, labels, growth)

    @property
    def attempts(self) -> Counts:
        """What it shows of attempts."""
        (part,) = (
            part
            for part in self.totals.parts()
            if part.family.name == "omnigate_upstream_attempts_total"
        )
        return {labels: int(value) for labels, value in part.rows}

    @property
    def refused(self) -> int:
        return sum(row.count for row in self.reports.rows())


class ReportCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.control = Control()
        self.told = Told()
        self.reports = CountReports(self.control.post, self.clock, "me")
        self.reports.figures = self.told

    def send(self, stopping: bool = False) -> None:
        """Tell what there is, in as many turns as it takes."""
        sent = Deferred.fromCoroutine(self.reports.send(stopping))
        for _ in range(1000):
            if sent.called:
                break
            self.clock.advance(0)
        self.successResultOf(sent)

    def later(self) -> None:
        self.clock.advance(SECONDS_BETWEEN_FIGURES)


class GrowthTests(ReportCase):
    """Counts that grow."""

    def test_what_changed(self) -> None:
        """The first report has everything, the next only what grew, and one of nothing is none."""
        self.told.attempts = {("a", "ok"): 5, ("b", "ok"): 1}
        self.send()
        self.later()
        self.told.attempts["a", "ok"] = 7
        self.send()
        self.later()
        self.send()
        name = figures.ATTEMPTS.name
        self.assertEqual(
            [
                [[name, [[["a", "ok"], 5], [["b", "ok"], 1]]]],
                [[name, [[["a", "ok"], 2]]]],
            ],
            [message["counts"] for message in self.control.messages],
        )
        self.assertEqual([1, 2], [message["number"] for message in self.control.messages])
        self.assertEqual(self.told.attempts, self.control.attempts)

    def test_every_few_seconds(self) -> None:
        """Figures are not gone through at every flush, refusals are told at each."""
        self.told.attempts["a", "ok"] = 1
        self.send()
        self.told.attempts["a", "ok"] = 2
        self.reports.refusal("app", "not_found")
        self.clock.advance(1)
        self.send()
        self.assertEqual({("a", "ok"): 1}, self.control.attempts)
        self.assertEqual(1, self.control.refused)
        self.later()
        self.send()
        self.assertEqual({("a", "ok"): 2}, self.control.attempts)

    def test_lost_answer(self) -> None:
        """A report whose answer is lost comes again as it was; what came since is in another."""
        self.told.attempts["a", "ok"] = 3
        self.reports.refusal("app", "not_found")
        self.control.loses = ["answer"]
        self.send()
        self.told.attempts["a", "ok"] = 4
        self.reports.refusal("app", "not_found")
        self.send()
        first, again, after = self.control.messages
        self.assertEqual(first, again)
        self.assertEqual((1, 2), (first["number"], after["number"]))
        self.assertEqual({("a", "ok"): 4}, self.control.attempts)
        self.assertEqual(2, self.control.refused)

    def test_one_that_starts_anew(self) -> None:
        """A control plane that starts anew is not told again what the former one has shown."""
        self.told.attempts["a", "ok"] = 1000
        self.send()
        self.control.begin()
        self.told.attempts["a", "ok"] = 1003
        self.later()
        self.send()
        self.assertEqual({("a", "ok"): 3}, self.control.attempts)

    def test_many_rows(self) -> None:
        """Many rows are told in reports that each fit, with turns for others in between."""
        self.told.attempts = {(f"{number:060}", "ok"): 1 for number in range(20_000)}
        turns: list[float] = []
        later = self.clock.callLater

        def call_later(seconds: float, *args: Any) -> IDelayedCall:
            turns.append(seconds)
            return later(seconds, *args)

        self.patch(self.clock, "callLater", call_later)
        self.send()
        self.assertEqual(self.told.attempts, self.control.attempts)
        self.assertLess(4, len(self.control.messages))
        self.assertLess(20_000 / ROWS_AT_A_TIME / PIECES_A_TURN / 2, len(turns))

    def test_many_rows_and_a_fault(self) -> None:
        """What did not get through goes on where it was."""
        self.told.attempts = {(f"{number:060}", "ok"): 1 for number in range(20_000)}
        self.control.loses = ["", "", "answer", "request"]
        self.send()
        self.assertLess(len(self.control.attempts), 20_000)
        self.send()
        self.send()
        self.assertEqual(self.told.attempts, self.control.attempts)

    def test_largest_report(self) -> None:
        """Refusals of the longest names and counts of the longest fit into one report."""
        self.told.attempts = {(f"{number:0>256}", "o" * 40): 1 for number in range(20_000)}
        for number in range(4_000):
            self.reports.refusal(f"\\{number:063d}", "concurrency_limit_exceeded")
        self.send()
        self.send()
        self.assertEqual(4_000, self.control.refused)
        self.assertEqual(MAX_ROWS, len(self.control.messages[0]["refusals"]))
        self.assertLess(400_000, max(map(len, self.control.bodies)))

    def test_an_older_control_plane(self) -> None:
        """What older ones know is where they look for it."""
        self.told.shown = {"spool_events": 2}
        self.send()
        self.assertEqual(
            {"refusals": [], "gauges": {"spool_events": 2}, "reporter": "me"},
            self.control.messages[0],
        )

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("ask"), st.sampled_from("abc")),
                st.tuples(st.just("refuse"), st.sampled_from("abc")),
                st.tuples(
                    st.just("lose"), st.sampled_from(["request", "answer", "twice", "refused"])
                ),
                st.tuples(st.just("send"), st.just("")),
                st.tuples(st.just("later"), st.just("")),
            ),
            max_size=40,
        )
    )
    def test_any_order(self, steps: list[tuple[str, str]]) -> None:
        """Whatever is lost or comes twice: totals only grow, are never too high, and right."""
        self.setUp()
        refused = 0
        shown: Counts = {}
        for step, value in steps:
            if step == "ask":
                row: tuple[str, ...] = (value, "ok")
                self.told.attempts[row] = self.told.attempts.get(row, 0) + 1
            elif step == "refuse":
                self.reports.refusal(value, "not_found")
                refused += 1
            elif step == "lose":
                self.control.loses.append(value)
            elif step == "send":
                self.send()
            else:
                self.later()
            now = self.control.attempts
            for row, count in now.items():
                self.assertLessEqual(shown.get(row, 0), count)
                self.assertLessEqual(count, self.told.attempts[row])
            self.assertLessEqual(self.control.refused, refused)
            shown = now
        self.control.loses.clear()
        self.send(stopping=True)
        self.assertEqual(self.told.attempts, self.control.attempts)
        self.assertEqual(refused, self.control.refused)


class StopTests(ReportCase):
    """The last report."""

    def test_everything(self) -> None:
        """A stop tells all that was not told, and says in the last report that it leaves."""
        self.told.shown = {"spool_events": 2}
        self.send()
        self.told.attempts = {(f"{number:060}", "ok"): 1 for number in range(20_000)}
        self.reports.refusal("app", "not_found")
        self.send(stopping=True)
        self.assertEqual(self.told.attempts, self.control.attempts)
        leaving = [message.get("leaving", False) for message in self.control.messages]
        self.assertEqual([*[False] * (len(leaving) - 1), True], leaving)
        self.assertEqual({}, self.control.reports.figures(0))

    def test_nothing_to_say(self) -> None:
        """One of which the control plane has never heard need not leave."""
        self.send(stopping=True)
        self.assertEqual([], self.control.messages)

    def test_lost(self) -> None:
        """A stop whose last report is lost ends; the control plane forgets it by itself."""
        self.told.attempts["a", "ok"] = 1
        self.send()
        self.told.attempts["a", "ok"] = 2
        self.control.loses = ["request"] * 9
        self.send(stopping=True)
        self.assertEqual({("a", "ok"): 1}, self.control.attempts)


class StateTests(ReportCase):
    """States of upstreams."""

    def test_with_figures(self) -> None:
        """They go with the figures, and those that are well again are forgotten."""
        self.told.shown = {"spool_events": 0}
        self.told.states = {"a": 2}
        self.send()
        self.assertEqual({"a": 2, "b": 0}, self.control.reports.upstream_states(["a", "b"], 0))
        self.told.states = {}
        self.later()
        self.send()
        self.assertEqual({"a": 0, "b": 0}, self.control.reports.upstream_states(["a", "b"], 0))

    def test_who_it_is(self) -> None:
        """It goes with the figures, and only with them."""
        self.told.who = {"host": "gw-1"}
        self.reports.refusal("app", "not_found")
        self.send()
        self.assertNotIn("about", self.control.messages[-1])
        self.told.shown = {"spool_events": 0}
        self.later()
        self.send()
        self.assertEqual({"host": "gw-1"}, self.control.messages[-1]["about"])


class PlaneTests(SynchronousTestCase):
    """What a real plane tells."""

    def test_all_is_known(self) -> None:
        """Every row that a data plane tells is counted by the control plane, under some name."""
        memory = MemoryDataPlane()
        self.addCleanup(memory.plane.close)
        crowd(memory, 3)
        # Its first request makes an endpoint's histograms.
        memory.plane.books.tally._add_endpoint("chat").add(0.3)
        parts = Parts(memory.plane, certificate=Zeros())
        for part in figures_of(memory, parts).counts():
            self.assertTrue(part.rows or part.family.kind == "histogram", part.family.name)
            for labels, _ in part.rows:
                totals = PlaneTotals(str, str)
                before = [row for shown in totals.parts() for row in shown.rows]
                totals.add(part.family.name, labels, 7)
                after = [row for shown in totals.parts() for row in shown.rows]
                self.assertNotEqual(before, after, (part.family.name, labels))
                grown = [labels for labels, value in after if value == 7]
                self.assertNotIn("other", grown[0] if "other" not in labels else ())

    def test_who_it_is(self) -> None:
        """The control plane understands who it is, and what fails."""
        memory = MemoryDataPlane()
        self.addCleanup(memory.plane.close)
        parts = Parts(memory.plane, spool=Zeros(oldest_ms=1_795_982_400_000))
        parts.pull.polled_at = memory.clock.seconds()
        now = memory.clock.seconds()
        for number in range(2 * MAX_RESTING_TOLD):
            memory.plane.troubles.rests["fake", f"m{number}"] = Rest(now - 5, now + 25, False)
        figures = figures_of(memory, parts, Identity("gw-1", lambda: "[::1]:8080", 3))
        memory.clock.advance(1)
        about = msgspec.convert(msgspec.json.decode(msgspec.json.encode(figures.about())), About)
        self.assertEqual(("gw-1", "[::1]:8080", 3), (about.host, about.address, about.worker))
        self.assertEqual((1.0, 1_795_982_400.0), (about.polled_ago, about.spool_since))
        tables = memory.plane.tables
        assert tables is not None
        self.assertEqual(tables.version, about.config)
        self.assertEqual(MAX_RESTING, len(about.resting))
        self.assertEqual(("fake", "m0", 24.0, 6.0), about.resting[0])
        # One that says nothing of itself tells no less than before.
        self.assertEqual({}, figures_of(memory, parts).about())
