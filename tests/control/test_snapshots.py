"""When a snapshot is made anew."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import Config, load_config
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.snapshots import Snapshots
from omnigate.testing.writer import SynchronousWriter
from tests.control.plane import CONFIG
from tests.control.test_keys import resolved


class Spent:
    """A ledger that knows one figure."""

    def __init__(self) -> None:
        self.nano = 0

    def spend_nano(self, key_hashes: Iterable[str], period: str, now_ms: int) -> int:
        return self.nano


class SnapshotsTests(SynchronousTestCase):
    """Two polls without news in between give the very same bytes."""

    def test_encoded_once(self) -> None:
        """Nothing is encoded again until a key, a block or the config changes."""
        config = [load_config(CONFIG)]
        store = KeyStore("unused", SynchronousWriter(), lambda: 0)
        book = KeyBook(store, [resolved("app", "1" * 64)])
        spent = Spent()
        snapshots = Snapshots(lambda: config[0], book, spent, lambda: 0)
        version, encoded = snapshots.current()
        self.assertIs(snapshots.current()[1], encoded)
        book.install([resolved("web", "1" * 64)])
        self.assertNotEqual(snapshots.current()[0], version)
        book.install([resolved("app", "1" * 64)])
        self.assertEqual(snapshots.current(), (version, encoded))
        config[0] = Config()
        self.assertNotEqual(snapshots.current()[0], version)
