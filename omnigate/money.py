"""Money in whole nano-dollars, and what tokens cost.

A nano-dollar is 10⁻⁹ US dollar. Prices are nano-dollars for a million tokens, so that every
price in use, down to a thousandth of a cent, is a whole number. No float takes part in a sum;
rounding happens once per event, on the sum of its four products.
"""

import re
from decimal import Decimal

import attrs

from omnigate.events import TokenCounts

NANO_PER_USD = 10**9
TOKENS_PER_PRICE = 10**6

# The dearest model on sale costs some hundred dollars a million tokens; a price above this is a
# price per token, or in cents, in the wrong place.
MAX_PRICE_USD = 10**6

# More than anyone's budget; bounds the numbers that can get into a sum.
MAX_USD = 10**12

_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?"
)


class InvalidMoney(ValueError):  # noqa: N818
    """A value is no amount of money that can be kept exactly; the text says why."""


@attrs.frozen
class Price:
    """What a million tokens cost, by kind, in nano-dollars.

    :ivar above: ``(threshold, price)``: a request whose input, cached and written tokens
        together exceed the threshold is charged wholly at that price.
    """

    input: int
    cached_input: int
    cache_write: int
    output: int
    above: "tuple[int, Price] | None" = None


def parse_usd(value: str | int | float | Decimal) -> int:
    """Return an amount of dollars in nano-dollars, exactly.

    A float is read the way it is written: 0.1 is a tenth.

    :raises InvalidMoney: no number, negative, above :data:`MAX_USD`, or with more than nine
        decimal places.
    """
    # bool is an int to Python, but ``budget_usd = true`` is a mistake.
    if isinstance(value, bool):
        raise InvalidMoney("true and false are no amounts; give a number of US dollars")
    text = str(value).strip()
    if not _DECIMAL.fullmatch(text):
        raise InvalidMoney(f"{text[:40]!r} is no number; give US dollars, such as 0.15")
    amount = Decimal(text)
    if amount < 0:
        raise InvalidMoney(f"{text[:40]} is negative; give an amount of zero or more")
    if amount > MAX_USD:
        raise InvalidMoney(f"{text[:40]} is above the largest amount, {MAX_USD}")
    numerator, denominator = amount.as_integer_ratio()
    nano, rest = divmod(numerator * NANO_PER_USD, denominator)
    if rest:
        raise InvalidMoney(f"{text[:40]} has more than nine decimal places; round it")
    return nano


def usd(nano: int) -> str:
    """Return nano-dollars as an exact decimal number of dollars: ``0.000012345``, ``1.5``, ``0``.

    The text is a JSON number as it stands.
    """
    sign = "-" if nano < 0 else ""
    whole, fraction = divmod(abs(nano), NANO_PER_USD)
    if not fraction:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:09d}".rstrip("0")


def price_from_usd(
    input: str | int | float | Decimal,
    cached_input: str | int | float | Decimal | None = None,
    cache_write: str | int | float | Decimal | None = None,
    output: str | int | float | Decimal = 0,
    above: tuple[int, Price] | None = None,
) -> Price:
    """Return the price for figures in dollars for a million tokens.

    :param cached_input: where absent, cached tokens cost what others do; so for ``cache_write``.
    :raises InvalidMoney: a figure is no amount, or above :data:`MAX_PRICE_USD`.
    """
    plain = _price_part("input", input)
    return Price(
        input=plain,
        cached_input=plain if cached_input is None else _price_part("cached_input", cached_input),
        cache_write=plain if cache_write is None else _price_part("cache_write", cache_write),
        output=_price_part("output", output),
        above=above,
    )


def _price_part(name: str, value: str | int | float | Decimal) -> int:
    try:
        nano = parse_usd(value)
    except InvalidMoney as error:
        raise InvalidMoney(f"{name}: {error}") from None
    if nano > MAX_PRICE_USD * NANO_PER_USD:
        raise InvalidMoney(
            f"{name}: {value} is above {MAX_PRICE_USD}; prices are US dollars for a million tokens"
        )
    return nano


def cost_nano(counts: TokenCounts, price: Price) -> int:
    """Return what ``counts`` cost at ``price``, in nano-dollars, rounded once, half up."""
    if price.above is not None:
        threshold, higher = price.above
        asked = counts.input_tokens + counts.cached_input_tokens + counts.cache_write_input_tokens
        if asked > threshold:
            price = higher
    total = (
        counts.input_tokens * price.input
        + counts.cached_input_tokens * price.cached_input
        + counts.cache_write_input_tokens * price.cache_write
        + counts.output_tokens * price.output
    )
    return (total + TOKENS_PER_PRICE // 2) // TOKENS_PER_PRICE
