"""The token bucket that both planes count requests with.

A bucket holds up to ``rpm`` tokens, is full at first, and is refilled at ``rpm`` a minute. It is
kept as the one instant at which it would be full again (the generic cell rate algorithm): taking
a token moves that instant by one interval, and a token is there while the instant lies no further
ahead than the whole bucket takes to fill.
"""

WINDOW_SECONDS = 60.0

#: A clock that counts seconds since 1970 in a float has steps of 0.24 µs; a caller who waits as
#: long as it was told must not be refused over one of them.
SLACK_SECONDS = 1e-6


class TokenBucket:
    """A bucket of ``rpm`` requests a minute, with a burst of as many; 0 is no limit."""

    __slots__ = ("_full_at", "_interval", "_room", "rpm")

    def __init__(self, rpm: int) -> None:
        """Make a full bucket.

        :param rpm: requests a minute; 0 for no limit.
        """
        self._full_at = float("-inf")
        self._set_rate(rpm)

    def _set_rate(self, rpm: int) -> None:
        self.rpm = rpm
        self._interval = WINDOW_SECONDS / rpm if rpm > 0 else 0.0
        # How far ahead the instant may lie for one more token to fit.
        self._room = WINDOW_SECONDS - self._interval

    def take(self, now: float) -> float:
        """Take a token, or tell how long there will be none.

        :param now: seconds of a clock that does not go back.
        :returns: 0.0 where a token was taken, else the seconds until one is there.
        """
        interval = self._interval
        if not interval:
            return 0.0
        full_at = self._full_at
        if full_at < now:
            self._full_at = now + interval
            return 0.0
        wait = full_at - now - self._room
        if wait <= SLACK_SECONDS:
            self._full_at = full_at + interval
            return 0.0
        if wait > interval + 2 * SLACK_SECONDS:
            # The clock went back. An empty bucket is the worst that may come of it.
            self._full_at = now + WINDOW_SECONDS
            return interval
        return wait

    def resize(self, rpm: int, now: float) -> None:
        """Change the rate; what is in the bucket stays, in proportion to its size."""
        if rpm == self.rpm:
            return
        if not self._interval:
            # Without a limit nothing was counted.
            self._full_at = now
        self._set_rate(rpm)
