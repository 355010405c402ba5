"""What a media job costs: whole nano-dollars, and no float in a sum.

What is billed is what the adapter that delivered asked its provider for, not what the client called
it. A job that failed costs nothing; whoever settles a job asks for no cost then.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from omnigate.config.media import MediaPriceConfig, MediaTargetConfig
from omnigate.jobs.job import Billable
from omnigate.money import MAX_USD, NANO_PER_USD

#: One job costs at most so much, whatever its factors come to: what a ledger can hold.
MAX_COST_NANO: Final = MAX_USD * NANO_PER_USD

#: A number as a value of a field with multipliers; a longer one is in no price list.
_LONGEST_NUMBER: Final = 10**18

_PER_MILLION: Final = 10**6
_MS_PER_SECOND: Final = 1000

Multipliers = Mapping[str, Mapping[str, Decimal]]


def is_per_second(price: MediaPriceConfig | None) -> bool:
    """Say whether seconds are charged for."""
    return price is not None and price.per_second > 0


def billed(asked: Billable, target: MediaTargetConfig, provider_ms: int, outputs: int) -> Billable:
    """Return what a job is charged for.

    On a target priced per second the seconds are those of the request; where it named none, those
    that the provider reports, but no more than the target's ``max_seconds``, else its
    ``default_seconds``; and never below its ``min_seconds``. The provider's figure never changes
    what the request asked for: neither does a short answer cost less, nor a long one more than was
    agreed.

    :param asked: the adapter's account of the request that it built.
    :param provider_ms: milliseconds that the provider says it made; -1 where it says nothing.
    :param outputs: files that are stored.
    """
    milliseconds = max(0, asked.milliseconds)
    if is_per_second(target.price):
        if not milliseconds:
            told = max(0, provider_ms)
            if target.max_seconds is not None:
                told = min(told, target.max_seconds * _MS_PER_SECOND)
            milliseconds = told or (target.default_seconds or 0) * _MS_PER_SECOND
        milliseconds = max(milliseconds, target.min_seconds * _MS_PER_SECOND)
    return Billable(
        characters=max(0, asked.characters), milliseconds=milliseconds, outputs=max(0, outputs)
    )


def cost_nano(
    price: MediaPriceConfig | None,
    multipliers: Multipliers,
    input: Mapping[str, Any],
    billable: Billable,
) -> int:
    """Return the cost in nano-dollars, rounded once, half up.

    ``(per_job + per_output × outputs + per_second × seconds + per_million_characters × characters
    / 10⁶) × factors``; a field without a listed value has the factor 1.
    """
    if price is None:
        return 0
    per_job, per_output, per_second, per_million = price.nano
    # In millionths of a nano-dollar, so that every part is whole.
    total = (
        (per_job + per_output * max(0, billable.outputs)) * _PER_MILLION
        + per_second * max(0, billable.milliseconds) * (_PER_MILLION // _MS_PER_SECOND)
        + per_million * max(0, billable.characters)
    )
    parts = _PER_MILLION
    for factor in factors(multipliers, input):
        above, below = factor.as_integer_ratio()
        total *= above
        parts *= below
    return min((2 * total + parts) // (2 * parts), MAX_COST_NANO)


def factors(multipliers: Multipliers, input: Mapping[str, Any]) -> list[Decimal]:
    """Return the factors that match the values of ``input``."""
    found = []
    for field, listed in multipliers.items():
        if field in input:
            word = written(input[field])
            if word is not None and word in listed:
                found.append(listed[word])
    return found


def written(value: object) -> str | None:
    """Return a value of the input as a price list writes it: ``720p``, ``2``, ``true``.

    A string is itself, everything else its JSON text; None for what stands in no price list.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (list, dict)):
        return None
    if isinstance(value, int) and not -_LONGEST_NUMBER < value < _LONGEST_NUMBER:
        return None
    return msgspec.json.encode(value).decode()
