"""When a snapshot is made anew."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import Config, load_config
from omnigate.config.snapshot import decode_snapshot
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.snapshots import (
    MAX_KEYS_AT_ONCE,
    MAX_TARGETS_AT_ONCE,
    Encoded,
    Snapshots,
)
from omnigate.ledger.service import LedgerNotReady
from omnigate.testing.writer import SynchronousWriter
from tests.control.plane import CONFIG
from tests.control.test_keys import resolved


class Spent:
    """A ledger that knows one figure."""

    ready = True
    nano = 0

    def spend_nano(self, key_hashes: Iterable[str], period: str, now_ms: int) -> int:
        return self.nano


class SnapshotsTests(SynchronousTestCase):
    """When a snapshot is made anew, and where."""

    def setUp(self) -> None:
        self.config = load_config(CONFIG)
        self.writer = SynchronousWriter()
        self.book = KeyBook(KeyStore("unused", self.writer, lambda: 0))
        self.book.install([resolved("app", "1" * 64)])
        self.spent = Spent()
        self.snapshots = Snapshots(
            lambda: self.config, self.book, self.spent, lambda: 0, self.writer, self.pause
        )

    async def pause(self) -> None:
        """Let the reactor go on, which there is none of here."""

    def current(self) -> Encoded:
        return self.successResultOf(Deferred.fromCoroutine(self.snapshots.current()))

    def test_encoded_once(self) -> None:
        """Nothing is encoded again until a key, a block or the config changes."""
        first = self.current()
        self.assertIs(self.current(), first)
        self.book.install([resolved("web", "1" * 64)])
        self.assertNotEqual(self.current().version, first.version)
        self.book.install([resolved("app", "1" * 64)])
        self.assertEqual(self.current(), first)
        self.config = Config()
        self.assertNotEqual(self.current().version, first.version)

    def test_not_ready_without_budgets_too(self) -> None:
        """While the ledger is not loaded there is no snapshot, whatever the keys."""
        self.spent.ready = False
        self.failureResultOf(Deferred.fromCoroutine(self.snapshots.current()), LedgerNotReady)

    def test_many_keys_are_encoded_elsewhere(self) -> None:
        """A long list of keys does not hold the reactor; the snapshot is the same."""
        many = [resolved(f"key-{n}", f"{n:064x}") for n in range(MAX_KEYS_AT_ONCE + 1)]
        self.book.install(many)
        encoded = self.encoded_elsewhere()
        self.assertEqual(len(decode_snapshot(encoded.data).keys), len(many))

    def test_many_targets_are_encoded_elsewhere(self) -> None:
        """As with keys: what is known of each of their models has to be found."""
        (first, *_) = self.config.routes
        self.config = attrs.evolve(
            self.config,
            routes=tuple(
                attrs.evolve(first, model=f"model-{n}") for n in range(MAX_TARGETS_AT_ONCE + 1)
            ),
        )
        encoded = self.encoded_elsewhere()
        self.assertEqual(len(decode_snapshot(encoded.data).routes), MAX_TARGETS_AT_ONCE + 1)

    def encoded_elsewhere(self) -> Encoded:
        """The snapshot, which the writer's thread and nobody else has to make."""
        self.writer.holding = True
        waiting = Deferred.fromCoroutine(self.snapshots.current())
        self.assertNoResult(waiting)
        self.writer.run()
        encoded = self.successResultOf(waiting)
        self.assertIs(self.current(), encoded)
        return encoded
