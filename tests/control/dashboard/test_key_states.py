"""The states of gateway keys."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.credential import EarlierSecret
from omnigate.control.dashboard.key_states import (
    BLOCKED,
    DISABLED,
    EXPIRED,
    EXPIRING,
    GRACE,
    NEAR,
    SOFT,
    SOON_MS,
    STATES,
    badness,
    meter,
    states_of,
)
from omnigate.control.gateway_key import MANAGED, GatewayKey
from omnigate.ledger.budgets import Standing, standing

NOW_MS = 1_795_982_400_000


def key_with(**members: Any) -> GatewayKey:
    return GatewayKey(name="k", sha256="a" * 64, source=MANAGED, **members)


def stands(key: GatewayKey, spent: int) -> Standing:
    return standing(key.budget_nano, key.budget_period, spent, NOW_MS, "UTC", key.soft_budget_nano)


class StateTests(SynchronousTestCase):
    """What is said of a key."""

    def states(self, spent: int = 0, **members: Any) -> tuple[str, ...]:
        key = key_with(**members)
        return states_of(key, stands(key, spent), NOW_MS)

    def test_of_a_budget(self) -> None:
        """From four fifths on it is near, and at all of it blocked, never both."""
        for spent, found in ((79, ()), (80, (NEAR,)), (99, (NEAR,)), (100, (BLOCKED,))):
            self.assertEqual(self.states(spent, budget_nano=100), found)
        self.assertEqual(self.states(50, budget_nano=100, soft_budget_nano=50), (SOFT,))
        self.assertEqual(self.states(100, budget_nano=100, soft_budget_nano=50), (BLOCKED, SOFT))
        self.assertEqual(self.states(10**12), ())

    def test_of_an_end(self) -> None:
        """A week before its end it is told, and at its end it has expired."""
        for left_ms, found in ((SOON_MS + 1, ()), (SOON_MS, (EXPIRING,)), (0, (EXPIRED,))):
            self.assertEqual(self.states(expires_ms=NOW_MS + left_ms), found)

    def test_of_switch_and_secrets(self) -> None:
        """Only a secret that still works is told of."""
        self.assertEqual(self.states(disabled=True), (DISABLED,))
        for until_ms, found in ((NOW_MS, ()), (NOW_MS + 1, (GRACE,))):
            earlier = (EarlierSecret("b" * 64, until_ms),)
            self.assertEqual(self.states(earlier=earlier), found)

    def test_without_a_ledger(self) -> None:
        """What was spent is not known, and all else is."""
        key = key_with(budget_nano=1, disabled=True)
        self.assertEqual(states_of(key, None, NOW_MS), (DISABLED,))
        self.assertIsNone(meter(key, None, ()))

    @given(
        st.integers(0, 200),
        st.none() | st.integers(1, 100),
        st.none() | st.integers(1, 100),
        st.sampled_from((0, 1, NOW_MS, NOW_MS + 5, NOW_MS + 2 * SOON_MS)),
        st.booleans(),
    )
    def test_the_worst_is_first(
        self, spent: int, budget: int | None, soft: int | None, expires_ms: int, disabled: bool
    ) -> None:
        """The order of a key's states is that of the table, and the first decides how bad it is."""
        found = self.states(
            spent,
            budget_nano=budget,
            soft_budget_nano=soft,
            expires_ms=expires_ms,
            disabled=disabled,
        )
        self.assertEqual(list(found), [state for state in STATES if state in found])
        self.assertEqual(badness(found) < len(STATES), bool(found))


class MeterTests(SynchronousTestCase):
    """Bars."""

    def test_of_a_budget_and_a_soft_one(self) -> None:
        """The soft budget is a mark on the way to the budget."""
        key = key_with(budget_nano=200, soft_budget_nano=50)
        found = meter(key, stands(key, 100), (SOFT,))
        assert found is not None
        self.assertEqual((found.share, found.soft_share, found.kind), (0.5, 0.25, "warn"))

    def test_of_a_soft_budget_alone(self) -> None:
        """It is the end of the bar, which may be passed."""
        key = key_with(soft_budget_nano=50)
        found = meter(key, stands(key, 100), (SOFT,))
        assert found is not None
        self.assertEqual((found.limit_nano, found.share, found.soft_share), (50, 2.0, None))

    def test_without_a_budget(self) -> None:
        self.assertIsNone(meter(key_with(), stands(key_with(), 5), ()))
