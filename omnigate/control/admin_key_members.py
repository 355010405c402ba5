"""What an operator may say about an admin key, and what a change makes of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.config import values
from omnigate.control.admin_key import SCOPES, AdminKey
from omnigate.control.key_members import Field, expiry, networks, read_members
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339

#: JSON member → attribute of an admin key, and check.
FIELDS: Final[Mapping[str, Field]] = {
    "name": ("name", values.name),
    "scope": ("scope", values.one_of(*SCOPES)),
    "expires_at": ("expires_ms", expiry),
    "disabled": ("disabled", values.flag),
    "allowed_ips": ("allowed_ips", networks),
}

#: What has to be said of a new one. Whoever makes a credential says what it may do.
REQUIRED: Final = ("name", "scope")


def read_new(body: object) -> dict[str, Any]:
    """Judge the body that makes a key; return its attributes.

    :raises GatewayError: ``invalid_request`` with every fault.
    """
    return read_members(body, FIELDS, REQUIRED)


def changed(key: AdminKey, body: object) -> AdminKey:
    """Return a key as a change leaves it: what is given is replaced, ``null`` takes it away.

    :param body: the decoded body of the request.
    :raises GatewayError: ``invalid_request`` with every fault.
    """
    if not isinstance(body, dict):
        raise GatewayError("invalid_request", "the body must be one JSON object")
    if "name" in body:
        raise GatewayError(
            "invalid_request", '"name": a key keeps its name; make another key', param="name"
        )
    wanted = {
        "name": key.name,
        "scope": key.scope,
        "expires_at": rfc3339(key.expires_ms) if key.expires_ms else None,
        "disabled": key.disabled,
        "allowed_ips": None if key.allowed_ips is None else list(key.allowed_ips),
        **body,
    }
    # An unknown member is a fault, also where it is null; so is a key that may do nothing known.
    wanted = {
        member: value
        for member, value in wanted.items()
        if value is not None or member not in FIELDS
    }
    read = read_members(wanted, FIELDS, REQUIRED)
    plain = {"expires_ms": 0, "disabled": False, "allowed_ips": None}
    return attrs.evolve(key, **{**plain, **read})
