"""One request as its page shows it: pure, out of its event, the config in force and the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.config.schema import Config
from omnigate.control.dashboard.causes import (
    Cause,
    attempt_cause,
    is_broken_off,
    request_cause,
    status_name,
)
from omnigate.control.dashboard.media_requests import (
    Made,
    is_media,
    job_cause,
    made_by,
    reckoning_of,
)
from omnigate.control.dashboard.media_requests import attempt_cause as media_attempt_cause
from omnigate.control.dashboard.paths import job_path, jobs_path, model_path, upstream_path
from omnigate.control.dashboard.price_lines import Reckoning, reckon
from omnigate.control.dashboard.request_rows import (
    RequestRow,
    attempts_of,
    number,
    row_of,
    status_of,
    text,
)
from omnigate.events import TokenCounts

#: The narrowest bar that can be seen, as a share of all.
LEAST_SHARE: Final = 0.005

#: Attempts that are shown; no route has more targets.
MAX_ATTEMPTS: Final = 64


@attrs.frozen
class AttemptView:
    """One try at one target.

    :ivar number: from 1 on.
    :ivar status: the upstream's status; ``None`` where no head came.
    :ivar begun_ms: when it began, after the first one, without pauses.
    :ivar at: where its bar begins, as a share of all the time.
    :ivar width: how wide its bar is.
    """

    number: int
    upstream: str
    upstream_path: str
    model: str
    cause: Cause
    status: int | None
    begun_ms: int
    duration_ms: int
    at: float
    width: float


@attrs.frozen
class RequestView:
    """One request.

    :ivar received_at: when it was recorded, as RFC 3339.
    :ivar whole_ms: what the bars of its attempts are drawn over.
    :ivar more_attempts: how many are not shown.
    :ivar made: what a media job is billed by; None of any other request.
    :ivar job_path: its own page; empty of any other request.
    """

    row: RequestRow
    model: str
    model_path: str
    key_sha256: str
    endpoint: str
    is_stream: bool
    is_cached: bool
    is_estimated: bool
    is_cut: bool
    answered_by: str
    answered_model: str
    status_name: str
    cause: Cause
    counts: TokenCounts
    attempts: tuple[AttemptView, ...]
    more_attempts: int
    whole_ms: int
    received_at: str
    reckoning: Reckoning
    made: Made | None = None
    job_path: str = ""


def view_of(event: Mapping[str, Any], names: Mapping[str, str], config: Config) -> RequestView:
    """Return what is shown of an event.

    :param names: the name of every key, by its hashes.
    """
    row = row_of(event, names)
    attempts = attempts_of(event)
    provider_status = status_of(attempts[-1]) if attempts else None
    counts = TokenCounts(
        number(event, "input_tokens"),
        number(event, "cached_input_tokens"),
        number(event, "cache_write_input_tokens"),
        number(event, "output_tokens"),
    )
    upstream, target = text(event, "upstream"), text(event, "target_model")
    is_cached, is_estimated = event.get("cached") is True, event.get("estimated") is True
    whole_ms = max(row.latency_ms, sum(number(each, "duration_ms") for each in attempts))
    view = RequestView(
        row=row,
        model=text(event, "route_model"),
        model_path=model_path(text(event, "route_model")),
        key_sha256=text(event, "key_sha256"),
        endpoint=text(event, "endpoint"),
        is_stream=event.get("stream") is True,
        is_cached=is_cached,
        is_estimated=is_estimated,
        is_cut=is_broken_off(row.status, provider_status),
        answered_by=upstream,
        answered_model=target,
        status_name=status_name(row.status, provider_status),
        cause=request_cause(
            row.status,
            answered=bool(upstream),
            cached=is_cached,
            estimated=is_estimated,
            outcomes=[text(attempt, "outcome") for attempt in attempts],
            provider_status=provider_status,
        ),
        counts=counts,
        attempts=attempt_views(attempts[:MAX_ATTEMPTS], whole_ms),
        more_attempts=max(0, len(attempts) - MAX_ATTEMPTS),
        whole_ms=whole_ms,
        received_at=text(event, "received_at"),
        reckoning=reckon(
            config,
            route=text(event, "route_model"),
            upstream=upstream or None,
            model=target or None,
            cached=is_cached,
            counts=counts,
            recorded_nano=row.cost_nano,
        ),
    )
    return _of_media(view, event, attempts) if is_media(event) else view


def _of_media(
    view: RequestView, event: Mapping[str, Any], attempts: list[Mapping[str, Any]]
) -> RequestView:
    """Say of a media job what is another than with text; its provider is no upstream."""
    failed = sum(text(each, "outcome") not in ("ok", "canceled") for each in attempts)
    shown = zip(view.attempts, attempts, strict=False)
    return attrs.evolve(
        view,
        model_path=jobs_path({"model": view.model}),
        is_cut=False,
        status_name=str(view.row.status),
        cause=job_cause(event, failed),
        attempts=tuple(
            attrs.evolve(one, upstream_path="", cause=media_attempt_cause(text(each, "outcome")))
            for one, each in shown
        ),
        reckoning=reckoning_of(event),
        made=made_by(event),
        job_path=job_path(view.row.id),
    )


def attempt_views(attempts: list[Mapping[str, Any]], whole_ms: int) -> tuple[AttemptView, ...]:
    """Return attempts with their bars, one after the other, as they were made.

    :param whole_ms: as long as all of them together at least.
    """
    views, begun_ms = [], 0
    for place, attempt in enumerate(attempts, 1):
        duration_ms = number(attempt, "duration_ms")
        width = max(LEAST_SHARE, duration_ms / whole_ms) if whole_ms else 1.0
        at = min(begun_ms / whole_ms, 1 - width) if whole_ms else 0.0
        status = status_of(attempt)
        views.append(
            AttemptView(
                place,
                text(attempt, "upstream"),
                upstream_path(text(attempt, "upstream")),
                text(attempt, "model"),
                attempt_cause(text(attempt, "outcome"), status),
                status,
                begun_ms,
                duration_ms,
                at,
                width,
            )
        )
        begun_ms += duration_ms
    return tuple(views)
