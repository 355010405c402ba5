"""The configs that were in force."""

from __future__ import annotations

import errno
import hashlib
import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.config.credentials import Credentials
from omnigate.config.schema import Config, load_config
from omnigate.control import config_history
from omnigate.control.config_changes import changes_between
from omnigate.control.config_history import (
    MAX_ENTRIES,
    MAX_WAITING,
    ConfigHistory,
    ConfigHistoryError,
)
from omnigate.control.config_reading import Reading
from omnigate.errors import GatewayError
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import few_bytes
from omnigate.testing.writer import SynchronousWriter

PATH = "/state/config_history.json"
KEY = '[[keys]]\nname = "app"\nkey_env = "APP"\n'


def reading(text: str) -> Reading:
    config = load_config(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    changes = changes_between(Config(), (), config, ())
    return Reading(
        text=text,
        config=config,
        keys=(),
        gateway_keys=(),
        credentials=Credentials(),
        sha256=sha256,
        changes=changes,
        changed=True,
    )


class HistoryCase(SynchronousTestCase):
    def use(self, disk: MemoryDisk) -> MemoryDisk:
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        self.disk = disk
        return disk

    def setUp(self) -> None:
        self.use(MemoryDisk("/state"))
        self.crashes: list[Failure] = []
        self.history = self.opened()

    def made(self) -> ConfigHistory:
        return ConfigHistory(
            PATH, SynchronousWriter(), lambda: 1_795_982_400_000, self.crashes.append
        )

    def opened(self) -> ConfigHistory:
        history = self.made()
        self.successResultOf(Deferred.fromCoroutine(history.open()))
        return history

    def add(self, text: str, actor: str = "file") -> None:
        self.successResultOf(
            Deferred.fromCoroutine(self.history.add(reading(text), actor, "10.0.0.1"))
        )


class HistoryTests(HistoryCase):
    """What is kept."""

    def test_entry(self) -> None:
        """All of it is kept, and comes back."""
        self.add(KEY + "# password: hunter22\n", "admin-token")
        (entry,) = self.history.entries()
        self.assertEqual((entry.id, entry.at), (1, "2026-11-29T20:00:00.000Z"))
        self.assertEqual((entry.actor, entry.address), ("admin-token", "10.0.0.1"))
        self.assertEqual((entry.keys, entry.upstreams, entry.routes), (1, 0, 0))
        self.assertEqual(entry.text, KEY + "# password: [redacted]\n")
        self.assertEqual(entry.bytes, len(KEY + "# password: hunter22\n"))
        self.assertEqual(self.opened().entries(), self.history.entries())
        document = json.loads(self.disk.certain()[PATH])
        self.assertEqual((document["version"], len(document["entries"])), (1, 1))
        self.assertNotIn(b"hunter22", self.disk.certain()[PATH])

    def test_newest_first_and_bounded(self) -> None:
        """Fifty are kept, and numbers go on after a start."""
        for n in range(MAX_ENTRIES + 7):
            self.add(KEY + f"# {n}\n")
        self.history = self.opened()
        self.add(KEY)
        ids = [entry.id for entry in self.history.entries()]
        self.assertEqual(ids, list(range(MAX_ENTRIES + 8, 8, -1)))

    def test_texts_are_bounded(self) -> None:
        """Beyond a sum of all texts the oldest are dropped; what is known beside them stays."""
        self.patch(config_history, "MAX_TEXT_BYTES", 3000)
        for n in range(10):
            self.add(KEY + f"# {n}" + "é" * 400 + "\n")
        kept = [entry.text is not None for entry in self.history.entries()]
        self.assertEqual(kept, [True] * 3 + [False] * 7)

    def test_before_it_is_open(self) -> None:
        history = self.made()
        self.assertRaises(GatewayError, history.entries)
        self.successResultOf(Deferred.fromCoroutine(history.add(reading(KEY), "file")))
        self.assertEqual(self.disk.contents(), {})

    def test_abandoned(self) -> None:
        """One that is let go of writes nothing more."""
        self.add(KEY)
        before = self.disk.contents()
        self.history.abandon()
        self.add(KEY + "# more\n")
        self.assertEqual(self.disk.contents(), before)
        self.assertRaises(GatewayError, self.history.entries)

    def test_refusing_disk(self) -> None:
        """What cannot be written is counted and told, and the history is as it was."""
        self.add(KEY)
        for call in ("write", "fsync", "replace"):
            self.disk.fail(call, error=errno.ENOSPC)
            with capturedLogs() as logs:
                self.add(KEY + "# lost\n")
            self.assertEqual(len([one for one in logs if one.get("path") == PATH]), 1, call)
            self.assertEqual(len(self.history.entries()), 1)
            self.disk.heal()
        self.assertEqual((self.history.failed_writes, self.crashes), (3, []))

    def test_a_disk_that_is_too_slow(self) -> None:
        """A few configs wait for it; more are counted and told, and are not kept in memory."""
        writer = SynchronousWriter(holding=True)
        self.history._writer = writer
        with capturedLogs() as logs:
            adding = [
                Deferred.fromCoroutine(self.history.add(reading(f"{KEY}# {n}\n"), "file"))
                for n in range(MAX_WAITING + 3)
            ]
        self.assertEqual(len([one for one in logs if one.get("path") == PATH]), 3)
        writer.holding = False
        while writer.run():
            pass
        for added in adding:
            self.successResultOf(added)
        self.assertEqual(len(self.history.entries()), MAX_WAITING)
        self.assertEqual(self.history.failed_writes, 3)
        self.add(KEY)
        self.assertEqual(len(self.history.entries()), MAX_WAITING + 1)

    def test_crash(self) -> None:
        """What it has no answer for is handed up."""
        self.patch(self.disk, "fsync", lambda fd: 1 // 0)
        self.add(KEY)
        self.assertEqual([crash.type for crash in self.crashes], [ZeroDivisionError])

    def test_every_crash(self) -> None:
        """After any crash the file is whole: as it was before, or as it is after."""
        for n in range(3):
            self.add(KEY + f"# {n}\n")
            self.disk.mark(n + 1)
        states = list(self.disk.crash_states(few_bytes))
        for state in states:
            known = state.marks[-1] if state.marks else 0
            assert isinstance(known, int)
            self.use(state.disk())
            self.assertIn(len(self.opened().entries()), (known, known + 1), state.label)
        self.assertGreater(len(states), 30)


class DamageTests(HistoryCase):
    """A file that is not what was written."""

    def refused(self, data: bytes) -> str:
        self.disk.put(PATH, data)
        failure = self.failureResultOf(
            Deferred.fromCoroutine(self.made().open()), ConfigHistoryError
        )
        self.assertEqual(self.disk.contents()[PATH], data)
        return str(failure.value)

    def test_every_cut(self) -> None:
        """A file cut anywhere is refused with its name, and left as it is."""
        self.add(KEY)
        whole = self.disk.contents()[PATH].rstrip()
        for length in range(0, len(whole), 3):
            self.assertIn(PATH, self.refused(whole[:length]))

    def test_read_in_pieces(self) -> None:
        """A file of ours is decoded entry by entry; one that people have formatted is good too."""
        for count in range(3):
            for number in range(count):
                self.add(KEY + f"# \\n  ,]}} {count} {number}\n")
            entries = self.history.entries()
            data = self.disk.contents().get(PATH)
            if data is None:
                continue
            self.assertEqual(config_history._from_pieces(data), list(entries))
            pretty = json.dumps(json.loads(data), indent=2).encode()
            self.assertIsNone(config_history._from_pieces(pretty))
            self.use(MemoryDisk("/state", contents={PATH: pretty}))
            self.assertEqual(self.opened().entries(), entries)
        self.assertEqual(config_history._from_pieces(b"".join(config_history._pieces(()))), [])

    def test_other_files(self) -> None:
        """Another version, another form, entries out of order."""
        self.add(KEY)
        self.add(KEY + "# more\n")
        document: dict[str, Any] = json.loads(self.disk.contents()[PATH])
        self.assertIn("format 2", self.refused(json.dumps(document | {"version": 2}).encode()))
        newer = document | {"version": 2, "entries": [{"id": 1, "new": True}]}
        self.assertIn("format 2", self.refused(json.dumps(newer).encode()))
        swapped = document | {"entries": document["entries"][::-1]}
        self.assertIn("out of order", self.refused(json.dumps(swapped).encode()))
        self.refused(json.dumps(document | {"more": 1}).encode())
        self.refused(b"\xff\xfe")
        self.refused(b"[" * 100_000)
