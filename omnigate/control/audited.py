"""How a change by the admin API comes into the audit log: before it is made, and if it then fails.

A change is witnessed once all of it was judged and before anything is written::

    async with audited(audit, call, "key.create") as witness:
        await store.create(body, lambda key: witness(key.name, {"rpm": key.rpm}))
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

import attrs
from twisted.logger import Logger

from omnigate.control.audit_line import FAILED, AuditEntry
from omnigate.control.routes import Call
from omnigate.errors import GatewayError

_log = Logger(namespace="omnigate.control.audit")

#: Told what is changed and how; nothing may be changed if it raises.
Tell = Callable[[str, Mapping[str, object]], Awaitable[None]]


class Recorder(Protocol):
    """The audit log, as far as changes need it."""

    async def record(self, entry: AuditEntry) -> None:
        """Write an entry down; it is on the disk when this returns."""


@contextlib.asynccontextmanager
async def audited(audit: Recorder, call: Call, action: str) -> AsyncIterator[Tell]:
    """Give what tells the audit log of a change; where that then fails there is a second line.

    :raises GatewayError: whatever the change was refused with; from the witness,
        ``storage_unavailable`` where the line could not be written.
    """
    told: list[AuditEntry] = []

    async def tell(target: str, detail: Mapping[str, object]) -> None:
        entry = AuditEntry(
            action,
            call.actor,
            target,
            address=call.address,
            request_id=call.request_id,
            detail=detail,
        )
        await audit.record(entry)
        told.append(entry)

    try:
        yield tell
    except Exception as error:
        if told:
            await _tell_failed(audit, told[-1], error)
        raise


async def _tell_failed(audit: Recorder, entry: AuditEntry, error: Exception) -> None:
    """Write down that a change did not come about; what it was refused with is told anyway."""
    code = error.kind.code if isinstance(error, GatewayError) else "internal_error"
    failed = attrs.evolve(entry, outcome=FAILED, detail={"code": code})
    try:
        await audit.record(failed)
    except GatewayError as unwritten:
        _log.error(
            "{action} of {target} failed, and the audit log could not be told: {reason}",
            action=entry.action,
            target=entry.target,
            reason=unwritten.detail or unwritten.message,
        )
