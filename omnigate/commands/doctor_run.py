"""The work of ``omnigate doctor``: facts, findings, and how they are printed."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from omnigate.commands.arguments import counted
from omnigate.commands.doctor_checks import examine, healthy
from omnigate.commands.doctor_facts import gather
from omnigate.commands.doctor_finding import Finding
from omnigate.commands.plane_environ import plane_environs
from omnigate.commands.table import has_colour, print_csv, print_json
from omnigate.text import one_line

_COLUMNS = ("check", "state", "text", "remedy")
_COLOURS = {"fault": "\033[31m", "warning": "\033[33m", "ok": "\033[32m", "note": ""}
_PLAIN = "\033[0m"
_PIPE_COLUMNS = 100
# Some lines; what the planes say of themselves is shorter.
_TEXT_CHARS = 1000


def run_doctor(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Look, judge, tell; 0 where nothing is at fault."""
    findings = examine(gather(plane_environs(environ, options.dir), options.data_url))
    rows: list[dict[str, Any]] = [attrs.asdict(finding) for finding in findings]
    well = healthy(findings)
    if options.format == "json":
        print_json({"healthy": well, "findings": rows})
    elif options.format == "csv":
        print_csv(rows, _COLUMNS)
    else:
        _print(findings)
    return 0 if well else 1


def _print(findings: Sequence[Finding]) -> None:
    """Print a line for each finding, its remedy below it, and the sum of all."""
    terminal = sys.stdout.isatty()
    colour = terminal and has_colour(os.environ)
    room = shutil.get_terminal_size().columns if terminal else _PIPE_COLUMNS
    width = max(len(finding.check) for finding in findings)
    indent = " " * (9 + width + 2)
    for finding in findings:
        state = finding.state.ljust(7)
        if colour:
            state = f"{_COLOURS[finding.state]}{state}{_PLAIN}"
        text = one_line(finding.text, _TEXT_CHARS)
        lines = textwrap.wrap(text, max(room - len(indent), 30), break_on_hyphens=False)
        lines += textwrap.wrap(
            finding.remedy and f"-> {one_line(finding.remedy, _TEXT_CHARS)}",
            max(room - len(indent), 30),
            subsequent_indent="   ",
            break_on_hyphens=False,
        )
        print(f"{state}  {finding.check.ljust(width)}  {lines[0]}")
        for line in lines[1:]:
            print(indent + line)
    faults = sum(finding.state == "fault" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    print(f"\n{counted(faults, 'fault')}, {counted(warnings, 'warning')}")
