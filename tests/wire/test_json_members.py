"""Tests of omnigate.wire.json_members."""

import json
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_members import MEDIA_SEARCH_BYTES, MemberReader, ValueEnd, media_parts
from tests.wire.cuts import cut, every_cut, places
from tests.wire.test_json_walk import VALUES


class ListTaker:
    """Takes the text of one value, and joins a list of its like."""

    def __init__(self, all_takers: list["ListTaker"]) -> None:
        self.end = ValueEnd()
        self.text = b""
        all_takers.append(self)

    def feed(self, text: bytes) -> bool:
        end = self.end.feed(text)
        self.text += text if end < 0 else text[:end]
        return end >= 0


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

    def test_many_of_a_name(self) -> None:
        """A read in which the names stand too often is not read on; what came before stays."""
        reader = self.read([b'{"n":1', b',"n":2' * 200, b',"n":3' * 1000, b',"n":4}'])
        self.assertEqual((reader.values[b"n"], reader.broken), (b"3", True))

    def test_own_takers(self) -> None:
        """A member may be taken by another, which is told its text and nothing behind it."""
        for pieces in every_cut(b'{"n":1,"s":[{"n":2}],"n":3,"t":"n","s":{"a":"]"} }'):
            takers: list[ListTaker] = []
            reader = MemberReader((b"n", b"s"), 9, {b"s": partial(ListTaker, takers)})
            for piece in pieces:
                reader.feed(piece)
            taken = [taker.text for taker in takers]
            self.assertEqual(taken, [b'[{"n":2}]', b'{"a":"]"}'])
            self.assertEqual(reader.values, {b"n": b"3"})

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


class ValueEndTests(SynchronousTestCase):
    """Where one value ends."""

    def end(self, pieces: list[bytes]) -> int:
        """The place in all of the pieces where the value ends; -1 where it does not."""
        reader = ValueEnd()
        passed = 0
        for piece in pieces:
            found = reader.feed(piece)
            if found >= 0:
                return passed + found
            passed += len(piece)
        return -1

    def test_kinds(self) -> None:
        """Containers, strings and scalars end where they end, whatever follows."""
        for value in (
            *(b"{}", b"[]", b'{"a":[{}]}', b'[[["]"]]]', b'{"}":"{","\\\\\\"":"\\\\"}', b'"a\\\\"'),
            *(b'""', b'"\\""', b'"\\\\\\\\\\""', b"1", b"-2.5e3", b"true", b"null", b'["\\\\"]'),
        ):
            for before in (b"", b" \n"):
                for after in (b",", b"}", b' ,"b":{}}', b"]}"):
                    for pieces in every_cut(before + value + after):
                        self.assertEqual(self.end(pieces), len(before + value), value)
                for pieces in every_cut(before + value[:-1]):
                    self.assertEqual(self.end(pieces), -1)

    @settings(max_examples=200, deadline=None)
    @given(VALUES, st.booleans(), places())
    def test_any_value(self, value: Any, indented: bool, where: list[int]) -> None:
        """Any value ends where json.dumps ended it."""
        text = json.dumps(value, indent=1 if indented else None).encode()
        self.assertEqual(self.end(cut(text + b',"x":[]}', where)), len(text))

    @settings(max_examples=200, deadline=None)
    @given(st.text('{}[]:,"\\ nts1', max_size=40), places())
    @example("[\\]", [2])
    @example('["\\n"\\}]', [3, 6])
    def test_any_junk(self, text: str, where: list[int]) -> None:
        """However junk is cut, it ends at the same place."""
        self.assertEqual(self.end(cut(text.encode(), where)), self.end([text.encode()]))


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

    def test_long_body(self) -> None:
        """What stands far behind is not searched for."""
        self.assertEqual(media_parts(b"x" * MEDIA_SEARCH_BYTES + self.BODY), 0)
        self.assertEqual(media_parts(self.BODY + b"x" * MEDIA_SEARCH_BYTES + self.BODY), 10)
