"""Reading a few facts out of JSON text that is not kept: named members, media parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from omnigate.wire.json_walk import JsonWalk, KeyHit

#: How deep an upstream's JSON may nest.
MAX_ANSWER_DEPTH = 128

#: How often the members looked for may stand in one read of a text. Each takes some 4 µs, and an
#: answer gives each of its members once.
MAX_HITS_IN_READ = 256

#: How much of a body is searched for media parts. What lies behind counts by its bytes alone: those
#: searched make an estimate of half a million tokens, to which a picture adds 1,600.
MEDIA_SEARCH_BYTES = 2 * 1024 * 1024

_BLANKS = b" \t\r\n"
# Blanks, and the bytes of the byte order mark that some servers put first.
_BEFORE_OBJECT = _BLANKS + b"\xef\xbb\xbf"
# Above so many quotes, seven searches are quicker than one pattern that stops at each.
_MANY_QUOTES = 250_000
_PART_TYPES = (
    b'"image"',
    b'"image_url"',
    b'"input_image"',
    b'"document"',
    b'"file"',
    b'"input_file"',
    b'"input_audio"',
)
_part_types = re.compile(rb'"(?:image(?:_url)?|input_(?:image|file|audio)|document|file)"')

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_scalar_end = re.compile(rb"[,\]}\s]").search
_brackets_in = re.compile(rb"[\[\]{}]").finditer


def media_parts(body: bytes) -> int:
    """Count the part type strings of images, documents, files and audio in a body.

    For estimates only: an OpenAI-style ``image_url`` part counts twice, since its
    type is also the name of its member, and what stands behind
    ``MEDIA_SEARCH_BYTES`` does not count. Takes 9 ms at the worst.
    """
    end = MEDIA_SEARCH_BYTES
    if body.count(b'"', 0, end) < _MANY_QUOTES:
        return sum([1 for _ in _part_types.finditer(body, 0, end)])
    return sum([body.count(word, 0, end) for word in _PART_TYPES])


class EscapeEraser:
    """Overwrites escaped quotes and backslashes in JSON text that may be cut anywhere.

    Every offset stays, and each quote left is the begin or the end of a string.
    """

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = False  # the last part ended with a backslash that escapes

    def feed(self, text: bytes) -> bytes:
        """Return the next part of the text without escapes."""
        if self._half and text:
            self._half = False
            if text[:1] in (b"\\", b'"'):
                # As in one piece: in junk a backslash may stand before anything else, too.
                text = b"\0" + text[1:]
        if text.find(b"\\") >= 0:
            text = text.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\0")
            self._half = text.endswith(b"\\")
        return text


class ValueEnd:
    """Finds where a JSON value ends, as its text passes; it may be cut anywhere.

    Only strings and brackets are looked at, so a value that is none ends somewhere, too.
    """

    __slots__ = ("_depth", "_eraser", "_first", "_in_string")

    def __init__(self) -> None:
        self._first = b""  # the first byte of the value, once it has come
        self._depth = 0
        self._in_string = False
        self._eraser = EscapeEraser()

    def feed(self, text: bytes) -> int:
        """Take the next part of the text, which begins behind the colon.

        :returns: where the value ends in it, -1 where it goes on; call no more after the end.
        """
        start = 0
        if not self._first:
            rest = text.lstrip(_BLANKS)
            if not rest:
                return -1
            start = len(text) - len(rest)
            self._first = rest[:1]
            if self._first == b'"':
                start += 1
        if self._first == b'"':
            return self._eraser.feed(text).find(b'"', start) + 1 or -1
        if self._first in (b"[", b"{"):
            return self._end_of_container(text)
        match = _scalar_end(text, start)
        return -1 if match is None else match.start()

    def _end_of_container(self, text: bytes) -> int:
        parts = self._eraser.feed(text).split(b'"')
        carried = self._in_string
        if carried:
            parts.insert(0, b"")
        self._in_string = len(parts) % 2 == 0
        brackets = b"".join(parts[::2]).translate(None, _NOT_BRACKETS)
        opening = brackets.count(b"[") + brackets.count(b"{")
        depth = self._depth
        self._depth += 2 * opening - len(brackets)
        if depth > len(brackets) - opening:
            return -1
        for order, bracket in enumerate(brackets):
            depth += 1 if bracket in b"[{" else -1
            if depth <= 0:
                # Before a string that is carried on stands a quote that came earlier.
                return _place_of_bracket(parts, order) + 1 - carried
        return -1


def _place_of_bracket(parts: list[bytes], order: int) -> int:
    """Tell where a bracket stands, by its number among those outside of strings.

    :param parts: text split at its quotes; each other one stands outside of strings.
    """
    place = 0
    for index, part in enumerate(parts):
        if index % 2 == 0:
            count = len(part.translate(None, _NOT_BRACKETS))
            if order < count:
                starts = [match.start() for match in _brackets_in(part)]
                return place + starts[order]
            order -= count
        place += len(part) + 1
    return place


class Taker(Protocol):
    """Who takes the text of one member's value, as it passes."""

    def feed(self, text: bytes) -> bool:
        """Take the next part of the text; True when the value has ended in it."""


class MemberReader:
    """Reads named members of a top-level object out of a large text as it passes.

    Junk never raises; it sets ``broken``, and so does one read in which the names
    stand more than ``MAX_HITS_IN_READ`` times.

    :param names: the members looked for.
    :param max_value_bytes: the largest value kept; a larger one is left out.
    :param takers: makes, for the members named in it, who takes each value instead.

    :ivar values: the raw JSON of each member that is kept, the last one of a name.
    :ivar left_out: the members whose last value was too large.
    """

    __slots__ = (
        "_begun",
        "_max_value_bytes",
        "_name",
        "_offset",
        "_taker",
        "_takers",
        "_walk",
        "broken",
        "left_out",
        "values",
    )

    def __init__(
        self,
        names: tuple[bytes, ...],
        max_value_bytes: int,
        takers: Mapping[bytes, Callable[[], Taker]] | None = None,
    ) -> None:
        self._walk = JsonWalk(names, MAX_ANSWER_DEPTH, 1 << 40, 1 << 40, MAX_HITS_IN_READ)
        self._max_value_bytes = max_value_bytes
        self._takers = takers or {}
        self._begun = False  # something other than what may stand before it has come
        self._offset = 0
        self._name = b""  # of the value being taken
        self._taker: Taker | None = None
        self.values: dict[bytes, bytes] = {}
        self.left_out: set[bytes] = set()
        self.broken = False

    def feed(self, data: bytes) -> None:
        """Take the next part of the text."""
        if self.broken:
            return
        if not self._begun:
            data = data.lstrip(_BEFORE_OBJECT)
            if not data:
                return
            self._begun = True
            if data[:1] != b"{":
                self.broken = True
                return
        hits = self._walk.feed(data)
        if self._walk.fault is not None:
            self.broken = True
        self._take(data, hits)
        del self._walk.hits[:]
        self._offset += len(data)

    def _take(self, data: bytes, hits: list[KeyHit]) -> None:
        """Take the text of values: of one that goes on, and of those found in this part."""
        start = 0
        for hit in hits:
            end = max(hit.value - self._offset, 0)
            self._go_on(data[start:end])
            self._name = hit.name
            make = self._takers.get(hit.name)
            self._taker = make() if make else _ValueText(self._max_value_bytes)
            start = end
        self._go_on(data[start:])

    def _go_on(self, data: bytes) -> None:
        """Go on with the value being taken, if there is one."""
        taker = self._taker
        if taker is None or not taker.feed(data):
            return
        self._taker = None
        if not isinstance(taker, _ValueText):
            return
        self.left_out.discard(self._name)
        self.values.pop(self._name, None)
        if taker.text is not None:
            self.values[self._name] = taker.text
        elif taker.too_large:
            self.left_out.add(self._name)


class _ValueText:
    """Takes the text of one value."""

    __slots__ = ("_buffer", "_end", "_max_bytes", "text", "too_large")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._end = ValueEnd()
        self.text: bytes | None = None
        self.too_large = False

    def feed(self, text: bytes) -> bool:
        """Take more text; True when the value has ended or is too large."""
        end = self._end.feed(text)
        self._buffer += text[: min(self._max_bytes + 2, len(text) if end < 0 else end)]
        if len(self._buffer) > self._max_bytes:
            self.too_large = True
            return True
        if end < 0:
            return False
        self.text = bytes(self._buffer).strip(_BLANKS) or None
        return True
