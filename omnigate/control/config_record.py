"""What is written down of a config file that is read: a line of the audit log, and the history.

A new config has its line before it comes into force; where the line cannot be written it does not.
The history follows behind, and keeps nothing from being done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from omnigate.config.structure import Fault
from omnigate.control.audit import AuditEntry, AuditLog
from omnigate.control.audit_line import DONE, FAILED
from omnigate.control.config_changes import Changes, TableChanges
from omnigate.control.config_file import FILE, START, Cause
from omnigate.control.config_history import ConfigHistory
from omnigate.control.config_reading import Reading
from omnigate.errors import GatewayError

#: A config comes into force.
INSTALL: Final = "config.install"
#: The file was read and nothing came of it: it has faults, or nothing is new.
RELOAD: Final = "config.reload"

#: As much of a fault's place as cannot hold a secret by mistake, as an unknown key might.
_PLACE: Final = re.compile(r"(?:keys|upstreams|routes)\[\d+\]|(?:at )?line \d+")

_log = Logger(namespace="omnigate.control")


class ConfigRecord:
    """The witness of a :class:`~omnigate.control.config_file.ConfigFile`.

    :param audit: returns the audit log of now; None while there is none.
    :param history: returns the history of now; None while there is none.
    """

    def __init__(
        self,
        audit: Callable[[], AuditLog | None],
        history: Callable[[], ConfigHistory | None],
    ) -> None:
        self._audit = audit
        self._history = history
        self._last: tuple[Cause, Reading] | None = None

    async def __call__(
        self, cause: Cause, reading: Reading | None, faults: tuple[Fault, ...]
    ) -> Callable[[], object] | None:
        """Write down what was read, before anything comes of it.

        :return: what adds a new config to the history, for when it is in force: its thread would
            be in the way of that.
        :raises GatewayError: it could not be written down.
        """
        if reading is None:
            detail: dict[str, Any] = {"faults": len(faults), "first": _place_of(faults)}
            await self._write(cause, RELOAD, detail, FAILED)
        elif reading.changed:
            await self._write(cause, INSTALL, _told(reading))
            return partial(self._came_into_force, cause, reading)
        elif cause.actor != FILE:  # a file that was only touched is nobody's doing
            await self._write(cause, RELOAD, {"changed": False})
        return None

    async def started(self, reading: Reading) -> None:
        """Write down the config of the start, which is in force already."""
        cause = Cause(START)
        # Against what it is new is not known: nothing was in force before.
        reading = attrs.evolve(reading, changes=Changes())
        try:
            await self._write(cause, INSTALL, _told(reading))
        except GatewayError as error:
            _log.error("the config of the start is not audited: {error}", error=error)
        self._last = cause, reading
        self.catch_up()

    def catch_up(self) -> None:
        """Add the config in force to a history that lacks it, as after a crash of the stores.

        Once only: should it be what the stores crash of, they get on without it.
        """
        history = self._history()
        if self._last is None or history is None:
            return
        (cause, reading), self._last = self._last, None
        known = history.entries()
        if not known or known[0].sha256 != reading.sha256:
            self._keep(cause, reading)

    async def _write(
        self, cause: Cause, action: str, detail: dict[str, Any], outcome: str = DONE
    ) -> None:
        audit = self._audit()
        if audit is None:
            raise GatewayError("not_ready", "the audit log is not open", retry_after=1)
        await audit.record(
            AuditEntry(
                action,
                cause.actor,
                target="config",
                outcome=outcome,
                address=cause.address,
                request_id=cause.request_id,
                detail=detail,
            )
        )

    def _came_into_force(self, cause: Cause, reading: Reading) -> None:
        self._last = cause, reading
        self._keep(cause, reading)

    def _keep(self, cause: Cause, reading: Reading) -> None:
        history = self._history()
        if history is not None:
            Deferred.fromCoroutine(history.add(reading, cause.actor, cause.address))


def _place_of(faults: Sequence[Fault]) -> str:
    found = _PLACE.match(faults[0].path) if faults else None
    return found[0] if found else ""


def _told(reading: Reading) -> dict[str, Any]:
    """Return what a line says of a config: how much is in it, and what is new."""
    config, changes = reading.config, reading.changes
    detail: dict[str, Any] = {
        "sha256": reading.sha256,
        "keys": len(config.keys),
        "upstreams": len(config.upstreams),
        "routes": len(config.routes),
    }
    if config.media.routes:
        detail["media_routes"] = len(config.media.routes)
    for name, table in changes.tables.items():
        detail |= _members(name, table)
    return detail | {f"{name}_changed": True for name in changes.settings}


def _members(name: str, table: TableChanges) -> dict[str, Any]:
    return {f"{name}_{what}": names for what, names in table.rows().items()}
