"""A ledger on a disk in memory, for the tests of its parts."""

import errno
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.events import UsageEvent
from omnigate.ledger.family import Family
from omnigate.ledger.lines import encode_line
from omnigate.ledger.service import IngestResult, Ledger
from omnigate.money import Price
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_ingest import MINI, NOW_MS, as_dict
from tests.ledger.test_lines import RECEIVED
from tests.usage import usage_event

#: What one event of these tests costs.
COST = 900 * 150 + 100 * 75 + 250 * 600

KEY = "ab" * 32

FOLDER = "/state"


def price(event: UsageEvent) -> Price | None:
    """Tell the price of the one model that has one."""
    return MINI if event.target_model == "gpt-4o-mini" else None


def line(name: str, received_at: str = RECEIVED) -> bytes:
    """One line of a ledger."""
    return encode_line(usage_event(name), COST, received_at)


class LedgerCase(SynchronousTestCase):
    """A ledger with a writer that works on the spot, or when it is told to."""

    def setUp(self) -> None:
        self.family = Family(f"{FOLDER}/ledger.jsonl")
        self.path = self.family.active
        self.use(MemoryDisk(FOLDER, recording=False))
        self.clock = Clock()
        self.clock.advance(NOW_MS / 1000)
        self.writer = SynchronousWriter()
        self.ledger = self.opened()

    def use(self, disk: MemoryDisk) -> None:
        """Go on with this disk."""
        self.disk = disk
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)

    def made(self, **options: Any) -> Ledger:
        """The ledger of a new process; the one before was killed, with its timers."""
        self.disk.kill()
        for call in self.clock.getDelayedCalls():
            call.cancel()
        options = {"writer": self.writer, "price": price, **options}
        return Ledger(self.path, self.clock, **options)

    def opened(self, **options: Any) -> Ledger:
        """The same, loaded."""
        ledger = self.made(**options)
        self.successResultOf(ledger.open())
        return ledger

    def stopped(self, ledger: Ledger | None = None) -> None:
        """Stop a ledger cleanly."""
        self.successResultOf((ledger or self.ledger).close())

    def recorded(self, *ids: str) -> IngestResult:
        """Record events, which must succeed."""
        return self.successResultOf(self.ledger.record([as_dict(name) for name in ids]))

    def spent(self, ledger: Ledger | None = None) -> int:
        """What was spent in all, in nano-dollars."""
        return (ledger or self.ledger).spend_nano([KEY], "total", NOW_MS)

    def content(self, path: str = "") -> bytes:
        """What a file holds; the active segment, if none is named."""
        return self.disk.contents()[path or self.path]

    def names(self) -> list[str]:
        """The names of the files that there are."""
        return sorted(path.removeprefix(FOLDER + "/") for path in self.disk.contents())

    def write(self, content: bytes) -> None:
        """Let a killed ledger have left just this, and no snapshot."""
        self.disk.kill()
        for path in self.disk.contents():
            self.disk.unlink(path)
        self.disk.put(self.path, content)

    def fill(self, free_bytes: int = 0) -> None:
        """Let no more than so many bytes fit."""
        self.disk.free_bytes[FOLDER] = free_bytes

    def failing(self, call: str, times: int = 1, error: int = errno.EIO) -> None:
        """Let a call of the disk fail so many times."""
        self.disk.fail(call, times, error)
