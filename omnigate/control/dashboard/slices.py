"""Long lists, a page at a time, by the number of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import urlencode

import attrs

Row = TypeVar("Row")

#: No list has so many pages.
MAX_PAGE_DIGITS: Final = 7


@attrs.frozen
class Slice:
    """One page of a list.

    :ivar number: which page, from 1 on.
    :ivar first: the number of its first row, from 1 on; 0 where there is none.
    :ivar last: the number of its last row.
    :ivar rows: how many rows there are in all.
    :ivar pages: how many pages; 1 of an empty list.
    """

    number: int
    first: int
    last: int
    rows: int
    pages: int

    @property
    def before(self) -> int:
        """How many rows there are on the pages before it."""
        return max(0, self.first - 1)

    def of(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows of this page."""
        return rows[self.before : self.last]

    def links(self, path: str, query: Mapping[str, str]) -> tuple[str, str]:
        """Return where the page before and the page after are; empty where there is none.

        :param query: what the address says beside the page.
        """
        return (
            _link(path, query, self.number - 1) if self.number > 1 else "",
            _link(path, query, self.number + 1) if self.number < self.pages else "",
        )


def page_of(rows: int, size: int, asked: str | None) -> Slice:
    """Return a page of a list; the nearest one there is where none is of that number.

    :param rows: how long the list is.
    :param size: rows of a page.
    :param asked: the number that an address has; the first page where that is none.
    """
    pages = max(1, -(-rows // size))
    number = 1
    if asked is not None and asked.isascii() and asked.isdigit():
        number = max(1, min(pages, int(asked[:MAX_PAGE_DIGITS])))
    first = (number - 1) * size
    last = min(rows, first + size)
    return Slice(number, first + 1 if rows else 0, last, rows, pages)


def _link(path: str, query: Mapping[str, str], number: int) -> str:
    text = urlencode({**query, "page": str(number)} if number > 1 else query)
    return f"{path}?{text}" if text else path
