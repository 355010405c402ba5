"""What is known of targets and upstreams at one moment, and the word for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from omnigate.control.plane_states import PlaneState, Resting, resting_targets, upstream_states
from omnigate.control.target_record import Fared
from omnigate.upstream_state import UpstreamState

#: Attempts below this number say little about a target.
ENOUGH_ATTEMPTS: Final = 5

#: From this share of failed attempts on a target is told of, and from the second on as broken.
FAILING_SHARE: Final = 0.1
BROKEN_SHARE: Final = 0.5


@attrs.frozen
class State:
    """How a target or an upstream is, in a word or two.

    :ivar kind: ``good``, ``warn``, ``bad`` or ``quiet``.
    :ivar until_ms: until when it rests.
    """

    text: str
    kind: str
    until_ms: int | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether somebody should look at it."""
        return self.kind in ("warn", "bad")


@attrs.frozen
class Moment:
    """What data planes tell of upstreams, all that are heard together.

    :ivar is_heard: whether any data plane reports; if none does, nothing is known.
    :ivar upstreams: the states of those that are not healthy.
    :ivar resting: the targets that failed and have not answered since.
    :ivar until_ms: until when the last target of each upstream rests that has any.
    :ivar missing: upstreams without a credential, and the names of the processes that lack it.
    """

    now_ms: int
    is_heard: bool
    upstreams: Mapping[str, UpstreamState]
    resting: Mapping[tuple[str, str], Resting]
    missing: Mapping[str, Sequence[str]]
    until_ms: Mapping[str, int] = attrs.Factory(dict)

    def is_passed_over(self, upstream: str) -> bool:
        """Whether an upstream is not asked at all, for want of a credential."""
        return upstream in self.missing

    def rests(self, upstream: str, model: str) -> bool:
        """Whether a target is asked after all others."""
        resting = self.resting.get((upstream, model))
        if resting is not None:
            return resting.until_ms > self.now_ms
        # A process that is too old to name them tells when all of an upstream's rest.
        return self.upstreams.get(upstream) is UpstreamState.COOLING


def moment_of(planes: Sequence[PlaneState], now_ms: int) -> Moment:
    """Return what these processes know; those that are silent know nothing any more."""
    heard = [plane for plane in planes if not plane.is_silent(now_ms)]
    missing: dict[str, list[str]] = {}
    for plane in heard:
        for name in plane.missing:
            missing.setdefault(name, []).append(plane.name)
    resting = resting_targets(heard)
    until: dict[str, int] = {}
    for rest in resting.values():
        until[rest.upstream] = max(rest.until_ms, until.get(rest.upstream, 0))
    return Moment(now_ms, bool(heard), upstream_states(heard), resting, missing, until)


def target_state(moment: Moment, upstream: str, model: str, fared: Fared) -> State:
    """Return how a target is.

    :param fared: its attempts of the last minutes.
    """
    if not moment.is_heard:
        return State("not known", "quiet")
    if moment.is_passed_over(upstream):
        return State("no credential", "bad")
    if moment.upstreams.get(upstream) is UpstreamState.OPEN:
        return State("credential refused", "bad")
    resting = moment.resting.get((upstream, model))
    if moment.rests(upstream, model):
        return State("resting", "warn", None if resting is None else resting.until_ms)
    if resting is not None:
        return State("on trial", "warn")
    return _by_share(fared)


def upstream_state(moment: Moment, name: str, fared: Fared) -> State:
    """Return how an upstream is.

    :param fared: the attempts of the last minutes at all its models.
    """
    if not moment.is_heard:
        return State("not known", "quiet")
    if moment.is_passed_over(name):
        return State("no credential", "bad")
    state = moment.upstreams.get(name, UpstreamState.HEALTHY)
    if state is UpstreamState.HEALTHY:
        return _by_share(fared)
    return attrs.evolve(
        UPSTREAM_STATES[state],
        until_ms=moment.until_ms.get(name) if state is UpstreamState.COOLING else None,
    )


#: The words for what data planes tell of an upstream.
UPSTREAM_STATES: Final = {
    UpstreamState.HEALTHY: State("healthy", "good"),
    UpstreamState.DEGRADED: State("some models fail", "warn"),
    UpstreamState.HALF_OPEN: State("on trial", "warn"),
    UpstreamState.COOLING: State("all models rest", "bad"),
    UpstreamState.OPEN: State("credential refused", "bad"),
}


def _by_share(fared: Fared) -> State:
    if not fared.attempts:
        return State("idle", "quiet")
    if fared.attempts >= ENOUGH_ATTEMPTS:
        share = fared.failed / fared.attempts
        if share >= BROKEN_SHARE:
            return State("failing", "bad")
        if share >= FAILING_SHARE:
            return State("some attempts fail", "warn")
    return State("healthy", "good")
