"""What changed in a worker's figures since it told them last; what goes to its parent.

Of a counter the growth is told, so the parent adds it up and need not know whose it was: what a
worker counted stays in the sum when it is gone. Of other figures the value is told, or that a row
is no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec

from omnigate.metric_families import ROWS_AT_A_TIME, Labels, Number, Part, Row

#: A row, and by how much it grew, or its value; ``None`` for a row that is no more.
Change = tuple[Labels, Number | None]

#: Changes by the name of their family, a few hundred rows of them.
Piece = list[tuple[str, list[Change]]]

encode_piece: Final = msgspec.json.Encoder().encode
decode_piece: Final = msgspec.json.Decoder(Piece).decode


class Changes:
    """Remembers what was told of each row.

    As bounded as the figures are: a row that is no more is forgotten.
    """

    @property
    def rows(self) -> int:
        """How many rows it remembers."""
        return sum(map(len, self._told.values()))

    def __init__(self) -> None:
        self._told: dict[str, dict[Labels, Number]] = {}

    def since(self, parts: Iterable[Part]) -> Iterator[Piece]:
        """Go through the figures; yield what changed after every few hundred rows.

        Many pieces may be empty. What was yielded counts as told; what comes after it does not
        until it is asked for.

        :param parts: all figures, those of a family one after the other.
        """
        piece: Piece = []
        looked = 0
        for family, some in groupby(parts, lambda part: part.family):
            told = self._told.setdefault(family.name, {})
            grows = family.kind in ("counter", "histogram")
            seen: set[Labels] = set()
            for part in some:
                rows = part.rows
                seen.update(labels for labels, _ in rows)
                changes = list(_growth(told, rows) if grows else _change(told, rows))
                if changes:
                    piece.append((family.name, changes))
                looked += len(rows)
                if looked >= ROWS_AT_A_TIME:
                    yield piece
                    piece, looked = [], 0
            if len(told) > len(seen):
                gone = told.keys() - seen
                for labels in gone:
                    del told[labels]
                if not grows:
                    piece.append((family.name, [(labels, None) for labels in gone]))
        yield piece


def _growth(told: dict[Labels, Number], rows: Iterable[Row]) -> Iterator[Change]:
    for labels, value in rows:
        before = told.get(labels)
        if value != before:
            told[labels] = value
            # One that is smaller than it was began anew.
            yield labels, value - before if before is not None and value > before else value


def _change(told: dict[Labels, Number], rows: Iterable[Row]) -> Iterator[Change]:
    for labels, value in rows:
        if value != told.get(labels):
            told[labels] = value
            yield labels, value
