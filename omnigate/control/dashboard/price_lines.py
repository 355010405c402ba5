"""What a request cost, worked out line by line, and whether that is what the ledger has.

The ledger keeps what an event cost, not the price it was reckoned at. So the price of today is
taken, and it is said where that one comes to another sum.
"""

from __future__ import annotations

from typing import Final

import attrs

from omnigate.config.prices import PRICES_DATE, find_price
from omnigate.config.schema import Config
from omnigate.events import TokenCounts
from omnigate.money import Price, cost_nano, usd

#: Digits of an amount behind the point: nine of a nano-dollar, six of a millionth of a price.
_EXACT_DIGITS: Final = 15


@attrs.frozen
class PriceLine:
    """One kind of tokens.

    :ivar price: US dollars for a million of them.
    :ivar amount: US dollars, exact and not rounded.
    """

    kind: str
    count: int
    price: str
    amount: str


@attrs.frozen
class Reckoning:
    """What a request cost, and how that comes about.

    :ivar lines: empty where nothing is to be reckoned, or there is no price.
    :ivar total: what the lines come to, in US dollars, rounded once.
    :ivar recorded: what the ledger has, in US dollars.
    :ivar source: where the price is from.
    :ivar remark: what else there is to know; ``is_other`` tells that the price has changed since.
    """

    lines: tuple[PriceLine, ...]
    total: str
    recorded: str
    source: str
    remark: str
    is_other: bool


def reckon(
    config: Config,
    *,
    route: str,
    upstream: str | None,
    model: str | None,
    cached: bool,
    counts: TokenCounts,
    recorded_nano: int,
) -> Reckoning:
    """Work out what a request cost.

    :param config: the one in force.
    :param recorded_nano: what the ledger has, in nano-dollars.
    """
    recorded = usd(recorded_nano)
    if cached or upstream is None or model is None:
        remark = (
            "It came out of the response cache, which costs nothing."
            if cached
            else "No provider answered, so nothing was spent."
        )
        if recorded_nano:
            remark = "The ledger has a cost of it all the same."
        return Reckoning((), usd(0), recorded, "", remark, bool(recorded_nano))
    price, is_own = find_price(config, route, upstream, model)
    if price is None:
        remark = (
            "The config in force has no such target any more, or no price for it, neither one "
            "of its own nor one in the built-in table."
        )
        if not recorded_nano:
            remark += " Nothing was counted for it; give the target a price."
        return Reckoning((), usd(0), recorded, "", remark, bool(recorded_nano))
    source = (
        "the price of this target in the config in force"
        if is_own
        else f"the built-in price table of {PRICES_DATE}"
    )
    total = cost_nano(counts, price)
    remark = ""
    if total != recorded_nano:
        remark = (
            "The ledger keeps what a request cost when it was recorded, not the price. At the "
            "price in force now it would be another sum, so the price has changed since."
            if recorded_nano
            else "It was recorded at $0: then its target had no price, or a price of 0. The price "
            "in force now was given to it since."
        )
    elif at_price(counts, price) is not price and price.above is not None:
        remark = f"More than {price.above[0]:,} tokens went in, so the higher price counts for all."
    return Reckoning(
        price_lines(counts, at_price(counts, price)),
        usd(total),
        recorded,
        source,
        remark,
        total != recorded_nano,
    )


def at_price(counts: TokenCounts, price: Price) -> Price:
    """Return the price that counts for so many tokens."""
    asked = counts.input_tokens + counts.cached_input_tokens + counts.cache_write_input_tokens
    return price.above[1] if price.above is not None and asked > price.above[0] else price


def price_lines(counts: TokenCounts, price: Price) -> tuple[PriceLine, ...]:
    """Return a line for each kind of tokens that there are any of; for none of them, two lines."""
    kinds = (
        ("input", counts.input_tokens, price.input),
        ("input read from cache", counts.cached_input_tokens, price.cached_input),
        (
            "input written to cache",
            counts.cache_write_input_tokens,
            price.cache_write,
        ),
        ("output", counts.output_tokens, price.output),
    )
    return tuple(
        PriceLine(kind, count, usd(each), exact_amount(count, each))
        for kind, count, each in kinds
        if count or kind in ("input", "output")
    )


def exact_amount(count: int, price: int) -> str:
    """Return what so many tokens cost, as an exact decimal number of US dollars.

    :param price: nano-dollars for a million of them.
    """
    whole, fraction = divmod(count * price, 10**_EXACT_DIGITS)
    return f"{whole}.{fraction:015d}".rstrip("0").rstrip(".")
