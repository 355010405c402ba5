"""Bounds of the program made so small that a run of some dozen requests comes to all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

#: Module, name, and what it may be beside what it is.
LIMITS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("store", "SEAL_BYTES", (1, 1500, 6000)),
    ("upkeep", "SNAPSHOT_EVENTS", (1, 4, 15)),
    # A pause after every piece of a snapshot.
    ("upkeep", "SLICE_SECONDS", (-1.0,)),
    ("recorded_ids", "FRESH_IDS", (1, 5)),
    ("recorded_ids", "UNSYNCED_BYTES", (1, 100)),
    ("recorded_ids", "OPEN_FILES", (1,)),
    ("recorded_ids", "TABLE_STEP_IDS", (1, 6)),
    ("recorded_ids", "TABLE_LEAST_IDS", (1, 6)),
    ("loading", "STEP_LINES", (3, 10)),
    ("segment_reading", "SLICE_BYTES", (1, 2000)),
    ("segments", "FIRST_LINES", (1,)),
    ("snapshot_rows", "CHUNK_QUARTERS", (1, 3)),
    ("snapshot_rows", "CHUNK_RECENT", (1, 3)),
    ("recording", "MAX_GROUP_EVENTS", (1, 3)),
)


def missing() -> list[str]:
    """The bounds that are not where they are said to be, and so are never made small."""
    absent = []
    for module, name, _ in LIMITS:
        try:
            if not hasattr(import_module(f"omnigate.ledger.{module}"), name):
                absent.append(f"{module}.{name}")
        except ImportError:
            absent.append(module)
    return absent


@contextlib.contextmanager
def small_limits(rng: Random) -> Iterator[None]:
    """Make some of the bounds small, which the dice decide."""
    with contextlib.ExitStack() as undo:
        for module, name, small in LIMITS:
            chosen = rng.choice((None, *small))
            with contextlib.suppress(ImportError):
                holder = import_module(f"omnigate.ledger.{module}")
                if chosen is not None and hasattr(holder, name):
                    undo.callback(setattr, holder, name, getattr(holder, name))
                    setattr(holder, name, chosen)
        yield
