"""How full the budgets of keys are."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.budget_watch import MAX_KEYS_AT_ONCE, BudgetWatch
from omnigate.control.dashboard.budget_shares import Budgets, budgets_of
from omnigate.control.gateway_key import MANAGED, GatewayKey
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.testing.writer import SynchronousWriter

NOW = 1_000_000


class Spent:
    """A ledger in which a key spent as much as the number in its hash."""

    ready = True

    def spend_nano(self, hashes: tuple[str, ...], period: str, now: int, zone: str = "") -> int:
        return int(hashes[0])


def key(number: int, budget: int | None = 100, *, disabled: bool = False) -> GatewayKey:
    return GatewayKey(
        f"k{number}",
        sha256=f"{number:064}",
        source=MANAGED,
        budget_nano=budget,
        disabled=disabled,
    )


class BudgetTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pauses = 0
        store = KeyStore(self.mktemp(), SynchronousWriter(), lambda: 0)
        self.watch = BudgetWatch(KeyBook(store), Spent(), lambda: 0)  # type: ignore[arg-type]

    async def pause(self) -> None:
        self.pauses += 1

    def of(self, *keys: GatewayKey, most: int = 3) -> Budgets:
        return self.successResultOf(
            Deferred.fromCoroutine(budgets_of(keys, self.watch, most, self.pause, NOW))
        )

    def test_the_fullest(self) -> None:
        found = self.of(*(key(number) for number in (10, 80, 79, 100, 120, 0)))
        self.assertEqual(["k120", "k100", "k80"], [budget.name for budget in found.fullest])
        self.assertEqual(["k80", "k79", "k10"], [budget.name for budget in found.nearest])
        self.assertEqual((6, 2, 1), (found.total, found.blocked, found.near))

    def test_who_does_not_count(self) -> None:
        """Keys without a budget, and those that are disabled or have expired."""
        expired = attrs.evolve(key(500), expires_ms=NOW)
        found = self.of(key(500, None), key(500, disabled=True), expired)
        self.assertEqual(Budgets([], [], 0, 0, 0), found)
        self.assertEqual(1, self.of(attrs.evolve(expired, expires_ms=NOW + 1)).blocked)

    def test_a_budget_of_nothing(self) -> None:
        (budget,) = self.of(key(0, 0)).fullest
        self.assertEqual((1.0, True), (budget.share, budget.is_blocked))

    def test_gives_way(self) -> None:
        found = self.of(*(key(number) for number in range(2 * MAX_KEYS_AT_ONCE + 1)))
        self.assertEqual(2, self.pauses)
        self.assertEqual(2 * MAX_KEYS_AT_ONCE + 1, found.total)
