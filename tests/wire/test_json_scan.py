"""Tests of omnigate.wire.json_scan."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_scan import (
    ONE_SHOT_BYTES,
    BodyScan,
    BodyScanner,
    MemberReader,
    ScanError,
    media_parts,
    scan_body,
)
from tests.corpus import body_attacks
from tests.wire.cuts import cut, every_cut, places
from tests.wire.test_json_walk import VALUES

#: Long enough that a body holding it is scanned while it arrives.
PADDING = 'Grüße, a "quoted" line\n and {brackets} ' * 2000


def scan_in_pieces(pieces: list[bytes]) -> BodyScan:
    """Scan a body as it arrives."""
    body = b"".join(pieces)
    scanner = BodyScanner(len(body))
    for piece in pieces:
        scanner.feed(piece)
    return scanner.finish(body)


def outcome(pieces: list[bytes]) -> BodyScan | tuple[str, str | None]:
    """Tell what a scan found, or how it refused."""
    try:
        return scan_in_pieces(pieces)
    except ScanError as error:
        return error.code, error.param


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """Draw a valid body: members in any order and spacing, and its reading."""
    members: dict[str, Any] = {"model": draw(st.sampled_from(["fast", "", 'a"b\\', "größe", "😀"]))}
    for name, values in (
        ("stream", st.sampled_from([True, False, None, "true", 1])),
        (
            "stream_options",
            st.sampled_from(
                [
                    None,
                    {},
                    {"include_usage": True},
                    {"include_usage": False, "x": []},
                    {"x": {"include_usage": False}, "include_usage": True},
                    {"x": "include_usage"},
                    [],
                    "include_usage",
                ]
            ),
        ),
        ("messages", st.one_of(VALUES, st.just(['{model: "stream"}' * 30]))),
        ("x", VALUES),
        ("y", st.just({"model": "a", "stream": True, "messages": [{"stream_options": {}}]})),
        ("padding", st.just(PADDING)),
    ):
        if draw(st.booleans()):
            members[name] = draw(values)
    order = draw(st.permutations(list(members)))
    members = {name: members[name] for name in order}
    text = json.dumps(
        members,
        indent=draw(st.sampled_from([None, None, 1])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " \n: ")])),
        ensure_ascii=draw(st.booleans()),
    )
    return (draw(st.sampled_from(["", " \n"])) + text).encode("utf-8", "replace"), members


class ScanTests(SynchronousTestCase):
    """Both ways of scanning, against json.loads."""

    @settings(max_examples=250, deadline=None)
    @given(bodies(), places())
    def test_agrees_with_a_parser(
        self, drawn: tuple[bytes, dict[str, Any]], where: list[int]
    ) -> None:
        """A valid body is read as json.loads reads it, whole or in pieces."""
        body, members = drawn
        scan = scan_body(body)
        self.assertEqual(scan_in_pieces(cut(body, where)), scan)
        self.assertEqual(scan.model, members["model"])
        self.assertEqual(json.loads(body[scan.model_start : scan.model_end]), members["model"])
        self.assertEqual(scan.stream, members.get("stream") is True)
        if "stream_options" in members:
            options = members["stream_options"]
            span = body[scan.options_start : scan.options_end]
            self.assertEqual(json.loads(span), options)
            usage = options.get("include_usage") if isinstance(options, dict) else None
            self.assertEqual(scan.include_usage, usage)
        else:
            self.assertEqual((scan.options_start, scan.options_end), (-1, -1))
            self.assertIsNone(scan.include_usage)
        self.assertEqual(body[: scan.insert_at].strip(), b"{")
        self.assertFalse(scan.empty_object)

    def test_three_ways(self) -> None:
        """A large body gives the same scan cut in two at any of many places, and finely."""
        body = json.dumps(
            {
                "messages": [{"role": "user", "content": PADDING, "model": "no"}],
                "stream": True,
                "model": 'f"ast',
                "stream_options": {"include_usage": True},
            },
            ensure_ascii=False,
        ).encode()
        self.assertGreater(len(body), ONE_SHOT_BYTES)
        scan = scan_body(body)
        self.assertEqual((scan.model, scan.stream, scan.include_usage), ('f"ast', True, True))
        for size in (1, 7, 1460, 16384, 65536, 100_000):
            pieces = [body[i : i + size] for i in range(0, len(body), size)]
            self.assertEqual(scan_in_pieces(pieces), scan)

    def test_attacks_are_refused(self) -> None:
        """Every hostile body of the corpus is refused with its code, small and large."""
        for name, (body, code, param) in body_attacks.BODIES.items():
            with self.subTest(name):
                self.assertEqual(outcome([body]), (code, param), name)
                self.assertEqual(outcome([body[:3], body[3:9], body[9:]]), (code, param), name)
                if body[:1] == b"{" and len(body) > 2:
                    large = b'{"padding":"' + b"x" * ONE_SHOT_BYTES + b'",' + body[1:]
                    self.assertEqual(outcome([large]), (code, param), name)
                    halves = [large[: 1 << 15], large[1 << 15 : -3], large[-3:]]
                    self.assertEqual(outcome(halves), (code, param), name)

    def test_bounds_that_pass(self) -> None:
        """What is exactly at a bound is accepted."""
        for text in (
            b'"x":' + b"[" * 63 + b"]" * 63,
            b'"x":' + b'{"a":' * 63 + b"0" + b"}" * 63,
            b'"' + b"a" * 8192 + b'":0',
            b",".join([b'"%x":0' % number for number in range(65535)]),
            b'"x":[' + b"[]," * 100_000 + b"0]",
            b'"x":"' + b"a" * 100_000 + b'"',
        ):
            body = b'{"model":"fast",' + text + b"}"
            self.assertEqual(scan_body(body).model, "fast")

    def test_a_fault_is_told_at_once(self) -> None:
        """A large body that is refused for what has come can be refused before the rest."""
        scanner = BodyScanner(1 << 20)
        scanner.feed(b'{"model":"a","model":"b",' + b" " * 40_000)
        self.assertEqual(scanner.fault and scanner.fault.param, "model")
        scanner.feed(b"x" * 40_000)

    def test_a_body_that_was_not_fed(self) -> None:
        """A body that differs in length from what was fed is scanned anew."""
        body = b'{"padding":"' + b"x" * ONE_SHOT_BYTES + b'","model":"fast"}'
        self.assertEqual(BodyScanner(len(body)).finish(body), scan_body(body))

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=50), st.text('{}[]:,"\\ modelstrau0', max_size=80), places())
    @example(b"", '{"model":"a","messages":"model":"b"}', [])
    def test_junk(self, junk: bytes, text: str, where: list[int]) -> None:
        """Anything is scanned or refused, and in the same way large as small."""
        for tail in (junk, text.encode()):
            body = b'{"model":"a","x":' + tail
            small = outcome(cut(body, where))
            padding = b'{"padding":"' + b"x" * ONE_SHOT_BYTES + b'",'
            large = outcome(cut(padding + body[1:], where))
            if isinstance(small, BodyScan):
                json.loads(body)
                assert isinstance(large, BodyScan)
                self.assertEqual((small.model, small.stream), (large.model, large.stream))
            else:
                self.assertIsInstance(large, tuple)


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

    def test_windows(self) -> None:
        """Windows add up to the whole, wherever they meet."""
        for body in (self.BODY, self.BODY + b'"",' * 600_000):
            for place in range(len(self.BODY)):
                if len(body) > 10_000 and place % 97:
                    continue
                both = media_parts(body, 0, place) + media_parts(body, place)
                self.assertEqual(both, 10)
