"""Figures as both planes keep them: a family with a name and labels, and its rows.

Metrics are made of them in :mod:`omnigate.metric_text`, a few hundred rows at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final, Literal

import attrs

#: Upper bounds of the buckets of a histogram of requests, in seconds. Data planes tell the control
#: plane the number of a bucket: with other bounds a histogram must be told under another name.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

#: What stands for names that no config has, and for those beyond a bound.
OTHER: Final = "other"
#: What stands for what a request did not get as far as.
NONE: Final = "none"

#: Rows in one part. To make and write their metrics takes two or three milliseconds.
ROWS_AT_A_TIME: Final = 400

#: The labels of a row, in the order of its family's, and its number.
Labels = tuple[str, ...]
Number = int | float
Row = tuple[Labels, Number]

#: Counters only grow, with the workers as well; a worker that ends takes nothing back. Of the other
#: figures each worker's last word counts: their sum, the largest or the smallest.
Kind = Literal["counter", "histogram", "sum", "largest", "smallest"]


@attrs.frozen
class Family:
    """What a figure is called, what it tells, and its labels.

    A histogram's rows have one label more: the number of the bucket, or :data:`TOTAL`.

    :ivar buckets: upper bounds of a histogram's buckets, in the unit of its name.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = BUCKETS


@attrs.frozen
class Part:
    """Some rows of a family; those of a histogram are all in one part."""

    family: Family
    rows: Collection[Row]


#: In the place of a bucket's number: the sum of what was measured.
TOTAL: Final = "total"


def parts_of(family: Family, rows: Iterable[Row]) -> Iterator[Part]:
    """Cut rows into parts of :data:`ROWS_AT_A_TIME`; the first is there even if it is empty."""
    if family.kind == "histogram":
        yield Part(family, list(rows))
        return
    left = iter(rows)
    yield Part(family, list(islice(left, ROWS_AT_A_TIME)))
    while some := list(islice(left, ROWS_AT_A_TIME)):
        yield Part(family, some)
