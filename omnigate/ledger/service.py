"""The ledger: records batches of events durably, and answers what was used and what it cost.

A batch is judged and priced when it comes (:mod:`~omnigate.ledger.ingest`), and waits while the
writer thread is at work. What waits together is one group: one write and one sync. Only then are
its events entered in the books, and only then is each batch acknowledged. So the books never claim
what the disk does not have, and an acknowledged batch is on the disk.

When the disk refuses, every batch in flight or waiting fails with :class:`StorageUnavailable` and
leaves no trace in the books. The data plane sends them again; the next write first cuts off what
the failed one may have left, so nothing need be done once the disk is well again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.errors import GatewayError
from omnigate.events import UsageEvent
from omnigate.files import IWriter
from omnigate.ledger.books import RECENT_EVENTS, Books
from omnigate.ledger.ingest import Prepared, prepare
from omnigate.ledger.replay import LoadCanceledError, Replay
from omnigate.ledger.segments import ActiveSegment
from omnigate.ledger.totals import NamedSums, Sums
from omnigate.money import Price
from omnigate.periods import UTC, utc_day
from omnigate.text import one_line

#: Events that a batch may hold: twice what a data plane sends. Judging and pricing this many takes
#: about 15 ms, and is done in one go.
MAX_BATCH_EVENTS = 1_000

#: Events that may wait for the writer, beyond which batches are refused: twenty full batches, of
#: about 1.5 KB an event in memory. More wait only when the disk has stopped answering.
MAX_WAITING_EVENTS = 10_000

#: Events written and synced together: entering them in the books is done in one go. A larger group
#: would gain nothing, since one sync for a thousand events already costs less than judging them.
MAX_GROUP_EVENTS = 1_000

#: Targets without a price that are remembered as logged. The config file has far fewer.
UNPRICED_REMEMBERED = 1_000

#: A disk that stays broken is news once a minute, not at each attempt.
FAILURE_LOG_SECONDS = 60.0


class StorageUnavailable(GatewayError):  # noqa: N818
    """A batch was not recorded since the disk refused; it may be sent again as it is.

    ``message`` names the cause and the remedy; ``detail``, for the log, names the file too.
    """

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(
            "storage_unavailable",
            f"the ledger cannot be written ({cause}); nothing of this batch was recorded: "
            "free or repair the control plane's disk, then send it again",
            retry_after=1,
            detail=detail,
        )


class LedgerNotReady(GatewayError):  # noqa: N818
    """The ledger is still being loaded, or is closed: no sum can be told, nothing recorded."""

    def __init__(self) -> None:
        super().__init__(
            "not_ready", "the ledger is not loaded yet; try again in a second", retry_after=1
        )


@attrs.frozen
class IngestResult:
    """What became of the events of a batch."""

    recorded: int
    duplicates: int
    invalid: int
    unpriced: int


@attrs.define
class LedgerCounters:
    """What was counted since the start; all begin at 0.

    :ivar recorded: events written to the disk and counted.
    :ivar duplicates: events skipped since their id was recorded before.
    :ivar invalid: events dropped since they cannot be recorded.
    :ivar unpriced: events recorded at no cost since their target has no price.
    :ivar replayed: events read back at the start.
    :ivar replay_duplicates: lines skipped at the start since their id had been read before.
    :ivar damaged_lines: lines that could not be read at the start. They stay in the file.
    :ivar torn_bytes: bytes of a line cut short by a crash, cut off at the start.
    :ivar failed_writes: groups that the disk refused.
    """

    recorded: int = 0
    duplicates: int = 0
    invalid: int = 0
    unpriced: int = 0
    replayed: int = 0
    replay_duplicates: int = 0
    damaged_lines: int = 0
    torn_bytes: int = 0
    failed_writes: int = 0

    def loaded(self, replay: Replay) -> None:
        """Take over what a start counted."""
        self.replayed = replay.events
        self.replay_duplicates = replay.duplicates
        self.damaged_lines = replay.damaged
        self.torn_bytes = replay.torn_bytes


@attrs.define(eq=False)
class _Batch:
    """A batch between its coming and its acknowledgement."""

    prepared: Prepared
    done: Deferred[IngestResult] = attrs.Factory(Deferred)

    def result(self) -> IngestResult:
        prepared = self.prepared
        return IngestResult(
            recorded=len(prepared.entries),
            duplicates=prepared.duplicates,
            invalid=prepared.invalid,
            unpriced=prepared.unpriced,
        )


class Ledger:
    """The one writer and reader of the ledger's files.

    It is *closed* until :meth:`open` has read all there is, then *ready*, then closed again.
    Sums are told only while it is ready: "nothing spent" is never an artefact of a start.

    :param path: the active segment, such as ``/var/lib/omnigate/ledger.jsonl``.
    :param clock: for what lasts.
    :param wall: seconds since 1970, the time of recording; the clock's where it is left out.
    :param writer: the thread that does everything that touches the disk.
    :param price: the price of an event's target, None where there is none.
    :param ids_days: for how many days the ids of recorded events are remembered; 0 for ever.
    :param observe: told of each event and its cost in nano-dollars once it is recorded, for
        metrics; not of those read back at the start.
    """

    _log = Logger()

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        writer: IWriter,
        price: Callable[[UsageEvent], Price | None],
        *,
        ids_days: int = 3,
        wall: Callable[[], float] | None = None,
        observe: Callable[[UsageEvent, int], None] | None = None,
    ) -> None:
        self.counters = LedgerCounters()
        self._clock = clock
        self._wall = wall or clock.seconds
        self._writer = writer
        self._price = price
        self._ids_days = ids_days
        self._observe = observe
        self._segment = ActiveSegment(path)
        self._books: Books | None = None
        self._opening: Replay | None = None
        self._closing = False
        self._pending: set[int] = set()
        self._waiting: deque[_Batch] = deque()
        self._waiting_events = 0
        self._writing = False
        self._idle: list[Deferred[None]] = []
        self._unpriced_logged: set[tuple[str, str | None, str | None]] = set()
        self._failing = False
        self._failure_logged_at = float("-inf")

    @property
    def ready(self) -> bool:
        """Whether it can be read and written."""
        return self._books is not None and not self._closing

    # -- opening and closing ------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """Read the segment whole, cut off a torn last line, and get ready.

        It reads and counts in slices, so the reactor is never held. A damaged line is logged with
        its place and counted, and stays where it is. After a failure it may be tried again.

        :return: fires when ready; fails with
            :class:`~omnigate.ledger.replay.LedgerUnreadableError`, or when it is closed meanwhile.
        """
        if self._opening is not None or self._books is not None:
            raise RuntimeError("the ledger is open already")
        self._opening = Replay(self._segment, Books(self._ids_days))
        return Deferred.fromCoroutine(self._open(self._opening))

    async def _open(self, replay: Replay) -> None:
        started = self._clock.seconds()
        try:
            await replay.run(self._writer)
            if replay.canceled:
                raise LoadCanceledError("the ledger was closed while it was being loaded")
            replay.books.totals.drop_before(self._now_ms())
            self._books = replay.books
        finally:
            self._opening = None
            self.counters.loaded(replay)
            self._tell_idle()
        self._log.info(
            "{path}: {events} events loaded in {seconds:.1f} s; {duplicates} lines skipped as "
            "duplicates, {damaged} damaged",
            path=self._segment.path,
            events=replay.events,
            seconds=self._clock.seconds() - started,
            duplicates=replay.duplicates,
            damaged=replay.damaged,
        )

    def close(self) -> Deferred[None]:
        """Take no more batches, finish those that wait, and close the file.

        A start in progress is broken off. The writer is the caller's to stop.
        """
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._opening is not None:
            self._opening.canceled = True
        if self._opening is not None or self._writing:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle
        self._books = None
        self._closing = False
        await self._writer.submit(self._segment.close)

    def _tell_idle(self) -> None:
        """Let a close that waited for the work in hand go on."""
        idle, self._idle = self._idle, []
        for waiter in idle:
            waiter.callback(None)

    # -- recording ----------------------------------------------------------------------------

    def record(self, events: Sequence[bytes | dict[str, Any]]) -> Deferred[IngestResult]:
        """Record a batch: what is valid and new is priced, written and synced, then counted.

        :param events: at most :data:`MAX_BATCH_EVENTS`; each a JSON object, or the bytes of one.
        :return: fires when every event of the batch is on the disk or was left out for good.
            Fails with :class:`LedgerNotReady`, :class:`StorageUnavailable`, or ``GatewayError``
            for a batch that is too large.
        """
        if self._books is None or self._closing:
            return fail(LedgerNotReady())
        if len(events) > MAX_BATCH_EVENTS:
            return fail(
                GatewayError(
                    "invalid_request",
                    f"a batch holds at most {MAX_BATCH_EVENTS} events, this one {len(events)}; "
                    "send it in parts",
                    param="events",
                )
            )
        if self._waiting_events + len(events) > MAX_WAITING_EVENTS:
            return fail(StorageUnavailable("the disk does not keep up with what is to be written"))
        books = self._books
        now_ms = self._now_ms()
        books.turn_to(utc_day(now_ms), now_ms)
        prepared = prepare(
            events,
            recorded=books.ids.__contains__,
            pending=self._pending.__contains__,
            price=self._price,
            now_ms=now_ms,
        )
        batch = _Batch(prepared)
        if not prepared.entries and not prepared.waits:
            self._count(batch)
            return succeed(batch.result())
        self._pending.update(entry.digest for entry in prepared.entries)
        self._waiting.append(batch)
        self._waiting_events += len(prepared.entries)
        if not self._writing:
            self._write_next(books)
        return batch.done

    def _write_next(self, books: Books) -> None:
        """Have the writer write and sync the next group, if any batch waits."""
        group: list[_Batch] = []
        room = MAX_GROUP_EVENTS
        while self._waiting and (not group or len(self._waiting[0].prepared.entries) <= room):
            batch = self._waiting.popleft()
            room -= len(batch.prepared.entries)
            group.append(batch)
        self._waiting_events -= MAX_GROUP_EVENTS - room
        self._writing = bool(group)
        if not group:
            self._tell_idle()
            return
        data = b"".join(entry.line for batch in group for entry in batch.prepared.entries)
        if data:
            written = self._writer.submit(partial(self._segment.append, data))
        else:
            # Only resent events, whose first sending was written by the group before this one.
            written = succeed(None)
        written.addCallbacks(
            self._written, self._refused, callbackArgs=(books, group), errbackArgs=(books, group)
        )
        written.addErrback(self._broken)

    def _written(self, _: None, books: Books, group: list[_Batch]) -> None:
        """The group is on the disk: enter it, go on writing, then acknowledge."""
        for batch in group:
            prepared = batch.prepared
            books.enter(prepared.entries, prepared.received_day)
            self._pending.difference_update(entry.digest for entry in prepared.entries)
            self._count(batch)
            self._tell(prepared)
        if self._failing:
            self._failing = False
            self._log.info("{path}: written again", path=self._segment.path)
        self._write_next(books)
        for batch in group:
            batch.done.callback(batch.result())

    def _refused(self, failure: Failure, books: Books, group: list[_Batch]) -> None:
        """The group is not known to be on the disk: nothing that waits is recorded.

        A batch behind it may hold events of it as duplicates, so those that wait fail with it.
        """
        failed = [*group, *self._waiting]
        self._waiting.clear()
        self._waiting_events = 0
        self._pending.clear()
        self.counters.failed_writes += 1
        self._log_refusal(failure, len(failed))
        cause = _cause(failure.value)
        detail = f"{self._segment.path}: {failure.getErrorMessage()}"
        self._write_next(books)
        for batch in failed:
            batch.done.errback(StorageUnavailable(cause, detail))

    def _tell(self, prepared: Prepared) -> None:
        if self._observe is None:
            return
        try:
            for entry in prepared.entries:
                self._observe(entry.event, entry.cost_nano)
        except Exception:
            # The events are recorded, whatever becomes of the metrics.
            self._log.failure("the metrics of recorded events failed")

    def _broken(self, failure: Failure) -> None:
        """A fault of this program on the way; log it, since nobody else holds this Deferred."""
        self._log.failure("the ledger's bookkeeping failed", failure)

    def _log_refusal(self, failure: Failure, batches: int) -> None:
        self._failing = True
        now = self._clock.seconds()
        if now - self._failure_logged_at < FAILURE_LOG_SECONDS:
            return
        self._failure_logged_at = now
        if not isinstance(failure.value, OSError):
            self._log.failure("{path}: the writer failed", failure, path=self._segment.path)
        self._log.error(
            "{path}: {cause}. {batches} batches were not recorded and will be sent again; free "
            "or repair the disk (failures so far: {count}).",
            path=self._segment.path,
            cause=_cause(failure.value),
            batches=batches,
            count=self.counters.failed_writes,
        )

    def _count(self, batch: _Batch) -> None:
        """Count a batch's outcome, and log what is wrong with its events."""
        prepared, counters = batch.prepared, self.counters
        counters.recorded += len(prepared.entries)
        counters.duplicates += prepared.duplicates
        counters.invalid += prepared.invalid
        counters.unpriced += prepared.unpriced
        if prepared.invalid:
            self._log.warn(
                "{count} events of a batch cannot be recorded and were dropped: {reasons}",
                count=prepared.invalid,
                reasons="; ".join(one_line(reason, 200) for reason in prepared.reasons),
            )
        for target in prepared.unpriced_targets - self._unpriced_logged:
            if len(self._unpriced_logged) >= UNPRICED_REMEMBERED:
                break
            self._unpriced_logged.add(target)
            route, upstream, model = (one_line(name or "", 200) for name in target)
            self._log.warn(
                "no price for model {model} at upstream {upstream} (route {route}): its events "
                "are recorded at $0; give the target a price in the config file",
                model=model,
                upstream=upstream,
                route=route,
            )

    def _now_ms(self) -> int:
        return int(self._wall() * 1000)

    # -- reading ------------------------------------------------------------------------------

    def spend_nano(
        self, key_hashes: Iterable[str], period: str, now_ms: int, zone: str = UTC
    ) -> int:
        """Nano-dollars that a key spent in its period; see :meth:`Totals.spend_nano`.

        :raises LedgerNotReady: it is not loaded.
        """
        return self._ready_books().totals.spend_nano(key_hashes, period, now_ms, zone)

    def lifetime(self, key_hashes: Iterable[str]) -> Sums:
        """All that was ever recorded for a key, over all its hashes.

        :raises LedgerNotReady: it is not loaded.
        """
        return self._ready_books().totals.lifetime(key_hashes)

    def totals(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> list[NamedSums]:
        """Sums by key, model, upstream or day; see :meth:`Totals.grouped`.

        :raises LedgerNotReady: it is not loaded.
        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        return self._ready_books().totals.grouped(by, since, until)

    def recent(self, limit: int = RECENT_EVENTS) -> list[dict[str, Any]]:
        """The newest events, newest first; ``cost_usd`` is the exact decimal string.

        :raises LedgerNotReady: it is not loaded.
        """
        return self._ready_books().recent(limit)

    def _ready_books(self) -> Books:
        if self._books is None:
            raise LedgerNotReady
        return self._books


def _cause(error: BaseException | None) -> str:
    """What went wrong, in words without a path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
