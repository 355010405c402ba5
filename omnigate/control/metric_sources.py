"""Where figures of a scrape come from: tables that are counted in, and what is kept elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import attrs

from omnigate.metric_families import NONE, OTHER, Family, Labels, Number, Part

#: Label values of one kind that a process remembers. Names come from the config, which may have
#: 5,000 routes; a config that is reloaded with ever new names ends here.
MAX_NAMES: Final = 10_000


class LabelNames:
    """Names that were let in as label values; the others are one."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def allow(self, names: Collection[str]) -> None:
        """Let names in, as long as there are not too many."""
        for name in names:
            if len(self._known) < MAX_NAMES:
                self._known.add(name)

    def label(self, name: str | None) -> str:
        """Return the label of a name."""
        if name is None:
            return NONE
        return name if name in self._known else OTHER


@attrs.define(eq=False)
class CountedTable:
    """What is counted here of a family, by labels."""

    family: Family
    rows: dict[Labels, Number] = attrs.Factory(dict)

    def add(self, labels: Labels, number: Number = 1) -> None:
        """Count."""
        self.rows[labels] = self.rows.get(labels, 0) + number

    def read(self) -> list[Part]:
        """Copy it; as a table, which is ten times as quick as a list of its rows."""
        return [Part(self.family, self.rows.copy().items())]


@attrs.define(eq=False)
class WatchedFigure:
    """A figure that is kept elsewhere.

    :ivar before: what a counter had come to where it was kept before, since counters only grow.
    :ivar last: what was read of it last.
    """

    family: Family
    read_value: Callable[[], float | None]
    before: float = 0.0
    last: float = 0.0

    def read(self) -> list[Part]:
        """Read it."""
        value = self.read_value()
        if value is None:
            return [Part(self.family, [])]
        self.last = self.before + value
        return [Part(self.family, [((), self.last)])]
