"""Tests for the pages of the manual: what they tell, and that those who read them find no fault."""

import shutil
import subprocess
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from manual.pages import PAGES, SectionError, docs, pages
from omnigate import cli
from omnigate.commands.spelling import spelled
from omnigate.settings_table import SETTINGS

ROOT = Path(__file__).resolve().parent.parent.parent


class PageTests(SynchronousTestCase):
    """The pages."""

    def test_everything_is_told(self) -> None:
        """Each command with its options, and each setting of a plane."""
        written = pages()
        text = written["omnigate.1"].replace("\\-", "-")
        for command in spelled(cli.parser()).walk():
            if not command.children:
                self.assertIn(f".SS \\fBomnigate {' '.join(command.path)}\\fR", text)
                for option in command.options:
                    for name in option.names:
                        if name not in ("-h", "--help"):
                            self.assertIn(f"\\fB{name}\\fR", text)
        for plane in ("control", "data"):
            page = written[f"omnigate-{plane}.8"]
            for setting in SETTINGS:
                told = f"\n\\fB{setting.name}\\fR\n" in page
                self.assertEqual(told, plane in setting.planes, setting.name)

    def test_a_section_that_is_gone(self) -> None:
        """It is told which one is missed."""
        self.assertRaises(SectionError, docs, "configuration.md", "No such section")

    def check(self, *command: str) -> None:
        """A program that reads pages says nothing of any of ours."""
        if not shutil.which(command[0]):
            raise SkipTest(f"{command[0]} is not installed")
        for name in PAGES:
            run = subprocess.run(
                [*command, str(ROOT / "manual" / name)], capture_output=True, text=True
            )
            self.assertEqual((run.returncode, run.stderr), (0, ""), name)
            if "lint" in command:
                self.assertEqual(run.stdout, "", name)

    def test_man(self) -> None:
        """man warns of nothing."""
        self.check("man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l")

    def test_mandoc(self) -> None:
        """Nor does the stricter one."""
        self.check("mandoc", "-T", "lint", "-W", "warning")
