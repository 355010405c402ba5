"""The control plane put together, and every way its start can fail."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.service import ControlService
from omnigate.control_tap import OPTIONS, Options, makeService
from tests.control.plane import CONFIG


class TapTests(SynchronousTestCase):
    """makeService in an environment of the test."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.mkdir(self.folder)
        self.config = os.path.join(self.folder, "omnigate.toml")
        self.write(CONFIG)
        self.stderr = io.StringIO()
        self.patch(sys, "__stderr__", self.stderr)
        self.environ = {
            "OMNIGATE_INTERNAL_TOKEN": "internal-token-0123456789",
            "OMNIGATE_ADMIN_TOKEN": "admin-token-0123456789",
            "OMNIGATE_STATE_DIR": os.path.join(self.folder, "state"),
            "OMNIGATE_CONTROL_LISTEN": "tcp:0:interface=127.0.0.1",
        }
        self.patch(os, "environ", self.environ)

    def write(self, text: str) -> None:
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def make(self, *arguments: str) -> Any:
        options = Options()
        options.parseOptions(["--config", self.config, *arguments])
        return makeService(options)

    def refused(self, *arguments: str) -> list[str]:
        """Return the lines of a start that fails, each without its program's name."""
        error = self.assertRaises(SystemExit, self.make, *arguments)
        self.assertEqual(error.code, 1)
        lines = self.stderr.getvalue().splitlines()
        self.assertTrue(all(line.startswith("omnigate-control: ") for line in lines), lines)
        return [line.removeprefix("omnigate-control: ") for line in lines]

    def test_good(self) -> None:
        """With everything in place there is a service, and not a word on standard error."""
        self.assertIsInstance(self.make(), ControlService)
        self.assertEqual(self.stderr.getvalue(), "")

    def test_a_refused_start_lets_the_folder_go(self) -> None:
        """The next one is told what is wrong, and not that somebody has the folder."""
        self.write("nonsense = 1\n")
        first = self.refused()
        self.stderr.seek(0)
        self.stderr.truncate()
        self.assertEqual(self.refused(), first)
        self.write(CONFIG)
        self.assertIsInstance(self.make(), ControlService)

    def test_every_option_counts(self) -> None:
        """An option that was given is heard, whichever it is."""
        for name, value in (
            ("listen", "nowhere:1"),
            ("config", os.path.join(self.folder, "none.toml")),
            ("state-dir", self.config),
            ("trusted-proxies", "nobody"),
        ):
            with self.subTest(name):
                self.stderr.seek(0)
                self.stderr.truncate()
                self.assertTrue(self.refused(f"--{name}", value))
        self.assertEqual(list(OPTIONS), [name for name, *_ in Options.optParameters])

    def test_plugins(self) -> None:
        """twistd finds both daemons by their names."""
        found: Any = getPlugins(IServiceMaker)
        names = {plugin.tapname: plugin.module for plugin in found}
        self.assertEqual(names["omnigate-control"], "omnigate.control_tap")
        self.assertEqual(names["omnigate-data"], "omnigate.data_tap")

    def test_settings(self) -> None:
        """Every variable that is missing or malformed has its line, and no line a secret."""
        del self.environ["OMNIGATE_INTERNAL_TOKEN"]
        self.environ["OMNIGATE_ADMIN_TOKEN"] = "tiny"
        lines = self.refused()
        self.assertEqual([line.partition(":")[0] for line in lines], list(self.names()))
        self.assertNotIn("tiny", self.stderr.getvalue())

    def names(self) -> tuple[str, str]:
        return ("OMNIGATE_INTERNAL_TOKEN", "OMNIGATE_ADMIN_TOKEN")

    def test_one_fault(self) -> None:
        """A config with one fault is one line, with the file and the place."""
        self.write(CONFIG.replace("rpm", "rmp"))
        (line,) = self.refused()
        self.assertTrue(line.startswith(f'{self.config}: keys[0].rmp ("app"): unknown key'), line)

    def test_seven_faults(self) -> None:
        """A config with seven faults has them all listed."""
        bad = CONFIG.replace("rpm = 600", 'rmp = 600\nmax_concurrent = -1\nmodels = "fast"')
        bad = bad.replace('"daily"', '"hourly"').replace('protocol = "openai"', 'protocol = "x"')
        bad = bad.replace('upstream = "openai"', 'upstream = "opnai"').replace("0.60", '"a"')
        self.write(bad)
        lines = self.refused()
        self.assertEqual(lines[0], f"{self.config} has 7 faults:")
        self.assertEqual(len(lines), 8)

    def test_missing_config(self) -> None:
        """A file that is not there is one line, with its path and the setting."""
        os.unlink(self.config)
        (line,) = self.refused()
        self.assertIn(self.config, line)
        self.assertIn("OMNIGATE_CONFIG", line)

    def test_missing_key_variable(self) -> None:
        """A key whose variable is not set is a fault that names it."""
        self.write(CONFIG + '[[keys]]\nname = "web"\nkey_env = "OMNIGATE_KEY_WEB"\n')
        (line,) = self.refused()
        self.assertIn('keys[1].key_env ("web"): OMNIGATE_KEY_WEB is not set', line)
        self.environ["OMNIGATE_KEY_WEB"] = "file-key-0123456789"
        self.assertIsInstance(self.make(), ControlService)

    def test_state_folder(self) -> None:
        """A state folder that cannot be had names itself and the remedy."""
        (line,) = self.refused("--state-dir", "/proc/omnigate")
        self.assertIn("/proc/omnigate", line)
        self.assertIn("--state-dir", line)

    def test_listen(self) -> None:
        """An address that is none is refused before anything is opened."""
        (line,) = self.refused("--listen", "nonsense:1")
        self.assertIn("nonsense:1", line)
        self.assertIn("OMNIGATE_CONTROL_LISTEN", line)

    def test_damaged_keys(self) -> None:
        """A key file that cannot be read ends the start; nothing is started without its keys."""
        os.mkdir(self.environ["OMNIGATE_STATE_DIR"])
        path = os.path.join(self.environ["OMNIGATE_STATE_DIR"], "keys.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{")
        (line,) = self.refused()
        self.assertIn(path, line)

    def test_clashing_names(self) -> None:
        """A file key with the name of a managed key is a fault of the file."""
        os.mkdir(self.environ["OMNIGATE_STATE_DIR"])
        path = os.path.join(self.environ["OMNIGATE_STATE_DIR"], "keys.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                '{"version":1,"keys":[{"name":"app","sha256":"%s","created_ms":1}]}' % ("1" * 64)
            )
        (line,) = self.refused()
        self.assertIn("keys[0].name: a managed key has this name", line)
