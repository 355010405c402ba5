"""The token buckets: one that counts requests, one for amounts that show afterwards.

A bucket for requests holds up to ``rpm`` tokens, is full at first, and is refilled at ``rpm`` a
minute. It is kept as the one instant at which it would be full again (the generic cell rate
algorithm): taking a token moves that instant by one interval, and a token is there while the
instant lies no further ahead than the whole bucket takes to fill.
"""

WINDOW_SECONDS = 60.0

#: A clock that counts seconds since 1970 in a float has steps of 0.24 µs; a caller who waits as
#: long as it was told must not be refused over one of them.
SLACK_SECONDS = 1e-6

#: How deep in debt a bucket of amounts may be: one more bucket. A single answer may be a hundred
#: times as large as what was reserved for it, and its key is not to stand still for an hour.
DEBT_SECONDS = WINDOW_SECONDS
#: How far ahead lies the instant at which the deepest debt is paid and the bucket full.
MOST_AHEAD_SECONDS = WINDOW_SECONDS + DEBT_SECONDS

#: The window and the unit in which reservations are counted.
WINDOW_NS = 60_000_000_000
NANOSECOND = 1e-9


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


class AmountBucket:
    """A bucket of ``rate`` units a minute, for requests whose size shows afterwards only.

    Before a request its likely amount is *reserved*; at its end that is *settled* against what it
    came to. The bucket holds as much as a minute brings. Whoever reserves more waits for a full
    bucket, and not for ever. Who used more than there was leaves a debt, which is bounded: the rest
    of it is forgiven. Who used less gives the difference back, however long it was under way; so a
    window may see as much more than its rate and one bucket as was reserved when it began.

    It is kept as :class:`TokenBucket` is, in two parts: the instant at which it would be full if
    nothing were reserved, and what all reservations come to, in whole nanoseconds of the time that
    it takes to bring them, so that they add up to zero again exactly.

    """

    __slots__ = ("_full_at", "_held", "rate")

    def __init__(self, rate: int) -> None:
        """Make a full bucket.

        :param rate: units a minute, at least 1.
        """
        self._full_at = float("-inf")
        self._held = 0
        self.rate = rate

    @property
    def held(self) -> int:
        """What is reserved, in nanoseconds."""
        return self._held

    def need(self, amount: int) -> int:
        """What has to be reserved for so many units, in nanoseconds: the whole bucket at most."""
        return min(amount * WINDOW_NS // self.rate, WINDOW_NS)

    def reserve(self, need: int, now: float) -> float:
        """Reserve, or tell how long it will not be possible.

        :param need: see :meth:`need`.
        :param now: seconds of a clock that does not go back.
        :returns: 0.0 where it was reserved, and :meth:`settle` is to be called once; else the
            seconds until it can be, if nothing else happens meanwhile.
        """
        full_at = self._filled(now)
        if full_at > now + MOST_AHEAD_SECONDS + SLACK_SECONDS:
            # The clock went back. An empty bucket is the worst that may come of it.
            self._full_at -= full_at - now - WINDOW_SECONDS
            full_at = now + WINDOW_SECONDS
        wait = full_at + need * NANOSECOND - now - WINDOW_SECONDS
        if wait > SLACK_SECONDS:
            return wait
        self._held += need
        return 0.0

    def settle(self, need: int, amount: int, now: float) -> None:
        """Give back what was reserved, and take what the request came to, there or not.

        :param need: as it was reserved.
        :param amount: in units.
        """
        most = now + MOST_AHEAD_SECONDS - self._filled(now) + need * NANOSECOND
        self._held -= need
        self._full_at += max(0.0, min(amount * WINDOW_SECONDS / self.rate, most))

    def _filled(self, now: float) -> float:
        """The instant at which it will be full, with all that is reserved."""
        reserved = self._held * NANOSECOND
        if self._full_at + reserved < now:
            self._full_at = now - reserved
        return self._full_at + reserved

    def resize(self, rate: int) -> None:
        """Change the rate; what is in the bucket stays, in proportion to its size."""
        self.rate = rate
