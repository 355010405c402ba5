"""What buckets of times tell: the time that a share of all requests stayed below."""

from __future__ import annotations

from collections.abc import Sequence

from omnigate.metric_families import BUCKETS


def quantile(
    counts: Sequence[int], share: float, bounds: Sequence[float] = BUCKETS
) -> float | None:
    """Return the time that this share of all stayed below; ``None`` where there were none.

    Within a bucket times are taken for evenly spread, as ``histogram_quantile`` of Prometheus
    does. What lies beyond the last bound is only known to be longer: then it is that bound.

    :param counts: how many fell into each bucket, and beyond the last.
    :param share: between 0 and 1.
    :param bounds: the upper bounds of the buckets.
    """
    total = sum(counts)
    if not total:
        return None
    wanted = share * total
    below = 0
    lower = 0.0
    for count, upper in zip(counts, bounds, strict=False):
        if count and below + count >= wanted:
            return lower + (upper - lower) * max(0.0, wanted - below) / count
        below += count
        lower = upper
    return bounds[-1]
