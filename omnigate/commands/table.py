"""Rows of an answer as a table for people."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from omnigate.commands.arguments import CommandError
from omnigate.text import one_line


def rows_of(answer: Any, member: str) -> list[dict[str, Any]]:
    """Return the rows of an answer.

    :raises CommandError: there are none where they should be.
    """
    rows = answer.get(member) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CommandError(f"the control plane's answer has no {member}; are both of one version?")
    return rows


def print_table(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print columns that are wide enough; text to the left, numbers to the right.

    A column that no row has is left out.
    """
    shown = [name for name in columns if any(name in row for row in rows)] or list(columns)
    cells = [[_cell(row.get(name)) for name in shown] for row in rows]
    widths = [
        max([len(name), *(len(line[place]) for line in cells)]) for place, name in enumerate(shown)
    ]
    numeric = [
        bool(rows) and all(_is_number(row.get(name)) or row.get(name) is None for row in rows)
        for name in shown
    ]
    for line in [list(shown), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    """One value as text in one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return ",".join(one_line(str(item), 100) for item in value)
    return one_line(str(value), 200)


def _is_number(value: object) -> bool:
    """Whether a value is shown to the right."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
