"""What happened lately, for people to look at; in memory, beside the stores and beyond them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from omnigate.config.schema import Config
from omnigate.control.minutes import Minutes
from omnigate.control.plane_states import PlaneStates
from omnigate.control.target_record import TargetRecords
from omnigate.events import UsageEvent


def _minutes(lately: Lately) -> Minutes:
    return Minutes(lately.since_ms)


@attrs.frozen(eq=False)
class Lately:
    """The last day in minutes, the targets, and the data planes.

    :ivar since_ms: when this began; of what was before it nothing is known.
    """

    since_ms: int
    minutes: Minutes = attrs.field(init=False, default=attrs.Factory(_minutes, takes_self=True))
    targets: TargetRecords = attrs.field(init=False, factory=TargetRecords)
    planes: PlaneStates = attrs.field(init=False, factory=PlaneStates)

    def recorded(self, event: UsageEvent, cost_nano: int, config: Config, now_ms: int) -> None:
        """Take an event that was recorded.

        :param config: the one in force.
        """
        self.minutes.recorded(event, cost_nano, now_ms)
        self.targets.take(config)
        self.targets.recorded(event, now_ms)

    def refused(self, count: int, now_ms: int) -> None:
        """Take refusals that a data plane reports."""
        self.minutes.refused(count, now_ms)

    def counted(self, name: str, labels: Sequence[str], growth: float, now_ms: int) -> None:
        """Take what a data plane counted; see :meth:`.Minutes.counted`."""
        self.minutes.counted(name, labels, growth, now_ms)
