"""Plots, drawn on the server: SVG that fits any width, with all that is on it as text.

Across, everything is in per cent of the width, and up and down in pixels: letters keep their size
on a phone. Lines, which know no per cent, are in an SVG of their own that is stretched.

A unit is ``usd`` (values in nano-dollars), ``ms``, ``share`` (0 to 1), or the noun of what is
counted, such as ``requests``. Nine series can be told apart, of which the ninth, or the one that is
named ``other``, is grey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import attrs
from markupsafe import Markup

from omnigate.control.dashboard import drawing
from omnigate.control.dashboard.scales import (
    MS,
    SHARE,
    USD,
    Scale,
    day_text,
    drawn,
    scale_to,
    time_texts,
    time_ticks,
    value_text,
)
from omnigate.periods import DAY_MS, rfc3339

#: More than these are too fine to be seen, and make a page heavy.
MAX_POINTS: Final = 400
MAX_BARS: Final = 120
MAX_SERIES: Final = drawing.COLOURS + 1

#: Parts of a plot that tell their values on hover.
MAX_HOVERS: Final = 100

#: Labels below bars.
MAX_LABELS: Final = 8

#: The width of the plane on which lines are drawn, before it is stretched.
_WIDTH: Final = 1000

#: The share of its place that a bar takes, and of the whole width at most.
_BAR: Final = 0.72
_WIDEST_BAR: Final = 0.06

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@attrs.frozen
class Series:
    """One line, or one layer of all bars.

    :ivar values: one for each time or label; ``None`` where there is none.
    """

    name: str
    values: Sequence[float | None]


def lines(title: str, times_ms: Sequence[int], series: Sequence[Series], unit: str) -> Markup:
    """Draw lines over time.

    :param title: what it shows; for those who do not see it.
    :param times_ms: the instants of all values, in milliseconds since 1970, ascending; at most
        :data:`MAX_POINTS`.
    """
    _check(len(times_ms), MAX_POINTS, series)
    scale = _scale((value for one in series for value in one.values), unit)
    start, end = (times_ms[0], times_ms[-1]) if times_ms else (0, 0)

    def across(ms: int) -> float:
        return (ms - start) / (end - start) if end > start else 0.5

    ticks = time_ticks(start, end) if times_ms else []
    # The script shows times in the reader's zone; days are those of UTC, as everywhere.
    are_days = all(tick % DAY_MS == 0 for tick in ticks)
    texts = [
        drawing.label(
            across(tick),
            text,
            index % 2 == 1,
            drawing.NOTHING if are_days else _instant(tick),
        )
        for index, (tick, text) in enumerate(zip(ticks, time_texts(ticks), strict=True))
    ]
    shares = [across(ms) for ms in times_ms]
    drawings: list[Markup] = []
    for index, one in enumerate(series):
        drawings += _line(drawing.colour(index, one.name), shares, one.values, scale)
    moments = [_long(ms) for ms in times_ms]
    return drawing.plot(
        f"{title}: {_summary(moments, series, unit)}",
        scale,
        unit,
        [*texts, *drawings, *_hovers(shares, moments, series, unit)],
        [one.name for one in series],
        drawing.LINE_KEY,
    )


def stacked(title: str, labels: Sequence[str | int], series: Sequence[Series], unit: str) -> Markup:
    """Draw bars of several layers.

    :param title: what it shows; for those who do not see it.
    :param labels: what stands below the bars: days of UTC as ``2026-11-29``, instants in
        milliseconds since 1970, or other words; at most :data:`MAX_BARS`.
    """
    _check(len(labels), MAX_BARS, series)
    sums = [sum(drawn(one.values[index]) for one in series) for index in range(len(labels))]
    scale = _scale(sums, unit)
    place = 1 / max(1, len(labels))
    width = min(place * _BAR, _WIDEST_BAR)
    every = -(-len(labels) // MAX_LABELS) or 1
    drawings = [
        drawing.label(
            (index + 0.5) * place, _short(label), index // every % 2 == 1, _instant(label)
        )
        for index, label in enumerate(labels)
        if index % every == 0
    ]
    colours = [drawing.colour(number, one.name) for number, one in enumerate(series)]
    wide = drawing.percent(width)
    for index, label in enumerate(labels):
        left, below = index * place, 0.0
        x = drawing.percent(left + (place - width) / 2)
        blocks = []
        for number, one in enumerate(series):
            value = drawn(one.values[index])
            low, high = scale.share(below), scale.share(below + value)
            below += value
            if high > low:
                # There are a thousand of these, of our own words and numbers alone.
                y, height = drawing.TOP + (1 - high) * drawing.HEIGHT, (high - low) * drawing.HEIGHT
                blocks.append(
                    f'<rect class="block {colours[number]}" x="{x}%" width="{wide}%" '
                    f'y="{y:.2f}" height="{height:.2f}"/>'
                )
        told = [_long(label), *_values(series, index, unit)]
        if len(series) > 1:
            told.append(f"all: {value_text(sums[index], unit)}")
        drawings.append(drawing.hover(left, place, told, Markup("".join(blocks))))
    return drawing.plot(
        f"{title}: {_summary([*map(_long, labels)], series, unit)}",
        scale,
        unit,
        drawings,
        [one.name for one in series],
        drawing.BLOCK_KEY,
    )


def _check(points: int, most: int, series: Sequence[Series]) -> None:
    if points > most or len(series) > MAX_SERIES:
        raise ValueError(f"{points} points, {len(series)} series: too many to draw")
    if any(len(one.values) != points for one in series):
        raise ValueError("a series has a value for each point")


def _scale(values: Iterable[float | None], unit: str) -> Scale:
    seen = [drawn(value) for value in values]
    are_whole = unit == USD or (
        unit not in (MS, SHARE) and all(value == round(value) for value in seen)
    )
    scale = scale_to(max(seen, default=0.0), are_whole)
    return Scale(1e9, 1, 0) if unit == USD and not any(seen) else scale


def _line(
    colour: str, shares: Sequence[float], values: Sequence[float | None], scale: Scale
) -> list[Markup]:
    """Draw a line, broken where there are no values; a value between two gaps is a dot."""
    runs: list[list[tuple[float, float]]] = [[]]
    for share, value in zip(shares, values, strict=True):
        if value is None or value != value:
            runs.append([])
        else:
            runs[-1].append((share, 1 - scale.share(value)))
    path = " ".join(
        "M" + " L".join(f"{x * _WIDTH:.1f} {y * drawing.HEIGHT:.1f}" for x, y in run)
        for run in runs
        if len(run) > 1
    )
    drawings = [
        Markup('<circle class="dot {}" cx="{}%" cy="{:.2f}" r="2.5"/>').format(
            colour, drawing.percent(min(0.995, max(0.005, x))), drawing.TOP + y * drawing.HEIGHT
        )
        for run in runs
        if len(run) == 1
        for x, y in run
    ]
    if path:
        drawings.append(
            Markup(
                '<svg class="plane" x="0" y="{}" width="100%" height="{}" viewBox="0 0 {} {}" '
                'preserveAspectRatio="none"><path class="line {}" '
                'vector-effect="non-scaling-stroke" d="{}"/></svg>'
            ).format(drawing.TOP, drawing.HEIGHT, _WIDTH, drawing.HEIGHT, colour, path)
        )
    return drawings


def _hovers(
    shares: Sequence[float], moments: Sequence[str], series: Sequence[Series], unit: str
) -> list[Markup]:
    """Divide the plane into parts that each tell the values in their middle."""
    every = -(-len(shares) // MAX_HOVERS) or 1
    hovers = []
    for first in range(0, len(shares), every):
        last = min(first + every, len(shares)) - 1
        left = (shares[first - 1] + shares[first]) / 2 if first else 0.0
        right = (shares[last] + shares[last + 1]) / 2 if last + 1 < len(shares) else 1.0
        middle = (first + last) // 2
        told = [moments[middle], *_values(series, middle, unit)]
        hovers.append(drawing.hover(left, right - left, told))
    return hovers


def _values(series: Sequence[Series], index: int, unit: str) -> list[str]:
    return [f"{one.name}: {value_text(one.values[index], unit)}" for one in series]


def _summary(moments: Sequence[str], series: Sequence[Series], unit: str) -> str:
    """Say in a sentence what the plot shows."""
    if not moments:
        return "nothing yet"
    span = moments[0] if len(moments) == 1 else f"{moments[0]} to {moments[-1]}"
    most = (
        f"{one.name} at most {value_text(max(map(drawn, one.values), default=0.0), unit)}"
        for one in series
    )
    return "; ".join((span, *most))


def _long(label: str | int) -> str:
    """Return what is told of a label on hover."""
    return label if isinstance(label, str) else f"{rfc3339(label)[:16].replace('T', ' ')} UTC"


def _short(label: str | int) -> str:
    """Return what stands below."""
    if isinstance(label, int):
        return rfc3339(label)[11:16]
    if not _DAY.fullmatch(label):
        return label
    try:
        return day_text(int(datetime.fromisoformat(label).replace(tzinfo=UTC).timestamp() * 1000))
    except ValueError:
        return label


def _instant(label: str | int) -> Markup:
    """Say which instant it is, for the script to show it in the reader's zone."""
    return Markup(' data-time="{}"').format(label) if isinstance(label, int) else drawing.NOTHING
