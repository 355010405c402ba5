"""The judgements of ``omnigate doctor``: facts in, findings out, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from omnigate.commands import doctor_planes as planes
from omnigate.commands import doctor_supplies as supplies
from omnigate.commands.doctor_facts import Facts
from omnigate.commands.doctor_finding import Finding, Found

#: In the order in which things are to be mended: what stands below needs what stands above.
CHECKS: Final[tuple[Callable[[Facts], Found], ...]] = (
    planes.files,
    planes.control_plane,
    planes.admin_token,
    planes.config,
    supplies.ledger,
    planes.internal_token,
    planes.data_plane,
    planes.config_in_force,
    planes.versions,
    planes.clocks,
    supplies.disks,
    supplies.spool,
    supplies.certificate,
    supplies.credentials,
    supplies.media_credentials,
    supplies.hosts,
    planes.data_metrics,
)


def examine(facts: Facts) -> list[Finding]:
    """Judge everything, in the order in which it is to be mended."""
    return [finding for check in CHECKS for finding in check(facts)]


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether nothing is at fault; warnings are none."""
    return not any(finding.state == "fault" for finding in findings)
