"""JSON of several megabytes read in steps: a picture in base64 is one string of eight megabytes.

A parser reads it in one go, which holds the interpreter for 20 to 40 ms. So long strings are taken
out first and a marker is left in the place of each; what is left must be small, and is read as it
is; the strings are read piece by piece and put back. Every step takes a millisecond or two.

Everything here is a generator of pauses that returns something; whoever has no other work to do,
such as a thread, runs it by :func:`at_once`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import msgspec

from omnigate.wire.json_body import MAX_DEPTH, MAX_KEY_BYTES, MAX_MEMBERS, MAX_TREE_MEMBERS
from omnigate.wire.json_members import EscapeEraser
from omnigate.wire.json_tree import TreeError, build_tree, tree_cost
from omnigate.wire.json_walk import PIECE_BYTES, JsonWalk, KeyHit

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

#: Strings from here on are taken out of a text over :data:`WHOLE_BYTES`; shorter keys only.
LONG_BYTES: Final = 4096

#: A text up to here is read in one go, as what is left of a longer one must be: 5 ms at worst.
WHOLE_BYTES: Final = 256 * 1024

#: As :func:`~omnigate.wire.json_tree.tree_cost` tells it, from above.
MAX_NANOSECONDS: Final = 8_000_000

#: Strings of one text: looking for the long ones takes half a microsecond each.
MAX_STRINGS: Final = 100_000

#: Quotes that are looked at in one step.
STEP_QUOTES: Final = 4_000

_STRINGS_TOO_MANY = "it holds more values than can be read; send large media as few long strings"

# As much of a string's text as holds whole characters and escapes only.
_whole = re.compile(
    rb"(?:[^\\]++|(?:\\[^u])++|\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
    rb"|\\u(?![dD][89abAB])[0-9A-Fa-f]{4})*+",
    re.DOTALL,
).match
_decode_text = msgspec.json.Decoder(str).decode

# What stands in the place of a long string, which nothing else can be before it was drawn.
_STEM_BYTES: Final = 12
_markers = re.compile(rb"(?<=\")[0-9a-f]{%d}-[0-9]+-(?=\")" % (2 * _STEM_BYTES)).findall


class TooComplexError(ValueError):
    """A text breaks a bound on its structure; the message says which."""


class NotJsonError(ValueError):
    """A text is no JSON; the message says why."""


@attrs.frozen
class Cut:
    """A text whose long strings were taken out.

    :ivar rest: the text with a marker in the place of each.
    :ivar strings: by marker, the text of the string as it stood there, without its quotes.
    :ivar hits: where the keys of the outermost object stand that were asked for.
    """

    rest: bytes
    strings: Mapping[str, memoryview]
    hits: tuple[KeyHit, ...] = ()

    def markers_in(self, part: bytes) -> list[str]:
        """Return the markers that stand in a part of :attr:`rest`, in their order.

        All are looked for at once: there may be two thousand of them, and as many looks at a long
        part would take a quarter of a second.
        """
        if not self.strings:
            return []
        found = (marker.decode("ascii") for marker in _markers(part))
        # What looks like one, and was not made here, is the text's own.
        return [marker for marker in found if marker in self.strings]

    def restored(self, part: bytes) -> bytes:
        """Return a part of :attr:`rest` as it was."""
        return self.replaced(part, {each: self.strings[each] for each in self.markers_in(part)})

    def replaced(self, part: bytes, texts: Mapping[str, memoryview | str]) -> bytes:
        """Return a part of :attr:`rest` with other texts in the place of its markers.

        :param texts: by marker, in the order of :meth:`markers_in`.
        """
        pieces: list[bytes | memoryview] = []
        place = 0
        for marker, text in texts.items():
            found = part.index(marker.encode("ascii"), place)
            pieces += (part[place:found], text.encode("ascii") if isinstance(text, str) else text)
            place = found + len(marker)
        return b"".join([*pieces, part[place:]])


def at_once(steps: Steps[T]) -> T:
    """Run steps without a pause, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


def cut_steps(text: bytes, names: tuple[bytes, ...] = ()) -> Steps[Cut]:
    """Take the long strings out of a text, if it is long itself.

    :param names: keys of the outermost object to look for.
    :raises TooComplexError: it has an object of more than 1,024 members, or more strings or other
        values than can be read.
    :raises NotJsonError: it nests deeper than 64, or its brackets do not match.
    """
    walk = JsonWalk(names, MAX_DEPTH, MAX_MEMBERS, MAX_KEY_BYTES, len(names) + 1, MAX_TREE_MEMBERS)
    for start in range(0, len(text), PIECE_BYTES):
        walk.feed(text[start : start + PIECE_BYTES])
        if walk.fault in _NO_JSON:
            raise NotJsonError(_NO_JSON[walk.fault])
        if walk.fault is not None:
            raise TooComplexError(_FAULTS[walk.fault])
        yield
    if walk.counts.crowded:
        raise TooComplexError(f"an object has more than {MAX_TREE_MEMBERS} members")
    hits = tuple(walk.hits)
    if len(text) <= WHOLE_BYTES:
        return Cut(text, {}, hits)
    if walk.counts.strings > MAX_STRINGS:
        raise TooComplexError(_STRINGS_TOO_MANY)
    cut = yield from _cut_long(text)
    if len(cut.rest) > WHOLE_BYTES:
        raise TooComplexError(_STRINGS_TOO_MANY)
    return attrs.evolve(cut, hits=hits)


_NO_JSON = {
    "depth": f"it nests deeper than {MAX_DEPTH} levels",
    "syntax": "its brackets do not match",
}
_FAULTS = {
    "members": f"an object has more than {MAX_TREE_MEMBERS} members",
    "key": f"a key is longer than {MAX_KEY_BYTES} bytes",
    "hits": "a member is given more than once",
}


def _cut_long(text: bytes) -> Steps[Cut]:
    """Find the strings by their quotes, piece by piece."""
    view = memoryview(text)
    eraser = EscapeEraser()
    stem = secrets.token_hex(_STEM_BYTES)
    strings: dict[str, memoryview] = {}
    pieces: list[memoryview | bytes] = []
    begin, copied, seen = -1, 0, 0
    for start in range(0, len(text), PIECE_BYTES):
        piece = eraser.feed(text[start : start + PIECE_BYTES])
        found = piece.find(b'"')
        while found >= 0:
            place = start + found
            if begin < 0:
                begin = place + 1
            else:
                if place - begin > LONG_BYTES:
                    marker = f"{stem}-{len(strings)}-"
                    strings[marker] = view[begin:place]
                    pieces += (view[copied:begin], marker.encode("ascii"))
                    copied = place
                begin = -1
            seen += 1
            if seen % STEP_QUOTES == 0:
                yield
            found = piece.find(b'"', found + 1)
        yield
    return Cut(b"".join([*pieces, view[copied:]]), strings)


def tree_steps(cut: Cut, part: bytes) -> Steps[dict[str, Any]]:
    """Read an object that is a part of a cut text, its long strings among it.

    :param part: of :attr:`Cut.rest`.
    :raises TooComplexError: it has more values than can be read.
    :raises NotJsonError: a string is none, a number is out of range.
    """
    tree = small_tree(part)
    yield
    if cut.strings:
        for container, key, marker in _markers_in(tree, cut.strings):
            container[key] = yield from text_steps(cut.strings[marker])
    return tree


def small_tree(part: bytes) -> dict[str, Any]:
    """Read an object of at most :data:`WHOLE_BYTES`.

    :raises TooComplexError: it has more values than can be read.
    :raises NotJsonError: it is no object, or a number is out of range.
    """
    try:
        if tree_cost(part, None).nanoseconds > MAX_NANOSECONDS:
            raise TooComplexError(_STRINGS_TOO_MANY)
        return build_tree(part)
    except TreeError as error:
        if error.code == "request_too_complex":
            raise TooComplexError(_STRINGS_TOO_MANY) from None
        raise NotJsonError("a number is out of range") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJsonError(str(error)) from None


def _markers_in(
    tree: dict[str, Any], strings: Mapping[str, memoryview]
) -> list[tuple[Any, Any, str]]:
    """Return where the markers stand in a tree, as container, key or index, marker."""
    found: list[tuple[Any, Any, str]] = []
    left: list[Any] = [tree]
    while left:
        container = left.pop()
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in items:
            if isinstance(value, dict | list):
                left.append(value)
            elif isinstance(value, str) and value in strings:
                found.append((container, key, value))
    return found


def text_steps(text: memoryview) -> Steps[str]:
    """Read a string, given what stands between its quotes.

    :raises NotJsonError: it is not valid.
    """
    pieces: list[str] = []
    place = 0
    while place < len(text):
        piece = bytes(text[place : place + PIECE_BYTES])
        if place + len(piece) < len(text):
            piece = piece[: _safe_end(piece)]
        try:
            pieces.append(_decode_text(b'"%b"' % piece))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NotJsonError(str(error)) from None
        place += len(piece)
        yield
    return "".join(pieces)


def _safe_end(piece: bytes) -> int:
    """Return where a piece of a string's text may end that parts no character and no escape."""
    end = len(piece)
    # A character has four bytes at most; the first of them tells that it is one.
    for back in range(1, 5):
        if piece[-back] & 0xC0 != 0x80:
            end -= back if piece[-back] >= 0x80 else 0
            break
    if b"\\" in piece:
        found = _whole(piece, 0, end)
        end = 0 if found is None else found.end()
    if not end:
        raise NotJsonError("it holds an escape that is none")
    return end
