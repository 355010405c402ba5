"""``omnigate top``: what goes on just now, on a terminal."""

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.commands.arguments import ASKS, add_examples


def add_top(commands: Any) -> None:
    """Add the command to the command line."""
    top = commands.add_parser(
        "top",
        help="what goes on just now: requests, models, keys, cost; q ends it",
        description="Show what goes on just now: rates, durations and cost of the newest requests "
        "in all, by model and by key, refusals, and the newest requests themselves. Is drawn anew "
        "every few seconds until q or Ctrl-C; where standard output is no terminal, one page is "
        "printed." + ASKS,
    )
    top.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_seconds,
        default=2.0,
        help="how often to ask, 0.5 to 3600; default: 2",
    )
    top.add_argument("--once", action="store_true", help="print one page, also on a terminal")
    add_examples(
        top,
        """\
  omnigate top                              until q or Ctrl-C
  omnigate top --once                       one page
""",
    )
    top.set_defaults(run=_top)


def _seconds(text: str) -> float:
    """Read a pause; argparse makes its error out of this function's."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.5 to 3600")
    return seconds


# The other commands need nothing of it, and start in half the time without it.


def _top(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate top``."""
    from omnigate.commands.top_screen import run_top

    return run_top(options, environ)
