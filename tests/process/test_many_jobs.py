"""Many media jobs at once: each is submitted, stored, recorded and told once."""

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.jobs import run
from bench.jobs_place import Options
from omnigate.demo_children import Children


class ManyJobsTests(SynchronousTestCase):
    """The benchmark's load, smaller, and without a look at its figures."""

    def test_all_end_well(self) -> None:
        """Two hundred jobs of twenty keys; the run itself holds them to their right ends."""
        with tempfile.TemporaryDirectory(prefix="omnigate-test-jobs-") as name, Children() as group:
            figures = run(Options(jobs=200), group, Path(name))
        self.assertGreater(figures.turns["syncs"], 0)
