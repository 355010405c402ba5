"""What somebody wants to know of usage, as the address of the page says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

import attrs

from omnigate.control.dashboard.spans import Span, read_span

#: What is chosen between, and what it is called.
GROUPINGS: Final[Mapping[str, str]] = {
    "key": "By key",
    "model": "By model",
    "upstream": "By upstream",
    "day": "By day",
}

#: What one of may be told alone, by day: the ledger keeps no sums by two of them.
KINDS: Final = ("key", "model", "upstream")

#: Characters of a name in the name of a file, and what stands for all that is odd there.
_FILE_CHARS: Final = 64
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


@attrs.frozen
class Asked:
    """What is wanted.

    :ivar by: one of :data:`GROUPINGS`.
    :ivar kind: one of :data:`KINDS` where the days of one name alone are wanted, else empty.
    :ivar name: that name.
    """

    by: str
    span: Span
    kind: str = ""
    name: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters that lead to it again, but for the days."""
        return {"by": self.by, **({self.kind: self.name} if self.kind else {})}

    @property
    def filename(self) -> str:
        """What a file of it is called."""
        one = f"-of-{self.kind}-{_ODD.sub('-', self.name)[:_FILE_CHARS]}" if self.kind else ""
        return f"omnigate-usage-by-{self.by}{one}-{self.span.file_part}.csv"


def read_asked(query: Mapping[str, str], today: date) -> Asked:
    """Return what an address asks for; by key where it says nothing that is known."""
    span = read_span(query, today)
    for kind in KINDS:
        if kind in query:
            return Asked("day", span, kind, query[kind])
    by = query.get("by", "key")
    return Asked(by if by in GROUPINGS else "key", span)
