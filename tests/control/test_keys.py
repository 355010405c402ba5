"""The key file, and the book of all keys."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.key_values import ENDPOINT_KINDS
from omnigate.config.schema import KeyConfig
from omnigate.control import credential_store
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_change import changed
from omnigate.control.key_file import KeysFileError
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.errors import GatewayError
from omnigate.periods import END_MS, rfc3339
from omnigate.testing.writer import SynchronousWriter

NOW_MS = 1_795_982_400_000
ZONED = {"budget_period": "weekly", "budget_timezone": "Europe/Stockholm"}


def resolved(name: str, sha256: str) -> ResolvedKey:
    return ResolvedKey(sha256=sha256, config=KeyConfig(name=name, key_sha256=sha256))


class StoreCase(SynchronousTestCase):
    """A store in a folder of the test."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.path = os.path.join(self.folder, "keys.json")
        self.writer = SynchronousWriter()
        self.store = self.load()

    def load(self) -> KeyStore:
        store = KeyStore(self.path, self.writer, lambda: NOW_MS)
        store.load()
        return store

    def create(self, **body: Any) -> Deferred[tuple[GatewayKey, str]]:
        return Deferred.fromCoroutine(self.store.create(body, lambda name: False))


class StoreTests(StoreCase):
    """Changes, one after another."""

    def test_no_file_is_an_empty_store(self) -> None:
        """A first start has no keys, and writes none."""
        self.assertEqual((list(self.store), os.listdir(self.folder)), ([], []))

    def test_changes_wait_for_each_other(self) -> None:
        """Two changes at once both last, and neither is visible before it is written."""
        self.writer.holding = True
        first, second = self.create(name="a"), self.create(name="b")
        twice = self.create(name="a")
        self.assertEqual(len(self.store), 0)
        self.writer.run(1)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.assertEqual([key.name for key in self.store], ["a"])
        self.writer.run()
        self.successResultOf(second)
        self.assertEqual(
            self.failureResultOf(twice, GatewayError).value.kind.code, "already_exists"
        )
        self.assertEqual([key.name for key in self.load()], ["a", "b"])

    def test_room_for_lists(self) -> None:
        """Longer lists are refused where there is no room; all else may be done."""
        self.patch(KeyStore, "most_list_bytes", 100)
        code = "conflict"
        self.successResultOf(self.create(name="a", models=["m" * 50]))
        self.successResultOf(self.create(name="b", allowed_ips=["10.0.0.0/8", "192.0.2.1"]))
        self.store = self.load()
        self.assertEqual(
            self.failureResultOf(self.create(name="c", models=["m" * 30])).value.kind.code, code
        )

        def change(name: str, **body: Any) -> Deferred[GatewayKey]:
            return Deferred.fromCoroutine(self.store.change(name, lambda key: changed(key, body)))

        told: list[GatewayKey] = []

        async def witness(key: GatewayKey) -> None:
            told.append(key)

        longer = self.store.change("a", lambda key: changed(key, {"models": ["m" * 80]}), witness)
        refused = self.failureResultOf(Deferred.fromCoroutine(longer), GatewayError).value
        self.assertEqual((refused.kind.code, told), (code, []))
        self.successResultOf(Deferred.fromCoroutine(self.store.rotate("a", 60)))
        self.successResultOf(change("a", disabled=True, rpm=7))
        self.successResultOf(change("a", models=["short"]))
        self.successResultOf(self.create(name="c", models=["m" * 30]))
        self.successResultOf(Deferred.fromCoroutine(self.store.delete("c")))
        self.successResultOf(change("b", models=["m" * 30]))

    def test_stopped_writer(self) -> None:
        """A change that comes too late is refused, not lost in silence."""
        self.writer.stop()
        error = self.failureResultOf(self.create(name="a"), GatewayError).value
        self.assertEqual(error.kind.code, "storage_unavailable")

    @settings(max_examples=60, deadline=None)
    @given(
        st.fixed_dictionaries(
            {"name": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)},
            optional={
                "rpm": st.integers(0, 10_000_000),
                "max_concurrent": st.integers(0, 1_000_000),
                "models": st.lists(
                    st.from_regex(r"[A-Za-z0-9@][A-Za-z0-9:/.-]{0,20}\*?", fullmatch=True),
                    min_size=1,
                    max_size=5,
                ),
                "budget_usd": st.decimals(min_value="0.5", max_value=1_000_000_000, places=9),
                "soft_budget_usd": st.decimals(min_value="0.000000001", max_value="0.5", places=9),
                "tpm": st.integers(0, 10**9),
                "allowed_ips": st.lists(
                    st.ip_addresses()
                    .filter(lambda address: not str(address).startswith("::ffff:"))
                    .map(str),
                    min_size=1,
                    max_size=3,
                ),
                "endpoints": st.lists(st.sampled_from(ENDPOINT_KINDS), min_size=1, max_size=7),
                "expires_at": st.integers(1, END_MS - 1).map(rfc3339),
                "disabled": st.booleans(),
            },
        ),
        st.sampled_from([{}, {"budget_period": "total"}, {"budget_period": "daily"}, ZONED]),
    )
    def test_file_holds_exactly_what_was_made(
        self, body: dict[str, Any], period: dict[str, Any]
    ) -> None:
        """What is read back at a start equals what was made, to the nano-dollar."""
        if os.path.exists(self.path):
            os.unlink(self.path)
        if "budget_usd" in body or "soft_budget_usd" in body:
            body = {**body, **period}
        self.store = self.load()
        key, _ = self.successResultOf(self.create(**body))
        self.assertEqual(list(self.load()), [key])

    def test_file_of_an_earlier_version(self) -> None:
        """A file that knows neither zones nor soft budgets is read as it was meant."""
        row = b'"rpm":0,"models":null,"max_concurrent":0,"budget_usd":2,"budget_period":"monthly"'
        with open(self.path, "wb") as file:
            file.write(
                b'{"version": 1, "keys": [\n  {"name":"a","sha256":"%b","created_ms":1,%b}]}\n'
                % (b"0" * 64, row)
            )
        (key,) = self.load()
        self.assertEqual((key.budget_nano, key.budget_period), (2 * 10**9, "monthly"))
        self.assertEqual((key.budget_timezone, key.soft_budget_nano), ("UTC", None))

    def test_file_with_a_zone_that_is_gone(self) -> None:
        """A machine without the zone of a key says so, and does not count by other midnights."""
        self.successResultOf(self.create(name="a", budget_usd=1, **ZONED))
        with open(self.path, "rb") as file:
            data = file.read()
        with open(self.path, "wb") as file:
            file.write(data.replace(b"Stockholm", b"Stokholm"))
        error = str(self.assertRaises(KeysFileError, self.load))
        self.assertIn(self.path, error)
        self.assertIn("tzdata", error)


class LifeTests(StoreCase):
    """Opened, closed, and let go."""

    def test_opened_in_the_thread_of_the_writer(self) -> None:
        """Ten thousand keys are read without holding the reactor."""
        self.successResultOf(self.create(name="a"))
        self.writer.holding = True
        store = KeyStore(self.path, self.writer, lambda: NOW_MS)
        opened = Deferred.fromCoroutine(store.open())
        self.assertNoResult(opened)
        revision = store.revision
        self.writer.run()
        self.successResultOf(opened)
        self.assertEqual(list(store), list(self.store))
        self.assertNotEqual(store.revision, revision)

    def test_opened_on_a_bad_file(self) -> None:
        with open(self.path, "wb") as file:
            file.write(b"{}")
        store = KeyStore(self.path, self.writer, lambda: NOW_MS)
        self.failureResultOf(Deferred.fromCoroutine(store.open()), KeysFileError)

    def test_read_once(self) -> None:
        """A start that has read the file before it opens the stores does not read it again."""
        self.successResultOf(self.create(name="a"))
        store = self.load()
        revision = store.revision
        os.remove(self.path)
        self.successResultOf(Deferred.fromCoroutine(store.open()))
        self.assertEqual((list(store), store.revision), (list(self.store), revision))

    def test_closed_after_what_waits(self) -> None:
        """What was asked for before is written, what comes later is refused."""
        self.writer.holding = True
        first, second = self.create(name="a"), self.create(name="b")
        closed = Deferred.fromCoroutine(self.store.close())
        third = self.create(name="c")
        while self.writer.run():
            pass
        self.successResultOf(closed)
        self.successResultOf(first)
        self.successResultOf(second)
        error = self.failureResultOf(third, GatewayError).value
        self.assertEqual(error.kind.code, "storage_unavailable")
        self.assertEqual([key.name for key in self.load()], ["a", "b"])

    def test_let_go(self) -> None:
        """Nothing is written any more, not even what waits."""
        self.writer.holding = True
        waiting = self.create(name="a")
        self.store.abandon()
        self.writer.run()
        self.failureResultOf(waiting, GatewayError)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_fault_of_its_own(self) -> None:
        """What no disk does is told to who can start everything anew."""
        crashes: list[tuple[str, Failure]] = []
        store = KeyStore(
            self.path,
            self.writer,
            lambda: NOW_MS,
            crashed=lambda name, failure: crashes.append((name, failure)),
        )
        self.patch(credential_store, "replace_or_undo", lambda path, new, old: 1 // 0)
        failed = Deferred.fromCoroutine(store.create({"name": "a"}, lambda name: False))
        self.failureResultOf(failed, ZeroDivisionError)
        ((name, failure),) = crashes
        self.assertEqual((name, failure.type), ("keys", ZeroDivisionError))


class BookTests(StoreCase):
    """Both kinds together."""

    def test_both_kinds(self) -> None:
        """Keys are found by name and by hash, whatever their kind."""
        managed, _ = self.successResultOf(self.create(name="m"))
        book = KeyBook(self.store, [resolved("f", "1" * 64)])
        self.assertEqual([key.name for key in book], ["f", "m"])
        self.assertEqual(book.names_by_hash(), {"1" * 64: "f", managed.sha256: "m"})
        self.assertEqual((book.get("m"), book.get("x"), len(book)), (managed, None, 2))
        self.assertEqual((book.is_file_key("f"), book.is_file_key("m")), (True, False))
        self.assertEqual(book.clashes(), [])

    def test_the_same_tuple_until_a_key_changes(self) -> None:
        """Who asks again learns by identity that nothing is new."""
        book = KeyBook(self.store, [resolved("f", "1" * 64)])
        keys = book.keys()
        self.assertIs(book.keys(), keys)
        self.successResultOf(self.create(name="m"))
        self.assertEqual([key.name for key in book], ["f", "m"])
        book.install([])
        self.assertEqual([key.name for key in book], ["m"])

    def test_a_key_that_is_as_it_was(self) -> None:
        """It stays the same object in a config that is read again; another one does not."""
        book = KeyBook(self.store, [resolved("a", "1" * 64), resolved("b", "2" * 64)])
        first, second = book.keys()
        book.install([resolved("c", "2" * 64), resolved("a", "1" * 64)])
        self.assertEqual([key.name for key in book], ["c", "a"])
        self.assertIs(book.get("a"), first)
        self.assertNotIn(second, book.keys())

    def test_clashes(self) -> None:
        """A file key with the name or the secret of a managed key is pointed out."""
        managed, _ = self.successResultOf(self.create(name="m"))
        book = KeyBook(self.store, [resolved("m", "1" * 64), resolved("n", managed.sha256)])
        self.assertEqual([clash.path for clash in book.clashes()], ["keys[0].name", "keys[1]"])
        self.assertEqual(len({key.sha256 for key in book}), len(book))
        self.assertEqual([key.source for key in book], ["file", "file"])

    def test_clashes_with_secrets_of_old(self) -> None:
        """A secret is its key's for good; the key that has others beside it goes on."""
        made, _ = self.successResultOf(self.create(name="m"))
        first, _ = self.successResultOf(Deferred.fromCoroutine(self.store.rotate("m", 60)))
        key, _ = self.successResultOf(Deferred.fromCoroutine(self.store.rotate("m", 60)))
        for sha256 in (made.sha256, first.secret_sha256, key.secret_sha256):
            book = KeyBook(self.store, [resolved("n", sha256), resolved("o", "1" * 64)])
            (clash,) = book.clashes()
            self.assertEqual(clash.path, "keys[0]")
            self.assertIn("before it was rotated", clash.message)
            self.assertEqual([key.name for key in book], ["o", "m"])
        self.assertEqual(book.names_by_hash(), {"1" * 64: "o", made.sha256: "m"})
