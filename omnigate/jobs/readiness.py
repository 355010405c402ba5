"""Whether outputs can be kept, found out before anybody is paid for some."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from omnigate.jobs.storage import StorageFault

#: What was found out counts for so long: a job that begins rarely waits for it, and a disk that has
#: become full is seen by the next few.
KNOWN_SECONDS: Final = 1.0


class Readiness:
    """What is known of it; one question at a time, however many jobs begin.

    :param find_out: raises a :class:`StorageFault` where nothing can be kept.
    :param seconds: counts up, whatever is done to the machine's clock.
    """

    _log = Logger(namespace="omnigate.jobs")

    def __init__(
        self, find_out: Callable[[], Awaitable[None]], seconds: Callable[[], float]
    ) -> None:
        self._find_out = find_out
        self._seconds = seconds
        self._fault = self._told = ""
        self._known_until: float | None = None
        self._asking: Deferred[None] | None = None

    def unready(self) -> str | None:
        """Return why nothing can be kept; empty where it can be, None where that takes a moment.

        Whoever gets None asks again soon.
        """
        if not self._is_known() and self._asking is None:
            asking = self._asking = Deferred.fromCoroutine(self._ask())
            asking.addBoth(self._asked)
        return self._fault if self._is_known() else None

    def doubt(self) -> None:
        """Find out anew before the next job: something could not be kept."""
        self._known_until = None

    def stop(self) -> None:
        """Find out nothing any more."""
        if self._asking is not None:
            self._asking.cancel()

    def _is_known(self) -> bool:
        return self._known_until is not None and self._seconds() < self._known_until

    async def _ask(self) -> None:
        try:
            await self._find_out()
        except StorageFault as fault:
            self._fault = str(fault)
        except CancelledError:
            raise
        except Exception:
            self._log.failure("whether outputs can be kept could not be found out")
            self._fault = "a fault of the gateway"
        else:
            self._fault = ""
        self._known_until = self._seconds() + KNOWN_SECONDS
        if self._fault == self._told:
            return
        self._told = self._fault
        if self._fault:
            self._log.error("media jobs fail before they are paid for: {fault}", fault=self._fault)
        else:
            self._log.info("outputs of media jobs can be kept again")

    def _asked(self, result: object) -> None:
        self._asking = None
