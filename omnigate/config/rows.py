"""The tables of a document as the TOML reader gave it, and values that two of them share.

Whatever has not even the right shape is passed over; the structure tells about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from omnigate.config.structure import Fault

Row: TypeAlias = Mapping[str, object]


def table(above: Row, name: str) -> Row:
    """Return a table, an empty one where there is none."""
    found = above.get(name)
    return found if isinstance(found, Mapping) else {}


def rows(above: Row, name: str, prefix: str = "") -> Iterator[tuple[str, Row]]:
    """Yield each table of an array of tables with its path.

    :param prefix: the path of the table above, with its dot.
    """
    found = above.get(name)
    if isinstance(found, list):
        for index, row in enumerate(found):
            if isinstance(row, Mapping):
                yield f"{prefix}{name}[{index}]", row


def used_once(found: list[tuple[str, Row]], field: str) -> Iterator[Fault]:
    """Find values that two tables share; case does not make a hash another one."""
    first: dict[str, str] = {}
    for path, row in found:
        value = row.get(field)
        if not isinstance(value, str):
            continue
        value = value.lower() if field == "key_sha256" else value
        if value in first:
            yield Fault(f"{path}.{field}", f"is the same as {first[value]}.{field}")
        else:
            first[value] = path
