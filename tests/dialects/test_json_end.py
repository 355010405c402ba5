"""Where a JSON object ends that comes in pieces."""

import json
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.json_end import JsonEnd
from tests.dialects.deltas import OBJECTS


class JsonEndTests(SynchronousTestCase):
    """A counter of brackets that knows strings."""

    @settings(max_examples=200)
    @given(OBJECTS, st.booleans())
    def test_byte_by_byte(self, value: dict[str, Any], escaped: bool) -> None:
        """It is reached with the last character, not before, and stays so behind blanks."""
        text = json.dumps(value, ensure_ascii=escaped)
        end = JsonEnd()
        for char in text:
            self.assertFalse(end.reached, text)
            end.feed(char)
        self.assertTrue(end.reached, text)
        end.feed(" \n")
        self.assertTrue(end.reached)

    @settings(max_examples=200)
    @given(OBJECTS, st.data())
    def test_in_pieces(self, value: dict[str, Any], data: st.DataObject) -> None:
        """However a text is cut, each beginning is judged as it is in one piece."""
        text = " " + json.dumps(value)
        place = data.draw(st.integers(0, len(text)))
        end = JsonEnd()
        end.feed(text[:place])
        self.assertEqual(end.reached, place == len(text))
        end.feed(text[place:])
        self.assertTrue(end.reached)
        unseen = JsonEnd()
        for char in text:
            unseen.feed(char)
        self.assertTrue(unseen.reached)

    def test_no_object(self) -> None:
        """What has no bracket is never whole; what goes on behind its end is not, until it is."""
        end = JsonEnd()
        for text, reached in (
            ('"a}"', False),
            ("null", False),
            ("[", False),
            ("]", True),
            ("{", False),
            ("}", True),
            ("}", True),
        ):
            end.feed(text)
            self.assertEqual(end.reached, reached, text)

    def test_cost(self) -> None:
        """Hostile text costs what it is long, whole or in pieces."""
        for text in ('"' + '\\"' * 200_000, '"' * 400_001, "\\" * 400_000, '{"' + "\\" * 399_999):
            for size in (len(text), 7):
                end = JsonEnd()
                begun = time.process_time()
                for start in range(0, len(text), size):
                    end.feed(text[start : start + size])
                # Some 15 and 100 ms; a second look at all that came would take minutes.
                self.assertFalse(end.reached)
                self.assertLess(time.process_time() - begun, 5)

    def test_given_up(self) -> None:
        """One that was given up is never reached."""
        for text, more in (("{}", ""), ("{", "}")):
            end = JsonEnd()
            end.feed(text)
            end.give_up()
            end.feed(more)
            self.assertFalse(end.reached)
