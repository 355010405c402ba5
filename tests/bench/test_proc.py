"""What is read out of /proc, and who gets which core."""

import os
import subprocess
import sys
import time

from twisted.trial.unittest import SynchronousTestCase

from bench import proc
from bench.proc import Cores, choose_cores

STAT = (
    "4242 (odd ) name (x) S 1 4242 4242 0 -1 4194560 9000 0 12 0 "
    "731 269 0 0 20 0 5 0 123456 987654321 14000 18446744073709551615"
)
STATUS = "Name:\tpython\nVmPeak:\t  300000 kB\nVmHWM:\t   61440 kB\nVmRSS:\t   57344 kB\n"


class FamilyTests(SynchronousTestCase):
    def test_children(self) -> None:
        """A process is counted with what it started, and with what that started."""
        script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'open(0).read()'])"
        started = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self.addCleanup(started.communicate)
        end = time.monotonic() + 30
        while len(family := proc.family(started.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual((family[0], len(family)), (started.pid, 2))
        self.assertIn(started.pid, proc.family(os.getpid()))
        self.assertEqual(proc.family(None), [])
        self.assertRaises(OSError, proc.family, 2**22 + 1)


class ParseTests(SynchronousTestCase):
    def test_processor_time(self) -> None:
        """User and system time are found behind a name that looks like fields."""
        self.assertEqual(proc.parse_cpu_ticks(STAT), 1000)

    def test_machine(self) -> None:
        """Idle, waiting and stolen time is no work, and guests are counted in user time already."""
        self.assertEqual(proc.parse_busy_ticks("cpu  100 20 30 4000 500 6 7 80 90 9"), 163)

    def test_sizes(self) -> None:
        """Sizes are told in bytes; one that is not there is an error with its name."""
        self.assertEqual(proc.parse_kib(STATUS, "VmRSS"), 57344 * 1024)
        self.assertEqual(proc.parse_kib(STATUS, "VmHWM"), 61440 * 1024)
        self.assertIn("VmSwap", str(self.assertRaises(OSError, proc.parse_kib, STATUS, "VmSwap")))

    def test_cores(self) -> None:
        """The measured one gets the first core; a single core is not shared out."""
        self.assertEqual(choose_cores({3}), Cores(None, None))
        self.assertEqual(choose_cores({1, 0}), Cores(frozenset({0}), frozenset({1})))
        self.assertEqual(choose_cores({5, 2, 7}), Cores(frozenset({2}), frozenset({5, 7})))


class OwnProcessTests(SynchronousTestCase):
    def test_this_process(self) -> None:
        """What is told of this process is what it knows of itself."""
        spent = time.process_time()
        self.assertApproximates(proc.cpu_seconds(os.getpid()), spent, 0.1)
        self.assertGreater(proc.busy_seconds(), 0)
        self.assertTrue(5 < proc.memory_mb(os.getpid(), "VmRSS") < 5000)

    def test_cores_are_given_back(self) -> None:
        """After a while on some cores all is as before."""
        before = os.sched_getaffinity(0)
        with proc.on_cores(frozenset({min(before)})):
            self.assertEqual(os.sched_getaffinity(0), {min(before)})
        self.assertEqual(os.sched_getaffinity(0), before)
        with proc.on_cores(None):
            self.assertEqual(os.sched_getaffinity(0), before)
