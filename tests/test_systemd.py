"""The shipped systemd files, judged by systemd itself where it is installed."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.open_files import needed_files

UNITS = Path(__file__).parent.parent / "systemd"
SERVICES = ("omnigate-data.service", "omnigate-control.service")
# Tenths: an exposure of 2.0 and more is a failure.
EXPOSURE_THRESHOLD = 19


class UnitTests(SynchronousTestCase):
    """What stands in the units, and what systemd-analyze says of them."""

    def setUp(self) -> None:
        if not UNITS.is_dir():
            raise SkipTest("the units are in the checkout only, not in the installed package")
        self.folder = Path(tempfile.mkdtemp(prefix="omnigate-units-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for unit in UNITS.iterdir():
            if unit.is_file():
                # The programs are not installed where the test runs.
                text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text())
                (self.folder / unit.name).write_text(text)

    def analyze(self, *arguments: str) -> None:
        """Run systemd-analyze; any complaint fails the test."""
        program = shutil.which("systemd-analyze")
        if program is None:
            raise SkipTest("systemd-analyze is not installed")
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        said = done.stdout + done.stderr
        if "Failed to initialize manager" in said or "Unknown command verb" in said:
            raise SkipTest(f"systemd-analyze does not work here: {said.strip()[:200]}")
        self.assertEqual(done.returncode, 0, said)
        self.assertNotIn(str(self.folder), done.stderr)

    def test_verify(self) -> None:
        """Every unit is well formed and refers to nothing that is not there."""
        self.analyze("verify", *(str(path) for path in sorted(self.folder.iterdir())))

    def test_exposure(self) -> None:
        """Each service is less exposed than 2.0."""
        for name in SERVICES:
            self.analyze(
                "security",
                "--offline=true",
                "--no-pager",
                f"--threshold={EXPOSURE_THRESHOLD}",
                str(self.folder / name),
            )

    def test_drop_ins(self) -> None:
        """Each drop-in is as well formed as what it is for, and no more exposed."""
        for path in sorted((UNITS / "drop-ins").glob("*.conf")):
            for_what = re.search(r"For (omnigate-data\.(?:service|socket))\.d", path.read_text())
            assert for_what is not None, path
            place = self.folder / f"{for_what[1]}.d"
            place.mkdir()
            (place / path.name).write_text(path.read_text())
            units = [path for path in sorted(self.folder.iterdir()) if path.is_file()]
            self.analyze("verify", *(str(unit) for unit in units))
            shutil.rmtree(place)

    def test_both_are_reloaded_and_watched(self) -> None:
        """SIGHUP reads files anew, a loop that stands still is noticed, and files are enough."""
        for name in SERVICES:
            text = (UNITS / name).read_text()
            self.assertIn("\nExecReload=/bin/kill -HUP $MAINPID\n", text)
            self.assertIn("\nType=notify\n", text)
            self.assertRegex(text, r"\nWatchdogSec=[0-9]+\n")
            limit = re.search(r"\nLimitNOFILE=([0-9]+)\n", text)
            assert limit is not None
            self.assertGreaterEqual(int(limit[1]), needed_files(10_000))

    def test_tls_stays_possible(self) -> None:
        """MemoryDenyWriteExecute= would break the TLS callbacks."""
        for name in SERVICES:
            self.assertNotIn("\nMemoryDenyWriteExecute", (UNITS / name).read_text())

    def test_secrets_are_split(self) -> None:
        """The data plane is never handed the admin token."""
        data, control = ((UNITS / name).read_text() for name in SERVICES)
        self.assertIn("LoadCredential=omnigate_internal_token:", data)
        self.assertNotIn("admin_token", data)
        self.assertIn("LoadCredential=omnigate_admin_token:", control)

    def test_the_socket_is_the_one_the_service_takes(self) -> None:
        """The listener names the descriptor that the socket unit hands over."""
        socket = (UNITS / "omnigate-data.socket").read_text()
        found = re.search(r"(?m)^FileDescriptorName=(\w+)$", socket)
        assert found is not None
        listener = f"OMNIGATE_DATA_LISTEN=systemd:domain=INET:name={found[1]}"
        self.assertIn(listener, (UNITS / SERVICES[0]).read_text())
