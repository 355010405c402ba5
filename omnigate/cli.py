"""The console script ``omnigate``: a demonstration, a check of the config, keys, usage, the ledger.

Exit statuses: 0 done, 1 it did not work (with one line on standard error that says why), 2 the
arguments were wrong. ``check`` and ``ledger`` read files; ``keys`` and ``usage`` ask the admin API.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from omnigate.admin_client import DEFAULT_URL, AdminError
from omnigate.commands.arguments import CommandError
from omnigate.commands.check import add_check
from omnigate.commands.keys import add_keys
from omnigate.commands.ledger import add_ledger
from omnigate.commands.usage import add_usage

_EXAMPLES = """\
examples:
  omnigate demo --once                 both planes, one answer, its bill, and an exit status
  omnigate check etc/omnigate.toml     every fault of a config file
  omnigate keys create app --rpm 600 --models 'fast,claude-*' \\
      --budget-usd 50 --budget-period monthly
  omnigate keys list
  omnigate keys delete app
  omnigate usage --by model --since 2026-11-01
  omnigate usage --by day --format csv > days.csv
  omnigate ledger verify               whether all files of the ledger agree
  omnigate ledger export --since 2026-11-01 --until 2026-11-30 --output november.jsonl

ledger reads the control plane's files, which the user has to be allowed to;
keys and usage talk to its admin API:
  OMNIGATE_ADMIN_TOKEN   its admin token (or OMNIGATE_ADMIN_TOKEN_FILE, a file that holds it)
  OMNIGATE_CONTROL_URL   where it is; {url} if not set

The two daemons are started with twistd: see twistd omnigate-data --help and
twistd omnigate-control --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace, Mapping[str, str]], int] = options.run
    try:
        return run(options, os.environ)
    except (CommandError, AdminError) as error:
        print(f"omnigate: {error}", file=sys.stderr)
        return error.status if isinstance(error, CommandError) else 1
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="omnigate",
        description="omnigate: a self-hosted gateway between applications and model providers.",
        epilog=_EXAMPLES.format(url=DEFAULT_URL),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=_version())
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="both planes and a fake provider on loopback, with one answer and its bill",
        description="Start both planes and a fake provider on free loopback ports, in a temporary "
        "folder; ask for one streamed answer; show what the ledger says it cost. Stays up until "
        "Ctrl-C.",
    )
    demo.add_argument(
        "--once",
        action="store_true",
        help="end after the answer, with status 0 only if the bill was right",
    )
    demo.set_defaults(run=_demo)

    add_check(commands)
    add_keys(commands)
    add_usage(commands)
    add_ledger(commands)
    return top


def _demo(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate demo``."""
    from omnigate.demo import run_demo

    return run_demo(once=options.once)


def _version() -> str:
    """The installed version."""
    try:
        return f"omnigate {version('omnigate')}"
    except PackageNotFoundError:
        return "omnigate (from a checkout that is not installed)"


if __name__ == "__main__":
    sys.exit(main())
