"""New secrets for old keys, and who is told of a change before it is made."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import Deferred

from omnigate.control.credential import EarlierSecret
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_change import changed
from omnigate.control.key_secret import sha256_hex
from omnigate.control.keys import KeyStore
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339
from tests.control.test_keys import NOW_MS, StoreCase


class RotationTests(StoreCase):
    """New secrets for old keys."""

    def setUp(self) -> None:
        super().setUp()
        self.now_ms = NOW_MS
        self.store = KeyStore(self.path, self.writer, lambda: self.now_ms)
        self.key, self.secret = self.successResultOf(self.create(name="a", rpm=7))

    def rotate(self, grace_s: int = 0, name: str = "a") -> GatewayKey:
        key, secret = self.successResultOf(Deferred.fromCoroutine(self.store.rotate(name, grace_s)))
        self.assertEqual(key.secret_sha256, sha256_hex(secret))
        return key

    def conflict(self, grace_s: int = 0) -> str:
        before = list(self.store)
        failed = Deferred.fromCoroutine(self.store.rotate("a", grace_s))
        error = self.failureResultOf(failed, GatewayError).value
        self.assertEqual((error.kind.code, list(self.store)), ("conflict", before))
        return str(error)

    def test_without_grace(self) -> None:
        """The identity stays, and all that is the key's; the secret is another one."""
        key = self.rotate()
        self.assertEqual((key.sha256, key.rpm), (sha256_hex(self.secret), 7))
        self.assertNotEqual(key.secret_sha256, key.sha256)
        self.assertEqual((key.earlier, key.rotated_ms), ((), NOW_MS))
        self.assertEqual(key.own_hashes, {key.sha256, key.secret_sha256})
        self.assertEqual(list(self.load()), [key])

    def test_a_grace_is_never_longer_than_the_last_one(self) -> None:
        """Who rotates with a shorter grace ends what an earlier rotation had promised."""
        first = self.rotate(3600)
        self.assertEqual(first.earlier, (EarlierSecret(self.key.sha256, NOW_MS + 3_600_000),))
        self.now_ms += 1_000
        second = self.rotate(7200)
        self.assertEqual(
            second.earlier,
            (
                EarlierSecret(self.key.sha256, NOW_MS + 3_600_000),
                EarlierSecret(first.secret_sha256, NOW_MS + 7_201_000),
            ),
        )
        self.assertEqual(second.old_secrets_until_ms(self.now_ms), NOW_MS + 7_201_000)
        third = self.rotate(60)
        self.assertEqual({secret.until_ms for secret in third.earlier}, {NOW_MS + 61_000})
        self.assertEqual(len(third.earlier), 3)
        self.assertEqual(self.rotate().earlier, ())

    def test_what_is_over_is_dropped(self) -> None:
        """At the moment at which it stops an earlier secret makes room."""
        self.rotate(60)
        self.now_ms += 60_000
        self.assertEqual(len(self.rotate(60).earlier), 1)
        self.now_ms += 60_000
        changing = self.store.change("a", lambda key: attrs.evolve(key, rpm=8))
        key = self.successResultOf(Deferred.fromCoroutine(changing))
        self.assertEqual((key.earlier, key.rpm, key.is_rotated), ((), 8, True))

    def test_eight_at_once(self) -> None:
        """The ninth is refused, until the first has stopped; without a grace it never is."""
        for _ in range(8):
            self.rotate(3600)
            self.now_ms += 1_000
        message = self.conflict(3600)
        self.assertIn(rfc3339(NOW_MS + 3_600_000), message)
        self.assertIn("grace of 0", message)
        self.now_ms = NOW_MS + 3_600_000
        self.rotate(3600)
        self.conflict(3600)
        self.rotate(0)

    def test_a_key_that_opens_nothing(self) -> None:
        """A secret that nobody could use is not made, and the remedy is told."""
        body = {"expires_at": rfc3339(NOW_MS + 1_000)}
        changing = self.store.change("a", lambda key: changed(key, body))
        self.successResultOf(Deferred.fromCoroutine(changing))
        self.now_ms += 999
        self.rotate()
        self.now_ms += 1
        self.assertIn("later expires_at", self.conflict())
        disabling = self.store.change("a", lambda key: changed(key, {"disabled": True}))
        self.successResultOf(Deferred.fromCoroutine(disabling))
        self.assertIn("enable it", self.conflict())


class WitnessTests(StoreCase):
    """Who is told before anything is done."""

    def setUp(self) -> None:
        super().setUp()
        self.told: list[GatewayKey] = []
        self.refuses = False

    async def witness(self, key: GatewayKey) -> None:
        self.told.append(key)
        if self.refuses:
            raise GatewayError("storage_unavailable", "the audit log cannot be written")

    def changes(self) -> list[Any]:
        store, witness = self.store, self.witness
        return [
            store.create({"name": "b"}, lambda name: False, witness),
            store.change("a", lambda key: changed(key, {"rpm": 1}), witness),
            store.rotate("a", 0, witness),
            store.delete("a", witness),
        ]

    def test_told_of_each(self) -> None:
        """With the key as it will be, or as it was where it goes."""
        self.successResultOf(self.create(name="a"))
        for change in self.changes():
            self.successResultOf(Deferred.fromCoroutine(change))
        self.assertEqual([key.name for key in self.told], ["b", "a", "a", "a"])
        self.assertEqual([key.rpm for key in self.told[1:]], [1, 1, 1])
        self.assertEqual([key.name for key in self.store], ["b"])

    def test_a_witness_that_refuses(self) -> None:
        """Nothing is changed, and the next change is not kept waiting."""
        self.successResultOf(self.create(name="a"))
        self.refuses = True
        before = list(self.store)
        for change in self.changes():
            self.failureResultOf(Deferred.fromCoroutine(change), GatewayError)
            self.assertEqual((list(self.store), list(self.load())), (before, before))
        self.successResultOf(self.create(name="c"))

    def test_not_told_of_what_is_refused(self) -> None:
        """Nor of a change that changes nothing."""
        self.successResultOf(self.create(name="a"))
        refused = [
            self.store.create({"name": "a"}, lambda name: False, self.witness),
            self.store.create({"name": "?"}, lambda name: False, self.witness),
            self.store.change("b", lambda key: key, self.witness),
            self.store.change("a", lambda key: changed(key, {"rpm": -1}), self.witness),
            self.store.rotate("b", 0, self.witness),
            self.store.delete("b", self.witness),
        ]
        for change in refused:
            self.failureResultOf(Deferred.fromCoroutine(change), GatewayError)
        same = self.store.change("a", lambda key: changed(key, {"rpm": 0}), self.witness)
        self.successResultOf(Deferred.fromCoroutine(same))
        self.assertEqual(self.told, [])
