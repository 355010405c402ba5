"""The targets of a media route: which one comes next, and which one an attempt was made at.

A job may outlive the config that it began under, so an attempt says itself where it was made: its
adapter, base URL and model. By these it is found again; its place in the route is only where to
look first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from omnigate.config.media import MediaRouteConfig, MediaTargetConfig
from omnigate.jobs.adapters.base import Adapter, Task
from omnigate.jobs.job import Attempt


@attrs.frozen
class Target:
    """A target as it is used.

    :ivar place: in its route, from 0.
    :ivar base_url: without a slash at its end.
    """

    place: int
    config: MediaTargetConfig
    adapter: Adapter
    base_url: str
    credential: str = attrs.field(repr=False)

    @property
    def identity(self) -> tuple[str, str, str]:
        """What an attempt at it is known by."""
        return self.adapter.name, self.base_url, self.config.model

    def task(self, job_id: str, route: MediaRouteConfig, input: Mapping[str, Any]) -> Task:
        """Return what its adapter is to do for a job."""
        return Task(
            job_id=job_id,
            target=self.place,
            base_url=self.base_url,
            model=self.config.model,
            input=input,
            credential=self.credential,
            timeout_s=route.timeout_s,
            background=self.config.background,
        )


def target_of(
    place: int, config: MediaTargetConfig, adapter: Adapter, credential: Callable[[str], str | None]
) -> Target:
    """Return a target of the config.

    :param credential: returns the value of an ``api_key_env``.
    """
    return Target(
        place,
        config,
        adapter,
        (config.base_url or adapter.default_base_url).rstrip("/"),
        (credential(config.api_key_env) or "") if config.api_key_env else "",
    )


def next_target(targets: Sequence[Target], attempts: Sequence[Attempt]) -> Target | None:
    """Return the first target that was not tried, or ``None`` where all were.

    Two targets may be alike but for price or key; each of them is tried once.
    """
    tried = Counter((attempt.adapter, attempt.base_url, attempt.model) for attempt in attempts)
    for target in targets:
        if tried[target.identity] <= 0:
            return target
        tried[target.identity] -= 1
    return None


def tried_target(
    targets: Sequence[Target], attempt: Attempt, *, is_begun: bool = False
) -> Target | None:
    """Return the target that an attempt was made at; ``None`` where the config has it no more.

    :param is_begun: whether the provider works on it. Then it may have begun under another model:
        whoever gives a target a new model and restarts would else pay for all its work once more.
        It is asked about with the credential, and has the price, of now.
    """
    model = attempt.model
    near = [*targets[attempt.target : attempt.target + 1], *targets]
    alike = [each for each in near if each.identity[:2] == (attempt.adapter, attempt.base_url)]
    for target in alike:
        if target.config.model == model:
            return target
    if not alike or not is_begun:
        return None
    return attrs.evolve(alike[0], config=attrs.evolve(alike[0].config, model=model))
