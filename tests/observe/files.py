"""Where the dashboard and the alerts stand, and Prometheus' own tool to judge them by."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from twisted.trial.unittest import SkipTest

ETC: Final = Path(__file__).resolve().parent.parent.parent / "etc"
DASHBOARD_FILE: Final = ETC / "grafana.json"
ALERTS_FILE: Final = ETC / "alerts.yml"

#: It takes a second.
SECONDS: Final = 60


def shipped(path: Path) -> str:
    """The text of a file of ``etc/``, which only the checkout has."""
    if not path.is_file():
        raise SkipTest(f"{path.name} is in the checkout only, not in the installed package")
    return path.read_text("utf-8")


def promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    """Ask Prometheus' own tool.

    :return: its exit status, and what it said.
    """
    program = shutil.which("promtool")
    if program is None:
        raise SkipTest("there is no promtool here; Debian's package prometheus has it")
    run = subprocess.run(
        [program, *arguments], input=given, capture_output=True, timeout=SECONDS, check=False
    )
    return run.returncode, (run.stdout + run.stderr).decode()
