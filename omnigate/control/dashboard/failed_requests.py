"""The newest requests that failed, each with the cause, for pages that have room for a few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from omnigate.control.dashboard.causes import Cause, attempt_cause, is_broken_off, request_cause
from omnigate.control.dashboard.media_requests import attempt_cause as media_cause
from omnigate.control.dashboard.media_requests import is_media, job_cause
from omnigate.control.dashboard.paths import request_path
from omnigate.control.dashboard.request_rows import attempts_of, number, status_of, text

#: The list of requests has the others.
FAILED_SHOWN: Final = 5


@attrs.frozen
class FailedRequest:
    """One request that failed.

    :ivar key: the name of its key; ``None`` where that is gone.
    :ivar upstream: where its last attempt went, if any was made.
    :ivar cause: why that ended; where it answered, or broke off, why the request did.
    """

    request_id: str
    path: str
    at_ms: int
    model: str
    status: int
    key: str | None
    upstream: str
    cause: Cause


def failed_requests(
    events: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> list[FailedRequest]:
    """Return the newest requests that failed, a few of them.

    :param events: newest first, as the ledger tells them.
    :param names: of keys, by their hashes.
    """
    found = []
    for event in events:
        # The ledger counts an event whatever stands in this member.
        status = number(event, "status")
        if status < 400:
            continue
        attempts = attempts_of(event)
        outcomes = [text(attempt, "outcome") for attempt in attempts]
        provider_status = status_of(attempts[-1]) if attempts else None
        answered = bool(text(event, "upstream"))
        if is_media(event):
            cause = media_cause(outcomes[-1]) if any(outcomes[-1:]) else job_cause(event, 0)
        elif any(outcomes[-1:]) and not answered and not is_broken_off(status, provider_status):
            cause = attempt_cause(outcomes[-1], provider_status)
        else:
            cause = request_cause(
                status,
                answered=answered,
                cached=event.get("cached") is True,
                estimated=event.get("estimated") is True,
                outcomes=outcomes,
                provider_status=provider_status,
            )
        found.append(
            FailedRequest(
                event["id"],
                request_path(event["id"]),
                event["ts_ms"],
                event["route_model"],
                status,
                names.get(event["key_sha256"]),
                text(attempts[-1], "upstream") if attempts else "",
                cause,
            )
        )
        if len(found) == FAILED_SHOWN:
            break
    return found
