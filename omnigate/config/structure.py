"""How the tables of a document become attrs classes: cattrs, strict, and every fault with its path.

A field's annotation carries its check: ``Annotated[int, Value(whole(0, 9))]`` for a single value,
``Annotated[tuple[Table, ...], Array(0, 100)]`` for an array. A field without either is a table.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.frozen
class Value:
    """Mark of a field with a single value: ``check`` returns what to keep or raises."""

    check: Callable[[object], object]


@attrs.frozen
class Array:
    """Mark of a field with an array of ``low`` to ``high`` members."""

    low: int
    high: int
