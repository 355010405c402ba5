"""Totals of data planes: what they counted, under a bounded number of names."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import plane_totals as plane_totals_module
from omnigate.control.plane_totals import MAX_GROWTH, MAX_OUTCOMES, PlaneTotals
from omnigate.metric_families import BUCKETS, TOTAL

REQUESTS = "omnigate_data_requests_total"
ATTEMPTS = "omnigate_data_attempts_total"
DURATIONS = "omnigate_data_request_duration_seconds"

Rows = dict[tuple[str, ...], float]


def label(name: str) -> str:
    """Names of a config."""
    return name if name in ("fast", "slow", "openai") else "other"


class TotalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.totals = PlaneTotals(label, label)

    def rows(self, name: str) -> Rows:
        (part,) = (part for part in self.totals.parts() if part.family.name == name)
        return dict(part.rows)

    def test_requests(self) -> None:
        """Endpoints of one protocol are one row; names that no config has are one, too."""
        for told, growth in (
            (["fast", "chat", "2xx", "answered"], 2),
            (["fast", "embeddings", "2xx", "answered"], 3),
            (["fast", "messages", "2xx", "answered"], 1),
            (["none", "none", "4xx", "refused"], 4),
            (["none", "models", "2xx", "answered"], 5),
            (["made-up", "chat", "2xx", "answered"], 6),
            (["made-up too", "chat", "2xx", "answered"], 1),
            (["fast", "new", "9xx", "new"], 8),
        ):
            self.totals.add(REQUESTS, told, growth)
        self.assertEqual(
            {
                ("data", "fast", "openai", "2xx", "answered"): 5,
                ("data", "fast", "anthropic", "2xx", "answered"): 1,
                ("data", "none", "none", "4xx", "refused"): 4,
                ("data", "none", "none", "2xx", "answered"): 5,
                ("data", "other", "openai", "2xx", "answered"): 7,
                ("data", "fast", "none", "other", "other"): 8,
            },
            self.rows("omnigate_requests_total"),
        )

    def test_attempts(self) -> None:
        """Outcomes are words, and not too many of them."""
        self.totals.add(ATTEMPTS, ["openai", "ok"], 1)
        self.totals.add(ATTEMPTS, ["unknown", "No word\n"], 1)
        for number in range(MAX_OUTCOMES * 2):
            self.totals.add(ATTEMPTS, ["openai", f"status_{number}"], 1)
        rows = self.rows("omnigate_upstream_attempts_total")
        self.assertEqual(1, rows["other", "other"])
        self.assertEqual(MAX_OUTCOMES * 2 + 1, sum(rows.values()) - 1)
        self.assertLessEqual(len(rows), MAX_OUTCOMES + 2)

    def test_histograms(self) -> None:
        """A bucket that is none is passed over, or the histogram would be none."""
        for bucket in ("0", str(len(BUCKETS)), TOTAL, str(len(BUCKETS) + 1), "-1", "", "0x"):
            self.totals.add(DURATIONS, ["chat", bucket], 2)
        self.assertEqual(
            {("data", "chat", bucket) for bucket in ("0", str(len(BUCKETS)), TOTAL)},
            set(self.rows("omnigate_request_duration_seconds")),
        )

    def test_plain_counters(self) -> None:
        """Counters without labels stand at 0 from the first scrape."""
        self.assertEqual({(): 0}, self.rows("omnigate_spool_dropped_total"))
        self.totals.add("omnigate_spool_dropped_total", [], 2)
        self.assertEqual({(): 2}, self.rows("omnigate_spool_dropped_total"))

    def test_bounded(self) -> None:
        """Beyond the most series of a family the name is other, and the rest stays."""
        self.patch(plane_totals_module, "MAX_ROWS", 3)
        totals = PlaneTotals(str, str)
        for number in range(10):
            totals.add(REQUESTS, [f"r{number}", "chat", "2xx", "answered"], 1)
            totals.add(REQUESTS, ["r0", "chat", "2xx", "answered"], 1)
        (rows,) = (
            dict(part.rows)
            for part in totals.parts()
            if part.family.name == "omnigate_requests_total"
        )
        self.assertEqual(4, len(rows))
        self.assertEqual(11, rows["data", "r0", "openai", "2xx", "answered"])
        self.assertEqual(7, rows["data", "other", "openai", "2xx", "answered"])

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([REQUESTS, ATTEMPTS, DURATIONS, "omnigate_spool_dropped_total"])
                | st.text(max_size=20),
                st.lists(st.sampled_from(["fast", "chat", "2xx", "ok", "0", "total"]) | st.text()),
                st.floats(),
            ),
            max_size=20,
        )
    )
    def test_anything(self, told: list[tuple[str, list[str], float]]) -> None:
        """Whatever a data plane tells, totals only grow, and every label is one of ours."""
        totals = PlaneTotals(label, label)
        shown: Rows = {}
        for name, labels, growth in told:
            totals.add(name, labels, growth)
            now: Rows = {
                (part.family.name, *row): value
                for part in totals.parts()
                for row, value in part.rows
            }
            for row, value in now.items():
                self.assertTrue(shown.get(row, 0) <= value <= MAX_GROWTH * 20, row)
                for text in row:
                    self.assertRegex(text, r"\A[a-z0-9_]+\Z")
            shown = now
