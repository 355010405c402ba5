"""Tests for the price of a target."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.prices import BUILT_IN_PRICES, PRICES_DATE, built_in_price, price_for
from omnigate.config.schema import load_config
from omnigate.events import TokenCounts
from omnigate.money import cost_nano, price_from_usd

CONFIG = load_config(
    """
    [[upstreams]]
    name = "openai"
    protocol = "openai"
    base_url = "https://api.openai.com/v1"
    [[routes]]
    model = "fast"
    targets = [
        { upstream = "openai", model = "gpt-4o-mini" },
        { upstream = "openai", model = "own", price = { input = 1, output = 2.5 } },
        { upstream = "openai", model = "gpt-4.1", price = { input = 0, output = 0 } },
        { upstream = "openai", model = "nobody-knows" },
    ]
    """
)


class BuiltInTests(SynchronousTestCase):
    """The table that ships."""

    def test_its_date(self) -> None:
        self.assertRegex(PRICES_DATE, r"\A20\d\d-\d\d-\d\d\Z")

    def test_a_row(self) -> None:
        self.assertEqual(built_in_price("gpt-4o-mini"), price_from_usd("0.15", "0.075", output=0.6))
        self.assertEqual(
            built_in_price("claude-haiku-4-5"), price_from_usd(1, "0.10", "1.25", output=5)
        )

    def test_above_the_threshold_the_whole_request_costs_more(self) -> None:
        price = built_in_price("gpt-6.2-sol")
        assert price is not None
        at = TokenCounts(input_tokens=272_000, output_tokens=1_000)
        beyond = TokenCounts(input_tokens=271_000, cached_input_tokens=1_001, output_tokens=1_000)
        self.assertEqual(cost_nano(at, price), 272 * 2_000_000 + 10_000_000)
        self.assertEqual(cost_nano(beyond, price), 271 * 4_000_000 + 200_200 + 15_000_000)

    def test_grok_turns_dearer_at_its_threshold(self) -> None:
        price = built_in_price("grok-4.7")
        assert price is not None
        self.assertEqual(cost_nano(TokenCounts(input_tokens=199_999), price), 399_998_000)
        self.assertEqual(cost_nano(TokenCounts(input_tokens=200_000), price), 800_000_000)

    def test_dated_and_prefixed_ids_fall_back_to_the_base(self) -> None:
        base = built_in_price("gpt-4o-mini")
        for model_id in (
            "gpt-4o-mini-2024-07-18",
            "gpt-4o-mini-20240718",
            "openai/gpt-4o-mini",
            "openai/gpt-4o-mini-2024-07-18",
        ):
            self.assertEqual(built_in_price(model_id), base)
        self.assertIsNotNone(built_in_price("claude-sonnet-4-5@20250929"))
        self.assertIsNotNone(built_in_price("models/gemini-4-neon"))
        self.assertIsNotNone(built_in_price("mistral-small-latest"))

    def test_nothing_else_is_guessed(self) -> None:
        for model_id in (
            "",
            "gpt-4o-mini-audio-preview",
            "gpt-4o-mini-2024",
            "my-gpt-4o-mini",
            "ft:gpt-4o-mini:org::x",
            "other/gpt-4o-mini",
            "openai/",
        ):
            self.assertIsNone(built_in_price(model_id))

    def test_every_row_is_plausible(self) -> None:
        """A cached token is never dearer than a plain one, nor the lower step than the higher."""
        for model_id, price in BUILT_IN_PRICES.items():
            self.assertLessEqual(price.cached_input, price.input, model_id)
            if price.above is not None:
                tokens, higher = price.above
                self.assertGreater(tokens, 50_000, model_id)
                for part in ("input", "cached_input", "cache_write", "output"):
                    self.assertGreater(getattr(higher, part), getattr(price, part), model_id)


class PriceForTests(SynchronousTestCase):
    """The operator's price, else the table's, else none."""

    def test_the_target_decides(self) -> None:
        self.assertEqual(
            price_for(CONFIG, "fast", "openai", "own"), price_from_usd(1, output="2.5")
        )
        self.assertEqual(
            price_for(CONFIG, "fast", "openai", "gpt-4.1"), price_from_usd(0, output=0)
        )

    def test_without_a_price_of_its_own_the_table_is_asked(self) -> None:
        self.assertEqual(
            price_for(CONFIG, "fast", "openai", "gpt-4o-mini"), built_in_price("gpt-4o-mini")
        )
        self.assertIsNone(price_for(CONFIG, "fast", "openai", "nobody-knows"))

    def test_what_the_config_does_not_have_has_no_price(self) -> None:
        self.assertIsNone(price_for(CONFIG, "gone", "openai", "gpt-4o-mini"))
        self.assertIsNone(price_for(CONFIG, "fast", "gone", "gpt-4o-mini"))
        self.assertIsNone(price_for(CONFIG, "fast", "openai", "gpt-5.5"))
