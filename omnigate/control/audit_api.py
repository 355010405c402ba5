"""The newest lines of the audit log, for operators."""

from __future__ import annotations

from typing import Final

from omnigate.control.admin_json import encode
from omnigate.control.audit import AuditLog
from omnigate.control.audit_file import MAX_ENTRIES
from omnigate.control.audit_line import DONE, FAILED, MAX_SEQ
from omnigate.control.parameters import Parameter, read_whole, whole
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.schemas import (
    ANYTHING,
    TEXT,
    TIME,
    Schema,
    one_of,
    or_null,
    record,
    rows,
)
from omnigate.control.schemas import whole as whole_schema

#: Two screens, as of usage events.
DEFAULT_ENTRIES: Final = 100

NUMBER: Final[Schema] = whole_schema(1, MAX_SEQ)
LIMIT: Final = whole("limit", "how many lines to show", DEFAULT_ENTRIES, MAX_ENTRIES)
BEFORE: Final = Parameter(
    "before", "show lines with a lower number only: `next` of the page before", NUMBER
)

AUDIT: Final[Schema] = record(
    {
        "entries": rows(
            record(
                {
                    "ts": TIME,
                    "seq": NUMBER,
                    "action": TEXT,
                    "actor": TEXT,
                    "address": TEXT,
                    "target": TEXT,
                    "outcome": one_of(DONE, FAILED),
                    "request_id": TEXT,
                    "detail": ANYTHING,
                },
                title="AuditLine",
            )
        ),
        "next": or_null(NUMBER),
    },
    title="Audit",
)


class AuditApi:
    """The endpoint of the audit log."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET",
                "/admin/audit",
                self.audit,
                summary="Show who changed what, newest first",
                parameters=(LIMIT, BEFORE),
                answer=AUDIT,
                refusals=("not_ready",),
            ),
        )

    async def audit(self, call: Call) -> Answer:
        """Answer a page of lines, and where the next one begins; null where there is none."""
        limit = read_whole(call.query, LIMIT)
        before = read_whole(call.query, BEFORE) if BEFORE.name in call.query else None
        found = self._audit.entries(limit + 1, before)
        page = found[:limit]
        more = page[-1].seq if len(found) > limit else None
        return Answer(encode({"entries": page, "next": more}))
