"""``keys.json``: all managed keys in one file, which is replaced whole.

::

    {"version": 2, "keys": [
      {"name": "app", "sha256": "9f86…", "created_ms": 1795978800000, "rpm": 600,
       "models": ["fast"], "max_concurrent": 0, "budget_usd": 50, "budget_period": "monthly",
       "budget_timezone": "Europe/Stockholm", "soft_budget_usd": 40, "tpm": 60000,
       "allowed_ips": ["10.0.0.0/8"], "endpoints": ["chat"], "expires_ms": 1827514800000,
       "disabled": true, "secret_sha256": "60303a…", "rotated_ms": 1795982400000,
       "earlier": [{"sha256": "9f86…", "until_ms": 1795986000000}],
       "max_open_jobs": 20, "max_jobs_per_day": 1000, "age_recipients": ["age1…"],
       "webhook_secrets": [{"secret": "whsec_…"},
                           {"secret": "whsec_…", "until_ms": 1795986000000}]}]}

What stands there from ``tpm`` on came with version 2, from ``max_open_jobs`` on with version 3, and
is left out where it has no effect. A file is written as the lowest version that tells all of it, so
that an older program can be started on it; one that is newer is refused there, since that program
would pass a limit over. Webhook secrets are the only ones that stand there as they are, since
deliveries are signed with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from omnigate.config import key_values, values
from omnigate.control.credential import LAST_MS
from omnigate.control.credential_file import ROW_FIELDS, CredentialFile
from omnigate.control.gateway_key import MANAGED, GatewayKey
from omnigate.control.key_members import FIELDS, Field, read_members
from omnigate.control.strict_json import StrictJsonError
from omnigate.control.webhook_secret import MAX_EARLIER, WebhookSecret
from omnigate.money import usd
from omnigate.periods import UTC


class KeysFileError(Exception):
    """``keys.json`` cannot be used; the text names the file and the remedy."""


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
    **{member: ROW_FIELDS[member] for member in ("sha256", "created_ms")},
}

_FIELDS_2: Final[Mapping[str, Field]] = {
    **_FIELDS_1,
    **{member: FIELDS[member] for member in ("tpm", "allowed_ips", "endpoints", "disabled")},
    **ROW_FIELDS,
    "secret_sha256": ("secret_sha256", values.sha256_hex),
}

_SECRET: Final[Mapping[str, Field]] = {
    "secret": ("secret", key_values.webhook_secret),
    "until_ms": ("until_ms", values.whole(1, LAST_MS)),
}


def _signing(value: object) -> tuple[WebhookSecret, ...]:
    """Check the webhook secrets of a row: the newest first, which alone has no end."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_EARLIER + 1:
        raise values.BadValueError(f"must be an array of 1 to {MAX_EARLIER + 1} secrets")
    secrets = tuple(WebhookSecret(**read_members(row, _SECRET, ("secret",))) for row in value)
    if secrets[0].until_ms or not all(one.until_ms for one in secrets[1:]):
        raise values.BadValueError("must have an end for each secret but the first")
    return secrets


#: What the rows of each version may hold.
_FIELDS: Final[Mapping[int, Mapping[str, Field]]] = {
    1: _FIELDS_1,
    2: _FIELDS_2,
    3: {
        **_FIELDS_2,
        **{
            member: FIELDS[member]
            for member in ("max_open_jobs", "max_jobs_per_day", "age_recipients")
        },
        "webhook_secrets": ("signing", _signing),
    },
}


def _row(key: GatewayKey) -> tuple[int, dict[str, Any]]:
    """Return which version tells all of a key, and its row there."""
    second, third = _row_2(key), _row_3(key)
    version = 3 if third else 2 if second else 1
    return version, {**_row_1(key), **second, **third}


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


def _row_3(key: GatewayKey) -> dict[str, Any]:
    """Return what version 3 has of a key beside."""
    row: dict[str, Any] = {}
    for member in ("max_open_jobs", "max_jobs_per_day", "age_recipients"):
        value = getattr(key, member)
        if value:
            row[member] = value
    if key.signing:
        row["webhook_secrets"] = [
            {"secret": one.secret, "until_ms": one.until_ms}
            if one.until_ms
            else {"secret": one.secret}
            for one in key.signing
        ]
    return row


def _key(row: object, version: int) -> GatewayKey:
    members = read_members(row, _FIELDS[version], ("name", "sha256", "created_ms"))
    key = GatewayKey(**members, source=MANAGED)
    if key.is_rotated != (key.rotated_ms is not None) or (key.earlier and not key.is_rotated):
        raise StrictJsonError(f'holds secrets of "{key.name}" that no rotation made')
    return key


KEYS_FILE: Final = CredentialFile(
    what="key file",
    newest=3,
    row=_row,
    key=_key,
    fault=KeysFileError,
    remedy="restore it from a backup, or move it away to start without managed keys",
    # Ten thousand keys with ordinary model lists stay far below.
    max_bytes=64 * 1024 * 1024,
)
