"""Tests of omnigate.wire.json_walk."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_walk import JsonWalk, KeyHit
from tests.wire.cuts import cut, every_cut, places

NAMES = (b"model", b"stream", b"a")


def walk(pieces: list[bytes], depth: int = 64, members: int = 100, key: int = 40) -> JsonWalk:
    """Walk over pieces."""
    found = JsonWalk(NAMES, depth, members, key, 1000)
    for piece in pieces:
        found.feed(piece)
    return found


def plain_walk(text: bytes) -> tuple[list[KeyHit], int, int, int]:
    """The same, byte by byte and slowly: hits, depth, members of the largest, longest key."""
    hits = []
    stack: list[int] = []
    depth = members = longest = 0
    place = 0
    while place < len(text):
        char = text[place : place + 1]
        if char == b'"':
            end = place + 1
            while text[end : end + 1] != b'"':
                end += 2 if text[end : end + 1] == b"\\" else 1
            behind = text[end + 1 :].lstrip(b" \t\r\n")
            if behind[:1] == b":":
                raw = text[place + 1 : end]
                longest = max(longest, len(raw))
                name = json.loads(b'"' + raw + b'"').encode("utf-8", "surrogatepass")
                if len(stack) == 1 and name in NAMES:
                    hits.append(KeyHit(name, place, len(text) - len(behind) + 1, raw != name))
                stack[-1] += 1
                members = max(members, stack[-1])
            place = end
        elif char in (b"[", b"{"):
            stack.append(0)
            depth = max(depth, len(stack))
        elif char in (b"]", b"}"):
            stack.pop()
        place += 1
    return hits, depth, members, longest


#: Strings that try the walk: names, escapes, brackets, quotes.
TEXTS = st.one_of(
    st.sampled_from(
        ["model", "stream", "a", "", '"', "\\", "{", "]", ":", '\\"', "mod", "é", "😀"]
    ),
    st.text(st.sampled_from('ab"\\{}[]:,\n é'), max_size=12),
)
VALUES = st.recursive(
    st.one_of(
        TEXTS,
        st.integers(),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Draw JSON text: any value, in any spacing, its names now and then spelled with escapes."""
    value = draw(VALUES)
    indent = draw(st.sampled_from([None, None, 0, 1]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " \n:  ")]))
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        text = text.replace("model", "m\\u006fdel").replace('"a"', '"\\u0061"')
    return text.encode("utf-8", "surrogatepass")


class WalkTests(SynchronousTestCase):
    """The walk against a slow one, in every cut."""

    @settings(max_examples=300, deadline=None)
    @given(documents(), places())
    def test_any_document_in_any_cut(self, text: bytes, where: list[int]) -> None:
        """Hits are those of a plain walk, and no fault is found where no bound is broken."""
        hits, depth, members, longest = plain_walk(text)
        found = walk(cut(text, where), depth, members, longest)
        self.assertEqual(found.hits, hits)
        self.assertIsNone(found.fault)

    @settings(max_examples=200, deadline=None)
    @given(documents(), places())
    def test_bounds_are_exact(self, text: bytes, where: list[int]) -> None:
        """One level, member or byte more than allowed is a fault, in any cut."""
        _hits, depth, members, longest = plain_walk(text)
        pieces = cut(text, where)
        if depth:
            self.assertEqual(walk(pieces, depth - 1, members, longest).fault, "depth")
        if members > 1:
            fault = walk([text[i : i + 1] for i in range(len(text))], depth, members - 1, longest)
            self.assertEqual(fault.fault, "members")
        if longest:
            self.assertEqual(walk(pieces, depth, members, longest - 1).fault, "key")

    def test_three_ways(self) -> None:
        """A text full of traps gives the same hits however it is cut."""
        text = (
            rb'{"x\"model":"\\","model" '
            b"\t"
            rb': {"model":[]},"s\u0074ream":[{"stream":"model"}],"\\":"a","a":"\"","b":{"a":{}}}'
        )
        hits = plain_walk(text)[0]
        self.assertEqual(
            [(hit.name, hit.escaped) for hit in hits],
            [(b"model", False), (b"stream", True), (b"a", False)],
        )
        for pieces in every_cut(text):
            self.assertEqual(walk(pieces).hits, hits)

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=60), st.text('{}[]:," \\model\na', max_size=60), places())
    def test_junk_never_fails(self, junk: bytes, text: str, where: list[int]) -> None:
        """No input makes the walk raise."""
        for data in (junk, text.encode(), b'{"a":' + text.encode()):
            walk(cut(data, where))

    def test_deep_and_wide(self) -> None:
        """Depth is exact where whole containers are struck out many levels at a time."""
        for opening, closing in ((b"[", b"]"), (b'{"b":', b"}"), (b'[{"b":[],"c":{},"d":', b"}]")):
            levels = opening.count(b"[") - opening.count(b"]") + opening.count(b"{") - 1
            levels = {1: 1, 5: 1, 20: 2}[len(opening)]
            for depth in (1, 11, 12, 13, 20, 30):
                nest = opening * depth + b"0" + closing * depth
                text = b"[" + b",".join([nest] * 50) + b"]"
                deepest = plain_walk(text)[1]
                self.assertEqual(deepest, depth * levels + 1 + (levels == 2))
                self.assertIsNone(walk([text], deepest).fault)
                self.assertEqual(walk([text], deepest - 1).fault, "depth")
                for size in (7, 64, 1000):
                    pieces = [text[i : i + size] for i in range(0, len(text), size)]
                    self.assertIsNone(walk(pieces, deepest).fault)
                    self.assertEqual(walk(pieces, deepest - 1).fault, "depth")

    def test_pieces_of_whole_containers(self) -> None:
        """Names in containers that begin and end in one piece are passed over, many or few."""
        for unit in (
            *(b'"b":{"model":0},', b'"b":[{"a":0},{"stream":0}],', b'"b":["model"],'),
            *(b'"b":{"x":{"model":{"a":0}}},', b'"b":{},', b'"b":"model",', b'"b":{"\\u0061":0},'),
        ):
            for count in (1, 8, 17, 129, 2000):
                pieces = [b'{"model":0,', unit * count, unit * count, b'"a":0}']
                found = walk(pieces, members=100_000)
                self.assertEqual(plain_walk(b"".join(pieces))[0], found.hits, (unit, count))
                self.assertIsNone(found.fault)

    def test_wrong_brackets(self) -> None:
        """Brackets that cannot match stop the walk."""
        for text in (b"]", b"[]]", b"[}" * 200, b'{"a":[}]', b"[:]"):
            self.assertEqual(walk([text]).fault, "syntax")

    def test_hits_are_bounded(self) -> None:
        """The walk stops at one key more than it may note."""
        found = JsonWalk(NAMES, 64, 1 << 20, 100, 3)
        found.feed(b"{" + b'"a":0,' * 1000)
        self.assertEqual((found.fault, len(found.hits)), ("hits", 4))

    def test_long_keys_among_long_values(self) -> None:
        """A long value is none of the walk's business; a long key is."""
        for filling in (b"a", b'\\"', b"\\\\", b"\\u0041"):
            long = b'"' + filling * 9000 + b'"'
            value = b'{"b":' + long + b',"c":[' + long + b"]}"
            key = b'{"b":' + long + b',"c":[{' + long + b" : 0}]}"
            for size in (1 << 20, 60000, 4096, 999):
                for text, fault in ((value, None), (key, "key")):
                    pieces = [text[i : i + size] for i in range(0, len(text), size)]
                    self.assertEqual(walk(pieces, key=8192).fault, fault)
