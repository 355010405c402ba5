"""The note that a request carries in its text: who it is, and what answer its client wishes for.

The gateway passes a client's bytes on, so the provider reads the note out of the body. It also
says how the rest of the body looks, so that a changed byte is noticed.
"""

import json
import re
import zlib
from typing import Final

import attrs

#: The longest body is a megabyte; the note stands before the text that makes it long.
NOTE_WITHIN: Final = 2048

_NOTE = re.compile(
    rb"<soak ([0-9]{1,12}) size=([0-9]{1,8}) events=([0-9]{1,5}) gap=([0-9]{1,5}) asked=([01])"
    rb" tail=([0-9]{1,8}) crc=([0-9a-f]{8})>"
)

# What JSON escapes and what takes several bytes, at the rate of real prompts.
_WORDS = 'Tell me, "plainly", what a token costs – and why.\n'
_ESCAPED = json.dumps(_WORDS, ensure_ascii=False)[1:-1].encode()


class OddNoteError(Exception):
    """A body carries no note, or is not the one its client wrote; the text says what."""


@attrs.frozen
class Note:
    """What a client asks of the provider behind the gateway.

    :ivar mark: the request's number; requests that a cache may answer share one.
    :ivar size: bytes of text in a whole answer.
    :ivar events: pieces of text in a stream.
    :ivar gap_ms: the pause between two of them.
    :ivar asked: whether the client itself asked for the stream's usage.
    """

    mark: int
    size: int = 200
    events: int = 10
    gap_ms: int = 0
    asked: bool = False


def noted(note: Note, text_bytes: int, closing: bytes) -> bytes:
    """Return a note, a text of so many bytes and what closes the body behind it.

    :param closing: the end of the body, from the quote behind the text on.
    """
    tail = filler(text_bytes) + closing
    return (
        b"<soak %d size=%d events=%d gap=%d asked=%d tail=%d crc=%08x>"
        % (note.mark, note.size, note.events, note.gap_ms, note.asked, len(tail), zlib.crc32(tail))
        + tail
    )


def read_note(body: bytes) -> Note:
    """Return the note of a request as the provider got it.

    :raises OddNoteError: there is none, or what stands behind it is not what was written.
    """
    found = _NOTE.search(body, 0, NOTE_WITHIN)
    if found is None:
        raise OddNoteError("the body carries no note")
    mark, size, events, gap, asked, tail = (int(number) for number in found.groups()[:6])
    rest = memoryview(body)[found.end() :]
    if len(rest) != tail or zlib.crc32(rest) != int(found[7], 16):
        raise OddNoteError(f"the body behind the note of {mark} is not what its client wrote")
    return Note(mark, size, events, gap, bool(asked))


def filler(size: int) -> bytes:
    """Return so many bytes of words, as they stand within a JSON string."""
    words, rest = divmod(size, len(_ESCAPED))
    return _ESCAPED * words + b"." * rest
