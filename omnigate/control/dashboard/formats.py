"""Numbers, money and times as people read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from markupsafe import Markup, escape

from omnigate.money import NANO_PER_USD, usd
from omnigate.periods import rfc3339

#: Between a number and its unit, so that they stay on one line.
THIN: Final = "\N{NARROW NO-BREAK SPACE}"

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)

_STEPS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def count(number: int) -> str:
    """Return a count in three digits, such as ``1.2 M``; whole below ten thousand."""
    if abs(number) < 10_000:
        return f"{number:,}".replace(",", THIN)
    for step, unit in _STEPS:
        if abs(number) >= step * 0.9995:
            value = number / step
            digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
            shown = f"{value:.{digits}f}"
            return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{THIN}{unit}"
    return str(number)


def rate(number: float) -> str:
    """Return how many of something come in a time: two digits below ten, never 0 for a few."""
    if number >= 9.95 or number == 0:
        return count(round(number))
    return f"{number:.1f}" if number >= 0.95 else f"{max(number, 0.01):.2f}"


def dollars(nano: int) -> str:
    """Return nano-dollars as dollars: in cents, and below ten cents two digits that count.

    Nothing that was spent is shown as nothing.
    """
    sign, amount = ("-", -nano) if nano < 0 else ("", nano)
    if amount >= NANO_PER_USD // 10 or amount == 0:
        return f"{sign}${(amount + 5_000_000) // 10_000_000 / 100:,.2f}"
    digits = 2
    while digits < 9 and amount < 10 ** (10 - digits):
        digits += 1
    digits = min(9, digits + 1)
    return f"{sign}${amount / NANO_PER_USD:.{digits}f}"


def exact_dollars(nano: int) -> str:
    """Return nano-dollars as dollars with all their decimals: what somebody has set."""
    whole, point, decimals = usd(nano).partition(".")
    return f"${int(whole):,}{point}{decimals.ljust(2, '0') if point else ''}"


def duration(ms: float) -> str:
    """Return a duration in the unit that suits it: ``84 ms``, ``1.3 s``, ``4 min``, ``2 h``."""
    if ms < 999.5:
        return f"{ms:.0f}{THIN}ms"
    seconds = ms / 1000
    if seconds < 99.95:
        return f"{seconds:.1f}{THIN}s"
    minutes = seconds / 60
    if minutes < 99.5:
        return f"{minutes:.0f}{THIN}min"
    hours = minutes / 60
    return f"{hours:.0f}{THIN}h" if hours < 99.5 else f"{hours / 24:.0f}{THIN}d"


def percent(share: float) -> str:
    """Return a share of one in per cent; some is not shown as none, nor nearly all as all."""
    value = share * 100
    if 0 < value < 0.05:
        return f"<0.1{THIN}%"
    if 99.5 <= value < 100:
        return f"{value:.1f}{THIN}%" if value < 99.95 else f">99.9{THIN}%"
    if value >= 9_999.5:
        return f">9{THIN}999{THIN}%"
    return f"{value:.0f}{THIN}%" if value >= 9.95 or value == 0 else f"{value:.1f}{THIN}%"


def size(length: int) -> str:
    """Return a length in bytes in three digits: ``812 B``, ``1.4 kB``, ``23 MB``."""
    for step, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if length >= step * 0.9995:
            value = length / step
            return f"{value:.{0 if value >= 9.95 else 1}f}{THIN}{unit}"
    return f"{length}{THIN}B"


def utc(ms: int) -> str:
    """Return a moment as text, for what shows on hover."""
    text = rfc3339(ms)
    return f"{text[:10]} {text[11:19]} UTC"


def moment(ms: int) -> Markup:
    """Return a moment; the script shows it in the reader's zone, and UTC is told on hover."""
    return instant(rfc3339(ms))


def instant(text: str) -> Markup:
    """Return a moment that is told as RFC 3339 in UTC, as :func:`moment` does; else the text."""
    if not _INSTANT.fullmatch(text):
        return escape(text)
    plain = f"{text[:10]} {text[11:19]}"
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(text, plain, plain)


def filled(text: object) -> Any:
    """Return a dash for nothing at all."""
    return "\N{EN DASH}" if text is None or text == "" else text


def sentence(text: str) -> str:
    """Return a refusal's words as a sentence: programs get them without a capital and an end."""
    text = text.strip()
    end = "" if not text or text[-1] in ".!?" else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "count": count,
    "rate": rate,
    "dollars": dollars,
    "exact_dollars": exact_dollars,
    "duration": duration,
    "percent": percent,
    "size": size,
    "moment": moment,
    "utc": utc,
    "instant": instant,
    "filled": filled,
    "sentence": sentence,
}
