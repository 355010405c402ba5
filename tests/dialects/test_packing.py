"""Thinking packed into the other protocol's opaque field, and taken out again."""

import base64
import json

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.packing import (
    MAX_PACKED_CHARS,
    OWN_PREFIX,
    pack_reasoning,
    pack_thinking,
    unpack_reasoning,
    unpack_thinking,
)
from omnigate.dialects.shapes import RedactedThinking, Thinking


def _packed(prefix: str, value: object) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return prefix + base64.b64encode(text).decode()


class PackingTests(SynchronousTestCase):
    """What goes out comes back the same; what was never packed is nothing."""

    def test_spelling(self) -> None:
        """The packing is compact JSON of the block in base64, so that it stays the same."""
        self.assertEqual(
            pack_thinking(Thinking("Look at the map.", "c2ln")),
            "omnigate.v1:eyJ0eXBlIjoidGhpbmtpbmciLCJ0aGlua2luZyI6Ikxvb2sgYXQgdGhlIG1hcC4iLCJzaWdu"
            "YXR1cmUiOiJjMmxuIn0=",
        )
        self.assertEqual(
            pack_reasoning("rs_9", "gAAA9"),
            "omnigate.r1:eyJpZCI6InJzXzkiLCJlbmNyeXB0ZWRfY29udGVudCI6ImdBQUE5In0=",
        )

    @settings(max_examples=200)
    @given(st.text(), st.text())
    def test_round_trip(self, one: str, other: str) -> None:
        """Any text comes back as it went."""
        packed = pack_thinking(Thinking(one, other))
        self.assertTrue(packed.startswith(OWN_PREFIX))
        self.assertEqual(unpack_thinking(packed), Thinking(one, other))
        self.assertIsNone(unpack_reasoning(packed))
        hidden = pack_thinking(RedactedThinking(one))
        self.assertEqual(unpack_thinking(hidden), RedactedThinking(one))
        item = pack_reasoning(one, other)
        self.assertTrue(item.startswith(OWN_PREFIX))
        self.assertEqual(unpack_reasoning(item), (one, other))
        self.assertIsNone(unpack_thinking(item))

    @settings(max_examples=200)
    @given(
        st.sampled_from(("", "omnigate.v1:", "omnigate.r1:", "omnigate.v2:")),
        st.one_of(st.text(), st.binary().map(lambda data: base64.b64encode(data).decode())),
    )
    def test_anything_else_is_nothing(self, prefix: str, rest: str) -> None:
        """Whatever a client makes up is no block, and raises nothing."""
        self.assertIsNone(unpack_thinking(prefix + rest))
        self.assertIsNone(unpack_reasoning(prefix + rest))

    def test_no_block(self) -> None:
        """JSON that is no thinking block is none, however well it is packed."""
        values: list[object] = [
            None,
            [],
            "thinking",
            {},
            {"type": "text", "text": "x"},
            {"type": "thinking"},
            {"type": "thinking", "thinking": "x"},
            {"type": "thinking", "thinking": "x", "signature": None},
            {"type": "thinking", "thinking": 1, "signature": "x"},
            {"type": "redacted_thinking"},
            {"type": "redacted_thinking", "data": ["x"]},
            b'{"type":"thinking","thinking":"\xff","signature":"x"}',
            b'{"type":"thinking","thinking":"\\ud800","signature":"x"}',
            b'{"type":"thinking","thinking":"x","signature":"x"} {}',
            b"[" * 100_000,
        ]
        for value in values:
            self.assertIsNone(unpack_thinking(_packed("omnigate.v1:", value)), value)
        items: list[object] = [
            {},
            {"id": "rs_1"},
            {"id": 1, "encrypted_content": "x"},
            {"id": "rs_1", "encrypted_content": None},
            b'{"id":"\xff","encrypted_content":"x"}',
        ]
        for item in items:
            self.assertIsNone(unpack_reasoning(_packed("omnigate.r1:", item)), item)

    def test_bound(self) -> None:
        """What is too long to be read back is not packed at all."""
        text = "x" * MAX_PACKED_CHARS
        self.assertEqual(pack_thinking(Thinking(text, "s")), "")
        self.assertEqual(pack_reasoning("rs_1", text), "")
        self.assertIsNone(
            unpack_thinking(
                _packed("omnigate.v1:", {"type": "thinking", "thinking": text, "signature": "s"})
            )
        )

    def test_lone_surrogates(self) -> None:
        """Half a character is replaced: no JSON can hold it."""
        packed = pack_thinking(Thinking("a\ud800", "s"))
        self.assertEqual(unpack_thinking(packed), Thinking("a\ufffd", "s"))
        hidden = pack_thinking(RedactedThinking("\udc00"))
        self.assertEqual(unpack_thinking(hidden), RedactedThinking("\ufffd"))
        item = pack_reasoning("rs", "a\udc00")
        self.assertEqual(unpack_reasoning(item), ("rs", "a\ufffd"))
