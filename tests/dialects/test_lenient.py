"""JSON of providers, mended where it has to be."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.lenient import MAX_MENDED_BYTES, decode_leniently, mended, text_of
from omnigate.text import valid_text

decode_any = msgspec.json.Decoder(dict[str, object]).decode
decode_count = msgspec.json.Decoder(dict[str, int]).decode


class LenientTests(SynchronousTestCase):
    def test_mended(self) -> None:
        """Half pairs become U+FFFD, whole pairs and escaped backslashes stay."""
        for body, expected in (
            (rb'"\ud83d"', rb'"\ufffd"'),
            (rb'"\ude00"', rb'"\ufffd"'),
            (rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"'),
            (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
            (rb'"\\ud83d"', rb'"\\ud83d"'),
            (rb'"\\\ud83d"', rb'"\\\ufffd"'),
            (rb'"\\ud83d\ude00"', rb'"\\ud83d\ufffd"'),
            (b'\xef\xbb\xbf"\xff"', '"\ufffd"'.encode()),
        ):
            self.assertEqual(expected, mended(body), body)

    def test_decoded(self) -> None:
        """What Python's parser takes is decoded, and nothing else."""
        for body, expected in (
            (b'{"a":1}', {"a": 1}),
            (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
            (b'{"a":NaN,"b":"x\ny"}', {"a": None, "b": "x\ny"}),
            (b'{"a":"\\ud800","b":[Infinity]}', {"a": "\ufffd", "b": [None]}),
        ):
            self.assertEqual(expected, decode_leniently(decode_any, body), body)
        for body in (b"", b"{", b"[]", b'{"a":1', b"[" * 100_000, b'{"a":1}x'):
            self.assertIsNone(decode_leniently(decode_any, body), body[:20])
        self.assertIsNone(decode_leniently(decode_count, b'{"a":"x"}'))

    def test_long(self) -> None:
        """Of a long text no tree is made; one that is longer than answers are is not mended."""
        for length, mends in ((MAX_MENDED_BYTES - 20, True), (MAX_MENDED_BYTES, False)):
            body = b'{"a":"%b\\ud800"}' % (b"x" * length)
            found = decode_leniently(decode_any, body)
            self.assertEqual(mends, found is not None)
            if found is not None:
                self.assertTrue(str(found["a"]).endswith("x\ufffd"))
            self.assertIsNotNone(decode_leniently(decode_any, body.replace(b"\\ud800", b"")))

    def test_text(self) -> None:
        """Only a string is a text."""
        for raw, expected in (
            (b'"x"', "x"),
            (b'"\xff\\ud800"', "\ufffd\ufffd"),
            (b"7", ""),
            (b"null", ""),
            (b'["x"]', ""),
            (b"", ""),
        ):
            self.assertEqual(expected, text_of(msgspec.Raw(raw)))

    @given(st.text(st.characters() | st.characters(categories=["Cs"])))
    def test_any_text(self, text: str) -> None:
        """Whatever Python's writer makes of a text is read as the valid text."""
        body = json.dumps({"a": text}).encode()
        found = decode_leniently(decode_any, body)
        assert found is not None
        self.assertEqual(valid_text(json.loads(body)["a"]), found["a"])
