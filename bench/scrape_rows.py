"""What a scrape costs a reactor, of the most rows that a plane counts and of the most workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from bench.hostile import Call, Row
from omnigate.control.counters_api import ROWS_A_TURN
from omnigate.control.metrics import ControlMetrics
from omnigate.gateway import figures
from omnigate.gateway.figure_changes import (
    Change,
    Changes,
    Piece,
    decode_piece,
    encode_piece,
)
from omnigate.gateway.figure_sums import FigureSums
from omnigate.gateway.tally import MAX_ROWS
from omnigate.metric_families import Labels, Part, parts_of
from omnigate.metric_text import exposition, family_of

GROUP: Final = "scrape"

#: The most workers, and the most upstreams and resting targets that each may tell of.
WORKERS, UPSTREAMS, RESTS = 64, 500, 1_000


def _parts() -> Iterator[Part]:
    """The figures that have the most rows."""
    counts: dict[Labels, int] = {
        (f"model-{row % 5000}", f"kind-{row // 5000}", "2xx", "answered"): row
        for row in range(MAX_ROWS)
    }
    yield from parts_of(figures.REQUESTS, list(counts.items()))


def _written() -> Iterator[object]:
    parts = list(_parts())
    yield from exposition(map(family_of, parts), True)


def _told() -> Iterator[object]:
    parts = list(_parts())
    changes = Changes()
    for _ in range(2):
        yield from map(encode_piece, changes.since(parts))


def _taken() -> Iterator[object]:
    texts = [encode_piece(piece) for piece in Changes().since(_parts())]
    sums = FigureSums()
    for text in texts:
        sums.take(0, decode_piece(text))
        yield None
    yield from sums.parts()


def _added_up() -> Iterator[object]:
    resting: list[Change] = [((f"u{row % UPSTREAMS}", f"m-{row}"), 1) for row in range(RESTS)]
    busy: list[Change] = [((f"u{row}", "busy"), 3) for row in range(UPSTREAMS)]
    piece: Piece = [
        (figures.RESTING.name, resting),
        (figures.UPSTREAM_CONNECTIONS.name, busy),
    ]
    sums = FigureSums()
    for worker in range(WORKERS):
        sums.take(worker, piece)
    yield None
    yield from sums.parts()


def _control_metrics() -> ControlMetrics:
    """The metrics of a control plane whose data planes have told the most rows."""
    metrics = ControlMetrics()
    names = [f"model-{number}" for number in range(5000)]
    metrics.allow_names(names, ())
    for row in range(MAX_ROWS):
        kind = row // 5000
        outcome = ("answered", "failed")[kind // 5]
        labels = (f"model-{row % 5000}", "chat", f"{1 + kind % 5}xx", outcome)
        metrics.counted(figures.REQUESTS.name, labels, 1)
    return metrics


def _copied() -> Iterator[object]:
    metrics = _control_metrics()
    yield None
    yield metrics.read()


def _counted() -> Iterator[object]:
    metrics = ControlMetrics()
    yield None
    for turn in range(3):
        for row in range(ROWS_A_TURN):
            labels = (f"model-{row}", "chat", "2xx", f"kind-{turn}")
            metrics.counted(figures.REQUESTS.name, labels, 1)
        yield None


def scrape_rows() -> Iterator[Row]:
    """Yield the dearest step of each part of a scrape."""
    for name, steps in (
        (f"{MAX_ROWS} rows written", _written),
        (f"{MAX_ROWS} rows told to a parent", _told),
        (f"{MAX_ROWS} rows taken in by it", _taken),
        (f"{WORKERS} workers added up", _added_up),
        (f"{MAX_ROWS} rows copied by a control plane", _copied),
        (f"{ROWS_A_TURN} rows of a report counted by it", _counted),
    ):
        yield Row(GROUP, name, _dearest(steps))


def _dearest(steps: Callable[[], Iterator[object]]) -> Callable[[], Call]:
    """Find the step that takes longest, but for the first, which prepares; return that one."""
    going = steps()
    next(going)
    costs = []
    while True:
        began = time.thread_time()
        try:
            next(going)
        except StopIteration:
            break
        costs.append(time.thread_time() - began)
    dearest = costs.index(max(costs)) + 1

    def make() -> Call:
        going = steps()
        for _ in range(dearest):
            next(going)
        return lambda: next(going)

    return make
