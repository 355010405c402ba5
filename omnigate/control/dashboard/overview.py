"""What the first page shows, as values: figures, plots, planes, first steps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from markupsafe import Markup

from omnigate.control.dashboard.plots import Series, lines, stacked
from omnigate.control.minutes import Minute, Minutes, Span
from omnigate.control.plane_states import PlaneState

#: What one point of a plot is made of, in minutes, by the hours that are shown.
POINTS: Final[Mapping[int, tuple[int, int]]] = {1: (60, 1), 6: (72, 5), 24: (96, 15)}

#: What figures "a minute" are made of.
RATE_MINUTES: Final = 5

#: Data planes that are listed, those with trouble first.
PLANES_SHOWN: Final = 20

#: Where applications reach a data plane that has not told its address.
_USUAL_ADDRESS: Final = "127.0.0.1:8080"

#: What a data plane tells only where its port has TLS.
_CERTIFICATE: Final = "certificate_expiry_timestamp_seconds"


@attrs.frozen
class Rates:
    """The last five minutes, a minute.

    :ivar median_ms: the time to the first event of a stream that half of them stayed below, and
        ``slow_ms`` 95 %; ``None`` where no stream came.
    :ivar hit_share: of looks into the response cache; ``None`` where there was none.
    :ivar cached_share: of the tokens of prompts, what providers had in their caches.
    """

    requests: float
    errors: float
    refusals: float
    tokens_in: float
    tokens_out: float
    median_ms: float | None
    slow_ms: float | None
    hit_share: float | None
    cached_share: float | None


@attrs.frozen
class PlaneLine:
    """One data plane.

    :ivar words: what is the matter with it, or that nothing is; ``kind`` is that of a badge.
    :ivar config: the first digits of its version; ``is_newest`` is ``None`` where that or
        the newest one is not known.
    """

    name: str
    version: str
    words: str
    kind: str
    told_ms: int
    config: str
    is_newest: bool | None
    config_ms: int | None
    in_flight: int
    waiting: int
    since_ms: int | None
    hold_ms: float


@attrs.frozen
class Plots:
    """The plots over one time."""

    requests: Markup
    first_events: Markup | None
    spend: Markup


def rates(minutes: Minutes, now_ms: int) -> Rates:
    """Return the figures of the last minutes."""
    sums = minutes.last(RATE_MINUTES, now_ms)
    known = minutes.minutes_known(RATE_MINUTES, now_ms)
    looks = sums.hits + sums.misses
    return Rates(
        sums.requests / known,
        sums.errors / known,
        sums.refusals / known,
        sums.input_tokens / known,
        sums.output_tokens / known,
        _ms(sums.first_event_seconds(0.5)),
        _ms(sums.first_event_seconds(0.95)),
        sums.hits / looks if looks else None,
        sums.cached_tokens / sums.input_tokens if sums.input_tokens else None,
    )


def plots(minutes: Minutes, hours: int, now_ms: int) -> Plots:
    """Draw the last hours.

    :param hours: one of :data:`POINTS`.
    """
    points, step = POINTS[hours]
    spans = minutes.spans(points, step, now_ms)
    each = "a minute" if step == 1 else f"in {step} minutes"
    times = [span.at_ms for span in spans]
    waits = [(_wait(span, 0.5), _wait(span, 0.95)) for span in spans]
    return Plots(
        stacked(
            f"Requests {each}",
            times,
            [
                Series("answered", _values(spans, lambda sums: sums.requests - sums.errors)),
                Series("errors", _values(spans, lambda sums: sums.errors)),
                Series("refused", _values(spans, lambda sums: sums.refusals)),
            ],
            "requests",
        ),
        lines(
            "Time to the first event of a stream",
            times,
            [
                Series("p50", [wait[0] for wait in waits]),
                Series("p95", [wait[1] for wait in waits]),
            ],
            "ms",
        )
        if any(wait[0] is not None for wait in waits)
        else None,
        stacked(
            f"Spend {each}",
            times,
            [Series("spend", _values(spans, lambda sums: sums.cost_nano))],
            "usd",
        ),
    )


def plane_lines(planes: Sequence[PlaneState], newest: str, now_ms: int) -> list[PlaneLine]:
    """Return the data planes, those with trouble first.

    :param newest: the version of the newest config there is.
    """
    found = []
    for plane in planes:
        words, kind = "healthy", "good"
        if plane.is_silent(now_ms):
            words, kind = "silent", "bad"
        elif plane.is_stale(now_ms):
            words, kind = "no new config", "warn"
        elif plane.missing:
            words, kind = "lacks a credential", "warn"
        figures = plane.figures
        found.append(
            PlaneLine(
                plane.name,
                plane.version,
                words,
                kind,
                plane.told_ms,
                plane.config[:8],
                plane.config == newest if plane.config and newest else None,
                plane.config_ms,
                int(figures.get("requests_in_flight", 0)),
                int(figures.get("spool_events", 0)),
                plane.spool_since_ms,
                figures.get("reactor_lag_seconds", 0.0) * 1000,
            )
        )
    found.sort(key=lambda line: (line.kind == "good", line.name))
    return found[:PLANES_SHOWN]


def first_request(model: str, planes: Sequence[PlaneState]) -> str:
    """Return a line for a shell that sends a first request.

    :param model: one that the config has.
    """
    told = next((plane for plane in planes if ":" in plane.address), None)
    host, _, port = (_USUAL_ADDRESS if told is None else told.address).rpartition(":")
    scheme = "http" if told is None or _CERTIFICATE not in told.figures else "https"
    if host in ("0.0.0.0", "[::]", ""):
        host = "127.0.0.1"
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    return (
        f"curl {scheme}://{host}:{port}/v1/chat/completions -H 'authorization: Bearer YOUR-KEY' "
        f"-H 'content-type: application/json' -d {shlex.quote(body)}"
    )


def _values(spans: Sequence[Span], read: Any) -> list[float | None]:
    return [None if span.sums is None else read(span.sums) for span in spans]


def _wait(span: Span, share: float) -> float | None:
    sums: Minute | None = span.sums
    return None if sums is None else _ms(sums.first_event_seconds(share))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
