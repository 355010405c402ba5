"""Models and upstreams: what clients may ask for, who is asked, and how those fare."""

from __future__ import annotations

from typing import Final

import attrs

from omnigate.config.schema import Config, RouteConfig, UpstreamConfig
from omnigate.control.dashboard.model_rows import (
    LATELY_SLOTS,
    RouteRow,
    error_row,
    route_row,
    states_of,
)
from omnigate.control.dashboard.pages import Pages
from omnigate.control.dashboard.paths import upstream_path
from omnigate.control.dashboard.slices import page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.dashboard.target_states import (
    Moment,
    State,
    moment_of,
    target_state,
    upstream_state,
)
from omnigate.control.dashboard.upstream_rows import plane_rows, served_models
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.target_record import Fared
from omnigate.errors import GatewayError

#: Models on one page: with two targets each, fifty rows, which are written in 5 ms.
MODELS_A_PAGE: Final = 25

#: Targets of a model that a list shows; its own page has all.
TARGETS_IN_A_LIST: Final = 4

#: Upstreams in the list, those in trouble first.
MAX_UPSTREAMS_SHOWN: Final = 50

#: Routes that are judged in one turn of the reactor: some 3 ms with two targets each.
ROUTES_A_TURN: Final = 200

TROUBLE: Final = "trouble"


@attrs.frozen
class UpstreamRow:
    """One upstream in the list."""

    name: str
    path: str
    protocol: str
    state: State
    hour: Fared


class ModelsPage:
    """The endpoints of models and upstreams."""

    def __init__(self, pages: Pages, sources: Sources) -> None:
        self._pages = pages
        self._sources = sources

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint("GET", "/models", self.show, free_query=True),
            Endpoint("GET", "/models/one", self.show_model, free_query=True),
            Endpoint("GET", "/models/upstream", self.show_upstream, free_query=True),
        )

    async def show(self, call: Call) -> Answer:
        """List the models, some on a page, and the upstreams behind them."""
        config, moment = self._config, self._moment()
        name, state = call.query.get("q", ""), call.query.get("state", "")
        found = await self._found(config, moment, name, state)
        part = page_of(len(found), MODELS_A_PAGE, call.query.get("page"))
        routes = part.of(found)
        upstreams = {upstream.name: upstream for upstream in config.upstreams}
        rows = []
        for route in routes:
            rows.append(self._row(config, upstreams, route, moment, TARGETS_IN_A_LIST))
            if len(rows) % 10 == 0:
                await self._sources.pause()
        filters = {key: value for key, value in (("q", name), ("state", state)) if value}
        of_upstreams = () if part.number > 1 or filters else self._upstream_rows(config, moment)
        await self._sources.pause()
        more = {route.model: len(route.targets) - TARGETS_IN_A_LIST for route in routes}
        return self._pages.answer(
            "models.html",
            call.person,
            title="Models",
            place="/models",
            rows=rows,
            more=more,
            total=len(config.routes),
            found=len(found),
            q=name,
            state=state,
            pager=part.links("/models", filters),
            upstreams=of_upstreams,
            upstreams_total=len(config.upstreams),
            config_path=self._sources.config_file.path,
            since_ms=self._sources.lately.since_ms,
            is_heard=moment.is_heard,
        )

    async def show_model(self, call: Call) -> Answer:
        """Show one model, all its targets with all that is known of them."""
        config, model = self._config, call.query.get("model", "")
        route = config.routes_by_model.get(model)
        if route is None:
            raise GatewayError("not_found", "the config in force has no such model")
        upstreams = {upstream.name: upstream for upstream in config.upstreams}
        moment = self._moment()
        return self._pages.answer(
            "model.html",
            call.person,
            title=model,
            place="/models",
            row=self._row(config, upstreams, route, moment),
            since_ms=self._sources.lately.since_ms,
            is_heard=moment.is_heard,
        )

    async def show_upstream(self, call: Call) -> Answer:
        """Show one upstream, its models, its errors, and what each data plane says of it."""
        config, name = self._config, call.query.get("name", "")
        upstream = next((found for found in config.upstreams if found.name == name), None)
        if upstream is None:
            raise GatewayError("not_found", "the config in force has no such upstream")
        lately, now_ms = self._sources.lately, self._sources.now_ms()
        moment = self._moment()
        served, served_total = served_models(config, name)
        hour = lately.targets.upstream_fared(name, now_ms)
        await self._sources.pause()
        return self._pages.answer(
            "upstream.html",
            call.person,
            title=name,
            place="/models",
            upstream=upstream,
            state=upstream_state(
                moment, name, lately.targets.upstream_fared(name, now_ms, LATELY_SLOTS)
            ),
            hour=hour,
            missing=moment.missing.get(name, ()),
            served=[
                (
                    model,
                    target_state(
                        moment, name, model, lately.targets.fared(name, model, now_ms, LATELY_SLOTS)
                    ),
                    lately.targets.fared(name, model, now_ms),
                    routes,
                )
                for model, routes in served
            ],
            served_total=served_total,
            errors=[error_row(error) for error in lately.targets.errors(name)],
            planes=plane_rows(lately.planes.all(now_ms), name, now_ms),
            since_ms=lately.since_ms,
        )

    # -- parts of them ------------------------------------------------------------------------

    @property
    def _config(self) -> Config:
        return self._sources.config_file.config

    def _moment(self) -> Moment:
        now_ms = self._sources.now_ms()
        return moment_of(self._sources.lately.planes.all(now_ms), now_ms)

    async def _found(
        self, config: Config, moment: Moment, name: str, state: str
    ) -> list[RouteConfig]:
        """Return the routes that filters leave, by their names."""
        needle = name.lower()
        found = [route for route in config.routes if needle in route.model.lower()]
        if state == TROUBLE:
            troubled = []
            for number, route in enumerate(found, 1):
                if states_of(route, self._sources.lately, moment).is_trouble:
                    troubled.append(route)
                if number % ROUTES_A_TURN == 0:
                    await self._sources.pause()
            found = troubled
        return sorted(found, key=lambda route: route.model)

    def _row(
        self,
        config: Config,
        upstreams: dict[str, UpstreamConfig],
        route: RouteConfig,
        moment: Moment,
        most: int | None = None,
    ) -> RouteRow:
        return route_row(config, upstreams, route, self._sources.lately, moment, most)

    def _upstream_rows(self, config: Config, moment: Moment) -> list[UpstreamRow]:
        targets, now_ms = self._sources.lately.targets, moment.now_ms
        lately, hour = (
            targets.upstreams_fared(now_ms, LATELY_SLOTS),
            targets.upstreams_fared(now_ms),
        )
        rows = [
            UpstreamRow(
                upstream.name,
                upstream_path(upstream.name),
                upstream.protocol,
                upstream_state(moment, upstream.name, lately.get(upstream.name, Fared())),
                hour.get(upstream.name, Fared()),
            )
            for upstream in config.upstreams
        ]
        rows.sort(key=lambda row: (not row.state.is_trouble, row.name))
        return rows[:MAX_UPSTREAMS_SHOWN]
