"""The measurement of pages, in small: that it opens all there are, and none holds up others."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import dashboard
from bench.dashboard import FILTERED, HOLD_MS, PAGE_MS, Row, targets
from bench.dashboard_plane import DashboardPlane, Size

#: What costs most grows with days, keys and names, and is as large here as it is meant to be.
SIZE = Size(events=30_000)

#: How many times as long as the bars anything may take here: what others do to the machine's caches
#: is felt in processor time, too.
GRACE = 2


class PageTests(SynchronousTestCase):
    """Every page, with thirty thousand events behind it."""

    def test_within_the_bars(self) -> None:
        """A page and its steps; other load of the machine is no part of what is measured."""
        folder = Path(self.mktemp())
        folder.mkdir()
        plane = DashboardPlane(folder, SIZE)
        self.addCleanup(plane.close)
        found = dashboard.measure(plane, runs=3)
        asked = {row.what.partition("?")[0] for row in found}
        self.assertLessEqual({"/", *(path.partition("?")[0] for path in FILTERED)}, asked)
        self.assertEqual(len(found), len(list(targets(plane.endpoints, SIZE.events, plane.job_id))))
        self.assertEqual([row for row in found if row.status != 200], [])
        for row in found:
            self.assertLess(row.median_ms, GRACE * PAGE_MS, row)
            self.assertLess(row.hold_ms, GRACE * HOLD_MS, row)

    def test_what_is_over(self) -> None:
        """Either bar counts, and so does a page that is none."""
        for status, longest, hold, over in (
            (200, PAGE_MS - 1, HOLD_MS - 1, False),
            (200, PAGE_MS + 1, 1.0, True),
            (200, 30.0, HOLD_MS + 1, True),
            (404, 1.0, 1.0, True),
        ):
            self.assertEqual(Row("", status, 1.0, longest, hold, 1).is_over, over)
