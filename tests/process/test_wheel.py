"""What pip installs: the wheel's contents, and that both daemons and the script run from it."""

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate import __version__
from omnigate.demo_children import python_environ
from tests.process.daemons import ROOT

#: A build in an environment of its own downloads its tools first.
SECONDS = 180

#: What an operator copies out of an installation, as the page on operations has it.
SHARED = (
    "etc/alerts.yml",
    "etc/control.env",
    "etc/data.env",
    "etc/grafana.json",
    "etc/omnigate.toml",
    "logrotate/omnigate",
    "systemd/omnigate-control.service",
    "systemd/omnigate-data.service",
    "systemd/omnigate-data.socket",
    "systemd/omnigate.target",
    "systemd/drop-ins/access-log.conf",
    "systemd/drop-ins/port-443.conf",
    "systemd/drop-ins/provider-keys.conf",
    "systemd/drop-ins/tls-credentials.conf",
    "systemd/drop-ins/tls.conf",
    "sysusers.d/omnigate.conf",
    "tmpfiles.d/omnigate.conf",
)

#: What shells and man find under the prefix of an installation.
FOUND = (
    "bash-completion/completions/omnigate",
    "man/man1/omnigate.1",
    "man/man5/omnigate.toml.5",
    "man/man8/omnigate-control.8",
    "man/man8/omnigate-data.8",
    "zsh/site-functions/_omnigate",
)

#: Why no wheel can be built on a machine, as pip says it.
_NO_BUILD = (
    "No module named pip",
    "invalid command 'bdist_wheel'",
    "Cannot import 'setuptools.build_meta'",
    "Could not find a version",
    "Failed to establish",
    "No matching distribution found",
)


def run(
    arguments: Sequence[str], folder: str, extra: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program without the checkout on its path."""
    environ = {**python_environ({}), "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(extra or {})}
    environ.pop("PYTHONPATH", None)
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class WheelTests(SynchronousTestCase):
    """A wheel built from the checkout, in an environment that has nothing else of ours."""

    def setUp(self) -> None:
        if not (ROOT / "setup.cfg").is_file():
            raise SkipTest("the wheel is built from a checkout only")
        folder = tempfile.TemporaryDirectory(prefix="omnigate-test-wheel-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def build(self) -> Path:
        """Build it with the tools that are there, else with those that pip can get."""
        source = self.folder / "source"
        source.mkdir()
        for part in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
            (source / part).write_bytes((ROOT / part).read_bytes())
        for part in ("omnigate", "twisted", "etc", "systemd", "completion", "manual"):
            (source / part).symlink_to(ROOT / part)
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "."]
        said = ""
        for how in (["--no-build-isolation", "--no-index"], []):
            done = run([*pip, *how, str(source)], str(self.folder))
            said = done.stderr + done.stdout
            if done.returncode == 0:
                (built,) = self.folder.glob("omnigate-*.whl")
                return built
            if not any(reason in said for reason in _NO_BUILD):
                raise AssertionError(said)
        raise SkipTest(f"no wheel can be built here: {said.strip().splitlines()[-1]}")

    def install(self, wheel: Path) -> Path:
        """Install it into a fresh environment, where the libraries are those of this one."""
        place = self.folder / "fresh"
        done = run([sys.executable, "-m", "venv", "--without-pip", str(place)], str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        python = place / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
        done = run([*pip, "--no-deps", "--no-index", str(wheel)], str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        (libraries,) = place.glob("lib/python*/site-packages")
        # Of a folder that a .pth file names no further .pth file is read: where omnigate itself
        # is installed from the checkout, it is not found by this way.
        paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (libraries / "libraries-of-the-tests.pth").write_text("\n".join(sorted(paths)) + "\n")
        return python

    def test_the_wheel(self) -> None:
        """Its files, its plugins beside Twisted's own, its console script, its data."""
        wheel = self.build()
        with zipfile.ZipFile(wheel) as contents:
            names = set(contents.namelist())
        for name in (
            "twisted/plugins/omnigate_plugin.py",
            "omnigate/config/prices.toml",
            "omnigate/config/models.toml",
            "omnigate/py.typed",
            *(f"omnigate-{__version__}.data/data/share/omnigate/{path}" for path in SHARED),
            *(f"omnigate-{__version__}.data/data/share/{path}" for path in FOUND),
        ):
            self.assertIn(name, names)
        # An __init__ would hide Twisted's own plugins; tests and benchmark stay in the checkout.
        self.assertFalse({"twisted/__init__.py", "twisted/plugins/__init__.py"} & names)
        self.assertFalse(
            [name for name in names if name.startswith(("tests/", "bench/", "manual/"))]
        )
        python = self.install(wheel)
        self.check_installed(python)

    def check_installed(self, python: Path) -> None:
        """Run what there is to run."""
        where = "import omnigate; print(omnigate.__file__)"
        done = run([str(python), "-c", where], str(self.folder))
        self.assertTrue(done.stdout.startswith(str(self.folder)), done.stdout + done.stderr)
        twistd = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
        done = run([str(python), "-c", twistd, "--help"], str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        for plane in ("omnigate-data", "omnigate-control"):
            self.assertIn(plane, done.stdout)
        for plane in ("omnigate-data", "omnigate-control"):
            done = run([str(python), "-c", twistd, plane, "--help"], str(self.folder))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("--state-dir", done.stdout)
        reactors = run([str(python), "-c", twistd, "--help-reactors"], str(self.folder))
        self.assertIn("omnigate", reactors.stdout)
        script = str(python.parent / "omnigate")
        done = run([script, "--help"], str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("demo", done.stdout)
        price = "from omnigate.config.prices import built_in_price as p; print(p('gpt-4o-mini'))"
        done = run([str(python), "-c", price], str(self.folder))
        self.assertIn("input=", done.stdout, done.stderr)
