"""How full the budgets of keys are, the fullest first."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Sequence

import attrs

from omnigate.control.budget_watch import MAX_KEYS_AT_ONCE, BudgetWatch
from omnigate.control.dashboard.key_states import NEAR_PER_CENT
from omnigate.control.gateway_key import GatewayKey
from omnigate.ledger.budgets import Standing


@attrs.frozen
class BudgetShare:
    """One key with a budget.

    :ivar share: what is spent of it; more than 1 where the last requests went over it.
    :ivar turns_ms: when the next period begins; ``None`` where none does.
    """

    name: str
    period: str
    spent_nano: int
    budget_nano: int
    share: float
    is_blocked: bool
    turns_ms: int | None

    @property
    def is_near(self) -> bool:
        """Whether most of it is spent."""
        return self.spent_nano * 100 >= self.budget_nano * NEAR_PER_CENT


@attrs.frozen
class Budgets:
    """All budgets.

    :ivar fullest: the fullest ones, as many as were asked for.
    :ivar nearest: the same of those that are not blocked yet.
    :ivar total: how many keys have one; of these are ``blocked`` blocked, and ``near`` near it.
    """

    fullest: Sequence[BudgetShare] = ()
    nearest: Sequence[BudgetShare] = ()
    total: int = 0
    blocked: int = 0
    near: int = 0


def share_of(key: GatewayKey, standing: Standing) -> BudgetShare | None:
    """Return how full a key's budget is; ``None`` of one without."""
    budget = key.budget_nano
    if budget is None:
        return None
    spent = standing.spent_nano
    return BudgetShare(
        key.name,
        key.budget_period,
        spent,
        budget,
        spent / budget if budget else 1.0,
        standing.blocked,
        standing.turns_at_ms,
    )


async def budgets_of(
    keys: Sequence[GatewayKey],
    watch: BudgetWatch,
    most: int,
    pause: Callable[[], Awaitable[None]],
    now_ms: int,
) -> Budgets:
    """Look at the budgets of all keys that are neither disabled nor expired.

    :param most: how many of the fullest are wanted.
    :raises LedgerNotReady: what was spent cannot be told.
    """
    fullest: list[BudgetShare] = []
    nearest: list[BudgetShare] = []
    total = blocked = near = 0
    for start in range(0, len(keys), MAX_KEYS_AT_ONCE):
        if start:
            await pause()
        found = []
        for key in keys[start : start + MAX_KEYS_AT_ONCE]:
            if key.budget_nano is None or key.disabled or key.has_expired(now_ms):
                continue
            share = share_of(key, watch.standing(key))
            assert share is not None
            total += 1
            blocked += share.is_blocked
            near += share.is_near and not share.is_blocked
            found.append(share)
        fullest = heapq.nlargest(most, [*fullest, *found], key=_share)
        waiting = [share for share in found if not share.is_blocked]
        nearest = heapq.nlargest(most, [*nearest, *waiting], key=_share)
    return Budgets(fullest, nearest, total, blocked, near)


def _share(budget: BudgetShare) -> float:
    return budget.share
