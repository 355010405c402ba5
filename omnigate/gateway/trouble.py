"""How targets fare: what goes wrong is told to the operator, and told when it is over.

A client is told that its request failed; that a credential is refused, or that a target rests, is
for whoever can mend it. Lines are bounded, however many requests meet the same thing.
"""

from __future__ import annotations

from collections import Counter

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from omnigate.gateway.tables import Tables, Target
from omnigate.token_bucket import TokenBucket
from omnigate.upstream_state import UpstreamState

#: How often the log says that an upstream refuses our credential, however many requests it refuses,
#: and even if it takes every other one (a 403 may be about one model). Nobody mends it faster.
SECONDS_BETWEEN_REFUSALS = 60.0

#: Targets whose rests are known at a time, by upstream and model; more are not told of.
MAX_RESTS = 1_000

#: Rests that are told in a minute: an upstream that fails may have hundreds of models.
REST_LINES_A_MINUTE = 60


@attrs.define
class Refusal:
    """An upstream that has refused our credential.

    :ivar lasts: whether it still does; no request was answered since.
    :ivar told_at: when the log said so last, by the clock.
    :ivar told: whether the log has not said yet that it is over.
    """

    lasts: bool = True
    told_at: float = float("-inf")
    told: bool = False


@attrs.define
class Rest:
    """A target that fails: from its first rest to the first answer after the last.

    :ivar since: when it began, by the clock.
    :ivar until: when it may be asked again.
    :ivar told: whether the log has its beginning.
    """

    since: float
    until: float
    told: bool


class Troubles:
    """Upstreams that refuse our credential, and targets that rest.

    :ivar credentials: the former, by name, with those that did so before.
    :ivar rests: the latter, by upstream and model; of routes that share both, the longest.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._lines = TokenBucket(REST_LINES_A_MINUTE)
        self.credentials: dict[str, Refusal] = {}
        self.rests: dict[tuple[str, str], Rest] = {}
        self._models: tuple[Tables | None, dict[str, set[str]]] = (None, {})

    def credential_refused(self, target: Target, status: int | None) -> None:
        """Note that an upstream does not take our credential.

        :param status: what it answered; ``None`` where there is no credential to be asked with.
        """
        name = target.upstream_name
        refusal = self.credentials.setdefault(name, Refusal())
        refusal.lasts = True
        now = self._clock.seconds()
        if now - refusal.told_at < SECONDS_BETWEEN_REFUSALS:
            return
        refusal.told_at = now
        refusal.told = True
        variable = target.upstream.config.api_key_env
        if status is None:
            # Nobody was asked, so nobody has refused.
            self.log.error(
                "upstream {name} has no credential: {variable} is not set; set it in the data "
                "plane's environment and restart",
                name=name,
                variable=variable,
            )
            return
        remedy = f"correct {variable} and restart"
        if variable is None:
            remedy = "none is sent, name one in api_key_env"
        self.log.error(
            "upstream {name} refuses the gateway's credential: {status} to model {model}; {remedy}",
            name=name,
            status=status,
            model=target.model,
            remedy=remedy,
        )

    def succeeded(self, target: Target) -> None:
        """Note that a target has answered: that forgets its failures, and ends its trouble."""
        target.cooldown.succeeded()
        if self.credentials or self.rests:
            self.answered(target)

    def failed(self, target: Target, why: str, asked_seconds: float | None = None) -> None:
        """Note that an attempt at a target has failed, which may make it rest.

        :param why: the outcome of the attempt.
        :param asked_seconds: how long its provider wants to be left alone.
        """
        rest = target.cooldown.failed(self._clock.seconds(), asked_seconds)
        if rest:
            self.rested(target, why, rest)

    def rested(self, target: Target, why: str, seconds: float) -> None:
        """Note that a target rests from now on.

        :param why: the outcome of the attempt that brought it about.
        """
        now = self._clock.seconds()
        key = (target.upstream_name, target.model)
        rest = self.rests.get(key)
        if rest is not None:
            rest.until = max(rest.until, now + seconds)
            return
        if len(self.rests) >= MAX_RESTS:
            return
        told = not self._lines.take(now)
        self.rests[key] = Rest(now, now + seconds, told)
        if told:
            self.log.warn(
                "target {upstream}/{model} rests for {seconds:.0f} s: {why}",
                upstream=target.upstream_name,
                model=target.model,
                seconds=seconds,
                why=why.replace("_", " "),
            )

    def answered(self, target: Target) -> None:
        """Note an answer of a target: whatever was wrong with it is over."""
        refusal = self.credentials.get(target.upstream_name)
        if refusal is not None and refusal.lasts:
            refusal.lasts = False
            if refusal.told:
                refusal.told = False
                self.log.info(
                    "upstream {name} takes the gateway's credential", name=target.upstream_name
                )
        key = (target.upstream_name, target.model)
        rest = self.rests.get(key)
        now = self._clock.seconds()
        # An answer that was under way before says nothing about a rest that goes on.
        if rest is not None and rest.until <= now:
            del self.rests[key]
            if rest.told:
                self.log.info(
                    "target {upstream}/{model} answers again (after {lasting:.0f} s)",
                    upstream=target.upstream_name,
                    model=target.model,
                    lasting=now - rest.since,
                )

    def states(self, tables: Tables) -> dict[str, int]:
        """Return the states of upstreams that are not healthy, as far as is known here.

        :param tables: the config in force.
        """
        now = self._clock.seconds()
        states: dict[str, int] = {}
        # How many models of each upstream fail, and how many of these rest.
        failing: Counter[str] = Counter()
        resting: Counter[str] = Counter()
        for (name, _), rest in self.rests.items():
            failing[name] += 1
            resting[name] += rest.until > now
        models = self._models_of(tables) if failing else {}
        for name, count in failing.items():
            if count < len(models.get(name, ())):
                states[name] = UpstreamState.DEGRADED
            elif resting[name] == count:
                states[name] = UpstreamState.COOLING
            else:
                states[name] = UpstreamState.HALF_OPEN
        for name, upstream in tables.upstreams.items():
            refusal = self.credentials.get(name)
            if upstream.missing is not None or (refusal is not None and refusal.lasts):
                states[name] = UpstreamState.OPEN
        return states

    def _models_of(self, tables: Tables) -> dict[str, set[str]]:
        """Return the models of each upstream; looked for once for each config."""
        if self._models[0] is not tables:
            found: dict[str, set[str]] = {}
            for route in tables.routes.values():
                for target in route.targets:
                    found.setdefault(target.upstream_name, set()).add(target.model)
            self._models = (tables, found)
        return self._models[1]

    def keep(self, tables: Tables) -> None:
        """Forget what no config in force names any more."""
        self._models = (None, {})
        for name in [name for name in self.credentials if name not in tables.upstreams]:
            del self.credentials[name]
        if self.rests:
            named = {
                (target.upstream_name, target.model)
                for route in tables.routes.values()
                for target in route.targets
            }
            for key in [key for key in self.rests if key not in named]:
                del self.rests[key]
