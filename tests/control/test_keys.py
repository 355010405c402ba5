"""The key file, and the book of all keys."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import KeyConfig
from omnigate.control.keys import GatewayKey, KeyBook, KeysFileError, KeyStore
from omnigate.errors import GatewayError
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


class DamageTests(StoreCase):
    """A file that is not what was written."""

    def refused(self, data: bytes) -> str:
        with open(self.path, "wb") as file:
            file.write(data)
        error = self.assertRaises(KeysFileError, self.load)
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), data)
        return str(error)

    def test_every_cut(self) -> None:
        """A file cut anywhere is refused with its name, and left as it is."""
        self.successResultOf(self.create(name="a", budget_usd=1))
        self.successResultOf(self.create(name="b"))
        with open(self.path, "rb") as file:
            whole = file.read()
        for length in range(len(whole) - 1):
            self.assertIn(self.path, self.refused(whole[:length]))

    def test_newer_format(self) -> None:
        """A file of a later version is told apart from a damaged one."""
        self.assertIn("start the newer version", self.refused(b'{"version":2,"keys":{}}'))

    def test_other_contents(self) -> None:
        """JSON that is no key file is refused."""
        row = b'{"name":"a","sha256":"%s","created_ms":1}' % (b"0" * 64)
        for data in (
            b"[]",
            b"{}",
            b'{"version":1}',
            b'{"version":1,"keys":{}}',
            b'{"version":1,"keys":[],"more":1}',
            b'{"version":1,"keys":[1]}',
            b'{"version":1,"keys":[{"name":"a"}]}',
            b'{"version":1,"keys":[%s,%s]}' % (row, row),
            b'{"version":1,"keys":[%s,%s]}' % (row, row.replace(b'"a"', b'"b"')),
            b'{"version":1,"keys":[%s]}' % row.replace(b"created_ms", b"webhook_secret"),
        ):
            self.refused(data)

    def test_unreadable(self) -> None:
        """A path that is no file names itself."""
        os.mkdir(self.path)
        self.assertIn(self.path, str(self.assertRaises(KeysFileError, self.load)))


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
