"""``admin_keys.json``: all admin keys in one file, which is replaced whole.

::

    {"version": 1, "keys": [
      {"name": "grafana", "sha256": "9f86…", "scope": "read_only", "created_ms": 1795978800000,
       "expires_ms": 1827514800000, "disabled": true, "allowed_ips": ["10.0.0.0/8"],
       "rotated_ms": 1795982400000,
       "earlier": [{"sha256": "60303a…", "until_ms": 1795986000000}]}]}

What stands there from ``expires_ms`` on is left out where it has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from omnigate.config import values
from omnigate.config.key_values import MAX_EARLIER_SECRETS
from omnigate.control import admin_key_members
from omnigate.control.admin_key import AdminKey
from omnigate.control.gateway_key import EarlierSecret
from omnigate.control.key_members import read_members
from omnigate.control.strict_json import StrictJsonError, read_json
from omnigate.errors import GatewayError
from omnigate.periods import END_MS

FILE_VERSION: Final = 1

#: A thousand keys with all their networks and earlier secrets stay below a tenth of this.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024

REMEDY: Final = "restore it from a backup, or move it away to start with the admin token only"


class AdminKeysFileError(Exception):
    """``admin_keys.json`` cannot be used; the text names the file and the remedy."""


_instant = values.whole(1, END_MS - 1)

_EARLIER_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "sha256": ("sha256", values.sha256_hex),
    "until_ms": ("until_ms", _instant),
}


def _earlier(value: object) -> tuple[EarlierSecret, ...]:
    """Check the earlier secrets of a row."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_EARLIER_SECRETS:
        raise values.BadValueError(f"must be an array of 1 to {MAX_EARLIER_SECRETS} secrets")
    members = [read_members(row, _EARLIER_FIELDS, _EARLIER_FIELDS) for row in value]
    return tuple(EarlierSecret(**row) for row in members)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    **{
        member: admin_key_members.FIELDS[member]
        for member in ("name", "scope", "disabled", "allowed_ips")
    },
    "sha256": ("sha256", values.sha256_hex),
    "created_ms": ("created_ms", values.whole(0, END_MS - 1)),
    "expires_ms": ("expires_ms", _instant),
    "rotated_ms": ("rotated_ms", values.whole(0, END_MS - 1)),
    "earlier": ("earlier", _earlier),
}
_REQUIRED: Final = ("name", "sha256", "scope", "created_ms")


def encode_admin_keys(keys: Iterable[AdminKey]) -> bytes:
    """Return the file, one key a line, so that people can read and compare it."""
    rows = [b"\n  " + msgspec.json.encode(_row(key)) for key in keys]
    return b'{"version": %d, "keys": [%s]}\n' % (FILE_VERSION, b",".join(rows))


def _row(key: AdminKey) -> dict[str, Any]:
    row: dict[str, Any] = {member: getattr(key, member) for member in _REQUIRED}
    for member in ("expires_ms", "disabled", "allowed_ips", "earlier"):
        value = getattr(key, member)
        if value:
            row[member] = value
    if key.rotated_ms is not None:
        row["rotated_ms"] = key.rotated_ms
    return row


def decode_admin_keys(path: str, data: bytes) -> dict[str, AdminKey]:
    """Read the bytes of the file strictly.

    :return: the keys by their names.
    :raises AdminKeysFileError: they are not what this version writes.
    """
    try:
        document = read_json(data)
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is int and version > FILE_VERSION:
            raise AdminKeysFileError(
                f"{path}: has format {version}, and this version reads {FILE_VERSION}; start the "
                "newer version that wrote it"
            )
        # True is 1 for an int, and no number that is written.
        if type(version) is not int or version < 1 or set(document) != {"version", "keys"}:
            raise StrictJsonError("is no file of admin keys")
        if not isinstance(document["keys"], list):
            raise StrictJsonError("holds no list of keys")
        keys = [AdminKey(**read_members(row, _FIELDS, _REQUIRED)) for row in document["keys"]]
        _check_apart(keys)
    except (StrictJsonError, GatewayError) as error:
        raise AdminKeysFileError(f"{path}: {error}; {REMEDY}") from None
    return {key.name: key for key in keys}


def _check_apart(keys: list[AdminKey]) -> None:
    """Refuse two keys with one name, or with a secret in common."""
    hashes = [
        digest
        for key in keys
        for digest in (key.sha256, *(secret.sha256 for secret in key.earlier))
    ]
    if len({key.name for key in keys}) != len(keys) or len(set(hashes)) != len(hashes):
        raise StrictJsonError("holds a key twice")
