"""``omnigate doctor``: whether both planes are well, each finding with what to do about it."""

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.commands.arguments import add_examples, add_format


def add_doctor(commands: Any) -> None:
    """Add the command to the command line."""
    doctor = commands.add_parser(
        "doctor",
        help="look at both planes and tell what is wrong, each with its remedy",
        description="Look at both planes and tell what is wrong, each with its remedy: whether "
        "they are there and ready, tokens, versions, config, clocks, disks, the ledger, usage that "
        "waits, credentials of providers, and whether their hosts can be reached. Status 0 where "
        "nothing is at fault, 1 otherwise; warnings alone are no fault. Changes nothing, and sends "
        "providers nothing.",
    )
    doctor.add_argument(
        "--dir",
        metavar="DIR",
        help="the folder with control.env and data.env, as omnigate init wrote it; what they set "
        "wins over the environment. Default: the environment, and /etc/omnigate where that has no "
        "OMNIGATE_ variable",
    )
    doctor.add_argument(
        "--data-url",
        metavar="URL",
        help="where the data plane is; default: what OMNIGATE_DATA_LISTEN says, on this machine",
    )
    add_format(doctor)
    add_examples(
        doctor,
        """\
  omnigate doctor --dir run                 beside both planes, with their environment files
  omnigate doctor                           the environment, or else /etc/omnigate
  omnigate doctor --json | jq -r '.findings[] | select(.state == "fault").remedy'
""",
    )
    doctor.set_defaults(run=_doctor)


# The other commands need nothing of it, and start in half the time without it.


def _doctor(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate doctor``."""
    from omnigate.commands.doctor_run import run_doctor

    return run_doctor(options, environ)
