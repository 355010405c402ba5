"""Failed sign-ins, of which anyone can cause as many as he likes: a line, then a count.

The first of an address in a minute is told at once. The others are counted, and told together when
the minute is over. IPv6 addresses count by their /64, as they do for lock-outs.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from omnigate.control.auth import network_of

WINDOW_SECONDS: Final = 60.0

#: Addresses that have a tally of their own at a time; all others share one. At two lines of 200
#: bytes for each in a minute, a flood from everywhere takes four days to push an operator's line
#: out of the four files of 50 MB.
MAX_ADDRESSES: Final = 64

#: What the tally of all others is called.
OTHERS: Final = "others"


@attrs.define
class Tally:
    """The failed sign-ins of one address within a minute, the first one not counted.

    :ivar since: when the first one was, in seconds of the caller's clock.
    :ivar reasons: how many there were of each reason.
    """

    address: str
    since: float
    reasons: Counter[str] = attrs.Factory(Counter)

    @property
    def repeats(self) -> int:
        """How many there were after the first."""
        return self.reasons.total()


class SignInTallies:
    """The tallies of the minutes that are not over. Pure: the time comes in with each call."""

    def __init__(self, max_addresses: int = MAX_ADDRESSES) -> None:
        self._max_addresses = max_addresses
        self._tallies: dict[str, Tally] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._tallies)

    def failed(self, address: str, reason: str, now: float) -> bool:
        """Count a failed sign-in; return whether it is the first, which has a line of its own."""
        name = network_of(address)
        if name not in self._tallies and len(self._tallies) >= self._max_addresses:
            name = OTHERS
        tally = self._tallies.get(name)
        if tally is None:
            self._tallies[name] = Tally(name, now)
            return True
        tally.reasons[reason] += 1
        return False

    def next_end(self) -> float | None:
        """Return when the next minute is over, or None where none is under way."""
        for tally in self._tallies.values():
            return tally.since + WINDOW_SECONDS
        return None

    def take(self, now: float | None = None) -> list[Tally]:
        """Forget the minutes that are over by ``now``, or all, and return those with repeats."""
        over = [
            tally
            for tally in self._tallies.values()
            if now is None or tally.since + WINDOW_SECONDS <= now
        ]
        for tally in over:
            del self._tallies[tally.address]
        return [tally for tally in over if tally.repeats]
