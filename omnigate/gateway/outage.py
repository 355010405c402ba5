"""Tells the log of something that keeps failing: once at its start, seldom after, once at its end.

A poll every two seconds that fails for an hour is one fact, not eighteen hundred.
"""

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.protocols.connector import UpstreamConnectError
from omnigate.protocols.pool import Connect
from omnigate.text import one_line

#: A change of the reason is news, but two reasons that take turns are not: a resolver that fails
#: and a connection that is refused, for instance.
SECONDS_BETWEEN_REASONS = 10.0

#: Somebody who looks at the last minutes of a log must be able to see that it still fails.
SECONDS_BETWEEN_REMINDERS = 300.0

#: What is shown of a reason: names of a host and a proxy, and the words for what went wrong.
_SHOWN_CHARS = 500


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


def told_connect(connect: Connect, outage: Outage) -> Connect:
    """Have the log told why connections to an upstream do not come about, and when they do again.

    A client is told no more than that it is so; the reason has names of the network in it.
    """

    def open_connection(make: Callable[[], IProtocol]) -> Deferred[IProtocol]:
        return connect(make).addCallbacks(opened, failed)

    def opened(connection: IProtocol) -> IProtocol:
        outage.ended()
        return connection

    def failed(failure: Failure) -> Failure:
        # Not one that was called off, since its client has left.
        if failure.check(UpstreamConnectError):
            outage.failed(one_line(str(failure.value), _SHOWN_CHARS))
        return failure

    return open_connection
