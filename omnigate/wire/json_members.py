"""Reading a few facts out of JSON text that is not kept: named members, media parts."""

from __future__ import annotations

import re

from omnigate.wire.json_walk import JsonWalk, KeyHit

#: How deep an upstream's JSON may nest.
MAX_ANSWER_DEPTH = 128

# Blanks, and the bytes of the byte order mark that some servers put first.
_BEFORE_OBJECT = b" \t\r\n\xef\xbb\xbf"
# Above so many quotes, seven searches are quicker than one pattern that stops at each.
_MANY_QUOTES = 1_000_000
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


def media_parts(body: bytes) -> int:
    """Count the part type strings of images, documents, files and audio in a body.

    For estimates only: an OpenAI-style ``image_url`` part counts twice, since its
    type is also the name of its member. A body of 8 MiB takes 6 ms, a hostile one
    up to 35.
    """
    if body.count(b'"') < _MANY_QUOTES:
        return sum([1 for _ in _part_types.finditer(body)])
    return sum([body.count(word) for word in _PART_TYPES])


class MemberReader:
    """Reads named members of a top-level object out of a large text as it passes.

    ``values`` holds the raw JSON of each named member seen so far, the last one
    of a name winning. Junk never raises; it sets ``broken``.

    :param names: the members looked for.
    :param max_value_bytes: the largest value kept; a larger one is left out.
    """

    __slots__ = (
        "_begun",
        "_max_value_bytes",
        "_name",
        "_offset",
        "_taken",
        "_walk",
        "broken",
        "values",
    )

    def __init__(self, names: tuple[bytes, ...], max_value_bytes: int) -> None:
        self._walk = JsonWalk(names, MAX_ANSWER_DEPTH, 1 << 40, 1 << 40, 1 << 40)
        self._max_value_bytes = max_value_bytes
        self._begun = False  # something other than what may stand before it has come
        self._offset = 0
        self._name = b""  # of the value being taken
        self._taken: _ValueText | None = None
        self.values: dict[bytes, bytes] = {}
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
            self._taken = _ValueText(self._max_value_bytes)
            start = end
        self._go_on(data[start:])

    def _go_on(self, data: bytes) -> None:
        """Go on with the value being taken, if there is one."""
        taken = self._taken
        if taken is None or not taken.feed(data):
            return
        self._taken = None
        if taken.text is None:
            self.values.pop(self._name, None)
        else:
            self.values[self._name] = taken.text


class _ValueText:
    """Takes the text of one JSON value off the front of what is fed."""

    _token = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL).search

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._place = 0
        self._depth = 0
        self.text: bytes | None = None

    def feed(self, data: bytes) -> bool:
        """Take more text; True when the value has ended (``text`` is None if too large)."""
        self._buffer += data[: self._max_bytes + 2]
        buffer = self._buffer
        while True:
            match = self._token(buffer, self._place)
            token = match[0] if match else b""
            if match is None or token == b'"':
                # A string that is cut is looked at again when more has come.
                self._place = match.start() if match else len(buffer)
                return len(buffer) > self._max_bytes
            if token in (b"[", b"{"):
                self._depth += 1
            elif len(token) == 1:
                if self._depth == 0:
                    return self._end(match.start())
                if token != b",":
                    self._depth -= 1
            self._place = match.end()
            if self._depth == 0:
                return self._end(self._place)

    def _end(self, end: int) -> bool:
        """The value ends here."""
        text = bytes(self._buffer[:end]).strip(b" \t\r\n")
        if 0 < len(text) <= self._max_bytes:
            self.text = text
        return True
