"""What commands about keys of both kinds share: arguments, pages, a secret that is shown once."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from omnigate.admin_client import AdminClient
from omnigate.commands.arguments import CommandError
from omnigate.commands.table import print_table, rows_of
from omnigate.text import one_line, valid_text

#: Of ten thousand keys of the file and as many managed ones, a page has one at the least.
MAX_PAGES = 20_000

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd]?)", re.ASCII)


def duration(text: str) -> int:
    """Read a length of time, such as ``90``, ``15m``, ``24h`` or ``7d``; returns seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no length of time; write seconds, or a number with m, h or d behind it"
        )
    return int(found[1]) * _SECONDS[found[2]]


def listed(text: str) -> list[str]:
    """Read words with commas between them."""
    return [word.strip() for word in text.split(",") if word.strip()]


def add_name(command: argparse.ArgumentParser, what: str) -> None:
    """Add the name of the key that a command is about."""
    command.add_argument("name", metavar="NAME", help=what)


def add_grace(command: argparse.ArgumentParser) -> None:
    """Add how long older secrets work on."""
    command.add_argument(
        "--grace",
        metavar="TIME",
        type=duration,
        default=0,
        help="how long the secret before works on beside the new one, such as 900, 15m, 24h or 7d; "
        "at most 30d (default: 0, which also ends what earlier rotations left working)",
    )


def add_confines(command: argparse.ArgumentParser) -> None:
    """Add from where and until when a key may be used."""
    command.add_argument(
        "--allowed-ips",
        type=listed,
        metavar="A,B",
        help="only from these addresses and networks, such as 10.0.0.0/8,2001:db8::1",
    )
    command.add_argument(
        "--expires-at",
        metavar="TIME",
        help="it works until then: RFC 3339 with its offset, such as 2027-01-31T00:00:00Z",
    )


def add_unset(command: argparse.ArgumentParser, members: Sequence[str]) -> None:
    """Add what takes limits away.

    :param members: what can be taken away, as the admin API calls it.
    """
    words = [member.replace("_", "-") for member in members]
    command.add_argument(
        "--unset",
        metavar="A,B",
        type=listed,
        default=[],
        help=f"take these away: {', '.join(words)}",
    )


def changes_of(
    options: argparse.Namespace, members: Sequence[str], removable: Sequence[str]
) -> dict[str, object]:
    """Return the body of a change.

    :param members: the names of arguments, which are those of members as well.
    :param removable: those of them that ``--unset`` may name.
    :raises CommandError: with status 2: nothing is to be changed, or one thing in two ways.
    """
    body = given(options, members)
    for word in options.unset:
        member = word.replace("-", "_")
        if member not in removable:
            known = ", ".join(name.replace("_", "-") for name in removable)
            raise CommandError(f"--unset takes {known}, not {one_line(word, 40)}", status=2)
        if member in body:
            raise CommandError(f"--{word} is given, and --unset {word} too", status=2)
        body[member] = None
    if not body:
        raise CommandError("nothing is to be changed; name at least one limit", status=2)
    return body


def given(options: argparse.Namespace, members: Sequence[str]) -> dict[str, object]:
    """Return the members that were given, with their values."""
    values = {member: getattr(options, member) for member in members}
    return {member: value for member, value in values.items() if value is not None}


def path_of(kind: str, name: str, action: str = "") -> str:
    """Return the path of one key.

    :param kind: ``keys`` or ``admin-keys``.
    :param action: the segment behind it, if there is one.
    """
    path = f"/admin/{kind}/{quote(valid_text(name), safe='')}"
    return f"{path}/{action}" if action else path


def pages(client: AdminClient, path: str) -> Iterator[list[dict[str, Any]]]:
    """Ask for keys, a page at a time.

    :raises CommandError: an answer has none, or the pages do not go on.
    """
    after = ""
    for _ in range(MAX_PAGES):
        query = f"?{urlencode({'after': after})}" if after else ""
        answer = client.call("GET", path + query)
        rows = rows_of(answer, "keys")
        yield rows
        before, after = after, answer.get("next") or ""
        if not after:
            return
        if not rows or not isinstance(after, str) or after <= before:
            break
    raise CommandError("the control plane's pages of keys do not go on; ask it again")


def show(
    options: argparse.Namespace, client: AdminClient, path: str, columns: Sequence[str]
) -> int:
    """Print one key, a member a line.

    :param columns: the members, in this order; those without a value are left out.
    """
    if options.json:
        print(client.text("GET", path))
        return 0
    row = client.call("GET", path)
    if not isinstance(row, dict):
        raise CommandError("the control plane's answer is no key; are both of one version?")
    told = [
        {"member": name, "value": value}
        for name in columns
        if row.get(name) is not None
        for value in _lines(row[name])
    ]
    print_table(told, ("member", "value"))
    return 0


def _lines(value: object) -> list[object]:
    """What is told of a value: of each object a line, and all else as it is."""
    each = value if isinstance(value, list) else [value]
    words = [_words(one) for one in each if isinstance(one, dict)]
    return [*words] if words and len(words) == len(each) else [value]


def _words(value: Mapping[str, object]) -> str:
    """An object as ``member=value``, without what is empty."""
    return "  ".join(
        f"{name}=({_words(inner)})" if isinstance(inner, dict) else f"{name}={inner}"
        for name, inner in value.items()
        if inner not in (None, "")
    )


def change_key(
    options: argparse.Namespace, client: AdminClient, kind: str, body: Mapping[str, object]
) -> int:
    """Change one key, and say so, or print it as it is then."""
    answer = client.text("PATCH", path_of(kind, options.name), body)
    if options.json:
        print(answer)
    else:
        print(f"changed {one_line(options.name, 200)}", file=sys.stderr)
    return 0


def delete_key(options: argparse.Namespace, client: AdminClient, kind: str) -> int:
    """Delete one key, and say so."""
    client.call("DELETE", path_of(kind, options.name))
    print(f"deleted {one_line(options.name, 200)}", file=sys.stderr)
    return 0


def shown_once(
    options: argparse.Namespace,
    client: AdminClient,
    path: str,
    body: Mapping[str, object],
    words: str,
    *,
    kept: str = "the gateway stores its hash only",
    until: str = "old_secrets_until",
) -> int:
    """Ask for a secret and print it on standard output, alone; what else there is to know beside.

    :param words: said of the secret, on standard error.
    :param kept: what becomes of it here; empty where that is nobody's worry.
    :param until: the member that says how long secrets before it work.
    """
    if options.json:
        print(client.text("POST", path, body))
        return 0
    answer = client.call("POST", path, body)
    secret = answer.get("secret") if isinstance(answer, dict) else None
    if not isinstance(secret, str) or not (secret.isascii() and secret.isprintable()):
        raise CommandError("the control plane made the key but told no secret; delete it")
    print(secret)
    told = f"Keep it now; {kept}." if kept else "Keep it now."
    print(f"This is shown once. {told} {words}", file=sys.stderr)
    moment = answer.get(until)
    if isinstance(moment, str):
        print(f"The secrets before work until {one_line(moment, 40)}.", file=sys.stderr)
    return 0
