"""What became of the kept figures, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from bench.baseline import INSTRUCTIONS, Change, Kept
from bench.report import figure, table

HEADINGS = ("against what is kept", "measure", "now", "kept", "now / kept", "")


def comparison(found: Sequence[Change], key: str, kin: str, kept: Kept) -> str:
    """Return the table, and below it what it was compared with.

    :param key: of the Python that runs; ``kin`` that of the figures.
    """
    if not found:
        return f"Nothing that was measured is kept for {kin}."
    rows = [
        (
            change.name,
            change.measure,
            _number(change, change.now),
            _number(change, change.kept),
            f"{change.ratio:.2f}",
            change.verdict,
        )
        for change in found
    ]
    where = f"Kept on {kept.measured} with {kin} ({kept.python}, {kept.machine})."
    if kin != key:
        where += f" This is {key}: yards may differ for that alone, of long bodies by half."
    return f"{table(HEADINGS, rows, (0, 1, 5))}\n{where}"


def _number(change: Change, value: float) -> str:
    return f"{value:,.0f}" if change.measure == INSTRUCTIONS else figure(value)
