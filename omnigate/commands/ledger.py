"""``omnigate ledger verify|export``: reads the ledger's files, beside a running control plane."""

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.commands.arguments import add_examples, utc_day, whole

_READS = (
    " Reads the files and changes nothing; the control plane may run meanwhile. The user must be "
    "one who may read them."
)


def add_ledger(commands: Any) -> None:
    """Add the commands to the command line."""
    ledger = commands.add_parser(
        "ledger",
        help="check the ledger's files, and export the recorded events",
        description="Check the ledger's files, and export the recorded events." + _READS,
    )
    actions = ledger.add_subparsers(metavar="ACTION", required=True)
    verifying = actions.add_parser(
        "verify",
        help="hold all files of the ledger against each other; status 1 if there is a difference",
        description="Sum up all events anew and compare with both snapshots, row by row; compare "
        "sealed segments with the checksums that were recorded, and id files with the events. "
        "Names the first differences with file and offset; status 1 if there is one." + _READS,
    )
    _add_reading(verifying)
    add_examples(
        verifying,
        """\
  omnigate ledger verify                    this machine's
  omnigate ledger verify /backup/control    a copy
""",
    )
    verifying.set_defaults(run=_verify)
    export = actions.add_parser(
        "export",
        help="the recorded events of some days, as JSON lines or as CSV",
        description="Write the events whose own time lies within the days, in the order in which "
        "they were recorded, each once. Status 1 if a line could not be read; the others are "
        "there." + _READS,
    )
    export.add_argument(
        "--since", metavar="DAY", type=utc_day, help="the first UTC day, such as 2026-11-01"
    )
    export.add_argument("--until", metavar="DAY", type=utc_day, help="the last UTC day")
    export.add_argument(
        "--format",
        choices=("jsonl", "csv"),
        default="jsonl",
        help="jsonl (default): the ledger's own lines; csv: for spreadsheets",
    )
    export.add_argument(
        "--output",
        metavar="FILE",
        help="write there instead of to standard output: the whole of it or nothing",
    )
    _add_reading(export)
    add_examples(
        export,
        """\
  omnigate ledger export --since 2026-11-01 --until 2026-11-30 --output november.jsonl
  omnigate ledger export --format csv | head
""",
    )
    export.set_defaults(run=_export)


def _add_reading(command: argparse.ArgumentParser) -> None:
    """Add what every command takes that reads the files."""
    command.add_argument(
        "--ids-days",
        metavar="N",
        type=whole,
        default=3,
        help="retention.ledger_ids_days of the config, if it is not 3",
    )
    command.add_argument(
        "--progress",
        action="store_true",
        help="tell how far it is, on standard error, also where that is no terminal",
    )
    command.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="the active segment, such as /var/lib/omnigate/control/ledger.jsonl, or its folder; "
        "where it is left out, what OMNIGATE_LEDGER or OMNIGATE_STATE_DIR say, or else the one of "
        "/var/lib/omnigate/control or /var/lib/omnigate",
    )


# The other commands need nothing of the ledger, and start in half the time without it.


def _verify(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate ledger verify``."""
    from omnigate.commands.ledger_files import run_verify

    return run_verify(options, environ)


def _export(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate ledger export``."""
    from omnigate.commands.ledger_files import run_export

    return run_export(options, environ)
