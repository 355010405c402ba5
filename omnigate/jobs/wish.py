"""The wish of a client that a job be canceled, which may come at any moment."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from omnigate.jobs.alarms import Alarms


class Wish:
    """The client's wish that a job be canceled, and what waits but for it.

    :ivar asked: whether there is one that nobody has acted on.
    :ivar ever: whether there ever was one.
    """

    def __init__(self, asked: bool = False) -> None:
        self.asked = self.ever = asked
        self._sleeper: Deferred[None] | None = None

    def ask(self) -> None:
        """Wish it, maybe once more."""
        self.asked = self.ever = True
        self.wake()

    async def sleep(self, alarms: Alarms, seconds: float) -> None:
        """Wait so long, or until it is wished, or until :meth:`wake`."""
        if self.asked or seconds <= 0:
            return
        sleeper = self._sleeper = Deferred[None]()
        alarm = alarms.after(seconds)
        alarm.addCallbacks(lambda _: self.wake(), lambda failure: None)
        try:
            await sleeper
        finally:
            self._sleeper = None
            alarm.cancel()

    def wake(self) -> None:
        """End the wait."""
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.callback(None)
