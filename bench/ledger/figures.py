"""The figures of the ledger's benchmark, each with its bar, as a table and as an object."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import attrs


@attrs.frozen
class Figure:
    """One figure.

    :ivar bar: what it may be at most, or at least where ``least``; ``None`` for one without.
    :ivar quiet: whether it is worth something only on a machine that does nothing else: times and
        rates are, processor time and memory are not.
    """

    part: str
    name: str
    value: float
    unit: str
    bar: float | None = None
    least: bool = False
    quiet: bool = False

    @property
    def over(self) -> bool:
        """Whether it misses its bar."""
        if self.bar is None:
            return False
        return self.value < self.bar if self.least else self.value > self.bar


def median(values: Iterable[float]) -> float:
    """The median; at least one value is there."""
    return statistics.median(values)


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table for people."""
    rows = [("part", "what", "figure", "", "bar", "")]
    part = ""
    for figure in figures:
        bar = ""
        if figure.bar is not None:
            bar = f"{'≥' if figure.least else '≤'} {_number(figure.bar)}"
        mark = " ".join(
            word for word, there in (("MISSED", figure.over), ("(quiet)", figure.quiet)) if there
        )
        shown = "" if figure.part == part else figure.part
        part = figure.part
        rows.append((shown, figure.name, _number(figure.value), figure.unit, bar, mark))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in (2, 4) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def document(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures for programs."""
    return [{**attrs.asdict(figure), "over": figure.over} for figure in figures]


def _number(value: float) -> str:
    """A number with as many places as it has meaning."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
