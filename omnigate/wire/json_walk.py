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

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

#: The most that is walked in one go; at most 64 KiB come in one read. No object
#: that stands whole in a piece can have too many members (five bytes each).
PIECE_BYTES = 65536

_BLANKS = b" \t\r\n"
_QUOTE = b'"'
# Marks for strings: bytes that JSON never has outside of them.
_MARKS = [bytes((code,)) for code in range(0x80, 0x100)]
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{}:"))
_NOT_MARKED = bytes(set(range(0x80)) - set(b"[]{}"))
_escape_that_matters = re.compile(rb'\\["\\]').search
_leaf_marked = re.compile(rb"\{[\x80-\xff]*+\}|\[[\x80-\xff]*+\]")
_never_closed_right = re.compile(rb"\{:*+\]|\[:*+[\]}]").search
_unicode_escape = re.compile(rb"\\u([0-9A-Fa-f]{4})")
_COLON = 0x3A
_SQUARE = 0x5B
_CURLY = 0x7B
# Up to so many strings that bear a name are looked at one by one; more are first
# tried all together for whether any of them stands at the top.
_FEW = 16
# A pass that strikes out complete containers is worth while if it leaves less than
# three quarters; else one look at each bracket is cheaper.
_PAYS = 4 / 3


class KeyHit(NamedTuple):
    """A key of the outermost object that bears one of the names asked for.

    ``start`` is the offset of its opening quote, ``value`` the offset behind its
    colon, ``escaped`` tells that it was not spelled out plainly.
    """

    name: bytes
    start: int
    value: int
    escaped: bool


class TextCounts(NamedTuple):
    """What a walk counted on its way, at no price; a tree's cost is told from it.

    :ivar outside: bytes outside of strings; their quotes are not among them.
    :ivar structure: of these, brackets and, where members are counted, colons.
    :ivar strings: strings, keys among them; a few of them may be counted twice.
    :ivar crowded: some object has more members than ``crowd``.
    """

    outside: int
    structure: int
    strings: int
    crowded: bool


class JsonWalk:
    """Walks one JSON text; ``hits`` gathers the keys named, ``fault`` the first bound broken.

    :param names: the top-level keys looked for, in plain ASCII.
    :param max_depth: how deep containers may nest, the outermost counted.
    :param max_members: how many members one object may have; 0 where the length of
        the text bounds them already (a member takes five bytes).
    :param max_key_bytes: how long a key may be as written.
    :param max_hits: how many keys to take note of; the walk stops at one more.
    :param crowd: with how many members an object is not crowded yet; needs ``max_members``.

    ``fault`` is one of ``depth``, ``members``, ``key``, ``hits``, and ``syntax``
    where brackets do not match.
    """

    __slots__ = (
        "_crowd",
        "_crowded",
        "_depth",
        "_half_escape",
        "_in_string",
        "_leaf_objects",
        "_max_depth",
        "_max_hits",
        "_max_key_bytes",
        "_max_members",
        "_max_text",
        "_members",
        "_names",
        "_offset",
        "_outside",
        "_spelled",
        "_strings",
        "_structure",
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
        crowd: int = 0,
    ) -> None:
        self._names = names
        self._spelled = _spelling(names)
        # A name with every letter written as an escape.
        self._max_text = 6 * max(map(len, names), default=0)
        self._max_depth = max_depth
        self._max_members = max_members
        self._max_key_bytes = max_key_bytes
        self._max_hits = max_hits
        self._crowd = crowd or max_members
        self._leaf_objects = _leaf_objects(crowd)
        self._crowded = False
        self._outside = 0  # see TextCounts
        self._structure = 0
        self._strings = 0
        self._offset = 0
        self._depth = 0  # open containers
        self._members = [0]  # members so far of each open container, behind a root
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

    @property
    def counts(self) -> TextCounts:
        """What was counted so far."""
        return TextCounts(self._outside, self._structure, self._strings, self._crowded)

    def _walk(self, piece: bytes) -> None:
        """Walk over one piece of at most ``PIECE_BYTES``."""
        clean = self._without_escapes(piece)
        # Long texts fill whole pieces; to find that is fifty times as quick as to split in vain.
        parts = clean.split(_QUOTE) if clean.find(_QUOTE) >= 0 else [clean]
        # Even parts stand outside of strings, odd ones inside, from here on.
        offset = self._offset
        carried = self._in_string
        if carried:
            parts.insert(0, b"")
            offset -= 1  # for the quote that an earlier piece held
        self._in_string = len(parts) % 2 == 0
        outside = parts[::2]
        depth = self._depth
        if self._waiting:
            self._resolve_waiting(outside[0], len(parts) == 1, depth)
        text = b"".join(outside)
        if self._max_members:
            structure = text.translate(None, _NOT_STRUCTURE)
            lowest = self._count(structure)
        else:
            structure = text.translate(None, _NOT_BRACKETS)
            lowest = self._nest(structure)
        self._outside += len(text)
        self._structure += len(structure)
        self._strings += len(parts) >> 1
        if len(parts) == 1 or self.fault is not None:
            return
        chosen = self._choose(clean, parts, carried, lowest, depth)
        if chosen:
            self._judge(parts, chosen, offset, depth, carried)
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
            if piece.find(b"\\\\") >= 0:
                piece = piece.replace(b"\\\\", b"\0\0")
            piece = piece.replace(b'\\"', b"\0\0")
        self._half_escape = piece.endswith(b"\\")
        return piece

    def _nest(self, brackets: bytes) -> int:
        """Follow brackets; return the lowest depth on the way."""
        rest, levels = brackets, 0  # levels struck out so far, at most
        while rest:
            shorter = rest.replace(b"[]", b"").replace(b"{}", b"")
            if len(shorter) == len(rest):
                self._refuse_wrong_pairs(rest)
                break
            if _PAYS * len(shorter) > len(rest):
                break
            rest, levels = shorter, levels + 2
        return self._bound_depth(rest, levels, brackets)

    def _count(self, structure: bytes) -> int:
        """Follow brackets and colons, and count members; return the lowest depth."""
        rest, levels = structure, 0
        while rest:
            shorter = rest.replace(b"[]", b"").replace(b"{}", b"")
            shorter = self._leaf_objects.sub(b"", shorter)
            if len(shorter) == len(rest):
                self._refuse_wrong_pairs(rest)
                break
            if _PAYS * len(shorter) > len(rest):
                break
            rest, levels = shorter, levels + 3
        lowest = self._bound_depth(
            rest.translate(None, b":"), levels, structure.translate(None, b":")
        )
        if self.fault is None and rest.find(b":") >= 0:
            self._count_members(rest)
        elif self.fault is None:
            # No member here: forget the containers left, and begin with those entered.
            del self._members[lowest + 1 :]
            self._members += [0] * (self._depth - lowest)
        return lowest

    def _bound_depth(self, rest: bytes, levels: int, brackets: bytes) -> int:
        """Follow what is left of a piece's brackets, and bound the depth; return the lowest.

        :param levels: how many levels may stand, struck out, above what is left.
        :param brackets: all of them, for when that is not exact enough.
        """
        if self.fault is not None:
            return 0
        limit = self._max_depth
        depth, lowest, highest = _follow(self._depth, rest, limit)
        if levels and highest <= limit < highest + levels:
            highest = _follow(self._depth, brackets, limit)[2]
        self._depth = depth
        if lowest < 0:
            self.fault = "syntax"
        elif highest > limit:
            self.fault = "depth"
        return lowest

    def _count_members(self, structure: bytes) -> None:
        """Count the members of the containers that a piece opens, closes or goes on with."""
        members = self._members
        count = members.pop()
        most = 0
        for char in structure:
            if char == _COLON:
                count += 1
            elif char == _SQUARE or char == _CURLY:  # noqa: SIM109 - quicker than a tuple
                members.append(count)
                count = 0
            else:
                if count > most:
                    most = count
                count = members.pop()
        members.append(count)
        most = max(most, max(members))
        if most > self._crowd:
            self._crowded = True
            if most > self._max_members:
                self.fault = "members"

    def _refuse_wrong_pairs(self, rest: bytes) -> None:
        """Where all is struck out that can be, no bracket may meet one that does not close it."""
        if _never_closed_right(rest) is not None:
            self.fault = "syntax"

    def _choose(
        self, clean: bytes, parts: list[bytes], carried: bool, lowest: int, depth: int
    ) -> list[int]:
        """Choose the strings of a piece that may be keys of interest, by their index."""
        inside = parts[1::2]
        chosen = {0} if carried else set()
        limit = self._max_key_bytes
        # A string over the limit covers a window, half as wide, without a quote in it.
        width = limit // 2 or 1
        for window in range(0, len(clean) - width + 1, width):
            if clean.find(_QUOTE, window, window + width) < 0:
                chosen.update([i for i, text in enumerate(inside) if len(text) > limit])
                break
        # Where the piece never comes up to the outermost object, no key of it can be.
        if lowest <= 1 and self._names:
            named = self._named(clean, inside)
            chosen.update(named if len(named) <= _FEW else _not_nested(parts[::2], named, depth))
        return sorted(chosen)

    def _named(self, clean: bytes, inside: list[bytes]) -> list[int]:
        """Find the strings that bear a name, plain or in escapes."""
        named = []
        for name in self._names:
            index = -1
            for _ in range(inside.count(name)):
                index = inside.index(name, index + 1)
                named.append(index)
        if clean.find(b"\\u00") >= 0:
            spelled = self._spelled
            escaped = [i for i, text in enumerate(inside) if b"\\u00" in text]
            named += [i for i in escaped if spelled(inside[i])]
        return named

    def _judge(
        self, parts: list[bytes], chosen: list[int], offset: int, depth: int, carried: bool
    ) -> None:
        """Judge the chosen strings that are keys: their length, and their name at the top."""
        passed = 0  # parts whose brackets are in ``depth``
        counted = 0  # parts whose bytes are in ``offset``
        for index in chosen:
            place = 2 * index + 1
            if place + 1 == len(parts):
                if carried and index == 0:
                    # Still the same string, and still open.
                    self._text += parts[1][: max(0, self._max_text + 1 - len(self._text))]
                    self._text_bytes += len(parts[1])
                return
            behind = parts[place + 1]
            if behind[:1] != b":":
                behind = behind.lstrip(_BLANKS)
            last = not behind and place + 2 == len(parts)
            if behind[:1] != b":" and not last:
                continue
            brackets = b"".join(parts[passed:place:2]).translate(None, _NOT_BRACKETS)
            passed = place + 1
            if brackets:
                depth += 2 * (brackets.count(b"[") + brackets.count(b"{")) - len(brackets)
            whole = not (carried and index == 0)
            if whole and not last and depth != 1 and len(parts[place]) <= self._max_key_bytes:
                continue  # nested and not too long
            offset += sum(map(len, parts[counted:place])) + place - counted
            counted = place
            text = parts[place]
            size = len(text)
            start = offset - 1
            if not whole:
                size += self._text_bytes
                text = self._text + text
                start = self._text_start
            if last:
                self._waiting = True
                self._text = text
                self._text_bytes = size
                self._text_start = start
                return
            colon = offset + len(parts[place]) + 1 + len(parts[place + 1]) - len(behind)
            self._take_key(text, size, start, colon, depth)
            if self.fault is not None:
                return

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


def _follow(depth: int, brackets: bytes, limit: int) -> tuple[int, int, int]:
    """Follow brackets from a depth on: where they end, the lowest and the highest on the way.

    Below 0 and above the limit there is no way on.
    """
    lowest = highest = depth
    for char in brackets:
        if char == _SQUARE or char == _CURLY:  # noqa: SIM109 - quicker than a tuple
            depth += 1
            if depth > highest:
                highest = depth
                if depth > limit:
                    break
        else:
            depth -= 1
            if depth < lowest:
                lowest = depth
                if depth < 0:
                    break
    return depth, lowest, highest


def _not_nested(outside: list[bytes], named: list[int], depth: int) -> list[int]:
    """Drop, of many strings, those inside of containers that are whole in the piece.

    Each string leaves a mark among the brackets; striking out complete containers
    takes the marks in them along. Those still there have to be looked into.
    """
    named.sort()
    marked = list(outside)
    share = len(named) // len(_MARKS) + 1  # strings that have a mark in common
    for place, index in enumerate(named):
        marked[index] += _MARKS[place // share]
    text = b"".join(marked).translate(None, _NOT_MARKED)
    if depth == 0:
        text = text[1:]  # the outermost object is not to be struck out
    while text:
        size = len(text)
        text = _leaf_marked.sub(b"", text)
        if _PAYS * len(text) > size:
            break
    found = set(text)
    return [index for place, index in enumerate(named) if _MARKS[place // share][0] in found]


@functools.lru_cache(maxsize=16)
def _leaf_objects(crowd: int) -> re.Pattern[bytes]:
    """Make the pattern for objects of members alone that are not crowded; 0 is any number."""
    return re.compile(rb"\{:{1,%d}+\}" % crowd if crowd else rb"\{:++\}")


@functools.lru_cache(maxsize=16)
def _spelling(names: tuple[bytes, ...]) -> Callable[[bytes], object]:
    """Make the test for any of the names in any spelling of its letters."""
    spelled = [
        b"".join(
            [
                rb"(?:%b|\\u00(?i:%02x))" % (re.escape(name[at : at + 1]), name[at])
                for at in range(len(name))
            ]
        )
        for name in names
    ]
    return re.compile(b"|".join(spelled) if spelled else b"(?!)").fullmatch


def _plain_letter(match: re.Match[bytes]) -> bytes:
    """Undo one ``\\uXXXX``; what is not ASCII cannot be in a name."""
    code = int(match[1], 16)
    return bytes((code,)) if code < 0x80 else b"\0"
