"""What a request cost, worked out."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import (
    Config,
    PriceConfig,
    RouteConfig,
    TargetConfig,
    UpstreamConfig,
)
from omnigate.control.dashboard.price_lines import Reckoning, at_price, price_lines, reckon
from omnigate.events import TokenCounts
from omnigate.money import NANO_PER_USD, Price, cost_nano, parse_usd

PRICES = st.builds(
    Price,
    input=st.integers(0, 10**12),
    cached_input=st.integers(0, 10**12),
    cache_write=st.integers(0, 10**12),
    output=st.integers(0, 10**12),
    above=st.none() | st.tuples(st.integers(0, 2000), st.just(Price(7, 5, 3, 2))),
)
COUNTS = st.builds(TokenCounts, *(st.integers(0, 10**7) for _ in range(4)))


def config(price: PriceConfig | None, model: str = "m") -> Config:
    return Config(
        upstreams=(UpstreamConfig("up", "openai", "https://up.test/v1"),),
        routes=(RouteConfig("fast", (TargetConfig("up", model, price=price),)),),
    )


class PriceLineTests(SynchronousTestCase):
    """Lines and their sum."""

    @given(COUNTS, PRICES)
    def test_the_lines_come_to_the_cost(self, counts: TokenCounts, price: Price) -> None:
        """Exact amounts, rounded once, are what the ledger counts."""
        lines = price_lines(counts, at_price(counts, price))
        for line in lines:
            self.assertEqual(
                Decimal(line.amount), Decimal(line.count) * Decimal(line.price) / 1_000_000
            )
        whole = sum(Decimal(line.amount) for line in lines) * NANO_PER_USD
        self.assertEqual(int(whole + Decimal("0.5")), cost_nano(counts, price))

    def reckoned(
        self, config: Config, nano: int, upstream: str | None = "up", model: str = "m"
    ) -> Reckoning:
        return reckon(
            config,
            route="fast",
            upstream=upstream,
            model=model,
            cached=False,
            counts=TokenCounts(1000, 0, 0, 10),
            recorded_nano=nano,
        )

    def test_where_the_price_is_from(self) -> None:
        own = config(PriceConfig(input=Decimal(1), output=Decimal(2)))
        found = self.reckoned(own, 1_020_000)
        self.assertEqual((found.total, found.recorded, found.is_other), ("0.00102",) * 2 + (False,))
        self.assertIn("config in force", found.source)
        listed = config(None, "gpt-4o-mini")
        found = self.reckoned(listed, 0, model="gpt-4o-mini")
        self.assertIn("built-in price table of 20", found.source)
        self.assertTrue(found.is_other)
        # What had no price then has not changed since.
        self.assertIn("recorded at $0", found.remark)
        self.assertIn("has changed since", self.reckoned(own, 1).remark)

    def test_no_price(self) -> None:
        """A cost that was recorded is not explained by nothing."""
        for recorded, is_other in ((0, False), (parse_usd("0.5"), True)):
            found = self.reckoned(config(None), recorded)
            self.assertEqual((found.lines, found.is_other), ((), is_other))
        self.assertIn("give the target a price", self.reckoned(config(None), 0).remark)

    def test_nobody_answered(self) -> None:
        self.assertIn("nothing was spent", self.reckoned(config(None), 0, None).remark)
        self.assertTrue(self.reckoned(config(None), 5, None).is_other)
