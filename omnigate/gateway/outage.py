"""Tells the log of something that keeps failing: once at its start, seldom after, once at its end.

A poll every two seconds that fails for an hour is one fact, not eighteen hundred.
"""

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

#: A change of the reason is news, but two reasons that take turns are not: a resolver that fails
#: and a connection that is refused, for instance.
SECONDS_BETWEEN_REASONS = 10.0

#: Somebody who looks at the last minutes of a log must be able to see that it still fails.
SECONDS_BETWEEN_REMINDERS = 300.0


class Outage:
    """Whether one thing fails at present, and since when.

    :ivar since: when it began by the clock, or None while all is well.
    """

    def __init__(self, log: Logger, what: str, clock: IReactorTime) -> None:
        """Begin with all well.

        :param what: what fails, as a message begins: ``usage cannot be delivered``.
        """
        self._log = log
        self._what = what
        self._clock = clock
        self._reason = ""
        self._told = 0.0
        self.since: float | None = None

    def failed(self, reason: str) -> None:
        """Note a failure; it is logged when it is news."""
        now = self._clock.seconds()
        quiet = now - self._told
        if self.since is None:
            self.since = now
        elif quiet < SECONDS_BETWEEN_REASONS or (
            reason == self._reason and quiet < SECONDS_BETWEEN_REMINDERS
        ):
            return
        self._reason = reason
        self._told = now
        lasting = now - self.since
        if lasting >= 1:
            reason += f" (for {lasting:.0f} s now)"
        self._log.error("{what}: {reason}", what=self._what, reason=reason)

    def ended(self) -> None:
        """Note a success; it is logged when it ends an outage."""
        if self.since is not None:
            lasting = self._clock.seconds() - self.since
            self.since = None
            self._log.info(
                "no longer: {what} (lasted {lasting:.0f} s)", what=self._what, lasting=lasting
            )
