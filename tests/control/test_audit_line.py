"""What a line of the audit log may hold."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.audit_line import (
    DETAIL_CHARS,
    MAX_LINE_BYTES,
    MAX_SEQ,
    NAME_CHARS,
    AuditEntry,
    decode_line,
    encode_line,
    line_of,
)

NOW_MS = 1_795_982_400_250

#: Anything that a text may be: surrogates, controls, marks of direction, megabytes.
TEXTS = st.one_of(
    st.text(st.characters()),
    st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])),
    st.sampled_from(["", "x" * 5000, "\U0001f600" * 400, "a\nb", "\ud800", "\u202etxt"]),
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=50),
    st.lists(TEXTS, max_size=40),
    st.lists(st.integers(), max_size=40),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
)


def texts_of(value: Any) -> list[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in texts_of(one)]
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in texts_of(one)]
    return []


class LineTests(SynchronousTestCase):
    """Entries made into lines."""

    def test_form(self) -> None:
        """The members stand in the order that the page tells of."""
        entry = AuditEntry(
            "key.create", "admin-token", "app", "done", "10.0.0.7", "r-1", {"rpm": 600}
        )
        self.assertEqual(
            encode_line(line_of(entry, 17, NOW_MS)),
            b'{"ts":"2026-11-29T20:00:00.250Z","seq":17,"action":"key.create",'
            b'"actor":"admin-token","address":"10.0.0.7","target":"app","outcome":"done",'
            b'"request_id":"r-1","detail":{"rpm":600}}\n',
        )

    @settings(max_examples=300, deadline=None)
    @given(
        st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
        st.dictionaries(TEXTS, VALUES, max_size=40),
    )
    def test_whatever_comes_in(
        self, texts: tuple[str, str, str, str, str, str], detail: dict[str, Any]
    ) -> None:
        """A line is one line of JSON within its bound, its texts printable, and is read back."""
        line = line_of(AuditEntry(*texts, detail), 1, NOW_MS)
        data = encode_line(line)
        self.assertLessEqual(len(data), MAX_LINE_BYTES)
        self.assertEqual((data.count(b"\n"), data[-1:]), (1, b"\n"))
        for text in texts_of(json.loads(data.decode("utf-8"))):
            self.assertLessEqual(len(text), DETAIL_CHARS)
            for char in text:
                self.assertNotIn(unicodedata.category(char), ("Cc", "Cs", "Zl", "Zp"))
        self.assertEqual(decode_line(data[:-1]), line)

    def test_long_texts(self) -> None:
        """A text is cut at its bound; a line that is too long gives up members, and says so."""
        line = line_of(AuditEntry("a" * 1000, "b"), 1, NOW_MS)
        self.assertEqual(len(line.action), NAME_CHARS)
        detail = {f"list-{n}": ["x" * 1000] * 30 for n in range(20)}
        line = line_of(AuditEntry("a", "b", detail=detail), 1, NOW_MS)
        self.assertIs(line.detail["cut"], True)
        self.assertEqual(list(line.detail), ["list-0", "cut"])
        self.assertEqual(line.detail["list-0"][-1], "and 10 more")
        line = line_of(AuditEntry("a", "b", detail=dict.fromkeys(map(str, range(90)), 1)), 1, 0)
        self.assertEqual((len(line.detail), line.detail["cut"]), (25, True))

    def test_what_is_no_line(self) -> None:
        """Anything but an entry is told apart, however it is broken."""
        good = encode_line(line_of(AuditEntry("a", "b", detail={"é": 1}), 1, NOW_MS))[:-1]
        self.assertIsNotNone(decode_line(good))
        for length in range(len(good)):
            self.assertIsNone(decode_line(good[:length]), length)
        numbers = (b'"1"', b"0", b"-3", b"%d" % (MAX_SEQ + 1), b"%d" % 2**70, b"1.5")
        wrong = [good.replace(b'"seq":1,', b'"seq":%b,' % number) for number in numbers]
        for bad in (b"\0" * 300, b"{}", b"[]", b"null", *wrong):
            self.assertIsNone(decode_line(bad), bad)
        self.assertIsNone(decode_line(good.replace(b"\xc3\xa9", b"\xc3\x28")))
        self.assertIsNone(decode_line(good.replace(b'{"\xc3\xa9":1}', b"[" * 3000)))
