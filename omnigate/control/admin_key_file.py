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

from collections.abc import Mapping
from typing import Any, Final

from omnigate.control import admin_key_members
from omnigate.control.admin_key import AdminKey
from omnigate.control.credential_file import ROW_FIELDS, CredentialFile
from omnigate.control.key_members import Field, read_members


class AdminKeysFileError(Exception):
    """``admin_keys.json`` cannot be used; the text names the file and the remedy."""


_FIELDS: Final[Mapping[str, Field]] = {
    **{
        member: admin_key_members.FIELDS[member]
        for member in ("name", "scope", "disabled", "allowed_ips")
    },
    **ROW_FIELDS,
}
_REQUIRED: Final = ("name", "sha256", "scope", "created_ms")


def _row(key: AdminKey) -> tuple[int, dict[str, Any]]:
    row: dict[str, Any] = {member: getattr(key, member) for member in _REQUIRED}
    for member in ("expires_ms", "disabled", "allowed_ips", "earlier"):
        value = getattr(key, member)
        if value:
            row[member] = value
    if key.rotated_ms is not None:
        row["rotated_ms"] = key.rotated_ms
    return 1, row


def _key(row: object, version: int) -> AdminKey:
    return AdminKey(**read_members(row, _FIELDS, _REQUIRED))


ADMIN_KEYS_FILE: Final = CredentialFile(
    what="file of admin keys",
    newest=1,
    row=_row,
    key=_key,
    fault=AdminKeysFileError,
    remedy="restore it from a backup, or move it away to start with the admin token only",
    # A thousand keys with all their networks and earlier secrets stay below a tenth of this.
    max_bytes=64 * 1024 * 1024,
)
