"""``omnigate keys list|create|delete``: asks the admin API."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from omnigate.admin_client import client_from
from omnigate.commands.arguments import ASKS, CommandError, add_format, add_json, dollars
from omnigate.commands.table import print_listing, rows_of
from omnigate.periods import PERIODS
from omnigate.text import one_line

_KEY_COLUMNS = (
    "name",
    "source",
    "rpm",
    "max_concurrent",
    "models",
    "budget_usd",
    "soft_budget_usd",
    "budget_period",
    "budget_timezone",
    "spent_usd",
    "left_usd",
    "turns_at",
    "over_soft",
    "blocked",
)

#: Members of a new key that are sent as they were given.
_PLAIN = (
    "rpm",
    "max_concurrent",
    "budget_usd",
    "soft_budget_usd",
    "budget_period",
    "budget_timezone",
)


def add_keys(commands: Any) -> None:
    """Add the commands to the command line."""
    keys = commands.add_parser(
        "keys",
        help="list, create and delete gateway keys",
        description="List, create and delete gateway keys." + ASKS,
    )
    actions = keys.add_subparsers(metavar="ACTION", required=True)

    listed = actions.add_parser(
        "list",
        help="every key with its limits; never a secret",
        description="Show every key with its limits and what it spent." + ASKS,
    )
    add_format(listed)
    listed.set_defaults(run=_list_keys)

    create = actions.add_parser(
        "create",
        help="make a key; its secret is printed once",
        description="Make a key and print its secret, this once; a limit that is not given is no "
        "limit." + ASKS,
    )
    create.add_argument(
        "name", metavar="NAME", help="1 to 64 letters, digits, dots, underscores and hyphens"
    )
    create.add_argument("--rpm", type=int, metavar="N", help="requests a minute")
    create.add_argument(
        "--models", metavar="A,B*", help="only these models; a trailing * matches a prefix"
    )
    create.add_argument("--max-concurrent", type=int, metavar="N", help="requests in flight")
    create.add_argument("--budget-usd", metavar="USD", type=dollars, help="what it may spend")
    create.add_argument(
        "--soft-budget-usd",
        metavar="USD",
        type=dollars,
        help="what it may spend before the control plane tells of it; nothing is blocked for that",
    )
    create.add_argument("--budget-period", choices=PERIODS, help="default: total")
    create.add_argument(
        "--budget-timezone",
        metavar="ZONE",
        help="whose midnights the period begins at, such as Europe/Stockholm; default: UTC",
    )
    add_json(create)
    create.set_defaults(run=_create_key)

    delete = actions.add_parser(
        "delete",
        help="delete a managed key; it stops working within one poll of the data plane",
        description="Delete a key that was made with create. Data planes refuse it from their next "
        "poll on (OMNIGATE_POLL_MS, two seconds if not set)." + ASKS,
    )
    delete.add_argument("name", metavar="NAME", help="as keys list shows it")
    delete.set_defaults(run=_delete_key)


def _list_keys(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys list``."""
    rows = rows_of(client_from(environ).call("GET", "/admin/keys"), "keys")
    print_listing(options.format, "keys", rows, _KEY_COLUMNS)
    return 0


def _create_key(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys create``: the secret goes to standard output, alone."""
    body: dict[str, object] = {"name": options.name}
    if options.models is not None:
        body["models"] = [name.strip() for name in options.models.split(",") if name.strip()]
    for name in _PLAIN:
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
