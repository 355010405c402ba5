"""What a job may ask for: a table of inputs and the refusals they meet."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import MediaPriceConfig, MediaRouteConfig, MediaTargetConfig
from omnigate.errors import GatewayError
from omnigate.jobs import durations, pricing
from omnigate.jobs.adapters import asking, registry
from omnigate.jobs.adapters.base import Adapter, InputFault, Task
from omnigate.jobs.input_rules import COUNT_FIELDS, MAX_ESCAPES, check_input
from omnigate.jobs.job import Billable
from omnigate.text import one_line

PER_SECOND = MediaPriceConfig(per_second=Decimal("0.05"))
PER_JOB = MediaPriceConfig(per_job=Decimal("0.05"))


class Choosy:
    """An adapter that refuses what it was told to."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Refuse the field, if it is there."""
        if self.refuses in input:
            raise InputFault(self.refuses, "is nothing for us")

    def billable(self, task: Task) -> Billable:
        """Return what the usual fields say."""
        return asking.billable_input(task.input)


ADAPTERS = cast(
    "Mapping[str, Adapter]", {"replicate": Choosy(), "fal": Choosy(), "gemini": Choosy("fps")}
)


def route(*targets: MediaTargetConfig, **more: Any) -> MediaRouteConfig:
    """Return a route with these targets, or with one that costs the same for every job."""
    return MediaRouteConfig(model="film", targets=targets or (target(),), **more)


def target(price: MediaPriceConfig | None = PER_JOB, **more: Any) -> MediaTargetConfig:
    """Return a target."""
    return MediaTargetConfig(**{"adapter": "replicate", "model": "a/b", "price": price, **more})


ANY = route()
TIMED = route(target(PER_SECOND, max_seconds=10))
DEFAULTED = route(target(), target(PER_SECOND, default_seconds=5, max_seconds=8))
MIXED = route(target(), target(PER_SECOND, adapter="fal"))
LISTED = route(
    price_multipliers={
        "resolution": {"480p": Decimal("0.5"), "720p": Decimal(1)},
        "hd": {"true": Decimal(2)},
        "n": {"1": Decimal(1), "2": Decimal(2)},
    }
)
NARROW = route(allowed_input=("prompt", "seed"))
PER_CHARACTER = route(target(), target(MediaPriceConfig(per_million_characters=Decimal(5))))
FAILOVER = route(target(), target(adapter="gemini", model="veo-3"))

TAKEN: list[tuple[MediaRouteConfig, dict[str, Any]]] = [
    (ANY, {}),
    (ANY, {"prompt": "x", "anything": {"deep": [1, -2]}}),
    (ANY, {"duration": 5}),
    (ANY, {"duration": "5"}),
    (ANY, {"duration": "5s"}),
    (ANY, {"duration": 4.5}),
    (ANY, {"duration": 0}),
    (ANY, {"duration": None}),
    (ANY, {"duration": 5, "seconds": "5s"}),
    (ANY, {"n": 0}),
    (ANY, {"n": "2"}),
    (ANY, {"n": 2.0}),
    (ANY, {"n": None}),
    (TIMED, {"duration": 10}),
    (TIMED, {"durationSeconds": "9.999s"}),
    (DEFAULTED, {}),
    (DEFAULTED, {"duration": 0}),
    (DEFAULTED, {"duration": 8}),
    (MIXED, {"seconds": 3}),
    (LISTED, {}),
    (LISTED, {"resolution": "720p", "hd": True, "n": 2}),
    (LISTED, {"n": "2"}),
    (NARROW, {"prompt": "x", "seed": 1}),
    (NARROW, {}),
    (FAILOVER, {"prompt": "x"}),
    (PER_CHARACTER, {"prompt": "x", "text": None}),
    (PER_CHARACTER, {"text": "x"}),
    (ANY, {"prompt": "x", "text": "y"}),
]

#: Route, input, the member at fault, a word of the remedy.
REFUSED: list[tuple[MediaRouteConfig, dict[str, Any], str, str]] = [
    (ANY, {"duration": -1}, "duration", "none below 0"),
    (ANY, {"duration": "-1"}, "duration", "none below 0"),
    (ANY, {"duration": "-1s"}, "duration", "none below 0"),
    (ANY, {"duration": "auto"}, "duration", "write seconds"),
    (ANY, {"duration": "5 minutes"}, "duration", "write seconds"),
    (ANY, {"duration": True}, "duration", "write seconds"),
    (ANY, {"duration": [5]}, "duration", "write seconds"),
    (ANY, {"duration": 86_401}, "duration", "86400 seconds at most"),
    (ANY, {"duration": 10**400}, "duration", "86400 seconds at most"),
    (ANY, {"duration_seconds": -0.5}, "duration_seconds", "none below 0"),
    (ANY, {"seconds": "x"}, "seconds", "write seconds"),
    (ANY, {"durationSeconds": {}}, "durationSeconds", "write seconds"),
    (ANY, {"duration": 1, "seconds": 60}, "seconds", "one duration"),
    (ANY, {"n": -1}, "n", "none below 0"),
    (ANY, {"n": "-1"}, "n", "whole number"),
    (ANY, {"n": 1.5}, "n", "whole number"),
    (ANY, {"n": True}, "n", "whole number"),
    (ANY, {"n": "two"}, "n", "whole number"),
    (ANY, {"n": "²"}, "n", "whole number"),
    (ANY, {"n": 10**400}, "n", "whole number"),
    (ANY, {"n": float("inf")}, "n", "whole number"),
    (ANY, {"num_images": -4}, "num_images", "whole number"),
    (TIMED, {}, "duration", "paid per second"),
    (TIMED, {"duration": None}, "duration", "paid per second"),
    (TIMED, {"duration": 0}, "duration", "paid per second"),
    (TIMED, {"duration": 10.001}, "duration", "10 seconds at most"),
    (TIMED, {"seconds": "11s"}, "seconds", "10 seconds at most"),
    (DEFAULTED, {"duration": 9}, "duration", "8 seconds at most"),
    (MIXED, {"prompt": "x"}, "duration", "paid per second"),
    (LISTED, {"resolution": "4k"}, "resolution", "480p, 720p"),
    (LISTED, {"resolution": "720P"}, "resolution", "480p, 720p"),
    (LISTED, {"resolution": None}, "resolution", "or left out"),
    (LISTED, {"resolution": ["720p"]}, "resolution", "480p, 720p"),
    (LISTED, {"hd": False}, "hd", "true"),
    (LISTED, {"n": 3}, "n", "1, 2"),
    (PER_CHARACTER, {"prompt": "a whole book", "text": ""}, "text", "by the character"),
    (NARROW, {"prompt": "x", "steps": 4}, "steps", "it takes prompt, seed"),
    (NARROW, {"Prompt": "x"}, "Prompt", "it takes prompt, seed"),
    (FAILOVER, {"prompt": "x", "fps": 24}, "fps", "nothing for us (gemini veo-3)"),
]


class CheckInputTests(SynchronousTestCase):
    def test_what_is_taken(self) -> None:
        """None of these is refused."""
        for where, input in TAKEN:
            check_input(where, ADAPTERS, input, b"")

    def test_what_is_refused(self) -> None:
        """Each is a 400 that names the member at fault and says what to do."""
        for where, input, field, remedy in REFUSED:
            with self.assertRaises(GatewayError) as caught:
                check_input(where, ADAPTERS, input, b"")
            error = caught.exception
            self.assertEqual(error.kind.code, "invalid_request", input)
            self.assertEqual(error.kind.status, 400)
            self.assertEqual(error.param, f"input.{field}", input)
            self.assertIn(remedy, error.message)
            self.assertTrue(error.message.startswith(f"input.{field}: "), error.message)

    def test_seconds_that_stand_elsewhere(self) -> None:
        """What counts is what the adapter would ask for, such as the sections of a plan."""
        music = route(target(PER_SECOND, adapter="elevenlabs", model="music_v2", max_seconds=10))
        for length in (10_000, 10_001):
            plan = {"composition_plan": {"sections": [{"duration_ms": length}]}}
            if length > 10_000:
                with self.assertRaises(GatewayError) as caught:
                    check_input(music, registry.ADAPTERS, plan, b"")
                self.assertIn("10 seconds at most", caught.exception.message)
            else:
                check_input(music, registry.ADAPTERS, plan, b"")
        with self.assertRaises(GatewayError) as caught:
            check_input(music, registry.ADAPTERS, {"prompt": "x"}, b"")
        self.assertEqual(caught.exception.param, "input.duration")

    def test_every_count_is_looked_at(self) -> None:
        """Whatever a provider calls the number of files, none is below 0."""
        for field in COUNT_FIELDS:
            with self.assertRaises(GatewayError) as caught:
                check_input(ANY, ADAPTERS, {field: -1}, b"")
            self.assertEqual(caught.exception.param, f"input.{field}")

    def test_text_that_is_slow_to_write(self) -> None:
        """Millions of escapes are refused; as many other characters are not."""
        input = {"prompt": '"' * (MAX_ESCAPES + 1)}
        with self.assertRaises(GatewayError) as caught:
            check_input(ANY, ADAPTERS, input, json.dumps(input).encode())
        self.assertEqual(caught.exception.kind.code, "request_too_complex")
        self.assertEqual(caught.exception.param, "input")
        for prompt in ('"' * MAX_ESCAPES, "é" * MAX_ESCAPES * 2):
            written = json.dumps({"prompt": prompt}, ensure_ascii=False).encode()
            check_input(ANY, ADAPTERS, {"prompt": prompt}, written)

    def test_a_refusal_stays_short(self) -> None:
        """A field's name comes from the client, and a list of values may be long."""
        wide = route(
            price_multipliers={"size": {str(place): Decimal(1) for place in range(256)}},
            allowed_input=("size", *(f"f{place}" for place in range(199))),
        )
        for input in ({"a" * 1_000_000: 1}, {"line\nbreak\x1b": 1}, {"size": "x"}):
            with self.assertRaises(GatewayError) as caught:
                check_input(wide, ADAPTERS, input, b"")
            self.assertLess(len(caught.exception.message), 600)
            self.assertTrue(caught.exception.message.isprintable())


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=12),
    st.sampled_from(("5", "5s", "-1", "720p", "https://x.example/a", "data:image/png;base64,AA")),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
NAMES = st.sampled_from(
    ("prompt", "text", "resolution", "voice_id", "image", *durations.FIELDS, *COUNT_FIELDS[:3])
)


class AnyInputTests(SynchronousTestCase):
    """Inputs that nobody thought of."""

    @settings(max_examples=300, deadline=None)
    @given(
        st.dictionaries(NAMES | st.text(max_size=5), VALUES, max_size=6),
        st.sampled_from(sorted(registry.ADAPTERS)),
        st.sampled_from(("veo-3", "music_v2", "gemini-x-tts", "a/b", "gemini-omni")),
    )
    def test_taken_or_refused(self, input: dict[str, Any], adapter: str, model: str) -> None:
        """Each is taken or refused with a 400, and what is taken has seconds to be paid for."""
        where = route(
            target(PER_SECOND, adapter=adapter, model=model),
            price_multipliers={"resolution": {"720p": Decimal(2)}},
        )
        try:
            check_input(where, registry.ADAPTERS, input, b"")
        except GatewayError as refusal:
            self.assertEqual(refusal.kind.status, 400)
            self.assertEqual(one_line(refusal.message, 2_000), refusal.message)
            return
        named = durations.named(input)
        assert named is not None
        self.assertGreater(named[1], 0)
        expected = [Decimal(2)] if "resolution" in input else []
        self.assertEqual(pricing.factors(where.price_multipliers, input), expected)
