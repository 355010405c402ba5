"""Parameters of a request as an OpenAI upstream takes them."""

import json
import time
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.dialects.parameters import (
    is_strict_schema,
    openai_effort,
    openai_max_tokens,
    openai_sampling,
    openai_stop,
    openai_user,
    tier_for_messages,
    tier_of_messages,
)
from omnigate.dialects.shapes import Quirk, Request, ThinkingWish
from omnigate.errors import GatewayError

REASONS = Capabilities(reasoning=True)
CAN_STOP_TO = Capabilities(reasoning=True, effort_none=True)


class EffortTests(SynchronousTestCase):
    """How hard a model is to reason."""

    def effort(
        self,
        caps: Capabilities,
        effort: str | None = None,
        thinking: ThinkingWish | None = None,
    ) -> str | None:
        return openai_effort(Request([], effort=effort, thinking=thinking), caps)

    def test_no_reasoning(self) -> None:
        """A model that does not reason is asked for nothing."""
        self.assertIsNone(self.effort(Capabilities(), "high", ThinkingWish("enabled", 9000)))

    def test_nothing_said(self) -> None:
        """A client that says nothing leaves it to the model, as one does that says adaptive."""
        self.assertIsNone(self.effort(REASONS))
        self.assertIsNone(self.effort(REASONS, None, ThinkingWish("adaptive")))

    def test_by_name(self) -> None:
        """An effort by name wins over any wish for thinking, and travels by its name."""
        for name in ("minimal", "low", "medium", "high", "xhigh", "max", "unheard-of"):
            for thinking in (None, ThinkingWish("disabled"), ThinkingWish("enabled", 90000)):
                self.assertEqual(self.effort(REASONS, name, thinking), name)

    def test_budget(self) -> None:
        """A budget becomes an effort by its size."""
        for budget, effort in (
            (0, "low"),
            (1024, "low"),
            (4095, "low"),
            (4096, "medium"),
            (16383, "medium"),
            (16384, "high"),
            (10**9, "high"),
        ):
            self.assertEqual(self.effort(REASONS, None, ThinkingWish("enabled", budget)), effort)

    def test_off(self) -> None:
        """Reasoning is switched off where it can be, and else is low."""
        self.assertEqual(self.effort(CAN_STOP_TO, None, ThinkingWish("disabled")), "none")
        self.assertEqual(self.effort(REASONS, None, ThinkingWish("disabled")), "low")
        self.assertEqual(self.effort(CAN_STOP_TO, "none"), "none")
        self.assertEqual(self.effort(REASONS, "none"), "low")

    def test_nearest(self) -> None:
        """An effort that the model lacks becomes the nearest it has, the weaker of two."""
        for efforts, asked, given_ in (
            (("low", "medium", "high"), "max", "high"),
            (("low", "medium", "high"), "minimal", "low"),
            (("low", "medium", "high"), "none", "low"),
            (("minimal", "low", "medium", "high"), "none", "minimal"),
            (("none", "low", "high"), "minimal", "low"),
            (("low", "high"), "medium", "low"),
            (("high",), "low", "high"),
            (("low", "medium", "high", "max"), "xhigh", "high"),
            (("low", "medium", "high"), "unheard-of", "unheard-of"),
        ):
            caps = Capabilities(reasoning=True, efforts=efforts)
            self.assertEqual(self.effort(caps, asked), given_, (efforts, asked))

    @settings(max_examples=200)
    @given(
        st.sampled_from(EFFORTS),
        st.lists(st.sampled_from(EFFORTS), unique=True),
        st.booleans(),
    )
    def test_always_one_it_has(self, asked: str, efforts: list[str], effort_none: bool) -> None:
        """What is asked for is an effort the model has; thinking is never switched off unasked."""
        caps = Capabilities(reasoning=True, efforts=tuple(efforts), effort_none=effort_none)
        effort = self.effort(caps, asked)
        if effort == "none":
            self.assertTrue(effort_none and asked == "none")
        elif set(efforts) - {"none"}:
            self.assertIn(effort, efforts)


class ParameterTests(SynchronousTestCase):
    """The other parameters."""

    def test_sampling(self) -> None:
        """Sampling travels where the model takes it, a zero too."""
        request = Request([], temperature=0.0, top_p=0.8)
        self.assertEqual(
            openai_sampling(request, Capabilities(), Quirk.NONE), {"temperature": 0.0, "top_p": 0.8}
        )
        self.assertEqual(openai_sampling(Request([]), Capabilities(), Quirk.NONE), {})
        self.assertEqual(openai_sampling(request, Capabilities(sampling=False), Quirk.NONE), {})
        self.assertEqual(openai_sampling(request, Capabilities(), Quirk.NO_SAMPLING), {})

    def test_stop(self) -> None:
        """Four stop sequences are taken, five refused; a model that takes none gets none."""
        four = ["\n\n", "b", "c", "d"]
        self.assertEqual(openai_stop(Request([], stop=["", *four]), Capabilities()), four)
        five = Request([], stop=[*four, "e"])
        self.assertEqual(openai_stop(five, Capabilities(stop=False)), [])
        error = self.assertRaises(GatewayError, openai_stop, five, Capabilities())
        self.assertEqual(
            (error.kind.code, error.param), ("untranslatable_request", "stop_sequences")
        )

    def test_user(self) -> None:
        """The user is named in the model's field, a long name by its hash."""
        caps = Capabilities(user_field="user")
        self.assertEqual(openai_user(Request([], user="ann"), caps), {"user": "ann"})
        self.assertEqual(openai_user(Request([], user="é" * 128), caps), {"user": "é" * 128})
        self.assertEqual(
            openai_user(Request([], user="é" * 129), caps),
            {"user": sha256("é".encode() * 129).hexdigest()},
        )
        for nobody in (Request([]), Request([], user="")):
            self.assertEqual(openai_user(nobody, caps), {})
        self.assertEqual(openai_user(Request([], user="ann"), Capabilities(user_field="")), {})

    def test_max_tokens(self) -> None:
        """The bound is at most the model's, and at least the protocol's."""
        caps = Capabilities(max_output=100)
        for asked, least, sent in ((None, 16, None), (1, 1, 1), (1, 16, 16), (500, 16, 100)):
            self.assertEqual(openai_max_tokens(Request([], max_tokens=asked), caps, least), sent)
        self.assertEqual(openai_max_tokens(Request([], max_tokens=500), Capabilities()), 500)

    def test_tiers(self) -> None:
        """Service tiers are spelled in the other protocol's words, or left out."""
        for tier, spelled in (("auto", "auto"), ("standard_only", "default"), ("x", None)):
            self.assertEqual(tier_of_messages(tier), spelled)
        for tier, spelled in (
            ("auto", "auto"),
            ("priority", "auto"),
            ("default", "standard_only"),
            ("flex", None),
            ("scale", None),
            ("fast", None),
        ):
            self.assertEqual(tier_for_messages(tier), spelled)
        self.assertIsNone(tier_of_messages(None))
        self.assertIsNone(tier_for_messages(None))


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
LAX = {**CLOSED, "required": []}


class StrictTests(SynchronousTestCase):
    """A schema is strict if each of its objects is closed and requires all it has."""

    def strict(self, schema: object) -> bool:
        return is_strict_schema(json.dumps(schema).encode())

    def test_everywhere(self) -> None:
        """One object that is open or lax spoils it, wherever it stands."""
        for place in (
            lambda inner: inner,
            lambda inner: {"type": "array", "items": inner},
            lambda inner: {"anyOf": [{"type": "null"}, inner]},
            lambda inner: {**CLOSED, "properties": {"a": inner}},
            lambda inner: {**CLOSED, "$defs": {"x": inner}},
            lambda inner: {"type": "array", "prefixItems": [{"type": "string"}, inner]},
        ):
            self.assertTrue(self.strict(place(CLOSED)))
            self.assertFalse(self.strict(place(OPEN)))
            self.assertFalse(self.strict(place(LAX)))

    def test_kinds_of_objects(self) -> None:
        """An object is one by its type, by one of its types, or by its properties."""
        self.assertFalse(self.strict({"type": "object"}))
        self.assertFalse(self.strict({"type": ["object", "null"]}))
        self.assertFalse(self.strict({"properties": {}}))
        self.assertTrue(self.strict({"type": "object", "additionalProperties": False}))

    def test_names_are_no_keywords(self) -> None:
        """A property may be called like a keyword, and values are no schemas."""
        odd = {
            "type": "object",
            "properties": {"type": {"type": "string"}, "properties": {"const": {"type": "object"}}},
            "required": ["type", "properties"],
            "additionalProperties": False,
        }
        self.assertTrue(self.strict(odd))

    def test_odd(self) -> None:
        """What is no schema, or a huge one, is not strict or has no objects; nothing breaks."""
        for schema in (b"", b"{", b"[" * 10_000, b'{"a":"' + b"x" * 300_000 + b'"}'):
            self.assertFalse(is_strict_schema(schema))
        for odd in ({**CLOSED, "required": "a"}, {**CLOSED, "required": [{}]}):
            self.assertFalse(self.strict(odd))
        self.assertTrue(self.strict({"items": 5, "anyOf": 5, "$defs": 5}))

    def test_numbers_that_are_hard_to_round(self) -> None:
        """A schema full of them holds nobody up."""
        schema = b'{"enum":[' + b"1e308," * 40_000 + b"1]}"
        began = time.thread_time()
        is_strict_schema(schema)
        self.assertLess(time.thread_time() - began, 0.5)
