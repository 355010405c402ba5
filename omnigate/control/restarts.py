"""When the stores are started again after they crashed: the rule alone, without a clock of its own.

It is that of a supervisor and of a guard over it. A crash is followed by a new start at once. Four
crashes inside five seconds, and the group of stores gives up: the next start comes after half a
second, and after twice as long each time that the group gives up again, up to thirty seconds. A
start that fails is a group that has given up. Once the group has been up for a minute, the next
pause is half a second again.

Only the time in which the group is up counts for the five seconds and for the minute, so that a
ledger that takes ten seconds to load and crashes right away is no reason to load it for ever.
"""

from __future__ import annotations

from collections import deque
from typing import Final

#: So many crashes inside so many seconds are too many.
MAX_CRASHES: Final = 4
CRASH_SECONDS: Final = 5.0

#: The first pause, the longest one, and for how long the group must be up to begin anew.
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
PROVEN_SECONDS: Final = 60.0


class Restarts:
    """Says how long to wait for the next start; all times are seconds of one steady clock."""

    def __init__(self) -> None:
        self._up_since = 0.0
        # How long the group has been up in all since it last gave up.
        self._up_seconds = 0.0
        # When the last crashes were, in that time.
        self._crashes: deque[float] = deque(maxlen=MAX_CRASHES)
        self._pause = 0.0

    def opened(self, now: float) -> None:
        """The group is up."""
        self._up_since = now

    def crashed(self, now: float) -> float:
        """The group was up and has crashed.

        :return: how many seconds to wait before it is started again; 0 for at once.
        """
        self._up_seconds += max(0.0, now - self._up_since)
        if self._up_seconds >= PROVEN_SECONDS:
            self._pause = 0.0
        crashes = self._crashes
        crashes.append(self._up_seconds)
        if len(crashes) < MAX_CRASHES or crashes[-1] - crashes[0] > CRASH_SECONDS:
            return 0.0
        return self.failed()

    def failed(self) -> float:
        """The group could not be started, or has given up.

        :return: how many seconds to wait before it is started again.
        """
        self._crashes.clear()
        self._up_seconds = 0.0
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        return self._pause
