"""``omnigate admin-keys list|create|rotate|change|delete``: asks the admin API."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from omnigate.admin_client import client_from
from omnigate.commands.arguments import ASKS, add_examples, add_format, add_json
from omnigate.commands.key_arguments import (
    add_confines,
    add_grace,
    add_name,
    add_unset,
    change_key,
    changes_of,
    delete_key,
    given,
    path_of,
    shown_once,
)
from omnigate.commands.table import print_listing, rows_of

_COLUMNS = (
    "name",
    "scope",
    "disabled",
    "allowed_ips",
    "created_at",
    "expires_at",
    "rotated_at",
    "old_secrets_until",
)
_SCOPES = ("full", "read_only")
_REMOVABLE = ("allowed_ips", "expires_at")
_MEMBERS = ("scope", *_REMOVABLE)
_NAME = "as admin-keys list shows it"


def add_admin_keys(commands: Any) -> None:
    """Add the commands to the command line."""
    keys = commands.add_parser(
        "admin-keys",
        help="list, make, change, rotate and delete credentials of the admin API",
        description="Admin keys open the admin API in the place of the admin token: one for each "
        "person and program, so that the audit log tells them apart and one of them can be taken "
        "away." + ASKS,
    )
    actions = keys.add_subparsers(metavar="ACTION", required=True)

    listing = actions.add_parser(
        "list",
        help="every admin key; never a secret",
        description="Show every admin key with what it may do." + ASKS,
    )
    add_format(listing)
    add_examples(listing, "  omnigate admin-keys list\n")
    listing.set_defaults(run=_list)
    _add_create(actions)
    _add_rotate(actions)
    _add_change(actions)

    delete = actions.add_parser(
        "delete",
        help="delete an admin key; it opens nothing from then on",
        description="Delete an admin key. It opens nothing from then on." + ASKS,
    )
    add_name(delete, _NAME)
    add_examples(delete, "  omnigate admin-keys delete ann\n")
    delete.set_defaults(run=_delete)


def _add_create(actions: Any) -> None:
    create = actions.add_parser(
        "create",
        help="make an admin key; its secret is printed once",
        description="Make an admin key and print its secret, this once." + ASKS,
    )
    add_name(create, "1 to 64 letters, digits, dots, underscores and hyphens")
    create.add_argument(
        "--scope",
        choices=_SCOPES,
        required=True,
        help="whether it may change anything, or look only",
    )
    add_confines(create)
    add_json(create)
    add_examples(
        create,
        "  omnigate admin-keys create dashboard --scope read_only --allowed-ips 10.0.0.0/8\n",
    )
    create.set_defaults(run=_create)


def _add_rotate(actions: Any) -> None:
    rotate = actions.add_parser(
        "rotate",
        help="give an admin key a new secret, which is printed once",
        description="Make a new secret for an admin key and print it, this once." + ASKS,
    )
    add_name(rotate, _NAME)
    add_grace(rotate)
    add_json(rotate)
    add_examples(rotate, "  omnigate admin-keys rotate dashboard --grace 1h\n")
    rotate.set_defaults(run=_rotate)


def _add_change(actions: Any) -> None:
    change = actions.add_parser(
        "change",
        help="change what an admin key may do, disable it or enable it",
        description="Change what is given, and leave the rest. It is in force at once." + ASKS,
    )
    add_name(change, _NAME)
    change.add_argument("--scope", choices=_SCOPES, help="change anything, or look only")
    add_confines(change)
    add_unset(change, _REMOVABLE)
    state = change.add_mutually_exclusive_group()
    state.add_argument(
        "--disable", action="store_const", const=True, dest="disabled", help="let it open nothing"
    )
    state.add_argument(
        "--enable", action="store_const", const=False, dest="disabled", help="let it work again"
    )
    add_json(change)
    add_examples(change, "  omnigate admin-keys change ann --disable\n")
    change.set_defaults(run=_change)


def _list(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate admin-keys list``."""
    rows = rows_of(client_from(environ).call("GET", "/admin/admin-keys"), "keys")
    print_listing(options.format, "keys", rows, _COLUMNS)
    return 0


def _create(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate admin-keys create``: the secret goes to standard output, alone."""
    body = {"name": options.name, **given(options, _MEMBERS)}
    words = "It works at once, in OMNIGATE_ADMIN_TOKEN as the admin token does."
    return shown_once(options, client_from(environ), "/admin/admin-keys", body, words)


def _rotate(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate admin-keys rotate``: the secret goes to standard output, alone."""
    path = path_of("admin-keys", options.name, "rotate")
    body = {"grace_s": options.grace}
    return shown_once(options, client_from(environ), path, body, "It works at once.")


def _change(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate admin-keys change``."""
    body = changes_of(options, (*_MEMBERS, "disabled"), _REMOVABLE)
    return change_key(options, client_from(environ), "admin-keys", body)


def _delete(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate admin-keys delete``."""
    return delete_key(options, client_from(environ), "admin-keys")
