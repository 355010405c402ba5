"""Tests of omnigate.wire.json_splice."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.json_scan import scan_body
from omnigate.wire.json_splice import splice_request
from tests.wire.test_json_scan import bodies


def splice(body: bytes, add_usage: bool = False) -> bytes:
    """Scan and splice."""
    return b"".join(splice_request(body, scan_body(body), b'"gpt-4o-mini"', add_usage))


class SpliceTests(SynchronousTestCase):
    """Bodies changed in their text."""

    def test_bytes_stay(self) -> None:
        """Nothing but the model's value changes."""
        body = b' {\n"temperature" : 1e0, "model" :\t"fast" ,"x":"\\u00e9\xc3\xa9","x":2 }\n'
        self.assertEqual(splice(body), body.replace(b'"fast"', b'"gpt-4o-mini"'))

    def test_usage(self) -> None:
        """Usage is asked for where it is not asked for yet; other options stay."""
        for given_options, options in (
            (b"", b'"stream_options":{"include_usage":true},'),
            (b'"stream_options":null,', b'"stream_options":{"include_usage":true},'),
            (b'"stream_options":{ },', b'"stream_options":{"include_usage":true },'),
            (
                b'"stream_options":{"a":[1, 2]},',
                b'"stream_options":{"include_usage":true,"a":[1, 2]},',
            ),
            (
                b'"stream_options": {"a":1, "include_usage" : false},',
                b'"stream_options": {"a":1, "include_usage" : true},',
            ),
            (
                b'"stream_options":{"include_usage":null},',
                b'"stream_options":{"include_usage":true},',
            ),
            (
                b'"stream_options":{"include_usage":true},',
                b'"stream_options":{"include_usage":true},',
            ),
            (b'"stream_options":"x",', b'"stream_options":"x",'),
        ):
            body = b"{" + given_options + b'"model":"fast"}'
            self.assertEqual(splice(body, True), b"{" + options + b'"model":"gpt-4o-mini"}')
            self.assertEqual(splice(body), b"{" + given_options + b'"model":"gpt-4o-mini"}')

    def test_options_behind_the_model(self) -> None:
        """The order of the members does not matter."""
        body = b'{"model":"fast","stream_options":{"include_usage":false},"n":1}'
        self.assertEqual(
            splice(body, True),
            b'{"model":"gpt-4o-mini","stream_options":{"include_usage":true},"n":1}',
        )

    @settings(max_examples=200, deadline=None)
    @given(bodies(), st.booleans())
    def test_same_json_but_for_the_places(
        self, drawn: tuple[bytes, dict[str, Any]], add: bool
    ) -> None:
        """A spliced body is the same JSON with the model replaced and usage asked for."""
        body, members = drawn
        want = {**members, "model": "gpt-4o-mini"}
        options = members.get("stream_options")
        if add and (options is None or isinstance(options, dict)):
            want["stream_options"] = {**(options or {}), "include_usage": True}
        self.assertEqual(json.loads(splice(body, add)), want)
