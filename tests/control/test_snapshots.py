"""When a snapshot is made anew."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from decimal import Decimal

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import Config, KeyConfig, load_config
from omnigate.config.snapshot import (
    SnapshotKey,
    build_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from omnigate.control import credential_store
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.snapshots import (
    MAX_ENTRIES_AT_ONCE,
    MAX_KEYS_AT_ONCE,
    MAX_TARGETS_AT_ONCE,
    Encoded,
    Snapshots,
)
from omnigate.ledger.service import LedgerNotReady
from omnigate.testing.writer import SynchronousWriter
from tests.control.plane import CONFIG
from tests.control.test_budget_watch import usage
from tests.control.test_keys import resolved


def budgeted(name: str, number: int) -> ResolvedKey:
    """A file key with a budget."""
    sha256 = f"{number:064x}"
    return ResolvedKey(sha256, KeyConfig(name=name, key_sha256=sha256, budget_usd=Decimal(1)))


class Spent:
    """A ledger that knows who has spent much."""

    def __init__(self) -> None:
        self.ready = True
        self.asked = 0
        self.over: set[str] = set()

    def spend_nano(
        self, key_hashes: Iterable[str], period: str, now_ms: int, zone: str = "UTC"
    ) -> int:
        self.asked += 1
        return 10**9 if self.over.intersection(key_hashes) else 0


class SnapshotsTests(SynchronousTestCase):
    """When a snapshot is made anew, and where."""

    def setUp(self) -> None:
        self.config = load_config(CONFIG)
        self.writer = SynchronousWriter()
        self.book = KeyBook(KeyStore("unused", self.writer, lambda: 0))
        self.book.install([resolved("app", "1" * 64)])
        self.spent = Spent()
        self.watch = BudgetWatch(self.book, self.spent, lambda: 0)
        self.snapshots = Snapshots(lambda: self.config, self.watch, self.writer, self.pause)

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

    def test_nothing_is_asked_while_nothing_changes(self) -> None:
        """A poll costs the same with one key and with ten thousand."""
        self.book.install([budgeted(f"key-{n}", n) for n in range(100)])
        self.current()
        self.spent.asked = 0
        self.book.keys = None  # type: ignore[method-assign,assignment]
        self.current()
        self.assertEqual(self.spent.asked, 0)

    def test_a_hash_is_one_keys(self) -> None:
        """Whatever secrets file keys share with managed ones, data planes can take the snapshot."""
        store = self.book.managed
        self.patch(credential_store, "replace_or_undo", lambda path, new, old: None)
        made = [
            self.successResultOf(
                Deferred.fromCoroutine(store.create({"name": name}, lambda _: False))
            )[0]
            for name in ("plain", "turned", "off")
        ]
        changing = store.change("off", lambda key: attrs.evolve(key, disabled=True))
        self.successResultOf(Deferred.fromCoroutine(changing))
        hashes = {key.sha256 for key in made}
        for _ in range(2):
            rotating = Deferred.fromCoroutine(store.rotate("turned", 60))
            hashes |= self.successResultOf(rotating)[0].own_hashes
        for count in range(1, len(hashes) + 1):
            for shared in itertools.combinations(sorted(hashes), count):
                self.book.install([resolved(f"file-{n}", sha) for n, sha in enumerate(shared)])
                rows = decode_snapshot(self.current().data).keys
                opening = [
                    secret
                    for row in rows
                    for secret in (
                        [row.sha256] if row.secrets is None else [s.sha256 for s in row.secrets]
                    )
                ]
                # All that opened the managed keys still does, and nothing does twice.
                self.assertEqual(len(opening), len(set(opening)))
                self.assertLessEqual(hashes - {made[2].sha256}, set(opening))

    def test_two_polls_at_once(self) -> None:
        """What has to be made is made once, and both get it."""
        many = [resolved(f"key-{n}", f"{n:064x}") for n in range(MAX_KEYS_AT_ONCE + 1)]
        long = [
            ResolvedKey(f"{n:064x}", KeyConfig(f"key-{n}", f"{n:064x}", models=("m",) * 500))
            for n in range(MAX_ENTRIES_AT_ONCE // 500 + 1)
        ]
        for keys_of_file in (many, long):
            self.book.install(keys_of_file)
            self.writer.holding = True
            polls = [Deferred.fromCoroutine(self.snapshots.current()) for _ in range(2)]
            self.assertEqual(self.writer.run(), 1)
            first, second = (self.successResultOf(poll) for poll in polls)
            self.assertIs(first, second)

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 2**32))
    def test_any_history(self, seed: int) -> None:
        """Whatever changes, the snapshot is the one that is made from nothing."""
        rng = random.Random(seed)
        self.setUp()
        numbers: dict[int, str] = {}
        for _ in range(20):
            for _ in range(rng.choice([0, 0, 1, 5])):
                numbers[rng.randrange(12)] = rng.choice(["a", "b", "c"])
            if numbers and rng.random() < 0.3:
                del numbers[rng.choice(list(numbers))]
            if rng.random() < 0.7:
                self.book.install([budgeted(f"{word}-{n}", n) for n, word in numbers.items()])
            if rng.random() < 0.5:
                for number in rng.sample(range(12), 3):
                    self.spent.over ^= {f"{number:064x}"}
                    self.watch.touch(usage(f"{number:064x}", 0), 1)
            if rng.random() < 0.1:
                self.config = rng.choice([Config(), load_config(CONFIG)])
            whole = build_snapshot(self.config, [self.row(key) for key in self.book])
            self.assertEqual(self.current(), Encoded(whole.version, encode_snapshot(whole)))

    def row(self, key: GatewayKey) -> SnapshotKey:
        """A key as data planes are to see it."""
        return SnapshotKey(
            sha256=key.sha256,
            name=key.name,
            rpm=0,
            models=None,
            blocked=key.sha256 in self.spent.over and key.budget_nano is not None,
            max_concurrent=0,
        )

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
