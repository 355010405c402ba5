"""The console script ``omnigate``: a demonstration, a check of the config, keys and usage.

Exit statuses: 0 done, 1 it did not work (with one line on standard error that says why), 2 the
arguments were wrong. ``check`` reads a file; ``keys`` and ``usage`` ask the admin API.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from typing import Any
from urllib.parse import quote, urlencode

from omnigate.admin_client import DEFAULT_URL, AdminClient, AdminError, client_from
from omnigate.config.agreement import caps_of_other_protocol, models_of_no_route
from omnigate.config.schema import MAX_CONFIG_BYTES, ConfigError, load_config
from omnigate.text import one_line

_EXAMPLES = """\
examples:
  omnigate demo --once                 both planes, one answer, its bill, and an exit status
  omnigate check etc/omnigate.toml     every fault of a config file
  omnigate keys create app --rpm 600 --models 'fast,claude-*' \\
      --budget-usd 50 --budget-period monthly
  omnigate keys list
  omnigate keys delete app
  omnigate usage --by model --since 2026-11-01

keys and usage talk to the control plane's admin API:
  OMNIGATE_ADMIN_TOKEN   its admin token (or OMNIGATE_ADMIN_TOKEN_FILE, a file that holds it)
  OMNIGATE_CONTROL_URL   where it is; {url} if not set

The two daemons are started with twistd: see twistd omnigate-data --help and
twistd omnigate-control --help.
"""

#: Notes on one config that ``check`` prints; to look for what was meant takes milliseconds each.
_MAX_NOTES = 20

_ASKS = (
    " Asks the control plane at OMNIGATE_CONTROL_URL with the token in OMNIGATE_ADMIN_TOKEN; "
    "see omnigate --help."
)

_USAGE_COLUMNS = (
    "requests",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "cost_usd",
)
_KEY_COLUMNS = (
    "name",
    "source",
    "rpm",
    "max_concurrent",
    "models",
    "budget_usd",
    "budget_period",
    "spent_usd",
    "blocked",
)


class CommandError(Exception):
    """A command did not work; the text is for the person who gave it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace, Mapping[str, str]], int] = options.run
    try:
        return run(options, os.environ)
    except (CommandError, AdminError) as error:
        print(f"omnigate: {error}", file=sys.stderr)
        return 1
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

    check = commands.add_parser(
        "check",
        help="tell every fault of a config file; status 1 if there is one",
        description="Read a config file as the control plane would and tell every fault, each with "
        "its place; status 1 if there is one. What is no fault but may be a slip, a model of a key "
        "that no route has, is noted. No daemon is asked, and no variable is looked up.",
    )
    check.add_argument("config", metavar="CONFIG", help="the TOML file, such as etc/omnigate.toml")
    check.set_defaults(run=_check)

    _add_keys(commands)
    usage = commands.add_parser(
        "usage",
        help="what was used and what it cost",
        description="Show what was used and what it cost, as the ledger has it." + _ASKS,
    )
    usage.add_argument(
        "--by", choices=("key", "model", "upstream", "day"), default="key", help="default: key"
    )
    usage.add_argument("--since", metavar="DAY", help="the first UTC day, such as 2026-11-01")
    usage.add_argument("--until", metavar="DAY", help="the last UTC day")
    _add_json(usage)
    usage.set_defaults(run=_usage)
    return top


def _add_keys(commands: Any) -> None:
    """``omnigate keys list|create|delete``."""
    keys = commands.add_parser(
        "keys",
        help="list, create and delete gateway keys",
        description="List, create and delete gateway keys." + _ASKS,
    )
    actions = keys.add_subparsers(metavar="ACTION", required=True)

    listed = actions.add_parser(
        "list",
        help="every key with its limits; never a secret",
        description="Show every key with its limits and what it spent." + _ASKS,
    )
    _add_json(listed)
    listed.set_defaults(run=_list_keys)

    create = actions.add_parser(
        "create",
        help="make a key; its secret is printed once",
        description="Make a key and print its secret, this once; a limit that is not given is no "
        "limit." + _ASKS,
    )
    create.add_argument(
        "name", metavar="NAME", help="1 to 64 letters, digits, dots, underscores and hyphens"
    )
    create.add_argument("--rpm", type=int, metavar="N", help="requests a minute")
    create.add_argument(
        "--models", metavar="A,B*", help="only these models; a trailing * matches a prefix"
    )
    create.add_argument("--max-concurrent", type=int, metavar="N", help="requests in flight")
    create.add_argument("--budget-usd", metavar="USD", type=_dollars, help="what it may spend")
    create.add_argument(
        "--budget-period", choices=("daily", "monthly", "total"), help="default: total"
    )
    _add_json(create)
    create.set_defaults(run=_create_key)

    delete = actions.add_parser(
        "delete",
        help="delete a managed key; it stops working within one poll of the data plane",
        description="Delete a key that was made with create. Data planes refuse it from their next "
        "poll on (OMNIGATE_POLL_MS, two seconds if not set)." + _ASKS,
    )
    delete.add_argument("name", metavar="NAME", help="as keys list shows it")
    delete.set_defaults(run=_delete_key)


def _dollars(text: str) -> Decimal:
    """An amount of money; argparse makes its error out of this function's."""
    try:
        amount = Decimal(text)
    except ArithmeticError:
        amount = Decimal("nan")
    if not amount.is_finite():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of US dollars, such as 20 or 0.5")
    return amount


def _add_json(command: argparse.ArgumentParser) -> None:
    """The switch for programs that read along."""
    command.add_argument("--json", action="store_true", help="print the answer as JSON")


def _demo(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate demo``."""
    from omnigate.demo import run_demo

    return run_demo(once=options.once)


def _check(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate check``."""
    try:
        with open(options.config, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{options.config}: {error.strerror}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise CommandError(f"{options.config}: more than {MAX_CONFIG_BYTES} bytes")
    try:
        config = load_config(data.decode())
    except UnicodeDecodeError as error:
        raise CommandError(f"{options.config}: not UTF-8 at byte {error.start}") from None
    except ConfigError as error:
        for fault in error.faults:
            print(f"{options.config}: {fault}", file=sys.stderr)
        count = len(error.faults)
        print(f"omnigate: {count} {'fault' if count == 1 else 'faults'}", file=sys.stderr)
        return 1
    counts = [
        f"{len(found)} {what}{'' if len(found) == 1 else 's'}"
        for found, what in (
            (config.keys, "key"),
            (config.upstreams, "upstream"),
            (config.routes, "route"),
        )
    ]
    print(f"{options.config}: good, with {counts[0]}, {counts[1]} and {counts[2]}")
    notes = chain(models_of_no_route(config), caps_of_other_protocol(config))
    for note in islice(notes, _MAX_NOTES):
        print(f"{options.config}: note: {note}", file=sys.stderr)
    return 0


def _list_keys(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys list``."""
    _show(options, client_from(environ), "/admin/keys", "keys", _KEY_COLUMNS)
    return 0


def _create_key(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys create``: the secret goes to standard output, alone."""
    body: dict[str, object] = {"name": options.name}
    if options.models is not None:
        body["models"] = [name.strip() for name in options.models.split(",") if name.strip()]
    if options.budget_usd is not None:
        body["budget_usd"] = options.budget_usd
    for name in ("rpm", "max_concurrent", "budget_period"):
        value = getattr(options, name)
        if value is not None:
            body[name] = value
    client = client_from(environ)
    if options.json:
        print(client.text("POST", "/admin/keys", body))
        return 0
    answer = client.call("POST", "/admin/keys", body)
    secret = answer.get("secret") if isinstance(answer, dict) else None
    if not isinstance(secret, str):
        raise CommandError("the control plane made the key but told no secret; delete it")
    print(secret)
    print(
        "This is shown once. Keep it now; the gateway stores its hash only. Data planes take it "
        "from their next poll on (OMNIGATE_POLL_MS, two seconds if not set).",
        file=sys.stderr,
    )
    return 0


def _delete_key(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys delete``."""
    client_from(environ).call("DELETE", f"/admin/keys/{quote(options.name, safe='')}")
    print(f"deleted {one_line(options.name, 200)}", file=sys.stderr)
    return 0


def _usage(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate usage``."""
    query = {"by": options.by}
    for name in ("since", "until"):
        if getattr(options, name):
            query[name] = getattr(options, name)
    columns = (options.by, *_USAGE_COLUMNS)
    _show(options, client_from(environ), f"/admin/usage?{urlencode(query)}", "rows", columns)
    return 0


def _show(
    options: argparse.Namespace,
    client: AdminClient,
    path: str,
    member: str,
    columns: Sequence[str],
) -> None:
    """Print what a path answers, as it came or as a table."""
    if options.json:
        print(client.text("GET", path))
    else:
        _print_table(_rows(client.call("GET", path), member), columns)


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A row of usage whose key is gone carries the beginning of its hash instead of a name."""
    if row.get("key") is None and isinstance(row.get("key_sha256"), str):
        return {**row, "key": f"(gone: {row['key_sha256'][:8]})"}
    return row


def _rows(answer: Any, member: str) -> list[dict[str, Any]]:
    """The rows of an answer."""
    rows = answer.get(member) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CommandError(f"the control plane's answer has no {member}; are both of one version?")
    return [_named(row) for row in rows]


def _print_table(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    """Columns that are wide enough; text to the left, numbers to the right.

    A column that no row has is left out.
    """
    shown = [name for name in columns if any(name in row for row in rows)] or list(columns)
    cells = [[_cell(row.get(name)) for name in shown] for row in rows]
    widths = [
        max([len(name), *(len(line[place]) for line in cells)]) for place, name in enumerate(shown)
    ]
    numeric = [
        bool(rows) and all(_is_number(row.get(name)) or row.get(name) is None for row in rows)
        for name in shown
    ]
    for line in [list(shown), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    """One value as text in one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return ",".join(one_line(str(item), 100) for item in value)
    return one_line(str(value), 200)


def _is_number(value: object) -> bool:
    """Whether a value is shown to the right."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _version() -> str:
    """The installed version."""
    try:
        return f"omnigate {version('omnigate')}"
    except PackageNotFoundError:
        return "omnigate (from a checkout that is not installed)"


if __name__ == "__main__":
    sys.exit(main())
