"""What a change of a managed key makes of it: a merge of what it is with what is asked for.

A member that is given is replaced, ``null`` puts it back to what a key without it has, and one
that is not given stays. The result is judged as a new key would be, so no order of changes leads
to a key that could not have been made in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_members import FIELDS, read_members
from omnigate.errors import GatewayError
from omnigate.money import usd
from omnigate.periods import TOTAL, rfc3339

#: A key is known by its name and its identity, in data planes and in the ledger.
_FIXED: Final = "name"


def changed(key: GatewayKey, body: object) -> GatewayKey:
    """Return a key as a change leaves it.

    :param body: the decoded body of the request.
    :raises GatewayError: ``invalid_request`` with every fault of the body or of what comes out.
    """
    if not isinstance(body, dict):
        raise GatewayError("invalid_request", "the body must be one JSON object")
    if _FIXED in body:
        raise GatewayError(
            "invalid_request", '"name": a key keeps its name; make another key', param=_FIXED
        )
    wanted = {**written(key), **body}
    wanted = {
        member: value
        for member, value in wanted.items()
        # An unknown member is a fault, also where it is null.
        if value is not None or member not in FIELDS
    }
    _drop_idle(wanted, body)
    return attrs.evolve(_bare(key), **read_members(wanted, FIELDS, (_FIXED,)))


def _bare(key: GatewayKey) -> GatewayKey:
    """Return the key without anything that may be changed."""
    return GatewayKey(
        key.name,
        key.sha256,
        key.source,
        created_ms=key.created_ms,
        secret_sha256=key.secret_sha256,
        earlier=key.earlier,
        rotated_ms=key.rotated_ms,
        signing=key.signing,
    )


def written(key: GatewayKey) -> dict[str, Any]:
    """Return a key as whoever makes such a key would write it."""
    members: dict[str, Any] = {
        "name": key.name,
        "rpm": key.rpm,
        "models": _list(key.models),
        "max_concurrent": key.max_concurrent,
        "tpm": key.tpm,
        "allowed_ips": _list(key.allowed_ips),
        "endpoints": _list(key.endpoints),
        "expires_at": rfc3339(key.expires_ms) if key.expires_ms else None,
        "disabled": key.disabled,
        "max_open_jobs": key.max_open_jobs,
        "max_jobs_per_day": key.max_jobs_per_day,
        "age_recipients": _list(key.age_recipients or None),
        "budget_usd": _amount(key.budget_nano),
        "soft_budget_usd": _amount(key.soft_budget_nano),
    }
    if key.has_budget:
        members["budget_period"] = key.budget_period
        if key.budget_period != TOTAL:
            members["budget_timezone"] = key.budget_timezone
    return members


def differences(before: GatewayKey, after: GatewayKey) -> dict[str, Any]:
    """Return the members that a change gave other values, with the new ones, as they are written.

    A member that is gone is null.
    """
    was, now = written(before), written(after)
    return {
        member: now.get(member) for member in {**was, **now} if now.get(member) != was.get(member)
    }


def set_members(key: GatewayKey) -> dict[str, Any]:
    """Return the members of a key that say anything, as they are written, but for its name."""
    bare = _bare(key)
    return differences(bare, key)


def _list(entries: tuple[str, ...] | None) -> list[str] | None:
    return None if entries is None else list(entries)


def _amount(nano: int | None) -> Decimal | None:
    return None if nano is None else Decimal(usd(nano))


def _drop_idle(wanted: dict[str, Any], body: Mapping[str, object]) -> None:
    """Take out period and zone where the change leaves nothing that they count for."""
    budgets = "budget_usd" in wanted or "soft_budget_usd" in wanted
    if not budgets and "budget_period" not in body:
        wanted.pop("budget_period", None)
    turns = wanted.get("budget_period", TOTAL) != TOTAL
    if not (budgets and turns) and "budget_timezone" not in body:
        wanted.pop("budget_timezone", None)
