"""Outputs that an answer names: URLs, data URLs and base64."""

import time
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters import sources
from omnigate.jobs.adapters.base import InlineSource, UrlSource
from omnigate.outbound.messages import Answer
from tests.jobs.adapters.talking import kept

BASE = "https://api.example/v1"
KEY = (("x-goog-api-key", "secret-0123456789"),)
PLAIN = Answer(200)


class SourceTests(SynchronousTestCase):
    @given(content=st.binary(max_size=40))
    def test_percent(self, content: bytes) -> None:
        """Whatever is written with escapes is read as it was."""
        for text in ("".join(f"%{byte:02x}" for byte in content), quote(content, safe="= _.")):
            found = sources.source(f"data:,{text}", PLAIN, BASE)
            self.assertEqual(InlineSource(content, ""), found)

    def test_a_million_escapes(self) -> None:
        """As many as an answer of 4 MiB holds take little time."""
        text = "data:," + "%41" * 21_800
        began = time.thread_time()
        for _ in range(63):
            sources.source(text, PLAIN, BASE)
        self.assertLess(time.thread_time() - began, 0.2)

    def test_urls(self) -> None:
        """The key goes to the provider's own origin only."""
        own, other = "https://api.example/files/1", "https://cdn.example/1"
        made = sources.source(own, PLAIN, BASE, "image/png", KEY)
        self.assertEqual(made, UrlSource(own, "image/png", KEY))
        self.assertEqual(sources.source(other, PLAIN, BASE, "", KEY), UrlSource(other))
        # Whether one of http is fetched is for who fetches to say.
        self.assertEqual(sources.source("http://x", PLAIN, BASE), UrlSource("http://x"))
        for text in (
            "",
            "x",
            "ftp://x",
            "//x",
            "https:/x",
            "https",
            "file:///etc/passwd",
            "\ud800",
        ):
            self.assertIsNone(sources.source(text, PLAIN, BASE), text)

    def test_data_urls(self) -> None:
        """With and without base64, and the type that they name."""
        for text, content, content_type in (
            ("data:image/png;base64,iVBORw==", b"\x89PNG", "image/png"),
            ("DATA:Image/PNG;charset=x;BASE64,iVBORw==", b"\x89PNG", "image/png"),
            ("data:,a%20b", b"a b", ""),
            ("data:text/plain,%ff", b"\xff", "text/plain"),
            ("data:;base64,iVBORw==", b"\x89PNG", ""),
            # As in a string that is long enough to be taken out.
            ("data:;base64,-_-_", b"\xfb\xff\xbf", ""),
        ):
            self.assertEqual(
                sources.source(text, PLAIN, BASE), InlineSource(content, content_type), text
            )
        named = sources.source("data:;base64,iVBORw==", PLAIN, BASE, "image/webp")
        self.assertEqual(named, InlineSource(b"\x89PNG", "image/webp"))
        for text in (
            "data:",
            "data:image/png;base64",
            "data:image/png;base64,",
            "data:image/png;base64,iVBORw=",
            # Words are mostly no base64 without padding.
            "data:image/png;base64,failed",
            "data:image/png;base64,iVB\nORw==",
            "data:image/png;base64,iVB\\u004fRw==",
            "data:,é",
            "data:,a%2",
            "data:,%zz",
            "data:,a\nb",
            "data:,a%\n",
            "data:," + "=" * (sources.MAX_EQUALS_SIGNS + 1),
            "data:," + "%20" * sources.MAX_PERCENT_CHARS,
            "data:" + "x" * 101 + ",a",
        ):
            self.assertIsNone(sources.source(text, PLAIN, BASE), text[:60])

    def test_long_bodies(self) -> None:
        """Of one beyond a bound no base64 is decoded, for the reactor would have to wait."""
        for size, found in (
            (sources.MAX_BASE64_BODY_BYTES, InlineSource(b"\x89PNG")),
            (sources.MAX_BASE64_BODY_BYTES + 1, None),
        ):
            answer = Answer(200, body=bytes(size), media={"m1": kept(b"?", 9)})
            self.assertEqual(sources.source("data:;base64,iVBORw==", answer, BASE), found)
            self.assertEqual(sources.inline_source("iVBORw==", answer), found)
            # What was taken out is decoded by then.
            self.assertIsNotNone(sources.inline_source("m1", answer))

    def test_what_was_taken_out(self) -> None:
        """A marker is the file that it stands for, and no other text is."""
        media = {"m1": kept(b"\x89PNG", 4), "m2": kept(b"?", 9, "data:image/gif;x=y;base64,")}
        answer = Answer(200, media=media)
        self.assertEqual(sources.source("m1", answer, BASE), InlineSource(media["m1"]))
        self.assertEqual(sources.source("m2", answer, BASE), InlineSource(media["m2"], "image/gif"))
        self.assertEqual(
            sources.inline_source("m2", answer, "image/webp"),
            InlineSource(media["m2"], "image/webp"),
        )
        self.assertIsNone(sources.source("m3", answer, BASE))

    @given(text=st.text(), prefix=st.sampled_from(("", "data:", "data:;base64,", "https://")))
    def test_any_text(self, text: str, prefix: str) -> None:
        """It is an output or none."""
        made = sources.source(prefix + text, PLAIN, BASE, "", KEY)
        if isinstance(made, UrlSource):
            self.assertEqual(made.headers, ())


class WalkTests(SynchronousTestCase):
    def test_strings(self) -> None:
        """In order of appearance, as deep as is asked for."""
        tree = {"a": "1", "b": ["2", {"c": "3", "d": [["4"]]}], "e": 5}
        self.assertEqual(list(sources.strings_in(tree, 3)), ["1", "2", "3"])
        self.assertEqual(list(sources.strings_in(tree, 5)), ["1", "2", "3", "4"])
        self.assertEqual(list(sources.strings_in("x", 0)), ["x"])
        self.assertEqual(list(sources.strings_in(["x"], 0)), [])

    def test_objects_with_a_url(self) -> None:
        """In order of appearance; what is inside of one is its own."""
        one, two = {"url": "u1", "thumb": {"url": "t"}}, {"url": "u2"}
        tree = {"a": one, "b": [two, {"url": 5}], "c": {"d": {"e": {"url": "deep"}}}}
        self.assertEqual(list(sources.objects_with_url(tree, 3)), [one, two])
        self.assertEqual(len(list(sources.objects_with_url(tree, 4))), 3)

    def test_types(self) -> None:
        """As they are named, unless that cannot be one."""
        for named, expected in ((" Image/PNG ", "image/png"), (5, ""), ("x" * 101, ""), ("é", "")):
            self.assertEqual(sources.type_at({"content_type": named}, "content_type"), expected)
