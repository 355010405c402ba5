"""Ids and names of tools in the other protocol's spelling."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.tool_ids import anthropic_id, made_up_id, openai_id, openai_name


class ToolIdTests(SynchronousTestCase):
    """What is valid stays, what is not is told apart still."""

    @settings(max_examples=200)
    @given(st.text(min_size=1, max_size=200))
    def test_anthropic_takes_it(self, text: str) -> None:
        """Every id becomes one of the allowed characters; a valid one is untouched."""
        spelled = anthropic_id(text)
        self.assertRegex(spelled, r"\A[A-Za-z0-9_-]+\Z")
        self.assertEqual(spelled[: len(text)], re.sub("[^A-Za-z0-9_-]", "_", text))
        if re.fullmatch(r"[A-Za-z0-9_-]+", text):
            self.assertEqual(spelled, text)

    @settings(max_examples=200)
    @given(st.text(max_size=200))
    def test_openai_takes_it(self, text: str) -> None:
        """Every id has at most 40 characters and every name 64; a short one is untouched."""
        for spell, limit in ((openai_id, 40), (openai_name, 64)):
            spelled = spell(text)
            self.assertLessEqual(len(spelled), limit)
            if len(text) <= limit:
                self.assertEqual(spelled, text)
            else:
                self.assertEqual(spelled[: limit - 9], text[: limit - 9])

    def test_two_stay_two(self) -> None:
        """Ids that differ in what had to go still differ."""
        self.assertEqual(anthropic_id("call:9/x.1"), "call_9_x_1_9bd6a816")
        self.assertNotEqual(anthropic_id("a:b"), anthropic_id("a/b"))
        self.assertNotEqual(openai_id("x" * 50 + "1"), openai_id("x" * 50 + "2"))

    def test_made_up(self) -> None:
        """An id that was made up is one for both protocols, and never the same twice."""
        ids = {made_up_id() for _ in range(100)}
        self.assertEqual(len(ids), 100)
        for made in ids:
            self.assertTrue(made.startswith("toolu_gw_"))
            self.assertEqual((anthropic_id(made), openai_id(made)), (made, made))
