"""``omnigate jobs list|show|cancel|webhook``: media jobs of all keys, by the admin API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from omnigate.admin_client import client_from
from omnigate.commands.arguments import (
    ASKS,
    CommandError,
    add_examples,
    add_format,
    add_json,
    whole,
)
from omnigate.commands.key_arguments import path_of, show
from omnigate.commands.table import print_listing, rows_of
from omnigate.jobs.job import QUEUED, RUNNING, STATES
from omnigate.text import one_line

_COLUMNS: Final = (
    "created_at",
    "id",
    "key",
    "model",
    "status",
    "why",
    "upstream",
    "attempts",
    "outputs",
    "cost_usd",
    "webhook",
    "finished_at",
)
#: What a table leaves to the other shapes.
_TOLD: Final = _COLUMNS[:-1]

#: Of one job, a member a line.
_MEMBERS: Final = (
    "id",
    "key",
    "key_sha256",
    "model",
    "status",
    "error",
    "cancel_requested",
    "created_at",
    "started_at",
    "finished_at",
    "attempts",
    "provider_job_id",
    "outputs",
    "cached",
    "cost_usd",
    "metadata",
    "webhook",
)

_DEFAULT_JOBS: Final = 20
#: What one call tells at most; of jobs that are rare it may tell of none, and go on all the same.
_PAGE_JOBS: Final = 100
#: All jobs that a control plane keeps.
_MAX_PAGES: Final = 3_000


def add_jobs(commands: Any) -> None:
    """Add the commands to the command line."""
    jobs = commands.add_parser(
        "jobs",
        help="media jobs of all keys: list them, show one, cancel it, send its webhook once more",
        description="Media jobs make images, films and sound at media providers." + ASKS,
    )
    actions = jobs.add_subparsers(metavar="ACTION", required=True)
    _add_list(actions)

    _add_action(
        actions,
        "show",
        _show,
        "one job: its attempts, outputs, cost and webhook",
        "Show one job; its input is its client's business and is not told.",
    )
    _add_action(
        actions,
        "cancel",
        _cancel,
        "cancel a job that has not ended",
        "Cancel a job, at its provider as well where that can be done. One that has ended stays as "
        "it is.",
    )
    _add_action(
        actions,
        "webhook",
        _webhook,
        "send the webhook of a job once more now, also after it was given up",
        "Send the webhook of a job that has ended once more now, also after it was given up. One "
        "that was delivered is not sent again.",
    )


def _add_list(actions: Any) -> None:
    listing = actions.add_parser(
        "list",
        help="jobs of all keys, the newest first",
        description="Show the newest jobs of all keys, or those that are asked for." + ASKS,
    )
    listing.add_argument("--key", metavar="KEY", help="of this gateway key: its name or SHA-256")
    listing.add_argument("--model", metavar="MODEL", help="of this media route")
    listing.add_argument("--status", choices=STATES, help="in this state")
    listing.add_argument(
        "--limit",
        metavar="N",
        type=whole,
        default=_DEFAULT_JOBS,
        help=f"how many to show; default: {_DEFAULT_JOBS}",
    )
    add_format(listing)
    add_examples(
        listing,
        """\
  omnigate jobs list --status failed --key app
  omnigate jobs list --limit 1000 --format csv > jobs.csv
""",
    )
    listing.set_defaults(run=_list)


def _add_action(
    actions: Any,
    name: str,
    run: Callable[[argparse.Namespace, Mapping[str, str]], int],
    words: str,
    description: str,
) -> None:
    """Add what is done with one job."""
    action = actions.add_parser(name, help=words, description=description + ASKS)
    action.add_argument("name", metavar="ID", help="as jobs list shows it")
    add_json(action)
    add_examples(action, f"  omnigate jobs {name} job_01m8me96g05xemy563qm29b8aj\n")
    action.set_defaults(run=run)


def _list(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate jobs list``: asks for page after page until there are so many, or no more."""
    client = client_from(environ)
    asked = {
        name: value
        for name in ("key", "model", "status")
        if (value := getattr(options, name)) is not None
    }
    found: list[dict[str, Any]] = []
    after = ""
    for _ in range(_MAX_PAGES):
        if len(found) >= options.limit:
            break
        query = {**asked, "limit": str(min(options.limit - len(found), _PAGE_JOBS))}
        if after:
            query["after"] = after
        answer = client.call("GET", f"/admin/jobs?{urlencode(query)}")
        found += rows_of(answer, "jobs")
        before, after = after, answer.get("next") or ""
        if not after:
            break
        # Ids sort by the time of their jobs, and the newest come first.
        if not isinstance(after, str) or (before and after >= before):
            raise CommandError("the control plane's pages of jobs do not go on; ask it again")
    columns = _TOLD if options.format == "table" else _COLUMNS
    rows = found if options.format == "json" else [_row(job) for job in found]
    print_listing(options.format, "jobs", rows, columns)
    return 0


def _row(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as a row: lists as how many there are, objects as the word that tells most."""
    attempts, outputs = job.get("attempts"), job.get("outputs")
    last = attempts[-1] if isinstance(attempts, list) and attempts else None
    return {
        **job,
        "why": _member(job.get("error"), "code"),
        "upstream": _member(last, "upstream"),
        "attempts": len(attempts) if isinstance(attempts, list) else None,
        "outputs": len(outputs) if isinstance(outputs, list) else None,
        "webhook": _member(job.get("webhook"), "state"),
    }


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _show(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate jobs show``."""
    return show(options, client_from(environ), path_of("jobs", options.name), _MEMBERS)


def _cancel(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate jobs cancel``: says what the job is then."""
    return _done(options, environ, "cancel", "the job is {status}")


def _webhook(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """``omnigate jobs webhook``."""
    return _done(options, environ, "webhook", "sending the webhook once more; jobs show tells more")


def _done(options: argparse.Namespace, environ: Mapping[str, str], action: str, words: str) -> int:
    client, path = client_from(environ), path_of("jobs", options.name, action)
    if options.json:
        print(client.text("POST", path))
        return 0
    answer = client.call("POST", path)
    if not isinstance(answer, dict):
        raise CommandError("the control plane's answer is no job; are both of one version?")
    status = str(answer.get("status"))
    if action == "cancel" and status in (QUEUED, RUNNING) and answer.get("cancel_requested"):
        words = "the job is {status}, and ends as soon as its provider has answered"
    print(one_line(words.format(status=status), 200), file=sys.stderr)
    return 0
