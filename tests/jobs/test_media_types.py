"""Which type a file is stored with."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs import media_types
from omnigate.jobs.media_types import OCTETS, extension, plain, sniffed, stored_type

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


class SniffedTests(SynchronousTestCase):
    def test_first_bytes(self) -> None:
        """The beginnings of each kind of file."""
        cases = {
            PNG: "image/png",
            b"\xff\xd8\xff\xe0\x00\x10JFIF": "image/jpeg",
            b"GIF87a\x01\x00": "image/gif",
            b"GIF89a\x01\x00": "image/gif",
            b"RIFF\x16\x00\x00\x00WEBPVP8 ": "image/webp",
            b"RIFF\x16\x00\x00\x00WAVEfmt ": "audio/wav",
            b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00": "image/avif",
            b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00": "video/mp4",
            b"\x00\x00\x00\x18ftypmp42\x00\x00\x02\x00": "video/mp4",
            b"\x00\x00\x00\x18ftypqt  \x00\x00\x02\x00": "video/quicktime",
            b"\x00\x00\x00\x18ftypM4A \x00\x00\x02\x00": "audio/mp4",
            b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm": "video/webm",
            b"ID3\x04\x00\x00": "audio/mpeg",
            b"\xff\xfb\x90\x00": "audio/mpeg",
            b"\xff\xf1\x50\x80": "audio/aac",
            b"OggS\x00\x02": "audio/ogg",
            b"fLaC\x00\x00\x00\x22": "audio/flac",
        }
        for head, expected in cases.items():
            self.assertEqual(sniffed(head), expected, head)

    def test_what_says_nothing(self) -> None:
        """Pages, drawings with scripts, other containers, and beginnings of beginnings."""
        for head in (
            b"",
            b"<html>",
            b"<svg xmlns=",
            b"\x89PN",
            b"RIFF\x16\x00\x00\x00AVI ",
            b"\x00\x00\x00\x18ftypheic\x00\x00\x02\x00",
            b"\x1a\x45\xdf\xa3\x9f\x42\x82\x88matroska",
            b"\xff\xff\xff\xff",
            b"\xff\xfb",
            bytes(64),
            b"{}",
        ):
            self.assertEqual(sniffed(head), "", head)

    @settings(max_examples=300, deadline=None)
    @given(st.binary(max_size=80))
    def test_any_bytes_at_all(self, head: bytes) -> None:
        """Whatever a provider sends is of the short list or nothing, and only its head counts."""
        self.assertIn(sniffed(head), {"", *media_types.EXTENSIONS})
        self.assertEqual(sniffed(head[: media_types.SNIFFED_BYTES]), sniffed(head))


class StoredTypeTests(SynchronousTestCase):
    def test_who_is_believed(self) -> None:
        """The download's header, then the answer, then the bytes, then nobody."""
        cases = [
            (("image/png", "image/webp", b""), "image/png"),
            (("application/octet-stream", "image/webp", PNG), "image/webp"),
            (("", "", PNG), "image/png"),
            (("", "", b"<html>"), OCTETS),
            (("text/html", "", b"<html>"), OCTETS),
            (("text/html; charset=utf-8", "image/svg+xml", b"<svg>"), OCTETS),
            (("image/svg+xml", "", b"<svg>"), OCTETS),
            (("binary/octet-stream", "", PNG), "image/png"),
            (("AUDIO/MP3; x=y", "", b""), "audio/mpeg"),
            (("audio/x-wav", "", b""), "audio/wav"),
            (("image/jpg", "", b""), "image/jpeg"),
            (("application/json; charset=utf-8", "", b"{}"), "application/json"),
        ]
        for (declared, named, head), expected in cases:
            self.assertEqual(stored_type(declared, named, head), expected, declared)

    def test_names_of_files(self) -> None:
        """Every type of the list has an ending, and what is none is called bin."""
        self.assertEqual(extension("image/jpeg"), "jpg")
        self.assertEqual(extension(OCTETS), "bin")
        self.assertEqual(extension("text/html"), "bin")
        self.assertTrue(all(end.isalnum() for end in media_types.EXTENSIONS.values()))
        self.assertEqual(set(media_types.SYNONYMS.values()) - set(media_types.EXTENSIONS), set())

    def test_a_long_header_is_cut(self) -> None:
        """A header of a megabyte is not walked."""
        self.assertEqual(plain("image/png;" + "x" * 1_000_000), "image/png")
        self.assertEqual(len(plain("x" * 1_000_000)), media_types.MAX_TYPE_CHARS)
