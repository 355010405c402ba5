"""The measurement of the admin API, in small: that it asks what there is, and stays far below."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from bench import admin_queries
from bench.admin_queries import HOLD_MS, QUERY_MS, Queries, Took, filled, targets
from omnigate.ledger.totals import GROUPINGS

EVENTS, KEYS, ROUTES = 30_000, 1_500, 1_000


class QueryTests(SynchronousTestCase):
    """Thirty thousand events, of which a query over all of them looks at nearly as many rows."""

    def test_within_the_bars(self) -> None:
        """Each query, every grouping, as JSON and as CSV; the best of two counts."""
        queries = Queries(filled(EVENTS, KEYS), KEYS, ROUTES)
        found = admin_queries.measure(queries, runs=2)
        self.assertEqual(len(found), len(list(targets())))
        for took in found:
            self.assertLess(took.whole_ms, QUERY_MS, took)
            self.assertLess(took.hold_ms, HOLD_MS, took)
        for by in GROUPINGS:
            self.assertTrue(any(f"by={by}&since" in took.what for took in found), by)

    def test_what_is_over(self) -> None:
        """Either bar counts."""
        for whole, hold, over in ((199.0, 19.0, False), (201.0, 1.0, True), (30.0, 21.0, True)):
            self.assertEqual(Took("", whole, hold, 1).is_over, over)
