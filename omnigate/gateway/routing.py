"""Strategies: a route's targets in the order in which they are to be tried.

A strategy answers order and nothing else: it retries nothing, judges nothing.
Resting targets go last, in the order in which they were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Rng = Callable[[], float]


class Ranked(Protocol):
    """What a strategy must know of a target."""

    weight: int

    def resting(self, now: float) -> bool:
        """Whether it is to go last."""


T = TypeVar("T", bound=Ranked)


def order(strategy: str, targets: Sequence[T], turn: int, now: float, rng: Rng) -> list[T]:
    """The targets in the order to try them.

    :param turn: how many requests the route has had before; ``round_robin`` starts there.
    :param rng: uniform in [0, 1); only ``weighted`` asks it.
    """
    if len(targets) == 1:
        return list(targets)
    if strategy == "round_robin":
        first = turn % len(targets)
        ordered = [*targets[first:], *targets[:first]]
    elif strategy == "weighted":
        ordered = _by_weight(targets, rng)
    else:
        ordered = list(targets)
    awake = [target for target in ordered if not target.resting(now)]
    if len(awake) == len(ordered):
        return ordered
    return awake + [target for target in ordered if target.resting(now)]


def _by_weight(targets: Sequence[T], rng: Rng) -> list[T]:
    """Drawn one after the other without putting back; weight 0 comes after all others."""
    left = list(targets)
    ordered: list[T] = []
    while left:
        total = sum(target.weight for target in left)
        if total <= 0:
            return ordered + left
        mark = rng() * total
        drawn = 0
        for index, target in enumerate(left):
            mark -= target.weight
            if mark < 0:
                drawn = index
                break
        ordered.append(left.pop(drawn))
    return ordered
