"""Model lists, as the official SDKs read them."""

import json

import anthropic.types
import openai.types
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.models import model_entry, models_list

CREATED = 1_790_000_000


class OpenAiListTests(SynchronousTestCase):
    def test_list(self) -> None:
        """The list has one entry for each name, in the order given."""
        answer = json.loads(models_list("openai", ["fast", "claude/big"], CREATED))
        self.assertEqual("list", answer["object"])
        self.assertEqual(["fast", "claude/big"], [entry["id"] for entry in answer["data"]])

    def test_entry(self) -> None:
        """The SDK finds every member that its type demands."""
        entry = openai.types.Model.model_validate_json(model_entry("openai", "fast", CREATED))
        self.assertEqual(("fast", CREATED, "model"), (entry.id, entry.created, entry.object))

    def test_empty(self) -> None:
        """A key without models gets an empty list."""
        self.assertEqual({"object": "list", "data": []}, json.loads(models_list("openai", [], 0)))


class AnthropicListTests(SynchronousTestCase):
    def test_list(self) -> None:
        """The page is the only one and names its first and last entry."""
        answer = json.loads(models_list("anthropic", ["fast", "claude/big"], CREATED))
        self.assertEqual((False, "fast", "claude/big"), tuple(list(answer.values())[1:]))
        self.assertEqual(["fast", "claude/big"], [entry["id"] for entry in answer["data"]])

    def test_entry(self) -> None:
        """The SDK finds every member that its type demands."""
        entry = anthropic.types.ModelInfo.model_validate_json(
            model_entry("anthropic", "fast", CREATED)
        )
        self.assertEqual(("fast", "fast", "model"), (entry.id, entry.display_name, entry.type))
        self.assertEqual(CREATED, entry.created_at.timestamp())

    def test_empty(self) -> None:
        """An empty page has neither a first nor a last entry."""
        answer = json.loads(models_list("anthropic", [], 0))
        self.assertEqual({"data": [], "has_more": False, "first_id": None, "last_id": None}, answer)
