"""``omnigate audit``: who changed what, as the admin API tells it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.admin_client import client_from
from omnigate.commands.arguments import ASKS, CommandError, add_examples, add_format, whole
from omnigate.commands.table import json_text, print_listing, rows_of

_COLUMNS = ("ts", "seq", "actor", "action", "target", "outcome", "address", "detail", "request_id")
#: What a table leaves to the other shapes: it finds a request in a log, and fills a screen.
_TOLD = _COLUMNS[:-1]

_DEFAULT_LINES = 20
# One call tells a screen or ten of them.
_PAGE_LINES = 100


def add_audit(commands: Any) -> None:
    """Add the command to the command line."""
    audit = commands.add_parser(
        "audit",
        help="who changed what, and who failed to sign in, the newest first",
        description="Show the newest lines of the audit log: who changed what, and who failed to "
        "sign in. The control plane keeps the last 1,000 at hand; older ones are in its files."
        + ASKS,
    )
    audit.add_argument(
        "--limit",
        metavar="N",
        type=whole,
        default=_DEFAULT_LINES,
        help=f"how many lines to show; default: {_DEFAULT_LINES}",
    )
    add_format(audit)
    add_examples(
        audit,
        """\
  omnigate audit
  omnigate audit --limit 1000 --format csv > audit.csv
  omnigate audit --limit 500 --json | jq -c '.entries[] | select(.action == "key.rotate")'
""",
    )
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate audit``: asks for page after page until there are so many, or no more."""
    client = client_from(environ)
    rows: list[dict[str, Any]] = []
    before: int | None = None
    while len(rows) < options.limit:
        limit = min(options.limit - len(rows), _PAGE_LINES)
        query = f"limit={limit}" if before is None else f"limit={limit}&before={before}"
        answer = client.call("GET", f"/admin/audit?{query}")
        page = rows_of(answer, "entries")
        rows += page
        following = answer.get("next")
        if not page or not isinstance(following, int):
            break
        if before is not None and following >= before:
            raise CommandError("the control plane's pages of the log do not go on; ask it again")
        before = following
    if options.format != "json":
        # The members of a change, as they stand in the log.
        rows = [{**row, "detail": _words(row.get("detail"))} for row in rows]
    columns = _TOLD if options.format == "table" else _COLUMNS
    print_listing(options.format, "entries", rows, columns)
    return 0


def _words(detail: object) -> str | None:
    """What was changed, in one text; None where there is nothing to tell."""
    return json_text(detail) if detail else None
