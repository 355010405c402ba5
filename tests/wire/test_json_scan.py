"""Tests of omnigate.wire.json_scan."""

import json
import sys
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_body import BodyScan, ScanError
from omnigate.wire.json_scan import (
    CALM_BYTES,
    ONE_SHOT_BYTES,
    BodyScanner,
    scan_body,
)
from tests.corpus import body_attacks
from tests.wire.cuts import cut, places
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
    models = ["fast", "", 'a"b\\', "größe", "😀", "model", "stream"]
    members: dict[str, Any] = {"model": draw(st.sampled_from(models))}
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
        ("x", st.one_of(VALUES, st.sampled_from(["model", "stream", "messages", 'a"model']))),
        ("messages\\", st.lists(st.just("b" * 400), max_size=1)),
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
        slow = BodyScanner(CALM_BYTES + 1)
        slow.feed(body)
        self.assertEqual(slow.finish(body), scan)
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

    def test_any_depth(self) -> None:
        """A body that nests too deep is refused as such, however deep, and wherever the stack is.

        At some depth the first look into a body just fits the stack, and the next one does not.
        """
        frames = (
            b'{"model":"m","x":%b}',
            b'{"x": %b, "model": "m"}',
            b'{"model":"m","messages":[{"role":"user","content":%b}]}',
            b'{"model":"m","stream_options":{"include_usage":true,"x":%b}}',
            b'{"model":"m","stream_options":{"include_usage":%b}}',
            b'{"model":%b}',
        )
        shapes = ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b'{"a":[', b"]}"))

        def refused(body: bytes, below: int) -> None:
            if below:
                refused(body, below - 1)
            else:
                self.assertRaises(ScanError, scan_body, body)

        for frame in frames:
            for opened, closed in shapes:
                for depth in range(64, sys.getrecursionlimit() + 20, 3):
                    body = frame % (opened * depth + b"0" + closed * depth)
                    refused(body, depth % 50)

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
