"""Whether a key may still start work: its spend in the current period against its budget."""

from __future__ import annotations

import attrs

from omnigate.periods import PERIODS, UTC, next_turn


@attrs.frozen
class Standing:
    """How a key stands against its budget.

    ``left_nano`` is None without a budget and never negative; ``turns_at_ms`` is when the period
    ends (None for ``"total"``, which never does); ``over_soft`` says that a soft budget is reached.
    """

    spent_nano: int
    budget_nano: int | None
    left_nano: int | None
    blocked: bool
    turns_at_ms: int | None
    over_soft: bool = False


def blocked(budget_nano: int | None, period: str, spent_nano: int) -> bool:
    """Tell whether a budget is used up.

    A budget is used up when the spend has reached it, not when it has passed it: the next request
    would be the one over it. So a budget of zero allows nothing.

    :param budget_nano: the budget in nano-dollars; None for a key without one.
    :param period: the budget's period, which the spend must be of.
    :param spent_nano: the key's spend in the current period, in nano-dollars.
    :raises ValueError: the period is unknown, so the spend cannot be of it.
    """
    if period not in PERIODS:
        raise ValueError(f'no budget period "{period}": use one of {", ".join(PERIODS)}')
    return budget_nano is not None and spent_nano >= budget_nano


def standing(
    budget_nano: int | None,
    period: str,
    spent_nano: int,
    now_ms: int,
    zone: str = UTC,
    soft_nano: int | None = None,
) -> Standing:
    """How a key stands at ``now_ms``: spent, left, and when the period turns.

    :param zone: the time zone of the budget's period, in which the spend must have been counted.
    :param soft_nano: the soft budget in nano-dollars; None for a key without one.
    :raises ValueError: the period is unknown, or the zone is.
    """
    return Standing(
        spent_nano=spent_nano,
        budget_nano=budget_nano,
        left_nano=None if budget_nano is None else max(0, budget_nano - spent_nano),
        blocked=blocked(budget_nano, period, spent_nano),
        turns_at_ms=next_turn(period, now_ms, zone),
        over_soft=soft_nano is not None and spent_nano >= soft_nano,
    )
