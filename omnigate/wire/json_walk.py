"""A walk over JSON text as it arrives, without a tree: depth, counts and top-level keys.

The walk takes text in pieces, cut anywhere, and never looks back. It does not
judge the grammar (a strict parser does that afterwards, on the whole); on text
that is JSON it tells the truth, and on any other it only never fails.

How it is quick where a tokenizer in Python is not: each step treats a whole piece
at C speed. Escape pairs are overwritten in place, so that every quote left is a
real one; splitting at the quotes parts strings from structure; of the structure
only brackets and colons are kept, and complete containers are struck out of it
from the inside, a level or more a pass, until only those are left that the piece
opens or closes. What a hostile piece can make of this is bounded by its length:
see ``bench/scan_bodies.py``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: The most that is walked in one go; at most 64 KiB come in one read. No object
#: that stands whole in a piece can have too many members (five bytes each).
PIECE_BYTES = 65536

_BLANKS = b" \t\r\n"
_QUOTE = b'"'
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{}:"))
_escape_that_matters = re.compile(rb'\\["\\]').search
_two_backslashes = re.compile(rb"\\\\").search
_leaf_objects = re.compile(rb"\{:++\}")
_never_closed_right = re.compile(rb"[\[{]:*+[\]}]").search
_tokens = re.compile(rb":++|[\[\]{}]").finditer
_unicode_escape = re.compile(rb"\\u([0-9A-Fa-f]{4})")
_OPENERS = (0x5B, 0x7B)
_COLON = 0x3A
# One pass strikes out up to three levels: ``{:[{}]}`` goes in two. Twelve passes
# are 36 levels; tool schemas, the deepest structure clients send, have 13.
_MAX_PASSES = 12
_LEVELS_A_PASS = 3


class KeyHit(NamedTuple):
    """A key of the outermost object that bears one of the names asked for.

    ``start`` is the offset of its opening quote, ``value`` the offset behind its
    colon, ``escaped`` tells that it was not spelled out plainly.
    """

    name: bytes
    start: int
    value: int
    escaped: bool


class JsonWalk:
    """Walks one JSON text; ``hits`` gathers the keys named, ``fault`` the first bound broken.

    :param names: the top-level keys looked for, in plain ASCII.
    :param max_depth: how deep containers may nest, the outermost counted.
    :param max_members: how many members one object may have.
    :param max_key_bytes: how long a key may be as written.
    :param max_hits: how many keys to take note of; the walk stops at one more.

    ``fault`` is one of ``depth``, ``members``, ``key``, ``hits``, and ``syntax``
    where brackets do not match.
    """

    __slots__ = (
        "_half_escape",
        "_in_string",
        "_lengths",
        "_max_depth",
        "_max_hits",
        "_max_key_bytes",
        "_max_members",
        "_max_text",
        "_names",
        "_offset",
        "_stack",
        "_text",
        "_text_bytes",
        "_text_start",
        "_waiting",
        "fault",
        "hits",
    )

    def __init__(
        self,
        names: tuple[bytes, ...],
        max_depth: int,
        max_members: int,
        max_key_bytes: int,
        max_hits: int,
    ) -> None:
        self._names = frozenset(names)
        self._lengths = frozenset(map(len, names))
        # A name with every letter written as \uXXXX.
        self._max_text = 6 * max(self._lengths, default=0)
        self._max_depth = max_depth
        self._max_members = max_members
        self._max_key_bytes = max_key_bytes
        self._max_hits = max_hits
        self._offset = 0
        self._stack: list[int] = []  # open containers: members of each so far
        self._in_string = False
        self._half_escape = False  # the piece before ended with a backslash that escapes
        # The string that the last piece left open, or (waiting) closed with nothing
        # but blanks behind it, so that it may yet turn out to be a key.
        self._waiting = False
        self._text = b""
        self._text_start = 0
        self._text_bytes = 0
        self.hits: list[KeyHit] = []
        self.fault: str | None = None

    def feed(self, text: bytes) -> list[KeyHit]:
        """Walk on over the next part of the text and return the keys found in it."""
        known = len(self.hits)
        for start in range(0, len(text), PIECE_BYTES):
            if self.fault is not None:
                break
            piece = text if len(text) <= PIECE_BYTES else text[start : start + PIECE_BYTES]
            self._walk(piece)
            self._offset += len(piece)
        return self.hits[known:]

    def _walk(self, piece: bytes) -> None:
        """Walk over one piece of at most ``PIECE_BYTES``."""
        clean = self._without_escapes(piece)
        parts = clean.split(_QUOTE)
        # Even parts stand outside of strings, odd ones inside, from here on.
        offset = self._offset
        carried = self._in_string
        if carried:
            parts.insert(0, b"")
            offset -= 1  # for the quote that an earlier piece held
        self._in_string = len(parts) % 2 == 0
        outside = parts[::2]
        depth = len(self._stack)
        if self._waiting:
            self._resolve_waiting(outside[0], len(parts) == 1, depth)
        lowest = self._nest(b"".join(outside).translate(None, _NOT_STRUCTURE))
        if len(parts) > 1 and self.fault is None:
            chosen = self._choose(clean, parts, carried, lowest)
            if chosen:
                self._judge_strings(parts, chosen, offset, depth, carried)
            if self._in_string and not (carried and len(parts) == 2):
                self._text = parts[-1][: self._max_text + 1]
                self._text_bytes = len(parts[-1])
                self._text_start = self._offset + len(piece) - len(parts[-1]) - 1

    def _without_escapes(self, piece: bytes) -> bytes:
        """Overwrite escaped quotes and backslashes, keeping every offset."""
        if self._half_escape:
            self._half_escape = False
            if piece[:1] in (b"\\", _QUOTE):
                piece = b"\0" + piece[1:]
        if piece.find(b"\\") < 0:
            return piece
        if _escape_that_matters(piece) is not None:
            if _two_backslashes(piece) is not None:
                piece = piece.replace(b"\\\\", b"\0\0")
            piece = piece.replace(b'\\"', b"\0\0")
        self._half_escape = piece.endswith(b"\\")
        return piece

    def _nest(self, structure: bytes) -> int:
        """Follow brackets and colons; return the lowest depth on the way."""
        if not structure:
            return len(self._stack)
        rest = structure
        passes = 0
        size = -1
        while len(rest) != size and passes < _MAX_PASSES:
            size = len(rest)
            rest = rest.replace(b"[]", b"").replace(b"{}", b"")
            if rest.find(b":") >= 0:
                rest = _leaf_objects.sub(b"", rest)
            passes += 1
        settled = len(rest) == size
        if settled and _never_closed_right(rest) is not None:
            # All that is whole has been struck out: here a bracket meets the wrong one.
            self.fault = "syntax"
            return 0
        opened = rest.count(b"[") + rest.count(b"{")
        levels = len(self._stack) + opened + passes * _LEVELS_A_PASS
        if not settled or levels > self._max_depth:
            return self._nest_exactly(structure)
        stack = self._stack
        lowest = len(stack)
        for token in _tokens(rest):
            text = token[0]
            if text[0] == _COLON:
                self._count_members(len(text))
            elif text[0] in _OPENERS:
                stack.append(0)
            elif not stack:
                self.fault = "syntax"
                return 0
            else:
                stack.pop()
                lowest -= 1
        return lowest

    def _nest_exactly(self, structure: bytes) -> int:
        """Follow brackets and colons one by one: for nesting that may be too deep."""
        stack = self._stack
        depth = lowest = len(stack)
        for char in structure:
            if char == _COLON:
                if stack:
                    stack[-1] += 1
            elif char in _OPENERS:
                stack.append(0)
                depth += 1
                if depth > self._max_depth:
                    self.fault = "depth"
                    return 0
            elif not stack:
                self.fault = "syntax"
                return 0
            else:
                if stack.pop() > self._max_members:
                    self.fault = "members"
                depth -= 1
                if depth < lowest:
                    lowest = depth
        if stack and max(stack) > self._max_members:
            self.fault = "members"
        return lowest

    def _count_members(self, more: int) -> None:
        """Count members of the innermost open container."""
        if self._stack:
            self._stack[-1] += more
            if self._stack[-1] > self._max_members:
                self.fault = "members"

    def _choose(self, clean: bytes, parts: list[bytes], carried: bool, lowest: int) -> list[int]:
        """Choose the strings of a piece that may be keys of interest, by their index."""
        inside = parts[1::2]
        chosen = set()
        if carried:
            chosen.add(0)
        limit = self._max_key_bytes
        # A string over the limit covers a window, half as wide, without a quote in it.
        width = limit // 2 or 1
        for window in range(0, len(clean) - width + 1, width):
            if clean.find(_QUOTE, window, window + width) < 0:
                chosen.update([i for i, text in enumerate(inside) if len(text) > limit])
                break
        # Where the piece never comes up to the outermost object, no key of it can be.
        if lowest <= 1 and self._names:
            names, lengths = self._names, self._lengths
            chosen.update(
                [i for i, text in enumerate(inside) if len(text) in lengths and text in names]
            )
            if clean.find(b"\\u00") >= 0:
                longest = self._max_text
                chosen.update(
                    [i for i, text in enumerate(inside) if b"\\u" in text and len(text) <= longest]
                )
        return sorted(chosen)

    def _judge_strings(
        self, parts: list[bytes], chosen: list[int], offset: int, depth: int, carried: bool
    ) -> None:
        """Judge the chosen strings that are keys: their length, and their name at the top."""
        done = 0  # parts passed
        for index in chosen:
            place = 2 * index + 1
            if place + 1 == len(parts):
                if carried and index == 0:
                    # Still the same string, and still open.
                    self._text += parts[1][: max(0, self._max_text + 1 - len(self._text))]
                    self._text_bytes += len(parts[1])
                return
            between = b"".join(parts[done:place:2])
            depth += between.count(b"[") + between.count(b"{")
            depth -= between.count(b"]") + between.count(b"}")
            offset += sum(map(len, parts[done:place])) + place - done
            # ``offset`` is now behind the opening quote of the string.
            text = parts[place]
            size = len(text)
            start = offset - 1
            if carried and index == 0:
                size += self._text_bytes
                text = self._text + text
                start = self._text_start
            behind = parts[place + 1].lstrip(_BLANKS)
            if behind[:1] == b":":
                colon = offset + len(parts[place]) + 1 + len(parts[place + 1]) - len(behind)
                self._take_key(text, size, start, colon, depth)
                if self.fault is not None:
                    return
            elif not behind and place + 2 == len(parts):
                self._waiting = True
                self._text = text
                self._text_bytes = size
                self._text_start = start
            offset += len(parts[place]) + 1
            done = place + 1

    def _resolve_waiting(self, outside: bytes, alone: bool, depth: int) -> None:
        """See whether a colon follows the string that the last piece ended with."""
        behind = outside.lstrip(_BLANKS)
        if not behind and alone:
            return
        self._waiting = False
        if behind[:1] == b":":
            colon = self._offset + len(outside) - len(behind)
            self._take_key(self._text, self._text_bytes, self._text_start, colon, depth)

    def _take_key(self, text: bytes, size: int, start: int, colon: int, depth: int) -> None:
        """Bound a key, and note it when it stands at the top and bears a name."""
        if size > self._max_key_bytes:
            self.fault = "key"
        elif depth == 1 and size <= self._max_text:
            name = text
            if b"\\u" in text:
                name = _unicode_escape.sub(_plain_letter, text)
            if name in self._names:
                self.hits.append(KeyHit(name, start, colon + 1, name != text))
                if len(self.hits) > self._max_hits:
                    self.fault = "hits"


def _plain_letter(match: re.Match[bytes]) -> bytes:
    """Undo one ``\\uXXXX``; what is not ASCII cannot be in a name."""
    code = int(match[1], 16)
    return bytes((code,)) if code < 0x80 else b"\0"
