"""What a scrape shows."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.metrics import ControlMetrics
from omnigate.events import decode_event
from tests.control.plane import Plane, event


class ScrapeTests(SynchronousTestCase):
    """The text of a scrape."""

    def test_form(self) -> None:
        """Every line is a comment or a sample, every name ours, the process's or Python's."""
        plane = Plane(self.mktemp())
        plane.metrics.recorded(decode_event(event()), 1)
        body = plane.scrape()
        self.assertTrue(body.endswith(b"\n"))
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                self.assertRegex(
                    line, r"^(omnigate|process|python)_[a-z0-9_]+(\{[^{}]*\})? [-+0-9.eE]+$"
                )
                self.assertNotIn("_created", line)

    def test_counters_end_with_total(self) -> None:
        """Counters are named as Prometheus wants them, and stand at 0 from the first scrape."""
        plane = Plane(self.mktemp())
        body = plane.scrape().decode()
        for name in re.findall(r"^# TYPE (omnigate_\S+) counter$", body, re.MULTILINE):
            self.assertTrue(name.endswith("_total"), name)
        for name in ("invalid_events", "unpriced_events", "duplicate_events"):
            self.assertIn(f"omnigate_ledger_{name}_total 0.0\n", body)
        self.assertIn('omnigate_auth_failures_total{audience="admin",reason="locked"} 0.0\n', body)

    def test_labels_are_bounded(self) -> None:
        """Names that no config had are one label; codes that no table has are one too."""
        metrics = ControlMetrics()
        metrics.allow_names(["fast"], [])
        for number in range(50):
            metrics.recorded(decode_event(event(route_model=f"made-up-{number}")), 1)
            metrics.refused(f"made-up-{number}", 1)
        body = metrics.text(metrics.read(), False)
        self.assertNotIn(b"made-up", body)
        self.assertIn(b'omnigate_refusals_total{reason="other"} 50.0', body)

    def test_figures_of_data_planes(self) -> None:
        """A figure that a data plane reports stands in the scrape under a name of its own."""
        plane = Plane(self.mktemp())
        plane.reports.report_figures({"spool_events": 3.0, "clients": 2.0}, plane.clock.seconds())
        body = plane.scrape()
        self.assertIn(b"omnigate_spool_events 3.0\n", body)
        self.assertIn(b"omnigate_data_clients 2.0\n", body)
