"""Receipts on the disk."""

from __future__ import annotations

import errno
import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.attested import Signature, Told
from omnigate.receipts import receipt as words
from omnigate.receipts import store as store_module
from omnigate.receipts.judging import judge
from omnigate.receipts.receipt import Receipt
from omnigate.receipts.store import ReceiptStore
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.receipts.test_judging import exchanged

PATH = "/state/receipts.json"
DAY_MS = 86_400_000


class StoreTests(SynchronousTestCase):
    """See the module's docstring."""

    def setUp(self) -> None:
        self.disk = MemoryDisk("/state")
        self.patch(files, "os", self.disk)
        self.patch(files, "fcntl", self.disk)
        self.clock = Clock()
        self.now_ms = 10 * DAY_MS
        self.days = 0
        self.crashes: list[Failure] = []
        self.store = self.opened()

    def opened(self) -> ReceiptStore:
        """A store over the disk."""
        store = ReceiptStore(
            PATH,
            self.clock,
            SynchronousWriter(),
            lambda: self.now_ms,
            lambda: self.days,
            self.crashes.append,
        )
        self.done(store.open())
        return store

    def done(self, work: Any) -> Any:
        """The result of work that is done at once."""
        return self.successResultOf(Deferred.fromCoroutine(work))

    def take(self, name: str, **changes: Any) -> None:
        """A data plane tells of an answer."""
        told = Told(exchanged=exchanged(id=name, ts_ms=self.now_ms), **changes)
        self.done(self.store.take([told]))

    def test_kept(self) -> None:
        """What was told is there, also after a restart."""
        self.take("r1")
        self.take("r2", settled=True)
        self.assertNotIn("receipts.json", self.disk.listdir("/state"))
        self.clock.advance(1)
        text = files.read_file(PATH, 100_000) or b""
        self.assertEqual(["r1", "r2"], [one["id"] for one in json.loads(text)["receipts"]])
        self.store = self.opened()
        self.assertEqual(2, len(self.store))
        found = self.store.get("r2")
        assert found is not None
        self.assertEqual((words.UNAVAILABLE, words.NO_SIGNATURE), (found.verdict, found.reason))

    def test_judged_once(self) -> None:
        """A batch that comes late changes no verdict."""
        verdicts: list[str] = []
        self.store.judged = verdicts.append
        self.take("r1")
        self.take("r1", settled=True)
        self.take("r1")
        found = self.store.get("r1")
        assert found is not None
        self.assertEqual(words.UNAVAILABLE, found.verdict)
        self.assertEqual([words.UNAVAILABLE], verdicts)

    def test_a_request_that_had_two_answers(self) -> None:
        """The one that came last is what its client got, in whatever order they are told of."""
        useless = exchanged(id="r1", ts_ms=self.now_ms, completion_id="", upstream="other")
        served = exchanged(id="r1", ts_ms=self.now_ms + 5)
        for order in (
            [Told(exchanged=useless), Told(exchanged=served)],
            [Told(exchanged=served), Told(exchanged=useless)],
        ):
            self.store = self.opened()
            for told in order:
                self.done(self.store.take([told]))
            found = self.store.get("r1")
            assert found is not None
            self.assertEqual(("near", words.PENDING), (found.upstream, found.verdict))
            self.done(self.store.take([Told(exchanged=served, settled=True)]))
            self.done(self.store.take([Told(exchanged=useless, settled=True)]))
            found = self.store.get("r1")
            assert found is not None
            self.assertEqual(("near", words.NO_SIGNATURE), (found.upstream, found.reason))

    def test_the_longest_line(self) -> None:
        """However long a receipt may be, it is read again."""
        text, name = "\x01" * 512, "\x01" * 256
        odd = Signature(
            text=text,
            signature=text,
            signing_address=text,
            signing_algo=name,
            signature_kind=name,
        )
        facts = dict.fromkeys(("route_model", "upstream", "target_model", "completion_id"), name)
        told = Told(exchanged=exchanged(id=name, **facts), signature=odd)
        self.done(self.store.take([told]))
        self.clock.advance(1)
        self.assertIsNotNone(self.opened().get(name))

    def test_one_that_cannot_be_judged(self) -> None:
        """It is passed over: it would come again and again, and the others must not suffer."""

        def broken(told: Told, now_ms: int) -> Receipt:
            if told.exchanged.id == "odd":
                raise ZeroDivisionError
            return judge(told, now_ms)

        self.patch(store_module, "judge", broken)
        told = [Told(exchanged=exchanged(id=name, ts_ms=self.now_ms)) for name in ("odd", "r2")]
        self.done(self.store.take(told))
        self.assertEqual(([], None), (self.crashes, self.store.get("odd")))
        self.assertIsNotNone(self.store.get("r2"))
        self.assertEqual(1, len(self.flushLoggedErrors(ZeroDivisionError)))

    def test_bounds(self) -> None:
        """The newest so many, and none older than the setting."""
        self.patch(store_module, "MAX_RECEIPTS", 3)
        for index in range(5):
            self.take(f"r{index}")
        self.assertEqual([None, None], [self.store.get("r0"), self.store.get("r1")])
        self.assertEqual(3, len(self.store))
        self.days = 2
        self.now_ms += 3 * DAY_MS
        self.take("new")
        self.assertEqual(1, len(self.store))

    def test_a_full_disk(self) -> None:
        """They stay in memory, and are written once it has room."""
        self.disk.fail("write", error=errno.ENOSPC)
        self.take("r1")
        self.clock.advance(1)
        self.assertEqual((1, []), (self.store.failed_writes, self.crashes))
        self.assertNotIn("receipts.json", self.disk.listdir("/state"))
        self.disk.heal()
        self.clock.advance(1)
        self.assertIn("receipts.json", self.disk.listdir("/state"))

    def test_any_crash(self) -> None:
        """The file is that of before or that of after, whenever the power fails."""
        self.take("r1")
        self.clock.advance(1)
        self.disk.record()
        self.take("r2")
        self.clock.advance(1)
        seen = set()
        for state in self.disk.crash_states():
            disk = state.disk()
            self.patch(files, "os", disk)
            self.patch(files, "fcntl", disk)
            store = self.opened()
            self.assertIsNotNone(store.get("r1"))
            seen.add(len(store))
        self.assertEqual({1, 2}, seen)

    def test_a_damaged_file(self) -> None:
        """Lines that are no receipts are left out, and the others read."""
        self.take("r1")
        self.take("r2")
        self.done(self.store.close())
        text = files.read_file(PATH, 100_000) or b""
        files.replace_file(PATH, text.replace(b'"id":"r1"', b'"id":7'))
        self.store = self.opened()
        self.assertEqual(1, len(self.store))
        self.assertIsNotNone(self.store.get("r2"))
