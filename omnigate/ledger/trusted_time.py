"""The time by which things are forgotten for good: the wall clock, unless it has just jumped ahead.

A machine whose clock battery is empty, a mistyped ``date``, a time server gone wrong: for a while
the clock shows another year, and then the right one again. Whatever is forgotten by age (ids,
sealed segments, the sums of past days and months) would be gone in that while. So a clock that is
ahead of where it should be is believed only once it has been so for :data:`PATIENCE_SECONDS`, by
the monotonic clock. Until then the time goes on from the last one that was believed.

After a start the last time believed is that of the snapshot, so a control plane that was down for
long forgets an hour later. Nothing else waits: events have the time that the wall clock shows.

A clock that was put back is believed at once: by it nothing is too old.
"""

from __future__ import annotations

#: How far ahead a clock may be and still be believed at once: over a night's downtime, and by less
#: than the shortest time for which anything is kept.
BELIEVED_MS = 86_400_000

#: For how long a clock must have been ahead. A time server that answers sets it right in minutes.
PATIENCE_SECONDS = 3600.0


class TrustedTime:
    """Follows the wall clock; all times are milliseconds since 1970.

    :ivar believed_ms: what is believed.
    :ivar doubted: by how many days the clock is ahead of what is believed; 0 if it is believed.
    """

    def __init__(self, now_ms: int, known_ms: int | None, seconds: float) -> None:
        """Begin.

        :param now_ms: what the wall clock shows.
        :param known_ms: the newest time known from the disk; None if there is none.
        :param seconds: what the monotonic clock shows.
        """
        self.doubted = 0
        self.believed_ms = now_ms if known_ms is None else min(now_ms, known_ms)
        self._seconds = seconds
        self._ahead_since: float | None = None
        self.look(now_ms, seconds)

    def look(self, now_ms: int, seconds: float) -> int:
        """The time by which things may be forgotten; never ahead of the wall clock."""
        steady_ms = self.believed_ms + max(0, int((seconds - self._seconds) * 1000))
        if now_ms <= steady_ms + BELIEVED_MS:
            self._ahead_since, self.doubted = None, 0
            steady_ms = now_ms
        elif self._ahead_since is None:
            self._ahead_since = seconds
            self.doubted = (now_ms - steady_ms) // BELIEVED_MS
        elif seconds - self._ahead_since >= PATIENCE_SECONDS:
            self._ahead_since, self.doubted = None, 0
            steady_ms = now_ms
        self.believed_ms, self._seconds = steady_ms, seconds
        return steady_ms
