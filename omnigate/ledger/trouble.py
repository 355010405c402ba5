"""What is wrong with the ledger's disk, in fixed words, and whether it is well again.

While batches cannot be written, a *probe* tries the disk every few seconds, so that the plane is
ready again without anybody having sent anything.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.ledger.id_file import NewerIdsError
from omnigate.writer_thread import WriterBusyError, WriterStoppedError

FULL: Final = "the ledger's disk is full"
FAILING: Final = "the ledger's disk is failing"
MOVED: Final = "the ledger's file was moved or shortened"
SILENT: Final = "the ledger's disk does not answer"
FAULTY: Final = "the ledger's sums are in doubt after a fault of the program"

#: A disk that stays broken is news once a minute, not at each attempt.
LOG_SECONDS = 60.0

#: How often a disk that refused is tried: soon enough that nobody waits for it.
PROBE_SECONDS = 3.0

#: A disk that has not answered for so long is not going to soon. Syncs of a busy disk take a second
#: or two.
SILENT_SECONDS = 10.0

#: What a writer thread's job may come to without anything being broken in this program. Whatever
#: else it raises leaves the ledger in a state that nobody has thought of.
EXPECTED: Final = (OSError, WriterBusyError, WriterStoppedError, NewerIdsError)

_MOVED = frozenset({errno.ESTALE, errno.ENOENT})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Trouble:
    """Keeps why nothing can be recorded, and tries the disk until something can.

    :param path: the file that the log names.
    :param probe: tries the disk; its Deferred fails while the disk refuses.
    """

    _log = Logger()

    def __init__(self, path: str, clock: IReactorTime, probe: Callable[[], Deferred[None]]) -> None:
        self._path = path
        self._clock = clock
        self._probe = probe
        self._words: str | None = None
        self._logged_at = float("-inf")
        self._timer: IDelayedCall | None = None
        self._stopped = False
        self._asked_at: float | None = None

    @property
    def words(self) -> str | None:
        """Why nothing can be recorded now, one of the constants above; None where all is well."""
        asked_at = self._asked_at
        if self._words is None and asked_at is not None:
            silent = self._clock.seconds() - asked_at >= SILENT_SECONDS
            return SILENT if silent else None
        return self._words

    @property
    def for_good(self) -> bool:
        """Whether only a new start helps."""
        return self._words == FAULTY

    def asked(self) -> None:
        """The disk was given something to write."""
        self._asked_at = self._clock.seconds()

    def answered(self) -> None:
        """There was nothing to write after all, so nothing is known of the disk."""
        self._asked_at = None

    def well(self) -> None:
        """It was written."""
        self._asked_at = None
        if self._words is not None and not self.for_good:
            self._words = None
            self._stop_timer()
            self._log.info("{path}: can be written again", path=self._path)

    def refused(self, failure: Failure, batches: int, failures: int) -> None:
        """It was not, for the how manieth time, and so many batches failed with it."""
        self._asked_at = None
        self._take(failure)
        now = self._clock.seconds()
        if now - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = now
        self._log.error(
            "{path}: {cause}; {remedy}. Batches that were not recorded, and will be sent again: "
            "{batches} (failures so far: {count}).",
            path=self._path,
            remedy=remedy(failure.value),
            cause=cause(failure.value),
            batches=batches,
            count=failures,
        )

    def fault(self, failure: Failure) -> None:
        """The sums in memory may be wrong: nothing is recorded any more, and no snapshot made."""
        self._asked_at = None
        self._words = FAULTY
        self._stop_timer()
        self._log.failure(
            "{path}: the bookkeeping failed; nothing is recorded until the ledger is opened anew, "
            "which counts what stands in it",
            failure,
            path=self._path,
        )

    def stop(self) -> None:
        """Try the disk no more."""
        self._stopped = True
        self._stop_timer()

    def _take(self, failure: Failure) -> None:
        if not self.for_good:
            self._words = words_for(failure.value)
            if self._timer is None and not self._stopped:
                self._timer = self._clock.callLater(PROBE_SECONDS, self._try)

    def _try(self) -> None:
        self._timer = None
        self._probe().addCallbacks(lambda _: self.well(), self._take)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def words_for(error: BaseException | None) -> str:
    """The fixed words for what the disk said."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return FULL
    return MOVED if number in _MOVED else FAILING


def remedy(error: BaseException | None) -> str:
    """What an operator can do about it."""
    if words_for(error) == MOVED:
        return "put the file back as it was; a restart counts what is left of it"
    return "free or repair the disk"


def cause(error: BaseException | None) -> str:
    """What went wrong, in words without a path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
