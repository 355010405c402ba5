"""``omnigate usage``: what was used and what it cost, as the admin API tells it."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from omnigate.admin_client import client_from
from omnigate.commands.arguments import ASKS, add_examples, add_format, utc_day
from omnigate.commands.table import print_table, rows_of
from omnigate.text import one_line

_COLUMNS = (
    "requests",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "cost_usd",
)

# What the answer is asked for as; the table is made of the JSON.
_ACCEPTED = {"table": "application/json", "json": "application/json", "csv": "text/csv"}


def add_usage(commands: Any) -> None:
    """Add the command to the command line."""
    usage = commands.add_parser(
        "usage",
        help="what was used and what it cost",
        description="Show what was used and what it cost, as the ledger has it." + ASKS,
    )
    usage.add_argument(
        "--by", choices=("key", "model", "upstream", "day"), default="key", help="default: key"
    )
    usage.add_argument(
        "--since", metavar="DAY", type=utc_day, help="the first UTC day, such as 2026-11-01"
    )
    usage.add_argument("--until", metavar="DAY", type=utc_day, help="the last UTC day")
    add_format(usage)
    add_examples(
        usage,
        """\
  omnigate usage --by model --since 2026-11-01
  omnigate usage --by day --format csv > days.csv
""",
    )
    usage.set_defaults(run=_usage)


def _usage(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate usage``."""
    query = {"by": options.by}
    for name in ("since", "until"):
        if getattr(options, name):
            query[name] = getattr(options, name)
    path = f"/admin/usage?{urlencode(query)}"
    client = client_from(environ)
    if options.format == "table":
        _print_usage(client.call("GET", path), options)
        return 0
    text = client.text("GET", path, accept=_ACCEPTED[options.format])
    sys.stdout.write(text if options.format == "csv" else text + "\n")
    return 0


def _print_usage(answer: Any, options: argparse.Namespace) -> None:
    """Print an answer as a table, the sum of all rows below them."""
    rows = [_named(row) for row in rows_of(answer, "rows")]
    total = answer.get("total")
    if len(rows) > 1 and isinstance(total, dict):
        rows.append({**total, options.by: "(total)"})
    print_table(rows, (options.by, *_COLUMNS))
    whole = answer.get("by_key_since")
    if options.by == "key" and isinstance(whole, str) and _reaches_before(whole, options):
        print(
            f"omnigate: sums by key are whole from {one_line(whole, 40)} on; days before it are "
            "kept by model, by upstream and by day only",
            file=sys.stderr,
        )


def _reaches_before(day: str, options: argparse.Namespace) -> bool:
    """Whether days before ``day`` were asked for.

    Without days a sum by key is the key's lifetime, which nothing is ever left out of.
    """
    if options.since is None:
        return options.until is not None
    return bool(options.since < day)


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A row of usage whose key is gone carries the beginning of its hash instead of a name."""
    if row.get("key") is None and isinstance(row.get("key_sha256"), str):
        return {**row, "key": f"(gone: {row['key_sha256'][:8]})"}
    return row
