"""The figures of all workers as one: what their parent has heard of them, summed up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnigate.gateway.figure_changes import Piece
from omnigate.gateway.figures import FAMILIES
from omnigate.gateway.tally import MAX_ROWS
from omnigate.metric_families import OTHER, Family, Labels, Number, Part, parts_of

_BY_NAME: Final = {family.name: family for family in FAMILIES}

#: Rows of workers that are added up in one turn of the reactor: three or four milliseconds.
_ROWS_TOGETHER: Final = 10_000

_Rows = dict[Labels, Number]


class FigureSums:
    """Counters since the parent's start, and the other figures of each worker that runs.

    Bounded like a plane's own: of more than :data:`~omnigate.gateway.tally.MAX_ROWS` rows of a
    counter, which workers that are reloaded with ever new names may come to, the rest is ``other``.
    """

    def __init__(self) -> None:
        self._counted: dict[str, _Rows] = {}
        self._kept: dict[int, dict[str, _Rows]] = {}

    def take(self, worker: int, piece: Piece) -> None:
        """Take what changed in a worker's figures."""
        for name, changes in piece:
            family = _BY_NAME[name]
            if family.kind in ("counter", "histogram"):
                counted = self._counted.setdefault(name, {})
                for labels, value in changes:
                    if value is None:
                        continue
                    if labels not in counted and len(counted) >= MAX_ROWS:
                        labels = (OTHER, *labels[1:])
                    counted[labels] = counted.get(labels, 0) + value
            else:
                kept = self._kept.setdefault(worker, {}).setdefault(name, {})
                for labels, value in changes:
                    if value is None:
                        kept.pop(labels, None)
                    elif labels in kept or len(kept) < MAX_ROWS:
                        kept[labels] = value

    def forget(self, worker: int) -> None:
        """Forget a worker that is gone; what it counted stays."""
        self._kept.pop(worker, None)

    def parts(self) -> Iterator[Part]:
        """Read the sums, as :meth:`omnigate.gateway.plane_figures.PlaneFigures.parts` does."""
        for family in FAMILIES:
            if family.kind in ("counter", "histogram"):
                yield from parts_of(family, list(self._counted.get(family.name, {}).items()))
            else:
                yield from self._together(family)

    def _together(self, family: Family) -> Iterator[Part]:
        """Put together what the workers have of a family; parts without rows give others a turn."""
        found: _Rows = {}
        looked = 0
        for kept in list(self._kept.values()):
            rows = kept.get(family.name, {})
            for labels, value in rows.items():
                before = found.get(labels)
                if before is None:
                    found[labels] = value
                elif family.kind == "sum":
                    found[labels] = before + value
                elif family.kind == "largest":
                    found[labels] = max(before, value)
                else:
                    found[labels] = min(before, value)
            looked += len(rows)
            if looked >= _ROWS_TOGETHER:
                yield Part(family, [])
                looked = 0
        yield from parts_of(family, list(found.items()))
