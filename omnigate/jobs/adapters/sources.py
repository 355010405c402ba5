"""Outputs in a provider's answer: URLs, data URLs (RFC 2397), and media in base64."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from omnigate.jobs.adapters.asking import has_origin
from omnigate.jobs.adapters.base import InlineSource, Source, UrlSource
from omnigate.jobs.adapters.reading import text_at
from omnigate.outbound.messages import Answer, KeptMedia

#: Outputs of one answer that are looked at; a job may have 256 at most.
MAX_SOURCES: Final = 1_024
#: Of a body up to here base64 is decoded, all of it in 5 ms; 4 MiB would take 20 and more. What is
#: long in an answer that may hold media has come in as files by then, so this is 40 pictures of
#: less than 24 KiB.
MAX_BASE64_BODY_BYTES: Final = 1_048_576
#: A data URL without base64 is decoded up to here: it is text, and slow.
MAX_PERCENT_CHARS: Final = 65_536
MAX_EQUALS_SIGNS: Final = 1_024
_MAX_TYPE_CHARS: Final = 100
# RFC 4648, 5.
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
# A sign that begins no escape, and line ends, which no URL has.
_NOT_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|[\r\n]")


def inline_source(text: str, answer: Answer, content_type: str = "") -> InlineSource | None:
    """Return the media that a string of an answer holds: base64, or a marker in its place.

    :param content_type: as the answer named it.
    :returns: None for a string that is no base64.
    """
    kept = answer.media.get(text)
    if kept is not None:
        return InlineSource(kept, content_type or _type_in(kept))
    content = _decoded(text) if len(answer.body) <= MAX_BASE64_BODY_BYTES else None
    return None if content is None else InlineSource(content, content_type)


def source(
    text: str,
    answer: Answer,
    base_url: str,
    content_type: str = "",
    headers: tuple[tuple[str, str], ...] = (),
) -> Source | None:
    """Return the output that a string of an answer names; None where it is no URL.

    :param headers: the credential, where the provider's own files need it; it goes to the origin
        of ``base_url`` and nowhere else.
    """
    if text in answer.media:
        return inline_source(text, answer, content_type)
    scheme = text[:8].lower()
    if scheme.startswith("data:"):
        return _data_url(text, answer, content_type)
    if not scheme.startswith(("https://", "http://")):
        return None
    return UrlSource(text, content_type, headers if has_origin(text, base_url) else ())


def type_at(value: object, *path: str) -> str:
    """Return the media type that stands at a path of an answer; empty where there is none."""
    found = text_at(value, *path).strip().lower()
    return found if len(found) <= _MAX_TYPE_CHARS and found.isascii() else ""


def strings_in(value: object, depth: int) -> Iterator[str]:
    """Yield the strings of an answer in the order of their appearance.

    :param depth: how many containers deep is looked: 0 for a string itself only.
    """
    if isinstance(value, str):
        yield value
    elif depth > 0 and isinstance(value, Mapping):
        for part in value.values():
            yield from strings_in(part, depth - 1)
    elif depth > 0 and isinstance(value, list):
        for part in value:
            yield from strings_in(part, depth - 1)


def objects_with_url(value: object, depth: int) -> Iterator[Mapping[str, object]]:
    """Yield the objects of an answer that have a string ``url``, in order of appearance.

    :param depth: how many containers deep is looked: 1 for the value itself only.
    """
    if isinstance(value, Mapping):
        if isinstance(value.get("url"), str):
            yield value
        elif depth > 1:
            for part in value.values():
                yield from objects_with_url(part, depth - 1)
    elif isinstance(value, list) and depth > 1:
        for part in value:
            yield from objects_with_url(part, depth - 1)


def _data_url(text: str, answer: Answer, content_type: str) -> InlineSource | None:
    head, comma, data = text.partition(",")
    if not comma or len(head) > _MAX_TYPE_CHARS:
        return None
    named = content_type or head[5:].partition(";")[0].strip().lower()
    if head.lower().endswith(";base64"):
        return inline_source(data, answer, named)
    if len(data) > MAX_PERCENT_CHARS or not data.isascii() or _NOT_PERCENT.search(data):
        return None
    if data.count("=") > MAX_EQUALS_SIGNS:
        return None
    # urllib takes 0.7 µs for each escape, and an answer may hold more than a million. With another
    # sign these are the escapes of quoted-printable (RFC 2045), which are read in C.
    quoted = data.encode("ascii").replace(b"=", b"=3D").replace(b"%", b"=")
    return InlineSource(binascii.a2b_qp(quoted), named)


def _type_in(kept: KeptMedia) -> str:
    """Return the type that stood before the base64 in its string, as in a data URL."""
    prefix = kept.prefix[: 2 * _MAX_TYPE_CHARS].lower()
    if not prefix.startswith("data:"):
        return ""
    return prefix[5:].partition(",")[0].partition(";")[0].strip()


def _decoded(text: str) -> bytes | None:
    """Decode base64 in one of both alphabets, as long strings of answers are when they come in."""
    try:
        letters = text.encode("ascii")
        # Mostly there is nothing to do, and a search costs next to nothing.
        if b"-" in letters or b"_" in letters:
            letters = letters.translate(_FROM_URL_SAFE)
        return binascii.a2b_base64(letters, strict_mode=True) or None
    except (binascii.Error, UnicodeEncodeError):
        return None
