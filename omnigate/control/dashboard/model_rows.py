"""Models and their targets as pages show them: rows out of the config and what is known lately."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import attrs

from omnigate.capabilities import Capabilities
from omnigate.config.models import target_capabilities
from omnigate.config.prices import price_for
from omnigate.config.schema import Config, RouteConfig, TargetConfig, UpstreamConfig
from omnigate.control.dashboard.causes import Cause, attempt_cause
from omnigate.control.dashboard.paths import model_path, request_path, upstream_path
from omnigate.control.dashboard.target_states import Moment, State, target_state
from omnigate.control.lately import Lately
from omnigate.control.target_record import AttemptError, Fared
from omnigate.money import Price

#: Ten minutes in slots of the record: what a state is judged by.
LATELY_SLOTS: Final = 2

STRATEGIES: Final = {
    "failover": "The first target that can answer; the next ones are asked after a failure.",
    "round_robin": "Targets take turns; the next ones are asked after a failure.",
    "weighted": "A target is drawn by weight; the others are asked after a failure.",
}


@attrs.frozen
class ErrorRow:
    """An attempt that failed, why, and where to read more."""

    error: AttemptError
    cause: Cause
    path: str


@attrs.frozen
class TargetRow:
    """One target of a route.

    :ivar share: which share of requests asks it first while all are awake; ``None`` where the
        order decides.
    :ivar fared: its attempts of the last hour.
    :ivar median_ms: what half of the answers took at most, and ``slow_ms`` 95 % of them.
    """

    upstream: str
    model: str
    upstream_path: str
    weight: int
    share: float | None
    state: State
    fared: Fared
    median_ms: float | None
    slow_ms: float | None
    last_error: ErrorRow | None
    price: Price | None
    is_own_price: bool
    capabilities: tuple[str, ...]


@attrs.frozen
class RouteRow:
    """A model that clients ask for."""

    model: str
    path: str
    strategy: str
    strategy_words: str
    cache_ttl_s: int
    state: State
    now: tuple[str, ...]
    targets: tuple[TargetRow, ...]


def error_row(error: AttemptError) -> ErrorRow:
    """Return an attempt that failed, with its cause."""
    cause = attempt_cause(error.outcome)
    return ErrorRow(error, cause, request_path(error.request_id))


def route_row(
    config: Config,
    upstreams: dict[str, UpstreamConfig],
    route: RouteConfig,
    lately: Lately,
    moment: Moment,
    most: int | None = None,
) -> RouteRow:
    """Return a route with all that is known of its targets.

    :param upstreams: those of the config, by name.
    :param most: how many targets have rows; all, if it is left out. Whatever else is told is of
        all of them.
    """
    shares = first_shares(route)[:most]
    targets = tuple(
        _target_row(config, upstreams[target.upstream], route, target, share, lately, moment)
        for target, share in zip(route.targets[:most], shares, strict=True)
    )
    return RouteRow(
        route.model,
        model_path(route.model),
        route.strategy,
        STRATEGIES[route.strategy]
        if len(route.targets) > 1
        else "One target, which is always asked.",
        route.cache_ttl_s,
        states_of(route, lately, moment),
        tried_now(route, moment),
        targets,
    )


def states_of(route: RouteConfig, lately: Lately, moment: Moment) -> State:
    """Return how a route is, without all the rest."""
    return route_state(
        [
            target_state(
                moment,
                target.upstream,
                target.model,
                lately.targets.fared(target.upstream, target.model, moment.now_ms, LATELY_SLOTS),
            )
            for target in route.targets
        ]
    )


def route_state(states: Sequence[State]) -> State:
    """Return how a route is whose targets are so: it answers as long as one of them does."""
    troubled = [state for state in states if state.is_trouble]
    if not troubled:
        kinds = {state.kind for state in states}
        return State("healthy", "good") if "good" in kinds else states[0]
    if len(troubled) < len(states):
        return State(f"{len(troubled)} of {len(states)} targets in trouble", "warn")
    if len(states) == 1:
        return states[0]
    worst = "bad" if all(state.kind == "bad" for state in states) else "warn"
    return State("all targets in trouble", worst)


def first_shares(route: RouteConfig) -> list[float | None]:
    """Return which share of requests asks each target first, as long as none rests."""
    count = len(route.targets)
    if count == 1 or route.strategy == "failover":
        return [None] * count
    if route.strategy == "round_robin":
        return [1 / count] * count
    total = sum(target.weight for target in route.targets)
    if not total:
        return [None] * count  # then the order decides
    return [float(Fraction(target.weight, total)) for target in route.targets]


def tried_now(route: RouteConfig, moment: Moment) -> tuple[str, ...]:
    """Return what a request for a route would try now, one sentence a step."""
    able = [target for target in route.targets if not moment.is_passed_over(target.upstream)]
    awake = [target for target in able if not moment.rests(target.upstream, target.model)]
    rested = [target for target in able if moment.rests(target.upstream, target.model)]
    steps = []
    if awake:
        steps.append(_awake_words(route, awake))
    if rested:
        beginning = "Then those that rest" if awake else "All rest, and are asked all the same"
        steps.append(f"{beginning}: {_in_order(rested)}.")
    passed = [target for target in route.targets if target not in able]
    if passed:
        steps.append(f"Passed over for want of a credential: {_in_order(passed)}.")
    return tuple(steps)


def _awake_words(route: RouteConfig, awake: Sequence[TargetConfig]) -> str:
    if len(awake) == 1:
        return f"{_name(awake[0])} first."
    total = sum(target.weight for target in awake)
    if route.strategy == "round_robin":
        return f"In turn, whoever is next: {_in_order(awake)}."
    if route.strategy == "weighted" and total:
        drawn = ", ".join(
            f"{_name(target)} ({100 * target.weight / total:.0f} %)"
            for target in awake
            if target.weight
        )
        last = [target for target in awake if not target.weight]
        then = f"; after all of these {_in_order(last)}" if last else ""
        return f"Drawn by weight: {drawn}{then}."
    return f"{_in_order(awake)}, in this order."


def _in_order(targets: Sequence[TargetConfig]) -> str:
    return ", then ".join(map(_name, targets))


def _name(target: TargetConfig) -> str:
    return f"{target.model} at {target.upstream}"


def _target_row(
    config: Config,
    upstream: UpstreamConfig,
    route: RouteConfig,
    target: TargetConfig,
    share: float | None,
    lately: Lately,
    moment: Moment,
) -> TargetRow:
    name, model = target.upstream, target.model
    hour = lately.targets.fared(name, model, moment.now_ms)
    recent = lately.targets.fared(name, model, moment.now_ms, LATELY_SLOTS)
    error = lately.targets.last_error(name, model)
    return TargetRow(
        name,
        model,
        upstream_path(name),
        target.weight,
        share,
        target_state(moment, name, model, recent),
        hour,
        _ms(hour.seconds(0.5)),
        _ms(hour.seconds(0.95)),
        None if error is None else error_row(error),
        price_for(config, route.model, name, model),
        target.price is not None,
        capability_words(upstream, target_capabilities(target, upstream)),
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def capability_words(upstream: UpstreamConfig, can: Capabilities) -> tuple[str, ...]:
    """Return what a model can do as far as it is known here, in a few words each."""
    if upstream.protocol == "anthropic":
        words = [
            "adaptive thinking" if can.thinking == "adaptive" else "thinking with a budget",
            "" if can.thinking_off else "always thinks",
            "" if can.forced_tools else "no forced tools",
            "structured outputs" if can.structured_outputs else "",
            "continues a last message" if can.prefill else "",
        ]
    else:
        words = [
            "reasoning" if can.reasoning else "",
            "" if can.stop else "no stop sequences",
            f"{can.upstream_api} only" if can.upstream_api else "",
            "tools over Responses only" if can.tools_over_responses else "",
        ]
    efforts = can.efforts
    words += [
        "" if can.sampling else "no temperature",
        f"efforts {efforts[0]} to {efforts[-1]}" if len(efforts) > 1 else "",
        f"up to {can.max_output:,} tokens out".replace(",", "\N{NARROW NO-BREAK SPACE}")
        if can.max_output
        else "",
    ]
    return tuple(word for word in words if word)
