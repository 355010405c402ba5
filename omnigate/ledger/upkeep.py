"""When the ledger is sealed, snapshotted and thinned out, and in what order.

A *round* does what is due: it seals, makes one snapshot, whatever number of reasons there are for
it, and deletes old segments. Rounds do not overlap; what comes due during one has the next.

No group is entered while the rows of a snapshot are made, so that they and the position are of one
moment. They are made in slices, with a turn for everybody else in between. Writing them is up to
the writer thread, behind which the next groups wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.ledger.counters import LedgerCounters
from omnigate.ledger.recording import Recording
from omnigate.ledger.store import Appended, LedgerStore
from omnigate.ledger.trouble import EXPECTED, LOG_SECONDS, cause
from omnigate.periods import utc_day
from omnigate.writer_thread import IWriter

T = TypeVar("T")

#: How often it is looked whether something is due that no event brings about.
CHECK_SECONDS = 300.0

#: Events after which a snapshot is made: replaying them takes a start about a second.
SNAPSHOT_EVENTS = 50_000

#: For how long rows are made before the others have their turn.
SLICE_SECONDS = 0.003


@attrs.define(eq=False)
class Upkeep:
    """Seals, snapshots and deletes, each when it is due.

    :ivar ledger_days: for how many days sealed segments are kept; 0 for ever. May be changed.
    :ivar now_ms: what the clock shows.
    :ivar trusted_ms: the time by which things are forgotten.
    :ivar pause: lets the reactor do something else.
    :ivar crashed: told of a fault of this program.
    """

    store: LedgerStore
    writer: IWriter
    clock: IReactorTime
    counters: LedgerCounters
    recording: Recording
    now_ms: Callable[[], int]
    trusted_ms: Callable[[], int]
    pause: Callable[[], Awaitable[None]]
    ledger_days: int
    crashed: Callable[[Failure], None] = lambda failure: None
    _owed: bool = attrs.field(default=False, init=False)
    # Whether the last snapshot failed: the next check tries again, even if nothing was recorded.
    _missed: bool = attrs.field(default=False, init=False)
    _seal_due: bool = attrs.field(default=False, init=False)
    _check_due: bool = attrs.field(default=False, init=False)
    _since: int = attrs.field(default=0, init=False)
    _next_at: int = attrs.field(factory=lambda: SNAPSHOT_EVENTS, init=False)
    _running: bool = attrs.field(default=False, init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    _abandoned: bool = attrs.field(default=False, init=False)
    _timer: IDelayedCall | None = attrs.field(default=None, init=False)
    _ended: list[Deferred[None]] = attrs.field(factory=list, init=False)
    _logged_at: float = attrs.field(default=float("-inf"), init=False)

    _log = Logger()

    def start(self, needs_snapshot: bool) -> None:
        """Begin to look after the ledger, which was loaded just now.

        :param needs_snapshot: whether the start left a reason for one.
        """
        self._owed = needs_snapshot
        self._timer = self.clock.callLater(CHECK_SECONDS, self._check)
        self._go_on()

    def entered(self, events: int, appended: Appended) -> None:
        """Take note of a group that was entered in the books."""
        self._since += events
        self._owed = self._owed or appended.forgotten
        self._seal_due = appended.full
        if appended.forgotten or self._seal_due or self._since >= self._next_at:
            self._go_on()

    async def stop(self) -> None:
        """Make a last snapshot if anything was recorded since the last one; the rest is left.

        To be called once nothing is recorded any more.
        """
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running:
            ended: Deferred[None] = Deferred()
            self._ended.append(ended)
            await ended
        if self._owed or self._missed or self._since:
            await self._snapshot()

    def abandon(self) -> None:
        """Do nothing more; what is under way comes to nothing, and is not told of."""
        self._stopped = self._abandoned = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = self.clock.callLater(CHECK_SECONDS, self._check)
        self._check_due = True
        self._go_on()

    # -- rounds -------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Begin a round if one is due and none is under way.

        None is, once the sums are in doubt: a snapshot would keep what is wrong with them.
        """
        if self._running or self._stopped or self.recording.trouble.for_good:
            return
        if self._owed or self._seal_due or self._check_due or self._since >= self._next_at:
            self._running = True
            Deferred.fromCoroutine(self._round()).addBoth(self._round_ended)

    def _round_ended(self, result: object) -> None:
        self._running = False
        if self._abandoned:
            return
        if isinstance(result, Failure):
            # A fault of this program. What is due stays so until the next check.
            self._log.failure("the upkeep of the ledger failed", result)
            self._owed = self._seal_due = self._check_due = False
            self._missed = True
            self._next_at = self._since + SNAPSHOT_EVENTS
        ended, self._ended = self._ended, []
        for waiter in ended:
            waiter.callback(None)
        if not isinstance(result, Failure):
            self._go_on()
        elif not result.check(*EXPECTED):
            self.crashed(result)

    async def _round(self) -> None:
        checking, self._check_due = self._check_due, False
        old: list[int] = []
        if checking or self._seal_due:
            await self._seal(by_day=checking)
        if checking:
            if await self._tried(partial(self.store.turn_to, self._today())):
                self._owed = True
            old = await self._outdated()
            self._owed = self._owed or self._missed or self._since > 0
        if self._owed or self._since >= self._next_at:
            await self._snapshot()
        if old:
            await self._sweep(old)

    def _today(self) -> str:
        return utc_day(self.trusted_ms())

    async def _seal(self, by_day: bool) -> None:
        """Seal the active segment where that is due; a snapshot follows."""
        self._seal_due = False
        sealed = await self._tried(partial(self.store.seal, self._today() if by_day else ""))
        if sealed is None:
            # It may be sealed for all that: the next check makes sure of a snapshot.
            self._missed = True
        self._owed = self._owed or sealed is True

    async def _outdated(self) -> list[int]:
        """Sealed segments to delete; a snapshot comes first where two do not cover them yet."""
        if not self.ledger_days:
            return []
        job = partial(self.store.outdated, self.ledger_days, self.trusted_ms())
        old = await self._tried(job) or []
        if old and self.store.uncovered(old):
            self._owed = True
        return old

    async def _sweep(self, old: list[int]) -> None:
        deleted = await self._tried(partial(self.store.sweep, old))
        if deleted:
            self._log.info(
                "{count} sealed segments from before the last {days} days were deleted, up to "
                "{path}; the sums keep what they held",
                count=len(deleted),
                days=self.ledger_days,
                path=self.store.family.sealed(deleted[-1]),
            )

    # -- snapshots ----------------------------------------------------------------------------

    async def _snapshot(self) -> None:
        """Make one snapshot of all that is recorded; after a failure it is due with the next."""
        self._owed, self._missed = False, True
        await self.recording.hold()
        since, self._since = self._since, 0
        self._next_at = SNAPSHOT_EVENTS
        try:
            if self.recording.trouble.for_good:
                return  # also where the group that was waited for has brought it about
            chunks = await self._chunks()
            installed = self.writer.submit(
                partial(
                    self.store.install_snapshot,
                    chunks,
                    self.recording.events,
                    self.trusted_ms(),
                    self.now_ms(),
                )
            )
        finally:
            self.recording.release()
        try:
            await installed
        except Exception as error:
            if self._abandoned or not isinstance(error, EXPECTED):
                raise
            # What it would have covered is left to the next one.
            self._since += since
            self._next_at += since
            self.counters.failed_snapshots += 1
            self._tell("no snapshot can be written", error)
            return
        self._missed = False
        self.counters.snapshots += 1
        await self._tried(partial(self.store.keep_tables, self._stopped))

    async def _chunks(self) -> list[bytes]:
        """The rows of the books, made in slices."""
        chunks: list[bytes] = []
        began = self.clock.seconds()
        for chunk in self.recording.books.rows():
            chunks.append(chunk)
            if self.clock.seconds() - began >= SLICE_SECONDS:
                await self.pause()
                began = self.clock.seconds()
        return chunks

    async def _tried(self, job: Callable[[], T]) -> T | None:
        """Have the writer do something that can as well be done next time."""
        try:
            return await self.writer.submit(job)
        except OSError as error:
            self._tell("its upkeep failed", error)
            return None

    def _tell(self, what: str, error: BaseException) -> None:
        """Log a failure, once a minute."""
        now = self.clock.seconds()
        if now - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = now
        self._log.error(
            "{path}: {what} ({cause}); recording goes on, and it is tried again (snapshots failed "
            "so far: {count}). Free or repair the disk.",
            path=self.store.family.active,
            what=what,
            cause=cause(error),
            count=self.counters.failed_snapshots,
        )
