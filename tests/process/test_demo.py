"""The demonstration as a user runs it, and the wheel it may be run from."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.demo_children import python_environ

ROOT = Path(__file__).resolve().parent.parent.parent
# The answer is paced for people to read and takes three seconds; a loaded machine more.
SECONDS = 120


def processes_with(word: str) -> list[int]:
    """Processes that have a word in their environment or command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in text and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


class DemoTests(SynchronousTestCase):
    """omnigate demo."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="omnigate-test-demo-")
        self.addCleanup(self.folder.cleanup)
        # The temporary folder of the demonstration lies in this one, and so marks its processes.
        self.environ = python_environ({"TMPDIR": self.folder.name})

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start it; it is gone when the test ends."""
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigate.cli", "demo", *arguments],
            env=self.environ,
            cwd=self.folder.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        return process

    def check_nothing_is_left(self) -> None:
        """No process and no file of the demonstration."""
        self.assertEqual(processes_with(self.folder.name), [])
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_once(self) -> None:
        """One answer whose bill is right, status 0, and nothing left behind."""
        process = self.start("--once")
        output, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("The bill is right.", output)
        self.assertIn("every word you read here was counted", output)
        self.check_nothing_is_left()

    def test_ctrl_c(self) -> None:
        """It stays up with lines to paste until Ctrl-C, which is a clean end."""
        process = self.start()
        assert process.stdout is not None
        lines: list[str] = []
        end = time.monotonic() + SECONDS
        while not (lines and "Ctrl-C ends" in lines[-1]) and time.monotonic() < end:
            lines.append(process.stdout.readline())
            self.assertNotEqual(lines[-1], "", "".join(lines))
        self.assertEqual(sum(line.startswith("curl ") for line in lines), 3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, output)
        self.check_nothing_is_left()


class WheelTests(SynchronousTestCase):
    """What pip would install."""

    def test_the_wheel_has_plugins_and_data(self) -> None:
        """The plugins lie beside Twisted's own, without an __init__ that would hide those."""
        if not (ROOT / "setup.cfg").is_file():
            raise SkipTest("the wheel is built from a checkout only")
        with tempfile.TemporaryDirectory(prefix="omnigate-test-wheel-") as name:
            source = Path(name, "source")
            source.mkdir()
            for part in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
                (source / part).write_bytes((ROOT / part).read_bytes())
            for part in ("omnigate", "twisted"):
                (source / part).symlink_to(ROOT / part)
            build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", name]
            done = subprocess.run(
                [*build, str(source)], capture_output=True, text=True, timeout=SECONDS, check=False
            )
            for reason in (
                "No module named pip",
                "Could not find a version",
                "Failed to establish",
            ):
                if reason in done.stderr:
                    raise SkipTest(f"no wheel can be built here: {reason}")
            self.assertEqual(done.returncode, 0, done.stderr)
            (built,) = Path(name).glob("omnigate-*.whl")
            with zipfile.ZipFile(built) as wheel:
                names = set(wheel.namelist())
        self.assertIn("twisted/plugins/omnigate_plugin.py", names)
        self.assertIn("omnigate/config/prices.toml", names)
        self.assertIn("omnigate/py.typed", names)
        self.assertFalse({"twisted/__init__.py", "twisted/plugins/__init__.py"} & names)
