"""The runner of all tests: what it does with its trials."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import python_environ
from tests.__main__ import SCRATCH
from tests.process.daemons import SECONDS, wait_for

RUNNER = """
import sys
from tests import __main__ as runner
runner.SCRATCH = sys.argv[1]
runner.parts_below = lambda folder: [runner.Part("slow", (sys.argv[2],))]
runner.MOST_SECONDS = float(sys.argv[3])
sys.exit(runner.main(["--jobs", "1"]))
"""
SLOW = """
import os, time
from twisted.trial.unittest import SynchronousTestCase
class SlowTests(SynchronousTestCase):
    def test_slow(self):
        with open({path!r}, "w") as file:
            file.write(f"{{os.getpid()}}\\n")
        time.sleep(600)
"""


class RunnerTests(SynchronousTestCase):
    """``python -m tests``, with one part that takes long."""

    def test_signals(self) -> None:
        """Whoever ends it, and nobody else, leaves no trial behind."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.check_ended(number)

    def test_a_part_that_hangs(self) -> None:
        """It is ended, and it is told where it was."""
        process, _ = self.start(seconds=3)
        said, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 1)
        for words in ("[1/1] slow: 0 tests FAILED", "in test_slow", "FAILED: slow; again alone"):
            self.assertIn(words, said)

    def start(self, seconds: float) -> tuple["subprocess.Popen[str]", Path]:
        """Start it with its slow part; the process, and the file that the part names itself in."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        told, module = folder / "pid", folder / "test_slow.py"
        module.write_text(SLOW.format(path=str(told)))
        process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(folder / "scratch"), str(module), str(seconds)],
            env=python_environ({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, told

    def check_ended(self, number: int) -> None:
        """Its trial ends with it."""
        process, told = self.start(seconds=600)
        wait_for("the test", lambda: told.exists() and told.read_text().endswith("\n"))
        pid = int(told.read_text())
        process.send_signal(number)
        self.assertNotEqual(process.wait(SECONDS), 0)
        wait_for("its trial to end", lambda: not self.runs(pid))

    def test_a_trial_alone_behind_it(self) -> None:
        """Of what all tests leave behind one trial by hand finds nothing in its way."""
        folder = Path(self.mktemp()).absolute()
        (folder / SCRATCH / "a part").mkdir(parents=True)
        run = subprocess.run(
            [sys.executable, "-m", "twisted.trial", "tests.test_backoff"],
            env=python_environ({}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def runs(self, pid: int) -> bool:
        """Whether a process is there, and is more than what is left of one."""
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state != "Z":
            self.addCleanup(self.end, pid)
        return state != "Z"

    def end(self, pid: int) -> None:
        """End what a failure left behind."""
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGKILL)
