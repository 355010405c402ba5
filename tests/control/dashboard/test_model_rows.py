"""Models, targets and upstreams as pages show them."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.models import target_capabilities
from omnigate.config.schema import Config, RouteConfig, TargetConfig, load_config
from omnigate.control.dashboard.model_rows import (
    capability_words,
    first_shares,
    route_row,
    route_state,
    tried_now,
)
from omnigate.control.dashboard.target_states import (
    Moment,
    State,
    moment_of,
    target_state,
    upstream_state,
)
from omnigate.control.dashboard.upstream_rows import plane_rows, served_models
from omnigate.control.lately import Lately
from omnigate.control.plane_states import SILENT_MS, PlaneState, Resting
from omnigate.control.target_record import Fared
from omnigate.upstream_state import UpstreamState

NOW = 1_795_982_400_000

CONFIG = """
[[upstreams]]
name = "openai"
protocol = "openai"
base_url = "https://api.openai.com/v1"

[[upstreams]]
name = "anthropic"
protocol = "anthropic"
base_url = "https://api.anthropic.com/v1"

[[routes]]
model = "smart"
strategy = "weighted"
  [[routes.targets]]
  upstream = "openai"
  model = "gpt-5.4-mini"
  weight = 3
  [[routes.targets]]
  upstream = "anthropic"
  model = "claude-sonnet-4-5"
  weight = 1
  price = { input = 1, output = 2 }
  [[routes.targets]]
  upstream = "openai"
  model = "nobody-knows-it"
  weight = 0
"""


def plane(name: str = "a", told_ms: int = NOW, **members: object) -> PlaneState:
    found = {"reporter": name, "told_ms": told_ms, "figures": {}, "upstreams": {}, "host": name}
    return PlaneState(**(found | members))  # type: ignore[arg-type]


def rest(model: str, seconds: int, upstream: str = "openai") -> Resting:
    return Resting(upstream, model, NOW - 60_000, NOW + seconds * 1000)


def route(*targets: tuple[str, int], strategy: str = "failover") -> RouteConfig:
    """A route whose targets are models of one upstream each, called like the model."""
    return RouteConfig(
        model="m",
        targets=tuple(TargetConfig(f"at-{model}", model, weight) for model, weight in targets),
        strategy=strategy,  # type: ignore[arg-type]
    )


def fared(answered: int, failed: int) -> Fared:
    return Fared(answered, failed)


class StateTests(SynchronousTestCase):
    def test_nothing_is_known_without_a_data_plane(self) -> None:
        for planes in ([], [plane(told_ms=NOW - SILENT_MS - 1, upstreams={"openai": 3})]):
            moment = moment_of(planes, NOW)
            self.assertEqual("not known", target_state(moment, "openai", "m", fared(1, 0)).text)
            self.assertEqual("not known", upstream_state(moment, "openai", fared(1, 0)).text)

    def test_by_what_planes_tell(self) -> None:
        resting = (rest("m", 20), rest("n", -5))
        moment = moment_of(
            [plane(upstreams={"openai": 1, "x": 2, "y": 3}, resting=resting, missing=("z",))], NOW
        )
        for upstream, model, words in (
            ("openai", "m", "resting"),
            ("openai", "n", "on trial"),
            ("openai", "o", "healthy"),
            ("x", "m", "resting"),
            ("y", "m", "credential refused"),
            ("z", "m", "no credential"),
        ):
            found = target_state(moment, upstream, model, fared(9, 0))
            self.assertEqual(words, found.text, (upstream, model))
        self.assertEqual(NOW + 20_000, target_state(moment, "openai", "m", fared(9, 0)).until_ms)

    def test_by_attempts(self) -> None:
        moment = moment_of([plane()], NOW)
        for answered, failed, words, kind in (
            (0, 0, "idle", "quiet"),
            (1, 3, "healthy", "good"),  # too few to say anything
            (19, 1, "healthy", "good"),
            (9, 1, "some attempts fail", "warn"),
            (5, 5, "failing", "bad"),
        ):
            for state in (
                target_state(moment, "openai", "m", fared(answered, failed)),
                upstream_state(moment, "openai", fared(answered, failed)),
            ):
                self.assertEqual((words, kind), (state.text, state.kind))

    def test_upstreams(self) -> None:
        moment = moment_of(
            [plane(upstreams={"openai": UpstreamState.COOLING}, resting=(rest("m", 20),))], NOW
        )
        state = upstream_state(moment, "openai", fared(9, 0))
        self.assertEqual(("all models rest", NOW + 20_000), (state.text, state.until_ms))

    def test_routes(self) -> None:
        good, quiet = State("healthy", "good"), State("idle", "quiet")
        warn, bad = State("resting", "warn"), State("failing", "bad")
        for states, text, kind in (
            ([good], "healthy", "good"),
            ([quiet, good], "healthy", "good"),
            ([quiet, quiet], "idle", "quiet"),
            ([warn], "resting", "warn"),
            ([warn, good], "1 of 2 targets in trouble", "warn"),
            ([warn, bad], "all targets in trouble", "warn"),
            ([bad, bad], "all targets in trouble", "bad"),
        ):
            found = route_state(states)
            self.assertEqual((text, kind), (found.text, found.kind))


class OrderTests(SynchronousTestCase):
    """What a request would try now."""

    def now(self, found: RouteConfig, *resting: str, missing: tuple[str, ...] = ()) -> str:
        rests = tuple(rest(model, 20, f"at-{model}") for model in resting)
        moment = moment_of([plane(resting=rests, missing=missing)], NOW)
        return " ".join(tried_now(found, moment))

    def test_failover(self) -> None:
        three = route(("a", 1), ("b", 1), ("c", 1))
        self.assertEqual(
            "a at at-a, then b at at-b, then c at at-c, in this order.", self.now(three)
        )
        self.assertEqual(
            "b at at-b, then c at at-c, in this order. Then those that rest: a at at-a.",
            self.now(three, "a"),
        )
        self.assertEqual(
            "b at at-b first. Passed over for want of a credential: a at at-a, then c at at-c.",
            self.now(three, missing=("at-a", "at-c")),
        )

    def test_all_rest(self) -> None:
        self.assertEqual(
            "All rest, and are asked all the same: a at at-a.", self.now(route(("a", 1)), "a")
        )

    def test_weighted(self) -> None:
        found = route(("a", 3), ("b", 1), ("c", 0), strategy="weighted")
        self.assertEqual(
            "Drawn by weight: a at at-a (75 %), b at at-b (25 %); after all of these c at at-c.",
            self.now(found),
        )
        self.assertEqual(
            "b at at-b, then c at at-c, in this order.",
            self.now(route(("b", 0), ("c", 0), strategy="weighted")),
        )

    def test_round_robin(self) -> None:
        found = route(("a", 1), ("b", 1), strategy="round_robin")
        self.assertEqual("In turn, whoever is next: a at at-a, then b at at-b.", self.now(found))

    @given(
        st.sampled_from(["failover", "round_robin", "weighted"]),
        st.lists(
            st.tuples(st.integers(0, 100), st.booleans(), st.booleans()), min_size=1, max_size=6
        ),
    )
    def test_every_target_is_named_once(
        self, strategy: str, targets: list[tuple[int, bool, bool]]
    ) -> None:
        found = route(
            *((f"m{n}", target[0]) for n, target in enumerate(targets)), strategy=strategy
        )
        rests = [f"m{n}" for n, target in enumerate(targets) if target[1]]
        missing = tuple(f"at-m{n}" for n, target in enumerate(targets) if target[2])
        words = self.now(found, *rests, missing=missing)
        for n in range(len(targets)):
            self.assertEqual(1, words.count(f"m{n} at at-m{n}"), words)

    def test_shares(self) -> None:
        for found, shares in (
            (route(("a", 1)), [None]),
            (route(("a", 1), ("b", 1)), [None, None]),
            (route(("a", 1), ("b", 1), strategy="round_robin"), [0.5, 0.5]),
            (route(("a", 3), ("b", 1), strategy="weighted"), [0.75, 0.25]),
            (route(("a", 0), ("b", 0), strategy="weighted"), [None, None]),
        ):
            self.assertEqual(shares, first_shares(found))


class RowTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.config = load_config(CONFIG)

    def test_a_row(self) -> None:
        row = route_row(
            self.config,
            {upstream.name: upstream for upstream in self.config.upstreams},
            self.config.routes[0],
            Lately(NOW),
            Moment(NOW, True, {}, {}, {}),
        )
        one, two, three = row.targets
        assert one.price is not None and two.price is not None
        self.assertEqual((False, True), (one.is_own_price, two.is_own_price))
        self.assertEqual(1_000_000_000, two.price.input)
        self.assertIsNone(three.price)
        self.assertIn("thinking with a budget", two.capabilities)
        self.assertEqual((0, None, None), (one.fared.attempts, one.median_ms, one.last_error))

    def test_the_first_targets(self) -> None:
        """Their shares are those among all targets, and the state is that of all."""
        targets = [(name, 1) for name in ("one", "two", "three", "four", "five")]
        found = attrs.evolve(
            route(*targets, strategy="round_robin"), model=self.config.routes[0].model
        )
        row = route_row(
            self.config,
            {target.upstream: self.config.upstreams[0] for target in found.targets},
            found,
            Lately(NOW),
            Moment(NOW, True, {}, {("at-five", "five"): rest("five", 20, "at-five")}, {}),
            most=2,
        )
        self.assertEqual([("one", 0.2), ("two", 0.2)], [(t.model, t.share) for t in row.targets])
        self.assertEqual("1 of 5 targets in trouble", row.state.text)
        self.assertIn("Then those that rest: five", " ".join(row.now))

    def test_every_protocol_has_words(self) -> None:
        """A model of either protocol says something, or nothing where nothing is special."""
        for upstream in self.config.upstreams:
            for route_ in self.config.routes:
                for target in route_.targets:
                    words = capability_words(upstream, target_capabilities(target, upstream))
                    self.assertNotIn("", words)

    def test_served_models(self) -> None:
        served, total = served_models(self.config, "openai")
        self.assertEqual([("gpt-5.4-mini", ("smart",)), ("nobody-knows-it", ("smart",))], served)
        self.assertEqual(2, total)
        self.assertEqual(([], 0), served_models(Config(), "openai"))

    def test_planes(self) -> None:
        rows = plane_rows(
            [
                plane("a"),
                plane("b", upstreams={"openai": 2}, resting=(rest("m", 20), rest("m", 5, "x"))),
                plane("c", missing=("openai",)),
                plane("d", told_ms=NOW - SILENT_MS - 1),
                plane("e", upstreams={"openai": 77}),
            ],
            "openai",
            NOW,
        )
        found = {row.name[0]: (row.state.text, len(row.resting)) for row in rows}
        self.assertEqual(
            {
                "a": ("healthy", 0),
                "b": ("all models rest", 1),
                "c": ("no credential", 0),
                "d": ("silent", 0),
                "e": ("not known", 0),
            },
            found,
        )
        self.assertEqual(["b", "c"], sorted(row.name[0] for row in rows[:2]))
