"""Media taken out of JSON: what is taken, what stays, whatever the cuts, and what is refused."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.inline_splitter import (
    LONG_CHARS,
    MAX_DEPTH,
    MAX_JSON_BYTES,
    InlineSplitter,
)
from omnigate.outbound.messages import BAD_FRAMING, TOO_LARGE, BodyRefused

BIG = bytes(range(256)) * 100
BIG_TEXT = base64.b64encode(BIG)


class Taken:
    """What a splitter gave: files in their order."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.thrown_away = 0
        self._open: tuple[str, str, bytearray] | None = None

    def media_begins(self, marker: str, prefix: str) -> None:
        assert self._open is None
        self._open = marker, prefix, bytearray()

    def media_data(self, data: bytes) -> None:
        assert self._open is not None
        assert data
        self._open[2].extend(data)

    def media_ends(self) -> None:
        assert self._open is not None
        marker, prefix, data = self._open
        self.files[marker] = prefix, bytes(data)
        self._open = None

    def media_was_none(self) -> None:
        assert self._open is not None
        self._open = None
        self.thrown_away += 1


def split(
    *pieces: bytes, files: int = 2**20, total: int = 2**22, **options: Any
) -> tuple[bytes, dict[str, tuple[str, bytes]]]:
    """Feed pieces and return what is left, and what was taken out."""
    taken = Taken()
    splitter = InlineSplitter(
        taken,
        lambda number: f"@{number}@",
        max_file_bytes=files,
        max_total_bytes=total,
        **options,
    )
    for piece in pieces:
        splitter.feed(piece)
    return splitter.finish(), taken.files


def outcome(*pieces: bytes, **options: Any) -> object:
    """The same, or what it was refused with."""
    try:
        return split(*pieces, **options)
    except BodyRefused as refused:
        return refused.fault, refused.detail


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """Cut data at places."""
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[first:last] for first, last in pairwise(places)]


class TakenTests(SynchronousTestCase):
    def test_taken(self) -> None:
        """A long string of base64 is in a file; a marker stands in its place."""
        left, files = split(b'{"data":[{"b64_json":"%b"}],"a":"b"}' % BIG_TEXT)
        self.assertEqual(left, b'{"data":[{"b64_json":"@0@"}],"a":"b"}')
        self.assertEqual(files, {"@0@": ("", BIG)})

    def test_ways_to_write_it(self) -> None:
        """Both alphabets, escaped or not, padded or not, with and without the prefix of a URL."""
        for content in (BIG, BIG + b"\xff", BIG + b"\xff\xfe"):
            usual, safe = base64.b64encode(content), base64.urlsafe_b64encode(content)
            for text in (
                usual,
                safe,
                usual.rstrip(b"="),
                safe.rstrip(b"="),
                usual.replace(b"/", b"\\/"),
                usual.replace(b"=", b"\\u003d").replace(b"+", b"\\u002B"),
                usual.replace(b"=", b"\\u003D").replace(b"/", b"\\/"),
            ):
                self.assertEqual(split(b'["%b"]' % text), (b'["@0@"]', {"@0@": ("", content)}))
        for prefix, told in (
            (b"data:image/png;base64,", "data:image/png;base64,"),
            (b"data:image\\/png;base64,", "data:image/png;base64,"),
            (b"data:audio/L16;rate=24000;base64,", "data:audio/L16;rate=24000;base64,"),
            (b"data:;base64,", "data:;base64,"),
        ):
            left, files = split(b'"%b%b"' % (prefix, BIG_TEXT))
            self.assertEqual((left, files), (b'"@0@"', {"@0@": (told, BIG)}))

    def test_several(self) -> None:
        """Each is a file of its own, keys and values alike."""
        text = json.dumps([BIG_TEXT.decode(), {BIG_TEXT.decode(): 1}, "x", BIG_TEXT.decode()])
        left, files = split(text.encode())
        self.assertEqual(json.loads(left), ["@0@", {"@1@": 1}, "x", "@2@"])
        self.assertEqual([content for _, content in files.values()], [BIG] * 3)

    def test_what_stays(self) -> None:
        """Short strings, and long ones that are no base64, are left as they were."""
        for text in (
            b"{}",
            b"",
            b'"a" "b"',
            b'"%b"' % BIG_TEXT[: LONG_CHARS - 1],
            b'"%b"' % (b"long prose " * 10_000),
            b'"%b!"' % BIG_TEXT,
            b'"%b="' % BIG_TEXT[:40_001].replace(b"=", b"A"),
            b'"%bA"' % (b"A" * LONG_CHARS),
            b'"%b=A"' % BIG_TEXT,
            b'"%b==="' % BIG_TEXT,
            b'"%b\\n"' % BIG_TEXT,
            b'"%b\\u003"' % BIG_TEXT,
            b'"%b\\\\/"' % BIG_TEXT,
            b'"%b\xc3\xa9"' % BIG_TEXT,
            b'"data:text/plain,%b"' % BIG_TEXT,
            b'"%b data:image/png;base64,%b"' % (BIG_TEXT, BIG_TEXT),
            b'"\\"%b"' % BIG_TEXT,
        ):
            self.assertEqual(split(text), (text, {}), text[-40:])

    def test_bound_of_what_is_long(self) -> None:
        """One character decides."""
        text = b"A" * LONG_CHARS
        self.assertEqual(split(b'"%b"' % text)[0], b'"@0@"')
        self.assertEqual(split(b'"%b"' % text[:-4])[1], {})

    def test_brackets_in_strings(self) -> None:
        """They are text."""
        text = b'["%b",1]' % (b"[{" * 300 + b'\\"[' * 300)
        self.assertEqual(split(text)[0], text)


class RefusedTests(SynchronousTestCase):
    def test_sizes(self) -> None:
        """One file, all together, how many, and the rest of the JSON have their bounds."""
        one = b'"%b"' % BIG_TEXT
        size = len(BIG)
        self.assertEqual(len(split(one, files=size)[1]), 1)
        self.assertEqual(
            outcome(one, files=size - 1),
            (TOO_LARGE, f"output is larger than {size - 1} bytes"),
        )
        self.assertEqual(
            outcome(b"[%b,%b]" % (one, one), total=2 * size - 1),
            (TOO_LARGE, f"outputs are larger than {2 * size - 1} bytes together"),
        )
        self.assertEqual(
            outcome(one * 3, max_media=2), (TOO_LARGE, "the answer holds more than 2 files")
        )
        beside = (TOO_LARGE, f"the answer is larger than {MAX_JSON_BYTES} bytes beside its media")
        self.assertEqual(outcome(b"x" * (MAX_JSON_BYTES + 1)), beside)
        self.assertEqual(outcome(b'"%b"' % (b"no base64 " * 500_000)), beside)
        self.assertEqual(outcome(b'"%b !"' % (BIG_TEXT * 200), files=2**30, total=2**30), beside)
        self.assertEqual(len(split(b"x" * MAX_JSON_BYTES)[0]), MAX_JSON_BYTES)

    def test_media_where_there_is_little_room(self) -> None:
        """What is left of the JSON may be full but for the marker."""
        text = b'"%b"%b' % (BIG_TEXT, b" " * 100)
        self.assertEqual(split(text, max_json_bytes=105)[0], b'"@0@"' + b" " * 100)
        self.assertEqual(outcome(text, max_json_bytes=104)[0], TOO_LARGE)  # type: ignore[index]

    def test_depth(self) -> None:
        """Sixty-four levels are read, one more is refused before anything parses it."""
        for begin, end in ((b"[", b"]"), (b'{"a":', b"}")):
            text = begin * MAX_DEPTH + b'"x"' + end * MAX_DEPTH
            self.assertEqual(split(text)[0], text)
            refused = outcome(begin * (MAX_DEPTH + 1))
            self.assertEqual(
                refused, (BAD_FRAMING, "the JSON of the answer is deeper than 64 levels")
            )
        wide = b"[" + b"[]," * 20_000 + b"[]]"
        self.assertEqual(split(wide)[0], wide)

    def test_cut_short(self) -> None:
        """An answer that ends inside a string is none, inside of media or not."""
        for text in (b'{"a', b'["%b' % BIG_TEXT, b'["a\\', b'["%b\\' % BIG_TEXT):
            self.assertEqual(outcome(text)[0], BAD_FRAMING)  # type: ignore[index]


#: Parts of documents, good and bad, with the cuts that hurt: in escapes, in groups of four.
INSIDES = st.one_of(
    st.integers(24_560, 24_600).map(lambda size: base64.b64encode(BIG[:size])),
    st.integers(24_560, 24_600).map(lambda size: base64.urlsafe_b64encode(BIG[-size:])),
    st.sampled_from([BIG_TEXT, BIG_TEXT[:-1], BIG_TEXT[:LONG_CHARS], BIG_TEXT[: LONG_CHARS - 1]]),
    st.text(max_size=20).map(lambda text: json.dumps(text)[1:-1].encode()),
)
TAILS = st.sampled_from(
    [b"", b"=", b"==", b"\\/", b"\\u003d", b"\\u00", b"\\\\", b"!", b"\xc3\xa9", b'\\"']
)
HEADS = st.sampled_from([b"", b"data:image\\/png;base64,", b"data:x", b"\\/", b"\\u002b"])
STRINGS = st.tuples(HEADS, INSIDES, TAILS).map(lambda parts: b'"%b"' % b"".join(parts))
OTHERS = st.sampled_from([b"[", b"]", b"{", b"}", b",", b":1,", b" \n", b'"'])
DOCUMENTS = st.lists(STRINGS | OTHERS, max_size=8).map(b"".join)


class CutTests(SynchronousTestCase):
    @settings(deadline=None)
    @given(
        DOCUMENTS, st.lists(st.integers(0, 10**6), max_size=12), st.sampled_from([2**20, 24_570])
    )
    def test_any_cut_gives_the_same(self, document: bytes, places: list[int], files: int) -> None:
        """However the bytes were cut on their way, the same comes of them, or the same fault."""
        whole = outcome(document, files=files)
        self.assertEqual(outcome(*cut(document, places), files=files), whole)

    @settings(deadline=None)
    @given(DOCUMENTS, st.lists(st.integers(0, 10**6), max_size=4))
    def test_nothing_is_lost(self, document: bytes, places: list[int]) -> None:
        """With the media put back where their markers are, the document says what it said."""
        try:
            expected = json.loads(document)
        except ValueError:
            return
        left, files = split(*cut(document, places))
        self.assertEqual(restored(json.loads(left), files), normal(expected))

    def test_byte_by_byte(self) -> None:
        """The finest cuts there are."""
        text = b'{"a":["data:image\\/png;base64,%b","\\u00e9\\\\",{"b":"%b !"}]}' % (
            BIG_TEXT.replace(b"/", b"\\/"),
            BIG_TEXT,
        )
        pieces = [text[at : at + 1] for at in range(len(text))]
        self.assertEqual(split(*pieces), split(text))
        self.assertEqual(len(split(text)[1]), 1)


def media(text: str) -> object:
    """A long string as the bytes that it says, where it says any; others as they are."""
    body = text.split(";base64,", 1)[1] if text.startswith("data:") and ";base64," in text else text
    if len(text) < LONG_CHARS - 100:
        return text
    try:
        body = body.translate(str.maketrans("-_", "+/")).rstrip("=")
        return base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except ValueError:
        return text


def normal(value: Any) -> Any:
    """A document with its media decoded."""
    if isinstance(value, str):
        return media(value)
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return [(normal(key), normal(item)) for key, item in value.items()]
    return value


def restored(value: Any, files: dict[str, tuple[str, bytes]]) -> Any:
    """What is left of a document, with its media for the markers."""
    if isinstance(value, str):
        return files[value][1] if value in files else media(value)
    if isinstance(value, list):
        return [restored(item, files) for item in value]
    if isinstance(value, dict):
        return [(restored(key, files), restored(item, files)) for key, item in value.items()]
    return value
