"""What all jobs are run with: the config of the moment, the ways out, the places at providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import attrs
from twisted.internet.interfaces import IReactorTime

from omnigate.config.media import MediaConfig, MediaRouteConfig
from omnigate.jobs.adapters.base import Adapter, Source
from omnigate.jobs.conversing import Conversing
from omnigate.jobs.job import Job, Output
from omnigate.jobs.keeping import Keeping
from omnigate.jobs.output_faults import OutputLimits
from omnigate.jobs.provider_slots import ProviderSlots
from omnigate.jobs.targets import Target, target_of, tried_target


class StoresOutputs(Protocol):
    """Fetches and stores what an attempt made; see :class:`~omnigate.jobs.outputs.Outputs`."""

    def unready(self) -> str | None:
        """Return why nothing can be kept now; empty where it can be, None where that is asked."""

    def store(
        self,
        job: Job,
        sources: Sequence[Source],
        *,
        own_origin: str,
        limits: OutputLimits,
        recipients: Sequence[str],
    ) -> Awaitable[tuple[Output, ...]]:
        """Fetch and store them, or raise an :class:`OutputFault`."""


@attrs.frozen(eq=False)
class Means:
    """What all jobs are run with.

    :ivar media: the config in force.
    :ivar credential: returns the value of an ``api_key_env``, as of now.
    :ivar recipients: whom the outputs of a key's jobs are encrypted for; None where the key
        is gone, and with it the knowledge of them.
    :ivar clear: removes what came in for a job and was not stored.
    """

    keeping: Keeping
    media: Callable[[], MediaConfig]
    credential: Callable[[str], str | None]
    adapters: Mapping[str, Adapter]
    recipients: Callable[[str], Sequence[str] | None]
    conversing: Conversing
    outputs: StoresOutputs
    clear: Callable[[str], object]
    slots: ProviderSlots
    clock: IReactorTime
    now_ms: Callable[[], int]

    def route(self, model: str) -> MediaRouteConfig | None:
        """Return the media route of that name in the config in force."""
        return next((route for route in self.media().routes if route.model == model), None)

    def targets(self, route: MediaRouteConfig) -> list[Target]:
        """Return the targets of a route, with the credentials of now."""
        return [
            target_of(place, target, self.adapters[target.adapter], self.credential)
            for place, target in enumerate(route.targets)
        ]

    def is_priced(self, job: Job) -> bool:
        """Whether the target that a job was last tried at has a price, as far as is known."""
        route = self.route(job.model)
        if route is None or not job.attempts:
            return True
        target = tried_target(self.targets(route), job.attempts[-1])
        return target is None or target.config.price is not None
