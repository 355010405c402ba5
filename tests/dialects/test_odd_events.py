"""Events that do not fit their shape."""

import json
from typing import Any

from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.event_shapes import LARGE_EVENT_BYTES
from omnigate.dialects.odd_events import (
    MAX_ODD_LEFT,
    ODD_EVENT_BYTES,
    BrokenStream,
    OddEvents,
    odd_index,
    odd_json,
    odd_object,
    odd_text,
)
from tests.dialects.deltas import OBJECTS

MARK = "\N{REPLACEMENT CHARACTER}"


class ReadTests(SynchronousTestCase):
    """Trees of odd events."""

    def test_read(self) -> None:
        """What Python's forgiving parser reads is read; what says nothing is nothing."""
        for data, tree in (
            (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
            (b'\xef\xbb\xbf{"a":NaN', None),
            (b'\xef\xbb\xbf{"a":"\n"}', {"a": "\n"}),
            (b" ", None),
            (b"", None),
            (b"null\r", None),
            (b"[]", []),
        ):
            if data.endswith(b"NaN"):
                self.assertRaises(BrokenStream, OddEvents().read, data)
            else:
                self.assertEqual(OddEvents().read(data), tree)

    def test_too_long(self) -> None:
        """An event above the bound is not made a tree of."""
        self.assertRaises(BrokenStream, OddEvents().read, b"[" + b" " * LARGE_EVENT_BYTES + b"]")

    def test_too_many(self) -> None:
        """Short events use up what a stream has; longer ones give it back, up to what it was."""
        odd, short = OddEvents(), b'{"a":1}'
        many = MAX_ODD_LEFT // (ODD_EVENT_BYTES - len(short))
        for _ in range(2):
            for _ in range(many):
                odd.read(short)
            self.assertRaises(BrokenStream, odd.read, short)
            self.assertFalse(odd.tells_failure(b'{"error":1}'))
            for _ in range(3):
                odd.read(b'{"a":1}' + b" " * MAX_ODD_LEFT)

    def test_failures(self) -> None:
        """Errors of servers of all kinds are told from what is none."""
        for tree, tells in (
            ({"detail": "x"}, True),
            ({"errors": ["x"]}, True),
            ({"msg": "x"}, True),
            ({"object": "error"}, True),
            ({"type": "error"}, True),
            ({"type": "ping"}, False),
            ({"message": "", "errors": []}, False),
            ({}, False),
        ):
            self.assertEqual(OddEvents().tells_failure(json.dumps(tree).encode()), tells, tree)


class ValueTests(SynchronousTestCase):
    """Values that may be written in other ways."""

    def test_texts(self) -> None:
        """A text is made valid; what is none is nothing."""
        self.assertEqual(odd_text("a\ud83d"), f"a{MARK}")
        nothings: list[object] = [None, 1, [], {}]
        for value in nothings:
            self.assertIsNone(odd_text(value))

    def test_indexes(self) -> None:
        """An index may be a float or a text."""
        for value, index in (
            (1, 1), (2.0, 2), ("3", 3), (True, None), (None, None), (1.5, None), ("x", None),
            ("", None), ("9" * 5000, None), (float("inf"), None), ("\u00b2", None),
        ):  # fmt: skip
            self.assertEqual(odd_index(value), index)

    @settings(max_examples=200)
    @given(OBJECTS)
    def test_json(self, value: dict[str, Any]) -> None:
        """A value is written as JSON that says the same; a text stays the text it is."""
        text = odd_json(value)
        assert text is not None
        self.assertEqual(json.loads(text), value)
        self.assertEqual(odd_json(text), text)

    def test_hard_json(self) -> None:
        """Halves of pairs become marks; what nests without end is nothing."""
        self.assertEqual(odd_json({"a": "\ud83d"}), '{"a":"' + MARK + '"}')
        self.assertIsNone(odd_json(None))
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        self.assertIsNone(odd_json(deep))
        self.assertEqual(odd_object(deep), {})
