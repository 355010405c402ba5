"""What the page of an upstream lists: the models it serves, and what data planes say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from omnigate.config.schema import Config
from omnigate.control.dashboard.target_states import UPSTREAM_STATES, State
from omnigate.control.plane_states import PlaneState
from omnigate.upstream_state import UpstreamState

#: Models and data planes that are listed.
MAX_SERVED: Final = 50
MAX_PLANES: Final = 50

#: Routes to one model that are named.
MAX_ROUTES_NAMED: Final = 5


@attrs.frozen
class PlaneRow:
    """What one data plane says of an upstream.

    :ivar resting: models that fail there, each with until when it rests.
    """

    name: str
    told_ms: int
    state: State
    resting: tuple[tuple[str, int], ...]


def served_models(config: Config, upstream: str) -> tuple[list[tuple[str, tuple[str, ...]]], int]:
    """Return the models that an upstream is asked for, with some routes to each; and how many."""
    found: dict[str, list[str]] = {}
    for route in config.routes:
        for target in route.targets:
            if target.upstream == upstream:
                routes = found.setdefault(target.model, [])
                if len(routes) < MAX_ROUTES_NAMED and route.model not in routes:
                    routes.append(route.model)
    rows = [(model, tuple(found[model])) for model in sorted(found)[:MAX_SERVED]]
    return rows, len(found)


def plane_rows(planes: Iterable[PlaneState], upstream: str, now_ms: int) -> list[PlaneRow]:
    """Return what each data plane says of an upstream, those with trouble first."""
    rows = []
    for plane in planes:
        if plane.is_silent(now_ms):
            state = State("silent", "quiet")
        elif upstream in plane.missing:
            state = State("no credential", "bad")
        else:
            told = plane.upstreams.get(upstream, 0)
            known = told in UpstreamState.__members__.values()
            state = UPSTREAM_STATES[UpstreamState(told)] if known else State("not known", "quiet")
        resting = tuple(
            (rest.model, rest.until_ms) for rest in plane.resting if rest.upstream == upstream
        )
        rows.append(PlaneRow(plane.name, plane.told_ms, state, resting))
    rows.sort(key=lambda row: (not row.state.is_trouble, row.name))
    return rows[:MAX_PLANES]
