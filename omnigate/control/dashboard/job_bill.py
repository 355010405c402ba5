"""What a media job cost, worked out line by line, and whether that is what was recorded.

A job keeps what it cost and what was billed, not the price. So the price of today is taken, and it
is said where that one comes to another sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.config.media import MediaConfig, MediaPriceConfig, MediaRouteConfig, MediaTargetConfig
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.jobs.job import SUCCEEDED, Attempt, Billable, Job
from omnigate.jobs.pricing import cost_nano, factors, written
from omnigate.jobs.targets import target_of, tried_target
from omnigate.money import usd

_MILLION: Final = 10**6
_MS: Final = 1000


@attrs.frozen
class BillLine:
    """One part of the price.

    :ivar count: how many of them, as people read it.
    :ivar price: US dollars for one; of characters, for a million.
    :ivar amount: US dollars, rounded to a nano-dollar.
    """

    what: str
    count: str
    price: str
    amount: str


@attrs.frozen
class Bill:
    """How the cost of a job came about.

    :ivar factors: fields of the input that multiply it, each with its value and factor.
    :ivar total: at the price in force now, in US dollars.
    :ivar recorded: what the job has, in US dollars.
    """

    lines: tuple[BillLine, ...]
    factors: tuple[str, ...]
    total: str
    recorded: str
    remark: str
    is_other: bool


def bill_of(job: Job, media: MediaConfig, input: Mapping[str, Any] | None) -> Bill:
    """Work out what a job cost.

    :param media: ``[media]`` as it is in force.
    :param input: what the job was asked for; ``None`` where that is not at hand, such as a long
        one. Then factors of its fields are not known.
    """
    recorded = usd(job.cost_nano)

    def plain(remark: str, is_other: bool = False) -> Bill:
        return Bill((), (), recorded, recorded, remark, is_other)

    if not job.is_final:
        return plain("A job is billed when it ends.")
    if job.cached_from:
        return plain("It has the outputs of an earlier job that was the same, which costs nothing.")
    if job.billable is None or not job.attempts:
        return plain("No provider delivered, so nothing was spent.", bool(job.cost_nano))
    route = next((route for route in media.routes if route.model == job.model), None)
    target = None if route is None else _target(route, job.attempts[-1])
    price = None if target is None else target.price
    if route is None or price is None:
        remark = "The config in force has no price for this target."
        if not job.cost_nano:
            remark += " Nothing was counted for it; give the target a price."
        return plain(remark, bool(job.cost_nano))
    found = factors(route.price_multipliers, input or {})
    total = cost_nano(price, route.price_multipliers, input or {}, job.billable)
    remark = ""
    if total != job.cost_nano:
        remark = (
            "The price in force now comes to another sum"
            + (", without the factors of the input, which is too long to look at" * (input is None))
            + ". What counts is what was recorded when the job ended."
        )
    elif job.status != SUCCEEDED:
        remark = "The job did not succeed, and its provider is paid all the same."
    return Bill(
        _lines(price, job.billable),
        tuple(
            f"{field} = {written(value)}: × {factor}"
            for field, value, factor in _factors(route, input or {})
        )
        if found
        else (),
        usd(total),
        recorded,
        remark,
        total != job.cost_nano,
    )


def _target(route: MediaRouteConfig, attempt: Attempt) -> MediaTargetConfig | None:
    targets = [
        target_of(place, target, ADAPTERS[target.adapter], lambda _: None)
        for place, target in enumerate(route.targets)
    ]
    found = tried_target(targets, attempt)
    return None if found is None else found.config


def _factors(route: MediaRouteConfig, input: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    found = []
    for field, listed in route.price_multipliers.items():
        word = written(input[field]) if field in input else None
        if word is not None and word in listed:
            found.append((field, input[field], format(listed[word], "f")))
    return found


def _lines(price: MediaPriceConfig, billable: Billable) -> tuple[BillLine, ...]:
    per_job, per_output, per_second, per_million = price.nano
    ms, characters = billable.milliseconds, billable.characters
    lines = (
        ("job", "1", per_job, per_job),
        ("outputs", str(billable.outputs), per_output, per_output * billable.outputs),
        ("seconds", f"{ms / _MS:g}", per_second, per_second * ms // _MS),
        (
            "characters (price for a million)",
            f"{characters:,}",
            per_million,
            per_million * characters // _MILLION,
        ),
    )
    return tuple(
        BillLine(what, count, usd(each), usd(amount)) for what, count, each, amount in lines if each
    )
