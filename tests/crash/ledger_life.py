"""A ledger that lives on a disk in memory, and what is true of its sums at any moment.

Event number *n* costs 2**n nano-dollars, so every sum tells which events are in it, and that each
is in it once. All else of an event follows from its number: whose it is, of which model and
upstream, and when it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.events import UsageEvent
from omnigate.ledger.family import Family
from omnigate.ledger.lines import decode_line
from omnigate.ledger.service import IngestResult, Ledger
from omnigate.ledger.upkeep import CHECK_SECONDS
from omnigate.money import Price
from omnigate.periods import DAY_MS, bounds, utc_day
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_ingest import NOW_MS, as_dict

FOLDER = "/state"
FAMILY = Family(f"{FOLDER}/ledger.jsonl")

DAY_SECONDS = DAY_MS / 1000

#: A snapshot's numbers end at 2**63.
MAX_EVENTS = 60

KEYS = tuple(letter * 64 for letter in "abc")
MODELS = ("fast", "slow")
UPSTREAMS = ("openai", "anthropic", "local")

#: How long before an event is sent it was, by number: most are of today, some of days before.
AGES_MS = (5_000, 90_000, 5_000, 15 * 3_600_000, 5_000, DAY_MS, 5_000)

#: Periods and zones whose sums are compared with the events.
PERIODS = (("daily", "UTC"), ("weekly", "Asia/Kolkata"), ("monthly", "Europe/Stockholm"))


def price(event: UsageEvent) -> Price:
    """The price at which the one token of an event costs 2**n nano-dollars."""
    return Price(0, 0, 0, 10**6 * 2 ** int(event.id))


def as_sent(number: int, made_ms: int) -> dict[str, Any]:
    """An event as a data plane sends it, whenever it does."""
    return as_dict(
        str(number),
        input_tokens=0,
        cached_input_tokens=0,
        output_tokens=1,
        key_sha256=KEYS[number % len(KEYS)],
        route_model=MODELS[number % len(MODELS)],
        upstream=UPSTREAMS[number % len(UPSTREAMS)],
        ts_ms=made_ms - AGES_MS[number % len(AGES_MS)],
    )


@attrs.frozen
class Known:
    """What the world outside knows.

    :ivar now: the time, in seconds since 1970.
    :ivar made: when each event was made that was ever sent, in milliseconds, by number.
    :ivar acknowledged: those that were acknowledged, with the time.
    :ivar forgotten: those whose ids somebody took away.
    """

    now: float
    made: Mapping[int, int]
    acknowledged: Mapping[int, float]
    forgotten: Set[int] = frozenset()

    def sendable(self, ids_days: int) -> set[int]:
        """The events that a data plane may send now: none whose id may be forgotten."""
        limit = ids_days * DAY_SECONDS if ids_days else float("inf")
        return {
            n
            for n in self.made
            if self.now - self.acknowledged.get(n, self.now) < limit and n not in self.forgotten
        }


@attrs.frozen
class Options:
    """How long things are kept, in days; 0 for ever."""

    ids_days: int
    ledger_days: int


class Life:
    """A ledger on a disk, restarted and faulted as its steps say.

    :ivar disk: its marks are :class:`Known`.
    """

    def __init__(
        self,
        case: SynchronousTestCase,
        disk: MemoryDisk,
        options: Options,
        known: Known | None = None,
        *,
        full: bool = False,
    ) -> None:
        """Start the ledger.

        :param full: whether nothing fits on the disk at that start.
        """
        self.case = case
        self.disk = disk
        self.options = options
        self.clock = Clock()
        known = known or Known(NOW_MS / 1000, {}, {})
        self.clock.advance(known.now)
        self.made = dict(known.made)
        self.acknowledged = dict(known.acknowledged)
        self.forgotten = known.forgotten
        use(disk)
        self.start(full=full)

    # -- the process --------------------------------------------------------------------------

    def start(self, *, full: bool = False) -> None:
        """Start a process; the one before was killed. The disk is well then, or full."""
        self.disk.kill()
        if full:
            self.fill(0)
        for call in self.clock.getDelayedCalls():
            call.cancel()
        self.ledger = Ledger(
            FAMILY.active,
            self.clock,
            SynchronousWriter(),
            price,
            ids_days=self.options.ids_days,
            ledger_days=self.options.ledger_days,
        )
        self.mark()
        self.case.successResultOf(self.ledger.open())

    def stop(self) -> None:
        """Stop cleanly, and start again."""
        self.case.successResultOf(self.ledger.close())
        self.start()

    def lose_ids(self) -> None:
        """Start on files without those of the ids, as a careless backup has them."""
        self.forgotten = frozenset(self.made)
        self.mark()
        self.disk.kill()
        for path in self.disk.contents():
            if path.startswith(f"{FAMILY.stem}.ids."):
                self.disk.unlink(path)
        self.disk.write_back()
        self.start()

    # -- the world outside --------------------------------------------------------------------

    def mark(self) -> None:
        """Write down what the world outside knows by now."""
        now = self.clock.seconds()
        self.disk.mark(Known(now, dict(self.made), dict(self.acknowledged), self.forgotten))

    def known(self) -> Known:
        """What it knows."""
        return Known(self.clock.seconds(), self.made, self.acknowledged, self.forgotten)

    def send(self, numbers: Iterable[int]) -> IngestResult | None:
        """Send a batch; None where it was refused."""
        now = self.clock.seconds()
        wanted = sorted(numbers)
        for number in wanted:
            self.made.setdefault(number, int(now * 1000))
        self.mark()
        outcome: list[object] = []
        done: Deferred[IngestResult] = self.ledger.record(
            [as_sent(n, self.made[n]) for n in wanted]
        )
        done.addBoth(outcome.append)
        self.case.assertEqual(len(outcome), 1, "a batch without an answer")
        (result,) = outcome
        if not isinstance(result, IngestResult):
            return None
        self.case.assertEqual(result.recorded + result.duplicates, len(wanted))
        for number in wanted:
            self.acknowledged.setdefault(number, now)
        self.mark()
        return result

    def send_new(self, count: int) -> None:
        """Send some events that were never sent."""
        first = len(self.made)
        self.send(range(first, min(first + count, MAX_EVENTS)))

    def resend(self, count: int) -> None:
        """Send the newest events again, as far as their ids are remembered."""
        self.send(sorted(self.known().sendable(self.options.ids_days))[-count:])

    def wait(self, days: float = 0) -> None:
        """Let time pass, and what is due every five minutes be done."""
        self.clock.rightNow += days * DAY_SECONDS
        self.mark()
        self.clock.advance(CHECK_SECONDS)
        self.mark()

    def fault(self, call: str, times: int = 1) -> None:
        """Let a call of the disk fail."""
        self.disk.fail(call, times)

    def fill(self, free_bytes: int) -> None:
        """Let no more than so many bytes fit."""
        self.disk.free_bytes[FOLDER] = free_bytes

    def heal(self) -> None:
        """Let the disk be well again."""
        self.disk.heal()
        self.clock.advance(10)

    def write_back(self) -> None:
        """Let the kernel bring everything to the disk."""
        self.disk.write_back()

    # -- what is true -------------------------------------------------------------------------

    def counted(self) -> set[int]:
        """Which events are counted, each once: every sum there is must say the same."""
        assert_equal, ledger = self.case.assertEqual, self.ledger
        whole = ledger.lifetime(KEYS)
        found = events_in(whole.cost_nano)
        assert_equal(whole.requests, len(found))
        self.case.assertLessEqual(found, set(self.made), "an event that nobody sent")
        for by, of in (
            ("key", lambda n: KEYS[n % len(KEYS)]),
            ("model", lambda n: MODELS[n % len(MODELS)]),
            ("upstream", lambda n: UPSTREAMS[n % len(UPSTREAMS)]),
            ("day", lambda n: utc_day(self.at_ms(n))),
        ):
            sums: dict[str, int] = defaultdict(int)
            for number in found:
                sums[of(number)] += 2**number
            told = {row.name: row.sums.cost_nano for row in ledger.totals(by)}
            assert_equal(told, dict(sums), f"the sums by {by}")
        now_ms = int(self.clock.seconds() * 1000)
        for period, zone in PERIODS:
            start, end = bounds(period, now_ms, zone)
            within = {n for n in found if start <= self.at_ms(n) < end}
            spent = ledger.spend_nano(KEYS, period, now_ms, zone)
            assert_equal(events_in(spent), within, f"the sums of a {period} period in {zone}")
        assert_equal({int(event["id"]) for event in ledger.recent()}, found, "the newest events")
        return found

    def at_ms(self, number: int) -> int:
        """When an event was."""
        return self.made[number] - AGES_MS[number % len(AGES_MS)]

    def lines(self) -> list[int]:
        """The events whose lines stand in the ledger's files, in order."""
        contents = self.disk.contents()
        numbers = FAMILY.found(path.rpartition("/")[2] for path in contents).sealed
        found = []
        for path in [*map(FAMILY.sealed, numbers), FAMILY.active]:
            for line in contents.get(path, b"").split(b"\n")[:-1]:
                event, cost_nano = decode_line(line)
                self.case.assertEqual(cost_nano, 2 ** int(event.id))
                found.append(int(event.id))
        return found


def use(disk: MemoryDisk) -> None:
    """Put a disk in the place of the one before; whoever calls puts the true one back."""
    setattr(files, "os", disk)  # noqa: B010
    setattr(files, "fcntl", disk)  # noqa: B010


def events_in(cost_nano: int) -> set[int]:
    """The numbers of the events that a sum is made of."""
    return {n for n in range(cost_nano.bit_length()) if cost_nano >> n & 1}
