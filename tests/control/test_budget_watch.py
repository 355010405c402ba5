"""Who is blocked, who is told of, and what is looked at to know it."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import KeyConfig
from omnigate.control import budget_watch
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.events import UsageEvent, decode_event
from omnigate.ledger.budgets import blocked
from omnigate.ledger.service import LedgerNotReady
from omnigate.periods import PERIODS, bounds
from omnigate.testing.writer import SynchronousWriter

STOCKHOLM = "Europe/Stockholm"
NANO = 10**9


def at(text: str, zone: str = "UTC") -> float:
    """The instant of a date and a time of a place, in seconds."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


class Spent:
    """A ledger of single amounts, each with its instant; what it was asked is counted."""

    def __init__(self) -> None:
        self.ready = True
        self.asked = 0
        self.amounts: list[tuple[str, int, int]] = []

    def spend_nano(
        self, key_hashes: Iterable[str], period: str, now_ms: int, zone: str = "UTC"
    ) -> int:
        if not self.ready:
            raise LedgerNotReady
        self.asked += 1
        start_ms, end_ms = bounds(period, now_ms, zone)
        hashes = set(key_hashes)
        return sum(
            nano
            for key, ts_ms, nano in self.amounts
            if key in hashes and start_ms <= ts_ms < end_ms
        )


def usage(sha256: str, ts_ms: int) -> UsageEvent:
    """The event of a request."""
    event: dict[str, Any] = {
        "id": "1",
        "key_sha256": sha256,
        "route_model": "fast",
        "upstream": None,
        "target_model": None,
        "status": 200,
        "stream": False,
        "input_tokens": 0,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "output_tokens": 0,
        "cached": False,
        "estimated": False,
        "latency_ms": 1,
        "attempts": [],
        "ts_ms": ts_ms,
        "endpoint": "chat",
    }
    return decode_event(event)


class WatchCase(SynchronousTestCase):
    """A watch over file keys, whose names are their hashes cut short."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(at("2026-11-29 20:00"))
        self.begin()

    def begin(self) -> None:
        """A watch that knows nothing yet."""
        self.pauses = 0
        self.ledger = Spent()
        self.book = KeyBook(KeyStore("unused", SynchronousWriter(), lambda: 0))
        self.watch = BudgetWatch(self.book, self.ledger, self.now_ms)

    async def pause(self) -> None:
        self.pauses += 1

    def now_ms(self) -> int:
        return int(self.clock.seconds() * 1000)

    def keys(self, **budgets: dict[str, Any]) -> None:
        """Install file keys with these settings."""
        self.book.install(
            ResolvedKey(sha(name), KeyConfig(name=name, key_sha256=sha(name), **settings))
            for name, settings in budgets.items()
        )

    def spend(self, name: str, usd: float, ts_ms: int | None = None) -> None:
        """Have an event of a key recorded."""
        event = usage(sha(name), self.now_ms() if ts_ms is None else ts_ms)
        nano = round(usd * NANO)
        self.ledger.amounts.append((sha(name), event.ts_ms, nano))
        self.watch.touch(event, nano)

    def settle(self) -> None:
        """Look at what there is to look at."""
        self.successResultOf(Deferred.fromCoroutine(self.watch.settle(self.pause)))

    def asked(self) -> int:
        """What the ledger was asked since the last time."""
        asked, self.ledger.asked = self.ledger.asked, 0
        return asked

    def blocked(self) -> list[str]:
        """The names of the blocked keys, as a poll would find them."""
        if self.watch.pending:
            self.settle()
        return names(self.watch.blocked)


def sha(name: str) -> str:
    """The hash of the key of that name."""
    return name.encode().hex().ljust(64, "0")


def names(hashes: Iterable[str]) -> list[str]:
    """The names of keys."""
    return sorted(bytes.fromhex(digest).rstrip(b"\0").decode() for digest in hashes)


class BlockTests(WatchCase):
    """The blocked flag."""

    def test_blocked_by_what_was_recorded(self) -> None:
        """At the budget, not below it; what is no key with a budget is passed over."""
        self.keys(a={"budget_usd": 1}, b={"budget_usd": 1}, free={})
        self.assertEqual(self.blocked(), [])
        self.spend("a", 0.999999999)
        self.spend("free", 10)
        self.spend("unknown", 10)
        self.assertEqual(self.blocked(), [])
        self.spend("a", 0.000000001)
        self.assertEqual(self.blocked(), ["a"])

    def test_only_what_changed_is_looked_at(self) -> None:
        """One question for each key that an event came for, and none where nothing happened."""
        self.keys(**{f"k{n}": {"budget_usd": 1, "budget_period": "daily"} for n in range(50)})
        self.settle()
        self.assertEqual(self.asked(), 50)
        self.assertFalse(self.watch.pending)
        revision = self.watch.revision
        for _ in range(3):
            self.spend("k7", 0.1)
        self.spend("k8", 0)
        self.watch.look()
        self.assertEqual((self.asked(), self.watch.revision), (1, revision))
        self.clock.advance(3600)
        self.assertFalse(self.watch.pending)
        self.spend("k7", 1)
        self.watch.look()
        self.assertEqual((self.asked(), self.watch.revision), (1, revision + 1))
        self.assertEqual(self.blocked(), ["k7"])

    def test_a_changed_key_is_looked_at(self) -> None:
        """Other keys of a config that is installed again are not."""
        self.keys(a={"budget_usd": 1}, b={"budget_usd": 1})
        self.spend("a", 2)
        self.assertEqual(self.blocked(), ["a"])
        self.asked()
        self.keys(a={"budget_usd": 3}, b={"budget_usd": 1}, c={"budget_usd": 1})
        self.assertEqual(self.blocked(), [])
        self.assertEqual(self.asked(), 2)
        self.keys(a={"budget_usd": 3, "rpm": 7}, b={"budget_usd": 1}, c={"budget_usd": 1})
        self.assertEqual((self.blocked(), self.asked()), ([], 0))
        self.assertEqual([key.rpm for key in self.watch.keys], [7, 0, 0])
        self.keys(a={"budget_usd": 2}, c={})
        self.assertEqual(self.blocked(), ["a"])
        self.keys(a={})
        self.assertEqual(self.blocked(), [])

    def test_an_event_during_the_look_at_all(self) -> None:
        """A key that was compared already is compared again for an event that came since."""
        self.patch(budget_watch, "MAX_KEYS_AT_ONCE", 1)
        self.keys(a={"budget_usd": 1}, b={"budget_usd": 1})
        waiting: list[Deferred[None]] = []

        def pause() -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        settled = Deferred.fromCoroutine(self.watch.settle(pause))
        self.spend("a", 1)
        self.watch.look()
        self.spend("b", 1)
        while waiting:
            waiting.pop().callback(None)
        self.successResultOf(settled)
        self.assertEqual(names(self.watch.blocked), ["a", "b"])

    def test_many_keys_in_slices(self) -> None:
        """Neither all keys nor all that were touched hold the reactor."""
        self.patch(budget_watch, "MAX_KEYS_AT_ONCE", 10)
        self.keys(**{f"k{n}": {"budget_usd": 1} for n in range(35)})
        self.settle()
        self.assertEqual((self.pauses, self.asked()), (3, 35))
        for n in range(35):
            self.spend(f"k{n}", 1)
        self.watch.look()
        self.assertEqual((self.asked(), len(self.watch.blocked)), (10, 10))
        self.assertEqual(len(self.blocked()), 35)
        self.assertEqual(self.pauses, 5)

    def test_not_before_the_ledger_is_loaded(self) -> None:
        """Nothing is known, and a broken look is made again."""
        self.keys(a={"budget_usd": 1})
        self.ledger.ready = False
        settled = Deferred.fromCoroutine(self.watch.settle(self.pause))
        self.failureResultOf(settled, LedgerNotReady)
        self.assertTrue(self.watch.pending)
        self.ledger.ready = True
        self.spend("a", 1)
        self.assertEqual(self.blocked(), ["a"])


class TurnTests(WatchCase):
    """A block lapses when its period turns, with nothing but the clock."""

    def check_turn(self, start: float, turn: float, **budget: str) -> None:
        """Spend at a time; blocked up to a moment before the turn, and free at it."""
        self.clock = Clock()
        self.clock.advance(start)
        self.begin()
        self.keys(a={"budget_usd": 1, **budget}, b={"budget_usd": 1})
        self.spend("a", 1)
        self.spend("b", 1)
        self.assertEqual(self.blocked(), ["a", "b"])
        revision = self.watch.revision
        self.clock.advance(turn - 0.001 - start)
        self.assertFalse(self.watch.pending)
        self.assertEqual(self.blocked(), ["a", "b"])
        self.clock.advance(turn - self.clock.seconds())
        self.assertTrue(self.watch.pending)
        self.assertEqual(self.blocked(), ["b"])
        self.assertEqual(self.watch.revision, revision + 1)
        self.spend("a", 1)
        self.assertEqual(self.blocked(), ["a", "b"])

    def test_utc(self) -> None:
        """Midnight, Monday, the first of the month."""
        start = at("2026-11-27 20:00")
        for period, turn in (
            ("daily", at("2026-11-28 00:00")),
            ("weekly", at("2026-11-30 00:00")),
            ("monthly", at("2026-12-01 00:00")),
        ):
            self.check_turn(start, turn, budget_period=period)

    def test_over_summer_time(self) -> None:
        """A day of 23 hours and one of 25, and the week and the month they are in."""
        for day, hours in (("2026-03-29", 23), ("2026-10-25", 25)):
            start = at(f"{day} 00:00", STOCKHOLM)
            next_day = (datetime.date.fromisoformat(day) + datetime.timedelta(days=1)).isoformat()
            month = "2026-04-01" if hours == 23 else "2026-11-01"
            turn = at(f"{next_day} 00:00", STOCKHOLM)
            self.assertEqual(turn - start, hours * 3600)
            for period, end in (
                ("daily", turn),
                ("weekly", turn),
                ("monthly", at(f"{month} 00:00", STOCKHOLM)),
            ):
                self.check_turn(start, end, budget_period=period, budget_timezone=STOCKHOLM)

    def test_each_zone_by_its_own_midnight(self) -> None:
        """Around the world, one after another."""
        zones = {"fiji": "Pacific/Fiji", "sthlm": STOCKHOLM, "utc": "UTC", "ny": "America/New_York"}
        self.keys(
            **{
                name: {"budget_usd": 1, "budget_period": "daily", "budget_timezone": zone}
                for name, zone in zones.items()
            }
        )
        left = sorted(zones)
        for name in zones:
            self.spend(name, 1)
        self.assertEqual(self.blocked(), left)
        # In Fiji it is the morning of the 30th already, whose midnight is the last to come.
        for name, turn in (("sthlm", -1), ("utc", 0), ("ny", 5), ("fiji", 12)):
            self.clock.advance(at("2026-11-30 00:00") + turn * 3600 - self.clock.seconds())
            left.remove(name)
            self.assertEqual(self.blocked(), left)

    def test_a_clock_that_is_set_back(self) -> None:
        """By its time the period before is the current one again."""
        self.keys(a={"budget_usd": 1, "budget_period": "daily"})
        self.spend("a", 1)
        self.clock.advance(5 * 3600)
        self.assertEqual(self.blocked(), [])
        self.clock.rightNow -= 5 * 3600
        self.assertEqual(self.blocked(), ["a"])


class SoftTests(WatchCase):
    """What is only told."""

    def told(self) -> list[str]:
        """Look; the keys that the log tells of."""
        with capturedLogs() as logged:
            self.blocked()
        return [event["key"] for event in logged]

    def test_told_once_a_period(self) -> None:
        """The crossing is one line and one more in the count; the next period tells anew."""
        self.keys(a={"soft_budget_usd": 1, "budget_usd": 5, "budget_period": "daily"})
        self.settle()
        self.spend("a", 0.5)
        self.assertEqual(self.told(), [])
        self.spend("a", 0.5)
        with capturedLogs() as logged:
            self.assertEqual(self.blocked(), [])
        [event] = logged
        self.assertEqual(
            {name: event[name] for name in ("key", "spent", "budget", "period", "zone")},
            {"key": "a", "spent": "1", "budget": "1", "period": "daily", "zone": ", UTC"},
        )
        self.assertEqual((self.watch.exceeded, names(self.watch.over_soft)), (1, ["a"]))
        self.spend("a", 1)
        self.assertEqual((self.told(), self.watch.exceeded), ([], 1))
        self.clock.advance(4 * 3600)
        self.assertEqual((self.told(), names(self.watch.over_soft)), ([], []))
        self.spend("a", 2)
        self.assertEqual((self.told(), self.watch.exceeded), (["a"], 2))

    def test_not_told_again_after_a_start(self) -> None:
        """What was over when the ledger was loaded is counted as over, and not told."""
        self.keys(a={"soft_budget_usd": 1}, b={"soft_budget_usd": 1})
        self.ledger.amounts.append((sha("a"), 0, NANO))
        self.assertEqual((self.told(), names(self.watch.over_soft)), ([], ["a"]))
        self.spend("a", 1)
        self.assertEqual((self.told(), self.watch.exceeded), ([], 0))

    def test_crossed_before_the_first_look(self) -> None:
        """An event between the loading and the first look is no part of what was loaded."""
        self.keys(a={"soft_budget_usd": 1}, b={"soft_budget_usd": 1})
        self.ledger.amounts.append((sha("a"), 0, NANO // 2))
        self.ledger.amounts.append((sha("b"), 0, NANO))
        self.spend("a", 0.5)
        self.spend("b", 0.5)
        self.assertEqual(self.told(), ["a"])

    def test_another_amount(self) -> None:
        """A soft budget that is changed is another one; the one before is not told twice."""
        self.keys(a={"soft_budget_usd": 1})
        self.settle()
        self.spend("a", 1)
        self.assertEqual(self.told(), ["a"])
        self.keys(a={"soft_budget_usd": 1, "rpm": 7})
        self.assertEqual(self.told(), [])
        self.keys(a={"soft_budget_usd": 2})
        self.assertEqual((self.told(), names(self.watch.over_soft)), ([], []))
        self.spend("a", 1)
        self.assertEqual(self.told(), ["a"])

    def test_back_and_forth(self) -> None:
        """Amount, period and zone that were there before, and none in between, are no news."""
        one = {"soft_budget_usd": 1, "budget_period": "daily"}
        others: list[dict[str, Any]] = [
            {},
            {"budget_usd": 9},
            {**one, "soft_budget_usd": 2},
            {**one, "budget_period": "monthly"},
            {**one, "budget_timezone": STOCKHOLM},
        ]
        self.keys(a=one)
        self.settle()
        self.spend("a", 2)
        self.assertEqual(self.told(), ["a"])
        for other, news in zip(others, ([], [], ["a"], ["a"], ["a"]), strict=True):
            for again in (news, []):
                self.keys(a=other)
                self.assertEqual(self.told(), again, other)
                self.keys(a=one)
                self.assertEqual(self.told(), [], other)

    def test_a_clock_to_and_fro(self) -> None:
        """A period that comes once more is told once."""
        self.keys(a={"soft_budget_usd": 1, "budget_period": "daily"})
        self.settle()
        self.spend("a", 1)
        self.assertEqual(self.told(), ["a"])
        self.clock.advance(5 * 3600)
        self.spend("a", 1)
        self.assertEqual(self.told(), ["a"])
        for hours in (-5, 5):
            self.clock.rightNow += hours * 3600
            self.assertEqual(self.told(), [])

    def test_what_is_remembered_is_bounded(self) -> None:
        """Of one key so many crossings, and nothing of one that is gone."""
        for amount in range(1, 50):
            self.keys(a={"soft_budget_usd": amount}, b={})
            self.settle()
            self.spend("a", 1)
            self.assertEqual(self.told(), ["a"])
        self.keys(a={"soft_budget_usd": 49}, b={})
        self.assertEqual(self.told(), [])
        self.keys(b={})
        self.settle()
        self.keys(a={"soft_budget_usd": 49}, b={})
        self.assertEqual(self.told(), ["a"])


class AnyHistoryTests(WatchCase):
    """Whatever happens, the watch says what a look at every key would."""

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 2**32))
    def test_as_if_all_were_looked_at(self, seed: int) -> None:
        """Events of any time, keys that change, and a clock that goes on or jumps."""
        rng = random.Random(seed)
        self.clock = Clock()
        self.clock.advance(at("2026-03-27 12:00"))
        self.begin()
        self.ledger.ready = True
        all_names = [f"k{n}" for n in range(6)]

        def key() -> dict[str, Any]:
            if rng.random() < 0.2:
                return {}
            budgets: dict[str, Any] = {"budget_usd": rng.choice([1, 2, 3])}
            if rng.random() < 0.5:
                budgets["soft_budget_usd"] = 1
            budgets["budget_period"] = rng.choice(PERIODS)
            budgets["budget_timezone"] = rng.choice(["UTC", STOCKHOLM, "Pacific/Apia"])
            return budgets

        config = {name: key() for name in all_names}
        self.keys(**config)
        for _ in range(60):
            kind = rng.random()
            if kind < 0.5:
                ago = rng.choice([0, 0, 0, 3600, 86_400, 40 * 86_400])
                self.spend(
                    rng.choice(all_names), rng.choice([0, 0.5, 1]), self.now_ms() - ago * 1000
                )
            elif kind < 0.6:
                config[rng.choice(all_names)] = key()
                self.keys(**config)
            elif kind < 0.65:
                self.clock.rightNow -= rng.choice([1, 7200])
            else:
                self.clock.advance(rng.choice([0.1, 600, 3600, 7200, 86_400, 7 * 86_400]))
            if rng.random() < 0.5:
                self.watch.look()
            if rng.random() < 0.5:
                self.assertEqual(self.blocked(), self.truth())

    def truth(self) -> list[str]:
        """The blocked keys, every one of them compared."""
        return sorted(key.name for key in self.book if self.is_blocked(key))

    def is_blocked(self, key: GatewayKey) -> bool:
        spent = self.ledger.spend_nano(
            key.hashes, key.budget_period, self.now_ms(), key.budget_timezone
        )
        return blocked(key.budget_nano, key.budget_period, spent)
