"""The first page: how everything is, with what is not well on top."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.control.dashboard.budget_shares import Budgets, budgets_of
from omnigate.control.dashboard.failed_requests import FailedRequest, failed_requests
from omnigate.control.dashboard.live_parts import mark_of
from omnigate.control.dashboard.model_rows import LATELY_SLOTS
from omnigate.control.dashboard.needs import Seen, UpstreamSeen, needs
from omnigate.control.dashboard.overview import (
    POINTS,
    first_request,
    plane_lines,
    plots,
    rates,
)
from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.target_states import Moment, moment_of, upstream_state
from omnigate.control.plane_states import PlaneState
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.target_record import Fared
from omnigate.ledger.totals import Sums
from omnigate.periods import utc_day

#: How often the page comes up while somebody looks.
SECONDS: Final = 5

#: How long what takes some milliseconds to be gathered is good for all who look.
GOOD_FOR_SECONDS: Final = 4.0

#: Budgets that are shown as bars.
BUDGETS_SHOWN: Final = 6

#: A data plane reports within so many milliseconds of a start of this plane, or none does.
FIRST_REPORT_MS: Final = 30_000


@attrs.frozen
class _Gathered:
    """What the ledger and all keys tell."""

    at: float
    today: Sums
    month: Sums
    budgets: Budgets
    failed: list[FailedRequest]


class OverviewPage:
    """The endpoint of the first page."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources
        self._gathered: _Gathered | None = None
        sources.live.whole("overview", self._live, seconds=SECONDS)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (Endpoint("GET", "/", self.show, free_query=True),)

    async def show(self, call: Call) -> Answer:
        """Show the page."""
        part = await self._live(call.query)
        return self._pages.answer(
            "overview.html",
            call.person,
            title="Overview",
            place="/",
            part=part,
            mark=mark_of(part),
            hours=_hours(call.query),
        )

    async def _live(self, query: Mapping[str, str]) -> str:
        """Make what of the page comes up by itself, which is nearly all of it."""
        gathered = await self._gather()
        sources, lately = self._sources, self._sources.lately
        now_ms, hours = sources.now_ms(), _hours(query)
        planes = lately.planes.all(now_ms)
        await sources.pause()
        drawn = plots(lately.minutes, hours, now_ms)
        await sources.pause()
        moment = moment_of(planes, now_ms)
        await sources.pause()
        found = needs(self._seen(gathered, planes, moment))
        lines = plane_lines(planes, sources.snapshots.version, now_ms)
        await sources.pause()
        config = sources.config_file.config
        own_hold = 0.0 if sources.metrics.lag is None else sources.metrics.lag.worst_seconds()
        return self._pages.html(
            "overview_part.html",
            None,
            needs=found,
            today=gathered.today,
            month=gathered.month,
            budgets=gathered.budgets,
            failed=gathered.failed,
            rates=rates(lately.minutes, now_ms),
            hour=lately.minutes.last(60, now_ms),
            plots=drawn,
            hours=hours,
            planes=lines,
            planes_total=len(planes),
            resting=len(moment.resting),
            own_hold_ms=own_hold * 1000,
            since_ms=lately.since_ms,
            is_new=sources.ledger.events == 0,
            steps=self._steps(planes),
            upstreams=len(config.upstreams),
            routes=len(config.routes),
            keys=len(sources.book),
        )

    def _steps(self, planes: list[PlaneState]) -> dict[str, Any]:
        """What whoever has just installed it needs for the first request."""
        config = self._sources.config_file.config
        model = config.routes[0].model if config.routes else "MODEL"
        return {
            "config_path": self._sources.config_file.path,
            "curl": first_request(model, planes),
        }

    def _seen(self, gathered: _Gathered, planes: list[PlaneState], moment: Moment) -> Seen:
        sources, lately = self._sources, self._sources.lately
        config, metrics = sources.config_file.config, sources.metrics
        certificate, figures = metrics.certificate, sources.media.figures
        now_ms = moment.now_ms
        fared = lately.targets.upstreams_fared(now_ms, LATELY_SLOTS)
        upstreams = []
        for upstream in config.upstreams:
            name = upstream.name
            its = fared.get(name, Fared())
            state = upstream_state(moment, name, its)
            if state.is_trouble:
                last = next(iter(lately.targets.errors(name)), None)
                upstreams.append(UpstreamSeen(name, state, its, last))
        return Seen(
            now_ms,
            faults=len(sources.config_file.faults),
            trouble=sources.ledger.trouble,
            is_expected=bool(config.routes) and now_ms - lately.since_ms > FIRST_REPORT_MS,
            planes=planes,
            upstreams=upstreams,
            budgets=gathered.budgets,
            recent=lately.minutes.last(5, now_ms),
            certificate_ms=None if certificate is None else certificate.expires_at * 1000,
            hold_seconds=0.0 if metrics.lag is None else metrics.lag.worst_seconds(),
            unpriced=sources.ledger.counters.unpriced,
            jobs=figures.lately(),
            given_up=figures.given_up(),
            owed=figures.owed,
            owed_seconds=figures.owed_seconds,
        )

    async def _gather(self) -> _Gathered:
        """Ask the ledger and look at all keys, once for all who look."""
        sources = self._sources
        now = sources.clock.seconds()
        found = self._gathered
        if found is not None and 0 <= now - found.at < GOOD_FOR_SECONDS:
            return found
        now_ms = sources.now_ms()
        today = utc_day(now_ms)
        by_day = sources.ledger.totals("day", f"{today[:8]}01", today)
        month, of_today = Sums(), Sums()
        for row in by_day:
            month.add(row.sums)
            if row.name == today:
                of_today = row.sums
        keys = sources.book.keys()
        budgets = await budgets_of(keys, sources.watch, BUDGETS_SHOWN, sources.pause, now_ms)
        await sources.pause()
        names = {digest: key.name for key in keys for digest in key.hashes}
        await sources.pause()
        failed = failed_requests(sources.ledger.recent(), names)
        found = self._gathered = _Gathered(now, of_today, month, budgets, failed)
        return found


def _hours(query: Mapping[str, str]) -> int:
    """Return how many hours the plots show."""
    text = query.get("hours", "")
    return next((hours for hours in POINTS if str(hours) == text), 1)
