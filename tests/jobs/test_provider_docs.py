"""The page on media providers and prices says what the code does."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import load_config
from omnigate.jobs import durations, input_rules, pricing
from omnigate.jobs.adapters import (
    elevenlabs,
    fields,
    gemini,
    gemini_interactions,
    openai_images,
    replicate,
    xai_video,
)
from omnigate.jobs.adapters.base import InputFault
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.money import parse_usd
from tests.jobs.adapters.talking import task_of

_MINUTES = {60: "a minute"}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "media-providers.md"


def section(heading: str) -> str:
    """Return what stands below a heading, up to the next of its kind."""
    text = PAGE.read_text(encoding="utf-8")
    marks = heading.partition(" ")[0]
    below = text.partition(f"\n{heading}\n")[2]
    assert below, heading
    return re.split(rf"(?m)^#{{2,{len(marks)}}} ", below)[0]


class PriceTests(SynchronousTestCase):
    """The worked example."""

    def test_the_example_is_computed(self) -> None:
        """Each row is a job that the route takes, with its seconds and its cost."""
        told = section("## Prices")
        (route,) = load_config(re.findall(r"```toml\n(.*?)```", told, re.DOTALL)[0]).media.routes
        (target,) = route.targets
        adapter = ADAPTERS[target.adapter]
        rows = re.findall(r"(?m)^\| `(\{.*\})` \| ([0-9.]+) \| \$([0-9.]+) \|$", told)
        self.assertEqual(len(rows), 4)
        for text, seconds, cost in rows:
            input = json.loads(text)
            input_rules.check_input(route, ADAPTERS, input, b"")
            asked = adapter.billable(task_of(adapter, target.model, input))
            billable = pricing.billed(asked, target, -1, 1)
            self.assertEqual(billable.milliseconds, int(float(seconds) * 1000), text)
            found = pricing.cost_nano(target.price, route.price_multipliers, input, billable)
            self.assertEqual(found, parse_usd(cost), text)

    def test_who_cannot_be_stopped(self) -> None:
        """Jobs at these cost what they would have, so they are named."""
        told = re.findall(r"cannot be stopped \((.*?)\)", section("## Prices"))[0]
        named = re.findall(r"`(\w+)`", told)
        self.assertEqual(
            sorted(named), sorted(name for name, one in ADAPTERS.items() if not one.can_cancel)
        )


class FieldTests(SynchronousTestCase):
    """The tables of fields."""

    def test_every_field_is_told(self) -> None:
        """By the names that the adapters know them by."""
        self._holds("### `elevenlabs`", elevenlabs.FIELDS)
        self._holds("### `gemini`", gemini.FIELDS)
        self._holds("### `gemini_interactions`", gemini_interactions.FIELDS)
        self._holds("### `openai_images`", openai_images.REFUSED)
        self._holds("### `xai_video`", xai_video.FIELDS)
        self._holds("## What an input may hold", durations.FIELDS)

    def test_no_field_is_made_up(self) -> None:
        """Every row of a table is an input that the adapter judges field by field."""
        for name, known in (
            ("elevenlabs", elevenlabs.FIELDS),
            ("gemini", gemini.FIELDS),
            ("gemini_interactions", gemini_interactions.FIELDS),
            ("xai_video", xai_video.FIELDS),
        ):
            rows = re.findall(r"(?m)^\| .* \| (.*) \|$", section(f"### `{name}`"))[1:]
            told = {field for row in rows for field in re.findall(r"`([a-z_]+)`", row)}
            self.assertEqual(told - set(known), set(), name)

    def test_figures(self) -> None:
        """Bounds that the page tells of."""
        page = PAGE.read_text(encoding="utf-8")
        low, high = elevenlabs.EFFECT_SECONDS
        shortest, longest = elevenlabs.MUSIC_SECONDS
        for figure in (
            f"a duration of {low:g} to {high:g} seconds",
            f"a duration of {shortest:g} to {longest:g} seconds",
            f"at most {fields.MAX_MEDIA} in a list",
            f"least {openai_images.HEAD_SECONDS:g} seconds",
            f"its form of {gemini_interactions.REVISION[1]}",
            f"sent with {_MINUTES[replicate.GRACE_SECONDS]} more than `timeout_s`",
        ):
            self.assertIn(figure, page.replace("\n", " "))
        self.assertEqual(durations.MAX_SECONDS, 24 * 3600)

    def test_models_make_what_is_told(self) -> None:
        """A row's word in a model's name has its fields taken."""
        for name, model, input in (
            ("elevenlabs", "eleven_text_to_sound_v2", {"text": "x", "loop": True}),
            ("elevenlabs", "music_v2", {"prompt": "x"}),
            ("elevenlabs", "eleven_v3", {"text": "x", "voice_id": "v"}),
            ("gemini", "veo-3.1", {"prompt": "x", "resolution": "720p"}),
            ("gemini", "gemini-x-tts", {"text": "x", "voice": "v"}),
            ("gemini", "gemini-x", {"prompt": "x", "image_size": "1K"}),
            ("gemini_interactions", "gemini-omni-1", {"prompt": "x", "duration": 5}),
            ("gemini_interactions", "lyria-3", {"prompt": "x", "voice": "v"}),
            ("gemini_interactions", "gemini-x", {"prompt": "x", "image_size": "1K"}),
        ):
            ADAPTERS[name].check(model, input)
            with self.assertRaises(InputFault):
                ADAPTERS[name].check(model, {**input, "no_such_field": 1})

    def _holds(self, heading: str, names: Iterable[str]) -> None:
        told = section(heading)
        for name in names:
            if name in durations.FIELDS and not heading.startswith("## "):
                self.assertIn("a duration", told)
            else:
                self.assertIn(f"`{name}`", told, heading)
