"""Child processes of the demonstration."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from omnigate import demo_children
from omnigate.demo_children import Child, ChildError, Children, free_ports, python_environ, twistd


def alive(pid: int) -> bool:
    """Whether a process runs (a dead one that nobody waited for does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


class ChildTests(SynchronousTestCase):
    """Child and Children."""

    def child(self, code: str, read_output: bool = False) -> Child:
        """A child that runs some Python; stopped when the test ends."""
        folder = Path(self.mktemp())
        folder.mkdir()
        command = [sys.executable, "-c", code]
        child = Child("child", command, python_environ({}), folder, read_output)
        self.addCleanup(child.stop)
        return child

    def test_first_line(self) -> None:
        """The first line of the output is told, the rest is left."""
        child = self.child("print('one'); print('two')", read_output=True)
        self.assertEqual(child.first_line(), "one")

    def test_no_first_line(self) -> None:
        """A child that ends without a word shows its log."""
        child = self.child("import sys; sys.exit('no such thing')", read_output=True)
        error = self.assertRaises(ChildError, child.first_line)
        self.assertIn("child said nothing", str(error))
        self.assertIn("    no such thing", str(error))

    def test_ends_instead_of_being_ready(self) -> None:
        """The status and the end of the log are told."""
        child = self.child("print('line\\n' * 100 + 'last'); raise SystemExit(3)")
        (port,) = free_ports(1)
        error = self.assertRaises(ChildError, child.wait_ready, port)
        self.assertIn("child ended with status 3", str(error))
        self.assertTrue(str(error).endswith("    last"))
        self.assertEqual(str(error).count("    line"), demo_children.TAIL_LINES - 1)

    def test_never_ready(self) -> None:
        """A child that does not listen is given up after a time."""
        self.patch(demo_children, "READY_SECONDS", 0.1)
        child = self.child("import time; time.sleep(60)")
        (port,) = free_ports(1)
        error = self.assertRaises(ChildError, child.wait_ready, port)
        self.assertIn(f"was not ready on port {port}", str(error))

    def test_all_are_stopped(self) -> None:
        """Whatever ends the group, no child is left, not even one that ignores SIGTERM."""
        self.patch(demo_children, "STOP_SECONDS", 0.2)
        stubborn = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "print('up', flush=True); time.sleep(60)"
        )
        children = [
            self.child(stubborn, read_output=True),
            self.child("import time; time.sleep(60)"),
        ]

        def fail() -> None:
            with Children() as group:
                for child in children:
                    group.add(child)
                children[0].first_line()
                self.assertIsNone(group.ended())
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, fail)
        self.assertFalse(any(child.running() for child in children))

    def test_an_ended_child_is_noticed(self) -> None:
        """The group tells which one it was."""
        with Children() as group:
            child = group.add(self.child("pass"))
            end = time.monotonic() + 10
            while child.running() and time.monotonic() < end:
                time.sleep(0.01)
            self.assertIs(group.ended(), child)

    def test_children_end_with_a_killed_parent(self) -> None:
        """kill -9 of the parent leaves nothing behind on Linux."""
        if not sys.platform.startswith("linux"):
            self.skipTest("only Linux tells a child of its parent's end")
        code = (
            "import sys, time\nfrom pathlib import Path\n"
            "from omnigate.demo_children import Child, python_environ\n"
            "c = Child('c', [sys.executable, '-c', 'import time; time.sleep(60)'],"
            " python_environ({}), Path('.'))\n"
            "print(c._process.pid, flush=True)\ntime.sleep(60)\n"
        )
        folder = Path(self.mktemp())
        folder.mkdir()
        parent = subprocess.Popen(
            [sys.executable, "-c", code], env=python_environ({}), cwd=folder, stdout=subprocess.PIPE
        )
        assert parent.stdout is not None
        with parent.stdout as output:
            pid = int(output.readline())
        self.assertTrue(alive(pid))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        end = time.monotonic() + 10
        while alive(pid) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(alive(pid))


class SurroundingsTests(SynchronousTestCase):
    """Ports, environment and commands."""

    def test_ports_differ(self) -> None:
        """Each is another one."""
        self.assertEqual(len(set(free_ports(5))), 5)

    def test_settings_of_the_surroundings_do_not_leak_in(self) -> None:
        """What a shell or systemd set for a real gateway is not the demonstration's."""
        self.patch(
            os,
            "environ",
            {
                "OMNIGATE_CONFIG": "/etc/x",
                "NOTIFY_SOCKET": "/run/x",
                "HOME": "/h",
                "LISTEN_FDS": "1",
            },
        )
        environ = python_environ({"OMNIGATE_SPOOL": "s"})
        self.assertEqual(environ["HOME"], "/h")
        self.assertEqual(
            {name for name in environ if name.startswith(("OMNIGATE_", "NOTIFY_", "LISTEN_"))},
            {"OMNIGATE_SPOOL"},
        )

    def test_twistd_is_this_pythons(self) -> None:
        """The daemons run with the Python that runs the demonstration."""
        command = twistd("omnigate-data")
        self.assertEqual((command[0], command[-1]), (sys.executable, "omnigate-data"))
