"""Tests for what models can do, as the table and the operator say."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.config.models import MODELS_DATE, known_capabilities, target_capabilities
from omnigate.config.schema import CapsConfig, TargetConfig, UpstreamConfig, load_config
from tests.dialects.vectors import vectors

OPENAI = "https://api.openai.com/v1"


def claude(model: str, version: str | None = None) -> Capabilities:
    """What is known of a model at an Anthropic upstream."""
    return known_capabilities("anthropic", model, version)


def gpt(model: str, base_url: str = OPENAI) -> Capabilities:
    """What is known of a model at an OpenAI upstream."""
    return known_capabilities("openai", model, None, base_url)


class ClaudeTests(SynchronousTestCase):
    """Models at upstreams that speak Anthropic's protocol."""

    def assert_all(self, models: str, **wanted: object) -> None:
        for model in models.split():
            known = attrs.asdict(claude(model))
            self.assertEqual({name: known[name] for name in wanted}, wanted, model)

    def test_the_families(self) -> None:
        """Each capability turns where its generation begins."""
        self.assert_all(
            "claude-opus-4-1 claude-sonnet-4 claude-3-7-sonnet claude-3-5-haiku",
            thinking="budget",
            prefill=True,
            mid_system=False,
            structured_outputs=False,
            sampling=True,
            forced_tools=True,
        )
        self.assert_all(
            "claude-opus-4-5 claude-sonnet-4-5 claude-haiku-4-5",
            thinking="budget",
            prefill=True,
            mid_system=False,
            structured_outputs=True,
            sampling=True,
            max_output=64_000,
        )
        self.assert_all(
            "claude-opus-4-6 claude-sonnet-4-6",
            thinking="adaptive",
            prefill=False,
            mid_system=False,
            sampling=True,
            efforts=("low", "medium", "high", "max"),
        )
        self.assert_all("claude-opus-4-7", sampling=False, mid_system=False, forced_tools=True)
        self.assert_all(
            "claude-opus-4-8 claude-opus-5 claude-sonnet-5 claude-haiku-5-5",
            sampling=False,
            mid_system=True,
            thinking_off=True,
            forced_tools=True,
            max_output=128_000,
        )
        self.assert_all("claude-fable-5 claude-mythos-5", thinking_off=False, forced_tools=True)
        self.assert_all(
            "claude-fable-5-1 claude-fable-5-2 claude-mythos-5-1 claude-mythos-5-2 "
            "claude-opus-5-5 claude-sonnet-5-5",
            thinking_off=False,
            forced_tools=False,
            mid_system=True,
        )

    def test_successors_are_as_strict_as_the_strictest(self) -> None:
        self.assert_all(
            "claude-opus-6 claude-sonnet-7-1 claude-opus-4-9 claude-saga-1",
            sampling=False,
            thinking="adaptive",
            thinking_off=False,
            forced_tools=False,
            prefill=False,
            max_output=0,
        )

    def test_other_spellings_mean_the_same(self) -> None:
        """Releases, aggregators and hosting providers write more than the vendor's id."""
        for spelled in (
            "claude-sonnet-4-5-20250929",
            "claude-sonnet-4-5@20250929",
            "anthropic/claude-sonnet-4.5",
            "anthropic/claude-sonnet-4.5:beta",
            "anthropic/claude-4.5-sonnet-20250929",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ):
            self.assertIs(claude(spelled), claude("claude-sonnet-4-5"), spelled)
        self.assertIs(claude("claude-opus-5-5-20260922"), claude("claude-opus-5-5"))
        self.assertIsNot(claude("not-a-claude-opus-5"), claude("claude-opus-5"))

    def test_the_version_takes_sampling_away(self) -> None:
        """From 2026-10-21 on no model takes it; before, those that do."""
        for model in ("claude-sonnet-4-5", "claude-opus-4-6", "of-another-vendor"):
            for version in (None, "2023-06-01", "something-else"):
                self.assertTrue(claude(model, version).sampling)
            for version in ("2026-10-21", "2027-03-01"):
                known = claude(model, version)
                self.assertEqual(known, attrs.evolve(claude(model), sampling=False))
        self.assertFalse(claude("claude-sonnet-5", "2023-06-01").sampling)

    def test_of_other_vendors(self) -> None:
        """They are asked in the way that all compatible servers know."""
        known = claude("kimi-k3")
        self.assertEqual(known, attrs.evolve(Capabilities(), thinking="budget", mid_system=False))


class OpenAITests(SynchronousTestCase):
    """Models at upstreams that speak OpenAI's protocol."""

    def test_the_families(self) -> None:
        """Reasoning, the efforts and where requests with tools go."""
        for model, efforts, none, responses in (
            ("gpt-5", ("minimal", "low", "medium", "high"), False, False),
            ("gpt-5-mini-2025-08-07", ("minimal", "low", "medium", "high"), False, False),
            ("gpt-5.1", ("low", "medium", "high"), True, False),
            ("gpt-5.2", ("low", "medium", "high", "xhigh"), True, False),
            ("gpt-5.4-mini", ("low", "medium", "high", "xhigh"), True, True),
            ("gpt-5.6-sol", ("low", "medium", "high", "xhigh"), True, True),
            ("openai/gpt-6-luna", ("low", "medium", "high", "xhigh", "max"), False, True),
            ("gpt-6.2-astra", ("low", "medium", "high", "xhigh", "max"), False, True),
        ):
            known = gpt(model)
            self.assertEqual(
                (known.efforts, known.effort_none, known.tools_over_responses),
                (efforts, none, responses),
                model,
            )
            self.assertEqual(
                (known.reasoning, known.sampling, known.stop, known.max_output),
                (True, False, False, 128_000),
                model,
            )
        for model in ("gpt-4.1", "gpt-4o-mini", "ft:gpt-4.1-2025-04-14:org::x", "gpt-5-chat"):
            known = gpt(model)
            self.assertEqual((known.reasoning, known.sampling, known.stop), (False, True, True))

    def test_some_are_served_over_responses_only(self) -> None:
        for model in ("gpt-5.5-pro", "gpt-5-pro-2025-10-06", "o3-pro", "gpt-5.3-codex"):
            self.assertEqual(gpt(model).upstream_api, "responses", model)
        for model in ("gpt-5.5", "gpt-6-astra", "gpt-4.1"):
            self.assertEqual(gpt(model).upstream_api, "", model)

    def test_who_nobody_knows(self) -> None:
        """At OpenAI itself it has OpenAI's fields, elsewhere those of most servers."""
        for base_url in (OPENAI, "https://eu.api.openai.com/v1", "https://API.OpenAI.com:443/v1"):
            self.assertEqual(gpt("something-new", base_url), Capabilities())
        for base_url in ("http://127.0.0.1:8000/v1", "https://api.openai.com.example.net/v1", ""):
            known = gpt("qwen3:8b", base_url)
            self.assertEqual(
                known,
                attrs.evolve(Capabilities(), max_tokens_field="max_tokens", user_field="user"),
            )
        for base_url in (OPENAI, "http://127.0.0.1:8000/v1"):
            self.assertEqual(gpt("gpt-4.1", base_url).max_tokens_field, "max_completion_tokens")

    def test_of_other_vendors(self) -> None:
        """They have the fields of compatible servers, and some of them reason."""
        for model, reasoning, efforts in (
            ("gemini-4-neon", True, ("low", "medium", "high")),
            ("google/gemini-3.8-flash", True, ("low", "medium", "high")),
            ("models/gemini-2.5-pro", False, ()),
            ("deepseek-v4-pro", True, ("high", "max")),
            ("x-ai/grok-4.7", False, ()),
            ("mistral-large-4", False, ()),
        ):
            known = gpt(model, "https://models.example.net/v1")
            self.assertEqual((known.reasoning, known.efforts), (reasoning, efforts), model)
            self.assertEqual((known.sampling, known.max_tokens_field), (True, "max_tokens"))

    def test_names_that_only_look_alike(self) -> None:
        compatible = gpt("qwen3:8b", "")
        for model in ("gpt-j-6b", "EleutherAI/gpt-neox-20b", "my-gpt-6", "", "/", ":", "openai/"):
            self.assertIs(gpt(model, ""), compatible, model)
        self.assertEqual(gpt("openai/gpt-oss-120b:free", "").max_tokens_field, "max_tokens")


class TableTests(SynchronousTestCase):
    """The table that ships, as a whole."""

    def test_its_date(self) -> None:
        self.assertRegex(MODELS_DATE, r"\A20\d\d-\d\d-\d\d\Z")

    def test_efforts_are_in_order_and_none_is_told_apart(self) -> None:
        for known in (*map(gpt, ("gpt-5", "gpt-6", "o3")), claude("claude-opus-4-6")):
            self.assertEqual(sorted(known.efforts, key=EFFORTS.index), list(known.efforts))
            self.assertNotIn("none", known.efforts)

    def test_it_agrees_with_the_golden_vectors(self) -> None:
        """What a vector's route knows of its model is what the table does."""
        for vector in vectors():
            context = vector.context
            known = known_capabilities(
                context["upstream"],
                vector.request["model"],
                context.get("anthropic_version"),
                OPENAI,
            )
            found = attrs.asdict(known)
            self.assertEqual(
                {name: found[name] for name in context["caps"]}, context["caps"], vector.name
            )


class TargetTests(SynchronousTestCase):
    """The operator's word, else the table's."""

    def resolve(self, model: str, caps: CapsConfig, **changes: Any) -> Capabilities:
        upstream = UpstreamConfig(name="u", protocol="openai", base_url=OPENAI)
        return target_capabilities(
            TargetConfig(upstream="u", model=model, caps=caps, **changes), upstream
        )

    def test_every_value_of_the_operator_wins(self) -> None:
        """Each of the names that ``caps`` may hold arrives under its own name."""
        other: dict[str, Any] = {
            "thinking": "budget",
            "efforts": ("low", "high"),
            "max_tokens_field": "max_tokens",
            "user_field": "user",
            "upstream_api": "chat",
            "max_output": 8000,
        }
        usual = Capabilities()
        for field in attrs.fields(CapsConfig):
            value = other.get(field.name)
            if value is None:
                value = not getattr(usual, field.name)
            change: dict[str, Any] = {field.name: value}
            found = self.resolve("something-new", CapsConfig(**change))
            self.assertEqual(found, attrs.evolve(usual, **change), field.name)

    def test_what_is_not_told_stays_as_it_is_known(self) -> None:
        known = gpt("gpt-6.1-sol")
        self.assertIs(self.resolve("gpt-6.1-sol", CapsConfig()), known)
        self.assertEqual(
            self.resolve("gpt-6.1-sol", CapsConfig(sampling=True), default_max_tokens=7),
            attrs.evolve(known, sampling=True, default_max_tokens=7),
        )

    def test_one_api_is_for_requests_with_tools_too(self) -> None:
        found = self.resolve("gpt-6.1-sol", CapsConfig(upstream_api="chat"))
        self.assertEqual((found.upstream_api, found.tools_over_responses), ("chat", False))

    def test_the_effort_none_may_stand_among_the_others(self) -> None:
        found = self.resolve("gpt-5", CapsConfig(efforts=("none", "low")))
        self.assertEqual((found.efforts, found.effort_none), (("low",), True))
        found = self.resolve("gpt-5", CapsConfig(efforts=("none", "low"), effort_none=False))
        self.assertEqual((found.efforts, found.effort_none), (("low",), False))

    def test_from_the_file(self) -> None:
        """As an operator writes it; a word that is no effort is a fault."""
        text = """
        [[upstreams]]
        name = "own"
        protocol = "openai"
        base_url = "http://127.0.0.1:8000/v1"
        [[routes]]
        model = "fast"
        targets = [
            { upstream = "own", model = "m", caps = { reasoning = true, efforts = ["low"] } },
        ]
        """
        config = load_config(text)
        (route,) = config.routes
        found = target_capabilities(route.targets[0], config.upstreams[0])
        self.assertEqual((found.reasoning, found.efforts), (True, ("low",)))
        self.assertEqual((found.max_tokens_field, found.user_field), ("max_tokens", "user"))
        with self.assertRaisesRegex(ValueError, r"caps\.efforts"):
            load_config(text.replace('"low"', '"lots"'))
