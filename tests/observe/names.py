"""Metrics that an expression names."""

from __future__ import annotations

import re
from typing import Final

_METRIC: Final = re.compile(r"\b(?:omnigate|process)_[a-z0-9_]+")


def metrics_in(expression: str) -> list[str]:
    """Return the names of the metrics in PromQL, as samples of a scrape have them."""
    return _METRIC.findall(expression)
