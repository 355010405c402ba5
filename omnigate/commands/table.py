"""Rows of an answer as a table for people, as JSON for programs, or as CSV for spreadsheets.

A table is as wide as it has to be. On a terminal it is made to fit: the longest texts are cut, each
with an ellipsis, and its head is bold unless ``NO_COLOR`` is set. Elsewhere, in a pipe or a file,
nothing is ever cut, so that what another program reads is whole.
"""

import csv
import os
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from omnigate.commands.arguments import CommandError
from omnigate.text import ELLIPSIS, for_spreadsheets, one_line, without_controls

_GAP = "  "
# A column of text is cut no shorter than this: what is left of a name must be worth reading.
_MIN_CELL_CHARS = 8
# Of one item in a cell: more than any name or pattern of a config may have.
_ITEM_CHARS = 1000
_BOLD, _PLAIN = "\033[1m", "\033[0m"

_encode = msgspec.json.Encoder(decimal_format="number").encode


def rows_of(answer: Any, member: str) -> list[dict[str, Any]]:
    """Return the rows of an answer.

    :raises CommandError: there are none where they should be.
    """
    rows = answer.get(member) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CommandError(f"the control plane's answer has no {member}; are both of one version?")
    return rows


def print_listing(
    shape: str, member: str, rows: list[dict[str, Any]], columns: Sequence[str]
) -> None:
    """Print the rows of a listing in the shape that was asked for.

    :param shape: ``table``, ``json`` or ``csv``, as ``--format`` has it.
    :param member: what the JSON object calls its rows.
    :param columns: what a table and CSV show of a row, in this order; JSON shows all of it. A table
        leaves out columns that nothing fills, CSV never does, so that its columns stay the same.
    """
    if shape == "json":
        print_json({member: rows})
    elif shape == "csv":
        print_csv(rows, columns)
    else:
        told = [name for name in columns if any(row.get(name) is not None for row in rows)]
        print_table(rows, told or columns)


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    print(json_text(value))


def json_text(value: object) -> str:
    """Return a value as one line of JSON, money to its last digit."""
    return without_controls(_encode(value).decode())


def print_csv(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print columns as RFC 4180 has them, with a line of names.

    An empty field is a value that is not. A text that a spreadsheet would run is told apart by an
    apostrophe, as the control plane does it in its reports; control characters are escapes.
    """
    lines = csv.writer(sys.stdout, lineterminator="\r\n")
    lines.writerow(columns)
    lines.writerows([_field(row.get(name)) for name in columns] for row in rows)


def print_table(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print columns that are wide enough; text to the left, numbers to the right.

    A column that no row has is left out.
    """
    terminal = sys.stdout.isatty()
    room = shutil.get_terminal_size().columns if terminal else None
    head, *lines = table_lines(rows, columns, room)
    print(f"{_BOLD}{head}{_PLAIN}" if terminal and has_colour(os.environ) else head)
    for line in lines:
        print(line)


def table_lines(
    rows: list[dict[str, Any]], columns: Sequence[str], room: int | None = None
) -> list[str]:
    """Return the lines of a table, its head first.

    :param room: the columns of the terminal, which the longest texts are cut for; None for all that
        it takes.
    """
    shown = [name for name in columns if any(name in row for row in rows)] or list(columns)
    lines = [shown, *([_cell(row.get(name)) for name in shown] for row in rows)]
    numeric = [
        bool(rows) and all(_is_number(row.get(name)) or row.get(name) is None for row in rows)
        for name in shown
    ]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    if room is not None:
        widths = _fitting(widths, numeric, room)
    return [_GAP.join(map(_padded, line, widths, numeric)).rstrip() for line in lines]


def has_colour(environ: Mapping[str, str]) -> bool:
    """Whether a terminal may be told to write bold or in colour: not with ``NO_COLOR`` set."""
    return not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb")


def fit(text: str, width: int) -> str:
    """Return a line of text that takes ``width`` columns at most; a cut one ends with ``…``."""
    if _width(text) <= width:
        return text
    taken = 0
    for place, char in enumerate(text):
        taken += _width(char)
        if taken >= width:
            return text[:place] + ELLIPSIS
    return text


def _fitting(widths: list[int], numeric: Sequence[bool], room: int) -> list[int]:
    """Narrow the widest columns of text until a line fits; a number is never cut."""
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    widths = list(widths)
    while over > 0:
        texts = [place for place, right in enumerate(numeric) if not right]
        widest = max(texts, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= _MIN_CELL_CHARS:
            break
        widths[widest] -= 1
        over -= 1
    return widths


def _padded(text: str, width: int, right: bool) -> str:
    """A cell in its column."""
    text = fit(text, width)
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def _cell(value: object) -> str:
    """One value as text in one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return ",".join(one_line(str(item), _ITEM_CHARS) for item in value)
    return one_line(str(value), _ITEM_CHARS)


def _field(value: object) -> str:
    """One value as a field of CSV, whole."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value)
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    # Escapes are at most six characters for one.
    return for_spreadsheets(one_line(text, 6 * len(text) + 1))


def _is_number(value: object) -> bool:
    """Whether a value is shown to the right."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
