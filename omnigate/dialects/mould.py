"""The mould of a stream's events: what stands around the text in which alone they differ.

A provider writes the events of a stream alike, but for a word in each. What one of them meant, the
next one means too, with another word; so of an event that fits the mould only the length of its
text has to be known, which takes a third of the time that reading takes.

Why that is sound: :func:`mould_of` reads the event a second time with a longer text, and finds that
this and nothing else has changed. So the text is the inside of a JSON string. A text without quote,
backslash and control character, in valid UTF-8, leaves the string where the mould closes it, and
all around it is the same to the byte. A text that is not so plain does not fit: then the event is
read as any other.
"""

import re
from collections.abc import Callable

import msgspec

from omnigate.dialects.event_shapes import TEXT_MEMBERS

#: Longer events have no mould, since each stream keeps its own. Those of real streams that hold a
#: word are 100 to 500 bytes long.
MAX_MOULD_BYTES = 1024

# Texts that may be the one that differs are tried in their order; events of real streams have one,
# or one behind a short one such as the name of a role.
_MAX_TRIED = 3

_texts = re.compile(
    rb'"(?:%b)": ?"([^"\\]++)(?=")' % "|".join(sorted(TEXT_MEMBERS)).encode("ascii")
).finditer
# What OpenAI pads events with, so that their length does not tell that of the word.
_padding = re.compile(rb'"obfuscation": ?"([0-9A-Za-z]++)"').search


class Mould(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Tells whether an event is like the one before, and how long its text is.

    The collector need not look at it, since it holds bytes only and there are thousands.

    :ivar front: what stands before the text.
    :ivar between: what stands between the text and the padding; empty where there is none.
    :ivar back: what stands behind.
    :ivar around: how many bytes front and back have.
    """

    front: bytes
    between: bytes
    back: bytes
    around: int

    def text_bytes(self, event: bytes) -> int:
        """Return how long the text of an event is, in bytes; 0 where the event does not fit."""
        text = event.removeprefix(self.front).removesuffix(self.back)
        if len(event) - len(text) != self.around:
            return 0
        if self.between:
            text, _, padding = text.partition(self.between)
            if not padding.isalnum():
                return 0
        try:
            shown = text.decode()
        except UnicodeDecodeError:
            return 0
        # Characters that cannot be printed are more than those that JSON forbids, and are rare.
        plain = '"' not in shown and "\\" not in shown and shown.isprintable()
        return len(text) if plain else 0

    def within(self, lead: bytes, end: bytes) -> "Mould":
        """Return the mould of what has further bytes before and behind."""
        return mould(lead + self.front, self.between, self.back + end)

    def has(self, part: bytes) -> bool:
        """Tell whether ``part``, which is not empty, stands in what is the same in all events."""
        return any(part in same for same in (self.front, self.between, self.back))


def mould(front: bytes, between: bytes, back: bytes) -> Mould:
    """Return a mould of its parts."""
    return Mould(front, between, back, len(front) + len(back))


def mould_of(event: bytes, text_bytes: int, read: Callable[[bytes], int]) -> Mould | None:
    """Return the mould of an event that has been read and meant nothing but its text.

    :param text_bytes: of its text.
    :param read: returns the same of another event, or -1 where that means more than its text.
    :returns: ``None`` where none is found, or the event is longer than :data:`MAX_MOULD_BYTES`.
    """
    if len(event) > MAX_MOULD_BYTES:
        return None
    for tried, found in enumerate(_texts(event)):
        if tried == _MAX_TRIED:
            break
        start, end = found.span(1)
        if end - start != text_bytes:
            continue
        found_mould = _cut(event, start, end)
        text = event[start:end]
        longer = event[:end] + text + event[end:]
        if found_mould.text_bytes(event) and read(longer) == 2 * text_bytes:
            return found_mould
    return None


def _cut(event: bytes, start: int, end: int) -> Mould:
    """Return what is around a text that stands at a place."""
    padding = _padding(event, end)
    if padding is None:
        return mould(event[:start], b"", event[end:])
    return mould(event[:start], event[end : padding.start(1)], event[padding.end(1) :])
