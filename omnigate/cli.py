"""The console script ``omnigate``: first steps, a look at both planes, keys, usage, the ledger.

Exit statuses: 0 done, 1 it did not work (with one line on standard error that says why), 2 the
arguments were wrong. ``check`` and ``ledger`` read files; ``keys`` and ``usage`` ask the admin API.
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence

import omnigate
from omnigate.text import one_line

# The commands are imported where they are needed: whoever asks for the version waits for none.

_VERSION = f"omnigate {omnigate.__version__}"

# Of what did not work; what a control plane says of it is cut at 2,000.
_TEXT_CHARS = 4_000

_EXAMPLES = """\
examples:
  omnigate init                        a config and secrets to start with, out of the environment
  omnigate doctor --dir run            what is wrong with both planes, and what to do about it
  omnigate demo --once                 both planes, one answer, its bill, and an exit status
  omnigate check etc/omnigate.toml     every fault of a config file
  omnigate keys create app --rpm 600 --models 'fast,claude-*' \\
      --budget-usd 50 --budget-period monthly
  omnigate keys list
  omnigate keys rotate app --grace 24h
  omnigate admin-keys create dashboard --scope read_only
  omnigate jobs list --status failed   media jobs that failed, and why
  omnigate usage --by model --since 2026-11-01
  omnigate usage --by day --format csv > days.csv
  omnigate audit --limit 100           who changed what
  omnigate top                         what goes on just now, until q
  omnigate ledger verify               whether all files of the ledger agree
  omnigate ledger export --since 2026-11-01 --until 2026-11-30 --output november.jsonl

ledger reads the control plane's files, which the user has to be allowed to;
keys, admin-keys, jobs, usage, audit and top talk to its admin API:
  OMNIGATE_ADMIN_TOKEN   its admin token (or OMNIGATE_ADMIN_TOKEN_FILE, a file that holds it)
  OMNIGATE_CONTROL_URL   where it is; {url} if not set

The two daemons are started with twistd: see twistd omnigate-data --help and
twistd omnigate-control --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    if sys.stderr is None:
        # Of a closed one print would write to standard output, in the midst of what belongs there.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            # Now, since what fails at the end of the interpreter is told by nobody.
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        _drop_output()
        return 1
    except OSError as error:
        # The commands tell of all files that they know by name.
        _tell(f"{error.filename or 'standard output'}: {error.strerror or error}")
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: Sequence[str]) -> int:
    """Run one command; whatever its output comes to is for :func:`main`.

    :raises OSError: the output cannot be written.
    """
    if list(arguments) == ["--version"]:
        print(_VERSION)
        return 0
    from omnigate.admin_client import AdminError
    from omnigate.commands.arguments import CommandError

    options = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace, Mapping[str, str]], int] = options.run
    if sys.stdout is None:
        # A key would be made whose secret nobody sees, a file be exported to nowhere.
        _tell("standard output is closed; lead it to /dev/null where nobody is to read it")
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the terminal's character set lacks is written as an escape.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return run(options, os.environ)
    except (CommandError, AdminError) as error:
        _tell(str(error))
        return error.status if isinstance(error, CommandError) else 1


def _tell(text: str) -> None:
    """Say in one line on standard error what did not work."""
    print(f"omnigate: {one_line(text, _TEXT_CHARS)}", file=sys.stderr)


def _drop_output() -> None:
    """Let nothing that is still to be written to standard output fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    from omnigate.admin_client import DEFAULT_URL
    from omnigate.commands.admin_keys import add_admin_keys
    from omnigate.commands.arguments import HelpText, add_examples
    from omnigate.commands.audit import add_audit
    from omnigate.commands.check import add_check
    from omnigate.commands.completion import add_completion
    from omnigate.commands.doctor import add_doctor
    from omnigate.commands.init import add_init
    from omnigate.commands.jobs import add_jobs
    from omnigate.commands.keys import add_keys
    from omnigate.commands.ledger import add_ledger
    from omnigate.commands.top import add_top
    from omnigate.commands.usage import add_usage

    top = argparse.ArgumentParser(
        prog="omnigate",
        description="omnigate: a self-hosted gateway between applications and model providers.",
        epilog=_EXAMPLES.format(url=DEFAULT_URL),
        formatter_class=HelpText,
    )
    top.add_argument("--version", action="version", version=_VERSION)
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

    add_examples(demo, "  omnigate demo --once && echo the bill was right\n")
    add_init(commands)
    add_check(commands)
    add_keys(commands)
    add_admin_keys(commands)
    add_jobs(commands)
    add_usage(commands)
    add_audit(commands)
    add_doctor(commands)
    add_top(commands)
    add_ledger(commands)
    add_completion(commands)
    return top


def _demo(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate demo``."""
    from omnigate.demo import run_demo

    return run_demo(once=options.once)


if __name__ == "__main__":
    sys.exit(main())
