"""The demonstration as a user runs it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import python_environ
from tests.process.test_try import Browser

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
        self.assertEqual(output.count("The bill is right."), 2, output)
        self.assertIn("its signature is right", output)
        self.assertIn("every word you read here was counted", output)
        self.check_nothing_is_left()

    def test_ctrl_c(self) -> None:
        """It stays up with a dashboard and lines to paste until Ctrl-C, which is a clean end."""
        process = self.start()
        assert process.stdout is not None
        lines: list[str] = []
        end = time.monotonic() + SECONDS
        while not (lines and "Ctrl-C ends" in lines[-1]) and time.monotonic() < end:
            lines.append(process.stdout.readline())
            self.assertNotEqual(lines[-1], "", "".join(lines))
        self.assertEqual(sum(line.startswith("curl ") for line in lines), 5)
        # The picture is there to be looked at as long as the demonstration goes on.
        (picture,) = [line.strip() for line in lines if line.strip().endswith("demo-picture.png")]
        self.assertEqual(Path(picture).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        # A request is tried on the dashboard by no more than what was told.
        told = {line[2:17].strip(): line[17:].strip() for line in lines if line[:2] == "  "}
        port = int(told["dashboard"].rstrip("/").rpartition(":")[2])
        seen = Browser(port, told["sign in with"]).watch("demo", source="made", secret="")
        self.assertIn("The answer is whole.", seen["outcome"])
        self.assertIn("$0.0000", seen["bill"])
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, output)
        self.check_nothing_is_left()
