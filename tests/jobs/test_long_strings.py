"""Tests for omnigate.jobs.long_strings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs import long_strings
from omnigate.jobs.long_strings import (
    NotJsonError,
    TooComplexError,
    at_once,
    cut_steps,
    text_steps,
    tree_steps,
)

TEXTS = st.text(max_size=60) | st.sampled_from(
    ["x" * 5_000, "é" * 4_000, "😀" * 3_000, '"' * 5_000, "\\" * 5_000, "/\n\t" * 3_000]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=8,
)


def read(text: bytes) -> dict[str, Any]:
    """Read a text as an input is read."""
    cut = at_once(cut_steps(text))
    return at_once(tree_steps(cut, cut.rest))


class Unlisted(dict[str, memoryview]):
    """Strings of which each may be looked up, but not all of them be gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all strings were gone through")

    items = keys = values = __iter__  # type: ignore[assignment]


class LongStringsTests(SynchronousTestCase):
    """What is read in steps is what is read in one go."""

    def setUp(self) -> None:
        # Everything is a long text.
        self.patch(long_strings, "WHOLE_BYTES", 100_000)

    @given(st.dictionaries(st.text(max_size=9), VALUES, max_size=5), st.booleans(), st.integers(0))
    @settings(max_examples=150, deadline=None)
    def test_any_object(self, value: dict[str, Any], is_ascii: bool, indent: int) -> None:
        """Whatever escapes and characters its strings are written with."""
        padded = {**value, "padding of it all": "y" * 100_001}
        text = json.dumps(padded, ensure_ascii=is_ascii, indent=indent % 3 or None).encode()
        try:
            found = read(text)
        except TooComplexError:
            return
        self.assertEqual(found, padded)
        cut = at_once(cut_steps(text))
        self.assertEqual(cut.restored(cut.rest), text)
        self.assertNotIn(b"yyy", cut.rest)

    def test_every_piece_ends_between_characters_and_escapes(self) -> None:
        """However they fall on the ends of pieces."""
        self.patch(long_strings, "PIECE_BYTES", 16)
        for unit in ("é", "€", "😀", "\\", '"', "\n", "\x01", "a"):
            for shift in range(16):
                text = "b" * shift + unit * 40 + "c"
                for is_ascii in (True, False):
                    written = json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode()
                    self.assertEqual(at_once(text_steps(memoryview(written))), text)

    def test_what_is_no_string_is_refused(self) -> None:
        """At the end, in the middle, and at the end of a piece."""
        self.patch(long_strings, "PIECE_BYTES", 16)
        for bad in (b"\xff", b"\xc3", b"\n", b"\\x", b"\\ud800", b"\\u12x", b"\\udc00\\ud800"):
            for shift in range(17):
                for text in (b"a" * shift + bad, b"a" * shift + bad + b"b" * 40):
                    self.assertRaises(NotJsonError, at_once, text_steps(memoryview(text)))

    def test_bounds(self) -> None:
        """On depth, members, and how many values there are."""
        long = b'"%b"' % (b"x" * 200_000)
        for text in (
            b"{%b}" % b",".join(b'"k%d":1' % n for n in range(1_025)),
            b'{"a":[%b%b]}' % (b"1," * 60_000, long),
            b'{"a":[%b%b]}' % (b'"",' * 60_000, long),
            b'{"%b":1}' % (b"k" * 9_000),
        ):
            self.assertRaises(TooComplexError, read, text)
        deep = b'{"a":' * 64 + b"1" + b"}" * 64
        read(deep)
        self.assertRaises(NotJsonError, read, b'{"a":%b}' % deep)
        self.assertRaises(NotJsonError, read, b'{"a":[1}]')
        self.assertRaises(NotJsonError, read, b'{"a":1e999}')
        self.assertRaises(NotJsonError, read, b'["a"]')
        self.assertRaises(NotJsonError, read, b'{"a":}')

    def test_a_part_is_looked_at_once_however_many_strings_there_are(self) -> None:
        """Two thousand looks at a long part would hold the reactor for a quarter of a second."""
        text = b'{"a":"%b","b":"%b","c":1}' % (b"y" * 60_000, b"z" * 60_000)
        cut = at_once(cut_steps(text))
        first, second = cut.strings
        seen = attrs.evolve(cut, strings=Unlisted(cut.strings))
        self.assertEqual(seen.restored(cut.rest), text)
        self.assertEqual(seen.restored(b'["a"]'), b'["a"]')
        self.assertEqual(seen.markers_in(cut.rest), [first, second])
        self.assertEqual(
            seen.replaced(cut.rest, {first: "1", second: "2"})[:15], b'{"a":"1","b":"2'
        )

    def test_what_looks_like_a_marker_stays(self) -> None:
        """Only what was put there is taken for one."""
        like = b"0123456789abcdef01234567-0-"
        text = b'{"a":"%b","b":"%b"}' % (like, b"z" * 120_000)
        cut = at_once(cut_steps(text))
        self.assertEqual(cut.restored(cut.rest), text)
        self.assertEqual(read(text)["a"], like.decode())

    def test_keys_are_found_where_they_stand(self) -> None:
        """Those of the outermost object only."""
        text = b'{"input":{"model":"%b"},"model":"x","input":1}' % (b"y" * 200_000)
        cut = at_once(cut_steps(text, (b"model", b"input")))
        self.assertEqual([hit.name for hit in cut.hits], [b"input", b"model", b"input"])
