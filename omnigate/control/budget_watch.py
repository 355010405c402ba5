"""Which keys are over a budget, kept up to date without looking at every key for it.

A key's spend is compared with its budgets anew where an event of the key was recorded, where its
period turned, and where its settings changed; between two looks nothing else can alter the outcome.
So a poll of a data plane that finds nothing changed costs a few comparisons, however many keys
there are.

A budget blocks: the flag is in the next snapshot, and gone from the first one after the period
turned. A soft budget only tells: one line in the log and one more in a metric, once a period for
each amount. What was over already when the ledger was loaded was told by an earlier run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Final, Protocol

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from omnigate.control.gateway_key import GatewayKey
from omnigate.control.keys import KeyBook
from omnigate.events import UsageEvent
from omnigate.ledger.budgets import Standing, blocked, standing
from omnigate.money import usd
from omnigate.periods import END_MS, TOTAL, UTC, bounds

#: Keys that are looked at in one go on the reactor's thread: 2 ms.
MAX_KEYS_AT_ONCE: Final = 500

#: Crossings of its soft budget that are remembered of a key. A period has one, and one more for
#: each time that somebody changes the amount.
MAX_TOLD: Final = 16

#: A period, from its first instant to the next one's, and the amount of a soft budget.
_Crossing = tuple[tuple[int, int], int]

Pause = Callable[[], Awaitable[None]]


class Spend(Protocol):
    """The ledger, as far as budgets need it."""

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""

    def spend_nano(
        self, key_hashes: Iterable[str], period: str, now_ms: int, zone: str = UTC
    ) -> int:
        """Return what a key spent in its current period, in nano-dollars."""


@attrs.define(eq=False)
class _Watched:
    """A key with a budget, and how it stood at the last look.

    :ivar key: as it was then; where the book has another one, that has to be looked at.
    :ivar period_ms: when the period of the last look began, and when it ends.
    """

    key: GatewayKey
    period_ms: tuple[int, int] = (0, 0)


class BudgetWatch:
    """Knows for each key with a budget whether it is blocked, and whether it is to be told of.

    :ivar revision: another number after every change of any key or of a blocked flag.
    :ivar keys: all keys, as of the last :meth:`settle`.
    :ivar exceeded: soft budgets that were crossed since the start.
    """

    _log = Logger()

    def __init__(self, book: KeyBook, ledger: Spend, now_ms: Callable[[], int]) -> None:
        """Take the parts; nothing is looked at before the ledger is loaded.

        :param now_ms: the time by which periods turn.
        """
        self._book = book
        self._ledger = ledger
        self._now_ms = now_ms
        self._turn = DeferredLock()
        self._watched: dict[str, _Watched] = {}
        self._by_hash: dict[str, _Watched] = {}
        # What was recorded since the last look: nano-dollars by hash of a key.
        self._touched: dict[str, int] = {}
        self._loaded = False
        self._book_revision: object = None
        # Between these instants no period of any key turns.
        self._begun_ms, self._turns_ms = 0, 0
        self._blocked: set[str] = set()
        self._over_soft: set[str] = set()
        # The crossings that were told, by hash, the oldest first. A key that loses its budgets has
        # them still, so that one that gets the same again is no news.
        self._told: dict[str, dict[_Crossing, None]] = {}
        self.revision = 0
        self.keys: tuple[GatewayKey, ...] = ()
        self.exceeded = 0

    @property
    def ready(self) -> bool:
        """Whether what was spent can be told."""
        return self._ledger.ready

    @property
    def blocked(self) -> frozenset[str]:
        """The hashes of the keys that have spent their budgets, as of the last look."""
        return frozenset(self._blocked)

    @property
    def over_soft(self) -> frozenset[str]:
        """The hashes of the keys that have reached their soft budgets, as of the last look."""
        return frozenset(self._over_soft)

    @property
    def pending(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._touched) or self._is_behind()

    def _is_behind(self) -> bool:
        """Whether keys have to be looked at for more than events that were recorded."""
        return (
            not self._begun_ms <= self._now_ms() < self._turns_ms
            or self._book_revision != self._book.revision
        )

    def standing(self, key: GatewayKey) -> Standing:
        """Return how a key stands now.

        :raises LedgerNotReady: it cannot be told yet.
        """
        now_ms = self._now_ms()
        return standing(
            key.budget_nano,
            key.budget_period,
            self._spent_nano(key, now_ms),
            now_ms,
            key.budget_timezone,
            key.soft_budget_nano,
        )

    def _spent_nano(self, key: GatewayKey, now_ms: int) -> int:
        return self._ledger.spend_nano(key.hashes, key.budget_period, now_ms, key.budget_timezone)

    # -- looking ------------------------------------------------------------------------------

    def touch(self, event: UsageEvent, cost_nano: int) -> None:
        """Note that an event was recorded, so that the next look compares its key anew."""
        key = event.key_sha256
        # Before the first look no key is known yet.
        if cost_nano and (key in self._by_hash or not self._loaded):
            self._touched[key] = self._touched.get(key, 0) + cost_nano

    def look(self) -> None:
        """Compare the keys of the events that were recorded, if that is all there is to look at.

        It takes as long as there are keys in a batch of events; all else is :meth:`settle`'s.
        """
        if self._touched and self.ready and not self._is_behind():
            self._look_at_touched()

    async def settle(self, pause: Pause) -> None:
        """Compare every key that may stand differently from the last look; after a start, all.

        :param pause: lets the reactor do something else in between.
        :raises LedgerNotReady: what was spent cannot be told yet, or no more.
        """
        await self._turn.acquire()
        try:
            if self._is_behind():
                await self._look_at_all(pause)
            while self._touched:
                self._look_at_touched()
                if self._touched:
                    await pause()
        finally:
            self._turn.release()

    def _look_at_touched(self) -> None:
        now_ms = self._now_ms()
        for key in list(islice(self._touched, MAX_KEYS_AT_ONCE)):
            watched = self._by_hash.get(key)
            if watched is not None:
                self._compare(watched, now_ms)
            del self._touched[key]

    async def _look_at_all(self, pause: Pause) -> None:
        """Take over the keys of the book, and compare those that are new or whose period turned."""
        now_ms, revision, keys = self._now_ms(), self._book.revision, self._book.keys()
        watched: dict[str, _Watched] = {}
        begun_ms, turns_ms = 0, END_MS
        for start in range(0, len(keys), MAX_KEYS_AT_ONCE):
            if start:
                await pause()
            for key in keys[start : start + MAX_KEYS_AT_ONCE]:
                if not key.has_budget:
                    continue
                watched[key.sha256] = found = self._up_to_date(key, now_ms)
                start_ms, end_ms = found.period_ms
                if start_ms > begun_ms:
                    begun_ms = start_ms
                if end_ms < turns_ms:
                    turns_ms = end_ms
        if revision != self._book_revision:
            self._take_over(keys, watched)
            self._book_revision = revision
        self._begun_ms, self._turns_ms = begun_ms, turns_ms
        self._loaded = True

    def _up_to_date(self, key: GatewayKey, now_ms: int) -> _Watched:
        """Return a key as it is watched, compared anew if its budgets or its period are others."""
        watched = self._watched.get(key.sha256)
        if watched is None:
            watched = self._watched[key.sha256] = _Watched(key)
            # At once: its events are noted from here on.
            self._know_hashes(watched)
        elif watched.key is not key:
            self._replace(watched, key)
        if not watched.period_ms[0] <= now_ms < watched.period_ms[1]:
            self._compare(watched, now_ms)
        return watched

    def _replace(self, watched: _Watched, key: GatewayKey) -> None:
        """Take over a key that may be another one, to be compared if its budgets are."""
        was = watched.key
        if was != key and _budgets(was) != _budgets(key):
            watched.period_ms = (0, 0)
        if was.hashes != key.hashes:
            self._forget_hashes(watched)
            watched.key = key
            self._know_hashes(watched)
        watched.key = key

    def _take_over(self, keys: tuple[GatewayKey, ...], watched: dict[str, _Watched]) -> None:
        """Forget the keys that are gone, or have no budget any more."""
        for sha256 in self._watched.keys() - watched.keys():
            self._forget_hashes(self._watched[sha256])
            self._blocked.discard(sha256)
            self._over_soft.discard(sha256)
        for sha256 in self._told.keys() - {key.sha256 for key in keys}:
            del self._told[sha256]
        self.keys, self._watched = keys, watched
        self.revision += 1

    def _know_hashes(self, watched: _Watched) -> None:
        self._by_hash.update(dict.fromkeys(watched.key.hashes, watched))

    def _forget_hashes(self, watched: _Watched) -> None:
        for digest in watched.key.hashes:
            if self._by_hash.get(digest) is watched:
                del self._by_hash[digest]

    # -- one key ------------------------------------------------------------------------------

    def _compare(self, watched: _Watched, now_ms: int) -> None:
        """Compare a key's spend with its budgets."""
        key = watched.key
        watched.period_ms = bounds(key.budget_period, now_ms, key.budget_timezone)
        spent_nano = self._spent_nano(key, now_ms)
        is_blocked = blocked(key.budget_nano, key.budget_period, spent_nano)
        if is_blocked != (key.sha256 in self._blocked):
            self._blocked ^= {key.sha256}
            self.revision += 1
        soft_nano = key.soft_budget_nano
        if soft_nano is None or spent_nano < soft_nano:
            self._over_soft.discard(key.sha256)
            return
        self._over_soft.add(key.sha256)
        crossing = (watched.period_ms, soft_nano)
        told = self._told.setdefault(key.sha256, {})
        if crossing in told:
            return
        told[crossing] = None
        if len(told) > MAX_TOLD:
            del told[next(iter(told))]
        if self._loaded or spent_nano - self._recorded_nano(key) < soft_nano:
            self._tell(key, spent_nano)

    def _recorded_nano(self, key: GatewayKey) -> int:
        """What was recorded for a key since the ledger was loaded, before the first look."""
        return sum(self._touched.get(digest, 0) for digest in key.hashes)

    def _tell(self, key: GatewayKey, spent_nano: int) -> None:
        self.exceeded += 1
        zone = "" if key.budget_period == TOTAL else f", {key.budget_timezone}"
        self._log.warn(
            "key {key} has spent {spent} US dollars and with that its soft budget of {budget} "
            "({period}{zone}); it is not blocked for that",
            key=key.name,
            spent=usd(spent_nano),
            budget=usd(key.soft_budget_nano or 0),
            period=key.budget_period,
            zone=zone,
        )


def _budgets(key: GatewayKey) -> tuple[object, ...]:
    """All that decides how a key stands, but for what it spends."""
    return (
        key.budget_nano,
        key.soft_budget_nano,
        key.budget_period,
        key.budget_timezone,
        key.hashes,
    )
