"""The dashboard: a file that Grafana imports, of queries that Prometheus reads."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.observe import dashboard
from tests.observe.files import DASHBOARD_FILE, promtool, shipped
from tests.observe.names import metrics_in


def expressions() -> Iterator[str]:
    """Every query of a panel."""
    for section in dashboard.SECTIONS:
        for panel in section.panels:
            for query in panel.queries:
                yield query.expr


class FileTests(SynchronousTestCase):
    def test_made_anew(self) -> None:
        """The file is what its source makes; ``make observe`` writes it."""
        self.assertEqual(dashboard.text(), shipped(DASHBOARD_FILE))

    def test_imports(self) -> None:
        """It names itself, leaves its number to Grafana, and takes the data source it is given."""
        made = dashboard.dashboard()
        self.assertNotIn("id", made)
        self.assertNotIn("__inputs", made)
        self.assertLessEqual(len(made["uid"]), 40)
        self.assertEqual(39, made["schemaVersion"])
        names = [choice["name"] for choice in made["templating"]["list"]]
        self.assertEqual(["ds", "job", "route", "upstream"], names)
        used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(made)))
        self.assertEqual(set(names), used)

    def test_places(self) -> None:
        """No panel has another's number, lies on another, or sticks out."""
        panels = dashboard.dashboard()["panels"]
        self.assertEqual(len(panels), len({panel["id"] for panel in panels}))
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            at = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], dashboard.WIDTH)
            taken |= cells

    def test_every_series_is_of_the_job(self) -> None:
        """Each series is filtered by the job, or those of another plane would be added."""
        for expression in expressions():
            self.assertEqual(len(metrics_in(expression)), expression.count("{JOB"), expression)

    def test_queries(self) -> None:
        """Prometheus can read each query."""
        rules = [
            {"record": f"q:{number}", "expr": expression}
            for number, expression in enumerate(
                query.replace("JOB", 'job="omnigate"').replace("$__rate_interval", "5m")
                for query in expressions()
            )
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rules.json")
            path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
            status, said = promtool("check", "rules", str(path))
        self.assertEqual(0, status, said)
