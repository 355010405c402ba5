"""The snapshot for data planes, made anew for every poll and encoded anew when it differs.

Budgets are compared with the ledger each time, so a key that spends its budget is blocked by the
next poll, and a key whose period turned is free again by the first poll after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import attrs

from omnigate.config.schema import Config
from omnigate.config.snapshot import SnapshotKey, build_snapshot, encode_snapshot
from omnigate.control.keys import GatewayKey, KeyBook
from omnigate.files import IWriter
from omnigate.ledger.budgets import blocked
from omnigate.ledger.service import LedgerNotReady

#: Keys that are looked at, or encoded, in one go on the reactor's thread: 1 ms, or 4 ms.
MAX_KEYS_AT_ONCE: Final = 500

#: Targets that are encoded in one go there: 1 ms, or 12 ms for models that were never seen before.
MAX_TARGETS_AT_ONCE: Final = 500


class Spend(Protocol):
    """The ledger, as far as budgets need it."""

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""

    def spend_nano(self, key_hashes: Iterable[str], period: str, now_ms: int) -> int:
        """Return what a key spent in its current period, in nano-dollars."""


@attrs.frozen
class Encoded:
    """A snapshot as data planes get it."""

    version: str
    data: bytes


@attrs.frozen
class _Facts:
    """What a snapshot is made of: while none of it changes, neither does the snapshot."""

    config: Config = attrs.field(eq=id)
    revision: tuple[int, int]
    blocked: frozenset[str]


class Snapshots:
    """Makes snapshots of the config in force, the keys, and what they spent.

    :param worker: encodes a snapshot of many keys or targets away from the reactor.
    :param pause: lets the reactor do something else in between.
    :ivar now_ms: the time by which budget periods turn.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        book: KeyBook,
        ledger: Spend,
        now_ms: Callable[[], int],
        worker: IWriter,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self.now_ms = now_ms
        self._config = config
        self._book = book
        self._ledger = ledger
        self._worker = worker
        self._pause = pause
        self._facts: _Facts | None = None
        self._encoded = Encoded("", b"")

    async def current(self) -> Encoded:
        """Return the snapshot as of now.

        :raises LedgerNotReady: what was spent cannot be told yet.
        """
        if not self._ledger.ready:
            # Also where no key has a budget: a restart looks the same to every data plane.
            raise LedgerNotReady
        config, revision, keys = self._config(), self._book.revision, tuple(self._book)
        over: list[str] = []
        for start in range(0, len(keys), MAX_KEYS_AT_ONCE):
            if start:
                await self._pause()
            batch = keys[start : start + MAX_KEYS_AT_ONCE]
            over.extend(key.sha256 for key in batch if self._is_over(key))
        facts = _Facts(config, revision, frozenset(over))
        if facts == self._facts:
            return self._encoded
        targets = sum(len(route.targets) for route in config.routes)
        if len(keys) <= MAX_KEYS_AT_ONCE and targets <= MAX_TARGETS_AT_ONCE:
            encoded = _encode(facts, keys)
        else:
            encoded = await self._worker.submit(lambda: _encode(facts, keys))
        self._facts, self._encoded = facts, encoded
        return encoded

    def _is_over(self, key: GatewayKey) -> bool:
        return key.budget_nano is not None and blocked(
            key.budget_nano, key.budget_period, self.spent_nano(key)
        )

    def spent_nano(self, key: GatewayKey) -> int:
        """Return what a key spent in its current budget period, in nano-dollars.

        :raises LedgerNotReady: it cannot be told yet.
        """
        return self._ledger.spend_nano(key.hashes, key.budget_period, self.now_ms())


def _encode(facts: _Facts, keys: Iterable[GatewayKey]) -> Encoded:
    """Build and encode a snapshot."""
    rows = [
        SnapshotKey(
            sha256=key.sha256,
            name=key.name,
            rpm=key.rpm,
            models=key.models,
            blocked=key.sha256 in facts.blocked,
            max_concurrent=key.max_concurrent,
        )
        for key in keys
    ]
    snapshot = build_snapshot(facts.config, rows)
    return Encoded(snapshot.version, encode_snapshot(snapshot))
