"""What media jobs cost."""

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import MediaPriceConfig, MediaTargetConfig
from omnigate.jobs import durations, pricing
from omnigate.jobs.job import Billable
from omnigate.jobs.pricing import MAX_COST_NANO, billed, cost_nano, written
from omnigate.money import parse_usd, usd

VECTORS = Path(__file__).parent / "vectors"

#: A vector without these is about something else than one job.
OTHER = {"webhooks", "ssrf", "s3_sigv4", "receipts", "age"}


def vectors() -> Iterator[dict[str, Any]]:
    """Yield the golden jobs that were charged for."""
    for path in sorted(VECTORS.glob("*.json")):
        if path.stem in OTHER:
            continue
        for case in json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)["vectors"]:
            if case["expect"]["billable"] is not None:
                yield case


def target_of(case: dict[str, Any]) -> MediaTargetConfig:
    """Return the target that was tried last."""
    told = case["route"]["targets"][case["expect"]["attempts"][-1]["target"]]
    price = MediaPriceConfig(**{name: Decimal(usd) for name, usd in told["price"].items()})
    return MediaTargetConfig(
        adapter=told["adapter"],
        model=told["model"],
        price=price,
        default_seconds=told.get("default_seconds"),
        min_seconds=told.get("min_seconds", 0),
        max_seconds=told.get("max_seconds"),
    )


def multipliers_of(case: dict[str, Any]) -> dict[str, dict[str, Decimal]]:
    """Return the factors of a case's route."""
    return {
        field: {word: Decimal(factor) for word, factor in listed.items()}
        for field, listed in case["route"].get("price_multipliers", {}).items()
    }


class GoldenTests(SynchronousTestCase):
    def test_every_vector_costs_what_it_says(self) -> None:
        """What is billed follows from the input and the provider's seconds, the cost from that."""
        count = 0
        for case in vectors():
            input, expect, target = case["job"]["input"], case["expect"], target_of(case)
            length = durations.named(input)
            asked = Billable(
                characters=len(input.get("text", input.get("prompt", ""))),
                milliseconds=length[1] if length else 0,
            )
            seconds = expect.get("provider_seconds")
            reported = -1 if seconds is None else int(seconds * 1000)
            billable = billed(asked, target, reported, expect["billable"]["outputs"])
            told = expect["billable"]
            self.assertEqual(
                (billable.characters, billable.milliseconds, billable.outputs),
                (told["characters"], int(told["seconds"] * 1000), told["outputs"]),
                case["id"],
            )
            cost = cost_nano(target.price, multipliers_of(case), input, billable)
            self.assertEqual(cost, parse_usd(expect["cost_usd"]), case["id"])
            count += 1
        self.assertGreaterEqual(count, 30)


class BilledTests(SynchronousTestCase):
    def test_which_seconds_count(self) -> None:
        """The request's, else the provider's, else the default, and never below the minimum."""
        per_second = MediaPriceConfig(per_second=Decimal("0.1"))
        cases = [
            # asked, provider, default, minimum: billed
            ((5_000, -1, None, 0), 5_000),
            ((5_000, 9_000, None, 0), 5_000),
            ((5_000, 1_000, 7, 0), 5_000),
            ((0, 8_000, 6, 0), 8_000),
            ((0, 0, 6, 0), 6_000),
            ((0, -1, 6, 0), 6_000),
            ((0, -1, None, 0), 0),
            ((2_000, -1, None, 4), 4_000),
            ((0, 1_000, 6, 4), 4_000),
            ((0, -1, None, 4), 4_000),
            ((4_500, -1, 5, 1), 4_500),
        ]
        for (asked, provider, default, minimum), expected in cases:
            target = MediaTargetConfig(
                adapter="replicate",
                model="a/b",
                price=per_second,
                default_seconds=default,
                min_seconds=minimum,
            )
            found = billed(Billable(milliseconds=asked), target, provider, 1)
            self.assertEqual(found.milliseconds, expected, (asked, provider, default, minimum))

    def test_a_provider_that_tells_nonsense(self) -> None:
        """Milliseconds told as seconds cost no more than the longest that may be asked for."""
        price = MediaPriceConfig(per_second=Decimal("0.05"))
        target = MediaTargetConfig(
            adapter="fal", model="a/b", price=price, default_seconds=6, max_seconds=15
        )
        for told, expected in ((6_000_000, 15_000), (15_001, 15_000), (8_000, 8_000), (-1, 6_000)):
            found = billed(Billable(milliseconds=0), target, told, 1)
            self.assertEqual(expected, found.milliseconds)

    def test_only_a_price_per_second_needs_seconds(self) -> None:
        """Elsewhere the record says what was asked for, and nothing is put in."""
        for price in (None, MediaPriceConfig(per_job=Decimal(1))):
            target = MediaTargetConfig(
                adapter="fal", model="a/b", price=price, default_seconds=6, min_seconds=4
            )
            self.assertEqual(billed(Billable(milliseconds=0), target, 9_000, 1).milliseconds, 0)
            self.assertEqual(billed(Billable(milliseconds=7), target, 9_000, 1).milliseconds, 7)


class CostTests(SynchronousTestCase):
    def test_the_parts_add_up(self) -> None:
        """Each part of a price, and all at once, times the factors of two fields."""
        price = MediaPriceConfig(
            per_job=Decimal("0.003"),
            per_output=Decimal("0.01"),
            per_second=Decimal("0.05"),
            per_million_characters=Decimal(100),
        )
        billable = Billable(characters=16, milliseconds=4_500, outputs=2)
        factors = {"quality": {"high": Decimal(16)}, "hd": {"true": Decimal("1.5")}}
        sum_of_parts = Decimal("0.003") + Decimal("0.02") + Decimal("0.225") + Decimal("0.0016")
        self.assertEqual(usd(cost_nano(price, {}, {}, billable)), str(sum_of_parts))
        self.assertEqual(
            cost_nano(price, factors, {"quality": "high", "hd": True}, billable),
            parse_usd(sum_of_parts * 24),
        )

    def test_it_is_rounded_once_half_up(self) -> None:
        """Half a nano-dollar costs one, less costs none, and factors come before the rounding."""
        price = MediaPriceConfig(per_million_characters=Decimal("0.0005"))
        self.assertEqual(cost_nano(price, {}, {}, Billable(characters=1)), 1)
        half = {"size": {"s": Decimal("0.999999")}}
        self.assertEqual(cost_nano(price, half, {"size": "s"}, Billable(characters=1)), 0)
        three = {"size": {"s": Decimal("0.5")}}
        self.assertEqual(cost_nano(price, three, {"size": "s"}, Billable(characters=5)), 1)

    def test_no_price_costs_nothing(self) -> None:
        """A target without a price costs nothing, and no figure makes a cost negative."""
        self.assertEqual(cost_nano(None, {}, {}, Billable(outputs=9)), 0)
        price = MediaPriceConfig(per_job=Decimal(1), per_output=Decimal(1), per_second=Decimal(1))
        odd = Billable(characters=-5, milliseconds=-5, outputs=-5)
        self.assertEqual(usd(cost_nano(price, {}, {}, odd)), "1")

    def test_one_job_has_a_dearest_cost(self) -> None:
        """Factors upon factors stay within what a ledger holds."""
        price = MediaPriceConfig(per_job=Decimal(10**6))
        factors = {f"f{number}": {"x": Decimal(1_000)} for number in range(32)}
        input = dict.fromkeys(factors, "x")
        self.assertEqual(cost_nano(price, factors, input, Billable()), MAX_COST_NANO)

    def test_values_as_they_are_written(self) -> None:
        """A value is matched by its text in JSON; what no price list holds matches nothing."""
        cases: list[tuple[object, str | None]] = [
            ("720p", "720p"),
            (2, "2"),
            (2.5, "2.5"),
            (True, "true"),
            (None, "null"),
            ([1], None),
            ({}, None),
            (10**5_000, None),
            (-(10**5_000), None),
        ]
        for value, expected in cases:
            self.assertEqual(written(value), expected)
        listed = {"n": {"true": Decimal(3), "2": Decimal(5)}}
        self.assertEqual(pricing.factors(listed, {"n": True}), [3])
        self.assertEqual(pricing.factors(listed, {"n": 2}), [5])
        self.assertEqual(pricing.factors(listed, {"n": "2"}), [5])
        self.assertEqual(pricing.factors(listed, {"n": 1}), [])
        self.assertEqual(pricing.factors(listed, {}), [])


prices = st.builds(
    MediaPriceConfig,
    per_job=st.decimals(0, 1000, places=9),
    per_output=st.decimals(0, 1000, places=9),
    per_second=st.decimals(0, 1000, places=9),
    per_million_characters=st.decimals(0, 1000, places=9),
)
billables = st.builds(
    Billable,
    characters=st.integers(0, 8_000_000),
    milliseconds=st.integers(0, 86_400_000),
    outputs=st.integers(0, 256),
)
factor_lists = st.lists(st.decimals(0, 1000, places=6), max_size=3)


class CostPropertyTests(SynchronousTestCase):
    @settings(max_examples=300, deadline=None)
    @given(prices, billables, factor_lists)
    def test_exact_against_fractions(
        self, price: MediaPriceConfig, billable: Billable, factors: list[Decimal]
    ) -> None:
        """The cost is the exact product, rounded half up, and never negative."""
        exact = (
            Fraction(price.per_job)
            + Fraction(price.per_output) * billable.outputs
            + Fraction(price.per_second) * Fraction(billable.milliseconds, 1000)
            + Fraction(price.per_million_characters) * Fraction(billable.characters, 10**6)
        ) * 10**9
        multipliers = {}
        for place, factor in enumerate(factors):
            exact *= Fraction(factor)
            multipliers[f"f{place}"] = {"x": factor}
        found = cost_nano(price, multipliers, dict.fromkeys(multipliers, "x"), billable)
        self.assertEqual(found, min(int(exact + Fraction(1, 2)), MAX_COST_NANO))

    @settings(max_examples=200, deadline=None)
    @given(prices, billables, billables)
    def test_more_never_costs_less(
        self, price: MediaPriceConfig, one: Billable, more: Billable
    ) -> None:
        """The cost grows with each figure, or stays."""
        both = Billable(
            characters=one.characters + more.characters,
            milliseconds=one.milliseconds + more.milliseconds,
            outputs=one.outputs + more.outputs,
        )
        self.assertLessEqual(cost_nano(price, {}, {}, one), cost_nano(price, {}, {}, both))

    @settings(max_examples=200, deadline=None)
    @given(
        st.integers(0, 10**8),
        st.integers(-1, 10**8),
        st.none() | st.integers(1, 86_400),
        st.integers(0, 86_400),
    )
    def test_the_provider_never_lowers_what_was_asked(
        self, asked: int, provider: int, default: int | None, minimum: int
    ) -> None:
        """What is billed is at least what the request named, and at least the minimum."""
        target = MediaTargetConfig(
            adapter="fal",
            model="a/b",
            price=MediaPriceConfig(per_second=Decimal(1)),
            default_seconds=default,
            min_seconds=minimum,
        )
        found = billed(Billable(milliseconds=asked), target, provider, 1).milliseconds
        self.assertGreaterEqual(found, max(asked, minimum * 1000))
        if asked:
            self.assertEqual(found, max(asked, minimum * 1000))
