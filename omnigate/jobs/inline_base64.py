"""Decodes base64 out of a JSON string piece by piece, and knows when it is none."""

from __future__ import annotations

import binascii
import re
from typing import Final

# Both alphabets (RFC 4648, 4 and 5); which of them is meant does not matter to what it says.
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_letters = re.compile(rb"[A-Za-z0-9+/_\-]*+").match
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
# An escape of a letter: encoders write the slash so, and some the sign of equality.
_escapes = re.compile(rb"\\(?:(/)|u00([0-9A-Fa-f]{2}))").sub
_cut_escape = re.compile(rb"\\(?:u[0-9A-Fa-f]{0,3})?\Z").search
_MAX_ESCAPE_BYTES = 6


class NotBase64(Exception):  # noqa: N818
    """The string is something else."""


def _letter(match: re.Match[bytes]) -> bytes:
    return b"/" if match[1] else bytes((int(match[2], 16),))


class Base64Reader:
    """Reads the inside of one JSON string.

    What stands before the fault of a string that is no base64 is given first, however the string
    was cut into pieces.

    :ivar size: bytes decoded so far.
    """

    __slots__ = ("_cut", "_fault", "_left", "_padding", "size")

    def __init__(self) -> None:
        self._cut = b""  # the beginning of an escape
        self._left = b""  # letters that are no group of four yet
        self._padding = 0
        self._fault = False
        self.size = 0

    def feed(self, raw: bytes) -> bytes:
        """Take a piece as it stands in the JSON and return what it says."""
        if self._fault:
            return b""
        if self._cut:
            raw = self._cut + raw
            self._cut = b""
        cut = _cut_escape(raw, max(0, len(raw) - _MAX_ESCAPE_BYTES))
        if cut is not None:
            self._cut = cut[0]
            raw = raw[: cut.start()]
        text = raw.replace(b"\\/", b"/")
        if b"\\" in text:
            text = _escapes(_letter, raw)
        # Mostly there is nothing else, which is known faster than where it begins.
        if text.translate(None, _LETTERS):
            match = _letters(text)
            assert match is not None
            text, rest = match[0], text[match.end() :]
        else:
            rest = b""
        if self._padding and text:
            self._fault = True
            return b""
        if rest:
            self._padding += len(rest)
            self._fault = self._padding > 2 or rest.strip(b"=") != b""
        return self._decoded(text)

    def _decoded(self, letters: bytes) -> bytes:
        if self._left:
            letters = self._left + letters
        whole = len(letters) & ~3
        self._left = letters[whole:]
        letters = letters[:whole]
        if b"-" in letters or b"_" in letters:
            letters = letters.translate(_FROM_URL_SAFE)
        data = binascii.a2b_base64(letters)
        self.size += len(data)
        return data

    @property
    def broken(self) -> bool:
        """Whether it has shown to be no base64."""
        return self._fault

    def finish(self) -> bytes:
        """The string ends: return its last bytes; padding may be missing.

        :raises NotBase64: it is none.
        """
        left = len(self._left)
        padded = not self._padding or left + self._padding == 4
        if self._fault or self._cut or left == 1 or not padded:
            raise NotBase64
        if not left:
            return b""
        data = binascii.a2b_base64(self._left.translate(_FROM_URL_SAFE) + b"=" * (4 - left))
        self.size += len(data)
        return data
