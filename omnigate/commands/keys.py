"""``omnigate keys``: lists, makes and changes gateway keys, by the admin API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from omnigate.admin_client import client_from
from omnigate.commands.arguments import ASKS, add_examples, add_format, add_json, dollars, whole
from omnigate.commands.key_arguments import (
    add_confines,
    add_grace,
    add_name,
    add_unset,
    change_key,
    changes_of,
    delete_key,
    duration,
    given,
    listed,
    pages,
    path_of,
    show,
    shown_once,
)
from omnigate.commands.table import print_listing
from omnigate.control.webhook_secret import DEFAULT_GRACE_S
from omnigate.periods import PERIODS
from omnigate.text import one_line

_COLUMNS = (
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
    "tpm",
    "allowed_ips",
    "endpoints",
    "expires_at",
    "disabled",
    "old_secrets_until",
    "max_open_jobs",
    "max_jobs_per_day",
    "age_recipients",
    "signs_webhooks",
    "old_webhook_secrets_until",
)
_DETAILS = (*_COLUMNS, "rotated_at", "created_at", "key_sha256")

#: Members that most keys have nothing of: a table shows them where one has.
_RARE = (
    "tpm",
    "disabled",
    "max_open_jobs",
    "max_jobs_per_day",
    "age_recipients",
    "signs_webhooks",
    "old_webhook_secrets_until",
)

#: What can be said of a key, by the names of its members.
_MEMBERS = (
    "rpm",
    "tpm",
    "max_concurrent",
    "models",
    "endpoints",
    "allowed_ips",
    "expires_at",
    "budget_usd",
    "soft_budget_usd",
    "budget_period",
    "budget_timezone",
    "max_open_jobs",
    "max_jobs_per_day",
    "age_recipients",
)

_NEXT_POLL = "their next poll on (OMNIGATE_POLL_MS, two seconds if not set)."
_MANAGED = "of a key that was made with create, as keys list shows it"


def add_keys(commands: Any) -> None:
    """Add the commands to the command line."""
    keys = commands.add_parser(
        "keys",
        help="list, make, change, rotate, disable and delete gateway keys",
        description="List, make, change, rotate, disable and delete gateway keys. Keys of the "
        "config file are shown, and changed in that file only." + ASKS,
    )
    actions = keys.add_subparsers(metavar="ACTION", required=True)
    _add_reading(actions)
    _add_create(actions)
    _add_change(actions)
    _add_rotate(actions)
    _add_webhook_secret(actions)
    _add_switches(actions)
    delete = actions.add_parser(
        "delete",
        help="delete a managed key; it stops working within one poll of the data plane",
        description="Delete a key that was made with create. Data planes refuse it from "
        + _NEXT_POLL
        + ASKS,
    )
    add_name(delete, _MANAGED)
    add_examples(delete, "  omnigate keys delete app\n")
    delete.set_defaults(run=_delete)


def _add_reading(actions: Any) -> None:
    listing = actions.add_parser(
        "list",
        help="every key with its limits; never a secret",
        description="Show every key with its limits and what it spent." + ASKS,
    )
    add_format(listing)
    add_examples(listing, "  omnigate keys list --format csv > keys.csv\n")
    listing.set_defaults(run=_list)

    shown = actions.add_parser(
        "show",
        help="one key, a member a line",
        description="Show one key with its limits, what it spent, and what it is counted by."
        + ASKS,
    )
    add_name(shown, "as keys list shows it")
    add_json(shown)
    add_examples(shown, "  omnigate keys show app\n")
    shown.set_defaults(run=_show)


def _add_create(actions: Any) -> None:
    create = actions.add_parser(
        "create",
        help="make a key; its secret is printed once",
        description="Make a key and print its secret, this once; a limit that is not given is no "
        "limit." + ASKS,
    )
    add_name(create, "1 to 64 letters, digits, dots, underscores and hyphens")
    _add_limits(create)
    add_json(create)
    add_examples(
        create,
        """\
  omnigate keys create app --rpm 600 --models 'fast,claude-*' \\
      --budget-usd 50 --budget-period monthly
  omnigate keys create guest --tpm 20000 --expires-at 2027-01-31T00:00:00Z
  omnigate keys create batch --endpoints embeddings --allowed-ips 10.0.0.0/8
""",
    )
    create.set_defaults(run=_create)


def _add_change(actions: Any) -> None:
    change = actions.add_parser(
        "change",
        help="give a managed key other limits",
        description="Change the limits that are given, and leave the others. Data planes hold to "
        "them from " + _NEXT_POLL + ASKS,
    )
    add_name(change, _MANAGED)
    _add_limits(change)
    add_unset(change, _MEMBERS)
    add_json(change)
    add_examples(change, "  omnigate keys change app --rpm 900 --unset budget-usd,models\n")
    change.set_defaults(run=_change)


def _add_rotate(actions: Any) -> None:
    rotate = actions.add_parser(
        "rotate",
        help="give a managed key a new secret, which is printed once",
        description="Make a new secret for a key and print it, this once. All else of it stays, "
        "and all its secrets share its limits and budgets." + ASKS,
    )
    add_name(rotate, _MANAGED)
    add_grace(rotate)
    add_json(rotate)
    add_examples(
        rotate,
        """\
  omnigate keys rotate app --grace 24h     the old secret works for a day yet
  omnigate keys rotate app                 it has leaked: it ends with the next poll
""",
    )
    rotate.set_defaults(run=_rotate)


def _add_webhook_secret(actions: Any) -> None:
    secret = actions.add_parser(
        "webhook-secret",
        help="sign webhooks of a managed key's jobs with a new secret, which is printed once",
        description="Make a secret that webhooks of a key's media jobs are signed with (Standard "
        "Webhooks), and print it, this once. The one before signs too for the grace, so that "
        "receivers can take the new one over." + ASKS,
    )
    add_name(secret, _MANAGED)
    how = secret.add_mutually_exclusive_group()
    how.add_argument(
        "--grace",
        metavar="TIME",
        type=duration,
        default=DEFAULT_GRACE_S,
        help="how long the secret before signs too, such as 900, 15m, 24h or 7d; at most 30d; 0 "
        "ends all others (default: 24h)",
    )
    how.add_argument(
        "--delete", action="store_true", help="sign no more, and forget the secrets there are"
    )
    add_json(secret)
    add_examples(
        secret,
        """\
  omnigate keys webhook-secret app              make the first one, or the next
  omnigate keys webhook-secret app --grace 0    it has leaked: it signs no more
""",
    )
    secret.set_defaults(run=_webhook_secret)


def _add_switches(actions: Any) -> None:
    disable = actions.add_parser(
        "disable",
        help="let a managed key open nothing until it is enabled",
        description="Take a key out of use and keep it. Data planes refuse it from "
        + _NEXT_POLL
        + ASKS,
    )
    add_name(disable, _MANAGED)
    add_examples(disable, "  omnigate keys disable app\n")
    disable.set_defaults(run=lambda options, environ: _switch(options, environ, disabled=True))
    enable = actions.add_parser(
        "enable",
        help="let a disabled key work again",
        description="Let a disabled key work again. Data planes take it from " + _NEXT_POLL + ASKS,
    )
    add_name(enable, _MANAGED)
    add_examples(enable, "  omnigate keys enable app\n")
    enable.set_defaults(run=lambda options, environ: _switch(options, environ, disabled=False))


def _add_limits(command: argparse.ArgumentParser) -> None:
    """Add what a key may be held to."""
    command.add_argument("--rpm", type=whole, metavar="N", help="requests a minute")
    command.add_argument("--tpm", type=whole, metavar="N", help="tokens a minute")
    command.add_argument(
        "--max-concurrent", type=whole, metavar="N", help="requests in flight at once"
    )
    command.add_argument(
        "--models",
        type=listed,
        metavar="A,B*",
        help="only these models; a trailing * matches a prefix",
    )
    command.add_argument(
        "--endpoints",
        type=listed,
        metavar="A,B",
        help="only these: chat, completions, responses, embeddings, messages, count_tokens, models",
    )
    add_confines(command)
    command.add_argument("--budget-usd", metavar="USD", type=dollars, help="what it may spend")
    command.add_argument(
        "--soft-budget-usd",
        metavar="USD",
        type=dollars,
        help="what it may spend before the control plane tells of it; nothing is blocked for that",
    )
    command.add_argument("--budget-period", choices=PERIODS, help="default: total")
    command.add_argument(
        "--budget-timezone",
        metavar="ZONE",
        help="whose midnights the period begins at, such as Europe/Stockholm; default: UTC",
    )
    command.add_argument(
        "--max-open-jobs", type=whole, metavar="N", help="media jobs that are not final yet"
    )
    command.add_argument(
        "--max-jobs-per-day",
        type=whole,
        metavar="N",
        help="media jobs made in a day of UTC; default: max_jobs_per_day of [media]",
    )
    command.add_argument(
        "--age-recipients",
        type=listed,
        metavar="A,B",
        help="encrypt outputs of its jobs for these recipients of age",
    )


def _list(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys list``."""
    rows = [row for page in pages(client_from(environ), "/admin/keys") for row in page]
    columns = list(_COLUMNS)
    if options.format == "table":
        columns = [
            name for name in columns if name not in _RARE or any(row.get(name) for row in rows)
        ]
    print_listing(options.format, "keys", rows, columns)
    return 0


def _show(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys show``."""
    return show(options, client_from(environ), path_of("keys", options.name), _DETAILS)


def _create(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys create``: the secret goes to standard output, alone."""
    body = {"name": options.name, **given(options, _MEMBERS)}
    words = "Data planes take it from " + _NEXT_POLL
    return shown_once(options, client_from(environ), "/admin/keys", body, words)


def _change(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys change``."""
    body = changes_of(options, _MEMBERS, _MEMBERS)
    return change_key(options, client_from(environ), "keys", body)


def _rotate(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys rotate``: the secret goes to standard output, alone."""
    path = path_of("keys", options.name, "rotate")
    words = "Data planes take it from " + _NEXT_POLL
    return shown_once(options, client_from(environ), path, {"grace_s": options.grace}, words)


def _webhook_secret(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys webhook-secret``: the secret goes to standard output, alone."""
    client, path = client_from(environ), path_of("keys", options.name, "webhook-secret")
    if options.delete:
        answer = client.text("DELETE", path)
        if options.json:
            print(answer)
        else:
            name = one_line(options.name, 200)
            print(f"webhooks of {name} are not signed any more", file=sys.stderr)
        return 0
    words = "Give it to the receiver of the webhooks."
    return shown_once(
        options,
        client,
        path,
        {"grace_s": options.grace},
        words,
        kept="",
        until="old_webhook_secrets_until",
    )


def _switch(options: argparse.Namespace, environ: Mapping[str, str], *, disabled: bool) -> int:
    """``omnigate keys disable`` and ``omnigate keys enable``."""
    client_from(environ).call("PATCH", path_of("keys", options.name), {"disabled": disabled})
    done = "disabled" if disabled else "enabled"
    print(f"{done} {one_line(options.name, 200)}", file=sys.stderr)
    return 0


def _delete(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate keys delete``."""
    return delete_key(options, client_from(environ), "keys")
