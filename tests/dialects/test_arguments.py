"""The arguments of a tool call between text and object."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.arguments import arguments_of, input_of
from omnigate.dialects.event_shapes import ABSENT
from omnigate.wire.json_members import MAX_ANSWER_DEPTH


class ArgumentsTests(SynchronousTestCase):
    def test_objects(self) -> None:
        """An object stays as the model wrote it, numbers and all."""
        for text in ("{}", '{"a": 1.50}', '{"a":{"b":[1E400,null]},"c":"\u00e9\\u00e9"}'):
            self.assertEqual(text.encode(), input_of(text))
        self.assertEqual(b'{"a":1}', input_of(' \n{"a":1} '))

    def test_nothing(self) -> None:
        """No arguments are an empty object."""
        for text in ("", " ", "\n\t"):
            self.assertEqual(b"{}", input_of(text))
        for raw in (ABSENT, msgspec.Raw(b"null"), msgspec.Raw(b'""'), msgspec.Raw(b'" "')):
            self.assertEqual("{}", arguments_of(raw))

    def test_wrapped(self) -> None:
        """What is no object of JSON is wrapped, and comes back as it was."""
        for text in ('{"a": "x', "[1]", "7", "null", '"x"', "{'a':1}", '{"a":NaN}', '{"a":1,}'):
            data = input_of(text)
            self.assertEqual({"__raw_arguments": text}, json.loads(data))
            self.assertEqual(text, arguments_of(data))
        self.assertEqual({"__raw_arguments": "x\ufffd"}, json.loads(input_of("x\ud800")))

    def test_deep(self) -> None:
        """What nests too deep for clients is wrapped."""
        for depth, wrapped in ((MAX_ANSWER_DEPTH - 1, False), (MAX_ANSWER_DEPTH, True)):
            text = '{"a":' + "[" * depth + "]" * depth + "}"
            self.assertEqual(wrapped, b"__raw_arguments" in input_of(text), depth)
        text = '{"a":' + "[" * 100_000
        self.assertEqual({"__raw_arguments": text}, json.loads(input_of(text)))
        many = '{"a":[' + ",".join(["[]"] * 1000) + "]}"
        self.assertEqual(many.encode(), input_of(many))

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_any_text(self, text: str) -> None:
        """Any text becomes an object, and what is wrapped becomes the text again."""
        data = input_of(text)
        value = json.loads(data)
        self.assertIsInstance(value, dict)
        if "__raw_arguments" in value:
            self.assertEqual(text, arguments_of(data))
