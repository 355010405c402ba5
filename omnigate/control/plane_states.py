"""The processes of data planes, as each of them told of itself last.

:class:`~omnigate.control.reports.Reports` knows what they have in all; here is who they are, what
config each has in force, what waits in its spool and which targets it lets rest. Kept in memory
and bounded. One that fell silent is kept for an hour, since that is what somebody looks for; one
that said it leaves is forgotten at once, and so is one whose successor has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import msgspec

from omnigate.config.values import MAX_NAME_CHARS
from omnigate.control.reports import MAX_REPORTERS, MAX_UPSTREAMS, acceptable
from omnigate.text import one_line
from omnigate.upstream_state import UpstreamState, worst

#: Reports come every five seconds; after as many as six have not come, something is wrong.
SILENT_MS: Final = 30_000

#: A data plane asks for its config every few seconds; after this long without a usable answer it
#: works with what may be an old one.
STALE_CONFIG_MS: Final = 60_000

#: How long a process that fell silent is still shown.
KEPT_MS: Final = 3_600_000

#: The same for one that does not say who it is, as older ones do not: nobody can tell whether its
#: successor has come.
UNNAMED_KEPT_MS: Final = 120_000

#: Targets that rest and are kept of one process: as many as one tells.
MAX_RESTING: Final = 100

#: What is shown of the name of a model.
_MAX_MODEL_CHARS: Final = 256
_MAX_SECONDS: Final = 1e9


class About(msgspec.Struct):
    """What a process tells of itself, beside its figures.

    :ivar worker: which of several workers it is; -1 where there are none.
    :ivar config: the version of the config in force; empty before there is one.
    :ivar config_at: when that was put in force, in seconds since 1970; 0 before.
    :ivar polled_ago: how many seconds ago it had a usable answer to a poll; -1 before the first.
    :ivar spool_since: when the oldest event that waits ended, in seconds since 1970; 0 of none.
    :ivar missing: upstreams whose credential is not in its environment.
    :ivar resting: upstream, model, for how many seconds it rests on, and since how many it fails.
    """

    host: str = ""
    address: str = ""
    worker: int = -1
    version: str = ""
    config: str = ""
    config_at: float = 0.0
    polled_ago: float = -1.0
    spool_since: float = 0.0
    missing: list[str] = []
    resting: list[tuple[str, str, float, float]] = []


@attrs.frozen
class Resting:
    """A target that a process does not ask first.

    :ivar since_ms: since when it fails.
    :ivar until_ms: when it is asked again; in the past of one that failed and was not asked since.
    """

    upstream: str
    model: str
    since_ms: int
    until_ms: int


@attrs.frozen
class PlaneState:
    """One process, as of its last report.

    :ivar told_ms: when that came.
    :ivar version: empty of one that is too old to tell.
    :ivar config_ms: when its config was put in force; ``None`` where it has none, or does not say.
    :ivar polled_ms: when it had the last usable answer to a poll.
    :ivar spool_since_ms: when the oldest event that waits ended.
    """

    reporter: str
    told_ms: int
    figures: Mapping[str, float]
    upstreams: Mapping[str, int]
    host: str = ""
    address: str = ""
    worker: int = -1
    version: str = ""
    config: str = ""
    config_ms: int | None = None
    polled_ms: int | None = None
    spool_since_ms: int | None = None
    missing: tuple[str, ...] = ()
    resting: tuple[Resting, ...] = ()

    @property
    def name(self) -> str:
        """What it is called, for people."""
        if not self.host:
            return f"data plane {self.reporter[:8]}" if self.reporter else "data plane"
        worker = "" if self.worker < 0 else f", worker {self.worker}"
        return f"{self.host} ({self.address}{worker})"

    @property
    def place(self) -> tuple[str, str, int] | None:
        """Where it runs; two that are there one after the other are each other's successors."""
        return (self.host, self.address, self.worker) if self.host else None

    def is_silent(self, now_ms: int) -> bool:
        """Whether it has not reported for too long."""
        return now_ms - self.told_ms > SILENT_MS

    def is_stale(self, now_ms: int) -> bool:
        """Whether its config may be an old one; not known of one that does not say."""
        return self.polled_ms is not None and now_ms - self.polled_ms > STALE_CONFIG_MS


class PlaneStates:
    """See the module's docstring."""

    def __init__(self) -> None:
        # By reporter, the one that has been silent for longest first.
        self._states: dict[str, PlaneState] = {}
        self._reporters: dict[tuple[str, str, int], str] = {}

    def told(
        self,
        reporter: str,
        figures: Mapping[str, float],
        upstreams: Mapping[str, int],
        about: About | None,
        now_ms: int,
    ) -> None:
        """Take what a process tells in place of what it told before."""
        self.leave(reporter)
        if len(self._states) >= MAX_REPORTERS:
            self.leave(next(iter(self._states)))
        state = _state(reporter, figures, upstreams, about or About(), now_ms)
        place = state.place
        if place is not None:
            if place in self._reporters:
                self.leave(self._reporters[place])
            self._reporters[place] = reporter
        self._states[reporter] = state

    def leave(self, reporter: str) -> None:
        """Forget a process that ends."""
        state = self._states.pop(reporter, None)
        if state is not None and state.place is not None:
            del self._reporters[state.place]

    def all(self, now_ms: int) -> list[PlaneState]:
        """Return the processes, by their names; those that are silent for very long are gone."""
        for state in list(self._states.values()):
            kept_ms = KEPT_MS if state.host else UNNAMED_KEPT_MS
            if now_ms - state.told_ms > kept_ms:
                self.leave(state.reporter)
        return sorted(
            self._states.values(), key=lambda state: (state.host, state.address, state.worker)
        )

    def heard(self, now_ms: int) -> list[PlaneState]:
        """Return the processes that are not silent."""
        return [state for state in self.all(now_ms) if not state.is_silent(now_ms)]


def upstream_states(states: Iterable[PlaneState]) -> dict[str, UpstreamState]:
    """Return the worst that processes tell of each upstream that is not healthy everywhere."""
    told: dict[str, list[int]] = {}
    for state in states:
        for name, number in state.upstreams.items():
            told.setdefault(name, []).append(number)
    return {name: worst(numbers) for name, numbers in told.items()}


def resting_targets(states: Iterable[PlaneState]) -> dict[tuple[str, str], Resting]:
    """Return the targets that fail or rest, each as the process has it that rests it longest."""
    found: dict[tuple[str, str], Resting] = {}
    for state in states:
        for resting in state.resting:
            key = (resting.upstream, resting.model)
            before = found.get(key)
            if before is None or before.until_ms < resting.until_ms:
                found[key] = resting
    return found


def _state(
    reporter: str,
    figures: Mapping[str, float],
    upstreams: Mapping[str, int],
    about: About,
    now_ms: int,
) -> PlaneState:
    known = 0 <= about.polled_ago < _MAX_SECONDS
    return PlaneState(
        reporter=reporter,
        told_ms=now_ms,
        figures=dict(acceptable(figures.items())),
        upstreams=dict(list(upstreams.items())[:MAX_UPSTREAMS]),
        host=one_line(about.host, MAX_NAME_CHARS),
        address=one_line(about.address, MAX_NAME_CHARS),
        worker=about.worker,
        version=one_line(about.version, MAX_NAME_CHARS),
        config=one_line(about.config, MAX_NAME_CHARS),
        config_ms=_ms(about.config_at),
        polled_ms=now_ms - int(about.polled_ago * 1000) if known else None,
        spool_since_ms=_ms(about.spool_since),
        missing=tuple(one_line(name, MAX_NAME_CHARS) for name in about.missing[:MAX_UPSTREAMS]),
        resting=tuple(
            Resting(
                one_line(upstream, MAX_NAME_CHARS),
                one_line(model, _MAX_MODEL_CHARS),
                now_ms - int(_bounded(since) * 1000),
                now_ms + int(_bounded(seconds) * 1000),
            )
            for upstream, model, seconds, since in about.resting[:MAX_RESTING]
        ),
    )


def _ms(seconds: float) -> int | None:
    """Milliseconds of a moment; ``None`` of none, and of what is no moment."""
    return int(seconds * 1000) if 0 < seconds < 253_402_300_800 else None


def _bounded(seconds: float) -> float:
    return min(max(-_MAX_SECONDS, seconds), _MAX_SECONDS)
