"""What one attempt costs: what was asked of its target, under the prices that it began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from twisted.logger import Logger

from omnigate.config.media import MediaRouteConfig
from omnigate.jobs.adapters.base import Done, InputFault, Task
from omnigate.jobs.job import PROVIDER_FAILED, Billable, JobError
from omnigate.jobs.pricing import Multipliers, billed, cost_nano
from omnigate.jobs.targets import Target

_log = Logger(namespace="omnigate.jobs")


@attrs.frozen
class Bill:
    """An attempt, as far as its price depends on it.

    :ivar asked: the adapter's account of its request.
    :ivar fields: the members of the input that have multipliers.
    """

    target: Target
    multipliers: Multipliers
    asked: Billable
    fields: Mapping[str, Any]

    @classmethod
    def of(
        cls, route: MediaRouteConfig, target: Target, asked: Billable, input: Mapping[str, Any]
    ) -> Bill:
        """Return the bill of an attempt; of an input that may be large, little is kept."""
        multipliers = route.price_multipliers
        fields = {name: input[name] for name in multipliers if name in input}
        return cls(target, multipliers, asked, fields)

    def billable(self, done: Done | None, stored: int) -> Billable:
        """Return what is charged for.

        :param done: what the provider made; None where it was not waited for.
        :param stored: outputs that are stored; where there are none, those that it made count.
        """
        made = stored or (0 if done is None else len(done.sources))
        return billed(
            self.asked, self.target.config, -1 if done is None else done.provider_ms, made
        )

    def cost_nano(self, billable: Billable) -> int:
        """Return the cost in nano-dollars."""
        return cost_nano(self.target.config.price, self.multipliers, self.fields, billable)


def asked_of(target: Target, task: Task, is_new: bool) -> Billable | JobError:
    """Return what a target is asked for, or why it cannot be sent this.

    An input was judged before its job was made, but the config may be another one by now.

    :param is_new: whether it is still to be submitted; what was is not judged any more.
    """
    adapter = target.adapter
    try:
        if is_new:
            adapter.check(task.model, task.input)
        return adapter.billable(task)
    except InputFault as fault:
        return JobError(PROVIDER_FAILED, f"input.{fault.field}: {fault.message}")
    except Exception:
        _log.failure("{job}: {name} cannot be asked for it", job=task.job_id, name=adapter.name)
        if not is_new:
            return Billable()
        return JobError(PROVIDER_FAILED, "this target cannot be sent the input")
