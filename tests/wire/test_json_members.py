"""Tests of omnigate.wire.json_members."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_members import MemberReader, media_parts
from tests.wire.cuts import cut, every_cut, places
from tests.wire.test_json_walk import VALUES


class MemberReaderTests(SynchronousTestCase):
    """Members read out of a large answer as it passes."""

    ANSWER = (
        rb' { "id":"x","a":{"usage":1},"choices":[{"usage":{"no":1}}],"usage" : '
        b'{"prompt_tokens":5,"x":["}",{"y":"\\"]"}]} , "n":-1.5e3,"us\\u0061ge2":null,'
        b'"s":"a,b}","t":true}'
    )
    FOUND = {
        b"usage": b'{"prompt_tokens":5,"x":["}",{"y":"\\"]"}]}',
        b"n": b"-1.5e3",
        b"usage2": b"null",
        b"s": b'"a,b}"',
        b"t": b"true",
    }

    def read(self, pieces: list[bytes], bound: int = 1000) -> MemberReader:
        """Feed a reader."""
        reader = MemberReader((b"usage", b"n", b"usage2", b"s", b"t"), bound)
        for piece in pieces:
            reader.feed(piece)
        return reader

    def test_three_ways(self) -> None:
        """The same values come out in every cut; only those at the top count."""
        for pieces in every_cut(self.ANSWER):
            reader = self.read(pieces)
            self.assertEqual(reader.values, self.FOUND)
            self.assertFalse(reader.broken)

    def test_last_wins(self) -> None:
        """Of a member given twice the last value counts."""
        for pieces in every_cut(b'{"n":1,"n":22,"t":[1],"n":3}'):
            self.assertEqual(self.read(pieces).values, {b"n": b"3", b"t": b"[1]"})

    def test_large_values_are_left_out(self) -> None:
        """A value over the bound is not kept, nor an older one of its name."""
        for pieces in every_cut(b'{"n":1,"t":2,"n":"0123456789","s":"01234567"}'):
            self.assertEqual(self.read(pieces, 10).values, {b"t": b"2", b"s": b'"01234567"'})
        self.assertEqual(self.read([b'{"n":[' + b"0," * 100_000], 10).values, {})

    def test_long_answers(self) -> None:
        """The figures stand behind megabytes of numbers."""
        answer = b'{"data":[' + b"0.125,-1," * 100_000 + b'0],"usage":{"a":1}}'
        pieces = [answer[i : i + 65536] for i in range(0, len(answer), 65536)]
        self.assertEqual(self.read(pieces).values, {b"usage": b'{"a":1}'})

    def test_junk(self) -> None:
        """Junk never raises; what is no object, or too deep, is broken."""
        for junk in (b"[1]", b"hello", b'{"a":' + b"[" * 200, b"]", b"{]]"):
            self.assertTrue(self.read([junk]).broken, junk)
        self.assertEqual(self.read([b"", b"  ", b'{"n":1}']).values, {b"n": b"1"})

    @settings(max_examples=200, deadline=None)
    @given(st.dictionaries(st.sampled_from(["n", "t", "s", "x"]), VALUES), places())
    def test_any_object(self, members: dict[str, Any], where: list[int]) -> None:
        """Values are read as json.loads reads them, in any cut."""
        text = json.dumps(members).encode()
        values = self.read(cut(text, where), 1 << 20).values
        self.assertEqual(
            {name.decode(): json.loads(value) for name, value in values.items()},
            {name: value for name, value in members.items() if name != "x"},
        )

    @settings(max_examples=100, deadline=None)
    @given(st.text('{}[]:,"\\ nts1', max_size=40), places())
    def test_any_junk(self, text: str, where: list[int]) -> None:
        """No input makes the reader raise."""
        self.read(cut(text.encode(), where), 5)


class MediaTests(SynchronousTestCase):
    """Counting media parts for estimates."""

    BODY = (
        b'{"content":[{"type":"image_url","image_url":{}},{"type":"image"},{"type":"input_image"},'
        b'{"type":"document"},{"type":"file","file":{}},{"type":"input_file"},'
        b'{"type":"input_audio","input_audio":{}},{"type":"text","text":"an \\"image\\" file"}]}'
    )

    def test_counts(self) -> None:
        """Type strings are counted; an image_url part counts twice."""
        self.assertEqual(media_parts(self.BODY), 10)
        self.assertEqual(media_parts(b'{"model":"fast"}'), 0)

    def test_many_quotes(self) -> None:
        """A body of many quotes is counted by another way to the same result."""
        self.assertEqual(media_parts(self.BODY + b'"",' * 600_000), 10)
