"""What ``omnigate doctor`` tells: a finding, and how figures are found in a scrape for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from omnigate.commands.doctor_facts import Facts

State = Literal["ok", "note", "warning", "fault"]

_LABELS = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@attrs.frozen
class Finding:
    """One thing that was looked at.

    :ivar remedy: what to do; empty where nothing is to be done.
    """

    check: str
    state: State
    text: str
    remedy: str = ""


Found = Iterator[Finding]


def family(
    told: Mapping[str, float] | None, name: str
) -> Iterator[tuple[str, dict[str, str], float]]:
    """The samples of one metric, with their labels."""
    for sample, value in (told or {}).items():
        if sample.startswith(name + "{"):
            yield sample, dict(_LABELS.findall(sample)), value


def reported(facts: Facts, name: str) -> float | None:
    """A figure of the data plane, by its own scrape or by what it told the control plane."""
    for told in (facts.data_metrics, facts.control_metrics):
        if told is not None and name in told:
            return told[name]
    return None
