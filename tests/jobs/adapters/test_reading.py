"""What stands in an answer: objects within bounds, texts and ids."""

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters import reading
from omnigate.jobs.adapters.reading import BadAnswer, id_at, member, read_object, text_at
from omnigate.outbound.messages import Answer
from omnigate.wire import json_values

_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def read(body: bytes) -> dict[str, Any]:
    """What an answer with this body holds."""
    return read_object(Answer(200, {}, body))


class ReadObjectTests(SynchronousTestCase):
    @given(value=st.dictionaries(st.text(max_size=8), _JSON, max_size=4))
    def test_what_was_written(self, value: dict[str, Any]) -> None:
        """Any object is read as it was written."""
        self.assertEqual(read(json.dumps(value).encode()), json.loads(json.dumps(value)))

    @given(body=st.binary())
    def test_any_bytes(self, body: bytes) -> None:
        """It is an object, or a bad answer."""
        try:
            self.assertIsInstance(read(body), dict)
        except BadAnswer as fault:
            self.assertTrue(str(fault))

    def test_bounds(self) -> None:
        """Up to each of them it is read, and beyond it is not."""
        depth = json_values.MAX_DEPTH - 1
        escapes, strings = json_values.MAX_ESCAPES, json_values.MAX_STRINGS
        outside = json_values.MAX_OUTSIDE_BYTES // 2
        cases = [
            (
                b'{"a":' + b"[" * depth + b"]" * depth + b"}",
                b'{"a":' + b"[" * 64 + b"]" * 64 + b"}",
            ),
            (b'{"a":"' + b"\\n" * escapes + b'"}', b'{"a":"' + b"\\n" * (escapes + 1) + b'"}'),
            (
                b'{"a":[' + b'"",' * (strings - 100) + b"1]}",
                b'{"a":[' + b'"",' * (strings + 1) + b"1]}",
            ),
            (b'{"a":[' + b"1," * (outside - 9) + b"1]}", b'{"a":[' + b"1," * outside + b"1]}"),
        ]
        for within, beyond in cases:
            self.assertIn("a", read(within))
            with self.assertRaises(BadAnswer):
                read(beyond)

    def test_what_is_no_object(self) -> None:
        """Each is told of in its own words."""
        for body, words in (
            (b"", "not valid JSON"),
            (b"null", "not a JSON object"),
            (b"[]", "not a JSON object"),
            (b'"text"', "not a JSON object"),
            (b"{", "not valid JSON"),
            (b"{]", "not valid JSON"),
            (b"[" * 5000, "nests too deep"),
        ):
            with self.assertRaisesRegex(BadAnswer, words):
                read(body)

    def test_what_only_python_writes(self) -> None:
        """Halves of characters, and numbers that are none, make no answer unreadable."""
        odd = read(b'{"a":"\\ud83d","b":NaN,"c":-Infinity,"d":1e999,"e":"done"}')
        self.assertEqual((odd["a"], odd["e"]), ("\ud83d", "done"))
        self.assertEqual(read(b'{"a":"\xff","e":1}')["e"], 1)
        self.assertEqual(text_at(odd, "a"), "\ufffd")
        with self.assertRaises(BadAnswer):
            read(b'{"a":NaN,"b":"' + b"x" * reading.MAX_LENIENT_BYTES + b'"}')

    def test_numbers_that_are_hard_to_round(self) -> None:
        """An answer full of them holds nobody up."""
        body = b'{"a":[' + b"1e308," * 20_000 + b"1]}"
        began = time.thread_time()
        self.assertIn("a", read(body))
        self.assertLess(time.thread_time() - began, 0.2)


class MemberTests(SynchronousTestCase):
    def test_member(self) -> None:
        """Nothing, where the path ends early."""
        tree = {"a": {"b": 1, "c": None}, "d": [1]}
        self.assertEqual(member(tree, "a", "b"), 1)
        for path in (("a", "b", "c"), ("a", "x"), ("d", "0"), ("a", "c", "d")):
            self.assertIsNone(member(tree, *path))
        self.assertEqual(member(tree), tree)
        self.assertEqual(text_at(tree, "a", "b"), "")

    def test_ids(self) -> None:
        """What can be one segment of a path, and nothing that leads elsewhere."""
        for good in ("gm3qorzdhgbfurvjtvhg6dckhu", "r-1", "job_1", "a.b:c~d=e+f", "x" * 256):
            self.assertEqual(id_at({"id": good}, "id"), good)
        for bad in (
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a?b",
            "a#b",
            "%2e",
            "é",
            "x" * 257,
            1,
            None,
            ["x"],
        ):
            with self.assertRaises(BadAnswer):
                id_at({"id": bad}, "id")
