"""The snapshot for data planes, made anew for every poll and encoded anew when it differs.

Budgets are compared with the ledger each time, so a key that spends its budget is blocked by the
next poll, and a key whose period turned is free again by the first poll after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from omnigate.config.schema import Config
from omnigate.config.snapshot import SnapshotKey, build_snapshot, encode_snapshot
from omnigate.control.keys import GatewayKey, KeyBook
from omnigate.ledger.budgets import blocked


class Spend(Protocol):
    """The ledger, as far as budgets need it."""

    def spend_nano(self, key_hashes: Iterable[str], period: str, now_ms: int) -> int:
        """Return what a key spent in its current period, in nano-dollars."""


class Snapshots:
    """Makes snapshots of the config in force, the keys, and what they spent."""

    def __init__(
        self, config: Callable[[], Config], book: KeyBook, ledger: Spend, now_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._book = book
        self._ledger = ledger
        self.now_ms = now_ms
        self._made_of: tuple[Config, list[SnapshotKey]] | None = None
        self._version = ""
        self._encoded = b""

    def current(self) -> tuple[str, bytes]:
        """Return the version of the snapshot as of now, and its bytes.

        :raises LedgerNotReady: what was spent cannot be told yet.
        """
        config = self._config()
        keys = [self._snapshot_key(key) for key in self._book]
        made_of = self._made_of
        if made_of is None or made_of[0] is not config or made_of[1] != keys:
            snapshot = build_snapshot(config, keys)
            self._version, self._encoded = snapshot.version, encode_snapshot(snapshot)
            self._made_of = (config, keys)
        return self._version, self._encoded

    def _snapshot_key(self, key: GatewayKey) -> SnapshotKey:
        return SnapshotKey(
            sha256=key.sha256,
            name=key.name,
            rpm=key.rpm,
            models=key.models,
            blocked=self.is_blocked(key),
            max_concurrent=key.max_concurrent,
        )

    def is_blocked(self, key: GatewayKey) -> bool:
        """Tell whether a key has used up its budget.

        :raises LedgerNotReady: what was spent cannot be told yet.
        """
        return blocked(key.budget_nano, key.budget_period, self.spent_nano(key))

    def spent_nano(self, key: GatewayKey) -> int:
        """Return what a key spent in its current budget period, in nano-dollars.

        :raises LedgerNotReady: it cannot be told yet.
        """
        return self._ledger.spend_nano(key.hashes, key.budget_period, self.now_ms())
