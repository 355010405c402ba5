"""What there is to say of a gateway key: whether it works, how near its budget it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from omnigate.control.gateway_key import GatewayKey
from omnigate.ledger.budgets import Standing
from omnigate.periods import DAY_MS

#: How long before its end a key is said to end soon.
SOON_MS: Final = 7 * DAY_MS

#: Of its budget, from here on a key is near it.
NEAR_PER_CENT: Final = 80

BLOCKED: Final = "blocked"
EXPIRED: Final = "expired"
NEAR: Final = "near"
SOFT: Final = "soft"
EXPIRING: Final = "expiring"
DISABLED: Final = "disabled"
GRACE: Final = "grace"


@attrs.frozen
class StateWords:
    """How a state is shown.

    :ivar badge: in a list.
    :ivar choice: as a filter.
    :ivar kind: of the badge.
    """

    badge: str
    choice: str
    kind: str


#: All states but the plain one, the worst first.
STATES: Final[Mapping[str, StateWords]] = {
    BLOCKED: StateWords("blocked", "Blocked: the budget is spent", "bad"),
    EXPIRED: StateWords("expired", "Expired", "bad"),
    NEAR: StateWords("near its budget", f"Near the budget: {NEAR_PER_CENT} % or more", "warn"),
    SOFT: StateWords("over soft budget", "Over the soft budget", "warn"),
    EXPIRING: StateWords("expires soon", "Expires within 7 days", "warn"),
    DISABLED: StateWords("disabled", "Disabled", "quiet"),
    GRACE: StateWords("old secret works", "An old secret still works", "info"),
}

_RANKS: Final = {state: rank for rank, state in enumerate(STATES)}


def states_of(key: GatewayKey, stands: Standing | None, now_ms: int) -> tuple[str, ...]:
    """Return the states of a key, the worst first; none of one that simply works.

    :param stands: ``None`` where what was spent is not known.
    """
    found = []
    if stands is not None and stands.blocked:
        found.append(BLOCKED)
    expired = key.has_expired(now_ms)
    if expired:
        found.append(EXPIRED)
    if stands is not None:
        budget = stands.budget_nano
        if budget and not stands.blocked and stands.spent_nano * 100 >= budget * NEAR_PER_CENT:
            found.append(NEAR)
        if stands.over_soft:
            found.append(SOFT)
    if key.expires_ms and not expired and key.expires_ms - now_ms <= SOON_MS:
        found.append(EXPIRING)
    if key.disabled:
        found.append(DISABLED)
    if key.earlier and key.in_grace(now_ms):
        found.append(GRACE)
    return tuple(found)


def badness(states: tuple[str, ...]) -> int:
    """Return how good the worst of some states is: 0 is the worst there is."""
    return _RANKS[states[0]] if states else len(_RANKS)


@attrs.frozen
class Meter:
    """What a key has spent in its period, against its budgets.

    :ivar limit_nano: the budget; without one, the soft budget.
    :ivar share: of the limit that is spent.
    :ivar soft_share: where the soft budget is on the way to the limit; ``None`` without one.
    """

    spent_nano: int
    limit_nano: int
    share: float
    soft_share: float | None
    kind: str


def meter(key: GatewayKey, stands: Standing | None, states: tuple[str, ...]) -> Meter | None:
    """Return how full the budget of a key is; ``None`` of a key without one."""
    limit = key.budget_nano if key.budget_nano is not None else key.soft_budget_nano
    if stands is None or not limit:
        return None
    soft = None
    if key.budget_nano is not None and key.soft_budget_nano is not None:
        soft = key.soft_budget_nano / limit
    kind = "bad" if BLOCKED in states else "warn" if {NEAR, SOFT} & {*states} else "good"
    return Meter(stands.spent_nano, limit, stands.spent_nano / limit, soft, kind)
