"""Takes media out of a JSON answer as it passes: long strings of base64, each for a marker.

Such an answer may have 256 MiB, and no more of it may ever be in memory, or be parsed, than what is
no media: so it is walked, not parsed. Strings shorter than :data:`LONG_CHARS` stay where they are;
longer ones are decoded as they come, with or without ``data:…;base64,`` before. One that turns out
to be no base64 is put back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Final, Protocol

from omnigate.jobs.inline_base64 import Base64Reader, NotBase64
from omnigate.outbound.messages import BAD_FRAMING, TOO_LARGE, BodyRefused

#: From here on a string may be media: the smallest picture of a model is larger, and texts and ids
#: are shorter.
LONG_CHARS: Final = 32 * 1024
#: What may be left of the JSON, as of every answer of an interface.
MAX_JSON_BYTES: Final = 4 * 2**20
#: How deep the JSON may be: ten times what providers send.
MAX_DEPTH: Final = 64
#: Strings taken out of one answer; each is a file.
MAX_MEDIA: Final = 64

# What is looked at in one go; so a string that is whole in it is a short one.
_SLICE_BYTES: Final = LONG_CHARS
# Atomic groups and not ``)*+``, which before Python 3.11.5 errs where it has to step back.
# The inside of a string, up to its end or to an escape that is cut.
_INSIDE = rb'(?>[^"\\]*(?:\\.[^"\\]*)*)'
_inside = re.compile(_INSIDE, re.DOTALL).match
_strings = re.compile(b'"' + _INSIDE + b'"', re.DOTALL).sub
# Whatever stands between strings, and strings that are whole.
_run = re.compile(b'(?>(?:[^"]+|"' + _INSIDE + b'")*)', re.DOTALL).match
_data_url = re.compile(rb"data:[A-Za-z0-9.+\-;=_/\\]{0,200};base64,", re.IGNORECASE).match

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class MediaTaker(Protocol):
    """Who gets what is taken out; one after the other."""

    def media_begins(self, marker: str, prefix: str) -> None:
        """A string begins that looks like base64."""

    def media_data(self, data: bytes) -> None:
        """Decoded bytes of it, never empty."""

    def media_ends(self) -> None:
        """It is whole."""

    def media_was_none(self) -> None:
        """It was none; throw away what was given."""


class InlineSplitter:
    """Walks one answer.

    :param marker: makes what stands in place of the string of a number, so that nobody outside can
        know it.
    :param max_file_bytes: of what one string holds.
    :param max_total_bytes: of all together.
    """

    def __init__(
        self,
        taker: MediaTaker,
        marker: Callable[[int], str],
        *,
        max_file_bytes: int,
        max_total_bytes: int,
        max_media: int = MAX_MEDIA,
        max_json_bytes: int = MAX_JSON_BYTES,
    ) -> None:
        self._taker = taker
        self._marker = marker
        self._max_file_bytes = max_file_bytes
        self._max_total_bytes = max_total_bytes
        self._max_media = max_media
        self._max_json_bytes = max_json_bytes
        self._json = bytearray()
        self._depth = 0
        self._in_string = False
        self._judged = False
        self._escape = b""  # a backslash that came without what it escapes
        self._held = bytearray()  # the open string so far, as long as it may be put back
        self._fits = True  # whether all of it is held
        self._reader: Base64Reader | None = None
        self._media = 0
        self._total = 0

    def feed(self, data: bytes) -> None:
        """Take a piece.

        :raises BodyRefused: it is too much of something, or too deep; call no more.
        """
        for at in range(0, len(data), _SLICE_BYTES):
            self._slice(data[at : at + _SLICE_BYTES])

    def finish(self) -> bytes:
        """The answer is whole: return what is left of it.

        :raises BodyRefused: it ends inside a string.
        """
        if self._in_string:
            raise BodyRefused(BAD_FRAMING, "the JSON of the answer ends inside a string")
        return bytes(self._json)

    def _slice(self, data: bytes) -> None:
        if self._escape:
            data = self._escape + data
            self._escape = b""
        at = 0
        while at < len(data):
            if self._in_string:
                end = data.find(b'"', at)
                end = len(data) if end < 0 else end
                # Mostly there are no escapes, and a search is ten times as fast as a pattern.
                if data.find(b"\\", at, end) >= 0:
                    match = _inside(data, at)
                    assert match is not None
                    end = match.end()
                self._text(data[at:end])
                at = end
                if data.startswith(b'"', at):
                    self._string_ends()
                    at += 1
                elif at < len(data):
                    self._escape = data[at:]
                    return
            else:
                match = _run(data, at)
                assert match is not None
                self._plain(match[0])
                at = match.end()
                if at < len(data):
                    # The one that begins here is not whole in this slice.
                    self._in_string = True
                    at += 1

    def _plain(self, data: bytes) -> None:
        """Keep what stands between strings, and short ones."""
        if b"\\" in data:
            between = _strings(b"", data)
        else:
            between = b"".join(data.split(b'"')[::2])
        steps = between.translate(None, _NO_BRACKETS)
        if steps:
            depths = list(accumulate(map(_STEPS.__getitem__, steps), initial=self._depth))
            if max(depths) > MAX_DEPTH:
                raise BodyRefused(
                    BAD_FRAMING, f"the JSON of the answer is deeper than {MAX_DEPTH} levels"
                )
            self._depth = depths[-1]
        self._keep(data)

    def _keep(self, data: bytes | bytearray) -> None:
        if len(data) > self._room:
            raise self._too_long()
        self._json += data

    @property
    def _room(self) -> int:
        return self._max_json_bytes - len(self._json)

    def _too_long(self) -> BodyRefused:
        detail = f"the answer is larger than {self._max_json_bytes} bytes beside its media"
        return BodyRefused(TOO_LARGE, detail)

    # -- a string

    def _text(self, raw: bytes) -> None:
        """Take a piece of the inside of a string."""
        if not self._judged:
            # It is judged at one point, however it was cut.
            rest = raw[LONG_CHARS - len(self._held) :]
            self._held += raw[: len(raw) - len(rest)]
            if len(self._held) < LONG_CHARS:
                return
            self._judge()
            raw = rest
        if self._reader is None:
            self._keep(raw)
            return
        if self._fits:
            self._held += raw
            if len(self._held) > self._room:
                self._fits = False
                self._held.clear()
        self._read(self._reader, raw)

    def _judge(self) -> None:
        """A string has become a long one: is it media?"""
        self._judged = True
        held = bytes(self._held)
        prefix = _data_url(held)
        begin = prefix.end() if prefix else 0
        reader = Base64Reader()
        data = reader.feed(held[begin:])
        if reader.broken:
            self._put_back()
            return
        if self._media >= self._max_media:
            raise BodyRefused(TOO_LARGE, f"the answer holds more than {self._max_media} files")
        self._reader = reader
        text = held[:begin].decode("ascii").replace("\\/", "/")
        self._taker.media_begins(self._marker(self._media), text)
        self._give(data)

    def _read(self, reader: Base64Reader, raw: bytes) -> None:
        self._give(reader.feed(raw))
        if reader.broken:
            self._was_none()

    def _give(self, data: bytes) -> None:
        reader = self._reader
        assert reader is not None
        if reader.size > self._max_file_bytes:
            raise BodyRefused(TOO_LARGE, f"output is larger than {self._max_file_bytes} bytes")
        if self._total + reader.size > self._max_total_bytes:
            raise BodyRefused(
                TOO_LARGE, f"outputs are larger than {self._max_total_bytes} bytes together"
            )
        if data:
            self._taker.media_data(data)

    def _was_none(self) -> None:
        self._reader = None
        self._taker.media_was_none()
        self._put_back()

    def _put_back(self) -> None:
        """Leave the string in the JSON, and what comes of it, too."""
        if not self._fits:
            raise self._too_long()
        self._keep(b'"' + self._held)
        self._held.clear()

    def _string_ends(self) -> None:
        reader = self._reader
        if reader is not None:
            try:
                self._give(reader.finish())
            except NotBase64:
                self._was_none()
                reader = None
        if reader is not None:
            self._taker.media_ends()
            self._keep(b'"%b"' % self._marker(self._media).encode("ascii"))
            self._media += 1
            self._total += reader.size
        elif self._judged:
            self._keep(b'"')
        else:
            self._keep(b'"' + self._held + b'"')
        self._reader = None
        self._in_string = self._judged = False
        self._fits = True
        self._held.clear()
