"""Axes: where their ticks are, and what is written at them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import attrs

from omnigate.control.dashboard import formats
from omnigate.control.dashboard.formats import THIN
from omnigate.money import NANO_PER_USD

#: Units that have a way of their own to be written; any other is the noun of a count.
USD: Final = "usd"
MS: Final = "ms"
SHARE: Final = "share"

#: Values outside are drawn as nothing, or as the largest: no axis of ours has other ones.
LEAST: Final = 1e-9
MOST: Final = 1e18

#: Ticks of an axis of values above its zero, at most.
STEPS: Final = 5

#: Ticks of an axis of times, at most.
TIME_TICKS: Final = 9

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_TIME_STEPS: Final = (
    *(_MINUTE * step for step in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * step for step in (1, 2, 3, 6, 12)),
    *(_DAY * step for step in (1, 2, 7, 14, 28, 91, 364)),
)
_MONTHS: Final = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]


def drawn(value: float | None) -> float:
    """Return a value as it can be drawn: finite and not negative; what is none is zero."""
    if value is None or not value >= LEAST:
        return 0.0
    return min(float(value), MOST)


@attrs.frozen
class Scale:
    """An axis of values that begins at zero.

    :ivar step: the distance of its ticks; one, two or five times a power of ten.
    :ivar steps: how many there are above zero.
    :ivar digits: digits behind the point that tell the ticks apart.
    """

    step: float
    steps: int
    digits: int

    @property
    def top(self) -> float:
        """The value at its upper end."""
        return self.step * self.steps

    @property
    def ticks(self) -> list[float]:
        """The values of its ticks, zero among them."""
        return [round(index * self.step, self.digits) for index in range(self.steps + 1)]

    def share(self, value: float) -> float:
        """Return how far up a value is, 0 to 1."""
        return min(1.0, drawn(value) / self.top)


def scale_to(largest: float, are_whole: bool) -> Scale:
    """Return the axis that holds zero and this value.

    :param are_whole: whether there is nothing between one and the next whole number.
    """
    largest = drawn(largest)
    if largest == 0:
        return Scale(1.0, 1, 0)
    rough = largest / STEPS
    exponent = math.floor(math.log10(rough))
    for factor, power in ((1, exponent), (2, exponent), (5, exponent), (1, exponent + 1)):
        step = float(f"{factor}e{power}")
        if step * STEPS >= largest * (1 - 1e-9):
            break
    if are_whole and step < 1:
        step, power = 1.0, 0
    return Scale(step, max(1, math.ceil(largest / step - 1e-9)), max(0, -power))


def tick_text(value: float, scale: Scale, unit: str) -> str:
    """Return what is written at a tick, so that no two of an axis are the same."""
    if value == 0:
        return "0"
    if unit == USD:
        digits = scale.digits + _digits(scale.step, NANO_PER_USD)
        return f"${_plain(value / NANO_PER_USD, max(2, digits) if digits else 0)}"
    if unit == SHARE:
        return f"{_plain(value * 100, max(0, scale.digits - 2))}{THIN}%"
    if unit == MS:
        if scale.top >= 1000:
            return f"{_plain(value / 1000, scale.digits + _digits(scale.step, 1000))}{THIN}s"
        return f"{_plain(value, scale.digits)}{THIN}ms"
    return _plain(value, scale.digits)


def _digits(step: float, divisor: int) -> int:
    """Return how many digits a whole step has behind the point once it is divided."""
    if step < 1:
        return len(str(divisor)) - 1
    return max(0, len(str(divisor)) - 1 - math.floor(math.log10(step) + 1e-9))


def _plain(value: float, digits: int) -> str:
    if value >= 1e15:
        return f"{value:.2g}"
    if value >= 10_000:
        return formats.count(round(value))
    return f"{value:,.{digits}f}".replace(",", THIN)


def value_text(value: float | None, unit: str) -> str:
    """Return a value with its unit, as it is told on hover."""
    if value is None or value != value:
        return "none"
    seen = drawn(value)
    if unit == USD:
        return formats.dollars(round(seen))
    if unit == MS:
        return formats.duration(seen)
    if unit == SHARE:
        return formats.percent(seen)
    number = formats.count(round(seen)) if seen == round(seen) or seen >= 100 else f"{seen:.3g}"
    return f"{number} {unit}".rstrip()


def time_ticks(start_ms: int, end_ms: int) -> list[int]:
    """Return instants between both, all of one step of the clock in UTC."""
    for step in _TIME_STEPS:
        if (end_ms - start_ms) / step < TIME_TICKS:
            break
    else:
        step *= -(-(end_ms - start_ms) // (step * (TIME_TICKS - 1)))
    return list(range(-(-start_ms // step) * step, end_ms + 1, step))


def time_texts(ticks: Sequence[int]) -> list[str]:
    """Return what is written at ticks: the time of the day, at midnight and above the day."""
    return [day_text(tick) if tick % _DAY == 0 else f"{_at(tick):%H:%M}" for tick in ticks]


def day_text(ms: int) -> str:
    """Return the day of an instant, such as ``29 Nov``."""
    at = _at(ms)
    return f"{at.day} {_MONTHS[at.month - 1]}"


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
