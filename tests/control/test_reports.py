"""Refusals and figures of data planes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.reports import (
    FIGURES_SECONDS,
    MAX_FIGURES,
    MAX_NUMBERED,
    MAX_REPORTERS,
    MAX_ROWS,
    MAX_UPSTREAMS,
    OTHER_KEY,
    Reports,
)


class RefusalTests(SynchronousTestCase):
    """Counts by key and reason."""

    def test_largest_first(self) -> None:
        """What happens most stands first, each row with its last time."""
        reports = Reports(0)
        reports.refused("a", "rate_limit_exceeded", 1, 5)
        reports.refused("b", "invalid_json", 2, 7)
        reports.refused("a", "rate_limit_exceeded", 4, 3)
        self.assertEqual(
            [(row.key, row.code, row.count, row.last_ms) for row in reports.rows()],
            [("a", "rate_limit_exceeded", 5, 5), ("b", "invalid_json", 2, 7)],
        )

    def test_of_one_key(self) -> None:
        """The counts of one key alone, and the sum of each."""
        reports = Reports(0)
        for key, code, count in (
            ("app", "invalid_json", 1),
            ("app", "budget_exceeded", 5),
            ("web", "budget_exceeded", 9),
        ):
            reports.refused(key, code, count, 7)
        found = [(row.code, row.count) for row in reports.of_key("app")]
        self.assertEqual(found, [("budget_exceeded", 5), ("invalid_json", 1)])
        self.assertEqual(reports.of_key("nobody"), [])
        self.assertEqual(reports.by_key(), {"app": 6, "web": 9})

    def test_codes(self) -> None:
        """Codes of the table are counted by name, clients that left too, and all others as one."""
        reports = Reports(0)
        for code in ("invalid_json", "client_disconnected", "already_exists", "x"):
            reports.refused("a", code, 1, 0)
        counts = {row.code: row.count for row in reports.rows()}
        self.assertEqual(counts, {"invalid_json": 1, "client_disconnected": 1, "other": 2})

    def test_bounded(self) -> None:
        """Beyond the bound, names are counted together and no count is lost."""
        reports = Reports(0)
        for number in range(MAX_ROWS + 10):
            reports.refused(f"key-{number}", "invalid_json", 1, 0)
        rows = reports.rows()
        self.assertEqual(len(rows), MAX_ROWS + 1)
        self.assertEqual((rows[0].key, rows[0].count), (OTHER_KEY, 10))

    @settings(max_examples=100, deadline=None)
    @given(st.text(max_size=200), st.text(max_size=20), st.integers(0, 10**12))
    def test_any_text(self, key: str, code: str, count: int) -> None:
        """Whatever is reported can be shown on one line."""
        reports = Reports(0)
        reports.refused(key, code, count, 0)
        (row,) = reports.rows()
        self.assertEqual(row.count, count)
        self.assertLessEqual(len(row.key), 64)
        row.key.encode("utf-8")


class FigureTests(SynchronousTestCase):
    """Figures of the data planes, as they last reported them."""

    def test_forgotten(self) -> None:
        """Figures of a data plane that fell silent are no longer shown."""
        reports = Reports(0)
        reports.report_figures({"spool_events": 3.0}, 100.0)
        self.assertEqual(reports.figures(100.0 + FIGURES_SECONDS), {"spool_events": 3.0})
        self.assertEqual(reports.figures(101.0 + FIGURES_SECONDS), {})

    def test_bounded(self) -> None:
        """Names that are none and numbers that are none are left out; so are too many."""
        reports = Reports(0)
        reports.report_figures({"Bad-name": 1.0, "a": float("nan"), "b": 2.0}, 0.0)
        self.assertEqual(reports.figures(0.0), {"b": 2.0})
        for number in (float("inf"), -float("inf"), 1e300, -1e16):
            reports.report_figures({"a": number, "b": 1e15}, 0.0)
            self.assertEqual(reports.figures(0.0), {"b": 1e15})
        reports.report_figures({f"a{number}": 1.0 for number in range(1000)}, 0.0)
        self.assertEqual(len(reports.figures(0.0)), MAX_FIGURES)

    def test_summed(self) -> None:
        """Processes are added up, each as it last said; of the lags the longest is told."""
        reports = Reports(0)
        lag, ends = "reactor_lag_seconds", "certificate_expiry_timestamp_seconds"
        reports.report_figures({ends: 7.0}, 1.0, "a")
        reports.report_figures({ends: 5.0}, 1.0, "b")
        self.assertEqual({ends: 5.0}, reports.figures(1.0))
        reports.report_figures({"spool_events": 9.0, lag: 9.0}, 0.0, "a")
        reports.report_figures({"spool_events": 3.0, lag: 0.2}, 1.0, "b")
        reports.report_figures({"spool_events": 1.0, lag: 0.1, "x": 5.0}, 2.0, "a")
        self.assertEqual({"spool_events": 4.0, lag: 0.2, "x": 5.0}, reports.figures(3.0))
        self.assertEqual(
            {"spool_events": 1.0, lag: 0.1, "x": 5.0}, reports.figures(1.5 + FIGURES_SECONDS)
        )
        reports.leave("a")
        reports.leave("nobody")
        self.assertEqual({}, reports.figures(3.0))

    def test_planes_that_do_not_say(self) -> None:
        """Of those that do not say who they are the last word counts."""
        reports = Reports(0)
        for number in (1.0, 2.0):
            reports.report_figures({"spool_events": number}, 0.0)
        self.assertEqual({"spool_events": 2.0}, reports.figures(0.0))

    def test_reporters_are_bounded(self) -> None:
        """Whoever calls itself ever anew pushes out those that were silent for longest."""
        reports = Reports(0)
        for number in range(MAX_REPORTERS + 7):
            reports.report_figures({"a": 1.0}, 0.0, str(number))
            reports.report_figures({"b": 1.0}, 0.0, "steady")
        self.assertEqual({"a": MAX_REPORTERS - 1.0, "b": 1.0}, reports.figures(0.0))

    def test_figures_of_many_are_bounded(self) -> None:
        """However many reporters make up names, no more figures are shown than there may be."""
        reports = Reports(0)
        for number in range(MAX_FIGURES):
            reports.report_figures({f"a{number}": 1.0, f"b{number}": 1.0}, 0.0, str(number))
        self.assertEqual(MAX_FIGURES, len(reports.figures(0.0)))


class NumberTests(SynchronousTestCase):
    """Reports that are numbered are taken once."""

    def test_once(self) -> None:
        """A number comes once from each reporter, also when it has left; one without comes ever."""
        reports = Reports(0)
        for reporter, number, new in (
            ("a", 1, True),
            ("a", 1, False),
            ("b", 1, True),
            ("a", 3, True),
            ("a", 2, False),
            ("a", 3, False),
            ("", 0, True),
            ("", 0, True),
            ("a", 0, True),
            ("a", 4, True),
        ):
            reports.leave("a")
            self.assertEqual(new, reports.is_new(reporter, number), (reporter, number))

    def test_bounded(self) -> None:
        """Whoever calls itself ever anew pushes out those that were silent for longest."""
        reports = Reports(0)
        self.assertTrue(reports.is_new("silent", 1))
        for number in range(MAX_NUMBERED):
            self.assertTrue(reports.is_new(str(number), 1))
            self.assertEqual(number == 0, reports.is_new("steady", 1))
        self.assertTrue(reports.is_new("silent", 1))


class StateTests(SynchronousTestCase):
    """States of upstreams."""

    def test_the_worst(self) -> None:
        """Of what all tell the worst counts: degraded, half open, cooling, open."""
        reports = Reports(0)
        self.assertEqual({}, reports.upstream_states(["u"], 0.0))
        shown = []
        for number, state in enumerate((0, 1, 4, 2, 3)):
            reports.report_figures({"a": 1.0}, 0.0, str(number), {"u": state, "unknown": 3})
            shown.append(int(reports.upstream_states(["u", "v"], 0.0)["u"]))
        self.assertEqual([0, 1, 4, 2, 3], shown)
        self.assertEqual({"u": 3, "v": 0}, reports.upstream_states(["u", "v"], 0.0))
        self.assertEqual(5, reports.processes(0.0))

    def test_forgotten(self) -> None:
        """What a process told goes with it: when it tells anew, leaves, or falls silent."""
        reports = Reports(0)
        for reporter in "abc":
            reports.report_figures({"a": 1.0}, 0.0, reporter, {"u": 3})
        reports.report_figures({"a": 1.0}, FIGURES_SECONDS, "d", {})
        reports.report_figures({"a": 1.0}, 0.0, "a", {"u": 1})
        reports.leave("b")
        self.assertEqual({"u": 3}, reports.upstream_states(["u"], 0.0))
        reports.leave("c")
        self.assertEqual({"u": 1}, reports.upstream_states(["u"], 0.0))
        self.assertEqual({"u": 0}, reports.upstream_states(["u"], FIGURES_SECONDS + 1))

    def test_what_is_none(self) -> None:
        """Numbers of no state are passed over, and more upstreams than there may be."""
        reports = Reports(0)
        many = {f"u{number}": 3 for number in range(MAX_UPSTREAMS + 1)}
        reports.report_figures({"a": 1.0}, 0.0, "a", {"u": 7, **many})
        self.assertEqual(
            {"u": 0, f"u{MAX_UPSTREAMS}": 0},
            reports.upstream_states(["u", f"u{MAX_UPSTREAMS}"], 0.0),
        )
