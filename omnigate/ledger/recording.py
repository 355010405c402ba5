"""Batches between their coming and their acknowledgement.

While the writer thread is at work, batches wait as they came. Then those that fit in one group are
judged and priced (:mod:`~omnigate.ledger.ingest`), so a turn of the reactor is bounded however many
batches come in it. A group is one write and one sync.
The writer leaves out what is recorded already; what it wrote is entered in the books, and only then
is each batch acknowledged.

When the disk refuses, the group's batches fail with :class:`StorageUnavailable` and leave no trace.
The data plane sends them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.errors import GatewayError
from omnigate.events import UsageEvent
from omnigate.ledger.books import Books
from omnigate.ledger.counters import IngestResult, LedgerCounters
from omnigate.ledger.ingest import Entry, Prepared, Raw, prepare
from omnigate.ledger.store import Appended, LedgerStore
from omnigate.ledger.trouble import EXPECTED, Trouble, cause
from omnigate.money import Price
from omnigate.periods import utc_day
from omnigate.text import one_line
from omnigate.writer_thread import IWriter

#: Events that a batch may hold: twice what a data plane sends. Judging and pricing this many takes
#: about 15 ms, and is done in one go.
MAX_BATCH_EVENTS = 1_000

#: Events that may wait for the writer, beyond which batches are refused: twenty full batches, of
#: about 1.5 KB an event in memory. More wait only when the disk has stopped answering.
MAX_WAITING_EVENTS = 10_000

#: Bytes of events that may wait for the writer: ten times what full batches of usual events come
#: to, and four of the longest bodies that are taken.
MAX_WAITING_BYTES = 64 * 1024 * 1024

#: Events written and synced together, beyond one batch: entering them in the books is done in one
#: go, and takes 3 ms, and their metrics as long. A larger group would gain little, since one sync
#: for five hundred events already costs less than judging them.
MAX_GROUP_EVENTS = 500

#: Targets without a price that are remembered as logged. The config file has far fewer.
UNPRICED_REMEMBERED = 1_000


class StorageUnavailable(GatewayError):  # noqa: N818
    """A batch was not recorded since the disk refused; it may be sent again as it is.

    ``message`` names the cause and the remedy; ``detail``, for the log, names the file too.
    """

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(
            "storage_unavailable",
            f"the ledger cannot be written ({cause}); nothing of this batch was recorded: "
            "see to the control plane's disk, of which its log says more, then send it again",
            retry_after=1,
            detail=detail,
        )


class LedgerNotReady(GatewayError):  # noqa: N818
    """The ledger is still being loaded, or is closed: no sum can be told, nothing recorded."""

    def __init__(self) -> None:
        super().__init__(
            "not_ready", "the ledger is not loaded yet; try again in a second", retry_after=1
        )


class LedgerBroken(GatewayError):  # noqa: N818
    """Something broke on the way, so that nobody knows whether a batch was recorded.

    It may be sent again as it is: what was recorded is known by its id.
    """

    def __init__(self) -> None:
        super().__init__(
            "not_ready",
            "the ledger broke while this batch was under way; send it again, which counts nothing "
            "twice",
            retry_after=1,
        )


Events = Sequence[Raw]

_NOTHING = Prepared()


@attrs.define(eq=False)
class _Batch:
    """A batch that waits or is being written: at first its events, then what they come to.

    :ivar fault: a fault of this program that kept it from being prepared; nothing is recorded then.
    """

    events: Events
    size: int
    prepared: Prepared = _NOTHING
    done: Deferred[IngestResult] = attrs.Factory(Deferred)
    result: IngestResult | None = None
    fault: Failure | None = None


@attrs.define(eq=False)
class _Group:
    """Batches that are written together; of one day, which is the day their ids are kept under."""

    day: str
    events: int = 0
    batches: list[_Batch] = attrs.Factory(list)


@attrs.define(eq=False)
class Recording:
    """Takes batches, has them written group by group, and enters what was written.

    :ivar books: what only this class enters events in, once they are on the disk.
    :ivar events: how many events that is, since the ledger began.
    :ivar now_ms: the time of recording.
    :ivar trusted_ms: the time by which things are forgotten.
    :ivar entered: told after each group of how many events were entered, and what the writer says.
    :ivar observe: told of each event and its cost in nano-dollars once it is recorded.
    :ivar crashed: told of a fault of this program, after which nothing is recorded any more.
    :ivar revision: changes whenever something is entered.
    """

    store: LedgerStore
    books: Books
    events: int
    writer: IWriter
    price: Callable[[UsageEvent], Price | None]
    counters: LedgerCounters
    trouble: Trouble
    now_ms: Callable[[], int]
    trusted_ms: Callable[[], int]
    entered: Callable[[int, Appended], None]
    observe: Callable[[UsageEvent, int], None] | None = None
    crashed: Callable[[Failure], None] = lambda failure: None
    revision: int = 0
    _waiting: deque[_Batch] = attrs.field(factory=deque, init=False)
    _waiting_events: int = attrs.field(default=0, init=False)
    _waiting_bytes: int = attrs.field(default=0, init=False)
    _writing: bool = attrs.field(default=False, init=False)
    _in_hand: list[_Batch] = attrs.field(factory=list, init=False)
    _abandoned: bool = attrs.field(default=False, init=False)
    _holds: int = attrs.field(default=0, init=False)
    _still: list[Deferred[None]] = attrs.field(factory=list, init=False)
    _drained: list[Deferred[None]] = attrs.field(factory=list, init=False)
    _unpriced_logged: set[tuple[str, str | None, str | None]] = attrs.field(factory=set, init=False)

    _log = Logger()

    # -- what comes in ------------------------------------------------------------------------

    def record(self, events: Events) -> Deferred[IngestResult]:
        """Record a batch; see :meth:`omnigate.ledger.service.Ledger.record`."""
        if len(events) > MAX_BATCH_EVENTS:
            return fail(
                GatewayError(
                    "invalid_request",
                    f"a batch holds at most {MAX_BATCH_EVENTS} events, this one {len(events)}; "
                    "send it in parts",
                    param="events",
                )
            )
        if self.trouble.for_good:
            return fail(StorageUnavailable(self.trouble.words or ""))
        size = sum([len(event) for event in events if isinstance(event, bytes)])
        if (
            self._waiting_events + len(events) > MAX_WAITING_EVENTS
            or self._waiting_bytes + size > MAX_WAITING_BYTES
        ):
            return fail(StorageUnavailable("the disk does not keep up with what is to be written"))
        batch = _Batch(events, size)
        self._waiting.append(batch)
        self._waiting_events += len(events)
        self._waiting_bytes += size
        self._go_on()
        return batch.done

    async def hold(self) -> None:
        """Let no group be written or entered from now on; returns once none is in hand.

        What comes meanwhile waits for :meth:`release`, to be called once for each call of this.
        """
        self._holds += 1
        if self._writing:
            still: Deferred[None] = Deferred()
            self._still.append(still)
            await still

    def release(self) -> None:
        """Go on with what waits."""
        self._holds -= 1
        self._go_on()

    async def drain(self) -> None:
        """Return once nothing waits and nothing is being written."""
        if self._writing or self._waiting:
            drained: Deferred[None] = Deferred()
            self._drained.append(drained)
            await drained

    def abandon(self) -> None:
        """Fail all batches, and do nothing more, whatever the writer has to tell."""
        self._abandoned = True
        failed = [*self._in_hand, *self._waiting]
        self._waiting.clear()
        self._in_hand = []
        for batch in failed:
            batch.done.errback(LedgerNotReady())

    # -- groups -------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Have the next group written, if there is one and nothing is in hand or held back.

        It is prepared only now: with one more ahead, two would be prepared in one turn of the
        reactor, which held it for 20 ms.
        """
        if self._writing or self._abandoned:
            return
        if self._holds:
            _fire(self._still)
            return
        group = self._next_group()
        if not group.batches:
            _fire(self._drained)
            return
        self._writing = True
        self._in_hand = group.batches
        self.trouble.asked()
        entries = [entry for batch in group.batches for entry in batch.prepared.entries]
        written = self.writer.submit(
            partial(
                self.store.append,
                [entry.digest for entry in entries],
                [entry.line for entry in entries],
                group.day,
                utc_day(self.trusted_ms()),
            )
        )
        written.addCallbacks(
            self._written,
            self._refused,
            callbackArgs=(group.batches, entries),
            errbackArgs=(group.batches,),
        )
        written.addErrback(self._broken, group.batches)

    def _next_group(self) -> _Group:
        """Prepare what waits, as far as a group has room; also what has nothing to be written."""
        now_ms = self.now_ms()
        group = _Group(utc_day(now_ms))
        while self._waiting:
            events = len(self._waiting[0].events)
            if group.batches and group.events + events > MAX_GROUP_EVENTS:
                break
            batch = self._waiting.popleft()
            try:
                batch.prepared = prepare(batch.events, price=self.price, now_ms=now_ms)
            except Exception:
                # It fails alone, and when its group is done, as no batch is answered in between.
                batch.fault = Failure()
            batch.events = ()
            self._waiting_events -= events
            self._waiting_bytes -= batch.size
            group.events += events
            group.batches.append(batch)
        return group

    def _written(self, appended: Appended, group: list[_Batch], entries: list[Entry]) -> None:
        """The group is on the disk: enter it, go on writing, then acknowledge."""
        if self._abandoned:
            return
        known = appended.known
        fresh = [entry for entry, is_known in zip(entries, known, strict=True) if not is_known]
        if fresh:
            self.books.enter(fresh)
            self.events += len(fresh)
            self.revision += 1
        start = 0
        for batch in group:
            end = start + len(batch.prepared.entries)
            batch.result = self._count(batch, known[start:end])
            start = end
        self._tell(fresh)
        if fresh:
            self.trouble.well()
        else:
            self.trouble.answered()
        self._writing, self._in_hand = False, []
        self.entered(len(fresh), appended)
        self._go_on()
        for batch in group:
            assert batch.result is not None
            batch.done.callback(batch.fault or batch.result)

    def _refused(self, failure: Failure, group: list[_Batch]) -> None:
        """The group is not known to be on the disk: nothing of it is recorded."""
        if self._abandoned:
            return
        if not failure.check(*EXPECTED):
            self._broken(failure, group)
            return
        self.counters.failed_writes += 1
        self.trouble.refused(failure, len(group), self.counters.failed_writes)
        words = cause(failure.value)
        detail = f"{self.store.family.active}: {failure.getErrorMessage()}"
        self._writing, self._in_hand = False, []
        self._go_on()
        for batch in group:
            batch.done.errback(StorageUnavailable(words, detail))

    def _broken(self, failure: Failure, group: list[_Batch]) -> None:
        """A fault of this program on the way: what is in the books may be half of a group."""
        self.trouble.fault(failure)
        failed = [*group, *self._waiting]
        self._waiting.clear()
        self._waiting_events = self._waiting_bytes = 0
        self._writing, self._in_hand = False, []
        self._go_on()
        for batch in failed:
            if not batch.done.called:
                batch.done.errback(LedgerBroken())
        self.crashed(failure)

    # -- what is told of it -------------------------------------------------------------------

    def _tell(self, fresh: list[Entry]) -> None:
        if self.observe is None:
            return
        failed: Failure | None = None
        for entry in fresh:
            try:
                self.observe(entry.event, entry.cost_nano)
            except Exception:
                # The event is recorded, whatever becomes of its metrics; and budgets must hear of
                # those behind it.
                failed = failed or Failure()
        if failed is not None:
            self._log.failure("recorded events could not be told of", failed)

    def _count(self, batch: _Batch, known: Sequence[bool]) -> IngestResult:
        """Count a batch's outcome, and log what is wrong with its events."""
        prepared, counters = batch.prepared, self.counters
        duplicates = sum(known)
        unpriced = [
            entry.event
            for entry, is_known in zip(prepared.entries, known, strict=True)
            if entry.unpriced and not is_known
        ]
        result = IngestResult(
            recorded=len(prepared.entries) - duplicates,
            duplicates=duplicates,
            invalid=prepared.invalid,
            unpriced=len(unpriced),
        )
        counters.recorded += result.recorded
        counters.duplicates += result.duplicates
        counters.invalid += result.invalid
        counters.unpriced += result.unpriced
        if prepared.invalid:
            self._log.warn(
                "{count} events of a batch cannot be recorded and were dropped: {reasons}",
                count=prepared.invalid,
                reasons="; ".join(one_line(reason, 200) for reason in prepared.reasons),
            )
        for event in unpriced:
            self._tell_unpriced(event)
        return result

    def _tell_unpriced(self, event: UsageEvent) -> None:
        """Log a target without a price, once."""
        target = (event.route_model, event.upstream, event.target_model)
        if target in self._unpriced_logged or len(self._unpriced_logged) >= UNPRICED_REMEMBERED:
            return
        self._unpriced_logged.add(target)
        route, upstream, model = (one_line(name or "", 200) for name in target)
        self._log.warn(
            "no price for model {model} at upstream {upstream} (route {route}): its events "
            "are recorded at $0; give the target a price in the config file",
            model=model,
            upstream=upstream,
            route=route,
        )


def _fire(waiters: list[Deferred[None]]) -> None:
    """Let everyone go on who waited."""
    found = waiters[:]
    waiters.clear()
    for waiter in found:
        waiter.callback(None)
