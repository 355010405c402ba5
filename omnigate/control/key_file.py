"""``keys.json``: all managed keys in one file, which is replaced whole.

::

    {"version": 2, "keys": [
      {"name": "app", "sha256": "9f86…", "created_ms": 1795978800000, "rpm": 600,
       "models": ["fast"], "max_concurrent": 0, "budget_usd": 50, "budget_period": "monthly",
       "budget_timezone": "Europe/Stockholm", "soft_budget_usd": 40, "tpm": 60000,
       "allowed_ips": ["10.0.0.0/8"], "endpoints": ["chat"], "expires_ms": 1827514800000,
       "disabled": true, "secret_sha256": "60303a…", "rotated_ms": 1795982400000,
       "earlier": [{"sha256": "9f86…", "until_ms": 1795986000000}]}]}

What stands there from ``tpm`` on came with version 2, and is left out where it has no effect. A
file that needs none of it is written as version 1, so that an older program can be started on it;
one that does is refused there, since that program would pass a limit over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from omnigate.config import values
from omnigate.config.key_values import MAX_EARLIER_SECRETS
from omnigate.control.gateway_key import MANAGED, EarlierSecret, GatewayKey
from omnigate.control.key_members import FIELDS, Field, read_members
from omnigate.control.strict_json import StrictJsonError, read_json
from omnigate.errors import GatewayError
from omnigate.money import usd
from omnigate.periods import END_MS, UTC

#: The newest version that is read and written.
FILE_VERSION: Final = 2

#: Ten thousand keys with ordinary model lists stay far below.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024

REMEDY: Final = "restore it from a backup, or move it away to start without managed keys"


class KeysFileError(Exception):
    """``keys.json`` cannot be used; the text names the file and the remedy."""


def _earlier(value: object) -> tuple[EarlierSecret, ...]:
    """Check the earlier secrets of a row."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_EARLIER_SECRETS:
        raise values.BadValueError(f"must be an array of 1 to {MAX_EARLIER_SECRETS} secrets")
    members = [read_members(row, _EARLIER_FIELDS, _EARLIER_FIELDS) for row in value]
    return tuple(EarlierSecret(**row) for row in members)


_instant = values.whole(1, END_MS - 1)

_EARLIER_FIELDS: Final[Mapping[str, Field]] = {
    "sha256": ("sha256", values.sha256_hex),
    "until_ms": ("until_ms", _instant),
}

_FIELDS_1: Final[Mapping[str, Field]] = {
    **{
        member: FIELDS[member]
        for member in (
            "name",
            "rpm",
            "models",
            "max_concurrent",
            "budget_usd",
            "budget_period",
            "budget_timezone",
            "soft_budget_usd",
        )
    },
    "sha256": ("sha256", values.sha256_hex),
    "created_ms": ("created_ms", values.whole(0, 10**15)),
}

#: What the rows of each version may hold.
_FIELDS: Final[Mapping[int, Mapping[str, Field]]] = {
    1: _FIELDS_1,
    2: {
        **_FIELDS_1,
        **{member: FIELDS[member] for member in ("tpm", "allowed_ips", "endpoints", "disabled")},
        "expires_ms": ("expires_ms", _instant),
        "secret_sha256": ("secret_sha256", values.sha256_hex),
        "earlier": ("earlier", _earlier),
        "rotated_ms": ("rotated_ms", values.whole(0, 10**15)),
    },
}


def encode_keys(keys: Iterable[GatewayKey]) -> bytes:
    """Return ``keys.json``, one key a line, so that people can read and compare it."""
    version = 1
    rows = []
    for key in keys:
        row = _row_1(key)
        later = _row_2(key)
        if later:
            version = 2
            row |= later
        rows.append(b"\n  " + msgspec.json.encode(row))
    return b'{"version": %d, "keys": [%s]}\n' % (version, b",".join(rows))


def _row_1(key: GatewayKey) -> dict[str, Any]:
    """Return what version 1 has of a key."""
    row: dict[str, Any] = {"name": key.name, "sha256": key.sha256, "created_ms": key.created_ms}
    row |= {"rpm": key.rpm, "models": key.models, "max_concurrent": key.max_concurrent}
    if key.budget_nano is not None:
        row["budget_usd"] = msgspec.Raw(usd(key.budget_nano).encode("ascii"))
    if key.soft_budget_nano is not None:
        row["soft_budget_usd"] = msgspec.Raw(usd(key.soft_budget_nano).encode("ascii"))
    if key.has_budget:
        row["budget_period"] = key.budget_period
        if key.budget_timezone != UTC:
            row["budget_timezone"] = key.budget_timezone
    return row


def _row_2(key: GatewayKey) -> dict[str, Any]:
    """Return what version 2 has of a key beside; nothing where version 1 tells all."""
    row: dict[str, Any] = {}
    for member in ("tpm", "allowed_ips", "endpoints", "expires_ms", "disabled"):
        value = getattr(key, member)
        if value:
            row[member] = value
    if key.is_rotated:
        row["secret_sha256"] = key.secret_sha256
        row["rotated_ms"] = key.rotated_ms
        if key.earlier:
            row["earlier"] = key.earlier
    return row


def decode_keys(path: str, data: bytes) -> dict[str, GatewayKey]:
    """Read the bytes of ``keys.json`` strictly.

    :return: the keys by their names.
    :raises KeysFileError: they are not what this version or an earlier one writes.
    """
    try:
        document = read_json(data)
        version = document.get("version") if isinstance(document, dict) else None
        if isinstance(version, int) and version > FILE_VERSION:
            raise KeysFileError(
                f"{path}: has format {version}, and this version reads {FILE_VERSION}; start the "
                "newer version that wrote it"
            )
        # True is 1 for a dict, and no number that is written.
        if type(version) is not int or version < 1 or set(document) != {"version", "keys"}:
            raise StrictJsonError("is no key file")
        if not isinstance(document["keys"], list):
            raise StrictJsonError("holds no list of keys")
        keys = _keys_of_rows(document["keys"], _FIELDS[version])
        _check_apart(keys)
    except (StrictJsonError, GatewayError) as error:
        raise KeysFileError(f"{path}: {error}; {REMEDY}") from None
    return {key.name: key for key in keys}


def _keys_of_rows(rows: list[object], fields: Mapping[str, Field]) -> list[GatewayKey]:
    """Judge rows, and leave none of them: to free ten thousand at once holds the reactor."""
    rows.reverse()
    keys = []
    while rows:
        keys.append(_key_of_row(rows.pop(), fields))
    return keys


def _key_of_row(row: object, fields: Mapping[str, Field]) -> GatewayKey:
    members = read_members(row, fields, ("name", "sha256", "created_ms"))
    key = GatewayKey(**members, source=MANAGED)
    if key.is_rotated != (key.rotated_ms is not None) or (key.earlier and not key.is_rotated):
        raise StrictJsonError(f'holds secrets of "{key.name}" that no rotation made')
    hashes = [key.secret_sha256, *(secret.sha256 for secret in key.earlier)]
    if len(set(hashes)) != len(hashes):
        raise StrictJsonError(f'holds a secret of "{key.name}" twice')
    return key


def _check_apart(keys: list[GatewayKey]) -> None:
    """Refuse two keys with one name, or with a hash in common."""
    names = {key.name for key in keys}
    hashes: set[str] = set()
    count = 0
    for key in keys:
        own = key.own_hashes
        hashes |= own
        count += len(own)
    if len(names) != len(keys) or len(hashes) != count:
        raise StrictJsonError("holds a key twice")
