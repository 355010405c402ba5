"""Tests for what the parts of a config must agree on."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import ClassVar

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.agreement import (
    caps_of_other_protocol,
    disagreements,
    models_of_no_route,
)
from omnigate.config.schema import CapsConfig, ConfigError, load_config

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("keys", "upstreams", "routes", "targets", "name", "model", "weight"),
                    *("price", "per_second", "min_seconds", "max_seconds", "default_seconds"),
                    *("allowed_input", "price_multipliers", "max_concurrent_per_key"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


class DisagreementTests(SynchronousTestCase):
    """Every reference that leads nowhere and every name used twice is found."""

    def assert_faults(self, text: str, *expected: str) -> None:
        faults = [str(fault) for fault in disagreements(tomllib.loads(text))]
        self.assertEqual(faults, list(expected))

    def test_unknown_upstreams_get_a_suggestion(self) -> None:
        self.assert_faults(
            """
            upstreams = [{name = "openai"}]
            routes = [{targets = [{upstream = "openai"}, {upstream = "opnai"}, {upstream = "q"}]}]
            """,
            'routes[0].targets[1].upstream: no upstream named "opnai" (did you mean "openai"?)',
            'routes[0].targets[2].upstream: no upstream named "q"',
        )

    def test_names_are_used_once(self) -> None:
        self.assert_faults(
            """
            upstreams = [{name = "a"}, {name = "b"}, {name = "a"}]
            routes = [{model = "a"}, {model = "a"}]
            keys = [
                {name = "a", key_env = "A"}, {name = "a", key_env = "A"},
                {name = "b", key_sha256 = "aB"}, {name = "c", key_sha256 = "Ab"},
            ]
            """,
            "keys[1].name: is the same as keys[0].name",
            "keys[3].key_sha256: is the same as keys[2].key_sha256",
            "keys[1].key_env: is the same as keys[0].key_env",
            "upstreams[2].name: is the same as upstreams[0].name",
            "routes[1].model: is the same as routes[0].model",
        )

    def test_a_key_has_one_source_and_a_period_needs_a_budget(self) -> None:
        self.assert_faults(
            """
            keys = [
                {name = "a"}, {name = "b", key_env = "B", key_sha256 = "b"},
                {name = "c", key_env = "C", budget_period = "daily"},
                {name = "d", key_env = "D", budget_period = "daily", budget_usd = 1},
            ]
            """,
            "keys[0]: needs exactly one of key_sha256 and key_env",
            "keys[1]: needs exactly one of key_sha256 and key_env",
            "keys[2].budget_period: there is no budget_usd or soft_budget_usd that it could count "
            "for",
        )

    def test_budgets_that_do_not_go_together(self) -> None:
        """A soft budget may stand alone; a zone needs midnights that count."""
        self.assert_faults(
            """
            keys = [
                {name = "a", key_env = "A", budget_timezone = "UTC"},
                {name = "b", key_env = "B", budget_timezone = "UTC", budget_usd = 1},
                {name = "c", key_env = "C", budget_usd = 1, soft_budget_usd = 1.000000001},
                {name = "d", key_env = "D", budget_usd = 1.0, soft_budget_usd = 1},
                {name = "e", key_env = "E", soft_budget_usd = 1, budget_period = "weekly"},
                {name = "f", key_env = "F", soft_budget_usd = nan, budget_usd = "1"},
            ]
            """,
            "keys[0].budget_timezone: there is no budget_usd or soft_budget_usd that it could "
            "count for",
            "keys[1].budget_timezone: has no meaning without a budget_period that turns",
            "keys[2].soft_budget_usd: is more than budget_usd, which would block the key before it",
        )

    def test_settings_that_would_do_nothing(self) -> None:
        self.assert_faults(
            """
            [[upstreams]]
            protocol = "openai"
            base_url = "http://localhost/v1"
            anthropic_version = "x"
            drop_betas = []
            ca_file = "/x"
            [[upstreams]]
            protocol = "anthropic"
            base_url = "https://localhost/v1"
            anthropic_version = "x"
            ca_file = "/x"
            """,
            'upstreams[0].anthropic_version: only goes with protocol = "anthropic"',
            'upstreams[0].drop_betas: only goes with protocol = "anthropic"',
            "upstreams[0].ca_file: has no effect: base_url is http, not https",
        )

    def test_targets_of_one_route(self) -> None:
        self.assert_faults(
            """
            upstreams = [{name = "a"}]
            [[routes]]
            strategy = "weighted"
            targets = [{upstream = "a", model = "m", weight = 0}]
            [[routes]]
            strategy = "weighted"
            targets = [{upstream = "a", model = "m", weight = 0}, {upstream = "a", model = "n"}]
            [[routes]]
            targets = [{upstream = "a", model = "m"}, {upstream = "a", model = "m"}]
            """,
            "routes[0].targets: all weights are 0: at least one must be more",
            "routes[2].targets[1]: is the same upstream and model as routes[2].targets[0]",
        )

    def test_media_models(self) -> None:
        """A model is of one route, and that is of text or of media."""
        self.assert_faults(
            """
            routes = [{model = "fast"}, {model = "flux"}]
            [media]
            routes = [{model = "film"}, {model = "flux"}, {model = "film"}]
            """,
            "media.routes[2].model: is the same as media.routes[0].model",
            "media.routes[1].model: is the same as routes[1].model; a model is one of text or of "
            "media jobs",
        )

    def test_a_bucket_and_webhooks(self) -> None:
        self.assert_faults(
            """
            [media]
            storage = "s3"
            webhooks = { max_concurrent_per_key = 17 }
            """,
            'media.s3: is missing: storage = "s3" needs [media.s3], the bucket',
            "media.webhooks.max_concurrent_per_key: is more than max_concurrent",
        )
        self.assert_faults(
            """
            [media]
            storage = "s3"
            s3 = {}
            webhooks = { max_concurrent = 2 }
            """
        )

    def test_seconds_of_media_targets(self) -> None:
        self.assert_faults(
            """
            [[media.routes]]
            targets = [
                { min_seconds = 5, max_seconds = 4, default_seconds = 1 },
                { min_seconds = 2, default_seconds = 1 },
                { max_seconds = 4, default_seconds = 5 },
                { min_seconds = 4, max_seconds = 4, default_seconds = 4 },
                { max_seconds = true, default_seconds = "5" },
            ]
            """,
            "media.routes[0].targets[0].max_seconds: is less than min_seconds",
            "media.routes[0].targets[1].default_seconds: is less than min_seconds",
            "media.routes[0].targets[2].default_seconds: is more than max_seconds",
        )

    def test_what_inputs_of_media_may_hold(self) -> None:
        """A multiplier's field must be one that a job may name, and so must seconds that count."""
        self.assert_faults(
            """
            [[media.routes]]
            allowed_input = ["prompt", 3]
            price_multipliers = { size = { big = 2 }, prompt = { a = 1 } }
            targets = [
                { price = { per_second = 0.1 } },
                { price = { per_second = 0.1 }, default_seconds = 5 },
                { price = { per_second = 0.0 } },
                { price = { per_second = nan } },
                { price = { per_job = 1 }, adapter = "fal", background = true },
                { price = 3, adapter = "gemini_interactions", background = false },
            ]
            [[media.routes]]
            allowed_input = ["seconds"]
            targets = [{ price = { per_second = 0.1 } }]
            [[media.routes]]
            price_multipliers = { size = { big = 2 } }
            targets = [{ price = { per_second = 0.1 } }]
            """,
            'media.routes[0].price_multipliers: "size" is not in allowed_input, so no job can name '
            "it",
            "media.routes[0].targets[0]: is priced per second, and allowed_input lets no job name "
            "a duration: give it default_seconds, or allow duration or duration_seconds or seconds "
            "or durationSeconds",
            'media.routes[0].targets[4].background: only goes with adapter = "gemini_interactions"',
        )

    @settings(max_examples=200, deadline=None)
    @given(st.dictionaries(st.sampled_from(["keys", "routes", "webhooks", "s3"]), JSON))
    def test_any_media_is_looked_at_without_harm(self, media: dict[str, object]) -> None:
        list(disagreements({"media": media}))

    @settings(max_examples=200, deadline=None)
    @given(st.dictionaries(st.sampled_from(["keys", "upstreams", "routes"]), st.lists(JSON) | JSON))
    def test_any_document_is_looked_at_without_harm(self, document: dict[str, object]) -> None:
        """A document of the wrong shape raises nothing here; the structure tells about it."""
        list(disagreements(document))


class ModelsOfKeysTests(SynchronousTestCase):
    """What a key may use and no route is there for."""

    def test_models_of_media(self) -> None:
        """They are models that a key may name, too."""
        target = '{adapter = "fal", model = "m"}'
        config = load_config(
            f'media = {{routes = [{{model = "flux", targets = [{target}]}}]}}\n'
            'keys = [{name = "app", key_env = "A", models = ["flux", "fl*", "flix"]}]'
        )
        self.assertEqual(
            [str(note) for note in models_of_no_route(config)],
            ['keys[0].models ("app"): no route has a model "flix" (did you mean "flux"?)'],
        )

    def notes(self, models: list[str], patterns: list[str]) -> list[str]:
        targets = 'targets = [{upstream = "u", model = "m"}]'
        routes = ", ".join(f'{{model = "{model}", {targets}}}' for model in models)
        config = load_config(
            'upstreams = [{name = "u", protocol = "openai", base_url = "https://h/v1"}]\n'
            f"routes = [{routes}]\n"
            f'keys = [{{name = "all", key_env = "A"}}, '
            f'{{name = "app", key_env = "B", models = {patterns}}}]'
        )
        return [str(note) for note in models_of_no_route(config)]

    def test_slips(self) -> None:
        """Each is told with its key, and with what may have been meant."""
        self.assertEqual(
            self.notes(["fast", "smart", "claude-x"], ["fats", "smart", "claude-*", "gpt-*"]),
            [
                'keys[1].models ("app"): no route has a model "fats" (did you mean "fast"?)',
                'keys[1].models ("app"): no route has a model "gpt-*"',
            ],
        )

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.text("ab", min_size=1, max_size=3), max_size=5, unique=True),
        st.tuples(st.text("ab", max_size=3), st.sampled_from(["", "*"])).map("".join),
    )
    def test_like_the_data_plane(self, models: list[str], pattern: str) -> None:
        """A pattern is noted if, and only if, it is no model and begins none."""
        if not pattern:
            return
        matched = any(
            model.startswith(pattern[:-1]) if pattern.endswith("*") else model == pattern
            for model in models
        )
        self.assertEqual(len(self.notes(models, [pattern])), 0 if matched else 1)


class CapsOfOtherProtocolTests(SynchronousTestCase):
    """What targets say of their models, and their upstream's protocol has no use for."""

    #: A value for each of the caps.
    VALUES: ClassVar[Mapping[str, object]] = {
        "thinking": "budget",
        "efforts": ["low"],
        "max_tokens_field": "max_tokens",
        "user_field": "user",
        "upstream_api": "chat",
        "max_output": 8000,
    }

    def notes(self, protocol: str, target: str) -> list[str]:
        config = load_config(
            f'upstreams = [{{name = "u", protocol = "{protocol}", base_url = "https://h/v1"}}]\n'
            f'routes = [{{model = "fast", targets = [{{upstream = "u", model = "m", {target}}}]}}]'
        )
        return [str(note) for note in caps_of_other_protocol(config)]

    def test_each(self) -> None:
        """Each of the caps is noted at the protocol that its table in the manual leaves out."""
        both = {"sampling", "efforts", "max_output"}
        for field in attrs.fields(CapsConfig):
            value = json.dumps(self.VALUES.get(field.name, True))
            noted = [
                protocol
                for protocol in ("openai", "anthropic")
                if self.notes(protocol, f"caps = {{ {field.name} = {value} }}")
            ]
            self.assertEqual(len(noted), 0 if field.name in both else 1, field.name)

    def test_told(self) -> None:
        """A note has the place, the route and the protocol it would be for."""
        self.assertEqual(
            self.notes("anthropic", 'default_max_tokens = 9, caps = { upstream_api = "chat" }'),
            [
                'routes[0].targets[0].caps.upstream_api ("fast"): has no effect: it is for'
                ' upstreams with protocol = "openai"'
            ],
        )
        self.assertEqual(
            self.notes("openai", "default_max_tokens = 9, caps = { sampling = false }"),
            [
                'routes[0].targets[0].default_max_tokens ("fast"): has no effect: it is for'
                ' upstreams with protocol = "anthropic"'
            ],
        )

    def test_misplaced(self) -> None:
        """One that stands in the target itself is a fault that says where it belongs."""
        for field in attrs.fields(CapsConfig):
            error = self.assertRaises(ConfigError, self.notes, "openai", f"{field.name} = 1")
            self.assertEqual(
                [fault.message for fault in error.faults],
                [f"is one of caps: write caps = {{ {field.name} = … }}"],
            )
