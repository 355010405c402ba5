"""The types of media that are stored and served, and how they are told.

What stands outside the short list is stored as ``application/octet-stream``: a page or a drawing
with scripts in it never goes out from the gateway's own address as what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: What a file is that nothing better is known of.
OCTETS: Final = "application/octet-stream"

#: The short list, and how a file of each type is called. Neither SVG nor HTML: both run scripts.
EXTENSIONS: Final[Mapping[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/avif": "avif",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/quicktime": "mov",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/flac": "flac",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/webm": "weba",
    "application/json": "json",
}

#: Other names that providers give them.
SYNONYMS: Final[Mapping[str, str]] = {
    "audio/mp3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/x-aac": "audio/aac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "application/ogg": "audio/ogg",
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
}

#: A content type that a peer wrote is read up to here.
MAX_TYPE_CHARS: Final = 200

#: Bytes of a file that :func:`sniffed` looks at.
SNIFFED_BYTES: Final = 64

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
)

_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

_BRANDS: Final = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
}

#: Other brands of the same container that are no films.
_STILL_BRANDS: Final = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


def plain(value: str) -> str:
    """Return a content type without parameters, in lower case and by its usual name."""
    name = value[:MAX_TYPE_CHARS].partition(";")[0].strip().lower()
    return SYNONYMS.get(name, name)


def stored_type(declared: str, named: str, head: bytes) -> str:
    """Return the type that a file is stored with.

    That of its download, if it is of the short list; else what the provider's answer called it;
    else what its first bytes say.

    :param declared: the ``content-type`` of the download, empty where there was none.
    :param named: what the answer called it, or empty.
    """
    for candidate in (plain(declared), plain(named), sniffed(head)):
        if candidate in EXTENSIONS:
            return candidate
    return OCTETS


def extension(content_type: str) -> str:
    """Return what the name of a file of a stored type ends in, without a dot."""
    return EXTENSIONS.get(content_type, "bin")


def sniffed(head: bytes) -> str:
    """Return what the first bytes of a file say that it is; empty where they say nothing."""
    head = head[:SNIFFED_BYTES]
    for beginning, content_type in _BEGINNINGS:
        if head.startswith(beginning):
            return content_type
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        brand = head[8:12]
        return "" if brand in _STILL_BRANDS else _BRANDS.get(brand, "video/mp4")
    # EBML (RFC 8794): the same beginning as Matroska's, told apart by the name of the document.
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "video/webm" if b"webm" in head else ""
    return _mpeg_audio(head)


def _mpeg_audio(head: bytes) -> str:
    """Tell a bare frame of MPEG audio (ISO 11172-3) or of AAC in ADTS (ISO 13818-7)."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return ""
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    if layer == 0 and version in (2, 3):
        # Four bits of the rate; 13 and more are none.
        return "audio/aac" if head[1] & 0xF0 == 0xF0 and head[2] >> 2 & 15 < 13 else ""
    bit_rate, sample_rate = head[2] >> 4, head[2] >> 2 & 3
    if layer == 1 and version != 1 and bit_rate != 15 and sample_rate != 3:
        return "audio/mpeg"
    return ""
