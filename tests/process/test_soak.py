"""A soak in its short form: mixed traffic with faults on all sides, and nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.process.daemons import ROOT

#: A quarter of a minute of load; the rest is starting, settling and looking.
SECONDS = 240


class SoakTests(SynchronousTestCase):
    def test_short(self) -> None:
        """Every check of the soak holds after a load of twelve seconds."""
        if not sys.platform.startswith("linux"):
            raise SkipTest("the soak reads /proc, which needs Linux")
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        run = subprocess.run(
            [sys.executable, "-m", "bench", "soak", "--minutes", "0.2", "--clients", "60"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        self.assertEqual(run.returncode, 0, f"{run.stdout}\n{run.stderr}")
        self.assertIn("soak: ok, --seed", run.stdout)
        self.assertEqual(list(folder.iterdir()), [])
