"""Whole nano-dollars: amounts, prices and costs."""

import json
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import MAX_COUNT, TokenCounts
from omnigate.money import (
    MAX_USD,
    NANO_PER_USD,
    InvalidMoney,
    Price,
    cost_nano,
    parse_usd,
    price_from_usd,
    usd,
)

token_counts = st.integers(0, MAX_COUNT)
prices = st.integers(0, 10**15)


class UsdTests(SynchronousTestCase):
    def test_amounts_are_written_exactly(self) -> None:
        """Nine places at most, no exponent, no zeros at the end."""
        cases = {
            0: "0",
            1: "0.000000001",
            12_345: "0.000012345",
            1_500_000_000: "1.5",
            NANO_PER_USD: "1",
            10 * NANO_PER_USD: "10",
            -500_000_000: "-0.5",
        }
        for nano, text in cases.items():
            self.assertEqual(usd(nano), text)

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, MAX_USD * NANO_PER_USD))
    def test_what_is_written_reads_back(self, nano: int) -> None:
        """An amount survives writing and reading, and is a JSON number."""
        text = usd(nano)
        self.assertEqual(parse_usd(text), nano)
        self.assertEqual(parse_usd(json.loads(text, parse_float=Decimal)), nano)


class ParseTests(SynchronousTestCase):
    def test_amounts_of_every_type(self) -> None:
        """Text, whole numbers, floats as written and decimals are read exactly."""
        cases: list[tuple[Any, int]] = [
            ("0", 0),
            ("50", 50 * NANO_PER_USD),
            (50, 50 * NANO_PER_USD),
            (0.1, 100_000_000),
            (0.075, 75_000_000),
            (1e-9, 1),
            (Decimal("1.000000001"), NANO_PER_USD + 1),
            ("1e3", 1000 * NANO_PER_USD),
            ("1.50000000000", 1_500_000_000),
            (".5", 500_000_000),
            (-0.0, 0),
        ]
        for value, nano in cases:
            self.assertEqual(parse_usd(value), nano, value)

    def test_what_is_no_amount_is_refused(self) -> None:
        """Signs, words, NaN, infinities, booleans and hidden digits are refused."""
        bad: list[Any] = [
            "",
            "abc",
            "1_000",
            "١",
            "$5",
            "1,5",
            "nan",
            float("nan"),
            float("inf"),
            Decimal("NaN"),
            Decimal("Infinity"),
            -1,
            "-0.01",
            True,
            "1e999",
            "1e13",
            10**13,
            "0.0000000001",
            "9" * 50,
            None,
        ]
        for value in bad:
            self.assertRaises(InvalidMoney, parse_usd, value)


class PriceTests(SynchronousTestCase):
    def test_figures_become_nano_dollars_per_million(self) -> None:
        """0.075 dollars a million tokens are 75 million nano-dollars."""
        self.assertEqual(
            price_from_usd(0.15, 0.075, 0.0, 0.6),
            Price(150_000_000, 75_000_000, 0, 600_000_000),
        )

    def test_absent_figures_of_the_cache_are_the_plain_one(self) -> None:
        """Without a price of its own, a cached or written token costs what an input token does."""
        price = price_from_usd(3, output=15)
        self.assertEqual((price.cached_input, price.cache_write), (price.input, price.input))

    def test_a_bad_figure_is_named(self) -> None:
        """The fault names the figure at fault."""
        for bad in (-1, float("nan"), 1_000_001, "x"):
            error = self.assertRaises(InvalidMoney, price_from_usd, 1, output=bad)
            self.assertIn("output:", str(error))
        self.assertIn(
            "cache_write:", str(self.assertRaises(InvalidMoney, price_from_usd, 1, 1, -1))
        )


class CostTests(SynchronousTestCase):
    def test_a_usual_request(self) -> None:
        """80 plain, 20 cached and 42 written tokens of gpt-4o-mini cost 0.0000387 dollars."""
        price = price_from_usd(0.15, 0.075, 0, 0.6)
        self.assertEqual(usd(cost_nano(TokenCounts(80, 20, 0, 42), price)), "0.0000387")

    def test_rounding_happens_once_on_the_sum_and_half_up(self) -> None:
        """Four parts of a quarter nano-dollar make one; half a nano-dollar is one."""
        quarter = Price(250_000, 250_000, 250_000, 250_000)
        self.assertEqual(cost_nano(TokenCounts(1, 1, 1, 1), quarter), 1)
        self.assertEqual(cost_nano(TokenCounts(1, 1, 0, 0), quarter), 1)
        self.assertEqual(cost_nano(TokenCounts(1, 0, 0, 0), quarter), 0)

    def test_above_the_threshold_the_whole_request_is_dearer(self) -> None:
        """Input of every kind counts towards the threshold, output does not."""
        price = Price(2, 2, 2, 2, above=(100, Price(4, 4, 4, 4)))
        million = TokenCounts(98, 1, 1, 10**6)
        self.assertEqual(cost_nano(million, price), (2 * (100 + 10**6) + 500_000) // 10**6)
        million.input_tokens += 1
        self.assertEqual(cost_nano(million, price), (4 * (101 + 10**6) + 500_000) // 10**6)

    @settings(max_examples=200, deadline=None)
    @given(st.tuples(*[token_counts] * 4), st.tuples(*[prices] * 4))
    def test_cost_is_the_exact_sum_rounded_once(
        self, counts: tuple[int, int, int, int], price: tuple[int, int, int, int]
    ) -> None:
        """For any counts and prices the cost is the rational sum, rounded half up."""
        exact = sum(
            (Fraction(c * p, 10**6) for c, p in zip(counts, price, strict=True)), Fraction(0)
        )
        expected = (exact.numerator * 2 + exact.denominator) // (exact.denominator * 2)
        self.assertEqual(cost_nano(TokenCounts(*counts), Price(*price)), expected)

    @settings(max_examples=100, deadline=None)
    @given(st.decimals(0, 1000, places=9), st.integers(0, 10**6))
    def test_prices_in_dollars_agree_with_decimal_arithmetic(self, figure: Decimal, n: int) -> None:
        """The way from a figure in dollars to a bill is the way a bookkeeper would go."""
        nano = cost_nano(TokenCounts(input_tokens=n), price_from_usd(figure))
        due = (figure * n * 1000).quantize(Decimal(1), ROUND_HALF_UP)
        self.assertEqual(nano, int(due))
