"""How an upstream fares, in one word of which both planes know the number."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class UpstreamState(IntEnum):
    """The numbers are those of ``omnigate_upstream_state``.

    :cvar HEALTHY: nothing is known against it.
    :cvar DEGRADED: some of its models failed and have not answered since.
    :cvar COOLING: all of them did, and rest.
    :cvar OPEN: it is not asked with success before somebody acts: it refuses the gateway's
        credential, or there is none for it.
    :cvar HALF_OPEN: all of its models failed; some may be asked again, none has answered since.
    """

    HEALTHY = 0
    DEGRADED = 1
    COOLING = 2
    OPEN = 3
    HALF_OPEN = 4


#: From the best to the worst.
_BY_WEIGHT = (
    UpstreamState.HEALTHY,
    UpstreamState.DEGRADED,
    UpstreamState.HALF_OPEN,
    UpstreamState.COOLING,
    UpstreamState.OPEN,
)
_WEIGHTS = {state: weight for weight, state in enumerate(_BY_WEIGHT)}


def worst(states: Iterable[int]) -> UpstreamState:
    """Return the worst of some states; numbers that are none are passed over."""
    known = (UpstreamState(state) for state in states if state in _WEIGHTS)
    return max(known, key=_WEIGHTS.__getitem__, default=UpstreamState.HEALTHY)
