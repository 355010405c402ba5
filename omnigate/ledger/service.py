"""The ledger: records batches of events durably, and answers what was used and what it cost.

The parts: a start (:mod:`~omnigate.ledger.loading`), batches on their way
(:mod:`~omnigate.ledger.recording`), sealing, snapshots and retention
(:mod:`~omnigate.ledger.upkeep`), and what is wrong with the disk (:mod:`~omnigate.ledger.trouble`).
All disk work is done by one :class:`~omnigate.ledger.store.LedgerStore` in the writer thread; the
books are read and changed on the reactor's thread alone, and never claim what the disk does not
have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.events import UsageEvent
from omnigate.ledger.books import RECENT_EVENTS, Books
from omnigate.ledger.counters import IngestResult, LedgerCounters
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.family import Family
from omnigate.ledger.ingest import Priced, Raw
from omnigate.ledger.key_history import KeyHistory, key_history, last_days
from omnigate.ledger.loading import Loaded
from omnigate.ledger.recording import (
    MAX_BATCH_EVENTS,
    LedgerNotReady,
    Recording,
    StorageUnavailable,
)
from omnigate.ledger.replay import Note
from omnigate.ledger.store import Appended, LedgerStore, StoreFigures
from omnigate.ledger.totals import NamedSums, Sums
from omnigate.ledger.trouble import EXPECTED, Trouble
from omnigate.ledger.trusted_time import TrustedTime
from omnigate.ledger.upkeep import Upkeep
from omnigate.money import Price
from omnigate.periods import DAY_MS, END_MS, UTC, utc_day
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

__all__ = [
    "MAX_BATCH_EVENTS",
    "IngestResult",
    "Ledger",
    "LedgerCounters",
    "LedgerNotReady",
    "LoadCanceledError",
    "StorageUnavailable",
]

#: The last time of recording that there is: a day before the end of the year 9999, since what is
#: looked for is often the next day.
LAST_MS = END_MS - 2 * DAY_MS


class LoadCanceledError(Exception):
    """The ledger was closed while it was being loaded."""


class Ledger:
    """The one writer and reader of the ledger's files.

    It is *closed* until :meth:`open` has loaded all there is, then *ready*, then closed again.
    Sums are told only while it is ready: "nothing spent" is never an artefact of a start.

    :param path: the active segment, such as ``/var/lib/omnigate/ledger.jsonl``.
    :param clock: for what lasts.
    :param wall: seconds since 1970, the time of recording; the clock's where it is left out.
    :param steady: seconds that nobody sets; the clock's where it is left out.
    :param writer: the thread that does everything that touches the disk.
    :param price: the price of an event's target, None where there is none.
    :param ids_days: for how many days the ids of recorded events are remembered; 0 for ever.
    :param ledger_days: for how many days sealed segments are kept; 0 for ever.
    :param observe: told of each event and its cost in nano-dollars once it is recorded, for
        metrics; not of those read back at the start.
    :param observe_write: told how many seconds each write and its sync took.
    :param pause: lets the reactor do something else.
    :param crashed: told of a fault of this program, after which this ledger is of no more use: it
        is to be abandoned, and another one opened.
    :ivar counters: what was counted since the start.
    """

    _log = Logger()
    name = "ledger"

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        writer: IWriter,
        price: Callable[[UsageEvent], Price | None],
        *,
        ids_days: int = 3,
        ledger_days: int = 0,
        wall: Callable[[], float] | None = None,
        steady: Callable[[], float] | None = None,
        observe: Callable[[UsageEvent, int], None] | None = None,
        observe_write: Callable[[float], None] | None = None,
        pause: Callable[[], Awaitable[None]] | None = None,
        crashed: Callable[[Failure], None] = lambda failure: None,
    ) -> None:
        self.counters = LedgerCounters()
        self._family = Family(path)
        self._clock = clock
        self._wall = wall or clock.seconds
        self._steady = steady or clock.seconds
        self._trusted = TrustedTime(0, None, 0.0)
        self._writer = writer
        self._price = price
        self._ids_days = ids_days
        self._ledger_days = ledger_days
        self._observe = observe
        self._observe_write = observe_write
        self._crashed = crashed
        self._pause = pause or (lambda: deferLater(clock, 0))
        self._store: LedgerStore | None = None
        self._recording: Recording | None = None
        self._upkeep: Upkeep | None = None
        self._opening: LedgerStore | None = None
        self._closing = False
        self._abandoned = False
        self._opened: list[Deferred[None]] = []
        self._revision = 0

    @property
    def ready(self) -> bool:
        """Whether it can be read and written."""
        return self._recording is not None and not self._closing

    @property
    def trouble(self) -> str | None:
        """Why nothing can be recorded now, in fixed words; None while something can."""
        return None if self._recording is None else self._recording.trouble.words

    @property
    def revision(self) -> int:
        """A number that changes whenever a sum may have changed."""
        recording = self._recording
        return self._revision + (0 if recording is None else recording.revision)

    @property
    def events(self) -> int:
        """How many events were counted since the ledger began; 0 while it is not open."""
        return 0 if self._recording is None else self._recording.events

    @property
    def figures(self) -> StoreFigures:
        """What metrics tell of the files; all nothing while it is not open."""
        return StoreFigures() if self._store is None else self._store.figures

    def keep(self, *, ids_days: int, ledger_days: int) -> None:
        """Change for how many days ids and sealed segments are kept."""
        self._ids_days, self._ledger_days = ids_days, ledger_days
        if self._store is not None:
            self._store.ids_days = ids_days
        if self._upkeep is not None:
            self._upkeep.ledger_days = ledger_days

    # -- opening and closing ------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """Load the ledger: what a snapshot has, and what was recorded after it.

        It is done by the writer in steps, so the reactor is never held. A torn last line is cut
        off; a damaged line is logged with its place and counted, and stays where it is. After a
        failure it may be tried again.

        :return: fires when ready; fails with
            :class:`~omnigate.ledger.replay.LedgerUnreadableError`, or when it is closed meanwhile.
        """
        if self._opening is not None or self._store is not None:
            raise RuntimeError("the ledger is open already")
        if self._abandoned:
            raise RuntimeError("the ledger was abandoned")
        self._opening = LedgerStore(self._family, self._ids_days)
        return Deferred.fromCoroutine(self._open(self._opening))

    async def _open(self, store: LedgerStore) -> None:
        began = self._clock.seconds()
        try:
            loaded = await self._load(store)
            self._begin(store, loaded)
        except Exception:
            with suppress(WriterStoppedError, WriterBusyError):
                await self._writer.submit(store.close)
            raise
        finally:
            self._opening = None
            opened, self._opened = self._opened, []
            for waiter in opened:
                waiter.callback(None)
        self._log.info(
            "{path}: loaded in {seconds:.1f} s from {source}; {events} events replayed, "
            "{duplicates} lines skipped as duplicates, {damaged} damaged",
            path=self._family.active,
            seconds=self._clock.seconds() - began,
            source=loaded.start.source or "its first line on",
            events=loaded.replayed,
            duplicates=loaded.duplicates,
            damaged=loaded.damaged,
        )

    async def _load(self, store: LedgerStore) -> Loaded:
        """Load the store step by step; whoever closes the ledger meanwhile breaks it off."""
        while True:
            if self._closing or self._abandoned:
                raise LoadCanceledError("the ledger was closed while it was being loaded")
            loaded, notes = await self._writer.submit(partial(store.load_step, self._now_ms()))
            self._tell(notes)
            if loaded is not None and not self._closing and not self._abandoned:
                return loaded

    def _begin(self, store: LedgerStore, loaded: Loaded) -> None:
        """Take what was loaded into service."""
        self.counters.loaded(loaded)
        self._revision += 1
        self._store = store
        self._trusted = TrustedTime(self._now_ms(), loaded.known_ms, self._steady())
        self._tell_doubt(0)
        trouble = Trouble(
            self._family.active,
            self._clock,
            lambda: self._writer.submit(store.probe).addErrback(self._judge),
        )
        self._recording = Recording(
            store=store,
            books=loaded.start.books,
            events=loaded.start.events + loaded.replayed,
            writer=self._writer,
            price=self._price,
            counters=self.counters,
            trouble=trouble,
            now_ms=self._now_ms,
            trusted_ms=self._trusted_ms,
            entered=self._entered,
            observe=self._observe,
            crashed=self._crashed,
        )
        self._upkeep = Upkeep(
            store=store,
            writer=self._writer,
            clock=self._clock,
            counters=self.counters,
            recording=self._recording,
            now_ms=self._now_ms,
            trusted_ms=self._trusted_ms,
            pause=self._pause,
            ledger_days=self._ledger_days,
            crashed=self._crashed,
        )
        store.ids_days = self._ids_days
        self._writer.submit(store.warm_up).addErrback(self._judge).addCallbacks(
            self._tell, self._cold
        )
        self._upkeep.start(loaded.needs_snapshot)

    def _cold(self, failure: Failure) -> None:
        if not self._abandoned:
            self._log.error(
                "{path}: the ids of recorded events cannot be read yet ({cause}); nothing is "
                "recorded until they can",
                path=self._family.active,
                cause=failure.getErrorMessage(),
            )

    def _judge(self, failure: Failure) -> Failure:
        """Pass a failure of the writer on, and tell if it is no answer of the disk."""
        if not failure.check(*EXPECTED):
            self._crashed(failure)
        return failure

    def _tell(self, notes: Iterable[Note]) -> None:
        for note in notes:
            self._log.emit(note.level, "{note}", note=note.text)

    def close(self) -> Deferred[None]:
        """Take no more batches, finish those that wait, make a last snapshot, close the files.

        A start in progress is broken off. The writer is the caller's to stop.
        """
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        if self._closing:
            return
        self._closing = True
        try:
            if self._opening is not None:
                opened: Deferred[None] = Deferred()
                self._opened.append(opened)
                await opened
            store, recording, upkeep = self._store, self._recording, self._upkeep
            if store is None or recording is None or upkeep is None:
                return
            await recording.drain()
            recording.trouble.stop()
            await upkeep.stop()
            if self._abandoned:
                return
            self._revision += recording.revision
            self._store = self._recording = self._upkeep = None
            await self._writer.submit(store.close)
        finally:
            self._closing = False

    def abandon(self) -> None:
        """Let go of everything at once: nothing is written any more, and nothing answered.

        Batches that wait fail with :class:`LedgerNotReady`, whether the one in hand reaches the
        disk or not. The files are closed by the writer after the job in hand, and that was its last
        one. A ledger that was abandoned cannot be opened again; another one can.
        """
        self._abandoned = True
        store, recording, upkeep = self._store or self._opening, self._recording, self._upkeep
        self._store = self._recording = self._upkeep = None
        # Who is told of events refers to this ledger, too, and nobody looks for such circles soon.
        self._observe = None
        if upkeep is not None:
            upkeep.abandon()
        if recording is not None:
            self._revision += recording.revision
            recording.trouble.stop()
            recording.abandon()
        self._writer.abandon(None if store is None else store.close)

    # -- recording ----------------------------------------------------------------------------

    def record_priced(self, events: Sequence[Priced]) -> Deferred[IngestResult]:
        """Record events of the control plane's own, whose cost is known; as :meth:`record` does.

        :param events: at most :data:`MAX_BATCH_EVENTS`; an id that was recorded before is left out.
        """
        return self._record(events)

    def record(self, events: Sequence[bytes | dict[str, Any]]) -> Deferred[IngestResult]:
        """Record a batch: what is valid and new is priced, written and synced, then counted.

        :param events: at most :data:`MAX_BATCH_EVENTS`; each a JSON object, or the bytes of one.
        :return: fires when every event of the batch is on the disk or was left out for good.
            Fails with :class:`LedgerNotReady`, :class:`StorageUnavailable`, or ``GatewayError``
            for a batch that is too large.
        """
        return self._record(events)

    def _record(self, events: Sequence[Raw]) -> Deferred[IngestResult]:
        if self._recording is None or self._closing:
            return fail(LedgerNotReady())
        try:
            trusted_ms = self._trusted_ms()
            self._recording.books.turn_to(utc_day(trusted_ms), trusted_ms)
        except Exception:
            # The sums may be half of this day and half of the one before.
            self._crashed(Failure())
            return fail(LedgerNotReady())
        return self._recording.record(events)

    def _entered(self, events: int, appended: Appended) -> None:
        if self._observe_write is not None and appended.seconds:
            self._observe_write(appended.seconds)
        if self._upkeep is not None:
            self._upkeep.entered(events, appended)

    def _now_ms(self) -> int:
        return max(0, min(int(self._wall() * 1000), LAST_MS))

    def _trusted_ms(self) -> int:
        """The time by which things are forgotten."""
        before = self._trusted.doubted
        trusted_ms = self._trusted.look(self._now_ms(), self._steady())
        self._tell_doubt(before)
        return trusted_ms

    def _tell_doubt(self, before: int) -> None:
        """Log that the clock is not believed, when that begins."""
        if self._trusted.doubted and not before:
            self._log.warn(
                "the clock is {days} days ahead of the time of the ledger; for an hour nothing is "
                "forgotten by it (ids, old segments and sums). If the clock is wrong, set it right "
                "within that hour; if the control plane was down for so long, all is well.",
                days=self._trusted.doubted,
            )

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

    def gather(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> Generator[None, None, list[NamedSums]]:
        """Find the same as :meth:`totals` in steps; see :meth:`Totals.gather`.

        :raises LedgerNotReady: it is not loaded.
        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        return self._ready_books().totals.gather(by, since, until)

    def rows_by_day(
        self,
        by: str,
        groups: Sequence[Collection[str | None]],
        since: str | None = None,
        until: str | None = None,
    ) -> Generator[None, None, list[DayRows]]:
        """Find what each day came to, in steps; see :meth:`Totals.rows_by_day`.

        :raises LedgerNotReady: it is not loaded.
        :raises ValueError: ``by`` is no grouping, or a day is none.
        """
        return self._ready_books().totals.rows_by_day(by, groups, since, until)

    def key_history(self, key_hashes: Iterable[str], now_ms: int) -> KeyHistory:
        """What a key used on the last thirty days, in this month, and ever.

        :raises LedgerNotReady: it is not loaded.
        """
        return key_history(self._ready_books().totals, key_hashes, now_ms)

    def last_days(self, key_hashes: Iterable[str], now_ms: int) -> dict[str, str]:
        """The last day on which each of these hashes was used; see :func:`last_days`.

        :raises LedgerNotReady: it is not loaded.
        """
        return last_days(self._ready_books().totals, key_hashes, now_ms)

    @property
    def by_key_since(self) -> str | None:
        """The UTC day from which on sums by key and day are whole; None where all are.

        :raises LedgerNotReady: it is not loaded.
        """
        return self._ready_books().totals.by_key_since

    def recent(self, limit: int = RECENT_EVENTS) -> list[dict[str, Any]]:
        """The newest events, newest first; ``cost_usd`` is the exact decimal string.

        :raises LedgerNotReady: it is not loaded.
        """
        return self._ready_books().recent(limit)

    def find_recent(self, event_id: str) -> dict[str, Any] | None:
        """Find the event of this id among the newest; as :meth:`recent` returns it.

        :raises LedgerNotReady: it is not loaded.
        """
        return self._ready_books().find_recent(event_id)

    def _ready_books(self) -> Books:
        if self._recording is None:
            raise LedgerNotReady
        return self._recording.books
